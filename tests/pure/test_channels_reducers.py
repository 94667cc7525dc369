"""The kinds with a reducer, what they start from, and what Overwrite does to them."""

from __future__ import annotations

import collections
import collections.abc
import functools
import operator
import typing
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, Optional, Required, TypedDict, Union

import pytest
from typing_extensions import TypeAliasType

from perdure.channels import MISSING, BinaryOperatorAggregate, DeltaChannel, LastValue
from perdure.channels.overwrite import fold, only_overwrite, overwrite_of
from perdure.channels.reducer import start_value
from perdure.errors import InvalidUpdateError
from perdure.types import Overwrite

FORMS: list[Callable[[Any], Any]] = [
    Overwrite,
    lambda value: {"__overwrite__": value},
    lambda value: {"type": "__overwrite__", "value": value},
    lambda value: {"type": "__overwrite__", "value": value, "extra": 1},
]


def adding(typ: Any = list, key: str = "") -> BinaryOperatorAggregate[Any]:
    channel: BinaryOperatorAggregate[Any] = BinaryOperatorAggregate(typ, operator.add)
    channel.key = key
    return channel


def extend(state: Any, writes: Sequence[Any]) -> Any:
    for write in writes:
        state = state + write
    return state


def joined(state: Any, writes: Sequence[Any]) -> Any:
    return state


class Both(TypedDict):
    a: int


@dataclass
class Full:
    items: list[int] = field(default_factory=list)


@dataclass
class Needs:
    items: list[int]


@pytest.mark.parametrize(
    ("typ", "start"),
    [
        (int, 0),
        (str, ""),
        (list, []),
        (list[str], []),
        (collections.abc.Sequence, []),
        (collections.abc.MutableSequence[int], []),
        (typing.Sequence[int], []),
        (collections.abc.Set[int], set()),
        (collections.abc.MutableSet, set()),
        (collections.abc.Mapping[str, int], {}),
        (collections.abc.MutableMapping, {}),
        (frozenset[int], frozenset()),
        (collections.deque[int], collections.deque()),
        (Both, {}),
        (Full, Full()),
        (Annotated[list[int], "x"], []),
        (Required[list[int]], []),
        (TypeAliasType("Numbers", list[int]), []),
    ],
    ids=str,
)
def test_a_reducer_starts_from_an_empty_value_of_its_type(typ: Any, start: Any) -> None:
    assert type(start_value(typ)) is type(start)
    assert adding(typ).get() == DeltaChannel(extend, typ).get() == start
    assert adding(typ).from_checkpoint(MISSING).get() == start


@pytest.mark.parametrize(
    "typ",
    [
        Any,
        object,
        None,
        "list",
        Union[int, str],
        Optional[int],  # noqa: UP045
        int | None,
        list[int] | None,
        Literal["a"],
        Callable[[int], int],
        collections.abc.Iterable[int],
        Needs,
    ],
    ids=str,
)
def test_types_that_cannot_be_made_without_arguments_start_empty(typ: Any) -> None:
    assert start_value(typ) is MISSING
    assert not adding(typ).is_available()
    assert not DeltaChannel(extend, typ).is_available()


def test_pydantic_models_start_only_if_all_fields_have_defaults() -> None:
    pydantic = pytest.importorskip("pydantic")
    needs = pydantic.create_model("NeedsOne", a=(int, ...))
    full = pydantic.create_model("Complete", a=(int, 1))
    assert start_value(needs) is MISSING
    assert start_value(full) == full()


def test_each_channel_starts_from_a_value_of_its_own() -> None:
    assert adding(list).get() is not adding(list).get()
    channel = adding(list)
    assert channel.from_checkpoint(MISSING).get() is not channel.get()


def test_binop_folds_in_the_order_of_the_values() -> None:
    channel = adding(list)
    assert channel.update([["a"], ["b"]])
    assert channel.update([["c"]])
    assert channel.get() == channel.checkpoint() == ["a", "b", "c"]
    assert not channel.update([])


