"""The two colours behind one face, records that fail on purpose or are watched, and all rows of a thread as plain data.

A promise is tested with `Way("sync")` (`invoke`, plain nodes) and `Way("async")` (`ainvoke`, async nodes) over every saver.
"""

from __future__ import annotations

import asyncio
import functools
import operator
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any, TypedDict

from perdure.bridge import run_blocking
from perdure.checkpoint.base import Checkpoint
from perdure.checkpoint.memory import InMemorySaver
from perdure.checkpoint.records import Commit, RecordStore
from perdure.checkpoint.saver import Saver
from perdure.checkpoint.serde.stored_error import StoredError
from perdure.checkpoint.sqlite import SqliteSaver
from perdure.clock import SYSTEM_CLOCK
from perdure.engine.storing.restore import Kept
from perdure.graph import END, START, StateGraph
from perdure.ids import checkpoint_id, ticks_of
from perdure.types import RunnableConfig, StateSnapshot

Config = RunnableConfig

CANCELLED = "CancelledError()"
"""What snapshots show as the error of a task that was stopped from outside."""
SAVERS = ("memory", "sqlite")
COLOURS = ("sync", "async")


class Log(TypedDict):
    """The state of most graphs here: who wrote, in order."""

    log: Annotated[list[str], operator.add]


def on(thread: str = "t", **configurable: Any) -> Config:
    """The config of a thread."""
    return {"configurable": {"thread_id": thread, **configurable}}


