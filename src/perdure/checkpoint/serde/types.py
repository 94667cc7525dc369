"""What a serializer needs to know of the runtime: the shapes of channels and of Sends, and the names of special writes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, Self

from typing_extensions import TypeVar

from perdure.constants import ERROR, INTERRUPT, RESUME, TASKS

__all__ = ["ERROR", "INTERRUPT", "RESUME", "SCHEDULED", "TASKS", "C", "ChannelProtocol", "SendProtocol", "Update", "Value"]

SCHEDULED = "__scheduled__"

Value = TypeVar("Value", covariant=True)  # noqa: PLC0105 - a name of the public contract
Update = TypeVar("Update", contravariant=True)  # noqa: PLC0105 - a name of the public contract
C = TypeVar("C")


class ChannelProtocol(Protocol[Value, Update, C]):
    """What a channel can do; `perdure.channels.BaseChannel` is the base of all."""

    @property
    def ValueType(self) -> Any:  # noqa: N802 - a name of the public contract
        """The type of its value."""
        ...

    @property
    def UpdateType(self) -> Any:  # noqa: N802 - as above
        """The type of what is written to it."""
        ...

    def checkpoint(self) -> C | None:
        """What is stored of it."""
        ...

    def from_checkpoint(self, checkpoint: C | None) -> Self:
        """A channel with what was stored."""
        ...

    def update(self, values: Sequence[Update]) -> bool:
        """Take what one super-step wrote; whether it changed."""
        ...

    def get(self) -> Value:
        """Its value."""
        ...

    def consume(self) -> bool:
        """Told that a task was triggered by it; whether it changed."""
        ...


class SendProtocol(Protocol):
    """What a `Send` carries."""

    node: str
    arg: Any
