"""One run of one node in one super-step: what it is given, what it may ask, how it ended."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from perdure.constants import CONF, NS_END, NS_SEP, PULL, PUSH, START
from perdure.engine.deciding import returns
from perdure.engine.deciding.questions import Questions
from perdure.engine.tasks import asking, messaging
from perdure.engine.tasks.once import once
from perdure.errors import NodeError
from perdure.ids import TaskId, task_id
from perdure.scope import CURRENT
from perdure.types import NO_ANSWER, Interrupt, RunnableConfig, Send, TimeoutPolicy

if TYPE_CHECKING:
    from perdure.cache.base import FullKey
    from perdure.engine.deciding.known_calls import KnownCalls
    from perdure.engine.deciding.returns import Write
    from perdure.engine.program import Call, Node, StateView
    from perdure.engine.runners.calls import Lane, Step
    from perdure.engine.running.run import Run
    from perdure.engine.storing.journal import Journal
    from perdure.engine.tasks.calls import Remembered
    from perdure.streaming.writer import MessageWriter


class Task:
    """A task, and the scope that its code runs in (`perdure.scope.TaskScope`).

    Most of what a node could ask for is made only when it asks: a node that takes a dict and returns one pays for nothing else.

    Attributes:
        run: the run it belongs to.
        node: the node that it runs.
        path: its path in records: the node's name, `#i` for a Send, with `!` in front for an error handler.
        origin: number of the checkpoint where it was triggered.
        triggers: names of what triggered it.
        send: the Send that made it, None for a triggered node.
        writes: what it wrote; None until it has finished.
        error: what it raised, if it failed for good.
        cancelled: it was stopped from outside.
        halted: it stopped without a question, at a breakpoint of a subgraph.
        drained: it stopped because a subgraph did that was asked to.
        cache_key: where its result is kept, if its node has a cache policy and its run a cache; set before it runs.
        cached: its writes come from the cache.
        stored: its result is stored already.
        recorded: so is its failure; `error` only stands for it.
        attempt: number of the attempt that runs or ran last, from 1.
        counted: how many of them are in the record of the run.
        memories: newest checkpoints of the remembering subgraphs that it ran, by namespace.
        ended: books of the subgraphs that ended well and are not stored, as durability "exit" has it.
        handled: the task that handles its failure, or for a handler None.
        failed: for a handler: the task it handles.
        parent_command: a command for the graph around, that a node of this task's subgraph gave.
        pushed: what its code has written before it returned.
        is_step: it is a durable step inside a node, not a node.
        called: how many durable steps its code has called in this attempt.
        under_way: how many of these have not ended.
        known_calls: tells them apart; made when the first is called.
        lane: bounds how many run at a time; made when needed.
        stopped: its code was stopped from outside or ran out of time, so that its steps are to be stopped as well.
        has_helpers: its code has started steps or subgraphs, which may not have ended.
        has_questions: it has asked, or earlier entries of it have.
    """

    # Most tasks never touch most of these: class attributes cost nothing for each task, as slots would. Nor does the fast path look
    # into `__dict__`, which the interpreter only makes where somebody does.
    writes: list[Write] | None = None
    error: BaseException | None = None
    cancelled = False
    halted = False
    drained = False
    cached = False
    stored = False
    recorded = False
    attempt = 0
    counted = 0
    first_attempt = 0.0
    calls = 0
    called = 0
    under_way = 0
    known_calls: KnownCalls | None = None
    lane: Lane | None = None
    stopped = False
    has_helpers = False
    has_questions = False
    heard = 0.0
    memories: Mapping[str, int] = MappingProxyType({})
    ended: Sequence[Journal] = ()
    failed: Task | None = None
    handled: Task | None = None
    pushed: Sequence[Write] = ()
    is_step = False
    _id: TaskId | None = None
    _config: RunnableConfig | None = None
    _runtime: Any = None

    cache_key: FullKey

    def __init__(
        self, run: Run, node: Node, path: str, origin: int, triggers: tuple[str, ...] = (), send: Send | None = None
    ) -> None:
        self.run = run
        self.node = node
        self.path = path
        self.origin = origin
        self.triggers = triggers
        self.send = send

    @once
    def steps(self) -> list[Step]:
        """The durable steps that its code has started in this attempt."""
        self.has_helpers = True
        return []

    @once
    def remembered(self) -> dict[str, Remembered]:
        """What is known of the steps inside it from this run, by path, so that a node that is tried again does not repeat them."""
        return {}

    @property
    def top(self) -> Task:
        """The task of the node that this code belongs to: of a step, that of the node around it."""
        return self

    @once
    def flights(self) -> list[Any]:
        """Futures of the ends of the subgraphs that its code has called and that are under way."""
        self.has_helpers = True
        return []

    @once
    def keep_alive(self) -> set[Any]:
        """Tasks of the event loop that run its steps: the loop itself holds them only weakly."""
        return set()

    def writes_of(self, value: Any) -> list[Write]:
        """What the node's return means.

        Raises:
            UnknownKey, UnknownNode, InvalidUpdateError, ParentCommand: see `returns.writes_of`.
        """
        writes = returns.writes_of(self.run.program, self.node.name, value)
        return [*self.pushed, *writes] if self.pushed else writes

    @once
    def questions(self) -> Questions:
        """The questions that its code asks; those of earlier entries are put in when a run is resumed."""
        self.has_questions = True
        return Questions(self)

    @property
    def pauses(self) -> list[Interrupt]:
        """The questions of this entry that have no answer."""
        return [asked.question for asked in self.questions.now] if self.has_questions else []

    @property
    def id(self) -> TaskId:
        """The same in every process that runs this task, and another one in a fork."""
        if self._id is None:
            self._id = task_id(self.run.id_of(self.origin), self.run.namespace, self.path)
        return self._id

    @property
    def index(self) -> int | None:
        """The position of its Send among the pending ones, None for a triggered node."""
        return None if self.send is None else int(self.path.lstrip("!")[1:])

    @property
    def public_path(self) -> tuple[Any, ...]:
        """Its path as snapshots show it."""
        if self.failed is not None:
            return (*self.failed.public_path[:3], "node_error_handler", False)
        index = self.index
        return (PULL, self.node.name) if index is None else (PUSH, index, False)

    @property
    def public_triggers(self) -> tuple[str, ...]:
        """What events and the config name as its triggers: all that its node has, whichever fired."""
        if self.send is not None or self.failed is not None:
            return self.triggers
        return self.run.program.triggers.get(self.node.name, self.triggers)

    @property
    def sort_key(self) -> tuple[int, Any]:
        """Orders the results of a super-step: triggered nodes by name, then Sends by position, whoever finished first."""
        subject = self.failed or self
        index = subject.index
        return (0, subject.node.name) if index is None else (1, index)

    @property
    def is_paused(self) -> bool:
        """It waits for an answer, or at a breakpoint."""
        return self.writes is None and (self.halted or (self.has_questions and bool(self.questions.now)))

    @property
    def namespace(self) -> str:
        """The namespace that a subgraph run by this task has."""
        return f"{self.run.namespace}{NS_SEP if self.run.namespace else ''}{self.node.name}{NS_END}{self.id}"

    def begin(self) -> None:
        """A new attempt starts: forget what the last one left."""
        self.attempt += 1
        self.first_attempt = self.first_attempt or self.run.clock.monotonic()
        self.calls = 0
        self.called = 0
        self.known_calls = None
        self.lane = None
        self.stopped = False
        self.__dict__.pop("steps", None)
        if self.has_questions:
            self.questions.begin()
        self.halted = False
        self.drained = False
        self.error = None
        self.pushed = ()
        self._runtime = None

    def call(self) -> Any:
        """Call the node's function; runs in the context of the node. Returns its result, or an awaitable of it."""
        CURRENT.set(self)
        node = self.node
        call = node.call
        send = self.send
        state = self.see(node.view) if send is None or self.failed is not None else send.arg
        return self.invoke(call, state) if call.inject or not call.takes_state else call.fn(state)

    def invoke(self, call: Call, state: Any) -> Any:
        """Call a user's function with the state and whatever else it wants."""
        if not call.inject:
            return call.fn(state) if call.takes_state else call.fn()
        wanted = {name: self.provide(kind) for name, kind in call.inject}
        return call.fn(state, **wanted) if call.takes_state else call.fn(**wanted)

    def see(self, view: StateView, values: dict[str, Any] | None = None) -> Any:
        """The part of the state that `view` shows, of the live values or of `values`.

        Where a Send made the failed task of a handler, the handler sees what the task saw.
        """
        if self.failed is not None and self.failed.send is not None and values is None:
            return self.failed.send.arg
        live = self.run.live.view if values is None else values
        if view.given:
            return self.run.given
        if view.root:
            return next(iter(live.values()), None)
        if view.whole:
            state = live.copy()
        else:
            state = {key: live[key] for key in view.keys if key in live}
        for key in view.managed:
            state[key] = self.run.managed(key)
        return state if view.make is None else view.make(state)

    def provide(self, kind: str) -> Any:
        """What the runtime hands to a parameter of this kind."""
        if kind == "config":
            return self.config
        if kind == "runtime":
            return self.runtime
        if kind == "writer":
            return self.writer
        if kind == "store":
            return self.run.store
        if kind == "error":
            return self.node_error
        return self.run.previous

    @property
    def config(self) -> RunnableConfig:
        """The run's config with this task's own metadata; a new dict for each task."""
        if self._config is None:
            self._config = self._make_config()
        return self._config

    @config.setter
    def config(self, config: RunnableConfig) -> None:
        self._config = config

    def _make_config(self) -> RunnableConfig:
        run = self.run
        given = run.config
        metadata = {
            **given.get("metadata", {}),
            **(self.node.metadata or {}),
            "langgraph_step": run.live.step + 1,
            "langgraph_node": self.node.name,
            "langgraph_triggers": self.public_triggers,
            "langgraph_path": self.public_path,
            "langgraph_checkpoint_ns": self.namespace,
        }
        configurable = {**given.get(CONF, {}), "checkpoint_ns": run.namespace}
        for address in ("checkpoint_id", "branch"):  # where the run began: a node that passes its config on does not mean that
            configurable.pop(address, None)
        config: RunnableConfig = {**given, "metadata": metadata, CONF: configurable, "run_name": self.node.name}
        return config

    @property
    def runtime(self) -> Any:
        """The `perdure.runtime.Runtime` of this attempt."""
        if self._runtime is None:
            self._runtime = self.run.make_runtime(self)
        return self._runtime

    @property
    def writer(self) -> Callable[[Any], None]:
        """Sends a value to the `custom` stream."""
        return self.write_custom

    def write_custom(self, value: Any) -> None:
        """Send a value to the `custom` stream."""
        self.sign_of_life()
        self.run.custom(value)

    def message_writer(
        self, *, id: str | None = None, role: str = "assistant", name: str | None = None, tags: Sequence[str] = ()
    ) -> MessageWriter:
        """Streams a message while it is written: see `perdure.config.get_message_writer`."""
        return messaging.writer_of(self, id=id, role=role, name=name, tags=tags)

    def push_message(self, message: Any, state_key: str | None) -> Any:
        """Tells a message and writes it: see `perdure.graph.message.push_message`."""
        return messaging.push(self, message, state_key)

    async def caught_up(self) -> None:
        """Wait, in async code, while whoever listens is far behind."""
        from perdure.engine.runners.held import caught_up

        await caught_up(self.run.runner.pace)
        self.beat()

    @property
    def timeout(self) -> TimeoutPolicy | None:
        """How long an attempt may take: what its Send says, or else its node."""
        return (None if self.send is None else self.send.timeout) or self.node.timeout

    def sign_of_life(self) -> None:
        """Stream output is a sign of life, unless only heartbeats are to count."""
        timeout = self.timeout
        if timeout is not None and timeout.refresh_on == "auto":
            self.beat()

    def beat(self) -> None:
        """A sign of life, for idle timeouts."""
        self.heard = self.run.clock.monotonic()

    @property
    def node_error(self) -> Any:
        """For a handler: what failed, and where."""
        failed = self.failed
        return None if failed is None or failed.error is None else NodeError(failed.node.name, failed.error)

    def holds(self, saver: object, thread: str) -> bool:
        """Whether its run is one on that thread of that saver."""
        journal = self.run.journal
        if journal is None:
            return False
        session = journal.session
        return session.thread == thread and session.access.saver is saver

    def ask(
        self,
        value: Any,
        *,
        response_schema: Any = None,
        key: str | None = None,
        deadline: Any = None,
        default: Any = NO_ANSWER,
    ) -> Any:
        """The answer to this question, or a pause. See `asking.ask`."""
        return asking.ask(self, value, response_schema=response_schema, key=key, deadline=deadline, default=default)


class Entry(Task):
    """The task that takes the input in: it runs no code but the path functions of the edges that leave START.

    Attributes:
        given: the input, as the result of the entry.
    """

    def __init__(self, run: Run, origin: int, given: Any) -> None:
        super().__init__(run, run.program.start, START, origin, (START,))
        self.given = given

    def call(self) -> Any:
        """The input."""
        CURRENT.set(self)
        return self.given
