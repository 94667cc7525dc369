"""What a node sends reaches the listener while the node still runs: the node waits for the listener to have it."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from perdure.checkpoint.saver import Saver
from perdure.config import get_message_writer, get_stream_writer
from perdure.graph import MessagesState
from perdure.testing.faults import FailingRecords, with_records
from tests.engine.colours import Log, thread
from tests.promises.ways import Way
from tests.streaming.stories import line, until

WAIT = 20.0
DEPTHS = ["root", "node", "called"]
DURABILITIES = ["sync", "async", "exit"]


def send(mode: str) -> None:
    if mode == "custom":
        get_stream_writer()("early")
    else:
        get_message_writer().write("early")


def text_of(mode: str, data: Any) -> Any:
    return data[0].content if mode == "messages" else data


def nested(node: Any, depth: str, *, calls_async: bool) -> Any:
    """A drawing of the node: at the root, in a subgraph, or in a graph that a node's code calls."""
    if depth == "root":
        return line(("n", node))
    inner = line(("n", node)).compile()
    if depth == "node":
        return line(("p", inner))
    if calls_async:

        async def acall(_: Log) -> Any:
            return await inner.ainvoke({"log": []})

        return line(("p", acall))
    return line(("p", lambda _: inner.invoke({"log": []})))


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("mode", ["custom", "messages"])
def test_sync(saver: Saver, mode: str, depth: str) -> None:
    for durability in DURABILITIES:
        received = threading.Event()

        def node(_: Log, received: threading.Event = received) -> Any:
            send(mode)
            return {"log": [received.wait(WAIT)]}

        graph = nested(node, depth, calls_async=False).compile(saver)
        got = []
        for _, data in graph.stream({"log": []}, thread(durability), stream_mode=mode, subgraphs=True, durability=durability):
            got.append(text_of(mode, data))
            received.set()
        assert got == ["early"]
        assert received.is_set()
        assert graph.get_state(thread(durability)).values["log"] == [True], (mode, depth, durability)


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("mode", ["custom", "messages"])
@pytest.mark.parametrize("node_async", [True, False], ids=["async node", "sync node"])
def test_async(saver: Saver, mode: str, depth: str, node_async: bool) -> None:
    async def main() -> None:
        for durability in DURABILITIES:
            received, seen = asyncio.Event(), threading.Event()

            async def later(_: Log, received: asyncio.Event = received) -> Any:
                send(mode)
                await asyncio.wait_for(received.wait(), WAIT)
                return {"log": [True]}

            def now(_: Log, seen: threading.Event = seen) -> Any:
                send(mode)
                return {"log": [seen.wait(WAIT)]}

            graph = nested(later if node_async else now, depth, calls_async=node_async).compile(saver)
            options: dict[str, Any] = {"stream_mode": mode, "subgraphs": True, "durability": durability}
            got = []
            async for _, data in graph.astream({"log": []}, thread(durability), **options):
                got.append(text_of(mode, data))
                received.set()
                seen.set()
            assert got == ["early"]
            state = await graph.aget_state(thread(durability))
            assert state.values["log"] == [True], (mode, depth, durability)

    asyncio.run(main())


def test_an_async_node_of_a_sync_run() -> None:
    received = threading.Event()

    async def node(_: Log) -> Any:
        send("custom")
        await until(received.is_set)
        return {"log": ["late"]}

    got = []
    for item in line(("n", node)).compile().stream({"log": []}, stream_mode=["custom", "updates"]):
        got.append(item)
        received.set()
    assert got == [("custom", "early"), ("updates", {"n": {"log": ["late"]}})]


def test_each_token_by_itself() -> None:
    """The listener lets the node write one token at a time."""
    turn = threading.Semaphore(1)

    def talk(_: Any) -> Any:
        out = get_message_writer()
        for token in "abc":
            assert turn.acquire(timeout=WAIT)
            out.write(token)
        return {"messages": out.done()}

    got = []
    graph = line(("talk", talk), state=MessagesState).compile()
    for message, _ in graph.stream({"messages": "hi"}, stream_mode="messages"):
        got.append(message.content)
        turn.release()
    assert got == ["a", "b", "c"]


@pytest.mark.parametrize("durability", DURABILITIES)
@pytest.mark.parametrize("many", [False, True], ids=["one node", "two nodes"])
def test_the_start_of_a_task_is_told_while_it_runs(saver: Saver, durability: str, many: bool) -> None:
    told = threading.Event()

    def node(_: Log) -> Any:
        return {"log": [told.wait(WAIT)]}

    graph = line(("first", lambda _: None), ("n", node))
    if many:
        graph.add_node("m", node).add_edge("first", "m")
    ends = []
    compiled = graph.compile(saver)
    for event in compiled.stream({"log": []}, thread(), stream_mode=["tasks", "custom"], durability=durability):
        mode, data = event
        assert mode == "tasks"
        if "input" not in data:
            ends.append(data["result"])
        elif data["name"] != "first":
            told.set()
    assert ends == [{}] + [{"log": [True]}] * (2 if many else 1)


class SlowCommit:
    """A database whose commit of step 1 takes as long as one likes.

    Args:
        calls_async: the colour of the calls.
    """

    def __init__(self, *, calls_async: bool) -> None:
        self.calls_async = calls_async
        self.may_store = threading.Event()

    def before(self, commit: Any) -> Any:
        if not any(row.step == 1 for row in commit.checkpoints):
            return None
        if self.calls_async:
            return until(self.may_store.is_set)
        assert self.may_store.wait(WAIT)
        return None


@pytest.mark.parametrize("calls_async", [False, True], ids=["sync", "async"])
def test_P4_a_start_waits_for_the_step_before_to_be_durable_but_for_nothing_else(saver: Saver, calls_async: bool) -> None:
    """The commit of the first step is slow; the second node runs all that time, and is told of once the commit is through."""
    slow = SlowCommit(calls_async=calls_async)
    told, running = threading.Event(), threading.Event()
    items: list[Any] = []

    def second(_: Log) -> Any:
        running.set()
        assert not any("input" in item and item["name"] == "second" for item in items)
        slow.may_store.set()
        return {"log": [told.wait(WAIT)]}

    class Listener(list[Any]):
        def append(self, item: Any) -> None:
            items.append(item)
            if item["name"] == "second":
                assert running.is_set()
                told.set()

    database = with_records(saver, lambda records: FailingRecords(records, before=slow.before))
    graph = line(("first", lambda _: {"log": ["a"]}), ("second", second)).compile(database)
    way = Way("async" if calls_async else "sync")
    way.stream(graph, {"log": []}, thread(), into=Listener(), stream_mode="tasks", durability="async")
    assert items[-1]["result"] == {"log": [True]}
