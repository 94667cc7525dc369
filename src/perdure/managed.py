"""Values that a node can read but nobody writes: the engine computes them for each super-step and never stores them.

Declared like any other key of a state:

    class State(TypedDict):
        question: str
        remaining_steps: RemainingSteps

They may not be part of an input or output schema.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

__all__ = ["IsLastStep", "ManagedValue", "RemainingSteps"]


@dataclass(frozen=True, slots=True)
class ManagedValue:
    """The mark in an `Annotated` type that makes a key managed.

    Attributes:
        kind: which value the engine computes for it.
    """

    kind: Literal["is_last_step", "remaining_steps"]


IsLastStep = Annotated[bool, ManagedValue("is_last_step")]
"""True when the recursion limit allows just one more super-step after this one: the last chance to lead to an end."""

RemainingSteps = Annotated[int, ManagedValue("remaining_steps")]
"""How many super-steps the recursion limit still allows after the running one."""
