"""The scripts that read: one snapshot each, few statements whatever the length of the history."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from heapq import merge
from itertools import islice, repeat
from typing import Any

from perdure.backends.sqlite import statements as sql
from perdure.backends.sqlite.schema import Database
from perdure.checkpoint.incremental.manifest import merged_spans
from perdure.checkpoint.index.records import RunRow, ThreadFilter
from perdure.checkpoint.reading import ancestors, folded, ids_of, is_open, origins_of, past, spans_of, without
from perdure.checkpoint.records import (
    ROOT_NS,
    BranchName,
    CheckpointRow,
    ChildRow,
    Have,
    LeaseRow,
    Loaded,
    Packed,
    ThreadRow,
    WriteRow,
)
from perdure.checkpoint.rows import (
    checkpoint_row,
    holder_again,
    metadata_again,
    metadata_part,
    pack_id,
    run_row,
    unpack_id,
    write_items,
)
from perdure.errors import CorruptRecord

ANY_NUMBER = (1 << 32) - 1
"""No row has a larger number."""

ANY_EPOCH = (1 << 63) - 1
"""No lease has a larger one."""

WINDOW = 64
"""Rows that are looked at in a row for ancestors, before the next one is sought by its number: another branch may lie between."""


def load(
    database: Database,
    thread_id: str,
    namespace: str | int,
    checkpoint: str | int | BranchName | None,
    within: int | None,
    have: Have | None = None,
) -> Loaded:
    """See `RecordStore.load`."""
    database.execute(sql.BEGIN_READ)
    thread = _thread(database, thread_id)
    loaded = Loaded(thread, None)
    ns = None if thread.key is None else _namespace(database, thread.key, namespace)
    if ns is not None:
        row = _target(database, thread, ns, checkpoint, within)
        if row is None or (have is not None and not have.is_of(thread.incarnation, row.id)):
            have = None
        loaded = Loaded(thread, None) if row is None else _assembled(database, thread, [row], have)[0]
        if row is not None and is_open(folded(loaded.chain).values()):
            loaded.is_newest = database.execute(sql.IS_NEWEST, (thread.key, ns)).fetchone()[0] == row.n
    database.execute(sql.COMMIT)
    return loaded


def several(database: Database, thread_id: str, places: Sequence[tuple[int, int]]) -> list[Loaded]:
    """See `RecordStore.several`."""
    database.execute(sql.BEGIN_READ)
    thread = _thread(database, thread_id)
    rows: list[CheckpointRow] = []
    if thread.key is not None:
        found = database.execute(sql.CHECKPOINTS, (_pairs(places), thread.key)).fetchall()
        rows = [_decoded(row) for row in found]
    loaded = _assembled(database, thread, rows) if rows else []
    database.execute(sql.COMMIT)
    return loaded


def page(database: Database, thread_id: str, namespace: str | int | None, before: int | None, limit: int) -> list[Loaded]:
    """See `RecordStore.page`."""
    last = ANY_NUMBER if before is None else before - 1
    database.execute(sql.BEGIN_READ)
    thread = _thread(database, thread_id)
    rows: list[CheckpointRow] = []
    if thread.key is not None and limit > 0:
        if namespace is None:
            rows = _newest_of_all(database, thread.key, last, limit)
        elif (ns := _namespace(database, thread.key, namespace)) is not None:
            rows = list(_newest(database, thread.key, ns, last, limit))
    loaded = _assembled(database, thread, rows) if rows else []
    database.execute(sql.COMMIT)
    return loaded


def number_of(database: Database, thread_id: str, checkpoint: str) -> int | None:
    """See `RecordStore.number_of`."""
    row = database.execute(sql.NUMBER_OF, (thread_id, pack_id(checkpoint))).fetchone()
    return None if row is None else int(row[0])


def pointer_to(database: Database, thread_id: str, namespace: int, n: int) -> ChildRow | None:
    """Which task's subgraph reached checkpoint `n` of a namespace. See `RecordStore.pointer_to`."""
    row = database.execute(sql.POINTER_TO, (thread_id, namespace, n)).fetchone()
    return None if row is None else ChildRow(*row)


