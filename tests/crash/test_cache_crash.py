"""A process that is killed while it keeps results in a cache, and two processes that share one. (P1, P7)"""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from perdure.cache import SqliteCache
from perdure.failpoints import ENVIRONMENT_VARIABLE

ROOT = Path(__file__).parents[2]
KEYS = [(("a",), str(n)) for n in range(50)]

PRELUDE = """
import sys
from perdure.cache import SqliteCache

KEYS = [(("a",), str(n)) for n in range(50)]
cache = SqliteCache(sys.argv[1])
"""

TWO_SETS = """
for value in (1, 2):
    cache.set({key: ([value] * 2000, None) for key in KEYS})
    print(value, flush=True)
"""

IN_TURN = """
for line in sys.stdin:
    seen = {value[0] for value in cache.get(KEYS).values()}
    assert len(seen) <= 1, seen
    cache.set({key: ([int(line)], 1000) for key in KEYS})
    print(*seen, flush=True)
"""

BOTH_AT_ONCE = """
me = int(sys.argv[2])
sys.stdin.readline()
for n in range(40):
    cache.set({key: ((me, n), 1000) for key in KEYS[:5]})
    assert len(set(cache.get(KEYS[:5]).values())) == 1
    cache.set({(("mine", str(me)), str(n)): (n, None)})
print("done", flush=True)
"""


def child(script: str, *arguments: object, failpoint: str = "") -> subprocess.Popen[str]:
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), ENVIRONMENT_VARIABLE: failpoint}
    command = [sys.executable, "-c", PRELUDE + script, *map(str, arguments)]
    return subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize(
    ("failpoint", "kept"),
    [
        ("sqlite.migrate.before", None),
        ("sqlite.migrate.after", None),
        ("sqlite.cache.before:1", None),
        ("sqlite.cache.after:1", 1),
        ("sqlite.cache.before:2", 1),
        ("sqlite.cache.after:2", 2),
    ],
)
def test_P1_a_set_is_whole_or_absent_after_a_kill(tmp_path: Path, failpoint: str, kept: int | None):
    path = tmp_path / "cache.db"
    process = child(TWO_SETS, path, failpoint=failpoint)
    process.communicate(timeout=50)
    assert process.returncode == -signal.SIGKILL
    with SqliteCache(path) as cache:
        assert cache.get(KEYS) == ({} if kept is None else {key: [kept] * 2000 for key in KEYS})
        cache.set({KEYS[0]: ([3], None)})
        assert cache.get(KEYS[:1]) == {KEYS[0]: [3]}
    connection = sqlite3.connect(path)
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()


def test_a_process_finds_what_another_has_just_kept(tmp_path: Path):
    process = child(IN_TURN, tmp_path / "cache.db")
    assert process.stdin is not None
    assert process.stdout is not None
    with SqliteCache(tmp_path / "cache.db") as cache:
        for value in range(1, 6):
            cache.set({key: ([value], 1000) for key in KEYS})
            process.stdin.write(f"{-value}\n")
            process.stdin.flush()
            assert process.stdout.readline() == f"{value}\n"
            assert cache.get(KEYS) == {key: [-value] for key in KEYS}
        process.communicate(timeout=50)
    assert process.returncode == 0


def test_P7_processes_that_keep_at_once_see_whole_sets_and_lose_none(tmp_path: Path):
    path = tmp_path / "cache.db"  # which both of them make
    processes = [child(BOTH_AT_ONCE, path, me) for me in (1, 2)]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    assert [process.communicate(timeout=50)[0] for process in processes] == ["done\n"] * 2
    with SqliteCache(path) as cache:
        mine = [(("mine", str(me)), str(n)) for me in (1, 2) for n in range(40)]
        assert len(cache.get(mine)) == 80
        assert len(set(cache.get(KEYS[:5]).values())) == 1
