"""All rows of a thread in a dictionary, in the order of a survey, and taking rows out of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from perdure.checkpoint.records import ROOT_NS
from perdure.checkpoint.survey import TABLES, After, Removal, Survey


def remove(found: Any, removed: Removal) -> None:
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


def rows_behind(found: Any, after: After | None) -> Iterator[tuple[int, tuple[Any, ...], Any]]:
    """All rows behind a place: the position of the table, the key, the row."""
    tables: dict[str, dict[tuple[Any, ...], Any]] = {
        "namespace": {(ns,): name for ns, name in found.names.items() if ns != ROOT_NS},
        "branch": {(name,): head for name, head in found.branches.items()},
        "checkpoint": {(row.ns, row.n): row for row in found.checkpoints.values()},
        "child": {(c.ns, c.origin, c.path, c.call): c for rows in found.children.values() for c in rows.values()},
        "write": {(w.ns, w.origin, w.path, w.kind): w for rows in found.writes.values() for w in rows.values()},
        "value": {(n,): packed for n, packed in found.values.items()},
    }
    for at, table in enumerate(TABLES):
        rows = tables[table]
        for key in sorted(rows):
            if after is None or (at, key) > after:
                yield at, key, rows[key]


def put(page: Survey, table: str, key: Any, row: Any) -> None:
    """Add a row to a page."""
    if table == "namespace":
        page.namespaces[key] = row
    elif table == "branch":
        page.branches[key] = row
    elif table == "value":
        page.sizes[key] = len(row.data)
        page.values[key] = row
    else:
        rows: dict[str, list[Any]] = {"checkpoint": page.checkpoints, "child": page.children, "write": page.writes}
        rows[table].append(row)
