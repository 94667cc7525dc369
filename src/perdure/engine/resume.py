"""Tasks that go on with what is stored of them: results, open questions, error handlers. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perdure.engine.task import Task

if TYPE_CHECKING:
    from perdure.engine.restore import Restored
    from perdure.engine.run import Run


def reattach(run: Run, task: Task, restored: Restored, tasks: list[Task]) -> None:
    """Give a task what is stored of it: its result; its open questions; the handler that took over when it failed."""
    task.writes = restored.result(task.origin, task.path)
    task.stored = task.writes is not None
    if task.writes is not None:
        return
    failure = restored.error(task.origin, task.path)
    if failure is not None and failure.handled and task.node.handler is not None:
        handler = hand_over(run, task, failure.error, tasks)
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


def hand_over(run: Run, task: Task, error: Any, tasks: list[Task]) -> Task:
    """Put the error handler of a failed task in its place, among `tasks`; return the handler's task."""
    node = run.program.nodes[str(task.node.handler)]
    handler = Task(run, node, f"!{task.path}", task.origin, ("node_error_handler",))
    handler.failed = task
    task.error = error if isinstance(error, BaseException) else RuntimeError(str(error))
    task.handled = handler
    tasks.append(handler)
    return handler
