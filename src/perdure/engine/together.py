"""Several tasks of one super-step at a time: results are stored as they arrive, and told once they are stored."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Any

from perdure.engine import cached, telling
from perdure.engine.resume import hand_over
from perdure.engine.stopping import stage_result, stop_between
from perdure.engine.task import Task
from perdure.errors import ParentCommand
from perdure.failpoints import failpoint
from perdure.streaming.modes import Event

if TYPE_CHECKING:
    from perdure.engine.run import Run


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
            running = run.runner.run(wave, limit=run.max_concurrency, timeout=run.program.step_timeout)
            try:
                async for batch in running:
                    await step.take(batch)
                    if told:
                        yield told[:]
                        told.clear()
                    if any(task.error is not None and task.handled is None for task in wave):
                        break
            finally:
                await running.aclose()
            wave, step.handlers = step.handlers, []
    except BaseException:
        for task in tasks:
            if task.writes is None and task.error is None and not task.is_paused:
                task.cancelled = True
        await stop_between(run, tasks, [], [])
        raise


class _Step:
    """What is known of a super-step while its tasks run."""

    __slots__ = ("_missing", "_run", "_tasks", "_told", "handlers")

    def __init__(self, run: Run, tasks: list[Task], todo: list[Task], told: list[Event]) -> None:
        self._run = run
        self._tasks = tasks
        self._told = told
        self._missing = len(todo)
        self.handlers: list[Task] = []

    async def take(self, batch: list[Any]) -> None:
        """Take what has come: events are told, results stored, failures handed to their handlers."""
        run = self._run
        journal = run.journal
        if journal is not None and journal.session.in_flight:
            await journal.session.settle()
        if run.cache is not None:
            await cached.keep(run, batch)
        staged = False
        for item in batch:
            if not isinstance(item, Task):
                self._told.append(item)
                continue
            self._missing -= 1
            if item.error is not None and item.node.handler is not None and not isinstance(item.error, ParentCommand):
                self.handlers.append(hand_over(run, item, item.error, self._tasks))
                self._missing += 1
            # A result that completes the super-step goes into the commit of its checkpoint instead.
            if journal is not None and item.writes is not None and len(self._tasks) > 1:
                stage_result(run, item)
                staged = True
            telling.ended(run, self._told, item)
        if staged and self._missing and journal is not None and journal.session.durability != "exit":
            await journal.flush()
            failpoint("engine.results.stored")
