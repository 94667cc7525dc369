"""Putting something between a saver and its database."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from perdure.checkpoint.index.records import EVERY, RunRow, ThreadFilter
from perdure.checkpoint.records import BranchName, ChildRow, Commit, Have, Loaded, RecordStore, Status, ThreadRow
from perdure.checkpoint.saver import Saver
from perdure.checkpoint.survey import Stretch
from perdure.checkpoint.transfer.port import Arrival, movable
from perdure.checkpoint.transfer.raw import Place, RawRow


class WrappingRecords:
    """A record store that hands every call to another one; subclasses change what they are about.

    Args:
        inner: the record store behind.
    """

    def __init__(self, inner: RecordStore) -> None:
        self.inner = inner

    async def load(
        self,
        thread: str,
        namespace: str | int,
        checkpoint: str | int | BranchName | None,
        *,
        within: int | None = None,
        have: Have | None = None,
    ) -> Loaded:
        """See `RecordStore.load`."""
        return await self.inner.load(thread, namespace, checkpoint, within=within, have=have)

    async def several(self, thread: str, places: Sequence[tuple[int, int]]) -> list[Loaded]:
        """See `RecordStore.several`."""
        return await self.inner.several(thread, places)

    async def page(self, thread: str, namespace: str | int | None, *, before: int | None, limit: int) -> list[Loaded]:
        """See `RecordStore.page`."""
        return await self.inner.page(thread, namespace, before=before, limit=limit)

    async def number_of(self, thread: str, checkpoint: str) -> int | None:
        """See `RecordStore.number_of`."""
        return await self.inner.number_of(thread, checkpoint)

    async def pointer_to(self, thread: str, namespace: int, n: int) -> ChildRow | None:
        """See `RecordStore.pointer_to`."""
        return await self.inner.pointer_to(thread, namespace, n)

    async def branches(self, thread: str) -> dict[str, str]:
        """See `RecordStore.branches`."""
        return await self.inner.branches(thread)

    async def made_of(self, thread: str, checkpoint: str) -> list[tuple[str, str]]:
        """See `RecordStore.made_of`."""
        return await self.inner.made_of(thread, checkpoint)

    async def threads(self, *, after: str | None, limit: int, wanted: ThreadFilter = EVERY) -> list[ThreadRow]:
        """See `RecordStore.threads`."""
        return await self.inner.threads(after=after, limit=limit, wanted=wanted)

    async def recent(self, *, before: tuple[int, str] | None, limit: int, wanted: ThreadFilter = EVERY) -> list[ThreadRow]:
        """See `RecordStore.recent`."""
        return await self.inner.recent(before=before, limit=limit, wanted=wanted)

    async def runs(self, thread: str, *, before: int | None, limit: int) -> list[RunRow]:
        """See `RecordStore.runs`."""
        return await self.inner.runs(thread, before=before, limit=limit)

    async def rows(self, thread: str, after: Place | None, budget: int, *, contents: bool = True) -> Stretch:
        """See `RecordStore.rows`."""
        return await self.inner.rows(thread, after, budget, contents=contents)

    async def reclaim(self, limit: int) -> int:
        """See `RecordStore.reclaim`."""
        return await self.inner.reclaim(limit)

    async def commit(self, commit: Commit) -> None:
        """See `RecordStore.commit`."""
        await self.inner.commit(commit)

    async def renew(self, leases: list[tuple[str, str, int]], lease_ns: int) -> None:
        """See `RecordStore.renew`."""
        await self.inner.renew(leases, lease_ns)

    async def release(self, thread: str, token: str, epoch: int, status: Status, run: RunRow | None = None) -> None:
        """See `RecordStore.release`."""
        await self.inner.release(thread, token, epoch, status, run)

    async def delete(self, thread: str) -> None:
        """See `RecordStore.delete`."""
        await self.inner.delete(thread)

    async def arrive(self, arrival: Arrival) -> None:
        """See `MovableRecords.arrive`."""
        await movable(self.inner).arrive(arrival)

    async def stage(self, arrival: Arrival, rows: Sequence[RawRow]) -> None:
        """See `MovableRecords.stage`."""
        await movable(self.inner).stage(arrival, rows)

    async def staged(self, arrival: Arrival, after: Place | None, budget: int) -> list[RawRow]:
        """See `MovableRecords.staged`."""
        return await movable(self.inner).staged(arrival, after, budget)

    async def admit(self, arrival: Arrival, thread: ThreadRow) -> None:
        """See `MovableRecords.admit`."""
        await movable(self.inner).admit(arrival, thread)

    async def discard(self, arrival: Arrival) -> None:
        """See `MovableRecords.discard`."""
        await movable(self.inner).discard(arrival)

    async def close(self) -> None:
        """See `RecordStore.close`."""
        await self.inner.close()


class _WrappedSaver(Saver):
    def __init__(self, saver: Saver, wrap: Callable[[RecordStore], RecordStore], options: dict[str, Any]) -> None:
        same: dict[str, Any] = {
            "lease_seconds": saver.lease_seconds,
            "persist": saver.persist,
            "clock": saver.clock,
            "retention": saver.retention,
        }
        super().__init__(serde=saver.serde, **same | options)
        self._saver = saver
        blocking, suspending = saver.blocking(), saver.suspending()
        self._blocking = wrap(blocking)
        self._suspending = self._blocking if suspending is blocking else wrap(suspending)

    def learn(self, types: Iterable[Any]) -> None:
        self._saver.learn(types)
        self.serde = self._saver.serde

    def blocking(self) -> RecordStore:
        return self._blocking

    def suspending(self) -> RecordStore:
        return self._suspending


def with_records(saver: Saver, wrap: Callable[[RecordStore], RecordStore], **options: Any) -> Saver:
    """A saver over the same database, with `wrap` between the two.

        saver = with_records(InMemorySaver(), lambda records: FailingRecords(records, fail_on={3}))

    Args:
        saver: a saver of this library; it stays usable, and sees the same threads.
        wrap: makes the record store in front of the given one. Called once for each colour, or once where both share one.
        options: `clock`, `lease_seconds` and `persist` where they differ from the given saver's.
    """
    return _WrappedSaver(saver, wrap, options)
