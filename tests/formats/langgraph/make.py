"""Makes `threads.sqlite` and `threads.json`: threads as LangGraph's own savers write them, and what LangGraph itself says of them.

It needs langgraph, langgraph-checkpoint-sqlite and langchain-core, in an environment of their own. From the root of the repository:

    python tests/formats/langgraph/make.py tests/formats/langgraph

With a Postgres URL behind the folder it also makes `postgres.json`, the rows of the Postgres saver's tables; that needs
langgraph-checkpoint-postgres and psycopg.
"""

from __future__ import annotations

import json
import operator
import sqlite3
import sys
from dataclasses import dataclass
from datetime import datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, TypedDict
from uuid import UUID

from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.func import entrypoint, task
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import Command, Send, interrupt


class Log(TypedDict, total=False):
    log: Annotated[list[Any], operator.add]


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


def on(thread: str) -> Any:
    return {"configurable": {"thread_id": thread}, "metadata": {"user": "ada"}}


def node(name: str) -> Any:
    return lambda state: {"log": [name]}


def questions() -> Any:
    """A result beside a node with three questions; a join behind both."""

    def ask(state: Log) -> Any:
        first = interrupt({"q": 1})
        return {"log": [first + interrupt("again?") + interrupt("again?")]}

    graph = StateGraph(Log).add_node("a", node("a")).add_node("ask", ask).add_node("end", node("end"))
    return graph.add_edge(START, "a").add_edge(START, "ask").add_edge(["a", "ask"], "end")


def several() -> Any:
    """Two nodes that ask at once, and a third whose result is there."""

    def asking(name: str) -> Any:
        return lambda state: {"log": [f"{name}={interrupt(name)}"]}

    graph = StateGraph(Log).add_node("p", asking("p")).add_node("q", asking("q")).add_node("r", node("r"))
    return graph.add_edge(START, "p").add_edge(START, "q").add_edge(START, "r")


def chat() -> Any:
    def reply(state: Chat) -> Any:
        n = len(state["messages"])
        call = {"name": "look", "args": {"n": n}, "id": f"call{n}"}
        return {"messages": [AIMessage(f"reply {n}", id=f"ai{n}", tool_calls=[call])]}

    def look(state: Chat) -> Any:
        call = state["messages"][-1].tool_calls[0]
        return {"messages": [ToolMessage(f"seen {call['args']['n']}", tool_call_id=call["id"], id=f"tool{call['args']['n']}")]}

    graph = StateGraph(Chat).add_node("reply", reply).add_node("look", look)
    return graph.add_edge(START, "reply").add_edge("reply", "look").add_edge("look", END)


def nested(checkpointer: Any = None) -> Any:
    def inside(state: Log) -> Any:
        return {"log": [interrupt("inside?")]}

    inner = StateGraph(Log).add_node("x", node("x")).add_node("y", inside).add_edge(START, "x").add_edge("x", "y")
    outer = StateGraph(Log).add_node("sub", inner.compile(checkpointer=checkpointer)).add_node("after", node("after"))
    return outer.add_edge(START, "sub").add_edge("sub", "after")


def twice() -> Any:
    """A node that calls a subgraph twice; each asks."""
    inner = StateGraph(Log).add_node("x", node("x")).add_node("y", lambda state: {"log": [interrupt("inside?")]})
    called = inner.add_edge(START, "x").add_edge("x", "y").compile()

    def calls(state: Log) -> Any:
        return {"log": [*called.invoke({"log": ["1"]})["log"], *called.invoke({"log": ["2"]})["log"]]}

    return (
        StateGraph(Log)
        .add_node("calls", calls)
        .add_node("after", node("after"))
        .add_edge(START, "calls")
        .add_edge("calls", "after")
    )


def deep() -> Any:
    """A subgraph that fans out to subgraphs that ask."""
    lowest = StateGraph(Log).add_node("k", node("k")).add_node("ask", lambda state: {"log": [interrupt(state["log"][0])]})
    lowest.add_edge(START, "k").add_edge("k", "ask")
    middle = StateGraph(Log).add_node("low", lowest.compile()).add_node("z", node("z")).add_edge("low", "z")
    middle.add_conditional_edges(START, lambda state: [Send("low", {"log": [name]}) for name in "pq"], ["low"])
    outer = StateGraph(Log).add_node("mid", middle.compile()).add_node("end", node("end"))
    return outer.add_edge(START, "mid").add_edge("mid", "end")


def fan_out() -> Any:
    def work(n: int) -> Any:
        return {"log": [f"work{n}" if n != 1 else interrupt("which?")]}

    graph = StateGraph(Log).add_node("work", work).add_node("end", node("end")).add_edge("work", "end")
    return graph.add_conditional_edges(START, lambda state: [Send("work", n) for n in range(3)], ["work"])


def failing() -> Any:
    def bad(state: Log) -> Any:
        raise ConnectionError("the service is down")

    graph = StateGraph(Log).add_node("good", node("good")).add_node("bad", bad).add_node("end", node("end"))
    return graph.add_edge(START, "good").add_edge(START, "bad").add_edge(["good", "bad"], "end")


