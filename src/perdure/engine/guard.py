"""Only what nodes return changes state: notices containers that somebody changed in place, and changes them back (P35).

Nodes see the live values, for copying a long history for each node would cost more than the node. Instead the containers in them
are remembered object by object (`perdure.checkpoint.incremental.outline`), looked at after each super-step, and put right. A value
that a node changed in place *and returned* is its update. Objects of classes whose contents nobody knows are not watched.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from operator import is_
from typing import Any

from perdure.checkpoint.incremental.outline import CONTAINERS, LEAVES, Outline, Outliner

WATCHED = frozenset({list, dict, set})

GROUP = 256
"""Elements of a list whose outlines are one, at most."""


class _Watch:
    """One value: the object, what it consists of, and for a list its elements, so that appending to it costs what is appended."""

    __slots__ = ("elements", "outlines", "value")

    def __init__(self, value: Any, outlines: list[Outline], elements: list[Any] | None) -> None:
        self.value = value
        self.outlines = outlines
        self.elements = elements

    def is_unchanged(self) -> bool:
        elements = self.elements
        if elements is not None and not (len(elements) == len(self.value) and all(map(is_, elements, self.value))):
            return False
        return all(outline.is_unchanged() for outline in self.outlines)

    def restore(self) -> bool:
        if self.elements is not None:
            self.value[:] = self.elements
        done = [outline.restore() for outline in self.outlines]
        return all(done)


class Guard:
    """Watches the containers among the values of a state.

    Attributes:
        sound: the keys whose values were found as they were left when it looked last.
    """

    __slots__ = ("_outliner", "_watches", "sound")

    def __init__(self, look: Any = None) -> None:
        self.sound: set[str] = set()
        self._outliner = Outliner(look or _unknown)
        self._watches: dict[str, _Watch] = {}

    def __bool__(self) -> bool:
        return bool(self._watches)

    def watch(self, key: str, value: Any) -> None:
        """Begin to watch the value of a key, or its new value."""
        kind = type(value)
        if kind not in WATCHED:
            self._watches.pop(key, None)
            return
        before = self._watches.get(key)
        if kind is list:
            watch = self._appended(before, value) or self._list(value)
        else:
            outline = self._outliner.of([value])
            watch = None if outline is None else _Watch(value, [outline], None)
        if watch is None:
            self._watches.pop(key, None)
        else:
            self._watches[key] = watch

    def _list(self, value: list[Any]) -> _Watch | None:
        outline = self._outliner.of(list(value))
        return None if outline is None else _Watch(value, [outline], list(value))

    def adopt(self, key: str, value: list[Any], outlines: list[Outline]) -> None:
        """Watch a list of whose elements somebody else has outlines already."""
        self._watches[key] = _Watch(value, [outline.twin() for outline in outlines], list(value))

    def _appended(self, before: _Watch | None, value: list[Any]) -> _Watch | None:
        if before is None or before.elements is None:
            return None
        size = len(before.elements)
        if size > len(value) or not all(map(is_, before.elements, value)):
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
        self.sound = set(self._watches)

    def stands(self, key: str) -> bool:
        """Whether the elements of a list are still what they were, even if it has more of them now."""
        watch = self._watches.get(key)
        return watch is not None and watch.elements is not None and all(outline.is_unchanged() for outline in watch.outlines)

    def undo(self, written: Mapping[str, list[Any]]) -> list[tuple[str, bool]]:
        """Change back what was changed in place and not returned.

        Args:
            written: values that the super-step's tasks wrote, by key.

        Returns:
            The keys that had been changed, each with whether it could be changed back.
        """
        found: list[tuple[str, bool]] = []
        self.sound = set()
        for key, watch in list(self._watches.items()):
            if watch.is_unchanged():
                self.sound.add(key)
                continue
            if any(value is watch.value for value in written.get(key, ())):
                del self._watches[key]  # it is another value now, of the same elements
                continue
            found.append((key, watch.restore()))
        return found


def _unknown(_: type) -> None:
    return None


def detached(value: Any) -> Any:
    """A value whose plain containers are copies: nobody else refers to them. Leaves and objects are shared."""
    kind = type(value)
    if kind in LEAVES or kind not in CONTAINERS:
        return value
    if kind is list:
        return [detached(item) for item in value]
    if kind is dict:
        return {name: detached(item) for name, item in value.items()}
    if kind is tuple:
        return tuple(detached(item) for item in value)
    return set(value) if kind is set else value


def watched(guard: Guard, keys: Iterable[str], values: Mapping[str, Any]) -> None:
    """Watch the values of these keys as they are now."""
    for key in keys:
        if key in values:
            guard.watch(key, values[key])
        else:
            guard.forget(key)
