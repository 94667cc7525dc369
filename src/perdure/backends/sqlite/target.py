"""What a saver or a cache was given to connect to: a path, ":memory:" or a `file:` URI, as SQLite gets it."""

from __future__ import annotations

import os
import re
import threading
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, quote, unquote

from perdure.errors import InvalidArgument

if TYPE_CHECKING:
    import sqlite3

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://")


def target(path: str | Path, *, takes_urls: str = "") -> tuple[str, bool, bool]:
    """What to connect to, whether it is in memory, and whether it may be written to.

    Args:
        path: what was given.
        takes_urls: what else would take a URL.

    Raises:
        InvalidArgument: it is no path, or the URL of something else.
    """
    text: str | bytes = os.fspath(path)
    if isinstance(text, bytes) or not text or "\x00" in text:
        raise InvalidArgument(f"a database is a path, ':memory:' or a file: URI, not {path!r}")
    if text == ":memory:":
        return text, True, True
    if not text.startswith("file:"):
        if url := _URL.match(text):
            # Only the scheme is shown: what follows may hold a password.
            raise InvalidArgument(
                f"a {url[1]!r} URL is no path of a SQLite file: give a path, ':memory:' or a file: URI"
                + (f"; for sqlite:///path.db use {takes_urls}" if takes_urls else "")
            )
        # Absolute, because it is opened later, and again after a fork, when the working directory may be another.
        return os.path.abspath(text), False, True
    file, mark, query = text[5:].partition("?")
    options = parse_qs(query)
    mode = options.get("mode", [""])[-1]
    in_memory = unquote(file) in {":memory:", ""} or mode == "memory" or "memdb" in options.get("vfs", [])
    if not in_memory and not file.startswith("/"):
        text = f"file:{quote(os.path.abspath(unquote(file)))}{mark}{query}"
    return text, in_memory, mode != "ro" and options.get("immutable", ["0"])[-1] != "1"


def is_of_one_thread(connection: sqlite3.Connection) -> bool:
    """Whether other threads may not use the connection, which it tells by refusing them only."""
    import sqlite3

    refused = False

    def look() -> None:
        nonlocal refused
        try:
            connection.execute("SELECT 1").close()
        except sqlite3.ProgrammingError:
            refused = True

    thread = threading.Thread(target=look, name="perdure-sqlite-look")
    thread.start()
    thread.join()
    return refused
