"""What a retention policy says, and what a plan makes of it: plain functions over rows."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from perdure.checkpoint.records import (
    RESULT,
    CheckpointRow,
    ChildRow,
    Entry,
    Packed,
    Pending,
    ThreadRow,
    WriteItem,
    WriteRow,
)
from perdure.checkpoint.retention import Pruned, Retention, chosen, nodes_of, rule_for
from perdure.checkpoint.rows import checkpoint_body, pack_id, write_body
from perdure.checkpoint.thread_rows import ThreadRows, decoded
from perdure.checkpoint.transfer.raw import CHECKPOINT, WRITE, RawRow
from perdure.checkpoint.upkeep.retention_plan import Outline, batches, count, everything, plan
from perdure.errors import CorruptRecord
from perdure.ids import checkpoint_id, ticks_of

SECOND = 10**9


def row(n: int, parent: int | None = None, *, ns: int = 0, base: int | None = None, **fields: Any) -> CheckpointRow:
    """A checkpoint made `n` seconds after the epoch; full unless it has a base."""
    full = base is None
    given: dict[str, Any] = {"changes": {"v": Entry(n, None, 100 + n)}, "source": "loop", "step": n}
    public = checkpoint_id(ticks_of(n * SECOND), n)
    return CheckpointRow(n=n, ns=ns, id=public, parent=parent, base=base or n, full=full, **given | fields)


def outline(*rows: CheckpointRow, head: int, **survey: Any) -> Outline:
    thread = ThreadRow("t", "t", head=head, next_n=1000)
    made = Outline(thread)
    sizes = {100 + one.n: 10 for one in rows}
    made.add(ThreadRows(checkpoints=[*rows], checkpoint_sizes=[50] * len(rows), sizes=sizes, **survey))
    return made


def line(count: int, full_every: int = 100) -> list[CheckpointRow]:
    rows: list[CheckpointRow] = []
    for n in range(1, count + 1):
        full = (n - 1) % full_every == 0
        rows.append(row(n, n - 1 or None, base=None if full else rows[-1].base))
    return rows


def test_a_namespace_is_named_by_its_nodes():
    assert nodes_of("") == ""
    assert nodes_of("outer:1ef-2|inner:1f0") == "outer|inner"
    assert nodes_of("memory") == "memory"


def test_the_last_rule_that_names_a_namespace_counts():
    every, sub, again = (
        Retention(keep_last=5),
        Retention(keep_last=2, namespaces=["a"]),
        Retention(keep_last=3, namespaces=["a", ""]),
    )
    rules = (sub, every, again, Retention(thread_ttl=5))
    assert rule_for("b:1", rules) is every
    assert rule_for("a:1", rules) is again
    assert rule_for("", rules) is again
    assert rule_for("a:1|b:2", rules) is every
    assert rule_for("b", (sub,)) is None
    assert rule_for("a:1", (sub, every)) is sub


def test_what_is_kept_is_the_last_and_the_young():
    rows = [(one.n, one.id) for one in line(10)]
    assert chosen(rows, None, 0) == set(range(1, 11))
    assert chosen(rows, Retention(keep_last=3), 0) == {8, 9, 10}
    assert chosen(rows, Retention(keep_last=99), 0) == set(range(1, 11))
    assert chosen(rows, Retention(older_than=4), 12 * SECOND) == {8, 9, 10}
    assert chosen(rows, Retention(older_than=timedelta(seconds=4), keep_last=5), 12 * SECOND) == {6, 7, 8, 9, 10}
    assert chosen([(1, "no time in it"), (2, rows[1][1])], Retention(older_than=1), 99 * SECOND) == {1}


def test_kept_rows_get_the_nearest_kept_ancestor_and_a_base_that_is_kept():
    rows = line(10)
    made = plan(outline(*rows, head=10, branches={"old": 4, "older": 2}), [Retention(keep_last=2)], 0)
    assert made.kept == {2, 4, 9, 10}
    rewritten = {one.n: one for step in made.steps for one in step.rewrites}
    assert {n: (one.parent, one.base, one.full) for n, one in rewritten.items()} == {
        2: (None, 2, True),
        4: (2, 4, True),
        9: (4, 9, True),
        10: (9, 9, False),
    }
    assert [step.gone or tuple(one.n for one in step.rewrites) for step in made.steps] == [
        (9, 10), (0, 8), (0, 7), (0, 6), (0, 5), (4,), (0, 3), (2,), (0, 1),
    ]  # fmt: skip


def test_what_is_counted_are_the_bytes_that_are_stored():
    made = plan(outline(*line(10), head=10), [Retention(keep_last=4)], 0)
    assert (made.pruned.checkpoints, made.pruned.values, made.pruned.bytes) == (6, 6, 6 * 50 + 6 * 10)


def test_rows_count_as_they_were_read_and_not_as_they_would_be_written_today():
    def wide(body: bytes) -> bytes:
        assert body[0] >> 4 == 9, "an array with a head of one byte; this gives it one of three"
        return b"\xdc\x00" + bytes([body[0] & 15]) + body[1:]

    checkpoint, write = row(1), WriteRow(0, 1, "a", RESULT, (WriteItem("k", Packed("null", b"")),))
    bodies = wide(checkpoint_body(checkpoint)), wide(write_body(write.items))
    made = Outline(ThreadRow("t", "t", head=1, next_n=1000))
    made.add(
        decoded([RawRow(CHECKPOINT, (0, 1, pack_id(checkpoint.id)), bodies[0]), RawRow(WRITE, (0, 1, "a", RESULT), bodies[1])])
    )
    assert made.nodes[1].bytes == len(bodies[0]) == len(checkpoint_body(checkpoint)) + 2
    assert [one.bytes for one in made.writes.values()] == [len(bodies[1])]
    gone = Pruned()
    count(gone, made, everything(made))
    assert gone.bytes == len(bodies[0]) + len(bodies[1])


def test_rows_below_a_full_one_that_stays_are_left_as_they_are():
    made = plan(outline(*line(12, full_every=4), head=12), [Retention(keep_last=4)], 0)
    rewritten = [one for step in made.steps for one in step.rewrites]
    assert [(one.n, one.parent, one.base, one.full) for one in rewritten] == [(9, None, 9, False)]


def test_a_full_row_that_is_made_anew_needs_the_values_of_the_whole_chain():
    rows = [
        row(1, changes={"a": Entry(1, None, 101), "b": Entry(1, None, 102)}),
        row(2, 1, base=1, changes={"b": Entry(2, None, 103), "c": Entry(2, None, 104)}),
        row(3, 2, base=1, changes={"c": None}),
    ]
    made = outline(*rows, head=3)
    made.sizes = dict.fromkeys(range(101, 106), 7)
    found = plan(made, [Retention(keep_last=1)], 0)
    assert found.removed.values == [102, 104, 105]
    assert found.pruned.values == 3


def test_the_newest_checkpoint_of_a_namespace_stays():
    """A subgraph that remembers: the head was made on an old checkpoint, so what it remembers is not the newest."""
    old, new = row(10, ns=5), row(20, 10, ns=5)
    rows = [row(1), row(11, 1, memories={"sub": 10}), row(21, 11, memories={"sub": 20}), row(30, 11, memories={"sub": 10})]
    made = plan(outline(*rows, old, new, head=30, namespaces={5: "sub"}), [Retention(keep_last=1)], 0)
    assert made.kept == {30, 10, 20}
    assert made.removed.namespaces == []


def test_a_subgraph_stays_as_long_as_its_task_may_run_again():
    rows = [row(1, frontier=(Pending("sub", 1),)), row(9, 1, ran=(Pending("sub", 1, ("sub",)),))]
    inner = [row(n, n - 1 if n > 3 else None, ns=2) for n in range(3, 9)]
    survey: Any = {"namespaces": {2: "sub:x"}, "children": [ChildRow(0, 1, "sub", 0, 2, 8)]}
    ended = plan(outline(*rows, *inner, head=9, **survey), [Retention(keep_last=1)], 0)
    assert ended.kept == {9}
    assert (ended.removed.children, ended.removed.namespaces) == ([(0, 1, "sub", 0)], [2])
    runs = plan(outline(rows[0], *inner, head=1, **survey), [Retention(keep_last=1)], 0)
    assert runs.kept == {1, 8}
    both = plan(outline(*rows, *inner, head=9, **survey), [Retention(keep_last=3)], 0)
    assert both.kept == {1, 9, 6, 7, 8}
    only = plan(outline(*rows, *inner, head=9, **survey), [Retention(keep_last=1, namespaces=["sub"])], 0)
    assert only.kept == {1, 9, 8}


def test_what_was_gone_on_from_is_still_known_to_have_been():
    rows = [row(1), row(2, 1), row(3, 2), row(4, 1), row(5, 4)]
    made = plan(outline(*rows, head=5, branches={"left": 2}), [Retention(keep_last=1)], 0)
    assert made.kept == {2, 3, 5}, "3 was made of the tip of the branch"


def test_batches_are_of_about_the_size_that_is_asked_and_hold_everything_once():
    made = plan(outline(*line(50), head=50, branches={"old": 20}), [Retention(keep_last=5)], 0)
    for size in (1, 3, 7, 1000):
        parts = [*batches(made, size)]
        gone = [n for _, removed in parts for _, n in removed.checkpoints]
        assert sorted(gone) == [n for n in range(1, 46) if n != 20]
        assert [n for _, removed in parts for n in removed.values] == made.removed.values
        assert {one.n for rewrites, _ in parts for one in rewrites} == {20, 46, 47, 48, 49, 50}
        biggest = max(len(rewrites) + sum(map(len, removed[:5])) for rewrites, removed in parts)
        assert biggest <= size + 5
    assert len(parts) == 1


def test_a_checkpoint_that_cannot_be_read_is_not_made_a_full_one():
    rows = line(5)
    del rows[1]
    with pytest.raises(CorruptRecord, match="missing"):
        plan(outline(*rows, head=5), [Retention(keep_last=1)], 0)
