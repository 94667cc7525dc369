"""What counts as a message, and how each becomes a `Message`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from perdure.errors import InvalidUpdateError
from perdure.messages.calls import ToolCall, name_and_arguments
from perdure.messages.chunk import MessageChunk
from perdure.messages.message import REMOVE, ROLES, Message, RemoveMessage

_KEYS: Final = ("content", "id", "name", "tool_calls", "tool_call_id", "status", "refusal", "audio", "function_call")
"""Attributes of other libraries' messages that a Message has as keys."""


def is_foreign(value: Any) -> bool:
    """Whether this is a message object of another library: neither text nor container, with a type or role that is a text."""
    if isinstance(value, (str, bytes, Mapping, list, tuple, type)):
        return False
    return isinstance(getattr(value, "role", None), str) or isinstance(getattr(value, "type", None), str)


def each(messages: Any) -> list[Any]:
    """The messages of a list or another collection, or the one message that is given in its place."""
    if isinstance(messages, list):
        return messages
    single = isinstance(messages, (str, bytes, Mapping)) or _is_pair(messages) or is_foreign(messages)
    return [messages] if single or not isinstance(messages, Iterable) else list(messages)


def _is_pair(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and len(value) == 2 and isinstance(value[0], str)


def read(value: Any) -> Any:
    """A new `Message` of what users write as one: a text, a pair (role, content), a dict. Other libraries' objects stay what they are.

    Raises:
        InvalidUpdateError: it is none of these.
    """
    if type(value) is Message:
        return value.copy()
    if isinstance(value, str):
        return Message(role="user", content=value)
    if isinstance(value, MessageChunk):
        return value.whole()
    if isinstance(value, Message):
        return value.copy() if value.role != REMOVE else RemoveMessage(str(value.id))
    if isinstance(value, Mapping):
        message = Message(value)
        return RemoveMessage(str(message.id)) if message.role == REMOVE else message
    if _is_pair(value):
        return Message(role=value[0], content=value[1])
    if is_foreign(value):
        return value
    raise InvalidUpdateError(
        f"{value!r:.200} is no message: a message is a text, a pair (role, content), a dict with role and content, a Message, or a message "
        f"object of another library; got {type(value).__name__}"
    )


def to_message(value: Any) -> Message:
    """A new `Message` of any message: also of the objects of LangChain, OpenAI and Anthropic.

    Raises:
        InvalidUpdateError: it is no message.
    """
    found = read(value)
    if isinstance(found, Message):
        return found
    if hasattr(found, "additional_kwargs"):
        return _of_langchain(found)
    if hasattr(found, "model_dump"):
        return Message(found.model_dump(mode="json", by_alias=True, exclude_unset=True) | {"role": _role_of(found)})
    given = {key: getattr(found, key) for key in _KEYS if getattr(found, key, None) is not None}
    return Message(given, role=_role_of(found))


def tool_calls_of(message: Any) -> list[ToolCall]:
    """The tool calls of a message of any kind: a Message or its dict, or an object of LangChain, OpenAI or Anthropic.

    Raises:
        InvalidUpdateError: it is no message.
    """
    calls: list[ToolCall] = []
    for call in to_message(message).tool_calls:
        name, arguments = name_and_arguments(call)
        calls.append({"name": name, "args": arguments, "id": call.get("id"), "type": "tool_call"})
    return calls


def _role_of(value: Any) -> Any:
    """The role of another library's message; for one without, as LangChain's, its type, which a streamed piece ends in "MessageChunk"."""
    role = getattr(value, "role", None)
    if isinstance(role, str):
        return role
    kind = str(value.type).removesuffix("MessageChunk").lower()
    return kind if kind in ROLES else value.type


def _of_langchain(value: Any) -> Message:
    kept: dict[str, Any] = value.additional_kwargs or {}
    given = {key: kept[key] for key in ("refusal", "audio", "function_call") if kept.get(key) is not None}
    given |= {key: getattr(value, key) for key in _KEYS if getattr(value, key, None) is not None}
    calls = [*(getattr(value, "tool_calls", None) or ()), *(getattr(value, "invalid_tool_calls", None) or ())]
    given["tool_calls"] = calls or kept.get("tool_calls")
    if given.get("status") == "success":
        del given["status"]
    return Message(given, role=kept.get("__openai_role__") or _role_of(value))
