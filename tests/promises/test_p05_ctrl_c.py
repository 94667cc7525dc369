"""P5: Ctrl-C in a sync run waits for nodes that run, stores what arrives, and marks the rest."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Literal

import pytest

from perdure.checkpoint.records import ERROR, RESULT, Commit
from perdure.checkpoint.saver import Saver
from tests.promises.ways import CANCELLED, SAVERS, Ledger, Way, abreast, chain, kinds_of, on, open_saver, status_of

ROOT = Path(__file__).parents[2]
Durability = Literal["sync", "async", "exit"]
EVERY_DURABILITY = pytest.mark.parametrize("durability", ["sync", "async", "exit"])

CTRL_C = """
import os, signal, sys, threading, time
from pathlib import Path
from perdure.engine.runners import blocking as runners_blocking
from tests.promises.ways import abreast, chain, on, open_saver

runners_blocking.CANCEL_GRACE = float(sys.argv[3])
saver = open_saver("sqlite", Path(sys.argv[1]))
ledger = Path(sys.argv[1]) / "ledger"
interrupted = threading.Event()
threads = threading.Barrier(3)

def node(name, wait):
    def body(state):
        threads.wait()
        with ledger.open("a") as file:
            file.write(name + " ")
        if wait == "signal":
            os.kill(os.getpid(), signal.SIGINT)
        elif wait == "short":
            time.sleep(0.15)
        elif wait == "ever":
            time.sleep(60)
        return {"log": [name]}
    return body

graph = abreast(("a", node("a", "signal")), ("b", node("b", "short")), ("c", node("c", sys.argv[4]))).compile(checkpointer=saver)
try:
    graph.invoke({"log": []}, on(), durability=sys.argv[2])
except KeyboardInterrupt:
    print("interrupted", flush=True)
    saver.close()
    os._exit(7)
"""


def script(text: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    command = [sys.executable, "-c", text, *map(str, arguments)]
    return subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=False, timeout=50)


@EVERY_DURABILITY
def test_P5_ctrl_c_waits_for_nodes_stores_what_arrives_and_marks_the_rest(tmp_path: Path, durability: Durability):
    done = script(CTRL_C, tmp_path, durability, 0.5, "ever")
    assert (done.returncode, done.stdout) == (7, "interrupted\n")
    with open_saver("sqlite", tmp_path) as saver:
        ledger = Ledger(Way("sync"))
        graph = abreast(*((name, ledger.node(name)) for name in "abc")).compile(checkpointer=saver)
        snapshot = graph.get_state(on())
        assert snapshot.next == ("c",)
        assert {task.name: task.error for task in snapshot.tasks} == {"a": None, "b": None, "c": CANCELLED}
        assert graph.invoke(None, on()) == {"log": ["a", "b", "c"]}
        assert ledger.ran == ["c"]


def test_P5_ctrl_c_ends_as_soon_as_all_nodes_have(tmp_path: Path):
    done = script(CTRL_C, tmp_path, "sync", 40, "short")
    assert (done.returncode, done.stdout) == (7, "interrupted\n")
    with open_saver("sqlite", tmp_path) as saver:
        assert kinds_of(saver, RESULT) == ["a", "b", "c"]
        assert kinds_of(saver, ERROR) == []


@EVERY_DURABILITY
def test_P5_ctrl_c_in_a_node_that_runs_inline(saver: Saver, durability: Durability):
    ledger = Ledger(Way("sync"))
    first = [True]

    def body() -> None:
        if first[0]:
            first[0] = False
            raise KeyboardInterrupt  # where the signal's handler would raise it, for the node runs on the main thread

    graph = chain(("a", ledger.node("a")), ("b", ledger.node("b", body)), ("c", ledger.node("c"))).compile(checkpointer=saver)
    with pytest.raises(KeyboardInterrupt):
        graph.invoke({"log": []}, on(), durability=durability)
    snapshot = graph.get_state(on())
    assert (snapshot.next, snapshot.values, snapshot.tasks[0].error) == (("b",), {"log": ["a"]}, CANCELLED)
    assert status_of(saver) == ("error", True)
    assert graph.invoke(None, on()) == {"log": ["a", "b", "c"]}
    assert ledger.ran == ["a", "b", "b", "c"]


ASYNC_NODE = """
import asyncio, os, signal, sys
from pathlib import Path
from tests.promises.ways import chain, on, open_saver

