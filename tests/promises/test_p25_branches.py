"""P25: branches can be named; history gives parents and children; `diff` tells which keys changed and how."""

from __future__ import annotations

import operator
from typing import Annotated, Any, TypedDict

import pytest

from perdure.checkpoint.saver import Saver
from perdure.checkpoint.sqlite import SqliteSaver
from perdure.errors import (
    InvalidConfig,
    SelfBusy,
    ThreadBusy,
    ThreadDeleted,
    UnknownBranch,
    UnknownCheckpoint,
    UnknownInterruptError,
)
from perdure.types import Command, interrupt
from tests.promises.travelling import Number, Ran, changed, in_a_row, innermost, reviewed, side_by_side, stored
from tests.promises.ways import Config, Log, Way, on


def named(way: Way, graph: Any, config: Config, name: str, **options: Any) -> Config:
    return way._do(graph, "name_branch", config, name, **options)  # type: ignore[no-any-return]


def branches(way: Way, graph: Any) -> dict[str, str]:
    found = way._do(graph, "branches", on())
    return {name: config["configurable"]["checkpoint_id"] for name, config in found.items()}


def id_of(config: Any) -> str:
    return str(config["configurable"]["checkpoint_id"])


def letters(way: Way, saver: Saver, ran: Ran | None = None) -> Any:
    ran = ran or Ran(way)
    return in_a_row(Log, *((name, ran(name)) for name in "ab")).compile(checkpointer=saver)


# ------------------------------------------------------------------------------------------------------------------------ names


def test_P25_a_name_moves_with_the_runs_and_edits_that_are_addressed_by_it(way: Way, saver: Saver):
    graph = letters(way, saver)
    way.invoke(graph, {"log": ["0"]}, on())
    main = named(way, graph, on(), "main")
    draft = named(way, graph, main, "draft")
    assert main == {"configurable": {"thread_id": "t", "branch": "main"}}
    for turn in ("1", "2"):
        assert way.invoke(graph, {"log": [f"m{turn}"]}, main)["log"][-3:] == [f"m{turn}", "a", "b"]
        assert way.invoke(graph, {"log": [f"d{turn}"]}, draft)["log"][-3:] == [f"d{turn}", "a", "b"]
    way.edit(graph, draft, {"log": ["edit"]})
    assert way.state(graph, main).values["log"] == ["0", "a", "b", "m1", "a", "b", "m2", "a", "b"]
    assert way.state(graph, draft).values["log"] == ["0", "a", "b", "d1", "a", "b", "d2", "a", "b", "edit"]
    assert way.state(graph, on()).values == way.state(graph, draft).values, "the thread is where it ran last"
    assert branches(way, graph) == {
        "draft": id_of(way.state(graph, draft).config),
        "main": id_of(way.state(graph, main).config),
    }


def test_P25_other_runs_leave_a_name_where_it_is(way: Way, saver: Saver):
    graph = letters(way, saver)
    way.invoke(graph, {"log": ["0"]}, on())
    mark = named(way, graph, on(), "mark")
    at = branches(way, graph)["mark"]
    way.invoke(graph, {"log": ["1"]}, on())
    way.edit(graph, on(), {"log": ["edit"]})
    assert branches(way, graph) == {"mark": at}
    assert way.state(graph, mark).values["log"] == ["0", "a", "b"]


def test_P25_an_old_checkpoint_with_a_name_is_replayed_not_resumed(way: Way, saver: Saver):
    """What its tasks did there belongs to the branch that went on from it."""
    ran = Ran(way)
    graph = letters(way, saver, ran)
    way.invoke(graph, {"log": []}, on())
    old = next(one for one in way.history(graph, on()) if one.next == ("b",))
    again = named(way, graph, old.config, "again")
    ran.take()
    rows = stored(saver)
    assert way.invoke(graph, None, again) == {"log": ["a", "b"]}
    assert ran.take() == ["b"]
    assert changed(rows, stored(saver)) == []
    assert branches(way, graph)["again"] == id_of(way.state(graph, on()).config)
    assert [one.metadata["source"] for one in way.history(graph, again)] == ["loop", "fork", "loop", "loop", "input"]


