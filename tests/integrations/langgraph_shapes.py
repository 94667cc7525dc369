"""The graphs of `tests/formats/langgraph/make.py`, drawn with this library."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any, TypedDict
from uuid import UUID

from perdure.func import entrypoint, task
from perdure.graph import END, START, StateGraph
from perdure.graph.message import add_messages
from perdure.types import Send, interrupt

ran: list[str] = []
"""Which nodes ran in this process."""


class Log(TypedDict, total=False):
    log: Annotated[list[str], operator.add]


class Chat(TypedDict):
    messages: Annotated[list[Any], add_messages]


@dataclass
class Point:
    x: int
    y: int


class Odd(TypedDict, total=False):
    when: datetime
    price: Decimal
    who: UUID
    tags: set[str]
    point: Any
    big: str


def node(name: str) -> Any:
    def run(state: Any) -> Any:
        ran.append(name)
        return {"log": [name]}

    return run


def questions() -> Any:
    def ask(state: Log) -> Any:
        first = interrupt({"q": 1})
        return {"log": [first + interrupt("again?") + interrupt("again?")]}

    graph: Any = StateGraph(Log).add_node("a", node("a")).add_node("ask", ask).add_node("end", node("end"))
    return graph.add_edge(START, "a").add_edge(START, "ask").add_edge(["a", "ask"], "end")


def several() -> Any:
    def asking(name: str) -> Any:
        return lambda state: {"log": [f"{name}={interrupt(name)}"]}

    graph: Any = StateGraph(Log).add_node("p", asking("p")).add_node("q", asking("q")).add_node("r", node("r"))
    return graph.add_edge(START, "p").add_edge(START, "q").add_edge(START, "r")


def chat() -> Any:
    def reply(state: Chat) -> Any:
        n = len(state["messages"])
        call = {"name": "look", "args": {"n": n}, "id": f"call{n}"}
        return {"messages": [{"role": "assistant", "content": f"reply {n}", "id": f"ai{n}", "tool_calls": [call]}]}

    def look(state: Chat) -> Any:
        call = state["messages"][-1].tool_calls[0]
        return {"messages": [{"role": "tool", "content": "seen", "tool_call_id": call["id"], "id": f"tool{call['id']}"}]}

    graph: Any = StateGraph(Chat).add_node("reply", reply).add_node("look", look)
    return graph.add_edge(START, "reply").add_edge("reply", "look").add_edge("look", END)


def nested(checkpointer: Any = None) -> Any:
    def inside(state: Log) -> Any:
        return {"log": [interrupt("inside?")]}

    inner: Any = StateGraph(Log).add_node("x", node("x")).add_node("y", inside).add_edge(START, "x").add_edge("x", "y")
    outer: Any = StateGraph(Log).add_node("sub", inner.compile(checkpointer=checkpointer)).add_node("after", node("after"))
    return outer.add_edge(START, "sub").add_edge("sub", "after")


def twice() -> Any:
    inner: Any = StateGraph(Log).add_node("x", node("x")).add_node("y", lambda state: {"log": [interrupt("inside?")]})
    called = inner.add_edge(START, "x").add_edge("x", "y").compile()

    def calls(state: Log) -> Any:
        return {"log": [*called.invoke({"log": ["1"]})["log"], *called.invoke({"log": ["2"]})["log"]]}

    outer: Any = StateGraph(Log).add_node("calls", calls).add_node("after", node("after"))
    return outer.add_edge(START, "calls").add_edge("calls", "after")


def deep() -> Any:
    lowest: Any = StateGraph(Log).add_node("k", node("k")).add_node("ask", lambda state: {"log": [interrupt(state["log"][0])]})
    lowest.add_edge(START, "k").add_edge("k", "ask")
    middle: Any = StateGraph(Log).add_node("low", lowest.compile()).add_node("z", node("z")).add_edge("low", "z")
    middle.add_conditional_edges(START, lambda state: [Send("low", {"log": [name]}) for name in "pq"], ["low"])
    outer: Any = StateGraph(Log).add_node("mid", middle.compile()).add_node("end", node("end"))
    return outer.add_edge(START, "mid").add_edge("mid", "end")


def remembering() -> Any:
    return nested(True)


def fan_out() -> Any:
    def work(n: int) -> Any:
        ran.append(f"work{n}")
        return {"log": [f"work{n}" if n != 1 else interrupt("which?")]}

    graph: Any = StateGraph(Log).add_node("work", work).add_node("end", node("end")).add_edge("work", "end")
    return graph.add_conditional_edges(START, lambda state: [Send("work", n) for n in range(3)], ["work"])


def failing() -> Any:
    graph: Any = StateGraph(Log).add_node("good", node("good")).add_node("bad", node("bad")).add_node("end", node("end"))
    return graph.add_edge(START, "good").add_edge(START, "bad").add_edge(["good", "bad"], "end")


def late() -> Any:
    graph: Any = StateGraph(Log)
    for name in ("a", "b", "c"):
        graph.add_node(name, node(name))
    graph.add_node("d", node("d"), defer=True)
    return graph.add_edge(START, "a").add_edge("a", "b").add_edge("a", "d").add_edge("b", "c").add_edge("c", "d")


def line() -> Any:
    graph: Any = StateGraph(Log)
    before = START
    for name in "abc":
        graph.add_node(name, node(name)).add_edge(before, name)
        before = name
    return graph.add_edge(before, END)


def odd() -> Any:
    return StateGraph(Odd).add_node("fill", lambda state: {"big": state["big"]}).add_edge(START, "fill")


def workflow(saver: Any) -> Any:
    @task
    def double(n: int) -> int:
        ran.append(f"double{n}")
        return n * 2

    @entrypoint(checkpointer=saver)
    def flow(n: int, *, previous: Any = None) -> Any:
        doubled = double(n).result()
        return [previous, doubled, interrupt("sure?")]

    return flow


SHAPES = {
    "questions": questions,
    "answered": questions,
    "several": several,
    "chat": chat,
    "nested": nested,
    "remembering": remembering,
    "twice": twice,
    "deep": deep,
    "fan_out": fan_out,
    "failing": failing,
    "late": late,
    "line": line,
    "odd": odd,
}


def compiled(thread: str, saver: Any) -> Any:
    """The graph of a thread."""
    return workflow(saver) if thread == "workflow" else SHAPES[thread]().compile(checkpointer=saver)
