"""Arguments that a method takes by name only, and by names that it knows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from perdure.errors import WrongType


def by_name(called: str, others: Sequence[object], unknown: Mapping[str, object], instead: str) -> None:
    """Refuse what a method was given without a name, or by one that it does not know.

    Args:
        called: the method.
        others: what it was given without a name.
        unknown: what it was given by other names.
        instead: how it is called.

    Raises:
        WrongType: there is something.
    """
    if unknown:
        raise WrongType(f"{called}() has no argument {next(iter(unknown))!r}: {instead}")
    if others:
        raise WrongType(f"{called}() takes its arguments by name, and got {type(others[0]).__name__} without one: {instead}")
