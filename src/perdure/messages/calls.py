"""Tool calls: as chat completions have them, as LangChain has them, as Anthropic's content blocks have them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypedDict

from perdure.errors import InvalidUpdateError


class ToolCall(TypedDict):
    """A call that a model asks for: which tool, with what, and the id that the answer has to name."""

    name: str
    args: dict[str, Any]
    id: str | None
    type: Literal["tool_call"]


def chat_call(call: Any) -> dict[str, Any]:
    """A tool call as chat completions have it.

    Raises:
        InvalidUpdateError: it is no tool call.
    """
    if isinstance(call, Mapping):
        if "function" in call or "custom" in call:
            return dict(call)
        arguments = call.get("args", call.get("input"))
        if "name" in call:
            return _call(call.get("id"), call["name"], arguments)
    raise InvalidUpdateError(
        f"a tool call is {{'id', 'type': 'function', 'function': {{'name', 'arguments'}}}} or {{'id', 'name', 'args'}}, got {call!r:.200}",
        key="tool_calls",
    )


def _call(id: Any, name: str, arguments: Any) -> dict[str, Any]:
    text = arguments if isinstance(arguments, str) else json.dumps({} if arguments is None else arguments, ensure_ascii=False)
    return {"id": id, "type": "function", "function": {"name": name, "arguments": text}}


def calls_of_pieces(pieces: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The tool calls, as chat completions have them, of the pieces that chat completions stream them in, in the order of their index."""
    found: dict[Any, dict[str, Any]] = {}
    for piece in pieces:
        function = piece.get("function") or {}
        call = found.get(piece.get("index"))
        if call is None:
            call = found[piece.get("index")] = _call(None, "", "")
        call["id"] = piece.get("id") or call["id"]
        call["function"]["name"] = function.get("name") or call["function"]["name"]
        call["function"]["arguments"] += function.get("arguments") or ""
    calls = [found[index] for index in sorted(found, key=lambda index: (index is None, index))]
    for call in calls:
        call["function"]["arguments"] = call["function"]["arguments"] or "{}"
    return calls


def calls_in_content(content: Any) -> list[dict[str, Any]]:
    """The tool calls among content blocks, as chat completions have them."""
    if not isinstance(content, list):
        return []
    return [chat_call(block) for block in content if isinstance(block, dict) and block.get("type") in ("tool_use", "tool_call")]


def name_and_arguments(call: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """What a chat-completions call calls, and with what.

    Arguments that are no JSON object, which models sometimes write, come as `{"arguments": <the text>}`, and the input of a custom tool
    as `{"input": <the text>}`.
    """
    custom = call.get("custom")
    if custom is not None:
        return custom["name"], {"input": custom.get("input", "")}
    function = call["function"]
    text = function.get("arguments") or "{}"
    if isinstance(text, dict):
        return function["name"], text
    try:
        arguments = json.loads(text)
    except ValueError:
        arguments = None
    return function["name"], arguments if isinstance(arguments, dict) else {"arguments": text}
