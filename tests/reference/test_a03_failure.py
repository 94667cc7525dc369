"""Worked example A.3: START -> {ok, bad}, a join of both -> end; bad raises once, then the run goes on with None."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest

from perdure.checkpoint.saver import Saver
from perdure.errors import NodeCancelledError
from perdure.graph import START, StateGraph
from tests.promises.ways import Way, on
from tests.reference.shapes import EMPTY, State, failing_once, line, lines, plain, pull, tasks

DONE: dict[str, Any] = {"foo": "done", "bar": ["bad", "ok"]}
BOOM = "ValueError('boom')"


def failed(way: Way, saver: Saver) -> tuple[Any, dict[str, int], ValueError]:
    """The graph after its first run."""
    counts = {"ok": 0, "bad": 0}
    graph = failing_once(way, saver, counts)
    with pytest.raises(ValueError, match="boom") as caught:
        way.invoke(graph, EMPTY, on("1"))
    return graph, counts, caught.value


def test_the_error_says_which_task_it_was(way: Way, saver: Saver) -> None:
    graph, _, error = failed(way, saver)
    task = next(task for task in way.state(graph, on("1")).tasks if task.name == "bad")
    assert [re.sub(r" +", " ", note) for note in error.__notes__] == [f"During task with name 'bad' and id '{task.id}'"]


def test_the_live_state_shows_the_good_result_as_applied(way: Way, saver: Saver) -> None:
    graph, _, _ = failed(way, saver)
    state = way.state(graph, on("1"))
    assert line(state) == (0, "loop", {"foo": "", "bar": ["ok"]}, ("bad",), [])
    assert tasks(state) == [
        ("ok", ("__pregel_pull", "ok"), None, [], None, {"bar": ["ok"]}),
        ("bad", ("__pregel_pull", "bad"), BOOM, [], None, None),
    ]


def test_the_history_shows_the_super_step_as_it_began(way: Way, saver: Saver) -> None:
    graph, _, _ = failed(way, saver)
    assert lines(way.history(graph, on("1"))) == [
        (0, "loop", EMPTY, ("ok", "bad"), 1, 0, []),
        pull("ok", {"bar": ["ok"]}),
        pull("bad", None, error=BOOM),
        (-1, "input", {"bar": []}, ("__start__",), 0, None, []),
        pull("__start__", EMPTY),
    ]


def test_going_on_runs_only_what_failed(way: Way, saver: Saver) -> None:
    graph, counts, _ = failed(way, saver)
    assert way.invoke(graph, None, on("1")) == DONE
    assert counts == {"ok": 1, "bad": 2}
    assert lines(way.history(graph, on("1"))) == [
        (2, "loop", DONE, (), 3, 2, []),
        (1, "loop", {"foo": "", "bar": ["bad", "ok"]}, ("end",), 2, 1, []),
        pull("end", {"foo": "done"}),
        (0, "loop", EMPTY, ("ok", "bad"), 1, 0, []),
        pull("ok", {"bar": ["ok"]}),
        pull("bad", {"bar": ["bad"]}, error=BOOM),
        (-1, "input", {"bar": []}, ("__start__",), 0, None, []),
        pull("__start__", EMPTY),
    ]


def test_the_streams_of_going_on(way: Way, saver: Saver) -> None:
    graph, _, _ = failed(way, saver)
    found = plain(way.stream(graph, None, on("1"), stream_mode=["values", "updates", "tasks"]))
    both = {"foo": "", "bar": ["bad", "ok"]}
    assert found == [
        ("values", EMPTY),
        ("updates", {"ok": {"bar": ["ok"]}, "__metadata__": {"cached": True}}),
        ("tasks", {"id": "<0>", "name": "bad", "input": EMPTY, "triggers": ("branch:to:bad",)}),
        ("updates", {"bad": {"bar": ["bad"]}}),
        ("tasks", {"id": "<0>", "name": "bad", "error": None, "result": {"bar": ["bad"]}, "interrupts": []}),
        ("values", both),
        ("tasks", {"id": "<1>", "name": "end", "input": both, "triggers": ("branch:to:end", "join:ok+bad:end")}),
        ("updates", {"end": {"foo": "done"}}),
        ("tasks", {"id": "<1>", "name": "end", "error": None, "result": {"foo": "done"}, "interrupts": []}),
        ("values", DONE),
    ]


def test_going_on_tells_the_checkpoint_with_the_failure(way: Way, saver: Saver) -> None:
    graph, _, _ = failed(way, saver)
    first, *_ = way.stream(graph, None, on("1"), stream_mode="checkpoints")
    assert first["next"] == ["bad", "ok"]
    assert [(task["name"], repr(task.get("error")), task.get("result")) for task in first["tasks"]] == [
        ("bad", BOOM, None),
        ("ok", "None", {"bar": ["ok"]}),
    ]


def test_the_stream_of_the_failed_run(way: Way, saver: Saver) -> None:
    counts = {"ok": 0, "bad": 0}
    graph = failing_once(way, saver, counts)
    found: list[Any] = []
    with pytest.raises(ValueError, match="boom"):
        way.stream(graph, EMPTY, on("1"), stream_mode=["updates", "tasks"], into=found)
    ends = [payload for mode, payload in plain(found) if mode == "tasks" and "error" in payload]
    assert [(end["name"], repr(end["error"]), end["result"], end["interrupts"]) for end in ends] == [
        ("ok", "None", {"bar": ["ok"]}, []),
        ("bad", BOOM, {}, []),
    ]
    assert [payload for mode, payload in found if mode == "updates"] == [{"ok": {"bar": ["ok"]}}]


def test_a_failure_behind_a_finished_sibling_is_told_and_handled(way: Way, saver: Saver) -> None:
    """However soon it comes: the failed task may have ended before its sibling's result is looked at."""

    def a(_: State) -> dict[str, Any]:
        return {"bar": ["a"]}

    def b(_: State) -> None:
        raise ValueError("boom")

    builder = StateGraph(State).add_node("a", way.node(a))
    builder.add_node("b", way.node(b), error_handler=way.node(lambda _: {"bar": ["handled"]}))
    graph = builder.add_edge(START, "a").add_edge(START, "b").compile(checkpointer=saver)
    for number in range(20):
        assert way.invoke(graph, EMPTY, on(str(number)))["bar"] == ["a", "handled"]


def test_P49_a_node_that_cancels_itself_has_failed_in_both_colours(way: Way, saver: Saver) -> None:
    def a(_: State) -> None:
        raise asyncio.CancelledError

    builder = StateGraph(State).add_node("a", way.node(a)).add_node("b", way.node(lambda _: None)).add_edge(START, "a")
    with pytest.raises(NodeCancelledError, match="'a'"):
        way.invoke(builder.compile(checkpointer=saver), EMPTY, on("alone"))
    with pytest.raises(NodeCancelledError, match="'a'"):
        way.invoke(builder.add_edge(START, "b").compile(checkpointer=saver), EMPTY, on("abreast"))
