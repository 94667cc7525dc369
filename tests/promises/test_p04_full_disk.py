"""P4: a disk that is full and a file that may not be written to: SaveFailed says so, what was stored stays, and the run goes on later."""

from __future__ import annotations

import io
import json
import os
import secrets
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure.checkpoint.retention import Retention
from perdure.checkpoint.sqlite import SqliteSaver
from perdure.errors import SaveFailed
from tests.promises.ways import Ledger, Way, chain, foreign_checkpoint, on, open_saver

ROOT = Path(__file__).parents[2]

# The limit is that of a process, so it is set in one of its own. To SQLite it looks like a disk that takes no more.
FULL = """
import errno, io, json, os, resource, sqlite3, sys
from pathlib import Path
from perdure.checkpoint.retention import Retention
from perdure.errors import SaveFailed
from tests.promises.ways import Ledger, Way, foreign_checkpoint, log_loop, on, open_saver

def noise(kilobytes):
    return os.urandom(kilobytes * 1000).hex()  # text would be stored smaller than it is

path, way, durability = Path(sys.argv[1]), Way(sys.argv[2]), sys.argv[3]
saver = open_saver("sqlite", path, retention=Retention(keep_last=1))
ledger = Ledger(way)
graph = log_loop(ledger.node("step", lambda: f"{len(ledger.ran)} {noise(60)}"), 20).compile(checkpointer=saver)
way.invoke(log_loop(Ledger(way).node("step"), 2).compile(checkpointer=saver), {"log": []}, on("before"))
saver.pin(on("before"), "pinned")
saver.export_thread("before", file := io.BytesIO())

resource.setrlimit(resource.RLIMIT_FSIZE, (800_000, resource.RLIM_INFINITY))
told = {"failed": []}

def failing(name, call):
    try:
        call()
    except SaveFailed as error:
        told["failed"].append([name, str(error), type(error.__cause__).__name__])

tip = way.state(graph, on("before")).config
calls = {
    "run": lambda: way.invoke(graph, {"log": []}, on(), durability=durability),
    "run again": lambda: way.invoke(graph, None, on(), durability="sync"),
    "edit": lambda: way.edit(graph, on("before"), {"log": [noise(900)]}),
    "put": lambda: way.put(saver, tip, foreign_checkpoint({"log": [noise(900)]}), {}, {"log": 1}),
    "put_writes": lambda: way.put_writes(saver, tip, [("log", [noise(900)])], "task"),
}
for name, call in calls.items():
    failing(name, call)
    if name == "run":
        told["ran"] = len(ledger.ran)
        told["stored"] = len(way.state(graph, on()).values["log"])
ledger.ran.clear()

resource.setrlimit(resource.RLIMIT_FSIZE, (1, resource.RLIM_INFINITY))
upkeep = {
    "delete_thread": ["before"],
    "pin": [tip, "another"],
    "unpin": ["before", "pinned"],
    "prune": {"keep_last": 1},
    "sweep": {},
    "copy_thread": ["before", "copy"],
    "import_thread": [io.BytesIO(file.getvalue()), "imported"],
}
for name, given in upkeep.items():
    arguments, options = ((), given) if isinstance(given, dict) else (given, {})
    failing(name, lambda: way._do(saver, name, *arguments, **options))
try:
    way._do(saver, "export_thread", "before", path / "file")
except OSError as error:
    told["export"] = [error.errno == errno.EFBIG, [each.name for each in path.glob("file*")]]
told["dry run"] = way._do(saver, "prune", keep_last=1, dry_run=True).checkpoints > 0
told["threads"] = [one.thread_id for one in way._do(saver, "list_threads")]
told["verified"] = way._do(saver, "verify", "before").ok

resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
told["before"] = way.state(graph, on("before")).values["log"]
told["result"] = [text.split()[0] for text in way.invoke(graph, None, on())["log"]]
told["ran again"] = len(ledger.ran)
told["integrity"] = sqlite3.connect(path / "promises.db").execute("PRAGMA integrity_check").fetchall()
print(json.dumps(told))
"""


