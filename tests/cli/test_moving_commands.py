"""`perdure copy`, `export` and `import`: what they bring where, and how they say what is wrong. (P29)"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from perdure.checkpoint.sqlite import SqliteSaver
from perdure.types import Command, interrupt
from tests.cli.conftest import Called
from tests.promises.ways import chain, on


def drawing() -> Any:
    return chain(("ask", lambda state: {"log": [interrupt("go?")]}), ("b", lambda state: {"log": ["b"]}))


@pytest.fixture
def saver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SqliteSaver]:
    """app.db in the working directory: ada has answered, bob is asked. There is no other.db, but an empty here.db."""
    monkeypatch.chdir(tmp_path)
    assert threads_of("here.db") == []
    with SqliteSaver("app.db") as made:
        graph = drawing().compile(checkpointer=made)
        for thread in ("ada", "bob"):
            graph.invoke({"log": ["in"]}, on(thread))
        graph.invoke(Command(resume="yes"), on("ada"))
        yield made


def answered(file: str, thread: str) -> list[str]:
    """What the log of a thread that is asked becomes, in the database of a file."""
    with SqliteSaver(file) as saver:
        done: list[str] = drawing().compile(checkpointer=saver).invoke(Command(resume="yes"), on(thread))["log"]
        return done


def threads_of(file: str) -> list[str]:
    with SqliteSaver(file) as saver:
        return [thread.thread_id for thread in saver.list_threads(order="id")]


def test_P29_a_thread_is_written_into_a_file_and_goes_on_in_another_database(saver: SqliteSaver, called: Called):
    code, lines, _ = called("export", "app.db", "bob", "bob.perdure")
    assert (code, lines) == (0, ["bob  written into bob.perdure  2 checkpoints, 3 rows"])
    code, lines, _ = called("import", "here.db", "bob.perdure")
    assert (code, lines) == (0, ["bob  read from bob.perdure  2 checkpoints, 3 rows"])
    assert answered("here.db", "bob") == ["in", "yes", "b"]


def test_P29_an_import_may_give_another_id_and_make_the_database(saver: SqliteSaver, called: Called):
    _, lines, _ = called("export", "app.db", "bob", "bob.perdure", "--json")
    exported = json.loads(lines[0])
    assert (exported["thread_id"], exported["checkpoints"], len(exported["digest"])) == ("bob", 2, 64)
    code, lines, _ = called("import", "other.db", "bob.perdure", "--as", "rob", "--create", "--json")
    assert (code, json.loads(lines[0])) == (0, {**exported, "thread_id": "rob"})
    assert (threads_of("other.db"), answered("other.db", "rob")) == (["rob"], ["in", "yes", "b"])


def test_P29_all_threads_are_copied_and_the_next_call_compares_them(saver: SqliteSaver, called: Called):
    code, lines, _ = called("copy", "app.db", "other.db", "--create")
    assert (code, lines) == (0, ["2 threads copied, 11 rows; 0 there already"])
    code, lines, _ = called("copy", "app.db", "sqlite:///other.db")
    assert (code, lines) == (0, ["0 threads copied, 0 rows; 2 there already"])
    assert answered("other.db", "bob") == ["in", "yes", "b"]
    code, lines, _ = called("copy", "app.db", "other.db")
    assert (code, lines[0].startswith("bob  not copied: the target has another thread 'bob' already")) == (1, True)
    assert lines[1:] == ["0 threads copied, 0 rows; 1 there already"]
    code, lines, _ = called("copy", "app.db", "other.db", "--json")
    told = json.loads(lines[0])
    assert told["refused"].pop("bob")["code"] == "THREAD_EXISTS"
    assert (code, told) == (1, {"copied": 0, "unchanged": 1, "rows": 0, "refused": {}})


def test_P29_a_running_thread_is_left_and_the_others_are_copied(saver: SqliteSaver, called: Called):
    stream = (
        chain(("a", lambda state: {}), ("b", lambda state: {})).compile(checkpointer=saver).stream({"log": []}, on("a\x1b[2J"))
    )
    next(stream)
    code, lines, _ = called("copy", "app.db", "here.db")
    stream.close()
    assert (code, threads_of("here.db")) == (1, ["ada", "bob"])
    assert lines[0].startswith(r"a\x1b[2J  not copied: thread ")
    assert "is running" in lines[0]
    assert lines[1].startswith("2 threads copied, ")


def test_P29_one_thread_is_copied_to_another_id_or_another_database(saver: SqliteSaver, called: Called):
    code, lines, _ = called("copy", "app.db", "app.db", "--thread", "bob", "--as", "what-if")
    assert (code, lines) == (0, ["what-if  copied from bob  2 checkpoints, 3 rows"])
    assert answered("app.db", "what-if") == ["in", "yes", "b"]
    code, lines, _ = called("copy", "app.db", "here.db", "--thread", "bob", "--json")
    assert (code, json.loads(lines[0])["thread_id"], threads_of("here.db")) == (0, "bob", ["bob"])


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ("export nowhere.db ada f", "there is no database"),
        ("export app.db ad f", "there is no thread 'ad' to copy"),
        ("export app.db ada no/f", "no/f: its folder does not exist"),
        ("import nowhere.db ada.perdure", "there is no database"),
        ("import nowhere.db no.perdure --create", "no.perdure: No such file"),
        ("import here.db .", ".: Is a directory"),
        ("import app.db ada.perdure", "there is a thread 'ada' already"),
        ("import here.db cut.perdure", "cut off"),
        ("import here.db text", "text cannot be imported"),
        ("copy nowhere.db here.db", "there is no database"),
        ("copy app.db nowhere.db", "there is no database"),
        ("copy app.db no/other.db --create", "unable to open database file"),
        ("copy app.db here.db --as x", "--as names the copy of one thread: say which with --thread ID"),
        ("copy app.db here.db --thread ad", "there is no thread 'ad'; perdure threads lists those that there are"),
        ("copy app.db other.db --thread ad --create", "there is no thread 'ad'; perdure threads lists"),
        ("copy app.db app.db --thread ada", "there is a thread 'ada' already"),
        ("copy app.db app.db --thread ada --as bob", "there is a thread 'bob' already"),
    ],
)
def test_P50_what_cannot_be_moved_is_told_in_a_line(saver: SqliteSaver, called: Called, arguments: str, complaint: str):
    saver.export_thread("ada", "ada.perdure")
    Path("cut.perdure").write_bytes(Path("ada.perdure").read_bytes()[:-10])
    Path("text").write_text("ada")
    before = sorted(path.name for path in Path().iterdir() if not path.name.endswith(("-wal", "-shm")))
    code, lines, complaints = called(*arguments.split())
    assert (code, lines) == (2, [])
    assert complaints.startswith(f"perdure {arguments.split(maxsplit=1)[0]}: ")
    assert complaint in complaints
    assert len(complaints.splitlines()) == 1
    assert (threads_of("app.db"), threads_of("here.db")) == (["ada", "bob"], [])
    assert sorted(path.name for path in Path().iterdir() if not path.name.endswith(("-wal", "-shm"))) == before, (
        "nothing is made"
    )


def test_P50_an_id_that_is_none_is_told_before_a_database_is_made(saver: SqliteSaver, called: Called):
    saver.export_thread("ada", "ada.perdure")
    code, _, complaints = called("import", "other.db", "ada.perdure", "--create", "--as", "")
    assert (code, "text that is not empty" in complaints, Path("other.db").exists()) == (2, True, False)
    code, _, complaints = called("copy", "app.db", "other.db", "--create", "--thread", "ada", "--as", "")
    assert (code, "text that is not empty" in complaints, Path("other.db").exists()) == (2, True, False)