def test_P25_the_unfinished_tip_of_a_branch_is_resumed_wherever_the_thread_is(way: Way, saver: Saver):
    ran = Ran(way)
    graph = in_a_row(Log, ("a", ran("a")), ("ask", ran.asks("ask"))).compile(checkpointer=saver)
    way.invoke(graph, {"log": []}, on())
    one = named(way, graph, on(), "one")
    start = way.history(graph, on())[-2]
    two = named(way, graph, start.config, "two")
    way.invoke(graph, None, two)
    asked = {name: way.state(graph, config).interrupts[0].id for name, config in (("one", one), ("two", two))}
    assert asked["one"] != asked["two"]
    way.edit(graph, one, {"log": ["edit"]})
    assert way.state(graph, one).interrupts[0].id == asked["one"], "an edit keeps the question"
    ran.take()
    with pytest.raises(UnknownInterruptError):
        way.invoke(graph, Command(resume={asked["one"]: "x"}), two)
    assert way.invoke(graph, Command(resume={asked["two"]: "two"}), two) == {"log": ["a", "two"]}
    assert way.invoke(graph, Command(resume={asked["one"]: "one"}), one) == {"log": ["a", "edit", "one"]}
    assert ran.take() == ["ask", "ask"]
    assert way.state(graph, two).values == {"log": ["a", "two"]}


def test_P25_a_breakpoint_of_a_branch_is_passed(way: Way, saver: Saver):
    graph = in_a_row(Log, *((name, Ran(way)(name)) for name in "ab")).compile(checkpointer=saver, interrupt_before=["b"])
    way.invoke(graph, {"log": []}, on())
    kept = named(way, graph, on(), "kept")
    way.invoke(graph, None, way.history(graph, on())[-2].config)
    assert way.invoke(graph, Command(resume=True), kept) == {"log": ["a", "b"]}


def test_P25_history_of_a_branch_is_its_line(way: Way, saver: Saver):
    graph = letters(way, saver)
    way.invoke(graph, {"log": ["0"]}, on())
    root = named(way, graph, on(), "left")
    right = named(way, graph, on(), "right")
    for _ in range(10):
        way.invoke(graph, {"log": ["l"]}, root)
        way.invoke(graph, {"log": ["r"]}, right)
    for config, letter, other in ((root, "l", "r"), (right, "r", "l")):
        line = way.history(graph, config)
        assert len(line) == 4 + 10 * 4
        assert all(other not in one.values["log"] for one in line if one.values)
        assert [one.parent_config for one in line] == [*(one.config for one in line[1:]), None]
        assert way.history(graph, config, limit=3) == line[:3]
        assert way.history(graph, config, before=line[4].config, limit=2) == line[5:7]
        assert way.history(graph, config, filter={"source": "input"})[0].metadata["writes"] == {"log": [letter]}
    assert len(way.history(graph, on())) == 4 + 20 * 4


def test_P25_a_subgraph_of_a_branch_stands_where_the_branch_does(way: Way, saver: Saver):
    inner = side_by_side(Number, inc=way.node(lambda _: {"n": 1})).compile(checkpointer=True)
    graph = side_by_side(Number, sub=inner).compile(checkpointer=saver)
    way.invoke(graph, {"n": 0}, on())
    one, two = (named(way, graph, on(), name) for name in ("one", "two"))
    for _ in range(3):
        way.invoke(graph, {"n": 0}, one)
    way.invoke(graph, {"n": 0}, two)
    inside = [way.state(graph, on(branch=name, checkpoint_ns="sub")).values["n"] for name in ("one", "two")]
    way.edit(graph, on(branch="one", checkpoint_ns="sub"), {"n": 1000})
    edited = [way.state(graph, on(branch=name, checkpoint_ns="sub")).values["n"] for name in ("one", "two")]
    assert edited == [inside[0] + 1000, inside[1]]
    assert way.invoke(graph, {"n": 0}, one)["n"] > 1000
    assert way.invoke(graph, {"n": 0}, two)["n"] < 1000


def test_P25_a_pause_inside_a_subgraph_of_a_branch(way: Way, saver: Saver):
    graph = in_a_row(Log, ("sub", reviewed(Ran(way)))).compile(checkpointer=saver)
    way.invoke(graph, {"log": []}, on())
    kept = named(way, graph, on(), "kept")
    way.invoke(graph, None, innermost(way, graph).config)
    way.invoke(graph, {"log": ["other"]}, way.history(graph, on())[-1].config)
    assert way.invoke(graph, Command(resume="yes"), kept)["log"] == ["a", "b", "c", "yes"]


