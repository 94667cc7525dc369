"""What is stored, as values: the rows of a thread, and the one conditional write that adds to them.

Backends translate these to their tables, documents or dictionaries and back; they decide nothing. Numbers `n` are the thread's
own sequence: the run that holds the lease hands them out, so a row's key is known before it is written, rows of one thread lie
together, and a later row has a larger number. Rows are immutable but for those that say otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

from perdure.checkpoint.addresses import BranchName as BranchName  # noqa: PLC0414 - imported from here by everybody
from perdure.checkpoint.addresses import BranchRow as BranchRow  # noqa: PLC0414 - imported from here by everybody
from perdure.checkpoint.addresses import Have as Have  # noqa: PLC0414 - imported from here by everybody
from perdure.checkpoint.incremental.manifest import Manifest
from perdure.checkpoint.index.records import IndexPort, RunRow
from perdure.checkpoint.survey import Removal, Surveyed
from perdure.errors import CorruptRecord

if TYPE_CHECKING:
    from perdure.checkpoint.heads import Head

Source = Literal["input", "loop", "update", "fork"]
Status = Literal["idle", "busy", "interrupted", "error"]

ROOT_NS = 0
"""The number of the root namespace."""

INLINE_LIMIT = 256
"""Encoded values up to this many bytes ride in the row that sets them: a row of its own costs more than it saves."""

FULL_EVERY = 64
"""After so many checkpoints a row carries every channel's entry again, which bounds the reads of one state."""

# Kinds of write rows. Negative kinds may be replaced, the others are written once.
RESULT = 0
ERROR = -1
PAUSES = -3
ANSWERS = -4


class Packed(NamedTuple):
    """An encoded value: the serializer's type tag and the bytes."""

    tag: str
    data: bytes


class Entry(NamedTuple):
    """Where the value of a channel is, as of some checkpoint.

    `version` is the number of the checkpoint that set it. Either `packed` holds the value itself, or `ref` is the number of the
    value row that does, or `parts` says which stored parts it is made of.
    """

    version: int
    packed: Packed | None
    ref: int | None = None
    parts: Manifest | Record | None = None

    def closed(self) -> Entry:
        """The same value, without numbers kept for appending to it: what another branch may share."""
        parts = self.parts
        return self._replace(parts=parts.closed()) if isinstance(parts, Manifest) and parts.end else self


class Pending(NamedTuple):
    """A task that may run at a checkpoint.

    `path` is a node's name (a triggered node), `#i` for the i-th pending Send, `#i-j` for all of those from i to j, or `=node` for
    an edit made in a node's name. `origin` is the number of the checkpoint where it was triggered: results, pauses and children
    of the task are filed under (origin, path), so that an edit that leaves the task open keeps them, and a fork, whose origin is
    new, does not.
    """

    path: str
    origin: int
    triggers: tuple[str, ...] = ()


@dataclass(slots=True)
class CheckpointRow:
    """One checkpoint: what changed against its parent. What it says never changes; retention lets it say so on other ancestors.

    Attributes:
        n: its number.
        ns: number of its namespace.
        id: its public id.
        parent: number of its parent, None for the first.
        base: number of the nearest full row among itself and its ancestors.
        step: the super-step.
        source: what made it.
        changes: entries of the channels that it set; None for a channel that it emptied. In a full row: of all channels.
        full: `changes` hold all channels.
        frontier: the tasks that may run next, Sends first.
        ran: the tasks whose results it holds, with the node's name as the one trigger.
        joins: per join, the sources that have arrived; in every row, as there are few.
        deferred: (node, origin) of deferred nodes and joins that wait for everything else to end.
        memories: newest checkpoints of the subgraphs that remember from one call to the next, by namespace, as of this one.
        metadata: what the user and the config attached.
        extra: what the public `put` brought that has no place above.
    """

    n: int
    ns: int
    id: str
    parent: int | None
    base: int
    step: int
    source: str
    changes: dict[str, Entry | None]
    full: bool = False
    frontier: tuple[Pending, ...] = ()
    ran: tuple[Pending, ...] = ()
    joins: dict[str, tuple[str, ...]] = field(default_factory=dict)
    deferred: tuple[Pending, ...] = ()
    metadata: dict[str, Any] = field(default_factory=dict)
    extra: dict[str, Any] | None = None
    memories: dict[str, int] = field(default_factory=dict)