class Way:
    """Calls a graph in one colour.

    Attributes:
        colour: "sync" or "async".
    """

    def __init__(self, colour: str) -> None:
        self.colour = colour
        self.is_async = colour == "async"

    def _do(self, graph: Any, name: str, *args: Any, **kwargs: Any) -> Any:
        if self.is_async:
            return asyncio.run(getattr(graph, f"a{name}")(*args, **kwargs))
        return getattr(graph, name)(*args, **kwargs)

    def node(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        """The function as a node of this colour."""
        if not self.is_async:
            return fn

        @functools.wraps(fn)
        async def node(*args: Any, **kwargs: Any) -> Any:
            await asyncio.sleep(0)
            return fn(*args, **kwargs)

        return node

    def invoke(self, graph: Any, given: Any, config: Config | None = None, **options: Any) -> Any:
        return self._do(graph, "invoke", given, config, **options)

    def stream(
        self, graph: Any, given: Any, config: Config | None = None, *, into: list[Any] | None = None, **options: Any
    ) -> list[Any]:
        """All events; those before an error are in `into`."""
        found: list[Any] = [] if into is None else into
        if not self.is_async:
            for item in graph.stream(given, config, **options):
                found.append(item)  # noqa: PERF402 - what came before an error counts
            return found

        async def collect() -> None:
            async for item in graph.astream(given, config, **options):
                found.append(item)  # noqa: PERF401 - as above

        asyncio.run(collect())
        return found

    def state(self, graph: Any, config: Config, **options: Any) -> StateSnapshot:
        found: StateSnapshot = self._do(graph, "get_state", config, **options)
        return found

    def history(self, graph: Any, config: Config, **options: Any) -> list[StateSnapshot]:
        if not self.is_async:
            return list(graph.get_state_history(config, **options))

        async def collect() -> list[StateSnapshot]:
            return [snapshot async for snapshot in graph.aget_state_history(config, **options)]

        return asyncio.run(collect())

    def edit(self, graph: Any, config: Config, values: Any, **options: Any) -> Config:
        found: Config = self._do(graph, "update_state", config, values, **options)
        return found

    def put(self, saver: Saver, *args: Any) -> Config:
        found: Config = self._do(saver, "put", *args)
        return found

    def put_writes(self, saver: Saver, *args: Any) -> None:
        self._do(saver, "put_writes", *args)

    def delete(self, saver: Saver, thread: str) -> None:
        self._do(saver, "delete_thread", thread)


async def at_once(*calls: Awaitable[Any]) -> list[Any]:
    """What calls bring that run together; the first error, once each has come as far as it can: to its question, for one."""
    found = await asyncio.gather(*calls, return_exceptions=True)
    for one in found:
        if isinstance(one, BaseException):
            raise one
    return found


def open_saver(kind: str, path: Path, **options: Any) -> Saver:
    """A new saver, `path` being where a database would be."""
    return InMemorySaver(**options) if kind == "memory" else SqliteSaver(path / "promises.db", **options)


class Ledger:
    """An outside record of which nodes ran, and the making of nodes that write to it."""

    def __init__(self, way: Way) -> None:
        self.way = way
        self.ran: list[str] = []

    def node(self, name: str, body: Callable[[], Any] | None = None) -> Callable[..., Any]:
        """A node that notes its name, does `body`, and appends its name (or what the body returned) to the log."""

        def node(state: Any) -> Any:
            self.ran.append(name)
            result = None if body is None else body()
            return {"log": [name if result is None else result]}

        node.__name__ = name
        return self.way.node(node)


def log_loop(node: Callable[..., Any], length: int) -> StateGraph[Any, Any, Any, Any]:
    """A node that runs until the log is so long."""
    builder: StateGraph[Any, Any, Any, Any] = StateGraph(Log)
    builder.add_node("step", node)
    builder.add_edge(START, "step")
    builder.add_conditional_edges("step", lambda state: "step" if len(state["log"]) < length else END)
    return builder


def chain(*nodes: tuple[str, Any]) -> StateGraph[Any, Any, Any, Any]:
    """A graph of nodes in a row."""
    builder: StateGraph[Any, Any, Any, Any] = StateGraph(Log)
    before = START
    for name, node in nodes:
        builder.add_node(name, node)
        builder.add_edge(before, name)
        before = name
    builder.add_edge(before, END)
    return builder


def abreast(*nodes: tuple[str, Any]) -> StateGraph[Any, Any, Any, Any]:
    """A graph of nodes side by side."""
    builder: StateGraph[Any, Any, Any, Any] = StateGraph(Log)
    for name, node in nodes:
        builder.add_node(name, node)
        builder.add_edge(START, name)
    return builder


class Watched:
    """Records that are watched, and that fail when told to.

    Attributes:
        commits: every commit that was asked for, in order, with what it brought as text.
        fails: the numbers (from 0) of the commits that raise before anything is stored.
        ends: what has been stored, as (commit number, "stored"/"failed").
    """

    def __init__(self, records: RecordStore, log: list[Commit], fails: Callable[[int, Commit], BaseException | None]) -> None:
        self._records = records
        self._log = log
        self._fails = fails

    def __getattr__(self, name: str) -> Any:
        return getattr(self._records, name)

    async def commit(self, commit: Commit) -> None:
        number = len(self._log)
        self._log.append(commit)
        error = self._fails(number, commit)
        if error is not None:
            raise error
        await self._records.commit(commit)


class Watch:
    """Puts `Watched` records under a saver.

    Attributes:
        commits: every commit that was asked for, in order.
        failing: numbers of the commits that fail, from 0; or all from `failing_from` on.
    """

    def __init__(self, saver: Saver) -> None:
        self.commits: list[Commit] = []
        self.failing: set[int] = set()
        self.failing_from: float = float("inf")
        self.error: BaseException = OSError(28, "No space left on device")
        blocking = Watched(saver.blocking(), self.commits, self._fails)
        suspending = Watched(saver.suspending(), self.commits, self._fails)
        saver.blocking = lambda: blocking  # type: ignore[method-assign]
        saver.suspending = lambda: suspending  # type: ignore[method-assign]

    def _fails(self, number: int, commit: Commit) -> BaseException | None:
        return self.error if number in self.failing or number >= self.failing_from else None

    def mend(self) -> None:
        """From now on all commits succeed."""
        self.failing = set()
        self.failing_from = float("inf")

    @property
    def told(self) -> list[str]:
        """What each commit brought, shortly: the lease, the steps of its checkpoints, the results of its tasks."""
        return [
            " ".join(
                [
                    commit.lease,
                    *(f"{row.source}{row.step}" for row in commit.checkpoints),
                    *(f"{row.path}:{row.kind}" for row in commit.writes),
                ]
            )
            for commit in self.commits
        ]


def rows_of(saver: Saver, thread: str = "t") -> dict[str, Any]:
    """All rows of a thread, decoded, without what tells one run or machine from another (tokens, traceback texts)."""
    return run_blocking(_rows(saver, thread))


async def _rows(saver: Saver, thread: str) -> dict[str, Any]:
    records = saver.blocking()
    head = (await records.load(thread, 0, None)).thread
    pages = await records.page(thread, None, before=None, limit=10_000)
    checkpoints, writes, children, names = {}, {}, set(), {}
    for loaded in pages:
        kept = Kept(loaded, saver.serde)
        row = kept.row
        checkpoints[row.n] = {
            "id": row.id,
            "ns": row.ns,
            "parent": row.parent,
            "step": row.step,
            "source": row.source,
            "frontier": row.frontier,
            "ran": row.ran,
            "joins": row.joins,
            "deferred": row.deferred,
            "metadata": row.metadata,
            "changes": {key: None if entry is None else _plain(kept.value(entry)) for key, entry in row.changes.items()},
        }
        for write in loaded.writes:
            values = [(item.channel, _plain(kept.value(item))) for item in write.items]
            writes[write.ns, write.origin, write.path, write.kind] = values
        children.update(loaded.children)
        names.update(loaded.namespaces)
    return {
        "thread": (head.status, head.head, head.lease.token is None, head.incarnation),
        "checkpoints": dict(sorted(checkpoints.items())),
        "writes": dict(sorted(writes.items())),
        "children": sorted(children),
        "namespaces": names,
    }


def _plain(value: Any) -> Any:
    # Of an error only what it says: its traceback tells the colour of the run.
    return f"{type(value).__name__}: {value}" if isinstance(value, (BaseException, StoredError)) else value


def orphans(saver: Saver, thread: str = "t") -> list[tuple[int, str, int]]:
    """(origin, path, kind) of the write rows that belong to no stored checkpoint; no reader meets these."""
    if isinstance(saver, InMemorySaver):
        found = saver._records._threads[thread]
        return [
            (w.origin, w.path, w.kind) for n, rows in found.writes.items() if n not in found.checkpoints for w in rows.values()
        ]
    assert isinstance(saver, SqliteSaver)
    sql = "SELECT origin, path, kind FROM write WHERE (thread_key, origin) NOT IN (SELECT thread_key, n FROM checkpoint)"
    return saver._database.run(lambda database: database.execute(sql).fetchall())


def kinds_of(saver: Saver, kind: int, thread: str = "t") -> list[str]:
    """The paths of the tasks that have a stored row of a kind."""
    return sorted(path for _, _, path, found in rows_of(saver, thread)["writes"] if found == kind)


def foreign_checkpoint(values: dict[str, Any] | None = None) -> Checkpoint:
    """A checkpoint as somebody else than the engine would `put` it."""
    return {
        "v": 4,
        "id": checkpoint_id(ticks_of(SYSTEM_CLOCK.now_ns()), 9),
        "ts": "2026-01-01T00:00:00+00:00",
        "channel_values": values or {},
        "channel_versions": dict.fromkeys(values or {}, 1),
        "versions_seen": {},
        "updated_channels": None,
    }


def status_of(saver: Saver, thread: str = "t") -> tuple[str, bool]:
    """The status of a thread, and whether it is free."""
    status, _, free, _ = rows_of(saver, thread)["thread"]
    return status, free


class FrozenClock:
    """A clock that shows what it is told to; ids of two runs under it are the same."""

    def __init__(self, *, start_ns: int = 1_700_000_000_000_000_000, step_ns: int = 0) -> None:
        self.ns = start_ns
        self.step_ns = step_ns

    def now_ns(self) -> int:
        self.ns += self.step_ns
        return self.ns

    def monotonic(self) -> float:
        return self.ns / 1e9
