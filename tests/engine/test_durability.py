"""Durability modes: what is stored, and when."""

from __future__ import annotations

from typing import Any

import pytest

from perdure import START, StateGraph
from perdure.backends.memory.records import MemoryRecords
from perdure.checkpoint.memory import InMemorySaver
from perdure.checkpoint.saver import Saver
from perdure.errors import InvalidConfig, SaveFailed
from perdure.types import Command, interrupt
from tests.engine.colours import Colour, Log, thread


class Recording(MemoryRecords):
    """Notes each commit, and fails from the given one on."""

    def __init__(self) -> None:
        super().__init__()
        self.commits: list[Any] = []
        self.fail_from: int | None = None

    async def commit(self, commit: Any) -> None:
        if self.fail_from is not None and len(self.commits) >= self.fail_from:
            raise OSError("disk full")
        await super().commit(commit)
        self.commits.append((len(commit.checkpoints), len(commit.writes), commit.lease))


class RecordingSaver(InMemorySaver):
    """A memory saver over `Recording`."""

    def __init__(self) -> None:
        super().__init__()
        self._records = self.recording = Recording()


def chain(colour: Colour, length: int = 3, seen: list[str] | None = None) -> StateGraph[Any, Any, Any, Any]:
    graph = StateGraph(Log)
    previous = START
    for at in range(length):
        name = "abcdefgh"[at]

        def node(_: Log, name: str = name) -> dict[str, Any]:
            if seen is not None:
                seen.append(name)
            return {"log": [name]}

        graph.add_node(name, colour.node(lambda state, node=node: node(state))).add_edge(previous, name)
        previous = name
    return graph


MODES = ["sync", "async", "exit"]


@pytest.mark.parametrize("durability", MODES)
def test_every_mode_gives_the_same_result_and_tip(colour: Colour, kept: Saver, durability: Any) -> None:
    graph = chain(colour).compile(kept)
    assert colour.invoke(graph, {"log": []}, thread(), durability=durability) == {"log": ["a", "b", "c"]}
    state = colour.state(graph, thread())
    assert (state.values, state.next, state.metadata["step"]) == ({"log": ["a", "b", "c"]}, (), 3)
    assert colour.invoke(graph, {"log": ["in"]}, thread(), durability=durability)["log"] == ["a", "b", "c", "in", "a", "b", "c"]


def test_sync_stores_each_super_step_by_one_commit(colour: Colour) -> None:
    saver = RecordingSaver()
    colour.invoke(chain(colour).compile(saver), {"log": []}, thread())
    assert [checkpoints for checkpoints, _, _ in saver.recording.commits] == [2, 1, 1, 1], "P2: input and step 0 share one"
    assert [lease for *_, lease in saver.recording.commits] == ["take", "keep", "keep", "release"]


def test_exit_stores_one_checkpoint_a_run(colour: Colour) -> None:
    saver = RecordingSaver()
    graph = chain(colour).compile(saver)
    colour.invoke(graph, {"log": []}, thread(), durability="exit")
    colour.invoke(graph, {"log": []}, thread(), durability="exit")
    assert [snapshot.metadata["step"] for snapshot in colour.history(graph, thread())] == [8, 3]
    assert sum(checkpoints for checkpoints, _, _ in saver.recording.commits) == 2
    newest, oldest = colour.history(graph, thread())
    assert newest.parent_config == oldest.config
    assert oldest.parent_config is None


def test_P6_exit_keeps_a_pause_and_what_its_siblings_did(colour: Colour, kept: Saver) -> None:
    runs: list[str] = []

    def asks(_: Log) -> dict[str, Any]:
        return {"log": [interrupt("q")]}

    def works(_: Log) -> dict[str, Any]:
        runs.append("works")
        return {"log": ["works"]}

    graph = (
        StateGraph(Log)
        .add_node("first", colour.says("first"))
        .add_node("asks", colour.node(asks))
        .add_node("works", colour.node(works))
    )
    compiled = graph.add_edge(START, "first").add_edge("first", "asks").add_edge("first", "works").compile(kept)
    colour.invoke(compiled, {"log": []}, thread(), durability="exit")
    assert [pause.value for pause in colour.state(compiled, thread()).interrupts] == ["q"]
    assert len(colour.history(compiled, thread())) == 1
    assert colour.invoke(compiled, Command(resume="r"), thread(), durability="exit")["log"] == ["first", "r", "works"]
    assert runs == ["works"]


