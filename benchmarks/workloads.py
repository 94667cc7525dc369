"""The same work for every contestant: a graph that counts to zero, one super-step a number.

    python benchmarks/workloads.py --package perdure step-sync-memory
    python benchmarks/workloads.py --package langgraph --count 500 step-async-sqlite

`--package` is the root package whose graph does the work; the two have one API. `bare` does it without any package: the limit
of this machine. `--serve` reads requests, one JSON object a line, and answers in the same way, so that `super_step.py` can ask
several warm processes in turns. This file must run without perdure installed.

A workload is KIND-COLOUR-SAVER: `step` (one super-step of a long run) or `invoke` (a whole call of a graph with one node);
`sync` or `async`; `none`, `memory` or `sqlite` (WAL, synchronous=FULL, each step committed before the next one).
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import importlib
import json
import os
import sqlite3
import sys
import tempfile
from contextlib import asynccontextmanager, closing, contextmanager
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypedDict

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

WARM_UP = 20
END = "__end__"


class State(TypedDict):
    """What the graph counts in."""

    n: int


def count(state: State) -> State:
    """The node."""
    return {"n": state["n"] + 1}


async def acount(state: State) -> State:
    """The node, asynchronous."""
    return {"n": state["n"] + 1}


def route(state: State) -> str:
    """The conditional edge: again, until zero."""
    return "count" if state["n"] < 0 else END


@dataclass
class Result:
    """What one measurement found: seconds an operation and, on SQLite, what one operation stored."""

    seconds: float
    rows: float = 0.0
    bytes: float = 0.0


@dataclass
class Workload:
    """One cell of the table."""

    kind: str
    colour: str
    saver: str

    @classmethod
    def of(cls, name: str) -> Workload:
        """The workload of a name like `step-sync-memory`."""
        kind, colour, saver = name.split("-")
        if kind not in {"step", "invoke"} or colour not in {"sync", "async"} or saver not in {"none", "memory", "sqlite"}:
            raise ValueError(f"no such workload: {name!r}")
        return cls(kind, colour, saver)


class Contestant:
    """A package that runs the graph."""

    def __init__(self, package: str, directory: str | None) -> None:
        self.package = package
        self.directory = directory
        self.graph = importlib.import_module(f"{package}.graph")

    def versions(self) -> dict[str, str]:
        """The versions of what is measured."""
        return {self.package: version(self.package)}

    def measure(self, name: str, operations: int, **_: float) -> Result:
        """Run a workload."""
        workload = Workload.of(name)
        with tempfile.TemporaryDirectory(prefix="bench-", dir=self.directory) as folder:
            path = str(Path(folder) / "bench.db")
            if workload.colour == "sync":
                with self._saver(workload, path) as saver:
                    seconds = self._run(workload, saver, operations)
            else:
                seconds = asyncio.run(self._measure_async(workload, path, operations))
            if workload.saver != "sqlite":
                return Result(seconds)
            return Result(seconds, *stored(path, operations + WARM_UP))

    async def _measure_async(self, workload: Workload, path: str, operations: int) -> float:
        async with self._asaver(workload, path) as saver:
            return await self._arun(workload, saver, operations)

    @contextmanager
    def _saver(self, workload: Workload, path: str) -> Iterator[Any]:
        if workload.saver == "sqlite":
            with self._module("checkpoint.sqlite").SqliteSaver.from_conn_string(path) as saver:
                yield saver
        else:
            yield self._module("checkpoint.memory").InMemorySaver() if workload.saver == "memory" else None

    @asynccontextmanager
    async def _asaver(self, workload: Workload, path: str) -> AsyncIterator[Any]:
        if workload.saver == "sqlite" and self.package == "langgraph":
            async with self._module("checkpoint.sqlite.aio").AsyncSqliteSaver.from_conn_string(path) as saver:
                yield saver
        else:
            with self._saver(workload, path) as saver:
                yield saver

    def _module(self, name: str) -> Any:
        return importlib.import_module(f"{self.package}.{name}")

    def _run(self, workload: Workload, saver: Any, operations: int) -> float:
        graph = self._compiled(workload, saver)
        if workload.kind == "step":

            def go(name: str, steps: int) -> None:
                check(graph.invoke({"n": -steps}, **arguments(saver, name, steps)))

        else:

            def go(name: str, steps: int) -> None:
                for call in range(steps):
                    check(graph.invoke({"n": -1}, **arguments(saver, f"{name}-{call}", 1)))

        go("warm", WARM_UP)
        return timed(lambda: go("timed", operations)) / operations

    async def _arun(self, workload: Workload, saver: Any, operations: int) -> float:
        graph = self._compiled(workload, saver)
        if workload.kind == "step":

            async def go(name: str, steps: int) -> None:
                check(await graph.ainvoke({"n": -steps}, **arguments(saver, name, steps)))

        else:

            async def go(name: str, steps: int) -> None:
                for call in range(steps):
                    check(await graph.ainvoke({"n": -1}, **arguments(saver, f"{name}-{call}", 1)))

        await go("warm", WARM_UP)
        return await atimed(lambda: go("timed", operations)) / operations

    def _compiled(self, workload: Workload, saver: Any) -> Any:
        builder = self.graph.StateGraph(State)
        builder.add_node("count", count if workload.colour == "sync" else acount)
        builder.add_edge(self.graph.START, "count")
        if workload.kind == "step":
            builder.add_conditional_edges("count", route)
        else:
            builder.add_edge("count", self.graph.END)
        return builder.compile(checkpointer=saver)


def arguments(saver: Any, thread: str, steps: int) -> dict[str, Any]:
    """Keyword arguments of a call. Durability is the strictest everywhere, so that the same promise is measured."""
    config: dict[str, Any] = {"recursion_limit": steps + 10}
    if saver is None:
        return {"config": config}
    return {"config": {**config, "configurable": {"thread_id": thread}}, "durability": "sync"}


def check(state: Any) -> None:
    """Raise if the work was not done."""
    if state["n"] != 0:
        raise RuntimeError(f"counted to {state['n']}, not to 0")


def timed(work: Callable[[], object]) -> float:
    """How long `work` takes, in seconds."""
    gc.collect()
    start = perf_counter()
    work()
    return perf_counter() - start


async def atimed(work: Callable[[], Awaitable[object]]) -> float:
    """How long `work` takes, in seconds."""
    gc.collect()
    start = perf_counter()
    await work()
    return perf_counter() - start


def stored(path: str, operations: int) -> tuple[float, float]:
    """How many rows and bytes of values a database file holds for each operation. Rows written in place count once."""
    rows = size = 0
    with closing(sqlite3.connect(path)) as connection:
        tables = connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
        ).fetchall()
        for (table,) in tables:
            columns = [column[1] for column in connection.execute(f'PRAGMA table_info("{table}")')]
            lengths = " + ".join(f'ifnull(length(CAST("{column}" AS BLOB)), 0)' for column in columns)
            found = connection.execute(f'SELECT count(*), ifnull(sum({lengths}), 0) FROM "{table}"').fetchone()
            rows += found[0]
            size += found[1]
    return rows / operations, size / operations


class Bare:
    """What the machine itself needs for the same work: a loop that calls the node, a transaction that stores as much."""

    def __init__(self, directory: str | None) -> None:
        self.directory = directory

    def versions(self) -> dict[str, str]:
        """The versions of what is measured."""
        return {"python": sys.version.split()[0], "sqlite": sqlite3.sqlite_version}

    def measure(self, name: str, operations: int, *, rows: float = 2, bytes: float = 400) -> Result:
        """Run a workload."""
        with tempfile.TemporaryDirectory(prefix="bench-", dir=self.directory) as folder:
            if name == "fsync":
                return Result(self._fsync(Path(folder) / "file", operations))
            workload = Workload.of(name)
            if workload.saver == "sqlite":
                number = max(1, round(rows))
                return Result(self._commit(str(Path(folder) / "bench.db"), operations, number, round(bytes / number)))
            if workload.colour == "async":
                return Result(asyncio.run(self._aloop(operations)) / operations)
            return Result(self._loop(operations) / operations)

    def _loop(self, operations: int) -> float:
        def loop() -> None:
            state: State = {"n": -operations}
            while route(state) != END:
                state = count(state)

        return timed(loop)

    async def _aloop(self, operations: int) -> float:
        async def loop() -> None:
            state: State = {"n": -operations}
            while route(state) != END:
                state = await acount(state)

        return await atimed(loop)

    def _commit(self, path: str, operations: int, rows: int, size: int) -> float:
        values = [(os.urandom(size),) for _ in range(rows)]
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("CREATE TABLE record (id INTEGER PRIMARY KEY, data BLOB NOT NULL)")

            def commit(times: int) -> None:
                for _ in range(times):
                    connection.execute("BEGIN IMMEDIATE")
                    connection.executemany("INSERT INTO record (data) VALUES (?)", values)
                    connection.execute("COMMIT")

            commit(WARM_UP)
            return timed(lambda: commit(operations)) / operations

    def _fsync(self, path: Path, operations: int) -> float:
        block = os.urandom(4096)
        with path.open("wb", buffering=0) as file:

            def write(times: int) -> None:
                for _ in range(times):
                    file.write(block)
                    os.fsync(file.fileno())

            write(WARM_UP)
            return timed(lambda: write(operations)) / operations


def serve(contestant: Contestant | Bare) -> None:
    """Answer requests from standard input until it ends."""
    print(json.dumps(contestant.versions()), flush=True)
    for line in sys.stdin:
        try:
            answer = asdict(contestant.measure(**json.loads(line)))
        except Exception as error:  # noqa: BLE001 - whatever went wrong belongs into the table
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description="Measure one contestant.")
    parser.add_argument("--package", choices=["perdure", "langgraph", "bare"], default="perdure")
    parser.add_argument("--directory", help="where database files are made; the system's temporary directory if not given")
    parser.add_argument("--count", type=int, default=300, help="operations in a measurement")
    parser.add_argument("--serve", action="store_true", help="answer requests from standard input")
    parser.add_argument("workload", nargs="*")
    options = parser.parse_args()
    contestant = Bare(options.directory) if options.package == "bare" else Contestant(options.package, options.directory)
    if options.serve:
        serve(contestant)
    for name in options.workload:
        result = contestant.measure(name, options.count)
        print(f"{name:20} {result.seconds * 1e6:10.1f} us {result.rows:6.1f} rows {result.bytes:8.0f} bytes")


if __name__ == "__main__":
    main()
