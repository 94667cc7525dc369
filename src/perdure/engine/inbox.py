"""The part of a compiled graph that lists its open questions across threads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from perdure.checkpoint.index.inbox import LIMIT
from perdure.errors import MissingCheckpointer

if TYPE_CHECKING:
    from perdure.checkpoint.base import BaseCheckpointSaver
    from perdure.engine.program import Program
    from perdure.types import InterruptPage


class HasInbox:
    """The part of a compiled graph that is about the questions which wait for people."""

    program: Program
    checkpointer: Any

    def list_interrupts(
        self,
        *,
        filter: Mapping[str, Any] | None = None,
        thread_prefix: str = "",
        overdue: bool | None = None,
        limit: int = LIMIT,
        cursor: str | None = None,
    ) -> InterruptPage:
        """The open questions of all threads that a graph of this name ran last, thread by thread.

        Args:
            filter: metadata keys of the waiting checkpoint, and the values they must equal.
            thread_prefix: only threads whose ids begin with it.
            overdue: True: only questions whose deadline has passed; False: only others.
            limit: the page ends with the thread at which so many questions were found; a thread is never split.
            cursor: `page.cursor` of the page before.

        Raises:
            InvalidConfig: the graph has no saver, or the limit is no positive number.
        """
        return self._inbox_saver().list_interrupts(
            graph=self.program.name, filter=filter, thread_prefix=thread_prefix, overdue=overdue, limit=limit, cursor=cursor
        )

    async def alist_interrupts(
        self,
        *,
        filter: Mapping[str, Any] | None = None,
        thread_prefix: str = "",
        overdue: bool | None = None,
        limit: int = LIMIT,
        cursor: str | None = None,
    ) -> InterruptPage:
        """`list_interrupts` for async code."""
        return await self._inbox_saver().alist_interrupts(
            graph=self.program.name, filter=filter, thread_prefix=thread_prefix, overdue=overdue, limit=limit, cursor=cursor
        )

    def _inbox_saver(self) -> BaseCheckpointSaver[Any]:
        if not self.checkpointer or self.checkpointer is True:
            raise MissingCheckpointer("No checkpointer set: compile(checkpointer=...) with a saver, which keeps the questions")
        return self.checkpointer  # type: ignore[no-any-return]
