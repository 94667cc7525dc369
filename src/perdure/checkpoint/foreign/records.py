"""The record store over the four methods of somebody else's saver.

One is made for each call of a graph and serves one thread: it remembers where the numbers of that thread lead, which the saver,
who knows ids only, cannot say.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from perdure.checkpoint.foreign.connections import (
    BlockingConnection,
    Connection,
    SuspendingConnection,
    takes_task_path,
)
from perdure.checkpoint.foreign.shapes import (
    Pointer,
    belongings,
    checkpoint_of,
    config_of,
    pointer_write,
    pointers_on,
    row_of,
    task_of,
    writes_of,
)
from perdure.checkpoint.index.records import EVERY, RunRow, ThreadFilter
from perdure.checkpoint.reading import origins_of
from perdure.checkpoint.records import (
    ERROR,
    PAUSES,
    RESULT,
    ROOT_NS,
    BranchName,
    CheckpointRow,
    ChildRow,
    Commit,
    Entry,
    Have,
    Loaded,
    Status,
    ThreadRow,
    WriteRow,
)
from perdure.checkpoint.survey import Stretch
from perdure.checkpoint.transfer.raw import Place
from perdure.clock import SYSTEM_CLOCK
from perdure.constants import CONF
from perdure.errors import CorruptRecord, InvalidConfig
from perdure.ids import task_id, ticks_in

if TYPE_CHECKING:
    from perdure.checkpoint.base import BaseCheckpointSaver, CheckpointTuple


class ForeignRecords:
    """See `perdure.checkpoint.records.RecordStore`. Commits are several calls, leases are not kept, nothing is ever stale.

    Args:
        saver: whose methods to call.
        blocking: call it from sync code.
    """

    def __init__(self, saver: BaseCheckpointSaver[Any], *, blocking: bool) -> None:
        self._saver: Connection = BlockingConnection(saver) if blocking else SuspendingConnection(saver)
        self._kind = type(saver).__name__
        self._with_path = takes_task_path(saver, blocking=blocking)
        self._ids: dict[int, str] = {}
        self._names: dict[int, str] = {ROOT_NS: ""}
        self._entries: dict[int, dict[str, Entry]] = {}
        self._thread: ThreadRow | None = None

    # -- reading ----------------------------------------------------------------------------------------------------------

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
        if isinstance(checkpoint, BranchName):
            raise self._no_names(checkpoint.name)
        name = self._name_of(namespace)
        found = None if name is None else await self._find(thread, name, checkpoint, within)
        is_head = name == "" and checkpoint is None and within is None
        known = self._thread
        if not is_head and known is None:
            head = await self._saver.call("get_tuple", config_of(thread, ""))
            known = (await self._loaded(thread, "", head)).thread if head is not None else ThreadRow(thread)
        if found is None or name is None:
            loaded = Loaded(ThreadRow(thread) if is_head or known is None else known, None)
        else:
            loaded = await self._loaded(thread, name, found)
            loaded.thread = loaded.thread if is_head or known is None else known
            self._entries[_row(loaded).n] = {key: entry for key, entry in _row(loaded).changes.items() if entry is not None}
        self._thread = loaded.thread
        return loaded

    async def _find(self, thread: str, name: str, checkpoint: str | int | None, within: int | None) -> CheckpointTuple | None:
        public = self._ids.get(checkpoint) if isinstance(checkpoint, int) else checkpoint
        if public is not None or (checkpoint is None and within is None):
            return await self._saver.call("get_tuple", config_of(thread, name, public))  # type: ignore[no-any-return]
        for found in await self._saver.list(config_of(thread, name)):
            n = row_of(found)[0].n
            if n == checkpoint or (within is not None and n <= within):
                return found
        return None

    def _name_of(self, namespace: str | int) -> str | None:
        return self._names.get(namespace) if isinstance(namespace, int) else namespace

    async def _loaded(
        self, thread: str, name: str, found: CheckpointTuple, near: Mapping[str, CheckpointTuple] | None = None
    ) -> Loaded:
        """A stored checkpoint with the writes of its tasks, which lie with the checkpoints where they were triggered."""
        row, ids, next_n, status = row_of(found)
        if name and row.ns == ROOT_NS:
            row.ns = row.n  # made by others, who do not number namespaces
        tasks = (*row.frontier, *row.deferred, *row.ran)
        writes: list[WriteRow] = []
        pointers: list[Pointer] = []
        for origin in sorted(origins_of(row)):
            public = ids.get(origin)
            at: CheckpointTuple | None = found if origin == row.n else (near or {}).get(public or "")
            if at is None and public is not None:
                at = await self._saver.call("get_tuple", config_of(thread, name, public))
            if at is None or public is None:
                continue  # the saver has thrown it away, or somebody else made it
            there, below = belongings(row.ns, name, origin, public, tasks, at.pending_writes or ())
            writes += there
            pointers += below
        names = {row.ns: name, **{to.child.child_ns: to.name for to in pointers}}
        self._ids.update({**ids, **{to.child.head: to.id for to in pointers}})
        self._names.update(names)
        kinds = {write.kind for write in writes if (write.origin, write.path) in {(t.origin, t.path) for t in row.frontier}}
        now: Status = "error" if ERROR in kinds else "interrupted" if PAUSES in kinds else status
        newest = max(_ticks(public) for public in (row.id, *(to.id for to in pointers)))
        next_n = max(next_n, SYSTEM_CLOCK.now_ns() // 1000)
        known = ThreadRow(thread, thread, head=row.n, next_n=next_n, newest=newest, status=now)
        return Loaded(known, row, [row], writes, [to.child for to in pointers], {}, ids, names)

    async def several(self, thread: str, places: Sequence[tuple[int, int]]) -> list[Loaded]:
        """See `RecordStore.several`. One by one, for a saver can only be asked for one."""
        found = [await self.load(thread, ns, n) for ns, n in places]
        return [one for one in found if one.row is not None]

    async def page(self, thread: str, namespace: str | int | None, *, before: int | None, limit: int) -> list[Loaded]:
        """See `RecordStore.page`."""
        if limit <= 0:
            return []
        name = None if namespace is None else self._name_of(namespace)
        if namespace is not None and name is None:
            return []
        config = config_of(thread, name or "")
        if name is None:
            del config[CONF]["checkpoint_ns"]
        public = None if before is None else self._ids.get(before)
        if before is not None and public is None:
            page = [found for found in await self._saver.list(config) if row_of(found)[0].n < before][:limit]
        else:
            address = None if public is None else config_of(thread, name or "", public)
            page = await self._saver.list(config, address, limit)
        near = {found.checkpoint["id"]: found for found in page}
        return [await self._loaded(thread, _namespace(found), found, near) for found in page]

    async def number_of(self, thread: str, checkpoint: str) -> int | None:
        """See `RecordStore.number_of`."""
        found = await self._saver.call("get_tuple", config_of(thread, "", checkpoint))
        if found is None:
            all_of_them = await self._saver.list({CONF: {"thread_id": thread}})
            found = next((each for each in all_of_them if each.checkpoint["id"] == checkpoint), None)
        if found is None:
            return None
        row, ids, _, _ = row_of(found)
        self._ids.update(ids)
        return row.n

    async def pointer_to(self, thread: str, namespace: int, n: int) -> ChildRow | None:
        """See `RecordStore.pointer_to`. Reads the whole thread, for a saver can only be asked for checkpoints."""
        found: list[Pointer] = []
        for each in await self._saver.list({CONF: {"thread_id": thread}}):
            row, ids, _, _ = row_of(each)
            self._ids.update(ids)
            self._names.setdefault(row.ns, _namespace(each))
            found += pointers_on(row.ns, row.n, each.pending_writes or ())
        self._ids.update({to.child.head: to.id for to in found})
        reached = [to.child for to in found if to.child.child_ns == namespace and to.child.head >= n]
        return min(reached, key=lambda child: child.head, default=None)

    async def branches(self, thread: str) -> dict[str, str]:
        """See `RecordStore.branches`. Such a saver has no place for names."""
        return {}

    async def made_of(self, thread: str, checkpoint: str) -> list[tuple[str, str]]:
        """See `RecordStore.made_of`. Reads the whole thread, for a saver can only be asked for checkpoints."""
        every = await self._saver.list({CONF: {"thread_id": thread}})
        parents = [(each, (each.parent_config or {}).get(CONF, {}).get("checkpoint_id")) for each in every]
        return sorted(
            ((_namespace(each), each.checkpoint["id"]) for each, parent in parents if parent == checkpoint),
            key=lambda found: found[1],
        )

    def _no_names(self, name: str) -> InvalidConfig:
        return InvalidConfig(
            f"branch {name!r}: {self._kind} has the seeds' four methods only, which have no place for names of branches. Address checkpoints "
            "by checkpoint_id, or use a saver of this library",
            key="branch",
        )

    async def threads(self, *, after: str | None, limit: int, wanted: ThreadFilter = EVERY) -> list[ThreadRow]:
        """See `RecordStore.threads`. Only the ids are known."""
        names = {str(found.config[CONF]["thread_id"]) for found in await self._saver.list(None)}
        found = [name for name in sorted(names) if name.startswith(wanted.prefix) and (after is None or name > after)]
        return [ThreadRow(name, name) for name in found[:limit]]

    async def recent(self, *, before: tuple[int, str] | None, limit: int, wanted: ThreadFilter = EVERY) -> list[ThreadRow]:
        """See `RecordStore.recent`. `ForeignIndex` refuses this before it is asked for."""
        raise self._unknown("when threads were updated")

    async def runs(self, thread: str, *, before: int | None, limit: int) -> list[RunRow]:
        """See `RecordStore.runs`. `ForeignIndex` refuses this before it is asked for."""
        raise self._unknown("which runs there were")

    def _unknown(self, what: str) -> InvalidConfig:
        return InvalidConfig(f"{self._kind} does not keep {what}: it has the seeds' four methods only", key="saver")

    # -- writing ----------------------------------------------------------------------------------------------------------

    async def commit(self, commit: Commit) -> None:
        """Store it call by call: first what tasks left on stored checkpoints, so that a crash in between repeats no work; then
        each checkpoint, with what belongs to it; pointers to it last.
        """
        if commit.branches:
            raise self._no_names(commit.branches[0].name)
        self._names.update(dict(commit.namespaces))
        new = {row.n for row in commit.checkpoints}
        await self._store_writes(commit, (write for write in commit.writes if write.origin not in new))
        for row in commit.checkpoints:
            await self._store_checkpoint(commit, row)
            await self._store_writes(commit, (write for write in commit.writes if write.origin == row.n))
        for child in commit.children:
            await self._store_pointer(commit.thread, child)

    async def _store_checkpoint(self, commit: Commit, row: CheckpointRow) -> None:
        self._ids[row.n] = row.id
        entries: dict[str, Entry] = {}
        if not row.full:
            before = self._entries.pop(row.parent or 0, None)
            if before is None:
                raise CorruptRecord(
                    f"checkpoint {row.id} hangs on {row.parent}, which this call has not seen", thread=commit.thread
                )
            entries.update(before)
        for key, entry in row.changes.items():
            if entry is None:
                entries.pop(key, None)
            else:
                entries[key] = entry
        self._entries[row.n] = entries
        status = "idle" if commit.update is None else commit.update.status
        checkpoint, metadata, versions = checkpoint_of(row, entries, self._ids, commit.next_n, status)
        parent = None if row.parent is None else self._ids.get(row.parent)
        config = config_of(commit.thread, self._names[row.ns], parent)
        await self._saver.call("put", config, checkpoint, metadata, versions)

    async def _store_writes(self, commit: Commit, rows: Iterable[WriteRow]) -> None:
        done: set[tuple[int, str]] = set()
        for row in rows:
            if row.kind == RESULT:
                if (row.origin, row.path) in done:
                    continue  # the first result of a task is its result
                done.add((row.origin, row.path))
            for writes in writes_of(row):
                await self._put_writes(commit.thread, row.ns, row.origin, row.path, writes)

    async def _store_pointer(self, thread: str, child: ChildRow) -> None:
        name, public = self._names.get(child.child_ns), self._ids.get(child.head)
        if name is None or public is None or child.origin not in self._ids:
            return
        await self._put_writes(thread, child.ns, child.origin, child.path, pointer_write(child, name, public), f"/{child.call}")

    async def _put_writes(
        self, thread: str, ns: int, origin: int, path: str, writes: list[tuple[str, Any]], call: str = ""
    ) -> None:
        public, name = self._ids[origin], self._names[ns]
        task = f"{task_id(public, name, path)}{call}" if call else task_of(public, name, path)
        place = (path,) if self._with_path else ()
        await self._saver.call("put_writes", config_of(thread, name, public), writes, task, *place)

    async def rows(self, thread: str, after: Place | None, budget: int, *, contents: bool = True) -> Stretch:
        """See `RecordStore.rows`. The rows of such a saver are its own."""
        return Stretch(None, [])

    async def reclaim(self, limit: int) -> int:
        """See `RecordStore.reclaim`."""
        return 0

    async def renew(self, leases: list[tuple[str, str, int]], lease_ns: int) -> None:
        """There are no leases."""

    async def release(self, thread: str, token: str, epoch: int, status: Status, run: RunRow | None = None) -> None:
        """There are no leases."""

    async def delete(self, thread: str) -> None:
        """See `RecordStore.delete`; without a tombstone."""
        await self._saver.call("delete_thread", thread)

    async def close(self) -> None:
        """The saver belongs to others."""


def _row(loaded: Loaded) -> CheckpointRow:
    row = loaded.row
    assert row is not None
    return row


def _namespace(found: CheckpointTuple) -> str:
    return found.config[CONF].get("checkpoint_ns") or ""


def _ticks(public: str) -> int:
    try:
        return ticks_in(public)
    except CorruptRecord:
        return 0
