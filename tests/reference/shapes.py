"""The graphs of the worked examples, and plain forms of what a run shows: ids by their order, times left out."""

from __future__ import annotations

import asyncio
import operator
import re
import threading
from collections.abc import Sequence
from typing import Annotated, Any, TypedDict

from perdure.checkpoint.saver import Saver
from perdure.graph import END, START, StateGraph
from perdure.types import Command, Interrupt, Send, StateSnapshot, interrupt
from tests.promises.ways import Way

UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
HEX = re.compile(r"[0-9a-f]{32}")
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?\+00:00")
EMPTY: dict[str, Any] = {"foo": "", "bar": []}


class State(TypedDict):
    """The state of every worked example."""

    foo: str
    bar: Annotated[list[str], operator.add]


def linear(way: Way, saver: Saver | None) -> Any:
    """START -> node_a -> node_b -> END."""
    builder = StateGraph(State)
    builder.add_node("node_a", way.node(lambda _: {"foo": "a", "bar": ["a"]}))
    builder.add_node("node_b", way.node(lambda _: {"foo": "b", "bar": ["b"]}))
    builder.add_edge(START, "node_a").add_edge("node_a", "node_b").add_edge("node_b", END)
    return builder.compile(checkpointer=saver)


def asking_twice(way: Way, saver: Saver) -> Any:
    """Node a asks "q1", then {"q": 2}; node b follows."""

    def a(_: State) -> dict[str, Any]:
        first = interrupt("q1")
        return {"foo": first + interrupt({"q": 2}), "bar": ["a"]}

    builder = StateGraph(State).add_node("a", way.node(a)).add_node("b", way.node(lambda _: {"bar": ["b"]}))
    return builder.add_edge(START, "a").add_edge("a", "b").compile(checkpointer=saver)


def failing_once(way: Way, saver: Saver, counts: dict[str, int]) -> Any:
    """START -> {ok, bad}, both -> end; bad fails the first time, after ok has ended."""
    ended = threading.Event()

    def ok(_: State) -> dict[str, Any]:
        counts["ok"] += 1
        ended.set()
        return {"bar": ["ok"]}

    def bad() -> dict[str, Any]:
        counts["bad"] += 1
        if counts["bad"] == 1:
            raise ValueError("boom")
        return {"bar": ["bad"]}

    def blocking_bad(_: State) -> dict[str, Any]:
        ended.wait(10)
        return bad()

    async def async_bad(_: State) -> dict[str, Any]:
        await asyncio.to_thread(ended.wait, 10)
        return bad()

    builder = StateGraph(State).add_node("ok", way.node(ok)).add_node("bad", async_bad if way.is_async else blocking_bad)
    builder.add_node("end", way.node(lambda _: {"foo": "done"}))
    builder.add_edge(START, "ok").add_edge(START, "bad").add_edge(["ok", "bad"], "end")
    return builder.compile(checkpointer=saver)


def fan(way: Way, saver: Saver) -> Any:
    """Node fan writes and sends two tasks to w."""
    builder = StateGraph(State)
    builder.add_node("fan", way.node(lambda _: Command(update={"foo": "f"}, goto=[Send("w", {"i": 0}), Send("w", {"i": 1})])))
    builder.add_node("w", way.node(lambda arg: {"bar": [f"w{arg['i']}"]}))
    return builder.add_edge(START, "fan").compile(checkpointer=saver)


def asking_side_by_side(way: Way, saver: Saver) -> Any:
    """Nodes a and b ask "qa" and "qb" in one super-step."""
    builder = StateGraph(State)
    builder.add_node("a", way.node(lambda _: {"bar": ["a" + interrupt("qa")]}))
    builder.add_node("b", way.node(lambda _: {"bar": ["b" + interrupt("qb")]}))
    return builder.add_edge(START, "a").add_edge(START, "b").compile(checkpointer=saver)


def asking_last(way: Way, saver: Saver) -> Any:
    """START -> a -> b; b asks "q"."""
    builder = StateGraph(State).add_node("a", way.node(lambda _: {"bar": ["a"]}))
    builder.add_node("b", way.node(lambda _: {"bar": ["b" + interrupt("q")]}))
    return builder.add_edge(START, "a").add_edge("a", "b").compile(checkpointer=saver)


class Plain:
    """Makes plain data of what a run shows: each id becomes `<n>`, numbered in the order of appearance, each time `<time>`."""

    def __init__(self) -> None:
        self._seen: dict[str, str] = {}

    def __call__(self, value: Any) -> Any:
        if isinstance(value, str):
            if TIME.fullmatch(value):
                return "<time>"
            if UUID.fullmatch(value) or HEX.fullmatch(value):
                return self._seen.setdefault(value, f"<{len(self._seen)}>")
            return value
        if isinstance(value, dict):
            return {key: self(part) for key, part in value.items()}
        if isinstance(value, Interrupt):
            return Interrupt(value.value, self(value.id), response_schema=value.response_schema)
        if isinstance(value, list):
            return [self(part) for part in value]
        if type(value) is tuple:
            return tuple(self(part) for part in value)
        return value


def plain(value: Any) -> Any:
    """`Plain` for one value."""
    return Plain()(value)


Line = tuple[Any, ...]


def line(snapshot: StateSnapshot, ids: Sequence[str] = ()) -> Line:
    """A snapshot as (step, source, values, next, number of the checkpoint, number of its parent, questions).

    Args:
        snapshot: the snapshot.
        ids: all ids of the thread, oldest first; the numbers are places in it.
    """
    own = snapshot.config["configurable"]["checkpoint_id"]
    parent = None if snapshot.parent_config is None else snapshot.parent_config["configurable"]["checkpoint_id"]
    metadata: Any = snapshot.metadata
    numbers = (ids.index(own), None if parent is None else ids.index(parent)) if ids else ()
    questions = [pause.value for pause in snapshot.interrupts]
    return (metadata["step"], metadata["source"], snapshot.values, snapshot.next, *numbers, questions)


def tasks(snapshot: StateSnapshot) -> list[Line]:
    """Its tasks as (name, path, error, questions, state, result)."""
    return [
        (
            task.name,
            task.path,
            task.error and repr(task.error),
            [pause.value for pause in task.interrupts],
            task.state,
            task.result,
        )
        for task in snapshot.tasks
    ]


def lines(history: Sequence[StateSnapshot]) -> list[Line]:
    """A history as lines, newest first, each with its tasks behind it."""
    ids = sorted(one.config["configurable"]["checkpoint_id"] for one in history)
    return [found for one in history for found in (line(one, ids), *(("task", *task) for task in tasks(one)))]


def pull(name: str, result: Any, *questions: Any, error: str | None = None) -> Line:
    """The line of a triggered node's task."""
    return ("task", name, ("__pregel_pull", name), error, list(questions), None, result)


def push(name: str, index: int, result: Any) -> Line:
    """The line of a Send's task."""
    return ("task", name, ("__pregel_push", index, False), None, [], None, result)
