"""What differs between two states."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.engine.deciding.diff import Change, StateDiff, change_of, diff_of, same


def test_equal_states_do_not_differ():
    state = {"a": [1, {"b": (2.0, None)}], "c": {1, 2}}
    found = diff_of(state, {"a": [1, {"b": (2.0, None)}], "c": {2, 1}})
    assert not found
    assert (len(found), list(found), found) == (0, [], StateDiff())


def test_keys_are_added_removed_and_changed():
    found = diff_of({"gone": 1, "same": 2, "other": 3}, {"same": 2, "other": "3", "new": None})
    assert found == StateDiff({"new": None}, {"gone": 1}, {"other": Change(3, "3")})
    assert (list(found), len(found), "gone" in found, "same" in found) == (["new", "gone", "other"], 3, True, False)


def test_a_state_without_keys_and_one_that_does_not_exist():
    assert diff_of([1], [1, 2]).changed["__root__"].appended == (1,)
    assert diff_of(None, {"a": 1}).added == {"a": 1}
    assert diff_of({"a": 1}, None).removed == {"a": 1}
    assert not diff_of(None, {})


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ([], [1, 2], {"appended": (0, 1)}),
        ([1], [1, 2], {"appended": (1,)}),
        ([1, 2], [1], {"removed": (1,)}),
        ([1, 2, 3], [1, 3], {"removed": (1,)}),
        ([1, 3], [1, 2, 3], {"inserted": (1,)}),
        ([1, 2], [0, 1, 2], {"inserted": (0,)}),
        ([1, 2, 3], [1, "x", 3], {"replaced": ((1, 1),)}),
        ([1, 2, 3, 4, 5], [1, 3, 5], {"removed": (1, 3)}),
        ([1, 2, 3], [1, 2, "x", 4], {"replaced": ((2, 2),), "appended": (3,)}),
        ([1, 2, 3, 4], ["x", 3, 4, 5], {"replaced": ((0, 0),), "removed": (1,), "appended": (3,)}),
        (["a", "a"], ["a", "a", "a"], {"appended": (2,)}),
        ([{"id": 1}], [{"id": 1}, {"id": 2}], {"appended": (1,)}),
        ((1, 2), (1, 2, 3), {"appended": (2,)}),
    ],
)
def test_how_a_list_changed(before: Any, after: Any, expected: dict[str, Any]):
    assert change_of(before, after) == Change(before, after, **expected)


def test_dicts_are_looked_into():
    found = change_of({"a": {"b": [1]}, "c": 1}, {"a": {"b": [1, 2]}})
    assert found.keys is not None
    assert found.keys.removed == {"c": 1}
    inner = found.keys.changed["a"].keys
    assert inner is not None
    assert inner.changed["b"].appended == (1,)


def test_a_value_of_another_type_is_another_value():
    assert not same(1, True)
    assert not same(1, 1.0)
    assert not same([1], (1,))
    assert change_of([1], (1,)) == Change([1], (1,))


@dataclass
class Point:
    x: int


class Never:
    def __eq__(self, other: object) -> bool:
        raise RuntimeError("not comparable")

    __hash__ = None  # type: ignore[assignment]


def test_values_of_any_type_are_compared():
    assert same(math.nan, math.nan)
    assert same([{"a": math.nan}], [{"a": math.nan}])
    assert same(Point(1), Point(1))
    assert not same(Point(1), Point(2))
    assert not same(Never(), Never())
    assert change_of([Point(1)], [Point(1), Point(2)]).appended == (1,)
    assert change_of([Never()], [Never()]).replaced == ((0, 0),)


def test_arrays_are_compared_by_their_elements():
    numpy = pytest.importorskip("numpy")
    assert same(numpy.array([1, 2]), numpy.array([1, 2]))
    assert not same(numpy.array([1, 2]), numpy.array([1, 3]))
    assert not same(numpy.array([1, 2]), numpy.array([1, 2, 3]))


@given(st.lists(st.integers(0, 3), max_size=12), st.lists(st.integers(0, 3), max_size=12))
def test_the_positions_make_one_list_of_the_other(before: list[int], after: list[int]):
    found = change_of(before, after) if before != after else Change(before, after)
    replaced = dict(found.replaced)
    kept = [at for at in range(len(before)) if at not in found.removed and at not in replaced]
    made: list[Any] = [None] * len(after)
    for at in (*found.appended, *found.inserted, *replaced.values()):
        assert made[at] is None
        made[at] = after[at]
    places = [at for at, value in enumerate(made) if value is None]
    assert len(places) == len(kept)
    for place, at in zip(places, kept, strict=True):
        made[place] = before[at]
    assert made == after
