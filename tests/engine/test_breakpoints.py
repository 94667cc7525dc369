"""Static breakpoints: interrupt_before and interrupt_after, at compile and per call."""

from __future__ import annotations

from typing import Any

import pytest

from perdure import START, StateGraph
from perdure.checkpoint.saver import Saver
from perdure.errors import MissingPartWarning, UnknownInterruptError, UnknownNode
from perdure.types import Command
from tests.engine.colours import Colour, Log, thread


def chain(colour: Colour, *names: str) -> StateGraph[Any, Any, Any, Any]:
    graph = StateGraph(Log)
    previous = START
    for name in names:
        graph.add_node(name, colour.says(name)).add_edge(previous, name)
        previous = name
    return graph


def stops(colour: Colour, graph: Any, first: Any = None, **options: Any) -> list[tuple[list[str], tuple[str, ...]]]:
    """(log, next) at each stop until the run is over."""
    given: Any = {"log": []} if first is None else first
    found = []
    while True:
        out = colour.invoke(graph, given, thread(), **options)
        assert "__interrupt__" not in out, "a breakpoint asks nothing"
        following = colour.state(graph, thread()).next
        found.append((out["log"], following))
        if not following:
            return found
        given = None


def test_before_a_node(colour: Colour, kept: Saver) -> None:
    graph = chain(colour, "a", "b", "c").compile(kept, interrupt_before=["b"])
    assert stops(colour, graph) == [(["a"], ("b",)), (["a", "b", "c"], ())]


def test_before_the_first_node(colour: Colour, kept: Saver) -> None:
    graph = chain(colour, "a", "b").compile(kept, interrupt_before=["a"])
    assert stops(colour, graph) == [([], ("a",)), (["a", "b"], ())]


def test_after_a_node(colour: Colour, kept: Saver) -> None:
    graph = chain(colour, "a", "b", "c").compile(kept, interrupt_after=["b"])
    assert stops(colour, graph) == [(["a", "b"], ("c",)), (["a", "b", "c"], ())]


def test_after_the_last_node_there_is_nothing_to_stop_for(colour: Colour, kept: Saver) -> None:
    graph = chain(colour, "a", "b").compile(kept, interrupt_after=["b"])
    assert stops(colour, graph) == [(["a", "b"], ())]


def test_before_and_after_one_node(colour: Colour, kept: Saver) -> None:
    graph = chain(colour, "a", "b", "c").compile(kept, interrupt_before=["b"], interrupt_after=["b"])
    assert [following for _, following in stops(colour, graph)] == [("b",), ("c",), ()]


def test_before_all(colour: Colour, kept: Saver) -> None:
    graph = chain(colour, "a", "b", "c").compile(kept, interrupt_before="*")
    assert [following for _, following in stops(colour, graph)] == [("a",), ("b",), ("c",), ()]


def test_after_all(colour: Colour, kept: Saver) -> None:
    graph = chain(colour, "a", "b", "c").compile(kept, interrupt_after="*")
    assert [following for _, following in stops(colour, graph)] == [("b",), ("c",), ()]


def test_a_call_may_set_its_own(colour: Colour, kept: Saver) -> None:
    graph = chain(colour, "a", "b", "c").compile(kept, interrupt_before=["b"])
    assert colour.invoke(graph, {"log": []}, thread(), interrupt_before=["c"])["log"] == ["a", "b"]
    assert colour.state(graph, thread()).next == ("c",)
    assert colour.invoke(graph, None, thread(), interrupt_after=["c"])["log"] == ["a", "b", "c"]


def test_a_loop_stops_each_time(colour: Colour, kept: Saver) -> None:
    graph = chain(colour, "a", "b")
    graph.add_conditional_edges("b", lambda state: "a" if len(state["log"]) < 6 else "__end__")
    compiled = graph.compile(kept, interrupt_before=["b"])
    assert [log for log, _ in stops(colour, compiled)] == [
        ["a"],
        ["a", "b", "a"],
        ["a", "b", "a", "b", "a"],
        ["a", "b", "a", "b", "a", "b"],
    ]


