"""P12: questions of threads and asyncio tasks that a node has started by itself. Those count that are reached before the node ends."""

from __future__ import annotations

import asyncio
import threading
from contextvars import copy_context
from typing import Any

import pytest

from perdure.checkpoint.saver import Saver
from perdure.errors import GraphInterrupt, InvalidCall, OutsideOfRun
from perdure.types import Command, interrupt
from tests.promises.asking import graph_of, open_of
from tests.promises.ways import Log, Way, on, status_of
from tests.streaming.stories import until


class Helper:
    """Code that asks, on a thread or in a task; it keeps what came of it."""

    def __init__(self) -> None:
        self.found: list[Any] = []
        self.may_ask = threading.Event()
        self.asked = threading.Event()
        self.thread: threading.Thread | None = None
        self.task: asyncio.Task[None] | None = None

    def ask(self) -> None:
        try:
            self.found.append(interrupt("q"))
        except BaseException as error:
            self.found.append(error)
        self.asked.set()

    def start_thread(self, *, in_context: bool = True) -> None:
        """Ask on a thread, once it may."""
        run = copy_context().run

        def wait_and_ask() -> None:
            self.may_ask.wait(10)
            run(self.ask) if in_context else self.ask()

        self.thread = threading.Thread(target=wait_and_ask)
        self.thread.start()

    def start_task(self) -> None:
        """Ask in a task, once it may."""

        async def wait_and_ask() -> None:
            await until(self.may_ask.is_set)
            self.ask()

        self.task = asyncio.create_task(wait_and_ask())

    async def wait_for_task(self) -> None:
        """Until it has asked."""
        assert self.task is not None
        await self.task


def test_P12_a_thread_that_nobody_listens_to_but_that_asks_in_time_counts(way: Way, saver: Saver) -> None:
    helpers: list[Helper] = []

    def node(_: Log) -> dict[str, Any]:
        helper = Helper()
        helpers.append(helper)
        helper.may_ask.set()
        helper.start_thread()
        helper.asked.wait(10)
        return {"log": [found for found in helper.found if not isinstance(found, BaseException)]}

    graph = graph_of(node=way.node(node)).compile(saver)
    assert list(open_of(way.invoke(graph, {"log": []}, on()))) == ["q"]
    assert type(helpers[0].found[0]) is GraphInterrupt
    assert way.invoke(graph, Command(resume="r"), on()) == {"log": ["r"]}


def test_P12_a_task_that_nobody_awaits_but_that_asks_in_time_counts(way: Way, saver: Saver) -> None:
    async def node(_: Log) -> dict[str, Any]:
        helper = Helper()
        helper.may_ask.set()
        helper.start_task()
        await helper.wait_for_task()
        return {"log": [found for found in helper.found if not isinstance(found, BaseException)]}

    graph = graph_of(node=node).compile(saver)
    assert list(open_of(way.invoke(graph, {"log": []}, on()))) == ["q"]
    assert way.invoke(graph, Command(resume="r"), on()) == {"log": ["r"]}


def refused(found: list[Any]) -> bool:
    (error,) = found
    return type(error) is InvalidCall and "'node', which has ended" in str(error) and error.node == "node"


@pytest.mark.parametrize("fails", [False, True], ids=["ends well", "fails"])
def test_P12_P50_a_thread_that_asks_after_its_node_has_ended_is_told_so(way: Way, saver: Saver, fails: bool) -> None:
    helper = Helper()

    def node(_: Log) -> dict[str, Any]:
        helper.start_thread()
        if fails:
            raise ValueError("mine")
        return {"log": ["done"]}

    graph = graph_of(node=way.node(node)).compile(saver)
    if fails:
        with pytest.raises(ValueError, match="mine"):
            way.invoke(graph, {"log": []}, on())
    else:
        assert way.invoke(graph, {"log": []}, on()) == {"log": ["done"]}
    helper.may_ask.set()
    assert helper.thread is not None
    helper.thread.join(10)
    assert refused(helper.found)
    assert open_of(way.state(graph, on())) == {}
    assert status_of(saver) == ("error" if fails else "idle", True)


def test_P12_P50_a_task_that_asks_after_its_node_has_ended_is_told_so(way: Way, saver: Saver) -> None:
    helper = Helper()

    async def node(_: Log) -> dict[str, Any]:
        helper.start_task()
        return {"log": ["done"]}

    async def later(_: Log) -> None:
        helper.may_ask.set()
        await helper.wait_for_task()

    drawing = graph_of(node=node).add_node("later", later).add_edge("node", "later")
    assert way.invoke(drawing.compile(saver), {"log": []}, on()) == {"log": ["done"]}
    assert refused(helper.found)
    assert status_of(saver) == ("idle", True)


def test_P12_a_thread_without_the_nodes_context_is_outside_of_the_run(way: Way, saver: Saver) -> None:
    helper = Helper()

    def node(_: Log) -> None:
        helper.may_ask.set()
        helper.start_thread(in_context=False)
        helper.asked.wait(10)

    graph = graph_of(node=way.node(node)).compile(saver)
    assert way.invoke(graph, {"log": []}, on()) == {"log": []}
    assert type(helper.found[0]) is OutsideOfRun
    assert open_of(way.state(graph, on())) == {}
