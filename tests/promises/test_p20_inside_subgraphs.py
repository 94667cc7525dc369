"""P20: a checkpoint inside a subgraph can be replayed and edited; only what comes after it runs again; the parent gets one new branch."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.checkpoint.saver import Saver
from perdure.func import task
from perdure.graph import START
from perdure.types import Command, Send
from tests.promises.travelling import (
    Number,
    Outer,
    Ran,
    Seen,
    around,
    before,
    branches_of,
    changed,
    in_a_row,
    innermost,
    reviewed,
    side_by_side,
    stored,
)
from tests.promises.ways import Log, Way, on

MEMORIES = (None, True)
LEVELS = (1, 2, 3)


@pytest.mark.parametrize("memory", MEMORIES)
@pytest.mark.parametrize("levels", LEVELS)
def test_S07_a_run_from_a_checkpoint_inside_a_subgraph(way: Way, saver: Saver, levels: int, memory: Any):
    ran = Ran(way)
    graph = around(reviewed(ran, checkpointer=memory), saver, levels=levels, checkpointer=memory)
    way.invoke(graph, {"log": []}, on())
    paused = way.state(graph, on(), subgraphs=True)
    at = before(way, graph, innermost(way, graph).config, "c")
    rows = stored(saver)
    ran.take()
    out = way.invoke(graph, None, at.config)
    assert ran.take() == ["c", "review"]
    assert [pause.value for pause in out["__interrupt__"]] == ["ok?"]
    assert innermost(way, graph).values == {"log": ["a", "b", "c"]}
    assert changed(rows, stored(saver)) == []
    assert [one.metadata["source"] for one in way.history(graph, on())] == ["fork", "loop", "input"], "one new branch"
    assert way.state(graph, on()).parent_config == paused.config
    assert way.state(graph, paused.config, subgraphs=True).interrupts == paused.interrupts
    assert out["__interrupt__"][0].id != paused.interrupts[0].id
    assert way.invoke(graph, Command(resume="yes"), on())["log"] == ["a", "b", "c", "yes"]
    assert way.invoke(graph, Command(resume="no"), paused.config)["log"] == ["a", "b", "c", "no"]


@pytest.mark.parametrize("memory", MEMORIES)
@pytest.mark.parametrize("levels", LEVELS)
def test_P20_an_edit_of_a_checkpoint_inside_a_subgraph(way: Way, saver: Saver, levels: int, memory: Any):
    ran = Ran(way)
    graph = around(reviewed(ran, checkpointer=memory), saver, levels=levels, checkpointer=memory)
    way.invoke(graph, {"log": []}, on())
    paused = way.state(graph, on(), subgraphs=True)
    at = before(way, graph, innermost(way, graph).config, "c")
    rows = stored(saver)
    ran.take()
    edited = way.edit(graph, at.config, {"log": ["edit"]})
    assert changed(rows, stored(saver)) == [], "the old branch, and where it is in the subgraph, stays as it was"
    assert [one.metadata["source"] for one in way.history(graph, on())] == ["fork", "loop", "input"], "one new branch"
    state = way.state(graph, edited)
    assert (state.values, state.next, state.metadata["source"]) == ({"log": ["a", "b", "edit"]}, ("c",), "update")
    assert innermost(way, graph).config == edited, "the branch is the newest"
    assert ran.take() == []
    way.invoke(graph, None, edited)
    assert ran.take() == ["c", "review"]
    assert len(way.history(graph, on())) == 3, "going on there needs no other branch"
    assert way.invoke(graph, Command(resume="yes"), on())["log"] == ["a", "b", "edit", "c", "yes"]
    assert way.invoke(graph, Command(resume="no"), paused.config)["log"] == ["a", "b", "c", "no"]


@pytest.mark.parametrize("memory", MEMORIES)
@pytest.mark.parametrize("levels", LEVELS)
def test_P20_an_edit_where_the_subgraph_stands_now_is_picked_up_by_a_resume(way: Way, saver: Saver, levels: int, memory: Any):
    ran = Ran(way)
    graph = around(reviewed(ran, checkpointer=memory), saver, levels=levels, checkpointer=memory)
    way.invoke(graph, {"log": []}, on())
    (asked,) = way.state(graph, on()).interrupts
    now = innermost(way, graph).config
    del now["configurable"]["checkpoint_id"]
    ran.take()
    way.edit(graph, now, {"log": ["edit"]})
    assert way.state(graph, on()).interrupts == (asked,)
    assert way.state(graph, now).values == {"log": ["a", "b", "c", "edit"]}
    assert len(branches_of(way, graph)) == 1
    assert way.invoke(graph, Command(resume={asked.id: "yes"}), on())["log"] == ["a", "b", "c", "edit", "yes"]
    assert ran.take() == ["review"]


def test_P20_several_edits_at_once_inside_a_subgraph(way: Way, saver: Saver):
    graph = around(reviewed(Ran(way)), saver)
    way.invoke(graph, {"log": []}, on())
    at = before(way, graph, innermost(way, graph).config, "b")
    steps = [[({"log": [str(n)]}, "a")] for n in range(3)]
    edited = way._do(graph, "bulk_update_state", at.config, steps)
    assert way.state(graph, edited).values == {"log": ["a", "0", "1", "2"]}
    assert way.invoke(graph, None, edited)["__interrupt__"]
    assert innermost(way, graph).values == {"log": ["a", "0", "1", "2", "b", "c"]}


@pytest.mark.parametrize("memory", MEMORIES)
def test_P20_a_finished_subgraph_is_gone_back_into(way: Way, saver: Saver, memory: Any):
    ran = Ran(way)
    inner = in_a_row(Log, *((name, ran(name)) for name in "abc")).compile(checkpointer=memory)
    after = ran("after", lambda state: {"log": [*state["log"], "after"]})
    graph = in_a_row(Outer, ("sub", inner), ("after", after)).compile(checkpointer=saver)
    way.invoke(graph, {"log": []}, on())
    finished = next(one for one in way.history(graph, on()) if one.next == ("after",))
    space = way.state(graph, before(way, graph, on(), "sub").config).tasks[0].state["configurable"]["checkpoint_ns"]
    inside = {one.next: one for one in way.history(graph, on(checkpoint_ns=space))}
    ran.take()
    assert way.invoke(graph, None, inside["b",].config)["log"] == ["a", "b", "c", "after"]
    assert ran.take() == ["b", "c", "after"]
    assert way.invoke(graph, None, way.edit(graph, inside["c",].config, {"log": ["edit"]}))["log"] == [
        "a",
        "b",
        "edit",
        "c",
        "after",
    ]
    assert ran.take() == ["c", "after"]
    assert way.invoke(graph, None, inside[()].config)["log"] == ["a", "b", "c", "after"]
    assert ran.take() == ["after"], "at its end only what follows it runs again"
    assert len(branches_of(way, graph)) == 4
    assert way.state(graph, finished.config) == finished


@pytest.mark.parametrize("way_down", ["node", "called", "sent"])
def test_P20_finished_siblings_are_not_run_again(way: Way, saver: Saver, way_down: str):
    ran = Ran(way)
    inner = reviewed(ran)
    other = in_a_row(Log, ("x", ran("x")), ("y", ran.asks("y", "y?"))).compile()
    builder = side_by_side(Seen, plain=ran("plain", lambda _: {"seen": ["plain"]}))

    if way.is_async:

        async def call(state: Any) -> Any:
            return {"seen": (await inner.ainvoke({"log": []}))["log"]}

        async def call_other(state: Any) -> Any:
            return {"seen": (await other.ainvoke({"log": []}))["log"]}

    else:

        def call(state: Any) -> Any:  # type: ignore[misc]
            return {"seen": inner.invoke({"log": []})["log"]}

        def call_other(state: Any) -> Any:  # type: ignore[misc]
            return {"seen": other.invoke({"log": []})["log"]}

    if way_down == "node":
        builder = side_by_side(Log, plain=ran("plain"), sub=inner, other=other)
    elif way_down == "called":
        builder.add_node("sub", call)
        builder.add_node("other", call_other)
        builder.add_edge(START, "sub")
        builder.add_edge(START, "other")
    else:
        builder.add_node("sub", call)
        builder.add_node("other", call_other)
        builder.add_conditional_edges(START, lambda _: [Send("sub", {}), Send("other", {})], ["sub", "other"])
    graph = builder.compile(checkpointer=saver)
    key = "log" if way_down == "node" else "seen"
    way.invoke(graph, {key: []}, on())
    asked = {pause.value: pause.id for pause in way.state(graph, on()).interrupts}
    assert set(asked) == {"ok?", "y?"}
    tasks = {each.name: each for each in way.state(graph, on(), subgraphs=True).tasks}
    at = before(way, graph, tasks["sub"].state.config, "c")
    ran.take()
    out = way.invoke(graph, None, at.config)
    assert sorted(ran.take()) == ["c", "review"], "neither what had finished nor what waits"
    now = {pause.value: pause.id for pause in out["__interrupt__"]}
    assert set(now) == set(asked)
    assert set(now.values()).isdisjoint(asked.values())
    out = way.invoke(graph, Command(resume={now["ok?"]: "yes", now["y?"]: "Y"}), on())
    assert sorted(out[key]) == sorted(["plain", "a", "b", "c", "yes", "x", "Y"])
    assert sorted(ran.take()) == ["review", "y"]
    old = way.state(graph, way.history(graph, on())[-2].config)
    assert {pause.id for pause in old.interrupts} == set(asked.values())


def test_P20_answers_that_siblings_have_are_kept(way: Way, saver: Saver):
    ran = Ran(way)
    slow = in_a_row(Log, ("x", ran.asks("x", "x?")), ("y", ran.asks("y", "y?"))).compile()
    graph = side_by_side(Log, sub=reviewed(ran), slow=slow).compile(checkpointer=saver)
    first = way.invoke(graph, {"log": []}, on())
    way.invoke(graph, Command(resume={pause.id: "X" for pause in first["__interrupt__"] if pause.value == "x?"}), on())
    tasks = {each.name: each for each in way.state(graph, on(), subgraphs=True).tasks}
    ran.take()
    out = way.invoke(graph, None, before(way, graph, tasks["sub"].state.config, "b").config)
    assert ran.take() == ["b", "c", "review"]
    answers = {pause.id: pause.value.upper() for pause in out["__interrupt__"]}
    assert way.invoke(graph, Command(resume=answers), on())["log"] == ["X", "Y?", "a", "b", "c", "OK?"]


def test_P20_the_root_as_it_was_when_the_subgraph_was_there(way: Way, saver: Saver):
    """An edit of the root between two super-steps of the subgraph counts for what came after it only."""
    ran = Ran(way)
    inner = in_a_row(Log, ("a", ran("a")), ("ask", ran.asks("ask")), ("b", ran("b")), ("last", ran.asks("last"))).compile()
    graph = around(inner, saver)
    way.invoke(graph, {"log": [], "note": "old"}, on())
    way.edit(graph, on(), {"note": "new"})
    way.invoke(graph, Command(resume="1"), on())
    inside = innermost(way, graph).config
    assert way.invoke(graph, None, before(way, graph, inside, "b").config)["note"] == "new"
    assert way.invoke(graph, None, before(way, graph, inside, "ask").config)["note"] == "old"


def test_P20_a_subgraph_in_a_durable_step(way: Way, saver: Saver):
    ran = Ran(way)
    inner = reviewed(ran)

    def plain(name: str) -> str:
        ran.names.append(name)
        return name

    if way.is_async:

        async def deep(_: int) -> Any:
            return (await inner.ainvoke({"log": []}))["log"]

        say, dive = task(way.node(plain)), task(deep)

        async def node(_: Any) -> Any:
            return {"seen": [await say("before"), await dive(1), await say("after")]}

    else:

        def deep(_: int) -> Any:  # type: ignore[misc]
            return inner.invoke({"log": []})["log"]

        say, dive = task(plain), task(deep)

        def node(_: Any) -> Any:  # type: ignore[misc]
            return {"seen": [say("before").result(), dive(1).result(), say("after").result()]}

    graph = side_by_side(Seen, node=node).compile(checkpointer=saver)
    way.invoke(graph, {"seen": []}, on())
    space = innermost(way, graph).config["configurable"]["checkpoint_ns"]
    assert [part.partition(":")[0] for part in space.split("|")] == ["node", "deep"]
    at = next(one for one in way.history(graph, on(checkpoint_ns=space)) if one.next == ("c",))
    way.invoke(graph, Command(resume="one"), on())
    ran.take()
    out = way.invoke(graph, None, at.config)
    assert [pause.value for pause in out["__interrupt__"]] == ["ok?"]
    assert ran.take() == ["c", "review"]
    assert way.invoke(graph, Command(resume="two"), on())["seen"] == ["before", ["a", "b", "c", "two"], "after"]
    assert ran.take() == ["review", "after"]


@pytest.mark.parametrize("levels", [1, 2])
def test_P20_what_a_subgraph_remembers_is_edited_between_two_calls(way: Way, saver: Saver, levels: int):
    inner = side_by_side(Number, inc=way.node(lambda _: {"n": 1})).compile(checkpointer=True)
    middle = side_by_side(Number, sub=inner).compile(checkpointer=True)
    graph = side_by_side(Number, sub=inner if levels == 1 else middle).compile(checkpointer=saver)
    space = "|".join(["sub"] * levels)
    for _ in range(2):
        way.invoke(graph, {"n": 0}, on())
    first = way.state(graph, on(checkpoint_ns=space))
    tip = way.state(graph, on())
    rows = stored(saver)
    edited = way.edit(graph, on(checkpoint_ns=space), {"n": 100})
    assert changed(rows, stored(saver)) == []
    assert way.state(graph, on(checkpoint_ns=space)).config == edited
    assert way.state(graph, edited).values == {"n": first.values["n"] + 100}
    assert way.state(graph, on()).values == tip.values
    assert way.state(graph, on()).next == ()
    assert way.state(graph, on()).parent_config == tip.config
    way.invoke(graph, {"n": 0}, on())
    assert way.state(graph, on(checkpoint_ns=space)).values["n"] > 100
    way.invoke(graph, {"n": 0}, tip.config)
    assert way.state(graph, on(checkpoint_ns=space)).values["n"] < 100, "as of the checkpoint before the edit"
    again = way.edit(graph, edited, {"n": 1000})
    assert way.state(graph, again).values == {"n": first.values["n"] + 1100}
    assert way.state(graph, on(checkpoint_ns=space)).config == again


def test_P20_a_bare_answer_at_a_subgraphs_checkpoint_is_for_its_question(way: Way, saver: Saver):
    graph = side_by_side(Log, a=reviewed(Ran(way)), b=reviewed(Ran(way))).compile(checkpointer=saver)
    way.invoke(graph, {"log": []}, on())
    inside = {each.name: each.state for each in way.state(graph, on(), subgraphs=True).tasks}
    out = way.invoke(graph, Command(resume="B"), inside["b"].config)
    assert len(out["__interrupt__"]) == 1
    assert way.invoke(graph, Command(resume="A"), inside["a"].config)["log"] == ["a", "b", "c", "A", "a", "b", "c", "B"]


def test_P20_what_was_remembered_is_run_from_where_it_was(way: Way, saver: Saver):
    inner = side_by_side(Number, inc=way.node(lambda _: {"n": 1})).compile(checkpointer=True)
    middle = in_a_row(Number, ("sub", inner), ("more", way.node(lambda _: {"n": 10}))).compile(checkpointer=True)
    graph = side_by_side(Number, sub=middle).compile(checkpointer=saver)
    for _ in range(2):
        way.invoke(graph, {"n": 0}, on())
    edited = way.edit(graph, on(checkpoint_ns="sub|sub"), {"n": 100})
    made = len(way.history(graph, on()))
    before = way.state(graph, on()).values
    assert way.invoke(graph, None, edited) == before, "nothing is left to run there"
    assert len(way.history(graph, on())) == made + 1, "as for any finished checkpoint"
    for at in way.history(graph, on(checkpoint_ns="sub|sub")):
        way.invoke(graph, None, at.config)


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_P20_whatever_the_durability_of_the_run_that_goes_back(way: Way, saver: Saver, durability: Any):
    ran = Ran(way)
    graph = around(reviewed(ran), saver, levels=2)
    way.invoke(graph, {"log": []}, on())
    at = before(way, graph, innermost(way, graph).config, "c")
    ran.take()
    assert way.invoke(graph, None, at.config, durability=durability)["__interrupt__"]
    assert ran.take() == ["c", "review"]
    assert way.invoke(graph, Command(resume="yes"), on(), durability=durability)["log"] == ["a", "b", "c", "yes"]
    assert ran.take() == ["review"]


def test_P20_a_stream_from_inside(way: Way, saver: Saver):
    graph = around(reviewed(Ran(way)), saver)
    way.invoke(graph, {"log": []}, on())
    at = before(way, graph, innermost(way, graph).config, "c")
    found = way.stream(graph, None, at.config, subgraphs=True)
    assert [(len(space), [*payload]) for space, payload in found] == [
        (1, ["c"]),
        (1, ["__interrupt__"]),
        (0, ["__interrupt__"]),
    ]
