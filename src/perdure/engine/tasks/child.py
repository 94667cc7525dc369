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
from perdure.engine.running.entering import Opened
from perdure.engine.running.loop import super_steps
from perdure.engine.running.opening import open_in, open_run
from perdure.engine.running.run import Run
from perdure.engine.storing.access import checked_durability
from perdure.engine.tasks.attempt import bubble
from perdure.engine.tasks.cached import warn_of_no_cache
from perdure.errors import GraphInterrupt, ParentCommand
from perdure.runtime.config import inherited, merged
from perdure.types import Command

if TYPE_CHECKING:
    from perdure.engine.compiled import CompiledGraph
    from perdure.engine.ports import Runner
    from perdure.engine.tasks.task import Task
    from perdure.streaming.modes import Event
    from perdure.types import Durability, RunnableConfig


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
    except ParentCommand:
        remember(run)
        raise
    finally:
        await steps.aclose()
        keep_place(run)
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


def keep_place(run: Run) -> None:
    """Note where a child has come to, so that another attempt of the task around goes on from there, as another process would."""
    journal, task = run.journal, run.parent
    if task is not None and journal is not None and journal.child_of is not None and journal.stored_row is not None:
        task.run.children[journal.child_of[1:]] = (journal.ns, journal.stored_row.n)


def finish(run: Run) -> Any:
    """What a child's run gives to its parent.

    Raises:
        GraphInterrupt: it paused.
    """
    journal = run.journal
    task = run.parent
    at = None if journal is None or journal.row is None else (journal.ns, journal.row.n)
    if run.outcome == "done":
        remember(run)
        if task is not None and journal is not None and not journal.is_empty:
            task.ended = (*task.ended, journal)
        return run.values()
    pause = GraphInterrupt(run.waiting if run.outcome != "break" else ())
    pause.asked_at = at
    pause.drained = run.outcome == "drained"
    if task is not None:
        with task.run.lock:
            bubble(task, pause)  # here, for the node may swallow it
    raise pause


def remember(run: Run) -> None:
    """Note with the task around what is to be remembered of a child that has ended: its state, or of one that keeps none, the memories
    of the subgraphs in it.
    """
    journal, task = run.journal, run.parent
    if task is None or journal is None or journal.row is None:
        return
    found = {run.namespace: journal.row.n} if journal.remembers else run.live.memories
    if found:
        with task.run.lock:
            task.memories = {**task.memories, **found}


def memory_of(task: Task, namespace: str) -> int | None:
    """The checkpoint that a remembering subgraph of the task goes on from: as of the parent's, never as of a later one (P21)."""
    above: Task | None = task
    while above is not None:
        found = above.memories.get(namespace) or above.run.live.memories.get(namespace)
        if found is not None:
            return found
        above = above.run.parent
    return None


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
    if graph.lacks_cache and settings["cache"] is None:
        warn_of_no_cache(graph.program)
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


async def open_child(run: Run, task: Task, graph: CompiledGraph, given: Any, durability: Durability | None = None) -> Opened:
    """Begin a child's run: where it was, if this task began it before; else afresh, with `given`.

    Args:
        run: the child's run.
        task: the task that runs it.
        graph: the child.
        given: its input.
        durability: its own, if it has one. Where the graph around saves nothing before its end, neither does it.

    Raises:
        InvalidConfig: there is no such durability.
        UnknownKey, InvalidUpdateError, NotStorable: the input cannot be taken.
    """
    journal = task.run.journal
    if isinstance(given, Mapping) and not run.program.root and run.program.single_output is None:
        known = run.program.input_keys
        given = {key: value for key, value in given.items() if key in known}
    if journal is None or graph.checkpointer is False:
        return await open_run(run, given, None)
    own: dict[str, Any] = {"durability": checked_durability(durability)}
    if durability is None or journal.durability == "exit":
        own["durability"] = journal.durability
    session = journal.session.seen_from(run.runner)
    place = (journal.ns, task.origin, task.path, run.call_index)
    for ended in task.ended:
        if ended.child_of == place:  # by an earlier attempt
            await ended.flush(force=True)
            task.run.children[place[1:]] = (ended.ns, 0 if ended.row is None else ended.row.n)
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
                **own,
            )
    if graph.checkpointer is not True:
        return await open_in(
            run, session, Loaded(session.loaded.thread, None), given, ns=session.numbers.take(), child_of=place, new=True, **own
        )
    memory = memory_of(task, run.namespace)
    loaded = await session.access.records.load(session.thread, run.namespace, memory)
    stored = next((number for number, name in loaded.namespaces.items() if name == run.namespace), None)
    ns = session.numbers.of_namespace(run.namespace, stored)
    return await open_in(
        run,
        session,
        Loaded(session.loaded.thread, None) if memory is None else loaded,
        given,
        ns=ns,
        child_of=place,
        new=stored is None,
        remembers=True,
        **own,
    )
