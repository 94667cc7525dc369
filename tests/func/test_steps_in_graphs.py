"""Steps in the nodes of graphs, in steps, in subgraphs; entrypoints inside graphs; graphs inside steps."""

from __future__ import annotations

import asyncio
import operator
import time
from typing import Annotated, Any, TypedDict

import pytest

from perdure.checkpoint.memory import InMemorySaver
from perdure.checkpoint.saver import Saver
from perdure.func import entrypoint, task
from perdure.graph import START, StateGraph
from perdure.types import Command, RetryPolicy, Send, interrupt
from tests.func.bodies import Workshop
from tests.promises.ways import Log, on


def test_S02_P17_steps_of_a_node_do_not_repeat_when_it_is_entered_again(shop: Workshop, saver: Saver) -> None:
    ledger: list[int] = []
    record = shop.step(lambda at: ledger.append(at))

    def node(state: Log) -> Any:
        answers = []
        for at in range(3):
            yield record(at)
            answers.append(interrupt(at))
        return {"log": answers}

    graph = StateGraph(Log).add_node("node", shop.body(node)).add_edge(START, "node").compile(saver)
    out = shop.invoke(graph, {"log": []}, on())
    seen = []
    for answer in "xyz":
        seen += [pause.value for pause in out["__interrupt__"]]
        out = shop.invoke(graph, Command(resume=answer), on())
    assert out == {"log": ["x", "y", "z"]}
    assert (seen, ledger) == ([0, 1, 2], [0, 1, 2])


def test_steps_of_nodes_side_by_side_and_of_sends_do_not_meet(shop: Workshop, saver: Saver) -> None:
    step = shop.noted()

    def node(name: str) -> Any:
        def body(state: Any) -> Any:
            got = yield step(f"{name}{state.get('x', '')}")
            interrupt(got)
            return {"log": [got]}

        return shop.body(body)

    builder = StateGraph(Log)
    for name in ("a", "b", "send"):
        builder.add_node(name, node(name))
    builder.add_edge(START, "a").add_edge(START, "b")
    builder.add_conditional_edges(START, lambda _: [Send("send", {"x": at}) for at in range(2)], ["send"])
    graph = builder.compile(saver)
    out = shop.invoke(graph, {"log": []}, on())
    ids = {pause.value: pause.id for pause in out["__interrupt__"]}
    assert sorted(ids) == ["a", "b", "send0", "send1"]
    answers = dict.fromkeys(ids.values(), "go")
    assert shop.invoke(graph, Command(resume=answers), on()) == {"log": ["a", "b", "send0", "send1"]}
    assert len(shop.ran) == 4


def test_steps_in_a_loop_of_super_steps_run_each_time(shop: Workshop, saver: Saver) -> None:
    step = shop.noted()

    def node(state: Log) -> Any:
        return {"log": [(yield step("same"))]}

    builder = StateGraph(Log).add_node("node", shop.body(node)).add_edge(START, "node")
    builder.add_conditional_edges("node", lambda state: "node" if len(state["log"]) < 3 else "__end__", ["node", "__end__"])
    assert shop.invoke(builder.compile(saver), {"log": []}, on()) == {"log": ["same"] * 3}
    assert len(shop.ran) == 3


def test_a_node_that_is_tried_again_keeps_the_results_of_its_steps(shop: Workshop, saver: Saver) -> None:
    step = shop.noted()
    tries: list[int] = []

    def node(state: Log) -> Any:
        got = yield step("x")
        tries.append(1)
        if len(tries) < 3:
            raise ConnectionError("down")
        return {"log": [got]}

    builder = StateGraph(Log).add_node("node", shop.body(node), retry_policy=RetryPolicy(initial_interval=0, jitter=False))
    assert shop.invoke(builder.add_edge(START, "node").compile(saver), {"log": []}, on()) == {"log": ["x"]}
    assert (len(tries), len(shop.ran)) == (3, 1)


def test_an_error_handler_may_call_steps(shop: Workshop, saver: Saver) -> None:
    step = shop.noted()

    def node(state: Log) -> Any:
        yield step("node")
        raise ValueError("no")

    def handler(state: Log) -> Any:
        got = yield step("handler")
        return {"log": [got, interrupt("?")]}

    builder = StateGraph(Log).add_node("node", shop.body(node), error_handler=shop.body(handler)).add_edge(START, "node")
    graph = builder.compile(saver)
    shop.invoke(graph, {"log": []}, on())
    assert shop.invoke(graph, Command(resume="x"), on()) == {"log": ["handler", "x"]}
    assert shop.ran == [("step", "node"), ("step", "handler")]