def test_binop_without_a_start_takes_the_first_value_as_it_is() -> None:
    channel: BinaryOperatorAggregate[Any] = BinaryOperatorAggregate(Any, lambda a, b: f"({a}+{b})")
    channel.update(["x", "y"])
    assert channel.get() == "(x+y)"


def test_a_reducer_that_fails_leaves_the_value_as_it_was() -> None:
    channel = adding(list)
    channel.update([[1]])
    with pytest.raises(TypeError):
        channel.update([[2], 3])
    assert channel.get() == [1]


def test_a_reducer_that_fails_says_for_which_key_and_what_it_was_given() -> None:
    delta = DeltaChannel(extend, list)
    delta.key = "log"
    for channel, writes in ((adding(key="log"), "a write of type str"), (delta, "writes of type str")):
        with pytest.raises(TypeError) as caught:
            channel.update(["no list"])
        assert caught.value.__notes__ == [f"At key 'log': its reducer was given a value of type list and {writes}"]


def test_copies_go_their_own_way() -> None:
    channel = adding(list)
    channel.update([[1]])
    copied = channel.copy()
    copied.update([[2]])
    assert (channel.get(), copied.get()) == ([1], [1, 2])


@pytest.mark.parametrize("form", FORMS)
def test_an_overwrite_voids_the_other_values_of_its_step(form: Callable[[Any], Any]) -> None:
    for writes in ([form([50]), [1], [2]], [[1], form([50]), [2]], [[1], [2], form([50])]):
        for channel in (adding(list), DeltaChannel(extend, list)):
            channel.update([[0]])
            assert channel.update(writes)
            assert channel.get() == [50]
            assert channel.from_checkpoint(channel.checkpoint()).get() == [50]
            channel.update([[3]])
            assert channel.get() == [50, 3]


@pytest.mark.parametrize("form", FORMS)
def test_an_overwrite_of_an_empty_channel_is_unwrapped(form: Callable[[Any], Any]) -> None:
    for channel in (adding(Any), DeltaChannel(extend, Any)):
        assert channel.update([form(7)])
        assert channel.get() == 7


def test_a_wrapped_overwrite_is_still_no_value() -> None:
    channel = adding(list)
    channel.update([Overwrite(Overwrite([1]))])
    assert channel.get() == [1]


@pytest.mark.parametrize("form", FORMS)
def test_two_overwrites_in_one_step_are_refused(form: Callable[[Any], Any]) -> None:
    for channel in (adding(list), DeltaChannel(extend, list)):
        channel.key = "k"
        channel.update([[0]])
        with pytest.raises(InvalidUpdateError, match=r"^Can receive only one Overwrite value per super-step\.") as caught:
            channel.update([form([1]), [2], Overwrite(None)])
        assert caught.value.key == "k"
        assert channel.get() == [0]


def test_the_reducer_is_not_called_in_a_step_with_an_overwrite() -> None:
    def explode(left: Any, right: Any) -> Any:
        raise AssertionError

    assert fold(explode, [0], [[1], Overwrite([2]), [3]]) == [2]
    assert fold(explode, MISSING, [[1]]) == [1]
    assert fold(explode, [0], []) == [0]


class Odd:
    def __eq__(self, other: object) -> bool:
        raise ValueError("the truth value of this is ambiguous")

    __hash__ = None  # type: ignore[assignment]


@pytest.mark.parametrize(
    "write",
    [
        None,
        [],
        "__overwrite__",
        {},
        {"a": 1},
        {"__overwrite__": 1, "b": 2},
        {"type": "__overwrite__"},
        {"type": "__overwrite__", "values": 1},
        {"type": "human", "value": 1},
        {"type": Odd(), "value": 1},
        collections.OrderedDict(__overwrite__=1),
    ],
    ids=lambda write: type(write).__name__,
)
def test_ordinary_writes_are_no_overwrites(write: Any) -> None:
    assert overwrite_of(write) is MISSING
    assert only_overwrite([write]) is MISSING


