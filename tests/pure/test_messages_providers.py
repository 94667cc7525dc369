"""`to_openai` and `to_anthropic` give what those packages accept: only known keys, each of its kind.

The shapes below are those of the packages' own parameter types; `test_messages_sdk_types.py` asks the packages where they are installed.
"""

from __future__ import annotations

import json
from typing import Any

import pydantic
import pytest

from perdure.errors import InvalidUpdateError
from perdure.messages import Message, RemoveMessage, to_anthropic, to_openai

CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
CUSTOM = {"id": "c2", "type": "custom", "custom": {"name": "sql", "input": "select 1"}}
PNG = "data:image/png;base64,AAAA"
PDF = "data:application/pdf;base64,AAAA"


class Model(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="allow")


class OpenAIMessage(Model):
    """As `openai.types.chat.ChatCompletionMessage`."""

    content: str | None = None
    refusal: str | None = None
    role: str
    annotations: list[Any] | None = None
    audio: Any = None
    tool_calls: list[Model] | None = None


class AnthropicMessage(Model):
    """As `anthropic.types.Message`."""

    id: str
    content: list[Model]
    role: str
    type: str = "message"
    stop_reason: str | None = None


OPENAI = OpenAIMessage.model_validate(
    {"role": "assistant", "content": None, "refusal": None, "annotations": [], "tool_calls": [CALL]}
)
ANTHROPIC = AnthropicMessage.model_validate(
    {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "stop_reason": "tool_use",
        "content": [
            {"type": "thinking", "thinking": "hm", "signature": "s"},
            {"type": "text", "text": "let me", "citations": None},
            {"type": "tool_use", "id": "c1", "name": "f", "input": {"a": None}},
        ],
    }
)


def test_openai_gets_only_what_it_knows():
    messages = [
        {"role": "developer", "content": "be nice", "id": "0"},
        {"role": "user", "content": "hi", "name": "bob", "id": "1", "mark": "x"},
        {"role": "assistant", "content": None, "tool_calls": [CALL, CUSTOM], "id": "2", "usage": {}},
        {"role": "tool", "content": "42", "tool_call_id": "c1", "name": "f", "status": "error", "id": "3"},
        {"role": "function", "content": "1", "name": "g"},
        {"role": "assistant", "content": None, "audio": {"id": "au1", "data": "AAAA", "transcript": "x"}},
        {"role": "assistant", "content": None, "refusal": "no"},
        "a text",
    ]
    assert to_openai(messages) == [
        {"role": "developer", "content": "be nice"},
        {"role": "user", "content": "hi", "name": "bob"},
        {"role": "assistant", "content": None, "tool_calls": [CALL, CUSTOM]},
        {"role": "tool", "content": "42", "tool_call_id": "c1"},
        {"role": "function", "content": "1", "name": "g"},
        {"role": "assistant", "content": None, "audio": {"id": "au1"}},
        {"role": "assistant", "content": None, "refusal": "no"},
        {"role": "user", "content": "a text"},
    ]


@pytest.mark.parametrize("convert", [to_openai, lambda m: to_anthropic(m)["messages"]])
def test_one_message_will_do_and_the_result_is_plain(convert: Any):
    for one in ("hi", ("user", "hi"), {"role": "user", "content": "hi"}, Message(role="user", content="hi", id="1")):
        found = convert(one)
        assert found == convert([one]) == [{"role": "user", "content": "hi"}]
        assert type(found[0]) is dict
        assert json.loads(json.dumps(found)) == found


