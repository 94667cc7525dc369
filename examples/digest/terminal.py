"""What the demo shows: headings, facts, a progress bar. On a pipe it writes plain lines, without colour and without a bar."""

from __future__ import annotations

import os
import shutil
import sys
from typing import TextIO

__all__ = ["Screen"]

_LABEL = 18


class Screen:
    """Writes to a stream, and knows whether a person looks at it."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self.stream = stream or sys.stdout
        self.live = self.stream.isatty() and os.environ.get("TERM") != "dumb"
        self._colours = self.live and not os.environ.get("NO_COLOR")
        self._full, self._empty = ("█", "░") if self._can("█░") else ("#", ".")
        self._open = False
        self._quarter = 0

    def title(self, text: str) -> None:
        """The first line."""
        self._line(self._paint("1", text))

    def step(self, number: int, text: str) -> None:
        """The heading of one part of the story."""
        self._line()
        self._line(f"{self._paint('1;36', f'{number}.')} {self._paint('1', text)}")
        self._quarter = 0

    def say(self, text: str) -> None:
        """One line."""
        self._line(f"   {text}")

    def fact(self, name: str, value: object) -> None:
        """A name and its value, in columns."""
        self._line(f"   {self._paint('2', name.ljust(_LABEL))} {value}")

    def good(self, text: str) -> None:
        """A result that is as it should be."""
        self._line(f"   {self._paint('1;32', text)}")

    def bad(self, text: str) -> None:
        """A result that is not."""
        self._line(f"   {self._paint('1;31', text)}")

    def bar(self, done: int, total: int, label: str) -> None:
        """How far the run is; on a pipe, one line for each quarter."""
        counted = f"{done:>{len(str(total))}}/{total}"
        if not self.live:
            quarter = 4 * done // max(total, 1)
            if quarter > self._quarter:
                self._line(f"   {counted} pages")
            self._quarter = quarter
            return
        columns = shutil.get_terminal_size().columns
        width = max(10, min(40, columns - 40))
        filled = width * done // max(total, 1)
        room = max(0, columns - width - len(counted) - 8)
        shown = label if len(label) <= room else label[: max(0, room - 1)] + "…"
        full, empty = self._paint("36", self._full * filled), self._paint("2", self._empty * (width - filled))
        self._put(f"\r\x1b[2K   {full}{empty} {counted}  {self._paint('2', shown)}")
        self._open = True

    def ask(self, question: str) -> bool:
        """A person's yes or no; silence means yes, the end of the input means no."""
        self._line()
        try:
            answer = input(f"   {self._paint('1;33', question)} [Y/n] ").strip().lower()
        except EOFError:
            self._line()
            return False
        return answer in ("", "y", "yes")

    def _line(self, text: str = "") -> None:
        # A bar has no line end of its own, so that the next bar can overwrite it.
        self._put(("\n" if self._open else "") + text + "\n")
        self._open = False

    def _paint(self, code: str, text: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self._colours and text else text

    def _put(self, text: str) -> None:
        self.stream.write(text if self._can(text) else text.encode("ascii", "replace").decode("ascii"))
        self.stream.flush()

    def _can(self, text: str) -> bool:
        try:
            text.encode(self.stream.encoding or "ascii")
        except UnicodeEncodeError:
            return False
        return True
