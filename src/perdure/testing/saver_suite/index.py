"""The index of threads: listed, found, walked and told of; the records of runs, which ride in commits and go with their thread. (P11)"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from perdure.checkpoint.index.records import RUNS_KEPT, RunRow, ThreadFilter
from perdure.checkpoint.leases import identity
from perdure.checkpoint.records import Holder, LeaseRow, StaleLoad, Status, ThreadUpdate
from perdure.clock import time_of
from perdure.errors import InvalidConfig, ThreadBusy
from perdure.testing.clock import ManualClock
from perdure.testing.saver_suite.colours import Coloured, Portal, Records, Suite, close
from perdure.testing.saver_suite.rows import Writer


def run_of(writer: Writer, status: Any = "running", **fields: Any) -> RunRow:
    """The record of the run that a writer is."""
    ended = None if status == "running" else writer.clock.now_ns()
    return RunRow(writer.epoch, f"run-{writer.epoch}", "graph", status, 5, ended, **fields)


def ids(page: Any) -> list[str]:
    """The ids of a page of threads."""
    return [thread.thread_id for thread in page]


class IndexSuite(Suite):
    """`threads`, `recent` and `runs` of the record contract, and the methods of savers over them."""

    @pytest.fixture
    def clock(self) -> ManualClock:
        """The saver's clock."""
        return ManualClock()

    # Of one saver, whose clock it is: by other names than those of the other parts, which this class is mixed with.

    @pytest.fixture
    def timed(self, tmp_path: Path, portal: Portal | None, clock: ManualClock) -> Iterator[Any]:
        """The saver as it is."""
        saver = self.make_saver(tmp_path, clock=clock)
        yield saver
        close(saver, portal)

    @pytest.fixture
    def store(self, timed: Any, portal: Portal | None) -> Records:
        """Its record store, called like plain functions."""
        return Records(timed, portal)

    @pytest.fixture
    def index(self, timed: Any, portal: Portal | None) -> Coloured:
        """Its methods in this colour."""
        return Coloured(timed, portal)

    @pytest.fixture
    def runner(self, store: Any, clock: ManualClock) -> Writer:
        """A run on thread "t"."""
        return Writer(store, clock=clock)

    def _stored(
        self, store: Any, clock: ManualClock, name: str, status: Status = "idle", graph: str = "", **metadata: Any
    ) -> None:
        writer = Writer(store, name, clock=clock)
        writer.commit("once", writer.row(), update=ThreadUpdate(status, graph or None, None, metadata or None))

    # -- records of runs --------------------------------------------------------------------------------------------------------------

    def test_P11_the_record_of_a_run_comes_back_and_is_replaced_by_later_ones(self, store: Any, runner: Writer) -> None:
        begun = run_of(runner)
        first = runner.row()
        runner.commit("take", first, run=begun)
        assert store.runs("t", before=None, limit=9) == [begun]
        later = replace(begun, steps=1, entries={"a": 2, "sub|é": 1})
        second = runner.row(first)
        runner.commit("keep", second, run=later)
        runner.commit("keep", runner.row(second))
        assert store.runs("t", before=None, limit=9) == [later]
        ended = replace(later, status="error", ended_ns=9, error="ValueError: é", context=True, branch="draft")
        runner.commit("release", run=ended)
        assert store.runs("t", before=None, limit=9) == [ended]

    def test_P11_runs_are_paged_newest_first(self, store: Any, runner: Writer, clock: ManualClock) -> None:
        assert store.runs("t", before=None, limit=9) == []
        made = []
        for _ in range(5):
            run = run_of(runner, "done")
            runner.commit("once", runner.row(), run=run)
            made.append(run)
        self._stored(store, clock, "other")
        assert store.runs("t", before=None, limit=9) == made[::-1]
        assert store.runs("t", before=None, limit=2) == [made[4], made[3]]
        assert store.runs("t", before=made[3].epoch, limit=2) == [made[2], made[1]]
        assert store.runs("t", before=made[0].epoch, limit=2) == []
        assert store.runs("t", before=None, limit=0) == []
        assert store.runs("other", before=None, limit=9) == []

    def test_P11_a_refused_commit_leaves_no_record_of_its_run(self, store: Any, runner: Writer, clock: ManualClock) -> None:
        run = run_of(runner)
        runner.commit("take", runner.row(), run=run)
        second = Writer(store, clock=clock)
        with pytest.raises(ThreadBusy):
            second.commit("take", run=run_of(second))
        runner.commit("keep", runner.row(), lease_ns=0)
        heir = Writer(store, clock=clock)
        taken = run_of(heir)
        with pytest.raises(StaleLoad):
            heir.commit("take", run=taken, first_n=99)
        assert store.runs("t", before=None, limit=9) == [run]
        heir.commit("take", run=taken)
        with pytest.raises(Exception, match="took it over"):
            runner.commit("keep", runner.row(), run=replace(run, steps=7))
        assert store.runs("t", before=None, limit=9) == [taken, run]

    def test_P11_a_lease_given_back_outside_of_a_commit_keeps_the_record(self, store: Any, runner: Writer) -> None:
        runner.commit("take", runner.row(), run=run_of(runner))
        ended = run_of(runner, "interrupted")
        store.release("t", "not this", runner.epoch, "error", run_of(runner, "error"))
        store.release("t", runner.token, runner.epoch, "interrupted", ended)
        assert store.runs("t", before=None, limit=9) == [ended]
        assert store.load("t", 0, None).thread.status == "interrupted"

    def test_P11_records_do_not_grow_without_bound(self, store: Any, runner: Writer) -> None:
        run = run_of(runner, "done")
        runner.commit("once", run=run)
        runner.commit("once", run=replace(run, epoch=2))
        # As if the thread had been taken many times since.
        runner.commit("take", epoch=3, run=replace(run, epoch=3))
        runner.commit("release")
        while runner.epoch <= RUNS_KEPT:
            runner.commit("once")
        assert [each.epoch for each in store.runs("t", before=None, limit=9)] == [3, 2, 1], "only a run lets others go"
        runner.commit("once", run=replace(run, epoch=runner.epoch))
        assert [each.epoch for each in store.runs("t", before=None, limit=9)] == [RUNS_KEPT + 1, 3, 2]

    def test_P10_P11_the_records_of_runs_go_with_their_thread(self, store: Any, runner: Writer, index: Any) -> None:
        runner.commit("once", runner.row(), run=run_of(runner, "done"))
        store.delete("t")
        assert store.runs("t", before=None, limit=9) == []
        assert list(index.list_runs("t")) == []
        again = Writer(store, clock=runner.clock)
        again.commit("once", again.row())
        assert store.runs("t", before=None, limit=9) == []

    # -- lists of threads -------------------------------------------------------------------------------------------------------------

    def test_P11_threads_are_found_by_graph_and_by_time(self, store: Any, clock: ManualClock) -> None:
        moments = {}
        for at, name in enumerate(["d", "b", "a", "c"]):
            clock.advance(1)
            self._stored(store, clock, name, "idle" if at % 2 else "interrupted", "even" if at % 2 else "odd")
            moments[name] = clock.now_ns()

        def found(**conditions: Any) -> list[str]:
            return [row.thread for row in store.threads(after=None, limit=99, wanted=ThreadFilter(**conditions))]

        assert found(graph="even") == ["b", "c"]
        assert found(graph="eve") == found(graph="' OR 1=1 --") == []
        assert found(updated_after=moments["b"]) == ["a", "c"]
        assert found(updated_after=moments["b"] - 1) == ["a", "b", "c"]
        assert found(updated_after=moments["d"], statuses=["idle"]) == ["b", "c"]
        assert found(updated_after=moments["b"], statuses=["idle", "interrupted"], graph="odd") == ["a"]
        assert [row.thread for row in store.threads(after="a", limit=1, wanted=ThreadFilter(updated_after=moments["d"]))] == [
            "b"
        ]

    def test_P11_the_latest_updates_come_first(self, store: Any, clock: ManualClock) -> None:
        for name in ["b", "a", "c"]:
            clock.advance(1)
            self._stored(store, clock, name, "interrupted" if name == "a" else "error")
        self._stored(store, clock, "same time")
        rows = store.recent(before=None, limit=99)
        assert [row.thread for row in rows] == ["same time", "c", "a", "b"]

        def found(limit: int = 99, before: Any = None, **conditions: Any) -> list[str]:
            return [row.thread for row in store.recent(before=before, limit=limit, wanted=ThreadFilter(**conditions))]

        places = [(row.updated_ns, row.thread) for row in rows]
        assert found(limit=1, before=places[0]) == ["c"]
        assert found(before=places[1]) == ["a", "b"]
        assert found(before=places[3]) == found(limit=0) == []
        assert found(statuses=["error", "idle"]) == ["same time", "c", "b"]
        assert found(limit=2, statuses=["error", "interrupted"]) == ["c", "a"]
        assert found(prefix="s") == ["same time"]
        assert found(updated_after=places[2][0]) == ["same time", "c"]

    def test_P11_a_walk_meets_each_thread_once_whatever_happens_meanwhile(
        self, index: Any, store: Any, clock: ManualClock
    ) -> None:
        names = [f"{at:02}" for at in range(20)]
        for name in names[::-1]:
            clock.advance(1)
            self._stored(store, clock, name)
        seen: list[str] = []
        cursor: str | None = None
        while True:
            page = index.list_threads(limit=3, cursor=cursor)
            assert len(page) <= 3
            seen += ids(page)
            cursor = page.cursor
            if cursor is None:
                break
            clock.advance(1)
            self._stored(store, clock, "15")  # not met yet, and again when it was
            self._stored(store, clock, names[0])
            self._stored(store, clock, f"00-new-{len(seen)}")  # behind the walk
            store.delete("19")
        assert seen == names[:-1]

    def test_P11_the_last_page_says_that_it_is_the_last(self, index: Any, store: Any, clock: ManualClock) -> None:
        for name in "abcd":
            self._stored(store, clock, name, user=name)
        for order in ("id", "updated"):
            first = index.list_threads(limit=2, order=order)
            second = index.list_threads(limit=2, order=order, cursor=first.cursor)
            assert first.cursor is not None
            assert second.cursor is None
            assert sorted([*ids(first), *ids(second)]) == list("abcd")
            assert index.list_threads(limit=4, order=order).cursor is None

    def test_P11_a_cursor_of_another_order_is_an_error(self, index: Any, store: Any, clock: ManualClock) -> None:
        for name in ("a", "1:b", "2:c"):
            self._stored(store, clock, name)
        for order, other in (("id", "updated"), ("updated", "id")):
            cursor = index.list_threads(limit=1, order=order).cursor
            with pytest.raises(InvalidConfig, match="is no cursor of this list"):
                index.list_threads(limit=1, order=other, cursor=cursor)

    def test_P11_threads_are_found_by_metadata_as_it_is(self, index: Any, store: Any, clock: ManualClock) -> None:
        for at in range(150):
            self._stored(store, clock, f"{at:03}", user="ada" if at % 50 == 7 else "bob", n=at, ok=at == 1)

        def found(**metadata: Any) -> list[str]:
            return ids(index.list_threads(metadata=metadata))

        assert found(user="ada") == ["007", "057", "107"]
        assert found(user="\ud800") == found(ada="user") == found(user="") == []
        assert found(user="ada", n=57) == found(user="ada", n=57.0) == ["057"]
        assert found(ok=True) == ["001"]
        assert found(n=True) == found(ok=1) == found(user="a%") == found(nobody="x") == found(user="' OR 1=1 --") == []
        page = index.list_threads(metadata={"user": "ada"}, limit=2)
        assert ids(page) == ["007", "057"]
        assert ids(index.list_threads(metadata={"user": "ada"}, limit=2, cursor=page.cursor)) == ["107"]
        self._stored(store, clock, "tricky", note="\xa4user\xa3eve", user="ann", empty="")
        assert found(user="eve") == []
        assert found(user="ann", empty="") == ["tricky"]
        with pytest.raises(TypeError, match="keys"):
            index.list_threads(metadata={5: "x"})
        with pytest.raises(InvalidConfig, match="compared"):
            found(n={"$gt": 1})

    def test_P11_a_condition_that_no_thread_can_meet_is_an_error(self, index: Any, clock: ManualClock) -> None:
        with pytest.raises(InvalidConfig, match="did you mean 'interrupted'"):
            index.list_threads(status="interupted")
        with pytest.raises(InvalidConfig, match="`crashed`"):
            index.list_threads(status=["busy", "crashed"])
        with pytest.raises(InvalidConfig, match="nothing"):
            index.list_threads(status=[])
        with pytest.raises(InvalidConfig, match="time zone"):
            index.list_threads(updated_after=time_of(clock.now_ns()).replace(tzinfo=None))
        with pytest.raises(InvalidConfig, match="order"):
            index.list_threads(order="created")
        with pytest.raises(InvalidConfig, match="cursor"):
            index.list_threads(order="updated", cursor="a")
        with pytest.raises(InvalidConfig, match="cursor"):
            index.list_runs("t", cursor="a")
        for limit in (0, -1, True, "5", None):
            with pytest.raises(InvalidConfig, match="limit"):
                index.list_threads(limit=limit)
            with pytest.raises(InvalidConfig, match="limit"):
                index.list_runs("t", limit=limit)
        for wrong in ({"updated_after": 5.0}, {"metadata": "user=ada"}, {"thread_prefix": None}, {"graph": 5}, {"cursor": 5}):
            with pytest.raises(TypeError):
                index.list_threads(**wrong)
        with pytest.raises(TypeError):
            index.get_thread(5.5)

    # -- one thread -------------------------------------------------------------------------------------------------------------------

    def test_P11_a_thread_is_told_of(self, index: Any, store: Any, clock: ManualClock) -> None:
        began = time_of(clock.now_ns())
        self._stored(store, clock, "t", "error", "graph é", user="ada")
        clock.advance(5)
        self._stored(store, clock, "t", "idle")
        self._stored(store, clock, "t2")
        thread = index.get_thread("t")
        assert (thread.thread_id, thread.status, thread.graph, thread.metadata) == ("t", "idle", "graph é", {"user": "ada"})
        assert (thread.created_at, thread.updated_at) == (began, began + timedelta(seconds=5))
        assert (thread.interrupts, thread.holder, thread.is_running, thread.crashed) == ((), None, False, False)
        assert thread.config == {"configurable": {"thread_id": "t"}}
        assert index.list_threads(limit=1)[0] == thread
        assert index.get_thread("T") is None
        store.delete("t")
        assert index.get_thread("t") is None
        assert ids(index.list_threads()) == ["t2"]

    def test_P11_a_held_thread_says_by_whom_and_whether_that_one_lives(
        self, index: Any, store: Any, clock: ManualClock
    ) -> None:
        mine = identity.holder("mine", clock.now_ns())
        if identity.lives(LeaseRow("token", 1, 0, mine)) is None:
            pytest.skip("this system does not tell when a process started")
        dead = replace(mine, started="1")  # its pid belongs to another process now
        far = Holder("far", "far-away", "boot", 7, "1", clock.now_ns())
        for holder, name in ((mine, "mine"), (dead, "dead"), (far, "far")):
            writer = Writer(store, name, clock=clock, holder=holder)
            writer.commit("take", writer.row(), run=run_of(writer))

        def standing() -> dict[str, tuple[bool, bool]]:
            return {one.thread_id: (one.is_running, one.crashed) for one in index.list_threads(status="busy")}

        holder = index.get_thread("far").holder
        assert holder == ("far", "far-away", 7, time_of(clock.now_ns()))
        assert standing() == {"mine": (True, False), "dead": (False, True), "far": (True, False)}
        assert [run.status for name in ("mine", "dead", "far") for run in index.list_runs(name)] == [
            "running",
            "crashed",
            "running",
        ]
        for holder, name in ((mine, "mine"), (dead, "dead"), (far, "far")):
            store.delete(name)
            short = Writer(store, name, clock=clock, holder=holder, lease_seconds=0)
            short.commit("take", short.row(), run=run_of(short))
        assert standing() == {"mine": (False, False), "dead": (False, True), "far": (False, True)}
        assert [run.status for run in index.list_runs("far")] == ["crashed"]
        heir = Writer(store, "far", clock=clock)
        heir.commit("take", run=run_of(heir))
        heir.commit("release", run=run_of(heir, "done", steps=2, entries={"a": 3}))
        last, first = index.list_runs("far")
        assert (last.status, last.steps, last.attempts, last.ended_at) == ("done", 2, 3, time_of(clock.now_ns()))
        assert (first.status, first.ended_at) == ("crashed", None)
