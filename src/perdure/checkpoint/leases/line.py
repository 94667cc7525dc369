"""Who of this process waits for which thread, and whose turn it is: first come, first served.

Only the first of a line looks at the database, so that a long line costs no more than a short one. Between processes nobody keeps an
order; their firsts look equally often, so that none is passed over for long.
"""

from __future__ import annotations

import os
from types import TracebackType
from typing import Self

FIRST_WAIT = 0.005
LONGEST_WAIT = 0.25
"""Seconds between two looks at a busy thread. A database can only be asked."""

PART = 8
"""One looks again after this part of the time for which nothing has moved, so that waiting adds an eighth at most, and a new holder is
noticed quickly."""

PATIENCE = 1.0
"""Seconds after which one that did not look, because its event loop stands still, loses its turn until it does."""


class Line:
    """The lines of a saver.

    Notes:
        May be used from any thread: each step is one operation on a dict. After a fork the child's lines are empty.
    """

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._places: dict[str, dict[Place, None]] = {}

    def join(self, thread: str, now: float) -> Place:
        """Stand at the end of a thread's line. Used with `with`, which leaves it."""
        if self._pid != os.getpid():
            self._pid = os.getpid()
            self._places = {}
        place = Place(self, thread, now)
        self._places.setdefault(thread, {})[place] = None
        return place

    def waiting(self, thread: str) -> list[Place]:
        """Who waits for a thread, first come first."""
        return list(self._places.get(thread, ()))

    def leave(self, place: Place) -> None:
        """Stand in line no longer."""
        line = self._places.get(place.thread)
        if line is not None:
            line.pop(place, None)
            if not line:
                self._places.pop(place.thread, None)


class Place:
    """A place in a line.

    Attributes:
        thread: the thread waited for.
    """

    __slots__ = ("_first", "_line", "_looked", "_moved", "_seen", "thread")

    def __init__(self, line: Line, thread: str, now: float) -> None:
        self.thread = thread
        self._line = line
        self._looked = now
        self._moved = now
        self._seen: object = None
        self._first = self

    def is_next(self, now: float) -> bool:
        """It is this one's turn: everybody who came before has left, or stands still."""
        self._looked = now
        first = next((one for one in self._line.waiting(self.thread) if one is self or now - one._looked < PATIENCE), self)
        if first is not self._first:
            self._first = first
            self._moved = now
        return first is self

    def pause(self, seen: object, now: float) -> float:
        """How long to wait before looking again.

        Args:
            seen: who holds the thread, as far as it was looked.
            now: the time.
        """
        if seen is not None and seen != self._seen:
            self._seen = seen
            self._moved = now
        return min(LONGEST_WAIT, max(FIRST_WAIT, (now - self._moved) / PART))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self._line.leave(self)
