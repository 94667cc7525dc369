"""The super-step loop, written once for sync and async.

    plan the tasks -> run them, storing what arrives -> apply their writes -> decide what follows -> commit -> tell -> again

What follows is decided before the commit, so that the last commit of a run also gives the lease back. Under durability "async"
a step's commit is in flight while the next step's nodes run; nothing that they do is told before it is durable.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Any

from perdure.engine import frontier, telling
from perdure.engine.opening import Opened, flush_move
from perdure.engine.plan import Move, next_move, tasks_of
from perdure.engine.task import Task
from perdure.errors import GraphDrained, GraphRecursionError, ParentCommand
from perdure.failpoints import failpoint
from perdure.streaming.modes import Event

if TYPE_CHECKING:
    from perdure.engine.restore import Restored
    from perdure.engine.run import Run

Events = list[Event]


async def super_steps(run: Run, opened: Opened) -> AsyncGenerator[Events, None]:
    """Run super-steps until the graph is done, pauses, or fails; yield events in order.

    Raises:
        Exception: what a node raised, once the results of its siblings are stored.
        GraphRecursionError, GraphDrained: the run stopped where it can be resumed.
        SaveFailed, LeaseLost, ThreadDeleted: it could not be saved; what was stored before is intact.
    """
    told: Events = []
    tasks = _first_tasks(run, opened)
    if not run.quiet:
        _tell_opening(run, opened, told, tasks)
    move: Move = opened.move
    while move == "go":
        if told:
            yield told
            told = []
        todo = [task for task in tasks if task.writes is None and not task.is_paused] if opened.restored is not None else tasks
        if not run.quiet:
            telling.started(run, told, todo)
        if len(todo) == 1 and run.quiet_inside and not run.program.step_timeout and run.runner.can_inline(todo[0]):
            await _inline(run, todo[0])
            if not run.quiet:
                telling.ended(run, told, todo[0])
        elif todo:
            async for batch in _together(run, tasks, todo, told):
                yield batch
            told = []
        failed = [task for task in tasks if task.error is not None and task.handled is None]
        if failed or any(task.is_paused for task in tasks):
            await _stop_between(run, tasks, failed, told)
            if told:
                yield told
            return
        await _finish_step(run, tasks, told)
        move = run.move
        opened.restored = None
        tasks = tasks_of(run) if move == "go" or "checkpoints" in run.modes or "debug" in run.modes else []
        if not run.quiet:
            _tell_step(run, told, tasks)
    if move == "break":
        telling.breakpoint_reached(run, told)
        run.outcome = "break"
    if told:
        yield told
    await _leave(run, move)


async def _leave(run: Run, move: Move) -> None:
    if run.journal is not None:
        await run.journal.session.settle()
    if move == "limit":
        raise GraphRecursionError(
            f"Recursion limit of {run.limit} reached without hitting a stop condition. You can increase the limit by setting the "
            "`recursion_limit` config key; the state is saved up to here, and invoke(None, config) goes on with a new allowance",
            checkpoint=None if run.journal is None or run.journal.row is None else run.journal.row.id,
        )
    if move == "drain" and run.control is not None:
        raise GraphDrained(run.control.drain_reason or "shutdown")


def _first_tasks(run: Run, opened: Opened) -> list[Task]:
    tasks = tasks_of(run) if not run.live.is_over else []
    if opened.restored is not None:
        for task in list(tasks):
            reattach(run, task, opened.restored, tasks)
    return tasks


def reattach(run: Run, task: Task, restored: Restored, tasks: list[Task]) -> None:
    """Give a task what is stored of it: its result; its open questions; the handler that took over when it failed."""
    task.writes = restored.result(task.origin, task.path)
    task.stored = task.writes is not None
    if task.writes is not None:
        return
    failure = restored.error(task.origin, task.path)
    if failure is not None and failure.handled and task.node.handler is not None:
        _hand_over(run, task, failure.error, tasks)
        handler = task.handled
        if handler is not None:
            handler.writes = restored.result(handler.origin, handler.path)
            handler.stored = handler.writes is not None
        return
    open_pauses = restored.open_pauses(task.origin, task.path, run.answers)
    asked = restored.pauses(task.origin, task.path)
    answered = len(asked) > len(open_pauses)
    shells = [pause for pause, place in asked if place is None]
    if open_pauses and not (answered and shells):
        task.pauses = [pause for pause, _ in open_pauses]
        task.places = {pause.id: place for pause, place in open_pauses if place is not None}


def _hand_over(run: Run, task: Task, error: Any, tasks: list[Task]) -> None:
    """Put the error handler of a failed task in its place."""
    node = run.program.nodes[str(task.node.handler)]
    handler = Task(run, node, f"!{task.path}", task.origin, ("node_error_handler",))
    handler.failed = task
    task.error = error if isinstance(error, BaseException) else RuntimeError(str(error))
    task.handled = handler
    tasks.append(handler)


async def _inline(run: Run, task: Task) -> None:
    try:
        await run.runner.run_one(task)
    except BaseException:
        task.writes = None
        task.cancelled = True
        await _stop_between(run, [task], [], [])
        raise


async def _together(run: Run, tasks: list[Task], todo: list[Task], told: Events) -> AsyncGenerator[Events, None]:
    """Run several tasks, or one that needs more than a call; store results as they arrive, tell them once they are stored."""
    journal = run.journal
    waiting = len(todo)
    alone = len(tasks) == 1
    wave = todo
    try:
        while wave:
            following: list[Task] = []
            running = run.runner.run(wave, limit=run.max_concurrency, timeout=run.program.step_timeout)
            try:
                async for batch in running:
                    if journal is not None and journal.session.in_flight is not None:
                        await journal.session.settle()
                    staged = False
                    for item in batch:
                        if not isinstance(item, Task):
                            told.append(item)
                            continue
                        waiting -= 1
                        if item.error is not None and item.node.handler is not None and not isinstance(item.error, ParentCommand):
                            _hand_over(run, item, item.error, tasks)
                            if item.handled is not None:
                                following.append(item.handled)
                                waiting += 1
                                alone = False
                        if journal is not None and item.writes is not None and not alone:
                            _stage_result(run, item)
                            staged = True
                        telling.ended(run, told, item)
                    if staged and waiting and journal is not None and journal.session.durability != "exit":
                        await journal.flush()
                        failpoint("engine.results.stored")
                    if told:
                        yield told[:]
                        told.clear()
                    if any(task.error is not None and task.handled is None for task in wave):
                        break
            finally:
                await running.aclose()
            wave = following
    except BaseException:
        for task in tasks:
            if task.writes is None and task.error is None and not task.is_paused:
                task.cancelled = True
        await _stop_between(run, tasks, [], [])
        raise


def _stage_result(run: Run, task: Task) -> None:
    """Stage a result; one that cannot be stored makes its task a failed one."""
    from perdure.engine.attempt import fail

    journal = run.journal
    if journal is None or task.stored:
        return
    try:
        journal.result(task)
    except Exception as error:  # noqa: BLE001 - whatever the serializer raises belongs to this task
        fail(task, error)


async def _stop_between(run: Run, tasks: list[Task], failed: list[Task], told: Events) -> None:
    """End the run inside a super-step: keep good results, questions and errors; raise the first failure."""
    journal = run.journal
    finished = [task for task in tasks if task.writes is not None]
    run.waiting = [pause for task in tasks if task.is_paused for pause in task.pauses]
    run.finished = finished
    cancelled = any(task.cancelled for task in tasks)
    if journal is not None:
        for task in finished:
            _stage_result(run, task)
        for task in tasks:
            if task.is_paused:
                journal.pauses(task, task.pauses)
            elif task.cancelled or (task.error is not None and not isinstance(task.error, ParentCommand)):
                journal.error(task)
        await journal.flush("error" if failed or cancelled else "interrupted")
        await journal.session.settle()
    if failed:
        first = failed[0].error
        if first is not None:
            raise first
    if cancelled:
        return
    run.outcome = "paused"
    if finished and told is not None:
        telling.values(run, told, None, finished)


async def _finish_step(run: Run, tasks: list[Task], told: Events) -> None:
    """Apply a step's results and commit them with the checkpoint they make; leaves in `run.move` what follows."""
    journal = run.journal
    live = run.live
    done = tasks if len(tasks) == 1 else sorted((t for t in tasks if t.writes is not None), key=lambda t: t.sort_key)
    names = [task.node.name for task in done]
    if journal is None:
        live.step += 1
        changed = live.advance(done, live.step)
        run.move = next_move(run, names)
        run.changed = changed
        return
    if journal.session.in_flight is not None:
        await journal.session.settle()
    failed = False
    for task in done:
        if not task.stored:
            _stage_result(run, task)
            failed = failed or task.error is not None
    if failed:
        await _stop_between(run, tasks, [task for task in done if task.error is not None], told)
    for task in tasks:
        if task.handled is not None:
            journal.error(task)
    live.step += 1
    identity = journal.session.numbers.checkpoint(live.step)
    try:
        changed = live.advance(done, identity[0])
        journal.checkpoint(
            live, "loop", changed, identity=identity, ran=frontier.of_results(done), metadata=run.metadata
        )
        if run.program.validate_state is not None:
            run.program.validate_state(live.view, frozenset(changed))
    except BaseException:
        # The results were good, applying them was not: they are kept, so that only the mistake has to be mended (P2).
        await journal.flush("error")
        raise
    run.move = next_move(run, names)
    run.changed = changed
    await flush_move(run, run.move)


def _tell_opening(run: Run, opened: Opened, told: Events, tasks: list[Task]) -> None:
    journal = run.journal
    if opened.resumed:
        telling.values(run, told, None)
    if journal is None or journal.row is None:
        if opened.entered is not None:
            telling.values(run, told, opened.entered)
        return
    if opened.input_view is not None and opened.input_row is not None:
        telling.checkpointed(run, told, opened.input_row, opened.input_view, ())
    if opened.entered is not None:
        telling.values(run, told, opened.entered)
    telling.checkpointed(run, told, journal.row, run.live.view, tasks)
    if opened.restored is not None:
        for task in tasks:
            if task.writes is not None:
                task.cached = True
                telling.ended(run, told, task)


def _tell_step(run: Run, told: Events, tasks: list[Task]) -> None:
    telling.values(run, told, run.changed)
    if run.journal is not None and run.journal.row is not None:
        telling.checkpointed(run, told, run.journal.row, run.live.view, tasks)
