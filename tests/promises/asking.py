"""What the tests of pauses have in common: nodes that ask, what is open, and helpers that ask side by side."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Any

from perdure.graph import START, StateGraph
from perdure.types import interrupt
from tests.promises.ways import Log, Way


def open_of(found: Any) -> dict[Any, str]:
    """Ids of the open questions of a result or a snapshot, by question."""
    pauses = found.interrupts if hasattr(found, "interrupts") else found.get("__interrupt__", ())
    return {pause.value: pause.id for pause in pauses}


class Entered(Counter[str]):
    """How often each code was entered, and the making of nodes that are counted."""

    def asks(self, way: Way, name: str, *questions: Any, **terms: Any) -> Callable[..., Any]:
        """A node that asks questions one after the other and appends `name:answer` for each."""

        def node(_: Any) -> dict[str, Any]:
            self[name] += 1
            return {"log": [f"{name}:{interrupt(question, **terms)}" for question in questions or (name,)]}

        return way.node(node)

    def says(self, way: Way, name: str) -> Callable[..., Any]:
        """A node that appends its name."""

        def node(_: Any) -> dict[str, Any]:
            self[name] += 1
            return {"log": [name]}

        return way.node(node)


def graph_of(**nodes: Any) -> StateGraph[Any, Any, Any, Any]:
    """A graph of nodes side by side."""
    builder: StateGraph[Any, Any, Any, Any] = StateGraph(Log)
    for name, node in nodes.items():
        builder.add_node(name, node).add_edge(START, name)
    return builder


def in_threads(calls: Sequence[Callable[[], Any]]) -> list[Any]:
    """Make calls at once, each on a thread of its own, in a copy of this context."""
    with ThreadPoolExecutor(len(calls)) as pool:
        futures = [pool.submit(copy_context().run, call) for call in calls]
    return [future.result() for future in futures]


async def in_tasks(calls: Sequence[Callable[[], Any]]) -> list[Any]:
    """Make calls at once, each in a task of its own."""

    async def later(call: Callable[[], Any]) -> Any:
        return call()

    return list(await asyncio.gather(*(later(call) for call in calls)))


async def in_group(calls: Sequence[Callable[[], Any]]) -> list[Any]:
    """As `in_tasks`, in a task group, which raises a group of exceptions and cancels the others."""

    async def later(call: Callable[[], Any]) -> Any:
        return call()

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(later(call)) for call in calls]
    return [task.result() for task in tasks]


def side_by_side(how: str, calls: Callable[[], Sequence[Callable[[], Any]]]) -> Callable[..., Any]:
    """A node that makes calls at once and returns what they gave as its log; `how` is threads, tasks or group."""
    if how == "threads":
        return lambda _: {"log": in_threads(calls())}
    together = in_tasks if how == "tasks" else in_group

    async def node(_: Any) -> dict[str, Any]:
        return {"log": await together(calls())}

    return node
