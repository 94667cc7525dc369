"""A slot that folds what is written into its value with a reducer."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any, Self

from perdure.channels.base import MISSING, Missing, Value
from perdure.channels.overwrite import fold, only_overwrite
from perdure.channels.reducer import ADDED, LEAVES_ALONE, said_by, same_reducer, start_value
from perdure.channels.single_value import SingleValue


class BinaryOperatorAggregate(SingleValue[Value, Value]):
    """Folds writes into one value, in the order of their tasks: `value = operator(value, write)`.

    Starts at `typ()` where that works (abstract collections as list, set or dict); else empty, and the first write is the
    value. An `Overwrite` replaces the value and voids all other writes of its super-step.

    Args:
        typ: the declared type.
        operator: the reducer, `(value, write) -> value`. It should return a new value, as `operator.add` does. Nothing is
            copied for it: changing `value` in place also changes what copies of this channel hold, and the write that an
            Overwrite or a first write brought; changing `write` is always wrong, as it is kept as history.
    """

    __slots__ = ("kept", "operator")

    def __init__(self, typ: type[Value], operator: Callable[[Value, Value], Value]) -> None:
        super().__init__(typ)
        self.operator = operator
        self.kept = 0
        self.value = start_value(typ)

    def twin(self, value: Value | Missing) -> Self:
        """A channel with the same reducer that holds this value."""
        twin = super().twin(value)
        twin.operator = self.operator
        twin.kept = 0
        return twin

    def from_checkpoint(self, stored: Value | Missing) -> Self:
        """A channel that holds what was stored, or starts at `typ()`."""
        return self.twin(start_value(self.typ) if stored is MISSING else stored)

    def update(self, values: Sequence[Any]) -> bool:
        """Folds the values in, or takes the one Overwrite among them.

        Raises:
            InvalidUpdateError: two of them are an Overwrite (code INVALID_CONCURRENT_GRAPH_UPDATE).
        """
        if not values:
            return False
        added = self._added(values)
        if added is None:
            self.value = fold(self.operator, self.value, values, self.key)
            self.kept = 0
        else:
            before: Any = self.value
            now: Any = [*before, *added]
            self.value = now
            # Of what a child class makes of the value afterwards nothing is known.
            self.kept = len(before) if type(self) is BinaryOperatorAggregate else 0
        return True

    def _added(self, values: Sequence[Any]) -> list[Any] | None:
        """What these writes add to the end of a list; None if they do anything else."""
        if type(self.value) is not list:
            return None
        if self.operator is operator.add:
            return list(chain.from_iterable(values)) if all(type(value) is list for value in values) else None
        added = said_by(self.operator, ADDED)
        if added is None or only_overwrite(values, self.key) is not MISSING:
            return None
        found: list[Any] | None = added(self.value, values)
        return found

    def leaves_alone(self, values: Sequence[Any]) -> bool:
        """A reducer of Python's own, or one that says so, never changes what it adds to."""
        if said_by(self.operator, LEAVES_ALONE):
            return True
        return (self.operator is operator.add and all(type(value) is list for value in values)) or (
            self.operator is operator.or_ and all(type(value) is dict for value in values)
        )

    def alike(self, other: Self) -> bool:
        """Whether the reducers count as the same; a lambda counts as any."""
        return same_reducer(self.operator, other.operator)
