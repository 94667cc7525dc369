"""Elements of a value, how they are encoded, and what tells which of them have changed in place."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple, Protocol

from perdure.checkpoint.incremental.outline import Level, Made, Outline, Outliner
from perdure.errors import NotStorable

GROUP = 256
"""Elements whose outlines are one: few enough to look at each when one has changed, many enough that groups cost nothing."""

SHORT = 64
"""Up to so many bytes an element's encoding is remembered as it is, else as a digest."""


class ElementEncoder(Protocol):
    """What a serializer must offer so that values can be stored by element; see `JsonPlusSerializer`."""

    def dumps_elements(self, values: Sequence[Any]) -> list[bytes]:
        """The bytes of each value, which `loads_elements` can put together again."""
        ...

    def made_of(self, cls: type) -> Made | None:
        """What the stored form of an object depends on."""
        ...


class New(NamedTuple):
    """Elements that are not stored yet: their positions in the value, and their bytes."""

    at: list[int]
    data: list[bytes]


Piece = tuple[int, int] | New
"""Either old elements from, to (exclusive); or new ones."""


class Columns(NamedTuple):
    """The elements of a value: of a dict `names` are its keys, and `values` what they lead to."""

    names: list[Any] | None
    values: list[Any]

    def encoded(self, encoder: ElementEncoder, at: Sequence[int] | None = None) -> list[bytes]:
        """The bytes of elements, all or those at some positions.

        Raises:
            NotStorable: one cannot be stored.
        """
        data = encoder.dumps_elements(self.values if at is None else [self.values[i] for i in at])
        if self.names is None:
            return data
        names = encoder.dumps_elements(self.names if at is None else [self.names[i] for i in at])
        return [name + value for name, value in zip(names, data, strict=True)]


def columns_of(value: Any) -> Columns:
    """The elements of a value."""
    return Columns(list(value), list(value.values())) if type(value) is dict else Columns(None, list(value))


class Watched:
    """Tells which of some elements have changed in place.

    Attributes:
        groups: outlines, each with the positions of its elements.
        codes: of elements that have no outline: their bytes, or a digest of these.
    """

    __slots__ = ("codes", "groups", "pending")

    def __init__(self) -> None:
        self.groups: list[tuple[Outline, Sequence[int]]] = []
        self.codes: dict[int, bytes | int] = {}
        self.pending: list[int] = []

    @classmethod
    def of(cls, columns: Columns, outliner: Outliner, positions: Sequence[int]) -> Watched:
        """Watch the elements at these positions. Those in `pending` have no outline, and wait for their `codes`."""
        new = cls()
        for first in range(0, len(positions), GROUP):
            new._add(columns, outliner, positions[first : first + GROUP])
        return new

    @classmethod
    def of_copies(cls, columns: Columns, outliner: Outliner, levels: Sequence[Level | None]) -> Watched:
        """Watch elements that have been copied from originals. Of groups of flat dicts the level of the originals is known."""
        new = cls()
        size = len(columns.values)
        for first, level in zip(range(0, size, GROUP), levels, strict=True):
            last = min(first + GROUP, size)
            if level is not None:
                new.groups.append((outliner.of_flat(columns.values[first:last], level), range(first, last)))
            else:
                new._add(columns, outliner, range(first, last))
        return new

    @property
    def outlines(self) -> list[Outline] | None:
        """Outlines of all elements, in their order; None if some have none."""
        if self.codes or self.pending:
            return None
        return [outline for outline, _ in self.groups]

    def _add(self, columns: Columns, outliner: Outliner, positions: Sequence[int]) -> None:
        names = None if columns.names is None else [columns.names[at] for at in positions]
        values = [columns.values[at] for at in positions]
        if names is None or outliner.are_leaves(names):
            outline = outliner.of(values)
            if outline is not None:
                self._watch(outline, positions)
                return
        if len(positions) > 1 and (outliner.may_watch(values) or names is not None):
            for position in positions:
                self._add(columns, outliner, [position])
        else:
            self.pending.extend(positions)

    def _watch(self, outline: Outline, positions: Sequence[int]) -> None:
        if self.groups and len(self.groups[-1][1]) + len(positions) <= GROUP:
            last, known = self.groups[-1]
            last.extend(outline)
            self.groups[-1] = (last, _joined(known, positions))
        else:
            self.groups.append((outline, positions))

    def code(self, position: int, data: bytes) -> None:
        """Remember the bytes of an element that has no outline."""
        self.codes[position] = data if len(data) <= SHORT else _digest(data)

    def extend(self, other: Watched) -> None:
        """Watch other elements as well, which come after one's own."""
        for outline, positions in other.groups:
            self._watch(outline, positions)
        self.codes.update(other.codes)

    def changed(self, columns: Columns, encoder: ElementEncoder) -> set[int]:
        """The positions of elements that have changed."""
        changed: set[int] = set()
        for outline, positions in self.groups:
            if not outline.is_unchanged():
                changed.update([positions[at] for at in outline.changed()])
        if self.codes:
            positions = list(self.codes)
            for position, data in zip(positions, encoded_each(columns, encoder, positions), strict=True):
                code = self.codes[position]
                if data is None or code != (data if type(code) is bytes else _digest(data)):
                    changed.add(position)
        return changed


def _joined(one: Sequence[int], other: Sequence[int]) -> Sequence[int]:
    """Both one after the other; a range if they are one, which takes no numbers."""
    if type(one) is type(other) is range and one.step == other.step == 1 and one.stop == other.start:
        return range(one.start, other.stop)
    return [*one, *other]


def encoded_each(columns: Columns, encoder: ElementEncoder, positions: list[int]) -> Iterable[bytes | None]:
    """The bytes of elements; None for one that cannot be stored, since it was changed."""
    try:
        return list(columns.encoded(encoder, positions))
    except NotStorable:
        return [_one(columns, encoder, position) for position in positions]


def _one(columns: Columns, encoder: ElementEncoder, position: int) -> bytes | None:
    try:
        return columns.encoded(encoder, [position])[0]
    except NotStorable:
        return None


def _digest(data: bytes) -> int:
    return int.from_bytes(blake2b(data, digest_size=16).digest(), "big")
