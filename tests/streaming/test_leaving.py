"""A listener that leaves, fails or is cancelled: the record is right, the thread is free, and nothing has failed."""

from __future__ import annotations

import asyncio
import gc
import threading
from typing import Any

import pytest

from perdure.checkpoint.saver import Saver
from perdure.config import get_stream_writer
from perdure.types import Command, interrupt
from tests.engine.colours import Colour, Log, thread
from tests.streaming.stories import abreast, line, status_of

DURABILITIES = pytest.mark.parametrize("durability", ["sync", "async", "exit"])
STEPS = pytest.mark.parametrize("durability", ["sync", "async"])


def leave(colour: Colour, graph: Any, when: Any, **options: Any) -> list[Any]:
    """Listen until `when` says so of an item, and leave."""
    got: list[Any] = []
    if colour.calls_async:

        async def listen() -> None:
            stream = graph.astream({"log": []}, thread(), **options)
            async for item in stream:
                got.append(item)
                if when(item):
                    break
            await stream.aclose()

        asyncio.run(listen())
        return got
    stream = graph.stream({"log": []}, thread(), **options)
    for item in stream:
        got.append(item)
        if when(item):
            break
    stream.close()
    return got


def always(_: Any) -> bool:
    return True


@STEPS
def test_P5_between_two_steps(colour: Colour, saver: Saver, durability: str) -> None:
    graph = line(*((name, colour.says(name)) for name in "abc")).compile(saver)
    assert leave(colour, graph, lambda item: "b" in item, durability=durability) == [
        {"a": {"log": ["a"]}},
        {"b": {"log": ["b"]}},
    ]
    assert status_of(saver) == ("idle", True)
    assert colour.invoke(graph, None, thread()) == {"log": ["a", "b", "c"]}
    assert status_of(saver) == ("idle", True)


def test_P5_P6_under_exit_the_thread_is_free_all_the_same(colour: Colour, saver: Saver) -> None:
    graph = line(*((name, colour.says(name)) for name in "abc")).compile(saver)
    leave(colour, graph, always, durability="exit")
    assert status_of(saver) == ("idle", True)
    assert colour.invoke(graph, {"log": []}, thread()) == {"log": ["a", "b", "c"]}


@pytest.mark.parametrize("mode", ["values", "checkpoints"])
def test_P5_before_the_first_node(colour: Colour, saver: Saver, mode: str) -> None:
    graph = line(("a", colour.says("a"))).compile(saver)
    assert len(leave(colour, graph, always, stream_mode=mode)) == 1
    assert status_of(saver) == ("idle", True)
    assert colour.state(graph, thread()).next == ("a",)
    assert colour.invoke(graph, None, thread()) == {"log": ["a"]}


@DURABILITIES
def test_P5_while_nodes_run_which_then_count_as_done_or_cancelled(colour: Colour, saver: Saver, durability: str) -> None:
    """Sync nodes end; async nodes are cancelled."""
    runs: list[str] = []
    may_end = threading.Event()

    def sends(_: Log) -> Any:
        runs.append("a")
        get_stream_writer()("x")
        may_end.wait(0.05)
        return {"log": ["a"]}

    async def sends_later(_: Log) -> Any:
        runs.append("a")
        get_stream_writer()("x")
        if len(runs) == 1:
            await asyncio.sleep(3600)
        return {"log": ["a"]}

    graph = line(("a", sends_later if colour.nodes_async else sends), ("b", colour.says("b"))).compile(saver)
    leave(colour, graph, always, stream_mode="custom", durability=durability)
    assert status_of(saver) == ("idle", True)
    (task,) = colour.state(graph, thread()).tasks
    assert (task.name, task.error) == (("a", "CancelledError()") if colour.nodes_async else ("a", None))
    assert colour.invoke(graph, None, thread()) == {"log": ["a", "b"]}
    assert len(runs) == (2 if colour.nodes_async else 1)


def test_P5_P12_with_a_question_open(colour: Colour, saver: Saver) -> None:
    graph = abreast(("asks", colour.node(lambda _: {"log": [interrupt("q")]})), ("b", colour.says("b"))).compile(saver)
    leave(colour, graph, lambda item: "__interrupt__" in item)
    assert status_of(saver)[1]
    state = colour.state(graph, thread())
    assert [question.value for question in state.interrupts] == ["q"]
    assert colour.invoke(graph, Command(resume="y"), thread()) == {"log": ["y", "b"]}


def test_P5_at_the_news_of_a_failure_the_thread_says_so(colour: Colour, saver: Saver) -> None:
    def bad(_: Log) -> Any:
        raise KeyError("x")

    graph = line(("bad", colour.node(bad))).compile(saver)
    got = leave(colour, graph, lambda item: "error" in item, stream_mode="tasks")
    assert type(got[-1]["error"]) is KeyError
    assert status_of(saver) == ("error", True)
    assert colour.state(graph, thread()).tasks[0].error is not None


