"""One text for both colours: the suite is written against the sync methods, and the async ones are called through a portal."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from perdure.bridge import run_blocking


class Portal:
    """An event loop on a thread of its own, for as long as a test lasts."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="portal", daemon=True)
        self._thread.start()

    def run(self, coro: Coroutine[Any, Any, Any]) -> Any:
        """The result of a coroutine."""
        return asyncio.run_coroutine_threadsafe(coro, self._loop).result(60)

    def iterate(self, source: AsyncIterator[Any]) -> Iterator[Any]:
        """The items of an async iterator, each fetched when it is asked for."""
        try:
            while True:
                try:
                    item = self.run(_next(source))
                except StopAsyncIteration:
                    return
                yield item
        finally:
            close = getattr(source, "aclose", None)
            if close is not None:
                self.run(close())

    def close(self) -> None:
        """End loop and thread."""
        self.run(self._loop.shutdown_asyncgens())
        self.run(self._loop.shutdown_default_executor())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def _next(source: AsyncIterator[Any]) -> Any:
    return await anext(source)


class Coloured:
    """A saver or a graph whose sync methods, in the suspending colour, are its async ones.

    Args:
        target: the saver or graph.
        portal: where async methods run; None: call the sync ones.
    """

    def __init__(self, target: Any, portal: Portal | None) -> None:
        self._target = target
        self._portal = portal

    def __getattr__(self, name: str) -> Any:
        portal = self._portal
        twin = None if portal is None else getattr(self._target, f"a{name}", None)
        if portal is None or twin is None:
            return getattr(self._target, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            result = twin(*args, **kwargs)
            return portal.iterate(result) if hasattr(result, "__aiter__") else portal.run(result)

        return call


class Records:
    """A record store of one colour, called like plain functions."""

    def __init__(self, saver: Any, portal: Portal | None) -> None:
        self._records = saver.blocking() if portal is None else saver.suspending()
        self._drive: Callable[[Coroutine[Any, Any, Any]], Any] = run_blocking if portal is None else portal.run

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._records, name)
        drive = self._drive
        return lambda *args, **kwargs: drive(method(*args, **kwargs))


class Suite:
    """The ground of all parts: a saver, in two colours."""

    colours: tuple[str, ...] = ("blocking", "suspending")

    def make_saver(self, where: Path, **options: Any) -> Any:
        """The saver to test.

        Args:
            where: an empty directory.
            options: `clock` and the like, which savers of this library take; others may pass over them.
        """
        raise NotImplementedError

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Run each test in each colour."""
        if "colour" in metafunc.fixturenames:
            metafunc.parametrize("colour", self.colours)

    @pytest.fixture
    def portal(self, colour: str) -> Iterator[Portal | None]:
        """Where async methods run; None in the blocking colour."""
        if colour == "blocking":
            yield None
            return
        portal = Portal()
        yield portal
        portal.close()

    @pytest.fixture
    def saver(self, tmp_path: Path, portal: Portal | None) -> Iterator[Any]:
        """The saver as it is: to compile graphs with."""
        saver = self.make_saver(tmp_path)
        yield saver
        close(saver, portal)

    @pytest.fixture
    def calls(self, saver: Any, portal: Portal | None) -> Any:
        """The saver's methods in this colour, called like plain functions."""
        return Coloured(saver, portal)

    @pytest.fixture
    def coloured(self, portal: Portal | None) -> Callable[[Any], Any]:
        """Makes a graph's methods those of this colour, called like plain functions."""
        return lambda graph: Coloured(graph, portal)


def close(saver: Any, portal: Portal | None) -> None:
    """Release a saver, if it can be released."""
    if portal is not None and hasattr(saver, "aclose"):
        portal.run(saver.aclose())
    elif hasattr(saver, "close"):
        saver.close()
