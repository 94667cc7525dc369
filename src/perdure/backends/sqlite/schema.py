"""Makes an opened file one of this library's databases, or says why it cannot be: identity, version, migrations, pragmas."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from perdure.checkpoint.rows import FORMAT
from perdure.checkpoint.saving import mark_unmade
from perdure.clock import SYSTEM_CLOCK, Clock
from perdure.errors import CorruptRecord, UnknownFormat
from perdure.failpoints import failpoint

if TYPE_CHECKING:
    import sqlite3

APPLICATION_ID = 0x50726472
"""Says in the file's header (offset 68) whose database it is: "Prdr"."""

NEWEST = 2
"""The number of the newest migration; `PRAGMA user_version` of a database that has it."""

NUMBERS = 1 << 32
"""A value's key is thread_key << 32 | n, in 63 bits."""

KEYS_KEPT = 4096
"""How many threads' keys a connection remembers."""

LOG_PAGES = 200
"""Where each commit waits for the disk, the log is written into the file when it has so many pages, and then begins anew: a commit that
makes the log longer has to store its new length too, which takes half as long again. See docs/decisions/0024-a-short-log.md."""

RECOVER = "the `.recover` command of the sqlite3 program saves what can still be read"
"""What to do with a damaged file of which there is no copy."""

_SQLITE_ERROR = 1
_SQLITE_CORRUPT = 11
_SQLITE_NOTADB = 26
_NO_TEXT = "Could not decode to UTF-8"
_TABLES = ("store", "thread", "lease", "checkpoint", "value", "write", "namespace", "child", "branch", "run", "tombstone")
_LANGGRAPH = {"checkpoints", "writes"}
SHOWN = 5
"""So many tables of another program are named."""


@dataclass(frozen=True, slots=True)
class Kind:
    """What a file of this library can be. It is one thing only, for whoever deletes a cache must not delete threads.

    Attributes:
        owner: whose file it is, in messages.
        holds: what the file is for the owner of another kind.
        application_id: says so in the file's header.
        newest: the number of the newest migration.
        tables: each with the migration that made it.
        migrations: the folder that they are in.
        remedy: what to do with a damaged file.
        urls: what takes a `sqlite://` URL.
        first_row: fills new tables.
        secret: reads the key of the database's hashes.
    """

    owner: str
    holds: str
    application_id: int
    newest: int
    tables: Mapping[str, int]
    migrations: str
    remedy: str
    urls: str = ""
    first_row: Callable[[sqlite3.Connection, Clock], None] | None = None
    secret: Callable[[sqlite3.Connection, str], bytes] | None = None

    def migration(self, number: int) -> str:
        """The text of a migration."""
        # Imported here: a database that is up to date, which is the usual case, does not need it.
        from importlib.resources import files

        return files(__package__).joinpath(self.migrations, f"{number:04}.sql").read_text("utf-8")


class Database:
    """One open connection and what is known of its database: what a transaction script gets.

    Attributes:
        connection: sqlite3's own.
        execute, executemany: its methods.
        secret: the key of this database's hashes.
        clock: the database's own, by which leases run out.
        keys: (key, incarnation) of threads seen here. A hint: whoever uses one checks it in the same statement.
    """

    __slots__ = ("clock", "connection", "execute", "executemany", "keys", "secret")

    def __init__(self, connection: sqlite3.Connection, secret: bytes, clock: Clock = SYSTEM_CLOCK) -> None:
        self.connection = connection
        self.clock = clock
        self.execute: Callable[..., sqlite3.Cursor] = connection.execute
        self.executemany: Callable[..., sqlite3.Cursor] = connection.executemany
        self.secret = secret
        self.keys: dict[str, tuple[int, int]] = {}

    def remember(self, thread: str, key: int, incarnation: int) -> None:
        """Keep the key of a stored thread."""
        if len(self.keys) >= KEYS_KEPT:
            self.keys.clear()
        self.keys[thread] = (key, incarnation)

    def hash_of(self, thread: str) -> bytes:
        """What a tombstone says instead of the id."""
        return blake2b(thread.encode("utf-8", "surrogatepass"), digest_size=16, key=self.secret).digest()


