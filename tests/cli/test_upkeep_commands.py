"""`perdure prune` and `perdure verify`: what they take away, what they find, and how they say what is wrong. (P28, P42)"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from perdure.bridge import run_blocking
from perdure.checkpoint.leases import identity
from perdure.checkpoint.sqlite import SqliteSaver
from perdure.checkpoint.survey import BUDGET
from perdure.checkpoint.transfer.port import Arrival, movable
from perdure.clock import SYSTEM_CLOCK
from perdure.errors import ThreadBusy
from tests.cli.conftest import Called
from tests.promises.ways import chain, on


@pytest.fixture
def graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A graph on app.db in the working directory, with two threads of eight checkpoints each."""
    monkeypatch.chdir(tmp_path)
    with SqliteSaver("app.db") as saver:
        made = chain(("a", lambda state: {"log": ["a" * 40]}), ("b", lambda state: {"log": ["b" * 40]})).compile(
            checkpointer=saver
        )
        for thread in ("ada", "bob"):
            for _ in range(2):
                made.invoke({"log": ["in"]}, on(thread))
        yield made


def length(graph: Any, thread: str) -> int:
    return len(list(graph.get_state_history(on(thread))))


def test_P28_prune_tells_what_would_go_and_then_takes_it(graph: Any, called: Called):
    code, dry, _ = called("prune", "app.db", "--keep-last", "3", "--dry-run")
    assert code == 0
    assert dry[0].startswith("would prune 10 checkpoints of 2 threads, ")
    assert [length(graph, thread) for thread in ("ada", "bob")] == [8, 8]
    code, lines, _ = called("prune", "app.db", "--keep-last", "3")
    assert (code, lines[0].partition(";")[0]) == (0, dry[0].replace("would prune", "pruned"))
    assert [length(graph, thread) for thread in ("ada", "bob")] == [3, 3]
    assert len(graph.get_state(on("ada")).values["log"]) == 6


def test_P28_prune_takes_what_everything_that_is_given_lets_go(graph: Any, called: Called):
    _, lines, _ = called("prune", "app.db", "--keep-last", "1", "--older-than", "1.5h", "--json")
    assert json.loads(lines[0])["checkpoints"] == 0
    _, lines, _ = called("prune", "sqlite:///app.db", "--keep-last", "1", "--thread", "ada", "--namespace", "no", "--json")
    assert (json.loads(lines[0])["threads"], json.loads(lines[0])["checkpoints"]) == (1, 0)
    _, lines, _ = called("prune", "app.db", "--max-bytes", "1000000", "--json")
    assert json.loads(lines[0])["checkpoints"] == 0
    _, lines, _ = called("prune", "app.db", "--keep-last", "5", "--thread", "ada", "--namespace", "", "--json")
    assert (json.loads(lines[0])["threads"], json.loads(lines[0])["checkpoints"]) == (1, 3)
    assert [length(graph, thread) for thread in ("ada", "bob")] == [5, 8]
    _, lines, _ = called("prune", "app.db", "--keep-last", "4", "--max-bytes", "1", "--json")
    assert [length(graph, thread) for thread in ("ada", "bob")] == [4, 4]


def test_P28_prune_names_the_threads_that_it_left_alone(graph: Any, called: Called):
    _take_away_a_checkpoint("bob")
    stream = graph.stream({"log": ["in"]}, on("ada"))
    next(stream)
    code, lines, _ = called("prune", "app.db", "--keep-last", "1")
    stream.close()
    assert code == 1
    assert lines[0].startswith("pruned 0 checkpoints of 2 threads")
    assert [line.partition(":")[0] for line in lines[1:]] == ["ada  busy", "bob  damaged"]


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["nowhere.db", "--keep-last", "1"], "there is no database"),
        (["app.db"], "say what may go: with --keep-last N, --older-than AGE, --max-bytes N, or several of these"),
        (["app.db", "--keep-last", "0"], "whole number from 1 on"),
        (["app.db", "--max-bytes", "0"], "max_bytes must be a whole number from 1 on"),
        (["app.db", "--older-than", "6m"], "'6m' is no age such as 90s, 15min, 12h, 30d or 2w"),
        (["app.db", "--older-than", "30"], "is no age"),
        (["app.db", "--older-than", "0d"], "positive duration"),
        (["app.db", "--older-than", "99999999999d"], "longer ago than dates go"),
        (["app.db", "--keep-last", "1", "--thread", "ad"], "there is no thread 'ad'"),
        (["app.db", "--keep-last", "1", "--thread", "ada", "--thread", "ad"], "there is no thread 'ad'"),
    ],
)
def test_P50_what_prune_cannot_do_is_told_before_anything_goes(graph: Any, called: Called, options: list[str], complaint: str):
    code, lines, complaints = called("prune", *options)
    assert (code, lines) == (2, [])
    assert complaint in complaints
    assert len(complaints.splitlines()) == 1
    assert [length(graph, thread) for thread in ("ada", "bob")] == [8, 8]
    assert not Path("nowhere.db").exists()


