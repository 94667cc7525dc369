"""Makes `sqlite/v2.db`, a database of format 2 that every later version must be able to read, and `sqlite/v2.json`, what is in it.

Run as a script, from the root of the repository, with the name of the file to make:

    PYTHONPATH=src python -m tests.formats.sqlite_story tests/formats/sqlite/v2.db

A released fixture is never made again. A new format gets a new file, and this script what is new in it.
"""

from __future__ import annotations

import json
import operator
import sqlite3
import sys
import threading
from pathlib import Path
from typing import Annotated, Any, TypedDict

from perdure.checkpoint.saver import Saver
from perdure.checkpoint.serde import stored_error
from perdure.checkpoint.sqlite import SqliteSaver
from perdure.graph import END, START, StateGraph
from perdure.types import Command, RunnableConfig, Send, StateSnapshot, interrupt

THREADS = ("finished", "paused", "failed", "fork")
ran: list[str] = []
"""Which nodes ran in this process."""
mended = False
"""Whether node `bad` works."""


class State(TypedDict, total=False):
    log: Annotated[list[str], operator.add]
    text: str


class Clock:
    """One millisecond passes each time somebody looks."""

    def __init__(self) -> None:
        self.ns = 1_767_225_600 * 10**9

    def now_ns(self) -> int:
        self.ns += 1_000_000
        return self.ns

    def monotonic(self) -> float:
        return self.ns / 1e9


def on(thread: str) -> RunnableConfig:
    return {"configurable": {"thread_id": thread}}


def _node(name: str) -> Any:
    def node(state: Any) -> Any:
        ran.append(name)
        return {"log": [name]}

    return node


def finished(saver: Saver) -> Any:
    """A large value, Sends, a join."""

    def write(state: State) -> Any:
        ran.append("write")
        return {"log": ["write"], "text": "long " * 200}

    def work(given: int) -> Any:
        ran.append(f"work{given}")
        return {"log": [f"work{given}"]}

    builder: StateGraph[Any, Any, Any, Any] = StateGraph(State)
    builder.add_node("write", write)
    builder.add_node("work", work)
    builder.add_node("end", _node("end"))
    builder.add_edge(START, "write")
    builder.add_conditional_edges("write", lambda state: [Send("work", n) for n in range(3)], ["work"])
    builder.add_edge("work", "end")
    return builder.compile(checkpointer=saver)


def paused(saver: Saver) -> Any:
    """Side by side: a result, a node with two questions of which one is answered, a subgraph with a question."""

    def ask(state: State) -> Any:
        ran.append("ask")
        return {"log": [interrupt({"question": 1}) + interrupt("question 2")]}

    def inner_ask(state: State) -> Any:
        ran.append("inner_ask")
        return {"log": [interrupt("inner question")]}

    inner: StateGraph[Any, Any, Any, Any] = StateGraph(State)
    inner.add_node("inner", _node("inner"))
    inner.add_node("inner_ask", inner_ask)
    inner.add_edge(START, "inner")
    inner.add_edge("inner", "inner_ask")
    builder: StateGraph[Any, Any, Any, Any] = StateGraph(State)
    builder.add_node("good", _node("good"))
    builder.add_node("ask", ask)
    builder.add_node("child", inner.compile())
    for name in ("good", "ask", "child"):
        builder.add_edge(START, name)
    return builder.compile(checkpointer=saver)


def failed(saver: Saver) -> Any:
    """A result beside a failure, and a join that waits for both."""
    good_ran = threading.Event()

    def good(state: State) -> Any:
        ran.append("good")
        good_ran.set()
        return {"log": ["good"]}

    def bad(state: State) -> Any:
        ran.append("bad")
        if not mended:
            good_ran.wait(10)
            raise ConnectionError("the service is down")
        return {"log": ["bad"]}

    builder: StateGraph[Any, Any, Any, Any] = StateGraph(State)
    builder.add_node("good", good)
    builder.add_node("bad", bad)
    builder.add_node("end", _node("end"))
    builder.add_edge(START, "good")
    builder.add_edge(START, "bad")
    builder.add_edge(["good", "bad"], "end")
    return builder.compile(checkpointer=saver)


def fork(saver: Saver) -> Any:
    """Three in a row."""
    builder: StateGraph[Any, Any, Any, Any] = StateGraph(State)
    before = START
    for name in "abc":
        builder.add_node(name, _node(name))
        builder.add_edge(before, name)
        before = name
    builder.add_edge(before, END)
    return builder.compile(checkpointer=saver)


GRAPHS = {"finished": finished, "paused": paused, "failed": failed, "fork": fork}


def shown(snapshot: StateSnapshot) -> dict[str, Any]:
    """A snapshot as plain JSON."""
    configurable = snapshot.config["configurable"]
    return {
        "values": snapshot.values,
        "next": list(snapshot.next),
        "id": configurable["checkpoint_id"],
        "ns": configurable["checkpoint_ns"],
        "parent": (snapshot.parent_config or {"configurable": {"checkpoint_id": None}})["configurable"]["checkpoint_id"],
        "metadata": snapshot.metadata,
        "created_at": snapshot.created_at,
        "tasks": [
            {
                "id": task.id,
                "name": task.name,
                "path": list(task.path),
                "error": None if task.error is None else str(task.error),
                "interrupts": [[pause.id, pause.value] for pause in task.interrupts],
                "state": shown(task.state) if isinstance(task.state, StateSnapshot) else task.state,
                "result": task.result,
            }
            for task in snapshot.tasks
        ],
    }


def contents(saver: Saver) -> dict[str, Any]:
    """What is in a database that this script made: state and history of each thread."""
    found: dict[str, Any] = {}
    for name, graph in GRAPHS.items():
        compiled = graph(saver)
        found[name] = {
            "state": shown(compiled.get_state(on(name), subgraphs=True)),
            "history": [shown(snapshot) for snapshot in compiled.get_state_history(on(name))],
        }
    return found


def make(path: Path) -> None:
    """Make the database, and the JSON file beside it."""
    # Tracebacks would tell the paths of the machine that made the file.
    stored_error._traceback_of = lambda error: f"Traceback (most recent call last):\n  ...\n{type(error).__name__}: {error}\n"
    with SqliteSaver(path, clock=Clock()) as saver:
        graph = finished(saver)
        for turn in ("1", "2"):
            graph.invoke({"log": [turn]}, {**on("finished"), "metadata": {"user": "u", "turn": int(turn)}})
        graph = paused(saver)
        result = graph.invoke({"log": []}, on("paused"))
        first = next(pause.id for pause in result["__interrupt__"] if pause.value == {"question": 1})
        graph.invoke(Command(resume={first: "answer 1, "}), on("paused"))
        try:
            failed(saver).invoke({"log": []}, on("failed"))
        except ConnectionError:
            pass
        graph = fork(saver)
        graph.invoke({"log": []}, on("fork"))
        old = next(snapshot for snapshot in graph.get_state_history(on("fork")) if snapshot.next == ("b",))
        graph.invoke(None, old.config, interrupt_before=["c"])
        graph.update_state(on("fork"), {"log": ["edited"]})
        graph.invoke({"log": []}, on("deleted"))
        saver.delete_thread("deleted")
        path.with_suffix(".json").write_text(json.dumps(contents(saver), indent=1) + "\n")
    connection = sqlite3.connect(path)
    connection.execute("VACUUM")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    connection.close()


if __name__ == "__main__":
    make(Path(sys.argv[1]))
