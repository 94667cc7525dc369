"""What differs between two states: which keys, and how. Pure."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from math import isnan
from typing import Any

from perdure.constants import ROOT


@dataclass(frozen=True, slots=True)
class Change:
    """How the value of a key changed.

    Attributes:
        before, after: the values.
        appended: of lists and tuples: positions in `after` of elements that came at the end.
        inserted: positions in `after` of elements that came elsewhere.
        removed: positions in `before` of elements that are gone.
        replaced: pairs of positions, (in `before`, in `after`), of elements that stand in each other's place.
        keys: of dicts: what changed inside.
    """

    before: Any
    after: Any
    appended: tuple[int, ...] = ()
    inserted: tuple[int, ...] = ()
    removed: tuple[int, ...] = ()
    replaced: tuple[tuple[int, int], ...] = ()
    keys: StateDiff | None = None


@dataclass(frozen=True, slots=True)
class StateDiff:
    """What differs between two states. It is false if nothing does.

    Attributes:
        added: keys that only the second has, with their values.
        removed: keys that only the first has, with their values.
        changed: keys that both have, with different values.
    """

    added: dict[Any, Any] = field(default_factory=dict)
    removed: dict[Any, Any] = field(default_factory=dict)
    changed: dict[Any, Change] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.changed)

    def __iter__(self) -> Iterator[Any]:
        return iter((*self.added, *self.removed, *self.changed))

    def __len__(self) -> int:
        return len(self.added) + len(self.removed) + len(self.changed)

    def __contains__(self, key: object) -> bool:
        return key in self.added or key in self.removed or key in self.changed


def diff_of(before: Any, after: Any) -> StateDiff:
    """What differs between two states, `before` and `after`. A state without keys counts as one with the key `__root__`."""
    first = before if isinstance(before, Mapping) else {} if before is None else {ROOT: before}
    second = after if isinstance(after, Mapping) else {} if after is None else {ROOT: after}
    return StateDiff(
        {key: value for key, value in second.items() if key not in first},
        {key: value for key, value in first.items() if key not in second},
        {key: change_of(first[key], value) for key, value in second.items() if key in first and not same(first[key], value)},
    )


def change_of(before: Any, after: Any) -> Change:
    """How one value became another, for two that are not the same."""
    if isinstance(before, dict) and isinstance(after, dict) and type(before) is type(after):
        return Change(before, after, keys=diff_of(before, after))
    if isinstance(before, (list, tuple)) and type(before) is type(after):
        return _change_of_sequences(before, after)
    return Change(before, after)


def _change_of_sequences(before: Sequence[Any], after: Sequence[Any]) -> Change:
    """Elements at both ends that are equal are left out first: that is nearly all of a conversation."""
    shorter = min(len(before), len(after))
    start = 0
    while start < shorter and same(before[start], after[start]):
        start += 1
    end = 0
    while end < shorter - start and same(before[-1 - end], after[-1 - end]):
        end += 1
    old, new = before[start : len(before) - end], after[start : len(after) - end]
    classes = _Classes()
    matcher = SequenceMatcher(None, [classes.of(each) for each in old], [classes.of(each) for each in new], autojunk=False)
    inserted: list[int] = []
    removed: list[int] = []
    replaced: list[tuple[int, int]] = []
    for kind, a, a_end, b, b_end in matcher.get_opcodes():
        if kind == "equal":
            continue
        both = min(a_end - a, b_end - b)
        replaced += [(start + a + at, start + b + at) for at in range(both)]
        removed += range(start + a + both, start + a_end)
        inserted += range(start + b + both, start + b_end)
    first_new = len(after)
    while inserted and first_new - 1 in inserted:
        first_new -= 1
    appended = [at for at in inserted if at >= first_new]
    return Change(
        before,
        after,
        tuple(appended),
        tuple(at for at in inserted if at < first_new),
        tuple(removed),
        tuple(replaced),
    )


class _Classes:
    """Numbers for values, equal ones for equal values, hashable or not."""

    def __init__(self) -> None:
        self._hashed: dict[Hashable, int] = {}
        self._others: list[tuple[Any, int]] = []
        self._count = 0

    def of(self, value: Any) -> int:
        if type(value) in (str, int, bytes, bool, type(None)):
            found = self._hashed.get((type(value), value))
            if found is None:
                found = self._hashed[type(value), value] = self._next()
            return found
        for other, number in self._others:
            if same(other, value):
                return number
        self._others.append((value, self._next()))
        return self._others[-1][1]

    def _next(self) -> int:
        self._count += 1
        return self._count


def same(one: Any, other: Any) -> bool:
    """Whether two values are of one type and equal, inside as well: True is not 1, and NaN is NaN."""
    if one is other:
        return True
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return len(one) == len(other) and all(key in other and same(value, other[key]) for key, value in one.items())
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, float) and isnan(one) and isnan(other):
        return True
    try:
        equal = one == other
        return equal if isinstance(equal, bool) else bool(getattr(equal, "all", lambda: equal)())
    except Exception:  # noqa: BLE001 - what cannot be compared is shown as changed, which is true as far as anybody can say
        return False
