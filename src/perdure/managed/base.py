"""What marks a key of a state as managed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class ManagedValue:
    """The mark in an `Annotated` type that makes a key managed.

    Attributes:
        kind: which value the engine computes for it.
    """

    kind: Literal["is_last_step", "remaining_steps"]