def branches(database: Database, thread_id: str) -> dict[str, str]:
    """See `RecordStore.branches`."""
    return {name: unpack_id(packed) for name, packed in database.execute(sql.BRANCHES, (thread_id,))}


def made_of(database: Database, thread_id: str, checkpoint: str) -> list[tuple[str, str]]:
    """See `RecordStore.made_of`."""
    found: list[tuple[str, str]] = []
    parent: int | None = None
    for name, n, ns, packed_id, body in database.execute(sql.FROM_CHECKPOINT, (thread_id, pack_id(checkpoint))):
        row = checkpoint_row(n, ns, packed_id, body)
        if parent is None:
            parent = n  # the first is the checkpoint itself
        elif row.parent == parent:
            found.append((name or "", row.id))
    return found


def threads(database: Database, after: str | None, limit: int, wanted: ThreadFilter) -> list[ThreadRow]:
    """See `IndexPort.threads`."""
    found = _listed(database, (sql.AFTER, after), wanted, limit, by_time=False)
    return list(islice(merge(*found, key=lambda row: row.thread), limit))


def recent(database: Database, before: tuple[int, str] | None, limit: int, wanted: ThreadFilter) -> list[ThreadRow]:
    """See `IndexPort.recent`."""
    found = _listed(database, (sql.OLDER, before), wanted, limit, by_time=True)
    return list(islice(merge(*found, key=lambda row: (row.updated_ns, row.thread), reverse=True), limit))


def _conditions(wanted: ThreadFilter) -> list[tuple[str, Any]]:
    """Conditions and what each compares with; None: there is no such condition."""
    # Leaves out threads without these texts, not decoding the metadata of each.
    parts = [(sql.HAVING, metadata_part(key, text)) for key, text in (wanted.metadata or {}).items() if isinstance(text, str)]
    return [
        (sql.FROM, wanted.prefix or None),
        (sql.BELOW, past(wanted.prefix)),
        (sql.OF_GRAPH, wanted.graph),
        (sql.UPDATED_AFTER, wanted.updated_after),
        *parts,
    ]


def _listed(
    database: Database, place: tuple[str, Any], wanted: ThreadFilter, limit: int, *, by_time: bool
) -> list[list[ThreadRow]]:
    """The first threads of each status: each is one walk along an index, in order, and stops at the limit."""
    if limit <= 0:
        return []
    found: list[list[ThreadRow]] = []
    database.execute(sql.BEGIN_READ)
    now = database.clock.now_ns()
    conditions = [place, *_conditions(wanted)]
    for status in sorted(set(wanted.statuses)) or (None,):
        given = [(condition, value) for condition, value in (*conditions, (sql.OF_STATUS, status)) if value is not None]
        values = [each for _, value in given for each in (value if isinstance(value, tuple) else (value,))]
        statement = sql.threads([condition for condition, _ in given], by_time=by_time)
        rows = database.execute(statement, (*values, limit))
        found.append([thread_row(row, now) for row in rows])
    database.execute(sql.COMMIT)
    return found


def runs(database: Database, thread_id: str, before: int | None, limit: int) -> list[RunRow]:
    """See `IndexPort.runs`."""
    last = ANY_EPOCH if before is None else before
    return [run_row(*row) for row in database.execute(sql.RUNS, (thread_id, last, max(0, limit)))]


# --------------------------------------------------------------------------------------------------------------------- threads


def thread_row(row: tuple[Any, ...], now_ns: int) -> ThreadRow:
    """A thread from the columns of `statements.THREAD`, `now_ns` being the database's clock."""
    key, thread, incarnation, status, graph, fingerprint, metadata, created, updated, *rest = row
    token, epoch, expires, holder, head, next_n, newest = rest
    if not isinstance(thread, str):
        raise CorruptRecord(f"the id of a thread is no text, but {thread!r}")
    return ThreadRow(
        thread,
        key,
        incarnation,
        head,
        next_n,
        newest,
        LeaseRow(
            token, epoch, expires, None if holder is None else holder_again(holder), token is not None and expires <= now_ns
        ),
        status,
        graph,
        fingerprint,
        metadata_again(metadata),
        created,
        updated,
    )


