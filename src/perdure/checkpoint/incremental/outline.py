"""Notices whether values have changed in place, without looking into their texts and numbers, and without running anybody's code.

An outline remembers the very objects that a value consists of, level by level: its containers, their lengths, the keys of its
dicts, and what they refer to. As long as all of these are the same objects, and the leaves cannot change, the value is what it was:
exactly, its types and the order of its keys included, which `==` would not say (True == 1, and a dict is equal to one of another
order). All of it is C: about 0.1 us for a chat message of three keys, whatever its length, where encoding it takes 0.5 us and more.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from itertools import chain, repeat
from operator import is_
from typing import Any, Literal
from uuid import UUID

from perdure.telling import TELLING, last_change, tell

LEAVES = frozenset(
    {type(None), bool, int, float, complex, str, bytes, date, datetime, time, timedelta, timezone, Decimal, UUID, range}
)
"""Exact types whose objects never change."""

CONTAINERS = frozenset({dict, list, tuple, set, frozenset})
"""Exact types that consist of what they refer to."""

TEXTS = frozenset({str, type(None), type})

DEEPEST = 64
WIDEST = 1 << 16
"""Objects on one level, of one outline. Where one object is reached on many ways, they would be too many."""

Made = Literal["items", "attributes"]
Look = Callable[[type], Made | None]
"""What objects of a class consist of, as far as their stored form is concerned: what they hold as a child of dict or list, or their
`__dict__` and slots; None: that cannot be said."""


class Level:
    """Containers at one depth, and what they refer to.

    Attributes:
        containers: all of them.
        sized: those with a length, and their `lengths`.
        dicts: those with keys, and their `keys`.
        kinds: of flat dicts, their classes.
        refs: what they refer to; `counts` says how many of these belong to each container.
        texts: all of these are texts, None or classes, so that those which are equal are the same.
        bare: they are dicts whose keys are not among the references, for the collector passes over keys where all are texts.
        shared: some of these lists are the same, or another level's.
        since: the last change, when they were known to be as they were, if all of them tell of changes; else None.
    """

    __slots__ = (
        "bare",
        "containers",
        "counts",
        "dicts",
        "keys",
        "kinds",
        "lengths",
        "refs",
        "shared",
        "since",
        "sized",
        "texts",
    )

    def __init__(self, containers: list[Any], sized: list[Any], dicts: list[Any]) -> None:
        self.since = last_change() if TELLING.issuperset(map(type, containers)) else None
        self.containers = containers
        self.sized = sized
        self.dicts = dicts
        self.lengths: list[int] = list(map(len, sized))
        self.keys: list[Any] = list(chain.from_iterable(dicts))
        self.refs: list[Any] = gc.get_referents(*containers)
        self.counts = self.lengths.copy()
        if len(sized) != len(containers) or sum(self.lengths) != len(self.refs):
            self.counts = [len(gc.get_referents(container)) for container in containers]
        self.texts = TEXTS.issuperset(map(type, self.refs))
        self.bare = False
        self.kinds: frozenset[type] = frozenset()
        self.shared = True

    @classmethod
    def of_flat(cls, dicts: list[Any]) -> Level:
        """Of dicts, or children of dict that hold nothing else, whose names are texts."""
        level = cls.__new__(cls)
        level.kinds = frozenset(map(type, dicts))
        level.since = last_change() if level.kinds <= TELLING else None
        level.containers = level.sized = level.dicts = dicts
        level.shared = True
        level.lengths = list(map(len, dicts))
        level.keys = list(chain.from_iterable(dicts))
        level.refs = gc.get_referents(*dicts)
        # An object of a class that was made in Python refers to its class as well.
        level.counts = [length + (type(thing) is not dict) for length, thing in zip(level.lengths, dicts, strict=True)]
        level.bare = sum(level.counts) == len(level.refs)
        if not level.bare:
            level.counts = [len(gc.get_referents(thing)) for thing in dicts]
        level.texts = TEXTS.issuperset(map(type, level.refs))
        return level

    def twin(self, copies: list[Any] | None = None) -> Level:
        """The same level, which can be extended by itself; or that of copies of flat dicts, which refer to the same."""
        self.shared = True
        twin = Level.__new__(Level)
        for name in self.__slots__:
            setattr(twin, name, getattr(self, name))
        if copies is not None:
            twin.containers = twin.sized = twin.dicts = copies
            twin.since = None if self.since is None else last_change()
        return twin

    def extend(self, other: Level) -> None:
        """Take in the containers of another level, after one's own."""
        for name in ("containers", "counts", "dicts", "keys", "lengths", "refs", "sized"):
            if self.shared:
                setattr(self, name, getattr(self, name).copy())
            getattr(self, name).extend(getattr(other, name))
        self.shared = False
        self.texts = self.texts and other.texts
        self.bare = self.bare and other.bare
        if self.since is not other.since:
            self.since = None if self.since is None or other.since is None else object()  # it has to be looked at

    def is_unchanged(self) -> bool:
        """Whether all containers refer to what they referred to."""
        if self.since is None:
            return self._is_the_same()
        last = last_change()
        if self.since is not last:
            if not self._is_the_same():
                return False
            self.since = last
        return True

    def _is_the_same(self) -> bool:
        if list(map(len, self.sized)) != self.lengths:
            return False
        refs = gc.get_referents(*self.containers)
        if len(refs) != len(self.refs):
            return False
        if not all(map(is_, refs, self.refs)) and not (self.texts and TEXTS.issuperset(map(type, refs)) and refs == self.refs):
            return False
        if self.bare:
            # They have no other keys than texts, or there would be more references: comparing these runs nobody's code.
            return list(chain.from_iterable(self.dicts)) == self.keys
        return all(map(is_, chain.from_iterable(self.dicts), self.keys))

    def restore(self) -> None:
        """Make plain containers refer to what they referred to."""
        keys = iter(self.keys)
        with_keys = dict(zip(map(id, self.sized), self.lengths, strict=True))
        are_dicts = set(map(id, self.dicts))
        at = 0
        for container, size in zip(self.containers, self.counts, strict=True):
            refs = self.refs[at : at + size]
            at += size
            old_keys = [next(keys) for _ in range(with_keys[id(container)])] if id(container) in are_dicts else []
            kind = type(container)
            if kind is list:
                container[:] = refs[::-1]  # the collector walks a list from its end
            elif kind is dict:
                values = refs if len(refs) == len(old_keys) else refs[1::2]
                container.clear()
                container.update(zip(old_keys, values, strict=True))
            elif kind is set:
                container.clear()
                container.update(refs)
            elif issubclass(kind, dict) and kind.__dictoffset__ == 0 and size == len(old_keys) + 1 and refs[0] is kind:
                dict.clear(container)  # it refers to its class first, then to its values
                dict.update(container, zip(old_keys, refs[1:], strict=True))
        tell()  # for those that tell, which may be among others that do not

    def changed(self, owners: list[int]) -> tuple[set[int], list[int]]:
        """The owners of containers that have changed, and the owner of each reference."""
        changed: set[int] = set()
        below: list[int] = []
        keys = iter(self.keys)
        lengths = dict(zip(map(id, self.sized), self.lengths, strict=True))
        with_keys = set(map(id, self.dicts))
        at = 0
        for container, count, owner in zip(self.containers, self.counts, owners, strict=True):
            refs = gc.get_referents(container)
            length = lengths.get(id(container))
            old_keys = [next(keys) for _ in range(length or 0)] if id(container) in with_keys else []
            if (
                len(refs) != count
                or not all(map(is_, refs, self.refs[at : at + count]))
                or (length is not None and len(container) != length)
                or (old_keys and not all(map(is_, container, old_keys)))
            ):
                changed.add(owner)
            below.extend(repeat(owner, count))
            at += count
        return changed, below


