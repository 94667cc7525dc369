"""What is noted of a run while it runs, for `list_runs`: how many super-steps, how often each node's code was entered, what ended it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from perdure.checkpoint.index.records import RunRow
from perdure.constants import NS_END, NS_SEP
from perdure.engine.past.branches import branch_of

if TYPE_CHECKING:
    from perdure.checkpoint.index.records import Outcome
    from perdure.checkpoint.records import Status
    from perdure.engine.running.run import Run
    from perdure.engine.tasks.task import Task

EVERY_NS = 1_000_000_000
"""A run's record goes with the next commit when the one that is stored is older, or when the run has come twice as far since. With each
commit it would cost 4 to 8 % of the CPU of a small super-step on SQLite.
"""
MOST_NAMES = 256
"""Nodes that a record tells apart, so that it stays small whatever a graph is made of; the entries of others are counted together."""
OTHERS = "…"
LONGEST_ERROR = 1000

_OUTCOMES: dict[Status, Outcome] = {"busy": "running", "idle": "done", "interrupted": "interrupted", "error": "error"}


class RunRecord:
    """The record of one run of a root graph; the runs of its subgraphs note theirs in it.

    Attributes:
        run_id: its public id.
        graph: the name of the graph.
        started_ns: when it began.
        context: it was given a context.
        branch: the named branch that it is addressed by.
        steps: super-steps of the root that it finished.
        entries: how often each node's code was entered.
        error: what ended it.
        left: its listener left before it came to its end.
    """

    __slots__ = (
        "_lock",
        "_written_ns",
        "_written_steps",
        "branch",
        "context",
        "entries",
        "error",
        "graph",
        "left",
        "run_id",
        "started_ns",
        "steps",
    )

    def __init__(self, run: Run, run_id: str, now_ns: int) -> None:
        self.run_id = run_id
        self.graph = run.program.name
        self.started_ns = now_ns
        self.context = run.context is not None
        branch = branch_of(run.config)
        self.branch = None if branch is None else branch.name
        self.steps = 0
        self.entries: dict[str, int] = {}
        self.error: str | None = None
        self.left = False
        self._lock = run.lock
        self._written_ns = now_ns
        self._written_steps = 0

    def note(self, run: Run, tasks: Iterable[Task]) -> None:
        """Count what was tried in a super-step, of the root or of a subgraph, since it was last counted."""
        namespace = run.namespace
        way = "".join(f"{part.partition(NS_END)[0]}{NS_SEP}" for part in namespace.split(NS_SEP)) if namespace else ""
        entries = self.entries
        with self._lock:  # subgraphs that run side by side share this record
            for task in tasks:
                attempt = task.attempt
                new = attempt - task.counted
                if new > 0:
                    task.counted = attempt
                    name = way + task.node.name
                    if name not in entries and len(entries) >= MOST_NAMES:
                        name = OTHERS
                    entries[name] = entries.get(name, 0) + new

    def failed(self, cause: BaseException | str) -> None:
        """Note what ends the run."""
        self.error = cause if isinstance(cause, str) else _told(cause)

    def is_due(self, now_ns: int) -> bool:
        """Whether what is stored of it has become old: by a second, or by half of its super-steps."""
        is_old = not 0 <= now_ns - self._written_ns < EVERY_NS
        return is_old or self.steps >= max(1, 2 * self._written_steps)

    def row(self, epoch: int, status: Status, now_ns: int) -> RunRow:
        """The record as it is to be stored."""
        self._written_ns = now_ns
        self._written_steps = self.steps
        ended = None if status == "busy" else now_ns
        error = self.error if status == "error" else None
        outcome = "interrupted" if status == "idle" and self.left else _OUTCOMES[status]
        with self._lock:
            entries = dict(self.entries)
        return RunRow(
            epoch,
            self.run_id,
            self.graph,
            outcome,
            self.started_ns,
            ended,
            self.steps,
            entries,
            error,
            self.context,
            self.branch,
        )


def _told(error: BaseException) -> str:
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - an error that cannot be told must not hide that there was one
        text = ""
    told = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return told[:LONGEST_ERROR].encode("utf-8", "replace").decode("utf-8")
