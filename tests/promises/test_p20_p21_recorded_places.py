"""P20, P21: a subgraph is read at the place where it was recorded, whatever its parent did since; called together, each has its own."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.checkpoint.saver import Saver
from perdure.checkpoint.sqlite import SqliteSaver
from perdure.errors import UnknownCheckpoint
from perdure.types import Command, interrupt
from tests.promises.travelling import Number, Ran, Seen, around, branches_of, innermost, reviewed, side_by_side
from tests.promises.ways import Log, Way, at_once, on

MEMORIES = pytest.mark.parametrize("memory", [None, True])


@MEMORIES
@pytest.mark.parametrize("levels", [1, 2])
def test_P20_a_recorded_place_is_read_the_same_after_the_parent_went_elsewhere(
    way: Way, saver: Saver, levels: int, memory: Any, tmp_path: Any
):
    """After forks of forks of the parent, new turns, edits, and in another process."""
    graph = around(reviewed(Ran(way), checkpointer=memory), saver, levels=levels, checkpointer=memory)
    way.invoke(graph, {"log": []}, on())
    first = way.state(graph, on())
    here = innermost(way, graph)
    place = on(checkpoint_ns=here.config["configurable"]["checkpoint_ns"])
    at = first.config
    for depth in range(3):
        way.invoke(graph, None, way.edit(graph, at, {"note": f"fork {depth}"}))
        at = way.state(graph, on()).config
    way.invoke(graph, Command(resume="yes"), on())
    way.invoke(graph, {"log": ["again"]}, on())
    assert len(branches_of(way, graph)) == 1, "an edit of the unfinished tip goes on from it"
    inside = way.history(graph, place)
    by_id = [way.state(graph, one.config) for one in inside]
    for depth in range(3):
        at = way.edit(graph, first.config, {"note": f"other {depth}"})
        way.invoke(graph, None, at)
        at = way.edit(graph, at, {"note": "deeper"}, as_node="__start__")
        way.invoke(graph, None, at)
    assert [way.state(graph, one.config) for one in inside] == by_id
    kept = [one for one in way.history(graph, place) if one.config in [each.config for each in inside]]
    assert [(one.values, one.next, one.config, one.parent_config) for one in kept] == [
        (one.values, one.next, one.config, one.parent_config) for one in inside
    ]
    if isinstance(saver, SqliteSaver):
        with SqliteSaver(tmp_path / "promises.db") as again:
            other = around(reviewed(Ran(way), checkpointer=memory), again, levels=levels, checkpointer=memory)
            assert [way.state(other, one.config) for one in inside] == by_id


def test_P20_the_place_of_a_child_is_of_one_branch(way: Way, saver: Saver):
    """Without an id, its namespace is read as it is there; the branches have namespaces of their own."""
    graph = around(reviewed(Ran(way)), saver)
    way.invoke(graph, {"log": []}, on())
    before = innermost(way, graph).config["configurable"]["checkpoint_ns"]
    way.invoke(graph, None, way.history(graph, on())[-1].config)
    after = innermost(way, graph).config["configurable"]["checkpoint_ns"]
    assert before != after
    way.edit(graph, on(checkpoint_ns=after), {"log": ["edit"]})
    assert way.state(graph, on(checkpoint_ns=after)).values == {"log": ["a", "b", "c", "edit"]}
    assert way.state(graph, on(checkpoint_ns=before)).values == {"log": ["a", "b", "c"]}
    one_of_before = way.state(graph, on(checkpoint_ns=before)).config["configurable"]["checkpoint_id"]
    for call in (way.state, way.history):
        with pytest.raises(UnknownCheckpoint):
            call(graph, on(checkpoint_ns=after, checkpoint_id=one_of_before))


def together(*graphs: Any, inputs: list[Any]) -> Any:
    """A node that calls graphs at the same time."""

    async def node(_: Any) -> Any:
        found = await at_once(*(graph.ainvoke(given) for graph, given in zip(graphs, inputs, strict=True)))
        return {"seen": [next(iter(one.values())) for one in found]}

    return node


def test_P21_one_graph_called_twice_at_once_has_two_memories(way: Way, saver: Saver):
    inner = side_by_side(Number, inc=way.node(lambda _: {"n": 1})).compile(checkpointer=True)
    graph = side_by_side(Seen, call=together(inner, inner, inputs=[{"n": 0}, {"n": 10}])).compile(checkpointer=saver)
    for turn in range(1, 4):
        out = way.invoke(graph, {"seen": []}, on())
        assert out["seen"][-2:] == [turn, 11 * turn]
    ends = [one for one in reversed(way.history(graph, on())) if not one.next]
    assert way.invoke(graph, {"seen": []}, ends[0].config)["seen"] == [1, 11, 2, 22]
    assert [way.state(graph, on(checkpoint_ns=name)).values["n"] for name in ("call", "call|1")] == [2, 22]
    assert way.invoke(graph, None, ends[1].parent_config)["seen"] == [1, 11, 2, 22], "and so does a replay"


def test_P21_P12_called_twice_at_once_both_ask_and_remember(way: Way, saver: Saver):
    inner = side_by_side(Log, ask=way.node(lambda state: {"log": [interrupt(len(state["log"]))]})).compile(checkpointer=True)
    node = together(inner, inner, inputs=[{"log": ["x"]}, {"log": ["y", "y"]}])
    graph = side_by_side(Seen, call=node).compile(checkpointer=saver)
    for asked, expected in (
        ((1, 2), [["x", "A"], ["y", "y", "B"]]),
        ((3, 5), [["x", "A", "x", "A"], ["y", "y", "B", "y", "y", "B"]]),
    ):
        pauses = {pause.value: pause.id for pause in way.invoke(graph, {"seen": []}, on())["__interrupt__"]}
        assert tuple(sorted(pauses)) == asked
        left = way.invoke(graph, Command(resume={pauses[asked[1]]: "B"}), on())["__interrupt__"]
        assert [pause.id for pause in left] == [pauses[asked[0]]]
        assert way.invoke(graph, Command(resume="A"), on())["seen"][-2:] == expected


@pytest.mark.parametrize("checkpointer", [None, True])
def test_P20_one_of_two_calls_at_once_is_gone_back_into(way: Way, saver: Saver, checkpointer: Any):
    ran = Ran(way)
    inner = reviewed(ran, checkpointer=checkpointer)
    graph = side_by_side(Seen, call=together(inner, inner, inputs=[{"log": ["0"]}, {"log": ["1"]}])).compile(checkpointer=saver)
    way.invoke(graph, {"seen": []}, on())
    spaces = sorted({each.config["configurable"]["checkpoint_ns"] for each in saver.list(on())} - {""})
    assert [way.state(graph, on(checkpoint_ns=space)).values["log"][0] for space in spaces] == ["0", "1"]
    at = next(one for one in way.history(graph, on(checkpoint_ns=spaces[1])) if one.next == ("c",))
    ran.take()
    out = way.invoke(graph, None, at.config)
    assert [name for name in ran.take() if name != "review"] == ["c"]
    while "__interrupt__" in out:
        out = way.invoke(graph, Command(resume={pause.id: "r" for pause in out["__interrupt__"]}), on())
    assert out["seen"] == [["0", "a", "b", "c", "r"], ["1", "a", "b", "c", "r"]]
