"""What a failed save is called, whoever tried it: the database's own error is the cause, and its notes are told."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TypeVar

from perdure.checkpoint.records import Commit, RecordStore, StaleLoad
from perdure.errors import CorruptRecord, InvalidArgument, InvalidCall, PerdureError, SaveFailed, WrongType

FAULTS = (CorruptRecord, InvalidArgument, InvalidCall, WrongType)
"""Errors of this library that a saver raises because of itself, or of its file, and not of what it was asked."""

RESUME = "resume with invoke(None, config)"
INTACT = "What was stored before is intact"
_UNMADE = "_perdure_unmade"

T = TypeVar("T")


def standing(how: str, then: str = "try again") -> str:
    """How things stand after a failed save, and what to do."""
    return f"{how}; mend the cause and {then}"


NOTHING = standing("Nothing was stored")
AS_IT_WAS = standing("It is as it was")


def not_found(what: str) -> str:
    """What could not be done where the database could not tell which threads, or runs, are concerned."""
    return f"the {what} could not be looked for"


async def save(records: RecordStore, commit: Commit, *, what: str = "saved", then: str = RESUME) -> None:
    """Store a commit.

    Args:
        records: where.
        commit: what.
        what: what the thread could not be, if it fails.
        then: what to do when the cause is mended.

    Raises:
        SaveFailed: the database failed; `__cause__` says how.
        ThreadBusy, LeaseLost, ThreadDeleted, StaleLoad: as `Commit` says.
    """
    try:
        await records.commit(commit)
    except Exception as error:
        failure = not_saved(commit, error, what=what, then=then)
        if failure is None:
            raise
        raise failure from error


def not_saved(commit: Commit, error: BaseException, *, what: str = "saved", then: str = RESUME) -> SaveFailed | None:
    """What to raise where a commit has raised this; None: the error itself, which is a verdict or no error of the database."""
    verdict = isinstance(error, (PerdureError, StaleLoad)) and not isinstance(error, FAULTS)
    if verdict or not isinstance(error, Exception):
        return None
    return failed(
        f"thread {commit.thread!r} could not be {what}",
        error,
        standing(INTACT, then),
        commit.thread,
    )


async def delete(records: RecordStore, thread: str) -> None:
    """Delete a thread.

    Raises:
        SaveFailed: the database failed; `__cause__` says how.
    """
    try:
        await records.delete(thread)
    except Exception as error:
        if isinstance(error, PerdureError) and not isinstance(error, FAULTS):
            raise
        raise failed(f"thread {thread!r} could not be deleted", error, AS_IT_WAS, thread) from error


async def attempt(call: Awaitable[T], what: str, then: str, thread: str | None = None) -> T:
    """One question or write of a method that stores something, other than its commit.

    Args:
        call: of the record store, and of nothing else.
        what: what the method could not do, if it fails.
        then: how things stand then, and what to do.
        thread: about which it was.

    Raises:
        SaveFailed: the database failed; `__cause__` says how. A verdict, of damage too, is raised as it is.
    """
    try:
        return await call
    except Exception as error:
        if isinstance(error, (PerdureError, StaleLoad)):
            raise
        raise failed(what, error, then, thread) from error


async def begin(call: Awaitable[T], thread: str | None, what: str | None = None) -> T:
    """The first question of a run, or of another call that is to store something: of a database that may have to be made for it.

    Args:
        call: the question, and the answer to it.
        thread: about which it is, if it is about one.
        what: what could not be done, if it fails; None: saving the thread.

    Raises:
        SaveFailed: the tables could not be made; `__cause__` says how. Any other error is raised as it is.
    """
    try:
        return await call
    except Exception as error:
        if getattr(error, _UNMADE, False):
            raise failed(what or f"thread {thread!r} could not be saved", error, NOTHING, thread) from error
        raise


def mark_unmade(error: Exception) -> None:
    """Note with the error of a driver that it came from making tables, which is a write: whoever only looks gets it as it is."""
    setattr(error, _UNMADE, True)


def is_of_database(error: BaseException) -> bool:
    """Whether it says that a database failed, which others would find too, and not that one thread cannot be stored."""
    return isinstance(error, SaveFailed) and error.__cause__ is not None


def failed(what: str, error: Exception, then: str, thread: str | None) -> SaveFailed:
    """The error for a write that the database did not take."""
    notes = "; ".join(getattr(error, "__notes__", ()))
    why = f"{type(error).__name__}: {error}{f' ({notes})' if notes else ''}"
    return SaveFailed(f"{what}: {why}. {then}", thread=thread)
