"""Rows as bytes, format version 1: what every database backend stores in its `body` columns.

A body is one MessagePack array whose first element is the format version. Public ids are 16 bytes where they are UUIDs, text
otherwise. Reading checks the shape and raises CorruptRecord, so a damaged or foreign row never becomes a half-right state.

    checkpoint  [1, parent, base, step, source, full, changes, frontier, ran, joins, deferred, metadata, extra, memories]
    changes     {channel: nil | [version, tag, data] | [version, ref] | [version, manifest] | [version, record]}
    manifest    [kind, count, free, end, [first, last] | [n, skip, take], …]
    record      ["record", [key, tag, data] | [key, ref] | [key, manifest], …]
    pending     [path, origin, triggers]
    write       [1, [[channel, tag, data] | [channel, ref] | [channel, manifest], …]]
    holder      [1, run_id, host, boot, pid, started, since_ns] | [1, run_id, host, boot, pid, started, since_ns, lease_ns]
    run         [1, run_id, graph, status, started_ns, ended_ns, steps, entries, error, context, branch]
"""

from __future__ import annotations

from typing import Any

import ormsgpack

from perdure.checkpoint.incremental import manifest
from perdure.checkpoint.incremental.manifest import Manifest
from perdure.checkpoint.index.records import OUTCOMES, RunRow
from perdure.checkpoint.records import CheckpointRow, Entry, Holder, Packed, Pending, Record, WriteItem
from perdure.errors import CorruptRecord, UnknownFormat

FORMAT = 1

_RECORD = "record"

_pack = ormsgpack.packb
_unpack = ormsgpack.unpackb


def pack_id(checkpoint: str) -> bytes | str:
    """16 bytes for the usual text of a UUID, which its text can be made from again; any other id as it is."""
    digits = checkpoint.replace("-", "")
    try:
        packed = bytes.fromhex(digits)
    except ValueError:
        return checkpoint
    is_usual = len(checkpoint) == 36 and len(packed) == 16 and packed.hex() == digits
    return packed if is_usual and checkpoint[8] == checkpoint[13] == checkpoint[18] == checkpoint[23] == "-" else checkpoint


def unpack_id(packed: bytes | str) -> str:
    """The inverse of `pack_id`."""
    if isinstance(packed, str):
        return packed
    digits = packed.hex()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def checkpoint_body(row: CheckpointRow) -> bytes:
    """All of a checkpoint row but its keys (n, ns, id)."""
    return _pack(
        [
            FORMAT,
            row.parent,
            row.base,
            row.step,
            row.source,
            row.full,
            {channel: _entry(entry) for channel, entry in row.changes.items()},
            _plain(row.frontier),
            _plain(row.ran),
            row.joins,
            _plain(row.deferred),
            row.metadata,
            row.extra,
            row.memories,
        ]
    )


def checkpoint_row(n: int, ns: int, packed_id: bytes | str, body: bytes) -> CheckpointRow:
    """The row again.

    Raises:
        CorruptRecord: the bytes are not a checkpoint body; UnknownFormat if a newer version wrote them.
    """
    fields = _open(body, 14, f"checkpoint {n}")
    try:
        _, parent, base, step, source, full, changes, frontier, ran, joins, deferred, metadata, extra, memories = fields
        if not isinstance(metadata, dict) or not isinstance(memories, dict):
            raise CorruptRecord("its metadata or its memories are no map")
        return CheckpointRow(
            n,
            ns,
            unpack_id(packed_id),
            parent,
            base,
            step,
            source,
            {channel: _entry_again(item) for channel, item in changes.items()},
            full,
            tuple(_pending(item) for item in frontier),
            tuple(_pending(item) for item in ran),
            {name: tuple(seen) for name, seen in joins.items()},
            tuple(_pending(item) for item in deferred),
            metadata,
            extra,
            memories,
        )
    except (TypeError, ValueError, AttributeError, LookupError) as error:
        raise CorruptRecord(f"checkpoint {n} does not have the shape of format {FORMAT}: {error}") from error


def write_body(items: tuple[WriteItem, ...]) -> bytes:
    """The items of a write row."""
    return _pack(
        [
            FORMAT,
            [_item(item) for item in items],
        ]
    )


def write_items(body: bytes) -> tuple[WriteItem, ...]:
    """The items again.

    Raises:
        CorruptRecord: the bytes are not a write body; UnknownFormat if a newer version wrote them.
    """
    fields = _open(body, 2, "a write")
    try:
        return tuple([_item_again(item) for item in fields[1]])
    except (TypeError, ValueError, IndexError) as error:
        raise CorruptRecord(f"a write does not have the shape of format {FORMAT}: {error}") from error


def holder_body(holder: Holder) -> bytes:
    """The holder of a lease."""
    fields = [FORMAT, holder.run_id, holder.host, holder.boot, holder.pid, holder.started, holder.since_ns]
    return _pack([*fields, holder.lease_ns] if holder.lease_ns else fields)


