"""Between the public shape of a checkpoint and rows: what `put`, `put_writes`, `get_tuple` and `list` of this library's savers do.

A checkpoint that the engine made is shown in the public shape; one that came in through `put` keeps in `extra` whatever the rows
have no place for, so that it comes out as it went in.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from perdure.checkpoint.base import (
    WRITES_IDX_MAP,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    PendingWrite,
    writes_sort_key,
)
from perdure.checkpoint.incremental.compression import squeezed
from perdure.checkpoint.incremental.values import value_of, write_of
from perdure.checkpoint.leases import identity
from perdure.checkpoint.leases.watch import Watch
from perdure.checkpoint.numbering import Numbers
from perdure.checkpoint.pauses import asked_again
from perdure.checkpoint.reading import folded, metadata_of
from perdure.checkpoint.records import (
    ANSWERS,
    INLINE_LIMIT,
    PAUSES,
    ROOT_NS,
    CheckpointRow,
    Commit,
    Entry,
    Loaded,
    Packed,
    RecordStore,
    StaleLoad,
    ThreadRow,
    ValueRow,
    WriteItem,
    WriteRow,
)
from perdure.checkpoint.records import ERROR as ERROR_KIND
from perdure.checkpoint.saving import NOTHING, attempt, save
from perdure.checkpoint.serde.base import SerializerProtocol
from perdure.clock import Clock, iso_of
from perdure.constants import CONF, ERROR, INTERRUPT, NO_WRITES, RESUME
from perdure.errors import CorruptRecord, InvalidConfig, ThreadDeleted, UnknownCheckpoint
from perdure.ids import address_text, conf_of, task_id, thread_text, ticks_in, unix_ns_of
from perdure.types import RunnableConfig

if TYPE_CHECKING:
    from perdure.checkpoint.base import ChannelVersions

PAGE = 32
"""Checkpoints that `list` reads at a time."""
PUBLIC = "!"
"""First character of the path of a write that came through `put_writes`."""


class Exchange:
    """The public methods of a saver, as flows over a record store.

    Args:
        records: the database, in the colour of the call.
        serde: how values become bytes.
        clock: wall time.
        watch: tells which leases of dead holders may be taken over.
    """

    __slots__ = ("_clock", "_records", "_serde", "_watch")

    def __init__(self, records: RecordStore, serde: SerializerProtocol, clock: Clock, watch: Watch) -> None:
        self._records = records
        self._serde = serde
        self._clock = clock
        self._watch = watch

    # -- reading ----------------------------------------------------------------------------------------------------------

    async def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """The checkpoint that a config addresses."""
        thread, namespace, checkpoint = address(config)
        loaded = await self._records.load(thread, namespace or ROOT_NS, checkpoint)
        return None if loaded.row is None else self.shown(loaded)

    async def listed(
        self, config: RunnableConfig | None, match: Mapping[str, Any] | None, before: RunnableConfig | None, limit: int | None
    ) -> AsyncGenerator[CheckpointTuple, None]:
        """Checkpoints, newest first, thread by thread.

        Raises:
            InvalidConfig: a negative limit, or a part of an address that is no text, or no config or filter at all.
        """
        most: Any = limit
        if most is not None and (not isinstance(most, int) or most < 0):
            raise InvalidConfig(f"limit must not be negative, got {most!r}", key="limit")
        if match is not None and not isinstance(match, Mapping):
            raise InvalidConfig(
                f"filter must be a dict of keys of the metadata and the values they must equal, got {type(match).__name__}"
            )
        left = limit
        async for loaded in self._rows(conf_of(config), before, limit):
            if left == 0:
                return
            found = self.shown(loaded)
            metadata: Mapping[str, Any] = found.metadata
            if match and any(key not in metadata or metadata[key] != want for key, want in match.items()):
                continue
            if left is not None:
                left -= 1
            yield found

    async def _rows(
        self, conf: Mapping[str, Any], before: RunnableConfig | None, limit: int | None
    ) -> AsyncGenerator[Loaded, None]:
        """What `listed` looks at: checkpoints of the addressed threads and namespaces, newest first."""
        namespace: str | int | None = conf.get("checkpoint_ns")
        if namespace is not None:
            namespace = address_text(conf, "checkpoint_ns") or ROOT_NS
        only = address_text(conf, "checkpoint_id") or None
        before_id = None if before is None else address_text(conf_of(before), "checkpoint_id") or None
        size = PAGE if limit is None else max(1, min(PAGE, limit))
        async for thread in self._threads(conf):
            number = None if before_id is None else await self._records.number_of(thread, before_id)
            if before_id is not None and number is None:
                continue
            while page := await self._records.page(thread, namespace, before=number, limit=size):
                for loaded in page:
                    if loaded.row is not None:
                        number = loaded.row.n
                        if only is None or loaded.row.id == only:
                            yield loaded

    async def _threads(self, conf: Mapping[str, Any]) -> AsyncGenerator[str, None]:
        if conf.get("thread_id") is not None:
            yield thread_text(conf["thread_id"])
            return
        after: str | None = None
        while page := await self._records.threads(after=after, limit=PAGE):
            for row in page:
                yield row.thread
            after = page[-1].thread

    def shown(self, loaded: Loaded) -> CheckpointTuple:
        """What was loaded, in the public shape."""
        row = loaded.row
        if row is None:
            raise CorruptRecord("there is no checkpoint to show")
        thread = loaded.thread.thread
        namespace = loaded.namespaces.get(row.ns, "")
        entries = folded(loaded.chain)
        values = {key: self._value(loaded, entry) for key, entry in entries.items()}
        extra = row.extra or {}
        versions: ChannelVersions = {key: entry.version for key, entry in entries.items()}
        checkpoint: Checkpoint = {
            "v": 4,
            "id": row.id,
            "ts": _ts(row.id),
            "channel_values": values,
            "channel_versions": versions,
            "versions_seen": {},
            "updated_channels": sorted(row.changes) if not row.full else None,
        }
        checkpoint.update(extra.get("checkpoint", {}))
        if "metadata" in extra:
            metadata: CheckpointMetadata = extra["metadata"]
        else:
            metadata = metadata_of(row)  # type: ignore[assignment]
        parent = extra.get("parent") or (None if row.parent is None else loaded.ids.get(row.parent))
        return CheckpointTuple(
            _config(thread, namespace, row.id),
            checkpoint,
            metadata,
            None if parent is None else _config(thread, namespace, parent),
            self._pending(loaded, row, namespace),
        )

    def _value(self, loaded: Loaded, item: Entry | WriteItem) -> Any:
        try:
            return value_of(item, loaded.values, self._serde)
        except CorruptRecord as error:
            error.thread = error.thread or loaded.thread.thread
            raise

    def _pending(self, loaded: Loaded, row: CheckpointRow, namespace: str) -> list[PendingWrite]:
        open_tasks = {(task.origin, task.path) for task in row.frontier}
        sends = {task.origin for task in row.frontier if task.path.startswith("#")}
        found: list[tuple[tuple[str, str, int], PendingWrite]] = []
        for write in loaded.writes:
            if write.path.startswith(PUBLIC) and "\x00" in write.path:
                if write.origin == row.n:
                    path, _, task = write.path[1:].partition("\x00")
                    item = write.items[0]
                    value = self._value(loaded, item)
                    found.append((writes_sort_key(path, task, write.kind), (task, item.channel, value)))
                continue
            is_open = (write.origin, write.path.lstrip("!")) in open_tasks or (write.path[:1] == "#" and write.origin in sends)
            if is_open:
                origin = row.id if write.origin == row.n else loaded.ids.get(write.origin, "")
                task = task_id(origin, namespace, write.path)
                for at, (channel, value) in enumerate(self._writes(loaded, write)):
                    found.append(
                        (writes_sort_key(write.path, task, at if write.kind == 0 else write.kind), (task, channel, value))
                    )
        return [write for _, write in sorted(found, key=lambda pair: pair[0])]

    def _writes(self, loaded: Loaded, write: WriteRow) -> Iterable[tuple[str, Any]]:
        values = [write_of(item, loaded.values, self._serde) for item in write.items if item.channel != NO_WRITES]
        if write.kind == ERROR_KIND:
            return [(ERROR, value) for channel, value in values]
        if write.kind == PAUSES:
            return [(INTERRUPT, [asked_again(pause, value).question for pause, value in values])]
        if write.kind == ANSWERS:
            return [(RESUME, [value for _, value in values])]
        return values

    # -- writing ----------------------------------------------------------------------------------------------------------

    async def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Store a checkpoint that somebody else than the engine made.

        Raises:
            ThreadBusy: a run holds the thread.
            ThreadDeleted: its parent's thread was deleted.
            NotStorable: a value cannot be stored.
            SaveFailed: the database failed.
        """
        thread, namespace, parent = address(config)
        while True:
            loaded = await self._loaded(thread, namespace, parent)
            _refuse_deleted(loaded, parent)
            try:
                await save(self._records, self._put(loaded, namespace, parent, checkpoint, metadata, new_versions))
            except StaleLoad:
                continue
            return _config(thread, namespace, checkpoint["id"])

    async def _loaded(self, thread: str, namespace: str, checkpoint: str | None) -> Loaded:
        """What something is to be stored on."""
        load = self._records.load(thread, namespace or ROOT_NS, checkpoint)
        return await attempt(load, f"thread {thread!r} could not be saved", NOTHING, thread)

    def _put(
        self,
        loaded: Loaded,
        namespace: str,
        parent: str | None,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> Commit:
        numbers = Numbers(loaded.thread.next_n, loaded.thread.newest, self._clock)
        commit = self._commit(loaded.thread, numbers)
        above = loaded.row if parent is not None else None
        ns = (
            loaded.row.ns
            if loaded.row is not None
            else next((n for n, name in loaded.namespaces.items() if name == namespace), None)
        )
        if ns is None:
            ns = numbers.take() if namespace else ROOT_NS
            commit.namespaces = [(ns, namespace)] if namespace else []
        n = numbers.take()
        shared = folded(loaded.chain) if above is not None else {}
        before = (above.extra or {}).get("checkpoint", {}).get("channel_versions", {}) if above is not None else {}
        versions = checkpoint.get("channel_versions", {})
        entries: dict[str, Entry | None] = {}
        for key, value in checkpoint.get("channel_values", {}).items():
            same = key in shared and key not in new_versions and key in versions and before.get(key) == versions[key]
            entries[key] = shared[key].closed() if same else self._entry(commit, numbers, n, value)
        rest = {key: value for key, value in checkpoint.items() if key not in ("id", "channel_values")}
        extra: dict[str, Any] = {"checkpoint": rest, "metadata": dict(metadata)}
        if above is None and parent is not None:
            extra["parent"] = parent
        row = CheckpointRow(
            n,
            ns,
            checkpoint["id"],
            None if above is None else above.n,
            n,
            int(metadata.get("step", 0)),
            str(metadata.get("source", "update")),
            entries,
            True,
            extra=extra,
        )
        commit.checkpoints = [row]
        commit.next_n = numbers.next_n
        try:
            commit.newest = max(loaded.thread.newest, ticks_in(row.id))
        except CorruptRecord:
            commit.newest = loaded.thread.newest
        if ns == ROOT_NS:
            commit.head = n
        return commit

    def _commit(self, thread: ThreadRow, numbers: Numbers) -> Commit:
        now = self._clock.now_ns()
        return Commit(
            thread.thread,
            thread.incarnation,
            "once",
            os.urandom(8).hex(),
            thread.lease.epoch + 1,
            thread.head,
            now,
            0,  # taken and given back in one write
            identity.holder("", now),
            self._watch.over(thread.thread, thread.lease),
            numbers.first_n,
            numbers.next_n,
            thread.newest,
        )

    def _entry(self, commit: Commit, numbers: Numbers, n: int, value: Any) -> Entry:
        packed = Packed(*self._serde.dumps_typed(value))
        if len(packed.data) <= INLINE_LIMIT:
            return Entry(n, packed)
        ref = numbers.take()
        commit.values = [*commit.values, ValueRow(ref, squeezed(packed))]
        return Entry(n, None, ref)

    async def put_writes(self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task: str, task_path: str) -> None:
        """Store writes on a checkpoint.

        Raises:
            ThreadBusy: a run holds the thread.
            ThreadDeleted: the thread was deleted.
            UnknownCheckpoint: the thread has no such checkpoint.
            NotStorable: a value cannot be stored.
            SaveFailed: the database failed.
        """
        thread, namespace, checkpoint = address(config)
        if checkpoint is None:
            raise InvalidConfig(
                "put_writes needs a config with checkpoint_id: the checkpoint that the task ran from", thread=thread
            )
        while True:
            loaded = await self._loaded(thread, namespace, checkpoint)
            _refuse_deleted(loaded, checkpoint)
            if loaded.row is None:
                raise UnknownCheckpoint(
                    f"thread {thread!r} has no checkpoint {checkpoint!r} in namespace {namespace!r}",
                    thread=thread,
                    checkpoint=checkpoint,
                )
            numbers = Numbers(loaded.thread.next_n, loaded.thread.newest, self._clock)
            commit = self._commit(loaded.thread, numbers)
            rows: list[WriteRow] = []
            for at, (channel, value) in enumerate(writes):
                entry = self._entry(commit, numbers, 0, value)
                item = WriteItem(channel, entry.packed, entry.ref)
                kind = WRITES_IDX_MAP.get(channel, at)
                rows.append(WriteRow(loaded.row.ns, loaded.row.n, f"{PUBLIC}{task_path}\x00{task}", kind, (item,)))
            commit.writes = rows
            commit.next_n = numbers.next_n
            try:
                await save(self._records, commit)
            except StaleLoad:
                continue
            return


def address(config: RunnableConfig) -> tuple[str, str, str | None]:
    """Thread, namespace and checkpoint that a config names.

    Raises:
        InvalidConfig: it is none, names no thread, or the namespace or the checkpoint's id is no text.
        WrongType: the thread's id is not text.
    """
    conf = conf_of(config)
    if conf.get("thread_id") is None:
        raise InvalidConfig("the config names no thread: {'configurable': {'thread_id': ...}}", key="thread_id")
    namespace, checkpoint = address_text(conf, "checkpoint_ns"), address_text(conf, "checkpoint_id")
    return thread_text(conf["thread_id"]), namespace, checkpoint or None


def _config(thread: str, namespace: str, checkpoint: str) -> RunnableConfig:
    return {CONF: {"thread_id": thread, "checkpoint_ns": namespace, "checkpoint_id": checkpoint}}


def _refuse_deleted(loaded: Loaded, parent: str | None) -> None:
    # Also where the id was used again since: the parent was not found, so it may well have been of the thread that is gone.
    thread = loaded.thread
    if parent is not None and loaded.row is None and thread.incarnation > 1:
        raise ThreadDeleted(
            f"thread {thread.thread!r} was deleted, with its checkpoint {parent!r}; nothing was stored. New input on the id starts a "
            "new thread",
            thread=thread.thread,
            checkpoint=parent,
        )


def _ts(checkpoint: str) -> str:
    try:
        return iso_of(unix_ns_of(ticks_in(checkpoint)))
    except CorruptRecord:
        return ""
