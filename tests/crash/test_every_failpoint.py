"""Killed with SIGKILL at every failpoint, each time it is reached, and resumed at once by a new process. (P1, P2, P3, P6, P9)

No task whose result was stored runs again; at most the tasks that ran at the instant of death do; the end is that of a run that
was never killed, history included.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.crash.stories import STORIES

ROOT = Path(__file__).parents[2]
FAILPOINTS = sorted(
    {
        name
        for path in (ROOT / "src").rglob("*.py")
        for name in re.findall(r'^ +failpoint\("([^"]+)"\)$', path.read_text(), re.MULTILINE)
    }
)
ELSEWHERE = {
    "memory.commit.before": "nothing of a process's memory survives it",
    "sqlite.delete.before": "test_sqlite_crash: no run deletes",
    "sqlite.delete.after": "test_sqlite_crash: no run deletes",
    "sqlite.cache.before": "test_cache_crash: no run of a story has a cache",
    "sqlite.cache.after": "test_cache_crash: no run of a story has a cache",
    **dict.fromkeys(
        [
            "sqlite.arrive.before",
            "sqlite.arrive.after",
            "sqlite.stage.before",
            "sqlite.stage.after",
            "sqlite.admit.before",
            "sqlite.admit.after",
            "transfer.export.begun",
            "transfer.export.written",
            "transfer.export.replaced",
        ],
        "test_moving_crash: no run moves threads",
    ),
}
ALWAYS = {
    "engine.commit.before",
    "engine.commit.after",
    "sqlite.commit.begin",
    "sqlite.commit.before",
    "sqlite.commit.after",
}
MIGRATING = {"sqlite.migrate.before", "sqlite.migrate.after"}
MODES = [("sync", "sync"), ("async", "sync"), ("sync", "async"), ("async", "async"), ("sync", "exit")]


class Nursery:
    """The process that forks those that are killed and those that resume."""

    def __init__(self) -> None:
        environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
        command = [sys.executable, "-m", "tests.crash.nursery"]
        self._process = subprocess.Popen(
            command, env=environment, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def run(self, story: str, mode: tuple[str, str], folder: Path, failpoint: str = "") -> int:
        """Run or resume the story in a new process; its exit code."""
        folder.mkdir(exist_ok=True)
        colour, durability = mode
        order = {
            "story": story,
            "colour": colour,
            "durability": durability,
            "folder": str(folder),
            "failpoint": failpoint,
            "template": story != "loop",
        }
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        code: int = json.loads(self._process.stdout.readline())
        return code

    def close(self) -> None:
        """Let the process end."""
        self._process.communicate(timeout=20)


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    made = Nursery()
    yield made
    made.close()


def told(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "told.json").read_text())
    return found


def check(story: str, mode: tuple[str, str], found: dict[str, Any], expected: dict[str, Any]) -> None:
    """The resumed run against what was stored when the first one died, and against one that was never killed."""
    times = Counter(found["ran"])
    again = {label for label, count in times.items() if count > 1}
    assert again.isdisjoint(found["stored"]), f"stored, and run again: {again.intersection(found['stored'])}"
    assert max(times.values()) <= 2
    assert set(times) == set(expected["ran"])
    assert again <= set(found["ledger"]) - set(found["stored"])
    most = STORIES[story][1]
    if mode[1] != "exit":
        # Under "async" a step may run while the one before it is being saved.
        assert len(again) <= most + (most if mode[1] == "async" else 0)
        assert found["history"] == expected["history"], "a resume leaves no trace in history"
    assert found["state"] == expected["state"]
    assert found["orphans"] == []


# Closed early, a run under "exit" has saved nothing, each time anew.
CASES = [
    (story, mode)
    for story in STORIES
    for mode in MODES
    if not (story == "closed" and (mode[0] == "async" or mode[1] == "exit"))
]


@pytest.mark.parametrize(("story", "mode"), CASES, ids=[f"{story}, {mode[0]}, durability {mode[1]}" for story, mode in CASES])
def test_P2_killed_at_every_failpoint_and_resumed_at_once(story: str, mode: tuple[str, str], nursery: Nursery, tmp_path: Path):
    assert nursery.run(story, mode, tmp_path / "whole") == 0
    expected = told(tmp_path / "whole")
    assert max(Counter(expected["ran"]).values()) == 1
    reached: set[str] = set()
    for name in set(FAILPOINTS).difference(ELSEWHERE, () if story == "loop" else MIGRATING):
        for kill in range(1, 100):
            folder = tmp_path / f"{name}-{kill}"
            code = nursery.run(story, mode, folder, f"{name}:{kill}")
            if code == 0:
                break  # it is not reached so often
            assert code == -signal.SIGKILL
            reached.add(name)
            assert nursery.run(story, mode, folder) == 0, f"resuming after {name}:{kill}"
            check(story, mode, told(folder), expected)
    wanted = set(ALWAYS)
    if story == "loop":
        wanted |= MIGRATING
    if story in ("abreast", "fan_out") and mode[1] != "exit":
        wanted.add("engine.results.stored")
    if story == "steps" and mode[1] != "exit":
        wanted.add("engine.step.stored")
    if story == "closed":
        wanted.add("sqlite.release.before")
    assert reached >= wanted


def test_every_failpoint_is_known_here():
    assert set(FAILPOINTS) == ALWAYS | MIGRATING | set(ELSEWHERE) | {
        "engine.results.stored",
        "engine.step.stored",
        "sqlite.release.before",
    }


def test_the_environment_variable_kills_as_the_nursery_does(tmp_path: Path):
    script = """
import sys
from pathlib import Path
from tests.crash.stories import finish
from tests.promises.ways import Way, open_saver
folder = Path(sys.argv[1])
finish("loop", open_saver("sqlite", folder), folder / "ledger", Way("sync"), "sync")
"""
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
        "PERDURE_FAILPOINT": "engine.commit.after:2",
    }
    died = subprocess.run([sys.executable, "-c", script, str(tmp_path)], env=environment, check=False)
    assert died.returncode == -signal.SIGKILL
    assert (tmp_path / "ledger").read_text() == "step0\n"
    environment["PERDURE_FAILPOINT"] = ""
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], env=environment, check=True)
    assert (tmp_path / "ledger").read_text().split() == ["step0", "step1", "step2"]
