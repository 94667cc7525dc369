"""Laws that every kind of channel keeps, whatever is written to it and wherever a run is cut and reloaded (S11)."""

from __future__ import annotations

import copy
import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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
from perdure.errors import InvalidUpdateError
from perdure.types import Overwrite

Channel = BaseChannel[Any, Any, Any]
Step = list[Any] | str


class Kind(NamedTuple):
    name: str
    make: Callable[[], Channel]
    write: st.SearchStrategy[Any]
    most: int = 4
    overwrites: bool = False


def joined(state: list[int], writes: Sequence[list[int]]) -> list[int]:
    return sum(writes, state)


def larger(one: Any, other: Any) -> Any:
    return max(one, other)


numbers = st.integers(-9, 9)
lists = st.lists(numbers, max_size=3)
values = st.one_of(numbers, st.none(), st.text(max_size=2), lists)
names = st.sampled_from("abc")


def forms(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(
        inner.map(Overwrite),
        inner.map(lambda value: {"__overwrite__": value}),
        inner.map(lambda value: {"type": "__overwrite__", "value": value}),
    )


LIST = Kind("list", lambda: BinaryOperatorAggregate(list, operator.add), lists, overwrites=True)
KINDS = [
    Kind("last", lambda: LastValue(object), values, most=1),
    Kind("last after finish", lambda: LastValueAfterFinish(object), values),
    Kind("any", lambda: AnyValue(object), values),
    Kind("ephemeral", lambda: EphemeralValue(object), values, most=1),
    Kind("ephemeral unguarded", lambda: EphemeralValue(object, guard=False), values),
    LIST,
    Kind("number without start", lambda: BinaryOperatorAggregate(Any, larger), numbers, overwrites=True),
    Kind("delta", lambda: DeltaChannel(joined, list), lists, overwrites=True),
    Kind("topic", lambda: Topic(int), st.one_of(numbers, lists)),
    Kind("topic accumulating", lambda: Topic(int, accumulate=True), st.one_of(numbers, lists)),
    Kind("barrier", lambda: NamedBarrierValue(str, set("abc")), names),
    Kind("barrier after finish", lambda: NamedBarrierValueAfterFinish(str, set("abc")), names),
]
each_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
each_kind_also_untracked = pytest.mark.parametrize(
    "kind", [*KINDS, Kind("untracked", lambda: UntrackedValue(object), values, most=1)], ids=lambda kind: kind.name
)
folding = pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.overwrites], ids=lambda kind: kind.name)


@functools.cache
def steps_of(kind: Kind) -> st.SearchStrategy[list[Step]]:
    """Super-steps: values written, or the call of `consume` or `finish`."""
    step: st.SearchStrategy[Any] = st.lists(kind.write, max_size=kind.most)
    if kind.overwrites:
        step |= st.tuples(step, forms(kind.write), step).map(lambda parts: [*parts[0], parts[1], *parts[2]])
    return st.lists(step | st.sampled_from(["consume", "finish"]), max_size=6)


def play(channel: Channel, steps: list[Step]) -> Channel:
    for step in steps:
        if isinstance(step, str):
            getattr(channel, step)()
        else:
            channel.update(step)
    return channel


def seen(channel: Channel) -> tuple[Any, ...]:
    """All that can be seen of a channel, detached from it."""
    value = channel.get() if channel.is_available() else MISSING
    return copy.deepcopy((value, channel.is_available(), channel.checkpoint()))


@each_kind
@given(data=st.data())
def test_a_reloaded_channel_equals_the_live_one(kind: Kind, data: st.DataObject) -> None:
    live = play(kind.make(), data.draw(steps_of(kind)))
    reloaded = live.from_checkpoint(copy.deepcopy(live.checkpoint()))
    assert reloaded == live
    assert seen(reloaded) == seen(live)


@each_kind
@given(data=st.data())
def test_reloading_anywhere_changes_nothing(kind: Kind, data: st.DataObject) -> None:
    reload_somewhere(kind, data)


@settings(max_examples=1000)
@given(data=st.data())
def test_reloading_a_list_anywhere_changes_nothing_in_a_thousand_cases(data: st.DataObject) -> None:
    reload_somewhere(LIST, data)


