"""Sync calls with async nodes and the reverse; sync calls inside a running loop (P49)."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from perdure import START, StateGraph
from perdure.checkpoint.memory import InMemorySaver
from perdure.checkpoint.saver import Saver
from perdure.errors import NodeCancelledError, SaveFailed
from perdure.testing.faults import FailingRecords, with_records
from perdure.types import Command, interrupt
from tests.engine.colours import Colour, Log, thread

MIXED = Colour("", calls_async=False, nodes_async=True)


def test_async_nodes_of_one_sync_run_share_a_loop(saver: Any) -> None:
    loops: list[Any] = []

    async def node(_: Log) -> None:
        loops.append(asyncio.get_running_loop())

    graph = StateGraph(Log).add_node("a", node).add_node("b", node).add_node("c", node).add_node("d", node)
    graph.add_edge(START, "a").add_edge("a", "b").add_edge("a", "c").add_edge(["b", "c"], "d")
    compiled = graph.compile(saver)
    compiled.invoke({"log": []}, thread("1"))
    assert len(set(loops)) == 1
    assert loops[0].is_closed(), "it ends with the run"
    compiled.invoke({"log": []}, thread("2"))
    assert len(set(loops)) == 2


def test_what_is_bound_to_a_loop_survives_from_node_to_node() -> None:
    client: list[asyncio.Queue[str]] = []

    async def first(_: Log) -> None:
        client.append(asyncio.Queue())

        async def later() -> None:
            await asyncio.sleep(0.01)
            client[0].put_nowait("made in a background task of the first node")

        client.append(asyncio.create_task(later()))  # type: ignore[arg-type]

    async def second(_: Log) -> dict[str, Any]:
        return {"log": [await asyncio.wait_for(client[0].get(), 10)]}

    graph = StateGraph(Log).add_node("a", first).add_node("b", second).add_edge(START, "a").add_edge("a", "b").compile()
    assert graph.invoke({"log": []})["log"] == ["made in a background task of the first node"]


def test_a_sync_call_inside_a_running_loop_works(saver: Any) -> None:
    for nodes_async in (False, True):
        colour = Colour("", calls_async=False, nodes_async=nodes_async)
        graph = StateGraph(Log)
        for name in "ab":
            graph.add_node(name, colour.says(name)).add_edge(START, name)
        compiled = graph.add_node("c", colour.says("c")).add_edge(["a", "b"], "c").compile(saver)

        async def main(compiled: Any = compiled, name: str = str(nodes_async)) -> Any:
            return compiled.invoke({"log": []}, thread(name)), list(compiled.stream({"log": []}, thread(name + "2")))

        out, events = asyncio.run(main())
        assert out["log"] == ["a", "b", "c"]
        assert len(events) == 3


def test_sync_nodes_of_an_async_run_do_not_block_the_loop() -> None:
    pinged = threading.Event()

    def node(_: Log) -> dict[str, Any]:
        return {"log": [pinged.wait(10)]}

    graph = StateGraph(Log).add_node("a", node).add_edge(START, "a").compile()

    async def main() -> Any:
        running = asyncio.create_task(graph.ainvoke({"log": []}))
        await asyncio.sleep(0.01)
        pinged.set()
        return await running

    assert asyncio.run(main())["log"] == [True]


def test_sync_and_async_nodes_of_one_step_run_at_once(colour: Colour) -> None:
    met = threading.Event()

    def plain(_: Log) -> dict[str, Any]:
        return {"log": [met.wait(10)]}

    async def later(_: Log) -> dict[str, Any]:
        met.set()
        return {"log": ["met"]}

    graph = StateGraph(Log).add_node("a", plain).add_node("b", later).add_edge(START, "a").add_edge(START, "b").compile()
    assert colour.invoke(graph, {"log": []})["log"] == [True, "met"]


def test_P49_one_thread_may_be_served_in_turns(kept: Saver) -> None:
    async def asks(_: Log) -> dict[str, Any]:
        return {"log": [interrupt("q")]}

    graph = StateGraph(Log).add_node("a", asks).add_node("b", lambda _: {"log": ["b"]}).add_edge(START, "a").add_edge("a", "b")
    compiled = graph.compile(kept)
    compiled.invoke({"log": []}, thread())
    assert asyncio.run(compiled.aget_state(thread())).interrupts == compiled.get_state(thread()).interrupts
    assert asyncio.run(compiled.ainvoke(Command(resume="r"), thread())) == {"log": ["r", "b"]}
    assert compiled.get_state(thread()).values == {"log": ["r", "b"]}


def test_a_plain_function_that_returns_a_coroutine_is_awaited(colour: Colour, saver: Any) -> None:
    async def work(_: Log) -> dict[str, Any]:
        await asyncio.sleep(0)
        return {"log": ["awaited"]}

    graph = StateGraph(Log).add_node("a", lambda state: work(state)).add_edge(START, "a").compile(saver)
    assert colour.invoke(graph, {"log": []}, thread()) == {"log": ["awaited"]}


def test_a_node_that_cancels_itself_is_a_failure_not_a_cancelled_run(saver: Any) -> None:
    async def node(_: Log) -> None:
        raise asyncio.CancelledError

    for calls_async in (False, True):
        colour = Colour("", calls_async=calls_async, nodes_async=True)
        graph = StateGraph(Log).add_node("a", node).add_edge(START, "a")
        with pytest.raises(NodeCancelledError, match="'a'"):
            colour.invoke(graph.compile(saver), {"log": []}, thread(str(calls_async)))
        graph.add_node("b", colour.says("b")).add_edge(START, "b")
        with pytest.raises(NodeCancelledError, match="'a'"):
            colour.invoke(graph.compile(saver), {"log": []}, thread(f"two {calls_async}"))


def test_threads_and_loops_end_with_the_run() -> None:
    others = set(threading.enumerate())
    graph = StateGraph(Log)
    for name in "abcd":
        graph.add_node(name, MIXED.says(name)).add_edge(START, name)
    compiled = graph.compile()
    for _ in range(3):
        compiled.invoke({"log": []})
    assert left_beside(others) == []


def test_threads_and_loops_end_with_a_run_whose_last_save_fails() -> None:
    """It was left while a save was under way, and giving the thread back is what learns that it failed."""
    others = set(threading.enumerate())
    under_way, left = threading.Event(), threading.Event()

    def slow(commit: Any) -> None:
        if commit.lease == "keep":
            under_way.set()
            left.wait(10)

    saver = with_records(
        InMemorySaver(), lambda records: FailingRecords(records, fail_on=lambda commit: commit.lease == "keep", before=slow)
    )
    graph = StateGraph(Log)
    for name in "abc":
        graph.add_node(name, MIXED.says(name))
    graph.add_edge(START, "a").add_edge("a", "b").add_edge("b", "c")
    updates = graph.compile(saver).stream({"log": []}, thread(), stream_mode="updates", durability="async")
    next(updates)
    assert under_way.wait(10)
    threading.Timer(0.05, left.set).start()
    with pytest.raises(SaveFailed):
        updates.close()
    assert left_beside(others) == []


def left_beside(others: set[threading.Thread]) -> list[threading.Thread]:
    """Our threads that still live a moment later, but for those that were there before."""
    ours = [each for each in set(threading.enumerate()) - others if each.name in ("perdure-node", "perdure-loop")]
    for each in ours:
        each.join(5)
    return [each for each in ours if each.is_alive()]
