"""P9: the thread that renews: one a saver, and gone as soon as there is nothing for it to do."""

from __future__ import annotations

import gc
import threading
import weakref
from typing import Any

import pytest

from perdure.checkpoint.leases.background import Renewer
from perdure.checkpoint.memory import InMemorySaver
from perdure.checkpoint.saver import Saver
from tests.promises.ways import Ledger, Way, chain, on, open_saver


class Recorded:
    """Records that note what is renewed, and tell."""

    def __init__(self) -> None:
        self.renewed: list[Any] = []
        self.told = threading.Semaphore(0)
        self.error: Exception | None = None

    async def renew(self, leases: list[Any], lease_ns: int) -> None:
        self.renewed.append((leases, lease_ns))
        self.told.release()
        if self.error is not None:
            raise self.error


@pytest.fixture
def others() -> set[threading.Thread]:
    """Threads that were there before."""
    return {*threading.enumerate()}


def new(others: set[threading.Thread]) -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "perdure-leases" and thread not in others]


def test_one_thread_renews_all_leases_in_one_call(others: set[threading.Thread]):
    records: Any = Recorded()
    one = Renewer(records, 0.06)
    for name in "abc":
        one.keep(name, f"token {name}", 1, True)
    assert len(new(others)) == 1
    assert records.told.acquire(timeout=20)
    one.keep("b", "token b", 1, False)
    for _ in range(3):
        assert records.told.acquire(timeout=20)
    assert records.renewed[-1] == ([("a", "token a", 1), ("c", "token c", 1)], 60_000_000)
    one.close()


def test_a_database_that_does_not_answer_is_asked_again():
    records: Any = Recorded()
    records.error = OSError("gone for a moment")
    one = Renewer(records, 0.03)
    one.keep("t", "token", 1, True)
    for _ in range(3):
        assert records.told.acquire(timeout=20)
    one.close()


def test_it_ends_when_nothing_is_held_and_begins_again(others: set[threading.Thread]):
    records: Any = Recorded()
    one = Renewer(records, 0.03)
    for _ in range(3):
        one.keep("t", "token", 1, True)
        thread = new(others)[-1]
        one.keep("t", "token", 1, False)
        thread.join(20)
        assert not thread.is_alive()
    one.keep("t", "token", 2, True)
    assert records.told.acquire(timeout=20)
    one.close()


def test_it_ends_at_once_when_closed_or_no_longer_had(others: set[threading.Thread]):
    # An hour to the next renewal: they would be here for long.
    records: Any = Recorded()
    closed, dropped = Renewer(records, 3600), Renewer(records, 3600)
    for one in (closed, dropped):
        one.keep("t", "token", 1, True)
    threads = new(others)
    assert len(threads) == 2
    closed.close()
    closed.close()
    closed.keep("t", "token", 1, True)
    del one, dropped
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive()
    assert new(others) == []


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_a_saver_that_nobody_closed_is_freed_with_its_threads_once_nobody_holds_it(
    kind: str, durability: Any, way: Way, tmp_path: Any, others: set[threading.Thread]
):
    # Without a collection of garbage: a run that has ended is in no cycle, or each would keep its state until the next one.
    def use() -> weakref.ref[Saver]:
        saver = open_saver(kind, tmp_path, lease_seconds=3600)
        nodes = [(name, Ledger(way).node(name)) for name in "ab"]
        graph = chain(*nodes).compile(checkpointer=saver)
        way.invoke(graph, {"log": ["in"]}, on(), durability=durability)
        way.invoke(graph, {"log": ["in"]}, on(), durability=durability)
        assert len(way.history(graph, on())) > 1
        return weakref.ref(saver)

    gc.collect()
    gc.disable()
    try:
        saver = use()
        assert saver() is None
        for thread in new(others):
            thread.join(20)
            assert not thread.is_alive()
    finally:
        gc.enable()


@pytest.fixture(params=["sync", "async"])
def way(request: pytest.FixtureRequest) -> Way:
    return Way(request.param)


def test_a_saver_that_ran_nothing_has_no_thread(others: set[threading.Thread]):
    saver = InMemorySaver()
    graph = chain(("a", Ledger(Way("sync")).node("a"))).compile(checkpointer=saver)
    graph.update_state(on(), {"log": ["x"]}, as_node="a")
    graph.get_state(on())
    assert new(others) == []
