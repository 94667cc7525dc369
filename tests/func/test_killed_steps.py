"""P2 and P17: killed with SIGKILL after each stored step and resumed by a new process, no stored step runs again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
DONE = ["yes", "step1", "step10", "step11", "outer20"]
STEPS = {"step1", "step10", "step11", "outer20", "step20", "step21"}
AFTER, BEFORE = "engine.step.stored", "sqlite.commit.before"
KILLS = [
    (AFTER, "sync", "sync"),
    (AFTER, "async", "sync"),
    (AFTER, "sync", "async"),
    (AFTER, "async", "async"),
    (BEFORE, "sync", "sync"),
    (BEFORE, "async", "async"),
]


class Mortal:
    """The process that forks those that are killed and those that resume."""

    def __init__(self) -> None:
        environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.func.mortal"],
            env=environment,
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, folder: Path, mode: tuple[str, str], failpoint: str = "") -> int:
        """Begin or go on in a new process; its exit code."""
        folder.mkdir(exist_ok=True)
        order = {"folder": str(folder), "colour": mode[0], "durability": mode[1], "failpoint": failpoint}
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        code: int = json.loads(self._process.stdout.readline())
        return code

    def close(self) -> None:
        self._process.communicate(timeout=20)


@pytest.fixture(scope="module")
def mortal() -> Iterator[Mortal]:
    made = Mortal()
    yield made
    made.close()


@pytest.mark.parametrize(("failpoint", "colour", "durability"), KILLS)
def test_P2_P17_killed_after_and_before_each_step_is_stored(
    failpoint: str, colour: str, durability: str, mortal: Mortal, tmp_path: Path
) -> None:
    mode = (colour, durability)
    for kill in range(1, 20):
        folder = tmp_path / str(kill)
        code = mortal.run(folder, mode, f"{failpoint}:{kill}")
        if code == 0:
            break
        assert code == -signal.SIGKILL
        assert mortal.run(folder, mode) == 0
        told: dict[str, Any] = json.loads((folder / "told.json").read_text())
        assert told["out"] == DONE
        times = Counter(told["ran"])
        again = {label for label, count in times.items() if count > 1}
        assert set(times) == STEPS
        assert max(times.values()) <= 2
        assert again.isdisjoint(told["stored"]), f"stored, and run again: {again.intersection(told['stored'])}"
        assert again <= set(told["before"]) - set(told["stored"])
        assert told["orphans"] == []
    assert kill == (7 if failpoint == AFTER else 11)
