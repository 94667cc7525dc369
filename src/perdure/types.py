"""The public values that graphs, nodes and callers exchange."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, Literal, NamedTuple, TypedDict, TypeVar, Union

from perdure.absent import missing
from perdure.cache_key import default_cache_key as default_cache_key
from perdure.cache_key import lifetime
from perdure.constants import OVERWRITE
from perdure.errors import InvalidArgument, WrongType
from perdure.scope import current_task

if TYPE_CHECKING:
    from perdure.checkpoint.base import BaseCheckpointSaver, CheckpointMetadata
    from perdure.streaming.parts import CheckpointPayload as CheckpointPayload
    from perdure.streaming.parts import CheckpointStreamPart as CheckpointStreamPart
    from perdure.streaming.parts import CheckpointTask as CheckpointTask
    from perdure.streaming.parts import CustomStreamPart as CustomStreamPart
    from perdure.streaming.parts import DebugPayload as DebugPayload
    from perdure.streaming.parts import DebugStreamPart as DebugStreamPart
    from perdure.streaming.parts import MessagesStreamPart as MessagesStreamPart
    from perdure.streaming.parts import StreamPart as StreamPart
    from perdure.streaming.parts import TaskPayload as TaskPayload
    from perdure.streaming.parts import TaskResultPayload as TaskResultPayload
    from perdure.streaming.parts import TasksStreamPart as TasksStreamPart
    from perdure.streaming.parts import UpdatesStreamPart as UpdatesStreamPart
    from perdure.streaming.parts import ValuesStreamPart as ValuesStreamPart

    Checkpointer = Union[None, bool, BaseCheckpointSaver[Any]]

All = Literal["*"]
Durability = Literal["sync", "async", "exit"]
StreamMode = Literal["values", "updates", "checkpoints", "tasks", "debug", "messages", "custom"]
OnBusy = Literal["reject", "wait"]
StreamWriter = Callable[[Any], None]

N = TypeVar("N", bound=Hashable)
OutputT = TypeVar("OutputT")
SaveT = TypeVar("SaveT")


class RunnableConfig(TypedDict, total=False):
    """The config of a call. `configurable` says which thread (and checkpoint); the rest is carried to nodes and tracers."""

    tags: list[str]
    metadata: dict[str, Any]
    callbacks: Any
    run_name: str
    run_id: Any
    max_concurrency: int | None
    recursion_limit: int
    configurable: dict[str, Any]


def seconds_of(value: float | timedelta | None) -> float | None:
    """Seconds of a number or a timedelta; None stays None.

    Raises:
        InvalidArgument: it is not positive.
    """
    if value is None:
        return None
    seconds = value.total_seconds() if isinstance(value, timedelta) else float(value)
    if not seconds > 0:
        raise InvalidArgument(f"a timeout must be positive, got {value!r}")
    return seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeoutPolicy:
    """How long a node may take.

    `run_timeout` bounds one attempt, `idle_timeout` the time without a sign of life, both in seconds (or a timedelta).
    Signs of life are writes, stream output and calls of tasks (`refresh_on="auto"`), or only `runtime.heartbeat()`.
    """

    run_timeout: float | timedelta | None = None
    idle_timeout: float | timedelta | None = None
    refresh_on: Literal["auto", "heartbeat"] = "auto"

    def __post_init__(self) -> None:
        object.__setattr__(self, "run_timeout", seconds_of(self.run_timeout))
        object.__setattr__(self, "idle_timeout", seconds_of(self.idle_timeout))
        if self.refresh_on not in ("auto", "heartbeat"):
            raise InvalidArgument(f"refresh_on must be 'auto' or 'heartbeat', got {self.refresh_on!r}")

    @classmethod
    def coerce(cls, value: float | timedelta | TimeoutPolicy | None) -> TimeoutPolicy | None:
        """A policy from a policy, or from a number or timedelta that is its `run_timeout`."""
        if value is None or isinstance(value, TimeoutPolicy):
            return value
        return cls(run_timeout=value)


def default_retry_on(error: Exception) -> bool:
    """Whether an error looks passing: a lost connection and what is unknown, but not a mistake in the code.

    Of HTTP errors (httpx, requests), those with status 5xx.
    """
    if isinstance(error, ConnectionError):
        return True
    response = getattr(error, "response", None)
    status = getattr(response, "status_code", None)
    if isinstance(status, int) and type(error).__name__ in ("HTTPStatusError", "HTTPError"):
        return 500 <= status < 600
    if isinstance(error, TimeoutError) and getattr(error, "code", None) == "NODE_TIMEOUT":
        return True
    return not isinstance(
        error,
        (
            ValueError,
            TypeError,
            ArithmeticError,
            ImportError,
            LookupError,
            NameError,
            SyntaxError,
            RuntimeError,
            ReferenceError,
            StopIteration,
            StopAsyncIteration,
            OSError,
        ),
    )


class RetryPolicy(NamedTuple):
    """When and how often a failed node is run again.

    The k-th pause lasts `min(max_interval, initial_interval * backoff_factor ** (k - 1))` seconds, plus up to one second of
    jitter. `max_attempts` counts the first one. `retry_on` is an exception class, several, or a function of the error.
    """

    initial_interval: float = 0.5
    backoff_factor: float = 2.0
    max_interval: float = 128.0
    max_attempts: int = 3
    jitter: bool = True
    retry_on: type[Exception] | Sequence[type[Exception]] | Callable[[Exception], bool] = default_retry_on


@dataclass(frozen=True, slots=True, kw_only=True)
class CachePolicy:
    """Keep a node's result for inputs that have the same key.

    `key_func` gives the key (text or bytes) of a call's arguments; `ttl` is the lifetime in seconds, or a timedelta, None for ever.
    """

    key_func: Callable[..., str | bytes] = default_cache_key
    ttl: float | timedelta | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "ttl", lifetime(self.ttl))


class NoAnswer:
    """The type of `NO_ANSWER`."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "NO_ANSWER"

    def __bool__(self) -> bool:
        return False

    def __reduce__(self) -> str:
        return "NO_ANSWER"


