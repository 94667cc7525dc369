"""Take up the runs of a graph whose process has died, and wait for them to end.

  perdure recover app.graphs:graph
  perdure recover app.graphs:graph --context-for app.users:context_of

The graph is a compiled one, with a saver, or a function that makes one. Pauses whose deadline has passed go on with their default
answers. Several of these may run at once: each run is taken up once. The exit code is 1 if a run failed or wants a context.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from typing import TYPE_CHECKING, Any

from perdure.cli.loading import graph_at, object_at
from perdure.cli.text import printable
from perdure.engine.running.recovery import AT_ONCE

if TYPE_CHECKING:
    from perdure.engine.running.recovery import Recovery

HELP = "take up the runs of a graph whose process has died"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Say what the command takes."""
    parser.add_argument("graph", metavar="module:graph", help="the compiled graph, or a function that makes it")
    parser.add_argument("--context-for", metavar="module:function", help="gives the context of a thread, from its ThreadInfo")
    parser.add_argument("--max-concurrency", type=int, default=AT_ONCE, metavar="N", help="runs at a time")
    parser.add_argument("--stalled", action="store_true", help="also those whose process lives but whose lease has run out")
    parser.add_argument("--sync", action="store_true", help="on threads, not on an event loop")
    parser.add_argument("--json", action="store_true", help="one JSON object a thread")


def run(arguments: argparse.Namespace) -> int:
    """Recover, print a line for each thread, and return the exit code."""
    graph = graph_at(arguments.graph)
    options: dict[str, Any] = {"max_concurrency": arguments.max_concurrency, "stalled": arguments.stalled}
    if arguments.context_for:
        options["context_for"] = object_at(arguments.context_for)
    reports = graph.resume_all(**options) if arguments.sync else asyncio.run(graph.aresume_all(**options))
    for report in reports:
        print(json.dumps(_plain(report)) if arguments.json else _line(report))
    if not reports and not arguments.json:
        print(f"no run of graph {graph.name!r} is left unfinished by a process that died")
    return int(any(report.outcome in {"failed", "needs_context"} for report in reports))


def _plain(report: Recovery) -> dict[str, Any]:
    return {
        "thread_id": report.thread_id,
        "outcome": report.outcome,
        "status": report.status,
        "error": None if report.error is None else f"{type(report.error).__name__}: {report.error}",
    }


def _line(report: Recovery) -> str:
    told = _plain(report)
    more = told["error"] or ("" if report.status is None else f"now {report.status}")
    if report.outcome == "needs_context":
        more = "its run had a context, which is not stored: --context-for module:function gives it, from the thread's metadata"
    if report.outcome == "elsewhere" and (holder := report.thread.holder) is not None:
        more = f"process {holder.pid} on {holder.host}"
    return "  ".join(printable(part) for part in (report.thread_id, report.outcome, more) if part)
