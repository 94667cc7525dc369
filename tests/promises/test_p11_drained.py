"""P11 and P13: a run that was asked to stop leaves a thread that waits for nobody, wherever in it the request came."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from perdure.checkpoint.records import ERROR
from perdure.checkpoint.saver import Saver
from perdure.errors import GraphDrained, UnknownInterruptError
from perdure.func import entrypoint, task
from perdure.runtime import Runtime
from perdure.runtime.runtime import RunControl
from perdure.types import Command, RetryPolicy, interrupt
from tests.promises.ways import Ledger, Way, abreast, chain, kinds_of, on, rows_of, status_of

DURABILITIES = pytest.mark.parametrize("durability", ["sync", "async", "exit"])


class Stop:
    """Asks a run to stop from inside one of its nodes."""

    def __init__(self, ledger: Ledger) -> None:
        self.control = RunControl()
        self.ledger = ledger

    def node(self, name: str) -> Any:
        return self.ledger.node(name, lambda: self.control.request_drain("deploy"))


@pytest.fixture
def stop(ledger: Ledger) -> Stop:
    return Stop(ledger)


def inner_of(stop: Stop) -> Any:
    return chain(("x", stop.node("x")), ("y", stop.ledger.node("y"))).compile()


def caller_of(way: Way, ledger: Ledger, inner: Any) -> Any:
    """A node that calls a subgraph, and takes any Exception for a failure that it can do without."""

    def call(_: Any) -> Any:
        ledger.ran.append("call")
        try:
            return {"log": inner.invoke({"log": []})["log"]}
        except Exception:
            return {"log": ["failed"]}

    async def acall(_: Any) -> Any:
        ledger.ran.append("call")
        try:
            return {"log": (await inner.ainvoke({"log": []}))["log"]}
        except Exception:
            return {"log": ["failed"]}

    return acall if way.is_async else call


@DURABILITIES
def test_P11_P13_a_drained_thread_is_idle_and_goes_on(way: Way, saver: Saver, ledger: Ledger, stop: Stop, durability: Any):
    graph = chain(("a", stop.node("a")), ("b", ledger.node("b"))).compile(saver)
    with pytest.raises(GraphDrained, match="deploy"):
        way.invoke(graph, {"log": []}, on(), control=stop.control, durability=durability)
    assert status_of(saver) == ("idle", True)
    assert way.state(graph, on()).next == ("b",)
    before = rows_of(saver)
    with pytest.raises(UnknownInterruptError, match="invoke"):
        way.invoke(graph, Command(resume="yes"), on())
    assert rows_of(saver) == before, "an answer to nothing stores nothing"
    assert way.invoke(graph, None, on()) == {"log": ["a", "b"]}
    assert ledger.ran == ["a", "b"]


@DURABILITIES
@pytest.mark.parametrize("called", [False, True], ids=["a node", "called"])
def test_P11_a_subgraph_that_was_drained_has_not_failed(
    way: Way, saver: Saver, ledger: Ledger, stop: Stop, durability: Any, *, called: bool
):
    inner = inner_of(stop)
    node = caller_of(way, ledger, inner) if called else inner
    graph = chain(("a", ledger.node("a")), ("s", node), ("b", ledger.node("b"))).compile(saver)
    with pytest.raises(GraphDrained, match="deploy"):
        way.invoke(graph, {"log": []}, on(), control=stop.control, durability=durability)
    assert status_of(saver) == ("idle", True)
    assert kinds_of(saver, ERROR) == []
    state = way.state(graph, on())
    assert (state.next, [each.error for each in state.tasks]) == (("s",), [None])
    way.invoke(graph, None, on())
    assert [name for name in ledger.ran if name != "call"] == ["a", "x", "y", "b"], "what is stored does not run again"


def test_P11_a_node_with_retries_and_a_handler_is_drained_and_neither_retried_nor_handled(
    way: Way, saver: Saver, ledger: Ledger, stop: Stop
):
    builder = chain(("a", ledger.node("a")))
    builder.add_node(
        "s",
        caller_of(way, ledger, inner_of(stop)),
        retry_policy=RetryPolicy(initial_interval=0.001, retry_on=lambda _: True),
        error_handler=way.node(lambda state, error: {"log": ["handled"]}),
    )
    graph = builder.add_edge("a", "s").compile(saver)
    with pytest.raises(GraphDrained):
        way.invoke(graph, {"log": []}, on(), control=stop.control)
    assert ledger.ran == ["a", "call", "x"]
    assert way.invoke(graph, None, on()) == {"log": ["a", "x", "y"]}


def test_P11_beside_an_open_question_a_drained_thread_is_interrupted(way: Way, saver: Saver, ledger: Ledger, stop: Stop):
    graph = abreast(("asks", ledger.node("asks", lambda: interrupt("?"))), ("s", inner_of(stop))).compile(saver)
    with pytest.raises(GraphDrained):
        way.invoke(graph, {"log": []}, on(), control=stop.control)
    assert status_of(saver) == ("interrupted", True)
    assert [pause.value for pause in way.state(graph, on()).interrupts] == ["?"]
    assert way.invoke(graph, Command(resume="!"), on())["log"] == ["!", "x", "y"]
    assert ledger.ran.count("x") == 1


def test_P11_P13_a_breakpoint_comes_before_a_request_to_stop(way: Way, saver: Saver, ledger: Ledger, stop: Stop):
    graph = chain(("a", stop.node("a")), ("b", ledger.node("b"))).compile(saver, interrupt_before=["b"])
    assert way.invoke(graph, {"log": []}, on(), control=stop.control) == {"log": ["a"]}
    assert status_of(saver) == ("interrupted", True)
    assert way.invoke(graph, Command(resume="any"), on()) == {"log": ["a", "b"]}


def test_P11_a_workflow_whose_step_runs_a_subgraph_is_drained(saver: Saver, stop: Stop):
    inner = inner_of(stop)

    @task
    def step() -> Any:
        return inner.invoke({"log": []})["log"]

    @entrypoint(checkpointer=saver)
    def workflow(given: str, runtime: Runtime[Any]) -> Any:
        return step().result()

    with pytest.raises(GraphDrained):
        workflow.invoke("go", on(), control=stop.control)
    assert status_of(saver) == ("idle", True)
    assert asyncio.run(workflow.ainvoke(None, on())) == ["x", "y"]
    assert stop.ledger.ran.count("x") == 1
