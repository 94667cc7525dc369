"""All rows of a thread, page by page, and taking rows away: the part of the record contract that retention and verification use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from perdure.checkpoint.records import CheckpointRow, ChildRow, Packed, ThreadRow, WriteRow

After = tuple[int, tuple[int | str, ...]]
"""Where a page ended: the position of a table in `TABLES`, and the key of its last row that was seen."""

TABLES = ("namespace", "branch", "checkpoint", "child", "write", "value")
"""In which order a survey goes through them; within a table, rows come by their keys."""


@dataclass(slots=True)
class Survey:
    """A page of a thread's rows.

    Attributes:
        thread: the thread's row when the page was read.
        namespaces: names by number, without the root's.
        branches: numbers of the checkpoints at the tips, by name.
        checkpoints, children, writes: rows.
        sizes: how many bytes a value row holds, by number.
        values: the value rows, if they were asked for.
        damaged: number and kind of the rows that cannot be read, if contents were asked for; otherwise such a row is an error.
        next: where the next page begins; None: this was the last.
    """

    thread: ThreadRow
    namespaces: dict[int, str] = field(default_factory=dict)
    branches: dict[str, int] = field(default_factory=dict)
    checkpoints: list[CheckpointRow] = field(default_factory=list)
    children: list[ChildRow] = field(default_factory=list)
    writes: list[WriteRow] = field(default_factory=list)
    sizes: dict[int, int] = field(default_factory=dict)
    values: dict[int, Packed] = field(default_factory=dict)
    damaged: list[tuple[int, str]] = field(default_factory=list)
    next: After | None = None


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

    async def survey(self, thread: str, *, after: After | None, limit: int, contents: bool = False) -> Survey:
        """A page of all rows of a thread, table by table.

        Args:
            thread: the thread's id.
            after: `next` of the page before; None for the first.
            limit: how many rows at most, over all tables.
            contents: with the bytes of value rows; otherwise only their sizes.

        Returns:
            Its thread row has no `key` if there is no such thread.
        """
        ...

    async def reclaim(self, limit: int) -> int:
        """Give up to `limit` bytes of the room that deleted rows left back to the system, if that can be done beside other callers.

        Returns:
            How many bytes were given back; 0 when there is nothing left to give.
        """
        ...
