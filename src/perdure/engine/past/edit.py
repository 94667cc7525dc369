"""Editing a thread's state from outside, as if a node had written it. Written once for both colours.

An edit makes one new checkpoint on the one it addresses, which stays as it was. It says in whose name it writes: that node's edges
decide what runs next. Without a name it is the node that ran last; then the edges are evaluated anew, but tasks that have an open
question or a stored result stay as they are (P22). With a name, only that node's own task closes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from perdure.channels.base import MISSING
from perdure.checkpoint.index.inbox import open_questions
from perdure.checkpoint.records import ROOT_NS, Loaded, StaleLoad
from perdure.checkpoint.saving import begin
from perdure.constants import CONF, COPY, END, INPUT, START
from perdure.engine.deciding import returns
from perdure.engine.deciding.live import Live
from perdure.engine.deciding.plan import tasks_of
from perdure.engine.past.branches import branch_of, left_behind, unknown_branch
from perdure.engine.past.closing import closed_by, meant_by, now_called, started, without
from perdure.engine.past.edit_inside import InsideEdits
from perdure.engine.running.entering import entry_value, hand_in
from perdure.engine.running.run import Run
from perdure.engine.storing.journal import Journal
from perdure.engine.storing.restore import Restored
from perdure.engine.storing.session import Session
from perdure.engine.storing.snapshot import address_of
from perdure.engine.tasks.task import Entry, Task
from perdure.errors import InvalidArgument, InvalidUpdateError, UnknownCheckpoint
from perdure.runtime.config import stored_metadata
from perdure.types import NO_ANSWER, Command, RunnableConfig, StateUpdate

if TYPE_CHECKING:
    from perdure.engine.compiled import CompiledGraph
    from perdure.engine.ports import Runner
    from perdure.engine.program import Program
    from perdure.engine.storing.session import Access

Kept = tuple[dict[str, tuple[int, tuple[str, ...]]], dict[int, int], Sequence[Any], dict[str, tuple[int, tuple[str, ...]]]]
"""Open tasks that an edit leaves as they are: nodes, Sends with the list that they are positions of, deferred nodes."""


def _updates(updates: Any) -> list[StateUpdate]:
    """The edits of one super-step.

    Raises:
        InvalidUpdateError: it is no list of edits.
    """
    try:
        found = [StateUpdate(*update) for update in updates if not isinstance(update, (str, bytes))]
    except TypeError:
        found = []
    if not isinstance(updates, Sequence) or len(found) != len(updates):
        raise InvalidUpdateError(
            f"a super-step of edits is a list of StateUpdate(values, as_node) or of such tuples, got {updates!r}"
        )
    for update in found:
        if not isinstance(update.as_node, (str, type(None))):
            raise InvalidUpdateError(f"as_node is the name of a node, got {update.as_node!r}")
    return found


def _refuse_what_no_edit_is(program: Program, values: Any) -> None:
    """Refuse commands of which only a part would be done.

    Raises:
        InvalidUpdateError: one answers, or is for another graph.
    """
    if program.single_output is not None:
        return  # whatever it is, it is the result
    for command in values if isinstance(values, (list, tuple)) else (values,):
        if isinstance(command, Command) and command.resume is not NO_ANSWER:
            raise InvalidUpdateError("an edit answers nothing: give Command(resume=...) to invoke")
        if isinstance(command, Command) and command.graph not in (None, program.name):
            raise InvalidUpdateError(
                f"an edit is one of graph {program.name!r}; it cannot command graph {command.graph!r}. Edit that, at its own checkpoint"
            )


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
            InvalidArgument: there is nothing to do.
            InvalidUpdateError, UnknownKey: an edit cannot be made; nothing is stored.
            ThreadBusy: a run holds the thread.
            UnknownCheckpoint: the config names a checkpoint that the thread does not have.
        """
        given: Any = supersteps
        if not isinstance(given, Sequence):
            raise InvalidUpdateError(f"edits are a list of super-steps, each a list of updates, got {supersteps!r}")
        supersteps = [_updates(updates) for updates in supersteps]
        if not supersteps:
            raise InvalidArgument("No supersteps provided: give at least one list of updates")
        if any(not updates for updates in supersteps):
            raise InvalidArgument("No updates provided: each super-step needs at least one update")
        while True:
            try:
                return await self._once(config, supersteps)
            except StaleLoad:
                continue

    async def _once(self, config: RunnableConfig, supersteps: Sequence[Sequence[StateUpdate]]) -> RunnableConfig:
        access, graph = self._access, self._graph
        conf = config.get(CONF) or {}
        if conf.get("checkpoint_ns"):
            return await InsideEdits(self, graph, access, self._runner).once(config, supersteps)
        branch = branch_of(config)
        wanted = conf.get("checkpoint_id") or None
        loaded = await begin(access.load(branch or wanted), access.thread)
        if loaded.row is None and branch is not None:
            raise await unknown_branch(access, branch)
        if loaded.row is None and wanted is not None:
            raise UnknownCheckpoint(
                f"thread {access.thread!r} has no checkpoint {wanted!r}; take ids from get_state or get_state_history",
                thread=access.thread,
                checkpoint=wanted,
            )
        session = Session(access, loaded, self._runner, (graph.program.name, graph.program.fingerprint))
        session.refuse_if_busy()
        session.describe(stored_metadata(config, access.persist))
        run = Run(graph.program, config, self._runner)
        restored = open_books(run, session, loaded)
        journal = run.journal
        assert journal is not None
        journal.branch = None if branch is None else branch.name
        # A checkpoint that the thread has left behind is branched off: its tasks start afresh, for their results belong to the old branch.
        forks = await left_behind(access, loaded, journal.branch)
        await self.apply(run, restored, supersteps, forks=forks)
        row = journal.row
        if row is None:
            raise InvalidUpdateError("the edit made no checkpoint")
        serde = access.saver.serde
        at_breakpoint = loaded.thread.status == "interrupted" and not open_questions(loaded, serde)
        waits = bool(row.frontier) and (at_breakpoint or bool(open_questions(loaded, serde, only=row.frontier)))
        await journal.flush("interrupted" if waits else "idle")
        return address_of(access.thread, "", row.id)

    async def apply(
        self, run: Run, restored: Restored | None, supersteps: Sequence[Sequence[StateUpdate]], *, forks: bool
    ) -> None:
        """Stage one checkpoint for each super-step of edits.

        Args:
            run: with the state and the books that are edited.
            restored: what is stored of the checkpoint that they stand at; None if there is none.
            supersteps: the edits.
            forks: the checkpoint was left behind: its open tasks start afresh.
        """
        stands = restored
        for updates in supersteps:
            await self._superstep(run, stands, [StateUpdate(*update) for update in updates], None if forks else restored)
            stands = None
            restored, forks = None if forks else restored, False

    async def _superstep(self, run: Run, stands: Restored | None, updates: list[StateUpdate], begun: Restored | None) -> None:
        """Stage the checkpoint of one super-step of edits.

        Args:
            run: the run.
            stands: what is stored of the checkpoint that they are made on; None where an edit has just made it.
            updates: the edits.
            begun: where it is stored what open tasks have begun; None where they start afresh.
        """
        program = run.program
        special = {END, INPUT, COPY}
        meant = [meant_by(run, update) for update in updates]
        if len(updates) > 1:
            for update in updates:
                if update.as_node is None and update.task_id is None:
                    raise InvalidUpdateError("as_node is required when applying multiple updates to one super-step")
                if update.as_node in special:
                    raise InvalidUpdateError(f"as_node={update.as_node!r} must be the only update of its super-step")
        first = updates[0]
        if first.as_node in special:
            await self._special(run, stands, first, begun)
            return
        inferred = first.as_node is None and meant[0] is None
        names = [
            now_called(program, update.as_node or (self._infer(run) if task is None else task.node.name))
            for update, task in zip(updates, meant, strict=True)
        ]
        tasks: list[Task] = []
        live = run.live
        live.step += 1
        journal = run.journal
        assert journal is not None
        identity = journal.session.numbers.checkpoint(live.step)
        for name, update in zip(names, updates, strict=True):
            tasks.append(await self._written(run, name, update, identity[0]))
        closing = [] if inferred else closed_by(run, names, meant)
        kept = self._kept(run, begun, closing, inferred=inferred)
        if stands is not None and begun is None:
            kept = _renewed(kept, identity[0])
        for task in tasks:
            task.stored = True
        changed = live.advance(tasks, identity[0])
        self._put_back(program, live, kept, anew=not closing)
        if program.validate_state is not None:
            program.validate_state(live.view, frozenset(changed))
        made: dict[str, list[returns.Write]] = {}
        for name, task in zip(names, tasks, strict=True):
            made.setdefault(name, []).extend(write for write in task.writes or () if write[0] in program.channels)
        ran = tuple(journal.edit(name, identity[0], writes) for name, writes in made.items())
        # An entrypoint that is still to run needs its input.
        given = run.given if program.single_output is not None and live.fired else MISSING
        journal.checkpoint(live, "update", changed, identity=identity, ran=ran, metadata=run.metadata, given=given)
        live.ran = tuple(dict.fromkeys(names))

    async def _written(self, run: Run, name: str, update: StateUpdate, number: int) -> Task:
        """What a node would have written, and where its edges would lead."""
        program = run.program
        node = program.start if name == START else program.nodes.get(name)
        if node is None:
            raise InvalidUpdateError(
                str(returns.unknown_node(program, f"Node {name} does not exist: the edit is made as", name)), node=name
            )
        _refuse_what_no_edit_is(program, update.values)
        writes = returns.writes_of(program, name, update.values)  # as if the node had returned it
        # Handed on as it is only where no dict says the same: what is prepared has its ids.
        plain = dict(writes)
        whole = program.root or len(plain) != len(writes) or not program.channels.keys() >= plain.keys()
        task: Task = Entry(run, number, update.values if whole else plain)
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
        if run.program.single_output is not None:
            return next(iter(run.program.nodes))
        if journal is None or journal.row is None or not live.ran:
            return START
        if len(live.ran) > 1:
            raise InvalidUpdateError(
                f"Ambiguous update, specify as_node: the last super-step ran {', '.join(map(repr, live.ran))}; say in whose name to write"
            )
        return live.ran[0]

    def _kept(self, run: Run, restored: Restored | None, closing: Sequence[int | str], *, inferred: bool) -> Kept:
        """The open tasks that the edit leaves as they are: nodes, sends with their list, deferred ones."""
        live = run.live
        nodes = dict(live.fired)
        sends = dict(live.open_sends)
        if not closing:
            # It writes in the name of a node that has run before: its edges choose anew what follows, unless that has begun.
            if inferred and run.program.single_output is not None:
                return nodes, sends, live.sends, dict(live.deferred)  # no edge would start it again
            begun = set() if restored is None else started(restored)
            nodes = {name: what for name, what in nodes.items() if (name, what[0]) in begun}
            sends = {index: origin for index, origin in sends.items() if (f"#{index}", origin) in begun}
        for one in closing:
            if isinstance(one, int):
                sends.pop(one, None)
            else:
                nodes.pop(one, None)
        return nodes, sends, live.sends, dict(live.deferred)

    def _put_back(self, program: Program, live: Live, kept: Kept, *, anew: bool) -> None:
        nodes, sends, listed, deferred = kept
        begun = {now_called(program, name) for name in nodes}
        live.fired = {**{name: what for name, what in live.fired.items() if name not in begun}, **nodes}
        if sends:
            fresh = list(live.sends)
            if anew:
                fresh = without(program, fresh, [listed[index] for index in sends])
            number = next(iter(live.open_sends.values()), 0)
            live.sends = [*listed, *fresh]
            live.open_sends = {**sends, **{len(listed) + at: number for at in range(len(fresh))}}
        for name, what in deferred.items():
            if name not in live.fired:
                if (now := now_called(program, name)) != name:
                    live.deferred.pop(now, None)
                live.deferred.setdefault(name, what)

    async def _special(self, run: Run, restored: Restored | None, update: StateUpdate, begun: Restored | None) -> None:
        live = run.live
        journal = run.journal
        assert journal is not None
        if update.as_node == END:
            if update.values is not None:
                raise InvalidUpdateError("as_node=END clears what was to run next and takes no values")
            held = restored if restored is not None else begun
            if held is not None:
                _forget_removed(run, held)
            done = [] if held is None else _finished(run, held)
            live.step += 1
            identity = journal.session.numbers.checkpoint(live.step)
            changed = live.advance(done, identity[0])
            live.drop_open()
            journal.checkpoint(live, "update", changed, identity=identity, metadata=run.metadata)
            return
        if update.as_node == INPUT:
            direct = run.program.single_output is not None
            value = update.values if direct else entry_value(run, update.values)
            live.drop_open()
            live.step += 1 if journal.row is not None else 0
            identity = journal.session.numbers.checkpoint(live.step)
            if direct:
                hand_in(run, value, identity[0])
            journal.checkpoint(live, "input", (), identity=identity, given=value, start=not direct, metadata=run.metadata)
            return
        if restored is None:
            raise InvalidUpdateError(
                "as_node='__copy__' copies the checkpoint that the call addresses, with the first super-step of its edits"
                if journal.row is not None
                else "as_node='__copy__' copies a checkpoint, but the thread has none"
            )
        after = [] if update.values is None else _updates(update.values)
        self._copy(run, restored)
        if after:
            await self._superstep(run, None, after, None)

    def _copy(self, run: Run, restored: Restored) -> None:
        """The same state once more, as a sibling of the checkpoint, with tasks of its own."""
        live = run.live
        journal = run.journal
        assert journal is not None
        live.step += 1
        identity = journal.session.numbers.checkpoint(live.step)
        renewed(live, identity[0])
        kept = restored.given
        row = journal.checkpoint(live, "fork", (), identity=identity, given=kept, start=restored.enters, ran=restored.row.ran)
        row.parent, row.full, row.base, row.changes = restored.row.parent, True, row.n, dict(journal.entries)


