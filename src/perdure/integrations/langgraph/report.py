"""What an import says that it did."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass(slots=True)
class ThreadReport:
    """What became of one thread.

    Attributes:
        thread: its id.
        brought: it is in the saver now.
        refused: why it is not; "" if it is.
        checkpoints: how many were brought, in all namespaces.
        namespaces: how many of subgraphs.
        results: how many results of tasks.
        pauses: how many questions that are open at its tip.
        next: the nodes that run next, "" for a task of a Send.
        notes: what is other than it was, or could not be brought, each with how often.
    """

    thread: str
    brought: bool = False
    refused: str = ""
    checkpoints: int = 0
    namespaces: int = 0
    results: int = 0
    pauses: int = 0
    next: tuple[str, ...] = ()
    notes: Counter[str] = field(default_factory=Counter)

    @property
    def is_whole(self) -> bool:
        """Whether it was brought, and nothing is to be said about it."""
        return self.brought and not self.notes

    def __str__(self) -> str:
        if not self.brought:
            return f"{self.thread}: not brought: {self.refused}"
        told = [f"{self.thread}: {self.checkpoints} checkpoints, {self.results} results, {self.pauses} open questions"]
        told += [f"  {note}" + (f" ({count} times)" if count > 1 else "") for note, count in self.notes.items()]
        return "\n".join(told)


@dataclass(slots=True)
class ImportReport:
    """What became of all threads; `print` it.

    Attributes:
        threads: each thread, in the order of their ids.
    """

    threads: list[ThreadReport] = field(default_factory=list)

    @property
    def brought(self) -> int:
        """How many threads are in the saver now that were not before."""
        return sum(thread.brought for thread in self.threads)

    @property
    def refused(self) -> dict[str, str]:
        """The threads that were not brought, each with the reason."""
        return {thread.thread: thread.refused for thread in self.threads if not thread.brought}

    def __str__(self) -> str:
        return "\n".join(map(str, self.threads)) or "there are no threads"
