"""The key under which the result of a call is kept in a cache, unless a policy has a function of its own for that."""

from __future__ import annotations

from typing import Any


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
