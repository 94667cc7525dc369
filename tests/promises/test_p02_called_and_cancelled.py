"""P2, P5, P6: what has been done is kept, where a node is tried again, pauses, or is stopped because another one has failed.

Each of these was found by `tests/laws/test_random_graphs.py`.
"""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from perdure.backends.sqlite.connections import SharedSqlite, open_sqlite
from perdure.checkpoint.records import RESULT
from perdure.checkpoint.saver import Saver
from perdure.errors import SaveFailed
from perdure.func import task
from perdure.graph import START, StateGraph
from perdure.types import Command, RetryPolicy, interrupt
from tests.promises.ways import Ledger, Log, Watch, Way, abreast, chain, kinds_of, on, orphans

AT_ONCE = RetryPolicy(initial_interval=0.0, jitter=False, max_attempts=2)


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
@pytest.mark.parametrize("remembers", [None, True])
def test_P2_a_subgraph_that_has_ended_is_not_run_again_by_the_next_attempt_of_its_node(
    saver: Saver, way: Way, ledger: Ledger, durability: str, remembers: Any
):
    child = chain(("inner", ledger.node("inner"))).compile(checkpointer=remembers)
    attempts: list[list[str]] = []

    def outer(found: Any) -> Any:
        attempts.append(found["log"])
        if len(attempts) == 1:
            raise ConnectionError
        return {"log": found["log"]}

    def node(state: Any) -> Any:
        return outer(child.invoke({"log": []}))

    async def anode(state: Any) -> Any:
        return outer(await child.ainvoke({"log": []}))

    builder: StateGraph[Any, Any, Any, Any] = StateGraph(Log)
    builder.add_node("outer", anode if way.is_async else node, retry_policy=AT_ONCE)
    graph = builder.add_edge(START, "outer").compile(checkpointer=saver)
    assert way.invoke(graph, {"log": []}, on(), durability=durability) == {"log": ["inner"]}
    assert ledger.ran == ["inner"]
    assert attempts == [["inner"], ["inner"]], "the second attempt got the same answer, and a memory was not made twice"


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_P6_a_subgraph_that_has_ended_is_kept_when_its_node_pauses(saver: Saver, way: Way, ledger: Ledger, durability: str):
    first = chain(("first", ledger.node("first"))).compile()
    second = chain(("second", ledger.node("second", lambda: interrupt("?")))).compile()

    def node(state: Any) -> Any:
        return {"log": [*first.invoke({"log": []})["log"], *second.invoke({"log": []})["log"]]}

    async def anode(state: Any) -> Any:
        return {"log": [*(await first.ainvoke({"log": []}))["log"], *(await second.ainvoke({"log": []}))["log"]]}

    graph = chain(("outer", anode if way.is_async else node)).compile(checkpointer=saver)
    way.invoke(graph, {"log": []}, on(), durability=durability)
    assert way.invoke(graph, Command(resume="yes"), on(), durability=durability) == {"log": ["first", "yes"]}
    assert ledger.ran == ["first", "second", "second"]
    assert orphans(saver) == []


def test_P2_a_handlers_result_is_stored_with_the_failure_that_it_handled(saver: Saver, way: Way):
    """Killed after the handler's result was stored and before the super-step was: neither node nor handler runs again."""
    ran: list[str] = []
    gone = threading.Event()

    def fails(state: Any) -> Any:
        ran.append("fails")
        raise ConnectionError

    def first(state: Any) -> Any:
        ran.append("first")
        return {"log": ["first"]}

    def second(state: Any) -> Any:
        for _ in range(4_000):
            if gone.is_set() or "!a" in kinds_of(saver, RESULT):
                break
            time.sleep(0.005)
        return {"log": ["second"]}

    builder: StateGraph[Any, Any, Any, Any] = StateGraph(Log)
    builder.add_node("a", way.node(fails), error_handler=way.node(first))
    builder.add_node("b", way.node(fails), error_handler=second)
    builder.add_edge(START, "a").add_edge(START, "b")
    graph = builder.compile(checkpointer=saver)
    watch = Watch(saver)

    def dies(number: int, commit: Any) -> BaseException | None:
        stored = any(write.path == "!a" for each in watch.commits[:-1] for write in each.writes)
        return OSError("gone") if stored and not gone.is_set() else None

    for records in (saver.blocking(), saver.suspending()):
        records._fails = dies  # type: ignore[attr-defined]
    with pytest.raises(SaveFailed):
        way.invoke(graph, {"log": []}, on())
    gone.set()
    assert kinds_of(saver, RESULT) == ["!a"]
    ran.clear()
    assert way.invoke(graph, None, on()) == {"log": ["first", "second"]}
    assert ran == ["fails"], "only b's"


