"""Rows as bytes, format version 1: what every database backend stores in its `body` columns.

A body is one MessagePack array whose first element is the format version. Public ids are 16 bytes where they are UUIDs, text
otherwise. Reading checks the shape and raises CorruptRecord, so a damaged or foreign row never becomes a half-right state.

    checkpoint  [1, parent, base, step, source, full, changes, frontier, ran, joins, deferred, metadata, extra, memories]
    changes     {channel: nil | [version, tag, data] | [version, ref]}
    pending     [path, origin, triggers]
    write       [1, [[channel, tag, data] | [channel, ref], …]]
    holder      [1, run_id, host, boot, pid, started, since_ns]
"""

from __future__ import annotations

from typing import Any

import ormsgpack

from perdure.checkpoint.records import CheckpointRow, Entry, Holder, Packed, Pending, WriteItem
from perdure.errors import CorruptRecord, UnknownFormat

FORMAT = 1

_pack = ormsgpack.packb
_unpack = ormsgpack.unpackb


def pack_id(checkpoint: str) -> bytes | str:
    """16 bytes for the usual text of a UUID, which its text can be made from again; any other id as it is."""
    try:
        packed = bytes.fromhex(checkpoint.replace("-", ""))
    except ValueError:
        return checkpoint
    return packed if len(packed) == 16 and unpack_id(packed) == checkpoint else checkpoint


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
    except (TypeError, ValueError, AttributeError, KeyError) as error:
        raise CorruptRecord(f"checkpoint {n} does not have the shape of format {FORMAT}: {error}") from error


def write_body(items: tuple[WriteItem, ...]) -> bytes:
    """The items of a write row."""
    return _pack(
        [
            FORMAT,
            [[i.channel, i.ref] if i.packed is None else [i.channel, i.packed.tag, i.packed.data] for i in items],
        ]
    )


def write_items(body: bytes) -> tuple[WriteItem, ...]:
    """The items again.

    Raises:
        CorruptRecord: the bytes are not a write body; UnknownFormat if a newer version wrote them.
    """
    fields = _open(body, 2, "a write")
    try:
        return tuple(
            WriteItem(item[0], None, item[1]) if len(item) == 2 else WriteItem(item[0], Packed(item[1], item[2]))
            for item in fields[1]
        )
    except (TypeError, ValueError, IndexError) as error:
        raise CorruptRecord(f"a write does not have the shape of format {FORMAT}: {error}") from error


def holder_body(holder: Holder) -> bytes:
    """The holder of a lease."""
    return _pack([FORMAT, holder.run_id, holder.host, holder.boot, holder.pid, holder.started, holder.since_ns])


def holder_again(body: bytes) -> Holder:
    """The holder again.

    Raises:
        CorruptRecord: the bytes are not a holder.
    """
    fields = _open(body, 7, "the holder of a lease")
    return Holder(*fields[1:])


def metadata_body(metadata: dict[str, Any]) -> bytes:
    """The metadata of a thread: scalars by name."""
    return _pack(metadata)


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


def _open(body: bytes, size: int, what: str) -> list[Any]:
    try:
        fields = _unpack(body)
    except ValueError as error:
        raise CorruptRecord(f"{what} cannot be read: {error}") from error
    if not isinstance(fields, list) or not fields or not isinstance(fields[0], int):
        raise CorruptRecord(f"{what} is not a record of this library")
    if fields[0] > FORMAT:
        raise UnknownFormat(f"{what} has format {fields[0]}; this version of perdure reads up to {FORMAT}: upgrade it")
    if len(fields) != size:
        raise CorruptRecord(f"{what} has {len(fields)} fields where format {FORMAT} has {size}")
    return fields


def _entry(entry: Entry | None) -> list[Any] | None:
    if entry is None:
        return None
    packed = entry.packed
    return [entry.version, entry.ref] if packed is None else [entry.version, packed.tag, packed.data]


def _entry_again(item: list[Any] | None) -> Entry | None:
    if item is None:
        return None
    if len(item) == 2:
        return Entry(item[0], None, item[1])
    version, tag, data = item
    return Entry(version, Packed(tag, data))


def _plain(tasks: tuple[Pending, ...]) -> list[tuple[Any, ...]]:
    return [tuple(task) for task in tasks]  # ormsgpack refuses named tuples


def _pending(item: list[Any]) -> Pending:
    path, origin, triggers = item
    return Pending(path, origin, tuple(triggers))
