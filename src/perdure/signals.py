"""What belongs to errors and is none: the signals that pass through nodes, a warning, and what describes an error.

`perdure.errors` is where all of it is drawn and imported from. The signals say so too, because records name them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from perdure.types import Command, Interrupt


class ErrorCode(Enum):
    """Codes that other systems of this field give to the same mistakes."""

    GRAPH_RECURSION_LIMIT = "GRAPH_RECURSION_LIMIT"
    INVALID_CONCURRENT_GRAPH_UPDATE = "INVALID_CONCURRENT_GRAPH_UPDATE"
    INVALID_GRAPH_NODE_RETURN_VALUE = "INVALID_GRAPH_NODE_RETURN_VALUE"
    MULTIPLE_SUBGRAPHS = "MULTIPLE_SUBGRAPHS"
    INVALID_CHAT_HISTORY = "INVALID_CHAT_HISTORY"


class InPlaceChangeWarning(UserWarning):
    """A node changed a value of the state in place and did not return it; the change was undone."""

    code: ClassVar[str] = "IN_PLACE_CHANGE"


class MissingPartWarning(UserWarning):
    """What was asked for needs a saver or a cache, and the graph has none; the message says where it belongs."""

    code: ClassVar[str] = "MISSING_PART"


class CacheWarning(UserWarning):
    """A cache could not keep a result, or has one that cannot be loaded or that the graph cannot take: what was to be saved in time is done again."""

    code: ClassVar[str] = "CACHE"


class GraphBubbleUp(BaseException):
    """Base of the signals that pass through a node on their way to the runtime.

    They are no errors: `except Exception` does not catch them, and a node that catches BaseException must raise them again.
    """

    __module__ = "perdure.errors"
    code: ClassVar[str] = "GRAPH_BUBBLE_UP"


class GraphInterrupt(GraphBubbleUp):
    """A node asked a question with `interrupt`; the run pauses until it is answered."""

    __module__ = "perdure.errors"
    code: ClassVar[str] = "GRAPH_INTERRUPT"
    asked_at: tuple[int, int] | None = None
    """Where a subgraph asked: numbers of its namespace and checkpoint."""
    drained = False
    """A subgraph stopped because the run was asked to."""

    def __init__(self, interrupts: Sequence[Interrupt] = ()) -> None:
        super().__init__(tuple(interrupts))
        self.interrupts = tuple(interrupts)


class ParentCommand(GraphBubbleUp):
    """A node of a subgraph returned a command for the graph around it."""

    __module__ = "perdure.errors"
    code: ClassVar[str] = "PARENT_COMMAND"

    def __init__(self, command: Command[Any]) -> None:
        super().__init__(command)
        self.command = command


@dataclass(frozen=True, slots=True)
class NodeError:
    """What an error handler gets as `error`: which node failed, and with what."""

    node: str
    error: BaseException