BLOCKS: list[tuple[Any, Any, Any]] = [
    ({"type": "text", "text": "x"}, {"type": "text", "text": "x"}, {"type": "text", "text": "x"}),
    ("x", {"type": "text", "text": "x"}, {"type": "text", "text": "x"}),
    (
        {"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}},
        {"type": "text", "text": "x"},
        {"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}},
    ),
    ({"type": "input_text", "text": "x"}, {"type": "text", "text": "x"}, {"type": "text", "text": "x"}),
    (
        {"type": "image_url", "image_url": {"url": PNG, "detail": "low"}},
        {"type": "image_url", "image_url": {"url": PNG, "detail": "low"}},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}},
    ),
    (
        {"type": "image_url", "image_url": "https://x/y.png"},
        {"type": "image_url", "image_url": {"url": "https://x/y.png"}},
        {"type": "image", "source": {"type": "url", "url": "https://x/y.png"}},
    ),
    (
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}},
        {"type": "image_url", "image_url": {"url": PNG}},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}},
    ),
    (
        {"type": "image", "source": {"type": "url", "url": "https://x"}, "cache_control": None},
        {"type": "image_url", "image_url": {"url": "https://x"}},
        {"type": "image", "source": {"type": "url", "url": "https://x"}},
    ),
    (
        {"type": "image", "base64": "AAAA", "mime_type": "image/png"},
        {"type": "image_url", "image_url": {"url": PNG}},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}},
    ),
    (
        {"type": "image", "source_type": "url", "url": "https://x"},
        {"type": "image_url", "image_url": {"url": "https://x"}},
        {"type": "image", "source": {"type": "url", "url": "https://x"}},
    ),
    (
        {"type": "file", "file": {"file_data": PDF, "filename": "a.pdf"}},
        {"type": "file", "file": {"file_data": PDF, "filename": "a.pdf"}},
        {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "AAAA"}, "title": "a.pdf"},
    ),
    (
        {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "AAAA"}, "title": "a.pdf"},
        {"type": "file", "file": {"file_data": PDF, "filename": "a.pdf"}},
        {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "AAAA"}, "title": "a.pdf"},
    ),
    (
        {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "long"}},
        {"type": "text", "text": "long"},
        {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "long"}},
    ),
    (
        {"type": "file", "base64": "AAAA", "mime_type": "application/pdf", "filename": "a.pdf"},
        {"type": "file", "file": {"file_data": PDF, "filename": "a.pdf"}},
        {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "AAAA"}, "title": "a.pdf"},
    ),
    (
        {"type": "text-plain", "text": "long", "mime_type": "text/plain"},
        {"type": "text", "text": "long"},
        {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "long"}},
    ),
    ({"type": "file", "file": {"file_id": "f1"}}, {"type": "file", "file": {"file_id": "f1"}}, None),
    (
        {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "mp3"}},
        {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "mp3"}},
        None,
    ),
    (
        {"type": "audio", "base64": "AAAA", "mime_type": "audio/wav"},
        {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
        None,
    ),
    (
        {"type": "document", "source": {"type": "url", "url": "https://x/a.pdf"}},
        None,
        {"type": "document", "source": {"type": "url", "url": "https://x/a.pdf"}},
    ),
    ({"type": "search_result", "title": "t"}, None, {"type": "search_result", "title": "t"}),
    ({"type": "audio", "url": "https://x/a.ogg"}, None, None),
    ({"type": "non_standard", "value": {}}, None, None),
    ({"text": "no type"}, None, None),
]


@pytest.mark.parametrize(("block", "openai", "anthropic"), BLOCKS)
def test_a_block_becomes_that_of_the_provider_or_is_named(block: Any, openai: Any, anthropic: Any):
    other = {"type": "text", "text": "and"}
    message = {"role": "user", "content": [other, block]}
    for convert, expected in ((to_openai, openai), (lambda m: to_anthropic(m)["messages"], anthropic)):
        if expected is not None:
            assert convert([message]) == [{"role": "user", "content": [other, expected]}]
            continue
        with pytest.raises(ValueError, match=r"message 1 \(role 'user'\) holds a block of type .* cannot take"):
            convert(["hi", message])


@pytest.mark.parametrize(
    "answer",
    [
        OPENAI,
        ANTHROPIC,
        {"role": "assistant", "content": ANTHROPIC.content},
        {"role": "assistant", "content": None, "tool_calls": OPENAI.tool_calls},
    ],
)
@pytest.mark.parametrize(
    "result",
    [
        {"role": "tool", "content": "42", "tool_call_id": "c1"},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "42"}]},
    ],
)
def test_a_round_with_a_tool_fits_either_provider(answer: Any, result: Any):
    openai = to_openai(["hi", answer, result, "thanks"])
    assert [message["role"] for message in openai] == ["user", "assistant", "tool", "user"]
    assert [call["id"] for call in openai[1]["tool_calls"]] == ["c1"]
    assert openai[2] == {"role": "tool", "content": "42", "tool_call_id": "c1"}
    anthropic = to_anthropic(["hi", answer, result, "thanks"])["messages"]
    assert [message["role"] for message in anthropic] == ["user", "assistant", "user"]
    assert [block["type"] for block in anthropic[1]["content"]][-1] == "tool_use"
    assert anthropic[2]["content"] == [
        {"type": "tool_result", "tool_use_id": "c1", "content": "42"},
        {"type": "text", "text": "thanks"},
    ]


def test_anthropics_own_answer_goes_back_unchanged():
    """Thoughts are signed, and their order counts."""
    assert to_anthropic([ANTHROPIC])["messages"] == [
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "hm", "signature": "s"},
                {"type": "text", "text": "let me"},
                {"type": "tool_use", "id": "c1", "name": "f", "input": {"a": None}},
            ],
        }
    ]


