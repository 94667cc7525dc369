"""What is gone with a run and its saver: threads, files, and whatever was abandoned."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from perdure import START, InMemorySaver, SqliteSaver, StateGraph
from tests.engine.colours import Colour, Log, thread


def eventually(holds: Callable[[], bool], seconds: float = 5.0) -> bool:
    """Whether it holds, now or soon."""
    end = time.monotonic() + seconds
    while not holds() and time.monotonic() < end:
        time.sleep(0.01)
    return holds()


def named(name: str) -> set[threading.Thread]:
    """The threads of that name that run."""
    return {each for each in threading.enumerate() if each.name == name}


@pytest.mark.parametrize("backend", ["memory", "file"])
def test_the_thread_that_renews_leases_ends_with_a_saver_that_nobody_closed(
    backend: str, colour: Colour, tmp_path: Path
) -> None:
    before = named("perdure-leases")
    saver: Any = InMemorySaver() if backend == "memory" else SqliteSaver(tmp_path / "threads.db")
    colour.invoke(StateGraph(Log).add_node("a", colour.says("a")).add_edge(START, "a").compile(saver), {"log": []}, thread())
    assert len(named("perdure-leases") - before) == 1
    del saver
    gc.collect()
    assert eventually(lambda: not named("perdure-leases") - before)
