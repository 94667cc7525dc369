"""P8 and scenario S15: two writers on one thread, and no silent loss."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from typing import Any, Self

import pytest

from perdure.checkpoint.saver import Saver
from perdure.errors import InvalidConfig, SelfBusy, ThreadBusy
from perdure.graph import START, StateGraph
from perdure.types import Command, interrupt
from tests.promises.ways import Ledger, Log, Way, chain, foreign_checkpoint, on, open_saver, rows_of

ROOT = Path(__file__).parents[2]


class Held:
    """A run on thread "t" that stands in its node, in a thread of its own, until it is let go."""

    def __init__(self, way: Way, saver: Saver, run_id: str | None = None) -> None:
        self.inside, self.go_on = threading.Event(), threading.Event()
        self.calls = 0
        self.graph = chain(("a", self._node)).compile(checkpointer=saver)
        self._pool = ThreadPoolExecutor(1)
        config: Any = {**on(), "run_id": run_id} if run_id else on()
        self.result = self._pool.submit(way.invoke, self.graph, {"log": ["m1"]}, config)
        assert self.inside.wait(10)

    def _node(self, state: Any) -> Any:
        self.calls += 1
        self.inside.set()
        self.go_on.wait(10)
        return {"log": ["done"]}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.go_on.set()
        self._pool.shutdown()


def test_P8_S15_reject_names_the_run_that_holds_the_thread_and_since_when(saver: Saver, way: Way):
    with Held(way, saver, "the-first-run") as held:
        second: list[Any] = [{"log": ["m2"]}, None, Command(update={"log": ["x"]})]
        for given in second:
            with pytest.raises(ThreadBusy, match="the-first-run") as caught:
                way.invoke(held.graph, given, on())
            holder = caught.value.holder
            assert (holder["run_id"], holder["pid"], caught.value.thread) == ("the-first-run", os.getpid(), "t")
            assert datetime.fromisoformat(holder["since"]).tzinfo is not None
            assert holder["since"] in str(caught.value)
        assert rows_of(saver)["thread"][0] == "busy"
        held.go_on.set()
        assert held.result.result(10) == {"log": ["m1", "done"]}
        assert held.calls == 1
        assert way.state(held.graph, on()).values == {"log": ["m1", "done"]}
    rows = rows_of(saver)
    assert rows["thread"][0] == "idle"
    parents = [row["parent"] for row in rows["checkpoints"].values()]
    assert len(parents) == len(set(parents)) == 3, "one branch only"


def test_P8_S15_wait_queues_behind_the_run(saver: Saver, way: Way):
    with Held(way, saver) as held, ThreadPoolExecutor(1) as pool:
        second = pool.submit(way.invoke, held.graph, {"log": ["m2"]}, on(), on_busy="wait")
        with pytest.raises(TimeoutError):
            second.result(0.05)
        held.go_on.set()
        assert held.result.result(10) == {"log": ["m1", "done"]}
        assert second.result(10) == {"log": ["m1", "done", "m2", "done"]}


def test_P8_S15_waiting_has_a_limit(saver: Saver, way: Way):
    with Held(way, saver) as held:
        with pytest.raises(ThreadBusy, match=r"^thread 't' is still busy after 0\.03 seconds \(busy_timeout\): run ") as busy:
            way.invoke(held.graph, {"log": ["m2"]}, on(), on_busy="wait", busy_timeout=0.03)
        assert "on_busy" not in str(busy.value)
        assert (busy.value.thread, sorted(busy.value.holder)) == ("t", ["host", "pid", "run_id", "since"])
        with pytest.raises(InvalidConfig, match="on_busy"):
            way.invoke(held.graph, {"log": ["m2"]}, on(), on_busy="queue")


def test_P8_S15_two_threads_race_and_one_wins(saver: Saver, way: Way):
    barrier = threading.Barrier(4)
    graph = chain(("a", lambda state: {"log": ["done"]})).compile(checkpointer=saver)
    won: list[str] = []

    def call(name: str) -> None:
        barrier.wait()
        try:
            won.append(way.invoke(graph, {"log": [name]}, on())["log"][-2])
        except ThreadBusy:
            return

    for _ in range(5):
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(call, ["m1", "m2", "m3", "m4"]))
    # However they fell, the state holds the winners and nobody else, one after the other, each with its answer.
    log = way.state(graph, on()).values["log"]
    assert (sorted(log[::2]), set(log[1::2])) == (sorted(won), {"done"})


def test_P8_S15_two_tasks_of_one_loop(saver: Saver):
    async def story() -> None:
        inside, go_on = asyncio.Event(), asyncio.Event()

        async def node(state: Any) -> Any:
            inside.set()
            await go_on.wait()
            return {"log": ["done"]}

        graph = chain(("a", node)).compile(checkpointer=saver)
        first = asyncio.ensure_future(graph.ainvoke({"log": ["m1"]}, on()))
        await inside.wait()
        with pytest.raises(ThreadBusy):
            await graph.ainvoke({"log": ["m2"]}, on())
        waiting = asyncio.ensure_future(graph.ainvoke({"log": ["m3"]}, on(), on_busy="wait"))
        await asyncio.sleep(0.02)
        go_on.set()
        assert await first == {"log": ["m1", "done"]}
        assert await waiting == {"log": ["m1", "done", "m3", "done"]}

    asyncio.run(story())


def test_P8_S15_a_sync_and_an_async_run_exclude_each_other(saver: Saver):
    with Held(Way("sync"), saver) as held, pytest.raises(ThreadBusy):
        Way("async").invoke(held.graph, {"log": ["m2"]}, on())
    with Held(Way("async"), saver) as held, pytest.raises(ThreadBusy):
        Way("sync").invoke(held.graph, {"log": ["m2"]}, on())


HOLDING = """
import sys
from pathlib import Path
from tests.promises.ways import Way, chain, on, open_saver

