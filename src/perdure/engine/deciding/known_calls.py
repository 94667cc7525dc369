"""Which call of a durable step is which, over any number of entries into the code that makes them. Pure.

Code that is entered again calls again, but not always in the same order: helpers that run side by side may take turns otherwise. So a
call is known by its step's name, its arguments, and how many calls equal to it came before. Where calls were made one after the other, a
call whose arguments have changed (a time of day in them, say) is still the one at its place, if its step is the same.
"""

from __future__ import annotations

import dataclasses
import enum
import re
from collections.abc import Callable, Iterable, Mapping
from hashlib import blake2b
from typing import Any, NamedTuple

_SEGMENT = re.compile(r"(\d+)(~?):(.*)@([0-9a-f]+)\.(\d+)")
_PLACE = re.compile(r">\d+~?:")
_TOLD_BY_TEXT = frozenset({"datetime", "decimal", "fractions", "pathlib", "uuid", "zoneinfo"})
"""Modules whose objects are values, and say which by their text."""
_DEEPEST = 24


class Known(NamedTuple):
    """A call as its path says it.

    Attributes:
        path: names it in records.
        place: how many calls had been made before it.
        beside: another call was under way when it was made.
        name: of the step, as paths write it.
        digest: of its arguments.
        nth: how many calls equal to it came before.
    """

    path: str
    place: int
    beside: bool
    name: str
    digest: str
    nth: int

    @property
    def key(self) -> tuple[str, str, int]:
        """What makes it the same call again, whatever its place."""
        return (self.name, self.digest, self.nth)

    @property
    def identity(self) -> str:
        """The same as text."""
        return f"{self.name}@{self.digest}.{self.nth}"


def segment(path: str, above: str) -> Known | None:
    """The call that a path names, if it was made by the task at path `above` itself."""
    if not path.startswith(f"{above}>"):
        return None
    found = _SEGMENT.fullmatch(path[len(above) + 1 :])
    if found is None or ">" in found[3]:
        return None
    place, beside, name, digest, nth = found.groups()
    return Known(path, int(place), bool(beside), name, digest, int(nth))


def identity_of(path: str) -> str:
    """What names a call among all those inside its node, whatever their order; of a node's task, its path."""
    return _PLACE.sub(">", path)


def place_of(path: str) -> int:
    """How many calls had been made before the one at this path by the code that made it."""
    found = _SEGMENT.fullmatch(path.rpartition(">")[2])
    return 0 if found is None else int(found[1])


def came_before(path: str, other: str) -> bool:
    """Whether the call at `path` was begun before the one at `other`, both made inside the same node."""
    mine, others = path.split(">"), other.split(">")
    for at, (one, two) in enumerate(zip(mine, others, strict=False)):
        if one != two:
            return at > 0 and place_of(one) < place_of(two)
    return False


def top_of(path: str) -> str:
    """The path of the node's task whose code, or whose steps' code, made the call at this path."""
    return path.partition(">")[0]


class KnownCalls:
    """The calls that one task's code makes in one entry, each told from the others and found among those of earlier entries.

    Args:
        above: path of the task.
        earlier: paths of the calls that are known from earlier entries.
    """

    __slots__ = ("_above", "_by_key", "_by_place", "_count", "_equal", "_one_by_one", "_used")

    def __init__(self, above: str, earlier: Iterable[str]) -> None:
        found = [known for path in earlier if (known := segment(path, above)) is not None]
        self._above = above
        self._by_key = {known.key: known for known in found}
        self._by_place = {known.place: known for known in found}
        self._one_by_one = not any(known.beside for known in found)
        self._count = 0
        self._equal: dict[tuple[str, str], int] = {}
        self._used: set[tuple[str, str, int]] = set()

    def identify(self, step: str, digest: str, *, beside: bool) -> Known:
        """Which call this one is: one of an earlier entry, or a new one.

        Args:
            step: the step's name.
            digest: of its arguments.
            beside: another call of the task is under way.
        """
        place = self._count
        self._count += 1
        name = step.replace("%", "%25").replace(">", "%3E")
        nth = self._equal.get((name, digest), 0)
        self._equal[name, digest] = nth + 1
        known = self._by_key.get((name, digest, nth))
        if known is None or known.key in self._used:
            here = self._by_place.get(place)
            fits = here is not None and here.name == name and here.key not in self._used
            known = here if fits and self._one_by_one and not beside else None
        if known is None:
            key = (name, digest, nth)
            while key in self._used or key in self._by_key:
                key = (name, digest, key[2] + 1)
            known = Known(f"{self._above}>{place}{'~' if beside else ''}:{name}@{digest}.{key[2]}", place, beside, *key)
        self._used.add(known.key)
        return known