def test_P42_verify_goes_through_all_threads_and_tells_what_is_damaged(graph: Any, called: Called):
    assert called("verify", "app.db") == (0, ["ada  ok  8 checkpoints", "bob  ok  8 checkpoints", "2 threads verified"], "")
    _take_away_a_checkpoint("bob")
    code, lines, _ = called("verify", "app.db")
    assert code == 1
    assert lines[:2] == ["ada  ok  8 checkpoints", "bob  damaged  7 checkpoints"]
    assert lines[2].startswith("  missing: ")
    assert lines[-1] == "2 threads verified, 1 with problems"
    assert called("verify", "app.db", "ada")[:2] == (0, ["ada  ok  8 checkpoints", "1 thread verified"])
    assert called("verify", "app.db", "bob", "--json")[0] == 1


def test_P42_verify_passes_over_a_thread_that_is_still_arriving(graph: Any, called: Called):
    records = movable(graph.checkpointer.blocking())
    arrival = Arrival("token", identity.holder("", SYSTEM_CLOCK.now_ns()), SYSTEM_CLOCK.now_ns())
    run_blocking(records.arrive(arrival))
    run_blocking(records.stage(arrival, run_blocking(records.rows("ada", None, BUDGET)).rows))
    assert called("verify", "app.db") == (0, ["ada  ok  8 checkpoints", "bob  ok  8 checkpoints", "2 threads verified"], "")


def test_P42_receipts_of_an_earlier_call_show_what_was_cut_off(graph: Any, called: Called):
    receipts = _kept(called("verify", "app.db", "--json")[1])
    graph.invoke({"log": ["in"]}, on("new"))
    assert called("verify", "app.db", "--receipts", receipts)[1] == [
        "ada  ok  8 checkpoints",
        "bob  ok  8 checkpoints",
        "new  ok  4 checkpoints  no receipt",
        "3 threads verified",
    ]
    graph.checkpointer.delete_thread("ada")
    graph.checkpointer.prune(keep_last=2, thread="bob")
    code, lines, _ = called("verify", "app.db", "--receipts", receipts, "--pruned")
    assert code == 1
    assert lines == [
        "bob  ok  2 checkpoints",
        "new  ok  4 checkpoints  no receipt",
        "ada  damaged  0 checkpoints",
        "  missing: all of thread 'ada' as it was then: it has been deleted since",
        "3 threads verified, 1 with problems",
    ]
    assert called("verify", "app.db", "ada", "--receipts", receipts)[0] == 1
    assert called("verify", "app.db", "bob", "--receipts", receipts)[1][1].startswith("  missing: checkpoint 1")


def test_P42_no_receipt_is_given_for_damaged_records(graph: Any, called: Called):
    before = [json.loads(line) for line in called("verify", "app.db", "--json")[1]]
    receipts = _kept([json.dumps(line) for line in before])
    _take_away_a_checkpoint("bob")
    ada, bob = (json.loads(line) for line in called("verify", "app.db", "--json")[1])
    assert (ada, bob["ok"], bob["receipt"]) == (before[0], False, None)
    assert bob["problems"][0]["kind"] == "missing"
    ada, bob = (json.loads(line) for line in called("verify", "app.db", "--json", "--receipts", receipts)[1])
    assert bob["receipt"] == before[1]["receipt"], "the one that shows the damage stays"


def test_P42_a_key_makes_receipts_that_need_it(graph: Any, called: Called):
    Path("key").write_bytes(b"k" * 32)
    receipts = _kept(called("verify", "app.db", "--json", "--key-file", "key")[1])
    assert called("verify", "app.db", "--receipts", receipts, "--key-file", "key")[0] == 0
    code, _, complaints = called("verify", "app.db", "--receipts", receipts)
    assert (code, "made with a key: give it with --key-file" in complaints) == (2, True)
    plain = _kept(called("verify", "app.db", "--json")[1])
    complaints = called("verify", "app.db", "--receipts", plain, "--key-file", "key")[2]
    assert "made without a key: leave --key-file out" in complaints
    Path("hex").write_text("0" * 64 + "\n")
    code, lines, complaints = called("verify", "app.db", "--key-file", "hex")
    assert (code, lines) == (2, [])
    assert "--key-file hex has 65 bytes, and a key is 16 to 64 bytes; all bytes of the file count, a newline" in complaints
    Path("short").write_bytes(b"k")
    assert "short has 1 byte, and" in called("verify", "app.db", "--key-file", "short")[2]


