"""A chat message that is a dict: the chat-completions shape, with attributes, and nothing that JSON could not hold."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, Self

from perdure.errors import InvalidUpdateError
from perdure.messages.calls import calls_in_content, chat_call
from perdure.messages.plain import plain
from perdure.telling import TellingDict, telling

REMOVE_ALL_MESSAGES: Final = "__remove_all__"
"""The id of a RemoveMessage that removes everything before it."""

REMOVE: Final = "remove"
TYPES: Final[Mapping[str, str]] = {
    "user": "human",
    "assistant": "ai",
    "system": "system",
    "developer": "system",
    "tool": "tool",
    "function": "function",
    REMOVE: REMOVE,
}
"""Roles, and what LangChain calls the same as a type."""
ROLES: Final[Mapping[str, str]] = {"human": "user", "ai": "assistant", **{role: role for role in TYPES}}
"""Names of roles that are understood, and the name each is kept under."""


@telling
class Message(TellingDict[str, Any]):
    """A chat message: a dict of the chat-completions shape whose keys are also attributes.

        Message(role="user", content="hi")
        Message({"role": "assistant", "content": None, "tool_calls": [...]})

    All it knows are its keys, its `id` too, so `json.dumps(m)`, `dict(m)` and `{**m}` lose nothing. "human" and "ai" are understood as
    roles and kept as "user" and "assistant"; tool calls may be given as `{"name", "args", "id"}` and are kept as chat completions have
    them; content blocks and tool calls that are objects of a provider's package become dicts. A key given as None is left out, except for
    the content of an assistant's message.

    Raises:
        InvalidUpdateError: the role is unknown, or the message lacks what its role needs.
    """

    __slots__ = ()

    def __init__(self, given: Mapping[str, Any] | Iterable[tuple[str, Any]] = (), /, **keys: Any) -> None:
        super().__init__(_normal(dict(given, **keys)))

    @property
    def role(self) -> str:
        """Who speaks: "user", "assistant", "system", "developer", "tool" or "function"."""
        return str(self["role"])

    @property
    def type(self) -> str:
        """The role as LangChain names it: "human", "ai", "system", "tool" or "function"."""
        return TYPES.get(self.role, self.role)

    @property
    def content(self) -> Any:
        """A text or a list of content blocks; "" where the message has none."""
        content = self.get("content")
        return "" if content is None else content

    @property
    def text(self) -> str:
        """The text of the content, without its other blocks."""
        content = self.content
        if isinstance(content, str):
            return content
        return "".join(block if isinstance(block, str) else str(block.get("text") or "") for block in content)

    @property
    def id(self) -> str | None:
        """What tells the message from others; `add_messages` gives one to those that have none."""
        return self.get("id")

    @property
    def name(self) -> str | None:
        """Who of several with this role speaks."""
        return self.get("name")

    @property
    def tool_calls(self) -> list[dict[str, Any]]:
        """The tools that an assistant asks for, as chat completions have them; `tool_calls_of` gives name and arguments."""
        calls = self.get("tool_calls")
        return calls_in_content(self.content) if calls is None else calls

    @property
    def tool_call_id(self) -> str | None:
        """Of a tool's answer: the id of the call that it answers."""
        return self.get("tool_call_id")

    def copy(self) -> Self:
        """A message with the same keys and values."""
        new = type(self).__new__(type(self))
        dict.update(new, self)
        return new

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{key}={value!r}' for key, value in self.items())})"


@telling
class RemoveMessage(Message):
    """Removes the message of this id from the state when written to it; with `REMOVE_ALL_MESSAGES`, all that came before."""

    __slots__ = ()

    def __init__(self, id: str) -> None:
        super().__init__(role=REMOVE, content="", id=id)


def _normal(given: dict[str, Any]) -> dict[str, Any]:
    """The keys of a message in one order and shape."""
    named = given.get("role")
    if named is None:
        named = given.get("type")
    role = ROLES.get(named) if isinstance(named, str) else None
    if role is None:
        raise InvalidUpdateError(
            f"a message needs a role, one of {', '.join(map(repr, ROLES))}; got {named!r} in {_shown(given)}", key="role"
        )
    keys: dict[str, Any] = {"role": role, "content": _content(given)}
    for key, value in given.items():
        if value is not None and key not in ("role", "type", "content"):
            keys[key] = plain(value)
    if "id" in keys:
        keys["id"] = str(keys["id"])
    if "tool_calls" in keys:
        keys["tool_calls"] = [chat_call(call) for call in keys["tool_calls"]]
        if not keys["tool_calls"]:
            del keys["tool_calls"]
    _check(role, keys, given)
    return keys


def _content(given: dict[str, Any]) -> Any:
    content = given.get("content")
    if content is None or isinstance(content, str):
        return content
    if isinstance(content, Iterable) and not isinstance(content, (Mapping, bytes)):
        blocks = plain(list(content))
        if all(isinstance(block, (str, dict)) for block in blocks):
            return blocks
    raise InvalidUpdateError(
        f"the content of a message is a text or a list of blocks (texts, or dicts with a 'type'), got {content!r:.200}",
        key="content",
    )


_SPEAKS: Final = ("tool_calls", "function_call", "refusal", "audio")
"""What an assistant's message may consist of instead of content."""


def _check(role: str, keys: dict[str, Any], given: dict[str, Any]) -> None:
    if role == REMOVE:
        keys["content"] = ""
        if "id" not in keys:
            raise InvalidUpdateError(f"a message that removes another one needs its id: {_shown(given)}", key="id")
    elif keys["content"] is None and not (role == "assistant" and any(key in keys for key in _SPEAKS)):
        raise InvalidUpdateError(f"a message of role {role!r} needs a content: {_shown(given)}", key="content")
    if role == "tool" and "tool_call_id" not in keys:
        raise InvalidUpdateError(
            f"a message of role 'tool' needs the tool_call_id that it answers: {_shown(given)}", key="tool_call_id"
        )


def _shown(given: Any) -> str:
    text = repr(given)
    return text if len(text) <= 200 else text[:197] + "..."
