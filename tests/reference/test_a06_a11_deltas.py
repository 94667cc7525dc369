"""Worked examples A.6 and A.11: a DeltaChannel over two invocations, in the durabilities; the values, not how they are stored."""

from __future__ import annotations

from typing import Annotated, Any, TypedDict

import pytest

from perdure.channels.delta import DeltaChannel
from perdure.checkpoint.saver import Saver
from perdure.checkpoint.sqlite import SqliteSaver
from perdure.graph import START, StateGraph
from tests.promises.ways import Way, on


def extended(state: list[str], writes: list[list[str]]) -> list[str]:
    return [*state, *(one for written in writes for one in written)]


class Often(TypedDict, total=False):
    foo: str
    log: Annotated[list[str], DeltaChannel(extended, snapshot_frequency=3)]


class Seldom(TypedDict, total=False):
    foo: str
    log: Annotated[list[str], DeltaChannel(extended)]


def two_nodes(way: Way, saver: Saver, state: Any) -> Any:
    builder: StateGraph[Any, Any, Any, Any] = StateGraph(state)
    builder.add_node("a", way.node(lambda _: {"log": ["a"]}))
    builder.add_node("b", way.node(lambda _: {"log": ["b"], "foo": "x"}))
    builder.add_edge(START, "a").add_edge("a", "b")
    return builder.compile(checkpointer=saver)


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
@pytest.mark.parametrize("state", [Often, Seldom])
def test_two_invocations(way: Way, saver: Saver, state: Any, durability: Any, tmp_path: Any) -> None:
    graph = two_nodes(way, saver, state)
    first = way.invoke(graph, {"log": ["in0"]}, on("1"), durability=durability)
    assert first == {"foo": "x", "log": ["in0", "a", "b"]}
    second = way.invoke(graph, {"log": ["in1"]}, on("1"), durability=durability)
    assert second == {"foo": "x", "log": ["in0", "a", "b", "in1", "a", "b"]}
    assert way.state(graph, on("1")).values == second
    history = [(one.metadata["source"], one.metadata["step"], one.values) for one in way.history(graph, on("1"))]
    ends = [("loop", 6, second), ("loop", 2, first)]
    if durability == "exit":
        assert history == ends
    else:
        log = ["in0", "a", "b", "in1", "a", "b"]
        assert history == [
            ends[0],
            ("loop", 5, {"foo": "x", "log": log[:5]}),
            ("loop", 4, {"foo": "x", "log": log[:4]}),
            ("input", 3, {"foo": "x", "log": log[:3]}),
            ends[1],
            ("loop", 1, {"log": log[:2]}),
            ("loop", 0, {"log": log[:1]}),
            ("input", -1, {"log": []}),
        ]
    if isinstance(saver, SqliteSaver):
        with SqliteSaver(tmp_path / "promises.db") as again:
            assert way.state(two_nodes(way, again, state), on("1")).values == second


@pytest.mark.parametrize("state", [Often, Seldom])
def test_branches_have_their_own(way: Way, saver: Saver, state: Any) -> None:
    graph = two_nodes(way, saver, state)
    way.invoke(graph, {"log": ["in0"]}, on("1"))
    before = {one.next: one for one in way.history(graph, on("1"))}
    assert way.invoke(graph, None, before["b",].config)["log"] == ["in0", "a", "b"]
    assert way.invoke(graph, {"log": ["other"]}, before["b",].config)["log"] == ["in0", "a", "other", "a", "b"]
    edited = way.edit(graph, before["b",].config, {"log": ["edit"]})
    assert way.invoke(graph, None, edited)["log"] == ["in0", "a", "edit", "b"]
    assert way.state(graph, before[()].config).values["log"] == ["in0", "a", "b"]
