"""Digests of checkpoints, and the receipt that a user keeps of them. Pure.

The digest of a checkpoint is over what it says, not over how its row says it: the values of all its channels, its tasks, what these
left. So retention, which lets rows say the same on other rows, does not change it; and nothing has to be computed when it is stored.
A receipt has the first bytes of each digest, to tell which record was altered, and the end of a chain over the whole of them.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final, Self

import ormsgpack

from perdure.checkpoint.incremental.manifest import Manifest
from perdure.checkpoint.records import CheckpointRow, Entry, Packed, Record, WriteItem, WriteRow
from perdure.errors import InvalidConfig

SHORTEST_KEY: Final = 16
LONGEST_KEY: Final = 64
"""Bytes of a key; the hash takes no more."""

PREFIX = "perdure-receipt-1:"
SHORT = 8
"""Bytes of each record's digest that a receipt keeps. The chain has them whole."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """What `verify` saw, to be kept elsewhere and given to a later `verify`. `str(receipt)` is text that `Receipt.of` reads again.

    Attributes:
        thread: the thread's id.
        incarnation: how often that id had been used anew.
        keyed: its digests were made with a key.
        records: number and short digest of each checkpoint, oldest first.
        digest: the end of the chain.
    """

    thread: str
    incarnation: int
    keyed: bool
    records: tuple[tuple[int, bytes], ...]
    digest: bytes

    def __str__(self) -> str:
        packed = ormsgpack.packb(
            [self.thread, self.incarnation, self.keyed, [[n, short] for n, short in self.records], self.digest]
        )
        return PREFIX + base64.urlsafe_b64encode(packed).decode()

    @classmethod
    def of(cls, given: Any) -> Self:
        """A receipt, or the text of one.

        Raises:
            InvalidConfig: it is neither.
        """
        if isinstance(given, cls):
            return given
        try:
            text = given.removeprefix(PREFIX) if isinstance(given, str) else None
            thread, incarnation, keyed, records, digest = ormsgpack.unpackb(base64.urlsafe_b64decode(text))  # type: ignore[arg-type]
            return cls(thread, incarnation, keyed, tuple((n, short) for n, short in records), digest)
        except (ValueError, TypeError) as error:
            raise InvalidConfig(
                "receipt must be what verify() returned as `receipt`, or the text of it", key="receipt"
            ) from error


def checked_key(key: Any) -> bytes:
    """The key of a chain; empty for a chain without one.

    Raises:
        InvalidConfig: it is no bytes, or too short or too long.
    """
    if key is None:
        return b""
    if not isinstance(key, bytes) or not SHORTEST_KEY <= len(key) <= LONGEST_KEY:
        raise InvalidConfig(
            f"key must be {SHORTEST_KEY} to {LONGEST_KEY} bytes, such as secrets.token_bytes(32); got {type(key).__name__}"
            + (f" of {len(key)}" if isinstance(key, bytes) else ""),
            key="key",
        )
    return key


def chained(before: bytes, n: int, digest: bytes, key: bytes) -> bytes:
    """The chain with one more record."""
    return blake2b(before + n.to_bytes(8, "big") + digest, digest_size=32, key=key).digest()


def receipt_of(thread: str, incarnation: int, digests: Mapping[int, bytes], key: bytes) -> Receipt:
    """The receipt over these records, by number."""
    numbers = sorted(digests)
    records = tuple((n, digests[n][:SHORT]) for n in numbers)
    return Receipt(thread, incarnation, bool(key), records, chain_over(numbers, digests, key))


def chain_over(numbers: Iterable[int], digests: Mapping[int, bytes], key: bytes) -> bytes:
    """The end of the chain over some records."""
    end = b""
    for n in numbers:
        end = chained(end, n, digests[n], key)
    return end


def digest_of_value(packed: Packed) -> bytes:
    """The digest of a value row."""
    return blake2b(packed.tag.encode("utf-8", "surrogatepass") + b"\x00" + packed.data, digest_size=16).digest()


class Digester:
    """Makes the digests of a thread's checkpoints, oldest first.

    Args:
        values: digests of value rows, by number.
        key: the key of the chain.
    """

    __slots__ = ("_key", "_ranges", "_values")

    def __init__(self, values: Mapping[int, bytes], key: bytes) -> None:
        self._values = values
        self._key = key
        self._ranges: dict[int, tuple[int, Any]] = {}

    def checkpoint(self, row: CheckpointRow, entries: Mapping[str, Entry], writes: Iterable[WriteRow]) -> bytes:
        """The digest of a checkpoint.

        Args:
            row: it.
            entries: of all its channels.
            writes: what the tasks that made it left.
        """
        said = [
            row.n,
            row.ns,
            row.id,
            row.step,
            row.source,
            [[key, entries[key].version, self._form(entries[key])] for key in sorted(entries)],
            [[[*task] for task in tasks] for tasks in (row.frontier, row.ran, row.deferred)],
            row.joins,
            row.metadata,
            row.extra,
            row.memories,
            sorted([write.origin, write.path, write.kind, self._items(write.items)] for write in writes),
        ]
        return blake2b(ormsgpack.packb(said), digest_size=32, key=self._key).digest()

    def _items(self, items: Iterable[WriteItem]) -> list[Any]:
        return [[item.channel, self._form(item)] for item in items]

    def _form(self, item: Entry | WriteItem) -> Any:
        if item.packed is not None:
            return [*item.packed]
        if isinstance(item.parts, Record):
            return self._items(item.parts.items)
        if isinstance(item.parts, Manifest):
            parts = [[self._elements(part[0], part[1])] if len(part) == 2 else self._some(*part) for part in item.parts.parts]
            return [item.parts.kind, item.parts.count, parts]
        return self._values.get(item.ref or 0, b"")

    def _some(self, n: int, skip: int, take: int) -> list[Any]:
        return [self._values.get(n, b""), skip, take]

    def _elements(self, first: int, last: int) -> bytes:
        """The digest of some segments. Of a value that grows, only the new ones are looked at."""
        end, digest = self._ranges.get(first, (first - 1, None))
        if digest is None or end > last:
            end, digest = first - 1, blake2b(digest_size=16)
        for n in range(end + 1, last + 1):
            digest.update(self._values.get(n, b""))
        self._ranges[first] = (last, digest)
        return bytes(digest.digest())
