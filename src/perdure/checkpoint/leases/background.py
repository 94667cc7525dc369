"""Renews the leases of runs whose nodes take longer than a lease lasts: one thread for each saver, one call for all leases."""

from __future__ import annotations

import os
import queue
import threading
import weakref

from perdure.bridge import run_blocking
from perdure.checkpoint.records import RecordStore

Wake = queue.SimpleQueue[None]


class Renewer:
    """Keeps the leases it is told of from running out.

    Notes:
        The thread starts with a lease and ends when there has been none for a while, and at once when the saver is closed or nobody
        has it any more; it never keeps a process alive. Commits renew by themselves; this is for the time between them. It goes
        through the saver's own connection and lock, so a renewal never waits behind its own saver's writes at the database. After
        a fork the child starts with no leases, for they are its parent's.
    """

    def __init__(self, records: RecordStore, lease_seconds: float) -> None:
        self._records = records
        self._lease_ns = int(lease_seconds * 1e9)
        self._interval = lease_seconds / 3
        self._held: dict[tuple[str, str], int] = {}
        self._lock = threading.Lock()
        self._wake: Wake | None = None
        self._closed = False
        self._pid = os.getpid()

    def keep(self, thread: str, token: str, epoch: int, held: bool) -> None:
        """Begin, or stop, to renew a lease."""
        if self._pid != os.getpid():
            self._pid = os.getpid()
            self._held = {}
            self._lock = threading.Lock()
            self._wake = None
        if not held:
            self._held.pop((thread, token), None)
            return
        with self._lock:
            self._held[thread, token] = epoch
            if self._wake is None and not self._closed:
                self._wake = self._start()

    def _start(self) -> Wake:
        # A queue, because what wakes may be the collection of garbage, in the midst of anything: putting into it is safe there.
        wake: Wake = queue.SimpleQueue()
        me = weakref.ref(self, lambda _: wake.put(None))
        threading.Thread(target=_renew_until_idle, args=(me, wake, self._interval), name="perdure-leases", daemon=True).start()
        return wake

    def renew(self) -> bool:
        """Renew all leases now; False if there are none. A database that does not answer is asked again the next time."""
        leases = [(thread, token, epoch) for (thread, token), epoch in self._held.copy().items()]
        if not leases:
            return False
        try:
            run_blocking(self._records.renew(leases, self._lease_ns))
        except Exception:  # noqa: BLE001 - the run's own next commit meets the same fault and reports it with its context
            pass
        return True

    def rest(self) -> bool:
        """Let the thread end if there are no leases; False if one has come."""
        with self._lock:
            if self._held and not self._closed:
                return False
            self._wake = None
            return True

    def close(self) -> None:
        """Let the thread end."""
        self._closed = True
        wake = self._wake
        if wake is not None:
            wake.put(None)


def _renew_until_idle(renewer: weakref.ref[Renewer], wake: Wake, interval: float) -> None:
    while True:
        try:
            wake.get(timeout=interval)
            return  # closed, or gone
        except queue.Empty:
            pass
        alive = renewer()
        if alive is None or (not alive.renew() and alive.rest()):
            return
        del alive
