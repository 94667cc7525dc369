"""Runs the durable steps that a node's code calls, beside that code, and hands their results back as futures.

An async step that is called by async code runs on that code's loop; every other on a worker thread, so that `.result()` may block
wherever it is called. A node ends only when its steps have ended: none goes on unseen.
"""

from __future__ import annotations

import concurrent.futures
import sys
import threading
from collections import deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future
from contextvars import Context, copy_context
from typing import TYPE_CHECKING, Any, TypeVar

from perdure.bridge import run_blocking
from perdure.engine.runners.blocking import CANCEL_GRACE
from perdure.engine.runners.workers import MOST_THREADS, Stopped
from perdure.engine.running import telling
from perdure.engine.tasks import cached, calls
from perdure.engine.tasks.attempt import attempt, fail
from perdure.engine.tasks.task import Entry
from perdure.errors import GraphInterrupt, InvalidCall

if TYPE_CHECKING:
    import asyncio

    from perdure.engine.ports import World
    from perdure.engine.program import Node
    from perdure.engine.tasks.calls import CallTask
    from perdure.engine.tasks.task import Task

T = TypeVar("T")


class StepFuture(Future[T]):
    """The result of a durable step: wait for it with `.result()` in sync code, with `await` in async code."""

    def __init__(self) -> None:
        super().__init__()
        self.set_running_or_notify_cancel()  # a thread cannot be cancelled, so neither can this

    def __await__(self) -> Generator[Any, Any, T]:
        import asyncio

        return asyncio.wrap_future(self).__await__()


class Step:
    """A call from its beginning to its end.

    Attributes:
        call: the call.
        ended: its outcome, once it is stored.
        begin: starts it.
        halt: stops what it does now, as far as that is possible.
        lane: where it takes a place, if their number is bounded.
    """

    __slots__ = ("_begun", "_over", "begin", "call", "ended", "halt", "lane")

    def __init__(self, call: CallTask) -> None:
        self.call = call
        self.ended: StepFuture[Any] = StepFuture()
        self.begin: Callable[[], object] = _nothing
        self.halt: Callable[[], object] = _nothing
        self.lane: Lane | None = None
        self._begun = False
        self._over = False

    def claim(self) -> bool:
        """Begin to run, unless it was stopped before."""
        with self.call.run.lock:
            mine = not (self._begun or self._over)
            self._begun = True
            return mine

    def close(self) -> bool:
        """End, unless it has ended before."""
        with self.call.run.lock:
            mine = not self._over
            self._over = True
            return mine

    def stop(self) -> None:
        """Stop it: at once if it has not begun, else as soon as it can be."""
        if self.ended.done():
            return
        if self.claim():
            self.call.cancelled = True
            settle(self)
        else:
            self.halt()


def _nothing() -> None:
    """Nothing to do."""


class Lane:
    """Bounds how many steps of one task run at a time. Steps of steps have lanes of their own, so that none waits for itself."""

    __slots__ = ("_free", "_lock", "_waiting")

    def __init__(self, most: int) -> None:
        self._free = most
        self._lock = threading.Lock()
        self._waiting: deque[Step] = deque()

    def enter(self, step: Step) -> None:
        """Begin the step now, or when another has ended."""
        step.lane = self
        with self._lock:
            if self._free == 0:
                self._waiting.append(step)
                return
            self._free -= 1
        step.begin()

    def leave(self) -> None:
        """A step has ended."""
        with self._lock:
            if not self._waiting:
                self._free += 1
                return
            step = self._waiting.popleft()
        step.begin()


