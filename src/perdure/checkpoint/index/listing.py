"""The part of a saver that lists threads and their runs."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Never

from perdure.bridge import run_blocking
from perdure.checkpoint.by_name import by_name

if TYPE_CHECKING:
    from perdure.checkpoint.index.thread_info import Page, RunInfo, ThreadInfo
    from perdure.checkpoint.index.threads import Index, Order
    from perdure.checkpoint.records import Status

LIST = "list_threads(status='interrupted') lists the threads that ask something, list_threads(thread_prefix='user-7:') those of a prefix"


class HasIndex:
    """The part of a saver that tells which threads it has, how they stand, and which runs they have had."""

    def get_thread(self, thread_id: str) -> ThreadInfo | None:
        """How a thread stands; None if there is no such thread."""
        return run_blocking(self._index(blocking=True).thread(thread_id))

    async def aget_thread(self, thread_id: str) -> ThreadInfo | None:
        """`get_thread` for async code."""
        return await self._index(blocking=False).thread(thread_id)

    def list_threads(
        self,
        *others: Never,
        status: Status | Collection[Status] | None = None,
        metadata: Mapping[str, Any] | None = None,
        updated_after: datetime | None = None,
        graph: str | None = None,
        thread_prefix: str = "",
        order: Order = "id",
        limit: int = 100,
        cursor: str | None = None,
    ) -> Page[ThreadInfo]:
        """A page of threads.

        By id, a walk from page to page meets each thread that is there all the while exactly once, whatever happens to it meanwhile.
        By `order="updated"` those come first that were updated last; one that is updated during a walk moves to the front, past it.

        Args:
            status: "idle", "busy", "interrupted" or "error", or several of them.
            metadata: keys and the values they must equal. (Threads that the other conditions leave are looked at one by one.)
            updated_after: only threads that began, paused, ended or were edited later than this.
            graph: only threads that a graph of this name ran last.
            thread_prefix: only threads whose ids begin with it.
            order: "id" or "updated".
            limit: how many a page has at most.
            cursor: `page.cursor` of the page before, of the same list.

        Raises:
            WrongType: an argument is of the wrong type, or was given without its name.
            InvalidConfig: a condition that cannot be met by any thread, a limit that is no positive number, a wrong cursor.
        """
        by_name("list_threads", others, {}, LIST)
        given = {
            "status": status,
            "metadata": metadata,
            "updated_after": updated_after,
            "graph": graph,
            "prefix": thread_prefix,
        }
        return run_blocking(_page(self._index(blocking=True), given, order, limit, cursor))

    async def alist_threads(
        self,
        *others: Never,
        status: Status | Collection[Status] | None = None,
        metadata: Mapping[str, Any] | None = None,
        updated_after: datetime | None = None,
        graph: str | None = None,
        thread_prefix: str = "",
        order: Order = "id",
        limit: int = 100,
        cursor: str | None = None,
    ) -> Page[ThreadInfo]:
        """`list_threads` for async code."""
        by_name("alist_threads", others, {}, LIST)
        given = {
            "status": status,
            "metadata": metadata,
            "updated_after": updated_after,
            "graph": graph,
            "prefix": thread_prefix,
        }
        return await _page(self._index(blocking=False), given, order, limit, cursor)

    def list_runs(self, thread_id: str, *, limit: int = 100, cursor: str | None = None) -> Page[RunInfo]:
        """A page of the runs of a thread, newest first; empty if there is no such thread. The last 256 are kept.

        Args:
            thread_id: the thread.
            limit: how many a page has at most.
            cursor: `page.cursor` of the page before.

        Raises:
            InvalidConfig: the limit is no positive number, the cursor is of another list, or the saver keeps no records of runs.
        """
        return run_blocking(self._index(blocking=True).runs(thread_id, limit=limit, cursor=cursor))

    async def alist_runs(self, thread_id: str, *, limit: int = 100, cursor: str | None = None) -> Page[RunInfo]:
        """`list_runs` for async code."""
        return await self._index(blocking=False).runs(thread_id, limit=limit, cursor=cursor)

    def _index(self, *, blocking: bool) -> Index:
        raise NotImplementedError


async def _page(index: Index, given: dict[str, Any], order: Order, limit: int, cursor: str | None) -> Page[ThreadInfo]:
    from perdure.checkpoint.index.threads import Query

    return await index.page(Query.of(**given), order=order, limit=limit, cursor=cursor)