def test_P5_inside_a_subgraph(colour: Colour, saver: Saver) -> None:
    inner = line(("i", colour.says("i")), ("j", colour.says("j"))).compile()
    graph = line(("p", inner)).compile(saver)
    got = leave(colour, graph, lambda item: "i" in item[1], subgraphs=True)
    assert [data for _, data in got] == [{"i": {"log": ["i"]}}]
    assert status_of(saver) == ("idle", True)
    assert colour.invoke(graph, None, thread()) == {"log": ["i", "j"]}


class ListenerError(Exception):
    """What goes wrong with whoever listens."""


@STEPS
def test_P5_a_listener_that_fails(colour: Colour, saver: Saver, durability: str) -> None:
    graph = line(*((name, colour.says(name)) for name in "ab")).compile(saver)

    def listen() -> None:
        for _ in graph.stream({"log": []}, thread(), durability=durability):
            raise ListenerError

    async def alisten() -> None:
        async for _ in graph.astream({"log": []}, thread(), durability=durability):
            raise ListenerError

    with pytest.raises(ListenerError):
        asyncio.run(alisten()) if colour.calls_async else listen()
    gc.collect()
    assert status_of(saver) == ("idle", True)
    assert colour.invoke(graph, None, thread()) == {"log": ["a", "b"]}


def test_P5_a_listener_that_breaks_off_without_closing(colour: Colour, saver: Saver) -> None:
    """The iterator is closed when it is collected; an async one by its loop."""
    graph = line(*((name, colour.says(name)) for name in "ab")).compile(saver)

    def listen() -> None:
        for _ in graph.stream({"log": []}, thread()):
            break

    async def alisten() -> None:
        async for _ in graph.astream({"log": []}, thread()):
            break

    asyncio.run(alisten()) if colour.calls_async else listen()
    gc.collect()
    assert status_of(saver) == ("idle", True)
    assert colour.invoke(graph, None, thread()) == {"log": ["a", "b"]}


@STEPS
def test_P5_an_exception_thrown_into_the_iterator(colour: Colour, saver: Saver, durability: str) -> None:
    graph = line(*((name, colour.says(name)) for name in "ab")).compile(saver)

    async def athrow() -> None:
        stream: Any = graph.astream({"log": []}, thread(), durability=durability)
        await anext(stream)
        await stream.athrow(ListenerError)

    def throw() -> None:
        stream: Any = graph.stream({"log": []}, thread(), durability=durability)
        next(stream)
        stream.throw(ListenerError)

    with pytest.raises(ListenerError):
        asyncio.run(athrow()) if colour.calls_async else throw()
    assert status_of(saver)[1]
    assert colour.invoke(graph, None, thread()) == {"log": ["a", "b"]}


@STEPS
def test_P5_a_listener_that_is_cancelled_between_steps(saver: Saver, durability: str) -> None:
    async def node(_: Log) -> Any:
        return {"log": ["n"]}

    graph = line(("a", node), ("b", node)).compile(saver)

    async def main() -> None:
        first = asyncio.Event()

        async def listen() -> None:
            async for _ in graph.astream({"log": []}, thread(), durability=durability):
                first.set()
                await asyncio.sleep(3600)

        listener = asyncio.create_task(listen())
        await first.wait()
        listener.cancel()
        with pytest.raises(asyncio.CancelledError):
            await listener
        await asyncio.sleep(0)
        assert (await graph.ainvoke(None, thread(), on_busy="wait"))["log"] == ["n", "n"]

    asyncio.run(main())
    assert status_of(saver) == ("idle", True)


def test_a_closed_iterator_stays_closed(colour: Colour, saver: Saver) -> None:
    graph = line(("a", colour.says("a"))).compile(saver)
    if colour.calls_async:

        async def main() -> list[Any]:
            stream: Any = graph.astream({"log": []}, thread())
            await stream.aclose()
            await stream.aclose()
            return [item async for item in stream]

        assert asyncio.run(main()) == []
    else:
        stream: Any = graph.stream({"log": []}, thread())
        stream.close()
        stream.close()
        assert list(stream) == []
    assert colour.state(graph, thread()).values == {}


def test_P5_async_a_cancelled_closing_hurries_what_it_closes_and_is_cancelled(saver: Saver) -> None:
    hurried: list[bool] = []
    patient: list[bool] = [True]

    async def main() -> None:
        cleans = asyncio.Event()

        async def slow(_: Log) -> dict[str, Any]:
            try:
                await asyncio.sleep(3_600 if patient else 0)
            except asyncio.CancelledError:
                cleans.set()
                try:
                    await asyncio.sleep(3_600)
                finally:
                    hurried.append(True)
            return {"log": ["slow"]}

        graph = abreast(("a", lambda _: {"log": ["a"]}), ("slow", slow)).compile(saver)
        stream = graph.astream({"log": []}, thread())
        await anext(stream)
        closing = asyncio.create_task(stream.aclose())
        await cleans.wait()
        closing.cancel()
        await asyncio.wait({closing})
        assert closing.cancelled()
        assert hurried
        assert [task.status for task in (await graph.aget_state(thread())).tasks] == ["done", "cancelled"]
        assert status_of(saver)[1], "the thread is free"
        patient.clear()
        assert await graph.ainvoke(None, thread()) == {"log": ["a", "slow"]}

    asyncio.run(main())
