"""How often a call goes to the database: each call of a record store is one round trip there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from perdure.checkpoint.index.records import EVERY, RunRow, ThreadFilter
from perdure.checkpoint.records import BranchName, ChildRow, Commit, Have, Loaded, RecordStore, Status, ThreadRow
from perdure.checkpoint.survey import Stretch
from perdure.checkpoint.transfer.port import Arrival
from perdure.checkpoint.transfer.raw import Place, RawRow
from perdure.testing.wrapping import WrappingRecords


class RoundTrips:
    """What was counted.

    Attributes:
        calls: how often each method was called.
        commits: what was committed, in order.
        read: how many checkpoints came back.
        values: how many value rows came back with them.
    """

    __slots__ = ("calls", "commits", "read", "values")

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self.commits: list[Commit] = []
        self.read = 0
        self.values = 0

    def reset(self) -> None:
        """Begin anew."""
        self.calls.clear()
        self.commits.clear()
        self.read = 0
        self.values = 0

    @property
    def total(self) -> int:
        """All round trips."""
        return self.calls.total()

    def records(self, inner: RecordStore) -> CountingRecords:
        """For `with_records`: counts here, in both colours."""
        return CountingRecords(inner, self)


class CountingRecords(WrappingRecords):
    """Counts the calls that pass.

    Args:
        inner: the record store behind.
        trips: where to count.
    """

    def __init__(self, inner: RecordStore, trips: RoundTrips) -> None:
        super().__init__(inner)
        self.trips = trips

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
        self.trips.calls["load"] += 1
        loaded = await super().load(thread, namespace, checkpoint, within=within, have=have)
        self.trips.read += loaded.row is not None
        self.trips.values += len(loaded.values)
        return loaded

    async def several(self, thread: str, places: Sequence[tuple[int, int]]) -> list[Loaded]:
        """See `RecordStore.several`."""
        self.trips.calls["several"] += 1
        found = await super().several(thread, places)
        self.trips.read += len(found)
        self.trips.values += sum(len(loaded.values) for loaded in found)
        return found

    async def page(self, thread: str, namespace: str | int | None, *, before: int | None, limit: int) -> list[Loaded]:
        """See `RecordStore.page`."""
        self.trips.calls["page"] += 1
        page = await super().page(thread, namespace, before=before, limit=limit)
        self.trips.read += len(page)
        self.trips.values += sum(len(loaded.values) for loaded in page)
        return page

    async def number_of(self, thread: str, checkpoint: str) -> int | None:
        """See `RecordStore.number_of`."""
        self.trips.calls["number_of"] += 1
        return await super().number_of(thread, checkpoint)

    async def pointer_to(self, thread: str, namespace: int, n: int) -> ChildRow | None:
        """See `RecordStore.pointer_to`."""
        self.trips.calls["pointer_to"] += 1
        return await super().pointer_to(thread, namespace, n)

    async def branches(self, thread: str) -> dict[str, str]:
        """See `RecordStore.branches`."""
        self.trips.calls["branches"] += 1
        return await super().branches(thread)

    async def made_of(self, thread: str, checkpoint: str) -> list[tuple[str, str]]:
        """See `RecordStore.made_of`."""
        self.trips.calls["made_of"] += 1
        return await super().made_of(thread, checkpoint)

    async def threads(self, *, after: str | None, limit: int, wanted: ThreadFilter = EVERY) -> list[ThreadRow]:
        """See `RecordStore.threads`."""
        self.trips.calls["threads"] += 1
        return await super().threads(after=after, limit=limit, wanted=wanted)

    async def recent(self, *, before: tuple[int, str] | None, limit: int, wanted: ThreadFilter = EVERY) -> list[ThreadRow]:
        """See `RecordStore.recent`."""
        self.trips.calls["recent"] += 1
        return await super().recent(before=before, limit=limit, wanted=wanted)

    async def runs(self, thread: str, *, before: int | None, limit: int) -> list[RunRow]:
        """See `RecordStore.runs`."""
        self.trips.calls["runs"] += 1
        return await super().runs(thread, before=before, limit=limit)

    async def rows(self, thread: str, after: Place | None, budget: int, *, contents: bool = True) -> Stretch:
        """See `RecordStore.rows`."""
        self.trips.calls["rows"] += 1
        return await super().rows(thread, after, budget, contents=contents)

    async def reclaim(self, limit: int) -> int:
        """See `RecordStore.reclaim`."""
        self.trips.calls["reclaim"] += 1
        return await super().reclaim(limit)

    async def commit(self, commit: Commit) -> None:
        """See `RecordStore.commit`."""
        self.trips.calls["commit"] += 1
        self.trips.commits.append(commit)
        await super().commit(commit)

    async def release(self, thread: str, token: str, epoch: int, status: Status, run: RunRow | None = None) -> None:
        """See `RecordStore.release`."""
        self.trips.calls["release"] += 1
        await super().release(thread, token, epoch, status, run)

    async def delete(self, thread: str) -> None:
        """See `RecordStore.delete`."""
        self.trips.calls["delete"] += 1
        await super().delete(thread)

    async def renew(self, leases: list[tuple[str, str, int]], lease_ns: int) -> None:
        """See `RecordStore.renew`."""
        self.trips.calls["renew"] += 1
        await super().renew(leases, lease_ns)

    async def arrive(self, arrival: Arrival) -> None:
        """See `MovableRecords.arrive`."""
        self.trips.calls["arrive"] += 1
        await super().arrive(arrival)

    async def stage(self, arrival: Arrival, rows: Sequence[RawRow]) -> None:
        """See `MovableRecords.stage`."""
        self.trips.calls["stage"] += 1
        await super().stage(arrival, rows)

    async def staged(self, arrival: Arrival, after: Place | None, budget: int) -> list[RawRow]:
        """See `MovableRecords.staged`."""
        self.trips.calls["staged"] += 1
        return await super().staged(arrival, after, budget)

    async def admit(self, arrival: Arrival, thread: ThreadRow) -> None:
        """See `MovableRecords.admit`."""
        self.trips.calls["admit"] += 1
        await super().admit(arrival, thread)

    async def discard(self, arrival: Arrival) -> None:
        """See `MovableRecords.discard`."""
        self.trips.calls["discard"] += 1
        await super().discard(arrival)
