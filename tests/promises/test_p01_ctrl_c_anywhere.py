"""Ctrl-C between any two lines: a step is stored as a whole or not at all (P1), and the thread is free at once."""

from __future__ import annotations

import linecache
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from perdure import START, InMemorySaver, SqliteSaver, StateGraph
from tests.engine.colours import Log, thread

WHERE = (
    "engine/storing/session.py",
    "engine/storing/journal.py",
    "engine/running/lifetime.py",
    "engine/running/loop.py",
    "memory/records.py",
    "sqlite/committing.py",
)
UNSTOPPED = ("with ", "async with ", "try:", "finally:")
"""Lines that Python's own checks for signals do not stop at, although a tracer could."""


class CtrlC:
    """Raises KeyboardInterrupt before a line, counted from 1 over the lines of `WHERE`."""

    def __init__(self, at: int) -> None:
        self.left = at

    def __call__(self, frame: FrameType, event: str, _: Any) -> Any:
        """A tracer."""
        code = frame.f_code
        if not code.co_filename.endswith(WHERE):
            return None
        if event == "line" and not linecache.getline(code.co_filename, frame.f_lineno).strip().startswith(UNSTOPPED):
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt
        return self


def interrupted(graph: Any, every: int) -> Iterator[tuple[int, Any]]:
    """A thread for each, or every so many, of the lines at which a run can be interrupted."""
    at = 0
    while True:
        at += every
        ctrl_c = CtrlC(at)
        before = sys.gettrace()
        sys.settrace(ctrl_c)
        try:
            graph.invoke({"log": []}, thread(str(at)))
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(before)
        if ctrl_c.left > 0:
            return
        yield at, thread(str(at))


@pytest.mark.parametrize("backend", ["memory", "file"])
@pytest.mark.skipif(sys.gettrace() is not None, reason="something else traces")
def test_P1_ctrl_c_between_any_two_lines(backend: str, tmp_path: Path) -> None:
    saver: Any = InMemorySaver() if backend == "memory" else SqliteSaver(tmp_path / "threads.db", synchronous="normal")
    ran: list[str] = []
    drawing = StateGraph(Log)
    for name in "ab":
        drawing.add_node(name, lambda _, name=name: ran.append(name) or {"log": [name]})
    graph = drawing.add_edge(START, "a").add_edge("a", "b").compile(saver)
    for at, config in interrupted(graph, 1 if backend == "memory" else 5):
        state = graph.get_state(config)
        if state.created_at is None:
            graph.invoke({"log": []}, config)
        elif state.next:
            graph.invoke(None, config)
        assert graph.get_state(config).values == {"log": ["a", "b"]}, at
        history = [each.metadata["step"] for each in graph.get_state_history(config)]
        assert history == [2, 1, 0, -1], at
        assert len(ran) <= 3, at
        ran.clear()
    assert at > 100
    saver.close()
