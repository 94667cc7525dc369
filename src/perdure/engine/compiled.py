"""A graph that can run: the public methods of every compiled graph, in both colours, over the flows of the engine."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self, Unpack

from perdure.absent import TellsWhatIsMissing
from perdure.bridge import inner, iterate_blocking, run_blocking
from perdure.engine.inbox import HasInbox
from perdure.engine.options import Options, RunOptions
from perdure.engine.past.edit import Edits
from perdure.engine.past.history import History, call_config
from perdure.engine.past.travel import HasBranches
from perdure.engine.runners.blocking import BlockingRunner
from perdure.engine.running.lifetime import Batches, exhaust, inside, root, told
from perdure.engine.running.recovery import HasRecovery
from perdure.engine.running.run import NO_EVENTS, Run
from perdure.engine.storing.access import access_for, enclosing_task, refuse_inside
from perdure.engine.tasks import child
from perdure.engine.tasks.cached import HasCache, warn_of_no_cache
from perdure.errors import InvalidConfig, MissingCheckpointer
from perdure.runtime.config import checked, merged
from perdure.streaming.modes import NOTHING, Shapes, Wanted, wanted
from perdure.types import GraphOutput, RunnableConfig, StateSnapshot, StateUpdate, ensure_valid_checkpointer

if TYPE_CHECKING:
    from perdure.checkpoint.records import ThreadRow
    from perdure.engine.ports import Runner
    from perdure.engine.program import Program
    from perdure.engine.runners.leaving import Closing
    from perdure.engine.storing.session import Access


class CompiledGraph(HasCache, HasInbox, HasBranches, HasRecovery, TellsWhatIsMissing):
    """A graph that can run.

    Args:
        program: what to run.
        checkpointer: where to save; None: nowhere, or as a subgraph where the parent saves; True: as a subgraph with a memory of
            its own that lasts; False: never.
        store: what nodes reach as `runtime.store`.
        cache: where results of nodes with a cache policy are kept.
        debug: print each update and the state after it.
    """

    def __init__(
        self, program: Program, *, checkpointer: Any = None, store: Any = None, cache: Any = None, debug: bool = False
    ) -> None:
        self.program = program
        self.checkpointer = ensure_valid_checkpointer(checkpointer)
        self.store = store
        self.use_cache(cache)
        self.debug = debug
        self.name = program.name
        self.bound_config: RunnableConfig = {}
        self.stream_mode: Any = "updates"
        if not isinstance(checkpointer, bool) and checkpointer is not None:
            checkpointer.learn(program.types)

    def with_config(self, config: RunnableConfig | None = None, **kwargs: Any) -> Self:
        """The same graph with a config that those of its calls are merged into."""
        bound = self.copy()
        bound.bound_config = merged(self.bound_config, checked({**(config or {}), **kwargs}))
        return bound

    def copy(self) -> Self:
        """The same graph as another object."""
        twin = type(self).__new__(type(self))
        twin.__dict__.update(self.__dict__)
        return twin

    def graphs_at(self, name: str) -> list[CompiledGraph]:
        """The graphs that a node runs."""
        node = self.program.node(name)
        return [] if node is None or node.call.subgraph is None else [node.call.subgraph]

    # -- running ----------------------------------------------------------------------------------------------------------

    def invoke(
        self,
        input: Any,
        config: RunnableConfig | None = None,
        *,
        stream_mode: Any = "values",
        version: Any = "v1",
        print_mode: Any = (),
        debug: bool | None = None,
        **options: Unpack[RunOptions],
    ) -> Any:
        """Run the graph to its end, its next pause, or its failure, and return its output.

        Args:
            input: the state to start with; None to go on with an unfinished run; a `Command` to answer a pause, to edit, to jump.
            config: which thread (`configurable.thread_id`), and from which checkpoint (`checkpoint_id`).
            stream_mode: "values" for the output; another mode, or several, for the list of all events of that mode.
            version: "v2" returns a `GraphOutput` with `value` and `interrupts`.
            print_mode: modes to print while it runs.
            debug: print updates and values; None: as the graph was compiled.
            options: see `RunOptions`.

        Returns:
            The output keys of the state; with open pauses also `__interrupt__`, a list of them.

        Raises:
            ThreadBusy: another run holds the thread.
            GraphRecursionError: the run took more super-steps than `recursion_limit`.
            UnknownThread, UnknownCheckpoint, EmptyInputError: there is nothing to run.
            SaveFailed: a super-step could not be stored.
            Exception: whatever a node raised.
        """
        if stream_mode != "values":
            options["output_keys"] = options.get("output_keys") or self.program.single_output or self.program.output_keys
            shape: dict[str, Any] = {"stream_mode": stream_mode, "version": version}
            return list(self.stream(input, config, **shape, print_mode=print_mode, debug=debug, **options))
        shown = self._printed(print_mode, debug)
        run, events = self._begin(BlockingRunner(), input, config, Options.of(options), NOTHING, shown)
        run_blocking(exhaust(run, events, shown))
        return self._returned(run, version)

    async def ainvoke(
        self,
        input: Any,
        config: RunnableConfig | None = None,
        *,
        stream_mode: Any = "values",
        version: Any = "v1",
        print_mode: Any = (),
        debug: bool | None = None,
        **options: Unpack[RunOptions],
    ) -> Any:
        """`invoke` for async code."""
        if stream_mode != "values":
            options["output_keys"] = options.get("output_keys") or self.program.single_output or self.program.output_keys
            shape: dict[str, Any] = {"stream_mode": stream_mode, "version": version}
            items = self.astream(input, config, **shape, print_mode=print_mode, debug=debug, **options)
            return [item async for item in items]
        shown = self._printed(print_mode, debug)
        run, events = self._begin(_suspending_runner(), input, config, Options.of(options), NOTHING, shown)
        await exhaust(run, events, shown)
        return self._returned(run, version)

    def stream(
        self,
        input: Any,
        config: RunnableConfig | None = None,
        *,
        stream_mode: Any = None,
        subgraphs: bool = False,
        version: Any = "v1",
        print_mode: Any = (),
        debug: bool | None = None,
        **options: Unpack[RunOptions],
    ) -> Iterator[Any]:
        """Run the graph and yield what it tells, as it happens.

        Closing the iterator early stops the run after what is under way; the thread can be resumed. A run that is far ahead of a slow
        listener waits for it.

        Args:
            input: as for `invoke`.
            config: as for `invoke`.
            stream_mode: one of `StreamMode`, or a list of several; "updates" unless given.
            subgraphs: events of subgraphs too; each item then starts with its namespace, a tuple.
            version: "v1": bare payloads, `(mode, payload)` for a list of modes. "v2": dicts with `type`, `ns` and `data`, as the
                `StreamPart`s of `perdure.types` have them.
            print_mode: modes to print as well.
            debug: print updates and values as well; None: as the graph was compiled.
            options: see `RunOptions`.

        Yields:
            Events in order.

        Raises:
            Exception: as `invoke`.
        """
        want = self._wanted(stream_mode, subgraphs, version)
        shown = self._printed(print_mode, debug)
        shapes = self._shapes(options.get("output_keys"))
        options["output_keys"] = options.get("output_keys") or self.program.single_output or self.program.stream_keys
        run, events = self._begin(BlockingRunner(), input, config, Options.of(options), want, shown)
        return iterate_blocking(told(run, events, want, shown, shapes))

    async def astream(
        self,
        input: Any,
        config: RunnableConfig | None = None,
        *,
        stream_mode: Any = None,
        subgraphs: bool = False,
        version: Any = "v1",
        print_mode: Any = (),
        debug: bool | None = None,
        **options: Unpack[RunOptions],
    ) -> AsyncIterator[Any]:
        """`stream` for async code."""
        want = self._wanted(stream_mode, subgraphs, version)
        shown = self._printed(print_mode, debug)
        shapes = self._shapes(options.get("output_keys"))
        options["output_keys"] = options.get("output_keys") or self.program.single_output or self.program.stream_keys
        run, events = self._begin(_suspending_runner(), input, config, Options.of(options), want, shown)
        items = told(run, events, want, shown, shapes)
        closing = _closing(items)
        await closing.begin()
        try:
            async for item in inner(items):
                yield item
        finally:
            await closing.close()

    def batch(
        self,
        inputs: Sequence[Any],
        config: RunnableConfig | Sequence[RunnableConfig] | None = None,
        *,
        return_exceptions: bool = False,
        **kwargs: Any,
    ) -> list[Any]:
        """`invoke` for several inputs at once, on threads; `config` is one for all, or one for each.

        Args:
            inputs: the inputs.
            config: one config, or as many as there are inputs. `max_concurrency` of the first bounds how many run at a time.
            return_exceptions: put an exception in the place of its result instead of raising the first.
            kwargs: passed on to `invoke`.
        """
        from perdure.engine.running.batch import run_batch

        return run_batch(self.invoke, inputs, config, return_exceptions=return_exceptions, kwargs=kwargs)

    async def abatch(
        self,
        inputs: Sequence[Any],
        config: RunnableConfig | Sequence[RunnableConfig] | None = None,
        *,
        return_exceptions: bool = False,
        **kwargs: Any,
    ) -> list[Any]:
        """`batch` for async code, on the caller's loop."""
        from perdure.engine.running.batch import arun_batch

        return await arun_batch(self.ainvoke, inputs, config, return_exceptions=return_exceptions, kwargs=kwargs)

    def _begin(
        self,
        runner: Runner,
        given: Any,
        config: Any,
        settings: Options,
        want: Wanted,
        shown: Wanted,
        still: ThreadRow | None = None,
    ) -> tuple[Run, Batches]:
        """A run and the flow that runs it; inside a node, the run of a subgraph. It only begins if the thread is `still` like that."""
        modes = want.modes | shown.modes
        below = want.modes if want.subgraphs else NO_EVENTS
        own = checked(config)
        task = enclosing_task(self.program, own)
        own_ways = {**settings.breaks(self.program), "keys": settings.keys(self.program)}
        if task is not None:
            extra = {} if settings.context is None else {"context": self._context(settings.context)}
            above = task.run.below
            run = child.child_run(task, self, own, runner, modes=modes | above, below=below | above, **own_ways, **extra)
            return run, inside(task, run, self, given, settings.durability)
        saver = self.checkpointer
        if saver is True:
            raise InvalidConfig(
                "checkpointer=True cannot be used for root graphs: it lets a subgraph keep a memory in its parent's saver"
            )
        bound = merged(self.bound_config, own)
        access = None
        if saver:
            access = access_for(saver, bound, blocking=isinstance(runner, BlockingRunner), durability=settings.durability)
            access = access if still is None else replace(access, still=still)
        if self.lacks_cache:
            warn_of_no_cache(self.program)
        run = Run(
            self.program,
            bound,
            runner,
            modes=modes,
            below=below,
            context=self._context(settings.context),
            store=self.store,
            cache=self.cache,
            control=settings.control,
            run_child=child.run_node,
            **own_ways,
        )
        run.run_id = "" if access is None else access.run_id
        return run, root(run, given, access, settings.wait)

    def _wanted(self, stream_mode: Any, subgraphs: bool, version: Any) -> Wanted:
        return wanted(self.stream_mode if stream_mode is None else stream_mode, subgraphs=subgraphs, version=version)

    def _printed(self, print_mode: Any, debug: bool | None = None) -> Wanted:
        if not print_mode and not (self.debug if debug is None else debug):
            return NOTHING
        return wanted(([print_mode] if isinstance(print_mode, str) else list(print_mode)) or ["updates", "values"])

    def _shapes(self, output_keys: Any) -> Shapes:
        return Shapes(None if output_keys else self.program.output_object, self.program.start.view.make)

    def _context(self, given: Any) -> Any:
        schema = self.program.context_schema
        if schema is None or not isinstance(given, dict) or issubclass(schema, dict):
            return given
        return schema(**given)

    def _returned(self, run: Run, version: Any) -> Any:
        if version == "v2":
            value = run.values([write for task in run.finished for write in task.writes or ()])
            make = self.program.output_object if run.keys is self.program.output_keys else None
            return GraphOutput(value if make is None else make(value), tuple(run.waiting))
        return run.output()

    # -- reading and editing ----------------------------------------------------------------------------------------------

    def _access(self, config: RunnableConfig, *, blocking: bool) -> Access:
        if not self.checkpointer or self.checkpointer is True:
            raise MissingCheckpointer(
                "No checkpointer set: compile(checkpointer=...) with a saver to keep, read and edit state"
            )
        return access_for(self.checkpointer, config, blocking=blocking)

    def get_state(self, config: RunnableConfig, *, subgraphs: bool = False) -> StateSnapshot:
        """The thread's state: now, or at the checkpoint that `config` names.

        Args:
            config: which thread, and optionally which checkpoint.
            subgraphs: show the states of subgraphs in `tasks[i].state` instead of their configs.

        Raises:
            UnknownCheckpoint: the thread has no such checkpoint. (A thread that does not exist has an empty state.)
            MissingCheckpointer: the graph has no saver.
        """
        bound = call_config(self, config)
        return run_blocking(History(self, self._access(bound, blocking=True)).state(bound, subgraphs=subgraphs))

    async def aget_state(self, config: RunnableConfig, *, subgraphs: bool = False) -> StateSnapshot:
        """`get_state` for async code."""
        bound = call_config(self, config)
        return await History(self, self._access(bound, blocking=False)).state(bound, subgraphs=subgraphs)

    def get_state_history(
        self,
        config: RunnableConfig,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[StateSnapshot]:
        """The thread's checkpoints, newest first, of all branches; read as they are needed.

        Args:
            config: which thread.
            filter: metadata keys and the values they must equal.
            before: only checkpoints older than the one that it names.
            limit: at most so many.

        Raises:
            UnknownCheckpoint: `before` names a checkpoint that the thread does not have.
            InvalidConfig: the graph has no saver, or the limit is negative.
        """
        bound = call_config(self, config)
        history = History(self, self._access(bound, blocking=True))
        return iterate_blocking(history.history(bound, match=filter, before=before, limit=limit))

    async def aget_state_history(
        self,
        config: RunnableConfig,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[StateSnapshot]:
        """`get_state_history` for async code."""
        bound = call_config(self, config)
        history = History(self, self._access(bound, blocking=False))
        async for snapshot in history.history(bound, match=filter, before=before, limit=limit):
            yield snapshot

    def update_state(
        self, config: RunnableConfig, values: Any, as_node: str | None = None, task_id: str | None = None
    ) -> RunnableConfig:
        """Edit the thread's state, as if a node had returned `values`; return the config of the checkpoint that this makes.

        Reducers apply. The checkpoint that `config` names (default: the newest) stays as it was.

        Args:
            config: which thread, and optionally which checkpoint to branch off.
            values: the update, or whatever else the node could return.
            as_node: in whose name: its edges decide what runs next. Default: the node that ran last.
            task_id: the id of the task that the edit stands for, where its node has several.

        Raises:
            InvalidUpdateError: no such node, or it is not clear in whose name; unknown keys (UnknownKey).
            TaskNotFound: no task of that id is to run at the checkpoint.
            ThreadBusy: a run holds the thread (SelfBusy: the run this is called from).
            UnknownCheckpoint: the thread has no such checkpoint.
        """
        return self.bulk_update_state(config, [[StateUpdate(values, as_node, task_id)]])

    async def aupdate_state(
        self, config: RunnableConfig, values: Any, as_node: str | None = None, task_id: str | None = None
    ) -> RunnableConfig:
        """`update_state` for async code."""
        return await self.abulk_update_state(config, [[StateUpdate(values, as_node, task_id)]])

    def bulk_update_state(self, config: RunnableConfig, supersteps: Sequence[Sequence[StateUpdate]]) -> RunnableConfig:
        """Several edits in one commit: one checkpoint for each inner list. Raises as `update_state`."""
        bound = call_config(self, config)
        access = self._access(bound, blocking=True)
        refuse_inside(access.thread, "edit")
        return run_blocking(_edited(self, bound, access, BlockingRunner(), supersteps))

    async def abulk_update_state(self, config: RunnableConfig, supersteps: Sequence[Sequence[StateUpdate]]) -> RunnableConfig:
        """`bulk_update_state` for async code."""
        bound = call_config(self, config)
        access = self._access(bound, blocking=False)
        refuse_inside(access.thread, "edit")
        return await _edited(self, bound, access, _suspending_runner(), supersteps)


async def _edited(
    graph: CompiledGraph, config: RunnableConfig, access: Access, runner: Runner, supersteps: Sequence[Sequence[StateUpdate]]
) -> RunnableConfig:
    try:
        return await Edits(graph, access, runner).bulk(config, supersteps)
    finally:
        await runner.close()


def _closing(items: AsyncGenerator[Any, None]) -> Closing:
    from perdure.engine.runners.leaving import Closing

    return Closing(items)


def _suspending_runner() -> Runner:
    from perdure.engine.runners.suspending import SuspendingRunner

    return SuspendingRunner()
