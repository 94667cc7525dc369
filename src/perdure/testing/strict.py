"""A memory saver for tests that refuses what a database would only keep silent about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from perdure.checkpoint.memory import InMemorySaver
from perdure.checkpoint.records import (
    RESULT,
    BranchName,
    CheckpointRow,
    Commit,
    Have,
    Loaded,
    RecordStore,
    ThreadRow,
    ValueRow,
    WriteRow,
)
from perdure.checkpoint.survey import BUDGET
from perdure.checkpoint.thread_rows import decoded
from perdure.checkpoint.transfer.port import Arrival
from perdure.checkpoint.transfer.raw import Place, place
from perdure.testing.wrapping import WrappingRecords


class StrictMemorySaver(InMemorySaver):
    """`InMemorySaver` that checks, at every call: rows are written once and never change afterwards, numbers are not used twice,
    ids grow, what a row points to is there, and a commit is not empty by mistake.

    A violation is an AssertionError; where a graph runs into it, it is the cause of the SaveFailed that the graph raises.

    Args:
        serde: how values become bytes; `JsonPlusSerializer()` if not given.
        options: as for `InMemorySaver`.
    """

    def __init__(self, *, serde: Any = None, **options: Any) -> None:
        super().__init__(serde=serde, **options)
        self._strict = StrictRecords(super().blocking())

    def blocking(self) -> RecordStore:
        """The records, checked."""
        return self._strict

    def suspending(self) -> RecordStore:
        """The records, checked."""
        return self._strict


class StrictRecords(WrappingRecords):
    """Checks what passes. See `StrictMemorySaver`."""

    def __init__(self, inner: RecordStore) -> None:
        super().__init__(inner)
        self._seen: dict[str, dict[Any, str]] = {}
        self._ids: dict[tuple[str, int], str] = {}
        self._rows: dict[tuple[str, int], CheckpointRow] = {}

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
        loaded = await super().load(thread, namespace, checkpoint, within=within, have=have)
        self._unchanged(thread, loaded)
        return loaded

    async def page(self, thread: str, namespace: str | int | None, *, before: int | None, limit: int) -> list[Loaded]:
        """See `RecordStore.page`."""
        page = await super().page(thread, namespace, before=before, limit=limit)
        for loaded in page:
            self._unchanged(thread, loaded)
        return page

    async def commit(self, commit: Commit) -> None:
        """See `RecordStore.commit`.

        Raises:
            AssertionError: it is not what it should be; nothing was stored.
        """
        seen = self._seen.get(commit.thread, {})
        self._check(commit, seen)
        self._check_retention(commit, seen)
        await super().commit(commit)
        self._remember(commit)
        self._forget(commit, self._seen[commit.thread])

    async def delete(self, thread: str) -> None:
        """See `RecordStore.delete`."""
        await super().delete(thread)
        self._drop(thread)

    async def admit(self, arrival: Arrival, thread: ThreadRow) -> None:
        """See `MovableRecords.admit`: what has arrived counts as stored from now on."""
        await super().admit(arrival, thread)
        self._drop(thread.thread)
        after: Place | None = None
        while rows := (await self.inner.rows(thread.thread, after, BUDGET)).rows:
            found = decoded(rows)
            values = [ValueRow(n, packed) for n, packed in found.values.items()]
            self._learn(thread.thread, [*found.namespaces.items()], values, found.checkpoints, found.writes)
            after = place(rows[-1])

    def _drop(self, thread: str) -> None:
        self._seen.pop(thread, None)
        self._rows = {place: row for place, row in self._rows.items() if place[0] != thread}
        self._ids = {place: newest for place, newest in self._ids.items() if place[0] != thread}

    def _check(self, commit: Commit, seen: dict[Any, str]) -> None:
        numbers = [
            *(row.n for row in commit.checkpoints),
            *(row.n for row in commit.values),
            *(ns for ns, _ in commit.namespaces),
        ]
        _demand(len(numbers) == len(set(numbers)), f"a commit uses a number twice: {sorted(numbers)}")
        for n in numbers:
            _demand(("n", n) not in seen, f"number {n} of thread {commit.thread!r} was used before")
            _demand(0 < n < commit.next_n, f"number {n} is not below the first free one, {commit.next_n}")
        known = {key[1] for key in seen if key[0] == "n"} | set(numbers)
        for row in commit.checkpoints:
            # Of its namespace: subgraphs that run side by side commit in any order.
            newest = self._ids.get((commit.thread, row.ns), "")
            _demand(row.parent is None or row.parent in known, f"checkpoint {row.n} hangs on {row.parent}, which is not stored")
            _demand(row.full or row.base != row.n, f"checkpoint {row.n} is its own base, but does not hold all channels")
            _demand(row.id > newest or row.extra is not None, f"checkpoint id {row.id} is not later than {newest} (P24)")
            for key, entry in row.changes.items():
                ref = None if entry is None else entry.ref
                _demand(
                    ref is None or ref in known,
                    f"channel {key!r} of checkpoint {row.n} refers to value {ref}, which is not stored",
                )
        for write in commit.writes:
            _demand(
                write.origin in known, f"a write of {write.path!r} belongs to checkpoint {write.origin}, which is not stored"
            )
            _demand(bool(write.items) or write.kind != RESULT, f"the result of {write.path!r} has no items")
        empty = not (numbers or commit.writes or commit.children or commit.replaced or commit.removed)
        _demand(not empty or commit.lease != "keep", f"a commit to thread {commit.thread!r} stores nothing")

    def _check_retention(self, commit: Commit, seen: dict[Any, str]) -> None:
        """What is written anew says the same as before, and what goes is not what stays hangs on."""
        if not commit.replaced and commit.removed is None:
            return
        _demand(commit.lease == "once", "retention takes rows away from a thread that somebody holds")
        for row in commit.replaced:
            old = self._rows.get((commit.thread, row.n))
            _demand(("n", row.n) in seen and old is not None, f"checkpoint {row.n} is written anew, but is not stored")
            if old is not None:
                same = replace(row, parent=old.parent, base=old.base, full=old.full, changes=old.changes)
                _demand(same == old, f"checkpoint {row.n} is another one when it is written anew")
                _demand(row.changes.items() >= old.changes.items() or row.full, f"checkpoint {row.n} loses what it changed")
        rows = {place[1]: row for place, row in self._rows.items() if place[0] == commit.thread}
        rows.update((row.n, row) for row in commit.replaced)
        if commit.removed is not None and not commit.removed.thread:
            gone = {n for _, n in commit.removed.checkpoints}
            for row in rows.values():
                _demand(
                    row.n in gone or gone.isdisjoint((row.parent, row.base)),
                    f"checkpoint {row.n} stays, but its parent or its base goes",
                )

    def _forget(self, commit: Commit, seen: dict[Any, str]) -> None:
        if commit.removed is None:
            return
        if commit.removed.thread:
            self._drop(commit.thread)
            return
        for ns, origin, path, kind in commit.removed.writes:
            if kind == RESULT:
                seen.pop(("w", ns, origin, path), None)
        for n in (*(n for _, n in commit.removed.checkpoints), *commit.removed.namespaces, *commit.removed.values):
            seen.pop(("n", n), None)
            self._rows.pop((commit.thread, n), None)

    def _remember(self, commit: Commit) -> None:
        self._learn(commit.thread, commit.namespaces, commit.values, commit.checkpoints, commit.writes)
        for row in commit.replaced:
            self._seen[commit.thread]["n", row.n] = repr(row)
            self._rows[commit.thread, row.n] = row

    def _learn(
        self,
        thread: str,
        namespaces: Sequence[tuple[int, str]],
        values: Sequence[ValueRow],
        checkpoints: Sequence[CheckpointRow],
        writes: Sequence[WriteRow],
    ) -> None:
        seen = self._seen.setdefault(thread, {})
        for ns, name in namespaces:
            seen["n", ns] = name
        for value in values:
            seen["n", value.n] = repr(value.packed)
        for row in checkpoints:
            seen["n", row.n] = repr(row)
            self._rows[thread, row.n] = row
            self._ids[thread, row.ns] = max(self._ids.get((thread, row.ns), ""), row.id)
        for write in writes:
            if write.kind == RESULT:
                seen.setdefault(("w", write.ns, write.origin, write.path), repr(write))

    def _unchanged(self, thread: str, loaded: Loaded) -> None:
        seen = self._seen.get(thread, {})
        for row in loaded.chain:
            _demand(
                seen.get(("n", row.n), repr(row)) == repr(row),
                f"checkpoint {row.n} of thread {thread!r} changed after it was stored",
            )
        for n, packed in loaded.values.items():
            _demand(
                seen.get(("n", n), repr(packed)) == repr(packed), f"value {n} of thread {thread!r} changed after it was stored"
            )
        for write in loaded.writes:
            before = seen.get(("w", write.ns, write.origin, write.path)) if write.kind == RESULT else None
            _demand(
                before in {None, repr(write)}, f"the result of {write.path!r} in thread {thread!r} changed after it was stored"
            )


def _demand(condition: bool, otherwise: str) -> None:
    if not condition:
        raise AssertionError(otherwise)
