"""The cache on a SQLite file: its file, what is in it, what becomes of damage, and its end. (P7, P36, P38)"""

from __future__ import annotations

import asyncio
import pickle
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from perdure import SqliteSaver
from perdure.backends.sqlite import cache as rooms
from perdure.backends.sqlite.schema import CACHE, THREADS
from perdure.cache import SqliteCache
from perdure.checkpoint.serde.jsonplus import JsonPlusSerializer
from perdure.errors import CacheWarning, CorruptRecord, InvalidArgument, SaverClosed, UnknownFormat, WrongType
from perdure.testing.clock import ManualClock
from tests.pure.test_sqlite_connection import forks, in_child
from tests.pure.test_sqlite_files import edit, pragma

A, B = ("a",), ("a", "b")
K, L = (A, "k"), (A, "l")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "cache.db"


@pytest.fixture
def cache(path: Path) -> Iterator[SqliteCache[Any]]:
    with SqliteCache[Any](path) as made:
        yield made


def rows(path: Path) -> int:
    connection = sqlite3.connect(path)
    count: int = connection.execute("SELECT count(*) FROM result").fetchone()[0]
    connection.close()
    return count


# ---------------------------------------------------------------------------------------------------------------------- file


def test_a_new_file_is_a_caches(path: Path, cache: SqliteCache[Any]):
    assert not path.exists(), "opened upon first use"
    assert cache.get([K]) == {}
    settings = {"synchronous": 1, "journal_mode": "wal", "auto_vacuum": 2, "secure_delete": 1, "trusted_schema": 0}
    found = cache._database.run(lambda database: {name: database.execute(f"PRAGMA {name}").fetchone()[0] for name in settings})
    assert found == settings
    assert pragma(path, "application_id") == CACHE.application_id != THREADS.application_id
    assert pragma(path, "user_version") == CACHE.newest


def test_importing_caches_loads_no_database():
    program = "import sys, perdure.cache, perdure.cache.sqlite; assert 'sqlite3' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_what_was_kept_is_there_for_the_next_process(path: Path):
    with SqliteCache[Any](path) as first:
        first.set({K: ({"x": [1]}, None), L: (2, 1000)})
    with SqliteCache[Any](str(path)) as second, SqliteCache[Any](path=f"file:{path}") as third:
        assert second.get([K, L]) == third.get([K, L]) == {K: {"x": [1]}, L: 2}
        second.clear([A])
        assert third.get([K, L]) == {}


def test_a_relative_path_is_meant_from_where_it_was_given(path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(path.parent)
    with SqliteCache[Any]("cache.db") as cache:
        monkeypatch.chdir("/")
        cache.set({K: (1, None)})
    assert path.exists()


def test_two_caches_in_memory_are_two():
    with SqliteCache[Any](":memory:") as one, SqliteCache[Any](":memory:") as other:
        one.set({K: (1, None)})
        assert (one.get([K]), other.get([K])) == ({K: 1}, {})
        one.clear()
        assert asyncio.run(one.aget([K])) == {}


@pytest.mark.parametrize("given", [None, 5, b"a.db", sqlite3])
def test_what_is_no_path_is_refused_where_it_is_given(given: Any):
    with pytest.raises(WrongType, match=r"SqliteCache\('cache.db'\)"):
        SqliteCache(given)


@pytest.mark.parametrize("given", ["", "redis://host", "sqlite:///a.db", "a\x00.db"])
def test_a_url_is_refused_where_it_is_given_and_no_saver_is_advised(given: str):
    with pytest.raises(InvalidArgument) as caught:
        SqliteCache(given)
    assert "aver" not in str(caught.value)


# --------------------------------------------------------------------------------------------------------- files of others


def saver_at(path: Path) -> None:
    with SqliteSaver(path) as saver:
        saver.delete_thread("none")


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (saver_at, "holds the threads of a saver: give the cache a file of its own"),
        (lambda path: path.write_bytes(b"my notes\n" * 999), "not a SQLite database.*give the cache a file of its own"),
        (lambda path: edit(path, "CREATE TABLE cache (ns, key, expiry, encoding, val)"), r"another program \(cache\)"),
        (lambda path: edit(path, "CREATE TABLE checkpoints (x)", "CREATE TABLE writes (x)"), "the cache a file of its own$"),
        (lambda path: edit(path, "CREATE TABLE x (x)", "PRAGMA user_version = 3"), "another program's.*give the cache"),
    ],
)
def test_P7_the_file_of_another_is_refused_and_left_alone(path: Path, make: Callable[[Path], None], says: str):
    make(path)
    before = path.read_bytes()
    with SqliteCache[Any](path) as cache:
        for use in (lambda: cache.get([K]), lambda: cache.set({K: (1, None)}), cache.clear):
            with pytest.raises(CorruptRecord, match=says):
                use()
    assert path.read_bytes() == before


