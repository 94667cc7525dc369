"""What may be a database, what is refused and how, and what a file no longer contains after a deletion. (P7, P10, P36, P39)"""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from perdure import START, SqliteSaver, StateGraph, open_saver
from perdure.backends.sqlite import schema
from perdure.backends.sqlite.connections import open_sqlite
from perdure.checkpoint.incremental.compression import unsqueezed
from perdure.checkpoint.records import CheckpointRow, Entry, Packed, ValueRow, WriteItem, WriteRow
from perdure.errors import CorruptRecord, SaveFailed, UnknownFormat
from perdure.types import interrupt
from tests.promises.ways import on
from tests.pure.test_sqlite_records import blocking, commit, row


def big(n: int, text: bytes) -> dict[str, Any]:
    """A checkpoint with its value."""
    checkpoint: CheckpointRow = row(n, changes={"v": Entry(n, None, n)})
    return {"checkpoints": [checkpoint], "values": [ValueRow(n, Packed("b", text))], "head": n, "next_n": n + 1}


def pragma(path: Path, name: str) -> Any:
    connection = sqlite3.connect(path)
    value = connection.execute(f"PRAGMA {name}").fetchone()[0]
    connection.close()
    return value


def edit(path: Path, *statements: str) -> None:
    connection = sqlite3.connect(path)
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()


def test_a_new_file_is_set_up(tmp_path: Path):
    path = tmp_path / "a.db"
    shared = open_sqlite(path)
    assert not path.exists(), "opened upon first use"
    settings = {
        "synchronous": 2,
        "journal_mode": "wal",
        "wal_autocheckpoint": schema.LOG_PAGES,
        "auto_vacuum": 2,
        "secure_delete": 1,
    }
    found = shared.run(lambda database: {name: database.execute(f"PRAGMA {name}").fetchone()[0] for name in settings})
    assert found == settings
    shared.close()
    assert pragma(path, "application_id") == schema.APPLICATION_ID
    assert pragma(path, "user_version") == schema.NEWEST
    assert pragma(path, "integrity_check") == "ok"


def test_the_newest_migration_is_the_last_file():
    folder = Path(schema.__file__).parent / "migrations"
    assert sorted(path.name for path in folder.iterdir()) == [f"{n:04}.sql" for n in range(1, schema.NEWEST + 1)]


def test_normal_is_a_choice_and_anything_else_an_error(tmp_path: Path):
    shared = open_sqlite(tmp_path / "a.db", synchronous="normal", busy_timeout=0.25)
    settings = {"synchronous": 1, "wal_autocheckpoint": 1000}
    found = shared.run(lambda database: {name: database.execute(f"PRAGMA {name}").fetchone()[0] for name in settings})
    assert found == settings
    shared.close()
    for wrong in ("off", "FULL", "extra", "", None, "1; DROP TABLE thread"):
        with pytest.raises(ValueError, match="synchronous"):
            open_sqlite(tmp_path / "a.db", synchronous=wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="busy_timeout"):
        open_sqlite(tmp_path / "a.db", busy_timeout=-1)
    for empty in ("", b"a.db"):
        with pytest.raises(ValueError, match="path"):
            open_sqlite(empty)  # type: ignore[arg-type]


def test_a_newer_database_is_refused(tmp_path: Path):
    path = tmp_path / "a.db"
    shared = open_sqlite(path)
    blocking(shared).commit(commit())
    shared.close()
    edit(path, f"PRAGMA user_version = {schema.NEWEST + 1}")
    with pytest.raises(UnknownFormat, match="upgrade"):
        blocking(open_sqlite(path)).load("t", "", None)


