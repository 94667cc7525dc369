"""Rows of a thread that were read as bytes, as what they say. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from perdure.checkpoint.records import CheckpointRow, ChildRow, Packed, WriteRow
from perdure.checkpoint.rows import checkpoint_row, write_items
from perdure.checkpoint.transfer.raw import BRANCH, CHECKPOINT, CHILD, NAMESPACE, WRITE, RawRow
from perdure.errors import CorruptRecord


@dataclass(slots=True)
class ThreadRows:
    """What some rows of a thread say.

    Attributes:
        namespaces: names by number, without the root's.
        branches: numbers of the checkpoints at the tips, by name.
        checkpoints, children, writes: rows.
        checkpoint_sizes, write_sizes: how many bytes the bodies of these have as they are stored, in the same order.
        sizes: how many bytes a value row holds, by number.
        values: the value rows, if they were read with their contents.
        damaged: number and table of the rows that cannot be read.
    """

    namespaces: dict[int, str] = field(default_factory=dict)
    branches: dict[str, int] = field(default_factory=dict)
    checkpoints: list[CheckpointRow] = field(default_factory=list)
    children: list[ChildRow] = field(default_factory=list)
    writes: list[WriteRow] = field(default_factory=list)
    checkpoint_sizes: list[int] = field(default_factory=list)
    write_sizes: list[int] = field(default_factory=list)
    sizes: dict[int, int] = field(default_factory=dict)
    values: dict[int, Packed] = field(default_factory=dict)
    damaged: list[tuple[int, str]] = field(default_factory=list)


def decoded(rows: Iterable[RawRow], *, is_strict: bool = True) -> ThreadRows:
    """What these rows say.

    Args:
        rows: of one thread.
        is_strict: a row that cannot be read is an error; otherwise it is among the damaged.

    Raises:
        CorruptRecord: a row cannot be read; UnknownFormat if a newer version wrote it.
    """
    found = ThreadRows()
    for row in rows:
        try:
            _put(found, row)
        except CorruptRecord:
            if is_strict:
                raise
            # Only the bodies of checkpoints and writes are read here; in the keys of both the number stands second.
            found.damaged.append((row.key[1], f"a row of table {'checkpoint' if row.kind == CHECKPOINT else 'write'!r}"))
    return found


def _put(found: ThreadRows, row: RawRow) -> None:
    kind, key, body = row
    if kind == NAMESPACE:
        found.namespaces[key[0]] = body.decode()
    elif kind == BRANCH:
        found.branches[key[0]] = key[1]
    elif kind == CHILD:
        found.children.append(ChildRow(*key))
    elif kind == CHECKPOINT:
        ns, n, packed_id = key
        found.checkpoints.append(checkpoint_row(n, ns, packed_id, body))
        found.checkpoint_sizes.append(len(body))
    elif kind == WRITE:
        ns, origin, path, write_kind = key
        found.writes.append(WriteRow(ns, origin, path, write_kind, write_items(body)))
        found.write_sizes.append(len(body))
    elif len(key) == 3:
        found.sizes[key[0]] = key[2]
    else:
        found.sizes[key[0]] = len(body)
        found.values[key[0]] = Packed(key[1], body)
