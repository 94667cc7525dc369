"""Take old checkpoints away, with all that only they refer to, and give the space back.

  perdure prune app.db --keep-last 20 --dry-run
  perdure prune app.db --keep-last 20 --older-than 30d
  perdure prune app.db --keep-last 1 --thread ada --thread bob

A checkpoint goes only if everything that is given lets it go. The tip of each thread stays, and so do checkpoints with a name, open
questions, and what resuming or forking any of these needs. Threads that a run holds are left for the next time.
The exit code is 1 if damaged records kept a thread from being pruned: `perdure verify` tells which.
"""

from __future__ import annotations

import argparse
import json
import re
from dataclasses import asdict
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from perdure.cli.commands import CommandError
from perdure.cli.loading import known_threads, saver_at
from perdure.cli.text import counted, printable

if TYPE_CHECKING:
    from perdure.checkpoint.retention import Pruned

HELP = "take old checkpoints away"

UNITS: Final = {"s": "seconds", "min": "minutes", "h": "hours", "d": "days", "w": "weeks"}
"""How an age may be given. There is no "m": who meant months would lose what is older than minutes."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Say what the command takes."""
    parser.add_argument("url", help="sqlite:///relative.db, sqlite:////absolute.db, or the path of a SQLite file")
    parser.add_argument("--keep-last", type=int, metavar="N", help="keep the newest so many of each namespace")
    parser.add_argument("--older-than", metavar="AGE", help="keep what is younger: 90s, 15min, 12h, 30d or 2w")
    parser.add_argument(
        "--max-bytes",
        type=int,
        metavar="N",
        help="take only as many of the oldest as a thread has to lose to take at most N bytes",
    )
    parser.add_argument("--thread", action="append", metavar="ID", help="only this thread; may be given again")
    parser.add_argument(
        "--namespace", action="append", metavar="NAME", help="only in this one, '' for the root; may be given again"
    )
    parser.add_argument("--dry-run", action="store_true", help="change nothing, and tell what would go")
    parser.add_argument("--json", action="store_true", help="one JSON object")


def run(arguments: argparse.Namespace) -> int:
    """Prune, tell what went, and return the exit code."""
    if arguments.keep_last is None and arguments.older_than is None and arguments.max_bytes is None:
        raise CommandError("say what may go: with --keep-last N, --older-than AGE, --max-bytes N, or several of these")
    age = None if arguments.older_than is None else _age(arguments.older_than)
    with saver_at(arguments.url) as saver:
        pruned = saver.prune(
            keep_last=arguments.keep_last,
            older_than=age,
            max_bytes=arguments.max_bytes,
            namespaces=arguments.namespace,
            threads=None if arguments.thread is None else known_threads(saver, arguments.thread),
            dry_run=arguments.dry_run,
        )
    if arguments.json:
        print(json.dumps(asdict(pruned)))
    else:
        _tell(pruned)
    return int(bool(pruned.damaged))


def _tell(pruned: Pruned) -> None:
    done = "would prune" if pruned.dry_run else "pruned"
    what = f"{done} {counted(pruned.checkpoints, 'checkpoint')} of {counted(pruned.threads, 'thread')}"
    print(f"{what}, {pruned.bytes:,} bytes of content" + (f"; {pruned.reclaimed:,} bytes of disk" if pruned.reclaimed else ""))
    for thread in pruned.busy:
        print(f"{printable(thread)}  busy: a run holds it, or died in it; left for the next time")
    for thread in pruned.damaged:
        print(f"{printable(thread)}  damaged: left as it is; perdure verify tells what is missing")


def _age(text: str) -> timedelta:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-z]+)", text)
    unit: Any = found and UNITS.get(found[2])
    if not found or not unit:
        raise CommandError(f"--older-than {text!r} is no age such as 90s, 15min, 12h, 30d or 2w")
    try:
        return timedelta(**{unit: float(found[1])})
    except OverflowError as error:
        raise CommandError(f"--older-than {text!r} is longer ago than dates go") from error