def holder_again(body: bytes) -> Holder:
    """The holder again.

    Raises:
        CorruptRecord: the bytes are not a holder.
    """
    fields = _open(body, 7, "the holder of a lease", more=1)
    return Holder(*fields[1:])


def run_body(run: RunRow) -> bytes:
    """All of the record of a run but its key (epoch)."""
    begun = (run.run_id, run.graph, run.status, run.started_ns)
    return _pack([FORMAT, *begun, run.ended_ns, run.steps, dict(run.entries), run.error, run.context, run.branch])


def run_row(epoch: int, body: bytes) -> RunRow:
    """The record again.

    Raises:
        CorruptRecord: the bytes are not the record of a run; UnknownFormat if a newer version wrote them.
    """
    fields = _open(body, 11, f"run {epoch}")[1:]
    run = RunRow(epoch, *fields)
    numbers = (run.started_ns, 0 if run.ended_ns is None else run.ended_ns, run.steps)
    texts = (run.run_id, run.graph, run.error or "", run.branch or "")
    if (
        run.status not in OUTCOMES
        or any(type(number) is not int for number in numbers)
        or not all(type(text) is str for text in texts)
        or type(run.entries) is not dict
        or not all(type(name) is str and type(times) is int for name, times in run.entries.items())
    ):
        raise CorruptRecord(f"run {epoch} does not have the shape of format {FORMAT}")
    return run


def metadata_body(metadata: dict[str, Any]) -> bytes:
    """The metadata of a thread: scalars by name."""
    return _pack(metadata)


def metadata_part(key: str, text: str) -> bytes:
    """The bytes that the metadata of a thread hold where they have this text under this key."""
    return b"".join(_pack(each.encode("utf-8", "surrogatepass").decode("utf-8", "replace")) for each in (key, text))


def metadata_again(body: bytes) -> dict[str, Any]:
    """The metadata again.

    Raises:
        CorruptRecord: the bytes are not a mapping.
    """
    try:
        value = _unpack(body)
    except ValueError as error:
        raise CorruptRecord(f"the metadata of a thread cannot be read: {error}") from error
    if not isinstance(value, dict):
        raise CorruptRecord("the metadata of a thread is not a mapping")
    return value


def _open(body: bytes, size: int, what: str, *, more: int = 0) -> list[Any]:
    try:
        fields = _unpack(body)
    except ValueError as error:
        raise CorruptRecord(f"{what} cannot be read: {error}") from error
    if not isinstance(fields, list) or not fields or not isinstance(fields[0], int):
        raise CorruptRecord(f"{what} is not a record of this library")
    if fields[0] > FORMAT:
        raise UnknownFormat(f"{what} has format {fields[0]}; this version of perdure reads up to {FORMAT}: upgrade it")
    if not size <= len(fields) <= size + more:
        raise CorruptRecord(f"{what} has {len(fields)} fields where format {FORMAT} has {size}")
    return fields


def _entry(entry: Entry | None) -> list[Any] | None:
    if entry is None:
        return None
    packed, parts = entry.packed, entry.parts
    if packed is not None:
        return [entry.version, packed.tag, packed.data]
    if isinstance(parts, Record):
        return [entry.version, [_RECORD, *(_item(item) for item in parts.items)]]
    return [entry.version, entry.ref if parts is None else manifest.plain(parts)]


def _entry_again(item: list[Any] | None) -> Entry | None:
    if item is None:
        return None
    if len(item) == 2:
        version, where = item
        if type(where) is list and where[:1] == [_RECORD]:
            return Entry(version, None, None, Record(tuple([_item_again(each) for each in where[1:]])))
        return Entry(version, None, *_where(where))
    version, tag, data = item
    return Entry(version, Packed(tag, data))


def _item(item: WriteItem) -> list[Any]:
    packed = item.packed
    if packed is not None:
        return [item.channel, packed.tag, packed.data]
    return [item.channel, item.ref if item.parts is None else manifest.plain(item.parts)]


def _item_again(item: list[Any]) -> WriteItem:
    if len(item) == 2:
        return WriteItem(item[0], None, *_where(item[1]))
    channel, tag, data = item
    return WriteItem(channel, Packed(tag, data))


def _where(where: Any) -> tuple[int | None, Manifest | None]:
    if type(where) is list:
        return None, manifest.again(where)
    if type(where) is not int:
        raise ValueError("a value is neither a number nor parts")
    return where, None


def _plain(tasks: tuple[Pending, ...]) -> list[tuple[Any, ...]]:
    return [*map(tuple, tasks)]  # ormsgpack refuses named tuples


def _pending(item: list[Any]) -> Pending:
    path, origin, triggers = item
    return Pending(path, origin, tuple(triggers))
