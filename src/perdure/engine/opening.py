"""The beginning of a run: load, understand what the caller wants, and make it durable before the first node runs.

Whoever else writes to the thread between our load and our first commit makes that commit fail with StaleLoad; then all is done
again on what is there now. No node has run by then, only the path functions of START's edges.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from perdure.channels.base import MISSING
from perdure.checkpoint.records import ROOT_NS, CheckpointRow, Loaded, StaleLoad
from perdure.constants import BRANCH_PREFIX, CONF, ROOT, START, TASKS
from perdure.engine import decide, returns
from perdure.engine.journal import Journal
from perdure.engine.live import Live
from perdure.engine.plan import Move, next_move
from perdure.engine.restore import Restored
from perdure.engine.session import Access, Session
from perdure.engine.task import Entry
from perdure.errors import EmptyInputError, ThreadBusy, UnknownCheckpoint
from perdure.ids import interrupt_id, task_id
from perdure.runtime.config import stored_metadata
from perdure.types import NO_ANSWER, Command

if TYPE_CHECKING:
    from perdure.engine.run import Run

FIRST_WAIT = 0.005
LONGEST_WAIT = 0.25
"""Seconds between looks at a busy thread, doubling from the first to the longest. A database can only be asked."""


class Opened:
    """A run that may begin.

    Attributes:
        move: what comes first: "go", or why nothing runs.
        resumed: it goes on with what was stored; the state it starts from is told first.
        restored: the stored checkpoint whose tasks it goes on with, and their results; None if all starts afresh.
        entered: keys that the input changed, None if there was no input.
        input_row, input_view: the input checkpoint and the state at it, if somebody wants to be told.
    """

    __slots__ = ("entered", "input_row", "input_view", "move", "restored", "resumed")

    def __init__(self) -> None:
        self.move: Move = "go"
        self.resumed = False
        self.restored: Restored | None = None
        self.entered: list[str] | None = None
        self.input_row: CheckpointRow | None = None
        self.input_view: dict[str, Any] | None = None


async def open_run(run: Run, given: Any, access: Access | None, wait: float | None = None) -> Opened:
    """Bring a root run to the point where its first node may run.

    Args:
        run: the run; gets its live state and its journal.
        given: an input, a Command, or None to go on.
        access: the way to its thread; None without a saver.
        wait: for how many seconds to wait for a busy thread; None: do not.

    Raises:
        ThreadBusy: another run holds the thread, and `wait` is over.
        UnknownThread, UnknownCheckpoint, EmptyInputError, UnknownInterruptError: there is nothing to do that for.
        UnknownKey, InvalidUpdateError, NotStorable: the input cannot be taken.
    """
    if isinstance(given, Command):
        decide.check_command(given, saver=access is not None)
    if access is None:
        return await _open_unsaved(run, given)
    deadline = None if wait is None else run.clock.monotonic() + wait
    pause = FIRST_WAIT
    while True:
        try:
            loaded = await load(access, run)
            session = Session(access, loaded, run.runner, (run.program.name, run.program.fingerprint))
            session.refuse_if_busy()
            return await open_in(run, session, loaded, given)
        except StaleLoad:
            continue
        except ThreadBusy:
            if deadline is None or run.clock.monotonic() >= deadline:
                raise
        await run.runner.sleep(pause)
        pause = min(LONGEST_WAIT, pause * 2)


async def _open_unsaved(run: Run, given: Any) -> Opened:
    opened = Opened()
    live = run.live = Live(run.program)
    if given is None:
        raise EmptyInputError(
            "Received no input for __start__: a graph without a saver remembers nothing that it could go on with"
        )
    if isinstance(given, Command):
        live.step = 0
        opened.entered = apply_command(run, given, 0)
    else:
        entry = Entry(run, 0, entry_value(run, given))
        await enter(run, entry)
        live.step = 0
        opened.entered = live.advance((entry,), 0)
    run.last_step = live.step + run.limit
    opened.move = next_move(run, ())
    return opened


async def load(access: Access, run: Run) -> Loaded:
    """The checkpoint that the config addresses, or the thread's head.

    Raises:
        UnknownCheckpoint: the config names one that the thread does not have.
    """
    wanted = (run.config.get(CONF) or {}).get("checkpoint_id") or None
    loaded = await access.records.load(access.thread, ROOT_NS, wanted)
    if wanted is not None and loaded.row is None:
        raise UnknownCheckpoint(
            f"thread {access.thread!r} has no checkpoint {wanted!r}; take ids from get_state or get_state_history",
            thread=access.thread,
            checkpoint=wanted,
        )
    return loaded


async def open_in(
    run: Run,
    session: Session,
    loaded: Loaded,
    given: Any,
    *,
    ns: int = ROOT_NS,
    child_of: tuple[int, int, str, int] | None = None,
    new: bool = False,
) -> Opened:
    """Begin a run on what was loaded, in the root or in the namespace of a subgraph."""
    restored = None if loaded.row is None else Restored(run.program, loaded, session.serde)
    if restored is None:
        run.live = Live(run.program)
        run.journal = Journal(session, ns, run.namespace, child_of=child_of, new=new)
    else:
        run.live = restored.live
        run.journal = Journal(
            session,
            ns,
            run.namespace,
            row=restored.row,
            entries=restored.entries,
            chain=len(loaded.chain),
            ids=restored.ids,
            child_of=child_of,
        )
        run.children = {(c.origin, c.path, c.call): (c.child_ns, c.head) for c in loaded.children}
    run.metadata = stored_metadata(run.config, session.access.persist)
    if given is not None and not isinstance(given, Command):
        return await _take_input(run, given)
    if restored is None:
        if given is None or given.resume is not NO_ANSWER:
            raise decide.nothing_to_resume(session.thread)
        return await _start_with_command(run, given)
    return await _go_on(run, restored, given)


def entry_value(run: Run, given: Any) -> Any:
    """The input as the result of the entry."""
    writes = returns.input_writes(run.program, given)
    return writes[0][1] if run.program.root else dict(writes)


async def enter(run: Run, entry: Entry) -> None:
    """Run the entry: take its writes, and let START's conditional edges choose.

    Raises:
        Exception: whatever a path function raised.
    """
    if run.program.start.branches:
        await run.runner.run_one(entry)
        if entry.error is not None:
            raise entry.error
    else:
        program = run.program
        entry.writes = [(ROOT, entry.given)] if program.root else list(entry.given.items())


async def _take_input(run: Run, given: Any) -> Opened:
    """Store the input and the state after it in one commit; then the first node may run."""
    opened = Opened()
    journal, live = _books(run)
    value = entry_value(run, given)
    live.drop_open()
    live.step = live.step + 1
    identity = journal.session.numbers.checkpoint(live.step)
    kept = dict(given) if isinstance(given, Mapping) else value
    row = journal.checkpoint(live, "input", (), identity=identity, given=kept, start=True, metadata=run.metadata)
    if "checkpoints" in run.modes or "debug" in run.modes:
        opened.input_row, opened.input_view = row, dict(live.view)
    await _run_entry(run, opened, value, identity[0])
    return opened


async def _run_entry(run: Run, opened: Opened, value: Any, origin: int) -> None:
    journal, live = _books(run)
    entry = Entry(run, origin, value)
    try:
        await enter(run, entry)
        live.step += 1
        identity = journal.session.numbers.checkpoint(live.step)
        opened.entered = live.advance((entry,), identity[0])
        journal.checkpoint(live, "loop", opened.entered, identity=identity, metadata=run.metadata)
    except BaseException:
        # The input was accepted: it is kept, and a resume takes it in again (P3).
        await journal.flush("error")
        raise
    run.last_step = live.step + run.limit
    opened.move = next_move(run, ())
    await flush_move(run, opened.move)


async def flush_move(run: Run, move: Move) -> None:
    """Store what is staged; where the run stops here, give the lease back in the same commit."""
    journal = run.journal
    if journal is None:
        return
    await journal.flush(None if move == "go" else "idle" if move == "done" else "error" if move == "limit" else "interrupted")


def _books(run: Run) -> tuple[Journal, Live]:
    journal = run.journal
    assert journal is not None
    return journal, run.live


def apply_command(run: Run, command: Command[Any], number: int) -> list[str]:
    """Apply the update and the goto of a caller's command to the live state; return the keys that changed.

    Raises:
        UnknownKey, UnknownNode, InvalidUpdateError: it cannot be applied; nothing is stored.
    """
    live = run.live
    writes = returns.command_updates(run.program, "the caller", command)
    steering = returns.goto_writes(run.program, "The command goes to", command.goto)
    grouped: dict[str, list[Any]] = {}
    for key, value in writes:
        grouped.setdefault(key, []).append(value)
    changed = live.write(grouped, step=False)
    for channel, value in steering:
        if channel == TASKS:
            live.open_sends[len(live.sends)] = number
            live.sends = [*live.sends, value]
        else:
            live.fired.setdefault(channel[len(BRANCH_PREFIX) :], (number, (channel,)))
    return changed


async def _start_with_command(run: Run, command: Command[Any]) -> Opened:
    """A command on a thread that does not exist yet: its update is the first state, its goto the first nodes."""
    opened = Opened()
    live = run.live
    live.step = 0
    _edit(run, command)
    run.last_step = live.step + run.limit
    opened.move = next_move(run, ())
    opened.entered = list(live.view)
    await flush_move(run, opened.move)
    return opened


def _edit(run: Run, command: Command[Any]) -> None:
    journal, live = _books(run)
    identity = journal.session.numbers.checkpoint(live.step)
    changed = apply_command(run, command, identity[0])
    writes = returns.command_updates(run.program, "the caller", command)
    ran = (journal.edit(START, identity[0], writes),)
    journal.checkpoint(live, "update", changed, identity=identity, ran=ran, metadata=run.metadata)


async def _go_on(run: Run, restored: Restored, command: Command[Any] | None) -> Opened:
    """Resume the unfinished tip, or branch off an older checkpoint."""
    opened = Opened()
    opened.resumed = True
    journal, live = _books(run)
    session = journal.session
    thread = restored.loaded.thread
    run.skip_breaks = True
    for path, origin in decide.open_paths(restored):
        run.answers.update(restored.answers(origin, path))
    asked = decide.open_questions(restored, run.answers)
    given: dict[str, Any] = {}
    if command is not None and command.resume is not NO_ANSWER:
        at_breakpoint = not live.is_over and thread.status == "interrupted"
        given = decide.route(command.resume, asked, at_breakpoint=at_breakpoint, thread=session.thread)
    addressed = bool((run.config.get(CONF) or {}).get("checkpoint_id"))
    is_tip = restored.row.n == thread.head or journal.child_of is not None
    if addressed and journal.child_of is None and not (is_tip and (not live.is_over or given)):
        given = _fork(run, restored, given)
    elif not live.is_over or restored.given is not MISSING:
        opened.restored = restored
    if given:
        run.answers.update(given)
        _stage_answers(run, opened.restored, given)
    if command is not None and (command.update is not None or command.goto):
        live.step += 1
        _edit(run, command)
    if restored.given is not MISSING:
        row = journal.row
        await _run_entry(run, opened, entry_value(run, restored.given), restored.row.n if row is None else row.n)
        return opened
    run.last_step = live.step + run.limit
    opened.move = "done" if live.is_over else "go"
    if opened.move == "go" or not journal.is_empty:
        await flush_move(run, opened.move)
    return opened


def _fork(run: Run, restored: Restored, given: dict[str, Any]) -> dict[str, Any]:
    """Branch off a checkpoint: the same state again as a new checkpoint, whose tasks start afresh with ids of their own.

    Returns:
        The answers, under the ids that the questions have in the new branch.
    """
    journal, live = _books(run)
    old = {origin: journal.ids[origin] for _, origin in decide.open_paths(restored)}
    live.step += 1
    number, public = journal.session.numbers.checkpoint(live.step)
    moved: dict[str, Any] = {}
    for path, origin in decide.open_paths(restored):
        before = task_id(old[origin], run.namespace, path)
        now = task_id(public, run.namespace, path)
        for pause, place in restored.pauses(origin, path):
            if pause.id in given and place is not None and pause.id == interrupt_id(before, str(place)):
                moved[interrupt_id(now, str(place))] = given[pause.id]
    live.fired = {name: (number, triggers) for name, (_, triggers) in live.fired.items()}
    live.deferred = {name: (number, triggers) for name, (_, triggers) in live.deferred.items()}
    live.open_sends = dict.fromkeys(live.open_sends, number)
    run.answers.clear()
    kept = restored.given
    journal.checkpoint(
        live, "fork", (), identity=(number, public), given=kept, start=kept is not MISSING, metadata=restored.row.metadata
    )
    return moved


def _stage_answers(run: Run, restored: Restored | None, given: Mapping[str, Any]) -> None:
    """Stage the answers with the tasks whose questions they answer, next to those given before."""
    journal, live = _books(run)
    if restored is None:
        # A fork: its tasks are new, and nobody has asked again yet. The answers are kept with each of them.
        for task in [
            *((f"#{i}", n) for i, n in live.open_sends.items()),
            *((name, live.fired[name][0]) for name in live.fired),
        ]:
            journal.answers(task[1], task[0], given)
        return
    for path, origin in decide.open_paths(restored):
        own = {pause.id for pause, _ in restored.pauses(origin, path)}
        new = {pause: value for pause, value in given.items() if pause in own}
        if new:
            journal.answers(origin, path, {**restored.answers(origin, path), **new})
