"""A slot whose value is visible for one super-step."""

from __future__ import annotations

from collections.abc import Sequence

from perdure.channels.base import MISSING, Value
from perdure.channels.single_value import GuardedValue


class EphemeralValue(GuardedValue[Value]):
    """Holds what the super-step before wrote, and forgets it when nobody writes again.

    Args:
        typ: the declared type.
        guard: True to take only one value a super-step, False to take the last of many.
    """

    __slots__ = ()
    volatile = True

    def update(self, values: Sequence[Value]) -> bool:
        """Takes the value; without one the channel becomes empty.

        Raises:
            InvalidUpdateError: there are several, and `guard` is set (code INVALID_CONCURRENT_GRAPH_UPDATE).
        """
        if not values:
            if self.value is MISSING:
                return False
            self.value = MISSING
            return True
        if self.guard and len(values) != 1:
            raise self.crowded_error(len(values))
        self.value = values[-1]
        return True
