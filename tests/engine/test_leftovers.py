"""What is gone with a run and its saver: threads, files, and whatever was abandoned."""

from __future__ import annotations

import asyncio
import gc
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from perdure import START, InMemorySaver, SqliteSaver, StateGraph
from perdure.backends.memory import records
from perdure.backends.sqlite import committing
from tests.engine.colours import Colour, Log, thread


def eventually(holds: Callable[[], bool], seconds: float = 5.0) -> bool:
    """Whether it holds, now or soon."""
    end = time.monotonic() + seconds
    while not holds() and time.monotonic() < end:
        time.sleep(0.01)
    return holds()


def named(name: str) -> set[threading.Thread]:
    """The threads of that name that run."""
    return {each for each in threading.enumerate() if each.name == name}


@pytest.mark.parametrize("backend", ["memory", "file"])
def test_the_thread_that_renews_leases_ends_with_a_saver_that_nobody_closed(
    backend: str, colour: Colour, tmp_path: Path
) -> None:
    before = named("perdure-leases")
    saver: Any = InMemorySaver() if backend == "memory" else SqliteSaver(tmp_path / "threads.db")
    colour.invoke(StateGraph(Log).add_node("a", colour.says("a")).add_edge(START, "a").compile(saver), {"log": []}, thread())
    assert len(named("perdure-leases") - before) == 1
    del saver

    def is_gone() -> bool:
        gc.collect()  # each time: a node's thread that is just ending may still know the run
        return not named("perdure-leases") - before

    assert eventually(is_gone)


BACKENDS = {"memory": (records, "memory.commit.before"), "file": (committing, "sqlite.commit.before")}


def saver_of(backend: str, folder: Path) -> Any:
    """A saver of that backend."""
    return InMemorySaver() if backend == "memory" else SqliteSaver(folder / "threads.db")


def two_steps(saver: Any) -> Any:
    """A graph of two steps; the second has two nodes."""
    drawing = StateGraph(Log).add_edge(START, "a")
    for name in "abc":
        drawing.add_node(name, lambda _, name=name: {"log": [name]})
    return drawing.add_edge("a", "b").add_edge("a", "c").compile(saver)


def abandon(graph: Any, on: str) -> None:
    """Leave a stream half way, as garbage that only the collector finds."""
    left: list[Any] = [graph.stream({"log": []}, thread(on), stream_mode="updates")]
    next(left[0])
    left.append(left)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("durability", ["sync", "async"])
def test_garbage_that_is_collected_in_the_middle_of_a_commit_is_a_run_that_can_go_on(
    backend: str, durability: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, here = BACKENDS[backend]
    saver = saver_of(backend, tmp_path)
    graph = two_steps(saver)
    collections: list[str] = []

    def collect(name: str) -> None:
        if name == here and threading.current_thread().name == "committing" and not collections:
            collections.append(name)
            gc.collect()

    gc.collect()
    gc.disable()
    try:
        abandon(graph, "abandoned")
        monkeypatch.setattr(module, "failpoint", collect)
        run = threading.Thread(
            target=graph.invoke,
            args=({"log": []}, thread("other")),
            kwargs={"durability": durability},
            name="committing",
            daemon=True,
        )
        run.start()
        run.join(20)
        assert not run.is_alive(), "the collector waits for the lock that its own thread holds"
    finally:
        gc.enable()
    assert collections
    assert eventually(lambda: not named("perdure-closing"))
    assert graph.get_state(thread("other")).values == {"log": ["a", "b", "c"]}
    assert graph.invoke(None, thread("abandoned")) == {"log": ["a", "b", "c"]}
    saver.close()


def test_garbage_that_is_collected_by_a_thread_of_its_own_run_is_a_run_that_can_go_on() -> None:
    nodes = threading.Event()
    collected = threading.Event()

    def slow(_: Log) -> dict[str, Any]:
        nodes.wait(20)
        gc.collect()
        collected.set()
        return {"log": ["slow"]}

    drawing = StateGraph(Log).add_node("a", lambda _: {"log": ["a"]}).add_node("slow", slow)
    graph = drawing.add_edge(START, "a").add_edge(START, "slow").compile(InMemorySaver())
    gc.collect()
    gc.disable()
    try:
        abandon(graph, "abandoned")
        nodes.set()
        assert collected.wait(20), "the collector waits for the thread that it runs on"
    finally:
        gc.enable()
    assert eventually(lambda: not named("perdure-closing"))
    assert graph.invoke(None, thread("abandoned")) == {"log": ["a", "slow"]}


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_loop_that_ends_under_a_stream_closes_it_once_and_keeps_what_was_done(backend: str, tmp_path: Path) -> None:
    saver = saver_of(backend, tmp_path)
    ran: list[str] = []
    complaints: list[Any] = []

    def node(name: str, wait: float) -> Any:
        async def run(_: Log) -> dict[str, Any]:
            await asyncio.sleep(wait)
            ran.append(name)
            return {"log": [name]}

        return run

    drawing = StateGraph(Log).add_node("quick", node("quick", 0)).add_node("slow", node("slow", 0.2))
    graph = drawing.add_edge(START, "quick").add_edge(START, "slow").compile(saver)

    async def leave() -> Any:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
        stream = graph.astream({"log": []}, thread(), stream_mode="updates")
        await anext(stream)
        return stream

    stream = asyncio.run(leave())
    del stream
    assert complaints == []
    assert graph.get_state(thread()).next == ("slow",)
    assert graph.invoke(None, thread()) == {"log": ["quick", "slow"]}
    assert ran == ["quick", "slow"]
    saver.close()


@pytest.mark.skipif(not hasattr(signal, "raise_signal"), reason="needs signals")
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_signal_handler_in_the_middle_of_a_commit_is_refused(
    backend: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, here = BACKENDS[backend]
    saver = saver_of(backend, tmp_path)
    graph = two_steps(saver)
    refused: list[str] = []

    def handle(*_: object) -> None:
        try:
            graph.get_state(thread())
        except RuntimeError as error:
            refused.append(str(error))

    def signal_now(name: str) -> None:
        if name == here and not refused:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(module, "failpoint", signal_now)
    before = signal.signal(signal.SIGINT, handle)
    try:
        assert graph.invoke({"log": []}, thread()) == {"log": ["a", "b", "c"]}
    finally:
        signal.signal(signal.SIGINT, before)
    assert "signal handler" in refused[0]
    saver.close()
