"""Makes `parts/v1.db`, a database of format 1 with values in parts: manifests, records, shared segments, compressed ones.

Run as a script, from the root of the repository, with the name of the file to make:

    PYTHONPATH=src python -m tests.formats.parts_story tests/formats/parts/v1.db

A fixture that is there is never made again. What is new in the format gets a file of its own.
"""

from __future__ import annotations

import json
import operator
import sqlite3
import sys
from hashlib import blake2b
from pathlib import Path
from typing import Annotated, Any, TypedDict

from perdure.checkpoint.saver import Saver
from perdure.checkpoint.sqlite import SqliteSaver
from perdure.func import task
from perdure.graph import START, MessagesState, StateGraph
from perdure.messages import RemoveMessage
from perdure.types import Overwrite, StateSnapshot
from tests.formats.sqlite_story import Clock, on

mended = False
"""Whether the node after the step works."""


def words(of: str, count: int = 60) -> str:
    """A text that is the same each time."""
    return " ".join(f"{of}{at}" for at in range(count))


def said(id: str, role: str = "user") -> dict[str, Any]:
    return {"role": role, "content": words(id), "id": id}


class Kinds(TypedDict, total=False):
    log: Annotated[list[Any], operator.add]
    names: dict[str, Any]
    seen: set[Any]
    text: str
    again: str
    turn: int


def chat(saver: Saver) -> Any:
    """A conversation: messages in lists and alone, replaced, removed, trimmed."""

    def answer(state: Any) -> Any:
        last, count = state["messages"][-1]["id"], len(state["messages"])
        if last == "d":
            return {"messages": [RemoveMessage(id="a"), said("c") | {"content": words("new")}]}
        if last == "f":
            return {"messages": Overwrite([*state["messages"][3:], said("last", "assistant")])}
        return {"messages": said(f"answer {count}", "assistant")}

    return StateGraph(MessagesState).add_node("answer", answer).add_edge(START, "answer").compile(checkpointer=saver)


def kinds(saver: Saver) -> Any:
    """A list of small and large things, a dict, a set, a large text in two keys."""

    def change(state: Any) -> Any:
        turn = state["turn"] + 1
        names = {**state["names"], f"name {turn}": [turn, (words("t", 9), turn)]}
        names.pop(f"name {turn - 5}", None)
        log = [f"small {turn}.{at}" for at in range(30)] + [{"large": words(f"{turn}-")}]
        new: dict[str, Any] = {"log": log, "names": names, "seen": state["seen"] | {f"{turn} " * 9, turn}, "turn": turn}
        if turn == 2:
            new |= {"text": words("text", 900)}
        if turn == 3:
            new |= {"again": words("text", 900), "log": Overwrite(state["log"][7:50])}
        return new

    return StateGraph(Kinds).add_node("change", change).add_edge(START, "change").compile(checkpointer=saver)


def steps(saver: Saver) -> Any:
    """A durable step whose result waits for the node around it."""

    @task
    def look() -> list[str]:
        return [words(f"found {at}", 50) for at in range(3)]

    def node(state: Any) -> Any:
        found = look().result()
        if not mended:
            raise ConnectionError("after the step")
        return {"log": found}

    return StateGraph(Kinds).add_node("node", node).add_edge(START, "node").compile(checkpointer=saver)


GRAPHS = {"chat": chat, "kinds": kinds, "steps": steps}


def plain(value: Any) -> Any:
    """A value as JSON that tells its types."""
    if isinstance(value, dict):
        return {"dict": [[plain(key), plain(item)] for key, item in value.items()]}
    if isinstance(value, (list, tuple)):
        return {type(value).__name__: [plain(item) for item in value]}
    if isinstance(value, set):
        return {"set": sorted(json.dumps(plain(item)) for item in value)}
    if isinstance(value, Overwrite):
        return {"overwrite": plain(value.value)}
    return value


def shown(snapshot: StateSnapshot) -> dict[str, Any]:
    """A snapshot: what does not depend on when it was made."""
    return {
        "values": plain(snapshot.values),
        "next": list(snapshot.next),
        "writes": plain((snapshot.metadata or {}).get("writes")),
        "results": [plain(task.result) for task in snapshot.tasks],
    }


def digested(found: dict[str, Any]) -> dict[str, str]:
    """The same, shortly."""
    return {key: blake2b(json.dumps(value).encode(), digest_size=8).hexdigest() for key, value in found.items()}


def contents(saver: Saver) -> dict[str, Any]:
    """What is in a database that this script made."""
    found: dict[str, Any] = {}
    for name, graph in GRAPHS.items():
        compiled = graph(saver)
        found[name] = {
            "state": shown(compiled.get_state(on(name))),
            "history": [digested(shown(snapshot)) for snapshot in compiled.get_state_history(on(name))],
        }
    return found


def make(path: Path) -> None:
    """Make the database, and the JSON file beside it."""
    with SqliteSaver(path, clock=Clock()) as saver:
        graph = chat(saver)
        graph.invoke({"messages": [said("a"), said("b"), said("c")]}, on("chat"))
        graph.invoke({"messages": said("d")}, on("chat"))
        for id in "efg":
            graph.invoke({"messages": [said(id)]}, on("chat"))
        graph = kinds(saver)
        graph.invoke(
            {"log": ["first"], "names": {f"name {at}": words("n", 20) for at in range(9)}, "seen": {1}, "turn": 0}, on("kinds")
        )
        for _ in range(4):
            graph.invoke({"log": []}, on("kinds"))
        old = [*graph.get_state_history(on("kinds"))][5]
        graph.update_state(old.config, {"log": [words("branch")], "names": {**old.values["names"], "edit": words("e")}})
        graph.invoke({"log": []}, on("kinds"))
        try:
            steps(saver).invoke({"log": []}, on("steps"))
        except ConnectionError:
            pass
        path.with_suffix(".json").write_text(json.dumps(contents(saver)) + "\n")
    connection = sqlite3.connect(path)
    connection.execute("DELETE FROM write WHERE kind = -1")  # a traceback tells the paths of the machine that made the file
    connection.commit()
    connection.execute("VACUUM")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    connection.close()


if __name__ == "__main__":
    make(Path(sys.argv[1]))
