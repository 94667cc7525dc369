"""What a conversation costs as it grows: bytes on disk and CPU time a turn, beside the peer and beside the text itself.

    make bench-growth
    python benchmarks/growth.py --peer-python .venv-peers/bin/python --turns 1000 --png growth.png

A turn is an input message and an answer, of 1 KB each, in a graph of one node on SQLite, with everything as each package has it by
default. Each contestant is a process of its own and stops when it has used up `--budget` bytes. The size of the file is read after
its write-ahead log has been taken in. `text` is what the messages are alone.

The picture needs matplotlib, here or in the environment of the peer.
"""

from __future__ import annotations

import argparse
import importlib
import json
import operator
import random
import sqlite3
import string
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path
from statistics import median
from time import process_time
from typing import Annotated, Any, TypedDict

OURS, PEER, PEER_DELTA = "perdure", "langgraph", "langgraph delta"
SIZE = 1000
"""Bytes of a message's text."""

MARKS = (1, 3, 10, 30, 100, 300, 1000, 3000, 10_000)
"""Turns after which bytes and time are noted."""


class Conversation(TypedDict):
    """The state."""

    messages: Annotated[list[Any], operator.add]


def folded(messages: list[Any], writes: list[list[Any]]) -> list[Any]:
    """The reducer of the peer's delta channel, which takes all writes of a super-step at once."""
    return [*messages, *(message for written in writes for message in written)]


def graph_of(contestant: str, saver: Any) -> Any:
    """The graph: one node that answers."""
    package = contestant.partition(" ")[0]
    drawn = importlib.import_module(f"{package}.graph")
    state: Any = Conversation
    if contestant == PEER_DELTA:
        delta = importlib.import_module(f"{package}.channels.delta").DeltaChannel

        class Folded(TypedDict):
            messages: Annotated[list[Any], delta(folded)]

        Folded.__annotations__["messages"] = Annotated[list[Any], delta(folded)]  # a name of this function is unknown outside
        state = Folded
    letters = random.Random(1)
    builder = drawn.StateGraph(state)
    builder.add_node("answer", lambda _: {"messages": [said(letters, "assistant")]})
    builder.add_edge(drawn.START, "answer")
    return builder.compile(checkpointer=saver)


def said(letters: random.Random, role: str) -> dict[str, str]:
    """A message that cannot be compressed much."""
    return {"role": role, "content": "".join(letters.choices(string.ascii_letters + string.digits, k=SIZE))}


def on_disk(path: str) -> int:
    """The size of a database file with what is in its write-ahead log."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        pages, size = (connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "page_size"))
        return int(pages * size)


def run(contestant: str, turns: int, budget: int) -> None:
    """Have the conversation; print a line of JSON at each mark."""
    package = contestant.partition(" ")[0]
    saver_class = importlib.import_module(f"{package}.checkpoint.sqlite").SqliteSaver
    letters = random.Random(2)
    with tempfile.TemporaryDirectory(prefix="growth-") as folder:
        path = str(Path(folder) / "growth.db")
        with saver_class.from_conn_string(path) as saver:
            graph = graph_of(contestant, saver)
            config = {"configurable": {"thread_id": "conversation"}}
            times: list[float] = []
            for turn in range(1, turns + 1):
                given = {"messages": [said(letters, "user")]}
                start = process_time()
                graph.invoke(given, config)
                times.append(process_time() - start)
                full = turn % 50 == 0 and Path(path).stat().st_size > budget
                if turn not in MARKS and turn != turns and not full:
                    continue
                start = process_time()
                found = graph.get_state(config).values["messages"]
                reading = process_time() - start
                if len(found) != 2 * turn:
                    raise RuntimeError(f"{contestant} has {len(found)} messages after {turn} turns")
                size = on_disk(path)
                mark = {"turn": turn, "bytes": size, "seconds": median(times[-9:]), "reading": reading}
                print(json.dumps(mark), flush=True)
                if size > budget:
                    return


def measured(contestant: str, python: str, options: argparse.Namespace) -> list[dict[str, float]]:
    """The marks of a contestant, from a process of its own."""
    command = [python, __file__, "--contestant", contestant, "--turns", str(options.turns), "--budget", str(options.budget)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"{contestant}: {done.stderr.strip().splitlines()[-1]}", file=sys.stderr)
    return [json.loads(line) for line in done.stdout.splitlines()]


def show(marks: dict[str, list[dict[str, float]]]) -> str:
    """The table as text."""
    turns = sorted({int(mark["turn"]) for found in marks.values() for mark in found})
    heads = [f"{name:>34}" for name in marks]
    lines = [
        f"{'':8}{'text':>10}{''.join(heads)}",
        f"{'turns':>8}{'KB':>10}" + f"{'KB':>12}{'ms a turn':>11}{'get ms':>11}" * len(marks),
    ]
    for turn in turns:
        line = f"{turn:8}{turn * 2 * SIZE / 1000:10.0f}"
        for found in marks.values():
            mark = next((mark for mark in found if mark["turn"] == turn), None)
            if mark is None:
                line += f"{'-':>12}{'-':>11}{'-':>11}"
            else:
                line += f"{mark['bytes'] / 1000:12.0f}{mark['seconds'] * 1e3:11.2f}{mark['reading'] * 1e3:11.2f}"
        lines.append(line)
    return "\n".join(lines)


def draw(marks: dict[str, list[dict[str, float]]], path: str) -> None:
    """The same as a picture."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.5))
    for name, found in marks.items():
        turns = [mark["turn"] for mark in found]
        left.plot(turns, [mark["bytes"] / 1e6 for mark in found], marker="o", label=name)
        right.plot(turns, [mark["seconds"] * 1e3 for mark in found], marker="o", label=name)
    longest = max((mark["turn"] for found in marks.values() for mark in found), default=1)
    text = [turn for turn in MARKS if turn <= longest]
    left.plot(text, [turn * 2 * SIZE / 1e6 for turn in text], color="grey", linestyle="--", label="the text itself")
    left.set(xlabel="turns", ylabel="MB on disk", xscale="log", yscale="log", title="Bytes")
    right.set(xlabel="turns", ylabel="ms", xscale="log", yscale="log", title="CPU time of a turn")
    left.legend()
    right.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=120)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description="What a conversation costs as it grows.")
    parser.add_argument("--peer-python", help="a Python that has the peer installed")
    parser.add_argument("--turns", type=int, default=10_000)
    parser.add_argument("--budget", type=int, default=400_000_000, help="bytes after which a contestant stops")
    parser.add_argument("--json", help="where to write what was measured")
    parser.add_argument("--png", help="where to draw it")
    parser.add_argument("--draw-from", help="draw what an earlier run wrote with --json")
    parser.add_argument("--contestant", choices=[OURS, PEER, PEER_DELTA], help="have the conversation in this process")
    options = parser.parse_args()
    if options.contestant:
        run(options.contestant, options.turns, options.budget)
        return
    if options.draw_from:
        draw(json.loads(Path(options.draw_from).read_text()), options.png)
        return
    marks = {OURS: measured(OURS, sys.executable, options)}
    if options.peer_python:
        marks.update((name, measured(name, options.peer_python, options)) for name in (PEER, PEER_DELTA))
    print(show(marks))
    if options.json:
        Path(options.json).write_text(json.dumps(marks, indent=1))
    if options.png:
        try:
            draw(marks, options.png)
        except ImportError:
            print("no picture: matplotlib is not installed here; give --json, and draw with --draw-from where it is")


if __name__ == "__main__":
    main()
