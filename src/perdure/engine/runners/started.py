"""Writes that an event loop makes beside the nodes of its run. Imported only when a loop is needed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, cast

from perdure.bridge import run_blocking
from perdure.checkpoint.saving import RESUME, save
from perdure.engine.ports import LoopIsBlocked
from perdure.engine.runners.blocking import CANCEL_GRACE
from perdure.engine.runners.workers import Stopped
from perdure.errors import SaveFailed

if TYPE_CHECKING:
    from perdure.checkpoint.records import Commit
    from perdure.engine.ports import Store


class _Landing:
    """Records that only tell how a commit went that another thread makes."""

    __slots__ = ("_landing",)

    def __init__(self, landing: Any) -> None:
        self._landing = landing

    async def commit(self, _: Commit) -> None:
        self._landing.result()


class Started:
    """A write as a task of the loop. Nobody cancels it but a loop that ends, which cancels all that it knows.

    Attributes:
        loop: the loop.
        task: the task; another one after the first was cancelled before its beginning. Its outcome is in `ended`: a thread may be the
            only one that asks for it.
    """

    __slots__ = ("_begun", "_commit", "_write", "ended", "loop", "task")

    def __init__(self, write: Callable[[], Coroutine[Any, Any, None]], commit: Commit | None = None) -> None:
        self._write = write
        self._commit = commit
        self._begun = False
        self.ended: Future[None] = Future()
        self.loop = asyncio.get_running_loop()
        self._start()

    def _start(self) -> None:
        self.task = self.loop.create_task(self._go())
        self.task.add_done_callback(self._over)

    async def _go(self) -> None:
        if self._begun:
            return  # sync code that stopped the loop could not wait, and did it
        self._begun = True
        try:
            await self._write()
        except asyncio.CancelledError as error:
            self._cancelled(error)
            raise
        except BaseException as error:  # noqa: BLE001 - handed to whoever waits
            self.ended.set_exception(error)
        else:
            self.ended.set_result(None)

    def _cancelled(self, error: asyncio.CancelledError) -> None:
        commit = self._commit
        if commit is None:
            self.ended.set_exception(error)
        elif commit.landing is not None and commit.landing.done():
            try:
                run_blocking(save(cast("Any", _Landing(commit.landing)), commit))
            except BaseException as refused:  # noqa: BLE001 - handed to whoever waits
                self.ended.set_exception(refused)
            else:
                self.ended.set_result(None)
        else:
            failure = SaveFailed(
                f"thread {commit.thread!r} may not have been saved: its event loop ended meanwhile. What was stored before is intact; "
                f"{RESUME}",
                thread=commit.thread,
            )
            failure.__cause__ = error
            self.ended.set_exception(failure)

    def _over(self, _: asyncio.Task[None]) -> None:
        if not self._begun:
            self._start()

    def block(self, store: Store | None) -> None:
        """Block this thread until it is done; see `InFlight.block`.

        Raises:
            LoopIsBlocked: this thread runs the loop, which has begun it, and nobody else can end it.
            Stopped: the loop is gone.
        """
        if not self.ended.done():
            try:
                here = asyncio.get_running_loop() is self.loop
            except RuntimeError:
                here = False
            if here:
                self._in_place(store)
                return
        while True:
            try:
                self.ended.result(CANCEL_GRACE)
            except TimeoutError:
                if self.ended.done():
                    raise
                if self.loop.is_closed():
                    raise Stopped from None
            else:
                return

    def _in_place(self, store: Store | None) -> None:
        commit = self._commit
        if commit is None or store is None or (self._begun and commit.landing is None):
            raise LoopIsBlocked(
                "an async node called a graph with invoke, which stops the event loop, while the super-step before was still being saved "
                'by that loop (durability="async"): await ainvoke instead'
            )
        if commit.landing is not None:
            run_blocking(save(cast("Any", _Landing(commit.landing)), commit))
            return
        self._begun = True
        try:
            run_blocking(store(commit))
        except BaseException as error:
            self.ended.set_exception(error)
            raise
        self.ended.set_result(None)
