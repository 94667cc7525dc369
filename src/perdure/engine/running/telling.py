"""What a run tells about itself: its events, from live tasks and states. Pure; called only for modes that somebody listens to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from perdure.clock import iso_of
from perdure.constants import CONF, INTERRUPT, START
from perdure.engine.deciding import returns
from perdure.engine.deciding.plan import names_of
from perdure.engine.tasks import messaging
from perdure.ids import ticks_in, unix_ns_of
from perdure.streaming import events
from perdure.streaming.modes import Event

if TYPE_CHECKING:
    from perdure.checkpoint.records import CheckpointRow
    from perdure.engine.running.run import Run
    from perdure.engine.storing.restore import Restored
    from perdure.engine.tasks.calls import CallTask
    from perdure.engine.tasks.task import Task
    from perdure.types import Interrupt


def _debug(run: Run, found: list[Event], step: int, kind: str, payload: dict[str, Any]) -> None:
    if "debug" in run.modes:
        found.append(Event(run.namespace, "debug", events.debug(step, iso_of(run.clock.now_ns()), kind, payload)))


def values(run: Run, found: list[Event], changed: Iterable[str] | None, finished: Sequence[Task] = ()) -> None:
    """The state, if a key of the output changed (None: in any case), and the open questions with it."""
    if "values" not in run.modes:
        return
    shown = (run.keys,) if isinstance(run.keys, str) else run.keys
    if changed is not None and not any(key in shown for key in changed):
        return
    writes = [write for task in finished for write in task.writes or ()]
    found.append(Event(run.namespace, "values", run.values(writes)))


def started(run: Run, found: list[Event], tasks: Iterable[Task]) -> None:
    """Tasks begin."""
    if run.quiet:
        return
    if run.seen is not None:
        tasks = list(tasks)
        messaging.given(run, tasks)
    if "tasks" not in run.modes and "debug" not in run.modes:
        return
    for task in tasks:
        if task.node.hidden:
            continue
        given = task.send.arg if task.send is not None else task.see(task.node.view)
        payload = events.task_start(task.id, task.node.name, given, task.public_triggers, task.node.metadata)
        if "tasks" in run.modes:
            found.append(Event(run.namespace, "tasks", payload))
        _debug(run, found, run.live.step + 1, "task", payload)


def ended(run: Run, found: list[Event], task: Task) -> None:
    """A task has ended: its update, its questions, and its result."""
    if run.quiet or task.node.hidden or task.cancelled:
        return
    modes = run.modes
    if task.pauses and task.writes is None:
        asked(run, found, task)
    elif task.writes is not None and run.seen is not None and not task.cached:
        messaging.returned(run, found, task)
    if task.writes is not None and "updates" in modes:
        update = returns.update_of(task.writes, run.keys, root=run.program.root)
        payload: dict[str, Any] = {task.node.name: update}
        if task.cached:
            payload["__metadata__"] = {"cached": True}
        found.append(Event(run.namespace, "updates", payload))
    if task.cached or ("tasks" not in modes and "debug" not in modes):
        return
    result = returns.result_of(task.writes or (), run.program.stream_keys, root=run.program.root)
    questions = () if task.writes is not None else tuple(task.pauses)
    payload = events.task_end(task.id, task.node.name, task.error, result, questions)
    if "tasks" in modes:
        found.append(Event(run.namespace, "tasks", payload))
    _debug(run, found, run.live.step + 1, "task_result", payload)


def step_started(run: Run, call: CallTask) -> None:
    """A durable step begins."""
    if "tasks" in run.modes or "debug" in run.modes:
        given = (call.args, dict(call.kwargs))
        _step(run, "task", events.task_start(call.id, call.node.name, given, call.public_triggers, call.node.metadata))


def step_ended(run: Run, call: CallTask) -> None:
    """A durable step has ended, well or not: its result as an update of its own."""
    if run.quiet:
        return
    if call.writes is not None and run.seen is not None and not call.cached:
        found: list[Event] = []
        messaging.returned(run, found, call)
        for event in found:
            run.tell(event.mode, event.payload)
    if call.writes is not None and "updates" in run.modes:
        payload = {call.node.name: call.value}
        run.tell("updates", {**payload, "__metadata__": {"cached": True}} if call.cached else payload)
    if not call.cached and ("tasks" in run.modes or "debug" in run.modes):
        _step(run, "task_result", events.task_end(call.id, call.node.name, call.error, dict(call.writes or ()), ()))


def _step(run: Run, kind: str, payload: dict[str, Any]) -> None:
    if "tasks" in run.modes:
        run.tell("tasks", payload)
    if "debug" in run.modes:
        run.tell("debug", events.debug(run.live.step + 1, iso_of(run.clock.now_ns()), kind, payload))


def asked(run: Run, found: list[Event], task: Task) -> None:
    """A task waits for answers."""
    questions = tuple(task.pauses)
    if not questions:
        return
    if "updates" in run.modes:
        found.append(Event(run.namespace, "updates", {INTERRUPT: questions}))
    if "values" in run.modes:
        current = run.values()
        shown = {**current, INTERRUPT: questions} if isinstance(current, dict) else {INTERRUPT: questions}
        found.append(Event(run.namespace, "values", shown))


def breakpoint_reached(run: Run, found: list[Event]) -> None:
    """The run stops at a static breakpoint: no question, only the fact."""
    if "updates" in run.modes:
        found.append(Event(run.namespace, "updates", {INTERRUPT: ()}))


def checkpointed(
    run: Run,
    found: list[Event],
    row: CheckpointRow,
    view: dict[str, Any],
    tasks: Sequence[Task],
    restored: Restored | None = None,
) -> None:
    """A checkpoint was reached; `tasks` come next, with what is known of them, or stored in `restored`."""
    if "checkpoints" not in run.modes and "debug" not in run.modes:
        return
    journal = run.journal
    if journal is None:
        return
    parent = None if row.parent is None else journal.ids.get(row.parent)
    entry = any(task.path == START for task in row.frontier)
    shown = [_brief(run, task, restored) for task in tasks if task.failed is None]
    names = [task["name"] for task in shown]
    if entry:
        names = [START]
        shown = [{"id": _entry_id(run, row), "name": START, "interrupts": (), "state": None}]
    single = run.program.single_output
    if run.program.root or single is not None:
        current: Any = next(iter(view.values()), None) if single is None else view.get(single)
    else:
        current = {key: view[key] for key in run.program.stream_keys if key in view}
    payload = events.checkpoint(
        config_of(run, row.id),
        None if parent is None else config_of(run, parent),
        current,
        {**row.metadata, "source": row.source, "step": row.step, "parents": run.parents},
        names or names_of(run.live),
        shown,
    )
    if "checkpoints" in run.modes:
        found.append(Event(run.namespace, "checkpoints", payload))
    if "debug" in run.modes:
        stamp = iso_of(unix_ns_of(ticks_in(row.id)))
        found.append(Event(run.namespace, "debug", events.debug(row.step, stamp, "checkpoint", payload)))


def _brief(run: Run, task: Task, restored: Restored | None) -> dict[str, Any]:
    brief: dict[str, Any] = {"id": task.id, "name": task.node.name}
    failure = None if restored is None else restored.error(task.origin, task.path)
    questions: Sequence[Interrupt] = task.pauses
    if task.writes is not None:
        brief["result"] = returns.shown_of(run.program, task.writes)
    elif failure is not None:
        brief["error"] = failure.shown
    elif restored is not None:
        questions = [asked.question for asked in restored.asked(task.origin, task.path)]
    brief["interrupts"] = tuple(events.interrupt_dict(pause) for pause in questions)
    brief["state"] = None
    graph = task.node.call.subgraph
    if graph is not None and graph.checkpointer is not False:
        brief["state"] = {CONF: {"thread_id": thread_of_run(run), "checkpoint_ns": task.namespace}}
    return brief


def _entry_id(run: Run, row: CheckpointRow) -> str:
    from perdure.ids import task_id

    return task_id(row.id, run.namespace, START)


def thread_of_run(run: Run) -> str:
    """The thread of a run that is saved."""
    journal = run.journal
    return "" if journal is None else journal.session.thread


def config_of(run: Run, checkpoint: str) -> dict[str, Any]:
    """The config that addresses a checkpoint of this run."""
    return {CONF: {"thread_id": thread_of_run(run), "checkpoint_ns": run.namespace, "checkpoint_id": checkpoint}}
