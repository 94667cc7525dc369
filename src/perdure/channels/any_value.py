"""A slot for writes that all say the same."""

from __future__ import annotations

from collections.abc import Sequence

from perdure.channels.base import MISSING, Value
from perdure.channels.single_value import SingleValue


class AnyValue(SingleValue[Value, Value]):
    """Holds the last value written in the last super-step; several writers are fine, as they are taken to agree."""

    __slots__ = ()
    volatile = True

    def update(self, values: Sequence[Value]) -> bool:
        """Takes the last value; without values the channel becomes empty."""
        if values:
            self.value = values[-1]
            return True
        if self.value is MISSING:
            return False
        self.value = MISSING
        return True
