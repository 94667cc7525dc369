"""The tables of LangGraph's savers, read and never written to: those of the SQLite saver, and those of the Postgres saver."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from perdure.errors import CorruptRecord, MissingExtra, WrongType

Decode = Callable[[str | None, bytes | None], Any]
"""Makes a value of a tag and bytes."""


_HERE = "WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id = ?"
_CHECKPOINT = f"SELECT type, checkpoint, metadata FROM checkpoints {_HERE}"
_WRITES = f"SELECT task_id, task_path, idx, channel, type, value FROM writes {_HERE}"
_WRITES_WITHOUT_PATH = f"SELECT task_id, '', idx, channel, type, value FROM writes {_HERE}"

_PG_NAMES = ("checkpoints", "checkpoint_blobs", "checkpoint_writes")
# Asked for beforehand: a statement that fails would leave the transaction of somebody else's connection broken.
_PG_TABLES = "SELECT count(to_regclass(name)) FROM unnest(%s::text[]) AS name"
_PG_HERE = "WHERE thread_id = %s AND checkpoint_ns = %s AND checkpoint_id = %s"
_PG_CHECKPOINT = f"SELECT checkpoint, metadata FROM checkpoints {_PG_HERE}"
_PG_WRITES = f"SELECT task_id, task_path, idx, channel, type, blob FROM checkpoint_writes {_PG_HERE}"
_PG_VALUES = """
SELECT b.channel, b.type, b.blob
  FROM checkpoints AS c CROSS JOIN jsonb_each_text(c.checkpoint -> 'channel_versions') AS v
  JOIN checkpoint_blobs AS b ON b.thread_id = c.thread_id AND b.checkpoint_ns = c.checkpoint_ns
                            AND b.channel = v.key AND b.version = v.value
 WHERE c.thread_id = %s AND c.checkpoint_ns = %s AND c.checkpoint_id = %s
 ORDER BY b.channel COLLATE "C"