@pytest.mark.parametrize("answer", [True, None, "go", {}, 0], ids=repr)
def test_P13_any_answer_passes_a_breakpoint(colour: Colour, kept: Saver, answer: Any) -> None:
    graph = chain(colour, "a", "b").compile(kept, interrupt_before=["b"])
    colour.invoke(graph, {"log": []}, thread())
    assert colour.invoke(graph, Command(resume=answer), thread())["log"] == ["a", "b"]


def test_P13_a_finished_thread_is_at_no_breakpoint(colour: Colour, kept: Saver) -> None:
    graph = chain(colour, "a", "b").compile(kept, interrupt_before=["b"])
    stops(colour, graph)
    with pytest.raises(UnknownInterruptError, match="no open question"):
        colour.invoke(graph, Command(resume=1), thread())


def test_an_edit_at_a_breakpoint_counts(colour: Colour, kept: Saver) -> None:
    graph = chain(colour, "a", "b").compile(kept, interrupt_before=["b"])
    colour.invoke(graph, {"log": []}, thread())
    assert colour.invoke(graph, Command(resume=1, update={"log": ["edit"]}), thread())["log"] == ["a", "edit", "b"]


def test_new_input_at_a_breakpoint_starts_over(colour: Colour, kept: Saver) -> None:
    graph = chain(colour, "a", "b").compile(kept, interrupt_before=["b"])
    colour.invoke(graph, {"log": []}, thread())
    assert colour.invoke(graph, {"log": ["new"]}, thread())["log"] == ["a", "new", "a"]
    assert colour.invoke(graph, None, thread())["log"] == ["a", "new", "a", "b"]


def test_all_nodes_of_a_step_wait_where_one_has_a_breakpoint(colour: Colour, kept: Saver) -> None:
    graph = StateGraph(Log)
    for name in "ab":
        graph.add_node(name, colour.says(name)).add_edge(START, name)
    compiled = graph.compile(kept, interrupt_before=["b"])
    assert stops(colour, compiled) == [([], ("a", "b")), (["a", "b"], ())]


def test_the_stream_tells_a_breakpoint_without_a_question(colour: Colour, kept: Saver) -> None:
    graph = chain(colour, "a", "b").compile(kept, interrupt_before=["b"])
    assert colour.stream(graph, {"log": []}, thread()) == [{"a": {"log": ["a"]}}, {"__interrupt__": ()}]
    assert colour.stream(graph, None, thread(), stream_mode=["updates", "values"]) == [
        ("values", {"log": ["a"]}),
        ("updates", {"b": {"log": ["b"]}}),
        ("values", {"log": ["a", "b"]}),
    ]


def test_the_second_version_of_invoke_has_no_interrupts_either(colour: Colour, kept: Saver) -> None:
    graph = chain(colour, "a", "b").compile(kept, interrupt_before=["b"])
    out = colour.invoke(graph, {"log": []}, thread(), version="v2")
    assert (out.value, out.interrupts) == ({"log": ["a"]}, ())


def test_P50_a_breakpoint_at_an_unknown_node_is_an_error(colour: Colour, kept: Saver) -> None:
    with pytest.raises(UnknownNode):
        chain(colour, "a").compile(kept, interrupt_before=["z"])
    graph = chain(colour, "a").compile(kept)
    with pytest.raises(UnknownNode, match="'z'"):
        colour.invoke(graph, {"log": []}, thread(), interrupt_before=["z"])
    with pytest.raises(UnknownNode, match="'z'"):
        colour.invoke(graph, {"log": []}, thread(), interrupt_after=["a", "z"])
    with pytest.raises(ValueError, match=r"must be a list of node names or '\*', got 'a'. Did you mean \['a'\]"):
        colour.invoke(graph, {"log": []}, thread(), interrupt_before="a")


def test_without_a_saver_a_breakpoint_ends_the_call(colour: Colour) -> None:
    graph = chain(colour, "a", "b").compile(interrupt_before=["b"])
    with pytest.warns(MissingPartWarning):
        assert colour.invoke(graph, {"log": []})["log"] == ["a"]
