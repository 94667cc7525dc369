"""Who may write to a thread, and that whoever may not leaves nothing behind."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from perdure.checkpoint.index.records import RunRow
from perdure.checkpoint.records import (
    ANSWERS,
    CheckpointRow,
    ChildRow,
    Holder,
    Loaded,
    Pending,
    StaleLoad,
    ThreadUpdate,
    ValueRow,
)
from perdure.errors import LeaseLost, ThreadBusy, ThreadDeleted
from perdure.testing.clock import ManualClock
from perdure.testing.saver_suite.records import Store, write
from perdure.testing.saver_suite.rows import SECOND, Writer, packed


def everything(records: Any, thread: str = "t") -> list[Any]:
    """All that can be read of a thread."""
    page: list[Loaded] = records.page(thread, None, before=None, limit=1000)
    shown = [(each.row, each.values, sorted(each.children), sorted(map(repr, each.writes)), each.namespaces) for each in page]
    runs = records.runs(thread, before=None, limit=99)
    return [records.load(thread, 0, None), shown, records.threads(after=None, limit=99), runs]


def elsewhere(since_ns: int = 0) -> Holder:
    """A run on a machine that nobody here can look into."""
    return Holder("run-elsewhere", "far-away", "boot", 7, "1", since_ns)


class LeaseSuite(Store):
    """Taking, keeping, losing and giving back leases; deletion; racing commits."""

    @pytest.fixture
    def tip(self, writer: Writer) -> CheckpointRow:
        """A stored checkpoint with a task to run."""
        row = writer.row()
        row.frontier = (Pending("a", row.n),)
        writer.commit("once", row)
        return row

    def some_of_everything(self, writer: Writer, tip: CheckpointRow) -> dict[str, Any]:
        """Fields of a commit that would leave a trace of every kind."""
        ns = writer.numbers.take()
        value = writer.numbers.take()
        below = writer.row(ns=ns)
        return {
            "checkpoints": [writer.row(tip), below],
            "values": [ValueRow(value, packed(1))],
            "writes": [write(tip.n, "a"), write(tip.n, "a", ANSWERS)],
            "namespaces": [(ns, "late:1")],
            "children": [ChildRow(0, tip.n, "a", 0, ns, below.n)],
            "update": ThreadUpdate("error", "late", "late", {"late": True}),
            "run": RunRow(writer.epoch, "late", "late", "running", 1),
            "head": below.n,
            "next_n": writer.numbers.next_n,
        }

    # -- holding ------------------------------------------------------------------------------------------------------------------

    def test_a_run_takes_keeps_and_gives_back(self, records: Any, writer: Writer) -> None:
        first = writer.row()
        writer.commit("take", first)
        lease = records.load("t", 0, None).thread.lease
        assert (lease.token, lease.epoch, lease.expired) == (writer.token, 1, False)
        assert lease.holder == writer.holder
        second = writer.row(first)
        writer.commit("keep", second)
        kept = records.load("t", 0, None).thread.lease
        assert (kept.token, kept.epoch, kept.holder) == (lease.token, lease.epoch, lease.holder)
        assert kept.mark != lease.mark, "each commit shows that its holder lives"
        writer.commit("release", writer.row(second))
        thread = records.load("t", 0, None).thread
        assert (thread.lease.token, thread.lease.epoch, thread.status) == (None, 1, "idle")
        assert len(records.page("t", 0, before=None, limit=9)) == 3

    def test_a_single_write_holds_nothing_afterwards(self, records: Any, writer: Writer) -> None:
        for epoch in (1, 2):
            writer.commit("once", writer.row())
            lease = records.load("t", 0, None).thread.lease
            assert (lease.token, lease.epoch) == (None, epoch)

    @pytest.mark.parametrize("op", ["take", "once"])
    def test_P8_a_held_thread_is_busy_and_says_who_holds_it(
        self, records: Any, writer: Writer, clock: ManualClock, op: Any
    ) -> None:
        writer.commit("take", writer.row())
        second = Writer(records, clock=clock)
        before = everything(records)
        with pytest.raises(ThreadBusy, match="run") as caught:
            second.commit(op, second.row())
        assert caught.value.holder["run_id"] == "run"
        assert caught.value.holder["pid"] == writer.holder.pid
        assert everything(records) == before
        writer.commit("keep", writer.row())

    def test_P8_reading_needs_no_lease(self, records: Any, writer: Writer) -> None:
        row = writer.row()
        writer.commit("take", row)
        assert records.load("t", 0, None).row == row
        assert len(records.page("t", None, before=None, limit=5)) == 1

    @pytest.mark.parametrize(
        "stale", [{"expect_head": None}, {"expect_head": 99}, {"first_n": 1}, {"first_n": 99}, {"epoch": 1}, {"incarnation": 2}]
    )
    @pytest.mark.parametrize("op", ["take", "once"])
    def test_P1_what_was_decided_on_an_old_state_is_not_stored(
        self, records: Any, writer: Writer, tip: CheckpointRow, op: Any, stale: dict[str, Any]
    ) -> None:
        before = everything(records)
        with pytest.raises(StaleLoad):
            writer.commit(op, **{**self.some_of_everything(writer, tip), **stale})
        assert everything(records) == before
        writer.load()
        writer.commit(op, writer.row(tip))

    def test_two_that_loaded_the_same_state_cannot_both_write(
        self, records: Any, tip: CheckpointRow, clock: ManualClock
    ) -> None:
        first, second = Writer(records, clock=clock), Writer(records, clock=clock)
        first.commit("once", first.row(tip))
        with pytest.raises(StaleLoad):
            second.commit("once", second.row(tip))
        second.load()
        second.commit("once", second.row(tip))
        assert len(records.page("t", 0, before=None, limit=9)) == 3

    def test_writes_alone_make_a_load_stale_too(self, records: Any, tip: CheckpointRow, clock: ManualClock) -> None:
        first, second = Writer(records, clock=clock), Writer(records, clock=clock)
        first.commit("once", writes=[write(tip.n, "a")])
        with pytest.raises(StaleLoad):
            second.commit("take", second.row(tip))

    # -- losing -------------------------------------------------------------------------------------------------------------------

    @pytest.mark.parametrize("op", ["keep", "release"])
    def test_P9_a_zombie_is_refused_and_nothing_of_its_write_is_stored(
        self, records: Any, tip: CheckpointRow, clock: ManualClock, op: Any
    ) -> None:
        zombie = Writer(records, clock=clock, holder=elsewhere(), lease_seconds=0)
        zombie.commit("take")
        heir = Writer(records, clock=clock)
        heir.commit("take")
        before = everything(records)
        with pytest.raises(LeaseLost, match="'t'"):
            zombie.commit(op, **self.some_of_everything(zombie, tip))
        assert everything(records) == before
        heir.commit("release", heir.row(tip))
        with pytest.raises(LeaseLost):
            zombie.commit(op, **self.some_of_everything(zombie, tip))

    @pytest.mark.parametrize("wrong", [{"token": "guessed"}, {"epoch": 2}, {"token": None}])
    def test_P9_token_and_epoch_must_both_be_right(
        self, records: Any, tip: CheckpointRow, clock: ManualClock, wrong: dict[str, Any]
    ) -> None:
        writer = Writer(records, clock=clock)
        writer.commit("take")
        before = everything(records)
        with pytest.raises(LeaseLost):
            writer.commit("keep", writer.row(tip), **({"epoch": writer.epoch + 1} if "epoch" in wrong else wrong))
        assert everything(records) == before

    def test_P9_a_lease_that_expired_but_was_not_taken_goes_on(
        self, records: Any, tip: CheckpointRow, clock: ManualClock
    ) -> None:
        writer = Writer(records, clock=clock, lease_seconds=0)
        writer.commit("take")
        assert records.load("t", 0, None).thread.lease.expired
        writer.commit("keep", writer.row(tip), lease_ns=30 * SECOND)
        assert not records.load("t", 0, None).thread.lease.expired

    def test_P9_a_lease_runs_out_by_the_clock_of_the_database_whatever_that_of_a_caller_says(
        self, records: Any, tip: CheckpointRow, clock: ManualClock
    ) -> None:
        holder = Writer(records, clock=clock, holder=elsewhere())
        holder.commit("take")
        for skew in (3600, -7200):
            clock.advance(skew)
            assert not records.load("t", 0, None).thread.lease.expired
            assert not records.threads(after=None, limit=1)[0].lease.expired
            with pytest.raises(ThreadBusy, match="far-away"):
                Writer(records, clock=clock).commit("take")
        holder.commit("keep", lease_ns=0)
        assert records.threads(after=None, limit=1)[0].lease.expired
        heir = Writer(records, clock=clock)
        heir.commit("take", heir.row(tip))

    @pytest.mark.parametrize("op", ["take", "once"])
    def test_P9_a_lease_is_taken_over_exactly_as_it_was_seen(
        self, records: Any, tip: CheckpointRow, clock: ManualClock, op: Any
    ) -> None:
        holder = Writer(records, clock=clock, holder=elsewhere())
        holder.commit("take")
        heir = Writer(records, clock=clock)
        seen = heir.loaded.thread.lease.mark
        heir.commit(op, heir.row(tip), over=seen)
        assert records.load("t", 0, None).thread.lease.epoch == holder.epoch + 1
        with pytest.raises(LeaseLost):
            holder.commit("keep", holder.row(tip))

    @pytest.mark.parametrize("sign_of_life", ["commit", "renewal", "another run"])
    def test_P9_a_holder_that_was_heard_of_since_is_not_taken_over(
        self, records: Any, tip: CheckpointRow, clock: ManualClock, sign_of_life: str
    ) -> None:
        holder = Writer(records, clock=clock, holder=elsewhere())
        holder.commit("take")
        heir = Writer(records, clock=clock)
        seen = heir.loaded.thread.lease.mark
        if sign_of_life == "commit":
            holder.commit("keep")
        elif sign_of_life == "renewal":
            records.renew([("t", holder.token, holder.epoch)], 30 * SECOND)
        else:
            Writer(records, clock=clock, holder=elsewhere()).commit("take", over=seen)
        before = everything(records)
        with pytest.raises(ThreadBusy):
            heir.commit("take", heir.row(tip), over=seen)
        assert everything(records) == before

    def test_P9_a_holder_that_lives_on_this_machine_keeps_its_lease(
        self, records: Any, tip: CheckpointRow, clock: ManualClock
    ) -> None:
        Writer(records, clock=clock).commit("take")
        with pytest.raises(ThreadBusy):
            Writer(records, clock=clock).commit("take")

    # -- outside of commits -----------------------------------------------------------------------------------------------------------

    def test_leases_are_renewed_together_and_lost_ones_passed_over(self, records: Any, clock: ManualClock) -> None:
        held = {name: Writer(records, name, clock=clock) for name in ("a", "b", "c")}
        for writer in held.values():
            writer.commit("take", writer.row())
        records.delete("b")
        before = {name: records.load(name, 0, None).thread.lease for name in ("a", "c")}
        leases = [(name, "not this" if name == "c" else writer.token, writer.epoch) for name, writer in held.items()]
        records.renew([*leases, ("nobody", "x", 1)], 99 * SECOND)
        after = {name: records.load(name, 0, None).thread.lease for name in ("a", "b", "c")}
        assert after["a"].expires_ns >= before["a"].expires_ns + 60 * SECOND
        assert (after["a"].token, after["a"].epoch) == (before["a"].token, before["a"].epoch)
        assert after["b"].mark is None
        assert after["c"].mark == before["c"].mark
        records.renew([], 99 * SECOND)

    def test_a_lease_is_given_back_outside_of_a_commit(
        self, records: Any, writer: Writer, tip: CheckpointRow, clock: ManualClock
    ) -> None:
        writer.commit("take")
        records.release("t", writer.token, writer.epoch, "error")
        thread = records.load("t", 0, None).thread
        assert (thread.lease.token, thread.lease.epoch, thread.status, thread.head) == (None, writer.epoch, "error", tip.n)
        Writer(records, clock=clock).commit("take")

    def test_P9_a_zombie_gives_nothing_back(self, records: Any, tip: CheckpointRow, clock: ManualClock) -> None:
        zombie = Writer(records, clock=clock, holder=elsewhere(), lease_seconds=0)
        zombie.commit("take")
        Writer(records, clock=clock).commit("take")
        before = everything(records)
        records.release("t", zombie.token, zombie.epoch, "error")
        records.release("nobody", "x", 1, "error")
        assert everything(records) == before

    # -- P10: deletion ------------------------------------------------------------------------------------------------------------------

    def test_P10_a_deleted_thread_is_gone(self, records: Any, writer: Writer, tip: CheckpointRow) -> None:
        writer.commit("take", **self.some_of_everything(writer, tip))
        public = records.page("t", None, before=None, limit=9)[0].row.id
        records.delete("t")
        assert everything(records)[1:] == [[], [], []]
        assert records.load("t", "late:1", None).row is None
        assert records.number_of("t", public) is None
        thread = records.load("t", 0, None).thread
        assert (thread.key, thread.incarnation, thread.head, thread.next_n) == (None, 2, None, 1)

    @pytest.mark.parametrize("op", ["keep", "release"])
    def test_P10_a_run_on_a_deleted_thread_is_told_so(self, records: Any, writer: Writer, tip: CheckpointRow, op: Any) -> None:
        writer.commit("take")
        records.delete("t")
        with pytest.raises(ThreadDeleted, match="'t' was deleted"):
            writer.commit(op, **self.some_of_everything(writer, tip))
        assert everything(records)[1:] == [[], [], []]

    @pytest.mark.parametrize("op", ["take", "once"])
    def test_P10_what_was_decided_before_a_deletion_is_not_stored(
        self, records: Any, writer: Writer, tip: CheckpointRow, op: Any
    ) -> None:
        records.delete("t")
        with pytest.raises(StaleLoad):
            writer.commit(op, **self.some_of_everything(writer, tip))
        assert everything(records)[1:] == [[], [], []]

    def test_P10_an_id_that_is_used_again_is_a_new_incarnation(
        self, records: Any, writer: Writer, tip: CheckpointRow, clock: ManualClock
    ) -> None:
        late = Writer(records, clock=clock, holder=elsewhere())
        late.commit("take", **self.some_of_everything(late, tip))
        records.delete("t")
        for incarnation in (2, 3):
            heir = Writer(records, clock=clock)
            row = heir.row()
            row.frontier = (Pending("a", row.n),)
            heir.commit("take", row)
            loaded: Loaded = records.load("t", 0, None)
            assert loaded.thread.incarnation == incarnation
            assert (loaded.row, loaded.writes, loaded.children, loaded.values) == (row, [], [], {})
            with pytest.raises((ThreadDeleted, LeaseLost)):
                late.commit("keep", **self.some_of_everything(late, tip))
            assert len(records.page("t", None, before=None, limit=9)) == 1
            records.delete("t")

    def test_P10_a_renewal_does_not_bring_a_thread_back(
        self, records: Any, writer: Writer, tip: CheckpointRow, clock: ManualClock
    ) -> None:
        writer.commit("take")
        records.delete("t")
        records.renew([("t", writer.token, writer.epoch)], 99 * SECOND)
        records.release("t", writer.token, writer.epoch, "idle")
        assert everything(records)[1:] == [[], [], []]
        records.delete("t")
        records.delete("never was")

    # -- races ----------------------------------------------------------------------------------------------------------------------

    def test_P8_of_many_that_want_a_thread_at_once_one_gets_it(
        self, records: Any, tip: CheckpointRow, clock: ManualClock
    ) -> None:
        contenders = [Writer(records, clock=clock) for _ in range(6)]
        outcomes = self.at_once([lambda w=writer: w.commit("take", w.row(tip)) for writer in contenders])
        assert sorted(type(outcome).__name__ for outcome in outcomes if isinstance(outcome, Exception)) != []
        assert sum(not isinstance(outcome, Exception) for outcome in outcomes) == 1
        assert all(isinstance(outcome, (ThreadBusy, StaleLoad)) for outcome in outcomes if isinstance(outcome, Exception))
        assert len(records.page("t", 0, before=None, limit=99)) == 2

    def test_commits_of_one_run_may_come_from_several_threads(
        self, records: Any, tip: CheckpointRow, clock: ManualClock
    ) -> None:
        writer = Writer(records, clock=clock)
        writer.commit("take")
        rows = [writer.row(tip) for _ in range(24)]
        outcomes = self.at_once([lambda row=row: writer.commit("keep", row, head=None) for row in rows])
        assert [outcome for outcome in outcomes if isinstance(outcome, Exception)] == []
        stored = {each.row.n for each in records.page("t", 0, before=None, limit=99)}
        assert stored == {tip.n, *(row.n for row in rows)}
        assert records.load("t", 0, None).thread.next_n == writer.numbers.next_n

    def test_threads_do_not_wait_for_each_other(self, records: Any, clock: ManualClock) -> None:
        def fill(name: str) -> None:
            writer = Writer(records, name, clock=clock)
            row = writer.row()
            writer.commit("take", row)
            for _ in range(5):
                row = writer.row(row)
                writer.commit("keep", row)
            writer.commit("release")

        names = [f"thread {n}" for n in range(5)]
        assert self.at_once([lambda name=name: fill(name) for name in names]) == [None] * len(names)
        assert [len(records.page(name, 0, before=None, limit=99)) for name in names] == [6] * len(names)

    def at_once(self, calls: list[Any]) -> list[Any]:
        """Make calls from threads of their own, all together; their results or exceptions."""
        outcomes: list[Any] = [None] * len(calls)
        gate = threading.Barrier(len(calls))

        def make(at: int, call: Any) -> None:
            gate.wait()
            try:
                outcomes[at] = call()
            except Exception as error:  # noqa: BLE001 - the outcome of this call
                outcomes[at] = error

        threads = [threading.Thread(target=make, args=pair) for pair in enumerate(calls)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return outcomes
