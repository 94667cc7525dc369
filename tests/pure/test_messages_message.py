"""A `Message` is a dict of the chat-completions shape, with attributes."""

from __future__ import annotations

import copy
import json
import pickle
import subprocess
import sys
from typing import Any

import pydantic
import pytest

from perdure.checkpoint.serde.jsonplus import JsonPlusSerializer
from perdure.errors import InvalidUpdateError
from perdure.messages import REMOVE_ALL_MESSAGES, Message, RemoveMessage, to_message, tool_calls_of

CALL = {"id": "c1", "type": "function", "function": {"name": "search", "arguments": '{"q": "x"}'}}


def test_a_message_is_a_dict_with_attributes():
    message = Message(role="user", content="hi", id="1", name="bob")
    assert isinstance(message, dict)
    assert message == {"role": "user", "content": "hi", "id": "1", "name": "bob"}
    assert (message.role, message.type, message.content, message.id, message.name) == ("user", "human", "hi", "1", "bob")
    assert message.tool_calls == []
    assert message.tool_call_id is None
    assert Message(message) == message


@pytest.mark.parametrize(
    "rebuilt",
    [lambda m: json.loads(json.dumps(m)), dict, lambda m: {**m}, lambda m: m | {}],
    ids=["json", "dict", "spread", "or"],
)
def test_the_id_survives_what_makes_plain_dicts(rebuilt: Any):
    message = Message(role="assistant", content=None, tool_calls=[CALL], id="a")
    plain = rebuilt(message)
    assert type(plain) is dict
    assert plain["id"] == "a"
    assert Message(plain) == message


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m)), lambda m: m.copy()])
@pytest.mark.parametrize("message", [Message(role="user", content=["hi"], id="1"), RemoveMessage("1")])
def test_copies_are_messages(copied: Any, message: Message):
    twin = copied(message)
    assert (type(twin), twin) == (type(message), message)
    twin["content"] = "other"
    assert message["content"] != "other"


@pytest.mark.parametrize(
    ("given", "role", "kind"),
    [
        ("human", "user", "human"),
        ("ai", "assistant", "ai"),
        ("user", "user", "human"),
        ("assistant", "assistant", "ai"),
        ("system", "system", "system"),
        ("developer", "developer", "system"),
        ("function", "function", "function"),
    ],
)
def test_roles_are_kept_as_chat_completions_name_them(given: str, role: str, kind: str):
    for message in (Message(role=given, content="x"), Message(type=given, content="x")):
        assert (message["role"], message.type) == (role, kind)
        assert "type" not in message


def test_none_is_left_out_except_an_assistants_content():
    message = Message(role="assistant", content=None, refusal=None, audio=None, function_call=None, tool_calls=[CALL])
    assert message == {"role": "assistant", "content": None, "tool_calls": [CALL]}
    assert message.content == ""
    assert Message(role="assistant", content="x", tool_calls=[]) == {"role": "assistant", "content": "x"}


def test_an_id_is_text():
    assert Message(role="user", content="x", id=7).id == "7"


def test_tool_calls_of_other_shapes_are_kept_in_one():
    expected = [{"id": "c1", "type": "function", "function": {"name": "search", "arguments": '{"q": "ü"}'}}]
    langchain = Message(
        role="ai", content="", tool_calls=[{"name": "search", "args": {"q": "ü"}, "id": "c1", "type": "tool_call"}]
    )
    anthropic = Message(role="assistant", content=[{"type": "tool_use", "id": "c1", "name": "search", "input": {"q": "ü"}}])
    assert langchain["tool_calls"] == langchain.tool_calls == expected
    assert "tool_calls" not in anthropic
    assert anthropic.tool_calls == expected


@pytest.mark.parametrize(
    ("call", "name", "args"),
    [
        (CALL, "search", {"q": "x"}),
        ({"id": "c1", "function": {"name": "f", "arguments": ""}}, "f", {}),
        ({"id": "c1", "function": {"name": "f", "arguments": "{broken"}}, "f", {"arguments": "{broken"}),
        ({"id": "c1", "function": {"name": "f", "arguments": "[1]"}}, "f", {"arguments": "[1]"}),
        ({"id": "c1", "type": "custom", "custom": {"name": "sql", "input": "select 1"}}, "sql", {"input": "select 1"}),
        ({"id": "c1", "name": "f", "args": {"a": None}}, "f", {"a": None}),
        ({"id": "c1", "name": "f", "args": None}, "f", {}),
    ],
)
def test_the_calls_of_a_message_with_their_arguments(call: dict[str, Any], name: str, args: dict[str, Any]):
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    assert tool_calls_of(message) == [{"name": name, "args": args, "id": "c1", "type": "tool_call"}]


