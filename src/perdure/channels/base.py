"""What every kind of state slot must do.

A channel holds one slot of a graph's state: it takes the values that the tasks of a super-step wrote and makes one value of
them. Channels are pure: no I/O, no clock, no threads. They know nothing of graphs, tasks or storage.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from enum import Enum
from typing import Any, ClassVar, Final, Generic, Self, TypeVar

from perdure.errors import EmptyChannelError

Value = TypeVar("Value")
Update = TypeVar("Update")
Stored = TypeVar("Stored")


class Missing(Enum):
    """The type of `MISSING`. An enum, because its members stay the same object through copy, deepcopy and pickle."""

    MISSING = "MISSING"

    def __repr__(self) -> str:
        return "MISSING"


MISSING: Final = Missing.MISSING
"""Stands for "no value", where None is a value like any other."""


class BaseChannel(ABC, Generic[Value, Update, Stored]):
    """One slot of a graph's state.

    `Value` is what is read, `Update` what is written, `Stored` what a checkpoint keeps.

    Args:
        typ: the declared type of the value.
        key: the name of the slot; the graph sets it when it places the channel.

    Two channels are equal when they treat writes alike. The declared type plays no part, so that one key may be declared as
    `list` in one schema and as `list[str]` in another. Channels change, so they cannot be hashed.
    """

    __slots__ = ("key", "typ")
    __hash__ = None  # type: ignore[assignment]

    volatile: bool = True
    """False if `update([])` never changes anything, so that a super-step need not call it. True unless a kind says so."""
    tracked: ClassVar[bool] = True
    """False if the value is never stored."""
    kept: int = 0
    """How many elements of the list that was the value before the last `update` are surely the first ones of the list that is now."""

    def __init__(self, typ: Any, key: str = "") -> None:
        self.typ = typ
        self.key = key

    @property
    def ValueType(self) -> Any:
        """The type of what `get` returns."""
        return self.typ

    @property
    def UpdateType(self) -> Any:
        """The type of what may be written."""
        return self.typ

    def copy(self) -> Self:
        """A channel of the same kind and content, whose updates do not show here. The value itself is shared, not copied."""
        return self.from_checkpoint(self.checkpoint())

    @abstractmethod
    def checkpoint(self) -> Stored | Missing:
        """What a checkpoint keeps of this channel; MISSING when there is nothing to keep."""

    @abstractmethod
    def from_checkpoint(self, stored: Stored | Missing) -> Self:
        """A new channel of this kind that goes on from what `checkpoint` returned; from MISSING it starts afresh."""

    @abstractmethod
    def get(self) -> Value:
        """The current value.

        Raises:
            EmptyChannelError: there is none.
        """

    @abstractmethod
    def is_available(self) -> bool:
        """Whether `get` would return a value."""

    @abstractmethod
    def update(self, values: Sequence[Update]) -> bool:
        """Takes all values of one super-step, in the order of its tasks; says whether the channel changed.

        Called with no values when the super-step did not write here.

        Raises:
            InvalidUpdateError: these values cannot be taken; the channel is as before.
        """

    def consume(self) -> bool:
        """Told that a task was triggered by this channel; says whether the channel changed."""
        return False

    def finish(self) -> bool:
        """Told that the run has nothing else to do; says whether the channel changed."""
        return False

    def leaves_alone(self, values: Sequence[Update]) -> bool:
        """Whether taking these values is sure not to change anything inside the value that is there. False unless a kind knows better."""
        return False

    def alike(self, other: Self) -> bool:
        """Whether another channel of this very class treats writes as this one does; kinds with parameters compare them."""
        return True

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self.alike(other)

    def empty_error(self, why: str = "nothing was written to it yet") -> EmptyChannelError:
        """The error to raise when there is no value to read."""
        return EmptyChannelError(
            f"At key {self.key!r}: {type(self).__name__} has no value to read: {why}. Check `is_available()` first",
            key=self.key,
        )