def test_P7_a_saver_refuses_a_caches_file(path: Path, cache: SqliteCache[Any]):
    cache.set({K: (1, None)})
    with SqliteSaver(path) as saver, pytest.raises(CorruptRecord, match="holds a cache: give the saver a file of its own"):
        saver.get_tuple({"configurable": {"thread_id": "t"}})
    assert cache.get([K]) == {K: 1}


def test_a_newer_file_is_refused(path: Path):
    with SqliteCache[Any](path) as cache:
        cache.set({K: (1, None)})
    edit(path, f"PRAGMA user_version = {CACHE.newest + 1}")
    with SqliteCache[Any](path) as cache, pytest.raises(UnknownFormat, match="upgrade"):
        cache.get([K])


@pytest.mark.parametrize(
    "statement", ["DROP TABLE result", "PRAGMA user_version = 0", "ALTER TABLE result RENAME data TO soul"]
)
def test_a_file_that_is_damaged_as_a_whole_may_be_deleted(path: Path, statement: str):
    with SqliteCache[Any](path) as cache:
        cache.set({K: (1, None)})
    edit(path, statement)
    with SqliteCache[Any](path) as cache:
        with pytest.raises(CorruptRecord, match=r"damaged.*Delete it.*-wal"):
            cache.get([K])
        with pytest.raises(CorruptRecord, match="Delete it"):
            asyncio.run(cache.aset({K: (1, None)}))


def test_a_truncated_file_is_damaged(path: Path):
    with SqliteCache[Any](path) as cache:
        cache.set({(A, str(n)): (b"x" * 50_000, None) for n in range(10)})
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with SqliteCache[Any](path) as cache, pytest.raises(CorruptRecord, match="damaged"):
        cache.get([(A, str(n)) for n in range(10)])


# -------------------------------------------------------------------------------------------------------- values that are bad


class Bomb:
    """Its pickle calls something when it is loaded."""

    went_off = False

    def __reduce__(self) -> Any:
        return ignite, ()


def ignite() -> str:
    Bomb.went_off = True
    return "boom"


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("data", b"\xc1 garbage"),
        ("data", b""),
        ("data", 5),
        ("data", "text"),
        ("tag", "nobody's"),
        ("tag", b"\xff\xfe"),
        ("tag", 7),
        ("tag", ""),
    ],
)
@pytest.mark.parametrize("colour", ["sync", "async"])
def test_P38_a_damaged_value_counts_as_not_there_and_can_be_kept_again(path: Path, column: str, value: Any, colour: str):
    with SqliteCache[Any](path) as cache:
        cache.set({K: ([1], None), L: (2, None)})
        connection = sqlite3.connect(path)
        connection.execute(f"UPDATE result SET {column} = ? WHERE key = ?", (value, b"k"))
        connection.commit()
        connection.close()
        with pytest.warns(CacheWarning, match=r"cache\.db.*\('a',\).*counts as not there"):
            found = cache.get([K, L]) if colour == "sync" else asyncio.run(cache.aget([K, L]))
        assert found == {L: 2}
        cache.set({K: ([3], None)})
        assert cache.get([K]) == {K: [3]}


