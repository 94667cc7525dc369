"""Editing a thread's state from outside, as if a node had written it. Written once for both colours.

An edit makes one new checkpoint on the one it addresses, which stays as it was. It says in whose name it writes: that node's edges
decide what runs next. Without a name it is the node that ran last; then the edges are evaluated anew, but tasks that have an open
question or a stored result stay as they are (P22). With a name, only that node's own task closes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from perdure.checkpoint.records import ROOT_NS, Loaded, StaleLoad
from perdure.constants import CONF, COPY, END, INPUT, START
from perdure.engine import returns
from perdure.engine.entering import entry_value
from perdure.engine.history import subgraph_at
from perdure.engine.journal import Journal
from perdure.engine.live import Live
from perdure.engine.plan import tasks_of
from perdure.engine.restore import Restored
from perdure.engine.run import Run
from perdure.engine.session import Session
from perdure.engine.snapshot import address_of
from perdure.engine.task import Entry, Task
from perdure.errors import InvalidUpdateError, UnknownCheckpoint
from perdure.types import RunnableConfig, StateUpdate

if TYPE_CHECKING:
    from perdure.engine.compiled import CompiledGraph
    from perdure.engine.ports import Runner
    from perdure.engine.session import Access

Kept = tuple[dict[str, tuple[int, tuple[str, ...]]], dict[int, int], Sequence[Any], dict[str, tuple[int, tuple[str, ...]]]]
"""Open tasks that an edit leaves as they are: nodes, Sends with the list that they are positions of, deferred nodes."""


class Edits:
    """Edits the threads of one graph.

    Args:
        graph: the graph.
        access: the way to the thread.
        runner: calls the path functions of conditional edges.
    """

    __slots__ = ("_access", "_graph", "_runner")

    def __init__(self, graph: CompiledGraph, access: Access, runner: Runner) -> None:
        self._graph = graph
        self._access = access
        self._runner = runner

    async def bulk(self, config: RunnableConfig, supersteps: Sequence[Sequence[StateUpdate]]) -> RunnableConfig:
        """Make one checkpoint for each super-step of edits, all in one commit; return the config of the last.

        Raises:
            ValueError: there is nothing to do.
            InvalidUpdateError, UnknownKey: an edit cannot be made; nothing is stored.
            ThreadBusy: a run holds the thread.
            UnknownCheckpoint: the config names a checkpoint that the thread does not have.
        """
        if not supersteps:
            raise ValueError("No supersteps provided: give at least one list of updates")
        if any(not updates for updates in supersteps):
            raise ValueError("No updates provided: each super-step needs at least one update")
        while True:
            try:
                return await self._once(config, supersteps)
            except StaleLoad:
                continue

    async def _once(self, config: RunnableConfig, supersteps: Sequence[Sequence[StateUpdate]]) -> RunnableConfig:
        conf = config.get(CONF) or {}
        namespace = conf.get("checkpoint_ns") or ""
        wanted = conf.get("checkpoint_id") or None
        inner = subgraph_at(self._graph, namespace)
        loaded = await self._access.records.load(self._access.thread, namespace or ROOT_NS, wanted)
        if loaded.row is None and (wanted is not None or namespace):
            raise UnknownCheckpoint(
                f"thread {self._access.thread!r} has no checkpoint {wanted or '(any)'!r} in namespace {namespace!r}",
                thread=self._access.thread,
                checkpoint=wanted,
            )
        session = Session(self._access, loaded, self._runner, (self._graph.program.name, self._graph.program.fingerprint))
        session.refuse_if_busy()
        run = Run(inner.program, config, self._runner, namespace=namespace)
        restored = self._open(run, session, loaded, await self._place_of(namespace, loaded))
        # A checkpoint that the thread has left behind is branched off: its tasks start afresh, for their results belong to the old branch.
        forks = not namespace and loaded.row is not None and loaded.row.n != loaded.thread.head
        for updates in supersteps:
            await self._superstep(run, restored, [StateUpdate(*update) for update in updates], forks=forks)
            restored = None
            forks = False
        journal = run.journal
        row = None if journal is None else journal.row
        if journal is None or row is None:
            raise InvalidUpdateError("the edit made no checkpoint")
        waits = bool(row.frontier) and loaded.thread.status == "interrupted"
        if journal.child_of is None:
            await journal.flush("interrupted" if waits else "idle")
        else:
            await journal.flush_once("interrupted" if waits else loaded.thread.status)
        return address_of(self._access.thread, namespace, row.id)

    async def _place_of(self, namespace: str, loaded: Loaded) -> tuple[int, int, str, int] | None:
        """Where the parent keeps its pointer to the namespace that is edited."""
        if not namespace or loaded.row is None:
            return None
        above = await self._access.records.load(self._access.thread, ROOT_NS, None)
        pointers: list[Loaded] = [above]
        while pointers:
            level = pointers.pop()
            for child in level.children:
                if child.child_ns == loaded.row.ns:
                    return (child.ns, child.origin, child.path, child.call)
                pointers.append(await self._access.records.load(self._access.thread, child.child_ns, child.head))
        return (ROOT_NS, 0, f"={namespace}", 0)

    def _open(self, run: Run, session: Session, loaded: Loaded, place: tuple[int, int, str, int] | None) -> Restored | None:
        if loaded.row is None:
            run.live = Live(run.program)
            run.live.step = -1
            run.journal = Journal(session, ROOT_NS, "")
            return None
        restored = Restored(run.program, loaded, session.serde)
        run.live = restored.live
        run.live.ran = tuple(dict.fromkeys(task.triggers[0] for task in restored.row.ran if task.triggers))
        run.journal = Journal(
            session,
            loaded.row.ns,
            run.namespace,
            row=restored.row,
            entries=restored.entries,
            chain=len(loaded.chain),
            ids=restored.ids,
            stored=restored,
            child_of=place,
        )
        return restored

    async def _superstep(self, run: Run, restored: Restored | None, updates: list[StateUpdate], *, forks: bool) -> None:
        program = run.program
        special = {END, INPUT, COPY}
        if len(updates) > 1:
            for update in updates:
                if update.as_node is None:
                    raise InvalidUpdateError("as_node is required when applying multiple updates to one super-step")
                if update.as_node in special:
                    raise InvalidUpdateError(f"as_node={update.as_node!r} must be the only update of its super-step")
        first = updates[0]
        if first.as_node in special:
            await self._special(run, restored, first)
            return
        inferred = first.as_node is None
        names = [update.as_node or self._infer(run) for update in updates]
        tasks: list[Task] = []
        live = run.live
        live.step += 1
        journal = run.journal
        assert journal is not None
        identity = journal.session.numbers.checkpoint(live.step)
        for name, update in zip(names, updates, strict=True):
            tasks.append(await self._written(run, name, update, identity[0]))
        kept = self._kept(run, None if forks else restored, names, inferred=inferred, task=first.task_id)
        if forks:
            kept = _renewed(kept, identity[0])
        for task in tasks:
            task.stored = True
        changed = live.advance(tasks, identity[0])
        self._put_back(live, kept)
        if program.validate_state is not None:
            program.validate_state(live.view, frozenset(changed))
        ran = tuple(
            journal.edit(name, identity[0], [w for w in task.writes or () if w[0] in program.channels])
            for name, task in zip(names, tasks, strict=True)
        )
        journal.checkpoint(live, "update", changed, identity=identity, ran=ran, metadata=run.metadata)
        live.ran = tuple(dict.fromkeys(names))

    async def _written(self, run: Run, name: str, update: StateUpdate, number: int) -> Task:
        """What a node would have written, and where its edges would lead."""
        program = run.program
        node = program.start if name == START else program.nodes.get(name)
        if node is None:
            raise InvalidUpdateError(
                str(returns.unknown_node(program, f"Node {name} does not exist: the edit is made as", name)), node=name
            )
        writes = returns.updates_of(program, name, update.values)
        task: Task = Entry(run, number, update.values if program.root else dict(writes))
        task.node = node
        if node.branches:
            await self._runner.run_one(task)
            if task.error is not None:
                raise task.error
        task.writes = task.writes if node.branches and task.writes is not None else writes
        return task

    def _infer(self, run: Run) -> str:
        live = run.live
        journal = run.journal
        if journal is None or journal.row is None or not live.ran:
            return START
        if len(live.ran) > 1:
            raise InvalidUpdateError(
                f"Ambiguous update, specify as_node: the last super-step ran {', '.join(map(repr, live.ran))}; say in whose name to write"
            )
        return live.ran[0]

    def _kept(self, run: Run, restored: Restored | None, names: list[str], *, inferred: bool, task: str | None) -> Kept:
        """The open tasks that the edit leaves as they are: nodes, sends with their list, deferred ones."""
        live = run.live
        nodes = dict(live.fired)
        sends = dict(live.open_sends)
        if inferred:
            if restored is None:
                return {}, {}, (), dict(live.deferred)
            started = {
                (path, origin)
                for path, origin in restored.paths(handlers=False)
                if restored.result(origin, path) is not None or restored.asked(origin, path)
            }
            nodes = {name: what for name, what in nodes.items() if (name, what[0]) in started}
            sends = {index: origin for index, origin in sends.items() if (f"#{index}", origin) in started}
            return nodes, sends, live.sends, dict(live.deferred)
        for name in names:
            nodes.pop(name, None)
            closing = next(
                (
                    int(candidate.path[1:])
                    for candidate in tasks_of(run)
                    if candidate.send is not None and candidate.node.name == name and (task is None or candidate.id == task)
                ),
                None,
            )
            if closing is not None:
                sends.pop(closing, None)
        return nodes, sends, live.sends, dict(live.deferred)

    def _put_back(self, live: Live, kept: Kept) -> None:
        nodes, sends, listed, deferred = kept
        live.fired = {**live.fired, **nodes}
        if sends:
            fresh = list(live.sends)
            number = next(iter(live.open_sends.values()), 0)
            live.sends = [*listed, *fresh]
            live.open_sends = {**sends, **{len(listed) + at: number for at in range(len(fresh))}}
        for name, what in deferred.items():
            if name not in live.fired:
                live.deferred.setdefault(name, what)

    async def _special(self, run: Run, restored: Restored | None, update: StateUpdate) -> None:
        live = run.live
        journal = run.journal
        assert journal is not None
        if update.as_node == END:
            if update.values is not None:
                raise InvalidUpdateError("as_node=END clears what was to run next and takes no values")
            done = [] if restored is None else _finished(run, restored)
            live.step += 1
            identity = journal.session.numbers.checkpoint(live.step)
            changed = live.advance(done, identity[0])
            live.drop_open()
            journal.checkpoint(live, "update", changed, identity=identity, metadata=run.metadata)
            return
        if update.as_node == INPUT:
            value = entry_value(run, update.values)
            live.drop_open()
            live.step += 1 if journal.row is not None else 0
            journal.checkpoint(live, "input", (), given=value, start=True, metadata=run.metadata)
            return
        if restored is None:
            raise InvalidUpdateError("as_node='__copy__' copies a checkpoint, but the thread has none")
        self._copy(run, restored)

    def _copy(self, run: Run, restored: Restored) -> None:
        """The same state once more, as a sibling of the checkpoint, with tasks of its own."""
        live = run.live
        journal = run.journal
        assert journal is not None
        live.step += 1
        identity = journal.session.numbers.checkpoint(live.step)
        number = identity[0]
        live.fired = {name: (number, triggers) for name, (_, triggers) in live.fired.items()}
        live.deferred = {name: (number, triggers) for name, (_, triggers) in live.deferred.items()}
        live.open_sends = dict.fromkeys(live.open_sends, number)
        kept = restored.given
        row = journal.checkpoint(live, "fork", (), identity=identity, given=kept, start=restored.enters)
        row.parent, row.full, row.base, row.changes = restored.row.parent, True, row.n, dict(journal.entries)


def _renewed(kept: Kept, number: int) -> Kept:
    """The same tasks, as if they had been triggered at checkpoint `number`: with ids of their own, and no results."""
    nodes, sends, listed, deferred = kept
    return (
        {name: (number, triggers) for name, (_, triggers) in nodes.items()},
        dict.fromkeys(sends, number),
        listed,
        {name: (number, triggers) for name, (_, triggers) in deferred.items()},
    )


def _finished(run: Run, restored: Restored) -> list[Task]:
    tasks = tasks_of(run)
    for task in tasks:
        task.writes = restored.result(task.origin, task.path)
    return [task for task in tasks if task.writes is not None]
