"""Edges that wait for several nodes, and nodes that wait for everything."""

from __future__ import annotations

from typing import Any

from perdure import START, StateGraph
from perdure.checkpoint.saver import Saver
from perdure.graph import END
from perdure.types import Command, interrupt
from tests.engine.colours import Colour, Log, thread


def drawn(colour: Colour, *names: str, **defer: bool) -> StateGraph[Any, Any, Any, Any]:
    graph = StateGraph(Log)
    for name in names:
        graph.add_node(name, colour.says(name), defer=defer.get(name, False))
    return graph


def test_a_join_waits_for_all_of_its_sources_in_one_step(colour: Colour, saver: Any) -> None:
    graph = drawn(colour, "a", "b", "end").add_edge(START, "a").add_edge(START, "b").add_edge(["a", "b"], "end")
    assert colour.invoke(graph.compile(saver), {"log": []}, thread())["log"] == ["a", "b", "end"]


def test_a_join_waits_across_steps(colour: Colour, saver: Any) -> None:
    graph = drawn(colour, "a", "b", "b2", "b3", "end")
    graph.add_edge(START, "a").add_edge(START, "b").add_edge("b", "b2").add_edge("b2", "b3").add_edge(["a", "b3"], "end")
    assert colour.invoke(graph.compile(saver), {"log": []}, thread())["log"] == ["a", "b", "b2", "b3", "end"]


def test_a_join_waits_across_runs_that_pause(kept: Saver) -> None:
    graph = StateGraph(Log).add_node("a", lambda _: {"log": ["a"]}).add_node("b", lambda _: {"log": [interrupt("b?")]})
    graph.add_node("c", lambda _: {"log": [interrupt("c?")]}).add_node("end", lambda _: {"log": ["end"]})
    graph.add_edge(START, "a").add_edge(START, "b").add_edge("b", "c").add_edge(["a", "c"], "end")
    compiled = graph.compile(kept)
    assert compiled.invoke({"log": []}, thread())["log"] == ["a"]
    assert compiled.invoke(Command(resume="B"), thread())["log"] == ["a", "B"]
    assert compiled.get_state(thread()).next == ("c",)
    assert compiled.invoke(Command(resume="C"), thread())["log"] == ["a", "B", "C", "end"]


def test_a_join_starts_over_once_it_fired(colour: Colour, saver: Any) -> None:
    graph = drawn(colour, "a", "b", "both").add_edge(START, "a").add_edge(START, "b").add_edge(["a", "b"], "both")

    def again(state: Log) -> list[str]:
        return ["a", "b"] if state["log"].count("both") < 3 else [END]

    graph.add_conditional_edges("both", again)
    assert colour.invoke(graph.compile(saver), {"log": []}, thread())["log"] == ["a", "b", "both"] * 3


def test_a_source_that_runs_twice_counts_once(colour: Colour, saver: Any) -> None:
    graph = drawn(colour, "a", "b", "both").add_edge(START, "a")

    def route(state: Log) -> str:
        return "a" if state["log"].count("a") < 3 else "b"

    graph.add_conditional_edges("a", route).add_edge(["a", "b"], "both")
    assert colour.invoke(graph.compile(saver), {"log": []}, thread())["log"] == ["a", "a", "a", "b", "both"]


def test_several_joins_into_one_node_each_start_it(colour: Colour, saver: Any) -> None:
    graph = drawn(colour, "a", "b", "c", "end").add_edge(START, "a").add_edge(START, "b").add_edge("b", "c")
    graph.add_edge(["a", "b"], "end").add_edge(["a", "c"], "end")
    assert colour.invoke(graph.compile(saver), {"log": []}, thread())["log"] == ["a", "b", "c", "end", "end"]


def test_a_join_remembers_who_arrived_from_one_input_to_the_next(colour: Colour, kept: Saver) -> None:
    graph = drawn(colour, "a", "b", "both").add_edge(["a", "b"], "both")
    graph.add_conditional_edges(START, lambda state: state["log"][-1])
    compiled = graph.compile(kept)
    assert colour.invoke(compiled, {"log": ["a"]}, thread())["log"] == ["a", "a"]
    assert colour.invoke(compiled, {"log": ["b"]}, thread())["log"] == ["a", "a", "b", "b", "both"]


def test_a_join_into_the_end_is_no_obstacle(colour: Colour, saver: Any) -> None:
    graph = drawn(colour, "a", "b").add_edge(START, "a").add_edge(START, "b").add_edge(["a", "b"], END)
    assert colour.invoke(graph.compile(saver), {"log": []}, thread())["log"] == ["a", "b"]


def test_a_deferred_node_runs_when_nothing_else_is_left(colour: Colour, saver: Any) -> None:
    graph = drawn(colour, "a", "b", "b2", "last", last=True)
    graph.add_edge(START, "a").add_edge(START, "b").add_edge("b", "b2").add_edge("a", "last").add_edge("b2", "last")
    assert colour.invoke(graph.compile(saver), {"log": []}, thread())["log"] == ["a", "b", "b2", "last"]


def test_a_deferred_node_at_the_start_waits_for_the_others(colour: Colour, saver: Any) -> None:
    graph = drawn(colour, "a", "b", "last", last=True).add_edge(START, "last").add_edge(START, "a").add_edge("a", "b")
    assert colour.invoke(graph.compile(saver), {"log": []}, thread())["log"] == ["a", "b", "last"]


def test_what_a_deferred_node_starts_runs_after_it(colour: Colour, saver: Any) -> None:
    graph = (
        drawn(colour, "a", "last", "after", last=True).add_edge(START, "a").add_edge(START, "last").add_edge("last", "after")
    )
    assert colour.invoke(graph.compile(saver), {"log": []}, thread())["log"] == ["a", "last", "after"]


def test_deferred_nodes_run_together(colour: Colour, saver: Any) -> None:
    graph = drawn(colour, "a", "y", "x", y=True, x=True).add_edge(START, "a").add_edge(START, "y").add_edge(START, "x")
    compiled = graph.compile(saver)
    steps = colour.stream(compiled, {"log": []}, thread(), stream_mode="values")
    assert [step["log"] for step in steps] == [[], ["a"], ["a", "x", "y"]]


def test_a_join_into_a_deferred_node_waits_for_everything(colour: Colour, saver: Any) -> None:
    graph = drawn(colour, "a", "b", "c", "c2", "last", last=True)
    graph.add_edge(START, "a").add_edge(START, "b").add_edge(START, "c").add_edge("c", "c2").add_edge(["a", "b"], "last")
    assert colour.invoke(graph.compile(saver), {"log": []}, thread())["log"] == ["a", "b", "c", "c2", "last"]


def test_a_deferred_node_is_found_again_after_a_crash(colour: Colour, kept: Saver) -> None:
    fails = [True]

    def shaky(_: Log) -> dict[str, Any]:
        if fails[0]:
            raise ConnectionError("down")
        return {"log": ["shaky"]}

    graph = drawn(colour, "a", "last", last=True).add_node("shaky", colour.node(shaky))
    graph.add_edge(START, "a").add_edge(START, "last").add_edge("a", "shaky")
    compiled = graph.compile(kept)
    try:
        colour.invoke(compiled, {"log": []}, thread())
    except ConnectionError:
        fails[0] = False
    assert colour.state(compiled, thread()).next == ("shaky",)
    assert colour.invoke(compiled, None, thread())["log"] == ["a", "shaky", "last"]
