"""A slow listener: nodes are held once too many of their events wait, and nobody is held for ever."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from typing import Any

import pytest

from perdure import START, StateGraph
from perdure.checkpoint.memory import InMemorySaver
from perdure.config import get_message_writer, get_stream_writer
from perdure.engine.runners import pace as runners_pace
from perdure.engine.runners.pace import Pace
from perdure.types import TimeoutPolicy
from tests.engine.colours import Log, thread
from tests.streaming.stories import abreast, line, status_of, until, wait_until

MOST = 10
MANY = 3000


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runners_pace, "MOST_WAITING", MOST)


class Chatty:
    """A node that sends many events, and counts them.

    Args:
        mode: custom or messages.
        many: how many.
    """

    def __init__(self, mode: str = "custom", many: int = MANY) -> None:
        self.mode = mode
        self.many = many
        self.sent = 0
        self.ended = threading.Event()
        self.saw: list[str] = []

    def _send(self) -> Any:
        if self.mode == "custom":
            return get_stream_writer()
        out = get_message_writer()
        return lambda at: out.write(str(at))

    def now(self, _: Any) -> Any:
        send = self._send()
        for at in range(self.many):
            self.sent += 1
            send(at)
        self.ended.set()
        return {"log": ["ended"]}

    async def later(self, _: Any) -> Any:
        send = self._send()
        try:
            for at in range(self.many):
                self.sent += 1
                send(at)
                await asyncio.sleep(0)
        except asyncio.CancelledError:
            self.saw.append("cancelled")
            raise
        self.ended.set()
        return {"log": ["ended"]}


def data_of(item: Any) -> int:
    return item if isinstance(item, int) else int(item[0].content)


def placed(node: Any, depth: str) -> Any:
    """The node at the root, or in a subgraph of a subgraph."""
    if depth == "root":
        return line(("n", node)).compile()
    return line(("p", line(("q", line(("n", node)).compile())).compile())).compile()


DEPTHS = pytest.mark.parametrize(("depth", "levels"), [("root", 1), ("deep", 3)])


@DEPTHS
@pytest.mark.parametrize("mode", ["custom", "messages"])
@pytest.mark.parametrize("node_async", [False, True], ids=["sync node", "async node"])
def test_a_node_is_held_while_its_listener_does_something_else(mode: str, node_async: bool, depth: str, levels: int) -> None:
    chatty = Chatty(mode)
    graph = placed(chatty.later if node_async else chatty.now, depth)
    got: list[int] = []
    for _, item in graph.stream({"log": []}, stream_mode=mode, subgraphs=True):
        got.append(data_of(item))
        if len(got) in (1, MANY // 2):
            wait_until(lambda: chatty.sent >= len(got) + MOST)
            time.sleep(0.02)
        assert chatty.sent - len(got) <= levels * (2 * MOST + 2)
    assert got == list(range(MANY))
    assert chatty.ended.is_set()


@DEPTHS
@pytest.mark.parametrize("mode", ["custom", "messages"])
@pytest.mark.parametrize("node_async", [False, True], ids=["sync node", "async node"])
def test_the_same_in_an_async_run(mode: str, node_async: bool, depth: str, levels: int) -> None:
    async def main() -> None:
        chatty = Chatty(mode)
        graph = placed(chatty.later if node_async else chatty.now, depth)
        got: list[int] = []
        async for _, item in graph.astream({"log": []}, stream_mode=mode, subgraphs=True):
            got.append(data_of(item))
            if len(got) in (1, MANY // 2):
                await until(lambda: chatty.sent >= len(got) + MOST)
                await asyncio.sleep(0.02)
            assert chatty.sent - len(got) <= levels * (2 * MOST + 2)
        assert got == list(range(MANY))
        assert chatty.ended.is_set()

    asyncio.run(main())


def test_a_coroutine_that_never_awaits_cannot_be_held_and_is_not_stuck() -> None:
    async def node(_: Log) -> Any:
        writer = get_stream_writer()
        for at in range(MANY):
            writer(at)

    graph = line(("n", node)).compile()

    async def main() -> list[Any]:
        return [item async for item in graph.astream({"log": []}, stream_mode="custom")]

    assert asyncio.run(main()) == list(graph.stream({"log": []}, stream_mode="custom")) == list(range(MANY))


def test_awaiting_each_token_waits_right_there() -> None:
    async def main() -> None:
        sent = 0

        async def node(_: Log) -> Any:
            nonlocal sent
            out = get_message_writer()
            for at in range(100):
                sent += 1
                await out.awrite(str(at))

        got = 0
        async for _ in line(("n", node)).compile().astream({"log": []}, stream_mode="messages"):
            got += 1
            await asyncio.sleep(0)
            assert sent - got <= 2 * MOST + 2
        assert got == 100

    asyncio.run(main())


def test_where_nobody_listens_nobody_is_held() -> None:
    chatty = Chatty()
    graph = line(("n", chatty.now)).compile()
    assert list(graph.stream({"log": []}, stream_mode="updates")) == [{"n": {"log": ["ended"]}}]
    assert graph.invoke({"log": []}) == {"log": ["ended"]}


def test_a_graph_called_on_an_event_loop_by_blocking_code_is_not_stuck() -> None:
    """An async node calls a sync graph: it blocks the loop that would take its events, and so must not wait for that."""
    chatty = Chatty()
    inner = line(("n", chatty.now)).compile()

    async def node(_: Log) -> Any:
        inner.invoke({"log": []})

    async def main() -> int:
        graph = line(("p", node)).compile()
        return len([item async for item in graph.astream({"log": []}, stream_mode="custom", subgraphs=True)])

    assert asyncio.run(main()) == MANY


# -- nobody is held for ever ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("node_async", [False, True], ids=["sync node", "async node"])
def test_P5_a_held_node_is_let_go_when_the_listener_leaves(node_async: bool) -> None:
    memory = InMemorySaver()
    chatty = Chatty()
    graph = line(("n", chatty.later if node_async else chatty.now)).compile(memory)
    stream: Any = graph.stream({"log": []}, thread(), stream_mode="custom")
    next(stream)
    wait_until(lambda: chatty.sent >= MOST)
    stream.close()
    assert chatty.ended.is_set() or chatty.saw == ["cancelled"]
    assert status_of(memory) == ("idle", True)
    assert graph.invoke(None, thread()) == {"log": ["ended"]}


@pytest.mark.parametrize("node_async", [False, True], ids=["sync node", "async node"])
def test_P5_a_held_node_is_let_go_when_the_run_is_cancelled(node_async: bool) -> None:
    memory = InMemorySaver()
    chatty = Chatty()
    graph = line(("n", chatty.later if node_async else chatty.now)).compile(memory)

    async def main() -> None:
        first = asyncio.Event()

        async def listen() -> None:
            async with contextlib.aclosing(graph.astream({"log": []}, thread(), stream_mode="custom")) as stream:
                async for _ in stream:
                    first.set()
                    await asyncio.sleep(3600)

        listener = asyncio.create_task(listen())
        await first.wait()
        await until(lambda: chatty.sent >= MOST)
        listener.cancel()
        with pytest.raises(asyncio.CancelledError):
            await listener
        assert await graph.ainvoke(None, thread()) == {"log": ["ended"]}

    asyncio.run(main())


@pytest.mark.parametrize("calls_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("node_async", [False, True], ids=["sync node", "async node"])
def test_a_held_node_is_let_go_when_its_sibling_fails(calls_async: bool, node_async: bool) -> None:
    chatty = Chatty()

    def fails() -> None:
        raise KeyError("sibling")

    async def bad(_: Log) -> None:
        await until(lambda: chatty.sent >= MOST)
        fails()

    def bad_now(_: Log) -> None:
        wait_until(lambda: chatty.sent >= MOST)
        fails()

    graph = abreast(("n", chatty.later if node_async else chatty.now), ("bad", bad if node_async else bad_now)).compile()

    async def alisten() -> None:
        async for _ in graph.astream({"log": []}, stream_mode="custom"):
            pass

    with pytest.raises(KeyError, match="sibling"):
        if calls_async:
            asyncio.run(alisten())
        else:
            for _ in graph.stream({"log": []}, stream_mode="custom"):
                pass


def test_being_held_is_a_sign_of_life() -> None:
    """An idle timeout does not blame a node for its listener's slowness."""

    async def main() -> int:
        chatty = Chatty(many=40)
        graph: Any = StateGraph(Log).add_node("n", chatty.later, timeout=TimeoutPolicy(idle_timeout=30.0)).add_edge(START, "n")
        got = 0
        async for _ in graph.compile().astream({"log": []}, stream_mode="custom"):
            got += 1
            await asyncio.sleep(0.001)
        return got

    assert asyncio.run(main()) == 40


# -- the counter by itself ------------------------------------------------------------------------------------------------


def test_a_pace_counts_what_waits() -> None:
    pace = Pace()
    for _ in range(MOST):
        pace.sent()
    assert not pace.is_behind, "nobody listens yet"
    assert not pace.when_room(lambda: None)
    pace.start()
    assert pace.is_behind
    woken: list[int] = []
    assert pace.when_room(lambda: woken.append(1))
    pace.taken(0)
    assert woken == []
    pace.taken(1)
    assert (woken, pace.is_behind) == ([1], False)
    pace.taken(1)
    assert woken == [1], "woken once"


def test_a_pace_that_stops_wakes_all() -> None:
    pace = Pace()
    pace.start()
    for _ in range(MOST):
        pace.sent()
    woken: list[int] = []
    for at in range(3):
        assert pace.when_room(lambda at=at: woken.append(at))  # type: ignore[misc]
    pace.stop()
    assert woken == [0, 1, 2]
    pace.hold()


def test_a_thread_with_a_loop_is_not_blocked() -> None:
    pace = Pace()
    pace.start()
    for _ in range(MOST):
        pace.sent()

    async def main() -> None:
        pace.hold()

    asyncio.run(main())
