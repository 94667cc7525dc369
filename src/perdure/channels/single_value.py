"""What the kinds that hold one plain value have in common."""

from __future__ import annotations

from typing import Any, Self

from perdure.channels.base import MISSING, BaseChannel, Missing, Update, Value
from perdure.errors import ErrorCode, InvalidUpdateError


class SingleValue(BaseChannel[Value, Update, Value]):
    """A slot with one value or none, stored as it is. Its kinds say what a write does."""

    __slots__ = ("value",)
    volatile = False

    def __init__(self, typ: Any, key: str = "") -> None:
        super().__init__(typ, key)
        self.value: Value | Missing = MISSING

    def twin(self, value: Value | Missing) -> Self:
        """A channel of the same kind that holds this value. Kinds with further parameters extend it."""
        # Not through __init__, which computes a first value that would be thrown away.
        twin = object.__new__(type(self))
        twin.typ = self.typ
        twin.key = self.key
        twin.value = value
        return twin

    def copy(self) -> Self:
        """A channel with the same value, whose updates do not show here."""
        return self.twin(self.value)

    def checkpoint(self) -> Value | Missing:
        """The value, or MISSING."""
        return self.value

    def from_checkpoint(self, stored: Value | Missing) -> Self:
        """A channel that holds what was stored."""
        return self.twin(stored)

    def get(self) -> Value:
        """The value.

        Raises:
            EmptyChannelError: there is none.
        """
        if self.value is MISSING:
            raise self.empty_error()
        return self.value

    def is_available(self) -> bool:
        """Whether there is a value."""
        return self.value is not MISSING


class GuardedValue(SingleValue[Value, Value]):
    """A single value that takes one write a super-step (`guard`), or the last of many."""

    __slots__ = ("guard",)

    def __init__(self, typ: Any, guard: bool = True) -> None:
        super().__init__(typ)
        self.guard = guard

    def twin(self, value: Value | Missing) -> Self:
        """A channel of the same kind and guard that holds this value."""
        twin = super().twin(value)
        twin.guard = self.guard
        return twin

    def alike(self, other: Self) -> bool:
        """Whether both guard, or neither."""
        return self.guard == other.guard

    def crowded_error(self, count: int) -> InvalidUpdateError:
        """The error to raise when a guarded channel gets several values."""
        return InvalidUpdateError(
            f"At key {self.key!r}: Can receive only one value per step, got {count}. "
            f"`{type(self).__name__}(typ, guard=False)` keeps the last of many",
            key=self.key,
            code=ErrorCode.INVALID_CONCURRENT_GRAPH_UPDATE.value,
        )
