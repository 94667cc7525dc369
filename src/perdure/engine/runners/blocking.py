"""The runner of sync calls: nodes run on the caller's thread where they may, else on worker threads; waiting blocks.

Async nodes of a sync run share one event loop on a thread of its own for as long as the run lasts, so that clients which are bound
to a loop survive from one node to the next.
"""

from __future__ import annotations

import queue
import random
import threading
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Sequence
from contextvars import Context, copy_context
from functools import partial
from typing import TYPE_CHECKING, Any

from perdure.bridge import run_blocking
from perdure.engine.runners.pace import Pace
from perdure.engine.runners.workers import Waiting, Wave, Workers
from perdure.engine.tasks.attempt import attempt, call_inline, fail, out_of_time, settled, wait_for_steps
from perdure.errors import StepTimeoutError

if TYPE_CHECKING:
    from perdure.checkpoint.records import Commit
    from perdure.engine.ports import InFlight, Store
    from perdure.engine.tasks.task import Task
    from perdure.types import TimeoutPolicy

CANCEL_GRACE = 5.0
"""Seconds that Ctrl-C waits for nodes that run, so that their results are not lost."""


class Shared:
    """What the runs of a graph and its subgraphs share: threads, the loop of async nodes, the wish to stop."""

    __slots__ = ("_loop", "_workers", "lock", "stopping")

    def __init__(self) -> None:
        self._workers: Workers | None = None
        self._loop: Any = None
        self.stopping = threading.Event()
        self.lock = threading.Lock()

    @property
    def workers(self) -> Workers:
        """The threads, made when first needed."""
        with self.lock:
            if self._workers is None:
                self._workers = Workers()
            return self._workers

    @property
    def loop(self) -> Any:
        """The event loop of async nodes, on its own thread, made when first needed."""
        from perdure.engine.runners.loop import LoopThread

        with self.lock:
            if self._loop is None:
                self._loop = LoopThread()
            return self._loop

    def close(self) -> None:
        """Let threads and loop end."""
        if self._workers is not None:
            self._workers.close()
        if self._loop is not None:
            self._loop.close()


class BlockingWorld:
    """What an attempt needs, on a thread that may block."""

    __slots__ = ("_shared", "waiting")

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self.waiting = Waiting()

    async def settle(self, awaitable: Awaitable[Any], task: Task, timeout: TimeoutPolicy | None) -> Any:
        """Wait for an awaitable of user code, on the run's loop thread."""
        return self._shared.loop.run(awaitable, task, timeout, self.waiting)

    async def join(self, task: Task) -> None:
        """Block until the task's steps have ended."""
        wait_for_steps(task)

    async def sleep(self, seconds: float) -> None:
        """Wait, but not after the run was told to stop."""
        self._shared.stopping.wait(seconds)

    jitter = staticmethod(random.random)


