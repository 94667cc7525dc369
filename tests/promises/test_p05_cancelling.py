"""P5 and scenario S14: cancelling leaves the same record in every mode."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from typing import Any, Literal, cast

import pytest

from perdure.checkpoint.records import ERROR, RESULT, Commit
from perdure.checkpoint.saver import Saver
from perdure.errors import SaveFailed
from perdure.graph import START, StateGraph
from perdure.types import Command, Send, interrupt
from tests.promises.ways import (
    CANCELLED,
    Ledger,
    Log,
    Watch,
    Way,
    abreast,
    chain,
    kinds_of,
    on,
    orphans,
    status_of,
)

ROOT = Path(__file__).parents[2]
Durability = Literal["sync", "async", "exit"]
EVERY_DURABILITY = pytest.mark.parametrize("durability", ["sync", "async", "exit"])


class Slow:
    """An async node that says when it runs, and ends when it may."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.runs = 0
        self.began = asyncio.Event()
        self.may_end = False

    async def __call__(self, state: Any) -> Any:
        self.runs += 1
        self.began.set()
        if not self.may_end:
            await asyncio.sleep(3_600)
        return {"log": [self.name]}


async def cancelled_when(graph: Any, event: asyncio.Event, given: Any = None, **options: Any) -> None:
    """Start the graph, cancel it once the event is set and what was ready then has run, and see the cancellation come out."""
    run = asyncio.ensure_future(graph.ainvoke({"log": []} if given is None else given, on(), **options))
    await event.wait()
    for _ in range(20):
        await asyncio.sleep(0.001)
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run


# --------------------------------------------------------------------------------------------------------------------- S14


@EVERY_DURABILITY
def test_P5_S14_cancel_leaves_the_same_record_in_every_durability_mode(saver: Saver, durability: Durability):
    ledger = Ledger(Way("async"))

    async def story() -> None:
        p2 = Slow("p2")
        graph = abreast(("p1", ledger.node("p1")), ("p2", p2)).compile(checkpointer=saver)
        await cancelled_when(graph, p2.began, durability=durability)
        snapshot = await graph.aget_state(on())
        assert snapshot.next == ("p2",)
        assert snapshot.values == {"log": ["p1"]}
        assert {task.name: (task.error, task.result) for task in snapshot.tasks} == {
            "p1": (None, {"log": ["p1"]}),
            "p2": (CANCELLED, None),
        }
        assert (kinds_of(saver, RESULT), kinds_of(saver, ERROR)) == (["p1"], ["p2"])
        assert status_of(saver) == ("error", True), "the thread is free"
        p2.may_end = True
        assert await graph.ainvoke(None, on(), durability=durability) == {"log": ["p1", "p2"]}
        assert (ledger.ran, p2.runs) == (["p1"], 2)

    asyncio.run(story())


@EVERY_DURABILITY
def test_P5_a_node_that_runs_alone(saver: Saver, durability: Durability):
    async def story() -> None:
        b = Slow("b")
        graph = chain(("a", Ledger(Way("async")).node("a")), ("b", b)).compile(checkpointer=saver)
        await cancelled_when(graph, b.began, durability=durability)
        snapshot = await graph.aget_state(on())
        assert (snapshot.next, snapshot.values) == (("b",), {"log": ["a"]})
        assert snapshot.tasks[0].error == CANCELLED
        assert status_of(saver) == ("error", True)
        b.may_end = True
        assert await graph.ainvoke(None, on()) == {"log": ["a", "b"]}

    asyncio.run(story())


@EVERY_DURABILITY
def test_P5_a_paused_sibling_keeps_its_question(saver: Saver, durability: Durability):
    async def story() -> None:
        slow = Slow("slow")
        asking = Ledger(Way("async")).node("ask", lambda: interrupt("?"))
        graph = abreast(("ask", asking), ("slow", slow)).compile(checkpointer=saver)
        await cancelled_when(graph, slow.began, durability=durability)
        snapshot = await graph.aget_state(on())
        assert set(snapshot.next) == {"ask", "slow"}
        assert [pause.value for pause in snapshot.interrupts] == ["?"]
        slow.may_end = True
        await graph.ainvoke(None, on())
        assert await graph.ainvoke(Command(resume="yes"), on()) == {"log": ["yes", "slow"]}
        assert slow.runs == 2

    asyncio.run(story())


@EVERY_DURABILITY
def test_P5_a_fan_out_with_a_limit_marks_those_that_never_began(saver: Saver, durability: Durability):
    async def story() -> None:
        slow = Slow("slow")

        async def work(given: int) -> Any:
            if given == 1:
                await slow({})
            return {"log": [str(given)]}

        builder: StateGraph[Any, Any, Any, Any] = StateGraph(Log)
        builder.add_node("work", work)
        builder.add_conditional_edges(START, lambda state: [Send("work", n) for n in range(5)], ["work"])
        graph = builder.compile(checkpointer=saver)
        run = asyncio.ensure_future(graph.ainvoke({"log": []}, {**on(), "max_concurrency": 1}, durability=durability))
        await slow.began.wait()
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        snapshot = await graph.aget_state(on())
        assert [task.error for task in snapshot.tasks] == [None, *[CANCELLED] * 4]
        slow.may_end = True
        assert await graph.ainvoke(None, on()) == {"log": list("01234")}
        assert slow.runs == 2

    asyncio.run(story())


