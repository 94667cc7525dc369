"""A process whose threads all write to the same few threads of one SQLite file, for a while, and note what they tried and what came of it.

    python -m tests.crash.hammering FOLDER NAME SECONDS SYNCHRONOUS

What was tried is noted before, what was accepted after it: who is killed in between leaves a try of which nobody knows the outcome.
"""

from __future__ import annotations

import asyncio
import operator
import os
import random
import sys
import threading
import time
from pathlib import Path
from typing import Annotated, Any, TypedDict

from perdure.checkpoint.saver import Saver
from perdure.errors import ThreadBusy, ThreadDeleted
from perdure.graph import START, StateGraph
from tests.promises.ways import on, open_saver

WORKERS = 8
KEPT = [f"kept {n}" for n in range(16)]
DELETED = [f"deleted {n}" for n in range(4)]
"""Threads that are also deleted now and then."""


class State(TypedDict):
    """The words of all runs, and the name of the one that runs."""

    log: Annotated[list[str], operator.add]
    name: str


def words(name: str) -> list[str]:
    """What a run leaves in the log."""
    return [name, f"{name}/a", f"{name}/b"]


def hammered(saver: Saver) -> Any:
    """The graph that all run."""
    builder: StateGraph[Any, Any, Any, Any] = StateGraph(State)
    builder.add_node("a", lambda state: {"log": [f"{state['name']}/a"]})
    builder.add_node("b", lambda state: {"log": [f"{state['name']}/b"]})
    builder.add_edge(START, "a").add_edge("a", "b")
    return builder.compile(checkpointer=saver)


class Worker:
    """One thread of the process.

    Attributes:
        accepted: how many of its calls were.
    """

    def __init__(self, saver: Saver, ledger: int, name: str) -> None:
        self.saver = saver
        self.graph = hammered(saver)
        self.ledger = ledger
        self.name = name
        self.random = random.Random(name)
        self.accepted = 0

    def note(self, *what: str) -> None:
        os.write(self.ledger, ("\t".join(what) + "\n").encode())  # appended as a whole

    def work(self, until: float) -> None:
        count = 0
        while time.monotonic() < until or not self.accepted:
            self.one(f"{self.name}.{count}", self.random.choice(KEPT + DELETED))
            count += 1

    def one(self, name: str, thread: str) -> None:
        chance = self.random.random()
        kind = "run"
        if thread in DELETED and chance < 0.1:
            kind = "delete"
        elif chance > 0.85:
            kind = "edit"
        self.note("try", kind, thread, name)
        try:
            self.call(kind, thread, name)
        except (ThreadBusy, ThreadDeleted) as error:
            self.note("refused", kind, thread, name, type(error).__name__)
        except Exception as error:
            self.note("error", kind, thread, name, f"{error!r} from {error.__cause__!r}")
        else:
            self.note("accepted", kind, thread, name)
            self.accepted += 1

    def call(self, kind: str, thread: str, name: str) -> None:
        way = self.random.choice(["invoke", "ainvoke"])
        if kind == "delete":
            self.saver.delete_thread(thread)
        elif kind == "edit":
            self.graph.update_state(on(thread), {"log": [name]}, as_node="b")
        else:
            given = {"log": [name], "name": name}
            options = {"on_busy": self.random.choice(["reject", "wait"]), "durability": self.random.choice(["sync", "async"])}
            found = getattr(self.graph, way)(given, on(thread), **options)
            result = asyncio.run(found) if way == "ainvoke" else found
            if result["log"][-3:] != words(name):
                raise AssertionError(f"another run came in between: {result['log'][-5:]}")


def main() -> None:
    folder, name, seconds, synchronous = Path(sys.argv[1]), sys.argv[2], float(sys.argv[3]), sys.argv[4]
    saver = open_saver("sqlite", folder, synchronous=synchronous)
    ledger = os.open(folder / f"ledger {name}", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    until = time.monotonic() + seconds
    workers = [Worker(saver, ledger, f"{name}.{n}") for n in range(WORKERS)]
    threads = [threading.Thread(target=worker.work, args=(until,)) for worker in workers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    saver.close()


if __name__ == "__main__":
    main()
