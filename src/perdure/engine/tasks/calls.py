"""Durable steps inside a node: what a function marked with `task` becomes when a node's code calls it.

A call is a task of its own, filed under the task whose code made it: `known_calls` says by which path. Its result is stored as soon as
it is there, in a commit of its own, and a node that is entered again gets it back instead of running it again. A call that waits for an
answer is not run again either until it has one.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from perdure.checkpoint.records import RESULT, Packed, WriteItem, WriteRow
from perdure.constants import NS_END, NS_SEP, PUSH, RETURN
from perdure.engine.deciding.known_calls import Known, KnownCalls, digest_of
from perdure.engine.deciding.resume import enters, memories_of
from perdure.engine.storing.encoding import placed
from perdure.engine.tasks.task import Task
from perdure.errors import NotStorable
from perdure.failpoints import failpoint
from perdure.ids import TaskId, task_id
from perdure.scope import CURRENT

if TYPE_CHECKING:
    from perdure.checkpoint.incremental.drafts import Step
    from perdure.checkpoint.pauses import Asked
    from perdure.engine.deciding.returns import Write
    from perdure.engine.program import Node
    from perdure.engine.storing.journal import Journal
    from perdure.engine.storing.session import Session


class CallTask(Task):
    """One call of a durable step.

    Attributes:
        parent: the task whose code made the call.
        args, kwargs: what it was called with.
        number: how many calls the parent's code had made before it, when it was made first.
        identity: names it among all calls inside the node, whatever their order.
        recalled: what is known of it is its outcome; it does not run.
    """

    is_step = True

    def __init__(self, parent: Task, node: Node, known: Known, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        super().__init__(parent.run, node, known.path, parent.origin, (PUSH,))
        self.parent = parent
        self.args = args
        self.kwargs = kwargs
        self.number = known.place
        above: str = parent.identity if isinstance(parent, CallTask) else parent.path
        self.identity: str = f"{above}>{known.identity}"
        self.memories = self._known_memories = parent.memories
        self.recalled = False

    @property
    def id(self) -> TaskId:
        """The same in every entry, even if the calls come in another order."""
        if self._id is None:
            self._id = task_id(self.run.id_of(self.origin), self.run.namespace, self.identity)
        return self._id

    @property
    def top(self) -> Task:
        """The task of the node that it is a step of."""
        return self.parent.top

    @property
    def public_path(self) -> tuple[Any, ...]:
        """Its path as snapshots show it."""
        return (PUSH, self.parent.public_path, self.number, True)

    @property
    def public_triggers(self) -> tuple[str, ...]:
        """What events and the config name as its triggers."""
        return self.triggers

    @property
    def namespace(self) -> str:
        """The namespace that a subgraph run by this step has."""
        return f"{self.parent.namespace}{NS_SEP}{self.node.name}{NS_END}{self.id}"

    def call(self) -> Any:
        """Call the step's function."""
        CURRENT.set(self)
        call = self.node.call
        if not call.inject:
            return call.fn(*self.args, **self.kwargs)
        given = inspect.signature(call.fn).bind_partial(*self.args, **self.kwargs).arguments
        wanted = {name: self.provide(kind) for name, kind in call.inject if name not in given}
        return call.fn(*self.args, **self.kwargs, **wanted)

    def writes_of(self, value: Any) -> list[Write]:
        """Its one write: what it returned."""
        return [(RETURN, value)]

    @property
    def value(self) -> Any:
        """What it returned."""
        return self.writes[0][1] if self.writes else None

    @property
    def new_memories(self) -> dict[str, int]:
        """The memories of subgraphs that have moved on in it."""
        before = self._known_memories
        return {name: n for name, n in self.memories.items() if before.get(name) != n}

    def sign_of_life(self) -> None:
        """A sign of life of a step is one of the code around it."""
        super().sign_of_life()
        self.parent.sign_of_life()

    def beat(self) -> None:
        """So is a heartbeat."""
        super().beat()
        self.parent.beat()


