"""P9: a zombie is refused. P10 and scenario S16: a deleted thread stays deleted."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from perdure.checkpoint.memory import InMemorySaver
from perdure.checkpoint.saver import Saver
from perdure.errors import LeaseLost, SelfBusy, ThreadBusy, ThreadDeleted, UnknownThread
from perdure.types import Command, interrupt
from tests.promises.ways import FrozenClock, Ledger, Way, chain, foreign_checkpoint, on, open_saver, rows_of

ROOT = Path(__file__).parents[2]
SAVERS = pytest.mark.parametrize("kind", ["memory", "sqlite"])


class Stalled:
    """A graph whose first run stands still in its node until it is let go; later runs pass."""

    def __init__(self, way: Way) -> None:
        self.inside, self.go_on = threading.Event(), threading.Event()
        self.runs = 0

        def node(state: Any) -> Any:
            self.runs += 1
            if self.runs == 1:
                self.inside.set()
                self.go_on.wait(10)
            return {"log": [f"a{self.runs}"]}

        self.nodes = (("a", node), ("b", Ledger(way).node("b")))


# ---------------------------------------------------------------------------------------------------------------------- P9


@SAVERS
@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_P9_a_zombie_is_refused_and_nothing_of_its_write_is_stored(kind: str, tmp_path: Path, way: Way, durability: Any):
    # Its lease runs out while it stands still (its clock's renewals never come), and another run takes over.
    clock = FrozenClock(step_ns=1_000)
    saver = open_saver(kind, tmp_path, clock=clock, lease_seconds=1_000)
    stalled = Stalled(way)
    graph = chain(*stalled.nodes).compile(checkpointer=saver)
    with ThreadPoolExecutor(1) as pool:
        zombie = pool.submit(way.invoke, graph, {"log": []}, on(), durability=durability)
        assert stalled.inside.wait(10)
        with pytest.raises(ThreadBusy):
            way.invoke(graph, {"log": ["x"]}, on())
        clock.ns += 1_000 * 10**9
        taken = way.invoke(graph, {"log": ["x"]}, on())
        before = rows_of(saver)
        stalled.go_on.set()
        with pytest.raises(LeaseLost, match="took it over") as caught:
            zombie.result(10)
        assert caught.value.thread == "t"
    assert rows_of(saver) == before
    assert way.state(graph, on()).values == taken
    saver.close()


@SAVERS
def test_P9_one_that_merely_expired_goes_on(kind: str, tmp_path: Path, way: Way):
    clock = FrozenClock(step_ns=1_000)
    with open_saver(kind, tmp_path, clock=clock, lease_seconds=1_000) as saver:

        def late() -> None:
            clock.ns += 5_000 * 10**9

        graph = chain(*((name, Ledger(way).node(name, late)) for name in "ab")).compile(checkpointer=saver)
        assert way.invoke(graph, {"log": []}, on()) == {"log": ["a", "b"]}


def test_P9_a_dead_holder_is_taken_over_at_once(tmp_path: Path, way: Way):
    script = """
