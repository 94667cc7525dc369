"""What a row from outside has to be, before it is stored: of its own thread, in order, and no trap for whoever reads it later. Pure.

Rows of a database of ours were checked when they were made; a file may have been written by anybody.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Any, get_args

from perdure.checkpoint.incremental.compression import check_squeezed
from perdure.checkpoint.reading import spans_of
from perdure.checkpoint.records import ROOT_NS, Status, ThreadRow, WriteRow
from perdure.checkpoint.rows import checkpoint_row, write_items
from perdure.checkpoint.transfer.raw import BRANCH, CHECKPOINT, CHILD, NAMESPACE, VALUE, WRITE, Place, RawRow, place
from perdure.errors import CorruptRecord
from perdure.ids import thread_text

NUMBERS = 1 << 32
"""No row of a thread has a larger number."""

LONGEST_BODY = 16 << 20
"""Bytes of a row that is unpacked here. Values, which are not, may have `LONGEST_VALUE`."""

LONGEST_VALUE = 1 << 30
MOST_SENDS = 1 << 20
"""How many tasks one path of Sends may stand for."""

_SENDS = re.compile(r"#(\d{1,9})(?:-(\d{1,9}))?", re.ASCII)
_SHAPES: dict[int, tuple[type[Any] | tuple[type[Any], ...], ...]] = {
    NAMESPACE: (int,),
    VALUE: (int, str),
    CHECKPOINT: (int, int, (bytes, str)),
    WRITE: (int, int, str, int),
    CHILD: (int, int, str, int, int, int),
    BRANCH: (str, int),
}
# Which parts of a key are numbers of rows.
_NUMBERED = {NAMESPACE: (0,), VALUE: (0,), CHECKPOINT: (1,), WRITE: (1,), CHILD: (1, 4, 5), BRANCH: (1,)}


def thread_of(fields: list[Any], metadata: dict[str, Any]) -> ThreadRow:
    """The thread's row.

    Raises:
        CorruptRecord: these fields are none.
    """
    if len(fields) != 9:
        raise CorruptRecord("its thread has another number of fields than this format")
    thread, status, graph, fingerprint, head, next_n, newest, created_ns, updated_ns = fields
    if not all(type(text) is str for text in (thread, status, graph, fingerprint)) or status not in get_args(Status):
        raise CorruptRecord("its thread has a name or a status that is none")
    numbers = (next_n, newest, created_ns, updated_ns)
    if not all(type(number) is int and 0 <= number < 1 << 63 for number in numbers):
        raise CorruptRecord("its thread has a number that is none")
    if not 1 <= next_n <= NUMBERS or newest >> 60:
        raise CorruptRecord("its thread has a number that is none")
    if head is not None and not (type(head) is int and 1 <= head < next_n):
        raise CorruptRecord("the head of its thread is no checkpoint")
    if not all(value is None or type(value) in (str, int, float, bool) for value in metadata.values()):
        raise CorruptRecord("its thread has metadata that is not made of scalars")
    return ThreadRow(
        thread_text(thread),
        head=head,
        next_n=next_n,
        newest=newest,
        status=status,
        graph=graph,
        fingerprint=fingerprint,
        metadata=metadata,
        created_ns=created_ns,
        updated_ns=updated_ns,
    )


class RowCheck:
    """Looks at the rows of one thread as they come. Needs the same little memory however many there are.

    Args:
        thread: whose rows they are said to be.
    """

    def __init__(self, thread: ThreadRow) -> None:
        self._thread = thread
        self._last: Place = (0, ())
        self._seen: Counter[int] = Counter()
        self._has_head = thread.head is None

    @property
    def counts(self) -> tuple[int, ...]:
        """How many rows of each kind have come."""
        return tuple(self._seen[kind] for kind in range(NAMESPACE, BRANCH + 1))

    def longest(self, kind: int) -> int:
        """How many bytes the body of a row may have."""
        return LONGEST_VALUE if kind == VALUE else 0 if kind in (CHILD, BRANCH) else LONGEST_BODY

    def key(self, kind: int, key: tuple[Any, ...]) -> None:
        """Check a row's key.

        Raises:
            ValueError: it is none, or does not come after the last one.
        """
        shape = _SHAPES[kind]
        if len(key) != len(shape) or not all(_fits(part, wanted) for part, wanted in zip(key, shape, strict=True)):
            raise CorruptRecord(f"a row of kind {kind} has a key of another shape: {key!r:.200}")
        if not all(self._is_number(key[at]) for at in _NUMBERED[kind]):
            raise CorruptRecord(f"a row of kind {kind} has a number that its thread has not given out: {key!r:.200}")
        if kind in (CHECKPOINT, WRITE, CHILD) and not (key[0] == ROOT_NS or self._is_number(key[0])):
            raise CorruptRecord(f"a row of kind {kind} is in no namespace: {key!r:.200}")
        here = place(RawRow(kind, key))
        if here <= self._last:
            raise CorruptRecord(f"its rows are not in order: {here!r:.200} comes after {self._last!r:.200}")
        self._last = here
        self._seen[kind] += 1
        if kind == CHECKPOINT and key[:2] == (ROOT_NS, self._thread.head):
            self._has_head = True

    def body(self, row: RawRow) -> None:
        """Check a row's body.

        Raises:
            ValueError: it is none (UnknownFormat: it is one of a newer version), or it refers to what cannot be there.
        """
        if row.kind == NAMESPACE:
            if not row.body.decode():
                raise CorruptRecord("a namespace has no name")
        elif row.kind == CHECKPOINT:
            self._checkpoint(row)
        elif row.kind == VALUE:
            check_squeezed(row.key[1], row.body)
        elif row.kind == WRITE:
            ns, origin, path, kind = row.key
            self._spans(WriteRow(ns, origin, path, kind, write_items(row.body)))

    def end(self) -> None:
        """Check what only the whole shows.

        Raises:
            ValueError: the checkpoint that the thread stands at is missing.
        """
        if not self._has_head:
            raise CorruptRecord(f"the checkpoint that its thread stands at ({self._thread.head}) is missing")

    def _is_number(self, part: int) -> bool:
        return 1 <= part < self._thread.next_n

    def _checkpoint(self, raw: RawRow) -> None:
        ns, n, packed_id = raw.key
        if isinstance(packed_id, bytes) and len(packed_id) != 16:
            raise CorruptRecord(f"checkpoint {n} has an id that is none")
        row = checkpoint_row(n, ns, packed_id, raw.body)
        above = (row.base, row.step, *(() if row.parent is None else (row.parent,)))
        if not all(type(part) is int for part in above) or not 1 <= row.base <= n or not (row.parent or 0) < n:
            raise CorruptRecord(f"checkpoint {n} hangs on a later one")
        for task in (*row.frontier, *row.ran, *row.deferred):
            if type(task.path) is not str or type(task.origin) is not int or not 1 <= task.origin <= n:
                raise CorruptRecord(f"checkpoint {n} has a task that is none")
            if task.path.startswith("#"):
                self._sends(n, task.path)
        self._spans(*row.changes.values())

    def _sends(self, n: int, path: str) -> None:
        found = _SENDS.fullmatch(path)
        first, last = (int(found[1]), int(found[2] or found[1])) if found else (1, 0)
        if not first <= last < first + MOST_SENDS:
            raise CorruptRecord(f"checkpoint {n} has Sends that are none: {path!r:.200}")

    def _spans(self, *rows: Any) -> None:
        # Whoever reads it goes through these ranges number by number.
        writes = [row for row in rows if isinstance(row, WriteRow)]
        try:
            spans = spans_of((row for row in rows if not isinstance(row, WriteRow)), writes)
        except TypeError as error:
            raise CorruptRecord(f"a row refers to values by what is no number: {error}") from error
        if any(not self._is_number(first) or not self._is_number(last) for first, last in spans):
            raise CorruptRecord("a row refers to values that its thread has not given out")
        if sum(last - first + 1 for first, last in spans) > self._seen[VALUE]:
            raise CorruptRecord("a row refers to more values than there are")


def _fits(part: Any, wanted: type[Any] | tuple[type[Any], ...]) -> bool:
    kinds = wanted if isinstance(wanted, tuple) else (wanted,)
    return type(part) in kinds and (type(part) is not int or -(1 << 31) <= part <= NUMBERS)
