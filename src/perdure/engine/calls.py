"""Durable steps inside a node: what a function marked with `task` becomes when a node's code calls it.

A call is a task of its own, filed under its node's task: `node>0:name` is the node's first call. Its result is stored as soon as it
is there, in a commit of its own, and a node that is entered again gets it back instead of running it again. A call that waits for
an answer is not run again either until it has one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perdure.checkpoint.records import INLINE_LIMIT, RESULT, Packed, ValueRow, WriteItem, WriteRow
from perdure.constants import PUSH, RETURN
from perdure.engine.resume import enters
from perdure.engine.task import Task
from perdure.errors import NotStorable
from perdure.scope import CURRENT

if TYPE_CHECKING:
    from perdure.engine.journal import Journal
    from perdure.engine.program import Node
    from perdure.engine.returns import Write
    from perdure.engine.session import Session


class CallTask(Task):
    """One call of a durable step.

    Attributes:
        parent: the task whose code made the call.
        args, kwargs: what it was called with.
        number: which of the parent's calls it is.
    """

    is_step = True

    def __init__(self, parent: Task, node: Node, number: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        super().__init__(parent.run, node, f"{parent.path}>{number}:{node.name}", parent.origin, (PUSH,))
        self.parent = parent
        self.args = args
        self.kwargs = kwargs
        self.number = number

    @property
    def public_path(self) -> tuple[Any, ...]:
        """Its path as snapshots show it."""
        return (PUSH, self.parent.public_path, self.number, True)

    def call(self) -> Any:
        """Call the step's function."""
        CURRENT.set(self)
        call = self.node.call
        wanted = {name: self.provide(kind) for name, kind in call.inject if name not in self.kwargs}
        return call.fn(*self.args, **self.kwargs, **wanted)

    def writes_of(self, value: Any) -> list[Write]:
        """Its one write: what it returned."""
        return [(RETURN, value)]

    @property
    def value(self) -> Any:
        """What it returned."""
        return self.writes[0][1] if self.writes else None


def recall(call: CallTask) -> bool:
    """Give a call what is known of it, from this run or from what is stored; whether that is its outcome."""
    run = call.run
    done = run.called.get((call.origin, call.path))
    if done is not None:
        call.writes = done
        return True
    kept = run.kept
    if kept is None:
        return False
    call.writes = kept.result(call.origin, call.path)
    if call.writes is not None:
        call.stored = True
        return True
    earlier = kept.questions(call.origin, call.path)
    if earlier:
        call.questions.know(earlier)
        waiting = kept.unanswered(call.origin, call.path, run.answers)
        if not enters(kept.asked(call.origin, call.path), waiting):
            call.questions.now = waiting
    return bool(call.questions.now) if earlier else False


async def store(call: CallTask, session: Session | None) -> None:
    """Make a call's result durable, before the code that waits for it may go on.

    Raises:
        NotStorable: it cannot be loaded back as it is.
        SaveFailed, LeaseLost, ThreadDeleted: it could not be saved.
    """
    run = call.run
    journal = run.journal
    if call.writes is None or call.stored:
        return
    if journal is not None and session is not None:
        row, values = _rows(journal, session, call)
        if session.durability == "exit":
            journal.adopt_result(row, values)
        else:
            commit = session.commit_for("keep", None)
            commit.writes, commit.values = (row,), values
            await session.store(commit)
    call.stored = True
    run.called[call.origin, call.path] = call.writes


def _rows(journal: Journal, session: Session, call: CallTask) -> tuple[WriteRow, tuple[ValueRow, ...]]:
    try:
        packed = Packed(*session.serde.dumps_typed(call.value))
    except NotStorable as error:
        error.key = f"result of task {call.node.name!r}{error.key or ''}"
        error.node = call.node.name
        raise
    values: tuple[ValueRow, ...] = ()
    item = WriteItem(RETURN, packed)
    if packed.data.__class__ is bytes and len(packed.data) > INLINE_LIMIT:
        ref = session.numbers.take()
        values = (ValueRow(ref, packed),)
        item = WriteItem(RETURN, None, ref)
    return WriteRow(journal.ns, call.origin, call.path, RESULT, (item,)), values
