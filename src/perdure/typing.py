"""Type variables for code that is generic over the types of a graph."""

from __future__ import annotations

from typing import Any

from typing_extensions import TypeVar

__all__ = ["ContextT", "InputT", "OutputT", "StateT", "StateT_co", "StateT_contra"]

StateT = TypeVar("StateT", default=Any)
"""The state."""
StateT_co = TypeVar("StateT_co", covariant=True)
"""The state, of what only gives it."""
StateT_contra = TypeVar("StateT_contra", contravariant=True)
"""The state, of what only takes it."""
ContextT = TypeVar("ContextT", default=None)
"""What a call hands to all nodes as `runtime.context`."""
InputT = TypeVar("InputT", default=StateT)
"""What a graph takes."""
OutputT = TypeVar("OutputT", default=StateT)
"""What it returns."""
