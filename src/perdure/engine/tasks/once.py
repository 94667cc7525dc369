"""What an object makes when it is first asked for it, whichever of its threads asks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar, overload

T = TypeVar("T")


class once(Generic[T]):  # noqa: N801 - a decorator, as `cached_property` is
    """An attribute that is made when it is first looked at, and is one for all threads: that of `functools` is not, from Python 3.12 on.

    Threads that come at the same time may each make one; the first counts.
    """

    def __init__(self, make: Callable[[Any], T]) -> None:
        self._make = make
        self._name = make.__name__
        self.__doc__ = make.__doc__

    @overload
    def __get__(self, thing: None, owner: type) -> Self: ...
    @overload
    def __get__(self, thing: object, owner: type) -> T: ...
    def __get__(self, thing: object | None, owner: type) -> Self | T:
        if thing is None:
            return self
        made: T = thing.__dict__.setdefault(self._name, self._make(thing))
        return made
