"""The end of a run inside a super-step: what has been done is kept, what went wrong is recorded. Written once for both colours."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from perdure.channels.last_value import LastValue
from perdure.checkpoint.pauses import of_last_entry
from perdure.engine.deciding.plan import names_of
from perdure.engine.running import telling
from perdure.engine.tasks.attempt import fail
from perdure.engine.tasks.task import Task
from perdure.errors import InPlaceChangeWarning, InvalidState, MissingNode, MissingPartWarning, ParentCommand
from perdure.streaming.modes import Event

if TYPE_CHECKING:
    from perdure.engine.deciding.returns import Write
    from perdure.engine.running.run import Run
    from perdure.engine.storing.journal import Ending, Journal


def stage_result(run: Run, task: Task, *, beside: bool = False) -> None:
    """Stage a result; one that cannot be stored makes its task a failed one.

    Args:
        run: the run.
        task: its task.
        beside: others of the super-step are still to come. A value that does not fit the schema may do so together with theirs, if
            it has a reducer; it then waits for them, and is not staged.
    """
    journal = run.journal
    if journal is None or task.stored:
        return
    try:
        if run.program.validate_state is not None:
            _check_alone(run, task)
    except InvalidState as error:
        if not (beside and type(run.live.channels.get(error.key or "")) is not LastValue):
            fail(task, error)
        return
    _stage(journal, task)


def stage_results(run: Run, tasks: Sequence[Task]) -> None:
    """Stage the results that complete a super-step: those that do not fit the schema alone, if all together do (P32)."""
    journal = run.journal
    if len(tasks) == 1:
        stage_result(run, tasks[0])
        return
    for task in tasks:
        stage_result(run, task, beside=True)
    doubtful = [task for task in tasks if not task.stored and task.error is None]
    if not doubtful or journal is None:
        return
    try:
        _check(run, [write for task in tasks for write in task.writes or ()])
    except InvalidState:
        for task in doubtful:
            stage_result(run, task)
        return
    for task in doubtful:
        _stage(journal, task)


def _stage(journal: Journal, task: Task) -> None:
    try:
        journal.result(task)
        if task.failed is not None and not task.failed.recorded:
            # A handler's result without the failure that it handled would be found by nobody.
            journal.error(task.failed)
            task.failed.recorded = True
    except Exception as error:  # noqa: BLE001 - whatever the serializer raises belongs to this task
        fail(task, error)


def _check_alone(run: Run, task: Task) -> None:
    """Refuse a result that does not fit the schema before it is stored: stored, it would count, and its node never be asked again."""
    try:
        _check(run, task.writes or ())
    except InvalidState as error:
        error.node = task.node.name
        raise


def _check(run: Run, writes: Sequence[Write]) -> None:
    validate = run.program.validate_state
    if validate is not None and writes:
        validate(run.live.preview(writes), frozenset(channel for channel, _ in writes))


async def stop_between(run: Run, tasks: list[Task], failed: list[Task], told: list[Event], *, left: bool = False) -> None:
    """End the run inside a super-step: keep good results, questions and errors; raise the first failure.

    Args:
        run: the run.
        tasks: all tasks of the super-step.
        failed: those that have failed.
        told: takes events.
        left: nothing but that whoever listened has left is why it ends.
    """
    journal = run.journal
    finished = [task for task in tasks if task.writes is not None]
    run.live.undo(write for task in finished for write in task.writes or ())
    warn_of_changes(run, tasks)
    run.waiting = [pause for task in tasks if task.is_paused for pause in task.pauses]
    run.finished = finished
    cancelled = any(task.cancelled for task in tasks)
    if journal is not None:
        for task in finished:
            stage_result(run, task)
        failed = failed or [task for task in finished if task.error is not None]
        for task in tasks:
            _stage_unfinished(run, journal, task)
        journal.session.tried(run, tasks)
        cause = failed[0].error if failed else "cancelled" if cancelled else None
        if cause is not None:
            journal.session.failed(cause)
        if left:
            journal.session.left()
        otherwise = "error" if failed or cancelled else _ending(run, tasks)
        await journal.flush(_ending_of_left(run, tasks) if left else otherwise)
        await journal.session.settle()
    if failed:
        first = failed[0].error
        if first is not None:
            raise first
    if cancelled or left:
        return
    run.outcome = "drained" if any(task.drained for task in tasks) else "paused"
    if run.parent is None and run.refusals:
        raise run.refusals[0]
    _tell_parent(run)
    if finished and told is not None:
        telling.values(run, told, None, finished)


def _stage_unfinished(run: Run, journal: Journal, task: Task) -> None:
    """Stage what is to be known of a task that has not finished: its questions, its failure, or that it was cancelled."""
    for each in (task, *_asking_steps(task)) if task.writes is None else ():
        # Code that is entered again must not run again what it has called.
        for ended in each.ended:
            journal.adopt_journal(ended)
        each.ended = ()
    if isinstance(task.error, MissingNode) and task.has_questions:
        _reopen(run, journal, task)
    elif task.is_paused:
        if run.refusals:
            _withdraw_answers(run, journal, task)
        journal.pauses(task)
        for step in _asking_steps(task):
            journal.pauses(step)
    elif task.cancelled or (task.error is not None and not isinstance(task.error, ParentCommand)):
        journal.error(task)


def _asking_steps(task: Task) -> Iterator[Task]:
    """The durable steps of a task, and the steps of these, that have asked in this entry."""
    for step in task.steps if "steps" in task.__dict__ else ():
        if step.call.pauses and not step.call.recalled:
            yield step.call
            yield from _asking_steps(step.call)


def _withdraw_answers(run: Run, journal: Journal, task: Task) -> None:
    """Forget the answers of a task that their questions refused: those are open again."""
    given = {pause: run.answers[pause] for pause in task.questions.earlier if pause in run.answers}
    journal.answers(task.origin, task.path, given)


def _reopen(run: Run, journal: Journal, task: Task) -> None:
    """A subgraph of the task has lost the node that asked: its questions stay open, for answers that came in vain (P34)."""
    for asked in of_last_entry(task.questions.earlier.values()):
        if asked.place is None:
            run.answers.pop(asked.question.id, None)
    _withdraw_answers(run, journal, task)


def _tell_parent(run: Run) -> None:
    """Note the questions of a subgraph with the task that runs it: its code may turn away before they reach it."""
    task = run.parent
    if task is None:
        return
    journal = run.journal
    at = None if journal is None or journal.row is None else (journal.ns, journal.row.n)
    with task.run.lock:
        for question in run.waiting:
            task.questions.adopt(question, at)


def warn_of_changes(run: Run, tasks: Sequence[Task]) -> None:
    """Warn of state that nodes of a super-step changed in place and did not return (P35)."""
    live = run.live
    if not live.undone:
        return
    undone, live.undone = live.undone, []
    nodes = ", ".join(repr(task.node.name) for task in tasks)
    for key, restored in undone:
        outcome = "it was undone" if restored else "it could not be undone, and will not be stored"
        warnings.warn(
            f"state[{key!r}] was changed in place while node {nodes} ran, without being returned; {outcome}. Nodes change state by "
            "returning updates",
            InPlaceChangeWarning,
            stacklevel=2,
        )


def warn_of_unsaved_breakpoint(run: Run) -> None:
    """Warn of a breakpoint where nothing is saved: the run stops there, and nothing can go on from it."""
    if run.journal is not None or run.parent is not None:
        return
    waits = ", ".join(map(repr, names_of(run.live)))
    warnings.warn(
        f"the run stopped at a breakpoint, before node {waits}, but graph {run.program.name!r} has no saver: nothing was kept, and no "
        "call can go on from here. Give it one with compile(checkpointer=...), for example InMemorySaver(), or leave interrupt_before "
        "and interrupt_after out",
        MissingPartWarning,
        stacklevel=2,
    )


def _ending(run: Run, tasks: list[Task]) -> Ending:
    """How a run has ended in which nothing went wrong: waiting, or else because it was asked to stop."""
    waits = bool(run.waiting) or run.parent is not None or any(task.halted and not task.drained for task in tasks)
    return "interrupted" if waits else "idle"


def _ending_of_left(run: Run, tasks: list[Task]) -> Ending:
    """How a run has ended that nobody listens to any more: well, if nothing had gone wrong before."""
    if any(task.error is not None and task.handled is None for task in tasks):
        return "error"
    return "interrupted" if run.waiting else "idle"
