"""The door to the saver that keeps threads in memory."""

from typing import Any

from perdure.absent import missing
from perdure.backends.memory.saver import InMemorySaver

MemorySaver = InMemorySaver

__all__ = ["InMemorySaver", "MemorySaver"]


def __getattr__(name: str) -> Any:
    raise missing(__name__, name)
