"""Check all that is stored of the threads of a saver, or of one of them. Nothing is changed.

  perdure verify app.db
  perdure verify app.db ada
  perdure verify app.db --json > receipts.jsonl
  perdure verify app.db --receipts receipts.jsonl

What --json prints has a receipt of each thread. Keep it in another place: with --receipts, records that were written anew or cut off
since are found as well. The exit code is 1 if a thread is damaged, or could not be verified.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from perdure.bridge import run_blocking
from perdure.checkpoint.integrity.receipt import LONGEST_KEY, SHORTEST_KEY, Receipt
from perdure.cli.commands import CommandError
from perdure.cli.loading import known_threads, saver_at
from perdure.cli.text import counted, printable
from perdure.errors import InvalidConfig, ThreadBusy

if TYPE_CHECKING:
    from perdure.checkpoint.integrity.verifying import Verified
    from perdure.checkpoint.saver import Saver

HELP = "check all that is stored of threads"

PAGE: Final = 1000
"""Threads that are listed at a time."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Say what the command takes."""
    parser.add_argument("url", help="sqlite:///relative.db, sqlite:////absolute.db, or the path of a SQLite file")
    parser.add_argument("thread", nargs="?", help="only this thread")
    parser.add_argument("--receipts", metavar="FILE", help="what an earlier call with --json printed")
    parser.add_argument("--pruned", action="store_true", help="old checkpoints may have been pruned since the receipts")
    parser.add_argument("--key-file", metavar="FILE", help="the key of the receipts: a file of 16 to 64 bytes")
    parser.add_argument("--json", action="store_true", help="one JSON object a thread, with its receipt")


def run(arguments: argparse.Namespace) -> int:
    """Verify, print a line for each thread and each problem, and return the exit code."""
    key = None if arguments.key_file is None else _key(arguments.key_file)
    receipts = {} if arguments.receipts is None else _receipts(arguments.receipts, keyed=key is not None)
    threads, wrong = 0, 0
    with saver_at(arguments.url) as saver:
        for thread in _wanted(saver, arguments.thread, receipts):
            receipt = receipts.get(thread)
            threads += 1
            try:
                found = saver.verify(thread, receipt=receipt, key=key, pruned=arguments.pruned)
            except ThreadBusy as error:
                wrong += 1
                _tell_busy(thread, str(error), receipt, as_json=arguments.json)
                continue
            wrong += not found.ok
            if arguments.json:
                print(json.dumps(_plain(found, receipt)))
            else:
                _tell(found, unknown=bool(receipts) and receipt is None)
    if not arguments.json:
        print(f"{counted(threads, 'thread')} verified" + (f", {wrong} with problems" if wrong else ""))
    return int(wrong > 0)


def _wanted(saver: Saver, thread: str | None, receipts: dict[str, str]) -> Iterator[str]:
    """The threads to verify: also those that only a receipt tells of, for they may have been cut off altogether."""
    if thread is not None:
        yield from [thread] if thread in receipts else known_threads(saver, [thread])
        return
    left = set(receipts)
    after: str | None = None
    # The list of threads itself shows their questions; a damaged one could not be listed.
    while rows := run_blocking(saver.blocking().threads(after=after, limit=PAGE)):
        for row in rows:
            left.discard(row.thread)
            yield row.thread
        after = rows[-1].thread
    yield from sorted(left)


def _key(path: str) -> bytes:
    """The key in a file.

    Raises:
        CommandError: the file cannot be read, or is too short or too long.
    """
    key = _content(path, "--key-file")
    if not SHORTEST_KEY <= len(key) <= LONGEST_KEY:
        raise CommandError(
            f"--key-file {path} has {counted(len(key), 'byte')}, and a key is {SHORTEST_KEY} to {LONGEST_KEY} bytes; all bytes of the "
            "file count, a newline at its end too"
        )
    return key


def _receipts(path: str, *, keyed: bool) -> dict[str, str]:
    """The receipts in a file, by thread.

    Raises:
        CommandError: the file cannot be read, or is no such file, or its receipts need a key that was not given, or none.
    """
    found: dict[str, str] = {}
    for number, line in enumerate(_content(path, "--receipts").splitlines(), 1):
        try:
            text = json.loads(line)["receipt"]
            if text is not None:
                kept = Receipt.of(text)
                found[kept.thread] = text
        except (ValueError, TypeError, LookupError, InvalidConfig) as error:
            raise CommandError(f"line {number} of {path} is not of what perdure verify --json prints") from error
        if text is not None and kept.keyed != keyed:
            how = "without a key: leave --key-file out" if keyed else "with a key: give it with --key-file"
            raise CommandError(f"the receipts in {path} were made {how}")
    if not found:
        raise CommandError(f"{path} has no receipts; write what --json prints into another file than the one that is read")
    return found


def _content(path: str, option: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise CommandError(f"{option} {path}: {error.strerror}") from error


def _plain(found: Verified, receipt: str | None) -> dict[str, Any]:
    return {
        "thread_id": found.thread,
        "ok": found.ok,
        "checkpoints": found.checkpoints,
        "problems": [problem._asdict() for problem in found.problems],
        "orphans": [orphan._asdict() for orphan in found.orphans],
        # A receipt of damaged records would fit them from now on.
        "receipt": str(found.receipt) if found.ok else receipt,
    }


def _tell(found: Verified, *, unknown: bool) -> None:
    parts = [printable(found.thread), "ok" if found.ok else "damaged", counted(found.checkpoints, "checkpoint")]
    if found.orphans:
        parts.append(f"{counted(len(found.orphans), 'row')} that nothing refers to")
    if unknown:
        parts.append("no receipt")
    print("  ".join(parts))
    for problem in found.problems:
        print(f"  {problem.kind}: {printable(problem.what)}")


def _tell_busy(thread: str, why: str, receipt: str | None, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps({"thread_id": thread, "ok": None, "error": why, "receipt": receipt}))
    else:
        print(f"{printable(thread)}  busy: a run kept writing to it; verify it again")