class Remembered(NamedTuple):
    """What a run knows of a call from an earlier attempt at its node.

    Attributes:
        writes: its result, where nothing is saved.
        packed: its result as it is stored, so that nobody has changed it since.
        waiting: its questions, if it has no result.
    """

    writes: list[Write] | None
    packed: Packed | None
    waiting: Sequence[Asked] = ()


def call_of(parent: Task, node: Node, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> CallTask:
    """The call of a step that the code of `parent` makes now."""
    digest = digest_of(args, kwargs)
    with parent.run.lock:
        known_calls = parent.known_calls
        if known_calls is None:
            known_calls = parent.known_calls = KnownCalls(parent.path, _earlier(parent))
        known = known_calls.identify(node.name, digest, beside=parent.under_way > 0)
        parent.called += 1
        parent.under_way += 1
    return CallTask(parent, node, known, args, kwargs)


def _earlier(parent: Task) -> list[str]:
    kept = parent.run.kept
    stored = () if kept is None else kept.steps(parent.origin, parent.path)
    top = parent.top
    return [*stored, *top.remembered] if "remembered" in top.__dict__ else [*stored]


def recall(call: CallTask) -> bool:
    """Give a call what is known of it, from this run or from what is stored; whether that is its outcome.

    Raises:
        StateTypeError, CorruptRecord: a stored result cannot be loaded.
    """
    top = call.top
    known: Remembered | None = top.remembered.get(call.path) if "remembered" in top.__dict__ else None
    call.recalled = _recall_stored(call) if known is None else _recall_remembered(call, known)
    return call.recalled


def _recall_remembered(call: CallTask, known: Remembered) -> bool:
    journal = call.run.journal
    if known.waiting:
        call.questions.know(known.waiting)
        call.questions.now = [*known.waiting]
        return True
    if known.packed is not None and journal is not None:
        call.writes = [(RETURN, journal.session.serde.loads_typed(known.packed))]
    else:
        call.writes = known.writes
    call.stored = True
    return True


def _recall_stored(call: CallTask) -> bool:
    kept = call.run.kept
    if kept is None:
        return False
    call.writes = kept.result(call.origin, call.path)
    if call.writes is not None:
        call.stored = True
        call.memories = {**call.memories, **memories_of(call.run, kept, call.origin, call.path)}
        return True
    earlier = kept.questions(call.origin, call.path)
    if not earlier:
        return False
    call.questions.know(earlier)
    waiting = kept.unanswered(call.origin, call.path, call.run.answers)
    if enters(kept.asked(call.origin, call.path), waiting):
        return False
    call.questions.now = waiting
    return True


async def store(call: CallTask) -> None:
    """Make a call's result durable, after what it builds on, and before the code that waits for it may go on.

    Raises:
        NotStorable: it cannot be loaded back as it is.
        SaveFailed, LeaseLost, ThreadDeleted: it could not be saved. Whatever the node makes of that, its run saves no more.
    """
    if call.writes is None or call.stored:
        return
    journal = call.run.journal
    packed = None
    if journal is not None:
        session = journal.session
        row, step = _rows(journal, session, call)
        packed = step.packed
        if journal.durability == "exit":
            journal.adopt_result(row, step.rows)
        else:
            if session.in_flight:
                await session.settle()
            commit = session.commit_for("keep", None)
            commit.writes, commit.values = (row,), step.rows
            try:
                await session.store(commit)
            except Exception as error:
                session.lose(error)
                raise
            journal.values.remember_step(step)
            failpoint("engine.step.stored")
    call.stored = True
    call.top.remembered[call.path] = Remembered(call.writes, packed)


def _rows(journal: Journal, session: Session, call: CallTask) -> tuple[WriteRow, Step]:
    try:
        packed = Packed(*session.serde.dumps_typed(call.value))
    except NotStorable as error:
        error.node = call.node.name
        placed(error, f"result of task {call.node.name!r}", session.thread)
        raise
    step = journal.values.step(call.value, packed)
    return WriteRow(journal.ns, call.origin, call.path, RESULT, (WriteItem(RETURN, *step.form),)), step
