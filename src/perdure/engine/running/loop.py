"""The super-step loop, written once for sync and async.

    plan the tasks -> run them, storing what arrives -> apply their writes -> decide what follows -> commit -> tell -> again

What follows is decided before the commit, so that the last commit of a run also gives the lease back. Under durability "async"
a step's commit is in flight while the next step's nodes run; nothing that they do is told before it is durable.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING

from perdure.bridge import inner
from perdure.engine.deciding import frontier
from perdure.engine.deciding.plan import Move, next_move, tasks_of
from perdure.engine.deciding.resume import reattach
from perdure.engine.running import telling
from perdure.engine.running.entering import Opened, flush_move
from perdure.engine.running.stopping import stage_results, stop_between, warn_of_changes, warn_of_unsaved_breakpoint
from perdure.engine.running.together import together
from perdure.engine.tasks import cached
from perdure.engine.tasks.attempt import fail
from perdure.engine.tasks.task import Task
from perdure.errors import GraphDrained, GraphRecursionError, InvalidState
from perdure.streaming.modes import Event

if TYPE_CHECKING:
    from perdure.engine.deciding.live import Live
    from perdure.engine.running.run import Run
    from perdure.engine.storing.journal import Journal

Events = list[Event]


async def super_steps(run: Run, opened: Opened) -> AsyncGenerator[Events, None]:
    """Run super-steps until the graph is done, pauses, or fails; yield events in order.

    Raises:
        Exception: what a node raised, once the results of its siblings are stored.
        GraphRecursionError, GraphDrained: the run stopped where it can be resumed.
        SaveFailed, LeaseLost, ThreadDeleted: it could not be saved; what was stored before is intact.
    """
    told: Events = []
    run.kept = opened.restored
    tasks = _first_tasks(run, opened)
    _tell_opening(run, opened, told, tasks)
    told += opened.sent
    move: Move = opened.move
    while move == "go":
        if told:
            yield told
            told = []
        todo = tasks if opened.restored is None else _to_run(tasks)
        telling.started(run, told, todo)
        if run.cache is not None and todo:
            todo = await cached.replay(run, todo, told)
        if told and (run.journal is None or not run.journal.session.in_flight):
            yield told
            told = []
        if len(todo) == 1 and not told and run.quiet_inside and not run.program.step_timeout and run.runner.can_inline(todo[0]):
            await _inline(run, todo[0], told)
            telling.ended(run, told, todo[0])
        elif todo:
            running = together(run, tasks, todo, told)
            try:
                async for batch in running if run.quiet else inner(running):
                    yield batch
            finally:
                await running.aclose()
            told = []
        if await _stopped(run, tasks, told):
            break
        await _finish_step(run, tasks, told)
        move = run.move
        opened.restored = None
        tasks = tasks_of(run) if move == "go" or "checkpoints" in run.modes or "debug" in run.modes else []
        _tell_step(run, told, tasks)
    if move == "break":
        telling.breakpoint_reached(run, told)
        warn_of_unsaved_breakpoint(run)
        run.outcome = "break"
    if told:
        yield told
    if run.outcome != "paused":
        await _leave(run, move)


def _to_run(tasks: list[Task]) -> list[Task]:
    """Those of resumed tasks that are neither done nor waiting."""
    return [task for task in tasks if task.writes is None and not task.is_paused and task.handled is None]


async def _stopped(run: Run, tasks: list[Task], told: Events) -> bool:
    """Whether the run ends inside this super-step, because tasks wait for answers; raises if one has failed."""
    for task in tasks:
        if task.writes is None:
            break
    else:
        return False
    failed = [task for task in tasks if task.error is not None and task.handled is None]
    if not failed and not any(task.is_paused for task in tasks):
        return False
    try:
        await stop_between(run, tasks, failed, told)
    except BaseException as error:
        if not told or all(task.error is not error for task in failed):
            raise
        run.failure = error  # told before it is raised, now that it is stored
    return True


async def _leave(run: Run, move: Move) -> None:
    if run.failure is not None:
        raise run.failure
    if run.journal is not None:
        await run.journal.session.settle()
    if move == "limit":
        kept = (
            ""
            if run.journal is None
            else "; the state is saved up to here, and invoke(None, config) goes on with a new allowance"
        )
        raise GraphRecursionError(
            f"Recursion limit of {run.limit} reached without hitting a stop condition. You can increase the limit by setting the "
            f"`recursion_limit` config key{kept}",
            checkpoint=None if run.journal is None or run.journal.row is None else run.journal.row.id,
        )
    if move == "drain" or run.outcome == "drained":
        run.outcome = "drained"
        if run.parent is None:  # else the signal of a pause tells the runs around, which no code of theirs takes for a failure
            raise GraphDrained((run.control and run.control.drain_reason) or "shutdown")


def _first_tasks(run: Run, opened: Opened) -> list[Task]:
    tasks = tasks_of(run) if not run.live.is_over else []
    if opened.restored is not None:
        for task in list(tasks):
            reattach(run, task, opened.restored, tasks)
    return tasks


async def _inline(run: Run, task: Task, told: Events) -> None:
    run.inside = told
    try:
        await run.runner.run_one(task)
    except BaseException as error:
        if task.writes is None and task.error is None:
            # Told by name, for asyncio may never have been loaded.
            if isinstance(error, KeyboardInterrupt) or type(error).__name__ == "CancelledError":
                task.cancelled = True
            else:
                fail(task, error)
        await stop_between(run, [task], [task] if task.error is not None else [], [])
        raise
    finally:
        run.inside = None


async def _finish_step(run: Run, tasks: list[Task], told: Events) -> None:
    """Apply a step's results and commit them with the checkpoint they make; leaves in `run.move` what follows."""
    journal = run.journal
    live = run.live
    done = tasks if len(tasks) == 1 else sorted((t for t in tasks if t.writes is not None), key=lambda t: t.sort_key)
    if journal is None:
        live.step += 1
        run.changed = live.advance(done, live.step)
        _look_over(run, done)
        run.move = next_move(run, [task.node.name for task in done])
        return
    if journal.session.writes.in_flight:
        try:
            await journal.session.settle()
        except Exception:
            raise
        except BaseException:
            await stop_between(run, tasks, [], [])
            raise
    stage_results(run, done)
    failed = [task for task in done if task.error is not None]
    if failed:
        await stop_between(run, tasks, failed, told)
    _note(journal, live, tasks)
    record = journal.session.record
    if record is not None:
        record.note(run, tasks)
    live.step += 1
    identity = journal.session.numbers.checkpoint(live.step)
    try:
        run.changed = live.advance(done, identity[0])
        _look_over(run, done)
        journal.checkpoint(live, "loop", run.changed, identity=identity, ran=frontier.of_results(done), metadata=run.metadata)
    except BaseException as error:
        # The results were good, applying them was not: they are kept, so that only the mistake has to be mended (P2).
        journal.session.failed(error)
        await journal.flush("error")
        raise
    run.move = next_move(run, [task.node.name for task in done])
    if record is not None and journal.child_of is None:
        record.steps += 1
    await flush_move(run, run.move)


