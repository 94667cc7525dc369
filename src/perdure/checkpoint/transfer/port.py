"""The part of a record store that brings threads: writing rows that nobody sees yet. `RecordStore.rows` reads those of a thread.

It belongs to the contract of a record store (`perdure.testing.saver_suite` has its tests). It is a protocol of its own because
savers of others, which have no rows, cannot offer it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, cast

from perdure.checkpoint.records import Holder, RecordStore, ThreadRow
from perdure.checkpoint.transfer.raw import Place, RawRow
from perdure.errors import WrongType

ARRIVAL_SECONDS = 3600.0
"""How long an arrival may stand still before others may clear it away; at once if its process is proved dead."""


@dataclass(slots=True)
class Arrival:
    """A thread on its way into a database: its rows are stored under no thread until it is admitted.

    Attributes:
        token: names it.
        holder: who brings it.
        now_ns: the time, renewed at each call.
        lease_ns: for how long nobody may clear it away.
    """

    token: str
    holder: Holder
    now_ns: int
    lease_ns: int = int(ARRIVAL_SECONDS * 1e9)


class MovableRecords(RecordStore, Protocol):
    """A record store whose threads can be moved. Each call is one transaction."""

    async def arrive(self, arrival: Arrival) -> None:
        """Begin to bring a thread. Clears away what is left of arrivals that were given up: those whose holder is proved dead, and
        those that have stood still for too long.
        """
        ...

    async def stage(self, arrival: Arrival, rows: Sequence[RawRow]) -> None:
        """Store rows of an arrival. No other call sees them.

        Raises:
            SaveFailed: the arrival was cleared away.
            CorruptRecord: a row is there twice.
        """
        ...

    async def staged(self, arrival: Arrival, after: Place | None, budget: int) -> list[RawRow]:
        """Rows of an arrival, read as those of a thread by `rows`."""
        ...

    async def admit(self, arrival: Arrival, thread: ThreadRow) -> None:
        """Make the arrival a thread: one small write, carried out even if the caller is cancelled while it waits.

        Args:
            arrival: what has been staged.
            thread: the thread's row. Its key and lease do not count, for nobody holds the new thread, nor does its incarnation:
                the new one follows the tombstone, if the id was deleted before.

        Raises:
            ThreadExists: the database has a thread of that id; the arrival stays.
            SaveFailed: the arrival was cleared away.
        """
        ...

    async def discard(self, arrival: Arrival) -> None:
        """Remove what was staged; nothing happens if there is nothing."""
        ...


def movable(records: RecordStore) -> MovableRecords:
    """The record store as one that moves threads.

    Raises:
        WrongType: it does not.
    """
    if not hasattr(records, "admit"):
        raise WrongType(
            f"{type(records).__name__} cannot move threads: copying, exporting and importing need a saver of this library "
            "(InMemorySaver, SqliteSaver), or one over a record store with admit()"
        )
    return cast("MovableRecords", records)
