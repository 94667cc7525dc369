"""The inbox: the questions that are open, across threads. Written once for both colours."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from perdure.checkpoint.incremental.values import value_of
from perdure.checkpoint.index.records import ThreadFilter
from perdure.checkpoint.pauses import Asked, asked_again, of_last_entry
from perdure.checkpoint.records import ANSWERS, ERROR, PAUSES, RESULT, ROOT_NS, Loaded, Pending, Status, WriteRow
from perdure.constants import ERROR_SOURCE_NODE, NO_WRITES
from perdure.errors import InvalidConfig, WrongType
from perdure.types import InterruptPage, PendingInterrupt

if TYPE_CHECKING:
    from perdure.checkpoint.records import RecordStore
    from perdure.checkpoint.serde.base import SerializerProtocol
    from perdure.clock import Clock

WAITING: Final[tuple[Status, ...]] = ("busy", "error", "interrupted")
"""The statuses of threads that may have open questions: one that was answered in part may be running, or have failed."""
PAGE: Final = 64
"""Threads that are asked for at a time."""
LIMIT: Final = 100


class Inbox:
    """Lists the open questions of a saver's threads.

    Args:
        records: gives the record store to read a thread from, or the list of threads (None).
        serde: how bytes become values.
        clock: says what is overdue.
    """

    __slots__ = ("_clock", "_records", "_serde")

    def __init__(self, records: Callable[[str | None], RecordStore], serde: SerializerProtocol, clock: Clock) -> None:
        self._records = records
        self._serde = serde
        self._clock = clock

    async def page(
        self,
        *,
        graph: str | None,
        filter: Mapping[str, Any] | None,
        thread_prefix: str,
        overdue: bool | None,
        limit: int,
        cursor: str | None,
    ) -> InterruptPage:
        """See `BaseCheckpointSaver.list_interrupts`.

        Raises:
            InvalidConfig: the limit is no positive number.
            WrongType: prefix or cursor is no text, or the filter no dict.
        """
        if type(limit) is not int or limit < 1:
            raise InvalidConfig(f"limit must be a positive number, got {limit!r}", key="limit")
        for name, text in (("thread_prefix", thread_prefix), ("cursor", cursor)):
            if not isinstance(text, str) and not (name == "cursor" and text is None):
                raise WrongType(f"{name} must be text, got {type(text).__name__}")
        if filter is not None and not isinstance(filter, Mapping):
            raise WrongType(
                f"filter must be a dict of keys of the metadata and the values they must equal, got {type(filter).__name__}"
            )
        found: list[PendingInterrupt] = []
        after = cursor
        while rows := await self._records(None).threads(
            after=after, limit=PAGE, wanted=ThreadFilter(statuses=WAITING, prefix=thread_prefix)
        ):
            for row in rows:
                after = row.thread
                loaded = await self._records(row.thread).load(row.thread, ROOT_NS, None)
                if graph is None or loaded.thread.graph in ("", graph):
                    found += (
                        item
                        for item in self._waiting(loaded)
                        if (overdue is None or item.overdue is overdue) and _matches(item.metadata, filter)
                    )
                if len(found) >= limit:
                    return InterruptPage(tuple(found), after)
            if len(rows) < PAGE:
                break
        return InterruptPage(tuple(found))

    def _waiting(self, loaded: Loaded) -> Iterator[PendingInterrupt]:
        row = loaded.row
        if row is None:
            return
        thread = loaded.thread
        for asked in open_questions(loaded, self._serde, self._clock.now_ns()):
            one = asked.question
            yield PendingInterrupt(
                thread.thread, row.id, one.node, one, one.asked_at, one.deadline, one.overdue, thread.graph, dict(row.metadata)
            )


def open_questions(
    loaded: Loaded, serde: SerializerProtocol, now_ns: int = 0, only: Iterable[Pending] | None = None
) -> list[Asked]:
    """The questions without an answer, of the tasks that a checkpoint leads to, or only of those that another one leads to as well."""
    row = loaded.row
    if row is None:
        return []
    writes = {(write.origin, write.path, write.kind): write for write in loaded.writes}

    def content(origin: int, path: str, kind: int) -> dict[str, Any]:
        write: WriteRow | None = writes.get((origin, path, kind))
        items = () if write is None else write.items
        return {item.channel: value_of(item, loaded.values, serde) for item in items if item.channel != NO_WRITES}

    found: list[Asked] = []
    wanted = None if only is None else {(task.origin, path) for task in only for path in _single(task.path)}
    for task in row.frontier:
        for path in _single(task.path):
            if wanted is not None and (task.origin, path) not in wanted:
                continue
            failed = writes.get((task.origin, path, ERROR))
            handled = failed is not None and any(item.channel == ERROR_SOURCE_NODE for item in failed.items)
            for place in (path, f"!{path}") if handled else (path,):
                if (task.origin, place, RESULT) in writes or (task.origin, place, PAUSES) not in writes:
                    continue
                asked = [asked_again(*item, now_ns) for item in content(task.origin, place, PAUSES).items()]
                answers = content(task.origin, place, ANSWERS)
                found += (one for one in of_last_entry(asked) if not one.closed and one.question.id not in answers)
    return found


def _single(path: str) -> list[str]:
    if not path.startswith("#"):
        return [path]
    first, _, last = path[1:].partition("-")
    return [f"#{index}" for index in range(int(first), int(last or first) + 1)]


def _matches(metadata: Mapping[str, Any], wanted: Mapping[str, Any] | None) -> bool:
    return not wanted or all(key in metadata and metadata[key] == want for key, want in wanted.items())
