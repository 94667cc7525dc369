"""The process that does the work, and may be killed: it runs the graph and reports on its standard output, a JSON object a line."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from digest.graph import Desk, build
from digest.ledger import Ledger
from digest.model import abstracter, available
from digest.state import State
from perdure.checkpoint.sqlite import SqliteSaver

if TYPE_CHECKING:
    from perdure.types import RunnableConfig

__all__ = ["CONFIG", "Job", "work"]

CONFIG: RunnableConfig = {"configurable": {"thread_id": "digest"}, "recursion_limit": 100_000}
"""One thread; and a long document takes more super-steps than the usual limit, one for each page."""


@dataclass(frozen=True)
class Job:
    """What to digest, where everything is kept, and from where to go on."""

    source: str
    folder: Path
    model: bool = False

    @property
    def database(self) -> Path:
        """The SQLite file with the checkpoints."""
        return self.folder / "digest.sqlite"

    @property
    def ledger(self) -> Ledger:
        """The outside witness."""
        return Ledger(self.folder / "ledger.txt")


def work(job: Job, mode: Literal["start", "resume"], *, pause_before: int | None = None) -> int:
    """Runs the graph until it pauses or ends; before page `pause_before` it waits for a line on standard input."""
    vendor = available() if job.model else None
    desk = Desk(job.ledger, _pause(pause_before), abstracter(vendor) if vendor else None)
    given: State | None = {"source": job.source, "out": str(job.folder)} if mode == "start" else None
    with SqliteSaver.from_conn_string(str(job.database)) as saver:
        graph = build(desk, saver)
        # "sync": a super-step begins only when the checkpoint of the one before it is in the file.
        for update in graph.stream(given, CONFIG, stream_mode="updates", durability="sync"):
            for node, values in update.items():
                _report(node, values)
    return 0


def _pause(page: int | None) -> Callable[[int], None]:
    """A wait at the top of one page's super-step.

    A kill can fall between what a node does and the commit of its step; then that page runs again, and no runtime can know
    whether its line in the ledger was written. The demo wants the ordinary case and the same result every time, so it kills
    here: the step before is committed, the step of this page is open, and the page has not been touched.
    """

    def wait(number: int) -> None:
        if number != page:
            return
        _tell(event="waiting", page=number)
        if not sys.stdin.readline():
            raise ConnectionAbortedError("the demo that started this worker is gone")

    return wait


def _report(node: str, values: Any) -> None:
    if node == "digest":
        _tell(event="page", page=values["page"], heading=values["digests"][0]["heading"])
    elif node == "fold_chapter":
        _tell(event="chapter", title=values["chapters"][0]["title"])
        for note in values.get("notes", []):
            _tell(event="note", text=note)
    elif node == "__interrupt__":
        _tell(event="paused")


def _tell(**event: Any) -> None:
    # ASCII, so that no locale can break it.
    print(json.dumps(event), flush=True)
