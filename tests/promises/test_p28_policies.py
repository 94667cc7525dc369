"""P28: retention by age and by policy, whole threads, refusals, space, and others at work meanwhile."""

from __future__ import annotations

import sqlite3
import threading
from datetime import timedelta
from pathlib import Path
from typing import Any, TypedDict

import pytest

from perdure.bridge import run_blocking
from perdure.checkpoint.memory import InMemorySaver
from perdure.checkpoint.retention import Pruned, Retention
from perdure.checkpoint.saver import Saver
from perdure.checkpoint.sqlite import SqliteSaver
from perdure.checkpoint.survey import Removal
from perdure.checkpoint.upkeep.pinning import single_write
from perdure.clock import SYSTEM_CLOCK
from perdure.errors import InvalidConfig, ThreadDeleted, UnknownThread
from perdure.graph import START, StateGraph
from perdure.testing.clock import ManualClock
from perdure.testing.wrapping import WrappingRecords, with_records
from perdure.types import interrupt
from tests.promises.retaining import DAY, chat, prune, sound, sweep, turns, working
from tests.promises.travelling import side_by_side
from tests.promises.ways import FrozenClock, Ledger, Log, Way, chain, on, open_saver, rows_of

# -- age, policies, whole threads ---------------------------------------------------------------------------------------------------


@pytest.fixture
def clock() -> FrozenClock:
    return FrozenClock(step_ns=1000)


@pytest.fixture(params=["memory", "sqlite"])
def dated(request: pytest.FixtureRequest, tmp_path: Path, clock: FrozenClock) -> Any:
    """Makes savers whose time is told by `clock`."""
    made: list[Saver] = []

    def make(**options: Any) -> Saver:
        made.append(open_saver(request.param, tmp_path, clock=clock, **options))
        return made[-1]

    yield make
    for saver in made:
        saver.close()


def test_P28_only_what_is_old_goes_and_only_what_is_not_among_the_last(way: Way, dated: Any, clock: FrozenClock):
    saver = dated()
    graph = chat(way, saver)
    for _ in range(4):
        turns(way, graph, 1)
        clock.ns += DAY * 10**9
    assert prune(way, saver, older_than=timedelta(days=9)).checkpoints == 0
    assert prune(way, saver, older_than=2.5 * DAY, keep_last=9).checkpoints == 3, (
        "of six that are old, three are among the last nine"
    )
    assert prune(way, saver, older_than=timedelta(days=2.5)).checkpoints == 3
    assert prune(way, saver, older_than=1).checkpoints == 5
    assert len(way.history(graph, on())) == 1, "the tip stays however old it is"


def test_P28_a_sweep_applies_the_policy_of_the_saver(way: Way, dated: Any, clock: FrozenClock):
    saver = dated(retention=[Retention(keep_last=2), Retention(keep_last=1, namespaces=["sub"])])
    graph = chat(way, saver)
    for thread in ("a", "b", "c/1"):
        turns(way, graph, 3, thread)
    counted = sweep(way, saver, dry_run=True)
    assert counted.threads == 3
    assert sweep(way, saver, thread_prefix="c/").checkpoints == 7
    assert len(way.history(graph, on("a"))) == 9
    assert prune(way, saver, thread="a").checkpoints == 7, "what it is not told otherwise is the policy's"
    swept = sweep(way, saver)
    assert (swept.threads, swept.checkpoints) == (3, 7)
    assert sweep(way, saver) == Pruned(3)
    for thread in ("a", "b", "c/1"):
        assert len(way.history(graph, on(thread))) == 2
        sound(way, saver, thread)


