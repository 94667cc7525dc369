"""One thread in dictionaries: all its rows."""

from __future__ import annotations

from perdure.checkpoint.index.records import RUNS_KEPT, RunRow
from perdure.checkpoint.records import ROOT_NS, CheckpointRow, ChildRow, Commit, Packed, ThreadRow, WriteRow
from perdure.errors import SaveFailed


class MemoryThread:
    """All rows of one thread."""

    __slots__ = ("branches", "by_id", "checkpoints", "children", "names", "numbers", "order", "row", "runs", "values", "writes")

    def __init__(self, row: ThreadRow) -> None:
        self.row = row
        self.checkpoints: dict[int, CheckpointRow] = {}
        self.order: dict[int, list[int]] = {}
        self.by_id: dict[str, int] = {}
        self.values: dict[int, Packed] = {}
        self.writes: dict[int, dict[tuple[int, str, int], WriteRow]] = {}
        self.children: dict[int, dict[tuple[int, str, int], ChildRow]] = {}
        self.branches: dict[str, int] = {}
        self.runs: dict[int, RunRow] = {}
        self.names: dict[int, str] = {ROOT_NS: ""}
        self.numbers: dict[str, int] = {"": ROOT_NS}

    def name(self, branch: str, head: int | None) -> None:
        """Give a branch a name; None takes it away."""
        if head is None:
            self.branches.pop(branch, None)
        else:
            self.branches[branch] = head

    def note(self, run: RunRow, begins: int | None) -> None:
        """Keep the record of a run; where one begins, let those go that lie far behind its epoch."""
        self.runs[run.epoch] = run
        if begins is not None:
            for epoch in [epoch for epoch in self.runs if epoch <= begins - RUNS_KEPT]:
                del self.runs[epoch]

    def number_of_namespace(self, namespace: str | int) -> int | None:
        """A namespace's number; None if there is none of that name."""
        return namespace if isinstance(namespace, int) else self.numbers.get(namespace)


def refuse_twice(found: MemoryThread, commit: Commit) -> None:
    """As a database does, whose rows have keys."""
    for n, packed in commit.values:
        if found.values.get(n, packed) != packed:
            raise SaveFailed(f"value {n} of thread {commit.thread!r} was written twice", thread=commit.thread)