def late() -> Any:
    """A deferred node that waits for a longer line, with a breakpoint in it."""
    graph = StateGraph(Log)
    for name in ("a", "b", "c"):
        graph.add_node(name, node(name))
    graph.add_node("d", node("d"), defer=True)
    return graph.add_edge(START, "a").add_edge("a", "b").add_edge("a", "d").add_edge("b", "c").add_edge("c", "d")


def line() -> Any:
    graph = StateGraph(Log)
    before = START
    for name in "abc":
        graph.add_node(name, node(name)).add_edge(before, name)
        before = name
    return graph.add_edge(before, END)


def odd() -> Any:
    def fill(state: Odd) -> Any:
        return {
            "when": datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone.utc),
            "price": Decimal("1.50"),
            "who": UUID(int=7),
            "tags": {"a", "b"},
            "point": Point(1, 2),
            "big": "long " * 100,
        }

    return StateGraph(Odd).add_node("fill", fill).add_edge(START, "fill")


def workflow(saver: Any) -> Any:
    @task  # type: ignore[untyped-decorator]
    def double(n: int) -> int:
        return n * 2

    @entrypoint(checkpointer=saver)  # type: ignore[untyped-decorator]
    def flow(n: int, *, previous: Any = None) -> Any:
        doubled = double(n).result()
        return [previous, doubled, interrupt("sure?")]

    return flow


def make(saver: Any) -> dict[str, Any]:
    graphs: dict[str, Any] = {}

    def run(thread: str, graph: Any, *inputs: Any, **options: Any) -> Any:
        compiled = graphs[thread] = graph if hasattr(graph, "invoke") else graph.compile(checkpointer=saver)
        for given in inputs:
            try:
                compiled.invoke(given, on(thread), **options)
            except ConnectionError:
                pass
        return compiled

    run("questions", questions(), {"log": ["in"]}, Command(resume="1"), Command(resume="2"))
    run("answered", questions(), {"log": ["in"]}, *(Command(resume=str(n)) for n in range(3)))
    run("several", several(), {"log": ["in"]})
    run("chat", chat(), *({"messages": [HumanMessage(f"turn {n}", id=f"user{n}")]} for n in range(4)))
    run("nested", nested(), {"log": ["in"]})
    run("remembering", nested(True), {"log": ["in"]}, Command(resume="one"), {"log": ["more"]})
    run("twice", twice(), {"log": ["in"]}, Command(resume="one"))
    run("deep", deep(), {"log": ["in"]})
    run("fan_out", fan_out(), {"log": ["in"]})
    run("failing", failing(), {"log": ["in"]})
    run("late", late(), {"log": ["in"]}, interrupt_before=["b"])
    graph = run("line", line(), {"log": ["in"]})
    old = next(each for each in graph.get_state_history(on("line")) if each.next == ("b",))
    graph.update_state(old.config, {"log": ["edited"]})
    graph = run("odd", odd(), {"big": ""})
    run("workflow", workflow(saver), 4, Command(resume="yes"), 5)
    return {thread: [shown(each) for each in graph.get_state_history(on(thread))] for thread, graph in graphs.items()}


def shown(snapshot: Any) -> dict[str, Any]:
    return {
        "id": snapshot.config["configurable"]["checkpoint_id"],
        "parent": (snapshot.parent_config or {"configurable": {"checkpoint_id": None}})["configurable"]["checkpoint_id"],
        "next": sorted(snapshot.next),
        "step": snapshot.metadata["step"],
        "source": snapshot.metadata["source"],
        "user": snapshot.metadata.get("user"),
        "values": plain(snapshot.values),
        "interrupts": [[one.id, one.value] for one in snapshot.interrupts],
    }


def plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items()}
    if isinstance(value, list):
        return [plain(one) for one in value]
    if hasattr(value, "content"):
        return [value.type, value.content, value.id]
    if isinstance(value, set):
        return sorted(value)
    return value if isinstance(value, (str, int, type(None))) else str(value)


def main() -> None:
    folder = Path(sys.argv[1])
    path = folder / "threads.sqlite"
    path.unlink(missing_ok=True)
    connection = sqlite3.connect(path, check_same_thread=False)
    told = make(SqliteSaver(connection))
    connection.execute("PRAGMA journal_mode = DELETE").fetchall()
    connection.execute("VACUUM")
    connection.close()
    (folder / "threads.json").write_text(json.dumps(told, indent=1) + "\n")
    if len(sys.argv) > 2:
        postgres(sys.argv[2], folder / "postgres.json")


def postgres(url: str, path: Path) -> None:
    import psycopg
    from langgraph.checkpoint.postgres import PostgresSaver
    from psycopg.rows import dict_row

    with psycopg.connect(url, autocommit=True, row_factory=dict_row) as connection:
        saver = PostgresSaver(connection)
        saver.setup()
        told: dict[str, Any] = {"said": make(saver)}
        for table in ("checkpoints", "checkpoint_blobs", "checkpoint_writes"):
            rows = connection.execute(f"SELECT * FROM {table}").fetchall()
            told[table] = [
                {name: {"hex": bytes(one).hex()} if isinstance(one, (bytes, memoryview)) else one for name, one in row.items()}
                for row in rows
            ]
    path.write_text(json.dumps(told) + "\n")


if __name__ == "__main__":
    main()
