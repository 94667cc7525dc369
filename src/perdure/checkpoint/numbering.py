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

    __slots__ = ("_clock", "_lock", "_namespaces", "_tips", "first_n", "newest", "next_n")

    def __init__(self, next_n: int, newest: int, clock: Clock) -> None:
        self.first_n = next_n
        self.next_n = next_n
        self.newest = newest
        self._clock = clock
        self._lock = threading.Lock()
        self._tips: dict[int, int] = {}
        self._namespaces: dict[str, int] = {}

    def take(self) -> int:
        """The next free number."""
        with self._lock:
            n = self.next_n
            self.next_n = n + 1
            return n

    def of_namespace(self, name: str, stored: int | None) -> int:
        """The number of a namespace, which several tasks may open at once: all of them get the same.

        Args:
            name: its name.
            stored: its number, if it was found stored.
        """
        with self._lock:
            known = self._namespaces.get(name, stored)
            if known is None:
                known = self._namespaces[name] = self.next_n
                self.next_n += 1
            return known

    def reserve(self, count: int) -> int:
        """The first of `count` numbers, one after the other. It is no harm if some of them are never used."""
        with self._lock:
            n = self.next_n
            self.next_n = n + count
            return n

    def follows(self, ns: int, n: int, parent: int | None) -> bool:
        """Note that checkpoint `n` is made of `parent`; whether that was the newest of the namespace, as far as this run knows."""
        with self._lock:
            known = self._tips.get(ns, parent)
            self._tips[ns] = n
            return known == parent

    def checkpoint(self, step: int) -> tuple[int, CheckpointId]:
        """The next free number and a public id later than every other of the thread (P24)."""
        with self._lock:
            n = self.next_n
            self.next_n = n + 1
            self.newest = ticks = next_ticks(self._clock.now_ns(), self.newest)
            return n, checkpoint_id(ticks, step)