async def b(state):
    os.kill(os.getpid(), signal.SIGINT)
    await asyncio.sleep(60)

saver = open_saver("sqlite", Path(sys.argv[1]))
graph = chain(("a", lambda state: {"log": ["a"]}), ("b", b)).compile(checkpointer=saver)
try:
    graph.invoke({"log": []}, on())
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


def test_P5_ctrl_c_in_an_async_node_of_a_sync_run(tmp_path: Path):
    done = script(ASYNC_NODE, tmp_path)
    assert (done.returncode, done.stdout) == (0, "interrupted\n")
    with open_saver("sqlite", tmp_path) as saver:
        again = Ledger(Way("async")).node("b")
        graph = chain(("a", again), ("b", again)).compile(checkpointer=saver)
        assert graph.get_state(on()).tasks[0].error == CANCELLED
        assert graph.invoke(None, on()) == {"log": ["a", "b"]}


TWICE = """
import os, signal, sys, threading, time
from pathlib import Path
from perdure.checkpoint.records import RESULT
from perdure.graph import START, StateGraph
from perdure.testing.wrapping import WrappingRecords, with_records
from tests.promises.ways import Log, kinds_of, on, open_saver, status_of

gate, saving = threading.Event(), threading.Event()
ended = threading.Barrier(2)

class Gated(WrappingRecords):
    async def commit(self, commit):
        if any(row.path == "a" for row in commit.writes):
            saving.set()
            gate.wait()
        await super().commit(commit)

def node(name, side):
    def body(state):
        if side:
            saving.wait()
            if ended.wait() == 0:
                threading.Thread(target=press).start()
        return {"log": [name]}
    return body

def press():
    for _ in range(2):
        time.sleep(0.1)
        os.kill(os.getpid(), signal.SIGINT)
    time.sleep(0.1)
    gate.set()

inner = open_saver(sys.argv[2], Path(sys.argv[1]))
saver = with_records(inner, Gated)
builder = StateGraph(Log)
for name in ("a", "b", "c"):
    builder.add_node(name, node(name, name != "a"))
builder.add_edge(START, "a").add_edge("a", "b").add_edge("a", "c")
try:
    builder.compile(checkpointer=saver).invoke({"log": []}, on(), durability="async")
except KeyboardInterrupt:
    print("interrupted", kinds_of(inner, RESULT), status_of(inner)[1])
"""


@pytest.mark.parametrize("kind", SAVERS)
def test_P5_ctrl_c_twice_while_the_step_before_is_being_saved_loses_nothing(tmp_path: Path, kind: str):
    # Durability "async": b and c have ended, and their results wait until a's step is saved.
    done = script(TWICE, tmp_path, kind)
    assert (done.returncode, done.stdout) == (0, "interrupted ['a', 'b', 'c'] True\n")


def test_P5_ctrl_c_during_a_save_frees_the_thread(saver: Saver):
    # KeyboardInterrupt comes out of the very first commit, after it was stored.
    graph = chain(("a", lambda state: {"log": ["a"]})).compile(checkpointer=saver)
    records = saver.blocking()
    real = records.commit

    class Interrupted:
        def __getattr__(self, name: str) -> Any:
            return getattr(records, name)

        async def commit(self, what: Commit) -> None:
            await real(what)
            raise KeyboardInterrupt

    saver.blocking = lambda: Interrupted()  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        graph.invoke({"log": []}, on())
    del saver.blocking
    assert status_of(saver)[1]
    assert graph.invoke(None, on()) == {"log": ["a"]}
