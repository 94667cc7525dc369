"""Worked example A.4: START -> p(subgraph START -> c1 -> c2, c2 asks) -> after; the subgraph keeps state per call, for ever, or none."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.checkpoint.saver import Saver
from perdure.graph import START, StateGraph
from perdure.types import Command, StateSnapshot, interrupt
from tests.promises.ways import Way, on
from tests.reference.shapes import State, line, lines, plain, pull, tasks

GIVEN: dict[str, Any] = {"foo": "", "bar": ["in"]}
INSIDE: dict[str, Any] = {"foo": "", "bar": ["in", "c1"]}
AFTER_P: dict[str, Any] = {"foo": "", "bar": ["in", "in", "c1", "c2:Y"]}
DONE: dict[str, Any] = {"foo": "after", "bar": ["in", "in", "c1", "c2:Y"]}
KEEPING = [None, True]
MODES = [None, True, False]


def nested(way: Way, saver: Saver, memory: Any) -> Any:
    inner = StateGraph(State)
    inner.add_node("c1", way.node(lambda _: {"bar": ["c1"]}))
    inner.add_node("c2", way.node(lambda _: {"bar": ["c2:" + interrupt("sub?")]}))
    inner.add_edge(START, "c1").add_edge("c1", "c2")
    outer = StateGraph(State).add_node("p", inner.compile(checkpointer=memory))
    outer.add_node("after", way.node(lambda _: {"foo": "after"}))
    return outer.add_edge(START, "p").add_edge("p", "after").compile(checkpointer=saver)


def paused(way: Way, saver: Saver, memory: Any) -> tuple[Any, Any]:
    graph = nested(way, saver, memory)
    return graph, way.invoke(graph, GIVEN, on("1"))


@pytest.mark.parametrize("memory", MODES)
def test_the_pause_comes_out_and_the_answer_goes_on_inside(way: Way, saver: Saver, memory: Any) -> None:
    graph, out = paused(way, saver, memory)
    questions = out.pop("__interrupt__")
    assert out == GIVEN
    assert [pause.value for pause in questions] == ["sub?"]
    assert way.invoke(graph, Command(resume="Y"), on("1")) == DONE


@pytest.mark.parametrize("memory", MODES)
def test_the_state_while_it_waits(way: Way, saver: Saver, memory: Any) -> None:
    graph, out = paused(way, saver, memory)
    state = way.state(graph, on("1"))
    assert line(state) == (0, "loop", GIVEN, ("p",), ["sub?"])
    (task,) = state.tasks
    assert (task.name, task.path, task.error, task.result) == ("p", ("__pregel_pull", "p"), None, None)
    assert [pause.id for pause in task.interrupts] == [out["__interrupt__"][0].id]
    space = {None: f"p:{task.id}", True: "p", False: None}[memory]
    config = None if space is None else {"configurable": {"thread_id": "1", "checkpoint_ns": space}}
    assert task.state == config


@pytest.mark.parametrize("memory", KEEPING)
def test_the_state_inside(way: Way, saver: Saver, memory: Any) -> None:
    graph, out = paused(way, saver, memory)
    (task,) = way.state(graph, on("1"), subgraphs=True).tasks
    inside = task.state
    assert isinstance(inside, StateSnapshot)
    assert line(inside) == (1, "loop", INSIDE, ("c2",), ["sub?"])
    assert tasks(inside) == [("c2", ("__pregel_pull", "c2"), None, ["sub?"], None, None)]
    assert inside.interrupts[0].id == out["__interrupt__"][0].id
    place = on("1", checkpoint_ns=inside.config["configurable"]["checkpoint_ns"])
    assert way.state(graph, place) == inside
    assert lines(way.history(graph, place)) == [
        (1, "loop", INSIDE, ("c2",), 2, 1, ["sub?"]),
        pull("c2", None, "sub?"),
        (0, "loop", GIVEN, ("c1",), 1, 0, []),
        pull("c1", {"bar": ["c1"]}),
        (-1, "input", {"bar": []}, ("__start__",), 0, None, []),
        pull("__start__", GIVEN),
    ]


@pytest.mark.parametrize("memory", [False])
def test_without_a_saver_of_its_own_there_is_no_state_inside(way: Way, saver: Saver, memory: Any) -> None:
    graph, _ = paused(way, saver, memory)
    assert way.state(graph, on("1"), subgraphs=True).tasks[0].state is None


@pytest.mark.parametrize("memory", MODES)
def test_the_namespaces_of_what_is_stored(way: Way, saver: Saver, memory: Any) -> None:
    graph, _ = paused(way, saver, memory)
    (task,) = way.state(graph, on("1")).tasks
    way.invoke(graph, Command(resume="Y"), on("1"))
    counted: dict[str, int] = {}
    for found in saver.list(on("1")):
        space = found.config["configurable"]["checkpoint_ns"]
        counted[space] = counted.get(space, 0) + 1
    assert counted == {"": 4, **{None: {f"p:{task.id}": 4}, True: {"p": 4}, False: {}}[memory]}


@pytest.mark.parametrize("memory", MODES)
def test_a_second_turn(way: Way, saver: Saver, memory: Any) -> None:
    graph, _ = paused(way, saver, memory)
    way.invoke(graph, Command(resume="Y"), on("1"))
    way.invoke(graph, {"foo": "", "bar": ["2"]}, on("1"))
    out = way.invoke(graph, Command(resume="Z"), on("1"))
    turn = ["in", "in", "c1", "c2:Y", "2"]
    remembered = ["in", "c1", "c2:Y"] if memory else []
    assert out["bar"] == [*turn, *remembered, *turn, "c1", "c2:Z"]


def events(way: Way, saver: Saver, memory: Any, mode: Any) -> list[Any]:
    """Events of the run to the pause, and then of the resume, as (names of the namespace, payload)."""
    graph = nested(way, saver, memory)
    found = []
    for given in (GIVEN, Command(resume="Y")):
        run = way.stream(graph, given, on("1"), stream_mode=mode, subgraphs=True)
        found.append([(tuple(part.partition(":")[0] for part in space), plain(payload)) for space, payload in run])
    return found


@pytest.mark.parametrize("memory", MODES)
def test_the_updates_of_both_runs(way: Way, saver: Saver, memory: Any) -> None:
    first, second = events(way, saver, memory, "updates")
    assert [(space, *payload) for space, payload in first] == [
        (("p",), "c1"),
        (("p",), "__interrupt__"),
        ((), "__interrupt__"),
    ]
    asked = [payload["__interrupt__"][0] for _, payload in first if "__interrupt__" in payload]
    assert [pause.value for pause in asked] == ["sub?", "sub?"]
    again = [(("p",), {"c1": {"bar": ["c1"]}})] if memory is False else []
    assert second == [
        *again,
        (("p",), {"c2": {"bar": ["c2:Y"]}}),
        ((), {"p": {"foo": "", "bar": ["in", "c1", "c2:Y"]}}),
        ((), {"after": {"foo": "after"}}),
    ]


@pytest.mark.parametrize("memory", KEEPING)
def test_the_values_of_both_runs(way: Way, saver: Saver, memory: Any) -> None:
    first, second = events(way, saver, memory, "values")
    shown = [(space, {key: payload[key] for key in ("foo", "bar")}, "__interrupt__" in payload) for space, payload in first]
    assert shown[:3] == [((), GIVEN, False), (("p",), GIVEN, False), (("p",), INSIDE, False)]
    assert {space for space, _, asks in shown if asks} == {("p",), ()}
    assert second == [
        ((), GIVEN),
        (("p",), INSIDE),
        (("p",), {"foo": "", "bar": ["in", "c1", "c2:Y"]}),
        ((), AFTER_P),
        ((), DONE),
    ]


@pytest.mark.parametrize("memory", KEEPING)
def test_a_streamed_namespace_names_the_task(way: Way, saver: Saver, memory: Any) -> None:
    graph = nested(way, saver, memory)
    run = way.stream(graph, GIVEN, on("1"), subgraphs=True)
    (task,) = way.state(graph, on("1")).tasks
    assert {space for space, _ in run} == {(), ("p" if memory else f"p:{task.id}",)}
