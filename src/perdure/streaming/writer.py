"""Streams a message while a node writes it, token by token, whatever client or framework the tokens come from."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from uuid import uuid4

from perdure.errors import InvalidArgument, InvalidCall
from perdure.messages import Message, MessageChunk

Tell = Callable[[MessageChunk], None]


class MessageWriter:
    """Streams one message: whoever listens to the mode `messages` gets each piece at once, as a `MessageChunk`.

        out = get_message_writer()
        for token in tokens:
            out.write(token)
        return {"messages": out.done()}

    Where nobody listens it only collects. `write` and `tool_call` never suspend, and may be used in sync and async nodes alike; the node
    is held while the listener is far behind. `awrite` and `atool_call` do their waiting right there.

    Attributes:
        id: of the message.
        role: of the message.
        name: of the message, if any.
    """

    __slots__ = ("_calls", "_caught_up", "_done", "_tell", "_text", "id", "name", "role")

    def __init__(
        self,
        tell: Tell | None = None,
        caught_up: Callable[[], Awaitable[None]] | None = None,
        *,
        id: str | None = None,
        role: str = "assistant",
        name: str | None = None,
    ) -> None:
        self.id = id or str(uuid4())
        self.role = role
        self.name = name
        self._tell = tell
        self._caught_up = caught_up
        self._text: list[str] = []
        self._calls: dict[int, dict[str, Any]] = {}
        self._done: Message | None = None

    def write(self, text: str) -> None:
        """Send the next piece of the text.

        Raises:
            InvalidCall: the message is done.
        """
        self._refuse_if_done()
        if not text:
            return
        self._text.append(text)
        if self._tell is not None:
            self._tell(self._chunk(content=text))

    async def awrite(self, text: str) -> None:
        """`write`, and wait while the listener is far behind."""
        self.write(text)
        await self._catch_up()

    def tool_call(
        self,
        name: str | None = None,
        arguments: str | Mapping[str, Any] = "",
        *,
        id: str | None = None,
        index: int | None = None,
    ) -> None:
        """Send a tool call or the next piece of one.

        Args:
            name: the tool; begins a new call unless `index` says otherwise.
            arguments: the next piece of their JSON text, or all of them as a dict.
            id: of the call; made up for a new one that has none.
            index: which call this is a piece of, as chat completions number them; without it, a new one where there is a name, and
                else the last one.

        Raises:
            InvalidCall: the message is done.
            InvalidArgument: a call begins without a name.
        """
        self._refuse_if_done()
        at = index
        if at is None:
            at = len(self._calls) if name is not None else max(self._calls, default=0)
        text = arguments if isinstance(arguments, str) else json.dumps(dict(arguments), ensure_ascii=False)
        piece: dict[str, Any] = {"index": at, "function": {"arguments": text}}
        call = self._calls.get(at)
        if call is None:
            if name is None:
                raise InvalidArgument("a tool call begins with the name of its tool: tool_call('search', id='call_1')")
            call = self._calls[at] = {"id": id or f"call_{uuid4().hex}", "name": name, "arguments": []}
            piece = {"index": at, "id": call["id"], "type": "function", "function": {"name": name, "arguments": text}}
        call["arguments"].append(text)
        if self._tell is not None:
            self._tell(self._chunk(tool_calls=[piece]))

    async def atool_call(
        self,
        name: str | None = None,
        arguments: str | Mapping[str, Any] = "",
        *,
        id: str | None = None,
        index: int | None = None,
    ) -> None:
        """`tool_call`, and wait while the listener is far behind."""
        self.tool_call(name, arguments, id=id, index=index)
        await self._catch_up()

    def done(self, **keys: Any) -> Message:
        """The finished message, to be returned from the node.

        Args:
            keys: what else the message has to have (usage, for example); sent as a last piece.
        """
        if self._done is None:
            if keys and self._tell is not None:
                self._tell(self._chunk(**keys))
            self._done = self._message(keys)
        return self._done

    @property
    def message(self) -> Message:
        """The message as far as it is written."""
        return self._done or self._message({})

    def _message(self, keys: Mapping[str, Any]) -> Message:
        text = "".join(self._text)
        calls = [
            {
                "id": call["id"],
                "type": "function",
                "function": {"name": call["name"], "arguments": "".join(call["arguments"]) or "{}"},
            }
            for _, call in sorted(self._calls.items())
        ]
        content = {"content": (text or None) if calls else text}
        return Message({**keys, "role": self.role, **content, "name": self.name, "tool_calls": calls or None, "id": self.id})

    def _chunk(self, content: str = "", **keys: Any) -> MessageChunk:
        named = {} if self.name is None else {"name": self.name}
        return MessageChunk({"role": self.role, "content": content, **named, **keys, "id": self.id})

    async def _catch_up(self) -> None:
        if self._caught_up is not None:
            await self._caught_up()

    def _refuse_if_done(self) -> None:
        if self._done is not None:
            raise InvalidCall(f"message {self.id!r} is done; ask for another writer to write another message")
