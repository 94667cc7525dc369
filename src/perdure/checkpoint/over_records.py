"""What the parts of a saver need of it: its records, in each colour, and its clock."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from perdure.checkpoint.records import RecordStore
    from perdure.clock import Clock


class OverRecords:
    """A saver, or a part of one, over a record store.

    Attributes:
        clock: where time comes from.
    """

    clock: Clock

    def blocking(self) -> RecordStore:
        """The records, for calls that block."""
        raise NotImplementedError

    def suspending(self) -> RecordStore:
        """The records, for calls that suspend."""
        raise NotImplementedError
