"""SQLite as a `RecordStore`: encodes what is written, decides nothing, and runs one transaction script a call."""

from __future__ import annotations

from collections.abc import Sequence

from perdure.backends.sqlite import committing, loading, moving, removing
from perdure.backends.sqlite.connections import SqlitePort
from perdure.checkpoint.index.records import EVERY, RunRow, ThreadFilter
from perdure.checkpoint.records import BranchName, ChildRow, Commit, Have, Loaded, Status, ThreadRow
from perdure.checkpoint.survey import Stretch
from perdure.checkpoint.transfer.port import Arrival
from perdure.checkpoint.transfer.raw import Place, RawRow


class SqliteRecords:
    """The rows of threads in a SQLite database, for callers of the colour of its port.

        shared = open_sqlite("app.db")
        blocking, suspending = SqliteRecords(shared.blocking()), SqliteRecords(shared.suspending())

    sqlite3's own errors (disk full, locked, read-only) pass through as they are; a damaged file is a CorruptRecord.
    """

    __slots__ = ("_port",)

    def __init__(self, port: SqlitePort) -> None:
        self._port = port

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
        return await self._port.run(loading.load, thread, namespace, checkpoint, within, have)

    async def several(self, thread: str, places: Sequence[tuple[int, int]]) -> list[Loaded]:
        """See `RecordStore.several`."""
        return await self._port.run(loading.several, thread, places)

    async def page(self, thread: str, namespace: str | int | None, *, before: int | None, limit: int) -> list[Loaded]:
        """See `RecordStore.page`."""
        return await self._port.run(loading.page, thread, namespace, before, limit)

    async def number_of(self, thread: str, checkpoint: str) -> int | None:
        """See `RecordStore.number_of`."""
        return await self._port.run(loading.number_of, thread, checkpoint)

    async def pointer_to(self, thread: str, namespace: int, n: int) -> ChildRow | None:
        """See `RecordStore.pointer_to`."""
        return await self._port.run(loading.pointer_to, thread, namespace, n)

    async def branches(self, thread: str) -> dict[str, str]:
        """See `RecordStore.branches`."""
        return await self._port.run(loading.branches, thread)

    async def made_of(self, thread: str, checkpoint: str) -> list[tuple[str, str]]:
        """See `RecordStore.made_of`."""
        return await self._port.run(loading.made_of, thread, checkpoint)

    async def threads(self, *, after: str | None, limit: int, wanted: ThreadFilter = EVERY) -> list[ThreadRow]:
        """See `RecordStore.threads`."""
        return await self._port.run(loading.threads, after, limit, wanted)

    async def recent(self, *, before: tuple[int, str] | None, limit: int, wanted: ThreadFilter = EVERY) -> list[ThreadRow]:
        """See `RecordStore.recent`."""
        return await self._port.run(loading.recent, before, limit, wanted)

    async def runs(self, thread: str, *, before: int | None, limit: int) -> list[RunRow]:
        """See `RecordStore.runs`."""
        return await self._port.run(loading.runs, thread, before, limit)

    async def reclaim(self, limit: int) -> int:
        """See `RecordStore.reclaim`."""
        return await self._port.run(removing.reclaim, limit)

    async def commit(self, commit: Commit) -> None:
        """See `RecordStore.commit`."""
        await self._port.finish(committing.commit, commit, committing.encode(commit), begun=commit.is_begun)

    async def renew(self, leases: list[tuple[str, str, int]], lease_ns: int) -> None:
        """See `RecordStore.renew`."""
        if leases:
            await self._port.run(committing.renew, leases, lease_ns)

    async def release(self, thread: str, token: str, epoch: int, status: Status, run: RunRow | None = None) -> None:
        """See `RecordStore.release`."""
        await self._port.finish(committing.release, thread, token, epoch, status, run, self._port.clock.now_ns())

    async def delete(self, thread: str) -> None:
        """See `RecordStore.delete`."""
        await self._port.run(removing.delete, thread, self._port.clock.now_ns())

    async def rows(self, thread: str, after: Place | None, budget: int, *, contents: bool = True) -> Stretch:
        """See `RecordStore.rows`."""
        return await self._port.run(moving.rows, thread, after, budget, contents)

    async def arrive(self, arrival: Arrival) -> None:
        """See `MovableRecords.arrive`."""
        await self._port.run(moving.arrive, arrival)

    async def stage(self, arrival: Arrival, rows: Sequence[RawRow]) -> None:
        """See `MovableRecords.stage`."""
        await self._port.run(moving.stage, arrival, rows)

    async def staged(self, arrival: Arrival, after: Place | None, budget: int) -> list[RawRow]:
        """See `MovableRecords.staged`."""
        return await self._port.run(moving.staged, arrival, after, budget)

    async def admit(self, arrival: Arrival, thread: ThreadRow) -> None:
        """See `MovableRecords.admit`."""
        await self._port.finish(moving.admit, arrival, thread)

    async def discard(self, arrival: Arrival) -> None:
        """See `MovableRecords.discard`."""
        await self._port.finish(moving.discard, arrival)

    async def close(self) -> None:
        """See `RecordStore.close`."""
        await self._port.close()
