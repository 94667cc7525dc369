"""Only what nodes return changes state: notices containers that somebody changed in place, and changes them back (P35).

Nodes see the live values, for copying a long history for each node would cost more than the node. Instead the containers in them
are remembered object by object (`perdure.checkpoint.incremental.outline`), looked at after each super-step, and put right. A value
that a node changed in place *and returned* is its update. Objects of classes whose contents nobody knows are not watched; what they
are in is.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Mapping
from copy import copy
from functools import partial
from operator import is_
from typing import Any

from perdure.checkpoint.incremental.models import copied as copied_model
from perdure.checkpoint.incremental.models import is_model
from perdure.checkpoint.incremental.outline import CONTAINERS, LEAVES, Outline, Outliner
from perdure.telling import TELLING
from perdure.types import Overwrite

MAPPINGS = frozenset({dict, OrderedDict, defaultdict, Counter})
"""Exact types that are put right by putting their items back, in order."""

COLLECTIONS = frozenset({list, set, deque})
"""Exact types that are put right by putting their elements back."""

GROUP = 256
"""Elements of a list whose outlines are one, at most."""


class _Watch:
    """One value: the object, what it consists of, and of a collection its elements, so that appending to a list costs what is appended.

    Attributes:
        value: the object.
        outlines: what it consists of, or its elements do, in groups; None if that cannot be said of them.
        elements: the elements of a collection, or the values of a mapping.
        keys: the keys of a mapping.
    """

    __slots__ = ("elements", "keys", "outlines", "value")

    def __init__(
        self, value: Any, outlines: list[Outline] | None, elements: list[Any] | None = None, keys: list[Any] | None = None
    ) -> None:
        self.value = value
        self.outlines = outlines
        self.elements = elements
        self.keys = keys

    def is_unchanged(self) -> bool:
        value, elements, keys = self.value, self.elements, self.keys
        try:
            if elements is not None:
                now: Iterable[Any] = value if keys is None else value.values()
                if len(elements) != len(value) or not all(map(is_, elements, now)):
                    return False
            if keys is not None and not all(map(is_, keys, value)):
                return False
        except RuntimeError:
            return False  # another thread is changing it
        return all(outline.is_unchanged() for outline in self.outlines or ())

    @property
    def is_whole(self) -> bool:
        """Nothing in it can change unnoticed."""
        return self.outlines is not None

    def restore(self) -> bool:
        value, elements, keys = self.value, self.elements, self.keys
        if elements is not None:
            value.clear()
            if keys is not None:
                for key, element in zip(keys, elements, strict=True):
                    value[key] = element
            else:
                put_back: Callable[[Iterable[Any]], None] = value.update if type(value) is set else value.extend
                put_back(elements)
        done = [outline.restore() for outline in self.outlines or ()]
        return all(done)


class _Bytes:
    """A bytearray, which consists of nothing but what it says."""

    __slots__ = ("before", "value")
    is_whole = True

    def __init__(self, value: bytearray) -> None:
        self.value = value
        self.before = bytes(value)

    def is_unchanged(self) -> bool:
        return self.value == self.before

    def restore(self) -> bool:
        self.value[:] = self.before
        return True


class Guard:
    """Watches the containers among the values of a state.

    Attributes:
        sound: the keys whose values were found as they were left when it looked last.
    """

    __slots__ = ("_outliner", "_watches", "sound")

    def __init__(self, look: Any = None) -> None:
        self.sound: set[str] = set()
        self._outliner = Outliner(look or _unknown)
        self._watches: dict[str, _Watch | _Bytes] = {}

    def __bool__(self) -> bool:
        return bool(self._watches)

    def watch(self, key: str, value: Any, kept: int = 0) -> None:
        """Begin to watch the value of a key, or its new value.

        Args:
            key: the key.
            value: its value.
            kept: how many elements of the list that was watched are surely the first ones of this one.
        """
        appended = self._appended(self._watches.get(key), value, kept) if type(value) is list else None
        watch = appended or self._of(value)
        if watch is None:
            self._watches.pop(key, None)
        else:
            self._watches[key] = watch

    def _of(self, value: Any) -> _Watch | _Bytes | None:
        kind = type(value)
        if kind is bytearray:
            return _Bytes(value)
        if kind in CONTAINERS and kind is not list:
            outlines = self._outlines([value])
            if outlines is not None:
                return _Watch(value, outlines)
        if kind in MAPPINGS:
            elements = list(value.values())
            return _Watch(value, self._outlines(elements), elements, list(value))
        if kind in COLLECTIONS:
            elements = list(value)
            return _Watch(value, self._outlines(elements), elements)
        if kind in CONTAINERS:
            return None
        # The attributes of an object are seen only once it has a dict of them.
        outlines = self._outlines([value]) if getattr(value, "__dict__", None) is not None else None
        return None if outlines is None else _Watch(value, outlines)

    def _outlines(self, things: list[Any]) -> list[Outline] | None:
        outline = self._outliner.of(things)
        return None if outline is None else [outline]

    def adopt(self, key: str, value: list[Any], outlines: list[Outline]) -> None:
        """Watch a list of whose elements somebody else has outlines already."""
        self._watches[key] = _Watch(value, [outline.twin() for outline in outlines], list(value))

    def _appended(self, before: _Watch | _Bytes | None, value: list[Any], kept: int) -> _Watch | None:
        if not isinstance(before, _Watch) or before.elements is None or before.outlines is None or before.keys is not None:
            return None
        size = len(before.elements)
        if size > len(value) or (kept != size and not all(map(is_, before.elements, value))):
            return None
        added = value[size:]
        more = self._outliner.of(added)
        if more is None:
            return None
        if added and before.outlines and len(before.outlines[-1].objects) + len(added) <= GROUP:
            before.outlines[-1].extend(more)
        elif added:
            before.outlines.append(more)
        return _Watch(value, before.outlines, [*before.elements, *added] if before.value is not value else list(value))

    def forget(self, key: str) -> None:
        """The key has no value any more."""
        self._watches.pop(key, None)

    def trust(self) -> None:
        """Nobody can have changed anything since it was told what to watch."""
        self.sound = {key for key, watch in self._watches.items() if watch.is_whole}

    def stands(self, key: str) -> bool:
        """Whether the elements of a list are still what they were, even if it has more of them now."""
        watch = self._watches.get(key)
        if not isinstance(watch, _Watch) or watch.elements is None or watch.outlines is None or watch.keys is not None:
            return False
        return all(outline.is_unchanged() for outline in watch.outlines)

    def undo(self, written: Mapping[str, list[Any]]) -> list[tuple[str, bool]]:
        """Change back what was changed in place and not returned.

        Args:
            written: values that the super-step's tasks wrote, by key. They take the place of what they share with the old values: where
                something is changed back, they become copies that stay as they were returned.

        Returns:
            The keys that had been changed, each with whether it could be changed back. A list that was returned as a copy is changed
            back, but not among them.
        """
        found: list[tuple[str, bool]] = []
        changed: list[tuple[str, _Watch | _Bytes, bool]] = []
        self.sound = set()
        for key, watch in list(self._watches.items()):
            if watch.is_unchanged():
                if watch.is_whole:
                    self.sound.add(key)
                continue
            if any(value is watch.value for value in written.get(key, ())):
                del self._watches[key]  # it is another value now, of the same elements
                continue
            changed.append((key, watch, any(_has_the_elements_of(watch.value, value) for value in written.get(key, ()))))
        for values in written.values() if changed else ():
            values[:] = [detached(value, objects=True) for value in values]
        for key, watch, returned in changed:
            restored = watch.restore()
            if not (returned and restored):
                found.append((key, restored))
        return found


def _has_the_elements_of(value: Any, other: Any) -> bool:
    """Whether `other` is a copy of a list: messages are copied on their way into the state."""
    try:
        return type(value) is list and type(other) is list and bool(value == other)
    except Exception:  # noqa: BLE001 - elements that cannot be compared are not known to be copies
        return False


def _unknown(_: type) -> None:
    return None


def detached(value: Any, *, objects: bool = False) -> Any:
    """A value whose containers are copies: nobody else refers to them. Leaves and objects of other classes are shared.

    Args:
        value: the value.
        objects: pydantic models and children of dict are copied as well, as they are among what is put right.

    Returns:
        The copy; the value itself if it holds itself, or is too deep to be stored anyway.
    """
    try:
        return _detached(value, objects=objects)
    except RecursionError:
        return value


def _detached(value: Any, *, objects: bool) -> Any:
    kind = type(value)
    if kind in LEAVES:
        return value
    if kind is list:
        return [_detached(item, objects=objects) for item in value]
    if kind is dict:
        return {name: _detached(item, objects=objects) for name, item in value.items()}
    if kind is tuple:
        return tuple([_detached(item, objects=objects) for item in value])
    if kind in (set, bytearray):
        return kind(value)
    if kind is deque:
        return deque([_detached(item, objects=objects) for item in value], value.maxlen)
    if kind in MAPPINGS:
        new = copy(value)
        for name, item in value.items():
            new[name] = _detached(item, objects=objects)
        return new
    if kind in TELLING or (objects and _is_only_a_dict(kind)):
        new = dict.__new__(kind)
        dict.update(new, {name: _detached(item, objects=objects) for name, item in value.items()})
        return new
    if objects and is_model(kind):
        return copied_model(value, partial(_detached, objects=True))
    return Overwrite(_detached(value.value, objects=objects)) if kind is Overwrite else value


def _is_only_a_dict(kind: type) -> bool:
    """Whether objects of a class have nothing beside the items of a dict. (The size does not tell of attributes in all versions.)"""
    return issubclass(kind, dict) and kind.__dictoffset__ == 0 and kind.__basicsize__ == dict.__basicsize__
