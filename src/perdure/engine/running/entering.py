"""What every beginning of a run has in common: taking an input in, running the entry, storing the first commit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from perdure.checkpoint.records import CheckpointRow
from perdure.constants import ROOT, START
from perdure.engine.deciding import returns
from perdure.engine.deciding.live import Live
from perdure.engine.deciding.plan import Move, next_move
from perdure.engine.storing.journal import Journal
from perdure.engine.storing.restore import Restored
from perdure.engine.tasks.guard import detached
from perdure.engine.tasks.task import Entry
from perdure.errors import InvalidState

if TYPE_CHECKING:
    from perdure.engine.running.run import Run
    from perdure.streaming.modes import Event


class Opened:
    """A run that may begin.

    Attributes:
        move: what comes first: "go", or why nothing runs.
        resumed: it goes on with what was stored; the state it starts from is told first.
        restored: the stored checkpoint whose tasks it goes on with, and their results; None if all starts afresh.
        entered: keys that the input changed, None if there was no input.
        input_row, input_view: the input checkpoint and the state at it, if somebody wants to be told.
        sent: what START's path functions have sent: it may be that nothing runs after them.
    """

    __slots__ = ("entered", "input_row", "input_view", "move", "restored", "resumed", "sent")

    def __init__(self) -> None:
        self.move: Move = "go"
        self.resumed = False
        self.restored: Restored | None = None
        self.entered: list[str] | None = None
        self.input_row: CheckpointRow | None = None
        self.input_view: dict[str, Any] | None = None
        self.sent: list[Event] = []


def entry_value(run: Run, given: Any) -> Any:
    """The input as the result of the entry."""
    # The caller keeps the objects it gave: what a node does to the state must not show in them (P35).
    writes = [(key, detached(value)) for key, value in returns.input_writes(run.program, given)]
    return writes[0][1] if run.program.root else dict(writes)


async def enter(run: Run, opened: Opened, entry: Entry) -> None:
    """Run the entry: take its writes, and let START's conditional edges choose.

    Raises:
        Exception: whatever a path function raised.
    """
    if run.program.start.branches:
        run.inside = opened.sent
        try:
            await run.runner.run_one(entry)
        finally:
            run.inside = None
        if entry.error is not None:
            raise entry.error
    else:
        program = run.program
        entry.writes = [(ROOT, entry.given)] if program.root else list(entry.given.items())


async def take_input(run: Run, given: Any) -> Opened:
    """Store the input and the state after it in one commit; then the first node may run."""
    opened = Opened()
    journal, live = books(run)
    direct = run.program.single_output is not None
    value = given if direct else entry_value(run, given)
    live.drop_open()
    live.step = live.step + 1
    identity = journal.session.numbers.checkpoint(live.step)
    if direct:
        hand_in(run, given, identity[0])
        journal.checkpoint(live, "input", (), identity=identity, given=given, metadata=run.metadata)
        run.last_step = live.step + run.limit
        opened.move = next_move(run, ())
        await flush_move(run, opened.move)
        return opened
    # Kept as it enters the state: what a reducer gives its messages, their ids, is then stored once, and a resume gives no others.
    kept = {**given, **value} if isinstance(given, Mapping) and not run.program.root else value
    if run.program.untracked and isinstance(kept, dict):
        kept = {key: item for key, item in kept.items() if key not in run.program.untracked}
    row = journal.checkpoint(live, "input", (), identity=identity, given=kept, start=True, metadata=run.metadata)
    live.untouched = not run.program.start.branches
    if "checkpoints" in run.modes or "debug" in run.modes:
        opened.input_row, opened.input_view = row, dict(live.view)
    await run_entry(run, opened, value, identity[0])
    return opened


def hand_in(run: Run, given: Any, number: int) -> None:
    """Give an input straight to the one node of a program that has no state of its own, which runs next."""
    run.given = given
    run.live.fired = dict.fromkeys(run.program.start.edges, (number, (START,)))


async def run_entry(run: Run, opened: Opened, value: Any, origin: int) -> None:
    """Run the entry at checkpoint `origin`, and store what it makes of the state, in one commit with what was staged before.

    Raises:
        Exception: what a path function raised; the input is stored all the same.
    """
    journal, live = books(run)
    entry = Entry(run, origin, value)
    try:
        await enter(run, opened, entry)
        live.step += 1
        identity = journal.session.numbers.checkpoint(live.step)
        opened.entered = live.advance((entry,), identity[0])
        validate(run, opened.entered)
        journal.checkpoint(live, "loop", opened.entered, identity=identity, metadata=run.metadata)
    except InvalidState:
        # No code but a mended input could go on from this one: it is refused, and nothing is stored (P32).
        raise
    except BaseException as error:
        # The input was accepted: it is kept, and a resume takes it in again (P3).
        journal.session.failed(error)
        await journal.flush("error")
        raise
    run.last_step = live.step + run.limit
    opened.move = next_move(run, ())
    await flush_move(run, opened.move)


def validate(run: Run, changed: list[str]) -> None:
    """Refuse an input, or the update of a call, that does not fit the schema after its reducers (P32)."""
    if run.program.validate_state is not None:
        run.program.validate_state(run.live.view, frozenset(changed))


async def flush_move(run: Run, move: Move) -> None:
    """Store what is staged; where the run stops here, give the lease back in the same commit.

    A thread whose run was asked to stop is idle: it waits for nobody's answer. The task around a subgraph that was is not done.
    """
    journal = run.journal
    if journal is None:
        return
    if move == "limit":
        journal.session.failed(f"GraphRecursionError: recursion limit of {run.limit} reached")
    if move == "go":
        await journal.flush()
    elif move == "done" or (move == "drain" and run.parent is None):
        await journal.flush("idle")
    else:
        await journal.flush("error" if move == "limit" else "interrupted")


def books(run: Run) -> tuple[Journal, Live]:
    """The journal and the state of a run that is saved."""
    journal = run.journal
    assert journal is not None
    return journal, run.live