@pytest.mark.parametrize(
    ("statements", "says"),
    [
        (["PRAGMA user_version = -5"], "format -5"),
        (["PRAGMA user_version = 0"], "format 0"),
        (["DROP TABLE value"], "no table value"),
        (["ALTER TABLE checkpoint RENAME COLUMN body TO soul"], "no such column"),
        (
            ["PRAGMA writable_schema = 1", "UPDATE sqlite_schema SET sql = 'CREATE TABLE value (' WHERE name = 'value'"],
            "malformed",
        ),
        (["UPDATE value SET tag = x'00'"], "no text"),
        (["UPDATE checkpoint SET body = 5"], "checkpoint 1"),
        (["UPDATE thread SET graph = CAST(x'ff' AS TEXT)"], "is damaged: Could not decode to UTF-8"),
    ],
)
def test_a_damaged_database_is_a_corrupt_record(tmp_path: Path, statements: list[str], says: str):
    path = tmp_path / "a.db"
    shared = open_sqlite(path)
    blocking(shared).commit(commit(**big(1, b"x" * 100)))
    shared.close()
    edit(path, *statements)
    with pytest.raises(CorruptRecord, match=says):
        unsqueezed(blocking(open_sqlite(path)).load("t", "", None).values[1])


def test_a_file_whose_header_names_an_unknown_file_format_is_a_corrupt_record(tmp_path: Path):
    path = tmp_path / "a.db"
    shared = open_sqlite(path)
    blocking(shared).commit(commit())
    shared.close()
    content = bytearray(path.read_bytes())
    content[44:48] = b"\x00\x00\x00\x09"
    path.write_bytes(content)
    with pytest.raises(CorruptRecord, match="is damaged: unsupported file format"):
        blocking(open_sqlite(path)).load("t", "", None)


@pytest.mark.parametrize("contents", [True, False])
def test_a_row_that_lost_its_content_is_a_corrupt_record_for_who_reads_all(tmp_path: Path, *, contents: bool):
    path = tmp_path / "a.db"
    shared = open_sqlite(path)
    blocking(shared).commit(commit(**big(1, b"x" * 100)))
    shared.close()
    edit(
        path, "PRAGMA writable_schema = 1", "UPDATE sqlite_schema SET sql = replace(sql, ' NOT NULL', '') WHERE name = 'value'"
    )
    edit(path, "UPDATE value SET data = NULL")
    with pytest.raises(CorruptRecord, match="another type"):
        blocking(open_sqlite(path)).rows("t", None, 1_000_000, contents=contents)


def test_a_thread_whose_id_is_no_text_is_a_corrupt_record(tmp_path: Path):
    saver = SqliteSaver(tmp_path / "a.db")
    StateGraph(int).add_node("a", lambda number: number).add_edge(START, "a").compile(saver).invoke(1, on())
    edit(tmp_path / "a.db", "UPDATE thread SET thread_id = x'ff'")
    with pytest.raises(CorruptRecord, match="id of a thread"):
        saver.list_threads()
    saver.close()


def test_a_subgraph_whose_namespace_lost_its_name_is_a_corrupt_record(tmp_path: Path):
    inner = StateGraph(int).add_node("b", lambda number: interrupt(number)).add_edge(START, "b").compile()
    saver = SqliteSaver(tmp_path / "a.db")
    graph = StateGraph(int).add_node("a", inner).add_edge(START, "a").compile(saver)
    graph.invoke(1, on())
    edit(tmp_path / "a.db", "DELETE FROM namespace")
    with pytest.raises(CorruptRecord, match="has no name: its row is missing"):
        graph.get_state(on())
    with pytest.raises(CorruptRecord, match="has no name: its row is missing"):
        list(graph.get_state_history(on()))
    saver.close()


@pytest.mark.parametrize("length", [100, 5000, 9000, 0.5, 0.9])
def test_a_truncated_database_is_a_corrupt_record(tmp_path: Path, length: float):
    path = tmp_path / "a.db"
    shared = open_sqlite(path)
    blocking(shared).commit(commit(**big(1, b"x" * 100_000)))
    shared.close()
    whole = path.read_bytes()
    path.write_bytes(whole[: int(length if length >= 1 else len(whole) * length)])
    with pytest.raises(CorruptRecord, match=r"damaged|not a SQLite database"):
        blocking(open_sqlite(path)).load("t", "", None)


