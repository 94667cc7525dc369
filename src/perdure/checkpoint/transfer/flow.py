"""How threads move, written once for both colours: read in stretches, staged where nobody sees it, read back, compared, admitted."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Awaitable
from contextlib import aclosing
from dataclasses import replace
from typing import TypeVar

from perdure.checkpoint.leases import identity, lease
from perdure.checkpoint.records import ThreadRow
from perdure.checkpoint.saving import attempt, standing
from perdure.checkpoint.survey import BUDGET, Stretch
from perdure.checkpoint.transfer.arrivals import exists
from perdure.checkpoint.transfer.connections import InFile, OutFile, Work
from perdure.checkpoint.transfer.port import Arrival, MovableRecords
from perdure.checkpoint.transfer.raw import Contents, RawRow, Tally, place
from perdure.clock import Clock
from perdure.errors import SaveFailed, ThreadBusy, UnknownThread

T = TypeVar("T")

AGAIN = "call this again"
NOTHING_STORED = standing("Nobody sees any of it", AGAIN)


class Source:
    """A thread that is read as of one point, which the first stretch sets: if it is written to meanwhile, reading ends with an error.

    Args:
        records: its database.
        thread: its id.
        clock: says whether a lease has run out.
    """

    def __init__(self, records: MovableRecords, thread: str, clock: Clock) -> None:
        self._records = records
        self._thread = thread
        self._clock = clock
        self._first = Stretch(None, [])

    async def begin(self) -> ThreadRow:
        """The thread's row.

        Raises:
            UnknownThread: there is no such thread.
            ThreadBusy: a run holds it.
        """
        self._first = await self._records.rows(self._thread, None, BUDGET)
        row = self._first.thread
        if row is None:
            raise UnknownThread(f"there is no thread {self._thread!r} to copy or export", thread=self._thread)
        held = row.lease
        if not lease.is_free(held) and not identity.is_dead(held):
            busy = lease.busy(self._thread, held)
            raise ThreadBusy(
                f"thread {self._thread!r} is running, so there is no point at which it could be copied: wait until the run has ended, "
                f"then call this again. ({busy})",
                thread=self._thread,
                holder=busy.holder,
            )
        return row

    async def stretches(self) -> AsyncGenerator[list[RawRow], None]:
        """All rows, some at a time.

        Raises:
            ThreadBusy: the thread was written to since `begin`.
        """
        stretch = self._first
        self._first = Stretch(stretch.thread, [])
        while stretch.rows:
            yield stretch.rows
            after = place(stretch.rows[-1])
            then = stretch.thread
            stretch = await self._records.rows(self._thread, after, BUDGET)
            if stretch.thread != then:
                raise ThreadBusy(
                    f"thread {self._thread!r} was written to while it was copied; nothing was kept. Call this again when it rests",
                    thread=self._thread,
                )

    async def attempted_stretches(self) -> AsyncGenerator[list[RawRow], None]:
        """As `stretches`, for who stores them.

        Raises:
            SaveFailed: the database failed.
        """
        async with aclosing(self.stretches()) as stretches:
            while rows := await self.attempted(anext(stretches, None)):
                yield rows

    async def attempted(self, call: Awaitable[T]) -> T:
        """What this source was asked, for who stores it.

        Raises:
            SaveFailed: the database failed.
        """
        return await attempt(call, f"thread {self._thread!r} could not be copied", NOTHING_STORED, self._thread)


async def contents_of(source: Source) -> Contents:
    """What a thread consists of; `source` has begun."""
    tally = Tally()
    async with aclosing(source.attempted_stretches()) as stretches:
        async for rows in stretches:
            tally.add(rows)
    return tally.contents()


async def has(records: MovableRecords, thread: str) -> bool:
    """Whether there is such a thread.

    Raises:
        SaveFailed: the database failed.
    """
    return (await _bringing(records.rows(thread, None, 1), thread)).thread is not None


async def bring(
    records: MovableRecords, thread: ThreadRow, stretches: AsyncGenerator[list[RawRow], None], clock: Clock
) -> Contents:
    """Store a thread under the id that its row says.

    Raises:
        ThreadExists: there is one.
        SaveFailed: the database failed, or what was read back is not what was written.
    """
    name = thread.thread
    if await has(records, name):
        raise exists(name)
    now = clock.now_ns()
    arrival = Arrival(os.urandom(16).hex(), identity.holder("", now), now)
    await _bringing(records.arrive(arrival), name)
    try:
        tally = Tally()
        async with aclosing(stretches):
            async for rows in stretches:
                arrival.now_ns = clock.now_ns()
                await _bringing(records.stage(arrival, rows), name)
                tally.add(rows)
        contents = tally.contents()
        stored = await _bringing(_read_back(records, arrival), name)
        if stored != contents:
            raise SaveFailed(
                f"thread {name!r} was not stored: the database holds {stored}, where {contents} was written", thread=name
            )
        await _bringing(records.admit(arrival, thread), name)
    except BaseException:
        await _discard(records, arrival)
        raise
    return contents


async def _bringing(call: Awaitable[T], thread: str) -> T:
    return await attempt(call, f"thread {thread!r} could not be stored", NOTHING_STORED, thread)


async def _discard(records: MovableRecords, arrival: Arrival) -> None:
    try:
        await records.discard(arrival)
    except Exception:  # noqa: BLE001 - the database is why we are here; the next arrival clears it away, and the first error counts
        pass


async def _read_back(records: MovableRecords, arrival: Arrival) -> Contents:
    tally = Tally()
    rows = await records.staged(arrival, None, BUDGET)
    while rows:
        tally.add(rows)
        rows = await records.staged(arrival, place(rows[-1]), BUDGET)
    return tally.contents()


async def copied(source: Source, target: MovableRecords, name: str, clock: Clock) -> Contents:
    """Copy a thread to another id or another database.

    Raises:
        UnknownThread, ThreadBusy, ThreadExists, SaveFailed: nothing was stored.
    """
    row = await source.attempted(source.begin())
    return await bring(target, replace(row, thread=name), source.attempted_stretches(), clock)


async def exported(source: Source, file: OutFile, work: Work) -> Contents:
    """Write a thread into a file.

    Raises:
        UnknownThread, ThreadBusy: there is no file then.
    """
    row = await source.begin()
    tally = Tally()
    await work.do(file.open)
    try:
        await work.do(file.writer.begin, row)
        async with aclosing(source.stretches()) as stretches:
            async for rows in stretches:
                await work.do(file.writer.add, rows)
                tally.add(rows)
        await work.do(file.writer.end)
        await work.do(file.finish)
    except BaseException:
        await work.do(file.abandon)
        raise
    return tally.contents()


async def imported(file: InFile, target: MovableRecords, name: str | None, clock: Clock, work: Work) -> tuple[str, Contents]:
    """Store the thread of a file; its id.

    Raises:
        CorruptRecord: the file was cut off or altered, or is none. UnknownFormat: a newer version wrote it.
        ThreadExists, SaveFailed: nothing was stored.
    """
    await work.do(file.open)
    try:
        row = await work.do(file.reader.begin)
        row = replace(row, thread=name or row.thread)
        return row.thread, await bring(target, row, _of_file(file, work), clock)
    finally:
        await work.do(file.close)


async def _of_file(file: InFile, work: Work) -> AsyncGenerator[list[RawRow], None]:
    while rows := await work.do(file.reader.rows, BUDGET):
        yield rows
    await work.do(file.end)
