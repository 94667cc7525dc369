"""Text on its way to a terminal."""

from __future__ import annotations

from typing import Any


def printable(value: Any) -> str:
    """The text of a value on one line, with what could steer a terminal written out: ids and questions come from users."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in str(value))


def counted(number: int, noun: str) -> str:
    """A number of things, in words."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")
