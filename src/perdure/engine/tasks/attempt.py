"""One task from its first attempt to its outcome: call, retry, choose the way. Written once, for both colours.

What the node does with its signals does not matter: a pause that was reached is in the task before it unwinds.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from perdure.engine.deciding import returns
from perdure.engine.deciding.retry import pause_before_next
from perdure.errors import (
    GraphBubbleUp,
    GraphInterrupt,
    InvalidUpdateError,
    NodeTimeoutError,
    ParentCommand,
    StepTimeoutError,
    StoppedIteration,
)
from perdure.types import Command

if TYPE_CHECKING:
    from perdure.engine.deciding.returns import Write
    from perdure.engine.ports import World
    from perdure.engine.program import Branch
    from perdure.engine.tasks.task import Task


def call_inline(task: Task) -> Any:
    """An attempt at a plain task without a coroutine around it: the fast path of a super-step.

    Returns the awaitable that the function returned, if it did; otherwise None, and the task has its outcome.
    Runs in the node's own context. BaseExceptions other than the runtime's signals pass through.
    """
    task.attempt += 1
    try:
        try:
            value = task.call()
        except (ParentCommand, BaseExceptionGroup) as signal:
            value = _for_this_graph(task, signal)
        except BaseException as error:
            _note_stop(task, error)
            raise
        finally:
            if task.has_helpers:
                wait_for_steps(task)
        if value.__class__ is not dict and inspect.isawaitable(value):
            return value
        if task.is_paused:
            return None
        writes = task.writes_of(value)
        if task.node.branches:
            writes = _with_choices(task, writes)
        if not task.is_paused:  # a path function may swallow a question
            task.writes = writes
    except GraphBubbleUp as signal:
        bubble(task, signal)
    except Exception as error:  # noqa: BLE001 - whatever user code raises is the task's outcome
        if not _comes_of_a_pause(task, error):
            fail(task, error)
    return None


def _with_choices(task: Task, writes: list[Write]) -> list[Write]:
    """A plain node's writes with those of its branches' choices."""
    for branch in task.node.branches:
        chosen = _choose(task, branch, writes)
        if chosen.__class__ is not str and inspect.isawaitable(chosen):
            raise _unexpected_awaitable(task, branch, chosen)
        writes = [*writes, *returns.branch_writes(task.run.program, task.node.name, branch, chosen)]
    if task.has_helpers:
        wait_for_steps(task)
    return writes


def _choose(task: Task, branch: Branch, writes: list[Write]) -> Any:
    run = task.run
    return task.invoke(branch.call, task.see(branch.view or run.program.start.view, run.live.preview(writes)))


def _unexpected_awaitable(task: Task, branch: Branch, chosen: Any) -> InvalidUpdateError:
    if inspect.iscoroutine(chosen):
        chosen.close()
    return InvalidUpdateError(
        f"the conditional edge {branch.name!r} of node {task.node.name!r} returned an awaitable; declare its path function with "
        "'async def', so that the graph knows to wait for it",
        node=task.node.name,
    )


async def attempt(task: Task, world: World) -> None:
    """Run a task to its outcome, which is then in it. Runs in the node's own context.

    BaseExceptions that are not the runtime's own signals (a cancellation, Ctrl-C) pass through.
    """
    node = task.node
    failures = 0
    while True:
        task.begin()
        try:
            await _once(task, world)
            return
        except GraphBubbleUp as signal:
            bubble(task, signal)
            return
        except Exception as error:  # noqa: BLE001 - whatever user code raises is the task's outcome
            if _comes_of_a_pause(task, error):
                return
            failures += 1
            pause = pause_before_next(node.retry, error, failures, world.jitter()) if node.retry else None
            if pause is None:
                fail(task, error)
                return
        await world.sleep(pause)


async def _once(task: Task, world: World) -> None:
    seam = task.run.seam
    if seam is None:
        value = await _value(task, world)
    else:
        with seam.around(task):
            value = await _value(task, world)
    await complete(task, value, world)


async def _value(task: Task, world: World, begun: Any = None) -> Any:
    """What a task's code gives; of code that was called already, what it `begun`."""
    try:
        if begun is not None:
            return await world.settle(begun, task, None)
        if task.node.call.subgraph is not None:
            return await task.run.run_child(task)
        value = task.call()
        return await world.settle(value, task, task.timeout) if inspect.isawaitable(value) else value
    except (ParentCommand, BaseExceptionGroup) as signal:
        return _for_this_graph(task, signal)
    except BaseException as error:
        _note_stop(task, error)
        raise
    finally:
        if task.has_helpers:
            await world.join(task)


async def settled(task: Task, awaitable: Any, world: World) -> None:
    """The second half of `call_inline`, where a plain function returned an awaitable."""
    try:
        await complete(task, await _value(task, world, awaitable), world)
    except GraphBubbleUp as signal:
        bubble(task, signal)
    except Exception as error:  # noqa: BLE001 - whatever user code raises is the task's outcome
        if not _comes_of_a_pause(task, error):
            fail(task, error)


def _for_this_graph(task: Task, signal: ParentCommand | BaseExceptionGroup[BaseException]) -> Command[Any]:
    """The command that a subgraph of the task gave, if this is the graph it is for; it then counts as what the node returned.

    Raises:
        ParentCommand: it is for a graph further up.
        BaseException: of a group of exceptions, what is not a signal of the runtime; or else its last signal.
    """
    if isinstance(signal, BaseExceptionGroup):
        signal = _signal_in(task, signal)
    if signal.command.graph in (Command.PARENT, task.run.program.name):
        return replace(signal.command, graph=None)
    raise signal


