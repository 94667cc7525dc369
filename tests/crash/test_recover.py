"""P11: a process dies with SIGKILL in the middle of three runs; `resume_all` in a new one finishes them, and nothing is done twice."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from perdure.checkpoint.leases import identity
from perdure.checkpoint.sqlite import SqliteSaver
from perdure.failpoints import ENVIRONMENT_VARIABLE

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.skipif(not identity.holder("", 0).started, reason="nobody is proved dead here")

APP = """
import asyncio, operator, os, signal, sys, threading
from pathlib import Path
from typing import Annotated, TypedDict
from perdure import START, SqliteSaver, StateGraph

HERE = Path(__file__).parent
NAMES = ("x", "y", "z")
in_the_middle = threading.Barrier(len(NAMES))
dies = False

class State(TypedDict):
    name: str
    log: Annotated[list[str], operator.add]

def node(label):
    def run(state):
        if dies and label == "b":
            in_the_middle.wait(10)
            os.kill(os.getpid(), signal.SIGKILL)
        handle = os.open(HERE / "ledger", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(handle, f"{state['name']}:{label}\\n".encode())
        os.close(handle)
        return {"log": [label]}

    async def arun(state):
        await asyncio.sleep(0)
        return run(state)

    return arun if os.environ["COLOUR"] == "async" else run

def build():
    drawing = StateGraph(State)
    before = START
    for label in "abc":
        drawing.add_node(label, node(label)).add_edge(before, label)
        before = label
    return drawing.compile(checkpointer=SqliteSaver(HERE / "app.db"), name="three")

graph = build()

def begin(name):
    config = {"configurable": {"thread_id": name}}
    if os.environ["COLOUR"] == "async":
        asyncio.run(graph.ainvoke({"name": name, "log": []}, config))
    else:
        graph.invoke({"name": name, "log": []}, config)

if __name__ == "__main__":
    dies = sys.argv[1] == "in the middle"
    if dies:
        threads = [threading.Thread(target=begin, args=(name,)) for name in NAMES]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
    else:
        for name in NAMES:
            begin(name)
"""

WHOLE = Counter(f"{name}:{label}" for name in "xyz" for label in "abc")


class Folder:
    """Where the program, its database and its ledger are."""

    def __init__(self, path: Path, colour: str) -> None:
        self.path = path
        self.colour = colour
        (path / "app.py").write_text(APP)

    def start(self, *arguments: str, failpoint: str = "") -> subprocess.Popen[str]:
        environment = os.environ | {
            "PYTHONPATH": str(ROOT / "src"),
            "COLOUR": self.colour,
            ENVIRONMENT_VARIABLE: failpoint,
        }
        command = [sys.executable, *arguments]
        return subprocess.Popen(command, env=environment, cwd=self.path, stdout=subprocess.PIPE, text=True)

    def run(self, *arguments: str, failpoint: str = "") -> tuple[int, list[str]]:
        process = self.start(*arguments, failpoint=failpoint)
        output, _ = process.communicate(timeout=50)
        return process.returncode, output.splitlines()

    def recover(self, failpoint: str = "") -> tuple[int, list[str]]:
        return self.run("-m", "perdure.cli", "recover", "app:graph", failpoint=failpoint)

    @property
    def ledger(self) -> Counter[str]:
        return Counter((self.path / "ledger").read_text().split())

    def check(self) -> None:
        """All three have come to the end of a run that never died."""
        with SqliteSaver(self.path / "app.db") as saver:
            assert [(one.thread_id, one.status) for one in saver.list_threads()] == [(name, "idle") for name in "xyz"]
            for name in "xyz":
                found: Any = saver.get_tuple({"configurable": {"thread_id": name}})
                assert found.checkpoint["channel_values"] == {"name": name, "log": ["a", "b", "c"]}
                runs = list(saver.list_runs(name))
                assert runs[0].status == "done"
                assert {run.status for run in runs[1:]} <= {"crashed"}


@pytest.fixture(params=["sync", "async"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Folder:
    return Folder(tmp_path, request.param)


def test_P11_three_runs_of_a_killed_process_are_finished_by_another(folder: Folder):
    code, _ = folder.run("app.py", "in the middle")
    assert code == -signal.SIGKILL
    assert folder.ledger == Counter(f"{name}:a" for name in "xyz")
    with SqliteSaver(folder.path / "app.db") as saver:
        assert [(one.thread_id, one.crashed) for one in saver.list_threads(status="busy")] == [(name, True) for name in "xyz"]
        assert [(run.status, run.steps, run.entries) for run in saver.list_runs("x")] == [("crashed", 1, {"a": 1})]
    code, lines = folder.recover()
    assert (code, lines) == (0, [f"{name}  resumed  now idle" for name in "xyz"])
    assert folder.ledger == WHOLE, "nothing twice"
    folder.check()
    assert folder.recover()[1] == ["no run of graph 'three' is left unfinished by a process that died"]
    assert folder.ledger == WHOLE


def test_P11_two_processes_that_recover_at_once_share_the_work(folder: Folder):
    folder.run("app.py", "in the middle")
    both = [folder.start("-m", "perdure.cli", "recover", "app:graph") for _ in range(2)]
    lines = [line.split("  ") for process in both for line in process.communicate(timeout=50)[0].splitlines()]
    assert [process.returncode for process in both] == [0, 0]
    assert sorted(line[0] for line in lines if line[1:2] == ["resumed"]) == list("xyz")
    assert {line[1] for line in lines if len(line) > 1} <= {"resumed", "elsewhere"}
    assert folder.ledger == WHOLE
    folder.check()


@pytest.mark.parametrize("failpoint", ["sqlite.commit.before", "sqlite.commit.after"])
def test_P11_a_recovery_that_is_killed_itself_is_recovered(failpoint: str, tmp_path: Path):
    folder = Folder(tmp_path, "sync")
    code, _ = folder.run("app.py", "one by one", failpoint=f"{failpoint}:2")
    assert code == -signal.SIGKILL
    deaths = 1
    for at in (1, 2):
        code, _ = folder.recover(f"{failpoint}:{at}")
        deaths += code != 0
    assert folder.recover()[0] == 0
    ran = folder.ledger
    assert set(ran) == {"x:a", "x:b", "x:c"}
    assert max(ran.values()) <= deaths, "at each death at most what ran at that instant was lost"
    with SqliteSaver(folder.path / "app.db") as saver:
        assert saver.list_runs("x")[0].status == "done"
        found: Any = saver.get_tuple({"configurable": {"thread_id": "x"}})
        assert found.checkpoint["channel_values"]["log"] == ["a", "b", "c"]
