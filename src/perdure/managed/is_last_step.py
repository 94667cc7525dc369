"""How near a run is to its recursion limit."""

from __future__ import annotations

from typing import Annotated

from perdure.managed.base import ManagedValue

IsLastStep = Annotated[bool, ManagedValue("is_last_step")]
"""True when the recursion limit allows just one more super-step after this one: the last chance to lead to an end."""

RemainingSteps = Annotated[int, ManagedValue("remaining_steps")]
"""How many super-steps the recursion limit still allows after the running one."""