def test_a_conditional_edge_may_call_steps_but_not_that_of_start(shop: Workshop, saver: Saver) -> None:
    step = shop.noted()

    def choose(state: Log) -> Any:
        return (yield step("b"))

    builder = (
        StateGraph(Log).add_node("a", shop.node(lambda _: {"log": ["a"]})).add_node("b", shop.node(lambda _: {"log": ["b"]}))
    )
    builder.add_edge(START, "a").add_conditional_edges("a", shop.body(choose), ["b"])
    assert shop.invoke(builder.compile(saver), {"log": []}, on()) == {"log": ["a", "b"]}
    first = (
        StateGraph(Log)
        .add_node("b", shop.node(lambda _: {"log": ["b"]}))
        .add_conditional_edges(START, shop.body(choose), ["b"])
    )
    with pytest.raises(RuntimeError, match="task 'step' was called by a conditional edge of START"):
        shop.invoke(first.compile(saver), {"log": []}, on("2"))


def test_a_step_that_a_conditional_edge_does_not_wait_for_ends_before_its_node(shop: Workshop, saver: Saver) -> None:
    def slow(given: str) -> None:
        time.sleep(0.02)
        shop.ran.append(given)

    step = shop.step(slow)

    def choose(state: Log) -> Any:
        step("left alone")
        return "b"
        yield

    def b(state: Log) -> Any:
        return {"log": [f"{shop.ran}"]}

    builder = StateGraph(Log).add_node("a", shop.node(lambda _: {"log": []})).add_node("b", shop.node(b)).add_edge(START, "a")
    graph = builder.add_conditional_edges("a", shop.body(choose), ["b"]).compile(saver)
    assert shop.invoke(graph, {"log": []}, on()) == {"log": ["['left alone']"]}


def test_a_step_may_have_the_name_of_a_node(shop: Workshop, saver: Saver) -> None:
    step = shop.noted("node")

    def node(state: Log) -> Any:
        got = yield step("x")
        return {"log": [got, interrupt("?")]}

    graph = StateGraph(Log).add_node("node", shop.body(node)).add_edge(START, "node").compile(saver)
    told = shop.stream(graph, {"log": []}, on(), stream_mode="tasks")
    assert [one["triggers"] for one in told if "triggers" in one] == [("branch:to:node",), ("__pregel_push",)]
    assert shop.invoke(graph, Command(resume="y"), on()) == {"log": ["x", "y"]}
    assert len(shop.ran) == 1


def test_a_step_may_be_a_node(shop: Workshop, saver: Saver) -> None:
    step = shop.noted(value=lambda state: {"log": [len(state["log"])]})
    graph = StateGraph(Log).add_node("step", step).add_edge(START, "step").compile(saver)
    assert shop.invoke(graph, {"log": ["x"]}, on()) == {"log": ["x", 1]}


def test_methods_may_be_steps(shop: Workshop, saver: Saver) -> None:
    class Service:
        prefix = "class"

        def __init__(self) -> None:
            self.prefix = "own"

        @task
        def method(self, given: int) -> str:
            return f"{self.prefix}{given}"

        @staticmethod
        @task
        def static(given: int) -> str:
            return f"static{given}"

        @classmethod
        @task
        def of_class(cls, given: int) -> str:
            return f"{cls.prefix}{given}"

    service = Service()

    def wf(given: int) -> Any:
        found = yield [service.method(given), Service.static(given), service.of_class(given), Service.of_class(given)]
        interrupt("?")
        return found

    flow = shop.flow(wf, saver)
    shop.invoke(flow, 1, on())
    assert shop.invoke(flow, Command(resume=1), on()) == ["own1", "static1", "class1", "class1"]


def test_steps_call_steps(shop: Workshop, saver: Saver) -> None:
    leaf = shop.noted("leaf")

    def middle(given: int) -> Any:
        shop.ran.append(("middle", given))
        return sum((yield [leaf(given), leaf(given + 1)]))

    nested = shop.nested(middle)

    def wf(given: int) -> Any:
        found = yield [nested(given), nested(given + 10)]
        if len(shop.ran) == 6:
            shop.ran.append("failed")
            raise ValueError("once")
        return found

    flow = shop.flow(wf, saver)
    with pytest.raises(ValueError, match="once"):
        shop.invoke(flow, 1, on())
    assert shop.invoke(flow, None, on()) == [3, 23]
    assert len(shop.ran) == 7


