"""Taking up runs whose process died, and pauses whose deadline has passed. Written once for both colours.

Which threads are concerned is read first; each is then gone on with only if its lease is still the one that was seen. So whoever
comes second, in another process or this one, leaves the thread alone, and it does not matter how many call this at once.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from perdure.bridge import run_blocking
from perdure.checkpoint.index.records import ThreadFilter
from perdure.checkpoint.index.threads import Index
from perdure.checkpoint.records import ROOT_NS
from perdure.checkpoint.saver import Saver
from perdure.checkpoint.saving import begin, not_found
from perdure.constants import CONF, DEFAULT_NAME
from perdure.engine.options import Options
from perdure.engine.runners.blocking import BlockingRunner
from perdure.engine.running.batch import arun_batch, run_batch
from perdure.engine.running.lifetime import Batches, exhaust
from perdure.engine.storing.access import checked_durability
from perdure.engine.storing.session import MovedOn
from perdure.errors import EmptyInputError, InvalidConfig, NeedsContext, PerdureError, SelfBusy, ThreadBusy, WrongType
from perdure.runtime.config import checked, merged
from perdure.streaming.modes import NOTHING, Wanted
from perdure.types import NO_ANSWER

if TYPE_CHECKING:
    from perdure.checkpoint.index.records import RunRow
    from perdure.checkpoint.index.thread_info import ThreadInfo
    from perdure.checkpoint.records import CheckpointRow, Status, ThreadRow
    from perdure.engine.ports import Runner
    from perdure.engine.program import Program
    from perdure.engine.running.run import Run
    from perdure.types import Durability, RunnableConfig

PAGE = 64
"""Threads that are asked for at a time."""
AT_ONCE = 8
"""Runs that are taken up at a time."""

NOT_FOUND = not_found("runs to take up")

ContextFor = Callable[["ThreadInfo"], Any]


class Recovery(NamedTuple):
    """What `resume_all` did with a thread.

    Attributes:
        thread: the thread as it was found.
        outcome: "resumed": its run was taken up, and has ended or pauses. "elsewhere": another process runs it, or has just taken it
            up. "failed": it could not be taken up, or failed. "needs_context": it had a context, and none was given.
        status: how the thread stands after it was resumed.
        error: why it failed, or what is missing.
    """

    thread: ThreadInfo
    outcome: Literal["resumed", "elsewhere", "failed", "needs_context"]
    status: Status | None = None
    error: Exception | None = None

    @property
    def thread_id(self) -> str:
        """The id of the thread."""
        return self.thread.thread_id


@dataclass(slots=True)
class _Found:
    """A thread that may want to be taken up.

    Attributes:
        thread: as users see it.
        row: as it was seen; the run begins only if it is still like that.
        head: its newest checkpoint.
        run: its last run, as far as it was recorded.
        lives: somebody runs it.
        error: it cannot be read.
    """

    thread: ThreadInfo
    row: ThreadRow
    head: CheckpointRow | None = None
    run: RunRow | None = None
    lives: bool = False
    error: PerdureError | None = None


class HasRecovery:
    """The part of a compiled graph that goes on with what a process has left behind."""

    program: Program
    checkpointer: Any
    if TYPE_CHECKING:

        def _begin(
            self,
            runner: Runner,
            given: Any,
            config: Any,
            settings: Options,
            want: Wanted,
            shown: Wanted,
            still: ThreadRow | None = None,
        ) -> tuple[Run, Batches]: ...

    def resume_all(
        self,
        config: RunnableConfig | None = None,
        *,
        context_for: ContextFor | None = None,
        durability: Durability | None = None,
        max_concurrency: int = AT_ONCE,
        stalled: bool = False,
    ) -> list[Recovery]:
        """Find the runs of this graph whose process has died and take them up where they were; wait for them to end.

        Also goes on with pauses that have a default answer and whose deadline has passed. Threads are this graph's if a graph of its
        name ran them last. It may be called by several processes at once: each run is taken up once.

        Args:
            config: what the configs of these runs are to have besides the thread: callbacks, a recursion limit. What is stored with the
                threads (`metadata`, what the saver's `persist=` names) they have already.
            context_for: gives the context of a thread, from its `ThreadInfo`; None: it has none.
            durability: as for `invoke`.
            max_concurrency: how many runs are taken up at a time, on threads.
            stalled: also those whose process lives but whose lease has run out, such as streams that nobody reads on.

        Returns:
            One report for each thread that was found, those that run elsewhere included.

        Raises:
            InvalidConfig: the graph has no saver, or one that keeps no leases.
            SaveFailed: the tables of a new database could not be made.
        """
        index = self._recoverable(config, durability, max_concurrency, blocking=True)
        found = run_blocking(_found(index, self.program, stalled=stalled))

        def one(each: _Found, _: Any) -> Recovery:
            flow = _take_up(self, each, config, context_for, durability, BlockingRunner())
            return run_blocking(flow)

        limit: Any = {"max_concurrency": max_concurrency}
        return run_batch(one, found, limit, return_exceptions=False, kwargs={})

    async def aresume_all(
        self,
        config: RunnableConfig | None = None,
        *,
        context_for: ContextFor | None = None,
        durability: Durability | None = None,
        max_concurrency: int = AT_ONCE,
        stalled: bool = False,
    ) -> list[Recovery]:
        """`resume_all` for async code, on the caller's loop; `context_for` may be async."""
        from perdure.engine.runners.suspending import SuspendingRunner

        index = self._recoverable(config, durability, max_concurrency, blocking=False)
        found = await _found(index, self.program, stalled=stalled)

        async def one(each: _Found, _: Any) -> Recovery:
            return await _take_up(self, each, config, context_for, durability, SuspendingRunner())

        limit: Any = {"max_concurrency": max_concurrency}
        return await arun_batch(one, found, limit, return_exceptions=False, kwargs={})

    def _recoverable(
        self, config: RunnableConfig | None, durability: Durability | None, max_concurrency: int, *, blocking: bool
    ) -> Index:
        saver = self.checkpointer
        if not saver or saver is True:
            raise InvalidConfig("No checkpointer set: compile(checkpointer=...) with a saver, which keeps the runs to take up")
        if not isinstance(saver, Saver):
            raise InvalidConfig(
                f"{type(saver).__name__} keeps no leases: it has the seeds' four methods only, and does not tell whose process died. "
                "Go on with invoke(None, config) thread by thread, or use a saver of this library",
                key="checkpointer",
            )
        if type(max_concurrency) is not int or max_concurrency < 1:
            raise InvalidConfig(f"max_concurrency must be a positive number, got {max_concurrency!r}", key="max_concurrency")
        checked_durability(durability)
        named = {"thread_id", "checkpoint_id", "checkpoint_ns", "branch"}.intersection(checked(config).get(CONF) or {})
        if named:
            raise InvalidConfig(
                f"resume_all finds the threads itself; take {', '.join(sorted(named))} out of the config, or go on with that one "
                "thread: invoke(None, config)",
                key=min(named),
            )
        return saver._index(blocking=blocking)


async def _found(index: Index, program: Program, *, stalled: bool) -> list[_Found]:
    """The threads of a graph whose run has died, or is under way, or which wait for an answer that has a default by now."""
    found: list[_Found] = []
    after = None
    records = index.records()
    wanted: tuple[Status, ...] = ("busy", "interrupted")
    ours = ThreadFilter(statuses=wanted, graph=program.name)
    while rows := await begin(records.threads(after=after, limit=PAGE, wanted=ours), None, NOT_FOUND):
        for row in rows:
            one = await _looked_into(index, row, stalled=stalled)
            if one is not None:
                found.append(one)
        after = rows[-1].thread
        if len(rows) < PAGE:
            break
    return found


async def _looked_into(index: Index, row: ThreadRow, *, stalled: bool) -> _Found | None:
    if row.status == "busy":
        seen = index.told(row, ())
        if seen.is_running or not (seen.crashed or stalled):
            return _Found(seen, row, lives=True)
    try:
        return await _head_of(index, row)
    except PerdureError as error:  # a damaged record, a class that is not registered: not a reason to leave the others behind
        return _Found(index.told(row, ()), row, error=error)


async def _head_of(index: Index, row: ThreadRow) -> _Found | None:
    loaded = await index.records().load(row.thread, ROOT_NS, None)
    current = loaded.thread
    if (current.incarnation, current.lease.epoch, current.status) != (row.incarnation, row.lease.epoch, row.status):
        return None if current.status != "busy" else _Found(index.told(current, ()), current, lives=True)
    questions = index.questions(loaded)
    if row.status == "interrupted" and not any(one.overdue and one.default is not NO_ANSWER for one in questions):
        return None
    return _Found(index.told(current, questions), current, loaded.row, await index.last_run(row.thread))


async def _take_up(
    graph: HasRecovery,
    found: _Found,
    config: RunnableConfig | None,
    context_for: ContextFor | None,
    durability: Durability | None,
    runner: Runner,
) -> Recovery:
    """Go on with one thread, if it is still as it was found."""
    thread = found.thread
    if found.lives or found.error is not None:
        return Recovery(thread, "elsewhere" if found.lives else "failed", error=found.error)
    run: Run | None = None
    try:
        _refuse_namesake(graph.program, found)
        context = await _context_of(graph.program, found, context_for, blocks=runner.blocks)
        options = Options.of({"context": context, "durability": durability})
        run, events = graph._begin(runner, None, _config_of(graph, found, config), options, NOTHING, NOTHING, found.row)
        await exhaust(run, events, NOTHING)
    except MovedOn:
        return Recovery(thread, "elsewhere")
    except NeedsContext as error:
        return Recovery(thread, "needs_context", error=error)
    except ThreadBusy as error:
        return Recovery(thread, "elsewhere") if _came_second(run, error, thread) else Recovery(thread, "failed", error=error)
    except Exception as error:  # noqa: BLE001 - whatever a node raises is reported, and the other threads are gone on with
        return Recovery(thread, "failed", error=error)
    head = found.head
    if thread.status == "busy" and head is not None and not (head.frontier or head.deferred):
        return Recovery(thread, "failed", "idle", _nothing_left(thread.thread_id))
    return Recovery(thread, "resumed", "idle" if run.outcome == "done" else "interrupted")


def _came_second(run: Run | None, error: ThreadBusy, thread: ThreadInfo) -> bool:
    """Whether it was the run itself that was refused, and not a call that one of its nodes made."""
    record = None if run is None or run.journal is None else run.journal.session.record
    return error.thread == thread.thread_id and not isinstance(error, SelfBusy) and (record is None or not record.entries)


def _nothing_left(thread: str) -> EmptyInputError:
    return EmptyInputError(
        f"the run of thread {thread!r} died before it had stored anything that could be gone on with (as durability='exit' has it); give "
        "its input again",
        thread=thread,
    )


def _refuse_namesake(program: Program, found: _Found) -> None:
    """Refuse the thread of another graph that nobody gave a name either.

    Raises:
        InvalidConfig: it is one, or an older version of this graph.
    """
    if program.name == DEFAULT_NAME and found.row.fingerprint not in ("", program.fingerprint):
        raise InvalidConfig(
            f"thread {found.thread.thread_id!r} was run by a graph of another shape that has no name either, so it cannot be told whether "
            f"it is this graph's. Name your graphs, compile(name=...); go on with this thread by invoke(None, config)",
            thread=found.thread.thread_id,
            key="name",
        )


async def _context_of(program: Program, found: _Found, context_for: ContextFor | None, *, blocks: bool) -> Any:
    """The context of a thread's run.

    Raises:
        NeedsContext: it had one, and there is none now.
        WrongType: it has to be waited for, which sync code cannot.
    """
    context = None if context_for is None else context_for(found.thread)
    if inspect.isawaitable(context):
        if blocks:
            if inspect.iscoroutine(context):
                context.close()
            raise WrongType("context_for is async: use aresume_all, or a plain function")
        context = await context
    had = program.context_schema is not None if found.run is None else found.run.context
    if context is None and had:
        thread = found.thread.thread_id
        raise NeedsContext(
            f"the run of thread {thread!r} had a context, which is not stored. Give it: "
            "resume_all(context_for=lambda thread: ...), which gets a ThreadInfo with `thread_id` and `metadata`",
            thread=thread,
        )
    return context


def _config_of(graph: HasRecovery, found: _Found, config: RunnableConfig | None) -> RunnableConfig:
    """The config of a thread's run, as far as it is stored, with what the caller adds."""
    stored = dict(found.thread.metadata) if found.head is None else found.head.metadata
    conf = {key: stored[key] for key in graph.checkpointer.persist if key in stored}
    conf["thread_id"] = found.thread.thread_id
    if found.run is not None and found.run.branch is not None:
        conf["branch"] = found.run.branch
    own: RunnableConfig = {CONF: conf, "metadata": dict(stored)}
    return merged(own, checked(config))
