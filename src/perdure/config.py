"""What code inside a running node may ask for without a parameter: its config, its store, its stream."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from perdure.scope import current_task
from perdure.types import RunnableConfig

__all__ = ["get_config", "get_store", "get_stream_writer"]


def get_config() -> RunnableConfig:
    """The config of the node that this code runs in.

    Raises:
        RuntimeError: outside of a running graph.
    """
    return current_task().config


def get_store() -> Any:
    """The store of the graph that this code runs in, None if it has none.

    Raises:
        RuntimeError: outside of a running graph.
    """
    return current_task().runtime.store


def get_stream_writer() -> Callable[[Any], None]:
    """What sends a value to the `custom` stream. Nothing happens where nobody listens to it.

    Raises:
        RuntimeError: outside of a running graph.
    """
    return current_task().writer
