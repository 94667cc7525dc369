"""Editing what is inside a subgraph. Written once for both colours.

Where the subgraph stands now, the edit is its newest checkpoint, and nothing else changes: a task's pointer to it moves, as it does when
the subgraph goes on. What a subgraph remembers between two calls belongs to the checkpoint around, which gets a successor that remembers
the edited one. A checkpoint that was left behind is branched off, and so is the root, once: the old branch stays as it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from perdure.checkpoint.index.inbox import open_questions
from perdure.checkpoint.pauses import Asked, stored
from perdure.checkpoint.records import PAUSES, CheckpointRow, ChildRow, Commit, Loaded
from perdure.checkpoint.saving import begin
from perdure.constants import CONF
from perdure.engine.past.branches import branch_of, unknown_branch
from perdure.engine.past.forking import Branch, and_above, fork
from perdure.engine.past.history import keys_of, subgraph_at
from perdure.engine.past.places import MEMORY, Place, locate, standing
from perdure.engine.running.run import Run
from perdure.engine.storing.restore import Kept
from perdure.engine.storing.session import Session
from perdure.engine.storing.snapshot import address_of
from perdure.errors import UnknownCheckpoint

if TYPE_CHECKING:
    from perdure.engine.compiled import CompiledGraph
    from perdure.engine.past.edit import Edits
    from perdure.engine.ports import Runner
    from perdure.engine.storing.journal import Journal
    from perdure.engine.storing.restore import Restored
    from perdure.engine.storing.session import Access
    from perdure.types import RunnableConfig, StateUpdate


class InsideEdits:
    """Edits the subgraphs of one graph.

    Args:
        edits: makes the edits themselves.
        graph: the root graph.
        access: the way to the thread.
        runner: calls the path functions of conditional edges.
    """

    __slots__ = ("_access", "_edits", "_graph", "_journals", "_runner")

    def __init__(self, edits: Edits, graph: CompiledGraph, access: Access, runner: Runner) -> None:
        self._edits = edits
        self._graph = graph
        self._access = access
        self._runner = runner
        self._journals: list[Journal] = []

    async def once(self, config: RunnableConfig, supersteps: Sequence[Sequence[StateUpdate]]) -> RunnableConfig:
        """One try of `Edits.bulk` on a namespace.

        Raises:
            StaleLoad: the thread moved on meanwhile.
            Exception: as `Edits.bulk`.
        """
        conf = config.get(CONF) or {}
        namespace: str = conf["checkpoint_ns"]
        place = await begin(self._place(config, namespace, conf.get("checkpoint_id") or None), self._access.thread)
        first = place.root if place.is_now else place.target
        session = Session(self._access, first, self._runner, (self._graph.program.name, self._graph.program.fingerprint))
        session.refuse_if_busy()
        levels = [*place.above, place.target]
        led = place.links.index(None) if None in place.links else len(place.links)
        base, base_place, renews = levels[led], None, False
        closed: set[str] = set()
        if led and place.is_now:
            base_place = _place_of(place.links[led - 1])
        elif led:
            base, base_place, namespace = await self._branched(config, session, place, remembered=led < len(place.links))
        else:
            renews = not place.is_now
        if led == len(place.links):
            run = await self._edited(config, session, base, namespace, base_place, supersteps)
            closed = self._tell_above(place, run) if place.is_now else set()
        else:
            run = await self._remembered(config, session, (base, base_place, renews), levels[led + 1 :], supersteps)
        journal = run.journal
        assert journal is not None
        assert journal.row is not None
        row = self._journals[0].row
        waits = row is not None and bool(row.frontier)
        makes_root = self._journals[0].child_of is None
        status = first.thread.status
        if closed and closed.issuperset(one.question.id for one in open_questions(place.root, self._access.saver.serde)):
            status = "idle"
        commit = session.commit_for(
            "once", ("interrupted" if waits and status == "interrupted" else "idle") if makes_root else status
        )
        for each in self._journals:
            _add(commit, each, session)
        await session.store(commit)
        return address_of(self._access.thread, journal.namespace, journal.row.id)

    async def _place(self, config: RunnableConfig, namespace: str, wanted: str | None) -> Place:
        access = self._access
        if wanted is not None:
            return await locate(access, namespace, wanted)
        branch = branch_of(config)
        place = await standing(access, namespace, branch)
        if place is not None:
            return place
        if branch is not None and branch.name not in await access.records.branches(access.thread):
            raise await unknown_branch(access, branch)
        newest = await access.records.load(access.thread, namespace, None)
        if newest.row is None or branch is not None:
            raise UnknownCheckpoint(
                f"thread {access.thread!r} has no checkpoint in namespace {namespace!r}; take configs from "
                "get_state(config, subgraphs=True)",
                thread=access.thread,
            )
        return await locate(access, namespace, newest.row.id)

    async def _branched(
        self, config: RunnableConfig, session: Session, place: Place, *, remembered: bool
    ) -> tuple[Loaded, tuple[int, int, str, int], str]:
        """Branch off the root and what is between, down to the last checkpoint that a task leads to."""
        run = Run(self._graph.program, config, self._runner)
        restored = self._open(run, session, place.root, None)
        assert run.journal is not None
        carried = await fork(session, run.journal, run.live, restored, Branch({}, place.inside, goes_on=remembered))
        forked = carried.innermost
        assert forked is not None
        return forked.loaded, forked.place, forked.namespace

    async def _edited(
        self,
        config: RunnableConfig,
        session: Session,
        loaded: Loaded,
        namespace: str,
        place: tuple[int, int, str, int] | None,
        supersteps: Sequence[Sequence[StateUpdate]],
    ) -> Run:
        inner = subgraph_at(self._graph, namespace, keys_of(loaded))
        run = Run(inner.program, config, self._runner, namespace=namespace)
        restored = self._open(run, session, loaded, place)
        await self._edits.apply(run, restored, supersteps, forks=False)
        return run

    def _tell_above(self, place: Place, run: Run) -> set[str]:
        """Note with the questions that the tasks around have of the subgraph that it was edited; return the ids of those that closed."""
        journal, target = run.journal, place.target.row
        assert journal is not None
        row = journal.row
        assert row is not None
        assert target is not None
        serde = self._access.saver.serde
        before = {one.question.id for one in open_questions(place.target, serde)}
        after = {one.question.id for one in open_questions(place.target, serde, only=row.frontier)}

        def told(one: Asked) -> Asked:
            pause = one.question.id
            if pause not in before:
                return one
            # Whoever answers it anew later does so where it was open last.
            child = (target.ns, row.n) if one.child == (target.ns, target.n) and pause in after else one.child
            return one._replace(child=child, moved=True, closed=pause not in after)

        for around, link in zip(place.above, place.links, strict=True):
            assert link is not None
            kept = Kept(around, serde)
            for path in and_above(link.path):
                questions = kept.questions(link.origin, path)
                if any(one.question.id in before for one in questions):
                    journal.adopt_items(
                        link.ns, link.origin, path, PAUSES, [(q.question.id, stored(told(q))) for q in questions]
                    )
        return before - after

    async def _remembered(
        self,
        config: RunnableConfig,
        session: Session,
        base: tuple[Loaded, tuple[int, int, str, int] | None, bool],
        below: Sequence[Loaded],
        supersteps: Sequence[Sequence[StateUpdate]],
    ) -> Run:
        """Edit what is remembered, and have all that is around it remember the edited one."""
        from perdure.engine.past.edit import renewed

        loaded, place, renews = base
        row = loaded.row
        assert row is not None
        above = loaded.namespaces.get(row.ns, "")
        outer = Run(subgraph_at(self._graph, above, keys_of(loaded)).program, config, self._runner, namespace=above)
        restored = self._open(outer, session, loaded, place)
        journal, live = outer.journal, outer.live
        assert journal is not None
        live.step += 1
        identity = session.numbers.checkpoint(live.step)
        at = (row.ns, identity[0])
        between: list[CheckpointRow] = []
        for each in below[:-1]:
            middle = each.row
            assert middle is not None
            n, public = session.numbers.checkpoint(middle.step + 1)
            copied = CheckpointRow(
                n,
                middle.ns,
                public,
                middle.n,
                n,
                middle.step + 1,
                "fork",
                dict(Kept(each, session.serde).entries),
                True,
                middle.frontier,
                middle.ran,
                middle.joins,
                middle.deferred,
                middle.metadata,
                None,
                dict(middle.memories),
            )
            journal.adopt(copied, None, ChildRow(*at, MEMORY + each.name_of(middle.ns), 0, middle.ns, n))
            between.append(copied)
            at = (middle.ns, n)
        target = below[-1]
        assert target.row is not None
        name = target.name_of(target.row.ns)
        run = await self._edited(config, session, target, name, (*at, MEMORY + name, 0), supersteps)
        assert run.journal is not None
        assert run.journal.row is not None
        names = [each.name_of(each.row.ns) for each in below if each.row is not None]
        heads = [*(copied.n for copied in between), run.journal.row.n]
        remembering = [live.memories, *(copied.memories for copied in between)]
        for memories, known, head in zip(remembering, names, heads, strict=True):
            memories[known] = head
        if renews:
            renewed(live, identity[0])
        journal.checkpoint(
            live, "fork", (), identity=identity, given=restored.given, start=restored.enters, ran=row.ran, metadata=row.metadata
        )
        return run

    def _open(self, run: Run, session: Session, loaded: Loaded, place: tuple[int, int, str, int] | None) -> Restored:
        from perdure.engine.past.edit import open_books

        restored = open_books(run, session, loaded, child_of=place)
        assert restored is not None
        assert run.journal is not None
        branch = branch_of(run.config)
        if place is None and branch is not None:
            run.journal.branch = branch.name
        self._journals.append(run.journal)
        return restored


def _place_of(link: ChildRow | None) -> tuple[int, int, str, int]:
    assert link is not None
    return (link.ns, link.origin, link.path, link.call)


def _add(commit: Commit, journal: Journal, session: Session) -> None:
    """Move what is staged in a journal into a commit that others have been moved into before."""
    more: Any = session.commit_for("once", None)
    journal.fill(more)
    commit.checkpoints = [*commit.checkpoints, *more.checkpoints]
    commit.values = [*commit.values, *more.values]
    commit.writes = [*commit.writes, *more.writes]
    commit.namespaces = [*commit.namespaces, *more.namespaces]
    commit.children = [*commit.children, *more.children]
    commit.branches = [*commit.branches, *more.branches]
    commit.next_n, commit.newest = session.numbers.next_n, session.numbers.newest
    commit.head = commit.head if more.head is None else more.head
