"""The inbox over a saver of other people."""

from __future__ import annotations

from typing import Any

from perdure.checkpoint.base import BaseCheckpointSaver
from perdure.checkpoint.foreign.identity import AS_IT_IS
from perdure.checkpoint.foreign.records import ForeignRecords
from perdure.checkpoint.index.inbox import Inbox
from perdure.clock import SYSTEM_CLOCK


def inbox_of(saver: BaseCheckpointSaver[Any], *, blocking: bool) -> Inbox:
    """The inbox of a saver's threads. Each thread has a record store of its own, for its numbers are its own."""
    return Inbox(lambda _: ForeignRecords(saver, blocking=blocking), AS_IT_IS, SYSTEM_CLOCK)
