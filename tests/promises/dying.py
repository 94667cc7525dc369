"""Runs that die as with their process: nothing of them is stored any more, and their lease says a process that is gone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from perdure.checkpoint.index.records import RunRow
from perdure.checkpoint.leases import identity
from perdure.checkpoint.records import Commit, RecordStore, Status
from perdure.checkpoint.saver import Saver
from perdure.errors import SaveFailed
from perdure.testing.wrapping import WrappingRecords, with_records
from tests.promises.ways import Config, Way

can_tell = pytest.mark.skipif(
    not identity.holder("", 0).started, reason="this system does not tell when a process started, so nobody is proved dead"
)


class Dying(WrappingRecords):
    """Records whose process dies instead of a commit, counted from 0."""

    def __init__(self, inner: RecordStore, dies_at: int) -> None:
        super().__init__(inner)
        self.left = dies_at

    async def commit(self, commit: Commit) -> None:
        self.left -= 1
        if self.left < 0:
            raise OSError("the process was killed")
        # Its pid belongs to another process by the time somebody looks.
        commit.holder = None if commit.holder is None else replace(commit.holder, started="1")
        await super().commit(commit)

    async def renew(self, leases: list[tuple[str, str, int]], expires_ns: int) -> None:
        pass

    async def release(self, thread: str, token: str, epoch: int, status: Status, run: RunRow | None = None) -> None:
        raise OSError("the process was killed")


def die(saver: Saver, graph: Any, way: Way, given: Any, config: Config, *, at: int, **options: Any) -> None:
    """Run the graph in a process that dies instead of its commit number `at`, from 0."""
    twin = graph.copy()
    twin.checkpointer = with_records(saver, lambda records: Dying(records, at))
    with pytest.raises(SaveFailed):
        way.invoke(twin, given, config, **options)
