"""A clock that moves when it is told to."""

from __future__ import annotations


class ManualClock:
    """Time for tests: pass it as `clock=` to a saver of this library.

    Args:
        now_ns: wall time at the start, in ns since 1970.
    """

    __slots__ = ("ns", "seconds")

    def __init__(self, now_ns: int = 1_700_000_000_000_000_000) -> None:
        self.ns = now_ns
        self.seconds = 0.0

    def now_ns(self) -> int:
        """Wall time."""
        return self.ns

    def monotonic(self) -> float:
        """Seconds since the clock was made."""
        return self.seconds

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.ns += int(seconds * 1e9)
        self.seconds += seconds

    def step_back(self, seconds: float) -> None:
        """Set the wall clock back, as time servers and people do; monotonic time stays."""
        self.ns -= int(seconds * 1e9)
