"""Nodes that run in the place of one that has failed for good."""

from __future__ import annotations

from typing import Any

import pytest

from perdure import START, StateGraph, runtime
from perdure.checkpoint.saver import Saver
from perdure.errors import NodeError
from perdure.types import Command, RetryPolicy, Send, interrupt
from tests.engine.colours import Colour, Log, thread


def fails(_: Any) -> dict[str, Any]:
    raise ValueError("boom")


def handles(state: Log, error: NodeError) -> dict[str, Any]:
    return {"log": [f"{error.node}: {error.error!r}"]}


def guarded(colour: Colour, node: Any = fails, handler: Any = handles) -> StateGraph[Any, Any, Any, Any]:
    graph = StateGraph(Log).add_node("a", colour.node(node), error_handler=colour.node(handler)).add_edge(START, "a")
    return graph.add_node("next", colour.says("next"))


def test_what_a_handler_gets_is_found_beside_the_errors_and_beside_the_runtime() -> None:
    assert runtime.NodeError is NodeError


def test_a_handler_runs_in_the_place_of_the_failed_node(colour: Colour, saver: Any) -> None:
    assert colour.invoke(guarded(colour).compile(saver), {"log": []}, thread())["log"] == ["a: ValueError('boom')"]


def test_a_node_that_works_needs_no_handler(colour: Colour, saver: Any) -> None:
    graph = guarded(colour, lambda _: {"log": ["fine"]}).compile(saver)
    assert colour.invoke(graph, {"log": []}, thread())["log"] == ["fine"]


def test_a_handler_sees_the_state_that_its_node_saw(colour: Colour, saver: Any) -> None:
    graph = guarded(colour, handler=lambda state: {"log": [f"saw {state['log']}"]}).compile(saver)
    assert colour.invoke(graph, {"log": ["in"]}, thread())["log"] == ["in", "saw ['in']"]


def test_a_handler_may_take_nothing_but_the_error(colour: Colour) -> None:
    def handler(*, error: NodeError) -> dict[str, Any]:
        return {"log": [str(error.error)]}

    assert colour.invoke(guarded(colour, handler=handler).compile(), {"log": []})["log"] == ["boom"]


def test_a_handler_may_go_somewhere(colour: Colour, saver: Any) -> None:
    def handler(_: Log) -> Command[Any]:
        return Command(update={"log": ["handled"]}, goto="next")

    assert colour.invoke(guarded(colour, handler=handler).compile(saver), {"log": []}, thread())["log"] == ["handled", "next"]


def test_a_handler_runs_after_the_last_retry_and_is_retried_itself_by_default_policies(colour: Colour) -> None:
    attempts = {"node": 0, "handler": 0}

    def node(_: Log) -> None:
        attempts["node"] += 1
        raise ConnectionError("node")

    def handler(_: Log) -> dict[str, Any]:
        attempts["handler"] += 1
        if attempts["handler"] < 2:
            raise ConnectionError("handler")
        return {"log": ["handled"]}

    graph = guarded(colour, node, handler)
    graph.set_node_defaults(retry_policy=RetryPolicy(max_attempts=3, initial_interval=0.0, jitter=False))
    assert colour.invoke(graph.compile(), {"log": []})["log"] == ["handled"]
    assert attempts == {"node": 3, "handler": 2}


def test_a_failing_handler_fails_the_run_with_its_own_error(colour: Colour, saver: Any) -> None:
    def handler(_: Log) -> None:
        raise LookupError("handler failed too")

    with pytest.raises(LookupError, match="handler failed too"):
        colour.invoke(guarded(colour, handler=handler).compile(saver), {"log": []}, thread())


def test_a_default_handler_serves_nodes_without_their_own(colour: Colour, saver: Any) -> None:
    graph = guarded(colour).add_node("b", colour.node(fails)).add_edge(START, "b")
    graph.set_node_defaults(error_handler=colour.node(lambda _, error: {"log": [f"default for {error.node}"]}))
    assert colour.invoke(graph.compile(saver), {"log": []}, thread())["log"] == ["a: ValueError('boom')", "default for b"]


