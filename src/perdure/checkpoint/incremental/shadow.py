"""What a list, dict or set was when it was last stored, element by element, and what has become of it since.

A shadow never stands for more than it knows: an element counts as unchanged only if its outline says so, or if its bytes are the
same. Everything else is written again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import compress
from operator import is_, is_not
from typing import Any, NamedTuple

from perdure.checkpoint.incremental.outline import Level, Outline, Outliner
from perdure.checkpoint.incremental.watched import GROUP, Columns, ElementEncoder, New, Piece, Watched, columns_of, encoded_each


class Change(NamedTuple):
    """What has become of a value.

    Attributes:
        pieces: what it is made of now.
        columns: its elements now.
        watched: what will tell later whether the elements from `since` on have changed.
        since: the elements before are those of the old value, at the same positions.
    """

    pieces: list[Piece]
    columns: Columns
    watched: Watched
    since: int

    @property
    def keeps(self) -> bool:
        """Something of the old value is still there."""
        return any(type(piece) is tuple for piece in self.pieces)

    @property
    def fresh(self) -> list[bytes]:
        """The bytes of all new elements, in order."""
        return [data for piece in self.pieces if isinstance(piece, New) for data in piece.data]


class Shadow:
    """The elements of a value as they were stored.

    Attributes:
        columns: the elements, in the order they are stored in.
    """

    __slots__ = ("_encoder", "_outliner", "_watched", "columns", "kind")

    def __init__(self, kind: str, encoder: ElementEncoder, columns: Columns, watched: Watched, outliner: Outliner) -> None:
        self.kind = kind
        self.columns = columns
        self._encoder = encoder
        self._outliner = outliner
        self._watched = watched

    @classmethod
    def new(cls, kind: str, encoder: ElementEncoder, outliner: Outliner) -> Shadow:
        """The shadow of an empty value."""
        return cls(kind, encoder, Columns([] if kind == "dict" else None, []), Watched(), outliner)

    @classmethod
    def of_stored(
        cls, kind: str, encoder: ElementEncoder, value: Any, outliner: Outliner, bytes_at: Callable[[list[int]], list[bytes]]
    ) -> Shadow:
        """The shadow of a value that has just been loaded.

        Args:
            kind: list, dict or set.
            encoder: encodes elements.
            value: the value, in the order of its stored elements.
            outliner: makes outlines.
            bytes_at: the stored bytes of elements at these positions.
        """
        columns = columns_of(value)
        watched = Watched.of(columns, outliner, range(len(columns.values)))
        for position, data in zip(watched.pending, bytes_at(watched.pending) if watched.pending else [], strict=True):
            watched.codes[position] = data
        return cls(kind, encoder, columns, watched, outliner)

    @classmethod
    def of_copies(
        cls, kind: str, encoder: ElementEncoder, value: Any, outliner: Outliner, levels: Sequence[Level | None]
    ) -> Shadow:
        """The shadow of a value whose elements have just been copied from originals; see `Watched.of_copies`."""
        columns = columns_of(value)
        return cls(kind, encoder, columns, Watched.of_copies(columns, outliner, levels), outliner)

    @property
    def outlines(self) -> list[Outline] | None:
        """What watches its elements; see `Watched.outlines`."""
        return self._watched.outlines

    def is_changed(self) -> bool:
        """Whether an element is no longer what was stored."""
        return bool(self._watched.pending) or bool(self._watched.changed(self.columns, self._encoder))

    def accept(self, change: Change) -> None:
        """The change has been stored: from now on it is the value."""
        if change.since:
            self._watched.extend(change.watched)
        else:
            self._watched = change.watched
        self.columns = change.columns

    def change_to(self, value: Any, *, sound: bool = False, kept: int = 0) -> Change:
        """What has become of the value. It may have been changed in place, and `value` may be another object.

        Args:
            value: the value now.
            sound: somebody has looked already: no element has been changed in place.
            kept: so many elements are surely still the first ones, and the same objects.

        Raises:
            NotStorable: a new element cannot be stored.
        """
        old = self.columns
        columns = self._ordered(value) if self.kind == "set" else columns_of(value)
        size = len(old.values)
        changed = set() if sound else self._watched.changed(old, self._encoder)
        if (
            not changed
            and len(columns.values) >= size
            and (kept == size or all(map(is_, old.values, columns.values)))
            and (old.names is None or columns.names is None or all(map(is_, old.names, columns.names)))
        ):
            return self._change([(0, size)] if size else [], columns, list(range(size, len(columns.values))), size)
        ends = self._ends(columns, changed)
        return self._rebuilt(columns, self._same_objects(columns, changed, ends), changed, ends)

    def whole(self, columns: Columns) -> Change:
        """A value of these elements, none of which is taken from the old one.

        Raises:
            NotStorable: an element cannot be stored.
        """
        return self._change([], columns, list(range(len(columns.values))), 0)

    # -- how ------------------------------------------------------------------------------------------------------------------

    def _change(self, before: list[Piece], columns: Columns, new: list[int], since: int) -> Change:
        # First the outlines, then the bytes: what another thread changes in between is found the next time.
        watched = Watched.of(columns, self._outliner, new)
        data = columns.encoded(self._encoder, new) if new else []
        if self.kind == "set" and new:
            # A set has no order; its stored elements get one that does not depend on hashes.
            order = sorted(range(len(new)), key=data.__getitem__)
            data = [data[at] for at in order]
            columns.values[since:] = [columns.values[new[at]] for at in order]
            watched = Watched.of(columns, self._outliner, new)
        self._code(watched, columns, dict(zip(new, data, strict=True)))
        return Change([*before, New(new, data)] if new else before, columns, watched, since)

    def _code(
        self, watched: Watched, columns: Columns, known: dict[int, bytes], old_of: Callable[[int], int] = lambda _: -1
    ) -> None:
        """Give codes to the elements that have no outline: from their bytes if these are known, or the code they had."""
        missing = []
        for position in watched.pending:
            if position in known:
                watched.code(position, known[position])
            elif (code := self._watched.codes.get(old_of(position))) is not None:
                watched.codes[position] = code
            else:
                missing.append(position)
        for position, data in zip(missing, columns.encoded(self._encoder, missing), strict=True):
            watched.code(position, data)

    def _ordered(self, value: set[Any]) -> Columns:
        """The members of a set: first those that were there, in their stored order."""
        old = self.columns.values
        present = set(map(id, value))
        kept = old if present.issuperset(map(id, old)) else [thing for thing in old if id(thing) in present]
        if len(kept) == len(value):
            return Columns(None, list(kept))
        known = set(map(id, kept))
        return Columns(None, [*kept, *(thing for thing in value if id(thing) not in known)])

    def _ends(self, columns: Columns, changed: set[int]) -> tuple[int, int]:
        """How many elements at the beginning, and how many of the others at the end, are what they were."""
        old, new = self.columns, columns
        size = min(len(old.values), len(new.values))
        first = _alike(old.values, new.values, size)
        last = _alike(reversed(old.values), reversed(new.values), size)
        if old.names is not None and new.names is not None:
            first = min(first, _alike(old.names, new.names, size))
            last = min(last, _alike(reversed(old.names), reversed(new.names), size))
        if changed:
            first = min(first, *changed)
            last = min(last, len(old.values) - 1 - max(changed))
        return first, min(last, size - first)

    def _same_objects(self, columns: Columns, changed: set[int], ends: tuple[int, int]) -> list[int]:
        """For each element between the ends the position of the old element that it is, or -1: the same object, and unchanged."""
        old = self.columns
        first, last = ends
        end = len(old.values) - last
        middle = slice(first, len(columns.values) - last)
        if old.names is not None and columns.names is not None:
            names = {old.names[at]: at for at in range(first, end) if at not in changed}
            found = [names.get(name, -1) for name in columns.names[middle]]
            return [
                at if at >= 0 and old.values[at] is value and _same_leaf(old.names[at], name) else -1
                for at, name, value in zip(found, columns.names[middle], columns.values[middle], strict=True)
            ]
        where = {id(old.values[at]): at for at in range(first, end) if at not in changed}
        reused = []
        following = first
        for thing in columns.values[middle]:
            if following < end and old.values[following] is thing and following not in changed:
                at = following
            else:
                at = where.get(id(thing), -1)
            reused.append(at)
            following = at + 1 if at >= 0 else following + 1
        return reused

    def _rebuilt(self, columns: Columns, middle: list[int], changed: set[int], ends: tuple[int, int]) -> Change:
        """The change to a value of which it is known which elements are the same objects as before."""
        first, last = ends
        size = len(self.columns.values)
        end = size - last
        watched = self._still_watched(columns, middle, ends)
        new = [at for at, old in enumerate(middle, first) if old < 0]
        data = columns.encoded(self._encoder, new) if new else []
        left = sorted(set(range(first, end)).difference(middle, changed)) if new else []
        if left:
            # Copies of old elements are known by their bytes.
            stored = encoded_each(self.columns, self._encoder, left)
            where = {found: at for at, found in zip(left, stored, strict=True) if found is not None}
            for at, found in zip(new, data, strict=True):
                middle[at - first] = where.get(found, -1)
        known = dict(zip(new, data, strict=True))

        def old_of(position: int) -> int:
            if position < first:
                return position
            return middle[position - first] if position < first + len(middle) else position - len(columns.values) + size

        self._code(watched, columns, dict(known), old_of)
        pieces: list[Piece] = [(0, first)] if first else []
        for at, old in enumerate(middle, first):
            before = pieces[-1] if pieces else None
            if old < 0:
                if not isinstance(before, New):
                    before = New([], [])
                    pieces.append(before)
                before.at.append(at)
                before.data.append(known[at])
            elif type(before) is tuple and before[1] == old:
                pieces[-1] = (before[0], old + 1)
            else:
                pieces.append((old, old + 1))
        if last:
            before = pieces[-1] if pieces else None
            if type(before) is tuple and before[1] == end:
                pieces[-1] = (before[0], size)
            else:
                pieces.append((end, size))
        return Change(pieces, columns, watched, 0)

    def _still_watched(self, columns: Columns, middle: list[int], ends: tuple[int, int]) -> Watched:
        """What watches the elements now: the outlines whose elements are all still there, and new ones for the rest."""
        first, last = ends
        count = len(columns.values)
        shift = count - len(self.columns.values)
        end = len(self.columns.values) - last
        now = {old: at for at, old in enumerate(middle, first) if old >= 0}
        kept: list[tuple[Outline, Sequence[int]]] = []
        seen = bytearray(count)
        for outline, positions in self._watched.groups:
            if len(positions) * 2 < GROUP:
                continue  # small ones are put together again
            places: Sequence[int] | None = positions
            if max(positions) >= first:
                found = [at if at < first else at + shift if at >= end else now.get(at, -1) for at in positions]
                places = found if min(found) >= 0 else None
            if places is not None:
                kept.append((outline, places))
                for place in places:
                    seen[place] = 1
        rest = Watched.of(columns, self._outliner, [at for at in range(count) if not seen[at]])
        # Outlines are not merged here: the old value still needs them, in case this change is not stored.
        rest.groups = [*kept, *rest.groups]
        return rest


def _alike(one: Iterable[Any], other: Iterable[Any], size: int) -> int:
    """How many of the first `size` things of both are the same."""
    return next(compress(range(size), map(is_not, one, other)), size)


def _same_leaf(one: Any, other: Any) -> bool:
    return one is other or (type(one) is type(other) is str and one == other)
