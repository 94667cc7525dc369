"""How far nodes that send events may run ahead of whoever listens.

Events of the modes `custom` and `messages`, and those of subgraphs, are sent while a node runs. A node that sends faster than they are
taken is held once `MOST_WAITING` of them wait: a thread blocks in the very call that sent one too many, a coroutine is not resumed from
its next `await`. Code that runs on an event loop is never blocked, for that may be the loop that the listener needs.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable

MOST_WAITING = 1000
"""Events of one run that may wait for whoever listens, before the nodes that send them are held."""


class Pace:
    """How many events wait, and who is held until fewer do."""

    __slots__ = ("_going", "_lock", "_waiting", "_wakes")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting = 0
        self._going = False
        self._wakes: list[Callable[[], object]] = []

    def start(self) -> None:
        """Somebody takes events from now on."""
        self._going = True

    def stop(self) -> None:
        """Nobody takes events any more: hold nobody."""
        with self._lock:
            self._going = False
            wakes, self._wakes = self._wakes, []
        for wake in wakes:
            wake()

    def sent(self) -> None:
        """An event waits."""
        with self._lock:
            self._waiting += 1

    def taken(self, number: int) -> None:
        """So many events wait no more."""
        if not number:
            return
        with self._lock:
            self._waiting -= number
            if self._waiting >= MOST_WAITING or not self._wakes:
                return
            wakes, self._wakes = self._wakes, []
        for wake in wakes:
            wake()

    @property
    def is_behind(self) -> bool:
        """Too many events wait."""
        return self._going and self._waiting >= MOST_WAITING

    def when_room(self, wake: Callable[[], object]) -> bool:
        """Have `wake` called once, from any thread, when there is room; False, and nothing else, if there is."""
        with self._lock:
            if not self.is_behind:
                return False
            self._wakes.append(wake)
            return True

    def hold(self) -> None:
        """Block this thread until there is room, if it may be blocked."""
        if not self.is_behind or _on_loop():
            return
        room = threading.Event()
        while self.when_room(room.set):
            room.wait()
            room.clear()


def _on_loop() -> bool:
    """Whether this code runs on an event loop."""
    asyncio = sys.modules.get("asyncio")
    if asyncio is None:
        return False
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