"""


class Key(NamedTuple):
    """Where a checkpoint is in its thread."""

    namespace: str
    id: str
    parent: str | None


class StoredWrite(NamedTuple):
    """A write of a task on a checkpoint, encoded."""

    task: str
    path: str
    at: int
    channel: str
    tag: str | None
    data: bytes | None


@dataclass(slots=True)
class StoredCheckpoint:
    """A checkpoint, decoded.

    Attributes:
        fields: `channel_versions`, `versions_seen`, `v` and the like.
        values: of its channels.
        metadata: as stored.
        writes: on it, in the order in which they count.
    """

    fields: dict[str, Any]
    values: dict[str, Any]
    metadata: dict[str, Any]
    writes: list[StoredWrite] = field(default_factory=list)


class Tables(Protocol):
    """A database that can be asked for its threads."""

    def threads(self) -> list[str]:
        """The ids of all threads, in order."""
        ...

    def keys(self, thread: str) -> list[Key]:
        """All checkpoints of a thread, by id."""
        ...

    def checkpoint(self, thread: str, key: Key, decode: Decode) -> StoredCheckpoint:
        """One of them, with the writes on it."""
        ...

    def snapshot(self) -> AbstractContextManager[None]:
        """What is read inside is of one moment, as far as the connection is ours."""
        ...

    def close(self) -> None:
        """Release what was opened here."""
        ...


class SqliteTables:
    """See `Tables`.

    Args:
        connection: sqlite3's own; it may be one that is only read from.
        owned: close it in the end.
    """

    def __init__(self, connection: Any, *, owned: bool) -> None:
        self._execute = connection.execute
        self._close = connection.close if owned else None
        if owned:
            connection.isolation_level = None  # transactions begin and end in `snapshot`
        columns = {row[1] for row in self._execute("PRAGMA table_info('writes')")}
        if not columns or not [*self._execute("PRAGMA table_info('checkpoints')")]:
            raise CorruptRecord(
                "this database has no tables `checkpoints` and `writes`: give the file that LangGraph's SqliteSaver wrote"
            )
        self._has_path = "task_path" in columns

    def threads(self) -> list[str]:
        """See `Tables.threads`."""
        return [row[0] for row in self._execute("SELECT DISTINCT thread_id FROM checkpoints ORDER BY thread_id")]

    def keys(self, thread: str) -> list[Key]:
        """See `Tables.keys`."""
        statement = "SELECT checkpoint_ns, checkpoint_id, parent_checkpoint_id FROM checkpoints WHERE thread_id = ? ORDER BY checkpoint_id"
        return [Key(*row) for row in self._execute(statement, (thread,))]

    def checkpoint(self, thread: str, key: Key, decode: Decode) -> StoredCheckpoint:
        """See `Tables.checkpoint`."""
        place = (thread, key.namespace, key.id)
        tag, data, metadata = self._execute(_CHECKPOINT, place).fetchone()
        fields = _mapping(decode(tag, data), "a checkpoint")
        values = _mapping(fields.pop("channel_values", {}), "the values of a checkpoint")
        writes = [StoredWrite(*row) for row in self._execute(_WRITES if self._has_path else _WRITES_WITHOUT_PATH, place)]
        return StoredCheckpoint(fields, values, _json(metadata), _sorted(writes))

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """See `Tables.snapshot`."""
        if self._close is None:  # somebody else's: it may be in a transaction
            yield
            return
        self._execute("BEGIN")
        try:
            yield
        finally:
            self._execute("COMMIT")

    def close(self) -> None:
        """See `Tables.close`."""
        if self._close is not None:
            self._close()


class PostgresTables:
    """See `Tables`.

    Args:
        connection: a psycopg connection.
        owned: close it in the end.

    Raises:
        CorruptRecord: there are no such tables.
    """

    def __init__(self, connection: Any, *, owned: bool) -> None:
        self._connection = connection
        self._owned = owned
        ((found,),) = self._all(_PG_TABLES, [*_PG_NAMES])
        if found != len(_PG_NAMES):
            raise CorruptRecord(
                f"this database has no tables {', '.join(map(repr, _PG_NAMES))} where it looks for tables (search_path): give the one that "
                "LangGraph's PostgresSaver wrote"
            )

    def _all(self, statement: str, *given: Any) -> list[Sequence[Any]]:
        # psycopg makes rows of the connection's own kind, often dicts; their order is that of the columns.
        cursor = self._connection.execute(statement, given)
        return [tuple(row.values()) if isinstance(row, dict) else row for row in cursor.fetchall()]

    def threads(self) -> list[str]:
        """See `Tables.threads`."""
        return [row[0] for row in self._all('SELECT DISTINCT thread_id COLLATE "C" AS id FROM checkpoints ORDER BY id')]

    def keys(self, thread: str) -> list[Key]:
        """See `Tables.keys`."""
        statement = "SELECT checkpoint_ns, checkpoint_id, parent_checkpoint_id FROM checkpoints WHERE thread_id = %s ORDER BY checkpoint_id"
        return sorted((Key(*row) for row in self._all(statement, thread)), key=lambda key: key.id)

    def checkpoint(self, thread: str, key: Key, decode: Decode) -> StoredCheckpoint:
        """See `Tables.checkpoint`."""
        place = (thread, key.namespace, key.id)
        ((stored, metadata),) = self._all(_PG_CHECKPOINT, *place)
        fields = _json(stored)
        values = _mapping(fields.pop("channel_values", None) or {}, "the values of a checkpoint")
        # A large value lies under the version of its channel, and counts more than what stands in its place.
        for channel, tag, data in self._all(_PG_VALUES, *place):
            if tag != "empty":
                values[channel] = decode(tag, None if data is None else bytes(data))
        writes = [
            StoredWrite(task, path, at, channel, tag, None if data is None else bytes(data))
            for task, path, at, channel, tag, data in self._all(_PG_WRITES, *place)
        ]
        return StoredCheckpoint(fields, values, _json(metadata), _sorted(writes))

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """See `Tables.snapshot`."""
        if not self._owned:
            yield
            return
        self._connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        try:
            yield
        finally:
            self._connection.execute("ROLLBACK")

    def close(self) -> None:
        """See `Tables.close`."""
        if self._owned:
            self._connection.close()


def open_tables(source: Any) -> Tables:
    """The tables behind a path, a URL, a connection, or a saver of LangGraph that has one.

    Raises:
        WrongType: it is none of these.
        FileNotFoundError: there is no such file.
        MissingExtra: it is a Postgres URL, and psycopg is not installed.
        CorruptRecord: the database has no such tables.
    """
    if isinstance(source, str) and source.startswith(("postgresql://", "postgres://")):
        try:
            import psycopg
        except ImportError:
            raise MissingExtra("reading a Postgres database", "postgres") from None
        opened = psycopg.connect(source, autocommit=True)
        try:
            return PostgresTables(opened, owned=True)
        except BaseException:
            opened.close()
            raise
    if isinstance(source, (str, Path)):
        return _sqlite_file(source)
    connection = getattr(source, "conn", source)
    if type(connection).__module__.startswith("psycopg"):
        return PostgresTables(connection, owned=False)
    if type(connection).__module__ == "sqlite3" or type(connection).__name__ == "Connection":
        return SqliteTables(connection, owned=False)
    raise WrongType(
        f"import_threads reads the path of a SQLite file, a postgresql:// URL, or an open sqlite3 or psycopg connection, not "
        f"{type(source).__name__}"
    )


def _sqlite_file(source: str | Path) -> Tables:
    import sqlite3

    text = str(source)
    path = Path(text.removeprefix("sqlite:///"))
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    # Not "mode=ro": a file that was left with a write-ahead log could then not be opened. Nothing is written all the same.
    connection = sqlite3.connect(path, check_same_thread=False)
    try:
        connection.execute("PRAGMA query_only = ON")
        connection.execute("PRAGMA trusted_schema = OFF")
        return SqliteTables(connection, owned=True)
    except sqlite3.DatabaseError as error:
        connection.close()
        raise CorruptRecord(f"{path} is no SQLite database: {error}") from error
    except BaseException:
        connection.close()
        raise


def _sorted(writes: list[StoredWrite]) -> list[StoredWrite]:
    return sorted(writes, key=lambda write: (write.path, write.task, write.at))


def _json(value: Any) -> dict[str, Any]:
    if isinstance(value, (bytes, str)):
        value = json.loads(value)
    return _mapping(value or {}, "metadata")


def _mapping(value: Any, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise CorruptRecord(f"{what} is not a mapping but {type(value).__name__}")
    return value


def by_task(writes: Sequence[StoredWrite]) -> dict[str, list[StoredWrite]]:
    """Writes by the task that wrote them."""
    found: defaultdict[str, list[StoredWrite]] = defaultdict(list)
    for write in writes:
        found[write.task].append(write)
    return dict(found)