def test_text_is_what_is_said():
    blocks = ["a", {"type": "text", "text": "b"}, {"type": "image_url", "image_url": {"url": "https://x"}}]
    assert Message(role="user", content=blocks).text == "ab"
    assert Message(role="user", content="c").text == "c"
    assert Message(role="assistant", content=None, refusal="no").text == ""


class Piece(pydantic.BaseModel):
    type: str = "text"
    text: str
    citations: list[str] | None = None


def test_objects_of_a_providers_package_inside_become_plain():
    """`{"role": "assistant", "content": response.content}` is how its own manual keeps an answer."""
    message = Message(role="assistant", content=[Piece(type="text", text="hi")], usage={"parts": (Piece(text="x"),)})
    assert json.loads(json.dumps(message)) == {
        "role": "assistant",
        "content": [{"type": "text", "text": "hi"}],
        "usage": {"parts": [{"text": "x"}]},
    }


def test_P35_a_message_is_detached_from_what_it_was_made_of():
    blocks = [{"type": "text", "text": "hi"}]
    calls = [{"name": "f", "args": {}, "id": "1"}]
    given = {"role": "assistant", "content": blocks, "tool_calls": calls, "extra": {"a": [1]}}
    before = copy.deepcopy(given)
    message = Message(given)
    message["content"][0]["text"] = "changed"
    message["extra"]["a"].append(2)
    message["tool_calls"].clear()
    assert given == before


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({}, "role"),
        ({"content": "x"}, "role"),
        ({"role": "usr", "content": "x"}, "'usr'"),
        ({"role": 5, "content": "x"}, "role"),
        ({"role": "user"}, "content"),
        ({"role": "user", "content": None}, "content"),
        ({"role": "user", "content": 5}, "content"),
        ({"role": "user", "content": {"type": "text"}}, "content"),
        ({"role": "user", "content": [5]}, "content"),
        ({"role": "assistant"}, "content"),
        ({"role": "tool", "content": "x"}, "tool_call_id"),
        ({"role": "remove"}, "id"),
        ({"role": "assistant", "tool_calls": [5]}, "tool call"),
        ({"role": "assistant", "tool_calls": [{"id": "1"}]}, "tool call"),
    ],
)
def test_what_is_no_message_is_refused(given: dict[str, Any], named: str):
    with pytest.raises(InvalidUpdateError, match=named):
        Message(given)


@pytest.mark.parametrize("value", [5, None, object(), ("user",), ("a", "b", "c"), [], b"x", Message])
def test_what_cannot_be_a_message_is_refused_by_type(value: Any):
    with pytest.raises(InvalidUpdateError, match=r"(?s)no message.*got"):
        to_message(value)


@pytest.mark.parametrize(
    "value", ["hi", ("user", "hi"), ["human", "hi"], {"role": "user", "content": "hi"}, {"type": "human", "content": "hi"}]
)
def test_texts_pairs_and_dicts_are_messages(value: Any):
    assert to_message(value) == {"role": "user", "content": "hi"}


def test_a_removal_is_a_message_too():
    removal = RemoveMessage(id="7")
    assert (removal.id, removal.type, removal.role, removal.content) == ("7", "remove", "remove", "")
    for value in (removal, json.loads(json.dumps(removal)), {"type": "remove", "id": "7"}):
        back = to_message(value)
        assert (type(back), back) == (RemoveMessage, removal)
    assert REMOVE_ALL_MESSAGES == "__remove_all__"


def test_repr_can_be_read():
    assert repr(Message(role="user", content="hi", id="1")) == "Message(role='user', content='hi', id='1')"


STORED = [Message(role="user", content=[{"type": "text", "text": "hi"}], id="1"), {"gone": RemoveMessage("2")}]


def test_messages_are_stored_as_what_they_are():
    serde = JsonPlusSerializer()
    back = serde.loads_typed(serde.dumps_typed(STORED))
    assert back == STORED
    assert (type(back[0]), type(back[1]["gone"])) == (Message, RemoveMessage)


def test_a_stored_message_loads_where_nobody_has_imported_messages():
    program = """
import sys
from perdure.checkpoint.serde.jsonplus import JsonPlusSerializer
assert "perdure.messages" not in sys.modules
print([type(one).__name__ for one in JsonPlusSerializer().loads_typed(("msgpack", bytes.fromhex(sys.argv[1])))])
"""
    tag, data = JsonPlusSerializer().dumps_typed([STORED[0], RemoveMessage("2")])
    assert tag == "msgpack"
    child = subprocess.run([sys.executable, "-c", program, data.hex()], capture_output=True, text=True, check=False)
    assert child.stdout == "['Message', 'RemoveMessage']\n", child.stderr


def test_a_stored_name_does_not_depend_on_where_the_class_is():
    _, data = JsonPlusSerializer().dumps_typed(STORED)
    assert b"perdure:Message" in data
    assert b"perdure:RemoveMessage" in data
    assert b"perdure.messages" not in data
