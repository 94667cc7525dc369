"""The MISSING sentinel and what all kinds of channels have in common."""

from __future__ import annotations

import copy
import operator
import pickle
from collections.abc import Sequence
from typing import Any, Self

import pytest

import perdure.channels
from perdure.channels import (
    MISSING,
    AnyValue,
    BaseChannel,
    BinaryOperatorAggregate,
    DeltaChannel,
    EphemeralValue,
    LastValue,
    LastValueAfterFinish,
    NamedBarrierValue,
    NamedBarrierValueAfterFinish,
    Topic,
    UntrackedValue,
)
from perdure.errors import EmptyChannelError

EMPTY: list[BaseChannel[Any, Any, Any]] = [
    LastValue(int),
    LastValueAfterFinish(int),
    AnyValue(int),
    EphemeralValue(int),
    UntrackedValue(int),
    BinaryOperatorAggregate(Any, operator.add),
    DeltaChannel(lambda state, writes: state + writes),
    Topic(int),
    NamedBarrierValue(str, {"a"}),
    NamedBarrierValueAfterFinish(str, {"a"}),
]


def named(channel: BaseChannel[Any, Any, Any]) -> str:
    return type(channel).__name__


def test_missing_stays_itself_through_copies_and_pickle() -> None:
    assert copy.copy(MISSING) is MISSING
    assert copy.deepcopy(MISSING) is MISSING
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps(MISSING, protocol)) is MISSING
    assert repr(MISSING) == "MISSING"


@pytest.mark.parametrize("channel", EMPTY, ids=named)
def test_reading_an_empty_channel_says_which(channel: BaseChannel[Any, Any, Any]) -> None:
    channel = channel.copy()
    channel.key = "notes"
    assert not channel.is_available()
    with pytest.raises(EmptyChannelError, match="At key 'notes'") as caught:
        channel.get()
    assert caught.value.key == "notes"
    assert type(channel).__name__ in str(caught.value)


@pytest.mark.parametrize("channel", EMPTY, ids=named)
def test_copies_and_reloads_keep_class_key_and_parameters(channel: BaseChannel[Any, Any, Any]) -> None:
    channel = channel.copy()
    channel.key = "k"
    for other in (channel.copy(), channel.from_checkpoint(MISSING), channel.from_checkpoint(channel.checkpoint())):
        assert type(other) is type(channel)
        assert other is not channel
        assert (other.key, other.typ) == ("k", channel.typ)
        assert other == channel
        assert not other.is_available()


@pytest.mark.parametrize("channel", EMPTY, ids=named)
def test_channels_cannot_be_hashed_and_have_no_dict(channel: BaseChannel[Any, Any, Any]) -> None:
    with pytest.raises(TypeError):
        hash(channel)
    assert not hasattr(channel, "__dict__")


@pytest.mark.parametrize("channel", [c for c in EMPTY if not isinstance(c, DeltaChannel)], ids=named)
def test_channels_can_be_pickled(channel: BaseChannel[Any, Any, Any]) -> None:
    assert pickle.loads(pickle.dumps(channel)) == channel


def test_kinds_say_whether_an_unwritten_step_matters_and_whether_they_are_stored() -> None:
    volatile = {named(channel) for channel in EMPTY if channel.volatile}
    assert volatile == {"AnyValue", "EphemeralValue", "Topic"}
    assert not Topic(int, accumulate=True).volatile
    assert [named(channel) for channel in EMPTY if not channel.tracked] == ["UntrackedValue"]


def test_different_kinds_are_unequal() -> None:
    for i, one in enumerate(EMPTY):
        for j, other in enumerate(EMPTY):
            assert (one == other) is (i == j)
    assert LastValue(int) != "LastValue"


def test_a_kind_of_ones_own_needs_only_the_abstract_methods() -> None:
    class Counting(BaseChannel[int, Any, int]):
        __slots__ = ("count",)

        def __init__(self, typ: Any, key: str = "") -> None:
            super().__init__(typ, key)
            self.count = 0

        def checkpoint(self) -> int:
            return self.count

        def from_checkpoint(self, stored: Any) -> Self:
            new = type(self)(self.typ, self.key)
            new.count = 0 if stored is MISSING else stored
            return new

        def get(self) -> int:
            return self.count

        def is_available(self) -> bool:
            return True

        def update(self, values: Sequence[Any]) -> bool:
            self.count += len(values)
            return bool(values)

    channel = Counting(int, "n")
    channel.update(["a", "b"])
    copied = channel.copy()
    copied.update(["c"])
    assert (channel.get(), copied.get(), copied.key) == (2, 3, "n")
    assert channel.volatile
    assert not channel.consume()
    assert not channel.finish()


def test_the_room_exports_its_kinds_in_order() -> None:
    names = perdure.channels.__all__
    assert len(set(names)) == len(names) == 12
    assert names[0] == "MISSING"
    assert names[1:] == sorted(names[1:])
    assert all(hasattr(perdure.channels, name) for name in names)