def test_P5_an_async_node_that_ends_while_it_is_stopped_has_ended(saver: Saver):
    """In a sync run, async nodes run on another thread: what such a node still did when it heard that it is to stop is kept."""
    ran: list[str] = []
    waits = threading.Event()

    async def stubborn(state: Any) -> Any:
        try:
            waits.set()
            await asyncio.sleep(3_600)
        except asyncio.CancelledError:
            ran.append("stubborn")
        return {"log": ["stubborn"]}

    def fails(state: Any) -> Any:
        assert waits.wait(20)
        ran.append("fails")
        if ran.count("fails") == 1:
            raise ConnectionError
        return {"log": ["fails"]}

    graph = abreast(("fails", fails), ("stubborn", stubborn)).compile(checkpointer=saver)
    with pytest.raises(ConnectionError):
        graph.invoke({"log": []}, on())
    assert ran == ["fails", "stubborn"], "nothing runs any more when the call has returned"
    assert graph.invoke(None, on()) == {"log": ["fails", "stubborn"]}
    assert ran == ["fails", "stubborn", "fails"]


def test_P2_a_step_that_has_ended_is_stored_even_if_its_node_is_stopped_meanwhile(saver: Saver):
    """A sync run, an async step, and a sibling that fails while the step's result is being stored."""
    ran: list[str] = []
    storing, failed = threading.Event(), threading.Event()

    @task
    async def step() -> str:
        ran.append("step")
        return "done"

    async def steps(state: Any) -> Any:
        return {"log": [await step()]}

    def fails(state: Any) -> Any:
        if not failed.is_set():
            assert storing.wait(20)
            failed.set()
            raise ConnectionError
        return {"log": ["fails"]}

    graph = abreast(("fails", fails), ("steps", steps)).compile(checkpointer=saver)
    watch = Watch(saver)

    def slowly(number: int, commit: Any) -> None:
        if any(">" in write.path for write in commit.writes):
            storing.set()
            assert failed.wait(20)

    watch._fails = slowly  # type: ignore[method-assign]
    for records in (saver.blocking(), saver.suspending()):
        records._fails = slowly  # type: ignore[attr-defined]
    with pytest.raises(ConnectionError):
        graph.invoke({"log": []}, on())
    assert graph.invoke(None, on()) == {"log": ["fails", "done"]}
    assert ran == ["step"]


@pytest.mark.parametrize("at", [1, 2])
def test_P5_cancelled_while_it_waits_for_a_save_a_node_that_has_ended_is_kept(saver: Saver, at: int):
    """Durability "async": the commit of one step is on its way, the next step has ended, and its run is cancelled then."""
    ran: list[str] = []

    async def story() -> None:
        ended = asyncio.Event()

        def node(name: str) -> Any:
            async def run(state: Any) -> Any:
                ran.append(name)
                if name == "bc"[at - 1]:
                    ended.set()
                return {"log": [name]}

            return run

        graph = chain(*((name, node(name)) for name in "abcd")).compile(checkpointer=saver)
        watch = Watch(saver)
        records = saver.suspending()
        commit = type(records).commit
        gate = asyncio.Event()

        async def gated(what: Any) -> None:
            if len(watch.commits) == at:
                await gate.wait()
            await commit(records, what)

        records.commit = gated  # type: ignore[method-assign, assignment]
        run = asyncio.ensure_future(graph.ainvoke({"log": []}, on(), durability="async"))
        await ended.wait()
        for _ in range(20):
            await asyncio.sleep(0.001)
        run.cancel()
        await asyncio.sleep(0.005)
        gate.set()
        with pytest.raises(asyncio.CancelledError):
            await run
        before = [*ran]
        assert await graph.ainvoke(None, on()) == {"log": [*"abcd"]}
        assert ran == [*"abcd"], f"{before} had ended"
        assert orphans(saver) == []

    asyncio.run(story())
    assert kinds_of(saver, 0) == [*"abcd"]


def test_P5_a_commit_that_is_cancelled_before_its_turn_is_carried_out(tmp_path: Path):
    shared: SharedSqlite = open_sqlite(tmp_path / "p.db")
    wait, started, done = threading.Event(), threading.Event(), []

    def first(_: Any) -> None:
        started.set()
        assert wait.wait(20)

    async def story() -> None:
        port = shared.suspending()
        running = asyncio.create_task(port.run(first))
        queued = asyncio.create_task(port.finish(lambda _: done.append("queued")))
        assert await asyncio.to_thread(started.wait, 20)
        queued.cancel()
        await asyncio.sleep(0.01)
        assert not queued.done()
        wait.set()
        await running
        with pytest.raises(asyncio.CancelledError):
            await queued
        assert done == ["queued"]
        await port.close()

    asyncio.run(story())
