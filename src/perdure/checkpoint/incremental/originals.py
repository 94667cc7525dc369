"""The elements of a stored value as nobody else has them, to make fresh ones from: a copy costs a tenth of decoding.

Copies share their texts and numbers with the originals, and no container. Only values whose containers are dicts, lists, tuples and
sets, children of dict that hold nothing else (such as the library's own messages), or pydantic models can be copied without running
anybody's code.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from itertools import chain, compress
from typing import Any, NamedTuple

from perdure.checkpoint.incremental.manifest import Manifest
from perdure.checkpoint.incremental.models import can_copy as can_copy_model
from perdure.checkpoint.incremental.models import copied as copied_model
from perdure.checkpoint.incremental.models import is_model
from perdure.checkpoint.incremental.outline import LEAVES, Level, Look, Made
from perdure.checkpoint.incremental.watched import GROUP, Columns, New, Piece
from perdure.errors import PerdureError

FLAT, DEEP, WAITING = 0, 1, 2
"""What an original is: a dict of leaves; anything else that can be copied; bytes that wait to be decoded."""

DEEPEST = 32


class Originals:
    """The elements of a list or dict, in order. Never changed once others may have it: `after` makes another one.

    Attributes:
        names: of a dict, its keys, which are leaves.
        values: the elements; of a dict, what its keys lead to. Flat children of dict are dicts here, which are copied sooner.
        kinds: their classes.
        flags: what each of them is.
        size: about how many bytes they take.
        classes: of all objects in them that are neither leaves nor plain containers.
    """

    __slots__ = ("_levels", "classes", "flags", "kinds", "names", "size", "values")

    def __init__(
        self,
        names: list[Any] | None,
        values: list[Any],
        kinds: list[type],
        flags: bytearray,
        size: int,
        levels: Sequence[Level | None] = (),
        classes: frozenset[type] = frozenset(),
    ) -> None:
        self._levels = levels
        self.classes = classes
        self.names = names
        self.values = values
        self.kinds = kinds
        self.flags = flags
        self.size = size

    @classmethod
    def of(cls, columns: Columns, look: Look, size: int) -> Originals | None:
        """Of elements that are what is stored, which are copied; None if they cannot be."""
        if columns.names is not None and not LEAVES.issuperset(map(type, columns.names)):
            return None
        noted = _Noted(look)
        flags = _flags(columns.values, noted)
        if flags is None:
            return None
        values = [_original(value, flag) for value, flag in zip(columns.values, flags, strict=True)]
        names = None if columns.names is None else columns.names.copy()
        return cls(names, values, list(map(type, columns.values)), flags, size, classes=frozenset(noted.classes))

    @property
    def has_models(self) -> bool:
        """There are pydantic models in them."""
        return any(map(is_model, self.classes))

    def copies(self) -> list[Any]:
        """Fresh elements, whose containers nobody else has."""
        return self._copies(0, len(self.values))

    def _copies(self, first: int, last: int) -> list[Any]:
        values, kinds, flags = self.values, self.kinds, self.flags
        if first == last:
            return []
        if (first, last) != (0, len(values)):
            values, kinds, flags = values[first:last], kinds[first:last], flags[first:last]
        known = set(kinds[:1]) if kinds.count(kinds[0]) == len(kinds) else set(kinds)
        if LEAVES.issuperset(known):
            return values.copy()
        if known == {dict}:
            new = list(map(dict.copy, values))
        elif all(issubclass(kind, dict) for kind in known):
            new = list(map(dict.__new__, kinds))
            deque(map(dict.update, new, values), 0)
        elif all(map(is_model, known)):
            return [copied_model(value, _copied) for value in values]
        else:
            return [_copy(*each) for each in zip(values, kinds, flags, strict=True)]
        if flags.count(FLAT) != len(flags):
            for at in compress(range(len(values)), flags):
                new[at] = _copied(values[at])
        return new

    def after(self, pieces: Sequence[Piece]) -> Originals:
        """What they are after a change; new elements wait in their stored form."""
        names: list[Any] | None = None if self.names is None else []
        values: list[Any] = []
        kinds: list[type] = []
        flags = bytearray()
        size = 0
        each = self.size // max(1, len(self.values))
        for piece in pieces:
            if isinstance(piece, New):
                values += piece.data
                kinds += [bytes] * len(piece.data)
                flags += bytes([WAITING]) * len(piece.data)
                size += sum(map(len, piece.data))
                if names is not None:
                    names += piece.data
                continue
            here = slice(*piece)
            values = _with(values, self.values[here])
            kinds = _with(kinds, self.kinds[here])
            flags += self.flags[here]
            size += each * (piece[1] - piece[0])
            if names is not None and self.names is not None:
                names = _with(names, self.names[here])
        head = pieces[0] if pieces else None
        kept = head[1] // GROUP if type(head) is tuple and head[0] == 0 else 0
        return Originals(names, values, kinds, flags, size, self._levels[:kept], self.classes)

    def levels(self) -> Sequence[Level | None]:
        """What groups of elements refer to, where they are flat dicts; None for the others."""
        known = list(self._levels)
        for first in range(len(known) * GROUP, len(self.values), GROUP):
            flags = self.flags[first : first + GROUP]
            known.append(Level.of_flat(self._copies(first, first + len(flags))) if flags.count(FLAT) == len(flags) else None)
        self._levels = known  # whoever comes at the same time makes the same
        return known

    def resolve(self, decode: Callable[[Sequence[bytes], int], list[Any]], look: Look, values: Sequence[Any]) -> bool:
        """Decode what waits, in place; False if something of it cannot be copied.

        Args:
            decode: `loads_elements` of the serializer.
            look: what objects of a class consist of.
            values: the elements that were stored: what cannot be copied is not decoded, for that would run the code of its class.
        """
        at = self.flags.find(WAITING)
        if at < 0:
            return True
        waiting = [at for at in range(at, len(self.values)) if self.flags[at] == WAITING]
        if _flags([values[at] for at in waiting], look) is None:
            return False
        data = [self.values[at] for at in waiting]
        width = 1 if self.names is None else 2
        try:
            found = decode(data, len(data) * width)
        except PerdureError:
            return False  # it has been changed since, by another thread: what was stored was something else
        noted = _Noted(look)
        flags = _flags(found[width - 1 :: width], noted)
        if flags is None or (width == 2 and not LEAVES.issuperset(map(type, found[::2]))):
            return False
        for place, value, flag in zip(waiting, found[width - 1 :: width], flags, strict=True):
            self.kinds[place] = type(value)
            self.values[place] = dict.copy(value) if flag == FLAT else value
            self.flags[place] = flag
        if self.names is not None:
            for place, name in zip(waiting, found[::2], strict=True):
                self.names[place] = name
        self.classes |= noted.classes
        return True


class _Noted:
    """Looks at classes, and keeps those of which something could be said."""

    __slots__ = ("_look", "classes")

    def __init__(self, look: Look) -> None:
        self._look = look
        self.classes: set[type] = set()

    def __call__(self, kind: type) -> Made | None:
        made = self._look(kind)
        if made is not None:
            self.classes.add(kind)
        return made


class Known(NamedTuple):
    """The value of a channel, as it can be made again.

    Attributes:
        manifest: how it is stored.
        counts: how many elements its segments have, by number, where not one.
        originals: its elements.
    """

    manifest: Manifest
    counts: Mapping[int, int]
    originals: Originals

    def value(self) -> Any:
        """A fresh value."""
        copies = self.originals.copies()
        names = self.originals.names
        return copies if names is None else dict(zip(names, copies, strict=True))


def _with(things: list[Any], more: list[Any]) -> list[Any]:
    """Both lists as one, which may be one of them: most often there is nothing yet."""
    if not things:
        return more
    things += more
    return things


def _flags(values: list[Any], look: Look) -> bytearray | None:
    """What each of these elements is; None if one cannot be copied."""
    kinds = set(map(type, values))
    if LEAVES.issuperset(kinds):
        return bytearray([DEEP]) * len(values)
    simple = {kind for kind in kinds if _is_plain_dict(kind, look)}
    if simple == kinds and LEAVES.issuperset(set(map(type, chain.from_iterable(map(dict.values, values))))):
        return bytearray([FLAT if _has_plain_names(values) else DEEP]) * len(values)
    flags = bytearray()
    for value in values:
        if type(value) in simple and LEAVES.issuperset(map(type, dict.values(value))) and _has_plain_names((value,)):
            flags.append(FLAT)
        elif _can_copy(value, look, 0):
            flags.append(DEEP)
        else:
            return None
    return flags


def _has_plain_names(dicts: Sequence[dict[Any, Any]]) -> bool:
    return {str}.issuperset(set(map(type, chain.from_iterable(map(dict.keys, dicts)))))


def _is_plain_dict(kind: type, look: Look) -> bool:
    """Whether objects of a class are dicts and nothing else."""
    return kind is dict or (
        issubclass(kind, dict) and kind.__dictoffset__ == 0 and look(kind) == "items" and _has_no_slots(kind)
    )


def _has_no_slots(kind: type) -> bool:
    return all(not getattr(cls, "__slots__", ()) for cls in kind.__mro__ if issubclass(cls, dict) and cls is not dict)


def _can_copy(value: Any, look: Look, depth: int) -> bool:
    kind = type(value)
    if kind in LEAVES:
        return True
    if depth > DEEPEST:
        return False
    if kind in (list, tuple):
        return all(_can_copy(item, look, depth + 1) for item in value)
    if kind in (set, frozenset):
        return LEAVES.issuperset(map(type, value))
    if is_model(kind):
        return look(kind) == "attributes" and can_copy_model(value, lambda item: _can_copy(item, look, depth + 1))
    return (
        _is_plain_dict(kind, look)
        and LEAVES.issuperset(map(type, dict.keys(value)))
        and all(_can_copy(item, look, depth + 1) for item in dict.values(value))
    )


def _original(value: Any, flag: int) -> Any:
    """A copy as it is kept."""
    return dict.copy(value) if flag == FLAT else _copied(value)


def _copy(original: Any, kind: type, flag: int) -> Any:
    """A copy of what is kept."""
    if flag != FLAT:
        return _copied(original)
    new: dict[Any, Any] = dict.__new__(kind)
    dict.update(new, original)
    return new


def _copied(value: Any) -> Any:
    kind = type(value)
    if kind in LEAVES or kind is frozenset:
        return value
    if kind is list:
        return [_copied(item) for item in value] if value else []
    if kind is dict:
        return {name: _copied(item) for name, item in value.items()} if value else {}
    if kind is tuple:
        return tuple([_copied(item) for item in value])
    if kind is set:
        return value.copy()
    if is_model(kind):
        return copied_model(value, _copied)
    new = dict.__new__(kind)
    dict.update(new, {name: _copied(item) for name, item in dict.items(value)})
    return new
