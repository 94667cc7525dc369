"""`add_messages`: append, replace, remove, clear, give ids, reformat."""

from __future__ import annotations

import copy
import functools
import json
import operator
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.channels import BinaryOperatorAggregate
from perdure.errors import InvalidUpdateError
from perdure.graph import add_messages
from perdure.messages import REMOVE_ALL_MESSAGES, Message, RemoveMessage


def user(text: str, id: str | None = None) -> Message:
    return Message(role="user", content=text, id=id)


def brief(messages: Any) -> list[tuple[str | None, str]]:
    return [(message.id, message.content) for message in messages]


A, B, C = user("a", "1"), user("b", "2"), user("c", "3")


@pytest.mark.parametrize(
    ("right", "texts"),
    [
        ("hi", ["hi"]),
        (("user", "hi"), ["hi"]),
        ({"role": "user", "content": "hi"}, ["hi"]),
        (user("hi"), ["hi"]),
        (["hi", ("ai", "yo"), ["system", "be"], {"type": "human", "content": "q"}], ["hi", "yo", "be", "q"]),
        ((user("hi"), user("yo")), ["hi", "yo"]),
        ((text for text in ["x", "y"]), ["x", "y"]),
        ([], []),
    ],
)
def test_what_is_written_becomes_messages_with_ids(right: Any, texts: list[str]):
    added = add_messages([], right)
    assert all(type(message) is Message for message in added)
    assert [message.content for message in added] == texts
    assert all(UUID(message["id"]).version == 4 for message in added)
    assert len({message.id for message in added}) == len(texts)


def test_both_sides_may_be_one_message():
    assert [message.content for message in add_messages("hi", "there")] == ["hi", "there"]


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        ([A, B], [C], [("1", "a"), ("2", "b"), ("3", "c")]),
        ([A, B], [user("new", "1")], [("1", "new"), ("2", "b")]),
        ([A, B], {"role": "user", "content": "new", "id": "2"}, [("1", "a"), ("2", "new")]),
        ([A], [user("x", "9"), user("y", "9")], [("1", "a"), ("9", "y")]),
        ([A, B], [RemoveMessage("1")], [("2", "b")]),
        ([A, B], {"role": "remove", "id": "1"}, [("2", "b")]),
        ([A], [user("x", "9"), RemoveMessage("9")], [("1", "a")]),
        ([A], [user("x", "1"), RemoveMessage("1")], []),
        # Removed and added again in one batch: it keeps its place.
        ([A, B], [RemoveMessage("1"), user("again", "1")], [("1", "again"), ("2", "b")]),
        ([A, B], [RemoveMessage(REMOVE_ALL_MESSAGES)], []),
        ([A, B], [user("x", "8"), RemoveMessage(REMOVE_ALL_MESSAGES), user("y", "9")], [("9", "y")]),
        (
            [A],
            [
                RemoveMessage(REMOVE_ALL_MESSAGES),
                user("x", "8"),
                RemoveMessage(REMOVE_ALL_MESSAGES),
                user("y", "9"),
                user("z", "9"),
            ],
            [("9", "z")],
        ),
        # A list from elsewhere may have an id twice: the last is replaced, a removal removes both.
        ([A, user("b", "1")], [user("n", "1")], [("1", "a"), ("1", "n")]),
        ([A, user("b", "1")], [RemoveMessage("1")], []),
    ],
)
def test_replace_remove_clear(left: Any, right: Any, expected: list[tuple[str, str]]):
    assert brief(add_messages(left, right)) == expected


@pytest.mark.parametrize(
    "right",
    [RemoveMessage("9"), [RemoveMessage("9"), user("x", "9")], [RemoveMessage(REMOVE_ALL_MESSAGES), RemoveMessage("1")]],
)
def test_removing_what_is_not_there_is_an_error(right: Any):
    with pytest.raises(InvalidUpdateError, match=r"Attempting to delete a message with an ID that doesn't exist \('[19]'\)"):
        add_messages([A], right)


def test_P35_neither_side_is_changed():
    left = [user("a"), {"role": "user", "content": "plain"}, A]
    right = [user("b"), {"role": "assistant", "content": [{"type": "text", "text": "x"}]}, user("new", "1")]
    before = copy.deepcopy((left, right))
    added = add_messages(left, right)
    assert (left, right) == before
    added[-1]["content"] = "changed"
    added[2]["content"] = "changed"
    assert (left, right) == before


def test_messages_that_are_there_stay_the_same_objects():
    """What did not change need not be compared or stored again."""
    left = add_messages([], ["a", "b"])
    added = add_messages(left, "c")
    assert added is not left
    assert added[0] is left[0]
    assert added[1] is left[1]


