"""The scripts that take rows away: whole threads, what retention lets go of, and the room that they leave in the file."""

from __future__ import annotations

from collections.abc import Sequence

from perdure.backends.sqlite import statements as sql
from perdure.backends.sqlite.schema import NUMBERS, Database
from perdure.checkpoint.survey import Removal
from perdure.failpoints import failpoint


def delete(database: Database, thread: str, now_ns: int) -> None:
    """Remove a thread's rows and leave its tombstone; nothing happens if there is no such thread."""
    execute = database.execute
    execute(sql.BEGIN_WRITE)
    row = execute(sql.THREAD_KEY, (thread,)).fetchone()
    if row is not None:
        key, incarnation = row
        delete_all(database, thread, key, incarnation, now_ns)
    failpoint("sqlite.delete.before")
    execute(sql.COMMIT)
    failpoint("sqlite.delete.after")
    database.keys.pop(thread, None)
    if row is not None:
        empty_log(database)


def delete_all(database: Database, thread: str, key: int, incarnation: int, now_ns: int) -> None:
    """Inside of a transaction: remove a thread's rows and leave its tombstone."""
    execute = database.execute
    execute(sql.DELETE_VALUES, (key << 32, (key << 32) + NUMBERS - 1))
    for statement in sql.DELETE_ROWS:
        execute(statement, (key,))
    execute(sql.REPLACE_TOMBSTONE, (database.hash_of(thread), incarnation, now_ns))


def empty_log(database: Database) -> bool:
    """Write the write-ahead log into the file and empty it, if nobody is reading it; waiting for readers could take as long as they
    please. Until it is written over, it still tells what was there.
    """
    import sqlite3

    try:
        return bool(database.execute(sql.TRUNCATE_WAL).fetchone()[0] == 0)
    except sqlite3.OperationalError:
        return False


def take_away(database: Database, key: int, replaced: Sequence[tuple[int, int, bytes]], removed: Removal | None) -> None:
    """Inside of a transaction: let checkpoints say the same on other rows, and remove rows."""
    many = database.executemany
    many(sql.REPLACE_CHECKPOINT, [(body, key, ns, n) for ns, n, body in replaced])
    if removed is None:
        return
    many(sql.DELETE_CHECKPOINT, [(key, *row) for row in removed.checkpoints])
    many(sql.DELETE_WRITE, [(key, *row) for row in removed.writes])
    many(sql.DELETE_CHILD, [(key, *row) for row in removed.children])
    many(sql.DELETE_NAMESPACE, [(key, ns) for ns in removed.namespaces])
    many(sql.DELETE_VALUE, [((key << 32) + n,) for n in removed.values])


def reclaim(database: Database, limit: int) -> int:
    """See `RecordStore.reclaim`: cut free pages off the end of the file, in a transaction of its own."""
    import sqlite3

    execute = database.execute
    size = execute("PRAGMA page_size").fetchone()[0]
    before = execute("PRAGMA page_count").fetchone()[0]
    if execute("PRAGMA freelist_count").fetchone()[0] == 0:
        empty_log(database)  # it still tells what was in the pages that are used again
        return 0
    try:
        # The pragma frees a page each time it is stepped, so it is stepped to its end.
        execute(f"PRAGMA incremental_vacuum({max(1, limit // size)})").fetchall()
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
            raise
        return 0  # others write all the time; the next sweep finds the pages still free
    freed = int((before - execute("PRAGMA page_count").fetchone()[0]) * size)
    if freed > 0:
        empty_log(database)  # the file itself gets smaller when the log is written into it
    return max(0, freed)
