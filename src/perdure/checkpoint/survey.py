"""All rows of a thread, stretch by stretch, and taking rows away: the part of the record contract that copies, retention and
verification share.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from perdure.checkpoint.transfer.raw import Place, RawRow

if TYPE_CHECKING:
    from perdure.checkpoint.records import ThreadRow

BUDGET = 1 << 20
"""Bytes of rows that are read or written at a time, but for a single row that is larger."""

ROW_COSTS = 64
"""Bytes that a row counts beside its body, so that many small ones end a stretch too."""


class Stretch(NamedTuple):
    """Some of a thread's rows, read in one transaction with its thread row; None if there is no such thread."""

    thread: ThreadRow | None
    rows: list[RawRow]


class Removal(NamedTuple):
    """Rows that a commit takes away, by their keys; what is not there is passed over.

    Attributes:
        checkpoints: (namespace, number).
        writes: (namespace, origin, path, kind).
        children: (namespace, origin, path, call).
        namespaces, values: numbers.
        thread: everything, as `RecordStore.delete` does it.
    """

    checkpoints: Sequence[tuple[int, int]] = ()
    writes: Sequence[tuple[int, int, str, int]] = ()
    children: Sequence[tuple[int, int, str, int]] = ()
    namespaces: Sequence[int] = ()
    values: Sequence[int] = ()
    thread: bool = False


class Surveyed(Protocol):
    """The part of `RecordStore` that is about all rows of a thread."""

    async def rows(self, thread: str, after: Place | None, budget: int, *, contents: bool = True) -> Stretch:
        """Rows of a thread in the order of travel, from just after a place on.

        Args:
            thread: its id.
            after: the place of the last row that was read; None: from the first on.
            budget: stop once so many bytes have been read: of bodies, and `ROW_COSTS` for each row. At least one row, if one is left.
            contents: with the bytes of value rows; False: their bodies are empty, and their keys have a third part, how many bytes
                they hold.
        """
        ...

    async def reclaim(self, limit: int) -> int:
        """Give up to `limit` bytes of the room that deleted rows left back to the system, if that can be done beside other callers.

        Returns:
            How many bytes were given back; 0 when there is nothing left to give.
        """
        ...
