"""Tasks that go on with what is stored of them: results, open questions, error handlers. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from perdure.constants import NS_END, NS_SEP
from perdure.engine.tasks.task import Task

if TYPE_CHECKING:
    from perdure.checkpoint.pauses import Asked
    from perdure.engine.running.run import Run
    from perdure.engine.storing.restore import Kept, Restored


def reattach(run: Run, task: Task, restored: Restored, tasks: list[Task]) -> None:
    """Give a task what is stored of it: its result; its open questions; the handler that took over when it failed."""
    task.writes = restored.result(task.origin, task.path)
    task.stored = task.writes is not None
    if task.writes is not None:
        task.memories = restored.memories(task.origin, task.path)
        return
    failure = restored.error(task.origin, task.path)
    if failure is not None and failure.handled and task.node.handler is not None:
        handler = hand_over(run, task, failure.error, tasks)
        handler.writes = restored.result(handler.origin, handler.path)
        handler.stored = handler.writes is not None
        if handler.writes is None:
            _reattach_questions(run, handler, restored)
        return
    _reattach_questions(run, task, restored)


def _reattach_questions(run: Run, task: Task, restored: Restored) -> None:
    earlier = restored.questions(task.origin, task.path)
    if not earlier:
        return
    task.questions.know(earlier)
    waiting = restored.unanswered(task.origin, task.path, run.answers)
    if not enters(restored.asked(task.origin, task.path), waiting):
        task.questions.now = waiting


def enters(asked: Sequence[Asked], waiting: Sequence[Asked]) -> bool:
    """Whether a task's code is entered again, given what it asked last and what of that has no answer.

    It is once all its own questions are answered; code around a subgraph or a durable step, when any of theirs is, or the subgraph was
    edited: it may have something else to run.
    """
    if not waiting or any(question.moved for question in asked):
        return True
    return len(waiting) < len(asked) and any(question.place is None for question in asked)


def memories_of(run: Run, kept: Kept, origin: int, path: str) -> dict[str, int]:
    """The newest checkpoints of the remembering subgraphs that a task ran before, by namespace."""
    names = kept.loaded.namespaces
    return {
        names[ns]: head
        for (at, task, _), (ns, head) in run.children.items()
        if (at, task) == (origin, path) and ns in names and NS_END not in names[ns].rpartition(NS_SEP)[2]
    }


def hand_over(run: Run, task: Task, error: Any, tasks: list[Task]) -> Task:
    """Put the error handler of a failed task in its place, among `tasks`; return the handler's task."""
    node = run.program.nodes[str(task.node.handler)]
    handler = Task(run, node, f"!{task.path}", task.origin, ("node_error_handler",))
    handler.failed = task
    task.recorded = not isinstance(error, BaseException)
    task.error = RuntimeError(repr(error)) if task.recorded else error
    task.handled = handler
    tasks.append(handler)
    return handler
