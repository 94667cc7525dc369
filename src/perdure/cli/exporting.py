"""Write a thread into a file, whole: its history, branches, subgraphs and open questions.

  perdure export app.db ada ada.perdure

The file is verified when `perdure import` reads it, in any database. One that is there already is replaced when the new one is whole.
A thread that a run holds is not exported: try again when the run has ended.
"""

from __future__ import annotations

import argparse

from perdure.cli.loading import saver_at
from perdure.cli.moved import file_errors, tell
from perdure.cli.text import printable

HELP = "write a thread into a file"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Say what the command takes."""
    parser.add_argument("url", help="sqlite:///relative.db, sqlite:////absolute.db, or the path of a SQLite file")
    parser.add_argument("thread", help="which thread")
    parser.add_argument("file", help="the path of the file")
    parser.add_argument("--json", action="store_true", help="one JSON object: the thread, how many rows it has, their digest")


def run(arguments: argparse.Namespace) -> int:
    """Export, tell what was written, and return the exit code."""
    with saver_at(arguments.url) as saver, file_errors(arguments.file):
        contents = saver.export_thread(arguments.thread, arguments.file)
    tell(arguments.thread, f"written into {printable(arguments.file)}", contents, as_json=arguments.json)
    return 0