def digest_of(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
    """The same text for the same arguments, in every process. Of what has no value of its own, a client say, only the class counts."""
    digest = blake2b(digest_size=6)
    _feed(digest.update, args, _DEEPEST)
    if kwargs:
        _feed(digest.update, kwargs, _DEEPEST)
    return digest.hexdigest()


def _feed(add: Callable[[bytes], object], value: Any, deeper: int) -> None:
    kind = type(value)
    if value is None or kind in (bool, int, float, complex):
        add(f"{value!r};".encode())
    elif kind is str:
        add(b"s")
        add(repr(value).encode("utf-8", "surrogatepass"))
    elif kind in (bytes, bytearray):
        add(b"b%d:" % len(value))
        add(value)
    elif deeper == 0:
        add(_class_of(kind))
    elif isinstance(value, enum.Enum):
        add(_class_of(kind))
        add(repr(value).encode("utf-8", "surrogatepass"))
    elif isinstance(value, dict):
        _feed_any_order(add, b"d", value.items(), deeper)
    elif isinstance(value, (list, tuple)):
        add(b"[" if isinstance(value, list) else b"(")
        for each in value:
            _feed(add, each, deeper - 1)
        add(b"]")
    elif isinstance(value, (set, frozenset)):
        _feed_any_order(add, b"{", value, deeper)
    else:
        _feed_object(add, value, deeper)


def _feed_any_order(add: Callable[[bytes], object], opening: bytes, values: Iterable[Any], deeper: int) -> None:
    parts = []
    for each in values:
        digest = blake2b(digest_size=12)
        _feed(digest.update, each, deeper - 1)
        parts.append(digest.digest())
    add(opening)
    for part in sorted(parts):
        add(part)
    add(b"}")


def _feed_object(add: Callable[[bytes], object], value: Any, deeper: int) -> None:
    kind = type(value)
    add(_class_of(kind))
    if isinstance(value, (str, int, float, bytes)):  # of a class of its own
        base = next(base for base in (str, int, float, bytes) if isinstance(value, base))
        add(base.__repr__(value).encode("utf-8", "surrogatepass"))
    elif kind in (range, slice) or any(base.__module__.partition(".")[0] in _TOLD_BY_TEXT for base in kind.__mro__):
        add(repr(value).encode("utf-8", "surrogatepass"))
    elif isinstance(value, type) or hasattr(value, "__qualname__"):
        add(f"{getattr(value, '__module__', '')}.{value.__qualname__}".encode())
    elif dataclasses.is_dataclass(kind):
        for each in dataclasses.fields(kind):
            _feed(add, getattr(value, each.name, None), deeper - 1)
    elif hasattr(kind, "__pydantic_fields__") or hasattr(kind, "model_fields"):
        _feed(add, dict(getattr(value, "__dict__", {})), deeper - 1)
    elif hasattr(value, "tobytes") and hasattr(value, "dtype") and not getattr(value.dtype, "hasobject", True):
        add(f"{value.dtype}{getattr(value, 'shape', ())}".encode())
        add(value.tobytes())


def _class_of(kind: type[Any]) -> bytes:
    return f"<{kind.__module__}.{kind.__qualname__}>".encode()
