"""Killed with SIGKILL at every commit of a prune: nothing is lost, and the next one takes away what was left. (P28)"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from perdure.checkpoint.saver import Saver
from perdure.checkpoint.sqlite import SqliteSaver
from perdure.graph import START, StateGraph
from tests.promises.retaining import chat, turns
from tests.promises.ways import Log, Way, on, rows_of

ROOT = Path(__file__).parents[2]
WAY = Way("sync")


def graph_over(saver: Saver) -> Any:
    """A conversation in a subgraph."""
    inner = chat(WAY, True)  # type: ignore[arg-type]
    builder: StateGraph[Any, Any, Any, Any] = StateGraph(Log)
    return builder.add_node("sub", inner).add_edge(START, "sub").compile(checkpointer=saver)


def look(path: Path) -> tuple[list[Any], dict[str, Any]]:
    """The history and the rows."""
    with SqliteSaver(path, synchronous="normal") as saver:
        history = [(one.config, one.values, one.next, one.tasks) for one in graph_over(saver).get_state_history(on())]
        rows = rows_of(saver)
        rows.pop("thread")
        return history, rows


@pytest.mark.parametrize("moment", ["sqlite.commit.begin", "sqlite.commit.before", "sqlite.commit.after"])
def test_P28_killed_at_any_commit_of_a_prune_nothing_is_lost_and_a_rerun_completes(moment: str, tmp_path: Path):
    template = tmp_path / "template.db"
    with SqliteSaver(template, synchronous="normal") as saver:
        graph = graph_over(saver)
        turns(WAY, graph, 6)
        saver.pin([*graph.get_state_history(on())][7].config, "old")
    before, _ = look(template)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    command = [sys.executable, "-m", "tests.crash.pruners", str(template)]
    pruners = subprocess.Popen(command, env=environment, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def prune(copy: Path, failpoint: str) -> int:
        assert pruners.stdin is not None
        assert pruners.stdout is not None
        pruners.stdin.write(json.dumps([str(copy), failpoint]) + "\n")
        pruners.stdin.flush()
        code: int = json.loads(pruners.stdout.readline())
        return code

    try:
        whole = tmp_path / "whole.db"
        assert prune(whole, "") == 0
        expected = look(whole)
        assert len(expected[0]) == 3
        for kill in range(1, 100):
            copy = tmp_path / f"{kill}.db"
            code = prune(copy, f"{moment}:{kill}")
            if code == 0:
                break
            assert code == -signal.SIGKILL
            with SqliteSaver(copy, synchronous="normal") as saver:
                assert saver.verify("t").problems == ()
            history, _ = look(copy)
            assert [one for one in before if one in history] == history, "what is still there reads as it was"
            with SqliteSaver(copy, synchronous="normal") as saver:
                saver.prune(keep_last=2)
                found = saver.verify("t")
                assert (found.problems, found.orphans) == ((), ())
            assert look(copy) == expected
        assert kill > 5, "it takes several commits"
    finally:
        pruners.communicate(timeout=20)