def test_P2_a_step_that_died_goes_on_with_the_results_of_its_own_steps(shop: Workshop, saver: Saver) -> None:
    leaf = shop.noted("leaf")
    failures: list[int] = []

    def middle(given: int) -> Any:
        got = yield leaf(given)
        if not failures:
            failures.append(1)
            raise ValueError("once")
        return got

    nested = shop.nested(middle)

    def wf(given: int) -> Any:
        return (yield nested(given))

    flow = shop.flow(wf, saver)
    with pytest.raises(ValueError, match="once"):
        shop.invoke(flow, 1, on())
    assert shop.invoke(flow, None, on()) == 1
    assert shop.ran == [("leaf", 1)]


# -- subgraphs --------------------------------------------------------------------------------------------------------------


def inner_graph(shop: Workshop, **options: Any) -> Any:
    """Runs a step, asks, and runs another."""
    step = shop.noted()

    def node(state: Log) -> Any:
        before = yield step("before")
        answer = interrupt("inner?")
        after = yield step("after")
        return {"log": [before, answer, after]}

    return StateGraph(Log).add_node("inner", shop.body(node)).add_edge(START, "inner").compile(**options)


def test_steps_inside_a_subgraph_do_not_repeat(shop: Workshop, saver: Saver) -> None:
    graph = StateGraph(Log).add_node("outer", inner_graph(shop)).add_edge(START, "outer").compile(saver)
    shop.invoke(graph, {"log": []}, on())
    assert shop.invoke(graph, Command(resume="x"), on())["log"] == ["before", "x", "after"]
    assert shop.ran == [("step", "before"), ("step", "after")]


def call(shop: Workshop, graph: Any, given: Any) -> Any:
    """The call of a graph, in the colour of the code that makes it."""
    return graph.ainvoke(given) if shop.is_async else Done(graph.invoke(given))


