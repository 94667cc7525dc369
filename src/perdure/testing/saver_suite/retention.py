"""Retention over a saver: reading all rows of a thread, taking rows away, and graphs that go on from what is left (P28, P42)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from perdure.checkpoint.reading import folded
from perdure.checkpoint.records import (
    PAUSES,
    RESULT,
    BranchRow,
    ChildRow,
    Entry,
    Packed,
    Pending,
    StaleLoad,
    ThreadUpdate,
    ValueRow,
)
from perdure.checkpoint.survey import Removal
from perdure.checkpoint.thread_rows import ThreadRows, decoded
from perdure.checkpoint.transfer.raw import RawRow, place
from perdure.errors import LeaseLost, ThreadBusy, ThreadDeleted
from perdure.testing.saver_suite.colours import Coloured, Suite
from perdure.testing.saver_suite.graphs import counter, on
from perdure.testing.saver_suite.records import Store, write
from perdure.testing.saver_suite.rows import Writer, entry
from perdure.types import Command, interrupt


def all_rows(records: Any, budget: int = 1 << 20, *, contents: bool = False, thread: str = "t") -> ThreadRows:
    """What all rows of a thread say, read in stretches."""
    found: list[RawRow] = []
    while rows := records.rows(thread, place(found[-1]) if found else None, budget, contents=contents).rows:
        found += rows
    return decoded(found)


class RetentionRecordSuite(Store):
    """`rows` without contents, `reclaim`, and what a commit replaces and removes."""

    def some_rows(self, writer: Writer) -> dict[str, Any]:
        """A thread with rows of every kind: a chain of three, a subgraph, a named branch, writes, values."""
        rows = [writer.row(changes={"a": entry(1, 1)})]
        rows.append(writer.row(rows[0], changes={"b": entry(2, 2)}, frontier=(Pending("sub", rows[0].n),)))
        rows.append(writer.row(rows[1], changes={"a": None}))
        ns = writer.numbers.take()
        inner = writer.row(ns=ns)
        values = [ValueRow(writer.numbers.take(), Packed("bytes", bytes([n]) * (300 + n))) for n in range(3)]
        rows[2].changes["big"] = Entry(rows[2].n, None, values[0].n)
        writes = [write(rows[0].n, "sub"), write(rows[0].n, "sub", PAUSES), write(inner.n, "x", ns=ns), write(rows[1].n, "y")]
        child = ChildRow(0, rows[0].n, "sub", 0, ns, inner.n)
        writer.commit(
            "once",
            *rows,
            inner,
            head=rows[2].n,
            values=values,
            writes=writes,
            children=[child],
            namespaces=[(ns, "sub:1")],
            branches=[BranchRow("one", rows[1].n), BranchRow("\u540d", rows[0].n)],
            next_n=writer.numbers.next_n,
        )
        return {"rows": rows, "inner": inner, "ns": ns, "values": values, "writes": writes, "child": child}

    def test_all_rows_are_read_with_and_without_contents_whatever_the_budget(self, records: Any, writer: Writer) -> None:
        made = self.some_rows(writer)
        self.some_rows(Writer(records, "u", clock=writer.clock))
        for budget in (1, 130, 500, 1 << 20):
            found = all_rows(records, budget)
            assert found.namespaces == {made["ns"]: "sub:1"}
            assert found.branches == {"one": made["rows"][1].n, "\u540d": made["rows"][0].n}
            assert found.checkpoints == [*made["rows"], made["inner"]]
            assert found.children == [made["child"]]
            assert sorted(found.writes, key=repr) == sorted(made["writes"], key=repr)
            assert found.sizes == {value.n: len(value.packed.data) for value in made["values"]}
            assert found.values == {}
            whole = all_rows(records, budget, contents=True)
            assert whole.values == dict(made["values"])
            assert replace(whole, values={}) == found

    def test_the_budget_does_not_count_contents_that_are_not_read(self, records: Any, writer: Writer) -> None:
        value = ValueRow(writer.numbers.take(), Packed("bytes", bytes(100_000)))
        after = ValueRow(writer.numbers.take(), Packed("bytes", b"!"))
        writer.commit("once", writer.row(), values=[value, after])
        assert len(records.rows("t", None, 1000).rows) == 1
        assert [row.key for row in records.rows("t", None, 1000, contents=False).rows][:2] == [
            (value.n, "bytes", 100_000),
            (after.n, "bytes", 1),
        ]

    def test_P28_what_is_removed_is_gone_and_the_rest_is_as_it_was(self, records: Any, writer: Writer) -> None:
        made = self.some_rows(writer)
        first, second, third = made["rows"]
        whole = replace(third, parent=None, base=third.n, full=True, changes={"b": entry(2, 2), **third.changes})
        del whole.changes["a"]
        removed = Removal(
            [(0, second.n), (0, first.n), (made["ns"], made["inner"].n)],
            [(0, first.n, "sub", PAUSES), (made["ns"], made["inner"].n, "x", RESULT), (0, second.n, "y", RESULT)],
            [made["child"][:4]],
            [made["ns"]],
            [value.n for value in made["values"][1:]],
        )
        before = records.load("t", 0, None)
        writer.commit(
            "once", replaced=[whole], removed=removed, branches=[BranchRow("one", None), BranchRow("\u540d", None)], update=None
        )
        after = records.load("t", 0, None)
        assert after.row == whole
        assert folded(after.chain) == folded(before.chain)
        assert after.values == before.values
        assert (after.thread.head, after.thread.next_n, after.thread.newest) == (
            third.n,
            before.thread.next_n,
            before.thread.newest,
        )
        assert records.load("t", 0, first.id).row is None
        assert records.load("t", 0, second.n).row is None
        assert records.load("t", "sub:1", None).row is None
        assert records.load("t", made["ns"], None).row is None
        assert [one.row for one in records.page("t", None, before=None, limit=9)] == [whole]
        assert records.number_of("t", first.id) is None
        assert records.pointer_to("t", made["ns"], 1) is None
        assert records.made_of("t", second.id) == []
        found = all_rows(records)
        assert found.checkpoints == [whole]
        assert [each.path for each in found.writes] == ["sub"]
        assert (found.namespaces, found.children, found.branches) == ({}, [], {})
        assert [*found.sizes] == [made["values"][0].n]

    def test_P28_numbers_and_names_of_what_was_removed_can_be_met_again(self, records: Any, writer: Writer) -> None:
        made = self.some_rows(writer)
        inner, ns = made["inner"], made["ns"]
        removed = Removal([(ns, inner.n)], [], [made["child"][:4]], [ns])
        writer.commit("once", removed=removed, update=None)
        writer.commit("once", removed=removed, update=None)  # nothing is there any more, and nothing happens
        again = writer.numbers.take()
        row = writer.row(ns=again)
        writer.commit("once", row, namespaces=[(again, "sub:1")])
        assert records.load("t", "sub:1", None).row == row

    def test_P28_nothing_is_removed_from_a_thread_that_moved_on_or_is_held(self, records: Any, writer: Writer) -> None:
        made = self.some_rows(writer)
        first = made["rows"][0]
        removed = Removal([(0, first.n)], [], [], [], [made["values"][1].n])
        other = Writer(records, clock=writer.clock)
        other.commit("once", update=ThreadUpdate("idle"))
        before = all_rows(records, contents=True)
        with pytest.raises(StaleLoad):
            writer.commit("once", removed=removed)
        writer.load()
        other.commit("take", update=ThreadUpdate("busy"))
        with pytest.raises(ThreadBusy):
            writer.commit("once", removed=removed)
        after = all_rows(records, contents=True)
        assert (after.checkpoints, after.values) == (before.checkpoints, before.values)

    def test_P28_a_thread_that_is_removed_is_deleted(self, records: Any, writer: Writer) -> None:
        self.some_rows(writer)
        late = Writer(records, clock=writer.clock)
        writer.commit("once", removed=Removal(thread=True), update=None)
        assert records.load("t", 0, None).thread.incarnation == 2
        assert records.threads(after=None, limit=5) == []
        assert records.rows("t", None, 1) == (None, [])
        with pytest.raises((StaleLoad, ThreadDeleted, LeaseLost)):
            late.commit("once", late.row())
        writer.load()
        writer.commit("once", writer.row())
        assert records.load("t", 0, None).thread.incarnation == 2

    def test_P28_room_is_given_back_until_there_is_none_left(self, records: Any, writer: Writer) -> None:
        row = writer.row()
        values = [ValueRow(writer.numbers.take(), Packed("bytes", bytes([n]) * 50_000)) for n in range(20)]
        row.changes = {"big": Entry(row.n, None, values[0].n)}
        writer.commit("once", row, values=values)
        writer.commit("once", removed=Removal(values=[value.n for value in values[1:]]), update=None)
        for _ in range(1000):
            freed = records.reclaim(100_000)
            assert freed >= 0
            if freed == 0:
                break
        assert records.reclaim(100_000) == 0
        assert records.load("t", 0, None).values == {values[0].n: values[0].packed}

    def test_P28_rows_of_other_threads_stay(self, records: Any, writer: Writer) -> None:
        made = self.some_rows(writer)
        other = Writer(records, "u", clock=writer.clock)
        self.some_rows(other)
        before = all_rows(records, contents=True, thread="u")
        rows = [*made["rows"], made["inner"]]
        removed = Removal(
            [(row.ns, row.n) for row in rows[:2]],
            [(each.ns, each.origin, each.path, each.kind) for each in made["writes"]],
            [made["child"][:4]],
            [made["ns"]],
            [value.n for value in made["values"]],
        )
        last = replace(rows[2], parent=None, base=rows[2].n, full=True, changes={"b": entry(2, 2)})
        writer.commit("once", replaced=[last], removed=removed, update=None)
        writer.commit("once", removed=Removal(thread=True), update=None)
        assert all_rows(records, contents=True, thread="u") == before


class RetentionSuite(Suite):
    """Graphs whose threads are pruned and verified."""

    def test_P28_a_pruned_thread_goes_on(self, saver: Any, calls: Any, coloured: Any) -> None:
        graph: Coloured = coloured(counter().compile(checkpointer=saver))
        for _ in range(5):
            graph.invoke({"count": 0}, on("t"))
        before = graph.get_state(on("t"))
        counted = calls.prune(keep_last=2, thread="t", dry_run=True)
        assert calls.prune(keep_last=2, thread="t") == counted
        assert counted.checkpoints > 0
        history = [*graph.get_state_history(on("t"))]
        assert len(history) == 2
        assert history[0] == before
        assert calls.verify("t").ok
        assert calls.verify("t").orphans == ()
        graph.invoke({"count": 0}, on("t"))
        assert calls.verify("t").ok

    def test_P28_a_pause_outlasts_pruning(self, saver: Any, calls: Any, coloured: Any) -> None:
        from perdure.graph import START, StateGraph

        builder: Any = StateGraph(dict)
        builder.add_node("ask", lambda state: {"said": interrupt("well?")})
        builder.add_edge(START, "ask")
        graph: Coloured = coloured(builder.compile(checkpointer=saver))
        graph.invoke({"n": 1}, on("t"))
        calls.prune(keep_last=1)
        assert [one.value for one in graph.get_state(on("t")).interrupts] == ["well?"]
        assert graph.invoke(Command(resume="yes"), on("t"))["said"] == "yes"

    def test_P42_a_receipt_shows_that_records_are_gone(self, saver: Any, calls: Any, coloured: Any) -> None:
        graph: Coloured = coloured(counter().compile(checkpointer=saver))
        graph.invoke({"count": 0}, on("t"))
        receipt = str(calls.verify("t").receipt)
        graph.invoke({"count": 0}, on("t"))
        assert calls.verify("t", receipt=receipt).ok
        calls.prune(keep_last=1, thread="t")
        assert [problem.kind for problem in calls.verify("t", receipt=receipt).problems][:1] == ["missing"]