class ValueRow(NamedTuple):
    """A value too large to ride along: immutable bytes under a number."""

    n: int
    packed: Packed


class WriteItem(NamedTuple):
    """One write of a task: to a channel, a value (or the number of the value row that holds it, or the elements it is made of)."""

    channel: str
    packed: Packed | None
    ref: int | None = None
    parts: Manifest | None = None


class Record(NamedTuple):
    """A dict whose values are stored each for itself: an input, whose parts are also the first values of channels."""

    items: tuple[WriteItem, ...]


@dataclass(slots=True)
class WriteRow:
    """What a task left behind: its result, its error, its open pauses or its answers, by `kind`.

    A row of kind RESULT is the first result and is never replaced; the other kinds are. Rows that came through the public
    `put_writes` have a path that starts with "!" and keep `task_path` and `task_id` in it.
    """

    ns: int
    origin: int
    path: str
    kind: int
    items: tuple[WriteItem, ...]


class ChildRow(NamedTuple):
    """Points from a task to the newest checkpoint of a subgraph that it runs. Replaced as the child goes on."""

    ns: int
    origin: int
    path: str
    call: int
    child_ns: int
    head: int


@dataclass(slots=True)
class Holder:
    """Who holds a lease, as far as others can check: enough to tell a dead process on this machine from a living one.

    `lease_ns` is how long its leases last; 0: it did not say.
    """

    run_id: str
    host: str
    boot: str
    pid: int
    started: str
    since_ns: int
    lease_ns: int = 0


class LeaseMark(NamedTuple):
    """Which lease, and as of which renewal: every commit and every renewal of its holder makes it another one."""

    token: str
    epoch: int
    expires_ns: int


@dataclass(slots=True)
class LeaseRow:
    """The right to write to a thread.

    Attributes:
        token: the holder's secret; None: nobody holds it.
        epoch: grows with each taking; a holder with an older one is refused.
        expires_ns: when it runs out, by the database's clock. Changes with every commit and renewal, and says nothing to other clocks.
        holder: who.
        expired: it had run out when it was read, by the database's clock.
    """

    token: str | None = None
    epoch: int = 0
    expires_ns: int = 0
    holder: Holder | None = None
    expired: bool = False

    @property
    def mark(self) -> LeaseMark | None:
        """What tells it from the same lease after a renewal; None if nobody holds it."""
        return None if self.token is None else LeaseMark(self.token, self.epoch, self.expires_ns)


@dataclass(slots=True)
class ThreadRow:
    """A thread. `head`, `next_n` and the lease change at every commit, the rest at start, pause, end and edit only.

    Attributes:
        thread: its id.
        key: the backend's own short key for it, None before it is stored.
        incarnation: 1, and one more for each time the id was deleted and used again.
        head: number of the newest checkpoint of the root's current branch; None before the first.
        next_n: the first free number.
        newest: ticks of its newest checkpoint id, in any namespace.
        lease: who may write.
        status, graph, fingerprint, metadata, created_ns, updated_ns: what an index of threads lists.
    """

    thread: str
    key: Any = None
    incarnation: int = 1
    head: int | None = None
    next_n: int = 1
    newest: int = 0
    lease: LeaseRow = field(default_factory=LeaseRow)
    status: Status = "idle"
    graph: str = ""
    fingerprint: str = ""
    metadata: dict[str, Any] = field(default_factory=dict)
    created_ns: int = 0
    updated_ns: int = 0


class ThreadUpdate(NamedTuple):
    """Changes of the slow part of a thread's row."""

    status: Status
    graph: str | None = None
    fingerprint: str | None = None
    metadata: dict[str, Any] | None = None


