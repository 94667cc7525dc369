"""Between rows and the public shape that savers of other people store. Pure.

Under `checkpoint["control"]`, as plain lists, numbers and text:

    v         1
    n         the row's number         ns        the number of its namespace
    parent    the parent's number      step, source
    frontier  [[path, origin, [trigger, …]], …]; so are `ran` and `deferred`
    joins     {join: [source, …]}
    memories  [[namespace, number, id], …] of the checkpoints where remembering subgraphs are
    ids       [[number, id], …] of its parent and of the origins of its tasks
    next_n    the first free number    status    the thread's, as of this checkpoint

A task's result, error, questions and answers are writes on the checkpoint where it was triggered, under its public task id; since
that is a digest, reading computes the ids of the tasks it expects and compares. `__scheduled__` carries what no other system has:
under a task's id what its questions need to be known again, under `task/call` where the subgraph is that the task called.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from perdure.checkpoint.foreign.identity import unwrapped, wrapped
from perdure.checkpoint.reading import ids_of, metadata_of
from perdure.checkpoint.records import (
    ANSWERS,
    PAUSES,
    RESULT,
    ROOT_NS,
    CheckpointRow,
    ChildRow,
    Entry,
    Pending,
    Status,
    WriteItem,
    WriteRow,
)
from perdure.checkpoint.records import ERROR as ERROR_KIND
from perdure.checkpoint.serde.stored_error import StoredError
from perdure.clock import iso_of
from perdure.constants import CANCELLED, CONF, ERROR, ERROR_SOURCE_NODE, INTERRUPT, NO_WRITES, RESUME
from perdure.errors import CorruptRecord, UnknownFormat
from perdure.ids import task_id, ticks_in, unix_ns_of
from perdure.types import Interrupt, RunnableConfig

if TYPE_CHECKING:
    from perdure.checkpoint.base import Checkpoint, CheckpointMetadata, CheckpointTuple, PendingWrite

FORMAT = 1
SCHEDULED = "__scheduled__"
STEP = "step:"
"""Begins the task id under which the result of a durable step is put."""
OWN_METADATA = ("source", "step", "parents")


def config_of(thread: str, namespace: str, checkpoint: str | None = None) -> RunnableConfig:
    """The config that addresses a checkpoint, or the newest of a namespace."""
    conf = {"thread_id": thread, "checkpoint_ns": namespace}
    if checkpoint is not None:
        conf["checkpoint_id"] = checkpoint
    return {CONF: conf}


# ------------------------------------------------------------------------------------------------------------------ checkpoints


def checkpoint_of(
    row: CheckpointRow, entries: dict[str, Entry], ids: dict[int, str], next_n: int, status: Status
) -> tuple[Checkpoint, CheckpointMetadata, dict[str, int]]:
    """A row as the arguments of `put`: the checkpoint, its metadata, the versions it set."""
    control = {
        "v": FORMAT,
        "n": row.n,
        "ns": row.ns,
        "parent": row.parent,
        "step": row.step,
        "source": row.source,
        "frontier": _plain(row.frontier),
        "ran": _plain(row.ran),
        "deferred": _plain(row.deferred),
        "joins": {name: [*seen] for name, seen in row.joins.items()},
        "memories": [[name, n, ids.get(n)] for name, n in row.memories.items()],
        "ids": [[n, ids[n]] for n in sorted(ids_of(row)) if n in ids],
        "next_n": next_n,
        "status": status,
    }
    versions = {key: entry.version for key, entry in entries.items()}
    new = {key: version for key, version in versions.items() if version == row.n}
    checkpoint: Checkpoint = {
        "v": 4,
        "id": row.id,
        "ts": iso_of(unix_ns_of(ticks_in(row.id))),
        "channel_values": {key: unwrapped(entry.packed) for key, entry in entries.items()},
        "channel_versions": dict(versions),
        "versions_seen": {},
        "updated_channels": sorted(new),
        "control": control,
    }
    metadata: CheckpointMetadata = metadata_of(row)  # type: ignore[assignment]
    return checkpoint, metadata, new


def row_of(found: CheckpointTuple) -> tuple[CheckpointRow, dict[int, str], int, Status]:
    """The row of a stored checkpoint, the ids it knows, the first free number, and the thread's status.

    A checkpoint that was not made by this library has a state but nothing to run; its number is made of its id.

    Raises:
        CorruptRecord: what stands under `control` is not what was put there.
    """
    checkpoint, metadata = found.checkpoint, found.metadata
    control: Any = checkpoint.get("control")
    if control is None:
        return _row_of_others(found)
    if not isinstance(control, dict) or control.get("v") != FORMAT:
        kind = UnknownFormat if isinstance(control, dict) and isinstance(control.get("v"), int) else CorruptRecord
        raise kind(
            f"checkpoint {checkpoint['id']} has a control of another format; this library reads {FORMAT}",
            checkpoint=checkpoint["id"],
        )
    try:
        n = control["n"]
        row = CheckpointRow(
            n,
            control["ns"],
            checkpoint["id"],
            control["parent"],
            n,
            control["step"],
            control["source"],
            entries_of(checkpoint, n),
            True,
            _pending(control["frontier"]),
            _pending(control["ran"]),
            {name: tuple(seen) for name, seen in control["joins"].items()},
            _pending(control["deferred"]),
            {key: value for key, value in metadata.items() if key not in OWN_METADATA or (key == "parents" and value)},
            None,
            {name: number for name, number, _ in control["memories"]},
        )
        ids = {number: public for _, number, public in control["memories"] if public is not None}
        return row, {**ids, **dict(control["ids"]), n: row.id}, control["next_n"], control["status"]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise CorruptRecord(
            f"checkpoint {checkpoint['id']} cannot be read: its saver did not return `control` as it was given ({error!r})",
            checkpoint=checkpoint["id"],
        ) from error


def _row_of_others(found: CheckpointTuple) -> tuple[CheckpointRow, dict[int, str], int, Status]:
    checkpoint, metadata = found.checkpoint, found.metadata
    n = number_in(checkpoint["id"])
    parent = None if found.parent_config is None else found.parent_config.get(CONF, {}).get("checkpoint_id")
    extra: dict[str, Any] = {"metadata": dict(metadata)}
    if parent is not None:
        extra["parent"] = parent
    step, source = int(metadata.get("step", 0)), str(metadata.get("source", "update"))
    row = CheckpointRow(n, ROOT_NS, checkpoint["id"], None, n, step, source, entries_of(checkpoint, n), True, extra=extra)
    return row, {n: row.id}, n + 1, "idle"


def entries_of(checkpoint: Checkpoint, n: int) -> dict[str, Entry | None]:
    """The entries of a stored checkpoint's values."""
    versions = checkpoint.get("channel_versions") or {}
    return {
        key: Entry(version if isinstance(version := versions.get(key), int) else n, wrapped(value))
        for key, value in (checkpoint.get("channel_values") or {}).items()
    }