def prepare(
    connection: sqlite3.Connection,
    kind: Kind,
    *,
    name: str,
    writable: bool,
    synchronous: str,
    clock: Clock,
    host_clock: Clock = SYSTEM_CLOCK,
) -> Database:
    """Check the database behind a new connection, bring it up to date, and set the connection up.

    Raises:
        CorruptRecord: it is no database, or another program's; UnknownFormat if a newer version made it.
    """
    connection.execute("BEGIN")  # one snapshot: another process may be making the tables
    version = _version(connection, kind, name)
    connection.execute("COMMIT")
    if writable:
        try:
            _set_up(connection, synchronous, fresh=version == 0)
            if version < kind.newest:
                _migrate(connection, kind, name, clock)
        except Exception as error:
            if version < kind.newest:
                mark_unmade(error)
            raise
    elif version < kind.newest:
        raise CorruptRecord(
            f"{name} was opened for reading only, but it has format {version} and this version of perdure reads format {kind.newest}: "
            "open it once for writing, which brings it up to date"
        )
    connection.execute("PRAGMA foreign_keys = OFF")
    connection.execute("PRAGMA trusted_schema = OFF")  # triggers and views of a hostile file call nothing
    secret = b"" if kind.secret is None else kind.secret(connection, name)
    return Database(connection, secret, host_clock)


def _version(connection: sqlite3.Connection, kind: Kind, name: str) -> int:
    """The database's version, 0 if it has none of our tables yet."""
    import sqlite3

    try:
        application = _pragma(connection, "application_id")
        version = _pragma(connection, "user_version")
        tables = {
            row[0].lower()
            for row in connection.execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'view')")
            if not row[0].startswith("sqlite_")  # SQLite's own, which VACUUM and ANALYZE leave behind
        }
    except sqlite3.DatabaseError as error:
        if getattr(error, "sqlite_errorcode", None) == _SQLITE_NOTADB:
            raise CorruptRecord(
                f"{name} is not a SQLite database, or it is encrypted: give the {kind.owner} a file of its own"
            ) from error
        raise
    if application == kind.application_id:
        if version > kind.newest:
            raise UnknownFormat(
                f"{name} has format {version}; this version of perdure reads up to {kind.newest}: upgrade it (pip install -U perdure)"
            )
        if version < 1 or (missing := sorted({table for table, since in kind.tables.items() if since <= version} - tables)):
            what = f"it says that it has format {version}" if version < 1 else f"it has no table {', '.join(missing)}"
            raise CorruptRecord(f"{name} is damaged: {what}. {kind.remedy}")
        return version
    if other := next((each for each in KINDS if each.application_id == application), None):
        raise CorruptRecord(f"{name} holds {other.holds}: give the {kind.owner} a file of its own")
    if application or version:
        raise CorruptRecord(
            f"{name} is another program's database (application_id {application:#x}, user_version {version}): give the {kind.owner} "
            "a file of its own"
        )
    if tables:
        raise CorruptRecord(_foreign(kind, name, tables))
    return 0


def damage(error: BaseException, kind: Kind, name: str) -> CorruptRecord | None:
    """The error to raise where SQLite, or what reads its answers, found that the file is damaged; None if it is something else."""
    code = getattr(error, "sqlite_errorcode", None)
    if code is None:
        # Of a message, or of a text, that holds what the file holds: sqlite3 gives the latter no code.
        found = isinstance(error, UnicodeDecodeError) or str(error).startswith(_NO_TEXT)
    else:
        primary = code & 0xFF
        told = any(says in str(error) for says in ("no such ", "has no column", "unsupported file format"))
        found = primary in (_SQLITE_CORRUPT, _SQLITE_NOTADB) or (primary == _SQLITE_ERROR and told)
    return CorruptRecord(f"{name} is damaged: {error}. {kind.remedy}") if found else None


