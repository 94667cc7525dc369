"""Arguments that had other names once: they are taken, with a warning. Any other unknown one is refused."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

from perdure.errors import WrongType


def renamed(given: dict[str, Any], old: str, new: str, value: Any) -> Any:
    """The value of the argument `new`, which a caller may have given under its `old` name; that is taken out of what was given."""
    if old not in given:
        return value
    warnings.warn(f"`{old}` is now called `{new}`", DeprecationWarning, stacklevel=3)
    old_value = given.pop(old)
    return old_value if value is None else value


def refuse_unknown(given: Mapping[str, Any], called: str) -> None:
    """Refuse what is left of keyword arguments once those with old names are taken out.

    Raises:
        WrongType: something is.
    """
    for word in given:
        raise WrongType(f"{called}() got an unexpected keyword argument {word!r}")
