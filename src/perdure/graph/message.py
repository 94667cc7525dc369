"""A state that is a conversation: the reducer of messages, and the state class that most agents start from."""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from operator import attrgetter, itemgetter
from typing import Annotated, Any, Final, TypedDict, overload
from uuid import uuid4

from perdure.absent import missing
from perdure.channels.reducer import ADDED, LEAVES_ALONE
from perdure.errors import InvalidArgument, InvalidUpdateError
from perdure.messages.blocks import Result, parts_of
from perdure.messages.message import REMOVE, REMOVE_ALL_MESSAGES, Message, RemoveMessage
from perdure.messages.openai import chat_messages
from perdure.messages.reading import each, read, to_message
from perdure.scope import current_task

__all__ = ["REMOVE_ALL_MESSAGES", "Message", "Messages", "MessagesState", "RemoveMessage", "add_messages", "push_message"]

Messages = Any
"""A message or a list of messages: texts, pairs (role, content), dicts, `Message`s, message objects of other libraries."""

_ID: Final = itemgetter("id")
_ID_OF_OBJECT: Final = attrgetter("id")

FORMATS: Final = ("openai", "langchain-openai")


@overload
def add_messages(*, format: str | None = None) -> Callable[[Messages, Messages], list[Any]]: ...
@overload
def add_messages(left: Messages, right: Messages, *, format: str | None = None) -> list[Any]: ...
def add_messages(
    left: Messages = None, right: Messages = None, *, format: str | None = None
) -> list[Any] | Callable[[Messages, Messages], list[Any]]:
    """Adds messages to messages; the reducer of `MessagesState`.

    A message with the id of one that is there takes its place. A `RemoveMessage` removes the message of its id, and one with the id
    `REMOVE_ALL_MESSAGES` everything before it. Messages without an id get one, on a copy: neither list and none of the messages in them
    is changed. Texts, pairs and dicts become `Message`s; objects of other libraries stay what they are.

    Args:
        left: the messages that are there.
        right: the messages to add.
        format: "openai" (also under the name "langchain-openai") brings the contents of all messages into the shape of OpenAI's chat
            completions. Alone it gives a reducer: `Annotated[list, add_messages(format="openai")]`.

    Raises:
        InvalidUpdateError: something is no message, or an id that is to be removed is not there.
        InvalidArgument: the format is unknown, a block has no counterpart in it, or only one of both sides was given.
    """
    if format is not None and format not in FORMATS:
        raise InvalidArgument(f"unknown format {format!r} of messages; it is 'openai' (or 'langchain-openai') or None")
    if left is None or right is None:
        if left is None and right is None:
            return add_messages if format is None else _reducer(format)
        given = "left" if right is None else "right"
        raise InvalidArgument(f"add_messages needs both 'left' and 'right', or neither to make a reducer; got only {given!r}")
    return _add(left, right, format=format)


@cache
def _reducer(format: str) -> Callable[[Messages, Messages], list[Any]]:
    """One reducer for each format: two schemas that name the same one agree."""

    def add_formatted_messages(left: Messages, right: Messages) -> list[Any]:
        return _add(left, right, format=format)

    vars(add_formatted_messages).update({"prepare_write": _prepared, LEAVES_ALONE: True})
    return add_formatted_messages


def _add(left: Messages, right: Messages, *, format: str | None = None) -> list[Any]:
    old = each(left)
    ids = _known_ids(old)
    if ids is None:
        old = [message if type(message) is Message and "id" in message else _incoming(message) for message in old]
        ids = [_id_of(message) for message in old]
    else:
        old = old.copy()
    new = [_incoming(message) for message in each(right)]
    for index in range(len(new) - 1, -1, -1):
        if _is_removal(new[index]) and new[index].id == REMOVE_ALL_MESSAGES:
            old, ids, new = [], [], new[index + 1 :]
            break
    merged = _merge(old, ids, new)
    return merged if format is None else [formatted for message in merged for formatted in _formatted(message)]


def _known_ids(messages: list[Any]) -> list[Any] | None:
    """The ids of messages, which all have one; None if one has not, or may have to become another object."""
    # At every step of a long conversation: no call from Python for each message.
    if type(messages) is not list:
        return None
    if list(map(type, messages)).count(Message) == len(messages):
        try:
            return list(map(_ID, messages))
        except KeyError:
            return None
    if not all(map(_is_taken_as_it_is, set(map(type, messages)))):
        return None
    ids = list(map(_ID_OF_OBJECT, messages))
    return None if None in ids else ids


def _is_taken_as_it_is(cls: type) -> bool:
    """Whether objects of this class become no others, if they have an id: `Message`s, and LangChain's that are no pieces."""
    return cls is Message or (
        cls.__module__.startswith("langchain_core.messages.") and not cls.__name__.endswith("MessageChunk")
    )