def test_P36_a_pickle_in_the_file_is_not_loaded(path: Path, cache: SqliteCache[Any]):
    cache.set({K: (1, None)})
    connection = sqlite3.connect(path)
    for tag in ("pickle", JsonPlusSerializer(pickle_fallback=True).dumps_typed(Bomb())[0]):
        connection.execute("UPDATE result SET tag = ?, data = ?", (tag, pickle.dumps(Bomb())))
        connection.commit()
        with pytest.warns(CacheWarning):
            assert cache.get([K]) == {}
    connection.close()
    assert not Bomb.went_off


@dataclass
class Point:
    x: int


def test_a_value_of_a_class_that_is_not_known_counts_as_not_there(path: Path, cache: SqliteCache[Any]):
    cache.learn([Point])
    cache.set({K: (Point(1), None)})
    assert cache.get([K]) == {K: Point(1)}
    with SqliteCache[Any](path) as other:
        with pytest.warns(CacheWarning, match="Point"):
            assert other.get([K]) == {}
        other.learn([Point])
        assert other.get([K]) == {K: Point(1)}, "it was left where it is"


# -------------------------------------------------------------------------------------------------------------------- expiry


def test_what_has_expired_is_removed_by_later_sets_bit_by_bit(path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(rooms, "LEAST_REMOVED", 4)
    clock = ManualClock()
    with SqliteCache[Any](path, clock=clock) as cache:
        cache.set({(A, str(n)): (n, 10) for n in range(10)} | {(B, "ever"): (1, None), (B, "long"): (2, 50)})
        clock.advance(10)
        assert cache.get([(A, "3")]) == {}
        assert rows(path) == 12, "reading writes nothing"
        counts = []
        for n in range(4):
            cache.set({(B, "new"): (n, None)})
            counts.append(rows(path))
        assert counts == [9, 5, 3, 3]
        assert cache.get([(B, "ever"), (B, "long")]) == {(B, "ever"): 1, (B, "long"): 2}


def test_a_set_removes_more_than_it_brings(path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(rooms, "LEAST_REMOVED", 1)
    clock = ManualClock()
    with SqliteCache[Any](path, clock=clock) as cache:
        for _ in range(30):
            cache.set({(A, f"{clock.seconds} {n}"): (b"x" * 2000, 5) for n in range(5)})
            clock.advance(1)
        assert rows(path) <= 5 * 6
        assert cache._database.run(lambda database: database.execute("PRAGMA page_count").fetchone()[0]) < 80


def test_clearing_makes_the_file_smaller(path: Path, cache: SqliteCache[Any]):
    cache.set({(space, str(n)): (b"x" * 10_000, None) for space in (A, B) for n in range(50)})
    cache._database.run(lambda database: database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall())
    full = path.stat().st_size
    cache.clear([A])
    half = path.stat().st_size
    asyncio.run(cache.aclear())
    assert full > 1_000_000 > half > 500_000
    assert path.stat().st_size < 50_000
    assert b"xxxx" not in path.read_bytes() + (path.parent / "cache.db-wal").read_bytes()


# -------------------------------------------------------------------------------------------------------- what cannot be done


@pytest.mark.parametrize("wrong", [["a"], "a", ("a", 1), None])
def test_a_namespace_is_a_tuple_of_texts(cache: SqliteCache[Any], wrong: Any):
    calls: list[Callable[[], Any]] = [
        lambda: cache.get([(wrong, "k")]),
        lambda: cache.clear([wrong]),
        lambda: asyncio.run(cache.aclear([wrong])),
    ]
    for call in calls:
        with pytest.raises(WrongType, match="tuple of texts"):
            call()


@pytest.mark.parametrize("wrong", [None, b"k", 1])
def test_a_key_is_a_text(cache: SqliteCache[Any], wrong: Any):
    with pytest.raises(WrongType, match="a namespace and a text"):
        cache.get([(A, wrong)])
    with pytest.raises(WrongType, match="a namespace and a text"):
        cache.set({L: (1, None), (A, wrong): (1, None)})
    assert cache.get([L]) == {}


def test_a_lifetime_is_a_number(cache: SqliteCache[Any]):
    pairs: Any = {K: (1, None), L: (1, "5")}
    with pytest.raises(WrongType, match="number of seconds"):
        cache.set(pairs)
    assert cache.get([K]) == {}


def test_a_file_for_reading_only_is_read(path: Path, cache: SqliteCache[Any]):
    clock = ManualClock()
    with SqliteCache[Any](path, clock=clock) as writer:
        writer.set({K: (1, 10), L: (2, None)})
        clock.advance(11)
        with SqliteCache[Any](f"file:{path}?mode=ro", clock=clock) as reader:
            assert reader.get([K, L]) == {L: 2}
            uses: list[Callable[[], Any]] = [lambda: reader.set({K: (1, None)}), reader.clear]
            for use in uses:
                with pytest.raises(sqlite3.OperationalError, match="readonly"):
                    use()


@pytest.mark.parametrize("colour", ["sync", "async"])
def test_P7_a_set_for_which_there_is_no_room_keeps_nothing(path: Path, cache: SqliteCache[Any], colour: str):
    cache.set({K: (1, None)})
    cache._database.run(lambda database: database.execute("PRAGMA max_page_count = 30").fetchone())
    pairs: Any = {K: (2, None), L: (3, None), (A, "big"): (b"x" * 1_000_000, None)}
    with pytest.raises(sqlite3.OperationalError, match="full") as caught:
        cache.set(pairs) if colour == "sync" else asyncio.run(cache.aset(pairs))
    assert str(path) in caught.value.__notes__[0]
    assert cache.get([K, L]) == {K: 1}
    cache.set({L: (4, None)})
    assert cache.get([K, L]) == {K: 1, L: 4}


def test_a_loop_goes_on_while_another_process_has_the_file(path: Path, cache: SqliteCache[Any]):
    cache.set({K: (1, None)})
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")

    async def main() -> None:
        keeping = asyncio.create_task(cache.aset({K: (2, None)}))
        await asyncio.sleep(0.02)
        assert not keeping.done()
        other.execute("COMMIT")
        await keeping
        assert await cache.aget([K]) == {K: 2}

    asyncio.run(main())
    other.close()


# ----------------------------------------------------------------------------------------------------------------------- end


def test_a_closed_cache_refuses(path: Path):
    cache: SqliteCache[Any] = SqliteCache(path)
    cache.set({K: (1, None)})
    cache.close()
    cache.close()
    asyncio.run(cache.aclose())
    calls: list[Callable[[], Any]] = [lambda: cache.get([K]), lambda: cache.set({K: (1, None)}), cache.clear]
    twins: list[Callable[[], Any]] = [lambda: cache.aget([K]), lambda: cache.aset({K: (1, None)}), cache.aclear]
    for call in [*calls, *(lambda twin=twin: asyncio.run(twin()) for twin in twins)]:
        with pytest.raises(SaverClosed, match=r"the cache of .*cache\.db was closed"):
            call()
    assert not path.with_name("cache.db-wal").exists()


def test_a_block_closes_it(path: Path):
    with SqliteCache[Any](path) as cache:
        cache.set({K: (1, None)})
    with pytest.raises(SaverClosed):
        cache.get([K])

    async def main() -> None:
        async with SqliteCache[Any](path) as cache:
            assert await cache.aget([K]) == {K: 1}
        with pytest.raises(SaverClosed):
            await cache.aget([K])

    asyncio.run(main())


@forks
def test_a_forked_child_has_a_connection_of_its_own(path: Path, cache: SqliteCache[Any]):
    cache.set({K: (1, None)})

    def child() -> None:
        assert cache.get([K]) == {K: 1}
        asyncio.run(cache.aset({L: (2, None)}))

    assert in_child(child) == 0
    assert cache.get([K, L]) == {K: 1, L: 2}


@forks
def test_a_cache_in_memory_stays_with_its_process():
    with SqliteCache[Any](":memory:") as cache:
        cache.set({K: (1, None)})

        def child() -> None:
            with pytest.raises(SaverClosed, match=r"memory of the process.*make the cache after the fork"):
                cache.get([K])

        assert in_child(child) == 0
        assert cache.get([K]) == {K: 1}
