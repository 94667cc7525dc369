"""The outside witness: a file that gets one line for every page that is digested, by whichever process.

Perdure's own records cannot prove that nothing ran twice, since they are what is on trial.
"""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Ledger"]


@dataclass(frozen=True)
class Ledger:
    """An append-only text file with lines of `page pid`."""

    path: Path

    def add(self, page: int) -> None:
        """Record that this process digests a page now."""
        # One write of one short line to a file opened for appending: no other process can come between.
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(descriptor, f"{page} {os.getpid()}\n".encode())
        finally:
            os.close(descriptor)

    def entries(self) -> list[tuple[int, int]]:
        """All (page, pid), oldest first."""
        if not self.path.exists():
            return []
        lines = self.path.read_text(encoding="ascii").splitlines()
        return [(int(page), int(pid)) for page, pid in (line.split() for line in lines)]

    def pages_of(self, pid: int) -> list[int]:
        """The pages that one process digested, in its order."""
        return [page for page, by in self.entries() if by == pid]

    def repeats(self) -> dict[int, int]:
        """The pages that were digested more than once, and how often."""
        return {page: times for page, times in Counter(page for page, _ in self.entries()).items() if times > 1}