@pytest.mark.parametrize("wrong", [5, [None], {"role": "x", "content": "y"}, {}, [b"x"], [()]])
def test_what_is_no_message_is_refused(wrong: Any):
    with pytest.raises(InvalidUpdateError):
        add_messages([], wrong)


@pytest.mark.parametrize("sides", [{"left": [A]}, {"right": [A]}, {"left": None, "right": []}])
def test_one_side_alone_is_an_error(sides: Any):
    with pytest.raises(ValueError, match="both 'left' and 'right'"):
        add_messages(**sides)


PICTURE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAA"}}
OPENAI_PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAA"}}


@pytest.mark.parametrize("format", ["openai", "langchain-openai"])
def test_a_format_brings_contents_into_shape(format: str):
    reducer = add_messages(format=format)
    for added in (
        reducer([], [Message(role="user", content=[PICTURE], id="1", mark="m")]),
        reducer([user("x", "1")], {"role": "user", "content": [PICTURE], "id": "1", "mark": "m"}),
    ):
        assert added == [{"role": "user", "content": [OPENAI_PICTURE], "id": "1", "mark": "m"}]
        assert type(added[0]) is Message
    assert reducer(added, []) == added


def test_a_format_takes_answers_of_tools_out_of_a_message():
    content = [{"type": "tool_result", "tool_use_id": "c1", "content": "42"}, {"type": "text", "text": "go on"}]
    reducer = add_messages(format="openai")
    added = reducer([], Message(role="user", content=content, id="1"))
    assert added == [
        {"role": "tool", "content": "42", "tool_call_id": "c1", "id": "1:c1"},
        {"role": "user", "content": [{"type": "text", "text": "go on"}], "id": "1"},
    ]
    assert reducer(added, []) == added


def test_a_reducer_of_a_format_is_one_object():
    """Two schemas of a graph that name the same format agree on the key."""
    assert add_messages(format="openai") is add_messages(format="openai")
    assert add_messages() is add_messages


def test_an_unknown_format_is_refused():
    for call in (lambda: add_messages(format="x"), lambda: add_messages([], [], format="x")):
        with pytest.raises(ValueError, match="unknown format 'x'"):
            call()


IDS = st.sampled_from(["1", "2", "3", None])
WRITTEN = st.lists(
    st.one_of(st.builds(user, st.text(max_size=2), IDS), st.sampled_from(["1", "2", "3"]).map(RemoveMessage)), max_size=6
)


@given(st.lists(WRITTEN, max_size=4))
def test_any_sequence_of_writes_keeps_ids_unique_and_plain(batches: list[list[Message]]):
    state: list[Any] = []
    for batch in batches:
        try:
            after = add_messages(state, batch)
        except InvalidUpdateError:
            known = {message.id for message in state}
            assert any(isinstance(one, RemoveMessage) and one.id not in known for one in batch)
            continue
        ids = [message.id for message in after]
        assert None not in ids
        assert len(set(ids)) == len(ids)
        assert not any(isinstance(message, RemoveMessage) for message in after)
        assert json.loads(json.dumps(after)) == after
        assert add_messages(after, []) == after
        state = after


named = st.builds(user, st.sampled_from("xyz"), st.sampled_from("12345"))
others: list[Any] = [RemoveMessage("1"), RemoveMessage(REMOVE_ALL_MESSAGES), {"role": "user", "content": "d", "id": "9"}, 5]
right = st.lists(st.one_of(named, named, st.sampled_from(others)), max_size=3)


@given(
    st.lists(st.sampled_from([A, B, C]), unique_by=id), st.lists(st.one_of(right, named), min_size=1, max_size=3), st.booleans()
)
def test_what_a_channel_adds_in_one_go_is_what_the_reducer_adds_one_by_one(
    left: list[Any], writes: list[Any], once: bool
) -> None:
    channel = BinaryOperatorAggregate(list, add_messages).from_checkpoint(left)
    before = left.copy()
    given = [iter(write) if once and type(write) is list else write for write in writes]
    try:
        whole = functools.reduce(add_messages, writes, left)
    except InvalidUpdateError:
        with pytest.raises(InvalidUpdateError):
            channel.update(given)
        assert channel.get() is left
        return
    channel.update(given)
    assert channel.get() == whole
    assert left == before
    assert channel.kept in (0, len(left))
    assert all(map(operator.is_, channel.get()[: channel.kept], left))


def test_a_channel_knows_that_a_message_was_only_added() -> None:
    channel = BinaryOperatorAggregate(list, add_messages).from_checkpoint([A, B])
    channel.update([[user("x", "3")], user("y", "4")])
    assert (brief(channel.get()), channel.kept) == ([("1", "a"), ("2", "b"), ("3", "x"), ("4", "y")], 2)
    channel.update([user("z", "2")])
    assert (brief(channel.get()), channel.kept) == ([("1", "a"), ("2", "z"), ("3", "x"), ("4", "y")], 0)
