"""Retention, carried out: reads a thread's rows, asks the plan what goes, and takes it away in batches. Written once for both colours.

A thread is pruned only while no run holds it: a run has in memory where its values lie, and its next commit refers to them. Each batch
is one commit on the condition that nothing was written since the rows were read; otherwise they are read again. So a run that begins
in between loses nothing, and a sweep that is killed is carried on by the next one.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from perdure.checkpoint.index.records import ThreadFilter
from perdure.checkpoint.leases import lease
from perdure.checkpoint.reading import folded
from perdure.checkpoint.records import CheckpointRow, Commit, Entry, StaleLoad, ThreadRow
from perdure.checkpoint.retention import Pruned, Retention, nanoseconds_of
from perdure.checkpoint.saving import INTACT, attempt, not_found, save, standing
from perdure.checkpoint.survey import BUDGET, Removal
from perdure.checkpoint.thread_rows import decoded
from perdure.checkpoint.transfer.raw import Place, place
from perdure.checkpoint.upkeep.pinning import single_write
from perdure.checkpoint.upkeep.retention_plan import Outline, Plan, Rewrite, batches, count, everything, plan, waits
from perdure.errors import CorruptRecord, InvalidConfig, SaveFailed, ThreadBusy, ThreadDeleted, UnknownThread

if TYPE_CHECKING:
    from perdure.checkpoint.records import RecordStore
    from perdure.clock import Clock

T = TypeVar("T")

BATCH = 1000
"""Rows that one commit takes away."""
PAGE = 1000
"""Threads that are read at a time."""
RECLAIMED = 1 << 22
"""Bytes that are given back at a time: other callers wait that long."""
AGAIN = "prune again"
NOT_FOUND = not_found("threads to prune")
NOT_PRUNED = standing(INTACT, AGAIN)
NOT_RECLAIMED = "threads were pruned, but the room that they left could not be given back"
RECLAIM_AGAIN = standing("It is used for what is stored next", f"{AGAIN} to give it back")
TRIES = 5
"""How often a thread that others write to is looked at again before it counts as busy."""


class Pruner:
    """Carries retention out.

    Args:
        records: the database, in the colour of the call.
        clock: says what is old.
        rules: what may go.
        batch: how many rows one commit takes away.
        dry_run: only count.

    Raises:
        InvalidConfig: the batch is no positive number.
    """

    __slots__ = ("_batch", "_clock", "_dry_run", "_records", "_rules", "_ttl_ns")

    def __init__(
        self, records: RecordStore, clock: Clock, rules: Sequence[Retention], *, batch: int = BATCH, dry_run: bool = False
    ) -> None:
        if type(batch) is not int or batch < 1:
            raise InvalidConfig(f"batch must be a whole number of rows from 1 on, got {batch!r}", key="batch")
        self._records = records
        self._clock = clock
        self._rules = rules
        self._batch = batch
        self._dry_run = dry_run
        self._ttl_ns = next(
            (nanoseconds_of(rule.thread_ttl, "thread_ttl") for rule in reversed(rules) if rule.thread_ttl), None
        )

    async def threads(self, names: Iterable[str] | None, prefix: str = "") -> Pruned:
        """Prune threads: the named ones, or all whose ids begin with a prefix.

        Raises:
            UnknownThread: there is none of a name; nothing was taken away.
            SaveFailed: the database failed.
        """
        total = Pruned(dry_run=self._dry_run)
        async for row in self._rows(names, prefix):
            total.add(await self._expired(row) or await self.thread(row))
        while not self._dry_run and (freed := await attempt(self._records.reclaim(RECLAIMED), NOT_RECLAIMED, RECLAIM_AGAIN)):
            total.reclaimed += freed
        return total

    async def _rows(self, names: Iterable[str] | None, prefix: str) -> AsyncGenerator[ThreadRow, None]:
        if names is not None:
            for found in await self._known([*names]):
                yield found
            return
        after: str | None = None
        wanted = ThreadFilter(prefix=prefix)
        while rows := await attempt(self._records.threads(after=after, limit=PAGE, wanted=wanted), NOT_FOUND, NOT_PRUNED):
            for row in rows:
                yield row
            after = rows[-1].thread

    async def _known(self, names: Sequence[str]) -> list[ThreadRow]:
        """The threads of these names. A mistyped one must not look like a thread with nothing to take away."""
        found = {name: (await self._asked(self._records.rows(name, None, 1, contents=False), name)).thread for name in names}
        unknown = [name for name, row in found.items() if row is None]
        if unknown:
            raise UnknownThread(
                f"there is no thread {' nor '.join(map(repr, unknown))} to prune, so nothing was taken away: check the ids and the "
                "saver; list_threads() shows the threads that there are",
                thread=unknown[0],
            )
        return [row for row in found.values() if row is not None]

    async def _asked(self, call: Awaitable[T], thread: str) -> T:
        return await attempt(call, f"thread {thread!r} could not be pruned", NOT_PRUNED, thread)

    # -- whole threads ----------------------------------------------------------------------------------------------------

    async def _expired(self, row: ThreadRow) -> Pruned | None:
        """Delete a thread whose time has come; None: it has not."""
        now = self._clock.now_ns()
        if self._ttl_ns is None or row.updated_ns >= now - self._ttl_ns or row.status == "interrupted":
            return None
        if not lease.is_free(row.lease):
            return None
        names = await self._asked(self._records.branches(row.thread), row.thread)
        if names:
            return None
        try:
            outline = await self._outline(row.thread, held=True)
        except (StaleLoad, CorruptRecord):
            return None
        if outline.thread.lease.epoch != row.lease.epoch or waits(outline):
            return None  # somebody wrote to it since it was listed, or has a question to answer, though a node has failed since
        gone = Pruned(1, deleted=(row.thread,))
        count(gone, outline, everything(outline))
        if not self._dry_run:
            try:
                await self._save(replace(single_write(outline.thread, now), removed=Removal(thread=True)))
            except (StaleLoad, ThreadBusy, ThreadDeleted):
                return None
        return gone

    # -- checkpoints ------------------------------------------------------------------------------------------------------

    async def thread(self, row: ThreadRow) -> Pruned:
        """Prune one thread."""
        done = Pruned(1)
        fewest = min((rule.keep_last or 0 for rule in self._rules if rule.thins), default=None)
        if fewest is None or row.next_n <= fewest:
            return done  # it never had so many checkpoints
        for _ in range(TRIES):
            try:
                outline = await self._outline(row.thread)
                if outline.thread.key is None:
                    return done
                if outline.thread.lease.token is not None:
                    break  # even if it has run out: its holder goes on with it as long as nobody takes it
                planned = plan(outline, self._rules, self._clock.now_ns())
                if self._dry_run:
                    return planned.pruned
                await self._carry_out(outline, planned, done)
                return done
            except StaleLoad:
                continue
            except ThreadDeleted:
                return done
            except ThreadBusy:
                break
            except (CorruptRecord, SaveFailed) as error:
                if isinstance(error, SaveFailed) and not isinstance(error.__cause__, CorruptRecord):
                    raise
                done.damaged = (row.thread,)
                return done
        done.busy = (row.thread,)
        return done

    async def _outline(self, thread: str, *, held: bool = False) -> Outline:
        """All rows of a thread, as they were at one moment.

        Args:
            thread: its id.
            held: also if somebody holds it, who may write between two pages; otherwise the first page has to do then.

        Raises:
            StaleLoad: others write to it all the time.
        """
        for _ in range(TRIES):
            outline: Outline | None = None
            after: Place | None = None
            while True:
                found, rows = await self._asked(self._records.rows(thread, after, BUDGET, contents=False), thread)
                now = found or ThreadRow(thread)
                if outline is None:
                    outline = Outline(now)
                then = outline.thread
                if (now.key, now.lease.epoch) != (then.key, then.lease.epoch):
                    break  # somebody wrote in between: begin again
                outline.add(decoded(rows))
                if not rows or (then.lease.token is not None and not held):
                    return outline
                after = place(rows[-1])
        raise StaleLoad(thread)

    async def _carry_out(self, outline: Outline, planned: Plan, done: Pruned) -> None:
        thread = outline.thread
        for rewrites, removed in batches(planned, self._batch):
            rewritten = await self._rewritten(thread.thread, rewrites)
            await self._save(replace(single_write(thread, self._clock.now_ns()), replaced=rewritten, removed=removed))
            thread.lease.epoch += 1  # as the commit left it, so that the next one tells whether somebody else wrote since
            count(done, outline, removed)

    async def _save(self, commit: Commit) -> None:
        await save(self._records, commit, what="pruned", then=AGAIN)

    async def _rewritten(self, thread: str, rewrites: Sequence[Rewrite]) -> list[CheckpointRow]:
        """The rows as they are to be: what they say is the same, on other ancestors."""
        if not rewrites:
            return []
        read = await self._asked(self._records.several(thread, [(r.ns, r.n) for r in rewrites]), thread)
        found = {one.row.n: one for one in read if one.row}
        rows: list[CheckpointRow] = []
        for rewrite in rewrites:
            loaded = found.get(rewrite.n)
            if loaded is None or loaded.row is None:
                raise StaleLoad(thread)
            changes: dict[str, Entry | None] = {**folded(loaded.chain)} if rewrite.full else loaded.row.changes
            rows.append(
                replace(
                    loaded.row,
                    parent=rewrite.parent,
                    base=rewrite.base,
                    full=rewrite.full or loaded.row.full,
                    changes=changes,
                )
            )
        return rows
