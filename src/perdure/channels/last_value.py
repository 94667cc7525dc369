"""The plain key of a state: it holds what was written last."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

from perdure.channels.base import MISSING, BaseChannel, Missing, Value
from perdure.channels.single_value import SingleValue
from perdure.errors import ErrorCode, InvalidUpdateError
from perdure.types import Overwrite


class LastValue(SingleValue[Value, Value]):
    """Holds the last value written; takes at most one a super-step, because "last" of two parallel writes would be chance."""

    __slots__ = ()

    def update(self, values: Sequence[Value]) -> bool:
        """Takes the one value; an `Overwrite` is taken off, for there is no reducer that it could pass by.

        Raises:
            InvalidUpdateError: there are several (code INVALID_CONCURRENT_GRAPH_UPDATE).
        """
        if len(values) != 1:
            if not values:
                return False
            raise InvalidUpdateError(
                f"At key {self.key!r}: Can receive only one value per step. Use an Annotated key to handle multiple values. "
                f"It got {len(values)}: several nodes, or several runs of one node, wrote it in the same super-step. "
                "For example `Annotated[list, operator.add]` collects them all",
                key=self.key,
                code=ErrorCode.INVALID_CONCURRENT_GRAPH_UPDATE.value,
            )
        value: Any = values[0]
        self.value = value.value if type(value) is Overwrite else value
        return True

    def leaves_alone(self, values: Sequence[Value]) -> bool:
        """It only lets go of the old value."""
        return True


class LastValueAfterFinish(BaseChannel[Value, Value, tuple[Value, bool]]):
    """Holds the last value written, but shows it only once the run has nothing else to do. Wakes deferred nodes."""

    __slots__ = ("finished", "value")
    volatile = False

    def __init__(self, typ: Any, key: str = "") -> None:
        super().__init__(typ, key)
        self.value: Value | Missing = MISSING
        self.finished = False

    def checkpoint(self) -> tuple[Value, bool] | Missing:
        """The value and whether it may be shown, or MISSING."""
        return MISSING if self.value is MISSING else (self.value, self.finished)

    def from_checkpoint(self, stored: tuple[Value, bool] | Missing) -> Self:
        """A channel that goes on from such a pair."""
        new = type(self)(self.typ, self.key)
        if stored is not MISSING:
            new.value, new.finished = stored
        return new

    def get(self) -> Value:
        """The value.

        Raises:
            EmptyChannelError: there is none, or the run is not yet that far.
        """
        if self.value is MISSING:
            raise self.empty_error()
        if not self.finished:
            raise self.empty_error("its value is held back until the run has nothing else to do")
        return self.value

    def is_available(self) -> bool:
        """Whether there is a value and it may be shown."""
        return self.finished and self.value is not MISSING

    def update(self, values: Sequence[Value]) -> bool:
        """Takes the last of the values and holds it back again."""
        if not values:
            return False
        self.value = values[-1]
        self.finished = False
        return True

    def consume(self) -> bool:
        """Forgets a value that was shown."""
        if not self.finished:
            return False
        self.value = MISSING
        self.finished = False
        return True

    def finish(self) -> bool:
        """Shows the value."""
        if self.finished or self.value is MISSING:
            return False
        self.finished = True
        return True
