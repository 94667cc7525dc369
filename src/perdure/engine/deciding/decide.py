"""What a call means, given what is stored: start, go on, answer, branch off. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from perdure.errors import (
    AmbiguousAnswer,
    EmptyInputError,
    InvalidUpdateError,
    MissingCheckpointer,
    UnknownInterruptError,
    UnknownThread,
)
from perdure.ids import is_interrupt_id
from perdure.types import NO_ANSWER, Command, Interrupt

if TYPE_CHECKING:
    from perdure.engine.storing.restore import Kept, Restored

SHOWN = 5
"""So many keys of a wrong map of answers are named."""


def nothing_to_resume(thread: str) -> UnknownThread:
    """The error for going on with a thread that was never started."""
    return UnknownThread(
        f"Received no input for __start__: thread {thread!r} has no checkpoint to go on from. Give an input to start it; if it should "
        "exist, look whether thread_id and saver are the right ones",
        thread=thread,
    )


def check_command(command: Command[Any], *, saver: bool, entrypoint: str | None = None) -> None:
    """Refuse a command that a caller cannot give.

    Args:
        command: the command.
        saver: the graph saves its state.
        entrypoint: the name of what is called, if it is an entrypoint.

    Raises:
        InvalidUpdateError: it is for a parent graph, of which a caller has none.
        EmptyInputError: it says nothing.
        MissingCheckpointer: it answers a pause of a graph that saves nothing.
    """
    if command.graph is not None:
        raise InvalidUpdateError(f"There is no parent graph: a call cannot pass Command(graph={command.graph!r})")
    if entrypoint is not None and (command.update is not None or command.goto):
        raise InvalidUpdateError(
            f"entrypoint {entrypoint!r} has no state that a caller's Command could update, and no nodes to go to: it takes "
            "Command(resume=...). What its next call gets as `previous` is set with update_state"
        )
    if command.resume is not NO_ANSWER and not saver:
        raise MissingCheckpointer("Cannot use Command(resume=...) without checkpointer: without one, no pause is remembered")
    if command.resume is NO_ANSWER and command.update is None and not command.goto and command.goto != 0:
        raise EmptyInputError("Received empty Command input: give it resume=, update= or goto=")


def expired(pending: Iterable[Interrupt]) -> dict[str, Any]:
    """The default answers of the questions whose deadline has passed, by pause id."""
    return {pause.id: pause.default for pause in pending if pause.overdue and pause.default is not NO_ANSWER}


def route(
    resume: Any, pending: Iterable[Interrupt], *, at_breakpoint: bool, thread: str, late: Iterable[Interrupt] = ()
) -> dict[str, Any]:
    """Which question each answer is for, by pause id.

    A dict is a map of answers if it is not empty and all its keys look like pause ids; anything else is one bare answer.

    Args:
        resume: the answer or answers.
        pending: the questions that are open.
        at_breakpoint: the run waits at a static breakpoint, which any bare answer passes.
        thread: for the errors.
        late: questions whose default answer counts by now.

    Raises:
        UnknownInterruptError: an answer is for no open question.
        AmbiguousAnswer: a bare answer while several questions are open.
    """
    questions = {pause.id: pause for pause in pending}
    closed = {pause.id: pause for pause in late}
    if isinstance(resume, Mapping) and resume and all(is_interrupt_id(key) for key in resume):
        if any(key in closed for key in resume):
            raise _too_late([closed[key] for key in resume if key in closed], questions, thread)
        unknown = [key for key in resume if key not in questions]
        if unknown:
            raise UnknownInterruptError(
                f"no open question of thread {thread!r} has the id {', '.join(map(repr, unknown))}; {_listing(questions)}. Nothing was "
                "stored",
                reason="not_pending",
                interrupt_ids=unknown,
                pending_ids=tuple(questions),
                thread=thread,
            )
        return dict(resume)
    if len(questions) == 1:
        return {next(iter(questions)): resume}
    if not questions:
        if closed:
            raise _too_late(list(closed.values()), questions, thread)
        if at_breakpoint:
            return {}
        raise UnknownInterruptError(
            f"thread {thread!r} has no open question that Command(resume=...) could answer. Nothing was stored. To go on with an "
            "unfinished run use invoke(None, config)",
            reason="not_pending",
            thread=thread,
        )
    raise AmbiguousAnswer(
        "When there are multiple pending interrupts, you must specify the interrupt id when resuming: "
        f"Command(resume={{id: answer}}); {_listing(questions)}.{_tried(resume, questions)} Nothing was stored",
        reason="ambiguous",
        interrupt_ids=_wrong_ids(resume, questions),
        pending_ids=tuple(questions),
        thread=thread,
    )


def _wrong_ids(resume: Any, questions: Mapping[str, Interrupt]) -> list[str]:
    return [str(key) for key in resume if key not in questions] if isinstance(resume, Mapping) else []


def _tried(resume: Any, questions: Mapping[str, Interrupt]) -> str:
    """What is said of a dict that was meant as a map of answers, or may have been."""
    wrong = _wrong_ids(resume, questions)
    if not wrong:
        return ""
    shown = ", ".join(f"{key[:60]!r}" for key in wrong[:SHOWN]) + (", …" if len(wrong) > SHOWN else "")
    return (
        f" The dict that was given has the key {shown}, which is the id of none of them; it is taken as answers by id only where all "
        "its keys look like ids, so it was taken as one bare answer."
    )


def _too_late(late: Sequence[Interrupt], questions: Mapping[str, Interrupt], thread: str) -> UnknownInterruptError:
    told = ", ".join(f"{pause.id!r} (until {pause.deadline}: {pause.default!r})" for pause in late)
    return UnknownInterruptError(
        f"the deadline of {told} of thread {thread!r} has passed, so the default answer counts. Nothing was stored; "
        "invoke(None, config) goes on with it",
        reason="overdue",
        interrupt_ids=[pause.id for pause in late],
        pending_ids=tuple(questions),
        thread=thread,
    )


def _listing(questions: Mapping[str, Interrupt]) -> str:
    if not questions:
        return "none is open"
    return "open are " + ", ".join(f"{pause!r} ({str(question.value)[:60]!r})" for pause, question in questions.items())


def open_questions(restored: Restored, answers: Mapping[str, Any]) -> list[Interrupt]:
    """All open questions of a checkpoint's tasks."""
    return [a.question for path, origin in restored.paths() for a in restored.unanswered(origin, path, answers)]


def shown_questions(restored: Kept) -> list[Interrupt]:
    """The questions that a checkpoint's tasks asked last, answered or not: what its snapshot shows."""
    return [asked.question for path, origin in restored.paths() for asked in restored.asked(origin, path)]
