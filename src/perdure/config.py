"""What code inside a running node may ask for without a parameter: its config, its store, its stream."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from perdure.scope import current_task
from perdure.streaming.writer import MessageWriter
from perdure.types import RunnableConfig

__all__ = ["get_config", "get_message_writer", "get_store", "get_stream_writer"]


def get_config() -> RunnableConfig:
    """The config of the node that this code runs in.

    Raises:
        OutsideOfRun: outside of a running graph.
    """
    return current_task().config


def get_store() -> Any:
    """The store of the graph that this code runs in, None if it has none.

    Raises:
        OutsideOfRun: outside of a running graph.
    """
    return current_task().runtime.store


def get_stream_writer() -> Callable[[Any], None]:
    """What sends a value to the `custom` stream. Nothing happens where nobody listens to it.

    Raises:
        OutsideOfRun: outside of a running graph.
    """
    return current_task().writer


def get_message_writer(
    *, id: str | None = None, role: str = "assistant", name: str | None = None, tags: Sequence[str] = ()
) -> MessageWriter:
    """What streams a message, token by token, to the mode `messages`, and gives it whole in the end.

    Return the message that `done()` gives from the node; it is known by its id and not told again.

    Args:
        id: of the message; a new one unless given.
        role: of the message.
        name: of the message.
        tags: stand beside each piece; one tagged `nostream` is not streamed.

    Raises:
        OutsideOfRun: outside of a running graph.
    """
    writer: MessageWriter = current_task().message_writer(id=id, role=role, name=name, tags=tags)
    return writer
