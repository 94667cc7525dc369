"""Where the packages of OpenAI and Anthropic are installed, their own types say whether they accept what is given to them."""

from __future__ import annotations

import collections.abc
import types
import typing
from typing import Any, Union, get_args, get_origin, get_type_hints

import pytest
import typing_extensions

from perdure.checkpoint.serde.jsonplus import JsonPlusSerializer
from perdure.graph import add_messages
from perdure.messages import to_anthropic, to_message, to_openai

chat: Any = pytest.importorskip("openai.types.chat")
anthropic: Any = pytest.importorskip("anthropic.types")

WRAPPERS = (typing.Required, typing.NotRequired, typing_extensions.Required, typing_extensions.NotRequired, typing.Annotated)


def misfits(value: Any, declared: Any, path: str = "$") -> list[str]:
    """Where a value does not fit a declared type; unlike pydantic it finds keys that a TypedDict does not have."""
    origin, arguments = get_origin(declared), get_args(declared)
    if declared is Any or declared is object:
        return []
    if origin in WRAPPERS:
        return misfits(value, arguments[0], path)
    if origin in (Union, types.UnionType):
        found = [misfits(value, one, path) for one in arguments]
        return [] if [] in found else min(found, key=len)
    if origin is typing.Literal:
        return [] if value in arguments else [f"{path}: {value!r}"]
    if typing_extensions.is_typeddict(declared):
        return misfits_of_keys(value, declared, path)
    if origin in (collections.abc.Iterable, list, collections.abc.Sequence):
        if not isinstance(value, list):
            return [f"{path}: no list"]
        return [line for index, item in enumerate(value) for line in misfits(item, arguments[0], f"{path}[{index}]")]
    if origin in (dict, collections.abc.Mapping):
        return [] if isinstance(value, dict) else [f"{path}: no dict"]
    return [] if isinstance(value, origin or declared) else [f"{path}: no {declared}"]


def misfits_of_keys(value: Any, declared: Any, path: str) -> list[str]:
    if not isinstance(value, dict):
        return [f"{path}: no dict"]
    hints = get_type_hints(declared, include_extras=True)
    found = [f"{path}.{key}: unknown" for key in value if key not in hints]
    found += [f"{path}.{key}: missing" for key, hint in hints.items() if key not in value and get_origin(hint) in WRAPPERS[::2]]
    return found + [line for key in value if key in hints for line in misfits(value[key], hints[key], f"{path}.{key}")]


CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
OPENAI = chat.ChatCompletionMessage.model_validate(
    {"role": "assistant", "content": None, "refusal": None, "annotations": [], "audio": None, "tool_calls": [CALL]}
)
ANTHROPIC = anthropic.Message.model_validate(
    {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [
            {"type": "thinking", "thinking": "hm", "signature": "s"},
            {"type": "text", "text": "let me", "citations": None},
            {"type": "tool_use", "id": "c1", "name": "f", "input": {"a": None, "b": 1}},
        ],
        "stop_reason": "tool_use",
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 2},
    }
)
OPENING = [
    ("system", "be nice"),
    {"role": "developer", "content": [{"type": "text", "text": "x"}]},
    "hi",
    {
        "role": "user",
        "name": "bob",
        "content": [
            {"type": "text", "text": "see", "cache_control": {"type": "ephemeral"}},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA", "detail": "low"}},
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA"}},
            {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "AA"}, "title": "t.pdf"},
            {"type": "image", "base64": "AA", "mime_type": "image/png"},
            {"type": "file", "file": {"file_data": "data:application/pdf;base64,AA", "filename": "a.pdf"}},
        ],
    },
]


@pytest.mark.parametrize("answer", [OPENAI, ANTHROPIC, {"role": "assistant", "content": ANTHROPIC.content}])
@pytest.mark.parametrize(
    "result",
    [
        {"role": "tool", "content": "42", "tool_call_id": "c1", "status": "error"},
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "42"}]}],
        },
    ],
)
def test_their_types_accept_what_they_are_given(answer: Any, result: Any):
    messages = add_messages([], [*OPENING, answer, result, "thanks"])
    assert misfits(to_openai(messages), list[chat.ChatCompletionMessageParam]) == []
    found = to_anthropic(messages)
    assert misfits(found["messages"], list[anthropic.MessageParam]) == []
    assert misfits(found["system"], Union[str, list[anthropic.TextBlockParam]]) == []


def test_the_check_sees_what_is_wrong():
    param = list[chat.ChatCompletionMessageParam]
    assert misfits([{"role": "user", "content": "x", "id": "1"}], param) == ["$[0].id: unknown"]
    assert misfits([{"role": "user"}], param) == ["$[0].content: missing"]


def test_their_messages_pass_through_and_are_stored():
    added = add_messages([], [OPENAI, ANTHROPIC])
    assert added[0] is OPENAI
    assert added[1] is ANTHROPIC
    serde = JsonPlusSerializer()
    back = serde.loads_typed(serde.dumps_typed(added))
    assert back == added
    assert type(back[1].content[2]) is type(ANTHROPIC.content[2])
    assert to_message(back[0]) == {"role": "assistant", "content": None, "annotations": [], "tool_calls": [CALL]}
    assert [message.role for message in add_messages(added, {"role": "remove", "id": "msg_1"})] == ["assistant"]
