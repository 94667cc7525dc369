"""The command line: the demo for people, and the worker that the demo starts."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from digest.document import REFERENCE, DocumentError
from digest.model import available
from digest.story import WorkerFailedError, tell
from digest.terminal import Screen
from digest.worker import Job, work

__all__ = ["main"]


def main(arguments: list[str] | None = None) -> int:
    """Runs the demo or a worker; gives the exit code."""
    options = _parser().parse_args(arguments)
    source = str(options.file.resolve()) if options.file else REFERENCE
    job = Job(source=source, folder=options.out.resolve(), model=options.model)
    screen = Screen()
    try:
        if options.worker:
            return work(job, options.worker, pause_before=options.pause_before)
        if options.model and not available():
            print("--model: no key is set for an installed SDK (anthropic, openai); going on without.", file=sys.stderr)
        # In CI nobody can answer, whatever standard input claims to be.
        ask = not options.yes and sys.stdin.isatty() and not os.environ.get("CI")
        return tell(job, screen, ask=ask)
    except (DocumentError, WorkerFailedError) as error:
        print(f"digest: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\ndigest: stopped", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python examples/digest",
        description="Digest a long document page by page in a run that is killed half way and goes on at the very next page.",
    )
    parser.add_argument("file", nargs="?", type=Path, help="a text or Markdown file; default: the Python language reference")
    parser.add_argument("--out", type=Path, default=Path("digest-report"), help="where report and database go (%(default)s)")
    parser.add_argument("--yes", action="store_true", help="approve the report without asking")
    parser.add_argument(
        "--model",
        action="store_true",
        help="let a language model write the chapters' abstracts; needs ANTHROPIC_API_KEY or OPENAI_API_KEY and that SDK, "
        "sends sentences of the document to the vendor",
    )
    parser.add_argument("--worker", choices=["start", "resume"], help=argparse.SUPPRESS)
    parser.add_argument("--pause-before", type=int, help=argparse.SUPPRESS)
    return parser
