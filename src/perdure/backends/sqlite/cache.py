"""The cache that keeps results in a SQLite file."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from perdure.backends.sqlite.connections import open_sqlite
from perdure.backends.sqlite.removing import reclaim
from perdure.backends.sqlite.schema import CACHE, Database
from perdure.cache.base import BaseCache, FullKey, Namespace
from perdure.clock import SYSTEM_CLOCK, Clock
from perdure.closable import Closable
from perdure.errors import CacheWarning, CorruptRecord, WrongType
from perdure.failpoints import failpoint

V = TypeVar("V")

Place = tuple[bytes, bytes]
"""A namespace and a key, as they are stored."""
Row = tuple[bytes, bytes, str, bytes, int | None]

LEAST_REMOVED = 100
"""So many expired rows at least go with each `set`, if there are any; twice as many as it brings, if that is more."""

_RECLAIMED_AT_ONCE = 16 << 20
_LONGEST = 10_000_000_000
"""Seconds. What lives longer, lives until the end of a 64 bit count of nanoseconds."""
_END_OF_TIME = (1 << 63) - 1

Stored = tuple[bytes | None, bytes | None]
"""Tag and data as they are found; None is what is of another type than was written. (Text that is no UTF-8 could not be read as such.)"""

GET = """
SELECT CASE typeof(tag) WHEN 'text' THEN CAST(tag AS BLOB) END, CASE typeof(data) WHEN 'blob' THEN data END FROM result
WHERE namespace = ? AND key = ? AND (expires_ns IS NULL OR expires_ns > ?)
"""
SET = """
INSERT INTO result (namespace, key, tag, data, expires_ns) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (namespace, key) DO UPDATE SET tag = excluded.tag, data = excluded.data, expires_ns = excluded.expires_ns
"""
EXPIRE = """
DELETE FROM result WHERE rowid IN (SELECT rowid FROM result WHERE expires_ns <= ? ORDER BY expires_ns LIMIT ?)
"""


class SqliteCache(Closable, BaseCache[V]):
    """Keeps values in a SQLite file, for sync and async code alike; many threads and processes may share the file.

    A `set` is one transaction: it is seen whole or not at all, also after a crash. A power loss may undo the last ones. What has
    expired is not found any more, and later calls of `set` remove it bit by bit, so the file does not grow without end. Lifetimes are
    measured by the wall clock, which other processes have too.

        cache = SqliteCache("cache.db")
        with SqliteCache("cache.db") as cache: ...
        async with SqliteCache("cache.db") as cache: ...

    A value that cannot be loaded, because its class has changed or its bytes are damaged, counts as not there, with a
    `CacheWarning`. Nothing in the file is executed: only registered classes are loaded, as by a saver.

    Args:
        path: a file of the cache's own, made if missing; ":memory:"; or a `file:` URI (`?mode=ro` only looks things up).
        serde: how values become bytes; `JsonPlusSerializer()` if not given.
        clock: what lifetimes are measured with.

    Raises:
        WrongType: `path` is no path.
        InvalidArgument: it is a URL other than `file:`.
        CorruptRecord: upon first use: the file is damaged as a whole, or is another program's, or a saver's.
        SaverClosed: after `close`.
    """

    def __init__(self, path: str | Path, *, serde: Any = None, clock: Clock = SYSTEM_CLOCK) -> None:
        super().__init__(serde=serde)
        given: Any = path
        if not isinstance(given, (str, Path)):
            raise WrongType(f"SqliteCache needs a path, for example SqliteCache('cache.db'), got {type(given).__name__}")
        self._clock = clock
        # What a cache holds can be made again, so it does not wait for the disk.
        self._database = open_sqlite(path, kind=CACHE, synchronous="normal", clock=clock)
        self._suspending = self._database.suspending()

    def get(self, keys: Sequence[FullKey]) -> dict[FullKey, V]:
        """See `BaseCache.get`."""
        places = _places(keys)
        return self._loaded(self._database.run(_get, places, self._clock.now_ns()) if places else {})

    async def aget(self, keys: Sequence[FullKey]) -> dict[FullKey, V]:
        """`get` for async code."""
        places = _places(keys)
        return self._loaded(await self._suspending.run(_get, places, self._clock.now_ns()) if places else {})

    def set(self, pairs: Mapping[FullKey, tuple[V, int | None]]) -> None:
        """See `BaseCache.set`."""
        if pairs:
            now_ns = self._clock.now_ns()
            self._database.run(_set, self._rows(pairs, now_ns), now_ns)

    async def aset(self, pairs: Mapping[FullKey, tuple[V, int | None]]) -> None:
        """`set` for async code."""
        if pairs:
            now_ns = self._clock.now_ns()
            await self._suspending.run(_set, self._rows(pairs, now_ns), now_ns)

    def clear(self, namespaces: Sequence[Namespace] | None = None) -> None:
        """See `BaseCache.clear`. The file gets smaller."""
        spaces = None if namespaces is None else [_space(each) for each in namespaces]
        if spaces is None or spaces:
            self._database.run(_clear, spaces)
            while self._database.run(reclaim, _RECLAIMED_AT_ONCE):
                pass

    async def aclear(self, namespaces: Sequence[Namespace] | None = None) -> None:
        """`clear` for async code."""
        spaces = None if namespaces is None else [_space(each) for each in namespaces]
        if spaces is None or spaces:
            await self._suspending.run(_clear, spaces)
            while await self._suspending.run(reclaim, _RECLAIMED_AT_ONCE):
                pass

    def close(self) -> None:
        """Close the file; later calls raise SaverClosed. Closing twice is fine."""
        self._database.close()

    async def aclose(self) -> None:
        """See `close`."""
        await self._suspending.close()

    def _rows(self, pairs: Mapping[FullKey, tuple[V, int | None]], now_ns: int) -> list[Row]:
        rows = []
        for place, (value, lifetime) in pairs.items():
            tag, data = self.serde.dumps_typed(value)
            text: Any = data  # `json.dumps` gives text
            packed = text.encode("utf-8") if isinstance(text, str) else data
            rows.append((*_place(place), tag, packed, _expiry(lifetime, now_ns)))
        return rows

    def _loaded(self, found: Mapping[FullKey, Stored]) -> dict[FullKey, V]:
        values = {}
        for place, (tag, data) in found.items():
            try:
                if tag is None or data is None:
                    raise CorruptRecord("a stored value is a tag and bytes")
                values[place] = self.serde.loads_typed((tag.decode("utf-8"), data))
            except Exception as error:  # noqa: BLE001 - whatever a serializer says of such bytes, the value can be made again
                warnings.warn(
                    f"a value in the cache {self._database.name}, in namespace {place[0]}, cannot be loaded and counts as not there: "
                    f"{type(error).__name__}: {error}",
                    CacheWarning,
                    stacklevel=3,
                )
        return values


# ------------------------------------------------------------------------------------------------------------------- scripts


def _get(database: Database, places: Mapping[FullKey, Place], now_ns: int) -> dict[FullKey, Stored]:
    execute = database.execute
    execute("BEGIN")  # one snapshot: what one `set` has kept is found whole
    rows = {full: execute(GET, (*place, now_ns)).fetchone() for full, place in places.items()}
    execute("COMMIT")
    return {full: row for full, row in rows.items() if row is not None}


def _set(database: Database, rows: Sequence[Row], now_ns: int) -> None:
    database.execute("BEGIN IMMEDIATE")
    database.execute(EXPIRE, (now_ns, max(LEAST_REMOVED, 2 * len(rows))))
    database.executemany(SET, rows)
    failpoint("sqlite.cache.before")
    database.execute("COMMIT")
    failpoint("sqlite.cache.after")


def _clear(database: Database, spaces: Iterable[bytes] | None) -> None:
    database.execute("BEGIN IMMEDIATE")
    if spaces is None:
        database.execute("DELETE FROM result")
    else:
        database.executemany("DELETE FROM result WHERE namespace = ?", [(space,) for space in spaces])
    database.execute("COMMIT")


# ---------------------------------------------------------------------------------------------------------------------- keys


def _places(keys: Iterable[FullKey]) -> dict[FullKey, Place]:
    return {full: _place(full) for full in keys}


def _place(full: FullKey) -> Place:
    namespace, key = full
    text: Any = key
    if not isinstance(text, str):
        raise WrongType(f"a key of a cache is a namespace and a text, got {key!r} as the text")
    return _space(namespace), key.encode("utf-8", "surrogatepass")


def _space(namespace: Namespace) -> bytes:
    """No two namespaces have the same bytes, whatever is in their parts."""
    given: Any = namespace
    if not isinstance(given, tuple) or not all(isinstance(part, str) for part in given):
        raise WrongType(f"a namespace of a cache is a tuple of texts, such as ('reports', 'daily'), got {namespace!r}")
    parts = (part.encode("utf-8", "surrogatepass") for part in namespace)
    return b"".join(b"%d:%b" % (len(part), part) for part in parts)


def _expiry(lifetime: int | None, now_ns: int) -> int | None:
    if lifetime is None:
        return None
    seconds: Any = lifetime
    if not isinstance(seconds, (int, float)):
        raise WrongType(f"a lifetime in a cache is a number of seconds, or None, got {lifetime!r}")
    return min(now_ns + int(max(0, min(seconds, _LONGEST)) * 1_000_000_000), _END_OF_TIME)