def reload_somewhere(kind: Kind, data: st.DataObject) -> None:
    steps = data.draw(steps_of(kind))
    cut = data.draw(st.integers(0, len(steps)))
    live = play(kind.make(), copy.deepcopy(steps))
    before = play(kind.make(), copy.deepcopy(steps[:cut]))
    after = play(before.from_checkpoint(copy.deepcopy(before.checkpoint())), copy.deepcopy(steps[cut:]))
    assert seen(after) == seen(live)


@each_kind_also_untracked
@given(data=st.data())
def test_a_copy_and_its_original_go_their_own_ways(kind: Kind, data: st.DataObject) -> None:
    original = play(kind.make(), data.draw(steps_of(kind)))
    copied = original.copy()
    at_first = seen(original)
    assert copied == original
    assert seen(copied) == at_first
    play(copied, data.draw(steps_of(kind)))
    assert seen(original) == at_first
    changed = seen(copied)
    play(original, data.draw(steps_of(kind)))
    assert seen(copied) == changed


@each_kind_also_untracked
@given(data=st.data())
def test_no_writes_change_nothing_unless_the_kind_is_volatile(kind: Kind, data: st.DataObject) -> None:
    channel = play(kind.make(), data.draw(steps_of(kind)))
    before = seen(channel)
    changed = channel.update([])
    if not channel.volatile:
        assert not changed
    assert changed is (seen(channel) != before)
    assert not channel.update([])


@each_kind_also_untracked
@given(data=st.data())
def test_what_says_unchanged_is_unchanged(kind: Kind, data: st.DataObject) -> None:
    channel = kind.make()
    for step in data.draw(steps_of(kind)):
        before = seen(channel)
        changed = getattr(channel, step)() if isinstance(step, str) else channel.update(step)
        if not changed:
            assert seen(channel) == before


@each_kind_also_untracked
@given(data=st.data())
def test_writes_are_left_as_they_are(kind: Kind, data: st.DataObject) -> None:
    steps = data.draw(steps_of(kind))
    given_ = copy.deepcopy(steps)
    play(kind.make(), steps)
    assert steps == given_


@folding
@given(data=st.data())
def test_an_overwrite_wins_wherever_it_stands(kind: Kind, data: st.DataObject) -> None:
    history = data.draw(steps_of(kind))
    value = data.draw(kind.write)
    overwrite = data.draw(forms(st.just(value)))
    others = data.draw(st.lists(kind.write, max_size=4))
    place = data.draw(st.integers(0, len(others)))
    channel = play(kind.make(), history)
    assert channel.update([*others[:place], overwrite, *others[place:]])
    assert channel.get() == value
    assert type(channel.get()) is type(value)


@folding
@given(data=st.data())
def test_two_overwrites_are_refused_and_change_nothing(kind: Kind, data: st.DataObject) -> None:
    channel = play(kind.make(), data.draw(steps_of(kind)))
    before = seen(channel)
    writes = data.draw(st.permutations([*data.draw(st.lists(kind.write, max_size=3)), *data.draw(_two(forms(kind.write)))]))
    with pytest.raises(InvalidUpdateError):
        channel.update(writes)
    assert seen(channel) == before


def _two(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    return st.lists(strategy, min_size=2, max_size=2)


@given(steps=st.lists(st.lists(lists, max_size=4), max_size=6))
def test_the_order_of_writes_is_kept(steps: list[list[list[int]]]) -> None:
    expected = [number for step in steps for write in step for number in write]
    kinds: list[Channel] = [
        BinaryOperatorAggregate(list, operator.add),
        DeltaChannel(joined, list),
        Topic(int, accumulate=True),
    ]
    for channel in kinds:
        play(channel, list(steps))
        assert (channel.get() if channel.is_available() else []) == expected


@given(steps=st.lists(st.lists(lists, max_size=4), max_size=4))
def test_how_writes_are_spread_over_steps_does_not_matter_to_a_fold(steps: list[list[list[int]]]) -> None:
    one_step = play(BinaryOperatorAggregate(list, operator.add), [[write for step in steps for write in step]])
    many_steps = play(BinaryOperatorAggregate(list, operator.add), list(steps))
    assert one_step.get() == many_steps.get()