def test_P25_a_name_may_be_moved_and_dropped(way: Way, saver: Saver):
    graph = letters(way, saver)
    way.invoke(graph, {"log": ["0"]}, on())
    first = way.state(graph, on()).config
    named(way, graph, on(), "name")
    named(way, graph, on(), "name")  # where it is already
    way.invoke(graph, {"log": ["1"]}, on())
    with pytest.raises(InvalidConfig, match="move=True"):
        named(way, graph, on(), "name")
    assert branches(way, graph) == {"name": id_of(first)}
    named(way, graph, on(), "name", move=True)
    assert branches(way, graph) == {"name": id_of(way.state(graph, on()).config)}
    way._do(graph, "drop_branch", on(), "name")
    assert branches(way, graph) == {}
    assert way.state(graph, first).values == {"log": ["0", "a", "b"]}


def test_P25_names_are_stored_with_the_thread_and_go_with_it(way: Way, saver: Saver, tmp_path: Any):
    graph = letters(way, saver)
    for thread in ("t", "other"):
        way.invoke(graph, {"log": [thread]}, on(thread))
    for name in ("ä%_'\"; --", "b"):
        named(way, graph, on(), name)
    assert list(branches(way, graph)) == ["b", "ä%_'\"; --"]
    assert way._do(graph, "branches", on("other")) == {}
    if isinstance(saver, SqliteSaver):
        with SqliteSaver(tmp_path / "promises.db") as again:
            assert list(branches(way, letters(way, again))) == ["b", "ä%_'\"; --"]
    way.delete(saver, "t")
    assert branches(way, graph) == {}
    with pytest.raises((UnknownCheckpoint, ThreadDeleted)):
        named(way, graph, on(), "b")


def test_P25_what_cannot_be_a_branch_is_refused(way: Way, saver: Saver):
    graph = letters(way, saver)
    with pytest.raises(UnknownCheckpoint):
        named(way, graph, on(), "name")
    way.invoke(graph, {"log": []}, on())
    rows = stored(saver)
    tip = id_of(way.state(graph, on()).config)
    for name in ("", 7, "a\x00b", "x" * 201):
        with pytest.raises(InvalidConfig, match="branch"):
            named(way, graph, on(), name)  # type: ignore[arg-type]
        with pytest.raises(InvalidConfig, match="branch"):
            way.invoke(graph, None, on(branch=name))
    for refused in (
        lambda: way.state(graph, on(branch="no")),
        lambda: way.history(graph, on(branch="no")),
        lambda: way.invoke(graph, {"log": []}, on(branch="no")),
        lambda: way.invoke(graph, None, on(branch="no")),
        lambda: way.edit(graph, on(branch="no"), {"log": []}),
        lambda: way.edit(graph, on(branch="no", checkpoint_ns="a"), {"log": []}),
        lambda: way._do(graph, "drop_branch", on(), "no"),
        lambda: named(way, graph, on(branch="no"), "yes"),
    ):
        with pytest.raises(UnknownBranch, match="no branch 'no'"):
            refused()
    with pytest.raises(InvalidConfig, match="leave one of the two out"):
        way.state(graph, on(branch="no", checkpoint_id=tip))
    with pytest.raises(InvalidConfig, match="root graph"):
        named(way, graph, on(checkpoint_ns="a:b", checkpoint_id=tip), "name")
    assert stored(saver) == rows


def test_P25_naming_is_refused_while_a_run_holds_the_thread(way: Way, saver: Saver):
    refused: list[Any] = []

    def node(_: Any) -> Any:
        for call in (lambda: graph.name_branch(on(), "inside"), lambda: graph.drop_branch(on(), "inside")):
            with pytest.raises(SelfBusy):
                call()
            refused.append(call)
        return {"log": ["a"]}

    graph = in_a_row(Log, ("a", node), ("b", Ran(way)("b"))).compile(checkpointer=saver)
    way.invoke(graph, {"log": []}, on())
    assert len(refused) == 2
    stream = graph.stream({"log": []}, on())
    next(stream)
    with pytest.raises(ThreadBusy):
        named(way, graph, on(), "name")
    stream.close()
    named(way, graph, on(), "name")


def test_P25_names_need_a_saver(way: Way):
    graph = in_a_row(Log, ("a", Ran(way)("a"))).compile()
    with pytest.raises(InvalidConfig, match="No checkpointer set"):
        named(way, graph, on(), "name")


# ------------------------------------------------------------------------------------------------------- parents and children


