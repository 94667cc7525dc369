"""P9: a run stays with the process that began it, keeps none alive, and is not waited for when it could not say that it ended."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from perdure.checkpoint.saver import Saver
from perdure.errors import SaveFailed
from perdure.testing.faults import DatabaseDown, FailingRecords, with_records
from tests.promises.ways import Ledger, Way, chain, on, rows_of

ROOT = Path(__file__).parents[2]
SAVERS = pytest.mark.parametrize("kind", ["memory", "sqlite"])


FORKING = """
import os, sys
from pathlib import Path
from perdure.errors import LeaseLost
from tests.promises.ways import chain, on, open_saver, rows_of

kind, path, durability = sys.argv[1], Path(sys.argv[2]), sys.argv[3]
saver = open_saver(kind, path)
pids = []

def forks(state):
    pids.append(os.fork())
    return {"log": ["child" if pids[-1] == 0 else "parent"]}

graph = chain(("a", forks), ("b", lambda state: {"log": ["b"]})).compile(checkpointer=saver)
told = "nothing"
try:
    told = graph.invoke({"log": []}, on(), durability=durability)["log"]
except LeaseLost as error:
    told = f"lost: {'forked' in str(error)}"
if pids == [0]:
    print("child", told, flush=True)
    other = chain(("c", lambda state: {"log": ["c"]})).compile(checkpointer=saver)
    print("child", other.invoke({"log": []}, on("other"))["log"], flush=True)
    os._exit(0)
_, status = os.waitpid(pids[0], 0)
print("parent", told, os.waitstatus_to_exitcode(status), flush=True)
print("history", len(list(graph.get_state_history(on()))), rows_of(saver)["thread"][0], flush=True)
"""


@SAVERS
@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_P9_a_process_forked_in_a_node_takes_no_part_in_the_run(kind: str, tmp_path: Path, durability: str):
    # In sync code only: an event loop of Python does not survive a fork, whatever runs on it.
    if not hasattr(os, "fork"):
        pytest.skip("no fork here")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]), "PYTHONWARNINGS": "ignore"}
    command = [sys.executable, "-c", FORKING, kind, str(tmp_path), durability]
    told = subprocess.run(command, env=environment, check=True, capture_output=True, text=True, timeout=50)
    history = 1 if durability == "exit" else 4
    assert told.stdout.splitlines() == [
        "child lost: True",
        "child ['c']",
        "parent ['parent', 'b'] 0",
        f"history {history} idle",
    ], told.stderr


LEAVING = """
import sys
from pathlib import Path
from tests.promises.ways import chain, on, open_saver

saver = open_saver(sys.argv[1], Path(sys.argv[2]), lease_seconds=3600)
graph = chain(("a", lambda state: {"log": ["a"]}), ("b", lambda state: {"log": ["b"]})).compile(checkpointer=saver)
kept = graph.stream({"log": []}, on())
print(next(kept), flush=True)
"""


@SAVERS
def test_P9_a_lease_that_is_held_keeps_no_process_alive(kind: str, tmp_path: Path):
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    command = [sys.executable, "-c", LEAVING, kind, str(tmp_path)]
    told = subprocess.run(command, env=environment, check=True, capture_output=True, text=True, timeout=50)
    assert told.stdout == "{'a': {'log': ['a']}}\n"


# ------------------------------------------------------------------------------------------------- leases that are not given back


@pytest.mark.parametrize("stored", [False, True])
def test_P9_a_run_that_could_not_give_its_lease_back_is_not_waited_for_by_its_saver(saver: Saver, way: Way, stored: bool):
    # The database is down from the second commit on until after the run: it cannot even say that it ends.
    down: list[bool] = []

    class Down(FailingRecords):
        async def release(self, *given: Any) -> None:
            if down:
                raise DatabaseDown
            await super().release(*given)

    made: list[Down] = []

    def wrap(records: Any) -> Down:
        made.append(Down(records, fail_on=lambda commit: bool(down), stored=stored))
        return made[-1]

    failing = with_records(saver, wrap)
    ledger = Ledger(way)
    graph = chain(("a", ledger.node("a", lambda: down.append(True))), ("b", ledger.node("b"))).compile(checkpointer=failing)
    with pytest.raises(SaveFailed):
        way.invoke(graph, {"log": []}, on())
    down.clear()
    assert rows_of(saver)["thread"][0] == "busy"
    again = chain(("a", ledger.node("a")), ("b", ledger.node("b"))).compile(checkpointer=failing)
    assert way.invoke(again, None, on()) == {"log": ["a", "b"]}
    assert ledger.ran == (["a", "b"] if stored else ["a", "a", "b"])
    assert rows_of(saver)["thread"][0] == "idle"


def test_P9_a_take_whose_answer_got_lost_is_given_back(saver: Saver, way: Way):
    ledger = Ledger(way)
    failing = with_records(saver, lambda records: FailingRecords(records, fail_on={1}, stored=True))
    nodes = ("a", ledger.node("a"))
    with pytest.raises(SaveFailed):
        way.invoke(chain(nodes).compile(checkpointer=failing), {"log": ["in"]}, on())
    assert ledger.ran == []
    # Another saver, which knows nothing of that run: the thread is free at once, and the input was stored.
    assert way.invoke(chain(nodes).compile(checkpointer=saver), None, on()) == {"log": ["in", "a"]}
