"""Several tasks of one super-step at a time: results are stored as they arrive, and told once they are stored."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from functools import partial
from typing import TYPE_CHECKING, Any

from perdure.bridge import inner
from perdure.engine.deciding.resume import hand_over
from perdure.engine.running import telling
from perdure.engine.running.stopping import stage_result, stop_between
from perdure.engine.tasks import cached
from perdure.engine.tasks.task import Task
from perdure.errors import ParentCommand
from perdure.failpoints import failpoint
from perdure.streaming.modes import Event

if TYPE_CHECKING:
    from perdure.engine.ports import InFlight
    from perdure.engine.running.run import Run


async def together(run: Run, tasks: list[Task], todo: list[Task], told: list[Event]) -> AsyncGenerator[list[Event], None]:
    """Run tasks together, and then the handlers of those that failed; yield events.

    Args:
        run: the run.
        tasks: all tasks of the super-step; handlers are added.
        todo: those of them that are to run.
        told: events that were not yielded yet; it is emptied.

    Raises:
        BaseException: the run was cancelled; what had arrived is stored, the rest is marked.
    """
    step = _Step(run, tasks, todo, told)
    wave = todo
    try:
        while wave:
            if told and run.journal is not None:
                # Held back until the step before is durable, but no longer: not until the first of these tasks has ended.
                in_flight = list(run.journal.session.in_flight)
                run.runner.start(partial(_landed, run, in_flight))
            running = run.runner.run(wave, limit=run.max_concurrency, timeout=run.program.step_timeout)
            try:
                async for batch in running if run.quiet else inner(running):
                    await step.take(batch)
                    if told:
                        yield told[:]
                        told.clear()
                    if step.failed:
                        break
            finally:
                await running.aclose()
            wave, step.handlers = step.handlers, []
    except BaseException as error:
        for task in tasks:
            if task.writes is None and task.error is None and not task.is_paused:
                task.cancelled = True
        await stop_between(run, tasks, [], [], left=isinstance(error, GeneratorExit))
        raise


async def _landed(run: Run, writes: list[InFlight]) -> None:
    """Wake whoever iterates over the running tasks once these writes have ended, well or not."""
    for write in writes:
        try:
            await run.runner.landing(write)
        except Exception:  # noqa: BLE001 - the run hears of it where it settles
            break
    run.runner.post(None)


def _is_for_handler(task: Task) -> bool:
    # One that has asked is not done with: it goes on when it is answered.
    return (
        task.error is not None and task.node.handler is not None and not (isinstance(task.error, ParentCommand) or task.pauses)
    )


class _Step:
    """What is known of a super-step while its tasks run.

    Attributes:
        handlers: the handlers of failed tasks that are to run next.
        failed: a task that was taken has failed, and nobody handles that. (One that has failed but was not taken yet is in nobody's
            books: its event is still to be told, its handler still to be found.)
    """

    __slots__ = ("_missing", "_run", "_tasks", "_told", "failed", "handlers")

    def __init__(self, run: Run, tasks: list[Task], todo: list[Task], told: list[Event]) -> None:
        self._run = run
        self._tasks = tasks
        self._told = told
        self._missing = len(todo)
        self.handlers: list[Task] = []
        self.failed = False

    async def take(self, batch: list[Any]) -> None:
        """Take what has come: events are told, results stored, failures handed to their handlers."""
        run = self._run
        journal = run.journal
        if journal is not None:
            if journal.session.in_flight:
                await journal.session.settle()
            if journal.session.lost is not None:
                raise journal.session.lost  # a subgraph waited for that write, and heard of it first
        if run.cache is not None:
            await cached.keep(run, batch)
        staged = False
        for item in batch:
            if not isinstance(item, Task):
                if item is not None:
                    self._told.append(item)
                continue
            self._missing -= 1
            if _is_for_handler(item):
                self.handlers.append(hand_over(run, item, item.error, self._tasks))
                self._missing += 1
            # A result that completes the super-step goes into the commit of its checkpoint instead.
            if journal is not None and item.writes is not None and len(self._tasks) > 1:
                stage_result(run, item, beside=True)
                staged = True
            self.failed = self.failed or (item.error is not None and item.handled is None)
            telling.ended(run, self._told, item)
        if staged and self._missing and journal is not None and journal.durability != "exit":
            await journal.flush()
            failpoint("engine.results.stored")
