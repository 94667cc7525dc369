"""List the threads of a saver.

  perdure threads sqlite:///app.db
  perdure threads app.db --status busy --status error
  perdure threads app.db --metadata user=ada --updated-after 2026-01-31T12:00:00+00:00 --json

A thread that is "busy" though its run has died is shown as "crashed": `perdure recover` takes it up.
"""

from __future__ import annotations

import argparse
import json
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from perdure.checkpoint.index.threads import STATUSES
from perdure.checkpoint.serde.jsonplus import JsonPlusSerializer
from perdure.cli.commands import CommandError
from perdure.cli.loading import saver_at
from perdure.cli.text import printable

if TYPE_CHECKING:
    from perdure.checkpoint.index.thread_info import ThreadInfo

HELP = "list threads, and how they stand"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Say what the command takes."""
    parser.add_argument("url", help="sqlite:///relative.db, sqlite:////absolute.db, or the path of a SQLite file")
    # The saver refuses others itself, and knows what to say of "crashed", which is shown here and is no status.
    parser.add_argument(
        "--status",
        action="append",
        metavar="STATUS",
        help=f"only threads with this one of {', '.join(STATUSES)}; may be given again",
    )
    parser.add_argument("--graph", help="only threads that a graph of this name ran last")
    parser.add_argument("--prefix", default="", help="only threads whose ids begin with it")
    parser.add_argument("--metadata", action="append", default=[], metavar="KEY=VALUE", help="only threads with this metadata")
    parser.add_argument("--updated-after", metavar="TIME", help="ISO 8601; in UTC, unless it says otherwise")
    parser.add_argument("--order", choices=("id", "updated"), default="updated", help="by id, or the latest update first")
    parser.add_argument("--limit", type=int, default=100, metavar="N", help="at most so many")
    parser.add_argument("--cursor", help="where to go on, as the command said the last time")
    parser.add_argument("--json", action="store_true", help="one JSON object a thread, and at last one with the cursor")


def run(arguments: argparse.Namespace) -> int:
    """Print a page of threads, and return the exit code."""
    # A tool that only looks shows what it has no class for as it is stored.
    with saver_at(arguments.url, serde=JsonPlusSerializer(on_unknown="keep")) as saver:
        page = saver.list_threads(
            status=arguments.status,
            graph=arguments.graph,
            thread_prefix=arguments.prefix,
            metadata=_pairs(arguments.metadata),
            updated_after=_moment(arguments.updated_after),
            order=arguments.order,
            limit=arguments.limit,
            cursor=arguments.cursor,
        )
    for thread in page:
        print(json.dumps(_plain(thread)) if arguments.json else _line(thread))
    if arguments.json:
        print(json.dumps({"cursor": page.cursor}))
    elif page.cursor is not None:
        print(f"… and more: --cursor {page.cursor!r}")
    elif not page:
        print("no threads")
    return 0


def _standing(thread: ThreadInfo) -> str:
    return "crashed" if thread.crashed else thread.status


def _plain(thread: ThreadInfo) -> dict[str, Any]:
    holder = thread.holder
    return {
        "thread_id": thread.thread_id,
        "status": thread.status,
        "is_running": thread.is_running,
        "crashed": thread.crashed,
        "graph": thread.graph,
        "metadata": dict(thread.metadata),
        "created_at": None if thread.created_at is None else thread.created_at.isoformat(),
        "updated_at": None if thread.updated_at is None else thread.updated_at.isoformat(),
        "holder": None if holder is None else {**holder._asdict(), "since": holder.since.isoformat()},
        "interrupts": [{"id": one.id, "node": one.node, "value": _shown(one.value)} for one in thread.interrupts],
    }


def _shown(value: Any) -> Any:
    try:
        json.dumps(value)
    except (TypeError, ValueError):
        return repr(value)
    return value


def _line(thread: ThreadInfo) -> str:
    when = "" if thread.updated_at is None else thread.updated_at.isoformat(sep=" ", timespec="seconds")
    asked = ", ".join(f"? {printable(one.value)[:60]}" for one in thread.interrupts)
    return "  ".join(
        part for part in (printable(thread.thread_id), _standing(thread), printable(thread.graph), when, asked) if part
    )


def _pairs(given: list[str]) -> dict[str, Any] | None:
    found: dict[str, Any] = {}
    for text in given:
        key, equals, value = text.partition("=")
        if not equals:
            raise CommandError(f"--metadata {text!r} is not of the form KEY=VALUE")
        try:
            read = json.loads(value)
        except ValueError:
            read = value
        # 'user=7' may mean the text or the number: JSON's quotes tell (user='"7"').
        found[key] = read if isinstance(read, str | int | float | bool) else value
    return found or None


def _moment(text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise CommandError(f"--updated-after {text!r} is no time of the form 2026-01-31T12:00:00+00:00") from error
    return moment if moment.utcoffset() is not None else moment.replace(tzinfo=timezone.utc)
