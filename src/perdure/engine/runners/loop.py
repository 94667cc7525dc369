"""The event loop of a sync run's async nodes. Imported only when such a node runs."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any

from perdure.engine.runners.blocking import CANCEL_GRACE
from perdure.engine.runners.suspending import settle_on

if TYPE_CHECKING:
    from perdure.engine.runners.workers import Waiting
    from perdure.engine.tasks.task import Task
    from perdure.types import TimeoutPolicy


class LoopThread:
    """An event loop on a thread of its own: for async nodes of a sync run."""

    __slots__ = ("_ending", "_loop", "_thread")

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._ending = False
        self._thread = threading.Thread(target=self._run, name="perdure-loop", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._ending:
            try:
                self._loop.run_forever()
            except BaseException:  # noqa: BLE001 - a task's SystemExit: it is in the task; whoever else is on the loop goes on
                continue

    def run(self, awaitable: Awaitable[Any], task: Task, timeout: TimeoutPolicy | None, waiting: Waiting) -> Any:
        """Block until the awaitable has its result; it runs in a copy of the caller's context."""
        return settle_on(self._loop, awaitable, task, timeout, waiting)

    def close(self) -> None:
        """Cancel what still runs and end the loop."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._end)
            self._thread.join(CANCEL_GRACE)
            if not self._thread.is_alive():
                self._loop.close()

    def _end(self) -> None:
        self._ending = True
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        closing = self._loop.create_task(self._loop.shutdown_asyncgens())
        closing.add_done_callback(lambda _: self._loop.stop())
