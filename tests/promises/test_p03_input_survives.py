"""P3: an accepted input survives; going on with what does not exist is an error that says so, reading it is not."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from perdure.checkpoint.saver import Saver
from perdure.errors import (
    EmptyInputError,
    MissingThreadId,
    NotStorable,
    PerdureError,
    UnknownCheckpoint,
    UnknownKey,
    UnknownThread,
)
from perdure.graph import START, StateGraph
from perdure.types import Command
from tests.promises.ways import Ledger, Log, Way, chain, on, open_saver, rows_of

ROOT = Path(__file__).parents[2]
NOWHERE = "1f000000-0000-6000-8000-000000000000"


def test_P3_the_input_is_stored_before_the_first_node_runs(saver: Saver, way: Way):
    seen: list[Any] = []

    def look() -> None:
        seen.append(rows_of(saver))

    graph = chain(("a", Ledger(way).node("a", look))).compile(checkpointer=saver)
    way.invoke(graph, {"log": ["in"]}, on())
    rows = seen[0]["checkpoints"]
    assert [(row["source"], row["step"]) for row in rows.values()] == [("input", -1), ("loop", 0)]
    assert next(iter(rows.values()))["changes"]["__start__"] == {"log": ["in"]}


@pytest.mark.parametrize("colour", ["sync", "async"])
def test_P3_a_new_process_goes_on_with_an_input_that_was_accepted(tmp_path: Path, colour: str):
    script = """
