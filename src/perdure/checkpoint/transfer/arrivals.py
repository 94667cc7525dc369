"""Verdicts on threads that arrive, shared by every backend."""

from __future__ import annotations

from perdure.checkpoint.leases import identity
from perdure.checkpoint.records import LeaseRow
from perdure.errors import CorruptRecord, SaveFailed, ThreadExists


def is_given_up(held: LeaseRow, now_ns: int) -> bool:
    """Whether nobody will go on with an arrival: it has stood still for too long, or its holder is proved dead."""
    return held.expires_ns <= now_ns or identity.is_dead(held)


def given_up() -> SaveFailed:
    """The error for an arrival that others have cleared away."""
    return SaveFailed(
        "what had been brought of the thread was cleared away: it stood still for longer than an hour, or the saver was made anew. "
        "Nothing was stored; begin again"
    )


def exists(thread: str) -> ThreadExists:
    """The error for a thread that would be overwritten."""
    return ThreadExists(
        f"there is a thread {thread!r} already, and it is left as it is: give the copy another id, or delete_thread({thread!r}) first",
        thread=thread,
    )


def twice(what: str) -> CorruptRecord:
    """The error for rows that cannot be of one thread."""
    return CorruptRecord(f"the thread that was brought is damaged: a row is there twice ({what}). Nothing of it was stored")
