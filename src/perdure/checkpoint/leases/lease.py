"""Who may write to a thread: pure verdicts over lease rows.

Nothing here reads a clock or asks the operating system. Whether a lease has run out says the database that holds it (`expired`),
whether its holder is dead or gone `checkpoint/leases/watch.py` (`Commit.over`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from perdure.checkpoint.records import Commit, Holder, LeaseMark, LeaseRow, StaleLoad, ThreadRow
from perdure.clock import iso_of
from perdure.errors import LeaseLost, ThreadBusy, ThreadDeleted

LEASE_SECONDS = 30.0
"""How long a lease lasts without a commit or a renewal."""

LONGEST_LEASE = 366 * 24 * 3600
"""No lease lasts longer: a database that is asked for the end of time answers with an overflow."""


def busy(thread: str, lease: LeaseRow) -> ThreadBusy:
    """The error for a thread that somebody else holds."""
    holder = lease.holder
    known: dict[str, Any] = {}
    if holder is not None:
        known = {
            "run_id": holder.run_id,
            "host": holder.host,
            "pid": holder.pid,
            "since": iso_of(holder.since_ns),
        }
    return ThreadBusy(
        f"thread {thread!r} is busy: {_who(known)} holds it. Wait for it to end, pass on_busy='wait' to queue behind it, or use "
        "another thread_id",
        thread=thread,
        holder=known,
    )


def still_busy(error: ThreadBusy, seconds: float) -> ThreadBusy:
    """The error for a thread that somebody else held for as long as it was waited for."""
    return ThreadBusy(
        f"thread {error.thread!r} is still busy after {seconds:g} seconds (busy_timeout): {_who(error.holder)} holds it. Wait longer, "
        "or use another thread_id",
        thread=error.thread,
        holder=error.holder,
    )


def _who(holder: Mapping[str, Any]) -> str:
    if not holder:
        return "another run"
    return f"run {holder['run_id']} (process {holder['pid']} on {holder['host']}, since {holder['since']})"


def forked(thread: str, holder: Holder) -> LeaseLost:
    """The error for a write of a process that was forked from the one that holds the lease."""
    return LeaseLost(
        f"this run of thread {thread!r} belongs to process {holder.pid}, from which this one was forked; nothing of this write was "
        "stored. A process that was forked starts runs of its own; one that was forked inside a node ends there, with os._exit",
        thread=thread,
    )


def is_free(lease: LeaseRow, over: LeaseMark | None = None) -> bool:
    """Whether a lease may be taken: nobody holds it, it has run out, or it is still exactly the one that may be taken over."""
    return lease.token is None or lease.expired or (over is not None and lease.mark == over)


def check(commit: Commit, thread: ThreadRow | None, *, tombstone: int) -> None:
    """Refuse a commit whose condition does not hold.

    Args:
        commit: what is to be written.
        thread: the thread's row as it is now; None: there is none.
        tombstone: the incarnation that was deleted last, 0 if none was.

    Raises:
        ThreadBusy, LeaseLost, ThreadDeleted, StaleLoad: as `Commit` says.
    """
    op = commit.lease
    if thread is None:
        _check_missing(commit, tombstone)
        return
    lease = thread.lease
    if op in ("keep", "release"):
        if thread.incarnation != commit.incarnation:
            raise deleted(commit.thread)
        if lease.token != commit.token or lease.epoch != commit.epoch:
            raise LeaseLost(
                f"this run no longer holds thread {commit.thread!r}: another run took it over (epoch {lease.epoch}, this run's is "
                f"{commit.epoch}). Nothing of this write was stored; the new holder's state is the thread's state",
                thread=commit.thread,
            )
        return
    if not is_free(lease, commit.over):
        raise busy(commit.thread, lease)
    expected = (commit.expect_head, commit.incarnation, commit.first_n, commit.epoch)
    if (thread.head, thread.incarnation, thread.next_n, lease.epoch + 1) != expected:
        raise StaleLoad(commit.thread)


def deleted(thread: str) -> ThreadDeleted:
    """The error for a late write to a deleted thread."""
    return ThreadDeleted(
        f"thread {thread!r} was deleted; nothing of this write was stored. New input on the id starts a new thread",
        thread=thread,
    )


def _check_missing(commit: Commit, tombstone: int) -> None:
    if commit.lease in ("keep", "release"):
        raise deleted(commit.thread)
    if (commit.expect_head, commit.incarnation, commit.epoch, commit.first_n) != (None, tombstone + 1, 1, 1):
        raise StaleLoad(commit.thread)


def after(commit: Commit, lease: LeaseRow, now_ns: int) -> LeaseRow:
    """The lease row after the commit, `now_ns` being the database's clock."""
    op = commit.lease
    if op == "take":
        return LeaseRow(commit.token, commit.epoch, now_ns + commit.lease_ns, commit.holder)
    if op == "keep":
        return LeaseRow(lease.token, lease.epoch, now_ns + commit.lease_ns, lease.holder)
    return LeaseRow(None, lease.epoch + (op == "once"), 0, None)
