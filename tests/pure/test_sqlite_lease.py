"""Who may write, as the database sees it: every row of the lease's table, in both colours. (P8, P9, P10)"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from perdure.backends.sqlite.connections import SharedSqlite, open_sqlite
from perdure.checkpoint.leases import identity
from perdure.checkpoint.records import RESULT, Packed, StaleLoad, ValueRow, WriteRow
from perdure.errors import LeaseLost, ThreadBusy, ThreadDeleted
from perdure.testing.clock import ManualClock
from tests.pure.test_sqlite_records import NOW, SECOND, Store, blocking, commit, host, row, shared, store

__all__ = ["host", "shared", "store"]


def rows(n: int) -> dict[str, Any]:
    """Some of everything, to see that nothing of it is stored."""
    write = WriteRow(0, n, "a", RESULT, ())
    return {"checkpoints": [row(n)], "values": [ValueRow(n, Packed("b", b""))], "writes": [write], "head": n, "next_n": n + 1}


def counts(shared: SharedSqlite) -> list[int]:
    tables = ("thread", "checkpoint", "value", "write")
    return shared.run(lambda database: [database.execute(f"SELECT count(*) FROM {t}").fetchone()[0] for t in tables])


def test_a_run_takes_keeps_and_releases(store: Store, host: ManualClock):
    store.commit(commit(lease="take", **rows(1)))
    host.advance(5)
    store.commit(commit(lease="keep", **rows(2)))
    assert store.load("t", "", None).thread.lease.expires_ns == NOW + 35 * SECOND
    store.commit(commit(lease="release", **rows(3)))
    thread = store.load("t", "", None).thread
    assert (thread.lease.token, thread.lease.epoch, thread.lease.expires_ns, thread.head) == (None, 1, 0, 3)


def test_once_holds_nothing(store: Store):
    store.commit(commit(lease="once", **rows(1)))
    store.commit(commit(lease="once", epoch=2, expect_head=1, first_n=2, **rows(2)))
    lease = store.load("t", "", None).thread.lease
    assert (lease.token, lease.epoch) == (None, 2)


@pytest.mark.parametrize("op", ["take", "once"])
def test_a_held_thread_is_busy(store: Store, shared: SharedSqlite, op: str):
    store.commit(commit(lease="take", holder=identity.holder("run-7", NOW), **rows(1)))
    before = counts(shared)
    with pytest.raises(ThreadBusy, match="run-7") as caught:
        store.commit(commit(lease=op, token="other", epoch=2, expect_head=1, first_n=2, now_ns=NOW + SECOND, **rows(2)))
    assert caught.value.holder["run_id"] == "run-7"
    assert counts(shared) == before
    store.commit(commit(lease="keep", **rows(2)))


@pytest.mark.parametrize(
    "stale",
    [{"expect_head": None}, {"expect_head": 2}, {"first_n": 1}, {"first_n": 3}, {"incarnation": 2}, {"epoch": 1}],
    ids=str,
)
def test_what_moved_on_is_loaded_again(store: Store, shared: SharedSqlite, stale: dict[str, Any]):
    store.commit(commit(lease="once", **rows(1)))
    before = counts(shared)
    good: dict[str, Any] = {"expect_head": 1, "first_n": 2, "epoch": 2}
    with pytest.raises(StaleLoad):
        store.commit(commit(lease="take", **good | stale, **rows(2)))
    assert counts(shared) == before
    store.commit(commit(lease="take", **good, **rows(2)))


@pytest.mark.parametrize("stale", [{"expect_head": 1}, {"incarnation": 2}], ids=str)
def test_a_thread_that_is_not_there_is_loaded_again(store: Store, stale: dict[str, Any]):
    with pytest.raises(StaleLoad):
        store.commit(commit(lease="take", **stale))


def test_an_expired_lease_is_taken_over_and_the_zombie_refused(store: Store, shared: SharedSqlite, host: ManualClock):
    store.commit(commit(lease="take", token="old", holder=identity.holder("old", NOW), **rows(1)))
    host.advance(30)
    late: dict[str, Any] = {"epoch": 2, "expect_head": 1, "first_n": 2}
    store.commit(commit(lease="take", token="new", **late, **rows(2)))
    before = counts(shared)
    for op in ("keep", "release"):
        with pytest.raises(LeaseLost, match="epoch 2"):
            store.commit(commit(lease=op, token="old", **rows(3)))
    assert counts(shared) == before
    assert store.load("t", "", None).thread.lease.token == "new"
    store.release("t", "old", 1, "error")
    store.renew([("t", "old", 1)], 900 * SECOND)
    thread = store.load("t", "", None).thread
    assert (thread.lease.token, thread.status, thread.lease.expires_ns) == ("new", "idle", NOW + 60 * SECOND)


def test_an_expired_holder_goes_on_while_nobody_took_over(store: Store, host: ManualClock):
    store.commit(commit(lease="take", **rows(1)))
    host.advance(500)
    assert store.load("t", "", None).thread.lease.expired
    store.commit(commit(lease="keep", **rows(2)))
    assert store.load("t", "", None).thread.lease.expires_ns == NOW + 530 * SECOND


def test_another_epoch_of_the_same_token_is_refused(store: Store):
    store.commit(commit(lease="take", **rows(1)))
    with pytest.raises(LeaseLost):
        store.commit(commit(lease="keep", epoch=2))


def test_a_lease_is_taken_over_exactly_as_it_was_seen(store: Store, host: ManualClock):
    store.commit(commit(lease="take", token="old", **rows(1)))
    seen = store.load("t", "", None).thread.lease.mark
    host.advance(1)
    store.renew([("t", "old", 1)], 30 * SECOND)
    take = commit(lease="take", token="new", epoch=2, expect_head=1, first_n=2, over=seen, **rows(2))
    with pytest.raises(ThreadBusy):
        store.commit(take)
    take.over = store.load("t", "", None).thread.lease.mark
    store.commit(take)
    assert store.load("t", "", None).thread.lease.token == "new"


def test_leases_are_renewed_together(store: Store, host: ManualClock):
    for name in "abc":
        store.commit(commit(name, lease="take", token=name))
    host.advance(20)
    store.renew([("a", "a", 1), ("b", "wrong", 1), ("c", "c", 1), ("gone", "x", 1)], 77 * SECOND)
    expires = [store.load(name, "", None).thread.lease.expires_ns for name in "abc"]
    assert expires == [NOW + 97 * SECOND, NOW + 30 * SECOND, NOW + 97 * SECOND]
    store.renew([], 77 * SECOND)


def test_a_renewal_shows_that_the_holder_lives_though_the_clock_was_set_back(store: Store, host: ManualClock):
    store.commit(commit(lease="take"))
    before = store.load("t", "", None).thread.lease
    host.step_back(3600)
    store.renew([("t", "secret", 1)], 30 * SECOND)
    after = store.load("t", "", None).thread.lease
    assert after.mark != before.mark
    assert not after.expired


def test_a_lease_is_given_back_with_a_status(store: Store):
    store.commit(commit(lease="take", holder=identity.holder("r", NOW)))
    store.release("t", "wrong", 1, "error")
    store.release("t", "secret", 2, "error")
    assert store.load("t", "", None).thread.lease.token == "secret"
    store.release("t", "secret", 1, "error")
    thread = store.load("t", "", None).thread
    assert (thread.lease.token, thread.lease.holder, thread.lease.epoch, thread.status) == (None, None, 1, "error")
    assert thread.updated_ns > NOW
    store.commit(commit(lease="take", epoch=2))


# -------------------------------------------------------------------------------------------------------------------- deletion


def test_a_deleted_thread_stays_deleted(store: Store, shared: SharedSqlite):
    store.commit(commit(lease="take", namespaces=[(9, "sub")], **rows(1)))
    store.delete("t")
    assert counts(shared) == [0, 0, 0, 0]
    for op in ("keep", "release"):
        with pytest.raises(ThreadDeleted):
            store.commit(commit(lease=op, **rows(2)))
    loaded = store.load("t", "", None)
    assert (loaded.thread.key, loaded.thread.incarnation, loaded.row) == (None, 2, None)
    with pytest.raises(StaleLoad):
        store.commit(commit(lease="take", **rows(1)))
    assert counts(shared) == [0, 0, 0, 0]


def test_new_input_on_a_deleted_id_is_a_new_incarnation(store: Store):
    for incarnation in (1, 2, 3):
        fresh: dict[str, Any] = {"incarnation": incarnation, "token": f"token {incarnation}"}
        store.commit(commit(lease="take", **fresh, **rows(1)))
        store.commit(commit(lease="keep", **fresh, **rows(2)))
        if incarnation > 1:
            with pytest.raises(ThreadDeleted):
                store.commit(commit(lease="keep", incarnation=1, token="token 1", **rows(3)))
        store.delete("t")
        store.delete("t")
    assert store.load("t", "", None).thread.incarnation == 4


def test_a_late_write_of_the_same_token_does_not_reach_the_new_incarnation(store: Store):
    store.commit(commit(lease="take", **rows(1)))
    store.delete("t")
    store.commit(commit(lease="take", incarnation=2, **rows(1)))
    with pytest.raises(ThreadDeleted):
        store.commit(commit(lease="keep", incarnation=1, **rows(2)))
    assert store.load("t", "", None).thread.next_n == 2


def test_another_connection_sees_the_deletion(shared: SharedSqlite, tmp_path: Path):
    one, other_connection = blocking(shared), open_sqlite(tmp_path / "threads.db")
    other = blocking(other_connection)
    one.commit(commit(lease="take", **rows(1)))
    other.delete("t")
    other.commit(commit(lease="take", incarnation=2, **rows(1)))  # the same token: the key alone has to tell
    with pytest.raises(ThreadDeleted):
        one.commit(commit(lease="keep", **rows(2)))
    other.delete("t")
    with pytest.raises(ThreadDeleted):
        one.commit(commit(lease="keep", **rows(2)))
    other_connection.close()
