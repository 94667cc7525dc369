"""One run of one graph: what its tasks may ask of it, and what it knows of the world around.

A run is made for each invoke or stream, and for each subgraph that a node runs. It holds; `loop.py` acts.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from perdure.clock import SYSTEM_CLOCK, Clock
from perdure.constants import INTERRUPT, ROOT
from perdure.engine.deciding import returns
from perdure.engine.deciding.live import Live
from perdure.engine.tasks.seam import seam_of
from perdure.engine.tasks.task import Task
from perdure.errors import InvalidAnswer, InvalidConfig
from perdure.runtime.config import recursion_limit, thread_of
from perdure.runtime.runtime import ExecutionInfo, RunControl, Runtime
from perdure.streaming.modes import Event

if TYPE_CHECKING:
    from perdure.engine.deciding.plan import Move
    from perdure.engine.ports import Runner
    from perdure.engine.program import Program
    from perdure.engine.storing.journal import Journal
    from perdure.engine.storing.restore import Kept
    from perdure.types import Interrupt, OnBusy, RunnableConfig

NO_EVENTS: frozenset[str] = frozenset()
EAGER = frozenset({"custom", "messages"})
"""Modes whose events are sent while a node runs, so that it must not run inline."""


class Run:
    """One run of one graph.

    Attributes:
        program: the graph.
        config: the merged config of the call.
        runner: its way to threads or tasks; shared with the runs of subgraphs.
        namespace: "" for the root, the task's own for a subgraph.
        parent: for a subgraph: the task that runs it.
        live: the state.
        journal: its books; None without a saver.
        answers: all answers known, by pause id; shared with the runs of subgraphs.
        refusals: what the types of questions said against answers; shared likewise.
        call_index: for a subgraph: which of its task's calls it is.
        kept: what was stored of the super-step that the run goes on with.
        given: the input, for a program that has no state of its own (functional API).
        children: where the subgraphs of stored tasks are, by (origin, path, call): number of the namespace and of the checkpoint.
        modes: the modes that somebody listens to.
        seen: ids of the messages that were told or need not be; None if nobody listens to them.
        seam: what surrounds its tasks for the sake of other packages, if anything does.
        below: the modes that somebody listens to in the graphs inside it.
        inside: takes what durable steps tell while their node runs in place, where nobody fetches it until the node has ended.
        keys: the keys that its output and its events show; the bare value of a single one.
        context, store, cache, control: what `Runtime` hands to nodes.
        limit: how many super-steps it may take.
        last_step: the number that the last of these has.
        waiting: the questions that the run ended with.
        finished: tasks that ended in a super-step that did not.
        changed, move: of the last super-step: the keys that changed, and what follows.
        outcome: how the run ended, if not by an exception.
        failure: what a task raised, to be raised once the task's end was told.
    """

    __slots__ = (
        "answers",
        "below",
        "break_after",
        "break_before",
        "cache",
        "call_index",
        "changed",
        "children",
        "clock",
        "config",
        "context",
        "control",
        "failure",
        "finished",
        "given",
        "inside",
        "journal",
        "kept",
        "keys",
        "last_step",
        "limit",
        "live",
        "lock",
        "max_concurrency",
        "metadata",
        "modes",
        "move",
        "namespace",
        "on_busy",
        "outcome",
        "parent",
        "previous",
        "program",
        "quiet",
        "refusals",
        "run_child",
        "run_id",
        "runner",
        "seam",
        "seen",
        "skip_breaks",
        "store",
        "waiting",
    )

    def __init__(
        self,
        program: Program,
        config: RunnableConfig,
        runner: Runner,
        *,
        modes: frozenset[str] = NO_EVENTS,
        below: frozenset[str] = NO_EVENTS,
        context: Any = None,
        store: Any = None,
        cache: Any = None,
        control: RunControl | None = None,
        break_before: Any = None,
        break_after: Any = None,
        on_busy: OnBusy = "reject",
        keys: str | Sequence[str] | None = None,
        parent: Task | None = None,
        namespace: str = "",
        run_child: Any = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self.program = program
        self.config = config
        self.runner = runner
        self.modes = modes
        self.below = below
        self.quiet = not modes
        self.keys = (program.single_output or program.output_keys) if keys is None else keys
        self.context = context
        self.store = store
        self.cache = cache
        self.control = control
        self.break_before = break_before or program.interrupt_before
        self.break_after = break_after or program.interrupt_after
        self.on_busy = on_busy
        self.parent = parent
        self.namespace = namespace
        self.run_child = run_child
        self.clock = clock
        self.limit = recursion_limit(config)
        self.last_step = self.limit
        self.max_concurrency = config.get("max_concurrency")
        self.run_id = ""
        self.metadata: dict[str, Any] = {}
        self.live: Live
        self.journal: Journal | None = None
        self.answers: dict[str, Any] = {}
        self.refusals: list[InvalidAnswer] = []
        self.lock = runner.lock
        self.seen: set[Any] | None = set() if "messages" in modes else None
        self.seam = seam_of(self)
        self.call_index = 0
        self.kept: Kept | None = None
        self.given: Any = None
        self.inside: list[Event] | None = None
        self.children: dict[tuple[int, str, int], tuple[int, int]] = {}
        self.previous: Any = None
        self.skip_breaks = False
        self.waiting: list[Interrupt] = []
        self.finished: list[Task] = []
        self.changed: list[str] = []
        self.move: Move = "go"
        self.failure: BaseException | None = None
        self.outcome: Literal["done", "paused", "break", "drained"] = "done"

    def id_of(self, n: int) -> str:
        """The public id of a checkpoint by its number.

        Without a saver the step stands for it, in a subgraph behind its parent's task, so that its pauses keep their ids when the
        parent runs it again.
        """
        if self.journal is not None:
            return self.journal.ids[n]
        if self.parent is not None:
            return f"{self.parent.id}/{self.call_index}/{n}"
        if not self.run_id:
            self.run_id = os.urandom(8).hex()
        return f"{self.run_id}/{n}"

    @property
    def parents(self) -> dict[str, str]:
        """The checkpoints of the graphs around, by namespace, that this run started from."""
        found: dict[str, str] = {}
        task = self.parent
        while task is not None:
            above = task.run
            if above.journal is not None and above.journal.row is not None:
                found[above.namespace] = above.journal.row.id
            task = above.parent
        return found

    def now_ns(self) -> int:
        """Wall time, by the saver's clock if there is one."""
        clock = self.clock if self.journal is None else self.journal.session.access.clock
        return clock.now_ns()

    def managed(self, key: str) -> Any:
        """A value that depends on how far the run has come."""
        remaining = self.last_step - (self.live.step + 1)
        return remaining if self.program.managed[key].kind == "remaining_steps" else remaining == 1

    def make_runtime(self, task: Task) -> Runtime[Any]:
        """The runtime that a task's code sees."""
        journal = self.journal
        thread = thread_of(self.config) if journal is not None else None
        row = None if journal is None else journal.row
        info = ExecutionInfo(
            "" if row is None else row.id,
            task.namespace,
            task.id,
            thread,
            self.run_id or None,
            task.attempt,
            task.first_attempt or self.clock.monotonic(),
        )
        return Runtime(
            context=self.context,
            store=self.store,
            stream_writer=task.writer,
            message_writer=task.message_writer,
            heartbeat=task.beat,
            previous=self.previous,
            execution_info=info,
            control=self.control,
            idempotency_key=task.id,
        )

    def needs_saver(self, graph: Any) -> None:
        """Refuse a subgraph that must remember where nothing is saved.

        Raises:
            InvalidConfig: it was compiled with checkpointer=True, and this run has no saver.
        """
        if graph.checkpointer is True and self.journal is None:
            raise InvalidConfig(
                f"graph {graph.name!r} was compiled with checkpointer=True, to remember in its parent's saver, but graph "
                f"{self.program.name!r} has none"
            )

    def custom(self, value: Any) -> None:
        """Send a value to the `custom` stream, if anybody listens."""
        if "custom" in self.modes:
            self.tell("custom", value)

    def tell(self, mode: str, payload: Any) -> None:
        """Send an event from inside a node, to a mode that somebody listens to."""
        event = Event(self.namespace, mode, payload)
        if self.inside is None:
            self.runner.post(event)
        else:
            self.inside.append(event)

    @property
    def is_eager(self) -> bool:
        """Somebody listens to what nodes send while they run."""
        return not self.modes.isdisjoint(EAGER)

    @property
    def quiet_inside(self) -> bool:
        """Nobody waits for events while a node runs."""
        return self.quiet or not (self.below or self.is_eager or self.program.single_output is not None)

    def values(self, writes: Sequence[returns.Write] = ()) -> Any:
        """The output as it is now, or as it would be with these writes."""
        view = self.live.preview(writes) if writes else self.live.view
        if self.program.root:
            return view.get(ROOT)
        single = self.program.single_output
        if single is not None:
            return view.get(single)
        keys = self.keys
        return view.get(keys) if isinstance(keys, str) else {key: view[key] for key in keys if key in view}

    def output(self) -> Any:
        """What invoke returns: the values, with the results of tasks that finished in a step that did not, and open questions."""
        writes = [write for task in self.finished for write in task.writes or ()]
        values = self.values(writes)
        if not self.waiting:
            return values
        questions = list(self.waiting)
        return {**values, INTERRUPT: questions} if isinstance(values, dict) else {INTERRUPT: questions}