def test_P25_history_gives_parents_and_children(way: Way, saver: Saver):
    graph = letters(way, saver)
    way.invoke(graph, {"log": ["0"]}, on())
    base = next(one for one in way.history(graph, on()) if one.next == ("b",))
    for _ in range(2):
        way.invoke(graph, None, base.config)
        way.edit(graph, base.config, {"log": ["edit"]})
    history = way.history(graph, on())
    children: dict[str, list[str]] = {id_of(one.config): [] for one in history}
    for one in reversed(history):
        if one.parent_config is not None:
            children[id_of(one.parent_config)].append(id_of(one.config))
    for one in history:
        found = way._do(graph, "get_children", one.config)
        assert [id_of(config) for config in found] == children[id_of(one.config)]
        assert all(way.state(graph, config).parent_config == one.config for config in found)
    assert len(children[id_of(base.config)]) == 5
    assert way._do(graph, "get_children", on()) == []
    with pytest.raises(UnknownCheckpoint):
        way._do(graph, "get_children", on("nobody"))


def test_P25_children_inside_a_subgraph(way: Way, saver: Saver):
    graph = in_a_row(Log, ("sub", reviewed(Ran(way), checkpointer=True))).compile(checkpointer=saver)
    way.invoke(graph, {"log": []}, on())
    inside = way.history(graph, on(checkpoint_ns="sub"))
    assert way._do(graph, "get_children", inside[1].config) == [inside[0].config]
    way.invoke(graph, None, inside[1].config)
    assert len(way._do(graph, "get_children", inside[1].config)) == 2


# ------------------------------------------------------------------------------------------------------------------------- diff


class State(TypedDict, total=False):
    log: Annotated[list[str], operator.add]
    items: dict[str, Any]
    text: str
    count: int


def test_P25_diff_tells_which_keys_changed_and_how(way: Way, saver: Saver):
    graph = in_a_row(State, ("a", way.node(lambda _: {"log": ["a"], "count": 1}))).compile(checkpointer=saver)
    way.invoke(graph, {"log": ["in"], "items": {"x": 1, "y": 2}, "text": "t"}, on())
    before = way.state(graph, on()).config
    way.edit(graph, on(), {"log": ["b", "c"], "items": {"x": 1, "z": 3}, "count": 2})
    found = way._do(graph, "diff", before, on())
    assert set(found) == {"log", "items", "count"}
    assert found.changed["log"].appended == (2, 3)
    assert (found.changed["count"].before, found.changed["count"].after) == (1, 2)
    inside = found.changed["items"].keys
    assert (inside.added, inside.removed) == ({"z": 3}, {"y": 2})
    assert not way._do(graph, "diff", on(), on())
    back = way._do(graph, "diff", on(), before)
    assert back.changed["log"].removed == (2, 3)


def test_P25_diff_of_branches_threads_and_subgraphs(way: Way, saver: Saver):
    graph = in_a_row(Log, ("sub", reviewed(Ran(way)))).compile(checkpointer=saver)
    way.invoke(graph, {"log": ["x"]}, on())
    way.invoke(graph, {"log": ["y"]}, on("other"))
    left = named(way, graph, on(), "left")
    assert way._do(graph, "diff", left, on("other")).changed["log"].replaced == ((0, 0),)
    inside = innermost(way, graph).config
    assert way._do(graph, "diff", left, inside).changed["log"].appended == (1, 2, 3)
    assert way._do(graph, "diff", on("nobody"), left).added == {"log": ["x"]}
    with pytest.raises(UnknownBranch):
        way._do(graph, "diff", left, on(branch="no"))


def test_P25_a_name_for_what_others_went_on_from_shows_it_as_it_was(way: Way, saver: Saver):
    def ask(_: Any) -> Any:
        return {"log": [interrupt("well?")]}

    ran = Ran(way)
    graph = in_a_row(Log, ("a", ran("a")), ("ask", way.node(ask))).compile(checkpointer=saver)
    way.invoke(graph, {"log": []}, on())
    way.invoke(graph, Command(resume="yes"), on())
    for number, then in enumerate(way.history(graph, on())):
        way._do(saver, "pin", then.config, f"p{number}")
        by_name = way.state(graph, on(branch=f"p{number}"))
        assert (by_name.values, by_name.next, by_name.interrupts) == (then.values, then.next, then.interrupts)
        assert by_name.tasks == then.tasks
