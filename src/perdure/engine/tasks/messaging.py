"""What a run tells of messages: pieces while nodes write them, and whole ones that nodes return. Called only where somebody listens.

A message is told once: the run remembers the ids of what it has told, and of what its nodes were given.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, cast
from uuid import uuid4

from perdure.channels.base import MISSING
from perdure.channels.overwrite import overwrite_of
from perdure.constants import CONF, PREVIOUS, TAG_NOSTREAM
from perdure.engine.deciding import returns
from perdure.errors import InvalidUpdateError
from perdure.messages import Message
from perdure.messages.message import REMOVE
from perdure.messages.reading import is_foreign, read
from perdure.streaming.modes import Event
from perdure.streaming.writer import MessageWriter

if TYPE_CHECKING:
    from perdure.engine.running.run import Run
    from perdure.engine.tasks.task import Task

MODE = "messages"


def writer_of(task: Task, *, id: str | None, role: str, name: str | None, tags: Sequence[str]) -> MessageWriter:
    """A writer whose pieces are told, if anybody listens and neither the call nor the writer is tagged `nostream`."""
    all_tags = [*(task.config.get("tags") or ()), *tags]
    if MODE not in task.run.modes or TAG_NOSTREAM in all_tags:
        return MessageWriter(id=id, role=role, name=name)
    metadata = metadata_of(task, all_tags)

    def tell(message: Any) -> None:
        task.sign_of_life()
        tell_piece(task, message, metadata)

    return MessageWriter(tell, task.caught_up, id=id, role=role, name=name)


def tell_piece(task: Task, message: Any, metadata: Mapping[str, Any]) -> None:
    """Send a message, or a piece of one, whether its id was told before or not."""
    seen = task.run.seen
    identity = id_of(message)
    if seen is None:
        return
    if identity is not None:
        seen.add(identity)
    task.run.tell(MODE, (message, dict(metadata)))


def push(task: Task, message: Any, state_key: str | None) -> Any:
    """Tell a message at once, and have it in the task's update under `state_key`, before what the node returns.

    Raises:
        InvalidArgument: it has no id.
        InvalidUpdateError: it is no message; or the state has no such key, or a durable step cannot write it.
    """
    pushed = read(message)
    if id_of(pushed) is None:
        raise InvalidUpdateError(
            f"push_message needs a message with an id, for what is told and what is written have to be known as one; got {pushed!r:.200}",
            node=task.node.name,
        )
    program = task.run.program
    if state_key is not None:
        if task.is_step:
            raise InvalidUpdateError(
                f"task {task.node.name!r} cannot write the state, for it does not run again when the node does: return the message, or "
                "push_message(message, state_key=None) only to stream it",
                node=task.node.name,
            )
        task.pushed = [*task.pushed, *returns.updates_of(program, task.node.name, {state_key: pushed})]
    if MODE in task.run.modes:
        tell_piece(task, pushed, metadata_of(task))
    return pushed


def metadata_of(task: Task, tags: Iterable[str] | None = None) -> dict[str, Any]:
    """What stands beside a message: where it comes from, and the call's own metadata and tags."""
    config = task.config
    found = dict(config.get("metadata") or {})
    thread = (config.get(CONF) or {}).get("thread_id")
    if thread is not None:
        found.setdefault("thread_id", thread)
    shown = [tag for tag in ((config.get("tags") or ()) if tags is None else tags) if not tag.startswith("seq:step")]
    if shown:
        found["tags"] = shown
    return found


def given(run: Run, tasks: Iterable[Task]) -> None:
    """Messages that the tasks of a super-step are given count as told."""
    seen = run.seen
    if seen is None:
        return
    state = False
    for task in tasks:
        if task.send is not None:
            seen.update(_ids_in(task.send.arg))
        elif not state:
            state = True
            seen.update(_ids_in(run.given if task.node.view.given else run.live.view))


def returned(run: Run, found: list[Event], task: Task) -> None:
    """Tell the messages in a task's update that were not told yet."""
    seen = run.seen
    if seen is None:
        return
    prepare = run.program.prepare
    metadata: dict[str, Any] | None = None
    for channel, written in task.writes or ():
        if channel == PREVIOUS:
            continue
        value = overwrite_of(written)
        for message in _messages_in(written if value is MISSING else value, known=channel in prepare):
            identity = id_of(message)
            if identity in seen or _type_of(message) == REMOVE:
                continue
            shown = _with_id(message) if identity is None else message
            seen.add(id_of(shown))
            metadata = metadata or metadata_of(task)
            found.append(Event(run.namespace, MODE, (shown, dict(metadata))))


def id_of(message: Any) -> Any:
    """A message's id, None if it has none."""
    return message.get("id") if isinstance(message, Mapping) else getattr(message, "id", None)


def _type_of(message: Any) -> Any:
    return getattr(message, "type", None)


def _parts(value: Any) -> Iterable[Any]:
    """The values of a state: of a dict, or of an object of a state class; or the one value that it is."""
    if isinstance(value, Mapping) and not isinstance(value, Message):
        return value.values()
    if isinstance(value, (list, tuple)) or _is_message(value):
        return (value,)
    return getattr(value, "__dict__", {}).values()


def _ids_in(state: Any) -> Iterator[Any]:
    """The ids of the messages in a state, or in whatever a node is given."""
    for value in _parts(state):
        for message in _messages_in(value, known=False):
            identity = id_of(message)
            if identity is not None:
                yield identity


def _messages_in(value: Any, *, known: bool) -> Iterator[Any]:
    """The messages that a value is, or is a list of.

    Args:
        value: what a node was given or wrote.
        known: it was written to a key of messages, so that whatever looks like another library's message is one.
    """
    for item in value if isinstance(value, (list, tuple)) else (value,):
        if _is_message(item) or (known and is_foreign(item)):
            yield item


def _is_message(value: Any) -> bool:
    return isinstance(value, Message) or _is_message_class(cast("Hashable", type(value)))


@cache
def _is_message_class(cls: Hashable) -> bool:
    """Whether a class is one of LangChain's messages."""
    bases: tuple[Any, ...] = getattr(cls, "__mro__", ())
    return any(base.__name__ == "BaseMessage" and base.__module__.startswith("langchain_core.messages") for base in bases)


def _with_id(message: Any) -> Any:
    """A copy with an id, where the message has a place for one."""
    if isinstance(message, Message):
        return Message({**message, "id": str(uuid4())})
    if hasattr(message, "model_copy") and hasattr(message, "id"):
        return message.model_copy(update={"id": str(uuid4())})
    return message