def test_a_value_that_looks_like_an_overwrite_can_be_written_by_one() -> None:
    assert overwrite_of(Overwrite({"__overwrite__": 1})) == {"__overwrite__": 1}


def test_last_value_does_not_read_dicts_as_overwrites() -> None:
    channel: LastValue[Any] = LastValue(dict)
    channel.update([{"__overwrite__": 1}])
    assert channel.get() == {"__overwrite__": 1}


def test_delta_channel_gives_its_reducer_all_writes_at_once() -> None:
    calls: list[tuple[Any, Any]] = []

    def reducer(state: list[int], writes: Sequence[int]) -> list[int]:
        calls.append((list(state), writes))
        return [*state, *writes]

    channel = DeltaChannel(reducer, list[int])
    assert channel.update((1, 2))
    assert channel.update([3])
    assert not channel.update([])
    assert calls == [([], [1, 2]), ([1, 2], [3])]
    assert channel.checkpoint() == [1, 2, 3]
    assert channel.from_checkpoint([1]).get() == [1]


def test_delta_channel_keeps_its_snapshot_frequency() -> None:
    assert DeltaChannel(extend).snapshot_frequency == 100
    assert DeltaChannel(extend, snapshot_frequency=7).copy().snapshot_frequency == 7
    for frequency in (0, -1):
        with pytest.raises(ValueError, match="snapshot_frequency must be positive"):
            DeltaChannel(extend, snapshot_frequency=frequency)


def test_delta_channel_takes_its_type_from_an_annotation() -> None:
    declared = DeltaChannel(extend)
    channel = declared.of_type(list[int])
    assert (channel.typ, channel.get(), declared.is_available()) == (list[int], [], False)


def test_delta_channel_copies_what_overwrites_it() -> None:
    given = [1]
    channel = DeltaChannel(extend, list)
    channel.update([Overwrite(given)])
    given.append(2)
    assert channel.get() == [1]


def test_delta_channel_reads_none_as_the_empty_value() -> None:
    channel = DeltaChannel(extend, list)
    channel.update([[1]])
    assert channel.update([Overwrite(None)])
    assert channel.get() == []
    assert channel.from_checkpoint(None).get() == []
    untyped = DeltaChannel(extend)
    untyped.update([Overwrite(None)])
    assert untyped.get() is None
    assert untyped.from_checkpoint(untyped.checkpoint()).get() is None


def test_delta_channel_teaches_when_it_has_nothing_to_start_from() -> None:
    channel = DeltaChannel(extend, Any)
    channel.key = "k"
    with pytest.raises(InvalidUpdateError, match="no value to start from") as caught:
        channel.update([1])
    assert caught.value.key == "k"
    channel.update([Overwrite(1)])
    channel.update([2])
    assert channel.get() == 3


def test_delta_channel_refuses_a_reducer_that_forgets_to_return() -> None:
    channel = DeltaChannel(lambda state, writes: state.extend([]), list)
    channel.key = "k"
    with pytest.raises(InvalidUpdateError, match="returned None") as caught:
        channel.update([1])
    assert caught.value.key == "k"


def test_reducers_are_compared_and_a_lambda_equals_any() -> None:
    assert adding(list) == adding(list[str])
    assert adding(list) != BinaryOperatorAggregate(list, operator.mul)
    assert adding(list) == BinaryOperatorAggregate(list, lambda a, b: a)
    assert adding(list) != BinaryOperatorAggregate(list, functools.partial(operator.add))
    assert DeltaChannel(extend) == DeltaChannel(extend, list)
    assert DeltaChannel(extend) == DeltaChannel(lambda state, writes: state)
    assert DeltaChannel(extend) != DeltaChannel(joined)
    assert DeltaChannel(extend) != DeltaChannel(extend, snapshot_frequency=1)