def open_books(
    run: Run,
    session: Session,
    loaded: Loaded,
    ns: int = ROOT_NS,
    child_of: tuple[int, int, str, int] | None = None,
) -> Restored | None:
    """Give a run the state and the books of a loaded checkpoint; return what is stored of it, None if there is none."""
    if loaded.row is None:
        run.live = Live(run.program)
        run.live.step = -1
        run.journal = Journal(session, ns, run.namespace)
        return None
    restored = Restored(run.program, loaded, session.serde)
    run.live = restored.live
    run.given = restored.given
    if "parents" in restored.row.metadata:
        run.metadata = {"parents": restored.row.metadata["parents"]}
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
        child_of=child_of,
    )
    return restored


def renewed(live: Live, number: int) -> None:
    """Let the open tasks of a state be triggered anew at checkpoint `number`."""
    live.fired = {name: (number, triggers) for name, (_, triggers) in live.fired.items()}
    live.deferred = {name: (number, triggers) for name, (_, triggers) in live.deferred.items()}
    live.open_sends = dict.fromkeys(live.open_sends, number)


def _renewed(kept: Kept, number: int) -> Kept:
    """The same tasks, as if they had been triggered at checkpoint `number`: with ids of their own, and no results."""
    nodes, sends, listed, deferred = kept
    return (
        {name: (number, triggers) for name, (_, triggers) in nodes.items()},
        dict.fromkeys(sends, number),
        listed,
        {name: (number, triggers) for name, (_, triggers) in deferred.items()},
    )


def _forget_removed(run: Run, restored: Restored) -> None:
    """Forget open tasks of nodes that are gone. Where everything open is dropped, such a node matters only if its task has a result."""
    live, program = run.live, run.program
    for path, origin in restored.paths(handlers=False):
        at = int(path[1:]) if path.startswith("#") else None
        if program.node(path if at is None else live.sends[at].node) is None and restored.result(origin, path) is None:
            live.fired.pop(path, None)
            live.open_sends.pop(-1 if at is None else at, None)


def _finished(run: Run, restored: Restored) -> list[Task]:
    """The open tasks that have a result."""
    tasks = tasks_of(run)
    for task in tasks:
        task.writes = restored.result(task.origin, task.path)
    return [task for task in tasks if task.writes is not None]