import os, signal, sys
from pathlib import Path
from tests.promises.ways import chain, on, open_saver
graph = chain(("a", lambda state: os.kill(os.getpid(), signal.SIGKILL))).compile(checkpointer=open_saver("sqlite", Path(sys.argv[1])))
graph.invoke({"log": ["in"]}, on())
"""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], env=environment, check=False)
    with open_saver("sqlite", tmp_path) as saver:
        assert rows_of(saver)["thread"][0] == "busy"
        graph = chain(("a", Ledger(way).node("a"))).compile(checkpointer=saver)
        assert way.invoke(graph, None, on()) == {"log": ["in", "a"]}, "with no wait, though the lease has 30 seconds left"


@SAVERS
def test_P9_a_holder_that_cannot_be_proved_dead_is_waited_for(kind: str, tmp_path: Path, way: Way, monkeypatch: Any):
    from perdure.checkpoint.leases import identity

    clock = FrozenClock(step_ns=1_000)
    saver = open_saver(kind, tmp_path, clock=clock, lease_seconds=1_000)
    graph = chain(("a", Ledger(way).node("a"))).compile(checkpointer=saver)
    stalled = Stalled(way)
    slow = chain(*stalled.nodes).compile(checkpointer=saver)
    here = identity.holder("there", 0)
    elsewhere = type(here)("there", "another-host", here.boot, here.pid, "0", here.since_ns)
    with ThreadPoolExecutor(1) as pool:
        with monkeypatch.context() as patched:
            patched.setattr(identity, "holder", lambda *_: elsewhere)
            zombie = pool.submit(way.invoke, slow, {"log": []}, on())
            assert stalled.inside.wait(10)
        with pytest.raises(ThreadBusy, match="another-host"):
            way.invoke(graph, {"log": []}, on())
        clock.ns += 1_000 * 10**9
        assert way.invoke(graph, {"log": []}, on()) == {"log": ["a"]}
        stalled.go_on.set()
        with pytest.raises(LeaseLost):
            zombie.result(10)
    saver.close()


@SAVERS
def test_P9_a_long_node_is_renewed_in_the_background(kind: str, tmp_path: Path, way: Way):
    saver = open_saver(kind, tmp_path, lease_seconds=0.15)
    ledger = Ledger(way)
    renewed = threading.Event()
    first: list[int] = []

    def body() -> None:
        # Returns once the lease has moved without a commit.
        while not renewed.wait(0.01):
            lease = asyncio_free_load(saver)
            first.append(lease)
            if lease != first[0]:
                renewed.set()

    graph = chain(("a", ledger.node("a", body))).compile(checkpointer=saver)
    assert way.invoke(graph, {"log": []}, on()) == {"log": ["a"]}
    assert first[-1] > first[0]
    saver.close()


def asyncio_free_load(saver: Saver) -> int:
    from perdure.bridge import run_blocking

    return run_blocking(saver.blocking().load("t", 0, None)).thread.lease.expires_ns


# --------------------------------------------------------------------------------------------------------------- P10, S16


def mentions(saver: Saver, path: Path, text: str) -> bool:
    if isinstance(saver, InMemorySaver):
        return text in repr(vars(saver._records))
    return any(text.encode() in file.read_bytes() for file in path.glob("promises.db*"))


def test_P10_S16_late_puts_and_writes_are_refused(saver: Saver, way: Way, tmp_path: Path):
    child = chain(("inner", Ledger(way).node("inner", lambda: interrupt("?")))).compile()
    graph = chain(("a", child)).compile(checkpointer=saver)
    way.invoke(graph, {"log": ["plutonium"]}, on("gone-and-away"))
    tip = way.state(graph, on("gone-and-away")).config
    way.delete(saver, "gone-and-away")
    assert way.state(graph, on("gone-and-away")).values == {}
    assert not mentions(saver, tmp_path, "gone-and-away")
    assert not mentions(saver, tmp_path, "plutonium")
    with pytest.raises(ThreadDeleted):
        way.put_writes(saver, tip, [("log", ["x"])], "task")
    with pytest.raises(ThreadDeleted):
        way.put(saver, tip, foreign_checkpoint(), {}, {})
    late: list[Any] = [None, Command(resume="late")]
    for given in late:
        with pytest.raises(UnknownThread):
            way.invoke(graph, given, on("gone-and-away"))
    assert way.state(graph, on("gone-and-away")).values == {}
    assert not mentions(saver, tmp_path, "gone-and-away")


def test_P10_S16_new_input_on_the_id_starts_afresh(saver: Saver, way: Way):
    graph = chain(("a", Ledger(way).node("a"))).compile(checkpointer=saver)
    way.invoke(graph, {"log": ["old"]}, on())
    old = way.state(graph, on()).config
    way.delete(saver, "t")
    assert way.invoke(graph, {"log": ["new"]}, on()) == {"log": ["new", "a"]}
    history = way.history(graph, on())
    assert [snapshot.metadata["step"] for snapshot in history if snapshot.metadata] == [1, 0, -1]
    assert rows_of(saver)["thread"][3] == 2, "the second incarnation"
    # What belonged to the first is still refused.
    before = rows_of(saver)
    with pytest.raises((ThreadDeleted, LookupError)):
        way.put_writes(saver, old, [("log", ["x"])], "task")
    with pytest.raises(ThreadDeleted):
        way.put(saver, old, foreign_checkpoint(), {}, {})
    assert rows_of(saver) == before


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_P10_S16_a_run_on_a_deleted_thread_ends(saver: Saver, way: Way, durability: Any, tmp_path: Path):
    stalled = Stalled(way)
    graph = chain(*stalled.nodes).compile(checkpointer=saver)
    with ThreadPoolExecutor(1) as pool:
        run = pool.submit(way.invoke, graph, {"log": []}, on("gone-and-away"), durability=durability)
        assert stalled.inside.wait(10)
        way.delete(saver, "gone-and-away")
        stalled.go_on.set()
        with pytest.raises(ThreadDeleted):
            run.result(10)
    assert way.state(graph, on("gone-and-away")).values == {}
    assert not mentions(saver, tmp_path, "gone-and-away")


def test_P10_a_run_whose_thread_was_deleted_and_made_anew_does_not_touch_the_new_one(saver: Saver, way: Way):
    stalled = Stalled(way)
    graph = chain(*stalled.nodes).compile(checkpointer=saver)
    with ThreadPoolExecutor(1) as pool:
        run = pool.submit(way.invoke, graph, {"log": []}, on())
        assert stalled.inside.wait(10)
        way.delete(saver, "t")
        fresh = way.invoke(graph, {"log": ["new"]}, on())
        before = rows_of(saver)
        stalled.go_on.set()
        with pytest.raises(ThreadDeleted):
            run.result(10)
    assert rows_of(saver) == before
    assert way.state(graph, on()).values == fresh


def test_P8_P10_deleting_ones_own_thread_from_inside_is_self_busy(saver: Saver, way: Way):
    caught: list[BaseException] = []

    def node(state: Any) -> Any:
        try:
            saver.delete_thread("t")
        except ThreadBusy as error:
            caught.append(error)
        return {"log": ["a"]}

    async def anode(state: Any) -> Any:
        try:
            await saver.adelete_thread("t")
        except ThreadBusy as error:
            caught.append(error)
        return {"log": ["a"]}

    graph = chain(("a", anode if way.is_async else node)).compile(checkpointer=saver)
    assert way.invoke(graph, {"log": []}, on()) == {"log": ["a"]}
    assert [type(error) for error in caught] == [SelfBusy]


def test_P10_deleting_what_does_not_exist_is_fine(saver: Saver, way: Way):
    way.delete(saver, "never")
    graph = chain(("a", Ledger(way).node("a"))).compile(checkpointer=saver)
    assert way.invoke(graph, {"log": []}, on("never")) == {"log": ["a"]}
    assert asyncio.run(graph.aget_state(on("never"))).values == {"log": ["a"]}
