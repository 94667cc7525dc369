"""How the questions of a task are kept in its record, and found again there. Pure.

    question  [value, schema, place, digest, entry, together, child, {at, node, due, default, steps, n, moved, closed}]

What a question does not have is left out of the last part, which records of earlier versions do not have at all.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from perdure.clock import ns_of, time_of
from perdure.errors import CorruptRecord
from perdure.types import NO_ANSWER, Interrupt


class Asked(NamedTuple):
    """A question as it is kept.

    Attributes:
        question: what was asked, under which id.
        place: which call of the task asked it; None: a subgraph or a durable step of the task did.
        digest: of its value.
        entry: in which entry into the task's code it was asked last, from 1.
        together: others were open beside it.
        child: for a subgraph's question: numbers of the namespace and the checkpoint at which the subgraph asked.
        steps: how many durable steps the task's code had begun when it asked.
        n: the thread's first free number then: what has a smaller one came before. 0: not known.
        moved: the subgraph was edited since, so that the code around it is to be entered again.
        closed: by an edit of the subgraph: it waits for an answer no more.
    """

    question: Interrupt
    place: str | None
    digest: str = ""
    entry: int = 1
    together: bool = False
    child: tuple[int, int] | None = None
    steps: int = 0
    n: int = 0
    moved: bool = False
    closed: bool = False


def stored(asked: Asked) -> list[Any]:
    """A question as plain data."""
    question = asked.question
    more: dict[str, Any] = {}
    if question.asked_at is not None:
        more["at"] = ns_of(question.asked_at)
    if question.node:
        more["node"] = question.node
    if question.deadline is not None:
        more["due"] = ns_of(question.deadline)
    if question.default is not NO_ANSWER:
        more["default"] = question.default
    if asked.steps:
        more["steps"] = asked.steps
    if asked.n:
        more["n"] = asked.n
    if asked.moved:
        more["moved"] = True
    if asked.closed:
        more["closed"] = True
    return [
        question.value,
        question.response_schema,
        asked.place,
        asked.digest,
        asked.entry,
        asked.together,
        asked.child,
        more,
    ]


def asked_again(pause: str, content: Any, now_ns: int = 0) -> Asked:
    """The question that `stored` made plain data of.

    Args:
        pause: its id.
        content: the data.
        now_ns: the time by which it is overdue or not.

    Raises:
        CorruptRecord: the data has another shape.
    """
    try:
        value, schema, place, digest, entry, together, child, *rest = content
        more = rest[0] if rest else {}
        at, due = more.get("at"), more.get("due")
        question = Interrupt(
            value,
            pause,
            response_schema=schema,
            deadline=None if due is None else time_of(due),
            default=more.get("default", NO_ANSWER),
            asked_at=None if at is None else time_of(at),
            node=more.get("node", ""),
            overdue=due is not None and due <= now_ns,
        )
        where = None if child is None else (child[0], child[1])
        since = ("moved" in more, "closed" in more)
        return Asked(question, place, digest, entry, together, where, more.get("steps", 0), more.get("n", 0), *since)
    except (TypeError, ValueError, AttributeError, LookupError) as error:
        raise CorruptRecord(f"question {pause!r} does not have the shape of a question: {error!r}") from error


def of_last_entry(questions: Iterable[Asked]) -> list[Asked]:
    """Those that were asked in the last entry into the task's code: earlier ones have been passed."""
    found = list(questions)
    last = max((asked.entry for asked in found), default=0)
    return [asked for asked in found if asked.entry == last]
