"""What the kinds with a reducer share: the value they start from, and when two reducers count as the same."""

from __future__ import annotations

from collections import abc
from collections.abc import Callable
from typing import Annotated, Any, Final, NotRequired, Required, get_args, get_origin

from perdure.channels.base import MISSING

LEAVES_ALONE: Final = "leaves_alone"
"""An attribute of a reducer that never changes what it adds to, and returns another object."""

ADDED: Final = "_perdure_added"
"""An attribute of a reducer of the library's that often only adds to the end of a list: a function of the list and all writes of a
super-step that gives what they add, as a list, or None if they do anything else or cannot be taken."""

_CONCRETE: Final[dict[Any, type]] = {
    abc.Sequence: list,
    abc.MutableSequence: list,
    abc.Set: set,
    abc.MutableSet: set,
    abc.Mapping: dict,
    abc.MutableMapping: dict,
}
_WRAPPERS: Final = (Annotated, Required, NotRequired)


def said_by(reducer: Any, name: str) -> Any:
    """An attribute that a reducer has for itself; None if it has none, or only the copy that `functools.wraps` made of another one's."""
    said = getattr(reducer, name, None)
    inner = getattr(reducer, "__wrapped__", None)
    return None if inner is not None and said is getattr(inner, name, None) else said


def start_value(typ: Any) -> Any:
    """A fresh `typ()`, or MISSING where that does not work.

    Abstract collections start as list, set or dict, generic aliases as what they are made of. Unions, literals, Any and classes
    that need arguments have no value to start from.
    """
    kind = _class_of(typ)
    if not isinstance(kind, type) or kind is object:
        return MISSING
    try:
        return kind()
    except Exception:  # noqa: BLE001 - a class of the user may fail in any way
        return MISSING


def _class_of(typ: Any) -> Any:
    while True:
        origin = get_origin(typ)
        if origin in _WRAPPERS:
            typ = get_args(typ)[0]
        elif origin is not None:
            typ = origin
        elif not isinstance(typ, type) and hasattr(typ, "__value__"):
            # A `type` statement: an alias is the type it names.
            typ = typ.__value__
        else:
            return _CONCRETE.get(typ, typ) if isinstance(typ, type) else typ


def same_reducer(one: Any, other: Any) -> bool:
    """Whether two reducers count as the same. A lambda counts as any: written twice, it is two objects that mean one thing."""
    return _is_lambda(one) or _is_lambda(other) or bool(one == other)


def _is_lambda(reducer: Callable[..., Any]) -> bool:
    return getattr(reducer, "__name__", None) == "<lambda>"
