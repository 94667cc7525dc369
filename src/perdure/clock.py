"""The clock as a port: flows ask it, tests replace it."""

from __future__ import annotations

import time
from datetime import datetime, timedelta, timezone
from typing import Protocol


class Clock(Protocol):
    """What the runtime asks about time."""

    def now_ns(self) -> int:
        """Wall time: ns since 1970-01-01 UTC. May step back."""
        ...

    def monotonic(self) -> float:
        """Seconds since an arbitrary point. Never steps back."""
        ...


class SystemClock:
    """The machine's own clock."""

    __slots__ = ()

    now_ns = staticmethod(time.time_ns)
    monotonic = staticmethod(time.monotonic)


SYSTEM_CLOCK = SystemClock()
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
MICROSECOND = timedelta(microseconds=1)


def time_of(unix_ns: int) -> datetime:
    """The moment in UTC, to the microsecond, of a Unix time in ns."""
    seconds, rest = divmod(unix_ns, 1_000_000_000)
    return datetime.fromtimestamp(seconds, timezone.utc).replace(microsecond=rest // 1000)


def ns_of(moment: datetime) -> int:
    """The Unix time in ns of a moment with a time zone; the inverse of `time_of`."""
    return (moment - EPOCH) // MICROSECOND * 1000


def iso_of(unix_ns: int) -> str:
    """ISO 8601 text, in UTC with microseconds, of a Unix time in ns."""
    return time_of(unix_ns).isoformat(timespec="microseconds")
