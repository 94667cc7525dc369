"""What a task makes when it is first asked for it."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from perdure.engine.tasks.task import Task

TOGETHER = 2


@pytest.mark.parametrize("name", ["steps", "flights", "remembered", "keep_alive", "questions"])
def test_P2_threads_that_ask_at_once_get_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a step or a subgraph that one of them starts is in a list that nobody waits for."""
    made = vars(Task)[name]
    make, all_make = made._make, threading.Barrier(TOGETHER, timeout=5)

    def at_once(of: Task) -> Any:
        all_make.wait()
        return make(of)

    monkeypatch.setattr(made, "_make", at_once)
    nothing: Any = None
    task = Task(nothing, nothing, "a", 1)
    with ThreadPoolExecutor(TOGETHER) as pool:
        first, second = pool.map(lambda _: getattr(task, name), range(TOGETHER))
    assert first is second is getattr(task, name)