@EVERY_DURABILITY
def test_P5_inside_a_subgraph(saver: Saver, durability: Durability):
    ledger = Ledger(Way("async"))

    async def story() -> None:
        slow = Slow("slow")
        child = chain(("first", ledger.node("first")), ("slow", slow)).compile()
        graph = chain(("before", ledger.node("before")), ("child", child)).compile(checkpointer=saver)
        await cancelled_when(graph, slow.began, durability=durability)
        snapshot = await graph.aget_state(on(), subgraphs=True)
        assert snapshot.next == ("child",)
        inner = snapshot.tasks[0].state
        assert inner.next == ("slow",)
        assert inner.tasks[0].error == CANCELLED
        slow.may_end = True
        assert (await graph.ainvoke(None, on()))["log"][-2:] == ["first", "slow"]
        assert (ledger.ran, slow.runs) == (["before", "first"], 2)

    asyncio.run(story())


@EVERY_DURABILITY
def test_P5_sync_nodes_of_an_async_run_are_waited_for(saver: Saver, durability: Durability):
    # A thread cannot be cancelled: what it returns in time is kept.
    began, end = threading.Event(), threading.Event()
    runs: list[str] = []

    def slow(state: Any) -> Any:
        runs.append("slow")
        began.set()
        end.wait(10)
        return {"log": ["slow"]}

    async def story() -> None:
        ledger = Ledger(Way("async"))
        graph = abreast(("a", ledger.node("a")), ("slow", slow)).compile(checkpointer=saver)
        run = asyncio.ensure_future(graph.ainvoke({"log": []}, on(), durability=durability))
        while not (began.is_set() and ledger.ran):  # noqa: ASYNC110 - what is waited for is no event of this loop
            await asyncio.sleep(0.001)
        await asyncio.sleep(0.005)
        run.cancel()
        await asyncio.sleep(0.005)
        end.set()
        with pytest.raises(asyncio.CancelledError):
            await run
        assert kinds_of(saver, RESULT) == ["a", "slow"]
        assert await graph.ainvoke(None, on()) == {"log": ["a", "slow"]}
        assert runs == ["slow"]

    asyncio.run(story())


# -------------------------------------------------------------------------------------------------- cancelled while it saves


class Halting(Watch):
    """Records whose n-th commit does not return until it is cancelled, before or after it was stored."""

    def __init__(self, saver: Saver, at: int, *, stored: bool) -> None:
        super().__init__(saver)
        self.reached = asyncio.Event()
        records = saver.suspending()
        commit = type(records).commit

        async def halting(what: Commit) -> None:
            if len(self.commits) != at:
                await commit(records, what)
                return
            if stored:
                await commit(records, what)
            self.reached.set()
            await asyncio.sleep(3_600)

        records.commit = halting  # type: ignore[method-assign, assignment]


@pytest.mark.parametrize("stored", [True, False], ids=["stored", "not stored"])
@pytest.mark.parametrize("at", range(4))
def test_P5_cancelled_during_a_save_the_thread_is_free_and_whole(saver: Saver, at: int, stored: bool):
    ledger = Ledger(Way("async"))

    async def story() -> None:
        nodes = [(name, ledger.node(name)) for name in "abc"]
        graph = chain(*nodes).compile(checkpointer=saver)
        halting = Halting(saver, at, stored=stored)
        await cancelled_when(graph, halting.reached)
        del saver.blocking, saver.suspending
        kept = kinds_of(saver, RESULT)
        assert status_of(saver)[1], "nobody holds the thread any more"
        exists = (await graph.aget_state(on())).metadata is not None
        assert await graph.ainvoke(None if exists else {"log": []}, on()) == {"log": ["a", "b", "c"]}
        assert all(ledger.ran.count(name) == 1 for name in kept)
        assert orphans(saver) == []

    asyncio.run(story())


def test_P5_cancelled_while_a_save_runs_beside_the_next_step(saver: Saver):
    # Durability "async": b runs while the checkpoint after a is being saved; both end as in the other modes.
    async def story() -> None:
        b = Slow("b")
        graph = chain(("a", Ledger(Way("async")).node("a")), ("b", b)).compile(checkpointer=saver)
        watch = Watch(saver)
        records = saver.suspending()
        commit = type(records).commit
        gate = asyncio.Event()

        async def gated(what: Commit) -> None:
            if len(watch.commits) == 1:
                await gate.wait()
            await commit(records, what)

        records.commit = gated  # type: ignore[method-assign, assignment]
        run = asyncio.ensure_future(graph.ainvoke({"log": []}, on(), durability="async"))
        await b.began.wait()
        run.cancel()
        await asyncio.sleep(0.005)
        gate.set()
        with pytest.raises(asyncio.CancelledError):
            await run
        snapshot = await graph.aget_state(on())
        assert (snapshot.next, snapshot.values, snapshot.tasks[0].error) == (("b",), {"log": ["a"]}, CANCELLED)
        assert status_of(saver)[1]

    asyncio.run(story())