def test_a_commit_to_a_damaged_database_is_a_failed_save(tmp_path: Path):
    path = tmp_path / "a.db"
    saver = SqliteSaver(path)
    graph = StateGraph(int).add_node("a", lambda number: number + 1).add_edge(START, "a").compile(saver)
    config: Any = {"configurable": {"thread_id": "t"}}
    graph.invoke(1, config)
    edit(path, "ALTER TABLE checkpoint RENAME COLUMN id TO name")
    with pytest.raises(CorruptRecord):
        graph.get_state(config)
    with pytest.raises(SaveFailed, match="damaged") as caught:
        graph.invoke(1, {"configurable": {"thread_id": "u"}})
    assert isinstance(caught.value.__cause__, CorruptRecord)
    saver.close()


@pytest.mark.parametrize("path", ["postgresql://host/db", "sqlite:///a.db", "https://host/a.db", "a\x00b.db", ""])
def test_what_is_no_path_is_refused_where_it_is_given(path: str):
    with pytest.raises(ValueError, match=r"URL|path"):
        SqliteSaver(path)


@pytest.mark.parametrize("given", [None, 5, b"a.db"])
def test_what_is_no_text_is_refused_where_it_is_given(given: Any):
    for make in (SqliteSaver, SqliteSaver.from_conn_string, open_saver):
        with pytest.raises(TypeError, match=r"for example|such as"):
            make(given)


def test_a_folder_is_no_database(tmp_path: Path):
    with pytest.raises(sqlite3.OperationalError) as caught:
        blocking(open_sqlite(tmp_path)).load("t", "", None)
    assert "that is a folder" in caught.value.__notes__[0]


def test_a_file_that_is_no_database_is_refused_and_left_alone(tmp_path: Path):
    path = tmp_path / "notes.txt"
    text = b"these are my notes\n" * 200
    path.write_bytes(text)
    with pytest.raises(CorruptRecord, match="not a SQLite database"):
        blocking(open_sqlite(path)).load("t", "", None)
    assert path.read_bytes() == text


@pytest.mark.parametrize(
    ("statements", "says"),
    [
        (["CREATE TABLE Thread (x)", "CREATE TABLE other (x)"], r"tables of another program \(other, thread\)"),
        (["CREATE VIEW seen AS SELECT 1"], r"\(seen\).*a file of its own"),
        ([f"CREATE TABLE t{n} (x)" for n in range(7)], r"\(t0, t1, t2, t3, t4, …\)"),
        (
            ["CREATE TABLE checkpoints (x)", "CREATE TABLE writes (x)"],
            "LangGraph's.*perdure.integrations.langgraph.import_threads",
        ),
        (["CREATE TABLE x (x)", "PRAGMA user_version = 3"], "another program's"),
        (["CREATE TABLE x (x)", "PRAGMA application_id = 99"], "another program's"),
    ],
)
def test_another_programs_database_is_refused_and_left_alone(tmp_path: Path, statements: list[str], says: str):
    path = tmp_path / "app.db"
    edit(path, *statements)
    before = path.read_bytes()
    with pytest.raises(CorruptRecord, match=says):
        blocking(open_sqlite(path)).commit(commit())
    assert path.read_bytes() == before


def test_a_database_from_which_everything_was_dropped_is_empty(tmp_path: Path):
    path = tmp_path / "app.db"
    edit(path, "CREATE TABLE t (n INTEGER PRIMARY KEY AUTOINCREMENT)", "INSERT INTO t VALUES (1)", "ANALYZE", "DROP TABLE t")
    shared = open_sqlite(path)
    blocking(shared).commit(commit())
    shared.close()
    assert pragma(path, "application_id") == schema.APPLICATION_ID


def test_tables_that_were_added_to_a_savers_file_may_stay(tmp_path: Path):
    path = tmp_path / "app.db"
    shared = open_sqlite(path)
    blocking(shared).commit(commit())
    shared.close()
    edit(path, "CREATE TABLE customers (x)", "INSERT INTO customers VALUES (1)")
    again = open_sqlite(path)
    assert blocking(again).load("t", "", None)
    again.close()


