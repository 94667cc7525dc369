"""P9 across a fork: a process that was forked inside a node takes no hold on the thread along."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from perdure import START, InMemorySaver, SqliteSaver, StateGraph
from perdure.errors import LeaseLost
from tests.engine.colours import Log, thread

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork"),
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),
]


@pytest.mark.parametrize("backend", ["memory", "file"])
@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_P9_the_parents_run_goes_on_and_the_childs_is_told(backend: str, durability: Any, tmp_path: Path) -> None:
    saver: Any = InMemorySaver() if backend == "memory" else SqliteSaver(tmp_path / "threads.db")
    parent = os.getpid()

    def forks(_: Log) -> dict[str, Any]:
        child = os.fork()
        if child:
            os.waitpid(child, 0)
        return {"log": ["parent" if child else "child"]}

    graph = StateGraph(Log).add_node("forks", forks).add_edge(START, "forks").compile(saver)
    told = ""
    try:
        graph.invoke({"log": []}, thread(), durability=durability)
    except LeaseLost as error:
        told = str(error)
    finally:
        if os.getpid() != parent:
            (tmp_path / "told").write_text(told)
            os._exit(0)
    assert told == ""
    assert graph.get_state(thread()).values == {"log": ["parent"]}
    graph.update_state(thread(), {"log": ["free"]})
    assert "was forked" in (tmp_path / "told").read_text()
    saver.close()
