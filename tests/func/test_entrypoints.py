"""Entrypoints: what goes in, what comes out, what is remembered."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
from typing import Any

import pytest

from perdure.checkpoint.memory import InMemorySaver
from perdure.checkpoint.saver import Saver
from perdure.config import get_config, get_store, get_stream_writer
from perdure.errors import (
    InvalidGraph,
    NodeTimeoutError,
)
from perdure.func import entrypoint, task
from perdure.runtime import Runtime, get_runtime
from perdure.types import CachePolicy, Command, RetryPolicy, RunnableConfig, StreamWriter, interrupt
from tests.func.bodies import Workshop, asking, counting
from tests.promises.ways import on

QUICK = RetryPolicy(initial_interval=0, jitter=False, retry_on=ConnectionError)


@dataclasses.dataclass
class Plan:
    name: str


# -- input and output -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("given", [{}, {"a": 1}, [], [1, (2, 3)], 0, "", False, "text", (1, 2), {1, 2}], ids=repr)
def test_input_and_output_may_be_anything(shop: Workshop, saver: Saver, given: Any) -> None:
    def same(given: Any) -> Any:
        return given
        yield

    flow = shop.flow(same, saver)
    out = shop.invoke(flow, given, on())
    assert out == given
    assert type(out) is type(given)
    assert shop.state(flow, on()).values == given
    assert shop.invoke(shop.flow(same), given) == given


def test_none_is_a_result_like_any_other(shop: Workshop, saver: Saver) -> None:
    def nothing(given: Any, *, previous: Any = "?") -> Any:
        shop.ran.append(previous)
        yield from ()

    flow = shop.flow(nothing, saver)
    assert shop.invoke(flow, 1, on()) is None
    assert shop.state(flow, on()).next == ()
    assert shop.invoke(flow, 1, on()) is None
    assert shop.ran == [None, None]


def test_a_lambda_a_method_a_partial_and_an_object_can_be_entrypoints() -> None:
    class Service:
        def method(self, given: int) -> int:
            return given + 1

        def __call__(self, given: int) -> int:
            return given + 2

    def three(given: int, more: int) -> int:
        return given + more

    makes: list[Any] = [lambda given: given, Service().method, Service(), functools.partial(three, more=3)]
    assert [entrypoint()(make).invoke(1) for make in makes] == [1, 2, 3, 4]
    assert entrypoint(InMemorySaver())(makes[0]).invoke(1, on()) == 1
    assert [entrypoint()(make).name for make in makes] == ["<lambda>", "method", "Service", "partial"]


def test_an_entrypoint_is_drawn_as_one_node() -> None:
    assert list(entrypoint()(lambda given: given).program.nodes) == ["<lambda>"]


def test_an_entrypoint_without_an_input_is_refused() -> None:
    def nothing() -> None: ...

    def only_config(config: RunnableConfig) -> None: ...

    for function in (nothing, only_config):
        with pytest.raises(InvalidGraph, match="must take its input as the first positional parameter") as caught:
            entrypoint()(function)
        assert isinstance(caught.value, ValueError)


def test_generators_are_refused() -> None:
    def numbers(given: int) -> Any:
        yield given

    async def later(given: int) -> Any:
        yield given

    for function in (numbers, later):
        with pytest.raises(InvalidGraph, match=r"entrypoint .* is a generator"):
            entrypoint()(function)
        with pytest.raises(InvalidGraph, match=r"task .* is a generator"):
            task(function)


def test_what_cannot_be_called_is_no_task() -> None:
    mark: Any = task
    with pytest.raises(InvalidGraph, match="put @classmethod above @task"):
        mark(classmethod(lambda cls: None))
    with pytest.raises(InvalidGraph, match="got int"):
        mark(3)


def test_an_argument_that_nobody_can_give_is_refused() -> None:
    with pytest.raises(InvalidGraph, match="needs an argument that the runtime cannot give: `more`"):
        entrypoint()(lambda given, more: given)


# -- previous and final -----------------------------------------------------------------------------------------------------


def test_old_names_of_arguments_are_taken_and_unknown_ones_refused() -> None:
    calls: list[int] = []
    again = RetryPolicy(initial_interval=0.001, jitter=False)

    def late(number: int) -> int:
        calls.append(number)
        if len(calls) == 1:
            raise ConnectionError
        return number

    with pytest.warns(DeprecationWarning, match="`retry` is now called `retry_policy`"):
        step = task(retry=again)(late)  # type: ignore[call-overload]
    with pytest.warns(DeprecationWarning, match="`config_schema` is now called `context_schema`"):
        workflow = entrypoint(config_schema=dict)(lambda number: [step(number).result(), get_runtime().context])
    assert (workflow.invoke(1, context={"a": 2}), calls) == ([1, {"a": 2}], [1, 1])
    with pytest.warns(DeprecationWarning, match="`retry` is now called `retry_policy`"):
        workflow = entrypoint(retry=again)(late)
    calls.clear()
    assert (workflow.invoke(3), calls) == (3, [3, 3])
    for make in (task, entrypoint):
        with pytest.raises(TypeError, match=rf"{make.__name__}\(\) got an unexpected keyword argument 'retries'"):
            make(retries=3)  # type: ignore[call-overload]


@pytest.mark.parametrize("mark", [task, entrypoint])
def test_P50_policies_that_are_none_are_refused_at_once(mark: Any) -> None:
    for wrong in ({"retry_policy": 3}, {"retry_policy": RetryPolicy(retry_on="OSError")}, {"cache_policy": 60}):  # type: ignore[arg-type]
        with pytest.raises(InvalidGraph, match=r"(_policy must be a|retry_on of a) \w+Policy"):
            mark(**wrong)(lambda given: given)


def test_previous_is_what_the_last_call_on_the_thread_returned(shop: Workshop, saver: Saver) -> None:
    flow = counting(shop, saver)
    assert [shop.invoke(flow, given, on("a")) for given in (1, 2, 3)] == [1, 3, 6]
    assert shop.invoke(flow, 10, on("b")) == 10
    assert shop.state(flow, on("a")).values == 6


def test_without_a_saver_there_is_no_previous(shop: Workshop) -> None:
    flow = counting(shop, None)
    assert [shop.invoke(flow, given) for given in (1, 2, 3)] == [1, 2, 3]


def test_final_gives_one_value_and_saves_another(shop: Workshop, saver: Saver) -> None:
    def final(given: int, *, previous: int | None = None) -> Any:
        return entrypoint.final(value=f"{previous}", save=given * 2)
        yield

    flow = shop.flow(final, saver)
    assert [shop.invoke(flow, given, on()) for given in (1, 2, 3)] == ["None", "2", "4"]
    assert shop.state(flow, on()).values == "4"


def test_previous_stays_the_same_over_a_pause(shop: Workshop, saver: Saver) -> None:
    flow = asking(shop, saver)
    shop.invoke(flow, "1", on())
    first = shop.invoke(flow, Command(resume="a"), on())
    assert first == ["1", "a", "after a", None]
    shop.invoke(flow, "2", on())
    assert shop.invoke(flow, Command(resume="b"), on()) == ["2", "b", "after b", first]


def test_a_paused_call_shows_the_last_result_beside_its_question(shop: Workshop, saver: Saver) -> None:
    def ask(given: int) -> Any:
        return {"answer": interrupt("?") if given == 2 else given}
        yield

    flow = shop.flow(ask, saver)
    assert shop.invoke(flow, 1, on()) == {"answer": 1}
    out = shop.invoke(flow, 2, on())
    assert (out["answer"], [pause.value for pause in out["__interrupt__"]]) == (1, ["?"])
    assert shop.invoke(flow, Command(resume="x"), on()) == {"answer": "x"}


def test_values_of_a_users_own_class_are_known_by_their_annotations(shop: Workshop, saver: Saver) -> None:
    def plan(given: Plan) -> Plan:
        return Plan(f"{given.name}!")

    step = shop.step(plan)

    def wf(given: Plan, *, previous: Plan | None = None) -> Any:
        made = yield step(given)
        answer = interrupt("?")
        return entrypoint.final(value=[made, answer], save=made)

    flow = shop.flow(wf, saver)
    shop.invoke(flow, Plan("a"), on())
    assert shop.invoke(flow, Command(resume="x"), on()) == [Plan("a!"), "x"]


def thread_of(runtime: Any) -> Any:
    return runtime.execution_info.thread_id


def attempt_of(runtime: Any) -> Any:
    return runtime.execution_info.node_attempt


# -- what the runtime gives -------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Context:
    language: str


def test_the_runtime_fills_parameters_by_name_and_by_annotation(shop: Workshop, saver: Saver) -> None:
    def by_annotation(word: str, where: RunnableConfig, what: Runtime[Context], writer: StreamWriter) -> Any:
        writer("from a step")
        return [word, where["metadata"]["langgraph_node"], what.context.language, thread_of(what)]

    def by_name(word: str, *, config: Any, runtime: Any, store: Any, writer: Any) -> Any:
        return [word, config["run_name"], runtime.context.language, store, callable(writer)]

    steps = [shop.step(by_annotation), shop.step(by_name)]

    def wf(
        given: str, *, config: RunnableConfig, runtime: Runtime[Context], store: Any, writer: StreamWriter, previous: Any
    ) -> Any:
        writer("from the entrypoint")
        own = [config["metadata"]["langgraph_triggers"], runtime.context.language, store, previous]
        return [own, *(yield [step(given) for step in steps])]

    flow = shop.flow(wf, saver, store="the store", context_schema=Context)
    told = shop.stream(flow, "x", on(), context={"language": "it"}, stream_mode=["custom", "values"])
    assert told == [
        ("custom", "from the entrypoint"),
        ("custom", "from a step"),
        (
            "values",
            [
                [("__start__",), "it", "the store", None],
                ["x", "by_annotation", "it", "t"],
                ["x", "by_name", "it", "the store", True],
            ],
        ),
    ]


def test_a_callers_own_argument_is_not_replaced(shop: Workshop) -> None:
    def mine(config: Any, writer: str, where: RunnableConfig) -> Any:
        return [config, writer, where]

    step = shop.step(mine)

    def wf(given: str) -> Any:
        return (yield [step("c", "w", {"tags": [given]}), step(config="c", writer="w", where={})])

    assert shop.invoke(shop.flow(wf), "x") == [["c", "w", {"tags": ["x"]}], ["c", "w", {}]]


def test_the_ambient_functions_work_in_entrypoints_and_steps(shop: Workshop, saver: Saver) -> None:
    def look() -> Any:
        get_stream_writer()(get_config()["run_name"])
        return get_store(), attempt_of(get_runtime())

    step = shop.step(look, name="inner")

    def outer(given: int) -> Any:
        return [look(), (yield step())]

    flow = shop.flow(outer, saver, store="s")
    told = shop.stream(flow, 1, on(), stream_mode=["custom", "values"])
    assert told == [("custom", "outer"), ("custom", "inner"), ("values", [("s", 1), ("s", 1)])]


def test_P2_the_idempotency_key_of_a_step_is_the_same_in_every_entry_and_differs_between_calls(
    shop: Workshop, saver: Saver
) -> None:
    def step(given: str, runtime: Runtime[Any]) -> None:
        shop.ran.append((given, runtime.idempotency_key))
        if len(shop.ran) < 3:
            raise ValueError("not yet")

    own = shop.step(step)

    def wf(given: int) -> Any:
        yield [own("a"), own("b")]

    flow = shop.flow(wf, saver)
    with pytest.raises(ValueError, match="not yet"):
        shop.invoke(flow, 1, on())
    shop.invoke(flow, None, on())
    keys: dict[str, set[str]] = {}
    for name, key in shop.ran:
        keys.setdefault(name, set()).add(key)
    assert len(shop.ran) == 4
    assert [len(found) for found in keys.values()] == [1, 1]
    assert keys["a"] != keys["b"]


# -- policies ---------------------------------------------------------------------------------------------------------------


def test_an_entrypoint_that_fails_is_tried_again_and_its_steps_are_not(shop: Workshop, saver: Saver) -> None:
    step = shop.noted(value=lambda given: [given])
    entered: list[int] = []

    def wf(given: int) -> Any:
        entered.append(given)
        got = yield step(given)
        got.append("changed in place")
        if len(entered) < 3:
            raise ConnectionError("down")
        return got

    flow = shop.flow(wf, saver, retry_policy=QUICK)
    assert shop.invoke(flow, 1, on()) == [1, "changed in place"]
    assert (len(entered), shop.ran) == (3, [("step", 1)])


def test_without_a_saver_steps_are_not_repeated_either(shop: Workshop) -> None:
    step = shop.noted()
    entered: list[int] = []

    def wf(given: int) -> Any:
        entered.append(given)
        got = yield step(given)
        if len(entered) < 3:
            raise ConnectionError("down")
        return got

    assert shop.invoke(shop.flow(wf, retry_policy=[QUICK]), 1) == 1
    assert (len(entered), shop.ran) == (3, [("step", 1)])


def test_results_of_an_entrypoint_can_be_kept_in_a_cache(shop: Workshop, saver: Saver, cache: Any) -> None:
    entered: list[int] = []

    def wf(given: int) -> Any:
        entered.append(given)
        return given * 2
        yield

    flow = shop.flow(wf, saver, cache=cache, cache_policy=CachePolicy())
    assert [shop.invoke(flow, given, on(str(at))) for at, given in enumerate([1, 1, 2])] == [2, 2, 4]
    assert entered == [1, 2]
    assert shop.invoke(flow, 1, on("0")) == 2


def test_a_timeout_stops_an_async_entrypoint_and_its_steps(saver: Saver) -> None:
    stopped: list[str] = []

    async def slow() -> None:
        try:
            await asyncio.sleep(30)
        finally:
            stopped.append("slow")

    step = task(slow)
    unwatched = task(name="unwatched")(slow)

    @entrypoint(saver, timeout=0.02)
    async def flow(given: int) -> None:
        _ = unwatched()
        await step()

    with pytest.raises(NodeTimeoutError, match="flow"):
        asyncio.run(flow.ainvoke(1, on()))
    with pytest.raises(NodeTimeoutError, match="flow"):
        flow.invoke(1, on("2"))
    assert stopped == ["slow"] * 4


def test_timeouts_of_sync_functions_are_refused() -> None:
    with pytest.raises(ValueError, match="timeouts are only supported for async functions"):
        entrypoint(timeout=1)(lambda given: given)
    with pytest.raises(ValueError, match="Task timeouts are only supported for async functions"):
        task(timeout=1)(lambda given: given)