class Done:
    """A future that has its result."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def result(self) -> Any:
        return self.value


def test_P12_a_step_may_run_a_subgraph_that_asks(shop: Workshop, saver: Saver) -> None:
    inner = inner_graph(shop)

    def agent(given: str) -> Any:
        shop.ran.append(given)
        out = yield call(shop, inner, {"log": [given]})
        return out["log"]

    nested = shop.nested(agent)

    def wf(given: Any) -> Any:
        return (yield [nested(what) for what in given])

    flow = shop.flow(wf, saver)
    out = shop.invoke(flow, ["a", "b"], on())
    first, second = out["__interrupt__"]
    assert [first.value, second.value] == ["inner?", "inner?"]
    assert first.id != second.id
    assert shop.state(flow, on()).interrupts in ((first, second), (second, first))
    left = shop.invoke(flow, Command(resume={first.id: "1"}), on())["__interrupt__"]
    assert [pause.id for pause in left] == [second.id]
    found = shop.invoke(flow, Command(resume={second.id: "2"}), on())
    assert sorted(found) in (
        [["a", "before", "1", "after"], ["b", "before", "2", "after"]],
        [["a", "before", "2", "after"], ["b", "before", "1", "after"]],
    )
    assert shop.ran.count(("step", "before")) == 2
    assert shop.ran.count(("step", "after")) == 2


def test_steps_that_call_a_graph_with_a_memory_see_what_it_remembered(shop: Workshop, saver: Saver) -> None:
    class Counter(TypedDict):
        n: Annotated[int, operator.add]

    remembering = StateGraph(Counter).add_node("count", shop.node(lambda _: {"n": 1})).add_edge(START, "count").compile(True)

    def count(given: int) -> Any:
        out = yield call(shop, remembering, {"n": 0})
        return out["n"]

    nested = shop.nested(count)

    def wf(given: int) -> Any:
        first = yield nested(1)
        second = yield nested(2)
        if given == 2:
            interrupt("?")
        return first, second, (yield nested(3))

    flow = shop.flow(wf, saver)
    assert shop.invoke(flow, 1, on()) == (1, 2, 3)
    shop.invoke(flow, 2, on())
    assert shop.invoke(flow, Command(resume=1), on()) == (4, 5, 6), "over the pause too"
    assert shop.invoke(flow, 1, on()) == (7, 8, 9)
    assert shop.invoke(flow, 1, on("other")) == (1, 2, 3)


def test_P21_a_finished_sibling_with_a_memory_keeps_it_over_a_pause(shop: Workshop, saver: Saver) -> None:
    class Counter(TypedDict):
        n: Annotated[int, operator.add]

    remembering = StateGraph(Counter).add_node("count", shop.node(lambda _: {"n": 1})).add_edge(START, "count").compile(True)

    def counts(state: Log) -> Any:
        out = yield call(shop, remembering, {"n": 0})
        return {"log": [out["n"]]}

    def asks(state: Log) -> Any:
        return {"log": [interrupt("?")]}

    builder = StateGraph(Log).add_node("counts", shop.body(counts)).add_node("asks", shop.node(asks))
    graph = builder.add_edge(START, "counts").add_edge(START, "asks").compile(saver)
    for _ in range(2):
        shop.invoke(graph, {"log": []}, on())
        out = shop.invoke(graph, Command(resume="x"), on())
    assert out["log"] == ["x", 1, "x", 2]


def test_an_entrypoint_may_be_a_node(shop: Workshop, saver: Saver) -> None:
    step = shop.noted()

    def inner(given: Any) -> Any:
        got = yield step(len(given["log"]))
        return {"log": [got, interrupt("?")]}

    flow = shop.flow(inner)
    graph = StateGraph(Log).add_node("inner", flow).add_edge(START, "inner").compile(saver)
    (pause,) = shop.invoke(graph, {"log": ["a"]}, on())["__interrupt__"]
    assert pause.value == "?"
    assert shop.invoke(graph, Command(resume="x"), on()) == {"log": ["a", 1, "x"]}
    assert len(shop.ran) == 1


def test_an_entrypoint_may_be_called_by_a_node_by_a_step_and_by_another_entrypoint(shop: Workshop, saver: Saver) -> None:
    step = shop.noted()

    def inner(given: Any, *, previous: Any = "?") -> Any:
        got = yield step(given)
        return [got, previous, interrupt(given)]

    called = shop.flow(inner, InMemorySaver())

    def middle(given: Any) -> Any:
        return (yield call(shop, called, given))

    nested = shop.nested(middle)

    def wf(given: int) -> Any:
        direct = yield call(shop, called, {"direct": given})
        return [direct, (yield nested("nested"))]

    flow = shop.flow(wf, saver)
    out = shop.invoke(flow, 1, on())
    assert [pause.value for pause in out["__interrupt__"]] == [{"direct": 1}]
    out = shop.invoke(flow, Command(resume="x"), on())
    assert [pause.value for pause in out["__interrupt__"]] == ["nested"]
    assert shop.invoke(flow, Command(resume="y"), on()) == [[{"direct": 1}, None, "x"], ["nested", None, "y"]]
    assert shop.ran == [("step", {"direct": 1}), ("step", "nested")]


def test_an_entrypoint_with_a_memory_inside_another_has_a_previous(shop: Workshop, saver: Saver) -> None:
    def inner(given: int, *, previous: int | None = None) -> Any:
        return given + (previous or 0)
        yield

    remembering = shop.flow(inner, True)

    def wf(given: int) -> Any:
        return (yield call(shop, remembering, given))

    flow = shop.flow(wf, saver)
    assert [shop.invoke(flow, given, on()) for given in (1, 2, 3)] == [1, 3, 6]


def test_async_steps_of_a_sync_node_run_on_the_callers_loop() -> None:
    loops: list[Any] = []

    @task
    async def where() -> None:
        loops.append(asyncio.get_running_loop())

    @entrypoint()
    def flow(given: int) -> None:
        where().result()
        where().result()

    async def run() -> bool:
        await flow.ainvoke(1)
        return set(loops) == {asyncio.get_running_loop()}

    assert asyncio.run(run())


def test_async_steps_of_a_sync_run_share_one_loop() -> None:
    loops: list[Any] = []

    @task
    async def where() -> None:
        loops.append(asyncio.get_running_loop())

    @task
    async def nested() -> None:
        await where()

    @entrypoint()
    def flow(given: int) -> None:
        where().result()
        nested().result()

    flow.invoke(1)
    assert len(loops) == 2
    assert len(set(map(id, loops))) == 1
