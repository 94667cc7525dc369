"""Which stored elements a list, dict or set is made of. Pure.

Elements lie in *segments*: immutable value rows, each with one or more elements. A manifest names them in order, as ranges, because
what is appended step by step lies at consecutive numbers. So a manifest stays short however long the value is.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import NamedTuple

KINDS = ("list", "dict", "set")
"""What can be stored by element; a kind's place here is its number in stored rows."""

WIDTHS: Mapping[str, int] = {"list": 1, "dict": 2, "set": 1}
"""Values that are stored for one element: an item of a dict is its key, then its value."""

MAX_PARTS = 64
"""A value in more parts is written once again as a whole."""

Part = tuple[int, int] | tuple[int, int, int]
"""Either (first, last): all elements of these segments; or (n, skip, take): some of one segment."""

Place = tuple[int, int]
"""Where an element lies: number of the segment, position in it."""


class Manifest(NamedTuple):
    """The elements of a value, in order.

    Attributes:
        kind: one of `KINDS`.
        count: how many elements there are.
        parts: where they are.
        free, end: numbers from `free` up to before `end` are kept for segments that are appended to this value. They may be used by
            the run that goes on from the newest checkpoint of the namespace, and by nobody else; 0 where there are none.
    """

    kind: str
    count: int  # type: ignore[assignment]  # a tuple's own `count` is not missed
    parts: tuple[Part, ...]
    free: int = 0
    end: int = 0

    @property
    def is_open(self) -> bool:
        """Whether there are numbers left for what is appended."""
        return self.free < self.end

    def closed(self) -> Manifest:
        """The same value without numbers to append at: what another branch may share."""
        return self._replace(free=0, end=0) if self.end else self

    def spans(self) -> Iterator[tuple[int, int]]:
        """The numbers of the segments, as (first, last)."""
        for part in self.parts:
            yield (part[0], part[1]) if len(part) == 2 else (part[0], part[0])


def merged_spans(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same numbers, in order and in as few ranges as possible."""
    merged: list[tuple[int, int]] = []
    for first, last in sorted(spans):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(merged[-1][1], last))
        else:
            merged.append((first, last))
    return merged


def is_within(n: int, spans: Sequence[tuple[int, int]]) -> bool:
    """Whether a number lies in one of these ranges, which are in order and apart."""
    at = bisect_right(spans, n, key=itemgetter(0))
    return at > 0 and n <= spans[at - 1][1]


def joined(parts: Sequence[Part], more: Iterable[Part]) -> list[Part]:
    """Parts one after the other; whole segments at consecutive numbers become one part."""
    result = list(parts)
    for part in more:
        before = result[-1] if result else None
        if before is not None and len(before) == 2 and len(part) == 2 and part[0] == before[1] + 1:
            result[-1] = (before[0], part[1])
        else:
            result.append(part)
    return result


def parts_of(places: Iterable[Place], counts: Mapping[int, int]) -> list[Part]:
    """The parts that elements at these places make.

    Args:
        places: where each element lies.
        counts: how many elements a segment has, by number, where that is not one.
    """
    runs: list[list[int]] = []  # [n, skip, take]
    for n, at in places:
        run = runs[-1] if runs else None
        if run is not None and run[0] == n and at == run[1] + run[2]:
            run[2] += 1
        else:
            runs.append([n, at, 1])
    return joined((), ((n, n) if skip == 0 and take == counts.get(n, 1) else (n, skip, take) for n, skip, take in runs))


def places_of(manifest: Manifest, counts: Mapping[int, int]) -> list[Place]:
    """Where each element lies: the inverse of `parts_of`."""
    places: list[Place] = []
    for part in manifest.parts:
        if len(part) == 3:
            places.extend((part[0], part[1] + at) for at in range(part[2]))
            continue
        for n in range(part[0], part[1] + 1):
            places.extend((n, at) for at in range(counts.get(n, 1)))
    return places


def sliced(manifest: Manifest, counts: Mapping[int, int], start: int, stop: int) -> list[Part]:
    """The parts of the elements from position `start` up to before `stop`."""
    found: list[Part] = []
    at = 0
    for part in manifest.parts:
        if at >= stop:
            break
        if len(part) == 2 and not _hold(counts, part[0], part[1]):
            size = part[1] - part[0] + 1
            skip, take = max(start - at, 0), min(stop - at, size)
            here: list[Part] = [(part[0] + skip, part[0] + take - 1)] if skip < take else []
        else:
            places = places_of(Manifest(manifest.kind, 0, (part,)), counts)
            size = len(places)
            here = parts_of(places[max(start - at, 0) : max(stop - at, 0)], counts)
        found = joined(found, here)
        at += size
    return found


def _hold(counts: Mapping[int, int], first: int, last: int) -> bool:
    """Whether one of these segments has more or fewer elements than one."""
    if len(counts) < last - first:
        return any(first <= n <= last for n in counts)
    return any(n in counts for n in range(first, last + 1))


def plain(manifest: Manifest) -> list[object]:
    """As a row stores it: [kind, count, free, end, part, …]."""
    return [KINDS.index(manifest.kind), manifest.count, manifest.free, manifest.end, *map(list, manifest.parts)]


def again(item: list[object]) -> Manifest:
    """The manifest of what `plain` made.

    Raises:
        ValueError, IndexError: it has not that shape.
    """
    kind, count, free, end, *parts = item
    found = Manifest(KINDS[_number(kind)], _number(count), tuple(map(_part, parts)), _number(free), _number(end))
    if found.free > found.end:
        raise ValueError("a manifest has free numbers that end before they begin")
    return found


def _part(item: object) -> Part:
    if type(item) is not list or not 2 <= len(item) <= 3:
        raise ValueError("a manifest has a part that is no range")
    first, last, *take = map(_number, item)
    if take:
        if take[0] == 0:
            raise ValueError("a manifest has an empty part")
        return (first, last, take[0])
    if first > last:
        raise ValueError("a manifest has a range that ends before it begins")
    return (first, last)


def _number(item: object) -> int:
    if type(item) is not int or item < 0:
        raise ValueError("a manifest is not made of numbers")
    return item