def _thread(database: Database, thread: str) -> ThreadRow:
    row = database.execute(sql.THREAD, (thread,)).fetchone()
    if row is not None:
        return thread_row(row, database.clock.now_ns())
    tombstone = database.execute(sql.TOMBSTONE, (database.hash_of(thread),)).fetchone()
    return ThreadRow(thread, incarnation=1 if tombstone is None else tombstone[0] + 1)


def _namespace(database: Database, key: int, namespace: str | int) -> int | None:
    if isinstance(namespace, int):
        return namespace
    if not namespace:
        return ROOT_NS
    row = database.execute(sql.NAMESPACE, (key, namespace)).fetchone()
    return None if row is None else int(row[0])


# ----------------------------------------------------------------------------------------------------------------- checkpoints


def _target(
    database: Database, thread: ThreadRow, ns: int, checkpoint: str | int | BranchName | None, within: int | None
) -> CheckpointRow | None:
    if isinstance(checkpoint, BranchName):
        head = database.execute(sql.BRANCH, (thread.key, checkpoint.name)).fetchone()
        if head is None:
            return None
        checkpoint = int(head[0])
    if isinstance(checkpoint, str):
        row = database.execute(sql.CHECKPOINT_BY_ID, (thread.key, pack_id(checkpoint))).fetchone()
        return None if row is None or row[0] != ns else _decoded(row)
    if checkpoint is None and within is None and ns == ROOT_NS:
        if thread.head is None:
            return None
        checkpoint = thread.head
    if checkpoint is not None:
        row = database.execute(sql.CHECKPOINT_BY_NUMBER, (thread.key, ns, checkpoint)).fetchone()
        return None if row is None else _decoded(row)
    last = ANY_NUMBER if within is None else within
    return next(_newest(database, thread.key, ns, last, 1), None)


def _newest(database: Database, key: int, ns: int, last: int, limit: int) -> Iterator[CheckpointRow]:
    return (_decoded(row) for row in database.execute(sql.NEWEST_CHECKPOINTS, (key, ns, last, limit)))


def _newest_of_all(database: Database, key: int, last: int, limit: int) -> list[CheckpointRow]:
    # Of all namespaces, only the `limit` ones with the newest checkpoints can have any among the `limit` newest.
    spaces = database.execute(sql.NAMESPACES_BY_NEWEST, (key, last, key, limit)).fetchall()
    streams = [_newest(database, key, ns, newest, limit) for ns, newest in spaces]
    return list(islice(merge(*streams, key=lambda row: row.n, reverse=True), limit))


def _decoded(row: tuple[int, int, bytes | str, bytes]) -> CheckpointRow:
    ns, n, packed_id, body = row
    return checkpoint_row(n, ns, packed_id, body)


def _chain(database: Database, key: int, target: CheckpointRow, known: dict[int, CheckpointRow]) -> list[CheckpointRow]:
    """The chain of a row; `known` holds rows of its namespace by number, and gets those that were read for it."""
    row = target
    while row.n != target.base:
        parent = row.parent
        if parent is None or not target.base <= parent < row.n:
            break  # damaged: `ancestors` says so
        if parent not in known:
            _read_down(database, key, target, parent, known)
            if parent not in known:
                break  # as above
        row = known[parent]
    return ancestors(known, target)


def _read_down(database: Database, key: int, target: CheckpointRow, first: int, known: dict[int, CheckpointRow]) -> None:
    """Read row `first` and, as far as they lie close by, its ancestors down to the base of `target`."""
    wanted: int | None = first
    cursor = database.execute(sql.CHECKPOINTS_DOWN, (key, target.ns, target.base, first, WINDOW))
    for n, packed_id, body in cursor:
        if n == wanted:
            row = known[n] = checkpoint_row(n, target.ns, packed_id, body)
            wanted = row.parent
            if row.n == target.base or wanted is None or wanted in known:
                break
    cursor.close()


# ----------------------------------------------------------------------------------------------------- what belongs to them


