"""Closing what an async listener has left. Imported only when a loop is needed."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator
from typing import Any

from perdure.bridge import left_alone


class Closing:
    """Closes a generator to its end, although whoever asks for it may not get that far.

    Most listeners that leave do not close what they listened to: the loop does, with a task. If the loop ends first, it cancels that
    task, maybe before its beginning; Python 3.11 then throws GeneratorExit into the generator once more, wherever it waits. And if it
    is the end of the loop that made the listener leave, the loop does not wait for that task at all. So a task of its own closes the
    generator, and a generator that the loop knows from the start ends no sooner: those are what a loop waits for at last.

    Args:
        items: the generator.
    """

    __slots__ = ("_began", "_items", "_known", "_task")

    def __init__(self, items: AsyncGenerator[Any, None]) -> None:
        self._items: Any = items
        self._began: list[asyncio.Future[None]] = []
        self._known = _until(self._began)

    async def begin(self) -> None:
        """Make the loop know that there will be something to close."""
        hooks = sys.get_asyncgen_hooks()
        sys.set_asyncgen_hooks(finalizer=left_alone)
        try:
            step = anext(self._known)
        finally:
            sys.set_asyncgen_hooks(*hooks)
        await step

    async def close(self) -> None:
        """Close the generator, if it has been left before its end.

        Raises:
            CancelledError: somebody has cancelled this; it is closed all the same.
        """
        if self._items.ag_frame is None:
            return
        try:
            ended = asyncio.get_running_loop().create_future()
        except RuntimeError:
            self._let_go()
            return
        self._began.append(ended)
        self._go(ended)
        stopped: BaseException | None = None
        while not ended.done():
            try:
                await asyncio.wait({ended})
            except asyncio.CancelledError as error:
                stopped = error
                self._task.cancel()
            except GeneratorExit:
                if not ended.done():
                    raise
        ended.result()
        if stopped is not None:
            raise stopped

    def _let_go(self) -> None:
        """Close it as far as that goes without a loop: the collector found it after its loop. At least its thread is not held any more."""
        step = self._items.aclose()
        try:
            step.send(None)
        except (StopIteration, RuntimeError):
            return
        step.close()

    def _go(self, ended: asyncio.Future[None]) -> None:
        begun = False

        async def close() -> None:
            nonlocal begun
            begun = True
            await self._items.aclose()

        def over(task: asyncio.Future[None]) -> None:
            if not task.cancelled():
                error = task.exception()
                if error is None:
                    ended.set_result(None)
                else:
                    ended.set_exception(error)
            elif begun:
                ended.cancel()
            else:
                self._go(ended)

        self._task = asyncio.ensure_future(close())
        self._task.add_done_callback(over)


async def _until(closings: list[asyncio.Future[None]]) -> AsyncGenerator[None, None]:
    """Ends no sooner than those that have begun."""
    try:
        yield
    finally:
        for ended in closings:
            if not ended.done():
                await asyncio.wait({ended})
