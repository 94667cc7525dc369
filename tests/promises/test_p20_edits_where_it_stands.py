"""P20, P22, P13: an edit inside a subgraph that waits may close its question, or give it something else to do; all around it know."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from perdure.checkpoint.saver import Saver
from perdure.errors import UnknownInterruptError
from perdure.func import task
from perdure.graph import END
from perdure.types import Command, StateUpdate
from tests.promises.travelling import Ran, Seen, around, in_a_row, innermost, reviewed, side_by_side
from tests.promises.ways import Log, Way, at_once, on

DEPTHS = pytest.mark.parametrize("levels", [1, 2])
MEMORIES = pytest.mark.parametrize("memory", [None, True])


def waiting(way: Way, saver: Saver, ran: Ran, levels: int, memory: Any) -> Any:
    graph = around(reviewed(ran, checkpointer=memory), saver, levels=levels, checkpointer=memory)
    way.invoke(graph, {"log": []}, on())
    ran.take()
    return graph


def asked_in(way: Way, graph: Any, saver: Saver) -> list[str]:
    """The ids of the questions that are open, of which all readers tell the same."""
    state = way.state(graph, on())
    found = [pause.id for pause in state.interrupts]
    assert [one.interrupt.id for one in way._do(saver, "list_interrupts").items] == found
    assert [pause.id for pause in way.state(graph, on(), subgraphs=True).interrupts] == found
    return found


@DEPTHS
@MEMORIES
@pytest.mark.parametrize("name", ["review", END])
def test_P20_an_edit_that_stands_for_the_node_that_asked_closes_its_question(
    way: Way, saver: Saver, levels: int, memory: Any, name: str
):
    ran = Ran(way)
    graph = waiting(way, saver, ran, levels, memory)
    (asked,) = asked_in(way, graph, saver)
    way.edit(graph, innermost(way, graph).config, {"log": ["by hand"]} if name == "review" else None, as_node=name)
    assert asked_in(way, graph, saver) == []
    assert way.state(graph, on()).next == ("sub",)
    for answer in ("late", {asked: "late"}):
        with pytest.raises(UnknownInterruptError):
            way.invoke(graph, Command(resume=answer), on())
    done = ["a", "b", "c", "by hand"] if name == "review" else ["a", "b", "c"]
    assert way.invoke(graph, None, on())["log"] == done
    assert (ran.take(), way.state(graph, on()).next) == ([], ())


@DEPTHS
@MEMORIES
def test_P20_what_an_edit_gives_a_subgraph_to_do_beside_its_question_is_done(way: Way, saver: Saver, levels: int, memory: Any):
    ran = Ran(way)
    graph = waiting(way, saver, ran, levels, memory)
    asked = asked_in(way, graph, saver)
    way.edit(graph, innermost(way, graph).config, Command(goto="b"), as_node="c")
    assert asked_in(way, graph, saver) == asked
    assert way.invoke(graph, None, on())["__interrupt__"]
    assert ran.take() == ["b"], "the one that waits is not run"
    assert asked_in(way, graph, saver) == asked
    way.invoke(graph, Command(resume="yes"), on())
    assert ran.take() == ["review", "c", "review"]
    assert way.invoke(graph, Command(resume="again"), on())["log"] == ["a", "b", "c", "b", "yes", "c", "again"]


@MEMORIES
def test_P20_a_copy_where_it_waits_asks_for_itself(way: Way, saver: Saver, memory: Any):
    ran = Ran(way)
    graph = waiting(way, saver, ran, 1, memory)
    asked = asked_in(way, graph, saver)
    inside = innermost(way, graph)
    copied = way.edit(graph, inside.config, [StateUpdate({"log": ["edit"]}, "c")], as_node="__copy__")
    assert way.state(graph, copied).values == {"log": ["a", "b", "c", "edit"]}
    assert asked_in(way, graph, saver) == []
    way.invoke(graph, None, on())
    assert ran.take() == ["review"]
    assert asked_in(way, graph, saver) not in ([], asked)
    assert way.invoke(graph, Command(resume="yes"), on())["log"] == ["a", "b", "c", "edit", "yes"]
    assert way.state(graph, inside.config).values == inside.values


@DEPTHS
@MEMORIES
def test_P20_P19_an_edited_subgraph_is_answered_twice(way: Way, saver: Saver, levels: int, memory: Any):
    """What was edited before the answer is in both branches."""
    graph = waiting(way, saver, Ran(way), levels, memory)
    paused = way.state(graph, on()).config
    way.edit(graph, innermost(way, graph).config, {"log": ["edit"]})
    for answer in ("one", "two"):
        assert way.invoke(graph, Command(resume=answer), paused)["log"] == ["a", "b", "c", "edit", answer]


@MEMORIES
def test_P20_P19_a_question_that_an_edit_closed_is_answered_in_a_branch(way: Way, saver: Saver, memory: Any):
    graph = waiting(way, saver, Ran(way), 1, memory)
    paused = way.state(graph, on()).config
    way.edit(graph, innermost(way, graph).config, {"log": ["by hand"]}, as_node="review")
    assert way.invoke(graph, None, on())["log"] == ["a", "b", "c", "by hand"]
    tip = way.state(graph, on())
    assert way.invoke(graph, Command(resume="asked"), paused)["log"] == ["a", "b", "c", "asked"]
    assert way.state(graph, tip.config) == tip


def test_P20_a_question_that_an_edit_closed_is_shown_by_id_only_where_it_can_be_answered(way: Way, saver: Saver):
    graph = waiting(way, saver, Ran(way), 1, None)
    paused = way.state(graph, on()).config
    assert len(way.state(graph, paused).interrupts) == 1
    way.edit(graph, innermost(way, graph).config, {"log": ["by hand"]}, as_node="review")
    for config in (on(), paused):
        shown = way.state(graph, config)
        assert (shown.interrupts, [task.interrupts for task in shown.tasks]) == ((), [()])
    assert way.history(graph, on())[0].interrupts == ()
    way.invoke(graph, None, on())
    assert len(way.state(graph, paused).interrupts) == 1
    assert way.invoke(graph, Command(resume="asked"), paused)["log"] == ["a", "b", "c", "asked"]


def test_P22_an_edit_of_the_parent_keeps_what_an_edit_inside_has_closed(way: Way, saver: Saver):
    ran = Ran(way)
    graph = waiting(way, saver, ran, 1, None)
    way.edit(graph, innermost(way, graph).config, {"log": ["by hand"]}, as_node="review")
    way.edit(graph, on(), {"note": "N"})
    assert asked_in(way, graph, saver) == []
    assert way.invoke(graph, None, on()) == {"log": ["a", "b", "c", "by hand"], "note": "N"}
    assert ran.take() == []


def test_P20_only_the_edited_one_of_two_subgraphs_is_closed(way: Way, saver: Saver):
    """Side by side, and called together by one node, in a durable step too."""
    ran = Ran(way)
    two = [in_a_row(Log, ("ask", ran.asks(f"ask{n}", f"{n}?"))).compile() for n in range(2)]

    @task
    async def step(n: int) -> Any:
        return (await two[n].ainvoke({"log": []}))["log"]

    async def together(_: Any) -> Any:
        found = await at_once(*(one.ainvoke({"log": []}) for one in two))
        return {"seen": [one["log"] for one in found]}

    async def in_steps(_: Any) -> Any:
        return {"seen": list(await asyncio.gather(step(0), step(1)))}

    for name, node in (("together", together), ("in steps", in_steps)):
        graph = side_by_side(Seen, n=node).compile(checkpointer=saver)
        thread = on(name)
        way.invoke(graph, {"seen": []}, thread)
        asked = {pause.value: pause.id for pause in way.state(graph, thread).interrupts}
        assert set(asked) == {"0?", "1?"}
        found = {each.config["configurable"]["checkpoint_ns"] for each in saver.list(thread)} - {""}
        first = next(
            space for space in sorted(found) if way.state(graph, on(name, checkpoint_ns=space)).interrupts[0].value == "0?"
        )
        way.edit(graph, on(name, checkpoint_ns=first), {"log": ["by hand"]}, as_node="ask")
        assert {pause.value: pause.id for pause in way.state(graph, thread).interrupts} == {"1?": asked["1?"]}
        ran.take()
        out = way.invoke(graph, Command(resume="yes"), thread)
        assert out["seen"] == [["by hand"], ["yes"]]
        assert ran.take() == ["ask1"]
