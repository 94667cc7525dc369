"""The kinds that hold one plain value: last, after finish, any, ephemeral, untracked."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.channels import (
    MISSING,
    AnyValue,
    BaseChannel,
    EphemeralValue,
    LastValue,
    LastValueAfterFinish,
    UntrackedValue,
)
from perdure.errors import EmptyChannelError, InvalidUpdateError


def test_last_value_takes_one_value_a_step() -> None:
    channel: LastValue[int] = LastValue(int, "k")
    assert channel.update([1])
    assert channel.update([2])
    assert channel.get() == channel.checkpoint() == 2
    assert not channel.update([])
    assert channel.get() == 2


def test_last_value_refuses_two_values_and_stays_as_it_was() -> None:
    channel: LastValue[int] = LastValue(int, "k")
    channel.update([1])
    with pytest.raises(InvalidUpdateError) as caught:
        channel.update([2, 3])
    assert str(caught.value).startswith(
        "At key 'k': Can receive only one value per step. Use an Annotated key to handle multiple values."
    )
    assert caught.value.code == "INVALID_CONCURRENT_GRAPH_UPDATE"
    assert caught.value.key == "k"
    assert channel.get() == 1


@pytest.mark.parametrize("value", [None, False, 0, "", {}, []])
def test_falsy_values_are_values(value: Any) -> None:
    kinds: tuple[BaseChannel[Any, Any, Any], ...] = (
        LastValue(object),
        AnyValue(object),
        EphemeralValue(object),
        UntrackedValue(object),
    )
    for channel in kinds:
        assert channel.update([value])
        assert channel.is_available()
        assert channel.get() == value
    late: LastValueAfterFinish[Any] = LastValueAfterFinish(object)
    late.update([value])
    assert late.finish()
    assert late.from_checkpoint(late.checkpoint()).get() == value


def test_last_values_are_equal_whatever_their_type() -> None:
    channel: LastValue[int] = LastValue(int)
    assert channel == LastValue(str, "k")
    assert channel.ValueType is channel.UpdateType is int


def test_last_value_after_finish_shows_its_value_only_at_the_end() -> None:
    channel: LastValueAfterFinish[int] = LastValueAfterFinish(int, "k")
    assert not channel.finish()
    assert channel.update([1, 2])
    assert not channel.update([])
    assert not channel.is_available()
    with pytest.raises(EmptyChannelError, match="held back"):
        channel.get()
    assert not channel.consume()
    assert channel.finish()
    assert not channel.finish()
    assert channel.get() == 2
    assert channel.checkpoint() == (2, True)
    assert channel.consume()
    assert not channel.is_available()
    assert channel.checkpoint() is MISSING


def test_last_value_after_finish_holds_a_new_value_back_again() -> None:
    channel: LastValueAfterFinish[int] = LastValueAfterFinish(int)
    channel.update([1])
    channel.finish()
    channel.update([2])
    assert not channel.is_available()
    assert channel.checkpoint() == (2, False)
    reloaded = channel.from_checkpoint(channel.checkpoint())
    assert reloaded.finish()
    assert reloaded.get() == 2


def test_any_value_takes_the_last_and_forgets_it_when_nobody_writes() -> None:
    channel: AnyValue[int] = AnyValue(int)
    assert channel.update([1, 2])
    assert channel.get() == 2
    assert channel.update([])
    assert not channel.is_available()
    assert not channel.update([])


def test_ephemeral_value_is_visible_for_one_step() -> None:
    channel: EphemeralValue[int] = EphemeralValue(int)
    assert not channel.update([])
    assert channel.update([1])
    assert channel.get() == 1
    assert channel.update([])
    assert channel.checkpoint() is MISSING


@pytest.mark.parametrize("kind", [EphemeralValue, UntrackedValue])
def test_guarded_values_refuse_two_and_unguarded_take_the_last(kind: Any) -> None:
    guarded = kind(int)
    guarded.key = "k"
    with pytest.raises(InvalidUpdateError, match=f"At key 'k'.*{kind.__name__}\\(typ, guard=False\\)") as caught:
        guarded.update([1, 2])
    assert caught.value.key == "k"
    assert not guarded.is_available()
    open_ = kind(int, guard=False)
    assert open_.update([1, 2])
    assert open_.get() == 2
    assert not open_.copy().guard
    assert guarded == kind(str)
    assert guarded != open_


def test_untracked_value_lives_on_in_copies_but_never_in_checkpoints() -> None:
    channel: UntrackedValue[int] = UntrackedValue(int)
    channel.update([1])
    assert not channel.update([])
    assert channel.checkpoint() is MISSING
    assert channel.copy().get() == 1
    assert not channel.from_checkpoint(channel.checkpoint()).is_available()
    assert not channel.from_checkpoint(5).is_available()