class Done:
    """A write on another thread."""

    __slots__ = ("ended",)

    def __init__(self) -> None:
        from concurrent.futures import Future

        self.ended: Future[None] = Future()

    def do(self, write: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Do the write, and remember how it went."""
        try:
            run_blocking(write())
        except BaseException as error:  # noqa: BLE001 - handed to whoever waits
            self.ended.set_exception(error)
        else:
            self.ended.set_result(None)

    def block(self, store: Store | None = None) -> None:
        """Block until it is done."""
        self.ended.result()


class BlockingRunner:
    """See `perdure.engine.ports.Runner`."""

    blocks = True

    __slots__ = ("_owner", "_queue", "_shared", "_world", "pace")

    def __init__(self, shared: Shared | None = None) -> None:
        self._owner = shared is None
        self._shared = shared or Shared()
        self._world = BlockingWorld(self._shared)
        self._queue: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.pace = Pace()

    @property
    def lock(self) -> threading.Lock:
        """Guards what several nodes of the run touch at once."""
        return self._shared.lock

    def can_inline(self, task: Task) -> bool:
        """Everything but timeouts, handlers and the cache can be served on the caller's own thread."""
        node = task.node
        return node.plain or (node.timeout is None and node.handler is None and node.cache is None)

    async def run_one(self, task: Task) -> None:
        """Run a task on this thread."""
        self.execute(task, copy_context())

    def execute(self, task: Task, context: Context) -> None:
        """Run a task on this thread, in `context`."""
        try:
            if not task.node.plain or task.run.seam is not None:
                context.run(run_blocking, attempt(task, self._world))
                return
            awaitable = context.run(call_inline, task)
            if awaitable is not None:
                context.run(run_blocking, settled(task, awaitable, self._world))
        except BaseException as error:
            if type(error).__name__ != "CancelledError":
                raise
            # Nobody cancels a thread: the node raised it by itself. (Told by name, for asyncio may never have been loaded.)
            from perdure.engine.runners.suspending import cancelled_itself

            fail(task, cancelled_itself(task))

    async def run(self, tasks: Sequence[Task], *, limit: int | None, timeout: float | None) -> AsyncGenerator[list[Any], None]:
        """Run tasks on worker threads; see `Runner.run`."""
        deadline = None if timeout is None else time.monotonic() + timeout
        wave = Wave(self._shared.workers, tasks, limit, self.execute, self._queue.put, copy_context())
        members = set(map(id, tasks))
        results = self._queue
        missing = len(tasks)
        grace: float | None = None
        self.pace.start()
        try:
            wave.grow()
            while missing:
                batch = [self._next(wave, deadline, partial(out_of_time, tasks, timeout))]
                while True:
                    try:
                        batch.append(results.get_nowait())
                    except queue.Empty:
                        break
                ended = sum(1 for item in batch if id(item) in members)
                missing -= ended
                self.pace.taken(len(batch) - ended)
                yield batch
        except (GeneratorExit, StepTimeoutError):
            self._world.waiting.stop()
            raise
        except BaseException:
            grace = CANCEL_GRACE
            raise
        finally:
            wave.stop()
            self.pace.stop()
            wave.wait(grace)
            if grace is not None:
                self._world.waiting.stop()
            if self._world.waiting.stopped:
                self._world = BlockingWorld(self._shared)

    def _next(self, wave: Wave, deadline: float | None, late: Callable[[], StepTimeoutError]) -> Any:
        while True:
            wait = wave.patience
            if deadline is not None:
                left = deadline - time.monotonic()
                if left <= 0:
                    raise late()
                wait = left if wait is None else min(wait, left)
            try:
                return self._queue.get(timeout=wait)
            except queue.Empty:
                wave.grow()

    @property
    def workers(self) -> Workers:
        """The run's threads."""
        return self._shared.workers

    def world_of_step(self) -> tuple[BlockingWorld, Callable[[], None]]:
        """What a durable step needs on a thread of its own, and what stops the coroutine that it waits for."""
        world = BlockingWorld(self._shared)
        return world, world.waiting.stop

    def child(self) -> BlockingRunner:
        """A runner for a subgraph."""
        return BlockingRunner(self._shared)

    def post(self, event: Any) -> None:
        """Hand an event to the iteration over `run`."""
        self.pace.sent()
        self._queue.put(event)
        self.pace.hold()

    async def catch_up(self, pace: Pace) -> None:
        """Block until there is room."""
        pace.hold()

    def start(self, write: Callable[[], Coroutine[Any, Any, None]], commit: Commit | None = None) -> InFlight:
        """Start a write on a worker thread."""
        done = Done()
        self._shared.workers.submit(lambda: done.do(write))
        return done

    async def landing(self, write: InFlight, store: Store | None = None) -> None:
        """Block until a write is done."""
        write.block(store)

    async def sleep(self, seconds: float) -> None:
        """Block for a while."""
        time.sleep(seconds)

    async def close(self) -> None:
        """Let threads and loop end, if this is the root's runner."""
        if self._owner:
            self._shared.stopping.set()
            self._shared.close()
