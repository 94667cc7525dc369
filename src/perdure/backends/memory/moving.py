"""Rows of a thread in memory as bytes that travel, and back."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from perdure.checkpoint.records import ROOT_NS, ChildRow, Packed, WriteRow
from perdure.checkpoint.rows import checkpoint_body, checkpoint_row, pack_id, write_body, write_items
from perdure.checkpoint.survey import ROW_COSTS
from perdure.checkpoint.transfer.arrivals import twice
from perdure.checkpoint.transfer.raw import BRANCH, CHECKPOINT, CHILD, NAMESPACE, VALUE, WRITE, Place, RawRow

if TYPE_CHECKING:
    from perdure.backends.memory.thread import MemoryThread


def rows_after(found: MemoryThread, after: Place | None, budget: int, *, contents: bool = True) -> list[RawRow]:
    """Rows in the order of travel, from just after a place on, until the budget is spent. See `RecordStore.rows`."""
    rows: list[RawRow] = []
    first, done = (NAMESPACE, None) if after is None else after
    for kind in range(first, BRANCH + 1):
        keys, made = _OF_KIND[kind](found)
        start = 0 if done is None or kind != first else bisect_right(keys, done)
        for key in keys[start:]:
            row = made(key)
            if kind == VALUE and not contents:
                row = RawRow(VALUE, (*row.key, len(row.body)))
            rows.append(row)
            budget -= len(row.body) + ROW_COSTS
            if budget <= 0:
                return rows
    return rows


_Made = tuple[list[tuple[Any, ...]], Callable[[tuple[Any, ...]], RawRow]]


def _namespaces(found: MemoryThread) -> _Made:
    keys = sorted((ns,) for ns in found.names if ns != ROOT_NS)
    return keys, lambda key: RawRow(NAMESPACE, key, found.names[key[0]].encode())


def _values(found: MemoryThread) -> _Made:
    def made(key: tuple[Any, ...]) -> RawRow:
        tag, data = found.values[key[0]]
        return RawRow(VALUE, (key[0], tag), data)

    return sorted((n,) for n in found.values), made


def _checkpoints(found: MemoryThread) -> _Made:
    def made(key: tuple[Any, ...]) -> RawRow:
        row = found.checkpoints[key[1]]
        return RawRow(CHECKPOINT, (row.ns, row.n, pack_id(row.id)), checkpoint_body(row))

    return sorted((row.ns, row.n) for row in found.checkpoints.values()), made


def _writes(found: MemoryThread) -> _Made:
    by_key = {(w.ns, w.origin, w.path, w.kind): w for w in _filed(found.writes)}
    return sorted(by_key), lambda key: RawRow(WRITE, key, write_body(by_key[key].items))


def _children(found: MemoryThread) -> _Made:
    by_key = {(c.ns, c.origin, c.path, c.call): c for c in _filed(found.children)}
    return sorted(by_key), lambda key: RawRow(CHILD, tuple(by_key[key]))


def _branches(found: MemoryThread) -> _Made:
    return sorted((name,) for name in found.branches), lambda key: RawRow(BRANCH, (key[0], found.branches[key[0]]))


def _filed(rows: Mapping[int, Mapping[Any, Any]]) -> Iterable[Any]:
    return (row for filed in rows.values() for row in filed.values())


_OF_KIND: dict[int, Callable[[MemoryThread], _Made]] = {
    NAMESPACE: _namespaces,
    VALUE: _values,
    CHECKPOINT: _checkpoints,
    WRITE: _writes,
    CHILD: _children,
    BRANCH: _branches,
}


def put(found: MemoryThread, row: RawRow) -> None:
    """Add a row that has travelled.

    Raises:
        CorruptRecord: it is there already, or its body is none.
    """
    if not _ADD[row.kind](found, row.key, row.body):
        raise twice(f"kind {row.kind}, {row.key!r:.200}")


def _add_namespace(found: MemoryThread, key: tuple[Any, ...], body: bytes) -> bool:
    name = body.decode()
    if key[0] in found.names or name in found.numbers:
        return False
    found.names[key[0]] = name
    found.numbers[name] = key[0]
    return True


def _add_value(found: MemoryThread, key: tuple[Any, ...], body: bytes) -> bool:
    return found.values.setdefault(key[0], packed := Packed(key[1], body)) is packed


def _add_checkpoint(found: MemoryThread, key: tuple[Any, ...], body: bytes) -> bool:
    ns, n, packed_id = key
    row = checkpoint_row(n, ns, packed_id, body)
    if n in found.checkpoints or row.id in found.by_id:
        return False
    found.checkpoints[n] = row
    found.by_id[row.id] = n
    found.order.setdefault(ns, []).append(n)  # they travel in order
    return True


def _add_write(found: MemoryThread, key: tuple[Any, ...], body: bytes) -> bool:
    ns, origin, path, kind = key
    row = WriteRow(ns, origin, path, kind, write_items(body))
    return found.writes.setdefault(origin, {}).setdefault((ns, path, kind), row) is row


def _add_child(found: MemoryThread, key: tuple[Any, ...], _: bytes) -> bool:
    row = ChildRow(*key)
    return found.children.setdefault(row.origin, {}).setdefault((row.ns, row.path, row.call), row) is row


def _add_branch(found: MemoryThread, key: tuple[Any, ...], _: bytes) -> bool:
    if key[0] in found.branches:
        return False
    found.branches[key[0]] = key[1]
    return True


_ADD: dict[int, Callable[[MemoryThread, tuple[Any, ...], bytes], bool]] = {
    NAMESPACE: _add_namespace,
    VALUE: _add_value,
    CHECKPOINT: _add_checkpoint,
    WRITE: _add_write,
    CHILD: _add_child,
    BRANCH: _add_branch,
}
