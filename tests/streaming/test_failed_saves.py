"""P4: nothing of a step is told before the step before it is durable, and nothing of a step that could not be saved."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from perdure.checkpoint.saver import Saver
from perdure.config import get_message_writer, get_stream_writer
from perdure.errors import SaveFailed
from perdure.testing.faults import FailingRecords, with_records
from tests.engine.colours import Colour, Log, thread
from tests.promises.ways import Way
from tests.streaming.stories import abreast, line, until

MODES = ["values", "updates", "custom", "messages", "tasks", "checkpoints"]


def noisy(colour: Colour, name: str) -> Any:
    def node(_: Log) -> Any:
        get_stream_writer()(name)
        get_message_writer().write(name)
        return {"log": [name]}

    return colour.node(node)


def step_of(commit: Any) -> int | None:
    return max((row.step for row in commit.checkpoints), default=None)


def failing_at(saver: Saver, step: int) -> Saver:
    return with_records(saver, lambda records: FailingRecords(records, fail_on=lambda commit: step_of(commit) == step))


def listen(colour: Colour, graph: Any, **options: Any) -> list[Any]:
    found: list[Any] = []
    with pytest.raises(SaveFailed):
        Way("async" if colour.calls_async else "sync").stream(
            graph, {"log": []}, thread(), into=found, stream_mode=MODES, **options
        )
    return found


def names(items: list[Any]) -> set[str]:
    """The nodes that were heard of."""
    found = set()
    for mode, data in items:
        if mode == "updates":
            found |= set(data)
        elif mode == "tasks":
            found.add(data["name"])
        elif mode == "custom":
            found.add(data)
        elif mode == "messages":
            found.add(data[1]["langgraph_node"])
        elif mode == "values":
            found |= set(data["log"])
        else:
            found |= set(data["values"].get("log", ()))
    return found


def calling(colour: Colour, graph: Any) -> Any:
    """A node whose code calls a graph, in its own colour."""
    if not colour.nodes_async:
        return lambda state: graph.invoke({"log": []})

    async def calls(_: Log) -> Any:
        return await graph.ainvoke({"log": []})

    return calls


@pytest.mark.parametrize("shape", ["line", "subgraph", "called", "abreast"])
def test_P4_async_nothing_of_the_next_step_is_told(colour: Colour, saver: Saver, shape: str) -> None:
    """The save of step 1 fails while step 2 runs: step 2 is discarded, with all that its nodes have sent."""
    last: Any = noisy(colour, "b")
    inner = line(("b", last)).compile()
    node = {"subgraph": inner, "called": calling(colour, inner)}.get(shape, last)
    graph = line(("a", noisy(colour, "a")), ("b", node))
    if shape == "abreast":
        graph.add_node("c", noisy(colour, "c")).add_edge("a", "c")
    found = listen(colour, graph.compile(failing_at(saver, 1)), durability="async", subgraphs=True)
    assert {namespace for namespace, _, _ in found} == {()}
    told = [(mode, data) for _, mode, data in found]
    assert names(told) <= {"a"}
    assert ("updates", {"a": {"log": ["a"]}}) in told
    assert colour.state(graph.compile(saver), thread()).next == ("a",)


def test_P4_async_what_a_node_sends_waits_for_the_step_before(colour: Colour, saver: Saver) -> None:
    """The save of step 1 goes through, but late: by then the node of step 2 has sent, and nothing of it was told."""
    sent, stored = threading.Event(), []

    def before(commit: Any) -> Any:
        if step_of(commit) == 1:
            return wait()
        return None

    async def wait() -> None:
        if not colour.calls_async:
            assert sent.wait(20)
        else:
            await until(sent.is_set)
        stored.append(True)

    def second(_: Log) -> Any:
        get_stream_writer()("b")
        sent.set()
        return {"log": ["b"]}

    graph = line(("a", noisy(colour, "a")), ("b", colour.node(second)))
    compiled = graph.compile(with_records(saver, lambda records: FailingRecords(records, before=before)))

    heard: list[Any] = []

    class Into(list[Any]):
        def append(self, item: Any) -> None:
            if item == ("custom", "b"):
                heard.append(list(stored))
            super().append(item)

    Way("async" if colour.calls_async else "sync").stream(
        compiled, {"log": []}, thread(), into=Into(), stream_mode=["custom", "updates"], durability="async"
    )
    assert heard == [[True]]


def test_P4_sync_the_step_that_could_not_be_saved_is_the_last_that_runs(colour: Colour, saver: Saver) -> None:
    graph = line(*((name, noisy(colour, name)) for name in "abc"))
    found = listen(colour, graph.compile(failing_at(saver, 2)), durability="sync")
    assert names(found) <= {"a", "b"}
    assert ("values", {"log": ["a", "b"]}) not in found, "the state after a step is told when it is stored"


def test_P4_how_a_node_failed_that_runs_alone_is_told_once_that_is_stored(colour: Colour, saver: Saver) -> None:
    def bad(_: Log) -> Any:
        raise KeyError("x")

    broken = with_records(saver, lambda records: FailingRecords(records, fail_on=lambda commit: step_of(commit) is None))
    graph = line(("a", colour.says("a")), ("bad", colour.node(bad)))
    found: list[Any] = []
    with pytest.raises((SaveFailed, KeyError)):
        Way("async" if colour.calls_async else "sync").stream(
            graph.compile(broken), {"log": []}, thread(), into=found, stream_mode="tasks"
        )
    assert [event["name"] for event in found if "input" not in event] == ["a"]


def test_P4_results_of_siblings_are_told_when_they_are_stored(colour: Colour, saver: Saver) -> None:
    """Of several tasks, each is told with the commit that stores it."""
    graph = abreast(*((name, colour.says(name)) for name in "abc")).compile(saver)
    items = colour.stream(graph, {"log": []}, thread(), stream_mode=["updates", "values"])
    assert sorted(next(iter(data)) for mode, data in items if mode == "updates") == ["a", "b", "c"]
    assert items[-1] == ("values", {"log": ["a", "b", "c"]})
