"""The script that reads a page of all rows of a thread."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from perdure.backends.sqlite import statements as sql
from perdure.backends.sqlite.loading import thread_row
from perdure.backends.sqlite.schema import NUMBERS, Database
from perdure.checkpoint.records import ChildRow, Packed, ThreadRow, WriteRow
from perdure.checkpoint.rows import checkpoint_row, write_items
from perdure.checkpoint.survey import TABLES, After, Survey
from perdure.errors import CorruptRecord

_STATEMENTS: dict[str, tuple[str, tuple[Any, ...]]] = {
    "namespace": (sql.SURVEY_NAMESPACES, (-1,)),
    "branch": (sql.SURVEY_BRANCHES, ("",)),
    "checkpoint": (sql.SURVEY_CHECKPOINTS, (-1, -1)),
    "child": (sql.SURVEY_CHILDREN, (-1, -1, "", -1)),
    "write": (sql.SURVEY_WRITES, (-1, -1, "", -1)),
}
"""Of each table: the statement, and a key before all of its rows."""


def survey(database: Database, thread_id: str, after: After | None, limit: int, contents: bool) -> Survey:
    """See `RecordStore.survey`."""
    database.execute(sql.BEGIN_READ)
    row = database.execute(sql.THREAD, (thread_id,)).fetchone()
    page = Survey(ThreadRow(thread_id) if row is None else thread_row(row, database.clock.now_ns()))
    if row is not None:
        _fill(database, page, after, limit, contents)
    database.execute(sql.COMMIT)
    return page


def _fill(database: Database, page: Survey, after: After | None, limit: int, contents: bool) -> None:
    first, start = (0, None) if after is None else after
    left = limit
    for at in range(first, len(TABLES)):
        rows = _read(database, TABLES[at], page.thread.key, start, left + 1, contents)
        more = len(rows) > left
        rows = rows[:left]
        for row in rows:
            try:
                _put(page, TABLES[at], row)
            except CorruptRecord:
                if not contents:
                    raise
                page.damaged.append((row[0] if TABLES[at] == "value" else row[1], f"a row of table {TABLES[at]!r}"))
        if more:
            # Where there was no room for the first row of a table, the table before it is where the page ended.
            page.next = (at, _key(TABLES[at], rows[-1])) if rows else (at, start or _before(TABLES[at]))
            return
        left -= len(rows)
        start = None


def _before(table: str) -> tuple[Any, ...]:
    return (-1,) if table == "value" else _STATEMENTS[table][1]


def _read(
    database: Database, table: str, key: int, start: Sequence[Any] | None, limit: int, contents: bool
) -> list[tuple[Any, ...]]:
    behind = start or _before(table)
    if table != "value":
        return database.execute(_STATEMENTS[table][0], (key, *behind, limit)).fetchall()
    statement = sql.SURVEY_VALUES if contents else sql.SURVEY_SIZES
    base = key << 32
    found = database.execute(statement, (base + behind[0], base + NUMBERS - 1, limit))
    return [(n - base, tag, data) for n, tag, data in found]


def _key(table: str, row: tuple[Any, ...]) -> tuple[Any, ...]:
    return row[: len(_before(table))]


def _put(page: Survey, table: str, row: tuple[Any, ...]) -> None:
    if table == "namespace":
        page.namespaces[row[0]] = row[1]
    elif table == "branch":
        page.branches[row[0]] = row[1]
    elif table == "checkpoint":
        ns, n, packed_id, body = row
        page.checkpoints.append(checkpoint_row(n, ns, packed_id, body))
    elif table == "child":
        page.children.append(ChildRow(*row))
    elif table == "write":
        ns, origin, path, kind, body = row
        page.writes.append(WriteRow(ns, origin, path, kind, write_items(body)))
    elif isinstance(row[2], int):
        page.sizes[row[0]] = row[2]
    else:
        page.sizes[row[0]] = len(row[2])
        page.values[row[0]] = Packed(row[1], row[2])
