"""A slot that many may write to and that is read as a list."""

from __future__ import annotations

from collections.abc import Sequence
from types import GenericAlias
from typing import Any, Self, Union

from perdure.channels.base import MISSING, BaseChannel, Missing, Value


class Topic(BaseChannel[list[Value], Value | list[Value], list[Value]]):
    """Collects all values of a super-step; a written list adds its elements.

    Args:
        typ: the type of one element.
        accumulate: True to keep what earlier super-steps wrote, False to hold only what the last one did.
    """

    # `values` is replaced, never changed in place: copies and checkpoints share it at no cost.
    __slots__ = ("accumulate", "values")

    def __init__(self, typ: Any, accumulate: bool = False) -> None:
        super().__init__(typ)
        self.accumulate = accumulate
        self.values: list[Value] = []

    @property
    def volatile(self) -> bool:  # type: ignore[override]
        """Whether a super-step without writes empties it."""
        return not self.accumulate

    @property
    def ValueType(self) -> Any:
        """A sequence of elements."""
        return GenericAlias(Sequence, (self.typ,))

    @property
    def UpdateType(self) -> Any:
        """An element, or a list of them."""
        return Union[self.typ, GenericAlias(list, (self.typ,))]

    def copy(self) -> Self:
        """A topic with the same elements, whose updates do not show here."""
        return self._twin(self.values)

    def checkpoint(self) -> list[Value]:
        """The elements, also when there are none: emptying a topic is a change that must be stored."""
        return self.values

    def from_checkpoint(self, stored: list[Value] | tuple[Any, list[Value]] | Missing) -> Self:
        """A topic with the stored elements. Old records, which hold a pair ending in the list, are understood."""
        if stored is MISSING:
            return self._twin([])
        return self._twin(list(stored[1] if isinstance(stored, tuple) else stored))

    def get(self) -> list[Value]:
        """The elements, in a list of the caller's own.

        Raises:
            EmptyChannelError: there are none.
        """
        if not self.values:
            raise self.empty_error("no element was written" if self.accumulate else "the last super-step wrote no element")
        return list(self.values)

    def is_available(self) -> bool:
        """Whether there is an element."""
        return bool(self.values)

    def update(self, values: Sequence[Value | list[Value]]) -> bool:
        """Adds the elements; if it does not accumulate, the earlier ones go first."""
        new: list[Value] = []
        for value in values:
            if isinstance(value, list):
                new.extend(value)
            else:
                new.append(value)
        if self.accumulate:
            if new:
                self.values = self.values + new
            return bool(new)
        changed = bool(self.values or new)
        self.values = new
        return changed

    def _twin(self, values: list[Value]) -> Self:
        twin = type(self)(self.typ, self.accumulate)
        twin.key = self.key
        twin.values = values
        return twin

    def alike(self, other: Self) -> bool:
        """Whether both accumulate, or neither."""
        return self.accumulate == other.accumulate
