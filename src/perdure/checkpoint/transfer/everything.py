"""All threads of one database into another."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any

from perdure.bridge import run_blocking
from perdure.checkpoint.saver import Saver
from perdure.checkpoint.saving import attempt, is_of_database, not_found, standing
from perdure.checkpoint.transfer.flow import AGAIN, Source, contents_of, copied, has
from perdure.checkpoint.transfer.port import MovableRecords, movable
from perdure.clock import Clock
from perdure.errors import PerdureError, ThreadExists, WrongType

PAGE = 64
"""Threads that are asked for at a time."""
NOT_FOUND = not_found("threads to copy")
SOME_COPIED = standing("What was copied before is there", AGAIN)


@dataclass(slots=True)
class CopyReport:
    """What `copy_all` did.

    Attributes:
        copied: how many threads were copied, each read back and compared.
        unchanged: how many were in the target already with the same contents.
        rows: how many rows the copied ones have.
        refused: the threads that were not copied, each with the error that says why: ThreadBusy (it runs), ThreadExists (the target
            has another thread of that id).
    """

    copied: int = 0
    unchanged: int = 0
    rows: int = 0
    refused: dict[str, PerdureError] = field(default_factory=dict)

    @property
    def is_complete(self) -> bool:
        """Whether every thread of the source is in the target."""
        return not self.refused


def copy_all(from_saver: Saver, to_saver: Saver) -> CopyReport:
    """Copy every thread of one saver into another, whatever their databases. The source stays as it is.

    A thread that cannot be copied does not stop the others. Killed or called again, it goes on where it was: threads that are in the
    target already are compared, never overwritten.

    Args:
        from_saver: where the threads are.
        to_saver: where they go.

    Returns:
        What was copied and what was not.

    Raises:
        WrongType: one of them is no saver of this library.
        SaveFailed: a database failed. What was copied before is there; call this again, and it goes on.
    """
    _check(from_saver, to_saver)
    return run_blocking(_all(movable(from_saver.blocking()), movable(to_saver.blocking()), from_saver.clock))


async def acopy_all(from_saver: Saver, to_saver: Saver) -> CopyReport:
    """See `copy_all`."""
    _check(from_saver, to_saver)
    return await _all(movable(from_saver.suspending()), movable(to_saver.suspending()), from_saver.clock)


def _check(*savers: Any) -> None:
    for saver in savers:
        if not isinstance(saver, Saver):
            path = isinstance(saver, (str, os.PathLike))
            hint = (
                f"open_saver({str(saver)!r}) makes one"
                if path
                else "of a saver of your own, list() gives the checkpoints and put() takes them"
            )
            raise WrongType(f"copy_all copies between savers of this library, not {type(saver).__name__}: {hint}")


async def _all(source: MovableRecords, target: MovableRecords, clock: Clock) -> CopyReport:
    report = CopyReport()
    after: str | None = None
    while page := await attempt(source.threads(after=after, limit=PAGE), NOT_FOUND, SOME_COPIED):
        for row in page:
            try:
                await _one(source, target, row.thread, clock, report)
            except PerdureError as error:
                if is_of_database(error):
                    raise
                report.refused[row.thread] = error
        after = page[-1].thread
    return report


async def _one(source: MovableRecords, target: MovableRecords, thread: str, clock: Clock, report: CopyReport) -> None:
    there = Source(target, thread, clock)
    here = Source(source, thread, clock)
    if not await has(target, thread):
        report.rows += (await copied(here, target, thread, clock)).rows
        report.copied += 1
        return
    ours, theirs = await here.attempted(here.begin()), await there.attempted(there.begin())
    same = (ours.head, ours.next_n, ours.newest) == (theirs.head, theirs.next_n, theirs.newest)
    if not same or await contents_of(here) != await contents_of(there):
        raise ThreadExists(
            f"the target has another thread {thread!r} already, or one of them has gone on since it was copied; both are left as they "
            "are. Delete the one that is of no use, or copy it to another id",
            thread=thread,
        )
    report.unchanged += 1
