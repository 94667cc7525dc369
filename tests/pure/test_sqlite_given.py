"""What a SqliteSaver may be made of, and what it says of everything else."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from perdure.checkpoint.opening import open_saver
from perdure.checkpoint.sqlite import SqliteSaver
from perdure.checkpoint.sqlite.aio import AsyncSqliteSaver
from perdure.graph import END, START, StateGraph

ON: Any = {"configurable": {"thread_id": "t"}}


def plus_one(saver: SqliteSaver) -> Any:
    graph = StateGraph(int).add_node("plus", lambda number: number + 1).add_edge(START, "plus").add_edge("plus", END)
    return graph.compile(checkpointer=saver)


def test_from_conn_string_serves_plainly_with_with_and_with_async_with(tmp_path: Path) -> None:
    text = str(tmp_path / "a.db")
    plain = SqliteSaver.from_conn_string(text)
    assert plus_one(plain).invoke(1, ON) == 2
    plain.close()
    with SqliteSaver.from_conn_string(text) as saver:
        assert plus_one(saver).get_state(ON).values == 2

    async def use() -> Any:
        async with AsyncSqliteSaver.from_conn_string(text) as saver:
            return await plus_one(saver).ainvoke(5, ON)

    assert asyncio.run(use()) == 6


def test_a_connection_tells_the_path(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "a.db")) as connection, SqliteSaver(connection) as saver:
        assert plus_one(saver).invoke(1, ON) == 2
    with SqliteSaver(tmp_path / "a.db") as saver:
        assert plus_one(saver).get_state(ON).values == 2


def test_a_connection_to_a_database_in_memory_gives_a_saver_a_database_of_its_own() -> None:
    with closing(sqlite3.connect(":memory:", check_same_thread=False)) as connection:
        with SqliteSaver(connection) as saver:
            assert plus_one(saver).invoke(1, ON) == 2
            assert asyncio.run(plus_one(saver).ainvoke(2, ON)) == 3
        assert connection.execute("SELECT count(*) FROM sqlite_master").fetchone() == (0,)


def test_a_database_in_memory_that_belongs_to_one_thread_is_refused_with_the_way_out() -> None:
    with closing(sqlite3.connect(":memory:")) as connection:
        with pytest.raises(TypeError, match=r"check_same_thread=False; simpler is SqliteSaver\(':memory:'\)"):
            SqliteSaver(connection)
        assert connection.execute("SELECT 1").fetchone() == (1,), "it is only looked at"


def test_a_closed_connection_is_refused() -> None:
    connection = sqlite3.connect(":memory:")
    connection.close()
    with pytest.raises(TypeError, match="it was closed"):
        SqliteSaver(connection)


class OtherDriver:
    """A connection of an async driver: it executes, but not as sqlite3 does."""

    async def execute(self, statement: str) -> None: ...


@pytest.mark.parametrize("given", [5, None, OtherDriver()], ids=["int", "None", "another driver"])
def test_what_is_neither_a_path_nor_a_sqlite3_connection_is_refused(given: Any) -> None:
    with pytest.raises(TypeError, match=r"needs a path or a sqlite3 connection, got .*SqliteSaver\('app.db'\)"):
        SqliteSaver(given)


@pytest.mark.parametrize("make", [SqliteSaver, SqliteSaver.from_conn_string, open_saver])
def test_a_url_of_another_database_is_no_path_and_its_password_is_not_shown(make: Callable[[str], Any]) -> None:
    with pytest.raises(ValueError, match="'postgresql' URL") as caught:
        make("postgresql://ada:secret@host/threads")
    assert "secret" not in str(caught.value)


def test_the_class_says_who_takes_a_sqlite_url() -> None:
    with pytest.raises(ValueError, match=r"SqliteSaver.from_conn_string\(url\) or open_saver\(url\)"):
        SqliteSaver("sqlite:///threads.db")


def test_a_folder_that_does_not_exist_is_told(tmp_path: Path) -> None:
    with pytest.raises(sqlite3.OperationalError) as caught:
        plus_one(SqliteSaver(tmp_path / "none" / "a.db")).invoke(1, ON)
    assert "its folder does not exist" in caught.value.__notes__[0]
