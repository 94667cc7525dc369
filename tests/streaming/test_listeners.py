"""Listeners on other threads, several streams of one graph at once, and the lease while a listener is slow."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from perdure.checkpoint.saver import Saver
from perdure.config import get_message_writer, get_stream_writer
from perdure.engine.storing.session import Session
from perdure.errors import ThreadBusy
from perdure.graph import MessagesState
from tests.engine.colours import Colour, Log, thread
from tests.streaming.stories import line, status_of, told


def writes(colour: Colour) -> Any:
    def node(_: Log) -> Any:
        get_stream_writer()("x")
        return {"log": ["n"]}

    return colour.node(node)


@pytest.mark.parametrize("nodes_async", [False, True])
def test_each_item_may_be_taken_by_another_thread(saver: Saver, nodes_async: bool) -> None:
    colour = Colour("", calls_async=False, nodes_async=nodes_async)
    graph = line(*((name, writes(colour)) for name in "abc")).compile(saver)
    stream: Any = graph.stream({"log": []}, thread(), stream_mode=["custom", "updates"])
    got: list[Any] = []
    ended = False
    while not ended:
        with ThreadPoolExecutor(1) as pool:
            item = pool.submit(next, stream, None).result()
        ended = item is None
        got.append(item)
    expected = [each for name in "abc" for each in (("custom", "x"), ("updates", {name: {"log": ["n"]}}))]
    assert got == [*expected, None]
    assert status_of(saver) == ("idle", True)


def test_another_thread_may_close_the_iterator(saver: Saver) -> None:
    graph = line(("a", lambda _: None), ("b", lambda _: {"log": ["b"]})).compile(saver)
    stream: Any = graph.stream({"log": []}, thread())
    next(stream)
    closing = threading.Thread(target=stream.close)
    closing.start()
    closing.join()
    assert status_of(saver) == ("idle", True)
    assert graph.invoke(None, thread()) == {"log": ["b"]}


def test_two_streams_of_one_graph_taken_in_turn(colour: Colour, saver: Saver) -> None:
    def talk(state: Any) -> Any:
        out = get_message_writer()
        for token in state["messages"][0].content:
            out.write(token)
        return {"messages": out.done()}

    graph = line(("talk", colour.node(talk)), state=MessagesState).compile(saver)
    given = [{"messages": word} for word in ("abc", "xyz")]
    if colour.calls_async:

        async def main() -> list[list[Any]]:
            streams: list[Any] = [graph.astream(each, thread(str(at)), stream_mode="messages") for at, each in enumerate(given)]
            got: list[list[Any]] = [[], []]
            for _ in "abc":
                for at, stream in enumerate(streams):
                    got[at].append(await anext(stream))
            assert [[item async for item in stream] for stream in streams] == [[], []]
            return got

        got = asyncio.run(main())
    else:
        streams: list[Any] = [graph.stream(each, thread(str(at)), stream_mode="messages") for at, each in enumerate(given)]
        got = [[], []]
        for _ in "abc":
            for at, stream in enumerate(streams):
                got[at].append(next(stream))
        assert [list(stream) for stream in streams] == [[], []]
    assert [told(items) for items in got] == [[("piece", token) for token in word] for word in ("abc", "xyz")]
    for items in got:
        assert len({message.id for message, _ in items}) == 1


def test_streams_on_many_threads_at_once(saver: Saver) -> None:
    def node(state: Log) -> Any:
        for at in range(50):
            get_stream_writer()((state["log"][0], at))

    graph = line(("n", node)).compile(saver)

    def listen(name: str) -> list[Any]:
        return list(graph.stream({"log": [name]}, thread(name), stream_mode="custom"))

    names = [f"t{at}" for at in range(8)]
    with ThreadPoolExecutor(8) as pool:
        for name, items in zip(names, pool.map(listen, names), strict=True):
            assert items == [(name, at) for at in range(50)]


def test_many_async_streams_on_one_loop(saver: Saver) -> None:
    async def node(state: Log) -> Any:
        for at in range(20):
            get_stream_writer()((state["log"][0], at))
            await asyncio.sleep(0)

    graph = line(("n", node)).compile(saver)

    async def listen(name: str) -> list[Any]:
        return [item async for item in graph.astream({"log": [name]}, thread(name), stream_mode="custom")]

    async def main() -> list[list[Any]]:
        return await asyncio.gather(*(listen(str(at)) for at in range(8)))

    assert asyncio.run(main()) == [[(str(name), at) for at in range(20)] for name in range(8)]


def test_P8_a_second_stream_on_the_same_thread_is_refused(colour: Colour, saver: Saver) -> None:
    graph = line(*((name, colour.says(name)) for name in "ab")).compile(saver)
    if colour.calls_async:

        async def main() -> None:
            first: Any = graph.astream({"log": []}, thread())
            await anext(first)
            with pytest.raises(ThreadBusy):
                async for _ in graph.astream({"log": []}, thread()):
                    pass
            assert [item async for item in first] == [{"b": {"log": ["b"]}}]

        asyncio.run(main())
    else:
        first: Any = graph.stream({"log": []}, thread())
        next(first)
        with pytest.raises(ThreadBusy):
            list(graph.stream({"log": []}, thread()))
        assert list(first) == [{"b": {"log": ["b"]}}]
    assert colour.state(graph, thread()).values == {"log": ["a", "b"]}


def test_P9_a_lease_is_not_renewed_while_the_listener_holds_an_item_but_while_a_node_does(
    saver: Saver, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes: list[str] = []

    def noting(name: str, real: Any) -> Any:
        def noted(session: Session) -> None:
            notes.append(name)
            real(session)

        return noted

    monkeypatch.setattr(Session, "rest", noting("rest", Session.rest))
    monkeypatch.setattr(Session, "wake", noting("wake", Session.wake))
    inner = line(*((name, lambda _: None) for name in "xy")).compile()

    def node(_: Log) -> Any:
        notes.extend("inner item" for _ in inner.stream({"log": []}))

    graph = line(("n", node), ("m", lambda _: None)).compile(saver)
    notes.extend(next(iter(item)) for item in graph.stream({"log": []}, thread()))
    assert notes == ["inner item", "inner item", "rest", "n", "wake", "rest", "m", "wake"]