def test_a_database_without_its_key_is_damaged(tmp_path: Path):
    path = tmp_path / "a.db"
    shared = open_sqlite(path)
    blocking(shared).commit(commit())
    shared.close()
    edit(path, "DELETE FROM store")
    with pytest.raises(CorruptRecord, match="damaged"):
        blocking(open_sqlite(path)).load("t", "", None)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_directory(tmp_path: Path):
    folder = tmp_path / "locked"
    folder.mkdir(mode=0o500)
    with pytest.raises(sqlite3.OperationalError, match="unable to open"):
        blocking(open_sqlite(folder / "a.db")).load("t", "", None)


def test_a_missing_directory_is_named(tmp_path: Path):
    with pytest.raises(sqlite3.OperationalError) as caught:
        blocking(open_sqlite(tmp_path / "none" / "a.db")).load("t", "", None)
    assert str(tmp_path / "none" / "a.db") in caught.value.__notes__[0]


def test_a_uri_may_say_read_only(tmp_path: Path):
    path = tmp_path / "a b%.db"
    uri = f"file:{tmp_path}/a%20b%25.db"
    shared = open_sqlite(uri)
    blocking(shared).commit(commit(**big(1, b"x")))
    reader = open_sqlite(uri + "?mode=ro")
    assert path.exists()
    assert blocking(reader).load("t", "", None).row == row(1, changes={"v": Entry(1, None, 1)})
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        blocking(reader).commit(commit("u"))
    assert blocking(reader).page("t", None, before=None, limit=3)
    reader.close()
    shared.close()


def test_read_only_does_not_make_a_database(tmp_path: Path):
    path = tmp_path / "a.db"
    with pytest.raises(sqlite3.OperationalError):
        blocking(open_sqlite(f"file:{path}?mode=ro")).load("t", "", None)
    path.touch()
    with pytest.raises(CorruptRecord, match="reading only"):
        blocking(open_sqlite(f"file:{path}?mode=ro")).load("t", "", None)


def test_a_relative_path_is_meant_from_where_it_was_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    plain, uri = open_sqlite("a.db"), open_sqlite("file:b.db?mode=rwc")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    for shared in (plain, uri):
        blocking(shared).commit(commit())
        shared.close()
    assert {path.name for path in tmp_path.glob("*.db")} == {"a.db", "b.db"}


@pytest.mark.parametrize("path", [":memory:", "file::memory:", "file:x?mode=memory"])
def test_a_database_in_memory(path: str):
    shared = open_sqlite(path)
    store = blocking(shared)
    store.commit(commit(**big(1, b"x")))
    assert store.load("t", "", None).values == {1: Packed("b", b"x")}
    store.delete("t")
    assert store.load("t", "", None).thread.incarnation == 2
    shared.close()


def test_a_full_disk_stores_nothing_and_can_be_mended(tmp_path: Path):
    shared = open_sqlite(tmp_path / "a.db", synchronous="normal")
    store = blocking(shared)
    store.commit(commit(lease="take", **big(1, b"small")))
    shared.run(lambda database: database.execute("PRAGMA max_page_count = 40").fetchone())
    with pytest.raises(sqlite3.OperationalError, match="full"):
        store.commit(commit(lease="keep", **big(2, b"x" * 400_000)))
    assert store.load("t", "", None).row.n == 1
    assert store.load("t", "", None).thread.next_n == 2
    shared.run(lambda database: database.execute("PRAGMA max_page_count = 100000").fetchone())
    store.commit(commit(lease="keep", **big(2, b"x" * 400_000)))
    assert store.load("t", "", None).row.n == 2
    shared.close()


