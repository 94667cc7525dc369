"""How to call a saver of other people: its sync methods, its async ones, or whichever of the two it has.

A saver with sync methods only is called on worker threads by async code; one with async methods only is called by sync code on an
event loop that runs on a thread of its own for as long as the saver lives, because clients of databases are bound to their loop.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import threading
import weakref
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Protocol

from perdure.checkpoint.base import BaseCheckpointSaver

if TYPE_CHECKING:
    from perdure.checkpoint.base import CheckpointTuple
    from perdure.types import RunnableConfig


class Connection(Protocol):
    """The methods of a saver, in one colour."""

    async def call(self, method: str, *args: Any) -> Any:
        """The result of `put`, `put_writes`, `get_tuple` or `delete_thread`."""
        ...

    async def list(
        self, config: RunnableConfig | None, before: RunnableConfig | None = None, limit: int | None = None
    ) -> list[CheckpointTuple]:
        """What `list` yields."""
        ...


class BlockingConnection:
    """See `Connection`."""

    __slots__ = ("_saver",)

    def __init__(self, saver: BaseCheckpointSaver[Any]) -> None:
        self._saver = saver

    async def call(self, method: str, *args: Any) -> Any:
        """Call the sync method, or run the async one on the saver's loop."""
        if implements(self._saver, method) or not implements(self._saver, f"a{method}"):
            return getattr(self._saver, method)(*args)
        return loop_of(self._saver).run(getattr(self._saver, f"a{method}")(*args))

    async def list(
        self, config: RunnableConfig | None, before: RunnableConfig | None = None, limit: int | None = None
    ) -> list[CheckpointTuple]:
        """See `Connection`."""
        if implements(self._saver, "list") or not implements(self._saver, "alist"):
            return [*self._saver.list(config, before=before, limit=limit)]
        found: list[CheckpointTuple] = loop_of(self._saver).run(_collected(self._saver, config, before, limit))
        return found


class SuspendingConnection:
    """See `Connection`."""

    __slots__ = ("_saver",)

    def __init__(self, saver: BaseCheckpointSaver[Any]) -> None:
        self._saver = saver

    async def call(self, method: str, *args: Any) -> Any:
        """Await the async method, or call the sync one on a worker thread."""
        if implements(self._saver, f"a{method}") or not implements(self._saver, method):
            return await getattr(self._saver, f"a{method}")(*args)
        return await asyncio.to_thread(getattr(self._saver, method), *args)

    async def list(
        self, config: RunnableConfig | None, before: RunnableConfig | None = None, limit: int | None = None
    ) -> list[CheckpointTuple]:
        """See `Connection`."""
        return await _collected(self._saver, config, before, limit)


async def _collected(
    saver: BaseCheckpointSaver[Any], config: RunnableConfig | None, before: RunnableConfig | None, limit: int | None
) -> list[CheckpointTuple]:
    return [found async for found in saver.alist(config, before=before, limit=limit)]


def implements(saver: BaseCheckpointSaver[Any], method: str) -> bool:
    """Whether the saver has this method from somebody else than the base class."""
    return getattr(type(saver), method, None) is not getattr(BaseCheckpointSaver, method)


def takes_task_path(saver: BaseCheckpointSaver[Any], *, blocking: bool) -> bool:
    """Whether the `put_writes` that is going to be called knows its last argument, which older savers lack."""
    sync, suspending = (saver.put_writes, saver.aput_writes)
    method = sync if implements(saver, "put_writes") and (blocking or not implements(saver, "aput_writes")) else suspending
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return any(name == "task_path" or each.kind in kinds for name, each in inspect.signature(method).parameters.items())


class SaverLoop:
    """An event loop on a thread of its own."""

    __slots__ = ("_loop", "pid")

    def __init__(self) -> None:
        self.pid = os.getpid()
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._serve, name="perdure-saver", daemon=True).start()

    def _serve(self) -> None:
        self._loop.run_forever()
        self._loop.close()

    def run(self, coro: Coroutine[Any, Any, Any]) -> Any:
        """Block until the coroutine has its result."""
        future = asyncio.run_coroutine_threadsafe(coro, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def close(self) -> None:
        """Let loop and thread end."""
        if self.pid == os.getpid() and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._loop.stop)


_loops: dict[int, SaverLoop] = {}
_lock = threading.Lock()


def loop_of(saver: BaseCheckpointSaver[Any]) -> SaverLoop:
    """The loop of a saver that has async methods only; after a fork a new one, for threads do not survive that."""
    key = id(saver)
    with _lock:
        loop = _loops.get(key)
        if loop is None or loop.pid != os.getpid():
            if loop is None:
                weakref.finalize(saver, _forget, key)
            loop = _loops[key] = SaverLoop()
        return loop


def _forget(key: int) -> None:
    loop = _loops.pop(key, None)
    if loop is not None:
        loop.close()