def number_in(checkpoint: str) -> int:
    """A number made of an id's time: microseconds since 1970."""
    try:
        return unix_ns_of(ticks_in(checkpoint)) // 1000
    except CorruptRecord:
        return 1


def _plain(tasks: Iterable[Pending]) -> list[list[Any]]:
    return [[task.path, task.origin, [*task.triggers]] for task in tasks]


def _pending(items: Any) -> tuple[Pending, ...]:
    return tuple(Pending(path, origin, tuple(triggers)) for path, origin, triggers in items)


# ----------------------------------------------------------------------------------------------------------------------- writes


def writes_of(row: WriteRow) -> list[list[tuple[str, Any]]]:
    """A write row as the `writes` of calls of `put_writes`. What may be replaced stands in a call without anything that may not."""
    items = [(item.channel, unwrapped(item.packed)) for item in row.items]
    if row.kind == RESULT:
        return [items]
    if row.kind == PAUSES:
        asked = [item for item in items if item[0] != NO_WRITES]
        questions = [Interrupt(value, pause, response_schema=schema) for pause, (value, schema, *_) in asked]
        return [[(INTERRUPT, questions), (SCHEDULED, {"asked": {pause: _lists(rest) for pause, (_, _, *rest) in asked}})]]
    if row.kind == ANSWERS:
        return [[(RESUME, dict(items))]]
    found = dict(items)
    if CANCELLED in found:
        return [[(ERROR, StoredError(CANCELLED, "cancelled"))]]
    error = found.get("error")
    calls: list[list[tuple[str, Any]]] = [[(ERROR, StoredError.of(error) if isinstance(error, BaseException) else error)]]
    if ERROR_SOURCE_NODE in found:
        calls.append([(ERROR_SOURCE_NODE, found[ERROR_SOURCE_NODE])])
    return calls


