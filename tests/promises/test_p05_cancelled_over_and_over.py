"""P5 where a task is cancelled again at every turn of the loop until it ends, as anyio's cancel scopes do."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from perdure import START, InMemorySaver, SqliteSaver, StateGraph
from tests.engine.colours import Log, thread


def drawing(ran: list[str]) -> StateGraph[Any, Any, Any, Any]:
    """Three steps; the one in the middle has two nodes."""

    def node(name: str) -> Any:
        async def run(_: Log) -> dict[str, Any]:
            await asyncio.sleep(0.002)
            ran.append(name)
            return {"log": [name]}

        return run

    graph = StateGraph(Log)
    for name in "abcd":
        graph.add_node(name, node(name))
    return graph.add_edge(START, "a").add_edge("a", "b").add_edge("a", "c").add_edge(["b", "c"], "d")


async def cancelled_over_and_over(task: asyncio.Task[Any], after: float) -> bool:
    """Whether a task was still running after a while; it was cancelled then until it ended."""
    await asyncio.wait({task}, timeout=after)
    stopped = not task.done()
    while not task.done():
        task.cancel()
        await asyncio.sleep(0)
    return stopped


@pytest.mark.parametrize("backend", ["memory", "file"])
@pytest.mark.parametrize("durability", ["sync", "async"])
def test_P5_the_thread_is_free_at_once_and_what_was_done_is_kept(backend: str, durability: Any, tmp_path: Path) -> None:
    ran: list[str] = []
    saver: Any = InMemorySaver() if backend == "memory" else SqliteSaver(tmp_path / "threads.db")
    graph = drawing(ran).compile(saver)
    complaints: list[Any] = []

    async def story(name: str, after: float) -> bool:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
        ran.clear()
        run = asyncio.ensure_future(graph.ainvoke({"log": []}, thread(name), durability=durability))
        stopped = await cancelled_over_and_over(run, after)
        state = await graph.aget_state(thread(name))
        if state.next or not state.created_at:
            await graph.ainvoke(None if state.next else {"log": []}, thread(name))  # and nobody holds it
        assert (await graph.aget_state(thread(name))).values == {"log": ["a", "b", "c", "d"]}
        assert sorted(ran) == ["a", "b", "c", "d"], "what had ended did not run again"
        return stopped

    stopped = [asyncio.run(story(str(n), 0.0007 * n)) for n in range(20)]
    assert any(stopped)
    assert complaints == []
    saver.close()
