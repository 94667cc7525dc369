"""What has to be true of a thread's rows, and which of them break it. Pure.

The invariants are written down in docs/explanation/storage-format.md; a paragraph there is a method here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

from perdure.checkpoint.incremental.compression import PREFIX
from perdure.checkpoint.incremental.manifest import Manifest, is_within, merged_spans
from perdure.checkpoint.incremental.segments import count_in
from perdure.checkpoint.integrity.receipt import Digester, digest_of_value
from perdure.checkpoint.reading import ancestors, folded, one_by_one, origins_of, spans_of, task_at
from perdure.checkpoint.records import (
    ROOT_NS,
    CheckpointRow,
    ChildRow,
    Entry,
    Record,
    ThreadRow,
    WriteItem,
    WriteRow,
)
from perdure.checkpoint.thread_rows import ThreadRows
from perdure.errors import CorruptRecord


class Problem(NamedTuple):
    """Something that is not as it should be.

    Attributes:
        n: the number of the record that it was found at; by these they are sorted.
        kind: "missing", "altered", "broken" (it breaks an invariant), or "orphan" (nothing refers to it).
        what: which record it is, and what is wrong with it.
        checkpoint: the id of the checkpoint concerned, if there is one.
    """

    n: int
    kind: Literal["missing", "altered", "broken", "orphan"]
    what: str
    checkpoint: str | None = None


def in_order(problems: Iterable[Problem]) -> list[Problem]:
    """Each once, that of the oldest record first."""
    return sorted(set(problems), key=lambda problem: problem[:3])


class Books:
    """All rows of a thread, with their contents.

    Attributes:
        rows: the checkpoints, by number.
        values: digests of the value rows, by number.
    """

    def __init__(self, thread: ThreadRow) -> None:
        self.thread = thread
        self.rows: dict[int, CheckpointRow] = {}
        self.values: dict[int, bytes] = {}
        self._tags: dict[int, str] = {}
        self._counts: dict[int, tuple[int, int]] = {}
        self._writes: defaultdict[tuple[int, int], list[WriteRow]] = defaultdict(list)
        self._children: list[ChildRow] = []
        self._namespaces: dict[int, str] = {}
        self._branches: dict[str, int] = {}
        self._unreadable: list[Problem] = []

    def add(self, some: ThreadRows) -> None:
        """Take in some of the rows."""
        self.rows.update((row.n, row) for row in some.checkpoints)
        for write in some.writes:
            self._writes[write.ns, write.origin].append(write)
        self._children += some.children
        self._namespaces.update(some.namespaces)
        self._branches.update(some.branches)
        for n, packed in some.values.items():
            self.values[n] = digest_of_value(packed)
            self._tags[n] = packed.tag
        self._unreadable += (Problem(n, "altered", f"{what}, which cannot be read") for n, what in some.damaged)

    # -- what is wrong ----------------------------------------------------------------------------------------------------

    def problems(self) -> list[Problem]:
        """All that break an invariant, in the order of their numbers."""
        found = [*self._unreadable, *self._of_thread()]
        damaged = {problem.n for problem in self._unreadable}
        newest: dict[int, int] = {}
        last_id = ""
        for n in sorted(self.rows):
            row = self.rows[n]
            newest[row.ns] = n
            found += self._of_checkpoint(row, damaged)
            if row.extra is None:
                if row.id <= last_id:
                    found.append(Problem(n, "broken", f"checkpoint {n}: its id is not later than those before it", row.id))
                last_id = row.id
        for n in newest.values():
            found += self._of_newest(self.rows[n])
        for rows in self._writes.values():
            for write in rows:
                found += self._of_items(
                    write.origin, write.items, f"what task {write.path!r} left at checkpoint {write.origin}"
                )
        found += self._of_pointers()
        return in_order(found)

    def _of_thread(self) -> Iterator[Problem]:
        """Numbers are below the first free one and used once; the head and the tips of branches are checkpoints of the root."""
        used = [*self.rows, *self.values, *self._namespaces]
        seen: set[int] = set()
        for n in used:
            if not 0 < n < self.thread.next_n:
                yield Problem(n, "broken", f"number {n} is not below the first free one, {self.thread.next_n}")
            if n in seen:
                yield Problem(n, "broken", f"number {n} is used twice")
            seen.add(n)
        tips = {f"the tip of branch {name!r}": head for name, head in self._branches.items()}
        if self.thread.head is not None:
            tips["the head of the thread"] = self.thread.head
        for what, n in tips.items():
            row = self.rows.get(n)
            if row is None or row.ns != ROOT_NS:
                yield Problem(n, "missing", f"checkpoint {n}, {what}")

    def _of_checkpoint(self, row: CheckpointRow, damaged: set[int]) -> Iterator[Problem]:
        """Its parent is there and older, its chain leads to a full row, its tasks' origins and its values are there."""
        here = f"checkpoint {row.n} in step {row.step}"
        if row.parent is not None and row.parent not in damaged:
            above = self.rows.get(row.parent)
            if above is None:
                yield Problem(row.parent, "missing", f"checkpoint {row.parent}, the parent of {here}", row.id)
            elif above.ns != row.ns or above.n >= row.n:
                yield Problem(row.n, "broken", f"{here}: {row.parent} cannot be its parent", row.id)
        yield from self._of_chain(row, here, damaged)
        if row.ns != ROOT_NS and row.ns not in self._namespaces:
            yield Problem(row.ns, "missing", f"the name of namespace {row.ns}, of {here}", row.id)
        for task in (*row.frontier, *row.deferred):
            if task.origin not in self.rows and task.origin not in damaged:
                yield Problem(
                    task.origin, "missing", f"checkpoint {task.origin}, where task {task.path!r} of {here} began", row.id
                )
        for name, n in row.memories.items():
            if n not in self.rows and n not in damaged:
                yield Problem(n, "missing", f"checkpoint {n}, what subgraph {name!r} remembers as of {here}", row.id)
        yield from self._of_items(row.n, (entry for entry in row.changes.values() if entry is not None), here, row.id)

    def _of_chain(self, row: CheckpointRow, here: str, damaged: set[int]) -> Iterator[Problem]:
        if row.full != (row.base == row.n):
            yield Problem(row.n, "broken", f"{here}: it is its own base exactly if it holds all channels", row.id)
        try:
            ancestors(self.rows, row)
        except CorruptRecord:
            if row.base not in self.rows and row.base not in damaged:
                yield Problem(row.base, "missing", f"checkpoint {row.base}, the base of {here}", row.id)
            elif row.base in self.rows:
                yield Problem(row.n, "broken", f"{here}: its parents do not lead to its base, {row.base}", row.id)

    def _of_items(
        self, n: int, items: Iterable[Entry | WriteItem], where: str, checkpoint: str | None = None
    ) -> Iterator[Problem]:
        """The value rows that are referred to are there; of a value in parts, they are segments, and add up to its count."""
        for item in items:
            parts = item.parts
            if isinstance(parts, Record):
                yield from self._of_items(n, parts.items, where, checkpoint)
            elif isinstance(parts, Manifest):
                yield from self._of_manifest(n, parts, where, checkpoint)
            elif item.ref is not None and item.ref not in self.values:
                yield Problem(item.ref, "missing", f"value {item.ref} of {where}", checkpoint)

    def _of_manifest(self, n: int, manifest: Manifest, where: str, checkpoint: str | None) -> Iterator[Problem]:
        count = 0
        try:
            for part in manifest.parts:
                if len(part) == 2:
                    count += self._count(part[0], part[1])
                else:
                    count += min(part[2], max(0, self._count(part[0], part[0]) - part[1]))
        except KeyError as missing:
            yield Problem(missing.args[0], "missing", f"value {missing.args[0]} of {where}", checkpoint)
        except CorruptRecord as error:
            yield Problem(n, "broken", f"{where}: {error}", checkpoint)
        else:
            if count != manifest.count:
                what = f"{where}: a {manifest.kind} of {manifest.count} elements is made of {count}"
                yield Problem(n, "broken", what, checkpoint)

    def _count(self, first: int, last: int) -> int:
        """How many elements some segments hold. Of a value that grows, only the new ones are looked at."""
        end, count = self._counts.get(first, (first - 1, 0))
        if end > last:
            end, count = first - 1, 0
        for n in range(end + 1, last + 1):
            count += count_in(self._tags[n].removeprefix(PREFIX))
        self._counts[first] = (last, count)
        return count

    def _of_newest(self, row: CheckpointRow) -> Iterator[Problem]:
        """Of the newest checkpoint of a namespace: the numbers that its values keep for what is appended are not used."""
        try:
            entries = folded(ancestors(self.rows, row))
        except CorruptRecord:
            return  # reported as such
        for key, entry in entries.items():
            parts = entry.parts
            if isinstance(parts, Manifest) and parts.is_open:
                used = [n for n in range(parts.free, parts.end) if n in self.values or n in self.rows]
                if used:
                    yield Problem(
                        row.n, "broken", f"checkpoint {row.n}: number {used[0]}, kept for appending to {key!r}, is used", row.id
                    )

    def _of_pointers(self) -> Iterator[Problem]:
        """What a pointer leads to is a checkpoint of that namespace."""
        for child in self._children:
            row = self.rows.get(child.head)
            if row is None or row.ns != child.child_ns:
                yield Problem(child.head, "missing", f"checkpoint {child.head} of the subgraph of task {child.path!r}")

    def orphans(self) -> list[Problem]:
        """Rows that nothing refers to. They do no harm, and go with the next prune."""
        filed = {(row.ns, origin) for row in self.rows.values() for origin in origins_of(row)}
        entries = [entry for row in self.rows.values() for entry in row.changes.values()]
        spans = merged_spans(spans_of(entries, (write for rows in self._writes.values() for write in rows)))
        found = [
            Problem(write.origin, "orphan", f"what task {write.path!r} left at checkpoint {write.origin}")
            for place, rows in self._writes.items()
            if place not in filed
            for write in rows
        ]
        found += (Problem(n, "orphan", f"value {n}") for n in self.values if not is_within(n, spans))
        found += (
            Problem(child.head, "orphan", f"the pointer to a subgraph of task {child.path!r} at checkpoint {child.origin}")
            for child in self._children
            if child.origin not in self.rows
        )
        spaces = {row.ns for row in self.rows.values()}
        found += (Problem(ns, "orphan", f"namespace {name!r}") for ns, name in self._namespaces.items() if ns not in spaces)
        return in_order(found)

    # -- digests ----------------------------------------------------------------------------------------------------------

    def digests(self, key: bytes) -> dict[int, bytes]:
        """The digests of all checkpoints that can be read, by number."""
        digester = Digester(self.values, key)
        found: dict[int, bytes] = {}
        for n in sorted(self.rows):
            row = self.rows[n]
            try:
                entries = folded(ancestors(self.rows, row))
            except CorruptRecord:
                continue
            ran = {(task.origin, path) for task in row.ran for path in one_by_one(task.path)}
            left = (
                write
                for origin in {origin for origin, _ in ran}
                for write in self._writes.get((row.ns, origin), ())
                if (origin, task_at(write.path)) in ran
            )
            found[n] = digester.checkpoint(row, entries, left)
        return found
