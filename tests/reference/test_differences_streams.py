"""Differences from the reference: streams, limits, breakpoints, drawings, names. See docs/explanation/differences.md."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.checkpoint.saver import Saver
from perdure.errors import GraphRecursionError
from perdure.graph import END, START, StateGraph
from perdure.types import Command
from tests.promises.ways import Way, on
from tests.reference.shapes import EMPTY, State, failing_once, linear


def test_a_tuple_of_modes_is_like_a_list(way: Way, saver: Saver) -> None:
    found = way.stream(linear(way, saver), EMPTY, on(), stream_mode=("updates", "values"))
    assert [mode for mode, _ in found] == ["values", "updates", "values", "updates", "values"]


def test_the_result_of_a_task_without_keys_is_the_bare_value(way: Way, saver: Saver) -> None:
    graph: Any = StateGraph(int).add_node("add_one", way.node(lambda n: n + 1)).add_edge(START, "add_one")
    found = way.stream(graph.compile(checkpointer=saver), 1, on(), stream_mode="tasks")
    assert found[-1]["result"] == 2


def test_P2_a_task_with_a_stored_result_is_not_announced_again(way: Way, saver: Saver) -> None:
    graph = failing_once(way, saver, {"ok": 0, "bad": 0})
    with pytest.raises(ValueError, match="boom"):
        way.invoke(graph, EMPTY, on())
    found = way.stream(graph, None, on(), stream_mode="tasks")
    assert [event["name"] for event in found if "input" in event] == ["bad", "end"]


def test_a_checkpoint_event_always_lists_a_tasks_questions(way: Way, saver: Saver) -> None:
    graph = failing_once(way, saver, {"ok": 0, "bad": 0})
    with pytest.raises(ValueError, match="boom"):
        way.invoke(graph, EMPTY, on())
    first, *_ = way.stream(graph, None, on(), stream_mode="checkpoints")
    assert [task["interrupts"] for task in first["tasks"]] == [(), ()]


def looping(way: Way, saver: Saver, times: int) -> Any:
    """A node that runs `times` times."""
    builder = StateGraph(State).add_node("a", way.node(lambda _: {"bar": ["a"]})).add_edge(START, "a")
    builder.add_conditional_edges("a", lambda state: "a" if len(state["bar"]) < times else END)
    return builder.compile(checkpointer=saver)


def test_a_run_that_ends_with_its_last_allowed_step_is_no_error(way: Way, saver: Saver) -> None:
    limited: Any = {**on("3"), "recursion_limit": 3}
    assert way.invoke(looping(way, saver, 3), EMPTY, limited)["bar"] == ["a"] * 3
    with pytest.raises(GraphRecursionError, match="Recursion limit of 3 reached"):
        way.invoke(looping(way, saver, 4), EMPTY, {**on("4"), "recursion_limit": 3})


def test_a_breakpoint_after_the_last_node_is_not_reached(way: Way, saver: Saver) -> None:
    graph = linear(way, saver)
    assert way.stream(graph, EMPTY, on(), interrupt_after=["node_b"])[-1] == {"node_b": {"foo": "b", "bar": ["b"]}}
    assert way.state(graph, on()).next == ()


def drawn(builder: StateGraph[Any, Any, Any, Any]) -> list[str]:
    """The edges and the ends of a drawing."""
    text = builder.compile().get_graph().draw_mermaid().partition("graph TD;\n")[2].partition("\tclassDef")[0]
    return [row.strip("\t;") for row in text.splitlines() if "__" in row or "->" in row]


def test_a_drawing_shows_where_a_conditional_edge_may_lead() -> None:
    builder = StateGraph(State).add_node("a", lambda _: None).add_node("x", lambda _: None).add_edge(START, "a")
    builder.add_conditional_edges("a", lambda _: "x")
    assert drawn(builder) == [
        "__start__([<p>__start__</p>]):::first",
        "__end__([<p>__end__</p>]):::last",
        "__start__ --> a",
        "a -.-> __end__",
        "a -.-> x",
        "x --> __end__",
    ]


def test_a_drawing_shows_nodes_that_only_a_command_leads_to() -> None:
    builder = (
        StateGraph(State).add_node("fan", lambda _: Command(goto="w")).add_node("w", lambda _: None).add_edge(START, "fan")
    )
    assert drawn(builder) == [
        "__start__([<p>__start__</p>]):::first",
        "__end__([<p>__end__</p>]):::last",
        "__start__ --> fan",
        "fan --> __end__",
        "w --> __end__",
    ]


def test_the_default_name_of_a_graph() -> None:
    assert StateGraph(State).add_node("a", lambda _: None).add_edge(START, "a").compile().name == "Perdure"
