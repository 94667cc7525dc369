"""The kinds of state slots: what becomes of the values that the tasks of one super-step write to a key."""

from __future__ import annotations

from perdure.channels.any_value import AnyValue
from perdure.channels.base import MISSING, BaseChannel
from perdure.channels.binop import BinaryOperatorAggregate
from perdure.channels.delta import DeltaChannel
from perdure.channels.ephemeral_value import EphemeralValue
from perdure.channels.last_value import LastValue, LastValueAfterFinish
from perdure.channels.named_barrier_value import NamedBarrierValue, NamedBarrierValueAfterFinish
from perdure.channels.topic import Topic
from perdure.channels.untracked_value import UntrackedValue

__all__ = [
    "MISSING",
    "AnyValue",
    "BaseChannel",
    "BinaryOperatorAggregate",
    "DeltaChannel",
    "EphemeralValue",
    "LastValue",
    "LastValueAfterFinish",
    "NamedBarrierValue",
    "NamedBarrierValueAfterFinish",
    "Topic",
    "UntrackedValue",
]
