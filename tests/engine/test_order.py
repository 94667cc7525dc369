"""Plan and apply: which tasks a super-step has, and in which order their results count."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from perdure import START, StateGraph
from perdure.checkpoint.memory import InMemorySaver
from perdure.checkpoint.saver import Saver
from perdure.errors import InvalidUpdateError
from perdure.types import Command, Overwrite, Send
from tests.engine.colours import Colour, Log, thread


def test_results_are_applied_in_the_order_of_names_whoever_was_drawn_first(colour: Colour, saver: Any) -> None:
    graph = StateGraph(Log)
    for name in "cab":
        graph.add_node(name, colour.says(name)).add_edge(START, name)
    out = colour.invoke(graph.compile(saver), {"log": []}, thread())
    assert out == {"log": ["a", "b", "c"]}


def test_results_are_applied_in_the_order_of_names_whoever_finished_first() -> None:
    turns = {name: threading.Event() for name in "abc"}

    def node(name: str, after: str | None) -> Any:
        def run(_: Log) -> dict[str, Any]:
            if after is not None:
                assert turns[after].wait(10)
            turns[name].set()
            return {"log": [name]}

        return run

    graph = StateGraph(Log)
    for name, after in (("a", "b"), ("b", "c"), ("c", None)):
        graph.add_node(name, node(name, after)).add_edge(START, name)
    compiled = graph.compile(InMemorySaver())
    seen = list(compiled.stream({"log": []}, thread(), stream_mode=["updates", "values"]))
    assert [next(iter(update)) for mode, update in seen if mode == "updates"] == ["c", "b", "a"], "updates: as they finish"
    assert seen[-1] == ("values", {"log": ["a", "b", "c"]})


def test_async_results_are_applied_in_the_order_of_names_whoever_finished_first() -> None:
    async def main() -> Any:
        turns = {name: asyncio.Event() for name in "abc"}

        def node(name: str, after: str | None) -> Any:
            async def run(_: Log) -> dict[str, Any]:
                if after is not None:
                    await turns[after].wait()
                turns[name].set()
                return {"log": [name]}

            return run

        graph = StateGraph(Log)
        for name, after in (("a", "b"), ("b", "c"), ("c", None)):
            graph.add_node(name, node(name, after)).add_edge(START, name)
        return await graph.compile().ainvoke({"log": []})

    assert asyncio.run(main()) == {"log": ["a", "b", "c"]}


def test_sends_are_applied_by_position_and_after_triggered_nodes(colour: Colour, saver: Any) -> None:
    def fan(_: Log) -> list[Any]:
        return [Send("w", 3), "z", Send("w", 1), Send("v", 2), "a"]

    graph = StateGraph(Log)
    graph.add_node("a", colour.says("a")).add_node("z", colour.says("z"))
    graph.add_node("w", colour.node(lambda n: {"log": [f"w{n}"]})).add_node("v", colour.node(lambda n: {"log": [f"v{n}"]}))
    graph.add_node("first", colour.says("first")).add_edge(START, "first").add_conditional_edges("first", fan)
    out = colour.invoke(graph.compile(saver), {"log": []}, thread())
    assert out["log"] == ["first", "a", "z", "w3", "w1", "v2"]


def test_a_node_triggered_twice_in_one_step_runs_once(colour: Colour, saver: Any) -> None:
    graph = StateGraph(Log)
    for name in "ab":
        graph.add_node(name, colour.says(name)).add_edge(START, name).add_edge(name, "end")
    graph.add_node("end", colour.says("end"))
    assert colour.invoke(graph.compile(saver), {"log": []}, thread())["log"] == ["a", "b", "end"]


def test_branches_of_different_length_run_a_common_successor_each_time(colour: Colour, saver: Any) -> None:
    graph = StateGraph(Log)
    for name in ("a", "b", "b2", "end"):
        graph.add_node(name, colour.says(name))
    graph.add_edge(START, "a").add_edge(START, "b").add_edge("b", "b2").add_edge("a", "end").add_edge("b2", "end")
    assert colour.invoke(graph.compile(saver), {"log": []}, thread())["log"] == ["a", "b", "b2", "end", "end"]


def test_parallel_nodes_do_not_see_each_other(colour: Colour, saver: Any) -> None:
    seen: dict[str, list[Any]] = {}

    def node(name: str) -> Any:
        def run(state: Log) -> dict[str, Any]:
            seen[name] = list(state["log"])
            return {"log": [name]}

        return colour.node(run)

    graph = StateGraph(Log)
    for name in "ab":
        graph.add_node(name, node(name)).add_edge(START, name)
    colour.invoke(graph.compile(saver), {"log": ["in"]}, thread())
    assert seen == {"a": ["in"], "b": ["in"]}


def test_an_overwrite_voids_what_others_wrote_in_its_step(colour: Colour, saver: Any) -> None:
    graph = StateGraph(Log)
    graph.add_node("a", colour.says("a")).add_node("b", colour.node(lambda _: {"log": Overwrite(["only"])}))
    graph.add_node("c", colour.says("c")).add_node("d", colour.says("d"))
    for name in "abc":
        graph.add_edge(START, name)
    graph.add_edge(["a", "b", "c"], "d")
    assert colour.invoke(graph.compile(saver), {"log": ["in"]}, thread())["log"] == ["only", "d"]


def test_two_writes_of_one_step_to_a_key_without_reducer_are_refused_and_name_the_key(colour: Colour, saver: Any) -> None:
    graph = StateGraph(dict[str, Any])  # a bare type: the whole value is one key
    graph.add_node("a", colour.node(lambda _: {"x": 1})).add_node("b", colour.node(lambda _: {"x": 2}))
    graph.add_edge(START, "a").add_edge(START, "b")
    with pytest.raises(InvalidUpdateError, match="one value per step") as caught:
        colour.invoke(graph.compile(saver), {}, thread())
    assert caught.value.code == "INVALID_CONCURRENT_GRAPH_UPDATE"


def test_P2_good_results_are_kept_where_applying_them_fails(colour: Colour, kept: Saver) -> None:
    runs = {"a": 0, "b": 0}
    overwrites = [True]

    def node(name: str) -> Any:
        def run(_: Log) -> dict[str, Any]:
            runs[name] += 1
            return {"log": Overwrite([name]) if overwrites[0] else [name]}

        return colour.node(run)

    graph = StateGraph(Log)
    for name in "ab":
        graph.add_node(name, node(name)).add_edge(START, name)
    compiled = graph.compile(kept)
    with pytest.raises(InvalidUpdateError, match="Overwrite"):
        colour.invoke(compiled, {"log": []}, thread())
    assert colour.state(compiled, {**thread()}).metadata["step"] == 0
    overwrites[0] = False
    with pytest.raises(InvalidUpdateError, match="Overwrite"):
        colour.invoke(compiled, None, thread())
    assert runs == {"a": 1, "b": 1}, "their results were stored, so they do not run again"


def test_nothing_to_run_next_ends_the_run(colour: Colour, saver: Any) -> None:
    graph = StateGraph(Log)
    graph.add_node("a", colour.node(lambda _: Command(update={"log": ["a"]}))).add_node("never", colour.says("never"))
    graph.add_edge(START, "a")
    assert colour.invoke(graph.compile(saver), {"log": []}, thread())["log"] == ["a"]
