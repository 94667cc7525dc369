"""P42: `verify` finds the first record that is missing or altered, up to the head given; a receipt shows a tail that was cut off."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from perdure.bridge import run_blocking
from perdure.checkpoint.integrity.receipt import Receipt
from perdure.checkpoint.integrity.verifying import Verified
from perdure.checkpoint.leases import identity
from perdure.checkpoint.records import ROOT_NS, CheckpointRow, Packed, ValueRow
from perdure.checkpoint.saver import Saver
from perdure.checkpoint.sqlite import SqliteSaver
from perdure.checkpoint.survey import BUDGET, Removal
from perdure.checkpoint.thread_rows import ThreadRows, decoded
from perdure.checkpoint.transfer.port import Arrival, movable
from perdure.checkpoint.upkeep.pinning import single_write
from perdure.clock import SYSTEM_CLOCK
from perdure.errors import InvalidConfig, UnknownCheckpoint, UnknownThread
from tests.promises.retaining import chat, turns
from tests.promises.ways import Ledger, Way, chain, on

KEY = bytes(range(32))


def verify(way: Way, saver: Saver, thread: str = "t", **options: Any) -> Verified:
    found: Verified = way._do(saver, "verify", thread, **options)
    return found


def rows(saver: Saver) -> list[CheckpointRow]:
    """The checkpoints of the root, oldest first."""
    page = run_blocking(saver.blocking().page("t", ROOT_NS, before=None, limit=1000))
    return [one.row for one in reversed(page) if one.row is not None]


def survey(saver: Saver) -> ThreadRows:
    """What all rows of the thread say."""
    return decoded(run_blocking(saver.blocking().rows("t", None, BUDGET)).rows)


def tamper(saver: Saver, **what: Any) -> None:
    """A write that no run would make."""
    loaded = run_blocking(saver.blocking().load("t", ROOT_NS, None))
    run_blocking(saver.blocking().commit(replace(single_write(loaded.thread, SYSTEM_CLOCK.now_ns()), **what)))


def without(saver: Saver, *gone: CheckpointRow) -> None:
    tamper(saver, removed=Removal([(row.ns, row.n) for row in gone]))


@pytest.fixture
def graph(way: Way, saver: Saver) -> Any:
    made = chat(way, saver)
    turns(way, made, 5)
    return made


def test_P42_a_thread_that_nobody_touched_is_sound(way: Way, saver: Saver, graph: Any):
    found = verify(way, saver)
    assert found.ok
    assert (found.problems, found.orphans, found.first) == ((), (), None)
    assert (found.thread, found.checkpoints) == ("t", 15)
    assert verify(way, saver, receipt=found.receipt).receipt == found.receipt
    assert Receipt.of(str(found.receipt)) == found.receipt
    assert len(str(found.receipt)) < 15 * 30 + 200


@pytest.mark.parametrize("at", [0, 6, 13])
def test_P42_a_missing_checkpoint_is_the_first_problem(way: Way, saver: Saver, graph: Any, at: int):
    row = rows(saver)[at]
    without(saver, row)
    found = verify(way, saver)
    assert found.first is not None
    assert (found.first.n, found.first.kind) == (row.n, "missing")


def test_P42_a_missing_value_is_found(way: Way, saver: Saver, graph: Any):
    values = sorted(survey(saver).sizes)
    tamper(saver, removed=Removal(values=[values[2]]))
    first = verify(way, saver).first
    assert first is not None
    assert (first.n, first.kind) == (values[2], "missing")
    assert f"value {values[2]}" in first.what


def test_P42_a_missing_result_is_found_with_a_receipt(way: Way, saver: Saver, graph: Any):
    receipt = verify(way, saver).receipt
    row = next(row for row in rows(saver) if row.ran)
    task = row.ran[0]
    tamper(saver, removed=Removal(writes=[(ROOT_NS, task.origin, task.path, 0)]))
    first = verify(way, saver, receipt=receipt).first
    assert first is not None
    assert (first.n, first.kind, first.checkpoint) == (row.n, "altered", row.id)


ALTERED: dict[str, Callable[[CheckpointRow], CheckpointRow]] = {
    "metadata": lambda row: replace(row, metadata={"approved_by": "nobody"}),
    "what runs next": lambda row: replace(row, frontier=()),
    "the step": lambda row: replace(row, step=99),
    "a key of the state": lambda row: replace(row, changes={**row.changes, "log": None}),
}


@pytest.mark.parametrize("key", [None, KEY], ids=["plain", "keyed"])
@pytest.mark.parametrize("what", ALTERED)
def test_P42_an_altered_checkpoint_is_the_first_that_differs_from_the_receipt(
    way: Way, saver: Saver, graph: Any, what: str, key: bytes | None
):
    receipt = str(verify(way, saver, key=key).receipt)
    row = rows(saver)[6 if what == "what runs next" else 7]
    tamper(saver, replaced=[ALTERED[what](row)])
    assert verify(way, saver, key=key).ok, "its shape is that of a record"
    found = verify(way, saver, receipt=receipt, key=key)
    assert found.first is not None
    assert (found.first.n, found.first.kind, found.first.checkpoint) == (row.n, "altered", row.id)


def test_P42_an_altered_value_is_told_at_the_first_checkpoint_that_has_it(way: Way, saver: Saver, graph: Any):
    receipt = verify(way, saver).receipt
    page = survey(saver)
    n, packed = max(page.values.items())
    swapped = Packed(packed.tag, packed.data[:-3] + bytes(3))
    tamper(saver, removed=Removal(values=[n]))
    tamper(saver, values=[ValueRow(n, swapped)])
    found = verify(way, saver, receipt=receipt)
    assert {problem.kind for problem in found.problems} == {"altered"}
    assert found.first is not None
    assert found.first.checkpoint == rows(saver)[-1].id
    assert verify(way, saver).ok


def test_P42_a_cut_tail_shows_against_a_receipt(way: Way, saver: Saver, graph: Any):
    receipt = verify(way, saver).receipt
    every = rows(saver)
    page = survey(saver)
    writes = [(one.ns, one.origin, one.path, one.kind) for one in page.writes if one.origin >= every[-3].n]
    tamper(saver, removed=Removal([(row.ns, row.n) for row in every[-3:]], writes), head=every[-4].n)
    tamper(saver, removed=Removal(values=[one.n for one in verify(way, saver).orphans]))
    assert verify(way, saver).ok, "nothing in the rows tells that there was another turn"
    found = verify(way, saver, receipt=receipt)
    assert [(problem.n, problem.kind) for problem in found.problems] == [(row.n, "missing") for row in every[-3:]]


def test_P42_an_inserted_checkpoint_shows_against_a_receipt(way: Way, saver: Saver, graph: Any):
    every = rows(saver)
    without(saver, every[-1])
    tamper(saver, head=every[-2].n)
    receipt = verify(way, saver).receipt
    taken = Receipt(
        receipt.thread,
        receipt.incarnation,
        receipt.keyed,
        (*receipt.records[:5], *receipt.records[6:]),
        receipt.digest,
    )
    first = verify(way, saver, receipt=taken).first
    assert first is not None
    assert (first.n, first.kind) == (every[5].n, "altered")
    assert "not in the receipt" in first.what


def test_P42_a_thread_that_went_on_still_fits_its_receipt(way: Way, saver: Saver, graph: Any):
    receipt = verify(way, saver).receipt
    turns(way, graph, 2)
    way.invoke(graph, None, way.history(graph, on())[9].config)
    way.edit(graph, way.history(graph, on())[4].config, {"log": ["edited"]})
    assert verify(way, saver, receipt=receipt).ok


def test_P42_pruning_shows_and_is_allowed_where_it_is_expected(way: Way, saver: Saver, graph: Any):
    receipt = verify(way, saver).receipt
    gone = rows(saver)[:-3]
    saver.prune(keep_last=3)
    found = verify(way, saver, receipt=receipt)
    assert [(problem.n, problem.kind) for problem in found.problems] == [(row.n, "missing") for row in gone]
    assert verify(way, saver, receipt=receipt, pruned=True).ok, "what was kept says what it said"
    turns(way, graph, 1)
    saver.prune(keep_last=1)
    lost = verify(way, saver, receipt=receipt, pruned=True)
    assert [problem.n for problem in lost.problems] == [receipt.records[-1][0]], "the last record of a receipt has to be there"


def test_P42_only_who_knows_the_key_can_make_a_receipt_that_fits(way: Way, saver: Saver, graph: Any):
    receipt = verify(way, saver, key=KEY).receipt
    assert receipt.keyed
    assert verify(way, saver, key=KEY, receipt=receipt).ok
    other = verify(way, saver, key=KEY, receipt=verify(way, saver, key=bytes(32)).receipt)
    assert len(other.problems) == 15
    with pytest.raises(InvalidConfig, match="made with a key"):
        verify(way, saver, receipt=receipt)
    with pytest.raises(InvalidConfig, match="without a key"):
        verify(way, saver, receipt=verify(way, saver).receipt, key=KEY)


def test_P42_records_are_looked_at_up_to_the_head_that_is_given(way: Way, saver: Saver, graph: Any):
    every = rows(saver)
    receipt = verify(way, saver).receipt
    tamper(saver, replaced=[replace(every[9], step=77)])
    without(saver, every[11])
    assert verify(way, saver, checkpoint=every[8].id).checkpoints == 9
    assert verify(way, saver, checkpoint=every[8].id).ok
    assert verify(way, saver, checkpoint=every[10].id).ok
    assert not verify(way, saver, checkpoint=every[12].id).ok
    first = verify(way, saver, receipt=receipt).first
    assert first is not None
    assert first.n == every[9].n


def test_P42_leftovers_are_told_apart_from_damage(way: Way, saver: Saver, graph: Any):
    tamper(saver, values=[ValueRow(1000, Packed("bytes", b"x" * 300))], next_n=1001)
    found = verify(way, saver)
    assert found.ok
    assert [(one.n, one.kind) for one in found.orphans] == [(1000, "orphan")]
    saver.prune(keep_last=100)
    assert verify(way, saver).orphans == ()


def test_P42_a_thread_that_is_still_arriving_is_no_damage(way: Way, saver: Saver, graph: Any):
    """Its rows lie under a key that no thread has, and in SQLite its lease under a negative one."""
    before = verify(way, saver)
    records = movable(saver.blocking())
    thread, travelled = run_blocking(records.rows("t", None, BUDGET))
    assert thread is not None
    arrival = Arrival("token", identity.holder("", SYSTEM_CLOCK.now_ns()), SYSTEM_CLOCK.now_ns())
    run_blocking(records.arrive(arrival))
    run_blocking(records.stage(arrival, travelled))
    if isinstance(saver, SqliteSaver):
        sql = "SELECT count(*) FROM lease WHERE thread_key < 0"
        assert saver._database.run(lambda database: database.execute(sql).fetchone()) == (1,)
    assert verify(way, saver) == before
    assert verify(way, saver, receipt=before.receipt).ok
    with pytest.raises(UnknownThread):
        verify(way, saver, arrival.token)
    way._do(saver, "prune", keep_last=1)
    assert verify(way, saver).checkpoints == 1
    assert verify(way, saver).orphans == ()
    run_blocking(records.admit(arrival, replace(thread, thread="copy")))
    assert replace(verify(way, saver, "copy"), thread="t", receipt=before.receipt) == before


def test_P42_a_thread_may_be_verified_while_a_run_holds_it(way: Way, saver: Saver, ledger: Ledger):
    seen: list[Verified] = []
    graph = chain(
        ("a", ledger.node("a")), ("b", ledger.node("b", lambda: seen.append(saver.verify("t")))), ("c", ledger.node("c"))
    ).compile(checkpointer=saver)
    way.invoke(graph, {"log": []}, on())
    assert seen[0].ok
    assert verify(way, saver, receipt=seen[0].receipt).ok


def test_P42_bad_input_is_refused(way: Way, saver: Saver, graph: Any):
    with pytest.raises(UnknownThread):
        verify(way, saver, "nobody")
    with pytest.raises(UnknownCheckpoint):
        verify(way, saver, checkpoint="none")
    for key in ("text", b"short", secrets.token_bytes(65)):
        with pytest.raises(InvalidConfig, match="16 to 64 bytes"):
            verify(way, saver, key=key)
    for receipt in ("", "perdure-receipt-1:", "perdure-receipt-1:AAAA", 5, "something else"):
        with pytest.raises(InvalidConfig, match="receipt must be"):
            verify(way, saver, receipt=receipt)
    turns(way, graph, 1, "u")
    with pytest.raises(InvalidConfig, match="of thread 't'"):
        verify(way, saver, "u", receipt=verify(way, saver).receipt)


def test_P42_a_thread_that_was_deleted_does_not_fit_its_receipt(way: Way, saver: Saver, graph: Any):
    receipt = verify(way, saver).receipt
    saver.delete_thread("t")
    assert not verify(way, saver, receipt=receipt).ok
    turns(way, graph, 5)
    (problem,) = verify(way, saver, receipt=receipt).problems
    assert "deleted" in problem.what


def test_P42_a_record_that_cannot_be_read_is_told_with_all_others(way: Way, tmp_path: Path):
    with SqliteSaver(tmp_path / "t.db", synchronous="normal") as saver:
        turns(way, chat(way, saver), 5)
        every = rows(saver)
        sql = "UPDATE checkpoint SET body = x'00' WHERE n = ?"
        saver._database.run(lambda database: database.execute(sql, (every[4].n,)))
        without_write = "DELETE FROM checkpoint WHERE n = ?"
        saver._database.run(lambda database: database.execute(without_write, (every[9].n,)))
        problems = verify(way, saver).problems
        found = {problem.n: problem.kind for problem in problems if problem.kind != "broken"}
        assert found == {every[4].n: "altered", every[9].n: "missing"}
        assert problems[0].n == every[4].n
