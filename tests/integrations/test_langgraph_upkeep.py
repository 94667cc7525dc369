"""Threads of LangGraph are threads like any other once they are here: pruned, verified, copied, exported, and gone on with (P28, P29, P42)."""

from __future__ import annotations

import io
import shutil
from pathlib import Path
from typing import Any

import pytest

from perdure.checkpoint.saver import Saver
from perdure.types import Command
from tests.integrations import langgraph_shapes as shapes
from tests.integrations.langgraph_stored import SQLITE, THREADS, brought, history, plain
from tests.promises.conftest import saver, way
from tests.promises.ways import Way, on

__all__ = ["saver", "way"]


def ended(way: Way, thread: str, name: str, saver: Saver) -> list[Any]:
    """Where a thread comes to when all its questions are answered, and all that is left of it."""
    graph = shapes.compiled(thread, saver)
    told: list[Any] = []
    for _ in range(4):
        state = way.state(graph, on(name))
        told.append((plain(state.values), sorted(state.next), sorted(str(one.value) for one in state.interrupts)))
        if not state.next:
            break
        answers = {one.id: f"to {one.value}" for one in state.interrupts}
        try:
            told.append(plain(way.invoke(graph, Command(resume=answers) if answers else None, on(name))))
        except Exception as error:
            told.append(type(error).__name__)
    return told


@pytest.mark.parametrize("thread", [thread for thread in THREADS if thread != "odd"])
def test_P28_P29_P42_a_thread_of_langgraph_is_pruned_moved_and_gone_on_with(
    thread: str, saver: Saver, way: Way, tmp_path: Path
):
    brought(way, shutil.copy(SQLITE, tmp_path / "threads.sqlite"), saver)
    assert saver.verify(thread).problems == ()
    before = history(thread, saver, way)
    way._do(saver, "copy_thread", thread, "pruned")
    counted = way._do(saver, "prune", keep_last=1, thread="pruned", dry_run=True)
    pruned = way._do(saver, "prune", keep_last=1, thread="pruned", batch=1)
    assert (pruned.checkpoints, pruned.bytes, pruned.damaged) == (counted.checkpoints, counted.bytes, ())
    found = saver.verify("pruned")
    assert (found.problems, found.orphans) == ((), ())
    file = io.BytesIO()
    way._do(saver, "export_thread", "pruned", file)
    file.seek(0)
    way._do(saver, "import_thread", file, "moved")
    if thread != "workflow":
        left = {one["id"]: one | {"parent": None} for one in before}
        graph_of = shapes.compiled(thread, saver)
        assert way.state(graph_of, on("moved")).config["configurable"]["checkpoint_id"] == before[0]["id"]
        assert {one.config["configurable"]["checkpoint_id"] for one in way.history(graph_of, on("moved"))} <= {*left}
    assert ended(way, thread, "moved", saver) == ended(way, thread, thread, saver)
    for name in (thread, "moved"):
        assert saver.verify(name).problems == ()
