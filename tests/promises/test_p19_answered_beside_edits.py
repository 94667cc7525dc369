"""P19, P20: questions that are answered anew after an edit has closed some of them. No answer is lost, and an edit only where one is given."""

from __future__ import annotations

from typing import Annotated, Any, TypedDict

import pytest

from perdure.checkpoint.saver import Saver
from perdure.errors import AmbiguousAnswer, UnknownInterruptError
from perdure.func import task
from perdure.types import Command, StateSnapshot
from tests.promises.travelling import Ran, Seen, around, in_a_row, innermost, side_by_side
from tests.promises.ways import Log, Way, at_once, on, rows_of, status_of

NESTED = pytest.mark.parametrize(("levels", "memory"), [(1, None), (2, None), (1, True), (2, True)])


def asked(way: Way, graph: Any, config: Any = None) -> dict[str, str]:
    """The ids of the questions that a checkpoint shows, by what they ask."""
    return {pause.value: pause.id for pause in way.state(graph, config or on()).interrupts}


def two_questions(way: Way, saver: Saver, ran: Ran, levels: int, memory: Any) -> tuple[Any, Any, dict[str, str]]:
    """A graph that waits in one subgraph for x and y, its checkpoint, and the questions."""
    inner = side_by_side(Log, x=ran.asks("x", "x?"), y=ran.asks("y", "y?")).compile(checkpointer=memory)
    graph = around(inner, saver, levels=levels, checkpointer=memory)
    way.invoke(graph, {"log": []}, on())
    return graph, way.state(graph, on()).config, asked(way, graph)


def edit(way: Way, graph: Any, name: str) -> None:
    way.edit(graph, innermost(way, graph).config, {"log": [f"{name} by hand"]}, as_node=name)


@NESTED
@pytest.mark.parametrize(
    ("given", "log"),
    [("y", ["x by hand", "new y"]), ("xy", ["new x", "new y"]), ("yx", ["new x", "new y"])],
    ids=["the open one", "both", "both, the open one first"],
)
def test_P19_P20_a_closed_question_and_an_open_one_are_answered_anew(
    way: Way, saver: Saver, levels: int, memory: Any, given: str, log: list[str]
):
    """Where the closed one is answered too, the branch starts from before the edit: both were open there."""
    ran = Ran(way)
    graph, paused, ids = two_questions(way, saver, ran, levels, memory)
    edit(way, graph, "x")
    assert way.invoke(graph, Command(resume={ids["y?"]: "old y"}), on())["log"] == ["x by hand", "old y"]
    tip = way.state(graph, on())
    ran.take()
    assert way.invoke(graph, Command(resume={ids[f"{name}?"]: f"new {name}" for name in given}), paused)["log"] == log
    assert sorted(ran.take()) == sorted(given)
    assert way.state(graph, tip.config) == tip, "the old branch stays as it was"
    assert way.state(graph, on()).next == ()


@NESTED
@pytest.mark.parametrize("edits", ["x", "xy"])
def test_P19_P20_a_closed_question_that_is_answered_anew_alone_opens_the_other_again(
    way: Way, saver: Saver, levels: int, memory: Any, edits: str
):
    graph, paused, ids = two_questions(way, saver, Ran(way), levels, memory)
    for name in edits:
        edit(way, graph, name)
    way.invoke(graph, None if edits == "xy" else Command(resume="old y"), on())
    assert way.state(graph, on()).next == ()
    out = way.invoke(graph, Command(resume={ids["x?"]: "new x"}), paused)
    assert [pause.value for pause in out["__interrupt__"]] == ["y?"]
    assert list(asked(way, graph)) == ["y?"]
    assert [one.interrupt.value for one in way._do(saver, "list_interrupts").items] == ["y?"]
    assert way.invoke(graph, Command(resume="then y"), on())["log"] == ["new x", "then y"]


@NESTED
def test_P19_P20_of_two_that_were_closed_the_later_is_answered_anew_beside_the_first_edit(
    way: Way, saver: Saver, levels: int, memory: Any
):
    graph, paused, ids = two_questions(way, saver, Ran(way), levels, memory)
    for name in "xy":
        edit(way, graph, name)
    assert way.invoke(graph, None, on())["log"] == ["x by hand", "y by hand"]
    assert way.invoke(graph, Command(resume={ids["y?"]: "new y"}), paused)["log"] == ["x by hand", "new y"]


@NESTED
def test_P13_P20_while_the_subgraph_waits_a_closed_question_takes_no_answer_beside_an_open_one(
    way: Way, saver: Saver, levels: int, memory: Any
):
    graph, paused, ids = two_questions(way, saver, Ran(way), levels, memory)
    edit(way, graph, "x")
    before = rows_of(saver)
    for config in (on(), paused):
        with pytest.raises(UnknownInterruptError, match=ids["x?"]):
            way.invoke(graph, Command(resume={ids["x?"]: "late", ids["y?"]: "yes"}), config)
    assert rows_of(saver) == before
    assert way.invoke(graph, Command(resume="yes"), on())["log"] == ["x by hand", "yes"]


def test_P13_P19_a_bare_answer_is_for_one_question_closed_ones_too(way: Way, saver: Saver):
    graph, paused, ids = two_questions(way, saver, Ran(way), 1, None)
    edit(way, graph, "x")
    way.invoke(graph, Command(resume="old y"), on())
    before = rows_of(saver)
    with pytest.raises(AmbiguousAnswer) as caught:
        way.invoke(graph, Command(resume="which?"), paused)
    assert set(caught.value.pending_ids) == set(ids.values())
    assert rows_of(saver) == before