def _signal_in(task: Task, group: BaseExceptionGroup[BaseException]) -> ParentCommand:
    """The command that a group of exceptions holds, if it holds nothing else; pauses in it are noted."""
    signals, rest = group.split(GraphBubbleUp)
    if signals is None:
        raise group
    found = leaves(signals)
    for one in found:
        if isinstance(one, GraphInterrupt):
            bubble(task, one)
    if rest is not None:
        raise rest
    only = found[-1]
    if len(found) > 1 or not isinstance(only, ParentCommand):
        raise only
    return only


def leaves(group: BaseExceptionGroup[BaseException]) -> list[BaseException]:
    """The exceptions in a group and in the groups inside it."""
    found: list[BaseException] = []
    for one in group.exceptions:
        found += leaves(one) if isinstance(one, BaseExceptionGroup) else [one]
    return found


def _comes_of_a_pause(task: Task, error: BaseException) -> bool:
    """Whether an error was raised over a question that the task has just asked: then the question is its outcome."""
    if not task.is_paused:
        return False
    waiting: list[BaseException | None] = [error]
    seen: set[int] = set()
    while waiting:
        one = waiting.pop()
        if one is None or id(one) in seen:
            continue
        if isinstance(one, GraphInterrupt):
            return True
        seen.add(id(one))
        waiting += one.exceptions if isinstance(one, BaseExceptionGroup) else [one.__cause__, one.__context__]
    return False


def _note_stop(task: Task, error: BaseException) -> None:
    """Note whether the task's code was stopped (cancelled, interrupted from the keyboard, out of time), rather than left by itself."""
    if isinstance(error, NodeTimeoutError):
        task.stopped = task.timeout is not None and error.node == task.node.name
    elif not isinstance(error, (Exception, GraphBubbleUp)):
        task.stopped = True


def wait_for_steps(task: Task) -> None:
    """Block until the durable steps that a task's code started have ended: none goes on unseen."""
    from perdure.engine.runners.calls import wait

    wait(task)


def stop_steps(task: Task) -> None:
    """Stop the durable steps that a task's code has started and that are under way, for the code itself is stopped."""
    if "steps" in task.__dict__:
        from perdure.engine.runners.calls import stop_steps

        task.stopped = True
        stop_steps(task)


async def complete(task: Task, value: Any, world: World) -> None:
    """Take a node's result as the task's outcome, and let its branches choose.

    Raises:
        Exception: the result or a choice is not valid, or a path function failed.
    """
    if task.is_paused:
        return
    writes = task.writes_of(value)
    for branch in task.node.branches:
        chosen = _choose(task, branch, writes)
        if inspect.isawaitable(chosen):
            chosen = await world.settle(chosen, task, None)
        writes = [*writes, *returns.branch_writes(task.run.program, task.node.name, branch, chosen)]
    if task.node.branches and task.has_helpers:
        await world.join(task)
    if not task.is_paused:
        task.writes = writes


def bubble(task: Task, signal: GraphBubbleUp) -> None:
    """Turn a signal that left the node into the task's outcome."""
    if isinstance(signal, GraphInterrupt):
        if not signal.interrupts or signal.drained:
            task.halted = True
            task.drained = task.drained or signal.drained
        for question in signal.interrupts:
            task.questions.adopt(question, signal.asked_at)
        return
    if isinstance(signal, ParentCommand):
        run = task.run
        if run.parent is None:
            where = f"node {task.node.name!r} of graph {run.program.name!r}"
            fail(
                task,
                InvalidUpdateError(
                    f"There is no parent graph: {where} gave {signal.command!r} at the root", node=task.node.name
                ),
            )
            return
        task.error = signal
        return
    fail(task, signal)


def fail(task: Task, error: BaseException) -> None:
    """Record why a task failed for good, with a note that says which task it was."""
    if isinstance(error, (StopIteration, StopAsyncIteration)):
        wrapped = StoppedIteration(
            f"node {task.node.name!r} let {type(error).__name__} escape; catch it in the node", node=task.node.name
        )
        wrapped.__cause__ = error
        error = wrapped
    task.writes = None
    task.error = error
    note = f"During task with name '{task.node.name}' and id '{task.id}'"
    if note not in getattr(error, "__notes__", ()):
        error.add_note(note)
        if hint := _of_missing_context(task, error):
            error.add_note(hint)


def out_of_time(tasks: Iterable[Task], limit: float | None) -> StepTimeoutError:
    """The error for a super-step that took too long, with the nodes that have not ended."""
    running = [task.node.name for task in tasks if task.writes is None and task.error is None and not task.is_paused]
    return StepTimeoutError(limit or 0.0, running)


def _of_missing_context(task: Task, error: BaseException) -> str:
    """What to say of a node that may have failed because its call was given no context."""
    run = task.run
    schema = run.program.context_schema
    if schema is None or run.context is not None or not isinstance(error, (AttributeError, TypeError)):
        return ""
    if "NoneType" not in str(error):
        return ""
    name = getattr(schema, "__name__", str(schema))
    return f"`runtime.context` is None: the graph declares context_schema={name}, and the call gave none. invoke(..., context={name}(...))"
