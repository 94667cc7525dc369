"""A slot that lives as long as its run and is never stored."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from perdure.channels.base import MISSING, Missing, Value
from perdure.channels.single_value import GuardedValue


class UntrackedValue(GuardedValue[Value]):
    """Holds the last value written, but no checkpoint has it: for what cannot or must not be stored, as a connection or a key.

    Args:
        typ: the declared type.
        guard: True to take only one value a super-step, False to take the last of many.
    """

    __slots__ = ()
    tracked = False

    def checkpoint(self) -> Missing:
        """Always MISSING."""
        return MISSING

    def from_checkpoint(self, stored: Value | Missing) -> Self:
        """An empty channel, whatever was stored."""
        return self.twin(MISSING)

    def update(self, values: Sequence[Value]) -> bool:
        """Takes the value.

        Raises:
            InvalidUpdateError: there are several, and `guard` is set (code INVALID_CONCURRENT_GRAPH_UPDATE).
        """
        if not values:
            return False
        if self.guard and len(values) != 1:
            raise self.crowded_error(len(values))
        self.value = values[-1]
        return True
