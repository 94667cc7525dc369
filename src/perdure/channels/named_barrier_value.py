"""A slot that waits until everyone it waits for has come."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Generic, Self

from perdure.channels.base import MISSING, BaseChannel, Missing, Stored, Value
from perdure.errors import InvalidUpdateError


class _Barrier(BaseChannel[None, Value, Stored], Generic[Value, Stored]):
    """What both barriers share: who is awaited, and who has come."""

    # `seen` is replaced, never changed in place, so that copies may share it.
    __slots__ = ("names", "seen")
    volatile = False

    def __init__(self, typ: Any, names: Iterable[Value]) -> None:
        super().__init__(typ)
        self.names = frozenset(names)
        self.seen: frozenset[Value] = frozenset()

    def twin(self, seen: Iterable[Value]) -> Self:
        """A barrier that waits for the same names, where these have come."""
        twin = object.__new__(type(self))
        twin.typ = self.typ
        twin.key = self.key
        twin.names = self.names
        twin.seen = frozenset(seen)
        return twin

    def is_available(self) -> bool:
        """Whether all have come."""
        return self.seen == self.names

    def get(self) -> None:
        """None, once all have come.

        Raises:
            EmptyChannelError: some have not.
        """
        if self.seen != self.names:
            raise self.empty_error(f"it still waits for {_listed(self.names - self.seen)}")

    def update(self, values: Sequence[Value]) -> bool:
        """Notes who has come; says whether anyone is new.

        Raises:
            InvalidUpdateError: nobody waits for one of them.
        """
        if not values:
            return False
        strangers = [value for value in values if value not in self.names]
        if strangers:
            raise InvalidUpdateError(
                f"At key {self.key!r}: {_listed(strangers)} is not among the names that this barrier waits for: "
                f"{_listed(self.names)}",
                key=self.key,
            )
        seen = self.seen.union(values)
        changed = len(seen) != len(self.seen)
        self.seen = seen
        return changed

    def consume(self) -> bool:
        """Once all have come, waits for all of them again."""
        if not self.is_available():
            return False
        self.seen = frozenset()
        return True

    def alike(self, other: Self) -> bool:
        """Whether both wait for the same names."""
        return self.names == other.names


class NamedBarrierValue(_Barrier[Value, set[Value]]):
    """Becomes available when each of the names was written; its value is None.

    Args:
        typ: the type of a name.
        names: who is waited for.
    """

    __slots__ = ()

    def copy(self) -> Self:
        """A barrier in the same state, whose updates do not show here."""
        return self.twin(self.seen)

    def checkpoint(self) -> set[Value]:
        """Who has come, also when nobody has: starting over is a change that must be stored."""
        return set(self.seen)

    def from_checkpoint(self, stored: Iterable[Value] | Missing) -> Self:
        """A barrier where those stored have come."""
        return self.twin(() if stored is MISSING else stored)


class NamedBarrierValueAfterFinish(_Barrier[Value, tuple[set[Value], bool]]):
    """Becomes available when each of the names was written and the run has nothing else to do; its value is None.

    Args:
        typ: the type of a name.
        names: who is waited for.
    """

    __slots__ = ("finished",)

    def __init__(self, typ: Any, names: Iterable[Value]) -> None:
        super().__init__(typ, names)
        self.finished = False

    def copy(self) -> Self:
        """A barrier in the same state, whose updates do not show here."""
        return self.from_checkpoint((self.seen, self.finished))

    def checkpoint(self) -> tuple[set[Value], bool]:
        """Who has come, and whether the run had nothing else to do."""
        return set(self.seen), self.finished

    def from_checkpoint(self, stored: tuple[Iterable[Value], bool] | Missing) -> Self:
        """A barrier that goes on from such a pair."""
        seen, finished = ((), False) if stored is MISSING else stored
        twin = self.twin(seen)
        twin.finished = finished
        return twin

    def is_available(self) -> bool:
        """Whether all have come and the run has nothing else to do."""
        return self.finished and self.seen == self.names

    def get(self) -> None:
        """None, once it is available.

        Raises:
            EmptyChannelError: some have not come, or the run is not yet that far.
        """
        super().get()
        if not self.finished:
            raise self.empty_error("all have come, but it is held back until the run has nothing else to do")

    def consume(self) -> bool:
        """Once available, waits for all of them, and for the end of the run, again."""
        changed = super().consume()
        if changed:
            self.finished = False
        return changed

    def finish(self) -> bool:
        """Becomes available, if all have come."""
        if self.finished or self.seen != self.names:
            return False
        self.finished = True
        return True


def _listed(values: Iterable[Any]) -> str:
    return ", ".join(sorted(map(repr, values)))
