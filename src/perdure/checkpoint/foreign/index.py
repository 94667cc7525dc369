"""The index of threads over a saver of other people: what its checkpoints tell. Every thread that may be wanted is looked at."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perdure.checkpoint.foreign.identity import AS_IT_IS
from perdure.checkpoint.foreign.records import ForeignRecords
from perdure.checkpoint.foreign.shapes import OWN_METADATA
from perdure.checkpoint.index.threads import Index
from perdure.checkpoint.records import ROOT_NS, Loaded, Status, ThreadRow
from perdure.clock import SYSTEM_CLOCK
from perdure.errors import CorruptRecord, InvalidConfig
from perdure.ids import ticks_in, unix_ns_of

if TYPE_CHECKING:
    from perdure.checkpoint.base import BaseCheckpointSaver
    from perdure.checkpoint.index.records import RunRow
    from perdure.checkpoint.index.thread_info import Page, RunInfo, ThreadInfo
    from perdure.checkpoint.index.threads import Order, Query


class ForeignIndex(Index):
    """See `Index`. Nobody holds a lease there, so a thread that is not finished is "busy", and nobody knows whether its run lives.

    Args:
        saver: whose threads to list.
        blocking: call it from sync code.
    """

    def __init__(self, saver: BaseCheckpointSaver[Any], *, blocking: bool) -> None:
        # Each thread has a record store of its own, for its numbers are its own.
        super().__init__(lambda: ForeignRecords(saver, blocking=blocking), AS_IT_IS, SYSTEM_CLOCK)
        self._kind = type(saver).__name__
        self._loaded: dict[str, Loaded] = {}

    async def row(self, thread: str) -> ThreadRow | None:
        """See `Index.row`."""
        loaded = await self.records().load(thread, ROOT_NS, None)
        self._loaded = {thread: loaded}
        return _row_of(loaded)

    async def rows(self, query: Query, place: Any, order: Order, limit: int) -> list[ThreadRow]:
        """See `Index.rows`.

        Raises:
            InvalidConfig: a condition that such a saver cannot tell without reading all it has.
        """
        if order != "id" or query.graph is not None:
            what = "order" if order != "id" else "graph"
            raise self._refusal(f"list_threads({what}=...)", what)
        found: list[ThreadRow] = []
        self._loaded = {}
        for bare in await self.records().threads(after=place, limit=limit, wanted=query):
            loaded = await self.records().load(bare.thread, ROOT_NS, None)
            self._loaded[bare.thread] = loaded
            # One that has just been deleted counts as seen, so that the walk goes on behind it.
            found.append(_row_of(loaded) or ThreadRow(bare.thread))
        return found

    async def seen(self, row: ThreadRow, query: Query) -> ThreadInfo | None:
        """See `Index.seen`."""
        loaded = self._loaded.get(row.thread)
        if loaded is None:
            loaded = await self.records().load(row.thread, ROOT_NS, None)
        return None if loaded.row is None else self.told(row, self.questions(loaded))

    def _death(self, row: ThreadRow) -> tuple[bool, bool]:
        return True, False

    async def runs(self, thread_id: Any, *, limit: int, cursor: Any) -> Page[RunInfo]:
        """See `Index.runs`.

        Raises:
            InvalidConfig: such a saver has no place for records of runs.
        """
        raise self._refusal("list_runs()", "saver")

    async def last_run(self, thread: str) -> RunRow | None:
        """See `Index.last_run`."""
        return None

    def _refusal(self, what: str, key: str) -> InvalidConfig:
        return InvalidConfig(
            f"{what} needs what {self._kind} does not keep: it has the seeds' four methods only. Use a saver of this library",
            key=key,
        )


def _row_of(loaded: Loaded) -> ThreadRow | None:
    row = loaded.row
    if row is None:
        return None
    thread = loaded.thread
    # Only commits at which a run begins, pauses or ends say how the thread stands; of the others it is seen.
    status: Status = thread.status
    if status in ("busy", "idle"):
        status = "busy" if row.frontier or row.deferred else "idle"
    metadata = row.metadata or (row.extra or {}).get("metadata", {})
    own = {key: value for key, value in metadata.items() if key not in OWN_METADATA}
    return ThreadRow(thread.thread, thread.thread, head=row.n, status=status, metadata=own, updated_ns=_ns_in(row.id))


def _ns_in(public: str) -> int:
    try:
        return unix_ns_of(ticks_in(public))
    except CorruptRecord:
        return 0
