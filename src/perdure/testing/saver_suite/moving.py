"""Moving threads: the record contract of rows that travel, and whole threads that are copied, exported and imported (P29)."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

import pytest

from perdure.checkpoint.incremental.manifest import Manifest
from perdure.checkpoint.leases import identity
from perdure.checkpoint.memory import InMemorySaver
from perdure.checkpoint.records import (
    ANSWERS,
    RESULT,
    BranchName,
    BranchRow,
    ChildRow,
    Entry,
    Packed,
    Pending,
    ThreadRow,
    ThreadUpdate,
    ValueRow,
    WriteItem,
    WriteRow,
)
from perdure.checkpoint.transfer.everything import acopy_all, copy_all
from perdure.checkpoint.transfer.port import Arrival
from perdure.checkpoint.transfer.raw import BRANCH, CHECKPOINT, NAMESPACE, VALUE, RawRow, place
from perdure.errors import CorruptRecord, SaveFailed, ThreadBusy, ThreadExists, UnknownThread
from perdure.testing.clock import ManualClock
from perdure.testing.saver_suite.colours import Portal, Suite
from perdure.testing.saver_suite.graphs import Coloured, asking, counter, on, parallel
from perdure.testing.saver_suite.records import Store, by_key
from perdure.testing.saver_suite.rows import Writer, entry, packed
from perdure.types import Command

SECOND = 1_000_000_000


def rows_of(records: Any, thread: str = "t", budget: int = 1 << 20) -> list[RawRow]:
    """All rows of a thread, read in stretches."""
    found: list[RawRow] = []
    while rows := records.rows(thread, place(found[-1]) if found else None, budget).rows:
        found += rows
    return found


def staged_rows(records: Any, arrival: Arrival, budget: int = 1 << 20) -> list[RawRow]:
    """All rows of an arrival, read in stretches."""
    found: list[RawRow] = []
    while rows := records.staged(arrival, place(found[-1]) if found else None, budget):
        found += rows
    return found


def everything(writer: Writer) -> None:
    """A thread with rows of every kind, some of them more than once, in an order that is not that of travel."""
    first = writer.row(changes={"a": entry(1, 7)}, source="input", step=-1)
    child_ns, other_ns = writer.numbers.take(), writer.numbers.take()
    start = writer.numbers.reserve(4)
    parts = Manifest("list", 3, ((start, start + 1), (start + 2, 0, 1)))
    second = writer.row(
        first,
        changes={"log": Entry(1, None, None, parts), "big": Entry(1, None, start + 3)},
        frontier=(Pending("z", first.n), Pending("a", first.n), Pending("#0-1", first.n)),
    )
    child = writer.row(ns=child_ns, id="not a uuid")
    late = writer.row(first)
    values = [ValueRow(start + at, Packed("e1", b"\x00v" * (at + 1))) for at in (3, 0, 2, 1)]
    paths = ["z", "a", "\U0001f600", "\uffff", "#0", "!a"]
    writes = [WriteRow(0, first.n, path, kind, (WriteItem("k", packed(1)),)) for path in paths for kind in (RESULT, ANSWERS)]
    writes.append(WriteRow(child_ns, child.n, "a", RESULT, (WriteItem("k", None, start),)))
    writer.commit(
        "once",
        first,
        second,
        child,
        late,
        values=values,
        writes=writes,
        namespaces=[(other_ns, "b:2"), (child_ns, "a:1")],
        children=[ChildRow(0, first.n, path, call, child_ns, child.n) for path in ("z", "a") for call in (1, 0)],
        branches=[BranchRow(name, second.n) for name in ("z", "a", "\U0001f600", "\uffff")],
        head=second.n,
        update=ThreadUpdate("interrupted", "G", "print", {"user": "ada"}),
    )


def arrival(clock: ManualClock, token: str = "one", **fields: Any) -> Arrival:
    """Somebody who brings a thread."""
    now = clock.now_ns()
    return Arrival(token, fields.pop("holder", identity.holder("", now)), now, **fields)


class MovingRecordSuite(Store):
    """`rows`, `arrive`, `stage`, `staged`, `admit`, `discard`."""

    def test_P29_rows_are_read_in_their_order_whatever_the_budget(self, records: Any, writer: Writer) -> None:
        everything(writer)
        rows = rows_of(records)
        places = [place(row) for row in rows]
        assert places == sorted(places), "by kind, then numbers by value and text by code point"
        assert len(set(places)) == len(places)
        counts = [len([row for row in rows if row.kind == kind]) for kind in range(NAMESPACE, BRANCH + 1)]
        assert counts == [2, 4, 4, 13, 4, 4]
        for budget in (1, 200, 700):
            assert rows_of(records, budget=budget) == rows
        assert len(records.rows("t", None, 1).rows) == 1
        assert records.rows("t", places[-1], 1).rows == []

    def test_P29_a_stretch_comes_with_the_threads_row(self, records: Any, writer: Writer) -> None:
        everything(writer)
        assert records.rows("t", None, 1).thread == records.load("t", 0, None).thread
        assert records.rows("t", (BRANCH, ("\U0010ffff",)), 1).thread.thread == "t"
        assert records.rows("other", None, 1) == (None, [])

    def test_P29_what_is_admitted_is_the_same_thread(self, records: Any, writer: Writer, clock: ManualClock) -> None:
        everything(writer)
        rows, thread = rows_of(records), records.load("t", 0, None).thread
        coming = arrival(clock)
        records.arrive(coming)
        for at in range(0, len(rows), 5):
            records.stage(coming, rows[at : at + 5])
        assert staged_rows(records, coming) == staged_rows(records, coming, 1) == rows
        records.admit(coming, replace(thread, thread="copy"))
        assert rows_of(records, "copy") == rows == rows_of(records)
        loaded, there = records.load("copy", 0, None), records.load("t", 0, None)
        assert (loaded.row, loaded.chain, loaded.values) == (there.row, there.chain, there.values)
        assert by_key(loaded.writes) == by_key(there.writes)
        assert (sorted(loaded.children), loaded.ids, loaded.namespaces) == (sorted(there.children), there.ids, there.namespaces)
        assert records.load("copy", 0, BranchName("a")).row == there.row
        found = loaded.thread
        assert found.lease.token is None
        slow = ("head", "next_n", "newest", "status", "graph", "fingerprint", "metadata", "created_ns", "updated_ns")
        assert [getattr(found, name) for name in slow] == [getattr(thread, name) for name in slow]
        assert [row.thread for row in records.threads(after=None, limit=5)] == ["copy", "t"]

    def test_P29_the_copy_goes_on_by_itself(self, records: Any, writer: Writer, clock: ManualClock) -> None:
        everything(writer)
        coming = arrival(clock)
        records.arrive(coming)
        records.stage(coming, rows_of(records))
        records.admit(coming, replace(records.load("t", 0, None).thread, thread="copy"))
        before = rows_of(records)
        copy = Writer(records, "copy", clock=clock)
        more = copy.row(copy.loaded.row, changes={"n": entry(1, 9)})
        copy.commit("take", more, values=[ValueRow(copy.numbers.take(), packed(1))])
        copy.commit("release", copy.row(more))
        assert rows_of(records) == before
        records.delete("copy")
        assert rows_of(records) == before
        assert rows_of(records, "copy") == []

    def test_P29_nobody_sees_what_is_staged(self, records: Any, writer: Writer, clock: ManualClock) -> None:
        everything(writer)
        rows, before = rows_of(records), records.threads(after=None, limit=9)
        coming = arrival(clock)
        records.arrive(coming)
        records.stage(coming, rows)
        assert records.threads(after=None, limit=9) == before
        other = Writer(records, "other", clock=clock)
        other.commit("once", other.row())
        for thread in ("t", "other", coming.token, ""):
            found = rows_of(records, thread)
            assert found == (rows if thread == "t" else found[:1] if thread == "other" else [])
        records.discard(coming)
        assert [row.thread for row in records.threads(after=None, limit=9)] == ["other", "t"]
        assert rows_of(records) == rows
        with pytest.raises(SaveFailed):
            records.admit(coming, ThreadRow("late"))
        records.discard(coming)

    def test_P29_a_thread_is_never_overwritten(self, records: Any, writer: Writer, clock: ManualClock) -> None:
        everything(writer)
        rows = rows_of(records)
        coming = arrival(clock)
        records.arrive(coming)
        with pytest.raises(ThreadExists) as refused:
            records.admit(coming, ThreadRow("t"))
        assert refused.value.thread == "t"
        assert rows_of(records) == rows
        records.admit(coming, ThreadRow("another"))
        assert records.load("another", 0, None).thread.key is not None

    def test_P29_two_arrivals_do_not_mix(self, records: Any, clock: ManualClock) -> None:
        one, two = arrival(clock, "one"), arrival(clock, "two")
        records.arrive(one)
        records.arrive(two)
        for coming in (one, two, one):
            n = len(staged_rows(records, coming)) + 1
            records.stage(coming, [RawRow(VALUE, (n, coming.token), b"x")])
        records.admit(two, ThreadRow("two", next_n=5))
        records.admit(one, ThreadRow("one", next_n=5))
        assert [row.key for row in rows_of(records, "one")] == [(1, "one"), (2, "one")]
        assert [row.key for row in rows_of(records, "two")] == [(1, "two")]

    def test_P29_a_row_that_comes_twice_is_refused(self, records: Any, writer: Writer, clock: ManualClock) -> None:
        everything(writer)
        rows = rows_of(records)
        for row in (row for at, row in enumerate(rows) if not at or rows[at - 1].kind != row.kind):
            coming = arrival(clock, f"of {row.kind}")
            records.arrive(coming)
            records.stage(coming, [row])
            with pytest.raises(CorruptRecord):
                records.stage(coming, [row])
            records.discard(coming)
        coming = arrival(clock)
        records.arrive(coming)
        found = next(row for row in rows if row.kind == CHECKPOINT)
        records.stage(coming, [found])
        with pytest.raises(CorruptRecord):
            records.stage(coming, [found._replace(key=(found.key[0], 99, found.key[2]))])

    def test_P29_what_dead_processes_left_is_cleared_away(self, records: Any, clock: ManualClock) -> None:
        lives, still = arrival(clock, "lives"), arrival(clock, "still", lease_ns=SECOND)
        dead = arrival(clock, "dead", holder=replace(identity.holder("", 0), pid=2**22 + 1, started="1"))
        for coming in (lives, still, dead):
            records.arrive(coming)
            records.stage(coming, [RawRow(VALUE, (1, "x"), b"x")])
        clock.advance(2)
        records.arrive(arrival(clock, "next"))
        assert len(staged_rows(records, lives)) == 1
        for coming in (still, dead):
            with pytest.raises(SaveFailed):
                records.stage(coming, [RawRow(VALUE, (2, "x"), b"x")])
            with pytest.raises(SaveFailed):
                records.admit(coming, ThreadRow("t"))

    def test_P10_a_thread_that_is_brought_to_a_deleted_id_is_a_new_one(
        self, records: Any, writer: Writer, clock: ManualClock
    ) -> None:
        late = writer.row()
        writer.commit("take", late)
        records.delete("t")
        coming = arrival(clock)
        records.arrive(coming)
        records.admit(coming, ThreadRow("t"))
        assert records.load("t", 0, None).thread.incarnation == 2
        with pytest.raises(LookupError):
            writer.commit("keep", writer.row(late))


class MovingSuite(Suite):
    """Whole threads."""

    def test_P29_a_copy_is_complete_and_runs_on(self, saver: Any, calls: Any, coloured: Coloured) -> None:
        graph = coloured(parallel({"one": asking("one")}).compile(checkpointer=saver))
        graph.invoke({"count": 0, "log": ["x" * 2000]}, on())
        before = graph.get_state(on())
        moved = calls.copy_thread("t", "copy")
        assert moved.rows == sum(moved.counts) > 0
        copy = graph.get_state(on("copy"))
        assert (copy.values, copy.next, copy.metadata, copy.interrupts) == (
            before.values,
            before.next,
            before.metadata,
            before.interrupts,
        )
        ids = [[each.config["configurable"]["checkpoint_id"] for each in graph.get_state_history(on(t))] for t in ("t", "copy")]
        assert ids[0] == ids[1] != []
        graph.invoke(Command(resume="yes"), on("copy"))
        assert graph.get_state(on("copy")).next == ()
        assert graph.get_state(on()) == before
        with pytest.raises(ThreadExists):
            calls.copy_thread("t", "copy")
        with pytest.raises(UnknownThread):
            calls.copy_thread("nobody", "c2")

    def test_P29_a_file_brings_a_thread_to_another_saver_and_back(
        self, saver: Any, calls: Any, coloured: Coloured, portal: Portal | None
    ) -> None:
        graph = coloured(counter(3).compile(checkpointer=saver))
        graph.invoke({"count": 0, "log": ["x" * 5000]}, on())
        file = io.BytesIO()
        out = calls.export_thread("t", file)
        elsewhere = InMemorySaver()
        assert elsewhere.import_thread(io.BytesIO(file.getvalue())) == out
        again = io.BytesIO()
        assert elsewhere.export_thread("t", again) == out
        assert again.getvalue() == file.getvalue(), "the same thread is the same bytes"
        assert calls.import_thread(io.BytesIO(file.getvalue()), "back") == out
        assert graph.get_state(on("back")).values == graph.get_state(on()).values
        with pytest.raises(ThreadExists):
            calls.import_thread(io.BytesIO(file.getvalue()))
        with pytest.raises(CorruptRecord):
            calls.import_thread(io.BytesIO(file.getvalue()[:-1]), "cut")
        assert graph.get_state(on("cut")).metadata is None

    def test_P29_all_threads_go_to_another_saver_and_back(self, saver: Any, coloured: Coloured, portal: Portal | None) -> None:
        def copied(*savers: Any) -> Any:
            return copy_all(*savers) if portal is None else portal.run(acopy_all(*savers))

        graph = coloured(counter(1).compile(checkpointer=saver))
        threads = [f"t{n}" for n in range(3)]
        for thread in threads:
            graph.invoke({"count": 0, "log": [thread]}, on(thread))
        elsewhere = InMemorySaver()
        report = copied(saver, elsewhere)
        assert (report.copied, report.unchanged, report.is_complete) == (3, 0, True)
        graph.invoke({"count": 0, "log": ["more"]}, on("t1"))
        elsewhere.delete_thread("t2")
        report = copied(saver, elsewhere)
        assert (report.copied, report.unchanged, sorted(report.refused)) == (1, 1, ["t1"])
        assert isinstance(report.refused["t1"], ThreadExists)
        back = copied(elsewhere, saver)
        assert (back.copied, back.unchanged, sorted(back.refused)) == (0, 2, ["t1"])

    def test_P29_a_running_thread_is_refused(self, saver: Any, calls: Any) -> None:
        writer = Writer.over(saver)
        first = writer.row()
        writer.commit("take", first)
        with pytest.raises(ThreadBusy) as refused:
            calls.copy_thread("t", "copy")
        assert refused.value.holder["run_id"] == "run"
        writer.commit("release", writer.row(first))
        assert calls.copy_thread("t", "copy").checkpoints == 2
