"""The index of threads: which there are, how each stands, which runs it has had. Written once for both colours."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

from perdure.checkpoint.index.inbox import WAITING, open_questions
from perdure.checkpoint.index.records import ThreadFilter
from perdure.checkpoint.index.thread_info import Page, RunInfo, ThreadHolder, ThreadInfo
from perdure.checkpoint.leases import identity
from perdure.checkpoint.records import ROOT_NS, Loaded, Status, ThreadRow
from perdure.clock import ns_of, time_of
from perdure.errors import InvalidConfig, WrongType
from perdure.hints import meant
from perdure.ids import thread_text

if TYPE_CHECKING:
    from perdure.checkpoint.index.records import RunRow
    from perdure.checkpoint.records import RecordStore
    from perdure.checkpoint.serde.base import SerializerProtocol
    from perdure.clock import Clock
    from perdure.types import Interrupt

Order = Literal["id", "updated"]
LIMIT: Final = 100
PAGE: Final = 64
"""Threads that are asked for at a time where a page has to be searched for."""
STATUSES: Final[tuple[Status, ...]] = get_args(Status)
Scalar = str | int | float | bool


class Query(ThreadFilter):
    """Which threads are wanted, checked."""

    __slots__ = ()

    @classmethod
    def of(cls, *, status: Any, metadata: Any, updated_after: Any, graph: Any, prefix: Any) -> Query:
        """What the arguments of `list_threads` ask for.

        Raises:
            InvalidConfig: there is no such status, the time has no zone, or a value of `metadata` is no scalar.
            WrongType: an argument is of the wrong type.
        """
        if not isinstance(prefix, str) or not (graph is None or isinstance(graph, str)):
            raise WrongType("graph and thread_prefix must be text")
        return cls(
            statuses=_statuses(status),
            metadata=_scalars(metadata),
            updated_after=_ns(updated_after),
            graph=graph,
            prefix=prefix,
        )

    def matches(self, row: ThreadRow) -> bool:
        """Whether a thread is wanted."""
        wanted = self.metadata or {}
        return self.allows(row) and all(key in row.metadata and same(row.metadata[key], value) for key, value in wanted.items())


class Index:
    """Lists the threads of a saver, and the runs of each.

    Args:
        records: the database, in the colour of the call.
        serde: how bytes become values.
        clock: says which leases have run out.
    """

    def __init__(self, records: Callable[[], RecordStore], serde: SerializerProtocol, clock: Clock) -> None:
        self.records = records
        self._serde = serde
        self._clock = clock

    # -- threads ----------------------------------------------------------------------------------------------------------

    async def thread(self, thread_id: Any) -> ThreadInfo | None:
        """See `BaseCheckpointSaver.get_thread`."""
        row = await self.row(thread_text(thread_id))
        return None if row is None else await self.seen(row, Query())

    async def page(self, query: Query, *, order: Order, limit: int, cursor: str | None) -> Page[ThreadInfo]:
        """See `BaseCheckpointSaver.list_threads`.

        Raises:
            InvalidConfig: there is no such order, the limit is no positive number, or the cursor is of another list.
        """
        check_limit(limit)
        if order not in get_args(Order):
            raise InvalidConfig(f"order must be 'id' or 'updated', got {order!r}", key="order")
        place = _place(order, cursor)
        rows: list[ThreadRow] = []
        ask = PAGE if query.metadata else limit + 1
        while len(rows) <= limit:
            page = await self.rows(query, place, order, ask)
            rows += (row for row in page if query.matches(row))
            if len(page) < ask:
                break
            place = _place_of(order, page[-1])
        shown = [await self.seen(row, query) for row in rows[:limit]]
        found = [one for one in shown if one is not None]
        return Page(found, _cursor_at(order, rows[limit - 1]) if len(rows) > limit else None)

    async def row(self, thread: str) -> ThreadRow | None:
        """The row of a thread; None if there is no such thread."""
        rows = await self.records().threads(after=None, limit=1, wanted=ThreadFilter(prefix=thread))
        return rows[0] if rows and rows[0].thread == thread else None

    async def rows(self, query: Query, place: Any, order: Order, limit: int) -> list[ThreadRow]:
        """The rows of threads that may be wanted, in order, after a place."""
        records = self.records()
        if order == "updated":
            return await records.recent(before=place, limit=limit, wanted=query)
        return await records.threads(after=place, limit=limit, wanted=query)

    async def seen(self, row: ThreadRow, query: Query) -> ThreadInfo | None:
        """A thread as it is told of; None if it is no longer wanted by the time it is looked into."""
        questions: tuple[Interrupt, ...] = ()
        if row.status in WAITING and row.head is not None:
            loaded = await self.records().load(row.thread, ROOT_NS, None)
            row = loaded.thread
            if row.key is None or not query.matches(row):
                return None
            questions = self.questions(loaded)
        return self.told(row, questions)

    def questions(self, loaded: Loaded) -> tuple[Interrupt, ...]:
        """The open questions of a thread."""
        return tuple(asked.question for asked in open_questions(loaded, self._serde, self._clock.now_ns()))

    def told(self, row: ThreadRow, questions: tuple[Interrupt, ...]) -> ThreadInfo:
        """A thread's row as it is told of."""
        lease = row.lease
        holder = None
        if lease.token is not None and (held := lease.holder) is not None:
            holder = ThreadHolder(held.run_id, held.host, held.pid, time_of(held.since_ns))
        expired, crashed = self._death(row)
        return ThreadInfo(
            row.thread,
            row.status,
            row.graph,
            dict(row.metadata),
            time_of(row.created_ns) if row.created_ns else None,
            time_of(row.updated_ns) if row.updated_ns else None,
            questions,
            holder,
            row.status == "busy" and not crashed and not expired,
            crashed,
        )

    def _death(self, row: ThreadRow) -> tuple[bool, bool]:
        """Whether the lease of a thread has run out, and whether its run has died: then nobody will give it back."""
        lease = row.lease
        expired = lease.token is None or lease.expired  # by the clock of the database
        life = identity.lives(lease)
        return expired, row.status == "busy" and (life is False or (expired and life is None))

    # -- runs -------------------------------------------------------------------------------------------------------------

    async def runs(self, thread_id: Any, *, limit: int, cursor: Any) -> Page[RunInfo]:
        """See `BaseCheckpointSaver.list_runs`.

        Raises:
            InvalidConfig: the limit is no positive number, or the cursor is of another list.
        """
        thread = thread_text(thread_id)
        check_limit(limit)
        if cursor is not None and not (isinstance(cursor, str) and cursor.isdecimal()):
            raise _no_cursor(cursor)
        rows = await self.records().runs(thread, before=None if cursor is None else int(cursor), limit=limit + 1)
        current = await self.row(thread) if any(run.status == "running" for run in rows) else None
        items = [self._run(thread, run, current) for run in rows[:limit]]
        return Page(items, str(rows[limit - 1].epoch) if len(rows) > limit else None)

    async def last_run(self, thread: str) -> RunRow | None:
        """The record of a thread's last run."""
        rows = await self.records().runs(thread, before=None, limit=1)
        return rows[0] if rows else None

    def _run(self, thread: str, run: RunRow, current: ThreadRow | None) -> RunInfo:
        is_lost = run.status == "running"
        if is_lost and current is not None and current.lease.epoch == run.epoch:
            is_lost = current.lease.token is None or self._death(current)[1]
        return RunInfo(
            run.run_id,
            thread,
            run.graph,
            "crashed" if is_lost else run.status,
            time_of(run.started_ns),
            None if run.ended_ns is None else time_of(run.ended_ns),
            run.steps,
            dict(run.entries),
            run.error,
            run.context,
        )


