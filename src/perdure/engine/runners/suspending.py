"""The runner of async calls: async nodes run as coroutines of the caller's loop, sync nodes on worker threads; waiting suspends.

Imported only when a loop is needed: importing asyncio costs as much as importing all of this library.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import inspect
import random
import threading
import types
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator, Sequence
from contextlib import nullcontext
from contextvars import Context, copy_context
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from perdure.bridge import run_blocking
from perdure.engine.runners.blocking import CANCEL_GRACE
from perdure.engine.runners.elsewhere import Elsewhere, outcome
from perdure.engine.runners.held import caught_up, paced, wake
from perdure.engine.runners.pace import Pace
from perdure.engine.runners.started import Started
from perdure.engine.runners.workers import Lock, Stopped, Waiting, Wave, Workers
from perdure.engine.tasks.attempt import attempt, call_inline, fail, out_of_time, settled, stop_steps, wait_for_steps
from perdure.errors import NodeCancelledError, NodeTimeoutError, StepTimeoutError

if TYPE_CHECKING:
    from perdure.checkpoint.records import Commit
    from perdure.engine.ports import InFlight, Store
    from perdure.engine.tasks.task import Task
    from perdure.types import TimeoutPolicy


@types.coroutine
def in_context(context: Context, coro: Coroutine[Any, Any, Any]) -> Generator[Any, Any, Any]:
    """Await `coro` in a context of its own, as part of the current task.

    A task of its own would do the same for 15 us instead of 1, and would put a cancellation one loop turn further away.
    """
    step: Callable[..., Any] = coro.send
    given: Any = None
    while True:
        try:
            waiting_for = context.run(step, given)
        except StopIteration as stop:
            return stop.value
        try:
            given = yield waiting_for
            step = coro.send
        except BaseException as error:  # noqa: BLE001 - cancellations and all: thrown into the coroutine, as await would
            given = error
            step = coro.throw


async def settle(awaitable: Awaitable[Any], task: Task, timeout: TimeoutPolicy | None) -> Any:
    """The result of an awaitable of user code, within the node's timeout.

    Raises:
        NodeTimeoutError: the timeout passed first; the awaitable was cancelled.
    """
    if task.run.is_eager and inspect.iscoroutine(awaitable):
        awaitable = paced(awaitable, task)
    if timeout is None:
        return await awaitable
    began = task.heard = task.run.clock.monotonic()
    run_limit = cast("float | None", timeout.run_timeout)
    idle_limit = cast("float | None", timeout.idle_timeout)
    work = asyncio.ensure_future(outcome(awaitable))
    try:
        while True:
            now = task.run.clock.monotonic()
            left = [began + run_limit - now] if run_limit is not None else []
            if idle_limit is not None:
                left.append(task.heard + idle_limit - now)
            soonest = min(left)
            if soonest <= 0:
                kind = "run" if run_limit is not None and began + run_limit <= now else "idle"
                raise NodeTimeoutError(
                    task.node.name,
                    now - began,
                    kind="run" if kind == "run" else "idle",
                    idle_timeout=idle_limit,
                    run_timeout=run_limit,
                )
            done, _ = await asyncio.wait({work}, timeout=soonest)
            if done:
                result, error = work.result()
                if error is not None:
                    raise error
                return result
    finally:
        if not work.done():
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)
            _close_unstarted(awaitable)


def _close_unstarted(awaitable: Awaitable[Any]) -> None:
    # A coroutine that is dropped before its first step would be reported as never awaited.
    if inspect.iscoroutine(awaitable) and inspect.getcoroutinestate(awaitable) == inspect.CORO_CREATED:
        awaitable.close()


def settle_on(
    loop: asyncio.AbstractEventLoop, awaitable: Awaitable[Any], task: Task, timeout: TimeoutPolicy | None, waiting: Waiting
) -> Any:
    """`settle` on a loop of another thread; blocks this one.

    Raises:
        NodeCancelledError: the awaitable cancelled itself.
        Stopped: `waiting.stop()` was called, and the awaitable came to no result before it heard of that.
    """
    elsewhere = Elsewhere(loop, settle(awaitable, task, timeout))
    try:
        with waiting.for_(elsewhere.stop):
            return elsewhere.ended.result()
    except concurrent.futures.CancelledError:
        if waiting.stopped:
            wake(loop, lambda: _close_unstarted(awaitable))
            raise Stopped from None
        raise cancelled_itself(task) from None
    except Exception:
        if waiting.stopped:
            raise Stopped from None
        raise
    except BaseException:
        elsewhere.stop()
        raise


class SuspendingWorld:
    """What an attempt needs, on an event loop."""

    __slots__ = ()

    settle = staticmethod(settle)
    sleep = staticmethod(asyncio.sleep)

    async def join(self, task: Task) -> None:
        """Suspend until the task's steps have ended."""
        from perdure.engine.runners.awaited import join

        await join(task)

    jitter = staticmethod(random.random)


