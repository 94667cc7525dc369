"""Coroutines that a thread waits for, on the event loop of another thread.

Imported only when a loop is needed.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Awaitable, Coroutine
from typing import Any

from perdure.engine.runners.blocking import CANCEL_GRACE
from perdure.engine.runners.held import wake

Outcome = tuple[Any, BaseException | None]


async def outcome(code: Awaitable[Any]) -> Outcome:
    """What user code returns, or raises: left in a task of its own, a SystemExit or KeyboardInterrupt would end the loop of all others."""
    try:
        return await code, None
    except asyncio.CancelledError:
        raise
    except BaseException as error:  # noqa: BLE001 - handed to the thread that waits
        return None, error


class Elsewhere:
    """A coroutine on the loop of another thread. `run_coroutine_threadsafe` would call it cancelled while it still runs: what
    it did in its last moments would be done again, or after the run around has ended.

    Attributes:
        ended: its result.
    """

    __slots__ = ("_coro", "_loop", "_patience", "_stopping", "_work", "ended")

    def __init__(self, loop: asyncio.AbstractEventLoop, coro: Coroutine[Any, Any, Any]) -> None:
        self._loop = loop
        self._coro = coro
        self._work: asyncio.Task[Any] | None = None
        self.ended: concurrent.futures.Future[Any] = concurrent.futures.Future()
        self._stopping = threading.Lock()
        self._patience: threading.Timer | None = None
        loop.call_soon_threadsafe(self._begin)

    def _begin(self) -> None:
        self._work = self._loop.create_task(outcome(self._coro))
        self._work.add_done_callback(self._end)

    def _end(self, work: asyncio.Task[Outcome]) -> None:
        if work.cancelled():
            self._coro.close()  # of one that was dropped before its first step, Python would complain
            self.ended.cancel()
        elif not self.ended.set_running_or_notify_cancel():
            return
        else:
            result, error = work.result()
            if error is not None:
                self.ended.set_exception(error)
            else:
                self.ended.set_result(result)

    def stop(self) -> None:
        """Cancel it, and wait a while longer."""
        if not self._stopping.acquire(blocking=False):
            return  # it was stopped before
        self._patience = threading.Timer(CANCEL_GRACE, self.ended.cancel)
        self._patience.daemon = True
        self._patience.start()
        self.ended.add_done_callback(self._be_patient_no_longer)
        wake(self._loop, lambda: self._work is not None and self._work.cancel())

    def _be_patient_no_longer(self, _: object) -> None:
        if self._patience is not None:
            self._patience.cancel()
