"""P1, P7: killed over and over around the moment when the write-ahead log is written into the file and begins anew."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from perdure.backends.sqlite.schema import LOG_PAGES

ROOT = Path(__file__).parents[2]

# One process imports everything and forks those that die. Each goes on with the run where the last one was killed, checks what it finds,
# and notes how many steps are stored before it takes another one.
STORY = """
import gc, json, os, random, resource, signal, sqlite3, sys, threading, time
from pathlib import Path
from perdure import failpoints
from tests.promises.ways import Way, log_loop, on, open_saver

folder, way, kind = Path(sys.argv[1]), Way(sys.argv[2]), sys.argv[3]
database, log, noted = folder / "promises.db", folder / "promises.db-wal", folder / "noted"
STEPS = 100

def word(number):
    return random.Random(number).randbytes(13_000)  # a few pages, which cannot be stored smaller

def told():
    return int(["0", *noted.read_text().split()][-1]) if noted.exists() else 0

def live(deadly):
    ledger = os.open(noted, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    taken = iter(range(STEPS))

    def say():
        number = at + next(taken)
        os.write(ledger, f"{number}\\n".encode())  # all steps before this one are stored
        return word(number)

    with open_saver("sqlite", folder) as saver:
        graph = log_loop(way.node(lambda _: {"log": [say()]}), STEPS).compile(checkpointer=saver)
        found = (way.state(graph, on()).values or {}).get("log", [])
        at = len(found)
        assert at >= told(), (at, told())
        assert found == [word(number) for number in range(at)]
        deadly()
        result = way.invoke(graph, None if at else {"log": []}, on())["log"]
        assert result == [word(number) for number in range(STEPS)]
        for number, snapshot in enumerate(way.history(graph, on())):
            stored = snapshot.values.get("log", [])
            assert stored == result[: len(stored)]
            assert len(stored) == max(0, STEPS - number)
        assert saver.verify("t").ok

def die_in_the_file(limit):
    # Written up to here, and no further: the process is gone in the middle of it.
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

def die_at(name, count):
    failpoints._armed, failpoints._remaining = name, count

(folder / "warm").mkdir()
with open_saver("sqlite", folder / "warm") as saver:
    graph = log_loop(way.node(lambda _: {"log": ["x"]}), 2).compile(checkpointer=saver)
    way.invoke(graph, {"log": []}, on())
    way.history(graph, on())
while threading.active_count() > 1:
    time.sleep(0.001)
gc.freeze()

deaths, begun, sizes = [], set(), []
least = 1_000_000  # more than the log ever has, so that only the file can be what grew too long
moments = ["sqlite.commit.before", "sqlite.commit.after", "sqlite.commit.begin"]
while True:
    at = len(deaths)
    size = max(least, database.stat().st_size if database.exists() else 0) + 4096 * (10 + at % 7) + 100
    child = os.fork()
    if child == 0:
        try:
            live(lambda: die_in_the_file(size) if kind == "file" else die_at(moments[at % 3], 2 + at % 7))
        except BaseException:
            import traceback
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code >= 0:
        break
    deaths.append(-code)
    begun.add(log.read_bytes()[16:20].hex())  # another number whenever the log begins anew
    sizes.append([size, database.stat().st_size, log.stat().st_size])
integrity = sqlite3.connect(database).execute("PRAGMA integrity_check").fetchall()
print(json.dumps({"code": code, "deaths": deaths, "begun": len(begun), "sizes": sizes, "integrity": integrity}))
"""


def lived(folder: Path, colour: str, kind: str) -> dict[str, Any]:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    command = [sys.executable, "-c", STORY, str(folder), colour, kind]
    done = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True, timeout=50)
    told: dict[str, Any] = json.loads(done.stdout)
    assert told["code"] == 0
    assert told["integrity"] == [["ok"]]
    return told


@pytest.mark.parametrize("colour", ["sync", "async"])
def test_P1_killed_while_the_log_is_written_into_the_file_no_step_is_lost(tmp_path: Path, colour: str):
    pytest.importorskip("resource")
    told = lived(tmp_path, colour, "file")
    assert set(told["deaths"]) == {signal.SIGXFSZ}
    assert len(told["deaths"]) > 5
    for limit, file, log in told["sizes"]:
        assert log < file == limit, "it was the file that could not be written"


@pytest.mark.parametrize("colour", ["sync", "async"])
def test_P1_killed_at_commits_around_the_moment_when_the_log_begins_anew_no_step_is_lost(tmp_path: Path, colour: str):
    told = lived(tmp_path, colour, "log")
    assert set(told["deaths"]) == {signal.SIGKILL}
    assert len(told["deaths"]) > 20
    assert told["begun"] > 3
    assert max(log for _, _, log in told["sizes"]) < 2 * 4120 * LOG_PAGES
