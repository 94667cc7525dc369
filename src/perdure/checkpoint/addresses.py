"""How a checkpoint is asked for: by the name of a branch, and with what the caller has of it already."""

from __future__ import annotations

from typing import NamedTuple


class BranchName(NamedTuple):
    """Addresses the checkpoint at the tip of a named branch."""

    name: str


class BranchRow(NamedTuple):
    """A named branch of the root: its name and the number of its newest checkpoint. In a commit, None takes the name away."""

    name: str
    head: int | None


class Have(NamedTuple):
    """What the caller of `load` has already, of the checkpoint that it expects to be the one.

    Attributes:
        incarnation: of the thread.
        checkpoint: the public id of the checkpoint.
        channels: those whose values need not come again.
    """

    incarnation: int
    checkpoint: str
    channels: frozenset[str]

    def is_of(self, incarnation: int, checkpoint: str) -> bool:
        """Whether what is there is what the caller expects."""
        return self.incarnation == incarnation and self.checkpoint == checkpoint