def test_P28_threads_whose_time_has_come_are_deleted(way: Way, dated: Any, clock: FrozenClock, ledger: Ledger):
    saver = dated(retention=Retention(thread_ttl=timedelta(days=30)))
    graph = chat(way, saver)
    turns(way, graph, 2, "old")
    turns(way, graph, 2, "named")
    way._do(saver, "pin", on("named"), "keep")
    asking = working(way, saver, ledger, asks=lambda: True)
    way.invoke(asking, {"log": []}, on("waits"))
    failing = StateGraph(Log).add_node("ask", lambda state: {"log": [interrupt("well?")]}).add_node("fail", lambda state: 1 / 0)
    failing.add_edge(START, "ask").add_edge(START, "fail")
    with pytest.raises(ZeroDivisionError):
        way.invoke(failing.compile(checkpointer=saver), {"log": []}, on("failed"))
    clock.ns += 31 * DAY * 10**9
    turns(way, graph, 2, "young")
    before = {thread: rows_of(saver, thread) for thread in ("old", "named", "waits", "failed", "young")}
    counted = sweep(way, saver, dry_run=True)
    assert {thread: rows_of(saver, thread) for thread in before} == before
    swept = sweep(way, saver)
    assert swept == counted
    assert swept.deleted == ("old",)
    assert swept.checkpoints == 6
    assert way.state(graph, on("old")).values == {}
    for thread in ("named", "waits", "failed", "young"):
        assert rows_of(saver, thread) == before[thread]
    turns(way, graph, 1, "old")
    assert len(way.history(graph, on("old"))) == 3, "the id may be used anew"


def test_P28_prune_never_deletes_a_thread(way: Way, dated: Any, clock: FrozenClock):
    saver = dated(retention=Retention(keep_last=1, thread_ttl=60))
    graph = chat(way, saver)
    turns(way, graph, 2)
    clock.ns += DAY * 10**9
    assert prune(way, saver).deleted == ()
    assert len(way.state(graph, on()).values["log"]) == 4


# -- bad input ----------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({}, "keep_last=20"),
        ({"keep_last": 0}, "from 1 on"),
        ({"keep_last": -1}, "from 1 on"),
        ({"keep_last": True}, "from 1 on"),
        ({"keep_last": 2.0}, "from 1 on"),
        ({"older_than": 0}, "positive duration"),
        ({"older_than": timedelta(days=-1)}, "positive duration"),
        ({"older_than": "1 day"}, "positive duration"),
        ({"older_than": float("nan")}, "positive duration"),
        ({"keep_last": 1, "namespaces": "sub"}, "list of names"),
        ({"namespaces": ["sub"]}, "keep_last=20"),
        ({"keep_last": 1, "batch": 0}, "batch"),
        ({"keep_last": 1, "thread": "t", "threads": ["t"]}, "not both"),
    ],
)
def test_P28_bad_numbers_are_refused_before_anything_is_taken_away(way: Way, saver: Saver, options: Any, says: str):
    graph = chat(way, saver)
    turns(way, graph, 1)
    before = rows_of(saver)
    with pytest.raises(InvalidConfig, match=says):
        prune(way, saver, **options)
    assert rows_of(saver) == before


def test_P28_bad_policies_are_refused(way: Way, saver: Saver):
    with pytest.raises(InvalidConfig, match="no retention policy"):
        sweep(way, saver)
    for bad in ("keep everything", [1], 5):
        with pytest.raises(InvalidConfig, match="Retention"):
            type(saver).__init__(
                saver, **{"retention": bad} if not isinstance(saver, SqliteSaver) else {"conn": "x", "retention": bad}
            )
    with pytest.raises(InvalidConfig, match="whole threads"):
        Retention(thread_ttl=1, namespaces=["sub"])
    with pytest.raises(TypeError, match="list of thread ids"):
        prune(way, saver, keep_last=1, threads="t")
    assert prune(way, saver, keep_last=1, threads=[]) == Pruned()