def _note(journal: Journal, live: Live, tasks: list[Task]) -> None:
    """Note what tasks leave beside their results: failures that a handler took over, and how far remembering subgraphs came."""
    for task in tasks:
        if task.handled is not None:
            journal.error(task)
        if task.memories:
            live.memories.update(task.memories)


def _look_over(run: Run, done: list[Task]) -> None:
    """Warn of state that was changed in place; refuse values that do not fit the schema, after reducers and before they are stored (P32)."""
    if run.live.undone:
        warn_of_changes(run, done)
    validate = run.program.validate_state
    if validate is None:
        return
    try:
        validate(run.live.view, frozenset(run.changed))
    except InvalidState as error:
        writers = [t.node.name for t in done if any(channel == error.key for channel, _ in t.writes or ())]
        error.node = error.node or (writers[0] if writers else None)
        if writers:
            error.add_note(f"written by node {', '.join(map(repr, writers))}")
        if len(writers) > 1 and run.journal is not None:
            error.add_note(
                "Together these results do not fit. They are stored as what their nodes returned: once the schema or the reducer is "
                "mended, invoke(None, config) takes them as they are. To have the nodes run again, replay an older checkpoint"
            )
        raise


def _tell_opening(run: Run, opened: Opened, told: Events, tasks: list[Task]) -> None:
    if run.quiet:
        return
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
    telling.checkpointed(run, told, journal.row, run.live.view, tasks, opened.restored)
    if opened.restored is not None:
        for task in tasks:
            if task.writes is not None:
                task.cached = True
                telling.ended(run, told, task)
            elif task.is_paused:
                telling.asked(run, told, task)


def _tell_step(run: Run, told: Events, tasks: list[Task]) -> None:
    if run.quiet:
        return
    telling.values(run, told, run.changed)
    if run.journal is not None and run.journal.row is not None:
        telling.checkpointed(run, told, run.journal.row, run.live.view, tasks)
