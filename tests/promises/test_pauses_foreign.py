"""Pauses over a saver of somebody else's, who has the four methods only: terms, inbox, entries."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from perdure.errors import InvalidAnswer
from perdure.types import Command
from tests.contract.test_third_party import AsyncSaver, Keeper, SyncSaver
from tests.promises.asking import Entered, graph_of, open_of
from tests.promises.ways import Way, on


class Roaming(AsyncSaver):
    """Async methods only, on whatever loop there is."""

    async def bound(self) -> Keeper:
        await asyncio.sleep(0)
        return self.keeper


@pytest.fixture(params=[SyncSaver, Roaming], ids=lambda cls: cls.__name__)
def foreign(request: pytest.FixtureRequest) -> Any:
    return request.param()


def test_P16_schema_deadline_and_default_are_kept(way: Way, foreign: Any) -> None:
    graph = graph_of(a=Entered().asks(way, "a", response_schema=bool, deadline=3600, default=False)).compile(foreign)
    ids = open_of(way.invoke(graph, {"log": []}, on()))
    (pause,) = way.state(graph, on()).interrupts
    assert (pause.response_schema, pause.default, pause.overdue, pause.node) == ({"type": "boolean"}, False, False, "a")
    assert pause.deadline is not None
    assert pause.asked_at is not None
    with pytest.raises(InvalidAnswer):
        way.invoke(graph, Command(resume="yes"), on())
    assert open_of(way.state(graph, on())) == ids
    assert way.invoke(graph, Command(resume=True), on()) == {"log": ["a:True"]}


def test_P16_the_inbox_looks_at_every_thread(way: Way, foreign: Any) -> None:
    graph = graph_of(a=Entered().asks(way, "a"), b=Entered().asks(way, "b")).compile(foreign)
    for name in ("x1", "x2", "y"):
        ids = open_of(way.invoke(graph, {"log": []}, on(name)))
    way.invoke(graph, Command(resume={ids["a"]: 1}), on("y"))
    pages = [way._do(of, "list_interrupts") for of in (graph, foreign)]
    expected = [("x1", "a"), ("x1", "b"), ("x2", "a"), ("x2", "b"), ("y", "b")]
    assert [[(item.thread_id, item.node) for item in page.items] for page in pages] == [expected] * 2
    assert {item.thread_id for item in way._do(graph, "list_interrupts", thread_prefix="x").items} == {"x1", "x2"}
    page = way._do(graph, "list_interrupts", limit=1)
    assert (len(page.items), page.cursor) == (2, "x1")


def test_P17_entries_are_told(way: Way, foreign: Any) -> None:
    graph = graph_of(a=Entered().asks(way, "a", "1", "2")).compile(foreign)
    way.invoke(graph, {"log": []}, on())
    way.invoke(graph, Command(resume="x"), on())
    assert way.state(graph, on()).tasks[0].entries == 2