def test_P6_exit_keeps_an_error_and_can_be_resumed(colour: Colour, kept: Saver) -> None:
    fails = [True]
    runs: list[str] = []

    def shaky(_: Log) -> dict[str, Any]:
        if fails:
            fails.pop()
            raise ConnectionError("down")
        return {"log": ["shaky"]}

    graph = chain(colour, 2, runs).add_node("shaky", colour.node(shaky)).add_edge("b", "shaky").compile(kept)
    with pytest.raises(ConnectionError):
        colour.invoke(graph, {"log": []}, thread(), durability="exit")
    assert colour.state(graph, thread()).next == ("shaky",)
    assert colour.invoke(graph, None, thread(), durability="exit")["log"] == ["a", "b", "shaky"]
    assert runs == ["a", "b"]


def test_P4_sync_starts_no_node_after_a_failed_save(colour: Colour) -> None:
    saver = RecordingSaver()
    seen: list[str] = []
    graph = chain(colour, 4, seen).compile(saver)
    saver.recording.fail_from = 2
    with pytest.raises(SaveFailed, match="disk full") as caught:
        colour.invoke(graph, {"log": []}, thread())
    assert isinstance(caught.value.__cause__, OSError)
    assert caught.value.thread == "t"
    assert seen == ["a", "b"], "what b returned could not be stored, so c did not start"
    saver.recording.fail_from = None
    assert colour.state(graph, thread()).values == {"log": ["a"]}


def test_P4_async_runs_at_most_one_step_ahead_and_tells_none_of_it(colour: Colour) -> None:
    saver = RecordingSaver()
    seen: list[str] = []
    graph = chain(colour, 5, seen).compile(saver)
    saver.recording.fail_from = 2
    told: list[Any] = []
    with pytest.raises(SaveFailed):
        told += colour.stream(graph, {"log": []}, thread(), durability="async")
    assert seen == ["a", "b", "c"], "c ran while b's commit was in flight; d did not start"
    saver.recording.fail_from = None
    assert colour.state(graph, thread()).values == {"log": ["a"]}


def test_P4_exit_raises_at_the_end(colour: Colour) -> None:
    saver = RecordingSaver()
    graph = chain(colour).compile(saver)
    saver.recording.fail_from = 1
    with pytest.raises(SaveFailed):
        colour.invoke(graph, {"log": []}, thread(), durability="exit")


def test_P4_P3_where_the_input_cannot_be_stored_no_node_runs(colour: Colour) -> None:
    saver = RecordingSaver()
    seen: list[str] = []
    saver.recording.fail_from = 0
    for durability in ("sync", "async", "exit"):
        with pytest.raises(SaveFailed):
            colour.invoke(chain(colour, 3, seen).compile(saver), {"log": []}, thread(), durability=durability)
    assert seen == []


def test_P2_results_of_a_step_are_stored_as_they_come(colour: Colour, kept: Saver) -> None:
    runs: list[str] = []

    def ok(_: Log) -> dict[str, Any]:
        runs.append("ok")
        return {"log": ["ok"]}

    def bad(_: Log) -> dict[str, Any]:
        runs.append("bad")
        if runs.count("bad") == 1:
            raise ConnectionError("down")
        return {"log": ["bad"]}

    graph = (
        StateGraph(Log).add_node("ok", colour.node(ok)).add_node("bad", colour.node(bad)).add_node("end", colour.says("end"))
    )
    compiled = graph.add_edge(START, "ok").add_edge(START, "bad").add_edge(["ok", "bad"], "end").compile(kept)
    with pytest.raises(ConnectionError):
        colour.invoke(compiled, {"log": []}, {**thread(), "max_concurrency": 2})
    out = colour.invoke(compiled, None, thread())
    assert out == {"log": ["bad", "ok", "end"]}
    assert runs.count("bad") == 2


def test_P50_an_unknown_durability_is_an_error(colour: Colour, kept: Saver) -> None:
    with pytest.raises(InvalidConfig, match="durability must be one of"):
        colour.invoke(chain(colour).compile(kept), {"log": []}, thread(), durability="later")


def test_P50_an_unknown_on_busy_is_an_error(colour: Colour, kept: Saver) -> None:
    with pytest.raises(InvalidConfig, match="on_busy must be"):
        colour.invoke(chain(colour).compile(kept), {"log": []}, thread(), on_busy="queue")
