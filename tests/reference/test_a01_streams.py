"""Worked example A.1: START -> node_a -> node_b -> END: checkpoints, history, snapshot, every stream mode, the drawing."""

from __future__ import annotations

from typing import Any, TypedDict

import pytest

from perdure.checkpoint.saver import Saver
from perdure.graph import START, StateGraph
from tests.promises.ways import Way, on
from tests.reference.shapes import EMPTY, line, linear, lines, plain, pull

GIVEN: dict[str, Any] = {"foo": "x", "bar": []}
AFTER_A: dict[str, Any] = {"foo": "a", "bar": ["a"]}
AFTER_B: dict[str, Any] = {"foo": "b", "bar": ["a", "b"]}
UPDATE_A: dict[str, Any] = {"foo": "a", "bar": ["a"]}
UPDATE_B: dict[str, Any] = {"foo": "b", "bar": ["b"]}


def test_the_output_and_the_history(way: Way, saver: Saver) -> None:
    graph = linear(way, saver)
    assert way.invoke(graph, EMPTY, on("1")) == AFTER_B
    assert lines(way.history(graph, on("1"))) == [
        (2, "loop", AFTER_B, (), 3, 2, []),
        (1, "loop", AFTER_A, ("node_b",), 2, 1, []),
        pull("node_b", UPDATE_B),
        (0, "loop", EMPTY, ("node_a",), 1, 0, []),
        pull("node_a", UPDATE_A),
        (-1, "input", {"bar": []}, ("__start__",), 0, None, []),
        pull("__start__", EMPTY),
    ]


def test_the_live_snapshot(way: Way, saver: Saver) -> None:
    graph = linear(way, saver)
    way.invoke(graph, EMPTY, on("1"))
    state = way.state(graph, on("1"))
    assert line(state) == (2, "loop", AFTER_B, (), [])
    assert plain(state.config) == {"configurable": {"thread_id": "1", "checkpoint_ns": "", "checkpoint_id": "<0>"}}
    assert plain(state.parent_config) == plain(state.config)
    assert state.metadata == {"source": "loop", "step": 2, "parents": {}, "writes": {"node_b": UPDATE_B}}
    assert (plain(state.created_at), state.tasks, state.interrupts) == ("<time>", (), ())


def _config(thread: str, number: int) -> dict[str, Any]:
    return {"configurable": {"checkpoint_ns": "", "thread_id": thread, "checkpoint_id": f"<{number}>"}}


def _checkpoints(thread: str) -> list[dict[str, Any]]:
    """The payloads of mode `checkpoints`; its ids alternate with those of the tasks that come next."""

    def one(number: int, parent: int | None, values: Any, source: str, step: int, *following: str) -> dict[str, Any]:
        return {
            "config": _config(thread, number),
            "parent_config": None if parent is None else _config(thread, parent),
            "values": values,
            "metadata": {"source": source, "step": step, "parents": {}},
            "next": list(following),
            "tasks": [{"id": f"<{number + 1}>", "name": name, "interrupts": (), "state": None} for name in following],
        }

    return [
        one(0, None, {"bar": []}, "input", -1, "__start__"),
        one(2, 0, GIVEN, "loop", 0, "node_a"),
        one(4, 2, AFTER_A, "loop", 1, "node_b"),
        one(6, 4, AFTER_B, "loop", 2),
    ]


def _tasks(first: int, second: int) -> list[dict[str, Any]]:
    def start(number: int, name: str, given: Any) -> dict[str, Any]:
        return {"id": f"<{number}>", "name": name, "input": given, "triggers": (f"branch:to:{name}",)}

    def end(number: int, name: str, result: Any) -> dict[str, Any]:
        return {"id": f"<{number}>", "name": name, "error": None, "result": result, "interrupts": []}

    return [
        start(first, "node_a", GIVEN),
        end(first, "node_a", UPDATE_A),
        start(second, "node_b", AFTER_A),
        end(second, "node_b", UPDATE_B),
    ]


def _debug(thread: str) -> list[dict[str, Any]]:
    def one(step: int, kind: str, payload: dict[str, Any]) -> dict[str, Any]:
        return {"step": step, "timestamp": "<time>", "type": kind, "payload": payload}

    found = [one(payload["metadata"]["step"], "checkpoint", payload) for payload in _checkpoints(thread)]
    start_a, end_a, start_b, end_b = _tasks(3, 5)
    return [
        *found[:2],
        one(1, "task", start_a),
        one(1, "task_result", end_a),
        found[2],
        one(2, "task", start_b),
        one(2, "task_result", end_b),
        found[3],
    ]


STREAMS: dict[str, Any] = {
    "values": [GIVEN, AFTER_A, AFTER_B],
    "updates": [{"node_a": UPDATE_A}, {"node_b": UPDATE_B}],
    "checkpoints": _checkpoints("s"),
    "tasks": _tasks(0, 1),
    "debug": _debug("s"),
    "custom": [],
    "messages": [],
}


