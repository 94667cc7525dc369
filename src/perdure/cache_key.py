"""What a cache policy says when nothing else is said, and what it may say: the key of a call, and a lifetime."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from perdure.errors import WrongType


def lifetime(given: Any) -> float | None:
    """For how many seconds a result is kept; None: for ever.

    Raises:
        WrongType: it is no duration.
    """
    if isinstance(given, timedelta):
        return given.total_seconds()
    # Not a number is no lifetime either, and is the one float that differs from itself.
    if isinstance(given, bool) or not (given is None or (isinstance(given, (int, float)) and given == given)):  # noqa: PLR0124
        raise WrongType(f"ttl of a CachePolicy must be a number of seconds, a timedelta, or None for ever, got {given!r}")
    return given


def default_cache_key(*args: Any, **kwargs: Any) -> bytes:
    """A cache key of a call: the pickle of its arguments, with sets and dicts in a fixed order."""
    import io
    import pickle

    call = (_ordered(args), _ordered(kwargs))
    data = io.BytesIO()
    pickler = pickle.Pickler(data, protocol=5)
    # Otherwise a pickle tells one object that is there twice from two equal ones, and what a database gave has more objects.
    pickler.fast = True
    try:
        pickler.dump(call)
    except (ValueError, RecursionError):  # an object that contains itself
        return pickle.dumps(call, protocol=5)
    return data.getvalue()


def _ordered(value: Any) -> Any:
    if isinstance(value, dict):
        return (type(value).__name__, sorted(((_ordered(k), _ordered(v)) for k, v in value.items()), key=repr))
    if isinstance(value, (list, tuple)):
        return (type(value).__name__, [_ordered(v) for v in value])
    if isinstance(value, (set, frozenset)):
        return (type(value).__name__, sorted((_ordered(v) for v in value), key=repr))
    return value
