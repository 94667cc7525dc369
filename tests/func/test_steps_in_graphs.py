"""Steps in the nodes of graphs, and in steps."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

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
