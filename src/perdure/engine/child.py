"""Graphs that run inside a task of another graph: as a node, or called by a node's code. Written once for both colours.

A child shares its parent's hold on the thread and keeps books of its own, in a namespace named after the task that runs it. The
parent's task points to the child's newest checkpoint, so "where was I" is answered by following that pointer from whatever
checkpoint of the parent one starts from.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from perdure.checkpoint.records import Loaded
from perdure.constants import NS_SEP
from perdure.engine.attempt import bubble
from perdure.engine.entering import Opened
from perdure.engine.loop import super_steps
from perdure.engine.opening import open_in, open_run
from perdure.engine.run import Run
from perdure.errors import GraphInterrupt
from perdure.runtime.config import inherited, merged
from perdure.types import Command

if TYPE_CHECKING:
    from perdure.engine.compiled import CompiledGraph
    from perdure.engine.ports import Runner
    from perdure.engine.task import Task
    from perdure.streaming.modes import Event
    from perdure.types import RunnableConfig


async def run_node(task: Task) -> Any:
    """Run the subgraph that is a task's node; return its output.

    Raises:
        GraphInterrupt: it paused; its questions are the task's.
        Exception: whatever it raised.
    """
    graph = task.node.call.subgraph
    send = task.send
    given = task.see(task.node.view) if send is None else send.arg
    run = child_run(task, graph, {}, task.run.runner.child())
    steps = super_steps(run, await open_child(run, task, graph, given))
    try:
        async for events in steps:
            await hand_up(run, task, events)
    finally:
        await steps.aclose()
    output = finish(run)
    if isinstance(output, Mapping) and not task.run.program.root:
        channels = task.run.program.channels
        return {key: value for key, value in output.items() if key in channels}  # what the parent has no place for stays inside
    return output


async def hand_up(run: Run, task: Task, events: Sequence[Event]) -> None:
    """Give events of a child's run to the run around, as far as somebody listens to them there."""
    above = task.run
    if not above.below:
        return
    for event in events:
        if event.mode in above.below:
            above.runner.post(event)
    await run.runner.catch_up(above.runner.pace)


def finish(run: Run) -> Any:
    """What a child's run gives to its parent.

    Raises:
        GraphInterrupt: it paused.
    """
    journal = run.journal
    task = run.parent
    at = None if journal is None or journal.row is None else (journal.ns, journal.row.n)
    if run.outcome == "done":
        if at is not None and journal is not None and journal.remembers and task is not None:
            task.memories = {**task.memories, run.namespace: at[1]}
        return run.values()
    pause = GraphInterrupt(run.waiting if run.outcome == "paused" else ())
    pause.asked_at = at
    if task is not None:
        with task.run.lock:
            bubble(task, pause)  # here, for the node may swallow it
    raise pause


def child_run(task: Task, graph: CompiledGraph, config: RunnableConfig, runner: Runner, **options: Any) -> Run:
    """A run of `graph` inside `task`.

    Args:
        task: the task.
        graph: the graph.
        config: what the call adds to the config of the run around.
        runner: of the colour of the call, which need not be that of the run around: a sync node of an async run calls `invoke`.
        options: settings of the call.
    """
    above = task.run
    above.needs_saver(graph)
    call = task.calls
    task.calls += 1
    namespace = task.namespace if call == 0 else f"{task.namespace}{NS_SEP}{call}"
    if graph.checkpointer is True:
        namespace = NS_SEP.join(part.split(":")[0] for part in namespace.split(NS_SEP))
    settings: dict[str, Any] = {
        "modes": above.below,
        "below": above.below,
        "context": above.context,
        "store": graph.store if graph.store is not None else above.store,
        "cache": graph.cache if graph.cache is not None else above.cache,
        "control": above.control,
        **options,
    }
    run = Run(
        graph.program,
        merged(merged(graph.bound_config, inherited(above.config)), config),
        runner,
        parent=task,
        namespace=namespace,
        run_child=run_node,
        clock=above.clock,
        **settings,
    )
    run.run_id = above.run_id
    run.call_index = call
    run.answers = above.answers
    if run.seen is not None and "messages" in above.below:
        run.seen = above.seen
    run.refusals = above.refusals
    return run


async def open_child(run: Run, task: Task, graph: CompiledGraph, given: Any) -> Opened:
    """Begin a child's run: where it was, if this task began it before; else afresh, with `given`.

    Raises:
        UnknownKey, InvalidUpdateError, NotStorable: the input cannot be taken.
    """
    journal = task.run.journal
    if isinstance(given, Mapping) and not run.program.root:
        known = run.program.input_keys
        given = {key: value for key, value in given.items() if key in known}
    if journal is None or graph.checkpointer is False:
        return await open_run(run, given, None)
    session = journal.session.seen_from(run.runner)
    place = (journal.ns, task.origin, task.path, run.call_index)
    pointer = task.run.children.get(place[1:])
    if pointer is not None:
        loaded = await session.access.records.load(session.thread, *pointer)
        if loaded.row is not None:
            # The task began it before and did not end itself: the child goes on, or, if it had ended, gives its output again.
            return await open_in(
                run,
                session,
                loaded,
                given if isinstance(given, Command) else None,
                ns=pointer[0],
                child_of=place,
                remembers=graph.checkpointer is True,
            )
    if graph.checkpointer is not True:
        return await open_in(
            run, session, Loaded(session.loaded.thread, None), given, ns=session.numbers.take(), child_of=place, new=True
        )
    # As of the parent's checkpoint, never as of a later one (P21).
    memory = task.memories.get(run.namespace) or task.run.live.memories.get(run.namespace)
    loaded = await session.access.records.load(session.thread, run.namespace, memory)
    number = loaded.row.ns if loaded.row is not None else next(iter(loaded.namespaces), None)
    return await open_in(
        run,
        session,
        Loaded(session.loaded.thread, None) if memory is None else loaded,
        given,
        ns=session.numbers.take() if number is None else number,
        child_of=place,
        new=number is None,
        remembers=True,
    )