def same(one: Any, other: Any) -> bool:
    """Whether two scalars are the same value: numbers as numbers, and a bool is none."""
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)


def check_limit(limit: Any) -> None:
    """Refuse what is no number of items.

    Raises:
        InvalidConfig: it is no positive number.
    """
    if type(limit) is not int or limit < 1:
        raise InvalidConfig(f"limit must be a positive number, got {limit!r}", key="limit")


def _statuses(status: Any) -> tuple[Status, ...]:
    if status is None:
        return ()
    given: list[Any] = [status] if isinstance(status, str) or not isinstance(status, Collection) else list(status)
    if not given:
        raise InvalidConfig("status=[] would list nothing; give one or several, or None for all", key="status")
    for one in given:
        if one in STATUSES:
            continue
        hint = meant(one, STATUSES)
        if one in ("crashed", "running"):
            hint = ": such threads are 'busy', and each says whether it `crashed` or `is_running`"
        known = ", ".join(map(repr, STATUSES))
        raise InvalidConfig(f"there is no status {one!r}{hint}; a thread's status is one of {known}", key="status")
    return tuple(dict.fromkeys(given))


def _scalars(metadata: Any) -> Mapping[str, Scalar] | None:
    if metadata is None:
        return None
    if not isinstance(metadata, Mapping):
        raise WrongType(f"metadata must be a dict of keys and the values they must equal, got {type(metadata).__name__}")
    for key, value in metadata.items():
        if not isinstance(key, str):
            raise WrongType(f"the keys of metadata are text, got {key!r}")
        if not isinstance(value, Scalar):
            raise InvalidConfig(
                f"metadata[{key!r}] must be text, a number or a bool, which the thread's is compared with, got {value!r}",
                key="metadata",
            )
    return dict(metadata)


def _ns(moment: Any) -> int | None:
    if moment is None:
        return None
    if not isinstance(moment, datetime):
        raise WrongType(f"updated_after must be a datetime, got {type(moment).__name__}")
    if moment.utcoffset() is None:
        raise InvalidConfig(
            f"updated_after needs a time zone, got {moment!r}; datetime.now(timezone.utc) - timedelta(hours=1) has one",
            key="updated_after",
        )
    return ns_of(moment) + 999  # what is shown is cut to microseconds: a thread is not later than its own `updated_at`


def _place(order: Order, cursor: Any) -> Any:
    if cursor is None:
        return None
    if not isinstance(cursor, str):
        raise WrongType(f"cursor must be text, got {type(cursor).__name__}")
    time, colon, thread = cursor.partition(":")
    # That of a list by id begins with the colon, so that one of another order is not taken for it.
    if not colon or not (time.isdecimal() if order == "updated" else time == ""):
        raise _no_cursor(cursor)
    return (int(time), thread) if order == "updated" else thread


def _place_of(order: Order, row: ThreadRow) -> Any:
    return row.thread if order == "id" else (row.updated_ns, row.thread)


def _cursor_at(order: Order, row: ThreadRow) -> str:
    return f":{row.thread}" if order == "id" else f"{row.updated_ns}:{row.thread}"


def _no_cursor(cursor: object) -> InvalidConfig:
    return InvalidConfig(f"{cursor!r} is no cursor of this list; pass on the `cursor` of the page before", key="cursor")