@pytest.mark.parametrize("durability", ["sync", "async"])
def test_P4_a_full_disk_fails_the_run_keeps_what_was_stored_and_the_run_goes_on_when_there_is_room(
    tmp_path: Path, way: Way, durability: str
):
    pytest.importorskip("resource")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    command = [sys.executable, "-c", FULL, str(tmp_path), way.colour, durability]
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True, timeout=50)
    told: dict[str, Any] = json.loads(done.stdout)
    writes = ["run", "run again", "edit", "put", "put_writes"]
    upkeep = ["delete_thread", "pin", "unpin", "prune", "sweep", "copy_thread", "import_thread"]
    assert [name for name, _, _ in told["failed"]] == [*writes, *upkeep]
    for name, text, cause in told["failed"]:
        assert str(tmp_path / "promises.db") in text
        assert ("What was stored before is intact" if name in writes else "mend the cause and ") in text
        assert cause == "OperationalError"
    assert told["export"] == [True, []], "no half file is left"
    assert (told["dry run"], told["threads"], told["verified"]) == (True, ["before", "t"], True)
    ahead = told["ran"] - told["stored"]
    assert ahead == 1 if durability == "sync" else 1 <= ahead <= 2
    assert told["stored"] > 0
    assert told["before"] == ["step", "step"]
    assert len(told["result"]) == 20
    assert told["ran again"] == 20 - told["stored"], "at once, though the run could not say that it ended; nothing was repeated"
    assert told["integrity"] == [["ok"]]


NEW = """
import json, resource, sqlite3, sys
from pathlib import Path
from perdure.errors import SaveFailed
from tests.promises.ways import Ledger, Way, chain, foreign_checkpoint, on, open_saver

way = Way(sys.argv[2])
ledger = Ledger(way)
told = {}

def fails(name, call):
    try:
        call()
    except (SaveFailed, sqlite3.OperationalError) as error:
        of = error.__cause__ if isinstance(error, SaveFailed) else error
        told[name] = [type(error).__name__, getattr(error, "code", ""), getattr(error, "thread", ""), type(of).__name__, str(error), of.__notes__]

path = Path(sys.argv[1])
with open_saver("sqlite", path) as saver:
    graph = chain(("a", ledger.node("a"))).compile(checkpointer=saver)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1, resource.RLIM_INFINITY))
    calls = {
        "invoke": lambda: way.invoke(graph, {"log": []}, on()),
        "stream": lambda: way.stream(graph, {"log": []}, on()),
        "go on": lambda: way.invoke(graph, None, on()),
        "update_state": lambda: way.edit(graph, on(), {"log": ["x"]}),
        "update_state inside": lambda: way.edit(graph, on(checkpoint_ns="a:1"), {"log": ["x"]}),
        "name_branch": lambda: way._do(graph, "name_branch", on(), "side"),
        "drop_branch": lambda: way._do(graph, "drop_branch", on(), "side"),
        "put": lambda: way.put(saver, on(), foreign_checkpoint({"log": ["x"]}), {}, {"log": 1}),
        "resume_all": lambda: way._do(graph, "resume_all"),
        "get_state": lambda: way.state(graph, on()),
        "history": lambda: way.history(graph, on()),
        "get_tuple": lambda: way._do(saver, "get_tuple", on()),
    }
    for name, call in calls.items():
        fails(name, call)
    ran = list(ledger.ran)
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    log = way.invoke(graph, {"log": []}, on())["log"]
print(json.dumps([told, ran, log]))
"""


def test_P4_a_new_file_whose_tables_cannot_be_made_fails_who_writes_and_tells_who_reads(tmp_path: Path, way: Way):
    pytest.importorskip("resource")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    command = [sys.executable, "-c", NEW, str(tmp_path), way.colour]
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True, timeout=50)
    told, ran, log = json.loads(done.stdout)
    reads = ["get_state", "history", "get_tuple"]
    writes = [
        "invoke",
        "stream",
        "go on",
        "update_state",
        "update_state inside",
        "name_branch",
        "drop_branch",
        "put",
        "resume_all",
    ]
    assert list(told) == [*writes, *reads]
    for name, (error, code, thread, cause, text, notes) in told.items():
        assert cause == "OperationalError"
        assert any("while opening the database" in note and str(tmp_path) in note for note in notes)
        if name in reads:
            assert error == "OperationalError"
        else:
            assert (error, code, thread) == ("SaveFailed", "SAVE_FAILED", None if name == "resume_all" else "t")
            assert "Nothing was stored; mend the cause and try again" in text
            assert str(tmp_path) in text
    assert (ran, log) == ([], ["a"]), "nothing ran, and with room again the same saver goes on"


