"""Dicts that tell when one of them has changed, so that nobody has to look through thousands of them to know that none has."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Final, TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")
Dict = TypeVar("Dict", bound="TellingDict[Any, Any]")

_CHANGES: Final = ("__delitem__", "__ior__", "__setitem__", "clear", "pop", "popitem", "setdefault", "update")
"""The methods that change a dict."""

TELLING: Final[set[type]] = set()
"""The exact classes whose objects tell of every change."""

_last: Final[list[object]] = [object()]


def last_change() -> object:
    """Stands for the last change that one of them told of: as long as it is the same object, none has changed since."""
    return _last[0]


def tell() -> None:
    """One of them has changed."""
    _last[0] = object()  # one store, which no other thread can come between


class TellingDict(dict[Key, Value]):
    """A dict that tells, after the fact, whenever it is changed by one of its own methods.

    What a constructor puts into a new one is no change, nor is what `dict.update(new, ...)` and the like put into an object that nobody
    else has.
    """

    __slots__ = ()

    def __init__(self, *args: Any, **keywords: Any) -> None:
        is_new = not self
        try:
            super().__init__(*args, **keywords)
        finally:
            if not is_new:
                tell()


def telling(cls: type[Dict]) -> type[Dict]:
    """Count a class among `TELLING`. Its objects hold nothing but what the dict holds, and it changes that by no method of its own."""
    TELLING.add(cls)
    return cls


def _with_word(name: str) -> Callable[..., Any]:
    method = getattr(dict, name)

    @wraps(method)
    def change(*args: Any, **keywords: Any) -> Any:
        try:
            return method(*args, **keywords)
        finally:
            tell()

    return change


for _name in _CHANGES:
    setattr(TellingDict, _name, _with_word(_name))
