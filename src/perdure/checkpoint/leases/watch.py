"""What a saver has seen of the leases of others, and which of them may therefore be taken over.

The database says whether a lease has run out, by its own clock. This is for the rest, and needs no clock that two machines agree on: a
holder that is proved dead, and one that has not been heard of for as long as its leases last. What is found is the lease exactly as it
was seen; the commit that takes it over is refused if its holder has been heard of since.
"""

from __future__ import annotations

from typing import NamedTuple

from perdure.checkpoint.leases import identity
from perdure.checkpoint.leases.lease import is_free
from perdure.checkpoint.records import LeaseMark, LeaseRow
from perdure.clock import Clock

KEPT = 4096
"""How many threads are remembered. Of one that was forgotten, the watch begins again."""


class _Sight(NamedTuple):
    mark: LeaseMark
    since: float


class Watch:
    """Remembers since when a lease has stood unchanged, by the monotonic clock of whoever wants it.

    Args:
        clock: whose monotonic time counts.
        lease_seconds: how long a lease lasts whose holder did not say.

    Notes:
        May be called from any thread: each step is one operation on a dict, and what is lost in a race begins again.
    """

    def __init__(self, clock: Clock, lease_seconds: float) -> None:
        self._clock = clock
        self._lease_ns = int(lease_seconds * 1e9)
        self._seen: dict[str, _Sight] = {}
        self._left: dict[str, tuple[str, int]] = {}

    def over(self, thread: str, lease: LeaseRow) -> LeaseMark | None:
        """The lease as it stands, if it may be taken over although it has not run out; None if it may not, or need not be."""
        mark = lease.mark
        if mark is None or is_free(lease):
            self._seen.pop(thread, None)
            return None
        if self._left.get(thread) == (mark.token, mark.epoch) or identity.is_dead(lease):
            return mark
        now = self._clock.monotonic()
        seen = self._seen.get(thread)
        if seen is None or seen.mark != mark:
            if len(self._seen) >= KEPT:
                self._seen.clear()
            self._seen[thread] = _Sight(mark, now)
            return None
        lasts = (lease.holder.lease_ns if lease.holder is not None else 0) or self._lease_ns
        return mark if (now - seen.since) * 1e9 >= lasts else None

    def left_behind(self, thread: str, token: str, epoch: int) -> None:
        """Note that a run of this saver ended and could not give its lease back: nobody needs to wait for it."""
        if len(self._left) >= KEPT:
            self._left.clear()
        self._left[thread] = (token, epoch)
