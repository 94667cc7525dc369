"""P7: SQLite's default survives power loss; anything less is an explicit choice. Asked of the real connection and file."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from perdure.checkpoint.sqlite import SqliteSaver
from perdure.checkpoint.sqlite.aio import AsyncSqliteSaver
from tests.promises.ways import Ledger, Way, chain, on


def pragmas(saver: SqliteSaver, *names: str) -> list[Any]:
    return saver._database.run(lambda database: [database.execute(f"PRAGMA {name}").fetchone()[0] for name in names])


def use(saver: SqliteSaver, way: Way) -> None:
    way.invoke(chain(("a", Ledger(way).node("a"))).compile(checkpointer=saver), {"log": []}, on())


def test_P7_the_default_is_wal_full_and_incremental_vacuum(tmp_path: Path, way: Way):
    path = tmp_path / "a.db"
    with SqliteSaver(path) as saver:
        use(saver, way)
        assert pragmas(saver, "journal_mode", "synchronous", "auto_vacuum") == ["wal", 2, 2]
        assert path.with_name("a.db-wal").stat().st_size > 0
    # What belongs to the file holds for whoever opens it.
    connection = sqlite3.connect(path)
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert connection.execute("PRAGMA auto_vacuum").fetchone() == (2,)
    connection.close()


def test_P7_every_saver_of_a_file_is_full(tmp_path: Path, way: Way):
    # synchronous belongs to the connection, so it has to be set on each.
    path = tmp_path / "a.db"
    for saver in (SqliteSaver(path), SqliteSaver.from_conn_string(f"sqlite:///{path}"), AsyncSqliteSaver(str(path))):
        with saver:
            use(saver, way)
            assert pragmas(saver, "synchronous") == [2]
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA synchronous = OFF")
    with SqliteSaver(connection) as saver:
        use(saver, way)
        assert pragmas(saver, "synchronous") == [2], "a connection that is given tells the path, not the durability"
    connection.close()


def test_P7_normal_is_an_explicit_choice(tmp_path: Path, way: Way):
    with SqliteSaver(tmp_path / "a.db", synchronous="normal") as saver:
        use(saver, way)
        assert pragmas(saver, "journal_mode", "synchronous") == ["wal", 1]
    with pytest.raises(ValueError, match="synchronous"):
        SqliteSaver(tmp_path / "a.db", synchronous="off")  # type: ignore[arg-type]


def test_P7_every_write_begins_immediate_and_a_step_is_one_transaction(tmp_path: Path, way: Way):
    sent: list[str] = []
    with SqliteSaver(tmp_path / "a.db") as saver:
        use(saver, way)
        saver._database.run(lambda database: database.connection.set_trace_callback(sent.append))
        graph = chain(*((name, Ledger(way).node(name)) for name in "abc")).compile(checkpointer=saver)
        way.invoke(graph, {"log": []}, on("other"))
        saver._database.run(lambda database: database.connection.set_trace_callback(None))
    words = [text.split()[0].upper() for text in sent]
    assert [text for text in sent if text.startswith("BEGIN")] == ["BEGIN", *["BEGIN IMMEDIATE"] * 4], "one read, four commits"
    assert words.count("COMMIT") == 5
    writing = False
    for text, word in zip(sent, words, strict=True):
        if word in ("BEGIN", "COMMIT"):
            writing = text == "BEGIN IMMEDIATE"
        elif word in ("INSERT", "UPDATE", "DELETE", "REPLACE"):
            assert writing, f"written outside of BEGIN IMMEDIATE: {text}"


def test_P7_a_commit_is_in_the_file_before_it_is_reported(tmp_path: Path, way: Way):
    # Another connection sees each step as soon as the next node runs.
    path = tmp_path / "a.db"
    seen: list[int] = []

    def look() -> None:
        other = sqlite3.connect(path)
        seen.append(other.execute("SELECT count(*) FROM checkpoint").fetchone()[0])
        other.close()

    ledger = Ledger(way)
    with SqliteSaver(path) as saver:
        graph = chain(*((name, ledger.node(name, look)) for name in "abc")).compile(checkpointer=saver)
        way.invoke(graph, {"log": []}, on())
    assert seen == [2, 3, 4]
