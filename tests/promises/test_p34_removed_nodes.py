"""P34: a node that a thread waits at was removed: the question is still there, nothing runs past it unnoticed, and there are ways out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from perdure.checkpoint.saver import Saver
from perdure.errors import InvalidGraph, MissingNode, UnknownNode
from perdure.graph import END, START, StateGraph
from perdure.types import Command, Send, StateUpdate
from tests.promises.travelling import Ran, changed, in_a_row, side_by_side, stored
from tests.promises.ways import Log, Way, on, status_of


def with_node(way: Way, ran: Ran) -> StateGraph[Any, Any, Any, Any]:
    return in_a_row(Log, ("a", ran("a")), ("gone", ran.asks("gone")), ("z", ran("z")))


def without_node(way: Way, ran: Ran) -> StateGraph[Any, Any, Any, Any]:
    return in_a_row(Log, ("a", ran("a")), ("z", ran("z")))


def as_a_send(way: Way, ran: Ran, *, gone: bool = False) -> StateGraph[Any, Any, Any, Any]:
    """Three Sends to the node, and `done` beside them."""
    builder = side_by_side(Log, done=ran("done"))
    if not gone:
        builder.add_node("gone", ran.asks("gone"))
        builder.add_conditional_edges(START, lambda _: [Send("gone", {"log": []}) for _ in range(3)], ["gone"])
    return builder


WAYS_OUT: dict[str, tuple[Callable[[Way, Any], Any], list[str]]] = {
    "new input": (lambda way, graph: way.invoke(graph, {"log": ["new"]}, on()), ["a", "new", "a", "z"]),
    "the end": (lambda way, graph: way.edit(graph, on(), None, as_node=END), ["a"]),
    "the end, and on from another node": (
        lambda way, graph: way._do(
            graph, "bulk_update_state", on(), [[StateUpdate(None, END)], [StateUpdate({"log": ["by hand"]}, "a")]]
        ),
        ["a", "by hand", "z"],
    ),
    "an input as an edit": (
        lambda way, graph: way.edit(graph, on(), {"log": ["new"]}, as_node="__input__"),
        ["a", "new", "a", "z"],
    ),
    "a checkpoint before it": (
        lambda way, graph: way.edit(graph, way.history(graph, on())[-2].config, {"log": ["other"]}, as_node="a"),
        ["other", "z"],
    ),
}


@pytest.mark.parametrize("out", WAYS_OUT)
def test_P34_a_thread_whose_node_was_removed_says_so_and_may_go_on_elsewhere(way: Way, saver: Saver, out: str):
    ran = Ran(way)
    (asked,) = way.invoke(with_node(way, ran).compile(checkpointer=saver), {"log": []}, on())["__interrupt__"]
    graph = without_node(way, ran).compile(checkpointer=saver)
    rows = stored(saver)
    for given in (
        None,
        Command(resume="yes"),
        Command(resume={asked.id: "yes"}),
        Command(goto="z"),
        Command(update={"log": []}),
    ):
        with pytest.raises(MissingNode, match="as_node=END") as caught:
            way.invoke(graph, given, on())
        assert caught.value.node == "gone"
    assert stored(saver) == rows
    state = way.state(graph, on())
    assert (state.next, state.tasks[0].status, state.interrupts) == (("gone",), "missing", (asked,))
    assert [one.interrupt for one in way._do(saver, "list_interrupts").items] == [asked]
    assert [one.next for one in way.history(graph, on())] == [("gone",), ("a",), (START,)]
    assert status_of(saver) == ("interrupted", True)

    go, log = WAYS_OUT[out]
    go(way, graph)
    assert way.invoke(graph, None, on())["log"] == log
    assert status_of(saver) == ("idle", True)
    assert changed(rows, stored(saver)) == []
    assert way.state(graph, state.config).interrupts == (asked,), "the old branch still waits"


def test_P34_an_edit_beside_it_does_not_lose_it(way: Way, saver: Saver):
    ran = Ran(way)
    way.invoke(with_node(way, ran).compile(checkpointer=saver), {"log": []}, on())
    graph = without_node(way, ran).compile(checkpointer=saver)
    for name in ("z", "a", None):
        way.edit(graph, on(), {"log": ["edit"]}, as_node=name)
        assert "gone" in way.state(graph, on()).next
        with pytest.raises(MissingNode):
            way.invoke(graph, None, on())
    again = with_node(way, ran).compile(checkpointer=saver)
    assert way.invoke(again, Command(resume="yes"), on())["log"][:5] == ["a", "edit", "edit", "edit", "yes"]


def test_P34_removed_sends_are_cleared_and_results_beside_them_kept(way: Way, saver: Saver):
    ran = Ran(way)
    way.invoke(as_a_send(way, ran).compile(checkpointer=saver), {"log": []}, on())
    graph = as_a_send(way, ran, gone=True).compile(checkpointer=saver)
    with pytest.raises(MissingNode):
        way.invoke(graph, None, on())
    assert len(way.state(graph, on()).interrupts) == 3
    way.edit(graph, on(), None, as_node=END)
    assert (way.state(graph, on()).values, way.state(graph, on()).next) == ({"log": ["done"]}, ())


def test_P34_a_result_of_a_removed_node_is_not_dropped_unnoticed(way: Way, saver: Saver):
    ran = Ran(way)
    builder = side_by_side(Log, gone=ran("gone"), ask=ran.asks("ask"))
    way.invoke(builder.compile(checkpointer=saver), {"log": []}, on())
    graph = side_by_side(Log, ask=ran.asks("ask")).compile(checkpointer=saver)
    for call in (lambda: way.invoke(graph, Command(resume="yes"), on()), lambda: way.edit(graph, on(), None, as_node=END)):
        with pytest.raises(MissingNode):
            call()
    mended = side_by_side(Log, ask=ran.asks("ask"), kept=ran("kept")).compile(checkpointer=saver, aliases={"gone": "kept"})
    assert sorted(way.invoke(mended, Command(resume="yes"), on())["log"]) == ["gone", "yes"]
    assert ran.times["kept"] == 0


@pytest.mark.parametrize(
    ("aliases", "error", "says"),
    [
        ({"old": "nowhere"}, UnknownNode, "'nowhere'"),
        ({"old": "older", "older": "a"}, UnknownNode, "'older'"),
        ({"old": END}, UnknownNode, "__end__"),
        ({"old": START}, UnknownNode, "__start__"),
        ({"old": 5}, UnknownNode, "5"),
        ({"a": "z"}, InvalidGraph, "a node of that name exists"),
        ({5: "a"}, InvalidGraph, "must be a dict"),
        ([("old", "a")], InvalidGraph, "must be a dict"),
        ("old", InvalidGraph, "must be a dict"),
    ],
)
def test_P34_P50_aliases_that_cannot_be_meant_are_refused(way: Way, aliases: Any, error: type[BaseException], says: str):
    with pytest.raises(error, match=says):
        without_node(way, Ran(way)).compile(aliases=aliases)


def test_P34_two_old_names_may_have_one_new_one(way: Way, saver: Saver):
    ran = Ran(way)
    for name in ("one", "two"):
        way.invoke(in_a_row(Log, (name, ran.asks(name))).compile(checkpointer=saver), {"log": []}, on(name))
    graph = in_a_row(Log, ("both", ran.asks("both"))).compile(checkpointer=saver, aliases={"one": "both", "two": "both"})
    for name in ("one", "two"):
        assert way.invoke(graph, Command(resume=name), on(name)) == {"log": [name]}
