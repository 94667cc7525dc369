"""What to say of a name that is not there, where another one is close to it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def meant(name: object, names: Iterable[str]) -> str:
    """A question in parentheses, with a space in front of it; "" if no name is close."""
    close = difflib.get_close_matches(str(name), list(names), n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""