def test_P5_cancelled_twice_while_a_subgraph_waits_for_the_save_of_another_its_step_is_stored_all_the_same(saver: Saver):
    # Durability "async": the step of s2 has ended and waits for that of s1 to be saved. Nothing but that waiting knows of it.
    ledger = Ledger(Way("async"))

    async def story() -> None:
        began, reached, ended, gate = (asyncio.Event() for _ in range(4))
        Watch(saver)
        records = saver.suspending()
        commit = type(records).commit

        async def gated(what: Commit) -> None:
            if any(row.path == "x1" for row in what.writes):
                reached.set()
                await gate.wait()
            await commit(records, what)

        async def x1(state: Any) -> Any:
            await began.wait()
            ledger.ran.append("x1")
            return {"log": ["x1"]}

        async def x2(state: Any) -> Any:
            began.set()
            await reached.wait()
            ledger.ran.append("x2")
            ended.set()
            return {"log": ["x2"]}

        def subgraph(first: Any, name: str) -> Any:
            return chain((f"x{name}", first), (f"y{name}", ledger.node(f"y{name}"))).compile()

        inner = (("s1", subgraph(x1, "1")), ("s2", subgraph(x2, "2")))
        graph = abreast(*inner).compile(checkpointer=saver)
        records.commit = gated  # type: ignore[method-assign, assignment]
        run = asyncio.ensure_future(graph.ainvoke({"log": []}, on(), durability="async"))
        await ended.wait()
        for _ in range(2):
            await asyncio.sleep(0.005)
            run.cancel()
        await asyncio.sleep(0.005)
        gate.set()
        with pytest.raises(asyncio.CancelledError):
            await run
        ran, ledger.ran[:] = ledger.ran[:], []
        assert kinds_of(saver, RESULT) == sorted(set(ran)), "all that has run is stored"
        await graph.ainvoke(None, on())
        assert sorted(ran + ledger.ran) == ["x1", "x2", "y1", "y2"]
        assert orphans(saver) == []

    asyncio.run(story())


def test_P5_cancelled_while_it_waits_for_a_busy_thread(saver: Saver):
    async def story() -> None:
        slow = Slow("slow")
        graph = chain(("slow", slow)).compile(checkpointer=saver)
        first = asyncio.ensure_future(graph.ainvoke({"log": []}, on()))
        await slow.began.wait()
        second = asyncio.ensure_future(graph.ainvoke({"log": ["2"]}, on(), on_busy="wait"))
        await asyncio.sleep(0.01)
        second.cancel()
        with pytest.raises(asyncio.CancelledError):
            await second
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        assert (await graph.aget_state(on())).values == {"log": []}, "what was never accepted left nothing"

    asyncio.run(story())


# ------------------------------------------------------------------------------------------------- iterators closed early


@EVERY_DURABILITY
def test_P5_closing_a_stream_early_keeps_what_was_told(saver: Saver, way: Way, durability: Durability):
    ledger = Ledger(way)
    graph = chain(*((name, ledger.node(name)) for name in "abcd")).compile(checkpointer=saver)

    if way.is_async:

        async def two() -> None:
            async with contextlib.aclosing(
                cast("AsyncGenerator[Any]", graph.astream({"log": []}, on(), durability=durability))
            ) as events:
                async for event in events:
                    if "b" in event:
                        return

        asyncio.run(two())
    else:
        stream: Iterator[Any] = graph.stream({"log": []}, on(), durability=durability)
        with contextlib.closing(stream):  # type: ignore[type-var]
            for event in stream:
                if "b" in event:
                    break
    assert status_of(saver)[1]
    if durability != "exit":
        assert kinds_of(saver, RESULT) == ["a", "b"]
        assert way.invoke(graph, None, on()) == {"log": list("abcd")}
        assert ledger.ran == list("abcd")


def test_P5_closing_a_stream_waits_for_the_save_under_way_and_tells_if_it_failed(saver: Saver, way: Way):
    ledger = Ledger(way)
    graph = chain(*((name, ledger.node(name)) for name in "abcd")).compile(checkpointer=saver)
    watch = Watch(saver)
    watch.failing = {1}

    if way.is_async:

        async def one() -> None:
            async with contextlib.aclosing(
                cast("AsyncGenerator[Any]", graph.astream({"log": []}, on(), durability="async"))
            ) as events:
                async for _ in events:
                    return

        with pytest.raises(SaveFailed):
            asyncio.run(one())
    else:
        stream = graph.stream({"log": []}, on(), durability="async")
        with pytest.raises(SaveFailed):
            next(stream)
            stream.close()  # type: ignore[attr-defined]
    assert way.state(graph, on()).next == ("a",)
    assert status_of(saver)[1]