NO_ANSWER: Final = NoAnswer()
"""What `Command.resume` holds when it was not given: None, False, 0, "" and {} are answers like any other."""


@dataclass(frozen=True, slots=True, repr=False)
class Interrupt:
    """A question that a node asked; the run pauses until `Command(resume=…)` answers it by `id`.

    Attributes:
        value: the question.
        id: names it; the same over reads and resumes.
        response_schema: the JSON schema of the answer; one that does not fit is refused.
        deadline: when the default answer begins to count, or the question to be overdue.
        default: the answer that counts after the deadline; NO_ANSWER if there is none.
        asked_at: when it was first asked.
        node: the node that asked; of a subgraph, the one inside it.
        overdue: its deadline had passed when it was read.
    """

    value: Any
    id: str = "placeholder-id"
    response_schema: Any = field(default=None, kw_only=True)
    deadline: datetime | None = field(default=None, kw_only=True)
    default: Any = field(default=NO_ANSWER, kw_only=True)
    asked_at: datetime | None = field(default=None, kw_only=True, compare=False)
    node: str = field(default="", kw_only=True, compare=False)
    overdue: bool = field(default=False, kw_only=True, compare=False)

    def __repr__(self) -> str:
        shown = [f"value={self.value!r}, id={self.id!r}, response_schema={self.response_schema!r}"]
        if self.deadline is not None:
            shown.append(f"deadline={self.deadline!r}, default={self.default!r}, overdue={self.overdue!r}")
        return f"Interrupt({', '.join(shown)})"


class PendingInterrupt(NamedTuple):
    """An open question as the inbox lists it.

    Attributes:
        thread_id: the thread that waits.
        checkpoint_id: the checkpoint it waits at.
        node: the node that asked; of a subgraph, the one inside it.
        interrupt: the question.
        asked_at: when it was first asked.
        deadline: its deadline, if it has one.
        overdue: that has passed.
        graph: the name of the graph that ran.
        metadata: of the checkpoint: what the config of the call had in `metadata`.
    """

    thread_id: str
    checkpoint_id: str
    node: str
    interrupt: Interrupt
    asked_at: datetime | None
    deadline: datetime | None
    overdue: bool
    graph: str
    metadata: dict[str, Any]

    @property
    def config(self) -> RunnableConfig:
        """Addresses the thread: `invoke(Command(resume={item.interrupt.id: answer}), item.config)` answers."""
        return {"configurable": {"thread_id": self.thread_id}}


class InterruptPage(NamedTuple):
    """A page of open questions.

    Attributes:
        items: the questions, by thread.
        cursor: where the next page begins; None: this was the last one.
    """

    items: tuple[PendingInterrupt, ...]
    cursor: str | None = None


class Send:
    """One more run of `node` in the next super-step, with `arg` as its input instead of the state."""

    __slots__ = ("arg", "node", "timeout")

    def __init__(self, node: str, arg: Any, *, timeout: float | timedelta | TimeoutPolicy | None = None) -> None:
        self.node = node
        self.arg = arg
        self.timeout = TimeoutPolicy.coerce(timeout)

    def __repr__(self) -> str:
        extra = f", timeout={self.timeout!r}" if self.timeout is not None else ""
        return f"Send(node={self.node!r}, arg={self.arg!r}{extra})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Send):
            return NotImplemented
        return (self.node, self.arg, self.timeout) == (other.node, other.arg, other.timeout)

    def __hash__(self) -> int:
        return hash((self.node, self.arg, self.timeout))


@dataclass(frozen=True, kw_only=True, repr=False)  # no slots: `Command[str](...)` must be able to note its type on Python 3.11
class Command(Generic[N]):
    """What a node returns to write state and choose the way, or a caller passes to answer a pause.

    Attributes:
        graph: None for the graph the node is in, `Command.PARENT` for the one around it.
        update: state to write: a dict, pairs, an object of the state's class, or the whole value of a state without keys.
        resume: an answer (None is one), or a dict of answers by pause id.
        goto: node names and `Send`s to run next.
    """

    graph: str | None = None
    update: Any | None = None
    resume: dict[str, Any] | Any = NO_ANSWER
    goto: Send | Sequence[Send | N] | N = ()

    PARENT: ClassVar[Literal["__parent__"]] = "__parent__"

    def __repr__(self) -> str:
        given = [f"{name}={value!r}" for name in ("graph", "update") if (value := getattr(self, name))]
        if self.resume is not NO_ANSWER:
            given.append(f"resume={self.resume!r}")
        if self.goto:
            given.append(f"goto={self.goto!r}")
        return f"Command({', '.join(given)})"


