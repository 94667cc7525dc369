"""Databases that fail: at the commits you choose, before or after they stored anything, or slowly."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Collection
from typing import Any

from perdure.checkpoint.records import Commit, RecordStore
from perdure.testing.wrapping import WrappingRecords, with_records

__all__ = ["DatabaseDown", "FailingRecords", "with_records"]


class DatabaseDown(OSError):
    """What a failing database raises here unless told otherwise."""


class FailingRecords(WrappingRecords):
    """A record store whose commits fail where you say.

        saver = with_records(InMemorySaver(), lambda records: FailingRecords(records, fail_on={3}))

    Args:
        inner: the record store behind.
        fail_on: which commits fail: their numbers, counted from 1, or a function of the commit.
        error: makes what is raised.
        stored: fail after the commit was stored, as when the connection breaks before the answer comes.
        before: called with each commit first: to look, to block, or (for async code) to return something to wait for.

    Attributes:
        commits: how many have been tried.
        down: as long as it is true, every commit fails.
    """

    def __init__(
        self,
        inner: RecordStore,
        *,
        fail_on: Collection[int] | Callable[[Commit], bool] = (),
        error: Callable[[], Exception] = lambda: DatabaseDown("the database is down"),
        stored: bool = False,
        before: Callable[[Commit], Awaitable[None] | Any] | None = None,
    ) -> None:
        super().__init__(inner)
        self.commits = 0
        self.down = False
        self._fail_on = fail_on
        self._error = error
        self._stored = stored
        self._before = before

    async def commit(self, commit: Commit) -> None:
        """See `RecordStore.commit`.

        Raises:
            Exception: what `error` makes, where this commit is to fail.
        """
        self.commits += 1
        number = self.commits
        if self._before is not None:
            waiting = self._before(commit)
            if inspect.isawaitable(waiting):
                await waiting
        chosen = self._fail_on(commit) if callable(self._fail_on) else number in self._fail_on
        fails = self.down or chosen
        if not fails or self._stored:
            await super().commit(commit)
        if fails:
            raise self._error()
