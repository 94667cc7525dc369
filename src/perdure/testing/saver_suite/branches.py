"""Named branches over a saver: rows that move with commits, and graphs that run on them (P25)."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.checkpoint.records import BranchName, BranchRow, ChildRow
from perdure.errors import UnknownBranch
from perdure.testing.saver_suite.colours import Suite
from perdure.testing.saver_suite.graphs import Coloured, counter, on
from perdure.testing.saver_suite.records import Store
from perdure.testing.saver_suite.rows import Writer, entry


class BranchRecordSuite(Store):
    """The part of the record contract that is about branches."""

    def test_P25_a_name_addresses_a_checkpoint_and_moves_with_commits(self, records: Any, writer: Writer) -> None:
        first = writer.row(changes={"n": entry(1)})
        second = writer.row(first)
        writer.commit("once", first, second, branches=[BranchRow("one", first.n), BranchRow("two", second.n)])
        assert records.branches("t") == {"one": first.id, "two": second.id}
        assert records.load("t", 0, BranchName("one")).row == first
        assert records.load("t", "", BranchName("two")).row == second
        third = writer.row(first)
        writer.commit("once", third, branches=[BranchRow("one", third.n)])
        assert records.load("t", 0, BranchName("one")).row == third
        assert records.load("t", 0, None).row == third
        writer.commit("once", branches=[BranchRow("two", None)])
        assert records.branches("t") == {"one": third.id}
        assert records.load("t", 0, BranchName("two")).row is None

    def test_P25_names_are_text_and_belong_to_one_thread(self, records: Any, writer: Writer) -> None:
        first = writer.row()
        names = ["\u540d", "a'b", "%", "A", "a"]
        writer.commit("once", first, branches=[BranchRow(name, first.n) for name in names])
        assert list(records.branches("t")) == sorted(names)
        assert records.branches("other") == {}
        assert records.load("other", 0, BranchName("a")).row is None
        assert records.load("t", 0, BranchName("no")).row is None
        assert records.load("t", 0, BranchName("no")).thread.head == first.n
        records.delete("t")
        assert records.branches("t") == {}

    def test_P25_what_was_made_of_a_checkpoint(self, records: Any, writer: Writer) -> None:
        ns = writer.numbers.take()
        first = writer.row()
        rows = [writer.row(first), writer.row(first)]
        below = [writer.row(ns=ns)]
        below.append(writer.row(below[0], ns=ns))
        last = writer.row(rows[0])
        writer.commit("once", first, *rows, *below, last, namespaces=[(ns, "sub")])
        assert records.made_of("t", first.id) == [("", row.id) for row in rows]
        assert records.made_of("t", rows[0].id) == [("", last.id)]
        assert records.made_of("t", below[0].id) == [("sub", below[1].id)]
        assert records.made_of("t", last.id) == []
        assert records.made_of("t", "no") == []
        assert records.made_of("no", first.id) == []

    def test_P27_several_checkpoints_are_read_in_one_go(self, records: Any, writer: Writer) -> None:
        ns = writer.numbers.take()
        first = writer.row(changes={"n": entry(1, 5)})
        second = writer.row(first, changes={"m": entry(2)})
        child = writer.row(ns=ns, changes={"k": entry(3)})
        pointer = ChildRow(0, second.n, "sub", 0, ns, child.n)
        writer.commit("once", first, second, child, namespaces=[(ns, "sub:1")], children=[pointer])
        places = [(ns, child.n), (0, second.n), (0, first.n), (0, 999)]
        found = {loaded.row.n: loaded for loaded in records.several("t", places)}
        assert set(found) == {first.n, second.n, child.n}
        for (space, n), one in (((ns, child.n), found[child.n]), ((0, second.n), found[second.n])):
            alone = records.load("t", space, n)
            assert (one.row, one.chain, one.children, one.namespaces) == (
                alone.row,
                alone.chain,
                alone.children,
                alone.namespaces,
            )
        assert records.several("t", []) == []
        assert records.several("no", places) == []

    def test_P20_the_pointer_to_a_checkpoint(self, records: Any, writer: Writer) -> None:
        ns = writer.numbers.take()
        root = writer.row()
        below = [writer.row(ns=ns)]
        for _ in range(3):
            below.append(writer.row(below[-1], ns=ns))
        pointers = [ChildRow(0, root.n, name, 0, ns, below[at].n) for name, at in (("first", 1), ("second", 3))]
        writer.commit("once", root, *below, namespaces=[(ns, "sub")], children=pointers)
        reached = [records.pointer_to("t", ns, row.n) for row in below]
        assert [each.path for each in reached] == ["first", "first", "second", "second"]
        assert records.pointer_to("t", ns, below[-1].n + 1) is None
        assert records.pointer_to("t", 0, root.n) is None
        assert records.pointer_to("no", ns, 1) is None


class BranchSuite(Suite):
    """Graphs on named branches."""

    def test_P25_two_lines_go_on_side_by_side(self, saver: Any, coloured: Coloured) -> None:
        graph = coloured(counter(1).compile(checkpointer=saver))
        graph.invoke({"count": 0, "log": ["start"]}, on())
        left, right = (graph.name_branch(on(), name) for name in ("left", "right"))
        for turn in range(2):
            graph.invoke({"count": 0, "log": [f"l{turn}"]}, left)
            graph.invoke({"count": 0, "log": [f"r{turn}"]}, right)
        graph.update_state(left, {"log": ["edit"]})
        assert graph.get_state(left).values["log"] == ["start", 0, "l0", 0, "l1", 0, "edit"]
        assert graph.get_state(right).values["log"] == ["start", 0, "r0", 0, "r1", 0]
        assert [each.values["log"][-1] for each in graph.get_state_history(right, limit=2)] == [0, "r1"]
        assert graph.branches(on()) == {"left": graph.get_state(left).config, "right": graph.get_state(right).config}
        assert graph.diff(right, left).changed["log"].appended == (6,)
        graph.drop_branch(on(), "left")
        with pytest.raises(UnknownBranch):
            graph.get_state(left)

    def test_P25_children_of_a_checkpoint(self, saver: Any, coloured: Coloured) -> None:
        graph = coloured(counter(1).compile(checkpointer=saver))
        graph.invoke({"count": 0, "log": []}, on())
        tip = graph.get_state(on()).config
        made = [graph.update_state(tip, {"log": [n]}) for n in range(2)]
        assert graph.get_children(tip) == made
