"""P5: a run that is cancelled keeps the steps that had ended, and stops the others."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, Literal

import pytest

from perdure.checkpoint.records import RESULT
from perdure.checkpoint.saver import Saver
from perdure.func import entrypoint, task
from perdure.graph import START, StateGraph
from perdure.types import Command, interrupt
from tests.func.bodies import Workshop
from tests.promises.ways import Log, kinds_of, on, status_of

ROOT = Path(__file__).parents[2]
Durability = Literal["sync", "async", "exit"]


class Slow:
    """An async step that notes when it runs, when it is stopped, and ends once it may."""

    def __init__(self) -> None:
        self.ran: list[str] = []
        self.may_end = False
        self.began = asyncio.Event()
        self.step = task(name="slow")(self.run)

    async def run(self, name: str) -> str:
        self.ran.append(name)
        try:
            while not self.may_end:
                self.began.set()
                await asyncio.sleep(0.005)
        except asyncio.CancelledError:
            self.ran.append(f"{name} stopped")
            raise
        return name


async def cancelled(flow: Any, slow: Slow, given: Any = 1, ready: asyncio.Event | None = None, **options: Any) -> None:
    """Start, cancel once the slow step runs and the event is set, see the cancellation come out."""
    slow.began.clear()
    run = asyncio.ensure_future(flow.ainvoke(given, on(), **options))
    await slow.began.wait()
    if ready is not None:
        await ready.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
@pytest.mark.parametrize("watched", [True, False], ids=["awaited", "not awaited"])
def test_P5_finished_steps_are_kept_and_running_ones_are_stopped(saver: Saver, durability: Durability, watched: bool) -> None:
    shop = Workshop("async")
    step = shop.noted()

    async def story() -> None:
        slow, ready = Slow(), asyncio.Event()

        @entrypoint(saver)
        async def flow(given: int) -> Any:
            first = await step(given)
            running = slow.step("a")
            second = await step(given + 1)
            ready.set()
            if not watched:
                await asyncio.Event().wait() if not slow.may_end else None
            return [first, second, await running]

        await cancelled(flow, slow, ready=ready, durability=durability)
        assert slow.ran == ["a", "a stopped"]
        state = await flow.aget_state(on())
        assert (state.next, repr(state.tasks[0].error), state.tasks[0].status) == (("flow",), "'CancelledError()'", "cancelled")
        assert len(kinds_of(saver, RESULT)) == 2
        assert status_of(saver)[1] is True
        slow.may_end = True
        assert await flow.ainvoke(None, on()) == [1, 2, "a"]
        assert shop.ran == [("step", 1), ("step", 2)]

    asyncio.run(story())


def test_P5_a_sync_entrypoint_that_waits_for_an_async_step_is_cancelled_too(saver: Saver) -> None:
    async def story() -> None:
        slow = Slow()

        @entrypoint(saver)
        def flow(given: int) -> Any:
            return slow.step("a").result()

        await cancelled(flow, slow)
        assert slow.ran == ["a", "a stopped"]
        state = await flow.aget_state(on())
        assert (state.next, state.tasks[0].status) == (("flow",), "cancelled")
        slow.may_end = True
        assert await flow.ainvoke(None, on()) == "a"

    asyncio.run(story())


def test_P5_steps_inside_steps_are_stopped_too(saver: Saver) -> None:
    async def story() -> None:
        slow = Slow()
        shop = Workshop("async")
        done = shop.noted()

        @task
        async def outer(given: int) -> Any:
            return [await done(given), await slow.step("a")]

        @entrypoint(saver)
        async def flow(given: int) -> Any:
            return await outer(given)

        await cancelled(flow, slow)
        assert slow.ran == ["a", "a stopped"]
        slow.may_end = True
        assert await flow.ainvoke(None, on()) == [1, "a"]
        assert shop.ran == [("step", 1)]

    asyncio.run(story())


def test_P5_a_running_sync_step_is_waited_for_and_kept(saver: Saver) -> None:
    began, ended = threading.Event(), []

    @task
    def blocking(given: int) -> int:
        began.set()
        time.sleep(0.1)
        ended.append(given)
        return given

    @entrypoint(saver)
    async def flow(given: int) -> int:
        return await blocking(given)

    async def story() -> None:
        run = asyncio.ensure_future(flow.ainvoke(1, on()))
        await asyncio.to_thread(began.wait)
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        assert ended == [1]
        assert len(kinds_of(saver, RESULT)) == 1
        assert await flow.ainvoke(None, on()) == 1
        assert ended == [1]

    asyncio.run(story())


def test_P5_in_a_graph_the_sibling_of_a_cancelled_node_is_kept_with_its_steps(saver: Saver) -> None:
    async def story() -> None:
        slow, ready = Slow(), asyncio.Event()
        shop = Workshop("async")
        step = shop.noted()

        async def quick(state: Log) -> Any:
            return {"log": [await step("quick")]}

        async def watch(graph: Any) -> None:
            while not (await graph.aget_state(on())).values.get("log"):  # noqa: ASYNC110 - what is stored is no event
                await asyncio.sleep(0.005)
            ready.set()

        async def node(state: Log) -> Any:
            return {"log": [await step("node"), await slow.step("a")]}

        builder = StateGraph(Log).add_node("quick", quick).add_node("slow", node)
        graph = builder.add_edge(START, "quick").add_edge(START, "slow").compile(saver)
        watching = asyncio.ensure_future(watch(graph))
        await cancelled(graph, slow, {"log": []}, ready)
        await watching
        state = await graph.aget_state(on())
        assert (state.next, state.values) == (("slow",), {"log": ["quick"]})
        slow.may_end = True
        assert await graph.ainvoke(None, on()) == {"log": ["quick", "node", "a"]}
        assert sorted(shop.ran) == [("step", "node"), ("step", "quick")]

    asyncio.run(story())


def test_P5_a_cancelled_run_keeps_the_questions_that_its_steps_had_asked(saver: Saver) -> None:
    async def story() -> None:
        slow, asked_once = Slow(), asyncio.Event()

        @task
        async def ask(given: int) -> Any:
            asked_once.set()
            return interrupt("?")

        @entrypoint(saver)
        async def flow(given: int) -> Any:
            asked, running = ask(given), slow.step("a")
            return await asyncio.gather(asked, running)

        run = asyncio.ensure_future(flow.ainvoke(1, on()))
        await slow.began.wait()
        await asked_once.wait()
        for _ in range(20):
            await asyncio.sleep(0)
        slow.may_end = True
        out = await run
        assert [pause.value for pause in out["__interrupt__"]] == ["?"], "the other step is let run to its end"
        assert slow.ran == ["a"]
        assert await flow.ainvoke(Command(resume="x"), on()) == ["x", "a"]
        assert slow.ran == ["a"]

    asyncio.run(story())


def test_closing_a_stream_early_stops_what_runs_and_keeps_what_has_ended(shop: Workshop, saver: Saver) -> None:
    step = shop.noted()

    def wf(given: int) -> Any:
        first = yield step(given)
        return [first, (yield step(given + 1))]

    flow = shop.flow(wf, saver)
    if shop.is_async:

        async def leave() -> None:
            stream = flow.astream(1, on(), stream_mode="updates")
            async for _ in stream:
                break
            await stream.aclose()

        asyncio.run(leave())
    else:
        stream = flow.stream(1, on(), stream_mode="updates")
        next(stream)
        stream.close()
    assert status_of(saver)[1] is True
    assert shop.invoke(flow, None, on()) == [1, 2]
    assert shop.ran.count(("step", 1)) == 1


PROGRAM = """
import sys, threading, time
from perdure.checkpoint.sqlite import SqliteSaver
from perdure.func import entrypoint, task

@task
def quick(given):
    return given

@task
def slow(given):
    print("began", flush=True)
    time.sleep(0.3)
    return given

@task
async def hanging(given):
    import asyncio
    await asyncio.sleep(60)

@entrypoint(SqliteSaver(sys.argv[1]))
def flow(given):
    hanging(0)
    return [quick(1).result(), slow(2).result()]

config = {"configurable": {"thread_id": "t"}}
try:
    flow.invoke(1, config)
except KeyboardInterrupt:
    state = flow.get_state(config)
    print(state.next, state.tasks[0].status, flush=True)
"""


def test_P5_ctrl_c_waits_for_a_running_step_stops_a_hanging_one_and_stores_what_arrives(tmp_path: Path) -> None:
    from perdure.checkpoint.sqlite import SqliteSaver

    path = tmp_path / "steps.db"
    command = [sys.executable, "-c", PROGRAM, str(path)]
    process = subprocess.Popen(command, env={"PYTHONPATH": str(ROOT / "src")}, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "began\n"
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=30)
    assert out == "('flow',) cancelled\n"
    assert process.returncode == 0
    saver = SqliteSaver(path)
    assert len(kinds_of(saver, RESULT)) == 2
    saver.close()
