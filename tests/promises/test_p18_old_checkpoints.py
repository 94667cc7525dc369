"""P18: any stored checkpoint can be read, replayed, resumed with an answer, edited, or forked; the old branch stays, byte for byte."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, TypedDict

import pytest

from perdure.channels.delta import DeltaChannel
from perdure.checkpoint.saver import Saver
from perdure.checkpoint.sqlite import SqliteSaver
from perdure.errors import InvalidConfig, UnknownCheckpoint, UnknownInterruptError
from perdure.graph import START, StateGraph, add_messages
from perdure.types import Command, Send, StateSnapshot
from tests.promises.travelling import Ran, Seen, around, branches_of, changed, in_a_row, reviewed, side_by_side, stored
from tests.promises.ways import Log, Way, on


class Rich(TypedDict, total=False):
    """Values of all kinds of storage: by element, large, small, by deltas."""

    log: Annotated[list[str], lambda left, right: left + right]
    messages: Annotated[list[Any], add_messages]
    deltas: Annotated[list[str], DeltaChannel(lambda state, writes: [*state, *(one for each in writes for one in each)])]
    text: str


def worked(way: Way, saver: Saver, ran: Ran) -> Any:
    """A finished thread with fan-out, Sends, a subgraph that asked, and several kinds of values."""

    def write(state: Any) -> Any:
        return {"log": ["write"], "messages": [("user", "hello " * 60)], "deltas": ["d"], "text": "long " * 200}

    builder: StateGraph[Any, Any, Any, Any] = StateGraph(Rich)
    builder.add_node("write", ran("write", write))
    builder.add_node("left", ran("left"))
    builder.add_node("work", ran("work", lambda given: {"log": [f"work{given}"], "deltas": [str(given)]}))
    builder.add_node("ask", in_a_row(Log, ("one", ran("one")), ("two", ran.asks("two"))).compile())
    builder.add_edge(START, "write")
    builder.add_edge("write", "left")
    builder.add_conditional_edges("write", lambda state: [Send("work", n) for n in range(2)], ["work"])
    builder.add_edge("left", "ask")
    graph = builder.compile(checkpointer=saver)
    way.invoke(graph, {"log": ["in"], "deltas": ["in"]}, on())
    way.invoke(graph, Command(resume="yes"), on())
    return graph


Journey = Callable[[Way, Any, StateSnapshot], Any]


def replay(way: Way, graph: Any, at: StateSnapshot) -> Any:
    return way.invoke(graph, None, at.config)


def answer(way: Way, graph: Any, at: StateSnapshot) -> Any:
    if not at.interrupts:
        with pytest.raises(UnknownInterruptError):
            way.invoke(graph, Command(resume="no"), at.config)
        return None
    return way.invoke(graph, Command(resume="no"), at.config)


def new_input(way: Way, graph: Any, at: StateSnapshot) -> Any:
    return way.invoke(graph, {"log": ["again"]}, at.config)


def edit(way: Way, graph: Any, at: StateSnapshot) -> Any:
    return way.edit(graph, at.config, {"log": ["edit"], "text": "short"}, as_node="left")


def edit_and_go_on(way: Way, graph: Any, at: StateSnapshot) -> Any:
    return way.invoke(graph, None, way.edit(graph, at.config, {"log": ["edit"], "deltas": ["edit"]}, as_node="write"))


def copy(way: Way, graph: Any, at: StateSnapshot) -> Any:
    return way.edit(graph, at.config, None, as_node="__copy__")


@pytest.mark.parametrize("journey", [replay, answer, new_input, edit, edit_and_go_on, copy])
def test_P18_whatever_is_done_at_an_old_checkpoint_no_stored_row_changes(way: Way, saver: Saver, journey: Journey):
    graph = worked(way, saver, Ran(way))
    seen = way.history(graph, on())
    rows = stored(saver)
    for at in seen[1:]:
        journey(way, graph, at)
        assert changed(rows, stored(saver)) == []
    again = {one.config["configurable"]["checkpoint_id"]: one for one in way.history(graph, on())}
    for one in seen:
        assert again[one.config["configurable"]["checkpoint_id"]] == one
        assert way.state(graph, one.config) == one


def test_P18_a_replay_runs_what_comes_after_and_nothing_else(way: Way, saver: Saver):
    ran = Ran(way)
    graph = worked(way, saver, ran)
    at = next(one for one in way.history(graph, on()) if set(one.next) == {"work", "left"})
    ran.take()
    out = way.invoke(graph, None, at.config)
    assert sorted(ran.take()) == ["left", "one", "two", "work", "work"]
    assert out["__interrupt__"]
    done = way.invoke(graph, Command(resume="other"), on())
    assert done["log"] == ["in", "write", "left", "work0", "work1", "in", "write", "left", "work0", "work1", "one", "other"]
    assert done["deltas"] == ["in", "d", "0", "1"]
    assert ran.take() == ["two"]


def test_P18_the_tip_is_resumed_and_an_older_id_is_replayed(way: Way, saver: Saver):
    ran = Ran(way)
    fails = [True]

    def bad(_: Any) -> Any:
        if fails:
            raise ConnectionError
        return {"log": ["bad"]}

    graph = in_a_row(Log, ("good", ran("good")), ("bad", ran("bad", bad))).compile(checkpointer=saver)
    with pytest.raises(ConnectionError):
        way.invoke(graph, {"log": []}, on())
    tip = way.state(graph, on())
    fails.clear()
    assert way.invoke(graph, None, tip.config) == {"log": ["good", "bad"]}
    assert [one.metadata["source"] for one in way.history(graph, on())] == ["loop", "loop", "loop", "input"]
    assert way.invoke(graph, None, tip.config) == {"log": ["good", "bad"]}
    assert [one.metadata["source"] for one in way.history(graph, on())] == ["loop", "fork", "loop", "loop", "loop", "input"]
    assert ran.names == ["good", "bad", "bad", "bad"]
    assert len(branches_of(way, graph)) == 2


def test_P18_forks_of_forks(way: Way, saver: Saver):
    graph = in_a_row(Seen, *((name, way.node(lambda _, name=name: {"seen": [name]})) for name in "abc")).compile(
        checkpointer=saver
    )
    way.invoke(graph, {"seen": []}, on())
    at = next(one for one in way.history(graph, on()) if one.next == ("c",))
    for depth in range(1, 4):
        edited = way.edit(graph, at.config, {"seen": [depth]}, as_node="a")
        at = way.state(graph, edited)
        assert at.next == ("b",)
        assert way.invoke(graph, None, edited)["seen"] == ["a", "b", *range(1, depth + 1), "b", "c"]
        at = next(one for one in way.history(graph, on()) if one.values["seen"] == ["a", "b", *range(1, depth + 1)])
    assert len(branches_of(way, graph)) == 4


def test_P18_an_edit_after_a_replay_is_made_in_the_name_of_the_node_that_ran_last(way: Way, saver: Saver):
    ran = Ran(way)
    graph = in_a_row(Log, ("a", ran("a")), ("b", ran("b")), ("c", ran.asks("c"))).compile(checkpointer=saver)
    way.invoke(graph, {"log": []}, on())
    way.invoke(graph, Command(resume="one"), on())
    at = next(one for one in way.history(graph, on()) if one.next == ("c",))
    way.invoke(graph, None, at.config)
    edited = way.edit(graph, on(), {"log": ["edit"]})
    assert way.state(graph, edited).metadata["writes"] == {"b": {"log": ["edit"]}}
    assert way.state(graph, on()).next == ("c",)
    assert way.invoke(graph, Command(resume="two"), on())["log"] == ["a", "b", "edit", "two"]


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_P18_an_edit_of_a_finished_thread_starts_nothing_whatever_the_durability(way: Way, saver: Saver, durability: Any):
    ran = Ran(way)
    graph = in_a_row(Log, ("a", ran("a")), ("b", ran("b"))).compile(checkpointer=saver)
    way.invoke(graph, {"log": []}, on(), durability=durability)
    way.edit(graph, on(), {"log": ["edit"]})
    assert way.state(graph, on()).next == ()
    assert way.state(graph, on()).values == {"log": ["a", "b", "edit"]}


def test_P18_a_checkpoint_inside_a_subgraph_is_as_well_kept(way: Way, saver: Saver):
    ran = Ran(way)
    graph = around(reviewed(ran), saver, levels=2)
    way.invoke(graph, {"log": []}, on())
    tip = way.state(graph, on(), subgraphs=True)
    space = tip.tasks[0].state.tasks[0].state.config["configurable"]["checkpoint_ns"]
    inside = way.history(graph, on(checkpoint_ns=space))
    rows = stored(saver)
    for at in inside:
        way.invoke(graph, None, at.config)
        way.invoke(graph, None, way.edit(graph, at.config, {"log": ["edit"]}, as_node="a"))
    way.invoke(graph, Command(resume="yes"), inside[0].config)
    differs = changed(rows, stored(saver))
    assert {key[0] for key in differs} <= {"child", "write"}, "at the tip itself it was resumed: its task asked again"
    assert way.state(graph, tip.config, subgraphs=True).values == tip.values
    assert way.history(graph, on(checkpoint_ns=space))[-len(inside) :] == inside


def test_P18_what_an_id_does_not_name_is_an_error(way: Way, saver: Saver):
    graph = around(reviewed(Ran(way)), saver)
    way.invoke(graph, {"log": []}, on())
    space = way.state(graph, on()).tasks[0].state["configurable"]["checkpoint_ns"]
    root = way.state(graph, on()).config["configurable"]["checkpoint_id"]
    for config in (on(checkpoint_ns=space, checkpoint_id=root), on(checkpoint_ns="sub:no", checkpoint_id=root)):
        with pytest.raises(UnknownCheckpoint):
            way.invoke(graph, None, config)
        with pytest.raises(UnknownCheckpoint):
            way.edit(graph, config, {"log": ["x"]})


def elsewhere(way: Way, graph: Any, config: Any) -> list[Callable[[], Any]]:
    """All calls that a checkpoint is addressed with."""
    return [
        lambda: way.state(graph, config),
        lambda: way.state(graph, config, subgraphs=True),
        lambda: way.history(graph, config),
        lambda: way.history(graph, on(), before=config),
        lambda: way.invoke(graph, None, config),
        lambda: way.invoke(graph, {"log": []}, config),
        lambda: way.invoke(graph, Command(resume="yes"), config),
        lambda: way.invoke(graph, Command(update={"log": ["x"]}), config),
        lambda: way.edit(graph, config, {"log": ["x"]}),
        lambda: way.edit(graph, config, None, as_node="__copy__"),
        lambda: way._do(graph, "get_children", config),
        lambda: way._do(graph, "diff", config, on()),
        lambda: way._do(graph, "diff", on(), config),
        lambda: way._do(graph, "name_branch", config, "name"),
    ]


def test_P18_a_checkpoint_of_another_thread_is_none_of_this_one(way: Way, saver: Saver):
    graph = in_a_row(Log, ("a", Ran(way)("a")), ("ask", Ran(way).asks("ask"))).compile(checkpointer=saver)
    for thread in ("t", "other"):
        way.invoke(graph, {"log": []}, on(thread))
    rows = stored(saver)
    for at in way.history(graph, on("other")):
        for call in elsewhere(way, graph, on(checkpoint_id=at.config["configurable"]["checkpoint_id"])):
            with pytest.raises(UnknownCheckpoint):
                call()
    assert stored(saver) == rows


def test_P18_P39_the_id_of_a_checkpoint_is_text(way: Way, saver: Saver):
    """A number would be taken for one of those by which the rows are filed."""
    graph = in_a_row(Log, ("a", Ran(way)("a"))).compile(checkpointer=saver)
    way.invoke(graph, {"log": []}, on())
    rows = stored(saver)
    for wrong in (1, 1.5, b"x", ["x"], object()):
        for call in (
            *elsewhere(way, graph, on(checkpoint_id=wrong)),
            lambda wrong=wrong: way._do(saver, "get_tuple", on(checkpoint_id=wrong)),
            lambda wrong=wrong: way._do(saver, "get_tuple", on(checkpoint_ns=wrong)),
            lambda wrong=wrong: list(saver.list(on(checkpoint_id=wrong))),
            lambda wrong=wrong: list(saver.list(on(checkpoint_ns=wrong))),
            lambda wrong=wrong: list(saver.list(on(), before=on(checkpoint_id=wrong))),
            lambda wrong=wrong: way.put_writes(saver, on(checkpoint_ns="", checkpoint_id=wrong), [("log", ["x"])], "task"),
            lambda wrong=wrong: way._do(saver, "pin", on(checkpoint_id=wrong), "name"),
        ):
            with pytest.raises(InvalidConfig, match="must be text"):
                call()
    assert stored(saver) == rows
    none = on(checkpoint_id="")
    assert way.state(graph, none).values == way.state(graph, on(checkpoint_id=None)).values == {"log": ["a"]}


@pytest.mark.parametrize("kind", ["plain", "messages", "deltas"])
def test_S11_an_edit_may_be_the_first_act_on_a_thread_and_is_there_after_a_reload(
    way: Way, saver: Saver, kind: str, tmp_path: Any
):
    key = {"plain": "log", "messages": "messages", "deltas": "deltas"}[kind]
    graph = side_by_side(Rich, a=way.node(lambda _: {"deltas": ["a"]})).compile(checkpointer=saver)
    way.edit(graph, on(), {key: [("user", "first")] if kind == "messages" else ["first"]})
    live = way.state(graph, on()).values[key]
    if isinstance(saver, SqliteSaver):
        with SqliteSaver(tmp_path / "promises.db") as other:
            again = way.state(side_by_side(Rich, a=lambda _: None).compile(checkpointer=other), on())
            assert again.values[key] == live
    assert [getattr(one, "content", one) for one in live] == ["first"]
    assert way.state(graph, on()).next == ("a",)
    assert way.invoke(graph, None, on())["deltas"] == (["first", "a"] if kind == "deltas" else ["a"])