def _foreign(kind: Kind, name: str, tables: set[str]) -> str:
    shown = ", ".join(sorted(tables)[:SHOWN]) + (", …" if len(tables) > SHOWN else "")
    told = f"{name} has tables of another program ({shown}) and is left as it is: give the {kind.owner} a file of its own"
    if tables >= _LANGGRAPH and kind is THREADS:
        told += (
            ". These tables are LangGraph's: open a new file, and perdure.integrations.langgraph.import_threads brings their threads "
            "over"
        )
    return told


def _set_up(connection: sqlite3.Connection, synchronous: str, *, fresh: bool) -> None:
    if fresh:
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")  # has an effect before the first table only
    if connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
        # Stays "memory" for a database in memory, and what it was on a file system that cannot share memory: as durable there.
        connection.execute("PRAGMA journal_mode = WAL").fetchone()
    if synchronous == "full":
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute(f"PRAGMA wal_autocheckpoint = {LOG_PAGES}").fetchone()
    else:
        connection.execute("PRAGMA synchronous = NORMAL")  # which waits for the disk only when the log is written into the file
    connection.execute("PRAGMA secure_delete = ON").fetchone()  # what is deleted is not left in free pages


def _migrate(connection: sqlite3.Connection, kind: Kind, name: str, clock: Clock) -> None:
    connection.execute("BEGIN IMMEDIATE")
    try:
        version = _version(connection, kind, name)  # another process may have been first
        for number in range(version + 1, kind.newest + 1):
            for statement in statements_in(kind.migration(number)):
                connection.execute(statement)
        if version == 0 and kind.first_row is not None:
            kind.first_row(connection, clock)
        connection.execute(f"PRAGMA application_id = {kind.application_id}")
        connection.execute(f"PRAGMA user_version = {kind.newest}")
        failpoint("sqlite.migrate.before")
        connection.execute("COMMIT")
        failpoint("sqlite.migrate.after")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _first_row(connection: sqlite3.Connection, clock: Clock) -> None:
    row = (1, os.urandom(32), FORMAT, clock.now_ns())
    connection.execute("INSERT INTO store (one, key, format, created_ns) VALUES (?, ?, ?, ?)", row)


def _secret(connection: sqlite3.Connection, name: str) -> bytes:
    row = connection.execute("SELECT key FROM store").fetchone()
    if row is None or not isinstance(row[0], bytes) or len(row[0]) != 32:
        raise CorruptRecord(f"{name} is damaged: its table `store` does not have the one row with a key of 32 bytes")
    return row[0]


def _pragma(connection: sqlite3.Connection, pragma: str) -> int:
    value: Any = connection.execute(f"PRAGMA {pragma}").fetchone()[0]
    return int(value)


def statements_in(script: str) -> Iterator[str]:
    """The statements of a script, one by one: sqlite3's own `executescript` would commit the open transaction."""
    import sqlite3

    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""


THREADS = Kind(
    owner="saver",
    holds="the threads of a saver",
    application_id=APPLICATION_ID,
    newest=NEWEST,
    tables=dict.fromkeys(_TABLES, 1) | {"run": 2},
    migrations="migrations",
    remedy=f"Restore a copy of it; {RECOVER}",
    urls="SqliteSaver.from_conn_string(url) or open_saver(url)",
    first_row=_first_row,
    secret=_secret,
)

CACHE = Kind(
    owner="cache",
    holds="a cache",
    application_id=0x50726463,  # "Prdc"
    newest=1,
    tables={"result": 1},
    migrations="cache_migrations",
    remedy="Delete it, and the files beside it whose names end in -wal and -shm: what it held is made again",
)

KINDS = (THREADS, CACHE)