@dataclass(frozen=True, slots=True)
class Overwrite:
    """Replaces the value of a key instead of going through its reducer, and voids all other writes of its super-step."""

    value: Any
    type: Literal["__overwrite__"] = OVERWRITE


class PregelTask(NamedTuple):
    """A task of a super-step as a snapshot shows it.

    `status` is "pending", "done", "paused", "error", "cancelled", or "missing" where the graph no longer has its node. `entries` says
    how often its code was entered, as far as that is recorded: when it asked, ended or failed.
    """

    id: str
    name: str
    path: tuple[Any, ...]
    error: Any = None
    interrupts: tuple[Interrupt, ...] = ()
    state: Any = None
    result: Any = None
    status: str = "pending"
    entries: int = 0


class StateSnapshot(NamedTuple):
    """A thread at one checkpoint."""

    values: Any
    next: tuple[str, ...]
    config: RunnableConfig
    metadata: CheckpointMetadata | None
    created_at: str | None
    parent_config: RunnableConfig | None
    tasks: tuple[PregelTask, ...]
    interrupts: tuple[Interrupt, ...] = ()


class StateUpdate(NamedTuple):
    """One edit for `bulk_update_state`."""

    values: Any
    as_node: str | None = None
    task_id: str | None = None


@dataclass(frozen=True)
class GraphOutput(Generic[OutputT]):
    """What `invoke(version="v2")` returns: the value and the open pauses."""

    value: OutputT
    interrupts: tuple[Interrupt, ...] = ()


@dataclass(frozen=True)
class EntrypointFinal(Generic[OutputT, SaveT]):
    """What an entrypoint returns where its result and what its next call sees as `previous` differ.

    Attributes:
        value: the result.
        save: what `previous` is in the next call on the thread.
    """

    value: OutputT
    save: SaveT


def interrupt(
    value: Any,
    *,
    response_schema: Any = None,
    key: str | None = None,
    deadline: datetime | timedelta | float | None = None,
    default: Any = NO_ANSWER,
) -> Any:
    """Ask a person (or another system) and wait for the answer, however long it takes.

    The first time, the run pauses here: its state is saved, and the caller gets the question. When `Command(resume=…)` answers
    it, the node starts again from its top and this call returns the answer. Steps before it that must not run twice belong into
    a `task`.

    Args:
        value: the question; anything storable.
        response_schema: what the answer must fit: a JSON schema, or a type (beyond bool, int, float and str that needs pydantic), of
            which this call then returns an object. A wrong answer is refused before the node runs, and nothing of it is stored.
        key: names the question among those of its node; needed only where several are asked at once and change their text.
        deadline: seconds or a timedelta from now, or a moment with a time zone. It never fires by itself: the next call on the
            thread after it goes on with `default`; without a default the question stays open, and is shown as overdue.
        default: the answer that counts once the deadline has passed; later ones are refused.

    Raises:
        GraphInterrupt: the pause itself (a BaseException, so `except Exception` does not swallow it).
        AmbiguousPause: several questions were asked at once, and it cannot be told which of them this is.
        InvalidAnswer: the default does not fit the schema.
        InvalidArgument: a default without a deadline, a moment without a time zone, a schema that cannot be checked.
        MissingExtra: the schema is a type that needs pydantic, which is not installed.
        OutsideOfRun: called outside of a running graph.
        InvalidCall: called by a thread or an asyncio task that outlived its node; nobody would be asked.
    """
    return current_task().ask(value, response_schema=response_schema, key=key, deadline=deadline, default=default)


def ensure_valid_checkpointer(checkpointer: Any) -> Any:
    """The checkpointer, if it is None, a bool or a saver.

    Raises:
        WrongType: it is anything else.
    """
    from perdure.checkpoint.base import BaseCheckpointSaver

    if checkpointer is None or isinstance(checkpointer, (bool, BaseCheckpointSaver)):
        return checkpointer
    raise WrongType(
        f"checkpointer must be a saver, True, False or None, got {type(checkpointer).__name__}. A saver derives from "
        "perdure.checkpoint.base.BaseCheckpointSaver; `with SqliteSaver.from_conn_string(path) as saver:` also gives one"
    )


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """The shapes of streamed items, loaded when first asked for, and Checkpointer. (Type checkers are told of them above.)"""
        if name[:2] != "__":  # each import statement asks for `__path__`
            from perdure.streaming import parts

            if name in parts.PARTS:
                return getattr(parts, name)
        if name == "Checkpointer":  # a name for annotations; the class in it is not loaded for that
            return Any
        raise missing(__name__, name)
