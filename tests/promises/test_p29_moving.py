"""P29: threads are copied, exported and imported whole, between any two backends, and run on."""

from __future__ import annotations

import asyncio
import gc
import io
import os
import shutil
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest

import perdure
from perdure.bridge import run_blocking
from perdure.checkpoint.saver import Saver
from perdure.checkpoint.sqlite import SqliteSaver
from perdure.checkpoint.transfer import flow
from perdure.checkpoint.transfer.flow import Source, contents_of
from perdure.checkpoint.transfer.port import movable
from perdure.errors import InvalidArgument, InvalidConfig, SaveFailed, ThreadBusy, ThreadExists, UnknownThread, WrongType
from perdure.graph import START, StateGraph
from perdure.graph.message import add_messages
from perdure.testing.saver_suite.rows import Writer
from perdure.testing.wrapping import WrappingRecords, with_records
from perdure.types import Command, interrupt
from tests.formats import sqlite_story as story
from tests.promises.ways import SAVERS, Way, on, open_saver

STORED = Path(__file__).parents[1] / "formats" / "sqlite" / "v1.db"


def do(way: Way, fn: Any, *args: Any) -> Any:
    """Call a method, or its async twin."""
    if not way.is_async:
        return fn(*args)
    owner = getattr(fn, "__self__", perdure)
    return asyncio.run(getattr(owner, f"a{fn.__name__}")(*args))


@pytest.fixture(params=SAVERS)
def source(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Saver]:
    """A saver with finished, paused, failed and forked threads, with subgraphs, Sends, joins and large values."""
    story.ran.clear()
    story.mended = False
    stored = SqliteSaver(shutil.copy(STORED, tmp_path / "stored.db"))
    if request.param == "sqlite":
        made: Saver = stored
    else:
        made = open_saver("memory", tmp_path)
        perdure.copy_all(stored, made)
        stored.close()
    yield made
    made.close()


@pytest.fixture(params=SAVERS)
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Saver]:
    made = open_saver(request.param, tmp_path)
    yield made
    made.close()


def contents(saver: Saver, thread: str) -> Any:
    return run_blocking(_contents(saver, thread))


async def _contents(saver: Saver, thread: str) -> Any:
    source = Source(movable(saver.blocking()), thread, saver.clock)
    await source.begin()
    return await contents_of(source)


def through_a_file(way: Way, source: Saver, target: Saver, folder: Path) -> None:
    for thread in story.THREADS:
        out = do(way, source.export_thread, thread, folder / thread)
        assert do(way, target.import_thread, folder / thread) == out
    assert sorted(path.name for path in folder.iterdir()) == sorted(story.THREADS)


def directly(way: Way, source: Saver, target: Saver, folder: Path) -> None:
    report = do(way, perdure.copy_all, source, target)
    assert (report.copied, report.unchanged, report.refused) == (len(story.THREADS), 0, {})


