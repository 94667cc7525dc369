"""The record store that is a dictionary: every row as it is, nothing shared with the caller but immutable bytes."""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace
from hashlib import blake2b

from perdure.backends.memory import moving, removing
from perdure.backends.memory.thread import MemoryThread, refuse_twice
from perdure.checkpoint.index.records import EVERY, RunRow, ThreadFilter
from perdure.checkpoint.leases import lease
from perdure.checkpoint.reading import ancestors, folded, ids_of, is_open, origins_of, spans_of, without
from perdure.checkpoint.records import (
    ROOT_NS,
    BranchName,
    CheckpointRow,
    ChildRow,
    Commit,
    Have,
    LeaseRow,
    Loaded,
    Status,
    ThreadRow,
)
from perdure.checkpoint.survey import Stretch
from perdure.checkpoint.transfer.arrivals import exists, given_up, is_given_up
from perdure.checkpoint.transfer.port import Arrival
from perdure.checkpoint.transfer.raw import Place, RawRow
from perdure.clock import SYSTEM_CLOCK, Clock
from perdure.errors import SaverClosed
from perdure.failpoints import failpoint
from perdure.turns import is_held_here, refuse_inside, turn_lock


class MemoryRecords:
    """See `perdure.checkpoint.records.RecordStore`.

    Notes:
        One lock guards all threads; it is held for dictionary work only, so callers of both colours may share this object.
        Deleted ids leave a keyed hash, not the id.

    Args:
        clock: by which leases run out.
    """

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._threads: dict[str, MemoryThread] = {}
        self._tombstones: dict[bytes, int] = {}
        self._arrivals: dict[str, tuple[LeaseRow, MemoryThread]] = {}
        self._secret = os.urandom(16)
        self._lock = turn_lock()
        self._closed = False

    def _hash(self, thread: str) -> bytes:
        return blake2b(thread.encode("utf-8", "surrogatepass"), key=self._secret, digest_size=16).digest()

    def _open(self) -> None:
        if self._closed:
            raise SaverClosed("this saver was closed")
        if is_held_here(self._lock):
            refuse_inside("this saver")

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
        self._open()
        with self._lock:
            found = self._threads.get(thread)
            if found is None:
                deleted = self._tombstones.get(self._hash(thread), 0) if self._tombstones else 0
                return Loaded(ThreadRow(thread, incarnation=deleted + 1), None)
            ns = found.number_of_namespace(namespace)
            n = self._wanted(found, ns, checkpoint, within)
            row = None if n is None else found.checkpoints.get(n)
            if row is None or row.ns != ns:
                loaded = Loaded(self._copy(found.row), None)
                if ns in found.names:
                    loaded.namespaces[ns] = found.names[ns]
                return loaded
            return self._loaded(found, row, have if have is not None and have.is_of(found.row.incarnation, row.id) else None)

    def _wanted(
        self, found: MemoryThread, ns: int | None, checkpoint: str | int | BranchName | None, within: int | None
    ) -> int | None:
        if isinstance(checkpoint, int):
            return checkpoint
        if isinstance(checkpoint, BranchName):
            return found.branches.get(checkpoint.name)
        if checkpoint is not None:
            return found.by_id.get(checkpoint)
        if ns == ROOT_NS and within is None:
            return found.row.head
        order = found.order.get(-1 if ns is None else ns, [])
        at = len(order) if within is None else bisect_left(order, within + 1)
        return order[at - 1] if at else None

    def _loaded(self, found: MemoryThread, row: CheckpointRow, have: Have | None = None) -> Loaded:
        chain = ancestors(found.checkpoints, row) if row.base != row.n else [row]
        origins = origins_of(row)
        writes = [w for origin in origins if origin in found.writes for w in found.writes[origin].values() if w.ns == row.ns]
        children = [
            c for origin in origins if origin in found.children for c in found.children[origin].values() if c.ns == row.ns
        ]
        entries = folded(chain)
        values = found.values
        spans = spans_of(without(entries, have).values(), writes)
        names = {row.ns: found.names[row.ns], **{c.child_ns: found.names[c.child_ns] for c in children}}
        return Loaded(
            self._copy(found.row),
            row,
            chain,
            writes,
            children,
            {n: values[n] for first, last in spans for n in range(first, last + 1) if n in values},
            {n: found.checkpoints[n].id for n in ids_of(row) if n in found.checkpoints},
            names,
            is_open(entries.values()) and found.order[row.ns][-1] == row.n,
            have is not None,
        )

    async def several(self, thread: str, places: Sequence[tuple[int, int]]) -> list[Loaded]:
        """See `RecordStore.several`."""
        self._open()
        with self._lock:
            found = self._threads.get(thread)
            rows = [] if found is None else [found.checkpoints.get(n) for _, n in places]
            return [self._loaded(found, row) for row in rows if found is not None and row is not None]

    async def page(self, thread: str, namespace: str | int | None, *, before: int | None, limit: int) -> list[Loaded]:
        """See `RecordStore.page`."""
        self._open()
        with self._lock:
            found = self._threads.get(thread)
            if found is None or limit <= 0:
                return []
            if namespace is None:
                order = sorted(found.checkpoints)
            else:
                ns = found.number_of_namespace(namespace)
                order = [] if ns is None else found.order.get(ns, [])
            end = len(order) if before is None else bisect_left(order, before)
            return [self._loaded(found, found.checkpoints[n]) for n in reversed(order[max(0, end - limit) : end])]

    async def number_of(self, thread: str, checkpoint: str) -> int | None:
        """See `RecordStore.number_of`."""
        self._open()
        with self._lock:
            found = self._threads.get(thread)
            return None if found is None else found.by_id.get(checkpoint)

    async def pointer_to(self, thread: str, namespace: int, n: int) -> ChildRow | None:
        """See `RecordStore.pointer_to`."""
        self._open()
        with self._lock:
            found = self._threads.get(thread)
            rows = () if found is None else (c for filed in found.children.values() for c in filed.values())
            reached = (c for c in rows if c.child_ns == namespace and c.head >= n)
            return min(reached, key=lambda c: (c.head, c.origin), default=None)

    async def branches(self, thread: str) -> dict[str, str]:
        """See `RecordStore.branches`."""
        self._open()
        with self._lock:
            found = self._threads.get(thread)
            named = {} if found is None else found.branches
            return {name: found.checkpoints[named[name]].id for name in sorted(named)} if found is not None else {}

    async def made_of(self, thread: str, checkpoint: str) -> list[tuple[str, str]]:
        """See `RecordStore.made_of`."""
        self._open()
        with self._lock:
            found = self._threads.get(thread)
            n = None if found is None else found.by_id.get(checkpoint)
            if found is None or n is None:
                return []
            ns = found.checkpoints[n].ns
            order = found.order[ns]
            after = (found.checkpoints[m] for m in order[bisect_left(order, n + 1) :])
            return [(found.names[ns], row.id) for row in after if row.parent == n]

    async def threads(self, *, after: str | None, limit: int, wanted: ThreadFilter = EVERY) -> list[ThreadRow]:
        """See `RecordStore.threads`."""
        self._open()
        with self._lock:
            rows = (one.row for one in self._threads.values() if wanted.allows(one.row))
            found = sorted((row for row in rows if after is None or row.thread > after), key=lambda row: row.thread)
            return [self._copy(row) for row in found[: max(0, limit)]]

    async def recent(self, *, before: tuple[int, str] | None, limit: int, wanted: ThreadFilter = EVERY) -> list[ThreadRow]:
        """See `RecordStore.recent`."""
        self._open()
        with self._lock:
            rows = (one.row for one in self._threads.values() if wanted.allows(one.row))
            placed = [((row.updated_ns, row.thread), row) for row in rows]
            found = sorted((each for each in placed if before is None or each[0] < before), key=lambda each: each[0])
            return [self._copy(row) for _, row in found[::-1][: max(0, limit)]]

    async def runs(self, thread: str, *, before: int | None, limit: int) -> list[RunRow]:
        """See `RecordStore.runs`."""
        self._open()
        with self._lock:
            found = self._threads.get(thread)
            epochs = [] if found is None else sorted(found.runs, reverse=True)
            wanted = [epoch for epoch in epochs if before is None or epoch < before][: max(0, limit)]
            return [] if found is None else [found.runs[epoch] for epoch in wanted]

    async def reclaim(self, limit: int) -> int:
        """See `RecordStore.reclaim`: memory is the interpreter's business."""
        self._open()
        return 0

    async def commit(self, commit: Commit) -> None:
        """See `RecordStore.commit`."""
        self._open()
        with self._lock:
            found = self._threads.get(commit.thread)
            self._check(commit, None if found is None else found.row)
            failpoint("memory.commit.before")
            if found is None:
                row = ThreadRow(
                    commit.thread, commit.thread, commit.incarnation, created_ns=commit.now_ns, updated_ns=commit.now_ns
                )
                found = MemoryThread(row)
            if commit.values:
                refuse_twice(found, commit)
            after = lease.after(commit, found.row.lease, self._clock.now_ns())
            try:
                self._store(found, commit, after)
            except BaseException:
                # Ctrl-C has come in between: a step is stored as a whole or not at all (P1). Doing it again does the rest.
                self._store(found, commit, after)
                raise

    def _store(self, found: MemoryThread, commit: Commit, after: LeaseRow) -> None:
        """Doing it twice is the same as doing it once."""
        if commit.run is not None:
            found.note(commit.run, None if commit.lease in {"keep", "release"} else commit.epoch)
        for ns, name in commit.namespaces:
            found.names[ns] = name
            found.numbers[name] = ns
        for checkpoint in commit.checkpoints:
            found.checkpoints[checkpoint.n] = checkpoint
            found.by_id[checkpoint.id] = checkpoint.n
            order = found.order.setdefault(checkpoint.ns, [])
            if not order or order[-1] < checkpoint.n:
                order.append(checkpoint.n)
            elif order[at := bisect_left(order, checkpoint.n)] != checkpoint.n:
                order.insert(at, checkpoint.n)
        for value in commit.values:
            found.values[value.n] = value.packed
        for write in commit.writes:
            filed = found.writes.setdefault(write.origin, {})
            key = (write.ns, write.path, write.kind)
            if write.kind < 0 or key not in filed:
                filed[key] = write
        for name, head in commit.branches:
            found.name(name, head)
        for child in commit.children:
            found.children.setdefault(child.origin, {})[child.ns, child.path, child.call] = child
        self._move(found.row, commit, after)
        self._threads[commit.thread] = found
        if commit.replaced or commit.removed is not None:
            self._retain(found, commit)

    def _retain(self, found: MemoryThread, commit: Commit) -> None:
        for row in commit.replaced:
            found.checkpoints[row.n] = row
        if commit.removed is not None:
            removing.remove(found, commit.removed)
            if commit.removed.thread:
                self._forget(commit.thread)

    def _check(self, commit: Commit, row: ThreadRow | None) -> None:
        if row is not None and commit.lease in ("keep", "release"):
            held = row.lease
            if held.token == commit.token and held.epoch == commit.epoch and row.incarnation == commit.incarnation:
                return
        tombstone = self._tombstones.get(self._hash(commit.thread), 0) if row is None and self._tombstones else 0
        lease.check(commit, None if row is None else self._copy(row), tombstone=tombstone)

    def _move(self, row: ThreadRow, commit: Commit, after: LeaseRow) -> None:
        if commit.lease == "keep":
            row.lease.expires_ns = after.expires_ns
        else:
            row.lease = after
        row.next_n = max(row.next_n, commit.next_n)
        row.newest = max(row.newest, commit.newest)
        if commit.head is not None:
            row.head = commit.head
        update = commit.update
        if update is not None:
            row.status = update.status
            row.updated_ns = commit.now_ns
            row.graph = row.graph if update.graph is None else update.graph
            row.fingerprint = row.fingerprint if update.fingerprint is None else update.fingerprint
            row.metadata = row.metadata if update.metadata is None else dict(update.metadata)

    async def renew(self, leases: list[tuple[str, str, int]], lease_ns: int) -> None:
        """See `RecordStore.renew`."""
        self._open()
        with self._lock:
            expires_ns = self._clock.now_ns() + lease_ns
            for thread, token, epoch in leases:
                found = self._threads.get(thread)
                if found is not None and (found.row.lease.token, found.row.lease.epoch) == (token, epoch):
                    found.row.lease.expires_ns = expires_ns

    async def release(self, thread: str, token: str, epoch: int, status: Status, run: RunRow | None = None) -> None:
        """See `RecordStore.release`."""
        self._open()
        with self._lock:
            found = self._threads.get(thread)
            if found is not None and (found.row.lease.token, found.row.lease.epoch) == (token, epoch):
                found.row.lease = LeaseRow(None, epoch)
                found.row.status = status
                if run is not None:
                    found.runs[run.epoch] = run
                    found.row.updated_ns = max(found.row.updated_ns, run.ended_ns or 0)

    async def delete(self, thread: str) -> None:
        """See `RecordStore.delete`."""
        self._open()
        with self._lock:
            self._forget(thread)

    def _forget(self, thread: str) -> None:
        found = self._threads.get(thread)
        if found is not None:
            self._tombstones[self._hash(thread)] = found.row.incarnation
            self._threads.pop(thread, None)

    async def rows(self, thread: str, after: Place | None, budget: int, *, contents: bool = True) -> Stretch:
        """See `RecordStore.rows`."""
        self._open()
        with self._lock:
            found = self._threads.get(thread)
            if found is None:
                return Stretch(None, [])
            return Stretch(self._copy(found.row), moving.rows_after(found, after, budget, contents=contents))

    async def arrive(self, arrival: Arrival) -> None:
        """See `MovableRecords.arrive`."""
        self._open()
        with self._lock:
            for token in [name for name, (held, _) in self._arrivals.items() if is_given_up(held, arrival.now_ns)]:
                del self._arrivals[token]
            self._arrivals[arrival.token] = self._held(arrival), MemoryThread(ThreadRow(""))

    def _held(self, arrival: Arrival) -> LeaseRow:
        return LeaseRow(arrival.token, 0, arrival.now_ns + arrival.lease_ns, arrival.holder)

    def _arriving(self, arrival: Arrival) -> MemoryThread:
        if arrival.token not in self._arrivals:
            raise given_up()
        return self._arrivals[arrival.token][1]

    async def stage(self, arrival: Arrival, rows: Sequence[RawRow]) -> None:
        """See `MovableRecords.stage`."""
        self._open()
        with self._lock:
            found = self._arriving(arrival)
            for row in rows:
                moving.put(found, row)
            self._arrivals[arrival.token] = self._held(arrival), found

    async def staged(self, arrival: Arrival, after: Place | None, budget: int) -> list[RawRow]:
        """See `MovableRecords.staged`."""
        self._open()
        with self._lock:
            return moving.rows_after(self._arriving(arrival), after, budget)

    async def admit(self, arrival: Arrival, thread: ThreadRow) -> None:
        """See `MovableRecords.admit`."""
        self._open()
        with self._lock:
            found = self._arriving(arrival)
            if thread.thread in self._threads:
                raise exists(thread.thread)
            incarnation = self._tombstones.get(self._hash(thread.thread), 0) + 1
            found.row = replace(self._copy(thread), key=thread.thread, incarnation=incarnation, lease=LeaseRow())
            self._threads[thread.thread] = found
            del self._arrivals[arrival.token]

    async def discard(self, arrival: Arrival) -> None:
        """See `MovableRecords.discard`."""
        self._open()
        with self._lock:
            self._arrivals.pop(arrival.token, None)

    async def close(self) -> None:
        """See `RecordStore.close`."""
        self._closed = True

    def _copy(self, row: ThreadRow) -> ThreadRow:
        held = row.lease
        expired = held.token is not None and held.expires_ns <= self._clock.now_ns()
        return replace(row, lease=replace(held, expired=expired), metadata=dict(row.metadata))
