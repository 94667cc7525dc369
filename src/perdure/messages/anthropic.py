"""Messages as Anthropic's messages API takes them."""

from __future__ import annotations

from typing import Any, Final, Literal, NotRequired, TypedDict

from perdure.errors import InvalidArgument
from perdure.messages.blocks import Block, Call, Media, Part, Result, Text, Thought, parts_of
from perdure.messages.calls import name_and_arguments
from perdure.messages.message import REMOVE, Message
from perdure.messages.reading import each, to_message


class AnthropicInput(TypedDict):
    """Arguments of `client.messages.create`."""

    messages: list[dict[str, Any]]
    system: NotRequired[str | list[dict[str, Any]]]


_RESULT_CONTENT: Final = ("text", "image", "document", "search_result")
_UNKNOWN_KEYS: Final = ("index", "partial_json")
"""Keys that LangChain adds to Anthropic's blocks while they stream."""


def to_anthropic(messages: Any) -> AnthropicInput:
    """What `client.messages.create(..., **to_anthropic(messages))` takes: `messages`, and `system` if there are instructions.

    A list of messages of any kind, or one message. Instructions (roles "system" and "developer"), wherever they stand, make up `system`.
    Tool calls become blocks of the assistant's content, answers of tools become blocks of the user message after it, and messages of one
    role in a row become one. Texts that are empty are left out, and so are thoughts without a signature, and ids and names of messages.
    Arguments of a tool call that are no JSON object become `{"arguments": <the text>}`.

    Raises:
        InvalidArgument: a block has no counterpart there; the text names it and its message.
        InvalidUpdateError: something is no message.
    """
    system: list[Any] = []
    turns: list[tuple[str, list[Any]]] = []
    for index, given in enumerate(each(messages)):
        message = to_message(given)
        where = f"message {index} (role {message.role!r})"
        role, contents = _turn(message, where)
        if role == "system":
            system.extend(contents)
        elif contents:
            if turns and turns[-1][0] == role:
                turns[-1][1].extend(contents)
            else:
                turns.append((role, contents))
    found: AnthropicInput = {"messages": [{"role": role, "content": _content(blocks)} for role, blocks in turns]}
    if system:
        texts = [block["text"] for block in system if block.keys() == {"type", "text"}]
        found["system"] = "\n\n".join(texts) if len(texts) == len(system) else system
    return found


def _content(blocks: list[dict[str, Any]]) -> Any:
    if len(blocks) == 1 and blocks[0].keys() == {"type", "text"}:
        return blocks[0]["text"]
    # Answers of tools come first in what follows their calls; otherwise they are refused.
    return sorted(blocks, key=lambda block: block["type"] != "tool_result")


def _turn(message: Message, where: str) -> tuple[Literal["user", "assistant", "system"], list[dict[str, Any]]]:
    """Whose turn a message belongs to, and its blocks."""
    content = message["content"]
    match message.role:
        case "system" | "developer":
            blocks = _blocks(content, where)
            if any(block["type"] != "text" for block in blocks):
                raise InvalidArgument(f"{where} holds more than text, and instructions for an Anthropic model are text")
            return "system", blocks
        case "user":
            return "user", _blocks(content, where)
        case "tool":
            failed = message.get("status") == "error" or bool(message.get("is_error"))
            return "user", [_result(Result(message["tool_call_id"], content, failed), where)]
        case "assistant":
            return "assistant", _assistant(message, where)
        case "function":
            raise InvalidArgument(f"{where} answers no tool call by its id; use role 'tool' with a tool_call_id")
        case role:
            assert role == REMOVE
            raise InvalidArgument(
                f"{where} removes another one, and is nothing that a model could read; pass the list that add_messages returns"
            )


