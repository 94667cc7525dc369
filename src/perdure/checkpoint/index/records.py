"""What an index of threads is made of: the record of a run, and the part of the port to a database that lists threads and runs."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, get_args

if TYPE_CHECKING:
    from perdure.checkpoint.records import Status, ThreadRow

RUNS_KEPT = 256
"""Of a thread, the runs of its last so many leases are kept: whoever takes a lease lets the older ones go, in the same commit."""

Outcome = Literal["running", "done", "interrupted", "error"]
OUTCOMES: Final[tuple[Outcome, ...]] = get_args(Outcome)


@dataclass(slots=True)
class RunRow:
    """One run of a root graph, as far as it was recorded. It rides in commits that are made anyway: the one that takes the lease, the
    one that gives it back, and now and then one in between. One that says "running" and no longer holds the lease never came to its end.

    Attributes:
        epoch: of the lease that it took, which names it in its thread.
        run_id: its public id.
        graph: the name of the graph.
        status: how it ended, or "running".
        started_ns, ended_ns: when; None: its end was not recorded.
        steps: super-steps of the root graph that it finished.
        entries: how often the code of each node was entered, retries included; inside subgraphs by their way, `outer|inner`.
        error: what ended it, as one line.
        context: it was given a context.
        branch: the named branch that it was addressed by.
    """

    epoch: int
    run_id: str
    graph: str
    status: Outcome
    started_ns: int
    ended_ns: int | None = None
    steps: int = 0
    entries: Mapping[str, int] = field(default_factory=dict)
    error: str | None = None
    context: bool = False
    branch: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadFilter:
    """Which threads are asked for. With `statuses` or `updated_after`, a database does not look at the others.

    Attributes:
        statuses: those with one of these; none: all. A store that does not know them passes over this.
        prefix: those whose ids begin with it.
        graph: those that a graph of this name ran last.
        updated_after: those that began, paused, ended or were edited later than this, in ns.
        metadata: keys and the values they must equal. A hint to the database: the caller compares.
    """

    statuses: Collection[Status] = ()
    prefix: str = ""
    graph: str | None = None
    updated_after: int | None = None
    metadata: Mapping[str, Any] | None = None

    def allows(self, row: ThreadRow) -> bool:
        """Whether a thread meets all conditions but that of `metadata`."""
        return (
            row.thread.startswith(self.prefix)
            and (not self.statuses or row.status in self.statuses)
            and (self.graph is None or row.graph == self.graph)
            and (self.updated_after is None or row.updated_ns > self.updated_after)
        )


EVERY = ThreadFilter()


class IndexPort(Protocol):
    """The part of `RecordStore` that lists. Each call is one transaction in the database."""

    async def threads(self, *, after: str | None, limit: int, wanted: ThreadFilter = EVERY) -> list[ThreadRow]:
        """Up to `limit` threads by id, from just after `after` on.

        Args:
            after: the last id that was seen.
            limit: how many.
            wanted: which.
        """
        ...

    async def recent(self, *, before: tuple[int, str] | None, limit: int, wanted: ThreadFilter = EVERY) -> list[ThreadRow]:
        """As `threads`, by `(updated_ns, id)`, the largest first, from just below `before` on."""
        ...

    async def runs(self, thread: str, *, before: int | None, limit: int) -> list[RunRow]:
        """Up to `limit` runs of a thread, newest first, with epochs below `before`."""
        ...
