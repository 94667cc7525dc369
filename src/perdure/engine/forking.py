"""Branching off a checkpoint: the same state again as a new checkpoint, whose tasks start afresh with ids of their own.

Where a question inside a subgraph is answered anew, or a run starts again from a checkpoint inside one, the subgraph branches off
as well, at the checkpoint it had then, and so on inwards. All of it becomes one commit. It works on rows: values are neither
decoded nor copied, for they are immutable and both branches refer to them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from perdure.checkpoint.records import RESULT, ROOT_NS, CheckpointRow, ChildRow, Loaded, Pending, WriteRow
from perdure.constants import NS_END, NS_SEP
from perdure.engine.restore import Kept
from perdure.errors import CorruptRecord, UnknownCheckpoint
from perdure.ids import interrupt_id, task_id

if TYPE_CHECKING:
    from perdure.engine.journal import Journal
    from perdure.engine.live import Live
    from perdure.engine.restore import Restored
    from perdure.engine.session import Access, Session


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
    """

    answers: Mapping[str, Any]
    inside: Inside | None = None

    @property
    def keeps(self) -> bool:
        """Results of siblings that asked nothing are kept, for the branch goes on. Otherwise the super-step runs again: a replay."""
        return bool(self.answers) or self.inside is not None


async def fork(session: Session, journal: Journal, live: Live, restored: Restored, branch: Branch) -> dict[str, Any]:
    """Stage a branch off the checkpoint that `journal` and `live` stand at, and of subgraphs as far as `branch` asks for it.

    Returns:
        The answers, under the ids that the questions have in the new branch.
    """
    live.step += 1
    number, public = session.numbers.checkpoint(live.step)
    moved = await _tasks(session, journal, restored, (number, public, journal.ns, journal.namespace), branch)
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
        metadata=restored.row.metadata,
    )
    return moved


async def _tasks(
    session: Session, journal: Journal, kept: Kept, new: tuple[int, str, int, str], branch: Branch
) -> dict[str, Any]:
    """Carry over what the tasks of a checkpoint have, to the checkpoint `new` (number, id, namespace's number and name)."""
    number, public, ns, namespace = new
    old_namespace = kept.loaded.namespaces.get(kept.row.ns, "")
    moved: dict[str, Any] = {}
    for path, origin in kept.paths():
        before = task_id(kept.ids[origin], old_namespace, path)
        now = task_id(public, namespace, path)
        asked = kept.asked(origin, path)
        result = kept.writes.get((origin, path, RESULT))
        is_inside = branch.inside is not None and branch.inside.path == path
        if result is not None and branch.keeps and not asked and not is_inside:
            journal.adopt_write(WriteRow(ns, number, path, RESULT, result.items))
        last = {one.question.id for one in asked}
        known = {pause: value for pause, value in kept.answers(origin, path).items() if pause not in last}
        known.update((pause, value) for pause, value in branch.answers.items() if pause in last)
        for one in kept.questions(origin, path) if any(pause in branch.answers for pause in last) else ():
            if one.place is not None and one.question.id in known and one.question.id == interrupt_id(before, one.place):
                moved[interrupt_id(now, one.place)] = known[one.question.id]
        inner = branch.inside if is_inside else None
        child = (inner.ns, inner.n, inner.call) if inner is not None else _asking(asked, branch.answers)
        if child is not None:
            below = Branch(branch.answers, None if inner is None else inner.inside)
            place = (ns, number, path, child[2])
            moved.update(await _subgraph(session, journal, child, place, (before, now, old_namespace, namespace), below))
    return moved


def _asking(asked: list[Any], answers: Mapping[str, Any]) -> tuple[int, int, int] | None:
    """Which checkpoint of which subgraph asked a question that is answered now."""
    for one in asked:
        if one.place is None and one.child is not None and one.question.id in answers:
            return (one.child[0], one.child[1], 0)
    return None


async def _subgraph(
    session: Session,
    journal: Journal,
    child: tuple[int, int, int],
    place: tuple[int, int, str, int],
    names: tuple[str, str, str, str],
    branch: Branch,
) -> dict[str, Any]:
    loaded = await session.access.records.load(session.thread, child[0], child[1])
    if loaded.row is None:
        raise CorruptRecord(
            f"checkpoint {child[1]} of a subgraph of thread {session.thread!r} is missing", thread=session.thread
        )
    kept = Kept(loaded, session.serde)
    row = loaded.row
    name = loaded.namespaces[row.ns]
    renamed = _renamed(name, *names)
    ns = row.ns if renamed == name else session.numbers.take()
    number, public = session.numbers.checkpoint(row.step + 1)
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
        (),
        row.joins,
        tuple(Pending(task.path, number, task.triggers) for task in row.deferred),
        row.metadata,
        None,
        row.memories,
    )
    journal.adopt(forked, renamed if ns != row.ns else None, ChildRow(*place, ns, number))
    return await _tasks(session, journal, kept, (number, public, ns, renamed), branch)


def _renamed(name: str, before: str, now: str, old_parent: str, new_parent: str) -> str:
    """A namespace's name with its parent's new name and its task's new id; one without a task id is a memory, and keeps its own."""
    rest = name[len(old_parent) + len(NS_SEP) :] if old_parent else name
    if f"{NS_END}{before}" not in rest:
        return name
    renamed = rest.replace(f"{NS_END}{before}", f"{NS_END}{now}")
    return f"{new_parent}{NS_SEP}{renamed}" if new_parent else renamed


async def locate(access: Access, namespace: str, checkpoint: str) -> tuple[Loaded, Loaded, Inside, bool]:
    """Where a checkpoint inside a subgraph hangs in the root graph.

    Returns:
        The root's checkpoint whose task ran the subgraph; the addressed checkpoint; the way to it; and whether it is the very place
        where the thread waits now, so that going on there needs no branch.

    Raises:
        UnknownCheckpoint: there is no such checkpoint in that namespace.
    """
    records, thread = access.records, access.thread
    target = await records.load(thread, namespace, checkpoint)
    loaded = target
    inside: Inside | None = None
    is_tip = target.row is not None and bool(target.row.frontier)
    while True:
        row = loaded.row
        pointer = None if row is None else await records.pointer_to(thread, row.ns, row.n)
        if row is None or pointer is None:
            raise UnknownCheckpoint(
                f"thread {thread!r} has no checkpoint {checkpoint!r} in namespace {namespace!r}; take configs from "
                "get_state(config, subgraphs=True)",
                thread=thread,
                checkpoint=checkpoint,
            )
        is_tip = is_tip and pointer.head == row.n
        inside = Inside(pointer.path, pointer.call, row.ns, row.n, inside)
        loaded = await records.load(thread, pointer.ns, pointer.origin)
        if pointer.ns == ROOT_NS:
            break
    if is_tip and loaded.thread.head != pointer.origin:
        head = await records.load(thread, ROOT_NS, None)
        frontier = () if head.row is None else head.row.frontier
        is_tip = any(task.origin == pointer.origin for task in frontier)
        loaded = head if is_tip else loaded
    return loaded, target, inside, is_tip
