"""The record contract: rows go in by commits, and come back by `load` and `page` with all that belongs to them."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.checkpoint.index.records import ThreadFilter
from perdure.checkpoint.reading import folded
from perdure.checkpoint.records import (
    ANSWERS,
    ERROR,
    FULL_EVERY,
    PAUSES,
    RESULT,
    CheckpointRow,
    ChildRow,
    Entry,
    Loaded,
    Packed,
    Pending,
    Status,
    ThreadUpdate,
    ValueRow,
    WriteItem,
    WriteRow,
)
from perdure.testing.clock import ManualClock
from perdure.testing.saver_suite.colours import Portal, Records, Suite, close
from perdure.testing.saver_suite.rows import Writer, entry, packed


def write(origin: int, path: str, kind: int = RESULT, value: int = 0, ns: int = 0) -> WriteRow:
    """A write of a task."""
    return WriteRow(ns, origin, path, kind, (WriteItem("n", packed(value)),))


def by_key(rows: list[WriteRow]) -> dict[tuple[int, str, int], WriteRow]:
    """Write rows by what names them."""
    return {(row.origin, row.path, row.kind): row for row in rows}


class Store(Suite):
    """A suite over a record store."""

    @pytest.fixture
    def clock(self) -> ManualClock:
        """The saver's clock."""
        return ManualClock()

    @pytest.fixture
    def records(self, tmp_path: Any, portal: Portal | None, clock: ManualClock) -> Any:
        """The record store in this colour, called like plain functions."""
        saver = self.make_saver(tmp_path, clock=clock)
        yield Records(saver, portal)
        close(saver, portal)

    @pytest.fixture
    def writer(self, records: Any, clock: ManualClock) -> Writer:
        """A run on thread "t"."""
        return Writer(records, clock=clock)


