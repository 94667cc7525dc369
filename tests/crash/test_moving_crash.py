"""Killed with SIGKILL while threads are exported, imported and copied: no half thread is seen, and calling it again completes it. (P29)"""

from __future__ import annotations

import io
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

import perdure
from perdure.checkpoint.sqlite import SqliteSaver
from perdure.checkpoint.transfer.raw import Contents
from perdure.failpoints import ENVIRONMENT_VARIABLE
from tests.formats import sqlite_story as story

ROOT = Path(__file__).parents[2]
STORED = ROOT / "tests" / "formats" / "sqlite" / "v1.db"

SCRIPT = """
import sys
from pathlib import Path
import perdure
from perdure.checkpoint.sqlite import SqliteSaver
from perdure.checkpoint.transfer import flow
flow.BUDGET = 400
folder, what = Path(sys.argv[1]), sys.argv[2]
source = SqliteSaver(folder / "source.db", synchronous="normal")
target = SqliteSaver(folder / "target.db", synchronous="normal")
target.delete_thread("none")
if what == "export":
    source.export_thread("finished", folder / "file")
elif what == "import":
    target.import_thread(folder / "given", "finished")
elif what == "copy":
    source.copy_thread("finished", "copy")
else:
    perdure.copy_all(source, target)
"""

STAGES = [
    "sqlite.arrive.before",
    "sqlite.arrive.after",
    "sqlite.stage.before:1",
    "sqlite.stage.after:1",
    "sqlite.stage.before:3",
]
STAGES += ["sqlite.stage.after:4", "sqlite.admit.before", "sqlite.admit.after"]
LATER = ["sqlite.arrive.after:3", "sqlite.stage.after:9", "sqlite.admit.before:2", "sqlite.admit.after:3"]
CASES = [
    *(("export", point) for point in ("transfer.export.begun", "transfer.export.written", "transfer.export.replaced")),
    *(("import", point) for point in STAGES),
    *(("copy", point) for point in STAGES),
    *(("all", point) for point in (*STAGES, *LATER)),
]


def run(folder: Path, what: str, failpoint: str = "") -> int:
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
        ENVIRONMENT_VARIABLE: failpoint,
    }
    return subprocess.run(
        [sys.executable, "-c", SCRIPT, str(folder), what], env=environment, check=False, timeout=50
    ).returncode


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    story.ran.clear()
    shutil.copy(STORED, tmp_path / "source.db")
    with SqliteSaver(tmp_path / "source.db") as saver:
        saver.export_thread("finished", tmp_path / "given")
    return tmp_path


def count_rows(path: Path) -> list[int]:
    connection = sqlite3.connect(path)
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    tables = ("thread", "lease", "checkpoint", "value", "write", "child", "branch", "namespace")
    counts = [connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in tables]
    connection.close()
    return counts


def seen(path: Path) -> dict[str, Contents]:
    """Every thread that somebody can see."""
    with SqliteSaver(path) as saver:
        threads = {found.config["configurable"]["thread_id"] for found in saver.list(None)}
        return {thread: saver.export_thread(thread, io.BytesIO()) for thread in sorted(threads)}


@pytest.mark.parametrize(("what", "failpoint"), CASES)
def test_P29_killed_anywhere_and_called_again(folder: Path, what: str, failpoint: str):
    assert run(folder, what, failpoint) == -signal.SIGKILL
    source = seen(folder / "source.db")
    target = seen(folder / "target.db") if what in ("import", "all") else {}
    assert set(source) <= {*story.THREADS, "copy"}
    assert {thread: source[thread] for thread in target} == target, "what is seen is whole"
    arrived = "finished" in target if what == "import" else "copy" in source if what == "copy" else False
    assert arrived == (failpoint == "sqlite.admit.after" and what in ("import", "copy"))
    if not arrived:
        assert run(folder, what) == 0
    if what == "export":
        assert (folder / "file").read_bytes() == (folder / "given").read_bytes()
        assert list(folder.glob("*.partial")) == []
    elif what == "copy":
        assert seen(folder / "source.db").keys() == {*story.THREADS, "copy"}
        with SqliteSaver(folder / "source.db") as saver:
            for thread in ("finished", "copy"):
                saver.delete_thread(thread)
        with SqliteSaver(folder / "target.db") as saver:
            perdure.copy_all(SqliteSaver(folder / "source.db"), saver)
        assert count_rows(folder / "source.db") == count_rows(folder / "target.db"), "nothing is left of the first try"
    elif what == "import":
        assert seen(folder / "target.db") == {"finished": source["finished"]}
        with SqliteSaver(folder / "target.db") as saver:
            saver.delete_thread("finished")
        assert count_rows(folder / "target.db") == [0] * 8, "nothing is left of the first try"
    else:
        assert seen(folder / "target.db") == source
        assert count_rows(folder / "target.db") == count_rows(folder / "source.db"), "nothing is left of the first try"
