"""Listeners of `astream` that leave as their loop ends: nothing is complained of, and what was done is kept.

Each runs in a process of its own, whose standard error is what users would see.
"""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from perdure.checkpoint.saver import Saver
from tests.engine.colours import Log, thread
from tests.engine.test_leftovers import eventually
from tests.promises.ways import SAVERS, open_saver
from tests.streaming.stories import abreast, line, status_of

NODES = ("a", "b", "c")
Leaving = Callable[[Any], Coroutine[Any, Any, None]]


class ListenerError(Exception):
    """What goes wrong with whoever listens."""


async def breaks_off(stream: Any) -> None:
    async for _ in stream:
        break


async def fails(stream: Any) -> None:
    async for _ in stream:
        raise ListenerError


async def listens_on(stream: Any, begun: asyncio.Event | None = None) -> None:
    async for _ in stream:
        if begun is not None:
            begun.set()
        await asyncio.sleep(3600)


async def is_cancelled(stream: Any) -> None:
    begun = asyncio.Event()
    listener = asyncio.create_task(listens_on(stream, begun))
    del stream
    await begun.wait()
    listener.cancel()
    await asyncio.wait({listener})


async def is_cancelled_by_the_loop(stream: Any) -> None:
    begun = asyncio.Event()
    KEPT.append(asyncio.create_task(listens_on(stream, begun)))
    del stream
    await begun.wait()


async def is_cancelled_by_the_loop_and_forgotten(stream: Any) -> None:
    begun = asyncio.Event()
    asyncio.create_task(listens_on(stream, begun))  # noqa: RUF006 - what it sleeps for holds on to it, until it is cancelled
    del stream
    await begun.wait()


async def runs_out_of_time(stream: Any) -> None:
    begun = asyncio.Event()
    try:
        async with asyncio.timeout(None) as limit:
            listener = listens_on(stream, begun)
            del stream
            asyncio.get_running_loop().call_soon(lambda: asyncio.ensure_future(soon(limit, begun)))
            await listener
    except TimeoutError:
        pass


async def soon(limit: asyncio.Timeout, begun: asyncio.Event) -> None:
    await begun.wait()
    limit.reschedule(asyncio.get_running_loop().time())


async def is_garbage(stream: Any) -> None:
    await anext(stream)
    del stream
    gc.collect()


async def is_garbage_in_a_circle(stream: Any) -> None:
    await anext(stream)
    circle = [stream]
    circle.append(circle)  # type: ignore[arg-type]
    del stream, circle
    gc.collect()


async def keeps_it(stream: Any) -> None:
    KEPT.append(stream)
    await anext(stream)


async def closes(stream: Any) -> None:
    await anext(stream)
    await stream.aclose()


KEPT: list[Any] = []
"""What is still known when its loop ends."""
LEAVING: tuple[Leaving, ...] = (
    breaks_off,
    fails,
    is_cancelled,
    is_cancelled_by_the_loop,
    is_cancelled_by_the_loop_and_forgotten,
    runs_out_of_time,
    is_garbage,
    is_garbage_in_a_circle,
    keeps_it,
    closes,
)


def drawing(*, side_by_side: bool, is_async: bool, ran: list[str]) -> Any:
    """Three nodes; those side by side end one after the other, so that some still run when the listener leaves."""

    def node(name: str) -> Any:
        patience = 0.01 * NODES.index(name) if side_by_side else 0

        def blocks(_: Log) -> Any:
            time.sleep(patience)
            ran.append(name)
            return {"log": [name]}

        async def suspends(_: Log) -> Any:
            await asyncio.sleep(patience)
            ran.append(name)
            return {"log": [name]}

        return suspends if is_async else blocks

    return (abreast if side_by_side else line)(*((name, node(name)) for name in NODES))


def leave(how: Leaving, saver: Saver, durability: str, *, side_by_side: bool, is_async: bool) -> str:
    """What is wrong after somebody has left in that way; nothing, as it should be."""
    ran: list[str] = []
    graph = drawing(side_by_side=side_by_side, is_async=is_async, ran=ran).compile(saver)
    config = thread(f"{how.__name__} {durability} {side_by_side}")
    try:
        asyncio.run(how(graph.astream({"log": []}, config, durability=durability)))
    except ListenerError:
        pass
    KEPT.clear()
    gc.collect()
    found = status_of(saver, config["configurable"]["thread_id"])
    log = graph.invoke(None, config)["log"]
    right = found == ("idle", True) and log == ran == list(NODES)
    return "" if right else f"{config['configurable']['thread_id']}: {found}, log {log}, ran {ran}\n"


def main(kind: str, folder: str, colour: str, shape: str) -> None:
    """Leave in all ways; print what is wrong."""
    saver = open_saver(kind, Path(folder))
    gc.freeze()  # the modules, which each collection would look through
    for durability in ("sync", "async"):
        for how in LEAVING:
            print(
                leave(how, saver, durability, side_by_side=shape == "abreast", is_async=colour == "async"), end="", flush=True
            )
    saver.close()


@pytest.mark.parametrize("shape", ["line", "abreast"])
@pytest.mark.parametrize("nodes", ["sync", "async"])
@pytest.mark.parametrize("kind", SAVERS)
def test_P5_a_listener_that_leaves_as_its_loop_ends(kind: str, nodes: str, shape: str, tmp_path: Path) -> None:
    child = subprocess.run(
        [sys.executable, "-W", "default", "-m", __name__, kind, str(tmp_path), nodes, shape],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (child.returncode, child.stdout, child.stderr) == (0, "", "")


@pytest.mark.parametrize("nodes", ["sync", "async"])
def test_P5_a_stream_that_is_collected_after_its_loop_holds_no_thread(
    nodes: str, saver: Saver, capfd: pytest.CaptureFixture[str]
) -> None:
    """A loop does not know a generator whose first item was asked for before the loop ran, as by `run_until_complete(anext(...))`."""
    graph = drawing(side_by_side=False, is_async=nodes == "async", ran=[]).compile(saver)
    loop = asyncio.new_event_loop()
    stream = graph.astream({"log": []}, thread())
    loop.run_until_complete(anext(stream))
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.close()
    del stream
    gc.collect()
    assert eventually(lambda: status_of(saver)[1]), "nobody holds it"
    assert graph.invoke(None, thread())["log"] == list(NODES)
    assert capfd.readouterr().err == ""


if __name__ == "__main__":
    main(*sys.argv[1:])
