"""What `interrupt` does inside a task: give the answer, or note the question and pause."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from perdure.clock import time_of
from perdure.errors import GraphInterrupt, InvalidAnswer, InvalidCall
from perdure.types import NO_ANSWER, Interrupt

if TYPE_CHECKING:
    from perdure.engine.tasks.task import Task


def ask(task: Task, value: Any, *, response_schema: Any, key: str | None, deadline: Any, default: Any) -> Any:
    """The answer to a question of a task's code, or a pause.

    A pause is registered before it is raised, so that it counts even if the node swallows the signal. An answer that the question's
    type refuses opens the question again; the caller learns why when the run has stopped.

    Raises:
        GraphInterrupt: the question is open.
        AmbiguousPause: several questions were asked at once, and it cannot be told which of them this is.
        InvalidCall: the task has ended; nobody would be asked.
        InvalidAnswer, ValueError, TypeError, MissingExtra: see `perdure.types.interrupt`.
    """
    run = task.run
    if task.writes is not None or task.error is not None:
        raise InvalidCall(
            f"interrupt() was called in the name of node {task.node.name!r}, which has ended: wait for threads and asyncio tasks that ask "
            "before the node returns",
            node=task.node.name,
        )
    with run.lock:
        identity, place, digest = task.questions.identify(value, key)
        answer = run.answers.get(identity, NO_ANSWER)
    if answer is not NO_ANSWER:
        if response_schema is None:
            return answer
        from perdure.runtime.questions import fitted

        try:
            return fitted(response_schema, answer, pause=identity, node=task.node.name)
        except InvalidAnswer as refusal:
            run.answers.pop(identity, None)
            run.refusals.append(refusal)
    now_ns = run.now_ns()
    terms: dict[str, Any] = {}
    if response_schema is not None or deadline is not None or default is not NO_ANSWER:
        terms = _terms(response_schema, deadline, default, now_ns)
    before = task.questions.earlier.get(identity)
    known = None if before is None else before.question
    if known is not None and known.deadline is not None and deadline is not None and not isinstance(deadline, datetime):
        terms["deadline"] = known.deadline  # time counts from when it was asked first
    asked_at = time_of(now_ns) if known is None or known.asked_at is None else known.asked_at
    question = Interrupt(value, identity, asked_at=asked_at, node=task.node.name, **terms)
    with run.lock:
        task.questions.register(question, place, digest)
    raise GraphInterrupt([question])


def _terms(response_schema: Any, deadline: Any, default: Any, now_ns: int) -> dict[str, Any]:
    from perdure.runtime.questions import answer_schema, check_default, deadline_of

    schema = answer_schema(response_schema)
    check_default(default, deadline, schema)
    return {"response_schema": schema, "deadline": deadline_of(deadline, now_ns), "default": default}
