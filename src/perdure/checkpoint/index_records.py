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


class IndexPort(Protocol):
    """The part of `RecordStore` that lists. Each call is one transaction in the database."""

    async def threads(
        self,
        *,
        after: str | None,
        limit: int,
        statuses: Collection[Status] = (),
        prefix: str = "",
        graph: str | None = None,
        updated_after: int | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> list[ThreadRow]:
        """Up to `limit` threads by id, from just after `after` on. With `statuses` or `updated_after`, others are not looked at.

        Args:
            after: the last id that was seen.
            limit: how many.
            statuses: only threads with one of these; none given: all. A store that does not know them passes over this.
            prefix: only threads whose ids begin with it.
            graph: only threads that a graph of this name ran last.
            updated_after: only threads that began, paused, ended or were edited later than this, in ns.
            metadata: threads without these may be left out. A hint: the caller compares.
        """
        ...

    async def recent(
        self,
        *,
        before: tuple[int, str] | None,
        limit: int,
        statuses: Collection[Status] = (),
        prefix: str = "",
        graph: str | None = None,
        updated_after: int | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> list[ThreadRow]:
        """As `threads`, by `(updated_ns, id)`, the largest first, from just below `before` on."""
        ...

    async def runs(self, thread: str, *, before: int | None, limit: int) -> list[RunRow]:
        """Up to `limit` runs of a thread, newest first, with epochs below `before`."""
        ...