def _merge(old: list[Any], ids: list[Any], new: list[Any]) -> list[Any]:
    """Both lists as one: replaced and removed by id, in place."""
    wanted = {_id_of(message) for message in new} - {None}
    # A conversation is long and what is added is short, and mostly new.
    places = {} if wanted.isdisjoint(ids) else {id: place for place, id in enumerate(ids) if id in wanted}
    merged = old
    removed: set[Any] = set()
    for message in new:
        id = _id_of(message)
        place = places.get(id)
        if _is_removal(message):
            if place is None:
                raise InvalidUpdateError(
                    f"Attempting to delete a message with an ID that doesn't exist ({id!r}). Remove only what is in the state"
                )
            removed.add(id)
        elif place is None:
            if id is not None:
                places[id] = len(merged)
            merged.append(message)
        else:
            removed.discard(id)
            merged[place] = message
    return [message for message in merged if _id_of(message) not in removed] if removed else merged


def _incoming(value: Any) -> Any:
    """A message of what was written, with an id if it can have one."""
    message = read(value)
    if isinstance(message, Message):
        if "id" not in message:
            dict.__setitem__(message, "id", str(uuid4()))  # nobody else has it yet
        return message
    message = _whole(message)
    # An object without such an attribute has no place for an id, and can only be appended.
    return _with_id(message, str(uuid4())) if getattr(message, "id", "") is None else message


def _id_of(message: Any) -> Any:
    return message.get("id") if isinstance(message, Message) else getattr(message, "id", None)


def _is_removal(message: Any) -> bool:
    return isinstance(message, RemoveMessage) or (not isinstance(message, Message) and getattr(message, "type", None) == REMOVE)


def _whole(message: Any) -> Any:
    """LangChain's message of a piece that was streamed; anything else as it is."""
    cls = type(message)
    if not cls.__name__.endswith("MessageChunk") or not cls.__module__.startswith("langchain_core."):
        return message
    # Whoever has such an object has imported the package.
    return sys.modules["langchain_core.messages"].message_chunk_to_message(message)


def _with_id(message: Any, id: str) -> Any:
    """A copy of another library's message with an id."""
    if hasattr(message, "model_copy"):
        return message.model_copy(update={"id": id})
    new = copy.copy(message)
    new.id = id
    return new


def _formatted(message: Any) -> list[Any]:
    """A message with its content as chat completions have it; several if it holds answers of several tools."""
    content = message["content"] if isinstance(message, Message) else getattr(message, "content", "")
    if not isinstance(content, list):
        return [message]
    id = _id_of(message)
    whole = to_message(message)
    if hasattr(message, "additional_kwargs") and not any(isinstance(part, Result) for part, _ in parts_of(whole["content"])):
        made = chat_messages(whole, f"message {id!r}")[0]
        return [message.model_copy(update={"content": made["content"] or ""})]
    found = []
    for made in chat_messages(whole, f"message {id!r}"):
        answer = made["role"] == "tool" and whole.role != "tool"
        # Answers of tools leave their message, which keeps its id; theirs are the same each time.
        found.append(Message(made, id=f"{id}:{made['tool_call_id']}") if answer else Message({**whole, **made}))
    return found


def _prepared(value: Any) -> Any:
    """What a node wrote, as messages with ids: the stream, conditional edges, Sends and the state then agree on them."""
    if value is None:
        return None
    found = each(value)
    alone = len(found) == 1 and found[0] is value
    return _incoming(value) if alone else [_incoming(message) for message in found]


def _added(left: list[Any], writes: Sequence[Any]) -> list[Any] | None:
    """What messages add to the end of a conversation, which is nearly always all they do; else None."""
    ids = _known_ids(left)
    if ids is None or any(isinstance(write, Iterator) for write in writes):
        return None  # what can be read once is for whoever merges them
    try:
        new = [_incoming(message) for write in writes for message in each(write)]
    except Exception:  # noqa: BLE001 - whoever merges them says what is wrong
        return None
    wanted = set(map(_id_of, new))
    alone = len(wanted) == len(new) and None not in wanted and wanted.isdisjoint(ids)
    return new if alone and not any(map(_is_removal, new)) else None


vars(add_messages).update({"prepare_write": _prepared, LEAVES_ALONE: True, ADDED: _added})


def push_message(message: Any, *, state_key: str | None = "messages") -> Any:
    """Tell a message to whoever streams `messages`, at once, and add it to the node's update, before what the node returns.

    Args:
        message: with an id: anything that `add_messages` takes.
        state_key: the key it is written to; None to tell it only.

    Returns:
        The message.

    Raises:
        InvalidUpdateError: it is no message, has no id, or cannot be written there.
        OutsideOfRun: outside of a node.
    """
    return current_task().push_message(message, state_key)


class MessagesState(TypedDict):
    """A state with one key, a conversation. Subclass it to add keys."""

    messages: Annotated[list[Any], add_messages]


def __getattr__(name: str) -> Any:
    raise missing(__name__, name)
