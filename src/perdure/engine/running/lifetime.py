"""The life of a run from its opening to its end, and what its listener gets of it. Written once for both colours."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Any

from perdure.bridge import inner
from perdure.engine.runners.flights import Flight
from perdure.engine.running.loop import super_steps
from perdure.engine.running.opening import open_run
from perdure.engine.tasks import child
from perdure.errors import ParentCommand
from perdure.streaming.modes import Event, Shapes, Wanted, delivered

if TYPE_CHECKING:
    from perdure.engine.compiled import CompiledGraph
    from perdure.engine.running.run import Run
    from perdure.engine.storing.session import Access
    from perdure.engine.tasks.task import Task
    from perdure.types import Durability

Batches = AsyncGenerator[list[Event], None]


async def root(run: Run, given: Any, access: Access | None, wait: float | None) -> Batches:
    """Run a graph on its own; yield events in batches. However it ends, its hold on the thread ends with it."""
    failed = False
    try:
        steps = super_steps(run, await open_run(run, given, access, wait))
        try:
            async for events in steps if run.quiet else inner(steps):
                yield events
        finally:
            await steps.aclose()
    except Exception as error:
        failed = True
        if run.journal is not None:
            run.journal.session.failed(error)
        raise
    finally:
        try:
            if run.journal is not None:
                # Still held where the run did not come to its end. If its listener left, or it was cancelled, nothing is wrong with it.
                run.journal.session.left()
                await run.journal.session.let_go("error" if failed else "interrupted" if run.outcome != "done" else "idle")
        finally:
            await run.runner.close()


async def inside(task: Task, run: Run, graph: CompiledGraph, given: Any, durability: Durability | None = None) -> Batches:
    """Run a graph that a node's code has called; yield events in batches, and give the run around what is listened to there.

    Raises:
        GraphInterrupt: it paused.
    """
    steps = None
    flight = Flight(task)
    try:
        steps = super_steps(run, await child.open_child(run, task, graph, given, durability))
        async for events in steps if run.quiet else inner(steps):
            await child.hand_up(run, task, events)
            flight.rest()
            yield events
            flight.go_on()
        child.finish(run)
    except ParentCommand:
        child.remember(run)
        raise
    finally:
        try:
            if steps is not None:
                await steps.aclose()
                child.keep_place(run)
        finally:
            await run.runner.close()
            flight.rest()


async def told(run: Run, events: Batches, want: Wanted, printed: Wanted, shapes: Shapes) -> AsyncGenerator[Any, None]:
    """What the listener gets, item by item. While it has one in its hands, a root's lease is not renewed."""
    session = None
    try:
        async for batch in inner(events):
            show(run, batch, printed)
            if session is None and run.parent is None and run.journal is not None:
                session = run.journal.session
            for item in delivered(batch, want, run.namespace, shapes):
                if session is not None:
                    session.rest()
                yield item
                if session is not None:
                    session.wake()
    finally:
        await events.aclose()


async def exhaust(run: Run, events: Batches, printed: Wanted) -> None:
    """Run to the end, with nobody listening."""
    try:
        async for batch in events:
            show(run, batch, printed)
    finally:
        await events.aclose()


def show(run: Run, batch: list[Event], printed: Wanted) -> None:
    """Print the events of the modes that are to be printed."""
    if printed.modes:
        for mode, payload in delivered(batch, printed, run.namespace):
            print(f"[{mode}] {payload!r}")  # noqa: T201 - print_mode and debug ask for it
