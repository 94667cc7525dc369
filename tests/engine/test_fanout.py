"""Many tasks at once: fan-out by Send, how many run at a time, and that they really run at once."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from perdure import START, StateGraph
from perdure.checkpoint.saver import Saver
from perdure.types import Send
from tests.engine.colours import Colour, Log, thread

MANY = 10_000


def fan_out(colour: Colour, count: int, worker: Any) -> StateGraph[Any, Any, Any, Any]:
    graph = StateGraph(Log).add_node("w", colour.node(worker)).add_node("end", colour.says("end"))
    graph.add_conditional_edges(START, lambda _: [Send("w", at) for at in range(count)])
    return graph.add_edge("w", "end")


def test_ten_thousand_sends(colour: Colour, saver: Any) -> None:
    graph = fan_out(colour, MANY, lambda at: {"log": [at]}).compile(saver)
    assert colour.invoke(graph, {"log": []}, thread())["log"] == [*range(MANY), "end"]


def test_ten_thousand_sends_are_not_ten_thousand_checkpoints_or_names_in_a_record(kept: Saver) -> None:
    colour = Colour("", calls_async=False, nodes_async=False)
    graph = fan_out(colour, MANY, lambda at: None).compile(kept)
    graph.invoke({"log": []}, thread())
    history = list(graph.get_state_history(thread()))
    assert [len(snapshot.next) for snapshot in history] == [0, 1, MANY, 1]
    assert history[2].tasks[MANY - 1].path == ("__pregel_push", MANY - 1, False)


def test_the_ids_of_sends_differ(kept: Saver) -> None:
    colour = Colour("", calls_async=False, nodes_async=False)
    graph = fan_out(colour, 100, lambda at: {"log": [at]}).compile(kept)
    events = list(graph.stream({"log": []}, thread(), stream_mode="tasks"))
    assert len({event["id"] for event in events}) == 101


class Counter:
    """How many are inside at once, and how many were at most."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.now = 0
        self.most = 0

    @contextmanager
    def inside(self) -> Iterator[None]:
        with self.lock:
            self.now += 1
            self.most = max(self.most, self.now)
        yield
        with self.lock:
            self.now -= 1


@pytest.mark.parametrize("limit", [1, 3])
def test_max_concurrency_is_never_exceeded_by_threads(limit: int, saver: Any) -> None:
    counter = Counter()
    full = threading.Barrier(limit)

    def worker(at: int) -> dict[str, Any]:
        with counter.inside():
            full.wait(10)  # so many do run at once ...
        return {"log": [at]}

    sync = Colour("", calls_async=False, nodes_async=False)
    graph = fan_out(sync, 4 * limit, worker).compile(saver)
    config: Any = {**thread(), "max_concurrency": limit}
    out = graph.invoke({"log": []}, config)
    assert out["log"] == [*range(4 * limit), "end"]
    assert counter.most == limit  # ... and never more


@pytest.mark.parametrize("limit", [1, 3])
def test_max_concurrency_is_never_exceeded_by_coroutines(limit: int, saver: Any) -> None:
    counter = Counter()

    async def worker(at: int) -> dict[str, Any]:
        with counter.inside():
            for _ in range(5):
                await asyncio.sleep(0)
        return {"log": [at]}

    graph = fan_out(Colour("", calls_async=True, nodes_async=True), 10, worker).compile(saver)
    config: Any = {**thread(), "max_concurrency": limit}
    assert asyncio.run(graph.ainvoke({"log": []}, config))["log"] == [*range(10), "end"]
    assert counter.most == limit
    counter.most = 0
    again: Any = {**thread("2"), "max_concurrency": limit}
    assert graph.invoke({"log": []}, again)["log"] == [*range(10), "end"]
    assert counter.most <= limit


