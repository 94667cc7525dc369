"""P5 where the event loop of a run ends, which cancels all that runs on it: the save beside the nodes, too."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from perdure.checkpoint.records import Commit, RecordStore
from perdure.checkpoint.saver import Saver
from perdure.engine.storing import session
from perdure.errors import SaveFailed
from perdure.testing.wrapping import WrappingRecords, with_records
from tests.promises.ways import Ledger, Way, chain, on, orphans, status_of

KEPT: list[Any] = []
"""What is still known when its loop ends."""
A_STEP = 1
"""The number of the commit of the first node's step, from 0."""


class Halting(WrappingRecords):
    """Records whose commit of the first step does not return until it is cancelled, before or after it was stored."""

    def __init__(self, inner: RecordStore, *, stored: bool) -> None:
        super().__init__(inner)
        self.stored = stored
        self.asked = 0

    async def commit(self, commit: Commit) -> None:
        number, self.asked = self.asked, self.asked + 1
        if number != A_STEP or self.stored:
            await super().commit(commit)
        if number == A_STEP:
            await asyncio.sleep(3_600)


@pytest.mark.parametrize("stored", [True, False], ids=["stored", "not stored"])
@pytest.mark.parametrize("nodes", ["sync", "async"])
def test_P5_async_a_save_that_the_end_of_the_loop_cancels_is_not_waited_for_again(
    saver: Saver, nodes: str, monkeypatch: pytest.MonkeyPatch, *, stored: bool
):
    monkeypatch.setattr(session, "LAST_PATIENCE", 3_600.0)
    ledger = Ledger(Way(nodes))
    drawing = chain(*((name, ledger.node(name)) for name in "abc"))
    halting: list[Halting] = []

    def halted(inner: RecordStore) -> RecordStore:
        halting.append(Halting(inner, stored=stored))
        return halting[-1]

    async def story() -> None:
        run = asyncio.ensure_future(drawing.compile(with_records(saver, halted)).ainvoke({"log": []}, on(), durability="async"))
        while "b" not in ledger.ran:
            assert not run.done()
            await asyncio.sleep(0.001)
        KEPT.append(run)

    asyncio.run(story())
    (run,) = KEPT
    KEPT.clear()
    assert run.cancelled() or type(run.exception()) is SaveFailed
    assert status_of(saver)[1], "nobody holds the thread any more"
    ledger.ran.clear()
    graph = drawing.compile(saver)
    assert graph.invoke(None, on())["log"] == ["a", "b", "c"]
    assert ("a" in ledger.ran) != stored
    assert orphans(saver) == []
