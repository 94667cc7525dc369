"""Which task is running here: the one context variable through which user code reaches its run.

The engine sets it inside the context that a node runs in; `interrupt`, `get_config`, `get_runtime` and the like read it. This
module knows the shape of a task, not the engine, so that everything above may use it.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Protocol

from perdure.errors import OutsideOfRun

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from perdure.types import RunnableConfig


class TaskScope(Protocol):
    """What user code may ask of the task it runs in."""

    @property
    def config(self) -> RunnableConfig:
        """The config of this task: the run's, with the task's own metadata."""
        ...

    @property
    def runtime(self) -> Any:
        """The `perdure.runtime.Runtime` of this task."""
        ...

    @property
    def writer(self) -> Callable[[Any], None]:
        """Sends a value to the `custom` stream."""
        ...

    def message_writer(
        self, *, id: str | None = None, role: str = "assistant", name: str | None = None, tags: Sequence[str] = ()
    ) -> Any:
        """A `perdure.streaming.writer.MessageWriter`."""
        ...

    def push_message(self, message: Any, state_key: str | None) -> Any:
        """Tells a message and writes it."""
        ...

    def ask(self, value: Any, *, response_schema: Any, key: str | None, deadline: Any, default: Any) -> Any:
        """The answer to a question, or a pause that asks it. See `perdure.types.interrupt`."""
        ...

    def holds(self, saver: object, thread: str) -> bool:
        """Whether its run is one on that thread of that saver."""
        ...


CURRENT: ContextVar[TaskScope] = ContextVar("perdure_task")


def current_task() -> TaskScope:
    """The task this code runs in.

    Raises:
        OutsideOfRun: outside of a node, task or conditional edge.
    """
    try:
        return CURRENT.get()
    except LookupError:
        raise OutsideOfRun(
            "Called outside of a running graph: interrupt(), get_config(), get_runtime(), get_store(), get_stream_writer() and the like "
            "work inside a node, a task or a conditional edge, and in what those call in the same context"
        ) from None
