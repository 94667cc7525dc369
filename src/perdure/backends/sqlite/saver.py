"""The saver that keeps threads in a SQLite file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from perdure.backends.sqlite.connections import BUSY_TIMEOUT, open_sqlite
from perdure.backends.sqlite.records import SqliteRecords
from perdure.backends.sqlite.target import is_of_one_thread
from perdure.checkpoint.saver import Saver
from perdure.errors import WrongType

if TYPE_CHECKING:
    import sqlite3

    from perdure.checkpoint.records import RecordStore


class SqliteSaver(Saver):
    """Keeps threads in a SQLite file, for sync and async code alike; many threads and processes may share the file.

    With its defaults a finished super-step survives a power loss: WAL with `synchronous=FULL`, one transaction for each step.

        saver = SqliteSaver("app.db")
        with SqliteSaver.from_conn_string("app.db") as saver: ...
        async with SqliteSaver.from_conn_string("app.db") as saver: ...

    Args:
        conn: a path, ":memory:", a `file:` URI, or an open `sqlite3` connection, which only tells the path: the saver opens a
            connection of its own, because it decides when transactions begin and end.
        serde: how values become bytes; `JsonPlusSerializer()` if not given.
        synchronous: "full", or "normal": faster, and a power loss (not a crash) may undo the last steps.
        busy_timeout: seconds to wait for another process's transaction.
        options: `lease_seconds`, `persist`, `head_cache`, `retention`, `clock`; see `perdure.checkpoint.saver.Saver`.

    Raises:
        WrongType: `conn` is neither a path nor a sqlite3 connection, or one to a database in memory that other threads may not use.
        InvalidArgument: it is a URL other than `file:`, or an option has no such choice.
    """

    def __init__(
        self,
        conn: str | Path | sqlite3.Connection,
        *,
        serde: Any = None,
        synchronous: Literal["full", "normal"] = "full",
        busy_timeout: float = BUSY_TIMEOUT,
        **options: Any,
    ) -> None:
        super().__init__(serde=serde, **options)
        self._database = open_sqlite(_path(conn), synchronous=synchronous, busy_timeout=busy_timeout, clock=self.clock)
        self._blocking = SqliteRecords(self._database.blocking())
        self._suspending = SqliteRecords(self._database.suspending())

    @classmethod
    def from_conn_string(cls, conn_string: str, **options: Any) -> Self:
        """A saver for a path, a `file:` URI or a `sqlite://` URL. Use it as it is, with `with`, or with `async with`."""
        text: Any = conn_string
        if not isinstance(text, str):
            raise WrongType(f"a connection string is text, such as 'app.db' or 'sqlite:///app.db', got {type(text).__name__}")
        return cls(path_of_url(text), **options)

    def blocking(self) -> RecordStore:
        """The records, for calls that block."""
        return self._blocking

    def suspending(self) -> RecordStore:
        """The records, for calls that suspend: the same connection, on a thread of its own."""
        return self._suspending


def path_of_url(text: str) -> str:
    """The path in `sqlite:///relative.db`, `sqlite:////absolute.db` or `sqlite://` (in memory); any other text as it is."""
    if not text.startswith("sqlite:"):
        return text
    rest = text[len("sqlite:") :]
    if rest.startswith("///"):
        rest = rest[3:]
    elif rest.startswith("//"):
        rest = rest[2:]
    return rest or ":memory:"


def _path(conn: Any) -> str | Path:
    if isinstance(conn, (str, Path)):
        return conn
    import sqlite3

    if not isinstance(conn, sqlite3.Connection):
        kind = type(conn)
        raise WrongType(
            f"SqliteSaver needs a path or a sqlite3 connection, got {kind.__module__}.{kind.__qualname__}; for example "
            "SqliteSaver('app.db'), which serves async code too"
        )
    path = _main_file(conn)
    if path:
        return path
    if is_of_one_thread(conn):
        raise WrongType(
            "a database in memory that is given to SqliteSaver has to be connected to with check_same_thread=False; simpler is "
            "SqliteSaver(':memory:')"
        )
    # A database in memory belongs to its connection: another one cannot see it, so the saver gets one of its own.
    return ":memory:"


def _main_file(conn: sqlite3.Connection) -> str:
    import sqlite3

    try:
        rows = conn.execute("PRAGMA database_list").fetchall()
    except sqlite3.ProgrammingError as error:
        raise WrongType(
            "the connection given to SqliteSaver cannot be used here: it was closed, or opened on another thread. Give the path "
            f"instead, SqliteSaver('app.db'), or connect with check_same_thread=False ({error})"
        ) from error
    return next((row[2] for row in rows if row[1] == "main"), "") or ""
