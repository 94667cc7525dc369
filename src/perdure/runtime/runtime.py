"""The object a node asks for with a parameter `runtime: Runtime[Context]`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Generic, Protocol, TypeVar, cast

from perdure.scope import current_task
from perdure.streaming.writer import MessageWriter

ContextT = TypeVar("ContextT")


def _no_writer(_: Any) -> None:
    """Nobody streams."""


def _no_message_writer(
    *,
    id: str | None = None,
    role: str = "assistant",
    name: str | None = None,
    tags: Sequence[str] = (),  # noqa: ARG001 - nobody streams
) -> MessageWriter:
    """Nobody streams, but the message is collected all the same."""
    return MessageWriter(id=id, role=role, name=name)


def _no_heartbeat() -> None:
    """Nobody waits for a sign of life."""


@dataclass(frozen=True, slots=True)
class ExecutionInfo:
    """Where a node runs.

    Attributes:
        checkpoint_id: the checkpoint its super-step started from, "" without a saver.
        checkpoint_ns: the task's own namespace.
        task_id: its task.
        thread_id, run_id: its thread and run.
        node_attempt: 1 for the first attempt.
        node_first_attempt_time: when the first attempt began, in seconds of a monotonic clock.
    """

    checkpoint_id: str
    checkpoint_ns: str
    task_id: str
    thread_id: str | None = None
    run_id: str | None = None
    node_attempt: int = 1
    node_first_attempt_time: float | None = None


class BaseUser(Protocol):
    """Who calls a server, as the server knows them."""

    @property
    def identity(self) -> str:
        """What tells this user from all others."""

    @property
    def display_name(self) -> str:
        """What people are shown."""

    @property
    def is_authenticated(self) -> bool:
        """Whether the server knows that it is this user."""

    @property
    def permissions(self) -> Sequence[str]:
        """What this user may do, in the server's words."""


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """Which assistant a server runs, where a server runs the graph."""

    assistant_id: str
    graph_id: str
    user: Any = None


class RunControl:
    """A handle with which other code asks a run to stop after its current super-step."""

    __slots__ = ("_reason",)

    def __init__(self) -> None:
        self._reason: str | None = None

    def request_drain(self, reason: str = "shutdown") -> None:
        """Ask the run to stop after its current super-step; it then raises GraphDrained and can be resumed."""
        self._reason = reason

    @property
    def drain_requested(self) -> bool:
        """Whether somebody asked."""
        return self._reason is not None

    @property
    def drain_reason(self) -> str | None:
        """Why, None if nobody asked."""
        return self._reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime(Generic[ContextT]):
    """What belongs to a run but not to its state.

    Attributes:
        context: the object given as `context=`, of the graph's context schema.
        store: the store the graph was compiled with.
        stream_writer: sends a value to the `custom` stream.
        message_writer: makes a writer that streams a message: see `perdure.config.get_message_writer`.
        heartbeat: a sign of life, for idle timeouts.
        previous: the value an entrypoint saved the last time.
        execution_info: where this is.
        server_info: the server's view, None outside of one.
        control: a handle to stop the run after its super-step.
        idempotency_key: the same text over retries, crashes and resumes of this task, another one in a fork: hand it to other
            systems so that a side effect happens once.
    """

    context: ContextT = None  # type: ignore[assignment]
    store: Any = None
    stream_writer: Callable[[Any], None] = field(default=_no_writer)
    message_writer: Callable[..., MessageWriter] = field(default=_no_message_writer)
    heartbeat: Callable[[], None] = field(default=_no_heartbeat)
    previous: Any = None
    execution_info: ExecutionInfo | None = None
    server_info: ServerInfo | None = None
    control: RunControl | None = None
    idempotency_key: str = ""

    @property
    def drain_requested(self) -> bool:
        """Whether the run was asked to stop after this super-step."""
        return self.control is not None and self.control.drain_requested

    @property
    def drain_reason(self) -> str | None:
        """Why it was asked to stop."""
        return None if self.control is None else self.control.drain_reason

    def override(self, **changes: Any) -> Runtime[ContextT]:
        """The same with some attributes replaced."""
        return replace(self, **changes)

    def merge(self, other: Runtime[ContextT]) -> Runtime[ContextT]:
        """The same with whatever `other` has set."""
        blank: Runtime[ContextT] = Runtime()
        names = [each.name for each in fields(self) if each.name != "idempotency_key"]
        changes = {name: value for name in names if (value := getattr(other, name)) is not getattr(blank, name)}
        return replace(self, **changes)


def get_runtime(context_schema: type[ContextT] | None = None) -> Runtime[ContextT]:  # noqa: ARG001 - for type checkers only
    """The runtime of the node that this code runs in. `context_schema` only tells type checkers what `context` is.

    Raises:
        OutsideOfRun: outside of a running graph.
    """
    return cast("Runtime[ContextT]", current_task().runtime)