@pytest.mark.parametrize("mode", STREAMS)
def test_a_stream_of_each_mode(way: Way, saver: Saver, mode: str) -> None:
    assert plain(way.stream(linear(way, saver), GIVEN, on("s"), stream_mode=mode)) == STREAMS[mode]


def test_several_modes_at_once(way: Way, saver: Saver) -> None:
    assert way.stream(linear(way, saver), GIVEN, on("s"), stream_mode=["values", "updates"]) == [
        ("values", GIVEN),
        ("updates", {"node_a": UPDATE_A}),
        ("values", AFTER_A),
        ("updates", {"node_b": UPDATE_B}),
        ("values", AFTER_B),
    ]


def test_the_second_version_of_the_stream(way: Way, saver: Saver) -> None:
    assert way.stream(linear(way, saver), GIVEN, on("s"), stream_mode=["values", "updates"], version="v2") == [
        {"type": "values", "ns": (), "data": GIVEN, "interrupts": ()},
        {"type": "updates", "ns": (), "data": {"node_a": UPDATE_A}},
        {"type": "values", "ns": (), "data": AFTER_A, "interrupts": ()},
        {"type": "updates", "ns": (), "data": {"node_b": UPDATE_B}},
        {"type": "values", "ns": (), "data": AFTER_B, "interrupts": ()},
    ]


def test_the_default_mode_is_updates(way: Way, saver: Saver) -> None:
    assert way.stream(linear(way, saver), GIVEN, on("s")) == STREAMS["updates"]


def test_with_subgraphs_each_item_starts_with_its_namespace(way: Way, saver: Saver) -> None:
    graph = linear(way, saver)
    found = way.stream(graph, GIVEN, on("s"), stream_mode="updates", subgraphs=True)
    assert found == [((), update) for update in STREAMS["updates"]]
    found = way.stream(graph, GIVEN, on("t"), stream_mode=["updates"], subgraphs=True)
    assert found == [((), "updates", update) for update in STREAMS["updates"]]


def test_only_some_keys_are_shown(way: Way, saver: Saver) -> None:
    def shown(thread: str, **options: Any) -> list[Any]:
        return way.stream(linear(way, saver), GIVEN, on(thread), **options)

    assert shown("1", stream_mode="values", output_keys=["foo"]) == [{"foo": "x"}, {"foo": "a"}, {"foo": "b"}]
    assert shown("2", stream_mode="updates", output_keys=["foo"]) == [{"node_a": {"foo": "a"}}, {"node_b": {"foo": "b"}}]
    assert shown("3", stream_mode="values", output_keys="foo") == ["x", "a", "b"]
    assert shown("4", stream_mode="updates", output_keys="foo") == [{"node_a": "a"}, {"node_b": "b"}]
    assert way.invoke(linear(way, saver), GIVEN, on("5"), output_keys="foo") == "b"
    assert way.invoke(linear(way, saver), GIVEN, on("6"), output_keys=["foo"]) == {"foo": "b"}


class Given(TypedDict):
    x: int


class Result(TypedDict):
    y: int


class Both(Given, Result):
    private: int


def test_a_stream_shows_all_keys_and_the_output_those_of_its_schema(way: Way, saver: Saver) -> None:
    builder = StateGraph(Both, input_schema=Given, output_schema=Result)
    builder.add_node("n1", way.node(lambda state: {"private": state["x"] + 1}))
    builder.add_node("n2", way.node(lambda state: {"y": state["private"] + 1}))
    graph = builder.add_edge(START, "n1").add_edge("n1", "n2").compile(checkpointer=saver)
    states = [{"x": 1}, {"x": 1, "private": 2}, {"x": 1, "y": 3, "private": 2}]
    assert way.stream(graph, {"x": 1}, on("1"), stream_mode="values") == states
    assert way.stream(graph, {"x": 1}, on("2"), stream_mode="updates") == [{"n1": {"private": 2}}, {"n2": {"y": 3}}]
    assert way.invoke(graph, {"x": 1}, on("3")) == {"y": 3}
    assert way.invoke(graph, {"x": 1}, on("4"), stream_mode="updates") == [{"n1": None}, {"n2": {"y": 3}}]
    assert way.invoke(graph, {"x": 1}, on("5"), output_keys=["private"]) == {"private": 2}


MERMAID = """\
---
config:
  flowchart:
    curve: linear
---
graph TD;
	__start__([<p>__start__</p>]):::first
	node_a(node_a)
	node_b(node_b)
	__end__([<p>__end__</p>]):::last
	__start__ --> node_a;
	node_a --> node_b;
	node_b --> __end__;
	classDef default fill:#f2f0ff,line-height:1.2
	classDef first fill-opacity:0
	classDef last fill:#bfb6fc
"""


def test_the_mermaid_text() -> None:
    assert linear(Way("sync"), None).get_graph().draw_mermaid() == MERMAID