class RecordSuite(Store):
    """`commit`, `load`, `page`, `number_of`, `threads`."""

    # -- rows ---------------------------------------------------------------------------------------------------------------------

    def test_a_thread_that_is_not_there_is_loaded_as_a_new_one(self, records: Any) -> None:
        for namespace in (0, "", "child:1"):
            loaded: Loaded = records.load("t", namespace, None)
            assert loaded.row is None
            assert (loaded.thread.thread, loaded.thread.key, loaded.thread.incarnation) == ("t", None, 1)
            assert (loaded.thread.head, loaded.thread.next_n, loaded.thread.lease.epoch) == (None, 1, 0)
        assert records.load("t", 0, 5).row is None
        assert records.page("t", None, before=None, limit=5) == []
        assert records.number_of("t", "x") is None
        assert records.threads(after=None, limit=5) == []

    def test_every_field_of_a_checkpoint_comes_back(self, records: Any, writer: Writer) -> None:
        first = writer.row(changes={"a": entry(1, 7), "é": Entry(1, Packed("bytes", b"\x00\xff"))}, source="input", step=-1)
        second = writer.row(
            first,
            step=12,
            source="fork",
            changes={"a": None, "b": entry(first.n, 2)},
            frontier=(Pending("#0-9", first.n), Pending("node é", first.n, ("branch:to:x", "join:a+b:c"))),
            ran=(Pending("a", first.n, ("a",)), Pending("=edit", first.n)),
            joins={"join:a+b:c": ("a",)},
            deferred=(Pending("late", first.n, ("a",)),),
            metadata={"user": "adá", "n": 2**40, "f": 1.5, "yes": True, "none": None},
            extra={"checkpoint": {"v": 4, "versions_seen": {"a": {"b": 1}}}, "parent": "elsewhere"},
        )
        writer.commit("once", first, second)
        loaded: Loaded = records.load("t", "", None)
        assert loaded.row == second
        assert loaded.chain == [first, second]
        assert loaded.ids == {first.n: first.id}
        assert folded(loaded.chain) == {"é": Entry(1, Packed("bytes", b"\x00\xff")), "b": entry(first.n, 2)}

    def test_a_checkpoint_is_found_by_id_by_number_and_as_the_newest(self, records: Any, writer: Writer) -> None:
        rows = [writer.row()]
        rows += [writer.row(rows[0]), writer.row(rows[0])]
        writer.commit("once", *rows, head=rows[1].n)
        assert records.load("t", 0, None).row == rows[1], "the head of the root is what the last commit said"
        for row in rows:
            assert records.load("t", 0, row.id).row == row
            assert records.load("t", "", row.n).row == row
            assert records.number_of("t", row.id) == row.n
        assert records.load("t", 0, None, within=rows[2].n).row == rows[2]
        assert records.load("t", 0, None, within=rows[1].n).row == rows[1]
        assert records.load("t", 0, None, within=rows[0].n - 1).row is None
        assert records.load("t", 0, 99).row is None
        assert records.load("t", 0, "no such id").row is None
        assert records.number_of("t", "no such id") is None

    @pytest.mark.parametrize("public", ["a", "not-a-uuid", "1EF663BA-28FE-6528-8002-5A559208592C", "\u540d", "x" * 300])
    def test_ids_are_text_of_any_kind(self, records: Any, writer: Writer, public: str) -> None:
        row = writer.row(id=public)
        writer.commit("once", row)
        assert records.load("t", 0, public).row.id == public
        assert records.number_of("t", public) == row.n
        assert records.number_of("t", public.lower() + " ") is None

    def test_rows_of_one_thread_are_not_seen_in_another(self, records: Any, writer: Writer, clock: ManualClock) -> None:
        row = writer.row(changes={"a": Entry(1, None, 2)})
        writer.commit("once", row, values=[ValueRow(2, packed(1))], next_n=3, writes=[write(row.n, "a")])
        clock.advance(1)
        other = Writer(records, "u", clock=clock)
        twin = other.row(changes={"a": Entry(1, None, 2)})
        other.commit("once", twin, values=[ValueRow(2, packed(9))], next_n=3)
        assert records.load("t", 0, None).values == {2: packed(1)}
        assert records.load("u", 0, None).values == {2: packed(9)}
        assert records.load("u", 0, None).writes == []
        assert records.number_of("u", row.id) is None

    def test_a_commit_may_hold_a_great_many_rows(self, records: Any, writer: Writer) -> None:
        row = writer.row()
        values = [ValueRow(writer.numbers.take(), Packed("bytes", bytes([n % 256]) * 300)) for n in range(1200)]
        row.changes = {f"c{n}": Entry(row.n, None, value.n) for n, value in enumerate(values)}
        row.frontier = (Pending("#0-1199", row.n),)
        writer.commit("once", row, values=values, writes=[write(row.n, f"#{n}", value=n) for n in range(1200)])
        loaded: Loaded = records.load("t", 0, None)
        assert loaded.values == dict(values)
        assert len(by_key(loaded.writes)) == 1200

    def test_a_commit_without_rows_only_moves_the_thread(self, records: Any, writer: Writer) -> None:
        writer.commit("once", writer.row())
        before = records.load("t", 0, None)
        writer.commit("once", update=ThreadUpdate("error"))
        after = records.load("t", 0, None)
        assert (after.row, after.thread.head, after.thread.status) == (before.row, before.thread.head, "error")

    # -- chains, branches, values -------------------------------------------------------------------------------------------------

    def test_P27_chains_longer_than_a_full_row_apart_are_read_from_the_nearest_full_row(
        self, records: Any, writer: Writer
    ) -> None:
        rows: list[CheckpointRow] = []
        expected: list[dict[str, Entry]] = []
        state: dict[str, Entry] = {}
        for step in range(FULL_EVERY * 2 + 20):
            full = step % FULL_EVERY == 0
            row = writer.row(rows[-1] if rows else None, full=full, step=step)
            key = f"k{step % 7}"
            state = {**state, key: entry(row.n, step)}
            if step % 11 == 10:
                state.pop("k0", None)
            row.changes = dict(state) if full else {key: entry(row.n, step)} | ({"k0": None} if step % 11 == 10 else {})
            rows.append(row)
            expected.append(state)
        for at in range(0, len(rows), 30):
            writer.commit("once", *rows[at : at + 30])
        for row, want in [*zip(rows, expected, strict=True)][:: FULL_EVERY // 8]:
            loaded: Loaded = records.load("t", 0, row.n)
            assert folded(loaded.chain) == want, row.step
            assert loaded.chain[0].full
            assert len(loaded.chain) <= FULL_EVERY
        page = records.page("t", 0, before=None, limit=len(rows))
        assert [each.row for each in page] == [*reversed(rows)]
        assert [folded(each.chain) for each in page] == [*reversed(expected)]

    def test_P23_branches_of_one_base_see_only_the_base(self, records: Any, writer: Writer) -> None:
        base = writer.row(changes={"n": entry(1, 0)})
        left = [writer.row(base, changes={"n": entry(2, 1), "left": entry(2, 1)})]
        right = [writer.row(base, changes={"n": entry(3, 2)})]
        for at in range(5):  # the branches' rows lie between each other
            left.append(writer.row(left[-1], changes={"n": entry(0, 10 + at)}))
            right.append(writer.row(right[-1], changes={"right": entry(0, 20 + at)}))
        writer.commit("once", base, *(row for pair in zip(left, right, strict=True) for row in pair))
        found = folded(records.load("t", 0, left[-1].n).chain)
        assert found == {"n": entry(0, 14), "left": entry(2, 1)}
        assert folded(records.load("t", 0, right[-1].n).chain) == {"n": entry(3, 2), "right": entry(0, 24)}
        assert folded(records.load("t", 0, base.n).chain) == {"n": entry(1, 0)}

    def test_large_values_are_shared_by_the_checkpoints_that_refer_to_them(self, records: Any, writer: Writer) -> None:
        big, other = Packed("bytes", b"\x00big" * 100_000), Packed("bytes", b"other" * 100)
        first = writer.row()
        ref, unused = writer.numbers.take(), writer.numbers.take()
        first.changes = {"big": Entry(first.n, None, ref)}
        second = writer.row(first, changes={"n": entry(0, 1)})
        writer.commit("once", first, second, values=[ValueRow(ref, big), ValueRow(unused, other)])
        third = writer.row(second, full=True, changes={"big": Entry(first.n, None, ref), "n": entry(0, 2)})
        writer.commit("once", third)
        for row in (first, second, third):
            loaded: Loaded = records.load("t", 0, row.n)
            assert folded(loaded.chain)["big"] == Entry(first.n, None, ref)
            assert loaded.values == {ref: big}, "what is needed and no more"

    def test_a_value_that_was_replaced_is_not_loaded(self, records: Any, writer: Writer) -> None:
        first = writer.row()
        old, new = writer.numbers.take(), writer.numbers.take()
        first.changes = {"big": Entry(first.n, None, old)}
        second = writer.row(first, changes={"big": Entry(0, None, new)})
        writer.commit("once", first, second, values=[ValueRow(old, packed(1)), ValueRow(new, packed(2))])
        assert records.load("t", 0, second.n).values == {new: packed(2)}
        assert records.load("t", 0, first.n).values == {old: packed(1)}

    # -- writes -------------------------------------------------------------------------------------------------------------------

    def test_P2_a_result_is_written_once_and_the_rest_is_replaced(self, records: Any, writer: Writer) -> None:
        row = writer.row()
        row.frontier = (Pending("a", row.n),)
        writer.commit("once", row)
        for value in (1, 2):
            kinds = (RESULT, ERROR, PAUSES, ANSWERS)
            writer.commit("once", writes=[write(row.n, "a", kind, value) for kind in kinds])
        found = {each.kind: each.items[0].packed for each in records.load("t", 0, None).writes}
        assert found == {RESULT: packed(1), ERROR: packed(2), PAUSES: packed(2), ANSWERS: packed(2)}

    def test_writes_come_with_the_checkpoints_whose_tasks_made_them(self, records: Any, writer: Writer) -> None:
        origin = writer.row()
        early = writer.row(origin)
        middle = writer.row(early)
        tip = writer.row(middle, ran=(Pending("ran", middle.n, ("ran",)),))
        tip.frontier = (Pending("open", origin.n), Pending("#0-2", tip.n))
        tip.deferred = (Pending("late", early.n),)
        rows = [
            write(origin.n, "open", PAUSES),
            write(middle.n, "ran"),
            write(early.n, "late", ERROR),
            *(write(tip.n, path) for path in ("#0", "#2", "!#1", "!~path\x00task")),
        ]
        elsewhere = writer.row(tip)
        writer.commit("once", origin, early, middle, tip, elsewhere, writes=[*rows, write(elsewhere.n, "not mine")])
        found = by_key(records.load("t", 0, tip.n).writes)
        for each in rows:
            assert found[each.origin, each.path, each.kind] == each
        assert not [each for each in found.values() if each.path == "not mine"]
        assert set(records.load("t", 0, tip.n).ids) >= {origin.n, early.n, middle.n}

    def test_writes_may_refer_to_large_values_and_have_many_items(self, records: Any, writer: Writer) -> None:
        row = writer.row()
        ref = writer.numbers.take()
        row.frontier = (Pending("a", row.n),)
        items = (
            WriteItem("big", None, ref),
            WriteItem("é", packed(1)),
            WriteItem("é", packed(2)),
            WriteItem("empty", Packed("null", b"")),
        )
        result = WriteRow(0, row.n, "a", RESULT, items)
        writer.commit("once", row, writes=[result], values=[ValueRow(ref, Packed("bytes", b"x" * 9000))])
        loaded: Loaded = records.load("t", 0, None)
        assert loaded.writes == [result]
        assert loaded.values == {ref: Packed("bytes", b"x" * 9000)}

    # -- namespaces and children ----------------------------------------------------------------------------------------------------

    def test_namespaces_have_numbers_names_and_a_newest_checkpoint(self, records: Any, writer: Writer) -> None:
        root = writer.row()
        names = ["child:1", "child:1|leaf:2", "child:12", "%", "\u540d"]
        numbered = [(writer.numbers.take(), name) for name in names]
        rows = [writer.row(ns=ns) for ns, _ in numbered]
        later = [writer.row(row, ns=row.ns) for row in rows]
        writer.commit("once", root, *rows, *later, namespaces=numbered)
        for (ns, name), first, last in zip(numbered, rows, later, strict=True):
            for address in (ns, name):
                loaded: Loaded = records.load("t", address, None)
                assert loaded.row == last
                assert loaded.namespaces[ns] == name
                assert [each.row for each in records.page("t", address, before=None, limit=9)] == [last, first]
            assert records.load("t", ns, None, within=first.n).row == first
            assert records.load("t", ns, root.n).row is None, "it is a checkpoint of another namespace"
        assert records.load("t", "child:", None).row is None
        assert records.load("t", 0, None).thread.head == root.n
        assert len(records.page("t", None, before=None, limit=99)) == 1 + 2 * len(names)

    def test_a_task_points_to_its_subgraphs_newest_checkpoint(self, records: Any, writer: Writer) -> None:
        root = writer.row()
        root.frontier = (Pending("sub", root.n), Pending("other", root.n))
        ns = writer.numbers.take()
        first = writer.row(ns=ns)
        pointers = [ChildRow(0, root.n, "sub", 0, ns, first.n), ChildRow(0, root.n, "sub", 1, ns, first.n)]
        writer.commit("once", root, first, namespaces=[(ns, "sub:1")], children=pointers)
        loaded: Loaded = records.load("t", 0, None)
        assert sorted(loaded.children) == sorted(pointers)
        assert loaded.namespaces == {0: "", ns: "sub:1"}
        second = writer.row(first, ns=ns)
        moved = ChildRow(0, root.n, "sub", 0, ns, second.n)
        writer.commit("once", second, children=[moved])
        assert sorted(records.load("t", 0, None).children) == sorted([moved, pointers[1]])
        assert records.load("t", ns, moved.head).row == second

    def test_P21_a_pointer_belongs_to_the_checkpoint_where_its_task_was_triggered(self, records: Any, writer: Writer) -> None:
        ns = writer.numbers.take()
        first, child = writer.row(), writer.row(ns=ns)
        first.frontier = (Pending("sub", first.n),)
        pointer = ChildRow(0, first.n, "sub", 0, ns, child.n)
        fork = writer.row(first)
        fork.frontier = (Pending("sub", fork.n),)
        writer.commit("once", first, child, fork, namespaces=[(ns, "sub:1")], children=[pointer])
        assert records.load("t", 0, first.n).children == [pointer]
        assert records.load("t", 0, fork.n).children == []

    # -- pages --------------------------------------------------------------------------------------------------------------------

    def test_a_page_is_newest_first_below_a_number_and_no_longer_than_asked(self, records: Any, writer: Writer) -> None:
        rows = [writer.row()]
        for _ in range(9):
            rows.append(writer.row(rows[-1]))
        writer.commit("once", *rows)
        numbers = [row.n for row in reversed(rows)]

        def page(before: int | None, limit: int) -> list[int]:
            return [each.row.n for each in records.page("t", 0, before=before, limit=limit)]

        assert page(None, 99) == numbers
        assert page(None, 3) == numbers[:3]
        assert page(numbers[2], 3) == numbers[3:6]
        assert page(numbers[-1], 3) == []
        assert page(None, 0) == []
        assert records.page("t", "no such namespace", before=None, limit=3) == []
        assert records.page("u", 0, before=None, limit=3) == []

    def test_a_page_says_of_each_checkpoint_what_a_load_says(self, records: Any, writer: Writer) -> None:
        ns = writer.numbers.take()
        rows, writes, values, children = [writer.row()], [], [], []
        for at in range(8):
            row = writer.row(rows[-1], ran=(Pending("a", rows[-1].n, ("a",)),))
            ref = writer.numbers.take()
            row.changes = {f"c{at}": Entry(row.n, None, ref)}
            row.frontier = (Pending("a", row.n),)
            values.append(ValueRow(ref, packed(at)))
            writes.append(write(row.n, "a", value=at))
            child = writer.row(ns=ns)
            children.append((child, ChildRow(0, row.n, "a", 0, ns, child.n)))
            rows.append(row)
        below = [row for row, _ in children]
        pointers = [pointer for _, pointer in children]
        writer.commit("once", *rows, *below, writes=writes, values=values, children=pointers, namespaces=[(ns, "a:1")])
        for shown in records.page("t", None, before=None, limit=99):
            alone: Loaded = records.load("t", shown.row.ns, shown.row.n)
            assert (shown.row, shown.chain, shown.values, shown.ids) == (alone.row, alone.chain, alone.values, alone.ids)
            assert by_key(shown.writes) == by_key(alone.writes)
            assert sorted(shown.children) == sorted(alone.children)
            assert shown.namespaces == alone.namespaces
            assert shown.thread == alone.thread

    # -- threads --------------------------------------------------------------------------------------------------------------------

    def test_threads_are_paged_by_id(self, records: Any, clock: ManualClock) -> None:
        names = ["b", "a", "d", "c", "aa"]
        for name in names:
            other = Writer(records, name, clock=clock)
            other.commit("once", other.row())
        found: list[str] = []
        after: str | None = None
        while page := records.threads(after=after, limit=2):
            found += [row.thread for row in page]
            after = found[-1]
        assert found == sorted(names)
        assert records.threads(after=None, limit=0) == []

    def test_threads_are_found_by_status_and_by_how_their_ids_begin(self, records: Any, clock: ManualClock) -> None:
        statuses: dict[str, Status] = {
            "a%": "idle",
            "a/1": "interrupted",
            "a/2": "error",
            "a/3": "interrupted",
            "a_": "interrupted",
            "b": "interrupted",
        }
        statuses |= {"a/\U0010ffff": "interrupted", "\ud7ff": "error", "\ue000": "error"}
        for name, status in statuses.items():
            other = Writer(records, name, clock=clock)
            other.commit("once", other.row(), update=ThreadUpdate(status))

        def found(*wanted: Status, prefix: str = "", after: str | None = None, limit: int = 99) -> list[str]:
            rows = records.threads(after=after, limit=limit, wanted=ThreadFilter(statuses=wanted, prefix=prefix))
            assert [row.status for row in rows] == [statuses[row.thread] for row in rows]
            return [row.thread for row in rows]

        assert found() == sorted(statuses)
        assert found("interrupted") == ["a/1", "a/3", "a/\U0010ffff", "a_", "b"]
        assert found("interrupted", "error", prefix="a/") == ["a/1", "a/2", "a/3", "a/\U0010ffff"]
        assert found("interrupted", prefix="a/", after="a/1", limit=1) == ["a/3"]
        assert found(prefix="a_") == ["a_"]
        assert found(prefix="a%") == ["a%"]
        assert found(prefix="a/\U0010ffff") == ["a/\U0010ffff"]
        assert found(prefix="\ud7ff") == ["\ud7ff"]
        assert found(prefix="A") == found("busy") == []

    def test_a_thread_remembers_its_graph_status_and_times(self, records: Any, writer: Writer, clock: ManualClock) -> None:
        began = clock.now_ns()
        update = ThreadUpdate("interrupted", "graph é", "print", {"user": "ada", "n": 1})
        writer.commit("once", writer.row(), update=update)
        clock.advance(5)
        writer.commit("once", writer.row())
        clock.advance(5)
        writer.commit("once", update=None)
        row = records.load("t", 0, None).thread
        assert (row.status, row.graph, row.fingerprint, row.metadata) == ("idle", "graph é", "print", {"user": "ada", "n": 1})
        assert (row.created_ns, row.updated_ns) == (began, began + 5_000_000_000)
        assert records.threads(after=None, limit=5) == [row]

    def test_P24_numbers_and_ids_never_go_back(self, records: Any, writer: Writer, clock: ManualClock) -> None:
        first = writer.row()
        writer.commit("once", first)
        newest = records.load("t", 0, None).thread
        clock.step_back(3600)
        writer.load()
        second = writer.row(first)
        assert (second.n, second.id) > (first.n, first.id)
        assert second.id > first.id
        writer.commit("once", second)
        writer.commit("once", next_n=1, newest=0)
        row = records.load("t", 0, None).thread
        assert row.next_n >= newest.next_n + 1
        assert row.newest > newest.newest

    def test_a_head_moves_only_where_a_commit_says(self, records: Any, writer: Writer) -> None:
        first = writer.row()
        second = writer.row(first)
        writer.commit("once", first, second)
        writer.commit("once", head=first.n)
        assert records.load("t", 0, None).row == first
        writer.commit("once", writer.row(ns=writer.numbers.take()))
        assert records.load("t", 0, None).row == first