class ThreadWorld:
    """What an attempt at a sync node needs, on a worker thread beside the caller's loop."""

    __slots__ = ("_loop", "_stopping", "_waiting")

    def __init__(self, loop: asyncio.AbstractEventLoop, stopping: threading.Event, waiting: Waiting) -> None:
        self._loop = loop
        self._stopping = stopping
        self._waiting = waiting

    async def settle(self, awaitable: Awaitable[Any], task: Task, timeout: TimeoutPolicy | None) -> Any:
        """Wait for an awaitable of user code, on the caller's loop."""
        return settle_on(self._loop, awaitable, task, timeout, self._waiting)

    async def join(self, task: Task) -> None:
        """Block this worker thread until the task's steps have ended."""
        wait_for_steps(task)

    async def sleep(self, seconds: float) -> None:
        """Wait, but not after the run was told to stop."""
        self._stopping.wait(seconds)

    jitter = staticmethod(random.random)


class Gate(asyncio.Semaphore):
    """How many tasks of a super-step may run at a time.

    Attributes:
        shut: a task has failed, which ends the run: no more begin, even if its run hears of that only once an earlier result is stored.
    """

    shut = False


class SuspendingRunner:
    """See `perdure.engine.ports.Runner`."""

    blocks = False

    __slots__ = ("_arrived", "_items", "_loop", "_owner", "_shared_workers", "_stopping", "_waiting", "_world", "lock", "pace")

    def __init__(self, workers: list[Workers] | None = None, lock: Lock | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        self._owner = workers is None
        self.lock = lock or Lock()
        self._shared_workers: list[Workers] = [] if workers is None else workers
        self._items: deque[Any] = deque()
        self.pace = Pace()
        self._arrived = asyncio.Event()
        self._stopping = threading.Event()
        self._waiting = Waiting()
        self._world = SuspendingWorld()

    def can_inline(self, task: Task) -> bool:
        """Everything but timeouts, handlers and the cache can be awaited right here."""
        node = task.node
        return not (node.timeout or node.handler or node.cache)

    async def run_one(self, task: Task) -> None:
        """Await a task as part of the caller's own task: an async node here, a sync one on a thread."""
        if not self._on_loop(task):
            await self._on_thread(task)
            return
        try:
            await in_context(copy_context(), attempt(task, self._world))
        except asyncio.CancelledError:
            if is_cancelled():
                raise
            fail(task, cancelled_itself(task))

    async def _on_thread(self, task: Task) -> None:
        ended = self._loop.create_future()
        context = copy_context()

        def settle_once() -> None:
            if not ended.done():
                ended.set_result(None)

        def job() -> None:
            try:
                self.execute(task, context)
            except Stopped:
                pass
            except BaseException as error:  # noqa: BLE001 - a node's SystemExit must reach the caller, not end a thread unseen
                fail(task, error)
            self._wake(settle_once)

        self.workers.submit(job)
        try:
            await asyncio.shield(ended)
        except asyncio.CancelledError:
            # A thread cannot be cancelled, but its result may still come.
            self._stopping.set()
            self._waiting.stop()
            stop_steps(task)
            await asyncio.wait({ended}, timeout=CANCEL_GRACE)
            raise

    async def run(self, tasks: Sequence[Task], *, limit: int | None, timeout: float | None) -> AsyncGenerator[list[Any], None]:
        """Run tasks on the loop and on worker threads; see `Runner.run`."""
        members = set(map(id, tasks))
        missing = len(tasks)
        gate = Gate(limit) if limit is not None and limit < missing else None
        deadline = None if timeout is None else self._loop.time() + timeout
        base = copy_context()
        on_loop = [task for task in tasks if self._on_loop(task)]
        in_threads = [task for task in tasks if not self._on_loop(task)]
        if gate is not None and on_loop and in_threads:
            # One limit for both: then the loop starts the threads too.
            on_loop, in_threads = list(tasks), []
        futures = [self._loop.create_task(self._one(task, gate), context=base.copy()) for task in on_loop]
        wave = Wave(self.workers, in_threads, limit, self.execute, self._arrive, base) if in_threads else None
        self.pace.start()
        try:
            if wave is not None:
                wave.grow()
            while missing:
                await self._arrival(deadline, wave, partial(out_of_time, tasks, timeout))
                batch = list(self._items)
                self._items.clear()
                ended = sum(1 for item in batch if id(item) in members)
                missing -= ended
                self.pace.taken(len(batch) - ended)
                yield batch
        finally:
            self.pace.stop()
            self._stopping.set()
            self._waiting.stop()
            for future in futures:
                future.cancel()
            await asyncio.gather(*futures, return_exceptions=True)
            if wave is not None:
                if missing:
                    for each in in_threads:
                        stop_steps(each)
                await self._leave(wave)
            self._stopping.clear()
            self._waiting = Waiting()

    def _on_loop(self, task: Task) -> bool:
        return task.node.call.is_async or task.node.call.subgraph is not None or task.node.name == "__start__"

    async def _arrival(self, deadline: float | None, wave: Wave | None, late: Callable[[], StepTimeoutError]) -> None:
        while not self._items:
            self._arrived.clear()
            wait = None if wave is None else wave.patience
            if deadline is not None:
                left = deadline - self._loop.time()
                if left <= 0:
                    raise late()
                wait = left if wait is None else min(wait, left)
            if wait is None:
                await self._arrived.wait()
                continue
            try:
                await asyncio.wait_for(self._arrived.wait(), wait)
            except TimeoutError:
                if wave is not None:
                    wave.grow()

    async def _leave(self, wave: Wave) -> None:
        # A thread cannot be cancelled, but its result may still come.
        wave.stop()
        deadline = self._loop.time() + CANCEL_GRACE
        while wave.is_busy and self._loop.time() < deadline:  # noqa: ASYNC110 - a thread's condition, no event of this loop
            await asyncio.sleep(0.002)

    async def _one(self, task: Task, gate: Gate | None) -> None:
        try:
            async with gate or nullcontext():
                if gate is not None and gate.shut:
                    return
                await (attempt(task, self._world) if self._on_loop(task) else self._on_thread(task))
        except asyncio.CancelledError:
            if is_cancelled():
                raise
            fail(task, cancelled_itself(task))
        except BaseException as error:  # noqa: BLE001 - a node's SystemExit must reach the caller, not end a task unseen
            fail(task, error)
        if gate is not None and task.error is not None and task.node.handler is None:
            gate.shut = True
        self._arrive(task)

    @property
    def workers(self) -> Workers:
        """The run's threads, made when first needed."""
        if not self._shared_workers:
            self._shared_workers.append(Workers())
        return self._shared_workers[0]

    def execute(self, task: Task, context: Context) -> None:
        """Run a sync node's task on this worker thread."""
        world = ThreadWorld(self._loop, self._stopping, self._waiting)
        if not task.node.plain or task.run.seam is not None:
            context.run(run_blocking, attempt(task, world))
            return
        awaitable = context.run(call_inline, task)
        if awaitable is not None:
            context.run(run_blocking, settled(task, awaitable, world))

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The caller's loop."""
        return self._loop

    def world_of_step(self) -> tuple[ThreadWorld, Callable[[], None]]:
        """What a durable step needs on a thread of its own, and what stops the coroutine that it waits for."""
        waiting = Waiting()
        return ThreadWorld(self._loop, self._stopping, waiting), waiting.stop

    def child(self) -> SuspendingRunner:
        """A runner for a subgraph."""
        return SuspendingRunner(self._shared_workers, self.lock)

    def post(self, event: Any) -> None:
        """Hand an event to the iteration over `run`, from the loop or from a thread."""
        self.pace.sent()
        self._arrive(event)
        self.pace.hold()

    async def catch_up(self, pace: Pace) -> None:
        """Suspend until there is room."""
        if pace.is_behind:
            await caught_up(pace)

    def _arrive(self, event: Any) -> None:
        self._items.append(event)
        try:
            on_loop = asyncio.get_running_loop() is self._loop
        except RuntimeError:
            on_loop = False
        if on_loop:
            self._arrived.set()
        else:
            self._wake(self._arrived.set)

    def _wake(self, callback: Callable[[], Any]) -> None:
        wake(self._loop, callback)

    def start(self, write: Callable[[], Coroutine[Any, Any, None]], commit: Commit | None = None) -> InFlight:
        """Start a write as a task of the loop."""
        return Started(write, commit)

    async def landing(self, write: InFlight, store: Store | None = None) -> None:
        """Suspend until a write is done, which goes on even if the waiting is cancelled."""
        if not (isinstance(write, Started) and write.loop is self._loop):
            await asyncio.shield(asyncio.wrap_future(cast("Any", write.ended)))
        while not write.ended.done():
            task = cast("Started", write).task
            try:
                await asyncio.shield(task)
            except asyncio.CancelledError:
                if is_cancelled() or not task.cancelled():
                    raise
        write.ended.result()

    async def sleep(self, seconds: float) -> None:
        """Suspend for a while."""
        await asyncio.sleep(seconds)

    async def close(self) -> None:
        """Let threads end, if this is the root's runner."""
        if self._owner and self._shared_workers:
            self._shared_workers[0].close()


def is_cancelled() -> bool:
    """Somebody has cancelled the running asyncio task."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def cancelled_itself(task: Task) -> NodeCancelledError:
    """The error for a node that raised CancelledError while nobody had cancelled the run."""
    return NodeCancelledError(
        f"node {task.node.name!r} raised CancelledError, but nobody had cancelled the run", node=task.node.name
    )
