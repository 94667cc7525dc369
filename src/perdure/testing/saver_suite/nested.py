"""Time travel inside subgraphs over a saver: going back into one, editing it, and what it remembers as of the past."""

from __future__ import annotations

import operator
from typing import Annotated, Any, TypedDict

import pytest

from perdure.constants import START
from perdure.graph import StateGraph
from perdure.testing.saver_suite.colours import Suite
from perdure.testing.saver_suite.graphs import Coloured, on
from perdure.types import Command, interrupt


class Log(TypedDict):
    """Who ran, in order."""

    log: Annotated[list[str], operator.add]


class Whole(TypedDict):
    """The same, where a subgraph gives back all of it."""

    log: Annotated[list[str], lambda _, right: right]


class Number(TypedDict):
    """A number that grows."""

    n: Annotated[int, operator.add]


def inside(namespace: str) -> Any:
    """The config of a namespace."""
    return {"configurable": {"thread_id": "t", "checkpoint_ns": namespace}}


def reviewed(ran: list[str], memory: Any) -> Any:
    """a, b, c, and then a question."""

    def node(name: str) -> Any:
        def run(state: Any) -> Any:
            ran.append(name)
            return {"log": [interrupt("ok?") if name == "review" else name]}

        return run

    builder: StateGraph[Any] = StateGraph(Log)
    before = START
    for name in ("a", "b", "c", "review"):
        builder.add_node(name, node(name))
        builder.add_edge(before, name)
        before = name
    return builder.compile(checkpointer=memory)


def around(inner: Any) -> StateGraph[Any]:
    """A graph with one node, which is another."""
    builder: StateGraph[Any] = StateGraph(Whole)
    builder.add_node("sub", inner)
    builder.add_edge(START, "sub")
    return builder


class NestedSuite(Suite):
    """What is inside a subgraph is read, replayed, answered and edited as of any checkpoint."""

    @pytest.mark.parametrize("memory", [None, True])
    def test_P20_a_run_from_a_checkpoint_inside_a_subgraph(self, saver: Any, coloured: Coloured, memory: Any) -> None:
        ran: list[str] = []
        graph = coloured(around(reviewed(ran, memory)).compile(checkpointer=saver))
        graph.invoke({"log": []}, on())
        paused = graph.get_state(on(), subgraphs=True)
        namespace = paused.tasks[0].state.config["configurable"]["checkpoint_ns"]
        at = next(each for each in graph.get_state_history(inside(namespace)) if each.next == ("c",))
        ran.clear()
        (asked,) = graph.invoke(None, at.config)["__interrupt__"]
        assert ran == ["c", "review"]
        assert asked.id != paused.interrupts[0].id
        assert [each.metadata["source"] for each in graph.get_state_history(on())] == ["fork", "loop", "input"]
        assert graph.get_state(on(), subgraphs=True).tasks[0].state.values == {"log": ["a", "b", "c"]}
        again = graph.get_state(paused.config, subgraphs=True)
        assert (again.interrupts, again.tasks[0].state.values) == (paused.interrupts, paused.tasks[0].state.values)
        assert graph.invoke(Command(resume="yes"), on())["log"] == ["a", "b", "c", "yes"]

    @pytest.mark.parametrize("memory", [None, True])
    def test_P20_an_edit_of_a_checkpoint_inside_a_subgraph(self, saver: Any, coloured: Coloured, memory: Any) -> None:
        ran: list[str] = []
        graph = coloured(around(reviewed(ran, memory)).compile(checkpointer=saver))
        graph.invoke({"log": []}, on())
        namespace = graph.get_state(on(), subgraphs=True).tasks[0].state.config["configurable"]["checkpoint_ns"]
        at = next(each for each in graph.get_state_history(inside(namespace)) if each.next == ("c",))
        edited = graph.update_state(at.config, {"log": ["edit"]})
        assert graph.get_state(edited).values == {"log": ["a", "b", "edit"]}
        assert graph.get_state(at.config).values == {"log": ["a", "b"]}
        ran.clear()
        graph.invoke(None, edited)
        assert ran == ["c", "review"]
        assert graph.invoke(Command(resume="yes"), on())["log"] == ["a", "b", "edit", "c", "yes"]

    @pytest.mark.parametrize("memory", [None, True])
    def test_P19_a_question_inside_a_subgraph_is_answered_twice(self, saver: Any, coloured: Coloured, memory: Any) -> None:
        ran: list[str] = []
        graph = coloured(around(around(reviewed(ran, memory)).compile(checkpointer=memory)).compile(checkpointer=saver))
        graph.invoke({"log": []}, on())
        paused = graph.get_state(on())
        for answer in ("one", "two", "three"):
            ran.clear()
            assert graph.invoke(Command(resume=answer), paused.config)["log"] == ["a", "b", "c", answer]
            assert ran == ["review"]

    def test_P22_an_edit_where_a_subgraph_stands_now_is_picked_up(self, saver: Any, coloured: Coloured) -> None:
        ran: list[str] = []
        graph = coloured(around(reviewed(ran, None)).compile(checkpointer=saver))
        graph.invoke({"log": []}, on())
        (task,) = graph.get_state(on()).tasks
        graph.update_state(task.state, {"log": ["edit"]})
        assert graph.get_state(on()).interrupts == task.interrupts
        assert graph.invoke(Command(resume="yes"), on())["log"] == ["a", "b", "c", "edit", "yes"]

    def test_P21_what_is_remembered_is_that_of_the_checkpoint_one_starts_from(self, saver: Any, coloured: Coloured) -> None:
        inner: StateGraph[Any] = StateGraph(Number)
        inner.add_node("inc", lambda _: {"n": 1})
        inner.add_edge(START, "inc")
        child = inner.compile(checkpointer=True)
        builder: StateGraph[Any] = StateGraph(Log)
        builder.add_node("call", lambda _: {"log": [str(child.invoke({"n": 0})["n"])]})
        builder.add_edge(START, "call")
        graph = coloured(builder.compile(checkpointer=saver))
        for _ in range(3):
            graph.invoke({"log": []}, on())
        ends = [each for each in graph.get_state_history(on()) if not each.next]
        assert [each.values["log"] for each in ends] == [["1", "2", "3"], ["1", "2"], ["1"]]
        assert graph.invoke({"log": []}, ends[2].config)["log"] == ["1", "2"]
        assert graph.get_state(inside("call")).values == {"n": 2}
        assert graph.invoke({"log": []}, ends[0].config)["log"] == ["1", "2", "3", "4"]
        graph.update_state(inside("call"), {"n": 100})
        assert graph.invoke({"log": []}, on())["log"] == ["1", "2", "3", "4", "105"]
        assert graph.invoke({"log": []}, ends[1].config)["log"] == ["1", "2", "3"]
