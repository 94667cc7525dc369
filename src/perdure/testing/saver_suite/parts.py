"""The record contract of values that are stored in parts: segments come with whatever refers to them, and who is the newest is told."""

from __future__ import annotations

from typing import Any

from perdure.checkpoint.incremental.manifest import Manifest
from perdure.checkpoint.records import (
    CheckpointRow,
    Entry,
    Have,
    Loaded,
    Packed,
    Pending,
    Record,
    ValueRow,
    WriteItem,
    WriteRow,
)
from perdure.testing.saver_suite.records import Store
from perdure.testing.saver_suite.rows import Writer, packed


def segment(n: int, count: int = 1) -> ValueRow:
    """A segment of so many elements, which say where they are."""
    return ValueRow(n, Packed(f"e{count}", bytes([n % 128]) * count))


def of(row: CheckpointRow, *parts: tuple[int, ...], count: int = 1, free: int = 0, end: int = 0) -> Entry:
    """The entry of a list that is made of these parts."""
    return Entry(row.n, None, None, Manifest("list", count, parts, free, end))  # type: ignore[arg-type]


class PartsSuite(Store):
    """Manifests, records, and `Loaded.is_newest`."""

    def test_P26_segments_are_loaded_with_what_refers_to_them(self, records: Any, writer: Writer) -> None:
        first, second = writer.row(), writer.row()
        second.parent, second.base, second.full = first.n, first.n, False
        start = writer.numbers.reserve(40)
        rows = [segment(start + at, 1 + at % 3) for at in range(40)]
        first.changes = {"log": of(first, (start, start + 9), (start + 11, 1, 1))}
        second.changes = {"log": of(second, (start, start + 9), (start + 20, start + 29))}
        alone = writer.numbers.take()
        items = (WriteItem("x", None, None, Manifest("list", 1, ((start + 35, start + 35),))), WriteItem("y", packed(1)))
        given = Record(
            (
                WriteItem("a", packed(2)),
                WriteItem("b", None, alone),
                WriteItem("c", None, None, Manifest("set", 1, ((start, start),))),
            )
        )
        second.changes["__start__"] = Entry(second.n, None, None, given)
        second.frontier = (Pending("a", second.n),)
        writer.commit(
            "once", first, second, values=[*rows, ValueRow(alone, packed(3))], writes=[WriteRow(0, second.n, "a", 0, items)]
        )
        by_number = dict(rows)
        loaded: Loaded = records.load("t", 0, second.n)
        assert loaded.row == second
        assert loaded.writes[0].items == items
        wanted = {start + at for at in (*range(10), *range(20, 30), 35)}
        assert loaded.values == {**{n: by_number[n] for n in wanted}, alone: packed(3)}, "what is needed and no more"
        page = records.page("t", 0, before=None, limit=9)
        assert [each.values for each in page] == [loaded.values, records.load("t", 0, first.n).values]
        assert set(page[1].values) == {start + at for at in (*range(10), 11)}

    def test_P26_it_is_told_whether_a_checkpoint_with_room_to_append_is_the_newest(self, records: Any, writer: Writer) -> None:
        first = writer.row()
        start = writer.numbers.reserve(64)
        first.changes = {"log": of(first, (start, start), free=start + 1, end=start + 64)}
        writer.commit("once", first, values=[segment(start)], head=first.n)
        assert records.load("t", 0, None).is_newest
        assert records.load("t", 0, first.n).is_newest
        branch = writer.row(first)
        writer.commit("once", branch, head=branch.n)
        assert not records.load("t", 0, first.n).is_newest
        assert records.load("t", 0, branch.id).is_newest, "it has inherited the list"
        ns = writer.numbers.take()
        inner = writer.row(ns=ns)
        inner.changes = {"log": of(inner, (start, start), free=start + 1, end=start + 64)}
        writer.commit("once", inner, namespaces=[(ns, "inner:1")])
        assert records.load("t", ns, None).is_newest
        assert records.load("t", 0, None).is_newest, "of its own namespace"

    def test_P26_what_the_caller_has_is_left_out_of_that_very_checkpoint_only(self, records: Any, writer: Writer) -> None:
        row = writer.row()
        start = writer.numbers.reserve(30)
        alone = writer.numbers.take()
        rows = [*(segment(n) for n in range(start, start + 30)), ValueRow(alone, packed(3))]
        row.changes = {
            "log": of(row, (start, start + 19), count=20),
            "other": of(row, (start + 18, start + 25), count=8),
            "big": Entry(row.n, None, alone),
        }
        row.frontier = (Pending("a", row.n),)
        result = WriteRow(0, row.n, "a", 0, (WriteItem("log", None, None, Manifest("list", 1, ((start + 3, start + 3),))),))
        writer.commit("once", row, values=rows, writes=[result], head=row.n)
        full: Loaded = records.load("t", 0, None)
        assert not full.spared
        have = Have(full.thread.incarnation, row.id, frozenset({"log", "unknown"}))
        for asked in (None, row.n, row.id):
            loaded: Loaded = records.load("t", 0, asked, have=have)
            by_number = dict(rows)
            needed = {start + 3, *range(start + 18, start + 26), alone}
            assert loaded.values == ({n: by_number[n] for n in needed} if loaded.spared else full.values)
            assert (loaded.row, loaded.chain, loaded.writes, loaded.thread) == (row, [row], [result], full.thread)
        for wrong in (have._replace(incarnation=2), have._replace(checkpoint=writer.row().id)):
            loaded = records.load("t", 0, None, have=wrong)
            assert (loaded.values, loaded.spared) == (full.values, False)
        following = writer.row(row)
        writer.commit("once", following, head=following.n)
        loaded = records.load("t", 0, None, have=have)
        assert loaded.row is not None
        assert (loaded.row.n, loaded.spared) == (following.n, False), "the thread has moved on"
        assert loaded.values.keys() == {*range(start, start + 26), alone}
        records.delete("t")
        assert records.load("t", 0, None, have=have).values == {}

    def test_P26_many_ranges_are_read_at_once(self, records: Any, writer: Writer) -> None:
        row = writer.row()
        start = writer.numbers.reserve(3000)
        rows = [segment(n) for n in range(start, start + 3000)]
        row.changes = {f"c{at}": of(row, *((n, n) for n in range(start + at, start + 3000, 100)), count=30) for at in range(50)}
        writer.commit("once", row, values=rows)
        assert records.load("t", 0, None).values == {n: data for n, data in rows if (n - start) % 100 < 50}
