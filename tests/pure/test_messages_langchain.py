"""Messages of LangChain stay what they are, and live in one list with this library's own."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    ChatMessage,
    HumanMessage,
    HumanMessageChunk,
    SystemMessage,
    ToolMessage,
    convert_to_messages,
    get_buffer_string,
)
from langchain_core.messages import RemoveMessage as LangChainRemoveMessage

from perdure.channels import BinaryOperatorAggregate
from perdure.errors import InvalidUpdateError
from perdure.graph import add_messages
from perdure.messages import REMOVE_ALL_MESSAGES, Message, RemoveMessage, to_anthropic, to_message, to_openai, tool_calls_of

CALL: Any = {"name": "f", "args": {"a": 1}, "id": "c1"}
CHAT_CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}


def test_they_pass_through_unchanged():
    given = [HumanMessage("a", id="1"), AIMessage("b", id="2", tool_calls=[CALL])]
    added = add_messages([], given)
    assert added[0] is given[0]
    assert added[1] is given[1]


def test_P35_one_without_an_id_gets_it_on_a_copy():
    given = AIMessage("b", tool_calls=[CALL])
    (added,) = add_messages([], [given])
    assert type(added) is AIMessage
    assert added.id
    assert given.id is None
    assert added.model_copy(update={"id": None}) == given


@pytest.mark.parametrize(
    ("right", "contents"),
    [
        (AIMessage("new", id="1"), ["new", "b"]),
        ({"role": "assistant", "content": "new", "id": "1"}, ["new", "b"]),
        (Message(role="user", content="new", id="2"), ["a", "new"]),
        (HumanMessage("new", id="2"), ["a", "new"]),
        (RemoveMessage("1"), ["b"]),
        (LangChainRemoveMessage(id="2"), ["a"]),
        ([LangChainRemoveMessage(id=REMOVE_ALL_MESSAGES), "c"], ["c"]),
        ([RemoveMessage(REMOVE_ALL_MESSAGES), HumanMessage("c")], ["c"]),
    ],
)
def test_both_kinds_are_matched_by_id(right: Any, contents: list[str]):
    left = [HumanMessage("a", id="1"), Message(role="assistant", content="b", id="2")]
    assert [message.content for message in add_messages(left, right)] == contents


def test_a_channel_knows_that_one_of_them_was_only_added():
    before = [HumanMessage("a", id="1"), Message(role="user", content="b", id="2"), AIMessage("c", id="3")]
    channel = BinaryOperatorAggregate(list, add_messages).from_checkpoint(before)
    channel.update([AIMessage("d", id="4"), ("user", "e")])
    assert (channel.kept, [message.content for message in channel.get()]) == (3, ["a", "b", "c", "d", "e"])
    for write in (HumanMessage("new", id="3"), LangChainRemoveMessage(id="1")):
        channel.update([write])
        assert channel.kept == 0
    assert [message.content for message in channel.get()] == ["b", "new", "d", "e"]


def test_pieces_and_those_without_an_id_that_are_in_the_state_are_still_made_whole():
    without, piece = HumanMessage("a"), AIMessageChunk("b", id="2")
    channel = BinaryOperatorAggregate(list, add_messages).from_checkpoint([without, piece])
    channel.update([("user", "c")])
    first, second, _ = channel.get()
    assert (type(second), channel.kept, without.id) == (AIMessage, 0, None)
    assert first.id is not None


def test_their_removal_of_what_is_not_there_is_an_error_too():
    with pytest.raises(InvalidUpdateError, match="doesn't exist"):
        add_messages([HumanMessage("a", id="1")], LangChainRemoveMessage(id="2"))


def test_streamed_pieces_become_whole_messages():
    added = add_messages([], [AIMessageChunk(content="a", id="1"), HumanMessageChunk(content="b")])
    assert [type(message) for message in added] == [AIMessage, HumanMessage]
    assert added[0].id == "1"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (HumanMessage("a", id="1", name="bob"), {"role": "user", "content": "a", "id": "1", "name": "bob"}),
        (SystemMessage("a"), {"role": "system", "content": "a"}),
        (SystemMessage("a", additional_kwargs={"__openai_role__": "developer"}), {"role": "developer", "content": "a"}),
        (AIMessage("", tool_calls=[CALL]), {"role": "assistant", "content": "", "tool_calls": [CHAT_CALL]}),
        (AIMessageChunk(content="a"), {"role": "assistant", "content": "a"}),
        (AIMessage("", additional_kwargs={"refusal": "no"}), {"role": "assistant", "content": "", "refusal": "no"}),
        (ToolMessage("a", tool_call_id="c1"), {"role": "tool", "content": "a", "tool_call_id": "c1"}),
        (
            ToolMessage("a", tool_call_id="c1", status="error"),
            {"role": "tool", "content": "a", "tool_call_id": "c1", "status": "error"},
        ),
        (ChatMessage(role="assistant", content="a"), {"role": "assistant", "content": "a"}),
    ],
)
def test_each_can_be_read_as_a_message(given: Any, expected: dict[str, Any]):
    assert to_message(given) == expected


def test_calls_that_could_not_be_parsed_are_calls():
    broken: Any = {"name": "f", "args": "{broken", "id": "c2", "error": "x"}
    message = AIMessage("", tool_calls=[CALL], invalid_tool_calls=[broken])
    assert [call["args"] for call in tool_calls_of(message)] == [{"a": 1}, {"arguments": "{broken"}]


def test_a_call_that_stands_twice_is_given_once():
    """LangChain keeps the calls of Anthropic's models in the content and beside it."""
    content: Any = [{"type": "text", "text": "x", "index": 0}, {"type": "tool_use", "id": "c1", "name": "f", "input": {"a": 1}}]
    message = AIMessage(content, tool_calls=[CALL])
    assert to_openai([message]) == [
        {"role": "assistant", "content": [{"type": "text", "text": "x"}], "tool_calls": [CHAT_CALL]}
    ]
    assert to_anthropic([message])["messages"][0]["content"] == [
        {"type": "text", "text": "x"},
        {"type": "tool_use", "id": "c1", "name": "f", "input": {"a": 1}},
    ]


