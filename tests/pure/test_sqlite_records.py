"""Rows go into a SQLite database and come back as they were, in both colours."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from perdure.backends.sqlite import loading
from perdure.backends.sqlite.connections import SharedSqlite, open_sqlite
from perdure.backends.sqlite.records import SqliteRecords
from perdure.bridge import run_blocking
from perdure.checkpoint.records import (
    ANSWERS,
    PAUSES,
    RESULT,
    CheckpointRow,
    ChildRow,
    Commit,
    Entry,
    Holder,
    Packed,
    Pending,
    RecordStore,
    ThreadUpdate,
    ValueRow,
    WriteItem,
    WriteRow,
)
from perdure.checkpoint.rows import checkpoint_row
from perdure.errors import CorruptRecord, SaveFailed
from perdure.ids import checkpoint_id
from perdure.testing.clock import ManualClock

NOW = 1_700_000_000_000_000_000
SECOND = 1_000_000_000
TICKS = 139_000_000_000_000_000


class Store:
    """A record store of one colour, called like plain functions."""

    def __init__(self, records: RecordStore, drive: Callable[[Coroutine[Any, Any, Any]], Any]) -> None:
        self.records = records
        self.drive = drive

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self.records, name)
        return lambda *args, **kwargs: self.drive(method(*args, **kwargs))


def blocking(shared: SharedSqlite) -> Store:
    return Store(SqliteRecords(shared.blocking()), run_blocking)


@pytest.fixture
def host() -> ManualClock:
    """The clock of the machine, by which leases run out."""
    return ManualClock(NOW)


@pytest.fixture
def shared(tmp_path: Path, host: ManualClock) -> Iterator[SharedSqlite]:
    shared = open_sqlite(tmp_path / "threads.db", synchronous="normal", host_clock=host)
    yield shared
    shared.close()


@pytest.fixture(params=["blocking", "suspending"])
def store(request: pytest.FixtureRequest, shared: SharedSqlite) -> Iterator[Store]:
    if request.param == "blocking":
        yield blocking(shared)
        return
    with asyncio.Runner() as runner:
        yield Store(SqliteRecords(shared.suspending()), runner.run)


def commit(thread: str = "t", *, lease: Any = "once", **fields: Any) -> Commit:
    """A commit with defaults that fit a new thread."""
    given: dict[str, Any] = {
        "thread": thread,
        "incarnation": 1,
        "lease": lease,
        "token": None if lease == "once" else "secret",
        "epoch": 1,
        "expect_head": None,
        "now_ns": NOW,
        "lease_ns": 30 * SECOND,
    }
    return Commit(**given | fields)


def row(n: int, parent: int | None = None, *, base: int | None = None, ns: int = 0, **fields: Any) -> CheckpointRow:
    """A checkpoint; full unless it has a base."""
    given: dict[str, Any] = {
        "n": n,
        "ns": ns,
        "id": checkpoint_id(TICKS + n, n),
        "parent": parent,
        "base": n if base is None else base,
        "step": n,
        "source": "loop",
        "changes": {},
        "full": base is None,
    }
    return CheckpointRow(**given | fields)


def fill(store: Store, rows: list[CheckpointRow], thread: str = "t", **fields: Any) -> None:
    """Make a thread of these rows in one commit."""
    last = max(row.n for row in rows)
    store.commit(commit(thread, checkpoints=rows, head=rows[-1].n, next_n=last + 1, **fields))


# ----------------------------------------------------------------------------------------------------------------- round trips


def test_every_kind_of_row_comes_back(store: Store) -> None:
    big = Packed("b", b"\x00big" * 1000)
    first = row(
        1,
        source="input",
        changes={"a": Entry(1, Packed("i", b"\x01")), "gone": Entry(1, Packed("i", b"\x02"))},
        frontier=(Pending("#0", 1), Pending("agent", 1, ("branch:agent", "é"))),
        metadata={"user": "zoë", "k": 1},
    )
    second = row(
        6,
        1,
        base=1,
        changes={"big": Entry(6, None, 5), "gone": None},
        frontier=(Pending("tools", 6, ("agent",)),),
        ran=(Pending("agent", 1, ("agent",)),),
        joins={"join": ("left", "right")},
        deferred=(Pending("later", 1, ()),),
        extra={"pending_sends": [1, "two", None]},
    )
    writes = [
        WriteRow(0, 1, "agent", RESULT, (WriteItem("a", Packed("i", b"\x05")), WriteItem("big", None, 5))),
        WriteRow(0, 6, "tools", PAUSES, (WriteItem("p", Packed("s", b"q")),)),
        WriteRow(0, 6, "!outside", 7, (WriteItem("x", Packed("n", b"")),)),
        WriteRow(0, 1, "later", ANSWERS, ()),
    ]
    unrelated = WriteRow(0, 4, "else", RESULT, ())
    child = ChildRow(0, 6, "tools", 0, 3, 4)
    store.commit(
        commit(
            "thread/é\x00%",
            checkpoints=[first, second, row(4, ns=3)],
            values=[ValueRow(5, big), ValueRow(2, Packed("unused", b"x"))],
            writes=[*writes, unrelated],
            namespaces=[(3, "tools")],
            children=[child],
            head=6,
            next_n=7,
            newest=TICKS + 6,
            update=ThreadUpdate("interrupted", "graph", "f1", {"tenant": "é"}),
        )
    )

    loaded = store.load("thread/é\x00%", "", None)
    thread = loaded.thread
    assert (thread.thread, thread.head, thread.next_n, thread.newest) == ("thread/é\x00%", 6, 7, TICKS + 6)
    assert (thread.status, thread.graph, thread.fingerprint, thread.metadata) == ("interrupted", "graph", "f1", {"tenant": "é"})
    assert (thread.incarnation, thread.created_ns, thread.updated_ns) == (1, NOW, NOW)
    assert (thread.lease.token, thread.lease.epoch, thread.lease.holder) == (None, 1, None)
    assert loaded.row == second
    assert loaded.chain == [first, second]
    assert sorted(loaded.writes, key=repr) == sorted(writes, key=repr)
    assert loaded.children == [child]
    assert loaded.values == {5: big}
    assert loaded.ids == {1: first.id}
    assert loaded.namespaces == {0: "", 3: "tools"}

    inner = store.load("thread/é\x00%", "tools", None)
    assert inner.row == row(4, ns=3)
    assert inner.namespaces == {3: "tools"}


def test_a_checkpoint_is_found_by_id_number_and_place(store: Store) -> None:
    fill(store, [row(1), row(2, 1, base=1), row(3, ns=9), row(4, ns=9), row(5, 2, base=1)], namespaces=[(9, "sub")])
    assert store.load("t", "", None).row.n == 5
    assert store.load("t", "", row(2).id).row.n == 2
    assert store.load("t", "", 1).row.n == 1
    assert store.load("t", "", None, within=4).row.n == 2
    assert store.load("t", "sub", None).row.n == 4
    assert store.load("t", 9, None, within=3).row.n == 3
    assert store.load("t", "", row(3).id).row is None, "it is of another namespace"
    assert store.load("t", "none", None).row is None
    assert store.load("t", "", "nonsense").row is None
    assert store.load("t", "", 77).row is None
    assert store.load("t", "", None, within=0).row is None
    assert store.number_of("t", row(4).id) == 4
    assert store.number_of("t", "nonsense") is None
    assert store.number_of("nobody", row(4).id) is None


def test_ids_need_not_be_uuids(store: Store) -> None:
    ids = ["plain text", row(2).id.upper(), "é"]
    fill(store, [row(n, id=given) for n, given in enumerate(ids, 1)])
    assert [store.load("t", "", given).row.id for given in ids] == ids
    assert store.load("t", "", row(2).id).row is None


def test_a_thread_that_does_not_exist(store: Store) -> None:
    loaded = store.load("nobody", "", None)
    assert (loaded.thread.key, loaded.thread.incarnation, loaded.row) == (None, 1, None)
    assert store.page("nobody", None, before=None, limit=5) == []
    store.delete("nobody")
    store.release("nobody", "token", 1, "idle")
    store.renew([("nobody", "token", 1)], NOW)
    assert store.load("nobody", "", None).thread.incarnation == 1


def test_the_root_follows_its_head_and_not_the_newest(store: Store) -> None:
    rows = [row(1), row(2, 1, base=1), row(3, 1, base=1)]
    store.commit(commit(checkpoints=rows, head=2, next_n=4))
    assert store.load("t", "", None).row.n == 2
    assert store.load("t", "", None, within=9).row.n == 3


def test_a_chain_skips_other_branches(store: Store) -> None:
    # The fork of checkpoint 2 lies behind 500 rows of the main branch: they are not among its ancestors.
    main = [row(1), *(row(n, n - 1, base=1, changes={"m": Entry(n, Packed("i", b""))}) for n in range(2, 503))]
    fork = [row(600, 2, base=1), row(601, 600, base=1, changes={"f": Entry(601, Packed("i", b""))})]
    fill(store, main + fork)
    assert [one.n for one in store.load("t", "", None).chain] == [1, 2, 600, 601]
    assert len(store.load("t", "", 502).chain) == 502


def test_a_torn_chain_is_an_error(store: Store, shared: SharedSqlite) -> None:
    fill(store, [row(1), row(2, 1, base=1), row(3, 2, base=1)])
    shared.run(lambda database: database.execute("DELETE FROM checkpoint WHERE n = 2"))
    with pytest.raises(CorruptRecord, match="ancestor 2"):
        store.load("t", "", None)
    assert store.load("t", "", 1).row.n == 1, "the failed read ended its transaction"


def test_results_stay_and_other_kinds_are_replaced(store: Store) -> None:
    def write(kind: int, text: bytes, path: str = "a") -> WriteRow:
        return WriteRow(0, 1, path, kind, (WriteItem("c", Packed("s", text)),))

    kinds = [RESULT, PAUSES, 5]
    store.commit(commit(lease="take", checkpoints=[row(1)], head=1, next_n=2, writes=[write(k, b"old") for k in kinds]))
    child = ChildRow(0, 1, "a", 0, 3, 4)
    space = [(3, "a")]
    store.commit(commit(lease="keep", writes=[write(k, b"new") for k in kinds], children=[child], namespaces=space))
    loaded = store.load("t", "", None)
    assert {one.kind: one.items[0].packed.data for one in loaded.writes} == {RESULT: b"old", PAUSES: b"new", 5: b"old"}

    moved = child._replace(head=8)
    store.commit(commit(lease="keep", children=[moved], namespaces=space))
    loaded = store.load("t", "", None)
    assert loaded.children == [moved]


def test_numbers_only_grow(store: Store) -> None:
    store.commit(commit(lease="take", next_n=50, newest=900, head=7))
    store.commit(commit(lease="keep", next_n=20, newest=100))
    thread = store.load("t", "", None).thread
    assert (thread.next_n, thread.newest, thread.head) == (50, 900, 7)


def test_a_thread_runs_out_of_numbers_by_name(store: Store) -> None:
    store.commit(commit(values=[ValueRow(2**32 - 1, Packed("b", b"last"))], next_n=2**32))
    with pytest.raises(SaveFailed, match="used up"):
        store.commit(commit("u", next_n=2**32 + 1))
    assert store.load("u", "", None).thread.key is None


def test_rows_of_two_threads_do_not_mix(store: Store) -> None:
    for name in ("a", "b"):
        write = WriteRow(0, 1, "n", RESULT, (WriteItem("v", None, 2),))
        value = ValueRow(2, Packed("s", name.encode()))
        fill(store, [row(1, changes={"v": Entry(1, None, 2)})], name, values=[value], writes=[write])
    assert store.load("a", "", row(1).id).values == {2: Packed("s", b"a")}
    store.delete("a")
    assert store.load("b", "", row(1).id).values == {2: Packed("s", b"b")}


# ----------------------------------------------------------------------------------------------------------------------- pages


def history(store: Store, count: int, spaces: int = 3) -> None:
    """Checkpoints 1 … count, in turn in the root and in some namespaces, each full row followed by partial ones."""
    rows: list[CheckpointRow] = []
    for n in range(1, count + 1):
        older = [one for one in rows if one.ns == n % spaces]
        start = len(older) % 4 == 0
        parent, base = (older[-1].n if older else None), (None if start else older[-1].base)
        changes = {"v": Entry(n, None, n)} if n % 2 else {}
        rows.append(row(n, parent, base=base, ns=n % spaces, changes=changes))
    names = [(ns, f"space {ns}") for ns in range(1, spaces)]
    fill(store, rows, namespaces=names, values=[ValueRow(n, Packed("i", bytes([n]))) for n in range(1, count + 1, 2)])


def test_a_page_is_what_loads_one_by_one_are(store: Store) -> None:
    history(store, 40)
    for namespace in (None, "", "space 1", 2):
        pages = store.page("t", namespace, before=None, limit=100)
        numbers = [one.row.n for one in pages]
        assert numbers == sorted(numbers, reverse=True)
        assert len(numbers) == (40 if namespace is None else len(range(1, 41)[::3]) - (namespace != "space 1"))
        for one in pages:
            assert one == store.load("t", one.row.ns, one.row.n)


def test_pages_follow_each_other(store: Store) -> None:
    history(store, 40)
    before, seen = None, []
    while page := store.page("t", None, before=before, limit=7):
        assert len(page) <= 7
        seen += [one.row.n for one in page]
        before = seen[-1]
    assert seen == list(range(40, 0, -1))
    assert [one.row.n for one in store.page("t", "space 2", before=9, limit=2)] == [8, 5]
    assert store.page("t", "nowhere", before=None, limit=5) == []
    assert store.page("t", None, before=None, limit=0) == []
    assert store.page("t", None, before=1, limit=5) == []


def statements_of(shared: SharedSqlite, call: Callable[[], Any]) -> list[str]:
    seen: list[str] = []
    shared.run(lambda database: database.connection.set_trace_callback(seen.append))
    try:
        call()
    finally:
        shared.run(lambda database: database.connection.set_trace_callback(None))
    return [text for text in seen if not text.startswith("--")]


def test_a_page_takes_few_statements_and_one_does_not_read_the_rest(shared: SharedSqlite, monkeypatch: Any) -> None:
    store = blocking(shared)
    fill(store, [row(1), *(row(n, n - 1, base=1 + (n - 1) // 64 * 64 if (n - 1) % 64 else None) for n in range(2, 1001))])
    assert len(statements_of(shared, lambda: store.load("t", "", None))) <= 8
    assert len(statements_of(shared, lambda: store.page("t", "", before=None, limit=100))) <= 12
    decoded: list[int] = []

    def counted(n: int, *rest: Any) -> CheckpointRow:
        decoded.append(n)
        return checkpoint_row(n, *rest)

    monkeypatch.setattr(loading, "checkpoint_row", counted)
    assert len(store.page("t", None, before=None, limit=1)) == 1
    assert len(decoded) <= 64


# --------------------------------------------------------------------------------------------------------------------- threads


def test_threads_are_listed_by_id(store: Store) -> None:
    names = ["b", "a", "é", "Z", "a/2", "\U0001f600"]
    for name in names:
        store.commit(commit(name, update=ThreadUpdate("idle", metadata={"name": name})))
    listed = store.threads(after=None, limit=10)
    assert [one.thread for one in listed] == sorted(names)
    assert [one.metadata for one in listed] == [{"name": name} for name in sorted(names)]
    assert [one.thread for one in store.threads(after="a", limit=2)] == ["a/2", "b"]
    assert store.threads(after=None, limit=0) == []
    assert store.threads(after="\U0001f600", limit=9) == []


def test_updates_change_what_they_name(store: Store) -> None:
    store.commit(commit(lease="take", update=ThreadUpdate("busy", "g", "f", {"a": 1})))
    store.commit(commit(lease="keep", now_ns=NOW + 5))
    assert store.load("t", "", None).thread.updated_ns == NOW
    store.commit(commit(lease="release", now_ns=NOW + 9, update=ThreadUpdate("interrupted")))
    thread = store.load("t", "", None).thread
    assert (thread.status, thread.graph, thread.fingerprint, thread.metadata) == ("interrupted", "g", "f", {"a": 1})
    assert (thread.created_ns, thread.updated_ns) == (NOW, NOW + 9)


def test_a_broken_commit_stores_nothing(store: Store, shared: SharedSqlite) -> None:
    fill(store, [row(1)])
    taken: dict[str, Any] = {"first_n": 2, "expect_head": 1, "epoch": 2, "next_n": 9}
    write = WriteRow(0, 1, "a", RESULT, ())
    with pytest.raises(sqlite3.IntegrityError):
        store.commit(commit(checkpoints=[row(3), row(1)], values=[ValueRow(4, Packed("b", b""))], writes=[write], **taken))
    assert not shared.run(lambda database: database.connection.in_transaction)
    loaded = store.load("t", "", None)
    assert (loaded.thread.next_n, loaded.thread.lease.epoch, loaded.writes) == (2, 1, [])
    assert store.load("t", "", 3).row is None


def test_a_failed_first_commit_leaves_no_key_behind(store: Store) -> None:
    # The database gives the key of the rolled back thread to the next one: nothing may remember it.
    with pytest.raises(sqlite3.IntegrityError):
        store.commit(commit("a", lease="take", checkpoints=[row(1), row(1)]))
    store.commit(commit("b", lease="take", checkpoints=[row(1)], head=1, next_n=2))
    store.commit(commit("a", lease="take", token="other"))
    store.commit(commit("a", lease="keep", token="other", checkpoints=[row(1)], head=1, next_n=2))
    assert [store.load(name, "", None).row.n for name in "ab"] == [1, 1]


def test_what_the_holder_is_comes_back(store: Store) -> None:
    holder = Holder("run-1", "host", "boot", 42, "123", NOW)
    store.commit(commit(lease="take", holder=holder))
    lease = store.load("t", "", None).thread.lease
    assert (lease.token, lease.epoch, lease.expires_ns, lease.holder) == ("secret", 1, NOW + 30 * SECOND, holder)
