"""A run's hold on its thread: the lease, the numbers, the way to the database."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from perdure.checkpoint.leases import identity
from perdure.checkpoint.leases.lease import busy, forked, is_free
from perdure.checkpoint.numbering import Numbers
from perdure.checkpoint.records import (
    ROOT_NS,
    BranchName,
    Commit,
    LeaseOp,
    Loaded,
    RecordStore,
    StaleLoad,
    Status,
    ThreadRow,
    ThreadUpdate,
)
from perdure.checkpoint.saving import not_saved
from perdure.engine.ports import LoopIsBlocked
from perdure.errors import InvalidCall, PerdureError, SaveFailed

if TYPE_CHECKING:
    from perdure.checkpoint.base import BaseCheckpointSaver
    from perdure.checkpoint.heads import Heads
    from perdure.checkpoint.leases.line import Line
    from perdure.checkpoint.leases.watch import Watch
    from perdure.checkpoint.serde.base import SerializerProtocol
    from perdure.clock import Clock
    from perdure.engine.ports import InFlight, Runner
    from perdure.engine.running.run import Run
    from perdure.engine.storing.record import RunRecord
    from perdure.engine.tasks.task import Task
    from perdure.types import Durability


LAST_PATIENCE = 10.0
"""Seconds that the end of a run waits for its last writes while its task is cancelled over and over."""


@dataclass(slots=True, frozen=True)
class Access:
    """A way to one thread in one database.

    Attributes:
        records: the database, in the colour of the call.
        twin: the database, in the other colour.
        saver: whose records they are; its serializer may learn more types while a run lasts.
        thread: the thread's id.
        run_id: of the run that wants it.
        clock: wall and monotonic time.
        lease_seconds: how long a lease lasts without a commit.
        durability: when commits are waited for.
        watch: tells which leases of others may be taken over.
        line: who waits for which thread.
        keep: told of each session that begins to hold its lease, so that it is renewed; and again when it lets go.
        persist: keys of `configurable` that are stored with checkpoints.
        heads: what is remembered of the newest states.
        still: the run is only wanted if the thread is still as it was here: nobody has taken its lease since.
    """

    records: RecordStore
    twin: RecordStore
    saver: BaseCheckpointSaver[Any]
    thread: str
    run_id: str
    clock: Clock
    lease_seconds: float
    durability: Durability
    watch: Watch
    line: Line
    keep: Callable[[str, str, int, bool], None]
    persist: tuple[str, ...] = ()
    heads: Heads | None = None
    still: ThreadRow | None = None

    async def load(self, checkpoint: str | BranchName | None) -> Loaded:
        """A checkpoint of the root: that of an id, the tip of a named branch, or the head. What is remembered of it is not read again."""
        head = None
        look = getattr(self.saver.serde, "made_of", None)
        if self.heads is not None and look is not None:
            head = self.heads.get(self.thread, checkpoint.name if isinstance(checkpoint, BranchName) else "")
            head = head and head.known_to(look)
        if head is None or not head.values:
            return await self.records.load(self.thread, ROOT_NS, checkpoint)
        loaded = await self.records.load(self.thread, ROOT_NS, checkpoint, have=head.have)
        if loaded.spared:
            loaded.head = head
        return loaded

    def refuse_if_moved_on(self, thread: ThreadRow) -> None:
        """Refuse a thread that somebody has written to since it was as `still`.

        Raises:
            MovedOn: somebody has.
        """
        seen = self.still
        if seen is not None and (thread.incarnation, thread.lease.epoch) != (seen.incarnation, seen.lease.epoch):
            raise MovedOn(self.thread)


class MovedOn(Exception):
    """Somebody else took a thread up first. Internal: whoever gets it leaves the thread alone."""


class Writes:
    """The writes of a run that were started, for all who write to its thread, whatever their colour.

    Attributes:
        in_flight: those that may not have ended, in order.
        lost: what the first that failed has raised; nothing is stored after it.
    """

    __slots__ = ("in_flight", "lost")

    def __init__(self) -> None:
        self.in_flight: list[InFlight] = []
        self.lost: Exception | None = None


class Session:
    """A run's hold on one thread, shared by the journals of its graph and subgraphs."""

    __slots__ = (
        "access",
        "durability",
        "epoch",
        "expect_head",
        "graph",
        "held",
        "holder",
        "incarnation",
        "lease_ns",
        "loaded",
        "metadata",
        "numbers",
        "over",
        "record",
        "runner",
        "taking",
        "thread",
        "token",
        "writes",
    )

    def __init__(self, access: Access, loaded: Loaded, runner: Runner, graph: tuple[str, str]) -> None:
        row = loaded.thread
        self.access = access
        self.loaded = loaded
        self.runner = runner
        self.thread = row.thread
        self.incarnation = row.incarnation
        self.expect_head = row.head
        self.epoch = row.lease.epoch + 1
        self.numbers = Numbers(row.next_n, row.newest, access.clock)
        self.token = os.urandom(8).hex()
        self.lease_ns = int(access.lease_seconds * 1e9)
        self.holder = identity.holder(access.run_id, access.clock.now_ns(), self.lease_ns)
        self.over = access.watch.over(row.thread, row.lease)
        self.durability: Durability = access.durability
        self.held = False
        self.taking = False
        self.writes = Writes()
        self.graph = graph
        self.metadata: dict[str, Any] | None = None
        self.record: RunRecord | None = None

    def seen_from(self, runner: Runner) -> Session:
        """The same hold on the thread, for a subgraph whose calls are of another colour than those of the run around."""
        if runner.blocks == self.runner.blocks:
            return self
        other = copy(self)
        other.runner = runner
        other.access = replace(self.access, records=self.access.twin, twin=self.access.records)
        return other

    @property
    def in_flight(self) -> list[InFlight]:
        """The writes that may not have ended: of this run, and of the runs around and inside it."""
        return self.writes.in_flight

    @property
    def lost(self) -> Exception | None:
        """What a write has raised: nothing may be stored any more."""
        return self.writes.lost

    def lose(self, error: Exception) -> None:
        """Store nothing any more, for this write failed."""
        self.writes.lost = self.writes.lost or error

    @property
    def serde(self) -> SerializerProtocol:
        """How values become bytes."""
        return self.access.saver.serde

    def refuse_if_busy(self) -> None:
        """Refuse at once what the first commit would refuse anyway.

        Raises:
            ThreadBusy: somebody who may be alive holds the thread.
        """
        lease = self.loaded.thread.lease
        if not is_free(lease, self.over):
            raise busy(self.thread, lease)

    def commit_for(self, op: LeaseOp, status: Status | None) -> Commit:
        """An empty commit of this session."""
        numbers = self.numbers
        commit = Commit(
            self.thread,
            self.incarnation,
            op,
            self.token,
            self.epoch,
            self.expect_head,
            self.access.clock.now_ns(),
            self.lease_ns,
            self.holder,
            self.over,
            numbers.first_n,
            numbers.next_n,
            numbers.newest,
        )
        if status is not None:
            commit.update = ThreadUpdate(status, *self.graph, None if self.held else self.metadata)
            if self.record is not None:
                commit.run = self.record.row(self.epoch, status, commit.now_ns)
        return commit

    def tell(self, commit: Commit) -> None:
        """Put the record of the run into a commit in the middle of it, if the one that is stored has become old."""
        record = self.record
        if record is not None and record.is_due(commit.now_ns):
            commit.run = record.row(self.epoch, "busy", commit.now_ns)

    def failed(self, cause: BaseException | str) -> None:
        """Note what ends the run."""
        if self.record is not None:
            self.record.failed(cause)

    def left(self) -> None:
        """Note that the run ends because nobody listens to it any more."""
        if self.record is not None:
            self.record.left = True

    def tried(self, run: Run, tasks: Sequence[Task]) -> None:
        """Note how often the code of a super-step's tasks was entered."""
        if self.record is not None:
            self.record.note(run, tasks)

    def describe(self, metadata: dict[str, Any]) -> None:
        """What a run or an edit says of the thread: it is added to what is known of it, with the first write."""
        known = self.loaded.thread.metadata
        if any(key not in known or type(known[key]) is not type(new) or known[key] != new for key, new in metadata.items()):
            self.metadata = {**known, **metadata}

    async def store(self, commit: Commit) -> None:
        """Make a commit durable.

        Raises:
            SaveFailed: the database failed; `__cause__` says how. Or an earlier write failed that this one would build on.
            ThreadBusy, LeaseLost, ThreadDeleted, StaleLoad: as `Commit` says. LeaseLost too in a process that was forked from the run's.
        """
        if self.writes.lost is not None:
            raise self.writes.lost
        if not identity.is_this_process(self.holder):
            raise forked(self.thread, self.holder)
        self.taking = commit.lease == "take"  # until it is noted as held: Ctrl-C may come between any two lines
        try:
            await self.access.records.commit(commit)
        except BaseException as error:
            failure = not_saved(commit, error)
            # It may have been stored all the same: the connection broke before the answer came, or a cancellation or Ctrl-C arrived
            # after it. Then the lease is this run's to give back.
            if failure is None and isinstance(error, (PerdureError, StaleLoad)) and not isinstance(error, SaveFailed):
                self.taking = False
            elif commit.lease == "take":
                self.hold(True)
            if failure is not None:
                raise failure from error
            raise

    def hold(self, held: bool) -> None:
        """Note that the lease is held, or no longer."""
        if held != self.held:
            self.held = held
            self.access.keep(self.thread, self.token, self.epoch, held)

    def rest(self) -> None:
        """The run is suspended in the caller's hands: its lease is not renewed meanwhile."""
        if self.held:
            self.access.keep(self.thread, self.token, self.epoch, False)

    def wake(self) -> None:
        """The run goes on."""
        if self.held and identity.is_this_process(self.holder):
            self.access.keep(self.thread, self.token, self.epoch, True)

    def begin_write(self, commit: Commit) -> None:
        """Start making a commit durable, after the one before it."""
        self.in_flight.append(self.runner.start(lambda: self.store(commit), commit))

    async def settle_before(self, commit: Commit) -> None:
        """`settle`, before a commit that comes next. What it holds is nowhere else, so if the waiting is cancelled, it follows by itself."""
        before = list(self.in_flight)

        async def follow() -> None:
            for write in before:
                await self._landing(write)
            await self.store(commit)

        try:
            await self.settle()
        except Exception:
            raise
        except BaseException:
            self.in_flight.append(self.runner.start(follow, commit))
            raise

    async def settle(self) -> None:
        """Wait until the writes in flight are durable; raise what they raised. Nothing is stored after one has failed.

        There are several only where subgraphs run side by side; each of them waits for all. A cancelled waiting leaves a write in
        flight: it goes on, and is waited for again.

        Raises:
            InvalidCall: sync code has stopped the loop that makes such a write.
        """
        while first := self.in_flight[:1]:
            try:
                await self._landing(first[0])
            except LoopIsBlocked as error:
                raise InvalidCall(str(error), thread=self.thread) from None
            except Exception as error:
                self.lose(error)
                self._landed(first[0])
                raise
            self._landed(first[0])

    async def _landing(self, write: InFlight) -> None:
        await self.runner.landing(write, self.store)

    async def _settle_at_last(self) -> None:
        """`settle`, even for a task that is cancelled over and over: what is in flight needs the lease that is given back next."""
        late = self.access.clock.monotonic() + LAST_PATIENCE
        stopped: BaseException | None = None
        while self.in_flight:
            try:
                await self.settle()
            except BaseException as error:
                # Told by name, for asyncio may never have been loaded.
                if type(error).__name__ != "CancelledError" or self.access.clock.monotonic() >= late:
                    raise
                stopped = error
        if stopped is not None:
            raise stopped

    def _landed(self, write: InFlight) -> None:
        try:
            self.in_flight.remove(write)
        except ValueError:
            pass  # somebody else waited for it too

    async def let_go(self, status: Status) -> None:
        """Give the lease back, if it is still held and the database still answers.

        Raises:
            SaveFailed, LeaseLost, ThreadDeleted: a write was still in flight, of a run that was stopped early, and it failed.
        """
        if not (self.held or self.taking):
            return
        try:
            await self._settle_at_last()
        finally:
            try:
                if identity.is_this_process(self.holder):
                    await self._give_back(status)
            finally:
                self.hold(False)

    async def _give_back(self, status: Status) -> None:
        try:
            now_ns = self.access.clock.now_ns()
            run = None if self.record is None else self.record.row(self.epoch, status, now_ns)
            await self.access.records.release(self.thread, self.token, self.epoch, status, run)
        except Exception:  # noqa: BLE001 - the first error is the one to report; this saver waits for nobody, others for the lease to run out
            self.access.watch.left_behind(self.thread, self.token, self.epoch)