def _assembled(database: Database, thread: ThreadRow, rows: list[CheckpointRow], have: Have | None = None) -> list[Loaded]:
    """The rows, which are not none, with all that belongs to them: each kind of row is read once for all of them."""
    key = thread.key
    known: defaultdict[int, dict[int, CheckpointRow]] = defaultdict(dict)
    for row in rows:
        known[row.ns][row.n] = row
    chains = [_chain(database, key, row, known[row.ns]) for row in rows]
    origins = [[(row.ns, origin) for origin in sorted(origins_of(row))] for row in rows]
    wanted = _pairs(pair for pairs in origins for pair in pairs)

    writes: defaultdict[tuple[int, int], list[WriteRow]] = defaultdict(list)
    for ns, origin, path, kind, body in database.execute(sql.WRITES, (wanted, key)):
        writes[ns, origin].append(WriteRow(ns, origin, path, kind, write_items(body)))
    children: defaultdict[tuple[int, int], list[ChildRow]] = defaultdict(list)
    for child in database.execute(sql.CHILDREN, (wanted, key)):
        children[child[0], child[1]].append(ChildRow(*child))

    loaded = [
        Loaded(
            thread,
            row,
            chain,
            [write for pair in pairs for write in writes.get(pair, ())],
            [child for pair in pairs for child in children.get(pair, ())],
        )
        for row, chain, pairs in zip(rows, chains, origins, strict=True)
    ]
    _add_values(database, key, loaded, have)
    _add_ids(database, key, rows, loaded)
    _add_namespaces(database, key, rows, loaded)
    return loaded


def _add_values(database: Database, key: int, loaded: list[Loaded], have: Have | None) -> None:
    wanted = [spans_of(without(folded(one.chain), have).values(), one.writes) for one in loaded]
    for one in loaded:
        one.spared = have is not None
    spans = wanted[0] if len(wanted) == 1 else merged_spans([span for of_one in wanted for span in of_one])
    if not spans:
        return
    first = key << 32
    rows = database.execute(sql.VALUES, (json.dumps([(first + start, first + end) for start, end in spans]),)).fetchall()
    # A conversation is thousands of rows: `Packed` is made of each without a call from Python.
    keys, tags, contents = zip(*rows, strict=True) if rows else ((), (), ())
    numbers = [key - first for key in keys]
    packed = map(tuple.__new__, repeat(Packed), zip(tags, contents, strict=True))
    values: dict[int, Packed] = dict(zip(numbers, packed, strict=True))
    for one, of_one in zip(loaded, wanted, strict=True):
        in_one = values if len(loaded) == 1 else {n: values[n] for a, b in of_one for n in range(a, b + 1) if n in values}
        one.values = in_one


def _add_ids(database: Database, key: int, rows: list[CheckpointRow], loaded: list[Loaded]) -> None:
    wanted = [ids_of(row) for row in rows]
    ids = {(row.ns, row.n): row.id for one in loaded for row in one.chain}
    missing = {(row.ns, n) for row, numbers in zip(rows, wanted, strict=True) for n in numbers}.difference(ids)
    if missing:
        for ns, n, packed_id in database.execute(sql.CHECKPOINT_IDS, (_pairs(missing), key)):
            ids[ns, n] = unpack_id(packed_id)
    for row, numbers, one in zip(rows, wanted, loaded, strict=True):
        one.ids = {n: ids[row.ns, n] for n in numbers if (row.ns, n) in ids}


def _add_namespaces(database: Database, key: int, rows: list[CheckpointRow], loaded: list[Loaded]) -> None:
    wanted = [{row.ns, *(child.child_ns for child in one.children)} for row, one in zip(rows, loaded, strict=True)]
    names = {ROOT_NS: ""}
    if others := set().union(*wanted).difference(names):
        names.update(database.execute(sql.NAMESPACE_NAMES, (key, json.dumps(sorted(others)))).fetchall())
    for spaces, one in zip(wanted, loaded, strict=True):
        one.namespaces = {ns: names[ns] for ns in spaces if ns in names}


def _pairs(pairs: Iterable[tuple[int, int]]) -> str:
    return json.dumps(sorted(set(pairs)))
