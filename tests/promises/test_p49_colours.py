"""P49: sync and async give the same results, records and errors; a sync run may contain async nodes and the reverse."""

from __future__ import annotations

import difflib
import pprint
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from perdure.checkpoint.saver import Saver
from tests.promises.colour_stories import STORIES, Told
from tests.promises.ways import FrozenClock, Ledger, Way, chain, on, open_saver, rows_of

MIXTURES = [("sync", "async"), ("async", "sync"), ("async", "async")]
"""Colours of the run and of its nodes, to be compared with sync, sync."""


def told(story: Callable[[Told], None], kind: str, path: Path, run: str, nodes: str) -> list[str]:
    """All that the story saw, and all rows it left. With the clock frozen even ids are the same each time."""
    path.mkdir()
    with open_saver(kind, path, clock=FrozenClock()) as saver:
        telling = Told(Way(nodes).node, saver, Way(run))
        story(telling)
        rows = {thread: rows_of(saver, thread) for thread in ("t", *(f"t{n}" for n in range(5)))}
    return pprint.pformat([telling.seen, rows], width=160).splitlines()


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
@pytest.mark.parametrize(("run", "nodes"), MIXTURES, ids=[f"{run} run of {nodes} nodes" for run, nodes in MIXTURES])
@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_P49_every_colour_tells_and_stores_the_same(
    story: Callable[[Told], None], kind: str, run: str, nodes: str, tmp_path: Path
):
    want = told(story, kind, tmp_path / "want", "sync", "sync")
    got = told(story, kind, tmp_path / "got", run, nodes)
    difference = [line for line in difflib.unified_diff(want, got, n=0, lineterm="") if not line.startswith(("---", "+++"))]
    assert difference == []


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_P49_memory_and_sqlite_store_the_same(story: Callable[[Told], None], tmp_path: Path):
    want = told(story, "memory", tmp_path / "want", "sync", "sync")
    got = told(story, "sqlite", tmp_path / "got", "sync", "sync")
    assert list(difflib.unified_diff(want, got, n=0, lineterm="")) == []


def test_P49_one_thread_may_change_its_colour_at_any_turn(saver: Saver):
    ways = [Way("sync"), Way("async")]
    graph = chain(*((name, Ledger(Way(colour)).node(name)) for name, colour in (("a", "sync"), ("b", "async")))).compile(
        checkpointer=saver, interrupt_after=["a"]
    )
    log: list[str] = []
    for turn in range(6):
        ways[turn % 2].invoke(graph, {"log": [str(turn)]}, on())
        assert ways[(turn + 1) % 2].invoke(graph, None, on())["log"] == [*log, str(turn), "a", "b"]
        log = [*log, str(turn), "a", "b"]
    states: list[Any] = [way.history(graph, on()) for way in ways]
    assert states[0] == states[1]


def test_P49_async_nodes_of_a_sync_run_share_one_loop(saver: Saver):
    import asyncio

    loops: list[Any] = []

    async def node(state: Any) -> Any:
        loops.append(asyncio.get_running_loop())
        return {"log": ["x"]}

    graph = chain(("a", node), ("b", lambda state: {"log": ["b"]}), ("c", node)).compile(checkpointer=saver)
    assert graph.invoke({"log": []}, on()) == {"log": ["x", "b", "x"]}
    assert loops[0] is loops[1]


def test_P49_a_sync_call_inside_a_running_loop_works(saver: Saver):
    import asyncio

    async def node(state: Any) -> Any:
        await asyncio.sleep(0)
        return {"log": ["a"]}

    graph = chain(("a", node)).compile(checkpointer=saver)

    async def main() -> Any:
        return graph.invoke({"log": []}, on())

    assert asyncio.run(main()) == {"log": ["a"]}
