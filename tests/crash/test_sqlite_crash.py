"""Killed at every point of a commit, two processes on one file, and a holder that died. (P1, P7, P8, P9)"""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from perdure.backends.sqlite.connections import open_sqlite
from perdure.checkpoint.leases import identity
from perdure.checkpoint.records import LeaseRow
from perdure.errors import ThreadBusy
from perdure.failpoints import ENVIRONMENT_VARIABLE
from tests.pure.test_sqlite_records import NOW, Store, blocking, commit, row

ROOT = Path(__file__).parents[2]

PRELUDE = """
import sys
from perdure.backends.sqlite.connections import open_sqlite
from perdure.checkpoint.leases import identity
from perdure.checkpoint.records import *
from tests.pure.test_sqlite_records import NOW, blocking, commit, row

shared = open_sqlite(sys.argv[1])
store = blocking(shared)

def rows(n):
    write = WriteRow(0, n, "a", RESULT, (WriteItem("v", None, n),))
    child = ChildRow(0, n, "a", 0, 100 + n, n)
    return dict(checkpoints=[row(n, changes={"v": Entry(n, None, n)}, frontier=(Pending("a", n),))], head=n, next_n=n + 1,
                values=[ValueRow(n, Packed("b", bytes([n]) * 50_000))], writes=[write], children=[child],
                namespaces=[(100 + n, f"sub {n}")], newest=n)
"""

THREE_COMMITS = """
holder = identity.holder("run", NOW)
store.commit(commit(lease="take", holder=holder, update=ThreadUpdate("busy", "g", "f", {}), **rows(1)))
print(1, flush=True)
store.commit(commit(lease="keep", **rows(2)))
print(2, flush=True)
store.commit(commit(lease="release", update=ThreadUpdate("idle"), **rows(3)))
print(3, flush=True)
store.delete("t")
print(4, flush=True)
shared.close()
"""


def child(script: str, path: Path, failpoint: str = "") -> subprocess.Popen[str]:
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
        ENVIRONMENT_VARIABLE: failpoint,
    }
    command = [sys.executable, "-c", PRELUDE + script, str(path)]
    return subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def reopened(path: Path) -> Store:
    return blocking(open_sqlite(path))


def check_whole(store: Store, path: Path, last: int) -> None:
    """Everything of the commits up to `last` is there, and nothing of the others."""
    loaded = store.load("t", "", None)
    thread = loaded.thread
    if last == 0:
        assert thread.key is None
    else:
        assert (thread.head, thread.next_n, thread.newest) == (last, last + 1, last)
        assert thread.status == ("idle" if last == 3 else "busy")
        assert (thread.lease.token is None) == (last == 3)
        assert loaded.values[last].data == bytes([last]) * 50_000
        assert [(one.origin, one.path) for one in loaded.writes] == [(last, "a")]
        assert [one.head for one in loaded.children] == [last]
    store.drive(store.records.close())
    connection = sqlite3.connect(path)
    tables = ("checkpoint", "value", "write", "child", "namespace")
    counts = [connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in tables]
    assert counts == [last] * 5
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()


@pytest.mark.parametrize("nth", [1, 2, 3])
@pytest.mark.parametrize("moment", ["begin", "before", "after"])
def test_killed_anywhere_in_a_commit_all_or_nothing_is_stored(tmp_path: Path, moment: str, nth: int):
    path = tmp_path / "a.db"
    process = child(THREE_COMMITS, path, f"sqlite.commit.{moment}:{nth}")
    output, _ = process.communicate(timeout=50)
    assert process.returncode == -signal.SIGKILL
    assert output.split() == [str(n) for n in range(1, nth)]
    check_whole(reopened(path), path, nth if moment == "after" else nth - 1)


@pytest.mark.parametrize("moment", ["before", "after"])
def test_killed_in_a_deletion_all_or_nothing_is_gone(tmp_path: Path, moment: str):
    path = tmp_path / "a.db"
    process = child(THREE_COMMITS, path, f"sqlite.delete.{moment}")
    output, _ = process.communicate(timeout=50)
    assert output.split() == ["1", "2", "3"]
    store = reopened(path)
    if moment == "before":
        check_whole(store, path, 3)
    else:
        loaded = store.load("t", "", None)
        assert (loaded.thread.key, loaded.thread.incarnation) == (None, 2)
        store.drive(store.records.close())


@pytest.mark.parametrize("moment", ["before", "after"])
def test_killed_while_the_tables_are_made(tmp_path: Path, moment: str):
    path = tmp_path / "a.db"
    process = child(THREE_COMMITS, path, f"sqlite.migrate.{moment}")
    process.communicate(timeout=50)
    assert process.returncode == -signal.SIGKILL
    store = reopened(path)
    store.commit(commit(checkpoints=[row(1)], head=1, next_n=2))
    assert store.load("t", "", None).row == row(1)
    store.drive(store.records.close())


HOLD = """
store.commit(commit(lease="take", holder=identity.holder("run-of-the-child", NOW), **rows(1)))
print("held", flush=True)
sys.stdin.read()
"""


def test_a_dead_holder_is_taken_over_at_once_and_a_living_one_is_not(tmp_path: Path):
    path = tmp_path / "a.db"
    process = child(HOLD, path)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    store = reopened(path)
    take = commit(lease="take", token="mine", epoch=2, expect_head=1, first_n=2, head=2, next_n=3, checkpoints=[row(2)])
    with pytest.raises(ThreadBusy, match=f"run-of-the-child .process {process.pid}"):
        store.commit(take)
    process.kill()
    process.communicate(timeout=50)
    lease: LeaseRow = store.load("t", "", None).thread.lease
    assert lease.expires_ns > NOW
    assert identity.is_dead(lease)
    take.over = lease.mark
    store.commit(take)
    assert store.load("t", "", None).thread.lease.token == "mine"
    store.drive(store.records.close())


INCREMENT = """
for i in range(100):
    while True:
        thread = store.load("t", "", None).thread
        n = thread.next_n
        token = f"{identity.holder('', 0).pid}-{i}"
        epoch = thread.lease.epoch + 1
        taking = dict(token=token, epoch=epoch)
        try:
            store.commit(commit(lease="take", expect_head=thread.head, first_n=n, **taking, **rows(n % 200)
                                | dict(checkpoints=[row(n)], values=[], writes=[], children=[], namespaces=[], head=n, next_n=n + 1)))
        except Exception as error:
            assert type(error).__name__ in ("StaleLoad", "ThreadBusy"), error
            continue
        store.commit(commit(lease="release", checkpoints=[row(n + 1, n)], head=n + 1, next_n=n + 2, **taking))
        break
shared.close()
"""


def test_two_processes_count_on_one_thread(tmp_path: Path):
    # Both begin with a file that does not exist: they also make its tables at the same time.
    path = tmp_path / "a.db"
    processes = [child(INCREMENT, path) for _ in range(2)]
    for process in processes:
        process.communicate(timeout=55)
        assert process.returncode == 0
    store = reopened(path)
    assert store.load("t", "", None).thread.next_n == 1 + 2 * 100 * 2
    assert store.load("t", "", None).thread.lease.epoch == 200
    store.drive(store.records.close())


def test_many_processes_make_one_database(tmp_path: Path):
    path = tmp_path / "a.db"
    script = "store.commit(commit(sys.argv[1] + str(identity.holder('', 0).pid)))\nshared.close()"
    processes = [child(script, path) for _ in range(5)]
    for process in processes:
        process.communicate(timeout=55)
        assert process.returncode == 0
    store = reopened(path)
    assert len(store.threads(after=None, limit=9)) == 5
    store.drive(store.records.close())
