"""A slot whose reducer takes all writes of a super-step at once."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any, Self

from perdure.channels.base import MISSING, Missing
from perdure.channels.overwrite import only_overwrite
from perdure.channels.reducer import same_reducer, start_value
from perdure.channels.single_value import SingleValue
from perdure.errors import InvalidArgument, InvalidUpdateError


class DeltaChannel(SingleValue[Any, Any]):
    """Folds writes with a reducer over batches: `value = reducer(value, [write, …])`.

    It is here for graphs that already use it. Storage writes only what changed of a plain list, dict or set anyway, so a key
    declared as `Annotated[list, operator.add]` costs no more.

    Starts at `typ()` where that works, else empty. An `Overwrite` replaces the value by a shallow copy of its own (None by
    `typ()`) and voids all other writes of its super-step. None is never a value where `typ()` works: it stands for `typ()`.

    Args:
        reducer: `(value, writes) -> value`. It should return a new value: changing `value` in place also changes what copies of
            this channel hold. It must leave the writes as they are.
        typ: the declared type; in `Annotated[T, DeltaChannel(reducer)]` it is T.
        snapshot_frequency: accepted and kept, without effect.

    Raises:
        InvalidArgument: `snapshot_frequency` is not positive.
    """

    __slots__ = ("reducer", "snapshot_frequency")

    def __init__(self, reducer: Callable[[Any, Sequence[Any]], Any], typ: Any = None, *, snapshot_frequency: int = 100) -> None:
        if snapshot_frequency <= 0:
            raise InvalidArgument(f"snapshot_frequency must be positive, got {snapshot_frequency!r}")
        super().__init__(typ)
        self.reducer = reducer
        self.snapshot_frequency = snapshot_frequency
        self.value = start_value(typ)

    def of_type(self, typ: Any) -> Self:
        """A fresh channel with the same reducer for values of `typ`: what a schema makes of the channel in its annotation."""
        new = self.twin(start_value(typ))
        new.typ = typ
        return new

    def twin(self, value: Any) -> Self:
        """A channel with the same parameters that holds this value."""
        twin = super().twin(value)
        twin.reducer = self.reducer
        twin.snapshot_frequency = self.snapshot_frequency
        return twin

    def from_checkpoint(self, stored: Any | Missing) -> Self:
        """A channel that holds what was stored; from MISSING or None it starts at `typ()`."""
        if stored is MISSING:
            return self.twin(start_value(self.typ))
        return self.twin(self._for_none() if stored is None else stored)

    def update(self, values: Sequence[Any]) -> bool:
        """Gives all values to the reducer, or takes the one Overwrite among them.

        Raises:
            InvalidUpdateError: two of them are an Overwrite (code INVALID_CONCURRENT_GRAPH_UPDATE), there is no value for the
                reducer to start from, or the reducer returned None.
        """
        if not values:
            return False
        replaced = only_overwrite(values, self.key)
        if replaced is not MISSING:
            self.value = self._for_none() if replaced is None else copy.copy(replaced)
            return True
        value = start_value(self.typ) if self.value is MISSING else self.value
        if value is MISSING:
            raise InvalidUpdateError(
                f"At key {self.key!r}: the reducer of a DeltaChannel has no value to start from: {self.typ!r} cannot be made "
                "without arguments. Declare a type such as list or dict, or write an Overwrite first",
                key=self.key,
            )
        try:
            value = self.reducer(value, list(values))
        except Exception as error:
            kinds = ", ".join(sorted({type(write).__name__ for write in values}))
            error.add_note(
                f"At key {self.key!r}: its reducer was given a value of type {type(value).__name__} and writes of type {kinds}"
            )
            raise
        if value is None and self._for_none() is not None:
            raise InvalidUpdateError(
                f"At key {self.key!r}: the reducer of a DeltaChannel returned None for a value of type {self.typ!r}. "
                "Does it change its argument and forget to return it?",
                key=self.key,
            )
        self.value = value
        return True

    def _for_none(self) -> Any:
        start = start_value(self.typ)
        return None if start is MISSING else start

    def alike(self, other: Self) -> bool:
        """Whether the reducers count as the same (a lambda counts as any) and the other parameter is equal."""
        return same_reducer(self.reducer, other.reducer) and self.snapshot_frequency == other.snapshot_frequency