def test_P50_a_thread_that_there_is_not_is_named_before_anything_is_taken_away(way: Way, saver: Saver):
    graph = chat(way, saver)
    turns(way, graph, 2)
    turns(way, graph, 1, "deleted")
    way.delete(saver, "deleted")
    before = rows_of(saver)
    wanted: list[tuple[dict[str, Any], str]] = [
        ({"thread": "typo"}, "no thread 'typo' to prune, so nothing was taken away"),
        ({"thread": "deleted"}, "no thread 'deleted' to prune"),
        ({"threads": ["t", "typo"]}, "no thread 'typo' to prune"),
        ({"threads": ["t", "typo", "deleted"], "dry_run": True}, "no thread 'typo' nor 'deleted' to prune"),
    ]
    for options, says in wanted:
        with pytest.raises(UnknownThread, match=says) as caught:
            prune(way, saver, keep_last=1, **options)
        assert (caught.value.code, caught.value.thread) == ("UNKNOWN_THREAD", options.get("thread", "typo"))
        assert rows_of(saver) == before
    twice = prune(way, saver, keep_last=1, threads=["t", "t"])
    assert (twice.threads, twice.checkpoints) == (1, 5)


class Vanishing(WrappingRecords):
    """A thread that is deleted between the moment when it was looked for and its turn."""

    async def rows(self, thread: Any, after: Any, budget: int, *, contents: bool = True) -> Any:
        found = await super().rows(thread, after, budget, contents=contents)
        await self.delete("gone")
        return found


def test_P28_a_thread_that_is_deleted_meanwhile_keeps_no_other_from_being_pruned(way: Way, saver: Saver):
    graph = chat(way, saver)
    for thread in ("gone", "t"):
        turns(way, graph, 2, thread)
    pruned = prune(way, with_records(saver, Vanishing), keep_last=1, threads=["gone", "t"])
    assert (pruned.checkpoints, pruned.busy) == (5, ())
    assert len(way.history(graph, on())) == 1


# -- space, and others at work ------------------------------------------------------------------------------------------------------


def test_P28_space_is_given_back_to_the_system(way: Way, tmp_path: Path):
    with SqliteSaver(tmp_path / "threads.db", synchronous="normal") as saver:
        graph = side_by_side(Big, grow=way.node(lambda state: {"big": f"{state['n']} " * 20_000, "n": state["n"] + 1})).compile(
            checkpointer=saver
        )
        for n in range(40):
            way.invoke(graph, {"n": n * 10}, on())
        before = (tmp_path / "threads.db").stat().st_size + (tmp_path / "threads.db-wal").stat().st_size
        pruned = prune(way, saver, keep_last=1)
        assert pruned.reclaimed > 0
        after = (tmp_path / "threads.db").stat().st_size
        assert after < before / 5
    connection = sqlite3.connect(tmp_path / "threads.db")
    connection.execute("VACUUM INTO ?", (str(tmp_path / "fresh.db"),))
    connection.close()
    fresh = (tmp_path / "fresh.db").stat().st_size
    assert (tmp_path / "threads.db").stat().st_size <= 1.2 * fresh


class Big(TypedDict, total=False):
    n: int
    big: str


@pytest.mark.parametrize("colour", ["sync", "async"])
def test_P28_runs_and_sweeps_side_by_side_lose_nothing(colour: str, tmp_path: Path):
    """Two savers on one file: one runs turns, the other one sweeps all the time."""
    way = Way(colour)
    stop = threading.Event()
    errors: list[BaseException] = []
    swept = 0

    def sweeps() -> None:
        nonlocal swept
        try:
            with SqliteSaver(tmp_path / "threads.db", synchronous="normal") as other:
                while not stop.is_set():
                    swept += other.prune(keep_last=2, batch=3).checkpoints
        except BaseException as error:
            errors.append(error)

    with SqliteSaver(tmp_path / "threads.db", synchronous="normal") as saver:
        graph = chat(way, saver)
        turns(way, graph, 1)
        sweeper = threading.Thread(target=sweeps)
        sweeper.start()
        for at in range(25):
            for thread in ("t", "u"):
                way.invoke(graph, {"log": [f"in {at}"]}, on(thread))
        stop.set()
        sweeper.join(20)
        assert errors == []
        saver.prune(keep_last=2)
        for thread, count in (("t", 52), ("u", 50)):
            log = way.state(graph, on(thread)).values["log"]
            assert len(log) == count
            assert [text for text in log if text.startswith("in ")][-25:] == [f"in {at}" for at in range(25)]
            assert len(way.history(graph, on(thread))) == 2
            sound(way, saver, thread)