def write_rows(ns: int, origin: int, path: str, writes: Iterable[tuple[str, Any]]) -> list[WriteRow]:
    """What was stored of a task, as rows: the inverse of `writes_of` for all its rows at once."""
    special: dict[str, Any] = {}
    result: list[WriteItem] = []
    for channel, value in writes:
        if channel in (ERROR, ERROR_SOURCE_NODE, INTERRUPT, RESUME, SCHEDULED):
            special[channel] = value
        else:
            result.append(_item(channel, value))
    rows = [WriteRow(ns, origin, path, RESULT, tuple(result))] if result else []
    if ERROR in special:
        error = special[ERROR]
        cancelled = isinstance(error, StoredError) and error.type == CANCELLED
        items = [_item(CANCELLED, None) if cancelled else _item("error", error)]
        if ERROR_SOURCE_NODE in special:
            items.append(_item(ERROR_SOURCE_NODE, special[ERROR_SOURCE_NODE]))
        rows.append(WriteRow(ns, origin, path, ERROR_KIND, tuple(items)))
    if INTERRUPT in special:
        known = (special.get(SCHEDULED) or {}).get("asked") or {}
        asked = [_item(q.id, [q.value, q.response_schema, *known[q.id]]) for q in special[INTERRUPT] if q.id in known]
        rows.append(WriteRow(ns, origin, path, PAUSES, tuple(asked) or (_item(NO_WRITES, None),)))
    if isinstance(special.get(RESUME), dict):
        rows.append(WriteRow(ns, origin, path, ANSWERS, tuple(_item(pause, value) for pause, value in special[RESUME].items())))
    return rows


def _lists(values: Iterable[Any]) -> list[Any]:
    return [[*value] if isinstance(value, tuple) else value for value in values]


def _item(channel: str, value: Any) -> WriteItem:
    return WriteItem(channel, wrapped(value))


class Pointer(NamedTuple):
    """Where the subgraph is that a task called: the row, the namespace's name, the checkpoint's id."""

    child: ChildRow
    name: str
    id: str


def pointer_write(child: ChildRow, name: str, public: str) -> list[tuple[str, Any]]:
    """A child pointer as the `writes` of `put_writes`, under the task id `task/call`."""
    return [(SCHEDULED, {"path": child.path, "ns": child.child_ns, "name": name, "head": child.head, "id": public})]


def pointers_on(ns: int, origin: int, pending: Iterable[PendingWrite]) -> list[Pointer]:
    """The child pointers among the writes on one checkpoint.

    Args:
        ns: number of its namespace.
        origin: its own.
        pending: the writes.
    """
    return [
        Pointer(ChildRow(ns, origin, to["path"], int(task.partition("/")[2]), to["ns"], to["head"]), to["name"], to["id"])
        for task, channel, to in pending
        if channel == SCHEDULED and "/" in task
    ]


def belongings(
    ns: int, namespace: str, origin: int, public: str, tasks: Iterable[Pending], pending: Sequence[PendingWrite]
) -> tuple[list[WriteRow], list[Pointer]]:
    """The rows that the writes on one checkpoint are, as far as they belong to these tasks.

    Args:
        ns: number of the namespace.
        namespace: its name.
        origin: number of the checkpoint that the writes are on.
        public: its id.
        tasks: those whose writes are wanted; others' are passed over.
        pending: the writes.
    """
    by_task: dict[str, list[tuple[str, Any]]] = {}
    for task, channel, value in pending:
        if "/" not in task or task.startswith(STEP):
            by_task.setdefault(task, []).append((channel, value))
    paths = [path for task in tasks if task.origin == origin for path in paths_of(task.path)] if pending else []
    known: dict[str, str] = {task_id(public, namespace, path): path for path in paths}
    if any(task not in known for task in by_task):
        known.update((task_id(public, namespace, f"!{path}"), f"!{path}") for path in paths)  # error handlers
    wanted = {path.lstrip("!") for path in paths}
    steps = {task: task.removeprefix(STEP) for task in by_task if task.startswith(STEP)}
    known.update({task: path for task, path in steps.items() if _node_of(path) in wanted})
    rows = [row for task, writes in by_task.items() if task in known for row in write_rows(ns, origin, known[task], writes)]
    return rows, [to for to in pointers_on(ns, origin, pending) if _node_of(to.child.path) in wanted]


def task_of(public: str, namespace: str, path: str) -> str:
    """Under which task id the writes of a task are put: its own; of a durable step, which nobody knows in advance, its path."""
    return f"{STEP}{path}" if ">" in path else task_id(public, namespace, path)


def _node_of(path: str) -> str:
    """The path of the node's task that a task, a handler or a durable step belongs to."""
    return path.partition(">")[0].lstrip("!")


def paths_of(path: str) -> list[str]:
    """The single paths that a pending task stands for: `#3-5` is three Sends."""
    if not path.startswith("#"):
        return [path]
    first, _, last = path[1:].partition("-")
    return [f"#{index}" for index in range(int(first), int(last or first) + 1)]
