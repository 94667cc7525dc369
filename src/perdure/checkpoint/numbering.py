"""Hands out a thread's numbers and checkpoint ids to whoever runs in it, several branches at once included."""

from __future__ import annotations

import threading

from perdure.clock import Clock
from perdure.ids import CheckpointId, checkpoint_id, next_ticks


class Numbers:
    """The sequence of one thread, while its lease is held.

    Notes:
        Safe to share between threads: one lock is held for each call, and nothing else is done under it.
    """

    __slots__ = ("_clock", "_lock", "first_n", "newest", "next_n")

    def __init__(self, next_n: int, newest: int, clock: Clock) -> None:
        self.first_n = next_n
        self.next_n = next_n
        self.newest = newest
        self._clock = clock
        self._lock = threading.Lock()

    def take(self) -> int:
        """The next free number."""
        with self._lock:
            n = self.next_n
            self.next_n = n + 1
            return n

    def checkpoint(self, step: int) -> tuple[int, CheckpointId]:
        """The next free number and a public id later than every other of the thread (P24)."""
        with self._lock:
            n = self.next_n
            self.next_n = n + 1
            self.newest = ticks = next_ticks(self._clock.now_ns(), self.newest)
            return n, checkpoint_id(ticks, step)
