"""The door to the saver that keeps threads in memory."""

from perdure.backends.memory.saver import InMemorySaver

MemorySaver = InMemorySaver

__all__ = ["InMemorySaver", "MemorySaver"]
