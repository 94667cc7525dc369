"""A writer of a message by itself: what it makes of what it is given."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from perdure.graph import add_messages
from perdure.messages import Message, MessageChunk, to_openai, tool_calls_of
from perdure.streaming.writer import MessageWriter


def writer(**options: Any) -> tuple[MessageWriter, list[MessageChunk]]:
    pieces: list[MessageChunk] = []
    return MessageWriter(pieces.append, **options), pieces


def test_pieces_of_text_become_a_message():
    out, pieces = writer(id="m1")
    out.write("Hel")
    out.write("")
    out.write("lo")
    assert out.message == {"role": "assistant", "content": "Hello", "id": "m1"}
    assert out.done() == {"role": "assistant", "content": "Hello", "id": "m1"}
    assert type(out.done()) is Message
    assert pieces == [{"role": "assistant", "content": text, "id": "m1"} for text in ("Hel", "lo")]


def test_a_role_and_a_name_are_on_each_piece():
    out, pieces = writer(role="user", name="ada")
    out.write("x")
    assert (pieces[0].role, pieces[0].name, pieces[0].id, pieces[0].type) == ("user", "ada", out.id, "human")
    assert out.done() == {"role": "user", "content": "x", "name": "ada", "id": out.id}


def test_two_messages_have_two_ids():
    assert writer()[0].id != writer()[0].id


def test_a_tool_call_can_be_given_whole():
    out, pieces = writer()
    out.tool_call("search", {"q": "é"}, id="c1")
    message = out.done()
    assert (message["content"], message.tool_calls) == (
        None,
        [{"id": "c1", "type": "function", "function": {"name": "search", "arguments": '{"q": "é"}'}}],
    )
    assert tool_calls_of(message) == [{"name": "search", "args": {"q": "é"}, "id": "c1", "type": "tool_call"}]
    assert to_openai([message])[0]["tool_calls"] == message.tool_calls
    assert pieces[0].tool_calls == [{"index": 0, **message.tool_calls[0]}]


def test_tool_calls_come_in_pieces_by_order_or_by_index():
    out, pieces = writer(id="m")
    out.write("Let me see.")
    out.tool_call("a", id="c1")
    out.tool_call(arguments='{"x":')
    out.tool_call(arguments="1}")
    out.tool_call("b", id="c2", index=7)
    out.tool_call(arguments="{}", index=7)
    out.tool_call(arguments=" ", index=0)
    message = out.done()
    assert [(call["id"], call["function"]) for call in message.tool_calls] == [
        ("c1", {"name": "a", "arguments": '{"x":1} '}),
        ("c2", {"name": "b", "arguments": "{}"}),
    ]
    assert message.content == "Let me see."
    assert [piece.tool_calls[0]["index"] for piece in pieces[1:]] == [0, 0, 0, 7, 7, 0]
    assert sum(pieces[1:], pieces[0]).whole() == message


def test_what_chat_completions_stream_can_be_passed_on():
    """Each delta has the index of its call; id and name come with the first."""
    out, _ = writer()
    for index, id, name, arguments in [
        (0, "c1", "f", ""),
        (0, None, None, '{"a"'),
        (1, "c2", "g", "{}"),
        (0, None, None, ":1}"),
    ]:
        out.tool_call(name, arguments, id=id, index=index)
    assert [call["args"] for call in tool_calls_of(out.done())] == [{"a": 1}, {}]


def test_a_call_without_an_id_gets_one_and_without_a_name_is_refused():
    out, pieces = writer()
    out.tool_call("f")
    assert out.done().tool_calls[0]["id"] == pieces[0].tool_calls[0]["id"] != ""
    assert out.done().tool_calls[0]["function"]["arguments"] == "{}"
    with pytest.raises(ValueError, match="begins with the name"):
        writer()[0].tool_call(arguments="{}")


def test_other_keys_come_with_the_last_piece():
    out, pieces = writer(id="m")
    out.write("x")
    message = out.done(usage={"output_tokens": 1})
    assert message == {"role": "assistant", "content": "x", "usage": {"output_tokens": 1}, "id": "m"}
    assert pieces[-1] == {"role": "assistant", "content": "", "usage": {"output_tokens": 1}, "id": "m"}
    assert (pieces[0] + pieces[1]).whole() == message


def test_a_message_that_is_done_takes_no_more():
    out, _ = writer()
    out.write("x")
    assert out.done() is out.done()
    with pytest.raises(RuntimeError, match="is done"):
        out.write("y")
    with pytest.raises(RuntimeError, match="is done"):
        out.tool_call("f")


def test_an_empty_message_has_an_empty_content():
    assert writer()[0].done().content == ""


def test_it_awaits_in_async_code():
    waited = []

    async def caught_up() -> None:
        waited.append(1)

    async def main() -> Message:
        out = MessageWriter(lambda _: None, caught_up)
        await out.awrite("x")
        await out.atool_call("f", {})
        alone = MessageWriter()
        await alone.awrite("y")
        return alone.done()

    assert asyncio.run(main()).content == "y"
    assert len(waited) == 2


def test_a_piece_is_plain_data():
    out, pieces = writer(id="m")
    out.tool_call("f", {"a": 1}, id="c")
    assert json.loads(json.dumps(pieces[0])) == pieces[0]
    assert MessageChunk(content="x") == {"role": "assistant", "content": "x"}
    assert pieces[0].copy() == pieces[0]
    assert type(pieces[0].copy()) is MessageChunk


def test_pieces_of_two_messages_do_not_add_up():
    with pytest.raises(ValueError, match="different messages"):
        MessageChunk(id="a") + MessageChunk(id="b")


def test_a_sum_of_pieces_may_be_written_to_a_conversation():
    pieces = MessageChunk(id="a", content="x") + MessageChunk(id="a", content="y")
    (added,) = add_messages([], pieces)
    assert (type(added), added) == (Message, {"role": "assistant", "content": "xy", "id": "a"})
