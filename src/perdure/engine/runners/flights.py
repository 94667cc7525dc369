"""Subgraphs that a task's code has called and that are under way: the task ends only when they have ended or paused."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from concurrent.futures import Future

    from perdure.engine.tasks.task import Task


class Flight:
    """One call of a subgraph. It is under way but for the times when its listener has an event in its hands, and may never return."""

    __slots__ = ("_future", "_task")

    def __init__(self, task: Task) -> None:
        self._task = task
        self._future: Future[None] | None = None
        self.go_on()

    def go_on(self) -> None:
        """The run goes on."""
        from concurrent.futures import Future

        self._future = Future()
        self._task.flights.append(self._future)

    def rest(self) -> None:
        """The run has ended, or waits until its listener wants more."""
        future, self._future = self._future, None
        if future is not None:
            self._task.flights.remove(future)
            future.set_result(None)
