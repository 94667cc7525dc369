"""Where sync and async meet, and nowhere else.

The runtime's sequences are written once, as coroutines over ports. When every port blocks instead of suspending, such a
coroutine runs from start to end in one `send`, on the caller's thread, in the caller's context, with an ordinary stack: no event
loop is started and none is needed, so a sync call inside a running loop cannot deadlock.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from typing import Any, Generic, NoReturn, Self, TypeVar, cast

from perdure.errors import SuspendedInBlockingCode
from perdure.turns import do_elsewhere, may_wait, this_thread

T = TypeVar("T")


def run_blocking(coro: Coroutine[Any, Any, T]) -> T:
    """Run `coro` to its end on this thread and return its result.

    Raises:
        SuspendedInBlockingCode: a port it awaits suspended; the message names what was awaited.
    """
    try:
        waiting_for = coro.send(None)
    except StopIteration as stop:
        return cast(T, stop.value)
    _refuse(coro, waiting_for)


def iterate_blocking(source: AsyncGenerator[T, None]) -> Iterator[T]:
    """Iterate over an async generator whose body never suspends; closing the iterator closes the source."""
    step = inner(source).__anext__
    thread = 0
    abandoned = False
    try:
        while True:
            try:
                item = run_blocking(step())
            except StopAsyncIteration:
                return
            thread = this_thread()
            yield item
    except GeneratorExit:
        abandoned = not may_wait(thread)
        raise
    finally:
        if abandoned:
            do_elsewhere(lambda: run_blocking(source.aclose()))
        else:
            run_blocking(source.aclose())


class inner(Generic[T]):  # noqa: N801 - reads as the verb of an `async for`
    """An async generator that the code around it iterates over and closes, and nobody else.

    Event loops close all async generators that they know when they end, and the garbage collector those that it finds, in any order
    and at the same time. Of generators inside generators only the outermost is theirs to close.
    """

    __slots__ = ("_step",)

    _step: Callable[[], Coroutine[Any, Any, T]]

    def __init__(self, source: AsyncGenerator[T, None]) -> None:
        def first() -> Coroutine[Any, Any, T]:
            self._step = source.__anext__
            hooks = sys.get_asyncgen_hooks()
            sys.set_asyncgen_hooks(None, left_alone)
            try:
                return source.__anext__()
            finally:
                sys.set_asyncgen_hooks(*hooks)

        self._step = first

    def __aiter__(self) -> Self:
        return self

    def __anext__(self) -> Coroutine[Any, Any, T]:
        return self._step()


def left_alone(_: AsyncGenerator[Any, None]) -> None:
    """Whoever iterates over the generator closes it."""


def _refuse(coro: Coroutine[Any, Any, Any], waiting_for: object) -> NoReturn:
    name = getattr(coro, "__qualname__", repr(coro))
    coro.close()
    raise SuspendedInBlockingCode(f"{name} waits for {waiting_for!r} in a blocking call; a blocking port must not suspend")
