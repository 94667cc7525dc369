"""What belongs to a checkpoint that is read: pure functions over rows, shared by every backend.

A backend fetches, these say what to fetch next: the ancestors of a row down to its full one, the entries they add up to, the
origins under which the writes and children of its tasks are filed, and the value rows that all of that refers to.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from perdure.checkpoint.incremental.manifest import Manifest, merged_spans
from perdure.checkpoint.records import CheckpointRow, Entry, Have, Record, WriteItem, WriteRow
from perdure.errors import CorruptRecord


def metadata_of(row: CheckpointRow) -> dict[str, Any]:
    """The metadata of a checkpoint as readers see it, without what made it.

    `parents` is of a subgraph's checkpoint: those of the graphs around that its run started from, by namespace. A caller's own
    `parents`, which is no dict, gives way to it.
    """
    parents = row.metadata.get("parents")
    return {
        **row.metadata,
        "source": row.source,
        "step": row.step,
        "parents": dict(parents) if isinstance(parents, dict) else {},
    }


def ancestors(rows: Iterable[CheckpointRow] | Mapping[int, CheckpointRow], target: CheckpointRow) -> list[CheckpointRow]:
    """The chain of a checkpoint: from its base to itself, oldest first, following parents.

    Args:
        rows: rows of its namespace, at least those of the chain; in any order, or by number.
        target: the checkpoint; it need not be among `rows`.

    Raises:
        CorruptRecord: a row of the chain is missing, or its parents do not lead to its base.
    """
    by_number = rows if isinstance(rows, Mapping) else {row.n: row for row in rows}
    chain = [target]
    row = target
    while row.n != target.base:
        parent = row.parent
        # A parent's number is smaller than its child's, so the walk ends even where damaged rows point in a circle.
        if parent is None or not target.base <= parent < row.n or (above := by_number.get(parent)) is None:
            raise CorruptRecord(
                f"checkpoint {target.id} cannot be read: its ancestor {parent} (between {target.base} and {row.n}) is missing",
                checkpoint=target.id,
            )
        row = above
        chain.append(row)
    if not row.full:
        raise CorruptRecord(
            f"checkpoint {target.id} cannot be read: checkpoint {row.n}, its base, does not hold all channels",
            checkpoint=target.id,
        )
    chain.reverse()
    return chain


def folded(chain: Iterable[CheckpointRow]) -> dict[str, Entry]:
    """The entries of all channels as of the last row of a chain; a channel that was emptied has none."""
    entries: dict[str, Entry] = {}
    for row in chain:
        if row.full:
            entries.clear()
        for channel, entry in row.changes.items():
            if entry is None:
                entries.pop(channel, None)
            else:
                entries[channel] = entry
    return entries


def origins_of(row: CheckpointRow) -> set[int]:
    """The origins under which writes and children of a checkpoint's tasks are filed, of those to come and of those that made it,
    and its own number for writes on it.
    """
    return {row.n, *(task.origin for tasks in (row.frontier, row.deferred, row.ran) for task in tasks)}


def spans_of(entries: Iterable[Entry | None], writes: Iterable[WriteRow] = ()) -> list[tuple[int, int]]:
    """The numbers of the value rows that entries and writes refer to, as ranges (first, last) in order."""
    spans: set[tuple[int, int]] = set()
    items: list[Entry | WriteItem] = [item for row in writes for item in row.items]
    for entry in entries:
        if entry is not None:
            items.append(entry)
            if isinstance(entry.parts, Record):
                items.extend(entry.parts.items)
    for item in items:
        if item.ref is not None:
            spans.add((item.ref, item.ref))
        elif isinstance(item.parts, Manifest):
            spans.update(item.parts.spans())
    return merged_spans(spans)


def without(entries: Mapping[str, Entry], have: Have | None) -> dict[str, Entry]:
    """The entries but those of the channels that the caller has."""
    return dict(entries) if have is None else {key: entry for key, entry in entries.items() if key not in have.channels}


def task_at(path: str) -> str:
    """The path of the task that a durable step, or an error handler, at this path belongs to."""
    return path.partition(">")[0].removeprefix("!")


def one_by_one(path: str) -> Iterable[str]:
    """The paths of the tasks that a path stands for: several, where it is that of several Sends."""
    if not path.startswith("#"):
        return (path,)
    first, _, last = path[1:].partition("-")
    return (f"#{index}" for index in range(int(first), int(last or first) + 1))


def is_open(entries: Iterable[Entry]) -> bool:
    """Whether a value has numbers kept for appending to it."""
    return any(isinstance(entry.parts, Manifest) and entry.parts.is_open for entry in entries)


def past(prefix: str) -> str | None:
    """The first text, in the order of code points, that comes after all texts with that prefix; None if nothing does."""
    stem = prefix.rstrip("\U0010ffff")
    if not stem:
        return None
    # Between U+D7FF and U+E000 lie the surrogates, which no encoding can carry.
    following = 0xE000 if stem[-1] == "\ud7ff" else ord(stem[-1]) + 1
    return stem[:-1] + chr(following)


def ids_of(row: CheckpointRow) -> set[int]:
    """The numbers of the checkpoints whose public ids are loaded with a row: its parent and its tasks' origins."""
    wanted = origins_of(row)
    wanted.discard(row.n)
    if row.parent is not None:
        wanted.add(row.parent)
    return wanted
