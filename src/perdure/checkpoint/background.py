"""Renews the leases of runs whose nodes take longer than a lease lasts: one thread for each saver, one call for all leases."""

from __future__ import annotations

import os
import threading
import weakref

from perdure.bridge import run_blocking
from perdure.checkpoint.records import RecordStore
from perdure.clock import Clock


class Renewer:
    """Keeps the leases it is told of from running out.

    Notes:
        The thread starts with the first lease and ends with the saver. Commits renew by themselves; this is for the time between
        them. It goes through the saver's own connection and lock, so a renewal never waits behind its own saver's writes at the
        database. After a fork the child starts with no leases, for they are its parent's.
    """

    def __init__(self, records: RecordStore, clock: Clock, lease_seconds: float) -> None:
        self._records = records
        self._clock = clock
        self._lease_seconds = lease_seconds
        self._held: dict[tuple[str, str], int] = {}
        self._wake = threading.Event()
        self._pid = 0

    def keep(self, thread: str, token: str, epoch: int, held: bool) -> None:
        """Begin, or stop, to renew a lease."""
        if self._pid != os.getpid():
            self._pid = os.getpid()
            self._held = {}
            self._wake = threading.Event()
            threading.Thread(
                target=_renew_until_gone,
                args=(weakref.ref(self), self._wake, self._lease_seconds / 3),
                name="perdure-leases",
                daemon=True,
            ).start()
        if held:
            self._held[thread, token] = epoch
        else:
            self._held.pop((thread, token), None)

    def renew(self) -> None:
        """Renew all leases now. A database that does not answer is asked again the next time."""
        leases = [(thread, token, epoch) for (thread, token), epoch in self._held.copy().items()]
        if not leases:
            return
        expires = self._clock.now_ns() + int(self._lease_seconds * 1e9)
        try:
            run_blocking(self._records.renew(leases, expires))
        except Exception:  # noqa: BLE001 - the run's own next commit meets the same fault and reports it with its context
            return

    def close(self) -> None:
        """Let the thread end."""
        self._wake.set()


def _renew_until_gone(renewer: weakref.ref[Renewer], wake: threading.Event, interval: float) -> None:
    while not wake.wait(interval):
        alive = renewer()
        if alive is None:
            return
        alive.renew()
        del alive
