"""Threads of LangGraph's Postgres saver, read from a PostgreSQL server: its tables, with the rows that were captured from them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

from perdure.checkpoint.memory import InMemorySaver
from perdure.checkpoint.saver import Saver
from perdure.errors import CorruptRecord, MissingExtra
from perdure.integrations.langgraph.tables import Key, PostgresTables
from perdure.types import Command
from tests.integrations import langgraph_shapes as shapes
from tests.integrations.langgraph_stored import CAPTURED, THREADS, Captured, blob, brought, history
from tests.promises.conftest import saver, way
from tests.promises.ways import Way, on, rows_of

__all__ = ["saver", "way"]

TABLES = """
CREATE TABLE checkpoints (
    thread_id TEXT NOT NULL, checkpoint_ns TEXT NOT NULL DEFAULT '', checkpoint_id TEXT NOT NULL, parent_checkpoint_id TEXT,
    type TEXT, checkpoint JSONB NOT NULL, metadata JSONB NOT NULL DEFAULT '{}',
    PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id)
);
CREATE TABLE checkpoint_blobs (
    thread_id TEXT NOT NULL, checkpoint_ns TEXT NOT NULL DEFAULT '', channel TEXT NOT NULL, version TEXT NOT NULL,
    type TEXT NOT NULL, blob BYTEA,
    PRIMARY KEY (thread_id, checkpoint_ns, channel, version)
);
CREATE TABLE checkpoint_writes (
    thread_id TEXT NOT NULL, checkpoint_ns TEXT NOT NULL DEFAULT '', checkpoint_id TEXT NOT NULL, task_id TEXT NOT NULL,
    idx INTEGER NOT NULL, channel TEXT NOT NULL, type TEXT, blob BYTEA, task_path TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (thread_id, checkpoint_ns, checkpoint_id, task_id, idx)
);
"""
NAMES = ("checkpoints", "checkpoint_blobs", "checkpoint_writes")
READER = "CREATE ROLE reader LOGIN; GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader"


def adapted(value: Any) -> Any:
    """A captured value as psycopg stores it."""
    if isinstance(value, dict):
        return blob(value) if "hex" in value else Jsonb(value)
    return value


@pytest.fixture(scope="module")
def database(postgres: str) -> str:
    """The URL of a database with the captured rows, as one who may only read it."""
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("CREATE DATABASE langgraph")
    with psycopg.connect(postgres, dbname="langgraph") as connection, connection.cursor() as cursor:
        cursor.execute(TABLES)
        for table in NAMES:
            columns = [*CAPTURED[table][0]]
            statement = f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join(['%s'] * len(columns))})"
            cursor.executemany(statement, [[adapted(row[column]) for column in columns] for row in CAPTURED[table]])
        cursor.execute(READER)
    return postgres.replace("postgres@/postgres", "reader@/langgraph")


@pytest.fixture(autouse=True)
def _forget() -> None:
    shapes.ran.clear()


def test_a_server_gives_what_the_captured_rows_gave(database: str, saver: Saver, way: Way):
    captured = InMemorySaver()
    for each in (saver, captured):
        each.serde.register(shapes.Point, aliases=["__main__:Point"])
    expected = brought(way, Captured(), captured)
    report = brought(way, database, saver)
    assert (report.brought, report.refused) == (len(THREADS), {})
    assert report == expected
    for thread in THREADS:
        assert rows_of(saver, thread) == rows_of(captured, thread)
        assert saver.verify(thread).problems == ()
    assert history("deep", saver, way) == history("deep", captured, way) != []
    graph = shapes.compiled("nested", saver)
    assert way.invoke(graph, Command(resume="yes"), on("nested"))["log"] == ["in", "in", "x", "yes", "after"]
    assert shapes.ran == ["after"], "the step inside was stored"
    again = brought(way, database, saver)
    assert sorted(again.refused) == THREADS


def test_values_come_in_the_order_of_their_names_however_they_lie_in_the_table(database: str, postgres: str):
    """So two imports of one thread are equal, in the order of keys too."""
    with psycopg.connect(postgres, autocommit=True) as owner:
        owner.execute("DROP DATABASE IF EXISTS shuffled")
        owner.execute("CREATE DATABASE shuffled TEMPLATE langgraph")
    several = []
    with psycopg.connect(postgres, dbname="shuffled", autocommit=True) as owner:
        tables = PostgresTables(owner, owned=False)
        # Capital letters before small ones, as in Python; the server's own order may be that of a language.
        owner.execute("UPDATE checkpoint_blobs SET channel = 'Log' WHERE channel = 'log'")
        owner.execute("UPDATE checkpoints SET checkpoint = replace(checkpoint::text, '\"log\":', '\"Log\":')::jsonb")
        for order in ("channel", "channel DESC"):
            owner.execute(f"CREATE TABLE lying AS SELECT * FROM checkpoint_blobs ORDER BY {order}")
            owner.execute("TRUNCATE checkpoint_blobs")
            owner.execute("INSERT INTO checkpoint_blobs SELECT * FROM lying")
            owner.execute("DROP TABLE lying")
            for thread in THREADS:
                for key in tables.keys(thread):
                    (inline,) = owner.execute(
                        "SELECT checkpoint -> 'channel_values' FROM checkpoints WHERE thread_id = %s AND checkpoint_ns = %s "
                        "AND checkpoint_id = %s",
                        [thread, key.namespace, key.id],
                    ).fetchone() or (None,)
                    names = [*tables.checkpoint(thread, key, lambda tag, data: None).values]
                    stored = [name for name in names if name not in (inline or {})]
                    assert stored == sorted(stored)
                    several.append(len(stored))
    assert max(several) > 2


@pytest.mark.parametrize("options", [{}, {"row_factory": dict_row}, {"autocommit": True}], ids=["rows", "dicts", "autocommit"])
def test_an_open_connection_is_read_and_left_as_it_is(database: str, way: Way, options: dict[str, Any]):
    saver = InMemorySaver()
    with psycopg.connect(database, **options) as connection:
        report = brought(way, connection, saver, threads=["chat", "questions"])
        assert [one.brought for one in report.threads] == [True, True]
        assert not connection.closed
        status = psycopg.pq.TransactionStatus
        assert connection.info.transaction_status == (status.IDLE if options.get("autocommit") else status.INTRANS)
        (count,) = connection.execute("SELECT count(*) AS count FROM checkpoints").fetchall()
        assert [*(count.values() if isinstance(count, dict) else count)] == [len(CAPTURED["checkpoints"])]


def test_a_thread_is_read_as_it_was_at_one_moment(
    database: str, postgres: str, saver: Saver, way: Way, monkeypatch: pytest.MonkeyPatch
):
    """LangGraph may go on with a thread, or delete it, between two questions."""
    with psycopg.connect(postgres, autocommit=True) as owner:
        owner.execute("DROP DATABASE IF EXISTS changing")
        owner.execute("CREATE DATABASE changing TEMPLATE langgraph")
    ask = PostgresTables.keys
    with psycopg.connect(postgres, dbname="changing", autocommit=True) as owner:

        def keys(self: PostgresTables, thread: str) -> list[Key]:
            found = ask(self, thread)
            for table in NAMES:
                owner.execute(f"DELETE FROM {table} WHERE thread_id = %s", [thread])
            return found

        monkeypatch.setattr(PostgresTables, "keys", keys)
        report = brought(way, database.replace("/langgraph", "/changing"), saver, threads=["questions", "several"])
        assert [one.brought for one in report.threads] == [True, True]
        rest = owner.execute("SELECT count(*) FROM checkpoints WHERE thread_id IN ('questions', 'several')").fetchone()
        assert rest == (0,)
    graph = shapes.compiled("several", saver)
    assert sorted(one.value for one in way.state(graph, on("several")).interrupts) == ["p", "q"]


def test_a_database_without_the_tables_is_refused(postgres: str, saver: Saver, way: Way):
    with pytest.raises(CorruptRecord, match=r"no tables .*PostgresSaver"):
        brought(way, postgres, saver)
    with psycopg.connect(postgres) as connection, pytest.raises(CorruptRecord, match="no tables"):
        brought(way, connection, saver)


def test_a_server_that_is_not_there_is_told_by_its_driver(saver: Saver, way: Way, tmp_path: Path):
    with pytest.raises(psycopg.OperationalError, match="No such file"):
        brought(way, f"postgresql:///postgres?host={tmp_path}", saver)


def test_without_psycopg_a_url_says_what_to_install(saver: Saver, way: Way, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(MissingExtra, match=r"pip install 'perdure\[postgres\]'"):
        brought(way, "postgresql://nobody@/nothing", saver)