class Outline:
    """Objects as they are now, so that it can be said later whether they still are.

    Attributes:
        objects: the objects.
    """

    __slots__ = ("_is_container", "_levels", "objects")

    def __init__(self, objects: list[Any], levels: list[Level], is_container: Callable[[Any], bool]) -> None:
        self.objects = objects
        self._levels = levels
        self._is_container = is_container

    def twin(self) -> Outline:
        """The same, which can be extended by itself."""
        return Outline(self.objects.copy(), [level.twin() for level in self._levels], self._is_container)

    def extend(self, other: Outline) -> None:
        """Take in the objects of another outline, after one's own."""
        self.objects.extend(other.objects)
        for level, more in zip(self._levels, other._levels, strict=False):
            level.extend(more)
        self._levels.extend(other._levels[len(self._levels) :])

    def is_unchanged(self) -> bool:
        """Whether all objects are what they were."""
        try:
            return all(level.is_unchanged() for level in self._levels)
        except RuntimeError:
            return False  # another thread is changing one of them

    def restore(self) -> bool:
        """Change plain containers in place to what they were, outermost first; False if an object of another kind has changed."""
        for level in self._levels:
            level.restore()
        return self.is_unchanged()

    def changed(self) -> set[int]:
        """The positions of the objects that are no longer what they were."""
        changed: set[int] = set()
        owners = [at for at, thing in enumerate(self.objects) if self._is_container(thing)]
        for level in self._levels:
            bad, below = level.changed(owners)
            changed |= bad
            owners = [owner for owner, thing in zip(below, level.refs, strict=True) if self._is_container(thing)]
        return changed


