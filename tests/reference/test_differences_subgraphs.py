"""Differences from the reference that are on purpose: time travel inside subgraphs, and what subgraphs remember."""

from __future__ import annotations

from typing import Any

from perdure.checkpoint.saver import Saver
from perdure.types import Command, interrupt
from tests.promises.travelling import Number, Ran, Seen, in_a_row, innermost, reviewed, side_by_side
from tests.promises.ways import Log, Way, on


def test_P20_a_run_from_a_checkpoint_inside_a_subgraph_goes_on_there(way: Way, saver: Saver) -> None:
    ran = Ran(way)
    graph = in_a_row(Log, ("sub", reviewed(ran))).compile(checkpointer=saver)
    way.invoke(graph, {"log": []}, on())
    space = innermost(way, graph).config["configurable"]["checkpoint_ns"]
    at = next(one for one in way.history(graph, on(checkpoint_ns=space)) if one.next == ("c",))
    ran.take()
    way.invoke(graph, None, at.config)
    assert ran.take() == ["c", "review"]


def test_P20_an_edit_of_an_older_checkpoint_inside_a_subgraph_branches_off(way: Way, saver: Saver) -> None:
    graph = in_a_row(Log, ("sub", reviewed(Ran(way)))).compile(checkpointer=saver)
    way.invoke(graph, {"log": []}, on())
    paused = way.state(graph, on(), subgraphs=True)
    space = paused.tasks[0].state.config["configurable"]["checkpoint_ns"]
    at = next(one for one in way.history(graph, on(checkpoint_ns=space)) if one.next == ("c",))
    edited = way.edit(graph, at.config, {"log": ["edit"]})
    assert edited["configurable"]["checkpoint_ns"] != space
    assert way.state(graph, paused.config, subgraphs=True).tasks[0].state.values == {"log": ["a", "b", "c"]}
    assert way.state(graph, on()).metadata["source"] == "fork"


def counting(way: Way, saver: Saver) -> Any:
    inner = side_by_side(Number, inc=way.node(lambda _: {"n": 1})).compile(checkpointer=True)

    async def acall(_: Any) -> Any:
        return {"seen": [(await inner.ainvoke({"n": 0}))["n"]]}

    def call(_: Any) -> Any:
        return {"seen": [inner.invoke({"n": 0})["n"]]}

    graph = side_by_side(Seen, call=acall if way.is_async else call).compile(checkpointer=saver)
    for _ in range(3):
        way.invoke(graph, {"seen": []}, on())
    return graph


def test_P21_new_input_at_an_older_checkpoint_finds_the_memory_of_then(way: Way, saver: Saver) -> None:
    graph = counting(way, saver)
    first = [one for one in way.history(graph, on()) if not one.next][-1]
    assert way.invoke(graph, {"seen": []}, first.config) == {"seen": [1, 2]}


def test_P21_the_state_of_a_remembering_subgraph_is_that_of_the_branch_that_ran_last(way: Way, saver: Saver) -> None:
    graph = counting(way, saver)
    first = [one for one in way.history(graph, on()) if not one.next][-1]
    way.edit(graph, first.config, {"seen": ["edit"]})
    assert way.state(graph, on(checkpoint_ns="call")).values == {"n": 1}


def test_P12_a_subgraph_that_keeps_nothing_may_ask_twice(way: Way, saver: Saver) -> None:
    twice = way.node(lambda _: {"log": [interrupt("1"), interrupt("2")]})
    inner = side_by_side(Log, twice=twice).compile(checkpointer=False)
    graph = in_a_row(Log, ("sub", inner)).compile(checkpointer=saver)
    way.invoke(graph, {"log": []}, on())
    way.invoke(graph, Command(resume="a"), on())
    assert way.invoke(graph, Command(resume="b"), on()) == {"log": ["a", "b"]}


def test_P19_those_that_wait_beside_the_one_that_is_answered_anew_are_not_run(way: Way, saver: Saver) -> None:
    ran = Ran(way)
    graph = side_by_side(Log, a=ran.asks("a", "a?"), b=ran.asks("b", "b?")).compile(checkpointer=saver)
    way.invoke(graph, {"log": []}, on())
    paused = way.state(graph, on())
    asked = {pause.value: pause.id for pause in paused.interrupts}
    way.invoke(graph, Command(resume=dict.fromkeys(asked.values(), "old")), on())
    ran.take()
    way.invoke(graph, Command(resume={asked["a?"]: "new"}), paused.config)
    assert ran.take() == ["a"]
    assert [pause.value for pause in way.state(graph, on()).interrupts] == ["b?"]


def test_P22_an_edit_in_the_name_of_a_node_that_has_run_keeps_what_has_begun(way: Way, saver: Saver) -> None:
    ran = Ran(way)
    builder = in_a_row(Log, ("start", ran("start")))
    for name in ("left", "right"):
        builder.add_node(name, ran.asks(name, f"{name}?"))
        builder.add_edge("start", name)
    graph = builder.compile(checkpointer=saver)
    way.invoke(graph, {"log": []}, on())
    asked = way.state(graph, on()).interrupts
    way.edit(graph, on(), {"log": ["edit"]}, as_node="start")
    assert way.state(graph, on()).interrupts == asked


def test_P22_an_edit_inside_a_subgraph_closes_the_question_for_the_parent_too(way: Way, saver: Saver) -> None:
    graph = in_a_row(Log, ("sub", reviewed(Ran(way)))).compile(checkpointer=saver)
    way.invoke(graph, {"log": []}, on())
    way.edit(graph, innermost(way, graph).config, {"log": ["by hand"]}, as_node="review")
    assert (way.state(graph, on()).interrupts, way.state(graph, on()).next) == ((), ("sub",))
    assert way.invoke(graph, None, on())["log"] == ["a", "b", "c", "by hand"]


def test_P21_in_a_snapshot_of_then_the_state_of_a_subgraph_is_of_then(way: Way, saver: Saver) -> None:
    ran = Ran(way)
    inner = side_by_side(Log, done=ran("done"), ask=ran.asks("ask")).compile()
    graph = in_a_row(Log, ("sub", inner)).compile(checkpointer=saver)
    way.invoke(graph, {"log": ["in"]}, on())
    now = way.state(graph, on(), subgraphs=True)
    then = way.state(graph, now.config, subgraphs=True)
    assert (now.tasks[0].state.values, now.tasks[0].state.next) == ({"log": ["in", "done"]}, ("ask",))
    assert (then.tasks[0].state.values, then.tasks[0].state.next) == ({"log": ["in"]}, ("done", "ask"))
