"""The shapes of streamed items under `version="v2"`: one dict for each, told apart by its `type`.

    for part in graph.stream(..., stream_mode=["updates", "messages"], version="v2"):
        if part["type"] == "messages":
            message, metadata = part["data"]

Every part has `type`, the mode; `ns`, the namespace as a tuple, `()` for the graph itself; and `data`. The payloads are those that the
modes have under "v1", too.
"""

from __future__ import annotations

from typing import Any, Generic, Literal, TypeVar, Union

from typing_extensions import TypedDict

from perdure.types import Interrupt, RunnableConfig

OutputT = TypeVar("OutputT")
StateT = TypeVar("StateT")


class _TaskPayload(TypedDict):
    id: str
    name: str
    input: Any
    triggers: tuple[str, ...]


class TaskPayload(_TaskPayload, total=False):
    """A task begins.

    Attributes:
        id: of the task.
        name: of its node.
        input: what the node is given.
        triggers: what made it run.
        metadata: of the node, if it has some.
    """

    metadata: dict[str, Any]


class TaskResultPayload(TypedDict):
    """A task has ended: finished, failed or paused.

    Attributes:
        id: of the task.
        name: of its node.
        error: the exception, None if there was none.
        result: its update by key; `{"$writes": [...]}` for a key that it wrote more than once.
        interrupts: its open questions, as dicts.
    """

    id: str
    name: str
    error: BaseException | None
    result: Any
    interrupts: list[dict[str, Any]]


class _CheckpointTask(TypedDict):
    id: str
    name: str
    interrupts: tuple[dict[str, Any], ...]
    state: RunnableConfig | None


class CheckpointTask(_CheckpointTask, total=False):
    """A task that comes after a checkpoint, with what is known of it: a `result`, an `error` (its text), or neither."""

    error: str
    result: Any


class CheckpointPayload(TypedDict, Generic[StateT]):
    """A checkpoint was reached.

    Attributes:
        config: addresses it.
        parent_config: addresses the one before, None if it is the first.
        values: the state, under "v2" as an object of the state's class if it is one.
        metadata: `source`, `step`, `parents`, and what the caller's config gave.
        next: names of the nodes that come next.
        tasks: their tasks.
    """

    config: RunnableConfig
    parent_config: RunnableConfig | None
    values: StateT
    metadata: dict[str, Any]
    next: list[str]
    tasks: list[CheckpointTask]


class _Debug(TypedDict):
    step: int
    timestamp: str


class DebugCheckpoint(_Debug, Generic[StateT]):
    """A checkpoint with its step and time."""

    type: Literal["checkpoint"]
    payload: CheckpointPayload[StateT]


class DebugTask(_Debug):
    """The beginning of a task with its step and time."""

    type: Literal["task"]
    payload: TaskPayload


class DebugTaskResult(_Debug):
    """The end of a task with its step and time."""

    type: Literal["task_result"]
    payload: TaskResultPayload


DebugPayload = Union[DebugCheckpoint[StateT], DebugTask, DebugTaskResult]


class ValuesStreamPart(TypedDict, Generic[OutputT]):
    """The state after a step.

    Attributes:
        type: the mode.
        ns: the namespace.
        data: the values; an object of the output schema's class if it is one.
        interrupts: the questions that are open.
    """

    type: Literal["values"]
    ns: tuple[str, ...]
    data: OutputT
    interrupts: tuple[Interrupt, ...]


class UpdatesStreamPart(TypedDict):
    """What one task wrote, by its node's name; or the questions that it asked, as `__interrupt__`."""

    type: Literal["updates"]
    ns: tuple[str, ...]
    data: dict[str, Any]


class MessagesStreamPart(TypedDict):
    """A message, or a piece of one, and its metadata."""

    type: Literal["messages"]
    ns: tuple[str, ...]
    data: tuple[Any, dict[str, Any]]


class CustomStreamPart(TypedDict):
    """What a node gave its writer."""

    type: Literal["custom"]
    ns: tuple[str, ...]
    data: Any


class CheckpointStreamPart(TypedDict, Generic[StateT]):
    """A checkpoint."""

    type: Literal["checkpoints"]
    ns: tuple[str, ...]
    data: CheckpointPayload[StateT]


class TasksStreamPart(TypedDict):
    """The beginning or the end of a task."""

    type: Literal["tasks"]
    ns: tuple[str, ...]
    data: TaskPayload | TaskResultPayload


class DebugStreamPart(TypedDict, Generic[StateT]):
    """A checkpoint, or the beginning or the end of a task, with its step and time."""

    type: Literal["debug"]
    ns: tuple[str, ...]
    data: DebugPayload[StateT]


StreamPart = Union[
    ValuesStreamPart[OutputT],
    UpdatesStreamPart,
    MessagesStreamPart,
    CustomStreamPart,
    CheckpointStreamPart[StateT],
    TasksStreamPart,
    DebugStreamPart[StateT],
]
"""What `stream(..., version="v2")` yields."""

PARTS = (
    "CheckpointPayload",
    "CheckpointStreamPart",
    "CheckpointTask",
    "CustomStreamPart",
    "DebugPayload",
    "DebugStreamPart",
    "MessagesStreamPart",
    "StreamPart",
    "TaskPayload",
    "TaskResultPayload",
    "TasksStreamPart",
    "UpdatesStreamPart",
    "ValuesStreamPart",
)
"""Names that `perdure.types` has as well."""