def test_max_concurrency_counts_sync_and_async_nodes_together() -> None:
    counter = Counter()

    async def slow(state: Log) -> None:
        with counter.inside():
            for _ in range(5):
                await asyncio.sleep(0.001)

    def plain(_: Log) -> None:
        with counter.inside():
            threading.Event().wait(0.005)

    graph = StateGraph(Log)
    for name in "abc":
        graph.add_node(name, slow).add_edge(START, name)
    for name in "xyz":
        graph.add_node(name, plain).add_edge(START, name)
    compiled = graph.compile()
    asyncio.run(compiled.ainvoke({"log": []}, {"max_concurrency": 2}))
    assert counter.most <= 2


def test_parallel_sync_nodes_run_at_the_same_time(saver: Any) -> None:
    for asynchronous in (False, True):
        meeting = threading.Barrier(4)

        def node(_: Log, meeting: threading.Barrier = meeting) -> dict[str, Any]:
            meeting.wait(10)  # breaks unless all four are here at once
            return {"log": [1]}

        graph = StateGraph(Log)
        for name in "abcd":
            graph.add_node(name, lambda state, node=node: node(state)).add_edge(START, name)
        colour = Colour("", calls_async=asynchronous, nodes_async=False)
        assert colour.invoke(graph.compile(saver), {"log": []}, thread(str(asynchronous)))["log"] == [1] * 4


@pytest.mark.parametrize("calls_async", [False, True])
def test_parallel_async_nodes_run_at_the_same_time(saver: Any, calls_async: bool) -> None:
    waiting = [4]
    all_here: list[asyncio.Event] = []

    async def node(_: Log) -> dict[str, Any]:
        if not all_here:
            all_here.append(asyncio.Event())
        waiting[0] -= 1
        if waiting[0] == 0:
            all_here[0].set()
        await asyncio.wait_for(all_here[0].wait(), 10)
        return {"log": [1]}

    graph = StateGraph(Log)
    for name in "abcd":
        graph.add_node(name, node).add_edge(START, name)
    colour = Colour("", calls_async=calls_async, nodes_async=True)
    assert colour.invoke(graph.compile(saver), {"log": []}, thread())["log"] == [1] * 4


def test_more_threads_come_where_those_there_are_wait_for_each_other() -> None:
    meeting = threading.Barrier(40)

    def worker(at: int) -> dict[str, Any]:
        meeting.wait(20)
        return {"log": [at]}

    graph = fan_out(Colour("", calls_async=False, nodes_async=False), 40, worker).compile()
    assert graph.invoke({"log": []})["log"] == [*range(40), "end"]


def test_sends_of_several_nodes_keep_the_order_of_their_senders(colour: Colour, saver: Any) -> None:
    graph = StateGraph(Log).add_node("w", colour.node(lambda at: {"log": [at]}))
    for name in "ba":
        graph.add_node(name, colour.says(name)).add_edge(START, name)
        graph.add_conditional_edges(name, lambda _, name=name: [Send("w", f"{name}{at}") for at in (1, 0)])
    assert colour.invoke(graph.compile(saver), {"log": []}, thread())["log"] == ["a", "b", "a1", "a0", "b1", "b0"]


def test_only_the_sends_that_are_missing_run_again(colour: Colour, kept: Saver) -> None:
    runs: list[int] = []
    fails = [True]

    def worker(at: int) -> dict[str, Any]:
        runs.append(at)
        if at == 2 and fails[0]:
            raise ConnectionError("2 is down")
        return {"log": [at]}

    graph = fan_out(colour, 5, worker).compile(kept)
    with pytest.raises(ConnectionError, match="2 is down"):
        colour.invoke(graph, {"log": []}, {**thread(), "max_concurrency": 1})
    fails[0] = False
    assert runs == [0, 1, 2]
    assert colour.invoke(graph, None, {**thread(), "max_concurrency": 1})["log"] == [0, 1, 2, 3, 4, "end"]
    assert runs == [0, 1, 2, 2, 3, 4]