def start(parent: Task, node: Node, types: Sequence[type[Any]], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Begin a call of a step from the code of `parent`; its future.

    Raises:
        InvalidCall: the parent's code has ended, or may call no steps.
    """
    _refuse(parent, node)
    run = parent.run
    journal = run.journal
    if types and journal is not None:
        journal.session.access.saver.learn(types)
    if types and run.cache is not None and hasattr(run.cache, "learn"):
        run.cache.learn(types)
    call = calls.call_of(parent, node, args, kwargs)
    step = Step(call)
    parent.steps.append(step)
    parent.sign_of_life()
    loop = _loop_of(parent)
    try:
        known = calls.recall(call)
    except Exception as error:  # noqa: BLE001 - it belongs to whoever waits for the step
        known = True
        fail(call, error)
    if known:
        settle(step)
    else:
        telling.step_started(run, call)
        _begin(step, loop, copy_context())
    if loop is None:
        return step.ended
    from perdure.engine.runners.awaited import awaited

    return awaited(step, loop)


def _refuse(parent: Task, node: Node) -> None:
    if isinstance(parent, Entry):
        raise InvalidCall(
            f"task {node.name!r} was called by a conditional edge of START, which chooses before anything is stored. Call it in a node"
        )
    if parent.writes is not None or parent.error is not None:
        raise InvalidCall(
            f"task {node.name!r} was called in the name of {parent.node.name!r}, which has ended: wait for threads and asyncio tasks that "
            "call durable steps before the node returns"
        )


def _loop_of(parent: Task) -> asyncio.AbstractEventLoop | None:
    """The loop that the code of `parent` runs on, if it is async code; sync code may well run inside somebody else's loop."""
    if not parent.node.call.is_async or "asyncio" not in sys.modules:
        return None
    import asyncio

    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def _begin(step: Step, loop: asyncio.AbstractEventLoop | None, context: Context) -> None:
    call = step.call
    run = call.run
    parent = call.parent
    if loop is not None and call.node.call.is_async:
        from perdure.engine.runners.awaited import begin_on_loop

        step.begin = lambda: begin_on_loop(step, loop, context)
        if run.max_concurrency is None:
            step.begin()
            return
    else:
        step.begin = lambda: _begin_on_thread(step, context)
    with run.lock:
        lane = parent.lane
        if lane is None:
            lane = parent.lane = Lane(min(run.max_concurrency or MOST_THREADS, MOST_THREADS))
    lane.enter(step)


def _begin_on_thread(step: Step, context: Context) -> None:
    runner = step.call.run.runner
    world, step.halt = runner.world_of_step()
    runner.workers.submit(lambda: _on_thread(step, world, context))


def _on_thread(step: Step, world: World, context: Context) -> None:
    call = step.call
    if step.claim():
        try:
            context.run(run_blocking, whole(call, world, blocks=True))
        except Stopped:
            call.cancelled = True
        except BaseException as error:  # noqa: BLE001 - it belongs to whoever waits for the step
            fail(call, _of_a_thread(call, error))
    settle(step)


def _of_a_thread(call: CallTask, error: BaseException) -> BaseException:
    """The error, or a better one for a CancelledError: nobody cancels a thread. (Told by name, for asyncio may not be loaded.)"""
    if type(error).__name__ != "CancelledError":
        return error
    from perdure.engine.runners.suspending import cancelled_itself

    return cancelled_itself(call)


async def whole(call: CallTask, world: World, *, blocks: bool) -> None:
    """Run a call, with its retries, unless its result is in the cache; and store the result, as its run stores all else.

    Args:
        call: the call.
        world: what an attempt needs.
        blocks: this is a worker thread, no event loop.

    Raises:
        NotStorable, SaveFailed, LeaseLost, ThreadDeleted: it could not be stored.
        BaseException: what stops it from outside.
    """
    if not await cached.replay_step(call, blocks=blocks):
        await attempt(call, world)
        await cached.keep_step(call, blocks=blocks)
    journal = call.run.journal
    if call.writes is None:
        return
    if journal is None or (blocks and journal.session.runner.blocks):
        await calls.store(call)
    elif blocks:
        from perdure.engine.runners.awaited import store_from_thread

        store_from_thread(call, journal.session)
    else:
        from perdure.engine.runners.awaited import store_from_loop

        await store_from_loop(call, journal.session)


def settle(step: Step) -> None:
    """Give a step's outcome to its future. A question counts as its parent's, even if the parent never looks at the future."""
    if not step.close():
        return
    call = step.call
    parent = call.parent
    questions = call.pauses
    with call.run.lock:
        parent.under_way -= 1
        if call.new_memories:
            parent.memories = {**parent.memories, **call.new_memories}
        for question in questions:
            parent.questions.adopt(question, None, call.number)
        parent.halted = parent.halted or call.halted
        parent.drained = parent.drained or call.drained
    if call.writes is not None:
        if not call.recalled:
            telling.step_ended(call.run, call)
        step.ended.set_result(call.value)
    elif call.error is not None:
        telling.step_ended(call.run, call)
        step.ended.set_exception(call.error)
    elif call.is_paused:
        if questions and not call.recalled:
            call.top.remembered[call.path] = calls.Remembered(None, None, call.questions.all())
        step.ended.set_exception(GraphInterrupt(questions))
    else:
        step.ended.set_exception(Stopped())
    if step.lane is not None:
        step.lane.leave()


def stop_steps(task: Task) -> None:
    """Stop the steps that a task's code has started and that are under way."""
    if "steps" in task.__dict__:
        for step in [*task.steps]:
            step.stop()


def wait(task: Task) -> None:
    """Block until the steps and subgraphs that a task's code started have ended; where it was stopped, not for long."""
    if task.stopped:
        stop_steps(task)
        concurrent.futures.wait(under_way(task), CANCEL_GRACE)
        return
    while pending := under_way(task):
        concurrent.futures.wait(pending)


def under_way(task: Task) -> list[Future[Any]]:
    """Futures of the steps and subgraphs that a task's code started and that have not ended."""
    started: list[Future[Any]] = [step.ended for step in task.steps] if "steps" in task.__dict__ else []
    return [future for future in (*started, *task.flights) if not future.done()]