def test_P28_a_run_on_a_thread_that_is_deleted_by_its_age_says_so():
    """Whoever stops iterating over a stream for longer than the lease and the thread's time to live finds the thread gone."""
    clock = ManualClock()
    saver = InMemorySaver(clock=clock, retention=Retention(thread_ttl=600), lease_seconds=30)
    saver._records._clock = clock  # leases run by the database's clock
    graph = chain(("a", lambda state: {"log": ["a"]}), ("b", lambda state: {"log": ["b"]})).compile(checkpointer=saver)
    stream = graph.stream({"log": []}, on(), stream_mode="updates")
    next(stream)
    clock.advance(20)
    assert saver.sweep().deleted == ()
    clock.advance(700)
    assert saver.sweep().deleted == ("t",)
    with pytest.raises(ThreadDeleted):
        list(stream)


def test_P28_one_damaged_thread_does_not_keep_the_others_from_being_pruned(way: Way, saver: Saver):
    graph = chat(way, saver)
    for thread in ("a", "b", "c"):
        turns(way, graph, 4, thread)
    whole = prune(way, saver, keep_last=2, dry_run=True)
    row = run_blocking(saver.blocking().load("b", 0, None)).chain[5]
    loaded = run_blocking(saver.blocking().load("b", 0, None))
    commit = single_write(loaded.thread, SYSTEM_CLOCK.now_ns())
    commit.removed = Removal([(0, row.n)])
    run_blocking(saver.blocking().commit(commit))
    counted = prune(way, saver, keep_last=2, dry_run=True)
    pruned = prune(way, saver, keep_last=2)
    assert pruned == counted
    assert pruned.damaged == ("b",)
    assert pruned.checkpoints == whole.checkpoints * 2 // 3
    first = way._do(saver, "verify", "b").first
    assert (first.n, first.kind) == (row.n, "missing")


# -- bytes ------------------------------------------------------------------------------------------------------------------------


class Report(TypedDict):
    text: str


def reports(way: Way, saver: Saver, count: int) -> Any:
    """A thread whose every step replaces a text of 2 KB."""
    builder: StateGraph[Any, Any, Any, Any] = StateGraph(Report)
    builder.add_node("write", way.node(lambda state: {"text": f"{len(state['text'])} " * 500}))
    graph = builder.add_edge(START, "write").compile(checkpointer=saver)
    for at in range(count):
        way.invoke(graph, {"text": f"{at:04} " * 400}, on())
    return graph


def test_S17_P28_only_as_many_of_the_oldest_go_as_have_to_for_a_number_of_bytes(way: Way, saver: Saver):
    graph = reports(way, saver, 20)
    before = way.history(graph, on())
    whole = prune(way, saver, keep_last=1, dry_run=True).bytes
    state = way.state(graph, on())

    counted = prune(way, saver, max_bytes=20_000, thread="t", dry_run=True)
    assert prune(way, saver, max_bytes=10**9, dry_run=True).checkpoints == 0, "it takes less than that"
    pruned = prune(way, saver, max_bytes=20_000, thread="t")
    assert pruned == counted
    after = way.history(graph, on())
    assert [each.values for each in after] == [each.values for each in before[: len(after)]]
    assert 1 < len(after) < len(before)
    one_more = prune(way, saver, max_bytes=20_000, dry_run=True)
    assert one_more.checkpoints == 0, "as few as have to"
    assert 0 < pruned.bytes < whole

    prune(way, saver, max_bytes=1)
    assert len(way.history(graph, on())) == 1, "the tip stays"
    assert way.state(graph, on())._replace(parent_config=None) == state._replace(parent_config=None)
    sound(way, saver)


def test_P28_a_number_of_bytes_goes_with_a_number_of_checkpoints(way: Way, saver: Saver):
    graph = reports(way, saver, 10)
    prune(way, saver, max_bytes=1, keep_last=4)
    assert len(way.history(graph, on())) == 4
    for wrong in (0, -1, True, 1.5):
        with pytest.raises(InvalidConfig, match="max_bytes"):
            prune(way, saver, max_bytes=wrong)
