"""The scripts that write: one transaction each, all or nothing. The port rolls back when one raises."""

from __future__ import annotations

from typing import Any, NamedTuple

from perdure.backends.sqlite import statements as sql
from perdure.backends.sqlite.loading import thread_row
from perdure.backends.sqlite.removing import delete_all, empty_log, take_away
from perdure.backends.sqlite.schema import NUMBERS, Database
from perdure.checkpoint.index.records import RUNS_KEPT, RunRow
from perdure.checkpoint.leases import lease
from perdure.checkpoint.records import RESULT, Commit, LeaseRow, Status, ThreadRow
from perdure.checkpoint.rows import checkpoint_body, holder_body, metadata_body, pack_id, run_body, write_body
from perdure.errors import SaveFailed
from perdure.failpoints import failpoint

THREAD_KEYS = 1 << 31
"""See NUMBERS."""


class Encoded(NamedTuple):
    """The rows of a commit as their columns, without the thread's key, which only the database knows."""

    checkpoints: list[tuple[int, int, bytes | str, bytes]]
    replaced_checkpoints: list[tuple[int, int, bytes]]
    once: list[tuple[int, int, str, int, bytes]]
    replaced: list[tuple[int, int, str, int, bytes]]
    holder: bytes | None
    metadata: bytes | None
    run: bytes | None


def encode(what: Commit) -> Encoded:
    """Everything of a commit that can be prepared before its turn at the connection comes.

    Raises:
        SaveFailed: the thread has used up its numbers.
    """
    if what.next_n > NUMBERS:
        raise SaveFailed(
            f"thread {what.thread!r} has used up the {NUMBERS} numbers of its rows: go on in a copy (copy_thread)",
            thread=what.thread,
        )
    writes = [(row.ns, row.origin, row.path, row.kind, write_body(row.items)) for row in what.writes]
    update = what.update
    return Encoded(
        [(row.ns, row.n, pack_id(row.id), checkpoint_body(row)) for row in what.checkpoints],
        [(row.ns, row.n, checkpoint_body(row)) for row in what.replaced],
        [row for row in writes if row[3] >= RESULT],
        [row for row in writes if row[3] < RESULT],
        None if what.holder is None or what.lease != "take" else holder_body(what.holder),
        None if update is None or update.metadata is None else metadata_body(update.metadata),
        None if what.run is None else run_body(what.run),
    )


def commit(database: Database, what: Commit, rows: Encoded) -> None:
    """Check the commit's condition and store it."""
    execute = database.execute
    execute(sql.BEGIN_WRITE)
    failpoint("sqlite.commit.begin")
    key = _fenced(database, what) if what.lease in {"keep", "release"} else _taken(database, what, rows)
    if what.update is not None:
        status, graph, fingerprint, _ = what.update
        execute(sql.UPDATE_THREAD, (status, graph, fingerprint, rows.metadata, what.now_ns, key))
    _insert(database, key, what, rows)
    removed = what.removed
    if removed is not None and removed.thread:
        delete_all(database, what.thread, key, what.incarnation, what.now_ns)
    elif removed is not None or rows.replaced_checkpoints:
        take_away(database, key, rows.replaced_checkpoints, removed)
    failpoint("sqlite.commit.before")
    execute(sql.COMMIT)
    failpoint("sqlite.commit.after")
    if removed is not None and removed.thread:
        database.keys.pop(what.thread, None)
        empty_log(database)
        return
    database.remember(what.thread, key, what.incarnation)


def _insert(database: Database, key: int, what: Commit, rows: Encoded) -> None:
    many = database.executemany
    if rows.once:
        many(sql.INSERT_WRITE, [(key, *row) for row in rows.once])
    if rows.replaced:
        many(sql.REPLACE_WRITE, [(key, *row) for row in rows.replaced])
    if what.values:
        first = key << 32
        many(sql.INSERT_VALUE, [(first + n, tag, data) for n, (tag, data) in what.values])
    if what.namespaces:
        many(sql.INSERT_NAMESPACE, [(key, *row) for row in what.namespaces])
    if what.children:
        many(sql.REPLACE_CHILD, [(key, *row) for row in what.children])
    for name, head in what.branches:
        if head is None:
            database.execute(sql.DELETE_BRANCH, (key, name))
        else:
            database.execute(sql.REPLACE_BRANCH, (key, name, head))
    if what.run is not None:
        database.execute(sql.REPLACE_RUN, (key, what.run.epoch, rows.run))
        if what.lease in {"take", "once"} and what.epoch > RUNS_KEPT:
            database.execute(sql.DELETE_OLD_RUNS, (key, what.epoch - RUNS_KEPT))
    if rows.checkpoints:
        many(sql.INSERT_CHECKPOINT, [(key, *row) for row in rows.checkpoints])


