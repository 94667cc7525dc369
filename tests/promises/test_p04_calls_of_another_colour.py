"""P4 under durability "async", where the code of a node calls a subgraph in the other colour: `invoke` in an async run, `ainvoke` in
a sync one. What the subgraph stores comes after what its parent has in flight, and not at all if that fails.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from perdure.checkpoint.records import Commit, RecordStore
from perdure.checkpoint.saver import Saver
from perdure.errors import InvalidCall, SaveFailed
from perdure.testing.wrapping import WrappingRecords, with_records
from perdure.types import Command, interrupt
from tests.promises.ways import Ledger, Way, chain, on, orphans, rows_of

PATIENCE = 0.2
"""Seconds that a save waits for one that must not overtake it."""
A_STEP = 1
"""The number of the commit of the first node's step, from 0."""


class Slow:
    """Holds back one commit until another has come to the database, or as long as `PATIENCE`.

    Attributes:
        landed: numbers of the commits in the order in which they were stored.
        asked: how many have come.
    """

    def __init__(self, *, slow: int = A_STEP, fails: bool = False) -> None:
        self.slow = slow
        self.fails = fails
        self.landed: list[int] = []
        self.asked = 0
        self.overtaken = threading.Event()

    def records(self, inner: RecordStore) -> RecordStore:
        return _SlowRecords(inner, self)


class _SlowRecords(WrappingRecords):
    def __init__(self, inner: RecordStore, slow: Slow) -> None:
        super().__init__(inner)
        self.slow = slow

    async def commit(self, commit: Commit) -> None:
        slow = self.slow
        number, slow.asked = slow.asked, slow.asked + 1
        if number == slow.slow:
            if threading.current_thread().name == "perdure-node":  # a write of a sync run, on a thread of its own
                slow.overtaken.wait(PATIENCE)
            else:
                for _ in range(50):
                    if not slow.overtaken.is_set():
                        await asyncio.sleep(PATIENCE / 50)
            if slow.fails:
                raise OSError("disk full")
        elif number > slow.slow:
            slow.overtaken.set()
        await super().commit(commit)
        slow.landed.append(number)


def child_of(ledger: Ledger, way: Way) -> Any:
    def node(_: Any) -> Any:
        ledger.ran.append("child")
        return {"log": ["child"]}

    return chain(("x", way.node(node))).compile()


def run_of(way: Way, saver: Any, ledger: Ledger) -> Any:
    """A run whose second node calls a subgraph in the other colour."""
    if way.is_async:
        child = child_of(ledger, Way("sync"))

        def calls(_: Any) -> Any:
            return {"log": child.invoke({"log": []})["log"]}

        return chain(("a", ledger.node("a")), ("b", calls), ("c", ledger.node("c"))).compile(saver)
    child = child_of(ledger, Way("async"))

    async def acalls(_: Any) -> Any:
        return {"log": (await child.ainvoke({"log": []}))["log"]}

    return chain(("a", ledger.node("a")), ("b", acalls), ("c", ledger.node("c"))).compile(saver)


@pytest.fixture
def slow(saver: Saver) -> Iterator[tuple[Slow, Saver]]:
    made = Slow()
    wrapped = with_records(saver, made.records)
    yield made, wrapped
    wrapped.close()


def test_P4_async_what_a_subgraph_of_the_other_colour_stores_comes_after_what_its_parent_has_in_flight(
    slow: tuple[Slow, Saver], way: Way, ledger: Ledger
):
    watch, saver = slow
    assert way.invoke(run_of(way, saver, ledger), {"log": []}, on(), durability="async") == {"log": ["a", "child", "c"]}
    assert watch.landed == sorted(watch.landed)
    assert watch.asked > 4, "the subgraph has stored something"


