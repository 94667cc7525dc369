"""The end of a run inside a super-step: what has been done is kept, what went wrong is recorded. Written once for both colours."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING

from perdure.engine import telling
from perdure.engine.attempt import fail
from perdure.engine.task import Task
from perdure.errors import InPlaceChangeWarning, ParentCommand
from perdure.streaming.modes import Event

if TYPE_CHECKING:
    from perdure.engine.run import Run


def stage_result(run: Run, task: Task) -> None:
    """Stage a result; one that cannot be stored makes its task a failed one."""
    journal = run.journal
    if journal is None or task.stored:
        return
    try:
        journal.result(task)
    except Exception as error:  # noqa: BLE001 - whatever the serializer raises belongs to this task
        fail(task, error)


async def stop_between(run: Run, tasks: list[Task], failed: list[Task], told: list[Event]) -> None:
    """End the run inside a super-step: keep good results, questions and errors; raise the first failure."""
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
        for task in tasks:
            if task.is_paused:
                journal.pauses(task)
                for step, _ in task.steps if "steps" in task.__dict__ else ():
                    if step.is_paused:
                        journal.pauses(step)
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
