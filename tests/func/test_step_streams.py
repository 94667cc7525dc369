"""What a run tells of the steps inside it."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.checkpoint.saver import Saver
from perdure.config import get_stream_writer
from perdure.errors import SaveFailed
from perdure.graph import START, StateGraph
from perdure.messages import Message
from perdure.types import CachePolicy, Command, interrupt
from tests.func.bodies import Workshop
from tests.promises.ways import Log, Watch, on
from tests.reference.shapes import plain


def test_a_failed_step_is_told_with_its_error_and_no_update(shop: Workshop, saver: Saver) -> None:
    def fail(given: int) -> None:
        raise ValueError("no")

    step = shop.step(fail)

    def wf(given: int) -> Any:
        try:
            yield step(given)
        except ValueError as error:
            return str(error)

    told = plain(shop.stream(shop.flow(wf, saver), 1, on(), stream_mode=["updates", "tasks"]))
    assert [(mode, payload.get("name"), payload.get("error") and repr(payload["error"])) for mode, payload in told] == [
        ("tasks", "wf", None),
        ("tasks", "fail", None),
        ("tasks", "fail", "ValueError('no')"),
        ("updates", None, None),
        ("tasks", "wf", None),
    ]
    assert told[2][1]["result"] == {}
    assert told[3][1] == {"wf": "no"}


def test_a_failed_entrypoint_is_told_after_its_steps(shop: Workshop, saver: Saver) -> None:
    step = shop.noted()

    def wf(given: int) -> Any:
        yield step(given)
        raise ValueError("no")

    told: list[Any] = []
    with pytest.raises(ValueError, match="no"):
        shop.stream(shop.flow(wf, saver), 1, on(), stream_mode=["updates", "tasks"], into=told)
    assert [mode for mode, _ in told] == ["tasks", "tasks", "updates", "tasks", "tasks"]
    assert (told[-1][1]["name"], repr(told[-1][1]["error"])) == ("wf", "ValueError('no')")


def test_a_step_is_told_only_once_it_is_stored(shop: Workshop, saver: Saver) -> None:
    watch = Watch(saver)
    step = shop.noted()

    def wf(given: int) -> Any:
        watch.failing_from = len(watch.commits)
        return (yield step(given))

    told: list[Any] = []
    with pytest.raises(SaveFailed):
        shop.stream(shop.flow(wf, saver), 1, on(), stream_mode="updates", into=told)
    assert told == []


def test_only_steps_that_run_are_told(shop: Workshop, saver: Saver) -> None:
    step = shop.noted()

    def wf(given: int) -> Any:
        yield step(given)
        return interrupt("?"), (yield step(given + 1))

    flow = shop.flow(wf, saver)
    shop.invoke(flow, 1, on())
    told = plain(shop.stream(flow, Command(resume="x"), on(), stream_mode="tasks"))
    assert [payload.get("input", payload.get("result")) for payload in told] == [
        1,
        ((2,), {}),
        {"__return__": 2},
        {"__end__": ("x", 2)},
    ]


def test_a_step_whose_result_was_kept_says_so_and_has_no_end(shop: Workshop, cache: Any) -> None:
    step = shop.noted(cache_policy=CachePolicy())

    def wf(given: int) -> Any:
        return (yield step(given))

    flow = shop.flow(wf, cache=cache)
    shop.invoke(flow, 1)
    told = shop.stream(flow, 1, stream_mode=["updates", "tasks"])
    assert [(mode, payload.get("name")) for mode, payload in told] == [
        ("tasks", "wf"),
        ("tasks", "step"),
        ("updates", None),
        ("updates", None),
        ("tasks", "wf"),
    ]
    assert told[2][1] == {"step": 1, "__metadata__": {"cached": True}}


def test_debug_tells_steps_as_tasks(shop: Workshop, saver: Saver) -> None:
    step = shop.noted()

    def wf(given: int) -> Any:
        return (yield step(given))

    told = shop.stream(shop.flow(wf, saver), 1, on(), stream_mode="debug")
    assert [(one["type"], one["step"], one["payload"].get("name")) for one in told] == [
        ("checkpoint", -1, None),
        ("task", 0, "wf"),
        ("task", 0, "step"),
        ("task_result", 0, "step"),
        ("task_result", 0, "wf"),
        ("checkpoint", 0, None),
    ]
    assert told[-1]["payload"]["values"] == 1


def test_custom_values_of_steps_come_as_they_are_sent(shop: Workshop, saver: Saver) -> None:
    def talk(given: int) -> int:
        get_stream_writer()(f"step {given}")
        return given

    step = shop.step(talk)

    def wf(given: int) -> Any:
        get_stream_writer()("begin")
        got = yield step(given)
        get_stream_writer()("end")
        return got

    told = shop.stream(shop.flow(wf, saver), 1, on(), stream_mode=["custom", "updates"])
    assert told == [
        ("custom", "begin"),
        ("custom", "step 1"),
        ("updates", {"talk": 1}),
        ("custom", "end"),
        ("updates", {"wf": 1}),
    ]


def test_events_of_steps_come_before_the_entrypoint_ends() -> None:
    shop = Workshop("sync")
    step = shop.noted()

    def wf(given: int) -> Any:
        yield step(given)
        shop.ran.append("the rest")
        yield step("rest")

    stream = iter(shop.flow(wf).stream(1, stream_mode="updates"))
    assert next(stream) == {"step": 1}
    assert list(stream) == [{"step": "rest"}, {"wf": None}]


def test_invoke_gives_the_events_of_another_mode(shop: Workshop, saver: Saver) -> None:
    step = shop.noted()

    def wf(given: int) -> Any:
        return (yield step(given)) + 1

    flow = shop.flow(wf, saver)
    assert shop.invoke(flow, 1, on(), stream_mode="updates") == [{"step": 1}, {"wf": 2}]
    out = shop.invoke(flow, 1, on(), version="v2")
    assert (out.value, out.interrupts) == (2, ())


@pytest.mark.parametrize(
    "modes", [["updates"], ["tasks"], ["updates", "tasks", "values", "debug"], ["updates", "custom"]], ids=str
)
def test_a_graphs_steps_are_told_before_the_end_of_their_node(shop: Workshop, saver: Saver, modes: list[str]) -> None:
    step = shop.noted()

    def node(state: Any) -> Any:
        got = yield step("x")
        return {"log": [got]}

    def alone(state: Any) -> Any:
        return {"log": ["alone"]}

    builder = StateGraph(Log).add_node("node", shop.body(node)).add_node("alone", shop.node(alone))
    graph = builder.add_edge(START, "node").add_edge("node", "alone").compile(saver)
    told = shop.stream(graph, {"log": []}, on(), stream_mode=modes)
    updates = [payload for mode, payload in told if mode == "updates"]
    assert updates == ([{"step": "x"}, {"node": {"log": ["x"]}}, {"alone": {"log": ["alone"]}}] if "updates" in modes else [])
    ends = [payload["name"] for mode, payload in told if mode == "tasks" and "result" in payload]
    assert ends == (["step", "node", "alone"] if "tasks" in modes else [])


def test_steps_of_a_subgraph_are_told_with_its_namespace(shop: Workshop, saver: Saver) -> None:
    step = shop.noted()

    def node(state: Any) -> Any:
        got = yield step("x")
        return {"log": [got]}

    inner = StateGraph(Log).add_node("inner", shop.body(node)).add_edge(START, "inner").compile()
    graph = StateGraph(Log).add_node("outer", inner).add_edge(START, "outer").compile(saver)
    told = shop.stream(graph, {"log": []}, on(), stream_mode="updates", subgraphs=True)
    assert [(len(namespace), payload) for namespace, payload in told] == [
        (1, {"step": "x"}),
        (1, {"inner": {"log": ["x"]}}),
        (0, {"outer": {"log": ["x"]}}),
    ]
    assert shop.stream(graph, {"log": []}, on("2"), stream_mode="updates") == [{"outer": {"log": ["x"]}}]


def test_messages_that_steps_return_are_told_once_with_the_step_they_come_from(shop: Workshop, saver: Saver) -> None:
    step = shop.step(lambda text: Message({"role": "assistant", "content": text, "id": text}), name="say")

    def wf(given: str) -> Any:
        first = yield step(given)
        return [first, Message({"role": "assistant", "content": "own", "id": "own"})]

    told = shop.stream(shop.flow(wf, saver), "step's", on(), stream_mode="messages")
    assert [(message.content, metadata["langgraph_node"]) for message, metadata in told] == [("step's", "say"), ("own", "wf")]