def test_P4_async_a_subgraph_of_the_other_colour_stores_nothing_after_a_save_of_its_parent_has_failed(
    slow: tuple[Slow, Saver], saver: Saver, way: Way, ledger: Ledger
):
    watch, wrapped = slow
    watch.fails = True
    with pytest.raises(SaveFailed, match="disk full"):
        way.invoke(run_of(way, wrapped, ledger), {"log": []}, on(), durability="async")
    assert watch.landed == [0]
    assert "child" not in ledger.ran, "its input could not be stored"
    assert [row["step"] for row in rows_of(saver)["checkpoints"].values()] == [-1, 0]
    assert orphans(saver) == []
    ledger.ran.clear()
    assert way.invoke(run_of(way, saver, ledger), None, on()) == {"log": ["a", "child", "c"]}
    assert ledger.ran == ["a", "child", "c"]


def test_P4_async_a_parent_stores_nothing_after_a_save_of_a_subgraph_of_the_other_colour_has_failed(
    slow: tuple[Slow, Saver], saver: Saver, way: Way, ledger: Ledger
):
    watch, wrapped = slow
    watch.slow, watch.fails = 3, True  # the subgraph's step
    with pytest.raises(SaveFailed, match="disk full"):
        way.invoke(run_of(way, wrapped, ledger), {"log": []}, on(), durability="async")
    assert watch.landed == [0, 1, 2]
    assert way.state(run_of(way, saver, ledger), on()).next == ("b",)


@pytest.mark.parametrize("begun", [False, True], ids=["not begun", "begun"])
def test_P4_async_an_async_node_that_stops_its_loop_with_invoke_stores_in_order_too(saver: Saver, *, begun: bool):
    ledger = Ledger(Way("async"))
    child = child_of(ledger, Way("sync"))

    async def stops_the_loop(_: Any) -> Any:
        if begun:
            await asyncio.sleep(0)
        return {"log": child.invoke({"log": []})["log"]}

    graph = chain(("a", ledger.node("a")), ("b", stops_the_loop), ("c", ledger.node("c"))).compile(saver)
    assert asyncio.run(graph.ainvoke({"log": []}, on(), durability="async")) == {"log": ["a", "child", "c"]}
    numbers = list(rows_of(saver)["checkpoints"])
    assert numbers == sorted(numbers)
    assert orphans(saver) == []


def test_P50_async_an_async_node_that_stops_the_loop_which_a_save_needs_is_told_so(saver: Saver):
    watch = Slow()
    wrapped = with_records(saver, watch.records)
    ledger = Ledger(Way("async"))
    child = child_of(ledger, Way("sync"))

    async def stops_the_loop(_: Any) -> Any:
        await asyncio.sleep(0)
        return {"log": child.invoke({"log": []})["log"]}

    graph = chain(("a", ledger.node("a")), ("b", stops_the_loop)).compile(wrapped)
    with pytest.raises(InvalidCall, match="await ainvoke instead") as raised:
        asyncio.run(graph.ainvoke({"log": []}, on(), durability="async"))
    assert (raised.value.code, raised.value.thread) == ("INVALID_CALL", "t")
    assert "'b'" in " ".join(raised.value.__notes__)
    assert [row["step"] for row in rows_of(saver)["checkpoints"].values()] == [-1, 0, 1], "the subgraph has stored nothing"
    assert ledger.ran == ["a"], "and none of its nodes has run"
    assert watch.landed == sorted(watch.landed)
    assert asyncio.run(graph.ainvoke(None, on())) == {"log": ["a", "child"]}


def test_P12_async_a_subgraph_of_the_other_colour_asks_and_goes_on(saver: Saver, way: Way, ledger: Ledger):
    child = chain(("ask", lambda _: {"log": [interrupt("?")]})).compile()

    def calls(_: Any) -> Any:
        return {"log": child.invoke({"log": []})["log"]}

    async def acalls(_: Any) -> Any:
        return {"log": (await child.ainvoke({"log": []}))["log"]}

    graph = chain(("a", ledger.node("a")), ("b", calls if way.is_async else acalls)).compile(saver)
    way.invoke(graph, {"log": []}, on(), durability="async")
    assert [pause.value for pause in way.state(graph, on()).interrupts] == ["?"]
    assert way.invoke(graph, Command(resume="!"), on(), durability="async") == {"log": ["a", "!"]}
    assert ledger.ran == ["a"]
