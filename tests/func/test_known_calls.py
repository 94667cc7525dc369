"""How calls of steps are told apart and found again."""

from __future__ import annotations

import dataclasses
import enum
import subprocess
import sys
from collections import namedtuple
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from perdure.engine.deciding.known_calls import KnownCalls, digest_of, identity_of, segment

Call = tuple[str, str, bool]


def made(*calls: Call, earlier: list[str] | None = None) -> list[str]:
    """The paths of these calls: each (step, digest, whether another was under way)."""
    known = KnownCalls("wf", earlier or [])
    return [known.identify(step, digest, beside=beside).path for step, digest, beside in calls]


def test_equal_calls_are_told_apart_by_how_many_came_before() -> None:
    first = made(("a", "ff", False), ("a", "ff", False), ("b", "ff", False))
    assert first == ["wf>0:a@ff.0", "wf>1:a@ff.1", "wf>2:b@ff.0"]
    assert made(("a", "ff", False), ("a", "ff", False), ("b", "ff", False), earlier=first) == first


def test_calls_that_come_in_another_order_are_known_by_their_arguments() -> None:
    first = made(("a", "11", False), ("a", "22", True), ("b", "11", True))
    assert made(("b", "11", False), ("a", "22", False), ("a", "11", False), earlier=first) == first[::-1]


def test_one_after_the_other_a_call_whose_arguments_changed_is_the_one_at_its_place() -> None:
    first = made(("a", "11", False), ("b", "22", False))
    assert made(("a", "33", False), ("b", "44", False), earlier=first) == first


def test_side_by_side_a_call_whose_arguments_changed_is_another_one() -> None:
    first = made(("a", "11", False), ("a", "22", True))
    again = made(("a", "33", False), ("a", "22", False), earlier=first)
    assert again == ["wf>0:a@33.0", first[1]]
    alone = made(("a", "11", False))
    assert made(("a", "33", True), earlier=alone) != alone


def test_another_step_at_the_same_place_is_another_call() -> None:
    first = made(("a", "11", False))
    assert made(("b", "11", False), earlier=first) == ["wf>0:b@11.0"]


def test_a_call_that_took_another_ones_place_leaves_nothing_for_it() -> None:
    first = made(("a", "11", False))
    again = made(("a", "22", False), ("a", "11", False), earlier=first)
    assert again[0] == first[0]
    assert len({identity_of(path) for path in again}) == 2


def test_where_an_earlier_equal_call_left_nothing_the_later_one_is_found() -> None:
    first = made(("a", "11", False), ("a", "11", False))
    assert made(("a", "11", False), ("a", "11", False), earlier=first[1:])[1] == first[1]


@pytest.mark.parametrize("name", ["a>b", "a%3Eb", "a@b.c", "0:a", "<lambda>", "ünïcode"])
def test_a_step_may_have_any_name(name: str) -> None:
    (path,) = made((name, "11", False))
    assert made((name, "22", False), earlier=[path]) == [path]
    assert segment(path, "wf") is not None
    assert segment(path, "w") is None
    inner = KnownCalls(path, []).identify(name, "11", beside=False).path
    assert segment(inner, path) is not None
    assert segment(inner, "wf") is None, "it is no call of the outer code"


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


@dataclasses.dataclass
class Plan:
    name: str
    steps: list[int]


class Client:
    """Has no value of its own."""


Pair = namedtuple("Pair", ["x", "y"])  # noqa: PYI024 - one without annotations


class Text(str):
    __slots__ = ()


DIFFERENT: list[Any] = [
    1,
    1.0,
    True,
    "1",
    b"1",
    None,
    [1],
    (1,),
    {1},
    {"a": 1},
    {"a": 2},
    [[1], [2]],
    [[1, 2]],
    "a,b",
    ["a", "b"],
    ["ab"],
    Colour.RED,
    Colour.BLUE,
    Plan("a", [1]),
    Plan("a", [2]),
    Pair(1, 2),
    Decimal("1.0"),
    Decimal("1.00"),
    datetime(2026, 1, 1, tzinfo=UTC),
    datetime(2026, 1, 2, tzinfo=UTC),
    UUID(int=1),
    Path("/a"),
    Client,
    len,
    Text("1"),
    range(3),
    range(4),
    2**70,
    complex(1, 2),
]


def test_different_arguments_have_different_digests() -> None:
    assert len({digest_of((value,), {}) for value in DIFFERENT}) == len(DIFFERENT)
    assert digest_of((1,), {}) != digest_of((), {"x": 1})
    assert digest_of((1, 2), {}) != digest_of((2, 1), {})


def test_of_objects_without_a_value_only_the_class_counts() -> None:
    assert digest_of((Client(),), {}) == digest_of((Client(),), {})


def test_the_order_of_sets_and_dicts_does_not_count() -> None:
    assert digest_of(({"a": 1, "b": 2},), {}) == digest_of(({"b": 2, "a": 1},), {})
    assert digest_of((), {"a": 1, "b": 2}) == digest_of((), {"b": 2, "a": 1})
    assert digest_of(({"x", "y"},), {}) == digest_of(({"y", "x"},), {})


def test_what_contains_itself_has_a_digest() -> None:
    loop: list[Any] = [1]
    loop.append(loop)
    assert digest_of((loop,), {}) == digest_of((loop,), {})


def test_arrays_and_models_count_by_their_content() -> None:
    numpy = pytest.importorskip("numpy")
    pydantic = pytest.importorskip("pydantic")
    assert digest_of((numpy.array([1, 2]),), {}) != digest_of((numpy.array([1, 3]),), {})
    model = pydantic.create_model("Model", x=(int, ...))
    assert digest_of((model(x=1),), {}) != digest_of((model(x=2),), {})
    assert digest_of((model(x=1),), {}) == digest_of((model(x=1),), {})


def test_a_digest_is_the_same_in_every_process() -> None:
    program = """
from perdure.engine.deciding.known_calls import digest_of
print(digest_of(({"b", "a", "c"}, {"k": frozenset("xyz")}, [1.5, None, "é"]), {"w": b"x"}))
"""
    found = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(found) == 1