# ------------------------------------------------------------------------------------------------------------------ conditions


def _fenced(database: Database, what: Commit) -> int:
    """Go on holding, or give back, in one statement that is its own check. Returns the thread's key."""
    key, incarnation = database.keys.get(what.thread, (0, 0))
    if incarnation == what.incarnation and _hold(database, key, what):
        return key
    # Not seen here yet, or refused. The key is read anew, for what was remembered may be out of date.
    thread = _thread(database, what.thread)
    lease.check(what, thread, tombstone=0)
    assert thread is not None
    if not _hold(database, thread.key, what):
        raise AssertionError("a lease changed inside a transaction that excludes other writers")
    return int(thread.key)


def _hold(database: Database, key: int, what: Commit) -> bool:
    rest = (what.head, what.next_n, what.newest, key, what.token, what.epoch)
    if what.lease == "keep":
        return database.execute(sql.KEEP, (database.clock.now_ns() + what.lease_ns, *rest)).rowcount == 1
    return database.execute(sql.GIVE_BACK, rest).rowcount == 1


def _taken(database: Database, what: Commit, rows: Encoded) -> int:
    """Take the lease, creating the thread if there is none. Returns its key."""
    thread = _thread(database, what.thread)
    if thread is None:
        tombstone = _tombstone(database, what.thread)
        lease.check(what, None, tombstone=tombstone)
        return _created(database, what, rows)
    lease.check(what, thread, tombstone=0)
    new = lease.after(what, thread.lease, database.clock.now_ns())
    grown = (what.head, what.next_n, what.newest)
    database.execute(sql.TAKE, (new.token, new.epoch, new.expires_ns, rows.holder, *grown, thread.key))
    return int(thread.key)


def _created(database: Database, what: Commit, rows: Encoded) -> int:
    status, graph, fingerprint, _ = what.update or ("idle", None, None, None)
    metadata = rows.metadata or metadata_body({})
    now = what.now_ns
    row = (what.thread, what.incarnation, status, graph or "", fingerprint or "", metadata, now, now)
    key = database.execute(sql.INSERT_THREAD, row).lastrowid
    assert key is not None
    if key >= THREAD_KEYS:
        raise SaveFailed("this database has used up its thread keys: begin a new file", thread=what.thread)
    new = lease.after(what, LeaseRow(), database.clock.now_ns())
    grown = (what.head, what.next_n, what.newest)
    database.execute(sql.INSERT_LEASE, (key, new.token, new.epoch, new.expires_ns, rows.holder, *grown))
    return key


def _thread(database: Database, thread: str) -> ThreadRow | None:
    row: tuple[Any, ...] | None = database.execute(sql.THREAD, (thread,)).fetchone()
    return None if row is None else thread_row(row, database.clock.now_ns())


def _tombstone(database: Database, thread: str) -> int:
    row = database.execute(sql.TOMBSTONE, (database.hash_of(thread),)).fetchone()
    return 0 if row is None else int(row[0])


# ---------------------------------------------------------------------------------------------------------- outside of commits


def renew(database: Database, leases: list[tuple[str, str, int]], lease_ns: int) -> None:
    """Extend those of the leases that are still held."""
    database.execute(sql.BEGIN_WRITE)
    expires_ns = database.clock.now_ns() + lease_ns
    database.executemany(sql.RENEW, [(expires_ns, *held) for held in leases])
    database.execute(sql.COMMIT)


def release(database: Database, thread: str, token: str, epoch: int, status: Status, run: RunRow | None, now_ns: int) -> None:
    """Give a lease back if it is still held, and say how the thread stands and what became of the run."""
    database.execute(sql.BEGIN_WRITE)
    row = database.execute(sql.THREAD_KEY, (thread,)).fetchone()
    if row is not None and database.execute(sql.GIVE_BACK, (None, 0, 0, row[0], token, epoch)).rowcount:
        database.execute(sql.UPDATE_STATUS, (status, now_ns, row[0]))
        if run is not None:
            database.execute(sql.REPLACE_RUN, (row[0], run.epoch, run_body(run)))
    failpoint("sqlite.release.before")
    database.execute(sql.COMMIT)