def test_P13_P20_a_closed_question_that_was_passed_takes_no_answer(way: Way, saver: Saver):
    """The edit gave the subgraph something else to do, which asks as well: x and z were never open together."""
    ran = Ran(way)
    drawing = side_by_side(Log, x=ran.asks("x", "x?"), y=ran.asks("y", "y?")).add_node("z", ran.asks("z", "z?"))
    graph = around(drawing.compile(), saver)
    way.invoke(graph, {"log": []}, on())
    paused, ids = way.state(graph, on()).config, asked(way, graph)
    way.edit(graph, innermost(way, graph).config, Command(update={"log": ["x by hand"]}, goto="z"), as_node="x")
    way.invoke(graph, None, on())
    ids |= asked(way, graph)
    way.invoke(graph, Command(resume={ids["y?"]: "y", ids["z?"]: "z"}), on())
    before = rows_of(saver)
    with pytest.raises(UnknownInterruptError, match=ids["x?"]):
        way.invoke(graph, Command(resume={ids[name]: "late" for name in ("x?", "z?")}), paused)
    assert rows_of(saver) == before
    out = way.invoke(graph, Command(resume={ids["y?"]: "new y", ids["z?"]: "new z"}), paused)
    assert out["log"] == ["x by hand", "new y", "new z"]


@pytest.mark.parametrize("kind", ["together", "in steps"])
@pytest.mark.parametrize("edited", [0, 1])
def test_P19_P20_what_an_edit_closed_in_another_subgraph_of_the_node_stays_closed(
    way: Way, saver: Saver, kind: str, edited: int
):
    two = [in_a_row(Log, ("ask", Ran(way).asks("ask", f"{n}?"))).compile() for n in range(2)]

    async def call(n: int) -> Any:
        return (await two[n].ainvoke({"log": []}))["log"]

    step = task(call)

    async def node(_: Any) -> Any:
        one = step if kind == "in steps" else call
        return {"seen": await at_once(one(0), one(1))}

    graph = side_by_side(Seen, n=node).compile(checkpointer=saver)
    way.invoke(graph, {"seen": []}, on())
    paused, ids = way.state(graph, on()).config, asked(way, graph)
    spaces = {each.config["configurable"]["checkpoint_ns"] for each in saver.list(on())} - {""}
    place = next(
        at for at in (on(checkpoint_ns=space) for space in sorted(spaces)) if list(asked(way, graph, at)) == [f"{edited}?"]
    )
    way.edit(graph, place, {"log": ["by hand"]}, as_node="ask")
    other = ids[f"{1 - edited}?"]
    for config, answer in ((on(), "old"), (paused, "new")):
        seen = way.invoke(graph, Command(resume={other: answer}), config)["seen"]
        assert seen[edited] == ["by hand"]
        assert seen[1 - edited] == [answer]
    seen = way.invoke(graph, Command(resume=dict.fromkeys(ids.values(), "both")), paused)["seen"]
    assert seen == [["both"], ["both"]]


# -- beside a breakpoint --------------------------------------------------------------------------------------------------------------


class Words(TypedDict):
    """What two subgraphs have written."""

    log: Annotated[list[str], lambda left, right: sorted({*left, *right})]


@pytest.mark.parametrize("where", ["inside a subgraph", "in the graph"])
def test_P13_P20_a_breakpoint_beside_a_question_that_an_edit_closes_is_passed(way: Way, saver: Saver, where: str):
    """Nothing waits for an answer then: the thread is idle, and going on passes the breakpoint that it had reached."""
    ran = Ran(way)
    halts = in_a_row(Log, ("a", ran("a")), ("b", ran("b"))).compile(interrupt_before=["b"])
    asks = ran.asks("ask", "ok?")
    other = in_a_row(Log, ("ask", asks)).compile() if where == "inside a subgraph" else asks
    graph = side_by_side(Words, halts=halts, ask=other).compile(checkpointer=saver)
    way.invoke(graph, {"log": []}, on())
    assert status_of(saver) == ("interrupted", True)
    assert ran.times == {"a": 1, "ask": 1}
    place: Any = on()
    if where == "inside a subgraph":
        found = [task.state for task in way.state(graph, on(), subgraphs=True).tasks if task.name == "ask"]
        assert isinstance(found[0], StateSnapshot)
        place = found[0].config
    way.edit(graph, place, {"log": ["by hand"]}, as_node="ask")
    assert status_of(saver) == ("idle", True)
    state = way.state(graph, on(), subgraphs=True)
    assert state.interrupts == ()
    waits = next(task.state for task in state.tasks if task.name == "halts")
    assert isinstance(waits, StateSnapshot)
    assert waits.next == ("b",)
    assert way._do(saver, "list_interrupts").items == ()
    before = rows_of(saver)
    with pytest.raises(UnknownInterruptError, match=r"invoke\(None, config\)"):
        way.invoke(graph, Command(resume="late"), on())
    assert rows_of(saver) == before
    assert way.invoke(graph, None, on())["log"] == ["a", "b", "by hand"]
    assert ran.times == {"a": 1, "ask": 1, "b": 1}
    assert (way.state(graph, on()).next, status_of(saver)) == ((), ("idle", True))
