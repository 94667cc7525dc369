"""Holds coroutines back while whoever listens to them is far behind: what `Pace.hold` does to threads.

Imported only when a loop is needed.
"""

from __future__ import annotations

import asyncio
import types
from collections.abc import Callable, Coroutine, Generator
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from perdure.engine.runners.pace import Pace
    from perdure.engine.tasks.task import Task


async def caught_up(pace: Pace) -> None:
    """Suspend until there is room."""
    loop = asyncio.get_running_loop()
    while True:
        room = loop.create_future()
        if not pace.when_room(partial(wake, loop, partial(_set, room))):
            return
        await room


def _set(room: asyncio.Future[None]) -> None:
    if not room.done():
        room.set_result(None)


@types.coroutine
def paced(coro: Coroutine[Any, Any, Any], task: Task) -> Generator[Any, Any, Any]:
    """Await a node's coroutine, but go on with it only while whoever listens keeps pace."""
    pace = task.run.runner.pace
    step: Callable[..., Any] = coro.send
    given: Any = None
    while True:
        try:
            waiting_for = step(given)
        except StopIteration as stop:
            return stop.value
        try:
            given = yield waiting_for
            step = coro.send
            if pace.is_behind:
                yield from task.caught_up().__await__()
        except BaseException as error:  # noqa: BLE001 - cancellations and all: thrown into the coroutine, as await would
            given = error
            step = coro.throw


def wake(loop: asyncio.AbstractEventLoop, callback: Callable[[], Any]) -> None:
    """Have a loop call this soon, from any thread."""
    try:
        loop.call_soon_threadsafe(callback)
    except RuntimeError:
        # The loop is closed: the run was left while a thread still worked, and nobody waits for it any more.
        return
