"""Durable steps on an event loop, and futures of steps for code on one. Imported only when a loop is needed."""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Sequence
from contextlib import suppress
from contextvars import Context
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from perdure.bridge import run_blocking
from perdure.engine.runners.blocking import CANCEL_GRACE
from perdure.engine.runners.calls import Step, settle, stop_steps, under_way, whole
from perdure.engine.runners.held import wake
from perdure.engine.runners.suspending import SuspendingRunner, SuspendingWorld, cancelled_itself, is_cancelled
from perdure.engine.runners.workers import Stopped
from perdure.engine.tasks import calls
from perdure.engine.tasks.attempt import fail

if TYPE_CHECKING:
    from perdure.engine.storing.session import Session
    from perdure.engine.tasks.calls import CallTask
    from perdure.engine.tasks.task import Task

T = TypeVar("T")


class AwaitedStep(asyncio.Future[T]):
    """The result of a durable step, for the coroutine that started it: `await` it."""

    def __init__(self, step: Step, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop=loop)
        self._step = step

    def result(self, timeout: float | None = None) -> T:
        """The result, if it is there.

        Raises:
            asyncio.InvalidStateError: it is not; `await` waits for it.
        """
        if not self.done():
            raise asyncio.InvalidStateError(
                f"the result of task {self._step.call.node.name!r} is not there yet: in async code, await the future instead of "
                "calling .result(), which would stop the event loop that the task may need"
            )
        return super().result()

    def cancel(self, msg: Any = None) -> bool:
        """Stop the step, and wait for it no longer.

        Where its node has just asked a question, and is being left for that, the step is let run to its end or to its own question.
        """
        parent = self._step.call.parent
        if not self.done() and parent.pauses and not parent.stopped:
            self.get_loop().call_later(CANCEL_GRACE, self._step.stop)
            return False
        self._step.stop()
        return super().cancel(msg)

    def take(self) -> None:
        """Take the step's outcome."""
        if self.done():
            return
        error = self._step.ended.exception()
        if error is None:
            self.set_result(self._step.ended.result())
        elif isinstance(error, Stopped):
            super().cancel()
        else:
            self.set_exception(error)
            self.exception()  # asyncio is not to complain of one that nobody asks for: the node may do without


def awaited(step: Step, loop: asyncio.AbstractEventLoop) -> AwaitedStep[Any]:
    """The future of a step for the code that runs on `loop`."""
    future: AwaitedStep[Any] = AwaitedStep(step, loop)
    if step.ended.done():
        future.take()
    else:
        step.ended.add_done_callback(lambda _: _soon(loop, future.take))
    return future


def _soon(loop: asyncio.AbstractEventLoop, callback: Any) -> None:
    try:
        here = asyncio.get_running_loop() is loop
    except RuntimeError:
        here = False
    if here:
        callback()
    else:
        wake(loop, callback)


def begin_on_loop(step: Step, loop: asyncio.AbstractEventLoop, context: Context) -> None:
    """Start a step as a task of `loop`, from any thread."""
    _soon(loop, partial(_create, step, loop, context))


def _create(step: Step, loop: asyncio.AbstractEventLoop, context: Context) -> None:
    work = loop.create_task(_on_loop(step), context=context)
    step.halt = lambda: _soon(loop, work.cancel)
    kept = step.call.parent.keep_alive
    kept.add(work)

    def over(work: asyncio.Task[None]) -> None:
        kept.discard(work)
        step.call.cancelled = step.call.cancelled or work.cancelled()
        settle(step)  # it may have been cancelled before its code began

    work.add_done_callback(over)


async def _on_loop(step: Step) -> None:
    call = step.call
    if not step.claim():
        return
    try:
        await whole(call, SuspendingWorld(), blocks=False)
    except asyncio.CancelledError:
        if is_cancelled():
            if not call.stored:
                call.writes, call.cancelled = None, True
            raise
        fail(call, cancelled_itself(call))
    except BaseException as error:  # noqa: BLE001 - it belongs to whoever waits for the step
        fail(call, error)
    settle(step)


def store_from_thread(call: CallTask, session: Session) -> None:
    """Store a result of a step on a worker thread where the run is on a loop; blocks the thread.

    Raises:
        Stopped: the run is over, and its loop gone.
        Exception: as `calls.store`.
    """
    runner = session.runner
    if not isinstance(runner, SuspendingRunner):
        raise TypeError(f"a runner that suspends was expected, not {runner!r}")
    storing = asyncio.run_coroutine_threadsafe(calls.store(call), runner.loop)
    while True:
        try:
            storing.result(CANCEL_GRACE)
        except TimeoutError:
            if storing.done():
                raise
            if runner.loop.is_closed():
                raise Stopped from None
        else:
            return


async def store_from_loop(call: CallTask, session: Session) -> None:
    """Store a result of a step on a loop. What was done is stored, even if the step is cancelled meanwhile."""
    if session.runner.blocks:
        storing = asyncio.ensure_future(asyncio.to_thread(lambda: run_blocking(calls.store(call))))
    else:
        storing = asyncio.ensure_future(calls.store(call))
    try:
        await asyncio.shield(storing)
    except asyncio.CancelledError:
        # Whoever stops a step may do so more than once: its node, and then what waits for the node's steps.
        late = storing.get_loop().time() + CANCEL_GRACE
        while not storing.done() and (left := late - storing.get_loop().time()) > 0:
            with suppress(asyncio.CancelledError):
                await asyncio.wait({storing}, timeout=left)
        if storing.done() and not storing.cancelled():
            storing.exception()  # whoever cancelled does not ask for it
        raise


async def join(task: Task) -> None:
    """Suspend until the steps and subgraphs that a task's code started have ended; where it was stopped, not for long."""
    try:
        while not task.stopped and (pending := under_way(task)):
            await _all_ended(pending, None)
    except asyncio.CancelledError:
        task.stopped = True
        await _stopped(task)
        raise
    if task.stopped:
        await _stopped(task)


async def _stopped(task: Task) -> None:
    stop_steps(task)
    await _all_ended(under_way(task), CANCEL_GRACE)


async def _all_ended(futures: Sequence[concurrent.futures.Future[Any]], timeout: float | None) -> None:
    loop = asyncio.get_running_loop()
    ended = loop.create_future()
    left = len(futures)

    def one_ended() -> None:
        nonlocal left
        left -= 1
        if left == 0 and not ended.done():
            ended.set_result(None)

    if not left:
        return
    for future in futures:
        future.add_done_callback(lambda _: _soon(loop, one_ended))
    await asyncio.wait({ended}, timeout=timeout)
