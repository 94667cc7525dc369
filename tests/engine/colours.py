"""One scenario, run in each colour: sync and async calls, of sync and async nodes (P49)."""

from __future__ import annotations

import asyncio
import functools
import inspect
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

from typing_extensions import TypedDict


class Log(TypedDict):
    """A state of one list that grows."""

    log: Annotated[list[Any], operator.add]


@dataclass(frozen=True)
class Colour:
    """How a scenario calls graphs, and what its nodes are."""

    name: str
    calls_async: bool
    nodes_async: bool

    def node(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        """The function as a node of this colour."""
        if not self.nodes_async or inspect.iscoroutinefunction(fn):
            return fn

        @functools.wraps(fn)
        async def later(*args: Any, **kwargs: Any) -> Any:
            await asyncio.sleep(0)
            return fn(*args, **kwargs)

        return later

    def says(self, word: Any) -> Callable[..., Any]:
        """A node that appends a word to the log."""
        return self.node(lambda _: {"log": [word]})

    def invoke(self, graph: Any, given: Any, config: Any = None, **options: Any) -> Any:
        """`invoke` or `ainvoke`."""
        if self.calls_async:
            return asyncio.run(graph.ainvoke(given, config, **options))
        return graph.invoke(given, config, **options)

    def stream(self, graph: Any, given: Any, config: Any = None, **options: Any) -> list[Any]:
        """All that `stream` or `astream` yields."""
        if not self.calls_async:
            return list(graph.stream(given, config, **options))

        async def collect() -> list[Any]:
            return [item async for item in graph.astream(given, config, **options)]

        return asyncio.run(collect())

    def state(self, graph: Any, config: Any, **options: Any) -> Any:
        """`get_state` or `aget_state`."""
        if self.calls_async:
            return asyncio.run(graph.aget_state(config, **options))
        return graph.get_state(config, **options)

    def history(self, graph: Any, config: Any, **options: Any) -> list[Any]:
        """All of `get_state_history` or its async twin."""
        if not self.calls_async:
            return list(graph.get_state_history(config, **options))

        async def collect() -> list[Any]:
            return [item async for item in graph.aget_state_history(config, **options)]

        return asyncio.run(collect())


COLOURS = (
    Colour("sync", calls_async=False, nodes_async=False),
    Colour("async", calls_async=True, nodes_async=True),
    Colour("sync calls, async nodes", calls_async=False, nodes_async=True),
    Colour("async calls, sync nodes", calls_async=True, nodes_async=False),
)


def thread(name: str = "t") -> Any:
    """The config of a thread; Any, so that it may be put into a dict with other keys."""
    return {"configurable": {"thread_id": name}}