def test_P42_a_thread_that_is_written_to_all_the_time_is_told(graph: Any, called: Called, monkeypatch: pytest.MonkeyPatch):
    def busy(self: Any, thread: str, **_: Any) -> Any:
        raise ThreadBusy("a run holds it", thread=thread)

    monkeypatch.setattr(SqliteSaver, "verify", busy)
    code, lines, _ = called("verify", "app.db", "ada")
    assert (code, lines[0]) == (1, "ada  busy: a run kept writing to it; verify it again")
    code, lines, _ = called("verify", "app.db", "ada", "--json")
    assert (code, json.loads(lines[0])["ok"]) == (1, None)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["nowhere.db"], "there is no database"),
        (["app.db", "ad"], "there is no thread 'ad'"),
        (["app.db", "--receipts", "nowhere"], "--receipts nowhere: No such file"),
        (["app.db", "--key-file", "nowhere"], "--key-file nowhere: No such file"),
        (["app.db", "--receipts", "empty"], "empty has no receipts; write what --json prints into another file"),
        (["app.db", "--receipts", "list"], "line 2 of list is not of what perdure verify --json prints"),
    ],
)
def test_P50_what_verify_cannot_do_is_told_in_a_line(graph: Any, called: Called, options: list[str], complaint: str):
    Path("empty").touch()
    Path("list").write_text('{"receipt": null}\nbob ok\n')
    code, lines, complaints = called("verify", *options)
    assert (code, lines) == (2, [])
    assert complaint in complaints
    assert len(complaints.splitlines()) == 1


def test_verify_and_prune_do_not_let_ids_steer_the_terminal(graph: Any, called: Called):
    graph.invoke({"log": ["in"]}, on("z\x1b[2J"))
    assert r"z\x1b[2J  ok  4 checkpoints" in called("verify", "app.db")[1]
    _take_away_a_checkpoint("z\x1b[2J")
    assert any(line.startswith(r"z\x1b[2J  damaged") for line in called("prune", "app.db", "--keep-last", "1")[1])


@pytest.mark.parametrize("command", [["threads"], ["verify"], ["prune", "--keep-last", "1"]])
def test_P50_a_database_that_cannot_be_opened_is_told_in_a_line(
    graph: Any, called: Called, command: list[str], monkeypatch: pytest.MonkeyPatch
):
    name, *options = command
    for url in ("file:nowhere.db", "sqlite:///file:no%77here.db?mode=rwc"):
        code, lines, complaints = called(name, url, *options)
        assert (code, lines) == (2, [])
        assert "there is no database file:" in complaints
    assert sorted(path.name for path in Path().glob("*where*")) == [], "looking makes nothing"
    assert called(name, f"file:{Path('app.db').resolve()}", *options)[0] == 0

    def refused(*_: Any, **__: Any) -> Any:
        error = sqlite3.OperationalError("unable to open database file")
        error.add_note("while opening it")
        raise error

    monkeypatch.setattr(sqlite3, "connect", refused)
    code, lines, complaints = called(name, "app.db", *options)
    assert (code, lines) == (2, [])
    assert complaints.startswith(f"perdure {name}: unable to open database file; while opening it")
    assert len(complaints.splitlines()) == 1


def test_P4_prune_says_that_it_may_not_write(graph: Any, called: Called):
    code, lines, complaints = called("prune", "file:app.db?mode=ro", "--keep-last", "1")
    assert (code, lines) == (2, [])
    assert complaints.startswith(
        "perdure prune: thread 'ada' could not be pruned: OperationalError: attempt to write a readonly"
    )
    assert [length(graph, thread) for thread in ("ada", "bob")] == [8, 8]


def _kept(lines: list[str]) -> str:
    Path("receipts.jsonl").write_text(os.linesep.join(lines))
    return "receipts.jsonl"


def _take_away_a_checkpoint(thread: str) -> None:
    """The one before the tip, which has values that the tip needs."""
    of_thread = "thread_key = (SELECT key FROM thread WHERE thread_id = ?)"
    with closing(sqlite3.connect("app.db")) as file, file:
        (n,) = file.execute(
            f"SELECT n FROM checkpoint WHERE {of_thread} ORDER BY n DESC LIMIT 1 OFFSET 1", (thread,)
        ).fetchone()
        file.execute(f"DELETE FROM checkpoint WHERE {of_thread} AND n = ?", (thread, n))
