"""Going on with a thread: resuming its tip, answering what it asked, branching off an older checkpoint, commanding it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from perdure.constants import BRANCH_PREFIX, CONF, START, TASKS
from perdure.engine.deciding import decide, returns
from perdure.engine.deciding.plan import next_move, refuse_missing
from perdure.engine.past.branches import left_behind
from perdure.engine.past.forking import Branch, Inside, fork
from perdure.engine.running.entering import Opened, books, entry_value, flush_move, run_entry, validate
from perdure.engine.storing.restore import Kept, Restored
from perdure.types import NO_ANSWER, Command

if TYPE_CHECKING:
    from perdure.engine.deciding.returns import Write
    from perdure.engine.running.run import Run
    from perdure.types import Interrupt


async def go_on(
    run: Run, restored: Restored, command: Command[Any] | None, inside: Inside | None = None, at: Kept | None = None
) -> Opened:
    """Resume the unfinished tip, or branch off an older checkpoint.

    Args:
        run: the run, at the checkpoint that it goes on from.
        restored: that checkpoint.
        command: answers, an edit, or where to go; None just goes on.
        inside: go on from this checkpoint of a subgraph instead, in a branch.
        at: the checkpoint whose questions may be answered, if it is another one: that of the subgraph.

    Raises:
        UnknownInterruptError: an answer is for no question.
        InvalidAnswer: an answer does not fit the schema of its question.
    """
    opened = Opened()
    opened.resumed = True
    journal, live = books(run)
    refuse_missing(run)
    session = journal.session
    thread = restored.loaded.thread
    for path, origin in restored.paths():
        run.answers.update(restored.answers(origin, path))
    is_child = journal.child_of is not None
    is_tip = is_child or not await left_behind(session.access, restored.loaded, journal.branch)
    addressed = bool((run.config.get(CONF) or {}).get("checkpoint_id")) or not is_tip
    # A checkpoint that the thread has left behind shows the question it waited for; it may be answered anew, in a branch (P19).
    tip_asks = is_tip and inside is None
    asked = decide.open_questions(restored, run.answers) if tip_asks else decide.shown_questions(at or restored)
    if tip_asks and at is not None:
        own = {pause.id for pause in decide.shown_questions(at)}
        asked = [pause for pause in asked if pause.id in own]
    given: dict[str, Any] = {}
    expired = decide.expired(asked) if tip_asks and not is_child else {}
    if command is not None and command.resume is not NO_ANSWER:
        late = [pause for pause in asked if pause.id in expired]
        asked = [pause for pause in asked if pause.id not in expired]
        waits = thread.status == "interrupted" or (journal.branch is not None and restored.row.n != thread.head)
        at_breakpoint = not live.is_over and waits
        given = decide.route(command.resume, asked, at_breakpoint=at_breakpoint, thread=session.thread, late=late)
        _refuse_misfits(asked, given, session.thread)
    given.update(expired)
    forks = inside is not None or (addressed and not is_child and not (is_tip and (not live.is_over or bool(given))))
    if forks:
        branch = Branch(given, inside)
        carried = await fork(session, journal, live, restored, branch)
        run.answers.clear()
        run.answers.update(carried.answers)
        if branch.keeps:
            await journal.flush(force=True)
            opened.restored = await _reloaded(run)
    else:
        opened.restored = restored if not live.is_over or restored.enters else None
        run.answers.update(given)
        _stage_answers(run, restored, given)
    if command is not None and (command.update is not None or command.goto):
        live.step += 1
        edit_by_command(run, command)
    if restored.enters:
        row = journal.row
        await run_entry(run, opened, entry_value(run, restored.given), restored.row.n if row is None else row.n)
        return opened
    run.last_step = live.step + run.limit
    opened.move = "done" if live.is_over else "go"
    # A run that died without leaving anything to do (durability "exit") left the thread "busy": now it is not.
    left_busy = thread.status == "busy" and not is_child
    if opened.move == "go" or not journal.is_empty or session.held or left_busy:
        await flush_move(run, opened.move)
    return opened


def _refuse_misfits(asked: list[Interrupt], given: dict[str, Any], thread: str) -> None:
    if any(pause.response_schema is not None for pause in asked):
        from perdure.runtime.questions import refuse_misfits

        refuse_misfits({pause.id: pause for pause in asked}, given, thread=thread)


async def _reloaded(run: Run) -> Restored:
    """The branch as it is stored: with the results and the subgraphs that were carried over."""
    journal, _ = books(run)
    session = journal.session
    row = journal.row
    loaded = await session.access.records.load(session.thread, journal.ns, None if row is None else row.n)
    run.children = {(c.origin, c.path, c.call): (c.child_ns, c.head) for c in loaded.children}
    return Restored(run.program, loaded, session.serde)


def _stage_answers(run: Run, restored: Restored, given: Mapping[str, Any]) -> None:
    """Stage the answers with the tasks whose questions they answer, next to those given before."""
    journal, _ = books(run)
    for path, origin in restored.paths() if given else ():
        own = {asked.question.id for asked in restored.asked(origin, path)}
        new = {pause: value for pause, value in given.items() if pause in own}
        if new:
            journal.answers(origin, path, {**restored.answers(origin, path), **new})


def apply_command(run: Run, command: Command[Any], number: int) -> tuple[list[str], list[Write]]:
    """Apply the update and the goto of a caller's command to the live state; return the keys that changed, and the update.

    Raises:
        UnknownKey, UnknownNode, InvalidUpdateError: it cannot be applied; nothing is stored.
    """
    live = run.live
    writes = list(returns.command_updates(run.program, "the caller", command))
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
    return changed, writes


async def start_with_command(run: Run, command: Command[Any]) -> Opened:
    """A command on a thread that does not exist yet: its update is the first state, its goto the first nodes."""
    opened = Opened()
    live = run.live
    live.step = 0
    edit_by_command(run, command)
    run.last_step = live.step + run.limit
    opened.move = next_move(run, ())
    opened.entered = list(live.view)
    await flush_move(run, opened.move)
    return opened


def edit_by_command(run: Run, command: Command[Any]) -> None:
    """Stage the checkpoint that a command's update and goto make."""
    journal, live = books(run)
    identity = journal.session.numbers.checkpoint(live.step)
    changed, writes = apply_command(run, command, identity[0])
    validate(run, changed)
    ran = (journal.edit(START, identity[0], writes),)
    journal.checkpoint(live, "update", changed, identity=identity, ran=ran, metadata=run.metadata)
