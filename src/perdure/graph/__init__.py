"""Drawing a graph: its state, its nodes, its edges."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perdure.absent import missing
from perdure.constants import END, START
from perdure.graph.state import StateGraph

if TYPE_CHECKING:
    from perdure.graph.message import MessagesState as MessagesState
    from perdure.graph.message import add_messages as add_messages

__all__ = ["END", "START", "MessagesState", "StateGraph", "add_messages"]


def __getattr__(name: str) -> Any:
    # Messages are looked up when asked for, so that a graph without them does not pay for their import.
    if name in ("MessagesState", "add_messages"):
        from perdure.graph import message

        return getattr(message, name)
    raise missing(__name__, name)
