"""Threads of LangGraph, brought into a saver of this library. LangGraph itself is not needed.

from perdure.integrations.langgraph import import_threads

report = import_threads("checkpoints.sqlite", saver)
print(report)
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from dataclasses import replace
from typing import Any, Literal

from perdure.bridge import run_blocking
from perdure.checkpoint.records import ThreadRow
from perdure.checkpoint.saver import Saver
from perdure.checkpoint.saving import is_of_database
from perdure.checkpoint.survey import BUDGET
from perdure.checkpoint.transfer.connections import BlockingWork, SuspendingWork, Work
from perdure.checkpoint.transfer.flow import bring, has
from perdure.checkpoint.transfer.port import MovableRecords, movable
from perdure.checkpoint.transfer.raw import RawRow
from perdure.clock import Clock
from perdure.errors import InvalidArgument, PerdureError, WrongType
from perdure.ids import thread_text
from perdure.integrations.langgraph.report import ImportReport, ThreadReport
from perdure.integrations.langgraph.tables import Tables, open_tables
from perdure.integrations.langgraph.thread import ThreadImport
from perdure.integrations.langgraph.values import Refusal

__all__ = ["ImportReport", "ThreadReport", "aimport_threads", "import_threads"]

Messages = Literal["plain", "langchain"]


def import_threads(
    source: Any,
    saver: Saver,
    *,
    threads: Iterable[str] | None = None,
    types: Iterable[Any] = (),
    messages: Messages = "plain",
    graph: str = "",
) -> ImportReport:
    """Bring the threads of a database that LangGraph's SqliteSaver or PostgresSaver wrote, so that they go on in a graph of the same shape.

    The source is only read. A thread comes whole or not at all, and never over one that is there: what was brought before is passed over, so
    that the import can be called again.

    Args:
        source: the path of a SQLite file, a "postgresql://…" URL, or an open sqlite3 or psycopg connection.
        saver: where the threads go: a saver of this library.
        threads: only threads with these ids; all, if not given.
        types: classes of values in the state. Others are kept under their names, and become instances for a graph that mentions them.
        messages: "plain": LangChain's messages become `Message`s. "langchain": they stay LangChain's, for a graph that uses these.
        graph: the name of the graph that the threads are of, for the inbox and the index of threads.

    Returns:
        What was brought, thread by thread, and what is other than it was.

    Raises:
        WrongType: the source or the saver is none, or an argument is of another kind.
        FileNotFoundError: there is no such file.
        CorruptRecord: the database has no such tables.
        MissingExtra: it is a Postgres URL, and psycopg is not installed.
        SaveFailed: the saver's database failed. What was brought before is there; call this again, and it goes on.
    """
    return run_blocking(_import(source, saver, threads, types, messages, graph, BlockingWork()))


async def aimport_threads(
    source: Any,
    saver: Saver,
    *,
    threads: Iterable[str] | None = None,
    types: Iterable[Any] = (),
    messages: Messages = "plain",
    graph: str = "",
) -> ImportReport:
    """See `import_threads`. The source is read on another thread; a sqlite3 connection of yours must allow that."""
    return await _import(source, saver, threads, types, messages, graph, SuspendingWork())


async def _import(
    source: Any, saver: Saver, threads: Iterable[str] | None, types: Iterable[Any], messages: str, graph: str, work: Work
) -> ImportReport:
    if not isinstance(saver, Saver):
        raise WrongType(
            f"import_threads brings threads into a saver of this library, not into {type(saver).__name__}: "
            "import_threads('checkpoints.sqlite', SqliteSaver('threads.db'))"
        )
    if messages not in ("plain", "langchain"):
        raise InvalidArgument(f"messages is 'plain' or 'langchain', not {messages!r}")
    if threads is not None and not _is_list(threads):
        raise WrongType(f"threads is a list of thread ids, such as ['chat'], not {threads!r}")
    classes = [*types] if _is_list(types) else [""]
    if any(isinstance(one, str) for one in classes):
        raise WrongType(f"types is a list of classes, such as [Order], not {types!r}")
    if not isinstance(graph, str):
        raise WrongType(f"graph is the name of a graph, such as graph.name, not {type(graph).__name__}")
    saver.learn(classes)
    records = movable(saver.blocking() if isinstance(work, BlockingWork) else saver.suspending())
    tables = await work.do(open_tables, source)
    report = ImportReport()
    try:
        wanted = None if threads is None else {thread_text(thread) for thread in threads}
        there = await work.do(tables.threads)
        for thread in there:
            if wanted is None or thread in wanted:
                told = await _one(tables, thread, saver, records, work, langchain=messages == "langchain", graph=graph)
                report.threads.append(told)
        absent = sorted(wanted.difference(there)) if wanted else ()
        report.threads += [ThreadReport(thread, refused="the source has no thread of that id") for thread in absent]
    finally:
        await work.do(tables.close)
    return report


def _is_list(given: Any) -> bool:
    return isinstance(given, Iterable) and not isinstance(given, (str, bytes, type))  # a class of an enum is iterable, too


async def _one(
    tables: Tables, thread: str, saver: Saver, records: MovableRecords, work: Work, *, langchain: bool, graph: str
) -> ThreadReport:
    coming = ThreadImport(tables, thread, saver.serde, saver.clock, langchain=langchain)
    try:
        if await has(records, thread_text(thread)):
            coming.report.refused = "there is a thread of that id already; it is left as it is"
            return coming.report
        row, rows = await work.do(coming.read)
        row = replace(row, graph=graph)
        await _bring(records, row, rows, saver.clock)
        coming.report.brought = True
    except (Refusal, PerdureError) as error:
        if is_of_database(error):
            raise
        coming.report.refused = str(error)
    return coming.report


async def _bring(records: MovableRecords, row: ThreadRow, rows: list[RawRow], clock: Clock) -> None:
    await bring(records, row, _stretches(rows), clock)


async def _stretches(rows: list[RawRow]) -> AsyncGenerator[list[RawRow], None]:
    stretch: list[RawRow] = []
    size = 0
    for row in rows:
        stretch.append(row)
        size += len(row.body) + 64
        if size >= BUDGET:
            yield stretch
            stretch, size = [], 0
    if stretch:
        yield stretch
