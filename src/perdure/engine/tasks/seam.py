"""The one seam around a task: where other packages (callbacks, tracers) attach to a run, without the engine knowing them.

A seam is entered in the task's own context before its code runs, for each attempt, and left afterwards. On the way in it may change
`task.config`; while the code runs it may send events through the task. The room that meets a package makes its seam; it is asked only
in programs that have imported that package, and then once for each run.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from perdure.engine.running.run import Run
    from perdure.engine.tasks.task import Task

ROOMS: Final = {"langchain_core.runnables.config": "perdure.integrations.langchain"}
"""Modules without which a package does nothing that concerns a run, and the rooms that meet it: each has a function `seam_for(run)`."""


class Seam(Protocol):
    """What surrounds the tasks of a run."""

    def around(self, task: Task) -> AbstractContextManager[None]:
        """Entered before an attempt at a task, left after it."""
        ...


def seam_of(run: Run) -> Seam | None:
    """What surrounds the tasks of this run; None if nothing does."""
    seams = [import_module(room).seam_for(run) for module, room in ROOMS.items() if module in sys.modules]
    found: list[Seam] = [seam for seam in seams if seam is not None]
    return found[0] if len(found) == 1 else _Several(found) if found else None


class _Several:
    """Several seams as one: the first is outermost."""

    __slots__ = ("_seams",)

    def __init__(self, seams: list[Seam]) -> None:
        self._seams = seams

    @contextmanager
    def around(self, task: Task) -> Iterator[None]:
        with ExitStack() as stack:
            for seam in self._seams:
                stack.enter_context(seam.around(task))
            yield
