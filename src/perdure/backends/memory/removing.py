"""Taking rows out of a thread in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perdure.checkpoint.survey import Removal

if TYPE_CHECKING:
    from perdure.backends.memory.thread import MemoryThread


def remove(found: MemoryThread, removed: Removal) -> None:
    """Take rows out of a thread; those that are not there are passed over."""
    for ns, n in removed.checkpoints:
        row = found.checkpoints.get(n)
        if row is not None:
            found.by_id.pop(row.id, None)
            found.order[ns] = [other for other in found.order[ns] if other != n]
            del found.checkpoints[n]
    for ns, origin, path, kind in removed.writes:
        _take(found.writes, origin, (ns, path, kind))
    for ns, origin, path, call in removed.children:
        _take(found.children, origin, (ns, path, call))
    for n in removed.values:
        found.values.pop(n, None)
    for ns in removed.namespaces:
        name = found.names.get(ns)
        if name is not None:
            found.numbers.pop(name, None)
            del found.names[ns]


def _take(filed: dict[int, dict[Any, Any]], origin: int, key: Any) -> None:
    rows = filed.get(origin, {})
    rows.pop(key, None)
    if not rows:
        filed.pop(origin, None)
