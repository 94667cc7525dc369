"""A piece of a message, as it comes while the message is being written; pieces add up to the whole."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from perdure.errors import InvalidArgument
from perdure.messages.calls import calls_of_pieces
from perdure.messages.message import Message


class MessageChunk(Message):
    """A piece of a message: a dict like a message, with the `id` of the whole and only what is new.

    `content` is the next piece of text, "" if there is none. `tool_calls` are pieces of tool calls as chat completions stream them: each
    has the `index` of its call; the first of a call has its `id` and its function's `name`, every one a piece of `arguments`.

        whole = (first + second + third).whole()
    """

    __slots__ = ()

    def __init__(self, given: Mapping[str, Any] | Iterable[tuple[str, Any]] = (), /, **keys: Any) -> None:
        piece = dict(given, **keys)
        if "role" not in piece or "content" not in piece:
            piece = {"role": "assistant", "content": "", **piece}
        dict.__init__(self, piece)

    @property
    def tool_calls(self) -> list[dict[str, Any]]:
        """The pieces of tool calls in this piece."""
        pieces: list[dict[str, Any]] = self.get("tool_calls") or []
        return pieces

    def __add__(self, other: MessageChunk) -> MessageChunk:
        """Both pieces as one.

        Raises:
            InvalidArgument: they are of different messages.
        """
        if not isinstance(other, MessageChunk):
            return NotImplemented
        if self.id != other.id:
            raise InvalidArgument(f"pieces of different messages do not add up: {self.id!r} and {other.id!r}")
        both = {**self, **other, "role": self.role, "content": self.content + other.content}
        calls = [*self.tool_calls, *other.tool_calls]
        return MessageChunk({**both, "tool_calls": calls} if calls else both)

    def whole(self) -> Message:
        """The message that these pieces are."""
        calls = calls_of_pieces(self.tool_calls)
        keys = {key: value for key, value in self.items() if key != "tool_calls"}
        if calls:
            keys |= {"content": self.content or None, "tool_calls": calls}
        return Message(keys)
