"""Values that a node can read but nobody writes: the engine computes them for each super-step and never stores them.

Declared like any other key of a state:

    class State(TypedDict):
        question: str
        remaining_steps: RemainingSteps

They may not be part of an input or output schema.
"""

from __future__ import annotations

from perdure.managed.base import ManagedValue
from perdure.managed.is_last_step import IsLastStep, RemainingSteps

__all__ = ["IsLastStep", "ManagedValue", "RemainingSteps"]