LeaseOp = Literal["take", "keep", "release", "once"]
"""take: begin to hold. keep: go on holding. release: write and let go. once: take and release in one write."""


@dataclass(slots=True)
class Commit:
    """One atomic write to one thread.

    It is refused as a whole, with nothing stored, unless its condition holds:

    * `take`, `once`: nobody holds the lease, or it has run out by the database's clock, or it is still exactly `over`, else
      ThreadBusy; and the thread's head, incarnation and first free number are still `expect_head`, `incarnation` and `first_n`, else
      StaleLoad, upon which the caller loads again. A thread that does not exist is created; if it was deleted before, `incarnation`
      must be that of the tombstone plus one. `take` raises the epoch by one: the holder's epoch is then `epoch`, which the caller
      knows beforehand from what it loaded.
    * `keep`, `release`: token and epoch are still the holder's, else LeaseLost, or ThreadDeleted if the thread is gone.

    `take` and `keep` let the lease run out `lease_ns` after now by the database's clock. `now_ns` is the caller's clock and dates
    rows only: two callers may disagree on it by any amount. `over` is a lease whose holder the caller found dead or gone (see
    `checkpoint/leases/watch.py`); the store compares and judges nothing.

    `next_n` and `newest` only ever grow: branches that run at the same time may commit in any order.
    """

    thread: str
    incarnation: int
    lease: LeaseOp
    token: str | None
    epoch: int
    expect_head: int | None
    now_ns: int
    lease_ns: int
    holder: Holder | None = None
    over: LeaseMark | None = None
    first_n: int = 1
    next_n: int = 1
    newest: int = 0
    head: int | None = None
    """The new head of the root; None leaves it."""
    checkpoints: Sequence[CheckpointRow] = ()
    values: Sequence[ValueRow] = ()
    writes: Sequence[WriteRow] = ()
    namespaces: Sequence[tuple[int, str]] = ()
    children: Sequence[ChildRow] = ()
    branches: Sequence[BranchRow] = ()
    update: ThreadUpdate | None = None
    replaced: Sequence[CheckpointRow] = ()
    """Checkpoints that say the same on other rows, since some of their ancestors go. Retention only, as is `removed`."""
    removed: Removal | None = None
    run: RunRow | None = None
    """Replaces what was recorded of its run; with `take` and `once`, records that lie `RUNS_KEPT` epochs behind go."""
    landing: Any = field(default=None, compare=False, repr=False)
    """A future that ends when it is durable, even if the event loop stands still. Set by a store with a thread of its own."""

    def is_begun(self, landing: Any) -> None:
        """A thread of the store makes it durable: see `landing`."""
        self.landing = landing


@dataclass(slots=True)
class Loaded:
    """A checkpoint with all that belongs to it, read in one go.

    Attributes:
        thread: the thread's row.
        row: the checkpoint; None: the thread exists, the checkpoint (or any in that namespace) does not.
        chain: rows from the base of `row` to it, oldest first, `row` last.
        writes: write rows of the tasks in its frontier, of its deferred ones and of those that made it, and those of public
            `put_writes` on it.
        children: child pointers of these tasks.
        values: the value rows that its entries and `writes` refer to, by number.
        ids: public ids of its parent and of the origins in its frontier, by number.
        namespaces: the names of the namespaces of its children, by number, and of its own.
        is_newest: nothing in its namespace is newer. Told by `load` only, and only where a value of it has numbers kept for
            appending (`Manifest.free`), for that is who may use them.
        spared: the value rows that only channels of `Have` refer to were left out.
        head: whoever asked with `Have` puts here what it has.
    """

    thread: ThreadRow
    row: CheckpointRow | None
    chain: list[CheckpointRow] = field(default_factory=list)
    writes: list[WriteRow] = field(default_factory=list)
    children: list[ChildRow] = field(default_factory=list)
    values: dict[int, Packed] = field(default_factory=dict)
    ids: dict[int, str] = field(default_factory=dict)
    namespaces: dict[int, str] = field(default_factory=dict)
    is_newest: bool = False
    spared: bool = False
    head: Head | None = None

    def name_of(self, ns: int) -> str:
        """The name of a namespace.

        Raises:
            CorruptRecord: it is not stored.
        """
        try:
            return self.namespaces[ns]
        except KeyError:
            thread = self.thread.thread
            raise CorruptRecord(f"namespace {ns} of thread {thread!r} has no name: its row is missing", thread=thread) from None


