"""Store the thread of a file that `perdure export` wrote. It goes on where it stood.

  perdure import app.db ada.perdure
  perdure import app.db ada.perdure --as ada-again
  perdure import new.db ada.perdure --create

Nobody sees the thread before it is whole and verified. A file that was cut off or altered is refused, and a thread that is there
already is never overwritten.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from perdure.bridge import run_blocking
from perdure.checkpoint.transfer.connections import BlockingWork, InFile
from perdure.checkpoint.transfer.flow import imported
from perdure.checkpoint.transfer.port import movable
from perdure.cli.loading import saver_at
from perdure.cli.moved import file_errors, tell
from perdure.cli.text import printable
from perdure.ids import thread_text

HELP = "store the thread of a file"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Say what the command takes."""
    parser.add_argument("url", help="sqlite:///relative.db, sqlite:////absolute.db, or the path of a SQLite file")
    parser.add_argument("file", help="the path of the file")
    parser.add_argument("--as", metavar="ID", dest="name", help="its id here; the one it had, if not given")
    parser.add_argument("--create", action="store_true", help="make the database if it is not there")
    parser.add_argument("--json", action="store_true", help="one JSON object: the thread, how many rows it has, their digest")


def run(arguments: argparse.Namespace) -> int:
    """Import, tell what was stored, and return the exit code."""
    name = None if arguments.name is None else thread_text(arguments.name)
    with file_errors(arguments.file):
        Path(arguments.file).stat()  # so that a mistyped path makes no database
    with saver_at(arguments.url, create=arguments.create) as saver, file_errors(arguments.file):
        # Not by its public name: that does not tell the id that the file gave.
        thread, contents = run_blocking(
            imported(InFile(arguments.file), movable(saver.blocking()), name, saver.clock, BlockingWork())
        )
    tell(thread, f"read from {printable(arguments.file)}", contents, as_json=arguments.json)
    return 0
