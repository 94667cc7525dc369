"""Where sync and async meet, and nowhere else.

The runtime's sequences are written once, as coroutines over ports. When every port blocks instead of suspending, such a
coroutine runs from start to end in one `send`, on the caller's thread, in the caller's context, with an ordinary stack: no event
loop is started and none is needed, so a sync call inside a running loop cannot deadlock.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Coroutine, Iterator
from typing import Any, NoReturn, TypeVar, cast

from perdure.errors import SuspendedInBlockingCode

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
    step = source.__anext__
    try:
        while True:
            try:
                item = run_blocking(step())
            except StopAsyncIteration:
                return
            yield item
    finally:
        run_blocking(source.aclose())


def _refuse(coro: Coroutine[Any, Any, Any], waiting_for: object) -> NoReturn:
    name = getattr(coro, "__qualname__", repr(coro))
    coro.close()
    raise SuspendedInBlockingCode(f"{name} waits for {waiting_for!r} in a blocking call; a blocking port must not suspend")
