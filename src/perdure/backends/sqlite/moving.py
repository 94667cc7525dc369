"""The scripts that move threads: rows read as bytes, and rows written under a key that no thread has yet.

An arrival has two keys. Its rows lie under K, a key of the `thread` table's own sequence, so that no thread ever gets it; while there is
no thread row K, nobody sees them. That it arrives, and who brings it, is the row -K of `lease`, which no thread has either.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from perdure.backends.sqlite import statements_moving as sql
from perdure.backends.sqlite.committing import THREAD_KEYS
from perdure.backends.sqlite.loading import thread_row
from perdure.backends.sqlite.schema import NUMBERS, Database
from perdure.backends.sqlite.statements import (
    BEGIN_READ,
    BEGIN_WRITE,
    COMMIT,
    DELETE_ROWS,
    DELETE_VALUES,
    INSERT_LEASE,
    INSERT_THREAD,
    THREAD,
    THREAD_KEY,
    TOMBSTONE,
)
from perdure.checkpoint.records import LeaseRow, ThreadRow
from perdure.checkpoint.rows import holder_again, holder_body, metadata_body
from perdure.checkpoint.survey import ROW_COSTS, Stretch
from perdure.checkpoint.transfer.arrivals import exists, given_up, is_given_up, twice
from perdure.checkpoint.transfer.port import Arrival
from perdure.checkpoint.transfer.raw import BRANCH, CHECKPOINT, CHILD, NAMESPACE, VALUE, WRITE, Place, RawRow
from perdure.errors import CorruptRecord, SaveFailed
from perdure.failpoints import failpoint


def rows(database: Database, thread: str, after: Place | None, budget: int, contents: bool) -> Stretch:
    """See `RecordStore.rows`."""
    database.execute(BEGIN_READ)
    found = database.execute(THREAD, (thread,)).fetchone()
    stretch = (
        Stretch(None, [])
        if found is None
        else Stretch(thread_row(found, database.clock.now_ns()), _rows(database, found[0], after, budget, contents=contents))
    )
    database.execute(COMMIT)
    return stretch


def _rows(database: Database, key: int, after: Place | None, budget: int, *, contents: bool = True) -> list[RawRow]:
    found: list[RawRow] = []
    first, done = (NAMESPACE, None) if after is None else after
    for kind in range(first, BRANCH + 1):
        cursor = _read(database, key, kind, done if kind == first else None, contents)
        try:
            for row in cursor:
                found.append(row)
                budget -= len(row.body) + ROW_COSTS
                if budget <= 0:
                    return found
        except (TypeError, AttributeError) as error:
            raise CorruptRecord(f"a row has something of another type than was stored: {error}") from error
    return found


def _read(database: Database, key: int, kind: int, done: tuple[Any, ...] | None, contents: bool) -> Iterator[RawRow]:
    if kind == VALUE:
        base = key << 32
        statement = sql.READ[VALUE] if contents else sql.READ_SIZES
        for n, tag, data in database.execute(statement, (base + 1 + (done[0] if done else -1), base + NUMBERS - 1)):
            if data is None:
                raise CorruptRecord(f"value {n - base} has something of another type than was stored: it has no content")
            yield RawRow(VALUE, (n - base, tag), data) if contents else RawRow(VALUE, (n - base, tag, data))
        return
    statement = sql.READ[kind] if done is None else sql.READ_AFTER[kind]
    for columns in database.execute(statement, (key, *(done or ()))):
        if kind == NAMESPACE:
            yield RawRow(kind, columns[:1], columns[1].encode())
        elif kind in (CHECKPOINT, WRITE):
            yield RawRow(kind, columns[:-1], columns[-1])
        else:
            yield RawRow(kind, columns)


def arrive(database: Database, arrival: Arrival) -> None:
    """See `MovableRecords.arrive`."""
    execute = database.execute
    execute(BEGIN_WRITE)
    for key, token, expires_ns, holder in execute(sql.ARRIVALS).fetchall():
        held = LeaseRow(token, 0, expires_ns, None if holder is None else holder_again(holder))
        if is_given_up(held, arrival.now_ns):
            _clear(database, -key)
    # A thread that is made and unmade at once: its key will not be given to another.
    key = execute(INSERT_THREAD, (arrival.token, 0, "idle", "", "", b"", 0, 0)).lastrowid
    assert key is not None
    if key >= THREAD_KEYS:
        raise SaveFailed("this database has used up its thread keys: begin a new file")
    execute(sql.DELETE_THREAD, (key,))
    expires_ns = arrival.now_ns + arrival.lease_ns
    execute(INSERT_LEASE, (-key, arrival.token, 0, expires_ns, holder_body(arrival.holder), None, 0, 0))
    failpoint("sqlite.arrive.before")
    execute(COMMIT)
    failpoint("sqlite.arrive.after")


def stage(database: Database, arrival: Arrival, travelled: Sequence[RawRow]) -> None:
    """See `MovableRecords.stage`."""
    import sqlite3

    execute = database.execute
    execute(BEGIN_WRITE)
    key = _key(database, arrival)
    execute(sql.EXTEND, (arrival.now_ns + arrival.lease_ns, -key))
    try:
        for kind in range(NAMESPACE, BRANCH + 1):
            columns = [_columns(key, row) for row in travelled if row.kind == kind]
            if columns:
                database.executemany(sql.INSERT[kind], columns)
    except sqlite3.IntegrityError as error:
        raise twice(str(error)) from error
    failpoint("sqlite.stage.before")
    execute(COMMIT)
    failpoint("sqlite.stage.after")


def _columns(key: int, row: RawRow) -> tuple[Any, ...]:
    if row.kind == NAMESPACE:
        return (key, row.key[0], row.body.decode())
    if row.kind == VALUE:
        return ((key << 32) + row.key[0], row.key[1], row.body)
    if row.kind in (CHECKPOINT, WRITE):
        return (key, *row.key, row.body)
    assert row.kind in (CHILD, BRANCH)
    return (key, *row.key)


def staged(database: Database, arrival: Arrival, after: Place | None, budget: int) -> list[RawRow]:
    """See `MovableRecords.staged`."""
    database.execute(BEGIN_READ)
    found = _rows(database, _key(database, arrival), after, budget)
    database.execute(COMMIT)
    return found


def admit(database: Database, arrival: Arrival, thread: ThreadRow) -> None:
    """See `MovableRecords.admit`."""
    execute = database.execute
    execute(BEGIN_WRITE)
    key = _key(database, arrival)
    if execute(THREAD_KEY, (thread.thread,)).fetchone() is not None:
        raise exists(thread.thread)
    tombstone = execute(TOMBSTONE, (database.hash_of(thread.thread),)).fetchone()
    incarnation = 1 if tombstone is None else tombstone[0] + 1
    slow = (thread.status, thread.graph, thread.fingerprint, metadata_body(thread.metadata))
    execute(sql.ADMIT_THREAD, (key, thread.thread, incarnation, *slow, thread.created_ns, thread.updated_ns))
    execute(INSERT_LEASE, (key, None, 0, 0, None, thread.head, thread.next_n, thread.newest))
    execute(sql.DELETE_LEASE, (-key,))
    failpoint("sqlite.admit.before")
    execute(COMMIT)
    failpoint("sqlite.admit.after")


def discard(database: Database, arrival: Arrival) -> None:
    """See `MovableRecords.discard`."""
    database.execute(BEGIN_WRITE)
    found = database.execute(sql.ARRIVAL, (arrival.token,)).fetchone()
    if found is not None:
        _clear(database, -found[0])
    database.execute(COMMIT)


def _key(database: Database, arrival: Arrival) -> int:
    found = database.execute(sql.ARRIVAL, (arrival.token,)).fetchone()
    if found is None:
        raise given_up()
    return -int(found[0])


def _clear(database: Database, key: int) -> None:
    database.execute(DELETE_VALUES, (key << 32, (key << 32) + NUMBERS - 1))
    for statement in DELETE_ROWS:
        database.execute(statement, (key,))
    database.execute(sql.DELETE_LEASE, (-key,))