def test_P4_a_file_that_may_only_be_read_says_so_and_is_read(tmp_path: Path, way: Way):
    graph = chain(("a", Ledger(way).node("a")))
    file, elsewhere = io.BytesIO(), open_saver("memory", tmp_path)
    with open_saver("sqlite", tmp_path) as writable:
        way.invoke(graph.compile(checkpointer=writable), {"log": []}, on())
        writable.pin(on(), "pinned")
        writable.export_thread("t", file)
    elsewhere.import_thread(io.BytesIO(file.getvalue()), "elsewhere")
    path = tmp_path / "promises.db"
    with SqliteSaver(f"file:{path}?mode=ro", retention=Retention(keep_last=1)) as saver:
        ledger = Ledger(way)
        reading = chain(("a", ledger.node("a"))).compile(checkpointer=saver)
        tip = way.state(reading, on()).config
        refused: list[Callable[[], Any]] = [
            lambda: way.invoke(reading, {"log": []}, on()),
            lambda: way.edit(reading, on(), {"log": ["x"]}),
            lambda: way.put(saver, tip, foreign_checkpoint(), {}, {}),
            lambda: way.put_writes(saver, tip, [("log", ["x"])], "task"),
            lambda: way.delete(saver, "t"),
            lambda: way._do(saver, "prune", keep_last=1),
            lambda: way._do(saver, "sweep"),
            lambda: way._do(saver, "pin", tip, "kept"),
            lambda: way._do(saver, "unpin", "t", "pinned"),
            lambda: way._do(saver, "copy_thread", "t", "copy"),
            lambda: way._do(saver, "import_thread", io.BytesIO(file.getvalue()), "imported"),
            lambda: way._do(perdure, "copy_all", elsewhere, saver),
            lambda: way._do(reading, "name_branch", on(), "side"),
        ]
        for call in refused:
            with pytest.raises(SaveFailed, match=r"readonly database .SQLITE_READONLY") as caught:
                call()
            assert str(path) in str(caught.value)
            assert isinstance(caught.value.__cause__, sqlite3.OperationalError)
        assert ledger.ran == []
        assert way.state(reading, on()).values == {"log": ["a"]}
        assert len(way.history(reading, on())) == 3
        assert way._do(saver, "prune", keep_last=1, dry_run=True).checkpoints == 2
        assert way._do(saver, "prune", keep_last=9).checkpoints == 0
        assert way._do(saver, "pin", on(), "pinned") == on(branch="pinned"), "it has that name"
        assert way._do(saver, "export_thread", "t", io.BytesIO()).checkpoints == 3
        assert way._do(saver, "verify", "t").ok
        assert [one.thread_id for one in way._do(saver, "list_threads")] == ["t"]
        assert len(way._do(saver, "list_runs", "t")) == 1
        assert way._do(saver, "list_interrupts").items == ()


def test_P4_room_that_cannot_be_given_back_is_told(tmp_path: Path, way: Way):
    with open_saver("sqlite", tmp_path) as writable:
        graph = chain(("a", Ledger(way).node("a", lambda: secrets.token_hex(20_000)))).compile(checkpointer=writable)
        for thread in ("deleted", "t"):
            way.invoke(graph, {"log": []}, on(thread))
        way.delete(writable, "deleted")
    path = tmp_path / "promises.db"
    with SqliteSaver(f"file:{path}?mode=ro") as saver:
        with pytest.raises(
            SaveFailed, match=r"threads were pruned, but the room .* could not be given back: .*readonly"
        ) as caught:
            way._do(saver, "prune", keep_last=9)
        assert str(path) in str(caught.value)
        assert isinstance(caught.value.__cause__, sqlite3.OperationalError)
    with open_saver("sqlite", tmp_path) as writable:
        assert way._do(writable, "prune", keep_last=9).reclaimed > 20_000


def test_P4_another_program_that_keeps_the_file_locked_is_named_as_the_cause(tmp_path: Path, way: Way):
    with open_saver("sqlite", tmp_path, busy_timeout=0.02) as saver:
        ledger = Ledger(way)
        other = sqlite3.connect(tmp_path / "promises.db", isolation_level=None, check_same_thread=False)
        locks = ledger.node("a", lambda: str(other.execute("BEGIN IMMEDIATE")))
        graph = chain(("a", locks), ("b", ledger.node("b"))).compile(checkpointer=saver)
        with pytest.raises(
            SaveFailed, match=r"database is locked .another process has had the lock of .*promises.db for 0.02 sec"
        ):
            way.invoke(graph, {"log": []}, on())
        assert way.state(graph, on()).values == {"log": []}, "it may be read"
        other.execute("ROLLBACK")
        again = chain(("a", ledger.node("a")), ("b", ledger.node("b"))).compile(checkpointer=saver)
        assert way.invoke(again, None, on()) == {"log": ["a", "b"]}
        other.close()
