"""Rows as they travel: keys and bytes, the same for every database. Pure.

    kind            key                                         body
    1 NAMESPACE     ns                                          its name
    2 VALUE         n, tag                                      the value's bytes; or n, tag, how many bytes, and none of them
    3 CHECKPOINT    ns, n, public id (16 bytes, or text)        `rows.checkpoint_body`
    4 WRITE         ns, origin, path, kind                      `rows.write_body`
    5 CHILD         ns, origin, path, call, child_ns, head      empty
    6 BRANCH        name, head                                  empty

A thread's rows travel by kind, and within a kind by what identifies them (`place`): numbers by value, text by code point. So two
copies of a thread are the same sequence of bytes, whatever database they lie in, and one digest tells whether they are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, NamedTuple

import ormsgpack

NAMESPACE, VALUE, CHECKPOINT, WRITE, CHILD, BRANCH = range(1, 7)

KINDS = ("namespaces", "values", "checkpoints", "writes", "children", "branches")
"""What the kinds are called where they are counted, in order."""

IDENTIFIED_BY = {NAMESPACE: 1, VALUE: 1, CHECKPOINT: 2, WRITE: 4, CHILD: 4, BRANCH: 1}
"""How many parts of a row's key identify it among those of its kind."""

Place = tuple[int, tuple[Any, ...]]
"""Where a row stands in the order of travel: its kind, and what identifies it."""


class RawRow(NamedTuple):
    """A row of a thread, without the thread."""

    kind: int
    key: tuple[Any, ...]
    body: bytes = b""


def place(row: RawRow) -> Place:
    """Where a row stands in the order of travel."""
    return row.kind, row.key[: IDENTIFIED_BY[row.kind]]


def head_of(row: RawRow) -> bytes:
    """A row but for its body: [kind, length of the body, key …] as MessagePack."""
    return ormsgpack.packb([row.kind, len(row.body), *row.key])


@dataclass(frozen=True, slots=True)
class Contents:
    """What a thread consists of, and a digest of it. Two threads with equal contents have the same rows.

    Attributes:
        namespaces, values, checkpoints, writes, children, branches: how many rows of each kind.
        digest: BLAKE2b of all rows in order, 64 hex digits.
    """

    namespaces: int
    values: int
    checkpoints: int
    writes: int
    children: int
    branches: int
    digest: str

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return sum(self.counts)

    @property
    def counts(self) -> tuple[int, ...]:
        """How many rows of each kind, in the order of `KINDS`."""
        return tuple(getattr(self, kind) for kind in KINDS)


class Tally:
    """Counts rows as they pass, and digests them."""

    __slots__ = ("_counts", "_hash")

    def __init__(self) -> None:
        self._counts: Counter[int] = Counter()
        self._hash = blake2b(digest_size=32)

    def add(self, rows: Iterable[RawRow]) -> None:
        """These came next."""
        for row in rows:
            head = head_of(row)
            self._counts[row.kind] += 1
            self._hash.update(len(head).to_bytes(4, "big"))
            self._hash.update(head)
            self._hash.update(row.body)

    def count(self, kind: int) -> int:
        """How many rows of a kind have passed."""
        return self._counts[kind]

    def contents(self) -> Contents:
        """What has passed."""
        counts = {name: self._counts[kind] for kind, name in enumerate(KINDS, NAMESPACE)}
        return Contents(**counts, digest=self._hash.hexdigest())