def node(state):
    print("inside", flush=True)
    sys.stdin.readline()
    return {"log": ["done"]}

graph = chain(("a", node)).compile(checkpointer=open_saver("sqlite", Path(sys.argv[1])))
print(Way(sys.argv[2]).invoke(graph, {"log": [sys.argv[3]]}, {**on(), "run_id": "over-there"}, on_busy=sys.argv[4])["log"])
"""


def other_process(path: Path, way: Way, name: str, on_busy: str) -> subprocess.Popen[str]:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    command = [sys.executable, "-c", HOLDING, str(path), way.colour, name, on_busy]
    return subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def test_P8_S15_two_processes_on_one_file(tmp_path: Path, way: Way):
    process = other_process(tmp_path, way, "m1", "reject")
    assert process.stdout is not None
    assert process.stdout.readline() == "inside\n"
    with open_saver("sqlite", tmp_path) as saver:
        graph = chain(("a", lambda state: {"log": ["done"]})).compile(checkpointer=saver)
        with pytest.raises(ThreadBusy, match=f"over-there .process {process.pid}"):
            way.invoke(graph, {"log": ["m2"]}, on())
        assert way.state(graph, on()).values == {"log": ["m1"]}, "reading needs no lease"
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(way.invoke, graph, {"log": ["m3"]}, on(), on_busy="wait")
            output, _ = process.communicate("\n", timeout=20)
            assert output == "['m1', 'done']\n"
            assert waiting.result(20) == {"log": ["m1", "done", "m3", "done"]}


def test_P8_reading_needs_no_lease(saver: Saver, way: Way):
    with Held(way, saver) as held:
        assert way.state(held.graph, on()).next == ("a",)
        assert len(way.history(held.graph, on())) == 2
        assert saver.get_tuple(on()) is not None
        assert len(list(saver.list(on()))) == 2


def test_P8_edits_and_bare_puts_of_a_leased_thread_are_refused(saver: Saver, way: Way):
    with Held(way, saver) as held:
        tip = way.state(held.graph, on()).config
        before = rows_of(saver)
        calls: list[Callable[[], Any]] = [
            lambda: way.edit(held.graph, on(), {"log": ["x"]}),
            lambda: way.put(saver, on(checkpoint_ns=""), foreign_checkpoint(), {}, {}),
            lambda: way.put(saver, tip, foreign_checkpoint(), {}, {}),
            lambda: way.put_writes(saver, tip, [("log", ["x"])], "task"),
        ]
        for call in calls:
            with pytest.raises(ThreadBusy):
                call()
        assert rows_of(saver) == before
        held.go_on.set()
        assert held.result.result(10) == {"log": ["m1", "done"]}
        way.put_writes(saver, tip, [("log", ["x"])], "task")


def test_P8_starting_or_editing_ones_own_thread_is_self_busy_and_never_waits(saver: Saver, way: Way):
    caught: list[ThreadBusy] = []
    graphs: list[Any] = []

    def tries(state: Any) -> Any:
        calls: list[Callable[[], Any]] = [
            lambda: graphs[0].invoke({"log": []}, on(), on_busy="wait"),
            lambda: graphs[0].update_state(on(), {"log": ["x"]}),
            lambda: graphs[0].bulk_update_state(on(), [[({"log": ["x"]}, "a")]]),
        ]
        for call in calls:
            try:
                call()
            except ThreadBusy as error:
                caught.append(error)
        return {"log": ["a"]}

    async def atries(state: Any) -> Any:
        calls: list[Callable[[], Any]] = [
            lambda: graphs[0].ainvoke({"log": []}, on(), on_busy="wait"),
            lambda: graphs[0].aupdate_state(on(), {"log": ["x"]}),
            lambda: graphs[0].abulk_update_state(on(), [[({"log": ["x"]}, "a")]]),
        ]
        for call in calls:
            try:
                await call()
            except ThreadBusy as error:
                caught.append(error)
        return {"log": ["a"]}

    graphs.append(chain(("a", atries if way.is_async else tries)).compile(checkpointer=saver))
    assert way.invoke(graphs[0], {"log": []}, on()) == {"log": ["a"]}
    assert [type(error) for error in caught] == [SelfBusy] * 3
    assert {(error.node, error.thread) for error in caught} == {("a", "t")}


def test_P8_another_graph_on_the_same_thread_from_inside_is_self_busy_too(saver: Saver, way: Way):
    other = chain(("b", lambda state: {"log": ["b"]})).compile(checkpointer=saver)
    caught: list[BaseException] = []

    def node(state: Any) -> Any:
        try:
            other.update_state(on(), {"log": ["x"]}, as_node="b")
        except ThreadBusy as error:
            caught.append(error)
        return {"log": ["a"]}

    graph = chain(("a", node)).compile(checkpointer=saver)
    assert way.invoke(graph, {"log": []}, on()) == {"log": ["a"]}
    assert [type(error) for error in caught] == [SelfBusy]


def test_P8_another_thread_may_be_run_from_inside(saver: Saver, way: Way):
    other = chain(("b", Ledger(Way("sync")).node("b"))).compile(checkpointer=saver)

    def node(state: Any) -> Any:
        return {"log": other.invoke({"log": []}, on("other"))["log"]}

    graph = chain(("a", node)).compile(checkpointer=saver)
    assert way.invoke(graph, {"log": []}, on()) == {"log": ["b"]}
    assert way.state(other, on("other")).values == {"log": ["b"]}


@pytest.mark.parametrize("end", ["done", "paused", "failed", "limit"])
def test_P8_a_run_gives_its_thread_back_however_it_ends(saver: Saver, way: Way, end: str):
    ledger = Ledger(way)

    def body() -> None:
        if end == "paused":
            interrupt("?")
        if end == "failed":
            raise ConnectionError

    builder: StateGraph[Any, Any, Any, Any] = StateGraph(Log)
    builder.add_node("a", ledger.node("a", body))
    builder.add_edge(START, "a")
    if end == "limit":
        builder.add_edge("a", "a")
    graph = builder.compile(checkpointer=saver)
    try:
        way.invoke(graph, {"log": []}, {**on(), "recursion_limit": 3})
    except (ConnectionError, RecursionError):
        pass
    status, _, free, _ = rows_of(saver)["thread"]
    assert free
    assert status == {"done": "idle", "paused": "interrupted", "failed": "error", "limit": "error"}[end]


def test_P8_many_threads_of_one_graph_do_not_meet(saver: Saver, way: Way):
    graph = chain(("a", Ledger(Way("sync")).node("a")), ("b", Ledger(Way("sync")).node("b"))).compile(checkpointer=saver)
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda n: way.invoke(graph, {"log": [str(n)]}, on(f"t{n}")), range(24)))
    assert results == [{"log": [str(n), "a", "b"]} for n in range(24)]
