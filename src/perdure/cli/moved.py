"""What is said of a thread that was moved, and of files that cannot be read or written."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING

from perdure.cli.commands import CommandError
from perdure.cli.text import counted, printable

if TYPE_CHECKING:
    from perdure.checkpoint.transfer.raw import Contents


def tell(thread: str, done: str, contents: Contents, *, as_json: bool) -> None:
    """Print what became of a thread, and what it consists of."""
    if as_json:
        print(json.dumps({"thread_id": thread, **asdict(contents)}))
    else:
        sizes = f"{counted(contents.checkpoints, 'checkpoint')}, {counted(contents.rows, 'row')}"
        print(f"{printable(thread)}  {done}  {sizes}")


@contextmanager
def file_errors(path: str) -> Iterator[None]:
    """Say what the system says of a file.

    Raises:
        CommandError: in place of an OSError.
    """
    try:
        yield
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror or error}") from error
