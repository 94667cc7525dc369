"""Graphs that are killed, and what a person would do to bring each to its end, whatever is left of it."""

from __future__ import annotations

import asyncio
import contextlib
import operator
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypedDict

from perdure.checkpoint.saver import Saver
from perdure.func import task
from perdure.graph import START, StateGraph
from perdure.types import Command, Send, interrupt
from tests.promises.ways import Way, on


class State(TypedDict):
    log: Annotated[list[str], operator.add]
    n: int


class Teller:
    """Makes the nodes of a story: each notes its label in a file outside before it returns, and returns it."""

    def __init__(self, ledger: Path, way: Way) -> None:
        self.ledger = ledger
        self.way = way

    def note(self, label: str) -> None:
        handle = os.open(self.ledger, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(handle, f"{label}\n".encode())
        os.close(handle)

    def node(self, label: str, seconds: float = 0.0) -> Callable[..., Any]:
        """A node that takes a while. Those that run side by side end one after the other, so that each may be stored alone."""

        def node(state: Any) -> Any:
            time.sleep(seconds)
            self.note(label)
            return {"log": [label]}

        async def anode(state: Any) -> Any:
            await asyncio.sleep(seconds)
            self.note(label)
            return {"log": [label]}

        return anode if self.way.is_async else node


def loop(teller: Teller) -> StateGraph[Any, Any, Any, Any]:
    def step(state: State) -> Any:
        label = f"step{state['n']}"
        teller.note(label)
        return {"log": [label], "n": state["n"] + 1}

    builder: StateGraph[Any, Any, Any, Any] = StateGraph(State)
    builder.add_node("step", teller.way.node(step))
    builder.add_edge(START, "step")
    builder.add_conditional_edges("step", lambda state: "step" if state["n"] < 3 else "__end__", ["step", "__end__"])
    return builder


def abreast(teller: Teller) -> StateGraph[Any, Any, Any, Any]:
    """Three of different length, and one after them."""
    builder: StateGraph[Any, Any, Any, Any] = StateGraph(State)
    for at, name in enumerate("abc"):
        builder.add_node(name, teller.node(name, 0.004 * at))
        builder.add_edge(START, name)
    builder.add_node("end", teller.node("end"))
    builder.add_edge(["a", "b", "c"], "end")
    return builder


def fan_out(teller: Teller) -> StateGraph[Any, Any, Any, Any]:
    async def awork(given: int) -> Any:
        return await teller.node(f"work{given}", 0.004 * given)({})

    def work(given: int) -> Any:
        return teller.node(f"work{given}", 0.004 * given)({})

    builder: StateGraph[Any, Any, Any, Any] = StateGraph(State)
    builder.add_node("work", awork if teller.way.is_async else work)
    builder.add_node("end", teller.node("end"))
    builder.add_conditional_edges(START, lambda state: [Send("work", n) for n in range(4)], ["work"])
    builder.add_edge("work", "end")
    return builder


def question(teller: Teller) -> StateGraph[Any, Any, Any, Any]:
    """A question beside a result, between two steps."""

    def ask(state: State) -> Any:
        answer = interrupt("?")
        teller.note("ask")
        return {"log": ["ask", answer]}

    builder: StateGraph[Any, Any, Any, Any] = StateGraph(State)
    builder.add_node("before", teller.node("before"))
    builder.add_node("ask", teller.way.node(ask))
    builder.add_node("beside", teller.node("beside"))
    builder.add_node("after", teller.node("after"))
    builder.add_edge(START, "before")
    for name in ("ask", "beside"):
        builder.add_edge("before", name)
    builder.add_edge(["ask", "beside"], "after")
    return builder


def subgraph(teller: Teller) -> StateGraph[Any, Any, Any, Any]:
    """A subgraph with two abreast and a question, between two steps."""

    def ask(state: State) -> Any:
        answer = interrupt("inside?")
        teller.note("ask")
        return {"log": ["ask", answer]}

    inner: StateGraph[Any, Any, Any, Any] = StateGraph(State)
    for at, name in enumerate(("x", "y")):
        inner.add_node(name, teller.node(name, 0.004 * at))
        inner.add_edge(START, name)
    inner.add_node("ask", teller.way.node(ask))
    inner.add_edge(["x", "y"], "ask")
    builder: StateGraph[Any, Any, Any, Any] = StateGraph(State)
    builder.add_node("before", teller.node("before"))
    builder.add_node("child", inner.compile())
    builder.add_node("after", teller.node("after"))
    builder.add_edge(START, "before")
    builder.add_edge("before", "child")
    builder.add_edge("child", "after")
    return builder


def steps(teller: Teller) -> StateGraph[Any, Any, Any, Any]:
    """Three durable steps inside of one node, which is entered again where it was killed."""

    def step(n: int) -> str:
        teller.note(f"step{n}")
        return f"step{n}"

    durable: Any = task(teller.way.node(step))

    def node(state: State) -> Any:
        return {"log": [durable(n).result() for n in range(3)]}

    async def anode(state: State) -> Any:
        return {"log": [await durable(n) for n in range(3)]}

    builder: StateGraph[Any, Any, Any, Any] = StateGraph(State)
    builder.add_node("node", anode if teller.way.is_async else node)
    builder.add_node("after", teller.node("after"))
    builder.add_edge(START, "node")
    builder.add_edge("node", "after")
    return builder


STORIES: dict[str, tuple[Callable[[Teller], StateGraph[Any, Any, Any, Any]], int]] = {
    "loop": (loop, 1),
    "abreast": (abreast, 3),
    "fan_out": (fan_out, 4),
    "question": (question, 2),
    "subgraph": (subgraph, 2),
    "steps": (steps, 1),
    "closed": (loop, 1),
    "edited": (loop, 1),
}
"""Each with the most tasks that run at a time. "closed" is a stream that is closed early, "edited" one with an edit at its end."""


def finish(story: str, saver: Saver, ledger: Path, way: Way, durability: Any) -> Any:
    """Begin the story or go on with it, until nothing is left to do; the graph."""
    graph = STORIES[story][0](Teller(ledger, way)).compile(checkpointer=saver)
    for _ in range(20):
        snapshot = way.state(graph, on())
        if snapshot.metadata is None:
            if story == "closed":
                stream: Any = graph.stream({"log": [], "n": 0}, on(), durability=durability)
                with contextlib.closing(stream):
                    next(stream)
            else:
                way.invoke(graph, {"log": [], "n": 0}, on(), durability=durability)
        elif snapshot.interrupts:
            way.invoke(graph, Command(resume="yes"), on(), durability=durability)
        elif snapshot.next:
            way.invoke(graph, None, on(), durability=durability)
        elif story == "edited" and "edit" not in snapshot.values["log"]:
            way.edit(graph, on(), {"log": ["edit"]}, as_node="step")
        else:
            return graph
    raise AssertionError(f"it never ends: {snapshot}")
