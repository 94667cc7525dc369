"""Copy threads to another database, or one thread to another id.

  perdure copy app.db sqlite:////srv/new.db --create
  perdure copy app.db other.db --thread ada
  perdure copy app.db app.db --thread ada --as what-if

Without --thread, all threads are copied. Each is read back and compared; the source stays as it is. Call it again as often as you like:
what is there already is compared, and never overwritten. The exit code is 1 if some were not copied: a run holds them, or the target
has other threads of their ids.
"""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from perdure.bridge import run_blocking
from perdure.checkpoint.transfer.everything import copy_all
from perdure.checkpoint.transfer.flow import Source, copied
from perdure.checkpoint.transfer.port import movable
from perdure.cli.commands import CommandError
from perdure.cli.loading import known_threads, saver_at
from perdure.cli.moved import tell
from perdure.cli.text import counted, printable
from perdure.ids import thread_text

if TYPE_CHECKING:
    from perdure.checkpoint.transfer.everything import CopyReport

HELP = "copy threads to another database or another id"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Say what the command takes."""
    parser.add_argument("url", help="where the threads are: the URL, or the path of a SQLite file")
    parser.add_argument(
        "target", help="where they go, as a URL or a path; it may be the same database, for a thread under another id"
    )
    parser.add_argument("--thread", metavar="ID", help="only this thread")
    parser.add_argument("--as", metavar="ID", dest="name", help="the id of the copy; the one it has, if not given")
    parser.add_argument("--create", action="store_true", help="make the target if it is not there")
    parser.add_argument("--json", action="store_true", help="one JSON object")


def run(arguments: argparse.Namespace) -> int:
    """Copy, tell what was copied, and return the exit code."""
    if arguments.thread is None and arguments.name is not None:
        raise CommandError("--as names the copy of one thread: say which with --thread ID")
    thread, name = (None if one is None else thread_text(one) for one in (arguments.thread, arguments.name))
    with saver_at(arguments.url) as source:
        known_threads(source, () if thread is None else (thread,))  # so that a mistyped id makes no database
        with saver_at(arguments.target, create=arguments.create) as target:
            if thread is None:
                report = copy_all(source, target)
                _tell(report, as_json=arguments.json)
                return int(not report.is_complete)
            name = name or thread
            from_here = Source(movable(source.blocking()), thread, source.clock)
            contents = run_blocking(copied(from_here, movable(target.blocking()), name, source.clock))
    tell(name, f"copied from {printable(thread)}", contents, as_json=arguments.json)
    return 0


def _tell(report: CopyReport, *, as_json: bool) -> None:
    if as_json:
        refused = {thread: {"code": error.code, "error": str(error)} for thread, error in report.refused.items()}
        told = {"copied": report.copied, "unchanged": report.unchanged, "rows": report.rows, "refused": refused}
        print(json.dumps(told))
        return
    for thread, error in report.refused.items():
        print(f"{printable(thread)}  not copied: {printable(error)}")
    print(f"{counted(report.copied, 'thread')} copied, {counted(report.rows, 'row')}; {report.unchanged:,} there already")