def test_a_handlers_result_takes_its_nodes_place_in_the_order(colour: Colour, saver: Any) -> None:
    graph = (
        guarded(colour)
        .add_node("Z", colour.says("Z"))
        .add_node("b", colour.says("b"))
        .add_edge(START, "Z")
        .add_edge(START, "b")
    )
    assert colour.invoke(graph.compile(saver), {"log": []}, thread())["log"] == ["Z", "a: ValueError('boom')", "b"]


def test_a_handler_of_a_send_sees_what_was_sent(colour: Colour, saver: Any) -> None:
    def worker(arg: int) -> dict[str, Any]:
        if arg == 1:
            raise ValueError("one")
        return {"log": [arg]}

    graph = StateGraph(Log).add_node("w", colour.node(worker), error_handler=colour.node(lambda arg: {"log": [f"not {arg}"]}))
    graph.add_conditional_edges(START, lambda _: [Send("w", at) for at in range(3)])
    assert colour.invoke(graph.compile(saver), {"log": []}, thread())["log"] == [0, "not 1", 2]


def test_the_joins_and_edges_of_a_failed_node_do_not_fire(colour: Colour, saver: Any) -> None:
    graph = guarded(colour).add_edge("a", "next").compile(saver)
    assert colour.invoke(graph, {"log": []}, thread())["log"] == ["a: ValueError('boom')"]


def test_the_stream_shows_the_failure_and_the_handler(colour: Colour) -> None:
    events = colour.stream(guarded(colour).compile(), {"log": []}, stream_mode=["updates", "tasks"])
    ends = [payload for mode, payload in events if mode == "tasks" and "result" in payload]
    assert [end["name"] for end in ends] == ["a", "__error_handler__a"]
    assert [repr(end["error"]) for end in ends] == ["ValueError('boom')", "None"]
    assert [payload for mode, payload in events if mode == "updates"] == [
        {"__error_handler__a": {"log": ["a: ValueError('boom')"]}}
    ]


def test_the_failure_stays_readable_in_history(colour: Colour, kept: Saver) -> None:
    graph = guarded(colour).compile(kept)
    colour.invoke(graph, {"log": []}, thread())
    failed = [task for snapshot in colour.history(graph, thread()) for task in snapshot.tasks if task.error]
    assert [task.name for task in failed] == ["a"]
    assert "boom" in str(failed[0].error)


def test_P2_after_a_crash_between_failure_and_handler_only_the_handler_runs(colour: Colour, kept: Saver) -> None:
    counts = {"a": 0, "handler": 0}
    crash = [True]

    def node(_: Log) -> None:
        counts["a"] += 1
        raise ValueError("boom")

    def handler(_: Log, error: NodeError) -> dict[str, Any]:
        counts["handler"] += 1
        if crash[0]:
            raise ConnectionError("the process dies here")
        return {"log": [f"{error.node} {error.error}"]}

    graph = guarded(colour, node, handler).compile(kept)
    with pytest.raises(ConnectionError):
        colour.invoke(graph, {"log": []}, thread())
    crash[0] = False
    out = colour.invoke(graph, None, thread())["log"]
    assert counts == {"a": 1, "handler": 2}
    assert out[0].startswith("a ")
    assert "boom" in out[0]


def test_a_handler_may_pause_and_go_on(colour: Colour, kept: Saver) -> None:
    counts = {"a": 0}

    def node(_: Log) -> None:
        counts["a"] += 1
        raise ValueError("boom")

    def handler(_: Log, error: NodeError) -> dict[str, Any]:
        return {"log": [interrupt(f"{error.node} failed, what now?")]}

    graph = guarded(colour, node, handler).compile(kept)
    out = colour.invoke(graph, {"log": []}, thread())
    assert [pause.value for pause in out["__interrupt__"]] == ["a failed, what now?"]
    assert [pause.value for pause in colour.state(graph, thread()).interrupts] == ["a failed, what now?"]
    assert colour.invoke(graph, Command(resume="ignore"), thread())["log"] == ["ignore"]
    assert counts == {"a": 1}


def test_a_pause_is_not_handled_as_an_error(colour: Colour, kept: Saver) -> None:
    graph = guarded(colour, lambda _: {"log": [interrupt("q")]}).compile(kept)
    assert [pause.value for pause in colour.invoke(graph, {"log": []}, thread())["__interrupt__"]] == ["q"]
    assert colour.invoke(graph, Command(resume="r"), thread())["log"] == ["r"]
