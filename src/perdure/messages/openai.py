"""Messages as OpenAI's chat completions take them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from perdure.errors import InvalidArgument
from perdure.messages.blocks import Block, Call, Media, Part, Result, Text, Thought, parts_of
from perdure.messages.calls import chat_call
from perdure.messages.message import REMOVE, Message
from perdure.messages.reading import each, to_message

_OWN_KEYS: Final[Mapping[str, frozenset[str]]] = {
    "text": frozenset({"type", "text", "prompt_cache_breakpoint"}),
    "refusal": frozenset({"type", "refusal"}),
    "image_url": frozenset({"type", "image_url", "prompt_cache_breakpoint"}),
    "input_audio": frozenset({"type", "input_audio", "prompt_cache_breakpoint"}),
    "file": frozenset({"type", "file", "prompt_cache_breakpoint"}),
}
"""OpenAI's own blocks and their keys: it refuses others."""
_AUDIO: Final[Mapping[str, str]] = {"audio/wav": "wav", "audio/x-wav": "wav", "audio/mp3": "mp3", "audio/mpeg": "mp3"}


def to_openai(messages: Any) -> list[dict[str, Any]]:
    """What `client.chat.completions.create(messages=...)` takes.

    A list of messages of any kind, or one message. Ids and all that chat completions do not know are left out; Anthropic's tool calls and
    tool results become tool calls and messages of role "tool"; pictures, documents and sounds of other shapes become OpenAI's. Thoughts of
    a model are left out.

    Raises:
        InvalidArgument: a block has no counterpart there; the text names it and its message.
        InvalidUpdateError: something is no message.
    """
    found: list[dict[str, Any]] = []
    for index, message in enumerate(each(messages)):
        found.extend(chat_messages(to_message(message), f"message {index}"))
    return found


def chat_messages(message: Message, where: str) -> list[dict[str, Any]]:
    """One message as chat completions have it: several if it holds several tool results.

    Raises:
        InvalidArgument: a block has no counterpart there.
    """
    role = message.role
    where = f"{where} (role {role!r})"
    if role == REMOVE:
        raise InvalidArgument(
            f"{where} removes another one, and is nothing that a model could read; pass the list that add_messages returns"
        )
    if role == "assistant":
        return [_assistant(message, where)]
    if role == "tool":
        return [{"role": role, "content": _texts(message["content"], where), "tool_call_id": message["tool_call_id"]}]
    if role == "function":
        return [{"role": role, "content": message.text, "name": message.get("name", "")}]
    named = {"name": message["name"]} if message.name else {}
    if role != "user":
        return [{"role": role, "content": _texts(message["content"], where), **named}]
    return _user(message["content"], named, where)


def _user(content: Any, named: dict[str, str], where: str) -> list[dict[str, Any]]:
    if isinstance(content, str):
        return [{"role": "user", "content": content, **named}]
    results: list[dict[str, Any]] = []
    blocks: list[dict[str, Any]] = []
    for part, block in parts_of(content):
        if isinstance(part, Result):
            results.append({"role": "tool", "content": _texts(part.content, where), "tool_call_id": part.call_id})
        else:
            blocks.append(_block(part, block, where))
    return [*results, {"role": "user", "content": blocks, **named}] if blocks or not results else results


def _assistant(message: Message, where: str) -> dict[str, Any]:
    content = message["content"]
    calls = [_call(call) for call in message.get("tool_calls") or ()]
    if isinstance(content, list):
        known = {call["id"] for call in calls}
        blocks = []
        for part, block in parts_of(content):
            if isinstance(part, Call):
                # LangChain has the calls of an Anthropic model twice: in the content, and beside it.
                if part.id not in known:
                    calls.append(chat_call({"id": part.id, "name": part.name, "args": part.args}))
            elif not isinstance(part, Thought):
                blocks.append(_spoken(part, block, where))
        content = blocks or (None if calls else "")
    found: dict[str, Any] = {"role": "assistant", "content": content}
    for key in ("name", "refusal", "function_call"):
        if message.get(key) is not None:
            found[key] = message[key]
    if message.get("audio") is not None:
        found["audio"] = {"id": message["audio"]["id"]}
    if calls:
        found["tool_calls"] = calls
    return found


def _call(call: dict[str, Any]) -> dict[str, Any]:
    if "custom" in call:
        return {"id": call["id"], "type": "custom", "custom": {key: call["custom"][key] for key in ("name", "input")}}
    return {"id": call.get("id"), "type": "function", "function": {key: call["function"][key] for key in ("name", "arguments")}}


def _spoken(part: Part, block: Block, where: str) -> dict[str, Any]:
    if isinstance(part, Text):
        return {"type": "refusal", "refusal": part.text} if part.refusal else _block(part, block, where)
    raise _no_counterpart(block, where, "an assistant's content is text there")


def _texts(content: Any, where: str) -> Any:
    """A content that may only be text."""
    if isinstance(content, str):
        return content
    blocks = []
    for part, block in parts_of(content):
        if isinstance(part, Media) and part.text is not None:
            blocks.append({"type": "text", "text": part.text})
        elif isinstance(part, Text):
            blocks.append(_block(part, block, where))
        else:
            raise _no_counterpart(block, where, "only text can stand in such a message there")
    return blocks


def _block(part: Part, block: Block, where: str) -> dict[str, Any]:
    own = _OWN_KEYS.get(str(block.get("type")))
    if own is not None and (block["type"] != "file" or "file" in block):
        kept = {key: value for key, value in block.items() if key in own and value is not None}
        if isinstance(kept.get("image_url"), str):
            kept["image_url"] = {"url": kept["image_url"]}
        return kept
    if isinstance(part, Text):
        return {"type": "text", "text": part.text}
    found = _medium(part) if isinstance(part, Media) else None
    if found is None:
        raise _no_counterpart(block, where)
    return found


def _medium(part: Media) -> dict[str, Any] | None:
    """A picture, sound or document as chat completions have it; None if they cannot."""
    if part.text is not None:
        return {"type": "text", "text": part.text}
    if part.kind == "image":
        url = part.url if part.data is None else f"data:{part.mime};base64,{part.data}"
        return None if url is None else {"type": "image_url", "image_url": {"url": url}}
    if part.kind == "audio":
        format_ = _AUDIO.get(part.mime or "")
        if part.data is None or format_ is None:
            return None
        return {"type": "input_audio", "input_audio": {"data": part.data, "format": format_}}
    if part.file_id is not None:
        return {"type": "file", "file": {"file_id": part.file_id}}
    if part.data is None:
        return None
    name = part.name or ("document.pdf" if part.mime == "application/pdf" else "document")
    return {"type": "file", "file": {"filename": name, "file_data": f"data:{part.mime};base64,{part.data}"}}


def _no_counterpart(block: Block, where: str, why: str = "") -> ValueError:
    return ValueError(
        f"{where} holds a block of type {block.get('type')!r}, which OpenAI's chat completions cannot take{': ' + why if why else ''}. "
        "Leave it out, or put what it says as text"
    )
