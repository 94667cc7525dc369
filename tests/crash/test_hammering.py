"""P8-P10: two processes of eight threads each write to twenty threads of one file. Whatever was accepted is there once, and nothing else."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from perdure.checkpoint.saver import Saver
from tests.crash.hammering import DELETED, KEPT, hammered, words
from tests.promises.ways import on, open_saver, rows_of

ROOT = Path(__file__).parents[2]


def start(folder: Path, name: str, seconds: float, synchronous: str) -> subprocess.Popen[bytes]:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    command = [sys.executable, "-m", "tests.crash.hammering", str(folder), name, str(seconds), synchronous]
    return subprocess.Popen(command, env=environment, cwd=ROOT)


class Ledgers:
    """What the processes noted."""

    def __init__(self, folder: Path) -> None:
        files = sorted(folder.glob("ledger *"))
        self.lines = [line.split("\t") for file in files for line in file.read_text().splitlines()]

    def of(self, outcome: str, *kinds: str) -> list[list[str]]:
        """(thread, name, …) of the calls of some kinds with an outcome."""
        return [line[2:] for line in self.lines if line[0] == outcome and line[1] in kinds]

    def __str__(self) -> str:
        counts = Counter(" ".join([line[0], line[1], *line[4:5]]) for line in self.lines if line[0] != "try")
        return ", ".join(f"{count} {what}" for what, count in sorted(counts.items()))


def check(folder: Path, ledgers: Ledgers, *, killed: str = "") -> None:
    """The file says what the ledgers say."""
    assert ledgers.of("error", "run", "edit", "delete") == []
    tried = {name for _, name in ledgers.of("try", "run", "edit")}
    known = {line[1] for outcome in ("accepted", "refused") for line in ledgers.of(outcome, "run", "edit")}
    assert {name[0] for name in tried - known} <= {killed}, "only who was killed does not know"
    with open_saver("sqlite", folder) as saver:
        for thread in KEPT:
            runs = [name for where, name in ledgers.of("accepted", "run") if where == thread]
            edits = [name for where, name in ledgers.of("accepted", "edit") if where == thread]
            log = log_of(saver, thread)
            check_log(log, tried, killed)
            for name in runs:
                at = log.index(name)
                assert log[at : at + 3] == words(name)
            assert set(edits) <= set(log)
            if not killed:
                assert len(log) == 3 * len(runs) + len(edits), "what was refused left nothing"
            check_tree(saver, thread, bool(killed))
        for thread in DELETED:
            check_log(log_of(saver, thread), tried, killed)
            check_tree(saver, thread, bool(killed))
    database = sqlite3.connect(folder / "promises.db")
    assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    for table in ("checkpoint", "write", "lease", "namespace", "child"):
        lost = database.execute(f'SELECT count(*) FROM "{table}" WHERE thread_key NOT IN (SELECT key FROM thread)')
        assert lost.fetchone() == (0,), f"rows of deleted threads in {table}"
    database.close()


def log_of(saver: Saver, thread: str) -> list[str]:
    values: Any = hammered(saver).get_state(on(thread)).values
    found: list[str] = values.get("log", [])
    return found


def check_log(log: list[str], tried: set[str], killed: str) -> None:
    assert [word for word, count in Counter(log).items() if count > 1] == [], "nothing is there twice"
    begun = {word.split("/")[0] for word in log}
    assert begun <= tried
    torn = [name for name in begun if not {f"{name}/a", f"{name}/b"} & set(log) or f"{name}/b" not in log]
    halves = [name for name in torn if f"{name}/a" in log]
    assert {name[0] for name in halves} <= {killed}, "a run is there whole, but for those of the process that was killed"


def check_tree(saver: Saver, thread: str, killed: bool) -> None:
    rows = rows_of(saver, thread)
    parents = [row["parent"] for row in rows["checkpoints"].values()]
    assert len(parents) == len(set(parents)), "one branch only"
    status, _, free, _ = rows["thread"]
    assert free or killed
    assert status == "idle" or killed


def wait_for(folder: Path, name: str, lines: int) -> None:
    """Until a process has noted so many calls."""
    ledger = folder / f"ledger {name}"
    deadline = time.monotonic() + 50
    while not ledger.exists() or ledger.read_bytes().count(b"\n") < lines:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def hammer(folder: Path, seconds: float, synchronous: str, *, kill: bool) -> Ledgers:
    processes = {name: start(folder, name, seconds, synchronous) for name in "AB"}
    if kill:
        wait_for(folder, "A", 50)
        wait_for(folder, "B", 50)
        time.sleep(seconds / 4)
        processes["B"].kill()
    codes = {name: process.wait(seconds + 100) for name, process in processes.items()}
    assert codes == {"A": 0, "B": -signal.SIGKILL if kill else 0}
    return Ledgers(folder)


@pytest.mark.parametrize("kill", [False, True], ids=["whole", "killed"])
def test_P8_P9_P10_two_processes_hammer_twenty_threads(tmp_path: Path, kill: bool):
    ledgers = hammer(tmp_path, 2.0, "normal", kill=kill)
    check(tmp_path, ledgers, killed="B" if kill else "")
    assert {name.rsplit(".", 1)[0] for _, name in ledgers.of("accepted", "run", "edit")} >= {f"A.{n}" for n in range(8)}


@pytest.mark.nightly
@pytest.mark.timeout(300)
@pytest.mark.parametrize("kill", [False, True], ids=["whole", "killed"])
def test_P8_P9_P10_two_processes_hammer_twenty_threads_for_a_minute(tmp_path: Path, kill: bool):
    ledgers = hammer(tmp_path, 60.0, "full", kill=kill)
    print(ledgers)
    check(tmp_path, ledgers, killed="B" if kill else "")