class Outliner:
    """Makes outlines.

    Args:
        look: says of classes that are neither in `LEAVES` nor in `CONTAINERS` what their objects consist of.
    """

    __slots__ = ("_dicts", "_kinds", "_look", "_sized")

    def __init__(self, look: Look) -> None:
        self._look = look
        self._kinds: dict[type, bool | None] = {**dict.fromkeys(LEAVES, False), **dict.fromkeys(CONTAINERS, True)}
        self._sized: set[type] = set(CONTAINERS)
        self._dicts: set[type] = {dict}

    def of(self, objects: list[Any]) -> Outline | None:
        """The outline of objects; None if something in them may change without being noticed."""
        levels: list[Level] = []
        found = objects.copy()
        while True:
            kinds = {kind: self._kind(kind) for kind in set(map(type, found))}
            if None in kinds.values() or len(found) > WIDEST or len(levels) > DEEPEST:
                return None
            inner = {kind for kind, is_container in kinds.items() if is_container}
            if not inner:
                return Outline(list(objects), levels, self._is_container)
            containers = found if len(inner) == len(kinds) else _of_kinds(found, inner)
            sized = containers if inner <= self._sized else _of_kinds(containers, inner & self._sized)
            level = Level(containers, sized, sized if inner <= self._dicts else _of_kinds(sized, inner & self._dicts))
            if not inner <= self._sized and not _shows_attributes(level, self._sized):
                return None
            levels.append(level)
            found = level.refs

    def of_flat(self, copies: list[Any], level: Level) -> Outline:
        """The outline of copies of flat dicts, whose own level is given."""
        for kind in level.kinds:
            self._kind(kind)
        return Outline(copies.copy(), [level.twin(copies)], self._is_container)

    def are_leaves(self, things: list[Any]) -> bool:
        """Whether all of these are of exact types whose objects never change."""
        return LEAVES.issuperset(map(type, things))

    def may_watch(self, things: list[Any]) -> bool:
        """Whether any of these may have an outline."""
        return any(self._kind(kind) is not None for kind in set(map(type, things)))

    def _is_container(self, thing: Any) -> bool:
        return bool(self._kinds.get(type(thing)))

    def _kind(self, kind: type) -> bool | None:
        """Whether objects of a class are containers; None: they may change without being noticed."""
        if kind in self._kinds:
            return self._kinds[kind]
        if issubclass(kind, type):
            return False  # a class, which every object of a class refers to
        made = self._look(kind)
        # What cannot be said of a class now may be said when it has been registered.
        if made is not None:
            self._kinds[kind] = True
            if made == "items":
                self._sized.add(kind)
                if issubclass(kind, dict):
                    self._dicts.add(kind)
        return None if made is None else True


def _of_kinds(found: list[Any], wanted: set[type]) -> list[Any]:
    return [thing for thing in found if type(thing) in wanted] if wanted else []


def _shows_attributes(level: Level, sized: set[type]) -> bool:
    """Whether objects refer to their attributes as a dict, with names, and not to the bare values."""
    known = set(map(id, level.refs))
    return all(id(thing.__dict__) in known for thing in level.containers if type(thing) not in sized)
