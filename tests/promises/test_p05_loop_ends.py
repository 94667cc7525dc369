"""P5 where the event loop of a run ends, which cancels all that runs on it: the save beside the nodes, too."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from typing import Any

import pytest

from perdure.checkpoint.records import Commit, RecordStore
from perdure.checkpoint.saver import Saver
from perdure.engine.runners.started import Started
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


def a_commit() -> Commit:
    return Commit("t", 1, "keep", "token", 1, None, now_ns=0, lease_ns=0)


def test_P5_async_a_save_that_is_cancelled_before_its_beginning_begins_again():
    saved: list[str] = []

    async def write() -> None:
        saved.append("a")

    async def story() -> None:
        started = Started(write, a_commit())
        started.task.cancel()
        await asyncio.wrap_future(started.ended)

    asyncio.run(story())
    assert saved == ["a"]


@pytest.mark.parametrize("landing", ["stored", "failed", "not yet"])
def test_P5_async_a_save_that_is_cancelled_while_a_thread_makes_it_ends_as_that_says(landing: str):
    commit = a_commit()
    commit.landing = Future()
    if landing == "stored":
        commit.landing.set_result(None)
    elif landing == "failed":
        commit.landing.set_exception(OSError(28, "No space left on device"))

    async def story() -> BaseException | None:
        begun = asyncio.Event()

        async def write() -> None:
            begun.set()
            await asyncio.sleep(3_600)

        started = Started(write, commit)
        await begun.wait()
        started.task.cancel()
        await asyncio.wait({started.task})
        return started.ended.exception()

    error = asyncio.run(story())
    if landing == "stored":
        assert error is None
    else:
        assert isinstance(error, SaveFailed)
        assert type(error.__cause__) is (OSError if landing == "failed" else asyncio.CancelledError)
