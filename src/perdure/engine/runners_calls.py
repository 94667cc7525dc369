"""Runs the durable steps that a node's code calls, beside that code, and hands their results back as futures.

An async step that is called on an event loop runs there; every other on a worker thread, so that `.result()` may block wherever it
is called. A node ends only when its steps have ended: none goes on unseen.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Generator
from concurrent.futures import Future
from contextvars import copy_context
from typing import TYPE_CHECKING, Any

from perdure.bridge import run_blocking
from perdure.engine import calls
from perdure.engine.runners_blocking import BlockingRunner
from perdure.engine.runners_suspending import SuspendingRunner
from perdure.errors import GraphInterrupt

if TYPE_CHECKING:
    from perdure.engine.calls import CallTask
    from perdure.engine.ports import Runner
    from perdure.engine.program import Node
    from perdure.engine.session import Session
    from perdure.engine.task import Task


class StepFuture(Future[Any]):
    """The result of a durable step: wait for it with `.result()` in sync code, with `await` in async code."""

    def __await__(self) -> Generator[Any, Any, Any]:
        return asyncio.wrap_future(self).__await__()


def start(parent: Task, node: Node, args: tuple[Any, ...], kwargs: dict[str, Any]) -> StepFuture:
    """Begin a call of a step from the code of `parent`."""
    with parent.run.lock:
        number = parent.called
        parent.called += 1
    call = calls.CallTask(parent, node, number, args, kwargs)
    future = StepFuture()
    parent.steps.append((call, future))
    if calls.recall(call):
        _settle(call, future)
        return future
    loop = _running_loop()
    if loop is not None and node.call.is_async:
        task = loop.create_task(_suspending(call, future), context=copy_context())
        parent.keep_alive.add(task)
        task.add_done_callback(parent.keep_alive.discard)
        return future
    context = copy_context()
    runner = blocking_runner(parent)
    runner.workers.submit(lambda: _blocking(call, future, runner, context))
    return future


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def blocking_runner(task: Task) -> BlockingRunner:
    """The runner whose threads a task's steps use, made for async runs when first needed."""
    run = task.run
    if isinstance(run.runner, BlockingRunner):
        return run.runner
    with run.lock:
        if run.threads is None:
            run.threads = BlockingRunner()
        return run.threads  # type: ignore[no-any-return]


def _session(call: CallTask, runner: Runner) -> Session | None:
    journal = call.run.journal
    return None if journal is None else journal.session.seen_from(runner)


def _blocking(call: CallTask, future: StepFuture, runner: BlockingRunner, context: Any) -> None:
    try:
        runner.execute(call, context)
        run_blocking(calls.store(call, _session(call, runner)))
    except BaseException as error:  # noqa: BLE001 - it belongs to whoever waits for the step
        call.writes, call.error = None, error
    _settle(call, future)


async def _suspending(call: CallTask, future: StepFuture) -> None:
    runner = call.run.runner
    if not isinstance(runner, SuspendingRunner):
        runner = SuspendingRunner()
    try:
        await runner.run_one(call)
        await calls.store(call, _session(call, runner))
    except asyncio.CancelledError:
        call.cancelled = True
        future.cancel()
        raise
    except BaseException as error:  # noqa: BLE001 - it belongs to whoever waits for the step
        call.writes, call.error = None, error
    _settle(call, future)


def _settle(call: CallTask, future: StepFuture) -> None:
    """Give a step's outcome to its future. A question counts as its node's, even if the node never looks at the future."""
    if call.is_paused:
        questions = call.pauses
        with call.run.lock:
            for question in questions:
                call.parent.questions.adopt(question, None, call.number)
        future.set_exception(GraphInterrupt(questions))
    elif call.error is not None:
        future.set_exception(call.error)
    elif not future.cancelled():
        future.set_result(call.value)


def wait(task: Task) -> None:
    """Block until the steps and subgraphs that a task's code started have ended."""
    while pending := _under_way(task):
        concurrent.futures.wait(pending)


async def join(task: Task) -> None:
    """Suspend until the steps and subgraphs that a task's code started have ended."""
    while pending := [asyncio.wrap_future(future) for future in _under_way(task)]:
        await asyncio.gather(*pending, return_exceptions=True)


def _under_way(task: Task) -> list[Future[Any]]:
    started = [future for _, future in task.steps] if "steps" in task.__dict__ else []
    return [future for future in (*started, *task.flights) if not future.done()]
