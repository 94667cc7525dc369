"""The kinds that collect: topics and barriers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Union

import pytest

from perdure.channels import MISSING, NamedBarrierValue, NamedBarrierValueAfterFinish, Topic
from perdure.errors import EmptyChannelError, InvalidUpdateError


def test_topic_holds_what_the_last_step_wrote() -> None:
    topic: Topic[int] = Topic(int)
    assert topic.update([1, [2, 3], 4])
    assert topic.get() == topic.checkpoint() == [1, 2, 3, 4]
    assert topic.update([5])
    assert topic.get() == [5]
    assert topic.update([])
    assert not topic.is_available()
    assert topic.checkpoint() == []
    assert not topic.update([])
    assert not topic.update([[]])


def test_accumulating_topic_keeps_what_earlier_steps_wrote() -> None:
    topic: Topic[int] = Topic(int, accumulate=True)
    assert topic.update([1])
    assert topic.update([[2]])
    assert not topic.update([])
    assert not topic.update([[]])
    assert topic.get() == [1, 2]
    assert topic.copy().accumulate


def test_topic_flattens_lists_only_and_one_level() -> None:
    topic: Topic[Any] = Topic(object)
    topic.update([(1, 2), "ab", [[3]]])
    assert topic.get() == [(1, 2), "ab", [3]]


@pytest.mark.parametrize("accumulate", [False, True])
def test_topics_share_no_list(accumulate: bool) -> None:
    topic: Topic[int] = Topic(int, accumulate)
    written = [1]
    topic.update([written])
    copied, stored = topic.copy(), topic.checkpoint()
    reloaded = topic.from_checkpoint(written)
    topic.get().append(9)
    written.append(8)
    topic.update([2])
    assert (copied.get(), stored, reloaded.get()) == ([1], [1], [1])


def test_topic_reads_old_records() -> None:
    topic: Topic[int] = Topic(int)
    assert topic.from_checkpoint((set(), [1, 2])).get() == [1, 2]


def test_topic_equality_and_types() -> None:
    assert Topic(int) == Topic(str)
    assert Topic(int) != Topic(int, accumulate=True)
    assert Topic(int).ValueType == Sequence[int]
    assert Topic(int).UpdateType == Union[int, list[int]]


def test_barrier_opens_when_all_have_come() -> None:
    barrier: NamedBarrierValue[str] = NamedBarrierValue(str, {"a", "b"})
    barrier.key = "join"
    assert barrier.update(["a"])
    assert not barrier.update(["a"])
    assert not barrier.update([])
    assert not barrier.consume()
    with pytest.raises(EmptyChannelError, match="still waits for 'b'"):
        barrier.get()
    assert barrier.update(["b", "a"])
    assert barrier.is_available()
    barrier.get()
    assert barrier.checkpoint() == {"a", "b"}
    assert barrier.consume()
    assert barrier.checkpoint() == set()
    assert not barrier.is_available()
    assert not barrier.finish()


def test_barrier_refuses_strangers_and_stays_as_it_was() -> None:
    barrier: NamedBarrierValue[str] = NamedBarrierValue(str, {"a", "b"})
    barrier.key = "join"
    with pytest.raises(InvalidUpdateError, match=r"'x' is not among the names .* 'a', 'b'") as caught:
        barrier.update(["a", "x"])
    assert caught.value.key == "join"
    assert barrier.checkpoint() == set()


def test_barrier_copies_are_independent() -> None:
    barrier: NamedBarrierValue[str] = NamedBarrierValue(str, {"a", "b"})
    barrier.update(["a"])
    copied, stored = barrier.copy(), barrier.checkpoint()
    copied.update(["b"])
    stored.add("b")
    assert not barrier.is_available()
    assert copied.is_available()


def test_barrier_after_finish_opens_only_at_the_end() -> None:
    barrier: NamedBarrierValueAfterFinish[str] = NamedBarrierValueAfterFinish(str, {"a", "b"})
    barrier.update(["a"])
    assert not barrier.finish()
    barrier.update(["b"])
    assert not barrier.is_available()
    assert not barrier.consume()
    with pytest.raises(EmptyChannelError, match="held back"):
        barrier.get()
    reloaded = barrier.from_checkpoint(barrier.checkpoint())
    assert barrier.finish()
    assert not barrier.finish()
    barrier.get()
    assert barrier.checkpoint() == ({"a", "b"}, True)
    assert barrier.copy().is_available()
    assert barrier.consume()
    assert barrier.checkpoint() == (set(), False)
    assert not reloaded.is_available()
    assert reloaded.finish()


def test_barriers_are_equal_when_they_wait_for_the_same_names() -> None:
    assert NamedBarrierValue(str, {"a"}) == NamedBarrierValue(str, {"a"})
    assert NamedBarrierValue(str, {"a"}) != NamedBarrierValue(str, {"b"})
    assert NamedBarrierValueAfterFinish(str, {"a"}) != NamedBarrierValueAfterFinish(str, {"b"})
    assert NamedBarrierValue(str, {"a"}).from_checkpoint(MISSING).names == {"a"}
