"""Steps in subgraphs, graphs inside steps, and entrypoints inside graphs."""

from __future__ import annotations

import operator
from typing import Annotated, Any, TypedDict

from perdure.checkpoint.memory import InMemorySaver
from perdure.checkpoint.saver import Saver
from perdure.graph import START, StateGraph
from perdure.types import Command, interrupt
from tests.func.bodies import Workshop
from tests.promises.ways import Log, on


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