def test_thoughts_without_a_signature_and_thoughts_for_openai_are_left_out():
    content = [
        {"type": "reasoning", "reasoning": "r"},
        {"type": "redacted_thinking", "data": "d"},
        {"type": "text", "text": "x"},
    ]
    message = {"role": "assistant", "content": content}
    assert to_openai([message]) == [{"role": "assistant", "content": [{"type": "text", "text": "x"}]}]
    assert to_anthropic([message])["messages"][0]["content"] == [
        {"type": "redacted_thinking", "data": "d"},
        {"type": "text", "text": "x"},
    ]


def test_instructions_are_apart_for_anthropic():
    assert to_anthropic(["hi"]) == {"messages": [{"role": "user", "content": "hi"}]}
    found = to_anthropic([("system", "a"), "hi", {"role": "developer", "content": [{"type": "text", "text": "b"}]}])
    assert found == {"system": "a\n\nb", "messages": [{"role": "user", "content": "hi"}]}
    cached = {"type": "text", "text": "b", "cache_control": {"type": "ephemeral"}}
    assert to_anthropic([("system", "a"), ("system", [cached])])["system"] == [{"type": "text", "text": "a"}, cached]
    with pytest.raises(ValueError, match="more than text"):
        to_anthropic([("system", [{"type": "image_url", "image_url": {"url": PNG}}])])


def test_turns_alternate_and_are_never_empty_for_anthropic():
    found = to_anthropic(["a", "b", ("ai", ""), ("ai", [{"type": "text", "text": ""}]), "c", ("ai", "x"), ("ai", "y")])
    assert found["messages"] == [
        {"role": "user", "content": [{"type": "text", "text": text} for text in "abc"]},
        {"role": "assistant", "content": [{"type": "text", "text": text} for text in "xy"]},
    ]


def test_answers_of_tools_come_first_for_anthropic():
    messages = [OPENAI, "wait", {"role": "tool", "content": "42", "tool_call_id": "c1", "status": "error"}]
    assert to_anthropic(messages)["messages"][1]["content"] == [
        {"type": "tool_result", "tool_use_id": "c1", "content": "42", "is_error": True},
        {"type": "text", "text": "wait"},
    ]


@pytest.mark.parametrize(
    ("call", "input"),
    [
        ({"id": "c", "function": {"name": "f", "arguments": "{broken"}}, {"arguments": "{broken"}),
        ({"id": "c", "function": {"name": "f", "arguments": ""}}, {}),
        ({"id": "c", "custom": {"name": "f", "input": "x"}}, {"input": "x"}),
    ],
)
def test_arguments_are_an_object_for_anthropic(call: Any, input: Any):
    found = to_anthropic([{"role": "assistant", "content": None, "tool_calls": [call]}])["messages"]
    assert found[0]["content"] == [{"type": "tool_use", "id": "c", "name": "f", "input": input}]


def test_a_refusal_is_words_for_anthropic():
    assert to_anthropic([{"role": "assistant", "content": None, "refusal": "no"}])["messages"] == [
        {"role": "assistant", "content": "no"}
    ]
    assert to_openai([{"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]}])[0]["content"] == [
        {"type": "refusal", "refusal": "no"}
    ]


PICTURE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}


def test_a_tool_may_answer_with_a_picture_to_anthropic_only():
    message = {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "see"}, PICTURE]}
    assert to_anthropic([message])["messages"][0]["content"][0]["content"] == message["content"]
    with pytest.raises(ValueError, match="only text"):
        to_openai([message])
    with pytest.raises(ValueError, match="tool's answer"):
        to_anthropic([message | {"content": [{"type": "tool_use", "id": "1", "name": "f", "input": {}}]}])
    with pytest.raises(ValueError, match="an assistant's content is text"):
        to_openai([{"role": "assistant", "content": [PICTURE]}])


@pytest.mark.parametrize("convert", [to_openai, to_anthropic])
def test_what_no_model_could_read_is_refused(convert: Any):
    with pytest.raises(ValueError, match="add_messages"):
        convert([RemoveMessage("1")])
    with pytest.raises(InvalidUpdateError):
        convert([5])
    with pytest.raises(ValueError, match="tool_call_id"):
        to_anthropic([{"role": "function", "content": "1", "name": "g"}])


@pytest.mark.parametrize("convert", [to_openai, to_anthropic])
def test_what_is_converted_is_not_changed(convert: Any):
    messages = [
        Message(role="assistant", content=[{"type": "tool_use", "id": "c1", "name": "f", "input": {}}], id="1"),
        {"role": "user", "content": [PICTURE]},
    ]
    before = json.dumps(messages)
    convert(messages)
    assert json.dumps(messages) == before
