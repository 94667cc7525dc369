"""Graphs and listeners that several tests of streams share."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

from perdure import START, StateGraph
from perdure.bridge import run_blocking
from perdure.checkpoint.saver import Saver
from perdure.graph import MessagesState
from perdure.messages import MessageChunk
from tests.engine.colours import Log


def line(*nodes: tuple[str, Callable[..., Any]], state: Any = Log) -> Any:
    """A drawing of nodes one after the other."""
    graph = StateGraph(state)
    last = START
    for name, node in nodes:
        graph.add_node(name, node).add_edge(last, name)
        last = name
    return graph


def abreast(*nodes: tuple[str, Callable[..., Any]], state: Any = Log) -> Any:
    """A drawing of nodes side by side."""
    graph = StateGraph(state)
    for name, node in nodes:
        graph.add_node(name, node).add_edge(START, name)
    return graph


def chat(node: Callable[..., Any], name: str = "talk") -> Any:
    """A drawing of one node over a conversation."""
    return line((name, node), state=MessagesState)


def told(items: list[Any]) -> list[tuple[str, Any]]:
    """Of items of the mode `messages`: for each whether it is a piece, and its content."""
    return [("piece" if isinstance(message, MessageChunk) else "whole", message.content) for message, _ in items]


def status_of(saver: Saver, thread: str = "t") -> tuple[str, bool]:
    """A thread's status, and whether nobody holds it."""
    row = run_blocking(saver.blocking().load(thread, "", None)).thread
    return row.status, row.lease.token is None


def wait_until(condition: Callable[[], bool]) -> None:
    """Block until something that other threads do has happened."""
    while not condition():
        time.sleep(0.001)


async def until(condition: Callable[[], bool]) -> None:
    """Suspend until something that other threads or tasks do has happened."""
    while not condition():  # noqa: ASYNC110 - a thread's deed, no event of this loop
        await asyncio.sleep(0.001)