def _assistant(message: Message, where: str) -> list[dict[str, Any]]:
    blocks = _blocks(message["content"], where)
    if message.get("refusal"):
        blocks.append({"type": "text", "text": message["refusal"]})
    known = {block.get("id") for block in blocks if block["type"] == "tool_use"}
    for call in message.get("tool_calls") or ():
        if call.get("id") not in known:
            name, arguments = name_and_arguments(call)
            blocks.append({"type": "tool_use", "id": call.get("id"), "name": name, "input": arguments})
    return blocks


def _blocks(content: Any, where: str) -> list[dict[str, Any]]:
    found = []
    for part, block in parts_of(content):
        made = _block(part, block, where)
        if made is not None:
            found.append(made)
    return found


def _block(part: Part, block: Block, where: str) -> dict[str, Any] | None:
    """A content block as Anthropic has it; None for one that is left out."""
    match part:
        case Text(text=text):
            if not text:
                return None
            kept = {key: block[key] for key in ("cache_control", "citations") if block.get(key)}
            return {"type": "text", "text": text, **kept}
        case Thought(text=text, signature=signature):
            if block["type"] == "redacted_thinking":
                return {"type": "redacted_thinking", "data": block.get("data")}
            return {"type": "thinking", "thinking": text, "signature": signature} if signature else None
        case Call(id=id, name=name, args=args):
            kept = {key: block[key] for key in ("cache_control", "caller", "toolset_name") if block.get(key)}
            return {"type": "tool_use", "id": id, "name": name, "input": _arguments(args), **kept}
        case Result():
            kept = {key: block[key] for key in ("cache_control", "toolset_name") if block.get(key)}
            return {**_result(part, where), **kept}
        case Media():
            return _medium(part, block, where)
        case _:
            # A block of Anthropic's own: search results, tools that it runs itself, blocks that are newer than this.
            if part.kind in ("None", "non_standard"):
                raise _no_counterpart(block, where)
            return {key: value for key, value in block.items() if value is not None and key not in _UNKNOWN_KEYS}


def _arguments(args: Any) -> dict[str, Any]:
    if isinstance(args, dict):
        return args
    return name_and_arguments({"function": {"name": "", "arguments": args}})[1]


def _result(part: Result, where: str) -> dict[str, Any]:
    content = part.content
    if isinstance(content, list):
        content = _blocks(content, where)
        wrong = next((block for block in content if block["type"] not in _RESULT_CONTENT), None)
        if wrong is not None:
            raise _no_counterpart(wrong, where, "it cannot stand in a tool's answer")
    found = {"type": "tool_result", "tool_use_id": part.call_id, "content": content}
    return {**found, "is_error": True} if part.error else found


def _medium(part: Media, block: Block, where: str) -> dict[str, Any]:
    if block["type"] in ("image", "document") and isinstance(block.get("source"), dict):
        return {key: value for key, value in block.items() if value is not None and key not in _UNKNOWN_KEYS}
    source: dict[str, Any]
    if part.kind == "audio":
        raise _no_counterpart(block, where, "it takes no sound")
    if part.text is not None:
        source = {"type": "text", "media_type": "text/plain", "data": part.text}
    elif part.data is not None:
        source = {
            "type": "base64",
            "media_type": part.mime or ("image/png" if part.kind == "image" else "application/pdf"),
            "data": part.data,
        }
    elif part.url is not None:
        source = {"type": "url", "url": part.url}
    elif part.file_id is not None and block["type"] not in ("file", "input_file", "input_image"):
        source = {"type": "file", "file_id": part.file_id}
    else:
        raise _no_counterpart(block, where, "the file lies with another provider")
    found: dict[str, Any] = {"type": "image" if part.kind == "image" else "document", "source": source}
    if part.kind == "file" and part.name:
        found["title"] = part.name
    if block.get("cache_control"):
        found["cache_control"] = block["cache_control"]
    return found


def _no_counterpart(block: Block, where: str, why: str = "") -> ValueError:
    return ValueError(
        f"{where} holds a block of type {block.get('type')!r}, which Anthropic's API cannot take{': ' + why if why else ''}. "
        "Leave it out, or put what it says as text"
    )