class StaleLoad(Exception):
    """The thread moved on between load and commit. Internal: whoever gets it loads again and decides anew."""


class RecordStore(IndexPort, Surveyed, Protocol):
    """The port to a database: each call is one transaction there. Every backend implements it, for blocking and for suspending
    callers (one class over two connections).
    """

    async def load(
        self,
        thread: str,
        namespace: str | int,
        checkpoint: str | int | BranchName | None,
        *,
        within: int | None = None,
        have: Have | None = None,
    ) -> Loaded:
        """The checkpoint with that id (text) or number, or else the newest of the namespace; for the root the thread's head.

        Args:
            thread: the thread's id.
            namespace: its name or number.
            checkpoint: which; None for the head (root) or the newest (others); the name of a branch for its tip.
            within: with None as `checkpoint`: the newest whose number is at most this.
            have: what the caller has already. If it is of this checkpoint and incarnation, the value rows that nothing but these
                channels' entries refers to may be left out, and then `spared` says so. Else it makes no difference.

        Returns:
            Its `row` is None if there is no such checkpoint. If there is no such thread, its thread row has no `key`, and the
            incarnation that a new thread of that id will have.
        """
        ...

    async def several(self, thread: str, places: Sequence[tuple[int, int]]) -> list[Loaded]:
        """The checkpoints with these numbers (of namespace, of checkpoint), read in one go; those that do not exist are left out."""
        ...

    async def page(self, thread: str, namespace: str | int | None, *, before: int | None, limit: int) -> list[Loaded]:
        """Up to `limit` checkpoints, newest first, of one namespace or of all (None), with numbers below `before`."""
        ...

    async def number_of(self, thread: str, checkpoint: str) -> int | None:
        """The number of the checkpoint with that id, in whatever namespace; None if there is none."""
        ...

    async def pointer_to(self, thread: str, namespace: int, n: int) -> ChildRow | None:
        """Which task's subgraph reached checkpoint `n` of a namespace: the pointer to it with the lowest head from `n` on."""
        ...

    async def branches(self, thread: str) -> dict[str, str]:
        """The named branches of a thread, by name: the ids of the checkpoints at their tips."""
        ...

    async def made_of(self, thread: str, checkpoint: str) -> list[tuple[str, str]]:
        """(namespace, id) of the checkpoints whose parent is the one with that id, oldest first."""
        ...

    async def commit(self, commit: Commit) -> None:
        """Store it all, or raise and store nothing. Once asked for, it is carried out even if the caller is cancelled while it waits:
        what it holds is nowhere else.

        Raises:
            ThreadBusy, LeaseLost, ThreadDeleted, StaleLoad: its condition does not hold (see `Commit`).
        """
        ...

    async def renew(self, leases: list[tuple[str, str, int]], lease_ns: int) -> None:
        """Let the given (thread, token, epoch) leases run out `lease_ns` after now, by the database's clock; those that were lost are
        passed over.
        """
        ...

    async def release(self, thread: str, token: str, epoch: int, status: Status, run: RunRow | None = None) -> None:
        """Give a lease back outside of a commit, if still held, with its run's record; carried out even if the caller is cancelled."""
        ...

    async def delete(self, thread: str) -> None:
        """Remove every row of the thread and leave a tombstone that does not contain its id."""
        ...

    async def close(self) -> None:
        """Release the connection; further calls raise SaverClosed."""
        ...