def test_a_mixed_list_can_be_given_to_a_chat_model_of_langchain():
    mixed = add_messages(
        [SystemMessage("s")],
        [
            "hi",
            {"role": "assistant", "content": None, "tool_calls": [CHAT_CALL]},
            {"role": "tool", "content": "42", "tool_call_id": "c1"},
        ],
    )
    converted = convert_to_messages(mixed)
    assert [message.type for message in converted] == ["system", "human", "ai", "tool"]
    assert [message.id for message in converted] == [message.id for message in mixed]
    assert converted[2].tool_calls == [CALL | {"type": "tool_call"}]  # type: ignore[attr-defined]


def test_both_kinds_are_read_in_the_ways_that_the_page_about_coming_from_langgraph_names():
    theirs = [HumanMessage("Hello", id="1"), AIMessage("", id="2", tool_calls=[CALL])]
    ours = add_messages(
        [], [{"role": "user", "content": "Hello", "id": "1"}, {"role": "assistant", "tool_calls": [CALL], "id": "2"}]
    )
    for question, answer in (theirs, ours):
        assert (question.type, answer.type) == ("human", "ai")
        assert tool_calls_of(answer)[0]["args"] == {"a": 1}
    again = convert_to_messages(ours)
    assert [type(one) for one in again] == [HumanMessage, AIMessage]
    assert get_buffer_string(again) == get_buffer_string(theirs)


def test_a_format_keeps_their_class_and_id():
    picture: Any = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAA"}}
    given = HumanMessage([picture], id="1")
    (added,) = add_messages([], [given], format="langchain-openai")
    assert added == HumanMessage([{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAA"}}], id="1")
    assert given.content == [picture]


def test_a_format_takes_answers_of_tools_out_of_theirs():
    given = HumanMessage([{"type": "tool_result", "tool_use_id": "c1", "content": "42"}], id="1")
    assert add_messages([], [given], format="openai") == [{"role": "tool", "content": "42", "tool_call_id": "c1", "id": "1:c1"}]


def test_the_package_is_never_imported_for_them():
    program = """
import sys
from perdure.graph import add_messages
from perdure.messages import to_anthropic, to_openai
messages = add_messages(["a"], [("ai", "b")], format="openai")
to_openai(messages), to_anthropic(messages)
print([name for name in ("langchain_core", "openai", "anthropic", "pydantic") if name in sys.modules])
"""
    child = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert child.stdout == "[]\n", child.stderr