@pytest.mark.parametrize("budget", [300, 1 << 20], ids=["in many stretches", "in one"])
@pytest.mark.parametrize("moved", [through_a_file, directly])
def test_P29_every_thread_is_whole_in_another_database_and_runs_on(
    source: Saver,
    target: Saver,
    way: Way,
    moved: Callable[..., None],
    budget: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(flow, "BUDGET", budget)
    (tmp_path / "files").mkdir()
    moved(way, source, target, tmp_path / "files")
    assert story.contents(target) == story.contents(source), "states, histories, questions, errors, ids"
    for thread in story.THREADS:
        assert contents(target, thread) == contents(source, thread)
    before = [contents(source, thread) for thread in story.THREADS]
    # Answer.
    graph = story.paused(target)
    asked = {pause.id: f"{pause.value}!" for pause in way.state(graph, on("paused")).interrupts}
    assert len(asked) == 2
    result = way.invoke(graph, Command(resume=asked), on("paused"))
    assert result["log"] == ["answer 1, question 2!", "inner", "inner question!", "good"]
    assert story.ran.count("good") == 0, "what was stored is not done again"
    # Resume.
    story.mended = True
    assert way.invoke(story.failed(target), None, on("failed"))["log"] == ["bad", "good", "end"]
    # Fork from an old checkpoint, by an id of the source.
    old = [each for each in way.history(story.fork(source), on("fork")) if each.next == ("c",)][-1]
    assert way.invoke(story.fork(target), None, old.config)["log"] == ["a", "b", "c"]
    assert way.invoke(story.finished(target), {"log": ["3"]}, on("finished"))["log"][-1] == "end"
    assert [contents(source, thread) for thread in story.THREADS] == before, "the source is as it was"


def test_P29_named_branches_and_incremental_values_come_along(source: Saver, target: Saver, way: Way):
    class State(TypedDict):
        messages: Annotated[list[Any], add_messages]
        seen: set[int]

    def graph_on(saver: Saver) -> Any:
        def reply(state: State) -> Any:
            return {"messages": [("ai", f"reply {len(state['messages'])}")], "seen": {len(state["messages"]), *state["seen"]}}

        return StateGraph(State).add_node("reply", way.node(reply)).add_edge(START, "reply").compile(checkpointer=saver)

    graph = graph_on(source)
    for turn in range(12):
        said = {"role": "user", "content": f"turn {turn} " + "x" * 300, "id": f"u{turn}"}
        way.invoke(graph, {"messages": [said], "seen": set()}, on("long"))
    side = graph.name_branch(on("long"), "side")
    way.invoke(graph, {"messages": [{"role": "user", "content": "aside", "id": "aside"}], "seen": set()}, side)
    do(way, perdure.copy_all, source, target)
    copy = graph_on(target)
    assert copy.branches(on("long")) == graph.branches(on("long"))
    assert way.history(copy, on("long")) == way.history(graph, on("long"))
    for place in (on("long"), on("long", branch="side")):
        for one in (graph, copy):
            way.invoke(one, {"messages": [("user", "on")], "seen": set()}, place)
        texts = [[message.content for message in way.state(one, place).values["messages"]] for one in (graph, copy)]
        assert texts[0] == texts[1]


def test_P29_a_copy_in_the_same_saver_has_the_same_ids_and_is_apart(source: Saver, way: Way):
    moved = do(way, source.copy_thread, "paused", "copy")
    assert moved == contents(source, "paused") == contents(source, "copy")
    graph = story.paused(source)
    pauses = [way.state(graph, on(thread)).interrupts for thread in ("paused", "copy")]
    assert pauses[0] == pauses[1]
    way.invoke(graph, Command(resume={pause.id: "yes" for pause in pauses[0]}), on("copy"))
    assert way.state(graph, on("copy")).next == ()
    assert way.state(graph, on("paused")).interrupts == pauses[0]
    source.delete_thread("paused")
    assert way.state(graph, on("copy")).values["log"][-1] == "good"


def test_P29_nothing_is_overwritten(source: Saver, way: Way, tmp_path: Path):
    before = contents(source, "finished")
    do(way, source.export_thread, "paused", tmp_path / "file")
    with pytest.raises(ThreadExists, match="another id"):
        do(way, source.import_thread, tmp_path / "file", "finished")
    with pytest.raises(ThreadExists):
        do(way, source.copy_thread, "paused", "finished")
    with pytest.raises(ThreadExists):
        do(way, source.copy_thread, "paused", "paused")
    assert contents(source, "finished") == before


def test_P29_what_is_not_there_cannot_be_copied(saver: Saver, way: Way, tmp_path: Path):
    for call in ((saver.copy_thread, "a", "b"), (saver.export_thread, "a", tmp_path / "file")):
        with pytest.raises(UnknownThread, match="no thread 'a'"):
            do(way, *call)
    assert list(tmp_path.glob("file*")) == []
    with pytest.raises(InvalidConfig):
        do(way, saver.copy_thread, "a", "")
    with pytest.raises(TypeError, match="open for bytes"):
        do(way, saver.export_thread, "a", io.StringIO())
    with pytest.raises(TypeError, match="open for bytes"):
        do(way, saver.import_thread, 5)
    with pytest.raises(TypeError, match="savers of this library"):
        do(way, perdure.copy_all, saver, object())
    with pytest.raises(FileNotFoundError):
        do(way, saver.import_thread, tmp_path / "none")


@pytest.mark.parametrize("path", ["", "a\0b", b"file"])
def test_P50_a_path_that_cannot_be_one_is_refused_before_anything_is_read(saver: Saver, way: Way, path: Any):
    with pytest.raises((InvalidArgument, WrongType)) as caught:
        do(way, saver.export_thread, "a", path)
    assert "path" in str(caught.value)
    with pytest.raises(type(caught.value)):
        do(way, saver.import_thread, path)


def test_P50_a_file_that_is_open_the_other_way_round_says_how_to_open_it(saver: Saver, way: Way, tmp_path: Path):
    with (tmp_path / "file").open("wb") as file, pytest.raises(WrongType, match=r"'rb'\), not BufferedWriter in mode 'wb'"):
        do(way, saver.import_thread, file)
    with (tmp_path / "file").open("rb") as file, pytest.raises(WrongType, match=r"'wb'\), not BufferedReader in mode 'rb'"):
        do(way, saver.export_thread, "a", file)


def test_P29_a_running_thread_is_refused_and_one_whose_process_died_is_not(
    source: Saver, target: Saver, way: Way, tmp_path: Path
):
    writer = Writer.over(source, "running")
    writer.commit("take", writer.row())
    for call in ((source.copy_thread, "running", "b"), (source.export_thread, "running", tmp_path / "file")):
        with pytest.raises(ThreadBusy, match="wait until the run has ended") as refused:
            do(way, *call)
        assert refused.value.holder["run_id"] == "run"
    report = do(way, perdure.copy_all, source, target)
    assert list(report.refused) == ["running"]
    assert not report.is_complete
    writer.commit("release", writer.row())
    dead = Writer.over(source, "dead")
    dead.holder.pid, dead.holder.started = 2**22 + 1, "1"
    dead.commit("take", dead.row())
    report = do(way, perdure.copy_all, source, target)
    assert (report.copied, report.unchanged, report.is_complete) == (2, len(story.THREADS), True)


class Meddling(WrappingRecords):
    """Somebody writes to the thread between two stretches."""

    meddle: Callable[[], None] = staticmethod(lambda: None)

    async def rows(self, thread: Any, after: Any, budget: int, *, contents: bool = True) -> Any:
        if after is not None:
            self.meddle()
        return await super().rows(thread, after, budget, contents=contents)


def test_P29_a_thread_that_is_written_to_meanwhile_is_not_half_copied(
    source: Saver, target: Saver, way: Way, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setattr(flow, "BUDGET", 300)
    monkeypatch.setattr(Meddling, "meddle", lambda self: story.fork(source).update_state(on("fork"), {"log": ["!"]}))
    watched = with_records(source, Meddling)
    for call in ((watched.copy_thread, "fork", "copy"), (watched.export_thread, "fork", tmp_path / "file")):
        with pytest.raises(ThreadBusy, match="written to while"):
            do(way, *call)
    assert list(tmp_path.glob("file*")) == []
    assert list(do(way, perdure.copy_all, watched, target).refused) == ["fork"]
    monkeypatch.undo()
    for saver in (source, target):
        assert story.fork(saver).get_state(on("copy")).metadata is None
    assert do(way, perdure.copy_all, source, target).copied == 1


class Forgetful(WrappingRecords):
    """A database that loses a row, and says nothing."""

    async def stage(self, arrival: Any, rows: Any) -> None:
        await super().stage(arrival, [*rows][:-1])


def test_P29_what_a_database_loses_is_noticed_before_the_thread_appears(source: Saver, target: Saver, way: Way):
    report = do(way, perdure.copy_all, source, with_records(target, Forgetful))
    assert sorted(report.refused) == sorted(story.THREADS)
    assert {type(error) for error in report.refused.values()} == {SaveFailed}
    assert do(way, perdure.copy_all, target, source).copied == 0
    assert do(way, perdure.copy_all, source, target).is_complete


def test_P29_copying_everything_again_copies_what_is_new_and_tells_what_differs(source: Saver, target: Saver, way: Way):
    assert do(way, perdure.copy_all, source, target).is_complete
    target.delete_thread("failed")
    story.fork(target).update_state(on("fork"), {"log": ["here"]})
    report = do(way, perdure.copy_all, source, target)
    assert (report.copied, report.unchanged, list(report.refused)) == (1, 2, ["fork"])
    assert isinstance(report.refused["fork"], ThreadExists)
    assert story.fork(target).get_state(on("fork")).values["log"][-1] == "here"


def test_P29_several_threads_in_one_open_file(source: Saver, target: Saver, way: Way):
    file = io.BytesIO()
    for thread in story.THREADS:
        do(way, source.export_thread, thread, file)
    file.seek(0)
    for _ in story.THREADS:
        do(way, target.import_thread, file)
    assert story.contents(target) == story.contents(source)


def test_P29_a_question_that_was_moved_is_in_the_inbox_of_both(source: Saver, target: Saver, way: Way):
    perdure.copy_all(source, target)
    pages = [do(way, saver.list_interrupts).items for saver in (source, target)]
    assert pages[0] == pages[1] != ()


def test_P29_memory_does_not_grow_with_the_thread(tmp_path: Path):
    class State(TypedDict):
        text: str

    with SqliteSaver(tmp_path / "a.db", synchronous="normal") as saver, SqliteSaver(tmp_path / "b.db") as other:

        def node(state: State) -> Any:
            return {"text": os.urandom(500_000).hex()}

        graph = StateGraph(State).add_node("node", node).add_edge(START, "node").compile(checkpointer=saver)
        for _ in range(30):
            graph.invoke({"text": ""}, on("big"))
        gc.collect()
        tracemalloc.start()
        saver.export_thread("big", tmp_path / "file")
        other.import_thread(tmp_path / "file")
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert (tmp_path / "file").stat().st_size > 15_000_000
        assert peak < 9_000_000


def test_P29_an_older_export_is_replaced_at_the_end(source: Saver, way: Way, tmp_path: Path):
    path = tmp_path / "file"
    for thread in ("paused", "finished"):
        do(way, source.export_thread, thread, path)
    (tmp_path / "file.1-dead.partial").write_bytes(b"half")
    do(way, source.export_thread, "fork", path)
    assert [each.name for each in tmp_path.glob("file*")] == ["file"]
    source.delete_thread("fork")
    assert do(way, source.import_thread, path).checkpoints > 3
    assert story.ran == []


def test_P29_a_node_may_ask_while_another_thread_is_copied(saver: Saver, way: Way):
    def ask(state: Any) -> Any:
        return {"log": [interrupt("?")]}

    graph = StateGraph(story.State).add_node("ask", way.node(ask)).add_edge(START, "ask").compile(checkpointer=saver)
    way.invoke(graph, {"log": []}, on("a"))

    def copies(state: Any) -> Any:
        saver.copy_thread("a", "b")
        return {"log": ["copied"]}

    other = StateGraph(story.State).add_node("copies", copies).add_edge(START, "copies").compile(checkpointer=saver)
    assert way.invoke(other, {"log": []}, on("c"))["log"] == ["copied"]
    assert way.invoke(graph, Command(resume="yes"), on("b"))["log"] == ["yes"]
