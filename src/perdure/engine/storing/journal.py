"""From what happened in a run to the rows that say so, and the commits that store them.

A `Journal` keeps the books of one graph in a thread (the root, or a subgraph in a namespace of its own): it encodes values as
they come, stages rows, and flushes them as one commit. Encoding happens before anything is staged, so a value that cannot be
stored leaves no half-written step.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal

from perdure.channels.base import MISSING
from perdure.checkpoint.heads import Head
from perdure.checkpoint.incremental.manifest import is_within
from perdure.checkpoint.pauses import stored
from perdure.checkpoint.reading import spans_of
from perdure.checkpoint.records import (
    ANSWERS,
    ERROR,
    FULL_EVERY,
    PAUSES,
    RESULT,
    ROOT_NS,
    BranchRow,
    CheckpointRow,
    ChildRow,
    Entry,
    LeaseOp,
    Pending,
    Status,
    ValueRow,
    WriteItem,
    WriteRow,
)
from perdure.constants import CANCELLED, ERROR_SOURCE_NODE, MEMORIES, START, TASKS
from perdure.engine.deciding import frontier, returns
from perdure.engine.storing.encoding import NULL, Encoding
from perdure.errors import LeaseLost
from perdure.failpoints import failpoint

if TYPE_CHECKING:
    from perdure.checkpoint.incremental.writer import ValueWriter
    from perdure.checkpoint.records import Commit
    from perdure.engine.deciding.live import Live
    from perdure.engine.storing.restore import Restored
    from perdure.engine.storing.session import Session
    from perdure.engine.tasks.task import Task

CHAIN_SPAN = 512
"""A chain of rows is also cut when it spans this many numbers, so that reading it never scans a long foreign branch."""

EMPTY: dict[str, Any] = {}
"""What rows have in common that have nothing to say: what a row says never changes."""

Ending = Literal["idle", "interrupted", "error"]


class Journal:
    """The books of one graph in a thread.

    Attributes:
        session: the hold on the thread.
        ns: number of the namespace.
        namespace: its name, "" for the root.
        row: the newest checkpoint, staged or stored.
        ids: public ids by number, as far as they are needed for task ids.
        child_of: for a subgraph: where its parent keeps the pointer to it (ns, origin, path, call).
        remembers: it is of a subgraph whose memory lasts from one call to the next.
        branch: name of the branch that moves with it, if it is the root's.
        durability: when its commits are waited for.
    """

    __slots__ = (
        "_adopted",
        "_batch_children",
        "_batch_names",
        "_branches",
        "_chain",
        "_checkpoints",
        "_encoding",
        "_values",
        "_writes",
        "branch",
        "child_of",
        "durability",
        "entries",
        "ids",
        "namespace",
        "ns",
        "remembers",
        "row",
        "session",
        "stored_row",
    )

    def __init__(
        self,
        session: Session,
        ns: int,
        namespace: str,
        *,
        row: CheckpointRow | None = None,
        entries: dict[str, Entry] | None = None,
        chain: int = 0,
        ids: dict[int, str] | None = None,
        child_of: tuple[int, int, str, int] | None = None,
        new: bool = False,
        stored: Restored | None = None,
    ) -> None:
        self.session = session
        self.ns = ns
        self.namespace = namespace
        self.row = row
        self.stored_row = row
        self.entries = entries if entries is not None else {}
        self.ids = ids if ids is not None else {}
        self.child_of = child_of
        self.remembers = False
        self.branch: str | None = None
        self.durability = session.durability
        self._chain = chain
        if row is not None:
            self.ids[row.n] = row.id
        self._batch_names: list[tuple[int, str]] = [(ns, namespace)] if new else []
        self._batch_children: list[ChildRow] = []
        self._checkpoints: list[CheckpointRow] = []
        self._adopted: list[CheckpointRow] = []
        self._values: list[ValueRow] = []
        self._writes: list[WriteRow] = []
        self._encoding = Encoding(session)
        self._branches = row is not None and (stored is None or not stored.loaded.is_newest)
        if stored is not None:
            self._encoding.writer.remember(self.entries, stored.loaded.values, {})
            self._encoding.writer.adopt(stored.trackers)

    @property
    def values(self) -> ValueWriter:
        """What makes rows of values."""
        return self._encoding.writer

    # -- staging ----------------------------------------------------------------------------------------------------------

    def result(self, task: Task) -> None:
        """Stage a task's result.

        Raises:
            NotStorable: one of its writes cannot be stored; nothing was staged.
        """
        row = WriteRow(self.ns, task.origin, task.path, RESULT, ())
        writes = returns.stored_writes(task.run.program, task.writes or ())
        self._encoding.writes(row, [*writes, (MEMORIES, dict(task.memories))] if task.memories else writes, task)
        self._writes.append(row)
        task.stored = True

    def pauses(self, task: Task) -> None:
        """Stage a task's questions, with what later entries need to know them again."""
        asked = [(one.question.id, stored(one)) for one in task.questions.all()]
        items = self._encoding.items(asked, f"question of node {task.node.name!r}")
        self._writes.append(WriteRow(self.ns, task.origin, task.path, PAUSES, items))

    def answers(self, origin: int, path: str, answers: Mapping[str, Any]) -> None:
        """Stage all answers that a task has so far, by pause id."""
        items = self._encoding.items(answers.items(), "resume")
        self._writes.append(WriteRow(self.ns, origin, path, ANSWERS, items))

    def error(self, task: Task) -> None:
        """Stage why a task failed, or that it was cancelled."""
        if task.recorded:
            return
        if task.cancelled:
            items: tuple[WriteItem, ...] = (WriteItem(CANCELLED, NULL),)
        else:
            said = [("error", task.error), (ERROR_SOURCE_NODE, task.node.name)]
            items = self._encoding.items(said if task.handled is not None else said[:1], "error")
        self._writes.append(WriteRow(self.ns, task.origin, task.path, ERROR, items))

    def edit(self, name: str, n: int, writes: Iterable[tuple[str, Any]]) -> Pending:
        """Stage the values of an edit made in the name of a node, on the checkpoint that it makes."""
        path = f"={name}"
        row = WriteRow(self.ns, n, path, RESULT, ())
        self._encoding.writes(row, writes, f"update as {name!r}")
        self._writes.append(row)
        return Pending(path, n, (name,))

    def checkpoint(
        self,
        live: Live,
        source: str,
        changed: Iterable[str],
        *,
        identity: tuple[int, str] | None = None,
        ran: tuple[Pending, ...] = (),
        metadata: Mapping[str, Any] | None = None,
        given: Any = MISSING,
        start: bool = False,
    ) -> CheckpointRow:
        """Stage a checkpoint of the live state.

        Args:
            live: the state.
            source: what made it.
            changed: keys whose values may differ from the parent's.
            identity: its number and id, where they were needed before.
            ran: the tasks whose results it holds.
            metadata: what to keep with it.
            given: the input, which is kept until its super-step has been applied.
            start: the entry is to run next.

        Raises:
            NotStorable: a value cannot be stored; nothing was staged.
        """
        session = self.session
        parent = self.row
        n, public = identity or session.numbers.checkpoint(live.step)
        entries = self.entries
        # Numbers that are kept for appending to a value belong to the one branch that goes on from where they were taken.
        go_on = session.numbers.follows(self.ns, n, None if parent is None else parent.n) and not self._branches
        changes: dict[str, Entry | None] = {} if go_on else _closed(entries)
        pending = frontier.of_live(live, n)
        if start:
            pending = (Pending(START, n), *pending)
        row = CheckpointRow(
            n,
            self.ns,
            public,
            None if parent is None else parent.n,
            n,
            live.step,
            source,
            changes,
            False,
            pending,
            ran,
            {name: tuple(sorted(seen)) for name, seen in live.joins.items()} if live.joins else EMPTY,
            tuple(Pending(path, origin, why) for path, (origin, why) in live.deferred.items()) if live.deferred else (),
            dict(metadata) if metadata else EMPTY,
            None,
            live.memories.copy() if live.memories else EMPTY,
        )
        self._encode(row, live, changed, given, go_on=go_on)
        for key, entry in changes.items():
            if entry is None:
                entries.pop(key, None)
            else:
                entries[key] = entry
        self.ids[n] = public
        self._link(row, parent)
        self._checkpoints.append(row)
        self.row = row
        return row

    def _encode(self, row: CheckpointRow, live: Live, changed: Iterable[str], given: Any, *, go_on: bool) -> None:
        """Give a row its changes."""
        encoding, changes, entries, n = self._encoding, row.changes, self.entries, row.n
        encoding.writer.begin()
        if not go_on:
            encoding.writer.closed()
        encoding.state(live, n, changed, changes, go_on=go_on)
        if given is not MISSING:
            changes[START] = encoding.input(row, given, entries)
        elif START in entries:
            changes[START] = None
        if live.sends:
            sends = [returns.stored_send(live.program, send) for send in live.sends]
            changes[TASKS] = Entry(n, *encoding.form(sends, "state", TASKS))
        elif TASKS in entries:
            changes[TASKS] = None
        encoding.writer.end()
        self._branches = False

    def _link(self, row: CheckpointRow, parent: CheckpointRow | None) -> None:
        """Make the row a full one, or hang it on its parent's chain."""
        if parent is None or self._chain >= FULL_EVERY or row.n - parent.base > CHAIN_SPAN:
            row.full = True
            row.base = row.n
            row.changes = dict(self.entries)
            self._chain = 1
            return
        row.base = parent.base
        self._chain += 1

    def point(self, child: ChildRow) -> None:
        """Stage a pointer from a task to its subgraph's newest checkpoint."""
        self._batch_children.append(child)

    def adopt(self, row: CheckpointRow, namespace: str | None, pointer: ChildRow) -> None:
        """Stage a checkpoint of a subgraph's namespace (a new one, if named) and the pointer to it."""
        row.changes.update(_closed(row.changes))
        self.session.numbers.follows(row.ns, row.n, row.parent)
        self._adopted.append(row)
        self._batch_children.append(pointer)
        if namespace is not None:
            self._batch_names.append((row.ns, namespace))

    def adopt_journal(self, ended: Journal) -> None:
        """Stage all that is staged in the journal of a subgraph whose run has ended."""
        commit = self.session.commit_for("keep", None)
        ended.fill(commit)
        self._adopted.extend(commit.checkpoints)
        self._values.extend(commit.values)
        self._writes.extend(commit.writes)
        self._batch_names.extend(commit.namespaces)
        self._batch_children.extend(commit.children)

    def adopt_result(self, row: WriteRow, values: Iterable[ValueRow]) -> None:
        """Stage the result of a durable step. May be called from any thread."""
        self._values.extend(values)
        self._writes.append(row)

    def adopt_write(self, row: WriteRow) -> None:
        """Stage what a task left, as it is."""
        self._writes.append(row)

    def adopt_items(self, ns: int, origin: int, path: str, kind: int, items: Iterable[tuple[str, Any]]) -> None:
        """Stage questions or answers of a task, in whatever namespace."""
        self._writes.append(WriteRow(ns, origin, path, kind, self._encoding.items(items, "resume")))

    # -- flushing ---------------------------------------------------------------------------------------------------------

    @property
    def is_empty(self) -> bool:
        """Nothing is staged."""
        return not (self._checkpoints or self._writes or self._batch_children or self._adopted)

    def drop_history(self) -> None:
        """Keep of what is staged only the newest checkpoint, on top of the last stored one: durability "exit".

        An older one stays where a waiting task (a deferred one, one of a fork) was triggered: the task's identity is made from it.
        """
        if not self._checkpoints:
            return
        last = self._checkpoints[-1]
        last.full = True
        last.base = last.n
        last.changes = dict(self.entries)
        origins = {last.n, *(task.origin for tasks in (last.frontier, last.deferred) for task in tasks)}
        self._checkpoints = [row for row in self._checkpoints if row.n in origins]
        parent = None if self.stored_row is None else self.stored_row.n
        for row in self._checkpoints:
            row.parent, parent = parent, row.n
        self._writes = [row for row in self._writes if row.origin in origins or row.ns != self.ns]
        needed = spans_of([e for row in (*self._adopted, *self._checkpoints) for e in row.changes.values()], self._writes)
        self._values = [value for value in self._values if is_within(value.n, needed)]
        self._encoding.writer.drop({*map(id, self._checkpoints), *map(id, self._writes)}, needed)

    def fill(self, commit: Commit) -> None:
        """Move what is staged into a commit."""
        commit.checkpoints = [*self._adopted, *self._checkpoints] if self._adopted else self._checkpoints
        commit.values = [*self._values, *self._encoding.writer.taken()]
        commit.next_n = self.session.numbers.next_n
        commit.writes = self._writes
        commit.namespaces = self._batch_names
        commit.children = self._batch_children
        if self._checkpoints:
            head = self._checkpoints[-1].n
            if self.ns == ROOT_NS:
                commit.head = head
                if self.branch is not None:
                    commit.branches = (BranchRow(self.branch, head),)
            elif self.child_of is not None:
                self._batch_children.append(ChildRow(*self.child_of, self.ns, head))
            self.stored_row = self._checkpoints[-1]
        self._checkpoints, self._values, self._writes = [], [], []
        self._batch_names, self._batch_children, self._adopted = [], [], []

    async def flush(self, ending: Ending | None = None, *, force: bool = False) -> None:
        """Store what is staged as one commit; with `ending`, give the lease back in it.

        Args:
            ending: how the run ends; None: it goes on.
            force: store it under durability "exit" too.

        Under durability "async" the commit is only started, after the one before it has become durable. Under "exit" nothing but
        the lease is stored before the end, and of a subgraph that ended well nothing at all.

        Raises:
            SaveFailed, ThreadBusy, LeaseLost, ThreadDeleted, StaleLoad: see `Session.store`.
        """
        session = self.session
        is_root = self.child_of is None
        final = ending is not None and is_root
        if session.held and not final and self.is_empty:
            return
        if not session.held and not is_root:
            raise LeaseLost(
                f"the run around subgraph {self.namespace!r} of thread {session.thread!r} has ended; a node must wait for the subgraphs "
                "that it calls",
                thread=session.thread,
            )
        op: LeaseOp
        if session.held:
            op = "release" if final else "keep"
        else:
            op = "once" if final else "take"
        status: Status | None = ending if final else None if session.held else "busy"
        if self.durability == "exit" and not force:
            self.drop_history()
            if ending is None or (ending == "idle" and not is_root and not self.remembers):
                if not session.held:
                    await session.store(session.commit_for(op, status))
                    session.hold(True)
                return
        commit = session.commit_for(op, status)
        if status is None:
            session.tell(commit)
        self.fill(commit)
        failpoint("engine.commit.before")
        if self.durability != "async" or op != "keep":
            if session.writes.in_flight:
                await session.settle_before(commit)
            await session.store(commit)
        else:
            await session.settle_before(commit)
            session.begin_write(commit)
        if final or not session.held:
            session.hold(not final)
        if final:
            self._keep()
        failpoint("engine.commit.after")

    def _keep(self) -> None:
        """Have the saver remember the state that the run has come to, which is stored."""
        heads, row = self.session.access.heads, self.row
        if heads is None or row is None or not heads.limit:
            return
        head = Head(self.session.incarnation, row.id, self._encoding.writer.known(self.entries))
        heads.put(self.session.thread, "", head)
        if self.branch is not None:
            heads.put(self.session.thread, self.branch, head)


def _closed(entries: Mapping[str, Entry | None]) -> dict[str, Entry | None]:
    """Those of the entries that have numbers kept for appending, without these."""
    found = {key: entry.closed() for key, entry in entries.items() if entry is not None}
    return {key: entry for key, entry in found.items() if entry is not entries[key]}
