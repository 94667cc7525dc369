"""What tests of retention share: calls in both colours, and a conversation to prune."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Annotated, Any, TypedDict

from perdure.checkpoint.retention import Pruned
from perdure.checkpoint.saver import Saver
from perdure.graph import START, StateGraph
from perdure.types import interrupt
from tests.promises.ways import Config, Ledger, Log, Way, on

DAY = 86_400


def prune(way: Way, saver: Saver, **options: Any) -> Pruned:
    found: Pruned = way._do(saver, "prune", **options)
    return found


def sweep(way: Way, saver: Saver, **options: Any) -> Pruned:
    found: Pruned = way._do(saver, "sweep", **options)
    return found


def sound(way: Way, saver: Saver, thread: str = "t") -> None:
    """Every invariant holds, and what is stored is exactly what is referred to."""
    found = way._do(saver, "verify", thread)
    assert (found.problems, found.orphans) == ((), ())


def id_of(config: Config) -> str:
    found: str = config["configurable"]["checkpoint_id"]
    return found


def chat(way: Way, saver: Saver) -> Any:
    """A turn appends what came in, and an answer of a kilobyte."""

    def answer(state: Log) -> Any:
        return {"log": [f"{len(state['log'])} " * 400]}

    builder: StateGraph[Any, Any, Any, Any] = StateGraph(Log)
    return builder.add_node("answer", way.node(answer)).add_edge(START, "answer").compile(checkpointer=saver)


def turns(way: Way, graph: Any, count: int, thread: str = "t") -> None:
    for at in range(count):
        way.invoke(graph, {"log": [f"in {at} " * 200]}, on(thread))


class Work(TypedDict):
    log: Annotated[list[str], operator.add]


def working(way: Way, saver: Saver, ledger: Ledger, *, asks: Callable[[], bool]) -> Any:
    """Three workers side by side, the third of which may ask."""

    def third(state: Any) -> Any:
        ledger.ran.append("third")
        return {"log": [f"third {interrupt('well?') if asks() else ''}"]}

    builder: StateGraph[Any, Any, Any, Any] = StateGraph(Work)
    for name, node in (("first", ledger.node("first")), ("second", ledger.node("second")), ("third", way.node(third))):
        builder.add_node(name, node)
        builder.add_edge(START, name)
    return builder.compile(checkpointer=saver)
