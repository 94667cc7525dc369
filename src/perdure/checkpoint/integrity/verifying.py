"""Verification: reads all rows of a thread, and tells what is missing, altered or left over. Written once for both colours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from perdure.checkpoint.integrity.invariants import Books, Problem, in_order
from perdure.checkpoint.integrity.receipt import SHORT, Receipt, chain_over, checked_key, receipt_of
from perdure.checkpoint.leases import lease
from perdure.checkpoint.records import ThreadRow
from perdure.checkpoint.survey import BUDGET
from perdure.checkpoint.thread_rows import decoded
from perdure.checkpoint.transfer.raw import Place, place
from perdure.errors import InvalidConfig, UnknownCheckpoint, UnknownThread, WrongType

if TYPE_CHECKING:
    from perdure.checkpoint.records import RecordStore

TRIES = 5
"""How often a thread that others write to is read again."""


@dataclass(frozen=True, slots=True)
class Verified:
    """What `verify` found.

    Attributes:
        thread: the thread's id.
        checkpoints: how many it has, up to the one that was named.
        problems: what is missing, altered or broken, the oldest record first.
        orphans: rows that nothing refers to. They do no harm, and the next prune takes them away.
        receipt: to keep somewhere else, and to give to a later `verify`.
    """

    thread: str
    checkpoints: int
    problems: tuple[Problem, ...]
    orphans: tuple[Problem, ...]
    receipt: Receipt

    @property
    def ok(self) -> bool:
        """Nothing is missing, altered or broken."""
        return not self.problems

    @property
    def first(self) -> Problem | None:
        """The problem at the oldest record."""
        return self.problems[0] if self.problems else None


async def verify(
    records: RecordStore, thread: str, *, checkpoint: str | None, receipt: Any, key: Any, pruned: bool
) -> Verified:
    """See `Upkeep.verify`."""
    secret = checked_key(key)
    kept = None if receipt is None else Receipt.of(receipt)
    if kept is not None and kept.thread != thread:
        raise InvalidConfig(f"the receipt is of thread {kept.thread!r}, not of {thread!r}", key="receipt", thread=thread)
    if kept is not None and kept.keyed != bool(secret):
        raise InvalidConfig(
            "the receipt was made with a key: give the same key=" if kept.keyed else "the receipt was made without a key",
            key="key",
            thread=thread,
        )
    books = await _read(records, thread)
    if books.thread.key is None and kept is None:
        raise UnknownThread(f"there is no thread {thread!r} to verify", thread=thread)
    last = _last(books, checkpoint)
    problems = [problem for problem in books.problems() if problem.n <= last]
    digests = {n: digest for n, digest in books.digests(secret).items() if n <= last}
    if kept is not None:
        problems = in_order([*problems, *against(kept, books, digests, secret, pruned=pruned)])
    return Verified(
        thread,
        sum(n <= last for n in books.rows),
        tuple(problems),
        tuple(books.orphans()),
        receipt_of(thread, books.thread.incarnation, digests, secret),
    )


async def _read(records: RecordStore, thread: str) -> Books:
    """All rows, as they were at one moment."""
    for _ in range(TRIES):
        books: Books | None = None
        after: Place | None = None
        while True:
            found, rows = await records.rows(thread, after, BUDGET)
            now = found or ThreadRow(thread)
            if books is None:
                books = Books(now)
            then = books.thread
            if (now.key, now.lease.epoch, now.next_n) != (then.key, then.lease.epoch, then.next_n):
                break  # somebody wrote in between: begin again
            if not rows:
                return books
            books.add(decoded(rows, is_strict=False))
            after = place(rows[-1])
    raise lease.busy(thread, now.lease)


def _last(books: Books, checkpoint: str | None) -> int:
    """The number up to which records are looked at.

    Raises:
        UnknownCheckpoint: there is no such checkpoint.
        WrongType: it is no text.
    """
    if checkpoint is None:
        return books.thread.next_n
    if not isinstance(checkpoint, str):
        raise WrongType(
            f"checkpoint is the id of one, config['configurable']['checkpoint_id'], got {type(checkpoint).__name__}"
        )
    n = next((row.n for row in books.rows.values() if row.id == checkpoint), None)
    if n is None:
        raise UnknownCheckpoint(
            f"thread {books.thread.thread!r} has no checkpoint {checkpoint!r} to verify up to",
            thread=books.thread.thread,
            checkpoint=checkpoint,
        )
    return n


def against(kept: Receipt, books: Books, digests: dict[int, bytes], key: bytes, *, pruned: bool) -> list[Problem]:
    """What differs from a receipt.

    Args:
        kept: the receipt.
        books: the thread's rows.
        digests: of its checkpoints.
        key: of the chain.
        pruned: records may have gone since, other than the last one.
    """
    if kept.incarnation != books.thread.incarnation or books.thread.key is None:
        return [Problem(0, "missing", f"all of thread {kept.thread!r} as it was then: it has been deleted since")]
    found: list[Problem] = []
    end = kept.records[-1][0] if kept.records else 0
    known = dict(kept.records)
    for n, short in kept.records:
        row = books.rows.get(n)
        if row is None:
            if not pruned or n == end:
                found.append(Problem(n, "missing", f"checkpoint {n}, which is in the receipt"))
        elif n in digests and digests[n][:SHORT] != short:
            found.append(Problem(n, "altered", f"checkpoint {n} in step {row.step}, since the receipt", row.id))
    found += (
        Problem(n, "altered", f"checkpoint {n} in step {row.step}, which is not in the receipt", row.id)
        for n, row in books.rows.items()
        if n < end and n not in known
    )
    if not found and all(n in digests for n in known) and chain_over(known, digests, key) != kept.digest:
        found.append(Problem(end, "altered", "the chain of the receipt, at some record up to its last one"))
    return found
