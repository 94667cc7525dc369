"""Worked example A.8: Command(update, goto=[Send, Send])."""

from __future__ import annotations

from typing import Any

from perdure.checkpoint.saver import Saver
from perdure.graph import START, StateGraph
from perdure.types import Send
from tests.promises.ways import Way, on
from tests.reference.shapes import EMPTY, State, fan, lines, plain, pull, push

DONE: dict[str, Any] = {"foo": "f", "bar": ["w0", "w1"]}
SENT: dict[str, Any] = {"foo": "f", "bar": []}


def test_the_output_and_the_history(way: Way, saver: Saver) -> None:
    graph = fan(way, saver)
    assert way.invoke(graph, EMPTY, on("1")) == DONE
    assert lines(way.history(graph, on("1"))) == [
        (2, "loop", DONE, (), 3, 2, []),
        (1, "loop", SENT, ("w", "w"), 2, 1, []),
        push("w", 0, {"bar": ["w0"]}),
        push("w", 1, {"bar": ["w1"]}),
        (0, "loop", EMPTY, ("fan",), 1, 0, []),
        pull("fan", {"foo": "f"}),
        (-1, "input", {"bar": []}, ("__start__",), 0, None, []),
        pull("__start__", EMPTY),
    ]


def test_the_streams(way: Way, saver: Saver) -> None:
    found = way.stream(fan(way, saver), EMPTY, on("1"), stream_mode=["values", "updates"])
    assert [payload for mode, payload in found if mode == "values"] == [EMPTY, SENT, DONE]
    first, *of_w = [payload for mode, payload in found if mode == "updates"]
    assert first == {"fan": {"foo": "f"}}
    assert sorted(of_w, key=repr) == [{"w": {"bar": ["w0"]}}, {"w": {"bar": ["w1"]}}]


def test_the_tasks(way: Way, saver: Saver) -> None:
    found = plain(way.stream(fan(way, saver), EMPTY, on("1"), stream_mode="tasks"))
    assert found[:4] == [
        {"id": "<0>", "name": "fan", "input": EMPTY, "triggers": ("branch:to:fan",)},
        {"id": "<0>", "name": "fan", "error": None, "result": {"foo": "f"}, "interrupts": []},
        {"id": "<1>", "name": "w", "input": {"i": 0}, "triggers": ("__pregel_push",)},
        {"id": "<2>", "name": "w", "input": {"i": 1}, "triggers": ("__pregel_push",)},
    ]
    assert sorted(found[4:], key=repr) == [
        {"id": "<1>", "name": "w", "error": None, "result": {"bar": ["w0"]}, "interrupts": []},
        {"id": "<2>", "name": "w", "error": None, "result": {"bar": ["w1"]}, "interrupts": []},
    ]


def test_the_checkpoints(way: Way, saver: Saver) -> None:
    found = plain(way.stream(fan(way, saver), EMPTY, on("1"), stream_mode="checkpoints"))
    assert [(one["values"], one["next"], len(one["tasks"])) for one in found] == [
        ({"bar": []}, ["__start__"], 1),
        (EMPTY, ["fan"], 1),
        (SENT, ["w", "w"], 2),
        (DONE, [], 0),
    ]


def test_a_node_may_return_a_send_as_it_is(way: Way, saver: Saver) -> None:
    builder = StateGraph(State).add_node("fan", way.node(lambda _: Send("w", {"i": 7})))
    builder.add_node("w", way.node(lambda arg: {"bar": [f"w{arg['i']}"]}))
    graph = builder.add_edge(START, "fan").compile(checkpointer=saver)
    assert way.invoke(graph, EMPTY, on("1")) == {"foo": "", "bar": ["w7"]}
