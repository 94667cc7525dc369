"""Branching off a checkpoint: the same state again as a new checkpoint, whose tasks start afresh with ids of their own.

A replay takes nothing else along. A branch in which a question is answered anew, or which starts inside a subgraph, goes on from where
its tasks were: results of siblings, questions, answers, durable steps and subgraphs come along under the new ids, and of the task that
travels back what came before. Subgraphs branch off as well, and so on inwards; those that had ended are shared. All of it becomes one
commit. It works on rows: values are neither decoded nor copied, for they are immutable and both branches refer to them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

from perdure.checkpoint.pauses import Asked, of_last_entry, stored
from perdure.checkpoint.records import ANSWERS, ERROR, PAUSES, RESULT, CheckpointRow, ChildRow, Loaded, Pending, WriteRow
from perdure.constants import NS_END, NS_SEP
from perdure.engine.deciding.known_calls import came_before, identity_of, place_of, top_of
from perdure.engine.storing.restore import Kept
from perdure.errors import CorruptRecord
from perdure.ids import interrupt_id, task_id

if TYPE_CHECKING:
    from perdure.engine.deciding.live import Live
    from perdure.engine.storing.journal import Journal
    from perdure.engine.storing.restore import Restored
    from perdure.engine.storing.session import Session


class Inside(NamedTuple):
    """A checkpoint of a subgraph that a branch starts from, and so on inwards.

    Attributes:
        path: the task of the graph around that runs the subgraph.
        call: which of the task's subgraphs.
        ns, n: numbers of the subgraph's namespace and checkpoint.
        inside: a checkpoint of a subgraph of it.
    """

    path: str
    call: int
    ns: int
    n: int
    inside: Inside | None = None


@dataclass(slots=True)
class Branch:
    """What a fork is to do.

    Attributes:
        answers: answers to questions of the old branch, by their ids there.
        inside: a checkpoint of a subgraph to start from.
        goes_on: what the tasks have at that checkpoint is taken along, too.
    """

    answers: Mapping[str, Any]
    inside: Inside | None = None
    goes_on: bool = False

    @property
    def keeps(self) -> bool:
        """What the tasks of the super-step have is taken along, for the branch goes on. Otherwise the super-step runs again: a replay."""
        return bool(self.answers) or self.inside is not None


class Forked(NamedTuple):
    """The checkpoint that a subgraph has in a new branch, with what was taken along: as if it had been loaded.

    Attributes:
        loaded: it.
        place: where the pointer to it is.
        namespace: the name of its namespace.
    """

    loaded: Loaded
    place: tuple[int, int, str, int]
    namespace: str


async def fork(session: Session, journal: Journal, live: Live, restored: Restored, branch: Branch) -> Carrying:
    """Stage a branch off the checkpoint that `journal` and `live` stand at, and of subgraphs as far as `branch` asks for it."""
    live.step += 1
    number, public = session.numbers.checkpoint(live.step)
    carrying = Carrying(session, journal, branch)
    mode = Mode.GO_ON if branch.inside is not None else Mode.ASK if branch.answers else Mode.REPLAY
    await carrying.tasks(restored, _New(journal.ns, number, public, journal.namespace, {}), branch.inside, mode)
    live.fired = {name: (number, triggers) for name, (_, triggers) in live.fired.items()}
    live.deferred = {name: (number, triggers) for name, (_, triggers) in live.deferred.items()}
    live.open_sends = dict.fromkeys(live.open_sends, number)
    journal.checkpoint(
        live,
        "fork",
        (),
        identity=(number, public),
        given=restored.given,
        start=restored.enters,
        ran=restored.row.ran,
        metadata=restored.row.metadata,
    )
    return carrying


class _New(NamedTuple):
    """The checkpoint that things are carried to: number and name of its namespace, its number and id, those of the graphs around."""

    ns: int
    number: int
    public: str
    namespace: str
    parents: Mapping[str, str]


class Mode(Enum):
    """How much of what the tasks of a checkpoint have comes along."""

    REPLAY = "nothing: they run again"
    ASK = "they are where they were when they asked; those that asked nothing are done"
    GO_ON = "everything"


class Carrying:
    """Carries what the tasks of a checkpoint have to another one, in whose branch their ids are others.

    Attributes:
        answers: the answers that count in the new branch, by the ids that their questions have there.
        innermost: the subgraph's checkpoint that the branch starts from, in the new branch.
    """

    __slots__ = ("_children", "_given", "_goes_on", "_journal", "_pauses", "_session", "_tasks", "answers", "innermost")

    def __init__(self, session: Session, journal: Journal, branch: Branch) -> None:
        self._session = session
        self._journal = journal
        self._given = branch.answers
        self._goes_on = branch.goes_on
        self._tasks: dict[str, str] = {}
        self._pauses: dict[str, str] = {}
        self._children: dict[tuple[int, int], tuple[int, int]] = {}
        self.answers: dict[str, Any] = {}
        self.innermost: Forked | None = None

    async def tasks(self, kept: Kept, new: _New, inside: Inside | None, mode: Mode) -> None:
        """Carry over what the tasks of a checkpoint have, to the checkpoint `new`."""
        if mode is Mode.REPLAY:
            return
        for path, origin in kept.paths():
            self._rename(kept, new, origin, path)
            if inside is not None and top_of(inside.path) == path:
                await self._travel(kept, new, (origin, path), inside)
                continue
            asked = kept.asked(origin, path)
            if (origin, path, RESULT) in kept.writes and not (asked and mode is Mode.ASK):
                self._adopt(kept, new, (origin, path), RESULT)
                for child in kept.loaded.children:
                    if (child.origin, top_of(child.path)) == (origin, path):
                        self._point(new, child, (child.child_ns, child.head))
            else:
                await self._code(kept, new, (origin, path), mode)
            if path.startswith("!"):
                self._adopt(kept, new, (origin, path[1:]), ERROR)

    def _rename(self, kept: Kept, new: _New, origin: int, path: str) -> None:
        """Note what a task and its durable steps are called in the new branch, and the questions that their code asked."""
        filed = [at for of, at, _ in kept.writes if of == origin]
        filed += [child.path for child in kept.loaded.children if child.origin == origin]
        places = {path, *(place for at in filed if top_of(at) == path for place in and_above(at))}
        for place in places:
            identity = identity_of(place)
            before = task_id(kept.ids[origin], kept.loaded.namespaces.get(kept.row.ns, ""), identity)
            now = self._tasks[before] = task_id(new.public, new.namespace, identity)
            for one in kept.questions(origin, place):
                if one.place is not None and one.question.id == interrupt_id(before, one.place):
                    self._pauses[one.question.id] = interrupt_id(now, one.place)

    async def _travel(self, kept: Kept, new: _New, at: tuple[int, str], inside: Inside) -> None:
        """The task in whose subgraph the branch starts: what came before that comes along."""
        origin, path = at
        for of, step, kind in kept.writes:
            if of == origin and kind == RESULT and came_before(step, inside.path):
                self._adopt(kept, new, (origin, step), RESULT)
        for child in kept.loaded.children:
            if child.origin != origin or top_of(child.path) != path:
                continue
            if (child.path, child.call) == (inside.path, inside.call):
                last = Mode.GO_ON if self._goes_on else Mode.ASK if self._given else Mode.REPLAY
                mode = Mode.GO_ON if inside.inside is not None else last
                await self._subgraph(new, child, inside.n, mode, inside.inside, travels=True)
            elif child.head < inside.n or (child.path == inside.path and child.call < inside.call):
                await self._subgraph(new, child, child.head, Mode.GO_ON)
        before = [one for one in kept.questions(origin, path) if one.place is not None and one.n <= inside.n]
        known = {one.question.id for one in before}
        answers = {pause: value for pause, value in kept.answers(origin, path).items() if pause in known}
        self._store_answers(new, path, {**answers, **self._given})
        self._store_questions(new, path, before, new.number)

    async def _code(self, kept: Kept, new: _New, at: tuple[int, str], mode: Mode) -> None:
        """A task or a durable step that had not ended, or that asks again."""
        origin, place = at
        questions = kept.questions(origin, place)
        shown = of_last_entry(questions) if mode is Mode.ASK else []
        back = self._back_to(shown)
        asked = [one for one in shown if not one.closed or self._is_reopened(one, back)]
        last = {one.question.id for one in asked}
        # What an edit has closed in the old branch, and this one does not open again: the edit counts here, too.
        closed = {one.question.id for one in shown} - last
        edited = {one.child[0] for one in shown if one.child and one.closed} - {one.child[0] for one in asked if one.child}
        places = {one.child: one.child[1] for one in asked if one.child is not None}
        before = max((one.n for one in asked), default=None)
        for child in kept.loaded.children:
            if (child.origin, child.path) != at:
                continue
            waits = max((n for ns, n in places if ns == child.child_ns and n <= child.head), default=None)
            if waits is not None:
                await self._subgraph(new, child, back.get(child.child_ns, waits), Mode.ASK)
            elif before is None or child.head < before or child.child_ns in edited:
                await self._subgraph(new, child, child.head, Mode.GO_ON)
        begun = max((one.steps for one in asked), default=None)
        for step in kept.steps(origin, place):
            waiting = {one.question.id for one in kept.asked(origin, step)}
            if waiting & last:
                await self._code(kept, new, (origin, step), mode)
            elif (origin, step, RESULT) in kept.writes:
                if begun is None or place_of(step) < begun or waiting & closed:
                    self._adopt(kept, new, (origin, step), RESULT)
            elif begun is None or waiting & closed:
                await self._code(kept, new, (origin, step), mode)
        own = {one.question.id for one in questions}
        answers = {pause: value for pause, value in kept.answers(origin, place).items() if pause not in last}
        answers.update((pause, value) for pause, value in self._given.items() if pause in own)
        self._store_answers(new, place, answers)
        self._store_questions(new, place, questions, self._session.numbers.next_n)

    def _back_to(self, asked: list[Asked]) -> dict[int, int]:
        """By namespace, the checkpoint at which all of the subgraph's questions were open that are answered anew.

        An edit moves those that it leaves open to its own checkpoint, and those that it closes stay where they were.
        """
        back: dict[int, int] = {}
        for one in asked:
            if one.child is not None and one.question.id in self._given:
                ns, n = one.child
                back[ns] = min(n, back.get(ns, n))
        return back

    def _is_reopened(self, one: Asked, back: Mapping[int, int]) -> bool:
        """Whether a question that an edit closed is open where the branch goes back to."""
        if one.question.id in self._given:
            return True
        return one.child is not None and back.get(one.child[0], one.child[1] + 1) <= one.child[1]

    def _store_answers(self, new: _New, place: str, answers: Mapping[str, Any]) -> None:
        renamed = {self._pauses[pause]: value for pause, value in answers.items() if pause in self._pauses}
        if renamed:
            self.answers.update(renamed)
            self._journal.adopt_items(new.ns, new.number, place, ANSWERS, renamed.items())

    def _store_questions(self, new: _New, place: str, questions: list[Asked], n: int) -> None:
        """Carry questions, so that a task that waits is not run to ask them again. Where one is lost, it is: it asks anew."""
        renamed: list[tuple[str, Any]] = []
        for one in questions:
            pause = self._pauses.get(one.question.id)
            child = None if one.child is None else self._children.get(one.child)
            if pause is None or (one.child is not None and child is None):
                return
            renamed.append((pause, stored(one._replace(question=replace(one.question, id=pause), child=child, n=n))))
        if renamed:
            self._journal.adopt_items(new.ns, new.number, place, PAUSES, renamed)

    def _adopt(self, kept: Kept, new: _New, at: tuple[int, str], kind: int) -> None:
        row = kept.writes.get((*at, kind))
        if row is not None:
            self._journal.adopt_write(WriteRow(new.ns, new.number, at[1], kind, row.items))

    def _point(self, new: _New, child: ChildRow, to: tuple[int, int]) -> None:
        self._journal.point(ChildRow(new.ns, new.number, child.path, child.call, *to))

    async def _subgraph(
        self, new: _New, child: ChildRow, n: int, mode: Mode, inside: Inside | None = None, *, travels: bool = False
    ) -> None:
        """A subgraph's checkpoint `n` in the new branch. One that has nothing more to do is shared."""
        session, journal = self._session, self._journal
        loaded = await session.access.records.load(session.thread, child.child_ns, n)
        row = loaded.row
        if row is None:
            raise CorruptRecord(f"checkpoint {n} of a subgraph of thread {session.thread!r} is missing", thread=session.thread)
        if not row.frontier and not travels:
            self._point(new, child, (row.ns, row.n))
            return
        kept = Kept(loaded, session.serde)
        name = loaded.name_of(row.ns)
        renamed = NS_SEP.join(self._renamed(part) for part in name.split(NS_SEP))
        ns = row.ns if renamed == name else session.numbers.take()
        number, public = session.numbers.checkpoint(row.step + 1)
        parents = {**new.parents, new.namespace: new.public}
        forked = CheckpointRow(
            number,
            ns,
            public,
            row.n if ns == row.ns else None,
            number,
            row.step + 1,
            "fork",
            dict(kept.entries),
            True,
            tuple(Pending(task.path, number, task.triggers) for task in row.frontier),
            row.ran,
            row.joins,
            tuple(Pending(task.path, number, task.triggers) for task in row.deferred),
            {**row.metadata, "parents": parents},
            None,
            row.memories,
        )
        place = (new.ns, new.number, child.path, child.call)
        journal.adopt(forked, renamed if ns != row.ns else None, ChildRow(*place, ns, number))
        self._children[row.ns, row.n] = (ns, number)
        if travels and inside is None:
            ids = {row.n: row.id} if ns == row.ns else {}
            again = Loaded(loaded.thread, forked, [forked], [], [], loaded.values, ids, {ns: renamed})
            self.innermost = Forked(again, place, renamed)
        await self.tasks(kept, _New(ns, number, public, renamed, parents), inside, mode)

    def _renamed(self, part: str) -> str:
        """A part of a namespace's name, with the new id of its task; one without a task is of a memory, and keeps its name."""
        node, end, task = part.partition(NS_END)
        return f"{node}{end}{self._tasks.get(task, task)}"


def and_above(path: str) -> list[str]:
    """The path of a durable step, and of those around it, up to the task's own."""
    parts = path.split(">")
    return [">".join(parts[:count]) for count in range(1, len(parts) + 1)]