def test_a_lock_that_ends_is_waited_for(tmp_path: Path):
    path = tmp_path / "a.db"
    shared = open_sqlite(path, busy_timeout=20.0)
    store = blocking(shared)
    store.commit(commit(lease="take"))
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    tries: list[str] = []

    def looked(statement: str) -> None:
        tries.append(statement)
        if tries.count("BEGIN IMMEDIATE") == 3:
            other.execute("ROLLBACK")

    shared.run(lambda database: database.connection.set_trace_callback(looked))
    other.execute("BEGIN IMMEDIATE")
    store.commit(commit(lease="keep", **big(1, b"")))
    assert tries.count("BEGIN IMMEDIATE") >= 3
    assert store.load("t", "", None).row.n == 1
    other.close()
    shared.close()


def test_a_lock_that_lasts_is_sqlites_own_error(tmp_path: Path):
    path = tmp_path / "a.db"
    shared = open_sqlite(path, busy_timeout=0.05)
    store = blocking(shared)
    store.commit(commit(lease="take"))
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(sqlite3.OperationalError, match="locked"):
        store.commit(commit(lease="keep", **big(1, b"")))
    assert store.load("t", "", None).row is None, "readers do not wait for a writer"
    other.execute("ROLLBACK")
    other.close()
    store.commit(commit(lease="keep", **big(1, b"")))
    shared.close()


# --------------------------------------------------------------------------------------------------- what a deletion leaves


def everything(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(folder.iterdir()))


def test_nothing_in_the_file_mentions_a_deleted_thread(tmp_path: Path):
    shared = open_sqlite(tmp_path / "a.db", synchronous="normal")
    store = blocking(shared)
    names = [f"thread-{n:04}-of-a-customer" for n in range(100)]
    for name in names:
        # The id is in values, small and large, in paths, in metadata and in the names of namespaces as well.
        text = name.encode()
        write = WriteRow(0, 1, f"!{name}", -1, (WriteItem(name, Packed("s", text)),))
        inner = row(3, ns=2, metadata={"thread_id": name})
        fields = big(1, text * 30) | {"writes": [write], "namespaces": [(2, f"sub:{name}")], "next_n": 5}
        fields["checkpoints"] += [inner]
        fields["values"] += [ValueRow(4, Packed("b", text * 2000))]
        store.commit(commit(name, lease="take", **fields))
        replaced = WriteRow(0, 1, f"!{name}", -1, ())
        store.commit(commit(name, lease="keep", writes=[replaced], next_n=5))
    assert names[7].encode() in everything(tmp_path)
    kept = set(names[::5])
    for name in names:
        if name not in kept:
            store.delete(name)
    found = everything(tmp_path)
    assert [name for name in names if name.encode() in found] == sorted(kept)
    assert [one.thread for one in store.threads(after=None, limit=1000)] == sorted(kept)
    shared.close()
    found = everything(tmp_path)
    assert [name for name in names if name.encode() in found] == sorted(kept)


def test_a_deletion_does_not_wait_for_readers(tmp_path: Path):
    shared = open_sqlite(tmp_path / "a.db", busy_timeout=5.0)
    store = blocking(shared)
    store.commit(commit(**big(1, b"x")))
    reader = sqlite3.connect(tmp_path / "a.db", isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT * FROM thread").fetchall()
    store.delete("t")
    assert reader.execute("SELECT count(*) FROM thread").fetchone() == (1,)
    reader.close()
    shared.close()


def test_two_databases_hash_an_id_differently(tmp_path: Path):
    hashes = []
    for name in ("a.db", "b.db"):
        shared = open_sqlite(tmp_path / name)
        blocking(shared).commit(commit())
        blocking(shared).delete("t")
        hashes.append(shared.run(lambda database: database.execute("SELECT hash FROM tombstone").fetchone()[0]))
        shared.close()
    assert len(hashes[0]) == 16
    assert hashes[0] != hashes[1]


def test_a_migration_is_cut_into_statements():
    script = (
        "-- a; comment\nCREATE TABLE a (x); -- ; more\nCREATE TRIGGER t AFTER INSERT ON a BEGIN\n  SELECT 1;\nEND;\n\n-- end\n"
    )
    assert [text.split()[-1] for text in schema.statements_in(script)] == ["more", "END;"]