import asyncio, os, signal, sys
from pathlib import Path
from tests.promises.ways import Way, chain, on, open_saver
graph = chain(("a", lambda state: os.kill(os.getpid(), signal.SIGKILL))).compile(checkpointer=open_saver("sqlite", Path(sys.argv[1])))
Way(sys.argv[2]).invoke(graph, {"log": ["in"]}, on())
"""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    died = subprocess.run([sys.executable, "-c", script, str(tmp_path), colour], env=environment, check=False)
    assert died.returncode < 0
    way = Way(colour)
    with open_saver("sqlite", tmp_path) as saver:
        graph = chain(("a", way.node(lambda state: {"log": ["a"]}))).compile(checkpointer=saver)
        snapshot = way.state(graph, on())
        assert (snapshot.values, snapshot.next) == ({"log": ["in"]}, ("a",))
        assert way.invoke(graph, None, on()) == {"log": ["in", "a"]}


def test_P3_an_input_whose_first_choice_failed_is_kept_and_taken_in_again(saver: Saver, way: Way, ledger: Ledger):
    broken = [True]

    def choose(state: Log) -> str:
        if broken[0]:
            raise ConnectionError("the router is down")
        return "a"

    builder: StateGraph[Any, Any, Any, Any] = StateGraph(Log)
    builder.add_node("a", ledger.node("a"))
    builder.add_conditional_edges(START, choose, ["a"])
    graph = builder.compile(checkpointer=saver)
    with pytest.raises(ConnectionError):
        way.invoke(graph, {"log": ["in"]}, on())
    assert way.state(graph, on()).next == (START,)
    broken[0] = False
    assert way.invoke(graph, None, on()) == {"log": ["in", "a"]}
    assert ledger.ran == ["a"]


def test_P3_an_input_that_is_refused_leaves_nothing(saver: Saver, way: Way, ledger: Ledger):
    graph = chain(("a", ledger.node("a"))).compile(checkpointer=saver)
    refused: list[tuple[Any, type[Exception]]] = [({"lag": []}, UnknownKey), ({"log": [object()]}, NotStorable)]
    for given, error in refused:
        with pytest.raises(error):
            way.invoke(graph, given, on())
        assert rows_of(saver)["checkpoints"] == {}
        assert way.state(graph, on()).next == ()
    assert ledger.ran == []


@pytest.mark.parametrize("given", [None, Command(resume="x"), Command(resume={"0" * 32: "x"})], ids=["none", "bare", "by id"])
def test_P3_resuming_a_thread_that_does_not_exist_says_so(saver: Saver, way: Way, given: Any):
    graph = chain(("a", Ledger(way).node("a"))).compile(checkpointer=saver)
    with pytest.raises(UnknownThread, match="nobody") as caught:
        way.invoke(graph, given, on("nobody"))
    assert isinstance(caught.value, EmptyInputError)
    assert (caught.value.thread, caught.value.code) == ("nobody", "UNKNOWN_THREAD")
    assert way.state(graph, on("nobody")).values == {}, "resuming it did not make it"


def test_P3_the_state_of_a_thread_that_does_not_exist_is_empty(saver: Saver, way: Way):
    graph = chain(("a", Ledger(way).node("a"))).compile(checkpointer=saver)
    assert tuple(way.state(graph, on())) == ({}, (), on(), None, None, None, (), ())
    assert way.history(graph, on()) == []
    root: StateGraph[Any, Any, Any, Any] = StateGraph(int)
    root.add_node("a", lambda state: 1)
    root.add_edge(START, "a")
    assert way.state(root.compile(checkpointer=saver), on()).values is None


def test_P3_an_explicit_checkpoint_that_does_not_exist_is_an_error(saver: Saver, way: Way):
    graph = chain(("a", Ledger(way).node("a"))).compile(checkpointer=saver)
    addressed = on(checkpoint_id=NOWHERE)
    for exists in (False, True):
        if exists:
            way.invoke(graph, {"log": []}, on())
        calls: list[Callable[[], Any]] = [
            lambda: way.invoke(graph, None, addressed),
            lambda: way.invoke(graph, {"log": []}, addressed),
            lambda: way.invoke(graph, Command(resume=1), addressed),
            lambda: way.state(graph, addressed),
            lambda: way.edit(graph, addressed, {"log": []}),
            lambda: way.history(graph, on(), before=addressed),
        ]
        for call in calls:
            with pytest.raises(UnknownCheckpoint, match=NOWHERE) as caught:
                call()
            assert caught.value.checkpoint == NOWHERE
    assert len(way.history(graph, on())) == 3


def test_P3_a_checkpoint_of_another_thread_is_not_this_threads(saver: Saver, way: Way):
    graph = chain(("a", Ledger(way).node("a"))).compile(checkpointer=saver)
    way.invoke(graph, {"log": []}, on("one"))
    way.invoke(graph, {"log": []}, on("two"))
    other = way.state(graph, on("two")).config["configurable"]["checkpoint_id"]
    with pytest.raises(UnknownCheckpoint):
        way.state(graph, on("one", checkpoint_id=other))


@pytest.mark.parametrize("config", [None, {}, {"configurable": {}}, {"configurable": {"user": "u"}}], ids=str)
def test_P3_a_missing_thread_id_is_a_taught_error(saver: Saver, way: Way, config: Any):
    graph = chain(("a", Ledger(way).node("a"))).compile(checkpointer=saver)
    calls: list[Callable[[], Any]] = [
        lambda: way.invoke(graph, {"log": []}, config),
        lambda: way.state(graph, config),
        lambda: way.edit(graph, config, {"log": []}),
        lambda: way.history(graph, config),
    ]
    for call in calls:
        with pytest.raises(MissingThreadId, match=r"'configurable': \{'thread_id'") as caught:
            call()
        assert isinstance(caught.value, ValueError)
        assert isinstance(caught.value, PerdureError)


def test_P3_a_thread_id_is_text_an_int_or_a_uuid(saver: Saver, way: Way):
    graph = chain(("a", Ledger(way).node("a"))).compile(checkpointer=saver)
    some = uuid.UUID(int=7)
    for thread in (7, some):
        way.invoke(graph, {"log": []}, {"configurable": {"thread_id": thread}})
        assert way.state(graph, on(str(thread))).values == {"log": ["a"]}
    for wrong in (b"t", 1.5, True, ("t",)):
        with pytest.raises(TypeError, match="thread_id"):
            way.invoke(graph, {"log": []}, {"configurable": {"thread_id": wrong}})
