"""In which order events come: starts, then for each task its update and its result, then values, then the checkpoint."""

from __future__ import annotations

from typing import Any

import pytest

from perdure import START, CachePolicy, StateGraph
from perdure.cache.memory import InMemoryCache
from perdure.checkpoint.saver import Saver
from perdure.config import get_stream_writer
from perdure.types import Command, interrupt
from tests.engine.colours import Colour, Log, thread
from tests.promises.ways import Way
from tests.streaming.stories import abreast, line

MODES = ["tasks", "updates", "values", "checkpoints"]


def outline(items: list[Any]) -> list[Any]:
    """The modes of items, with the names of tasks; a start is marked `+`."""
    found = []
    for mode, data in items:
        if mode == "tasks":
            found.append(("+" if "input" in data else "-") + data["name"])
        elif mode == "updates":
            found.append("u:" + ",".join(data))
        elif mode == "checkpoints":
            found.append(f"cp{data['metadata']['step']}")
        else:
            found.append(mode)
    return found


@pytest.mark.parametrize("durability", ["sync", "async"])
def test_one_node_after_the_other(colour: Colour, saver: Saver, durability: str) -> None:
    graph = line(("a", colour.says("a")), ("b", colour.says("b"))).compile(saver)
    items = colour.stream(graph, {"log": []}, thread(), stream_mode=MODES, durability=durability)
    assert outline(items) == [
        *["cp-1", "values", "cp0"],
        *["+a", "u:a", "-a", "values", "cp1"],
        *["+b", "u:b", "-b", "values", "cp2"],
    ]


@pytest.mark.parametrize("durability", ["sync", "async"])
def test_nodes_side_by_side(colour: Colour, saver: Saver, durability: str) -> None:
    graph = abreast(*((name, colour.says(name)) for name in "abc")).compile(saver)
    found = outline(colour.stream(graph, {"log": []}, thread(), stream_mode=MODES, durability=durability))
    assert found[:6] == ["cp-1", "values", "cp0", "+a", "+b", "+c"]
    assert found[-2:] == ["values", "cp1"]
    ends = found[6:-2]
    assert sorted(ends[::2]) == ["u:a", "u:b", "u:c"]
    assert [end[2:] for end in ends[::2]] == [end[1:] for end in ends[1::2]], "each update is followed by its task's result"


def test_custom_events_come_between_a_tasks_start_and_its_update(colour: Colour, saver: Saver) -> None:
    def node(_: Log) -> Any:
        get_stream_writer()("x")
        return {"log": ["a"]}

    graph = line(("a", colour.node(node))).compile(saver)
    items = colour.stream(graph, {"log": []}, thread(), stream_mode=[*MODES, "custom"])
    assert outline(items) == ["cp-1", "values", "cp0", "+a", "custom", "u:a", "-a", "values", "cp1"]


def test_debug_events_follow_those_that_they_repeat(colour: Colour, saver: Saver) -> None:
    graph = line(("a", colour.says("a"))).compile(saver)
    items = colour.stream(graph, {"log": []}, thread(), stream_mode=["tasks", "checkpoints", "debug"])
    for (mode, data), (repeats, again) in zip(items[::2], items[1::2], strict=True):
        assert (mode, repeats) == ("checkpoints" if again["type"] == "checkpoint" else "tasks", "debug")
        assert again["payload"] == data
    assert [again["step"] for _, again in items[1::2]] == [-1, 0, 1, 1, 1]


def test_a_subgraphs_events_lie_within_those_of_the_task_that_runs_it(colour: Colour, saver: Saver) -> None:
    inner = line(("i", colour.says("i"))).compile()
    graph = line(("p", inner)).compile(saver)
    items = colour.stream(graph, {"log": []}, thread(), stream_mode=["tasks", "updates", "values"], subgraphs=True)
    assert outline([(mode, data) for _, mode, data in items]) == [
        *["values", "+p"],
        *["values", "+i", "u:i", "-i", "values"],
        *["u:p", "-p", "values"],
    ]


def test_a_pause(colour: Colour, saver: Saver) -> None:
    graph = abreast(("asks", colour.node(lambda _: {"log": [interrupt("q")]})), ("z", colour.says("z"))).compile(saver)
    first = outline(colour.stream(graph, {"log": []}, thread(), stream_mode=MODES))
    assert first[:5] == ["cp-1", "values", "cp0", "+asks", "+z"]
    assert sorted(first[5:]) == ["-asks", "-z", "u:__interrupt__", "u:z", "values", "values"]
    assert first[-1] == "values"
    again = outline(colour.stream(graph, Command(resume="y"), thread(), stream_mode=MODES))
    assert again == ["values", "cp0", "u:z,__metadata__", "+asks", "u:asks", "-asks", "values", "cp1"]


def test_a_failure(colour: Colour, saver: Saver) -> None:
    def bad(_: Log) -> Any:
        raise KeyError("x")

    graph = line(("a", colour.says("a")), ("bad", colour.node(bad))).compile(saver)
    found: list[Any] = []
    with pytest.raises(KeyError):
        _into(colour, found, graph, {"log": []}, thread(), stream_mode=MODES)
    assert outline(found)[-3:] == ["cp1", "+bad", "-bad"]
    assert type(found[-1][1]["error"]) is KeyError


def _into(colour: Colour, found: list[Any], graph: Any, *args: Any, **options: Any) -> None:
    Way("async" if colour.calls_async else "sync").stream(graph, *args, into=found, **options)


def test_a_result_from_the_cache_has_an_update_and_no_result(colour: Colour, saver: Saver) -> None:
    graph = StateGraph(Log).add_node("a", colour.says("a"), cache_policy=CachePolicy()).add_edge(START, "a")
    compiled = graph.compile(saver, cache=InMemoryCache())
    colour.invoke(compiled, {"log": []}, thread("1"))
    items = colour.stream(compiled, {"log": []}, thread("2"), stream_mode=["tasks", "updates", "values"])
    assert outline(items) == ["values", "+a", "u:a,__metadata__", "values"]
