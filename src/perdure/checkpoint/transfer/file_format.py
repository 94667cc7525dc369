"""A thread as a file, format version 1: written and read in one pass, row by row, sealed at the end.

    file    = MAGIC thread row* seal
    each    = length of the head (4 bytes, big-endian), head, body
    head    = MessagePack array of plain scalars: [kind, length of the body, key …]
    thread    [0, length, 1 (the format), thread id, status, graph, fingerprint, head, next_n, newest, created_ns, updated_ns]
              its body is the thread's metadata
    row       see `raw`, in the order of travel
    seal      [255, 32, namespaces, values, checkpoints, writes, children, branches]
              its body is the BLAKE2b digest (32 bytes) of every byte before the seal

The same thread is the same bytes whenever it is exported. Reading allocates no more than what has really been read, and hands out
nothing unpacked but scalars.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from typing import Any, Protocol

import ormsgpack

from perdure.checkpoint.records import ThreadRow
from perdure.checkpoint.rows import metadata_again, metadata_body
from perdure.checkpoint.transfer.checks import RowCheck, thread_of
from perdure.checkpoint.transfer.raw import IDENTIFIED_BY, RawRow, Tally, head_of
from perdure.errors import CorruptRecord, UnknownFormat, WrongType

MAGIC = b"\x89PRD\r\n\x1a\n"
"""Not text, and damaged by what damages line ends or cuts at eight bits."""

FORMAT = 1
THREAD = 0
SEAL = 255
LONGEST_HEAD = 1 << 20
"""Bytes. A head holds ids and paths; a longer one is not read."""

_CHUNK = 1 << 20


class Writable(Protocol):
    """A file to write bytes to."""

    def write(self, data: bytes, /) -> Any:
        """Write all of it."""
        ...


class Readable(Protocol):
    """A file to read bytes from."""

    def read(self, size: int, /) -> bytes | Any:
        """Up to `size` bytes; none at the end."""
        ...


class FileWriter:
    """Writes one thread.

    Args:
        file: where to; only ever appended to.
    """

    def __init__(self, file: Writable) -> None:
        self._file = file
        self._hash = blake2b(digest_size=32)
        self._tally = Tally()

    def begin(self, thread: ThreadRow) -> None:
        """Write the head of the file."""
        body = metadata_body(thread.metadata)
        slow = (thread.thread, thread.status, thread.graph, thread.fingerprint)
        place = (thread.head, thread.next_n, thread.newest, thread.created_ns, thread.updated_ns)
        self._put(MAGIC)
        self._frame(ormsgpack.packb([THREAD, len(body), FORMAT, *slow, *place]), body)

    def add(self, rows: Iterable[RawRow]) -> None:
        """Write rows, which are the next in the order of travel."""
        rows = list(rows)
        self._tally.add(rows)
        for row in rows:
            self._frame(head_of(row), row.body)

    def end(self) -> None:
        """Write the seal."""
        digest = self._hash.digest()
        self._frame(ormsgpack.packb([SEAL, len(digest), *self._tally.contents().counts]), digest)

    def _frame(self, head: bytes, body: bytes) -> None:
        self._put(len(head).to_bytes(4, "big") + head)
        self._put(body)

    def _put(self, data: bytes) -> None:
        self._hash.update(data)
        self._file.write(data)


class FileReader:
    """Reads one thread, and not a byte more.

    Args:
        file: where from.
        name: what to call it in errors.
    """

    def __init__(self, file: Readable, name: str) -> None:
        self._file = file
        self._name = name
        self._hash = blake2b(digest_size=32)
        self._read = 0
        self._check: RowCheck | None = None
        self._sealed = False

    def begin(self) -> ThreadRow:
        """Read the head of the file.

        Raises:
            CorruptRecord: it is no file of a thread. UnknownFormat: a newer version wrote it.
        """
        if self._bytes(len(MAGIC)) != MAGIC:
            raise self._damaged("it does not begin as an exported thread does: give a file that export_thread wrote")
        fields, length = self._head()
        if fields[0] != THREAD or len(fields) < 3 or type(fields[2]) is not int:
            raise self._damaged("it does not begin with its thread")
        if fields[2] > FORMAT:
            raise UnknownFormat(
                f"{self._name} has format {fields[2]}; this version of perdure reads up to {FORMAT}: upgrade it"
            )
        try:
            thread = thread_of(fields[3:], metadata_again(self._bytes(length, most=LONGEST_HEAD)))
        except (CorruptRecord, ValueError) as error:
            raise self._damaged(str(error)) from error
        self._check = RowCheck(thread)
        return thread

    def rows(self, budget: int) -> list[RawRow]:
        """The next rows, about `budget` bytes of them; none at the end, and then the seal was right.

        Raises:
            CorruptRecord: the file was cut off or altered.
        """
        found: list[RawRow] = []
        while budget > 0 and not self._sealed:
            row = self._row()
            if row is not None:
                found.append(row)
                budget -= len(row.body) + 64
        return found

    def _row(self) -> RawRow | None:
        check = self._check
        assert check is not None
        before = self._hash.digest()
        fields, length = self._head()
        kind, key = fields[0], tuple(fields[2:])
        if kind == SEAL:
            self._unseal(before, key, self._bytes(length, most=32))
            return None
        if type(kind) is not int or kind not in IDENTIFIED_BY:
            raise self._damaged(f"it has a row of a kind that this version of perdure does not know ({kind!r}): upgrade it")
        try:
            check.key(kind, key)
            row = RawRow(kind, key, self._bytes(length, most=check.longest(kind)))
            check.body(row)
        except UnknownFormat as error:
            raise UnknownFormat(f"{self._name} cannot be imported: {error}. Nothing of it was stored") from error
        except ValueError as error:
            raise self._damaged(str(error)) from error
        return row

    def _unseal(self, digest: bytes, counts: tuple[Any, ...], stored: bytes) -> None:
        self._sealed = True
        if digest != stored or counts != self._counts():
            raise self._damaged("it was altered after it was written: its digest or its counts do not fit its rows")
        assert self._check is not None
        try:
            self._check.end()
        except ValueError as error:
            raise self._damaged(str(error)) from error

    def _counts(self) -> tuple[int, ...]:
        assert self._check is not None
        return self._check.counts

    def _head(self) -> tuple[list[Any], int]:
        length = int.from_bytes(self._bytes(4), "big")
        if length > LONGEST_HEAD:
            raise self._damaged("it has a row with an impossible length")
        try:
            fields = ormsgpack.unpackb(self._bytes(length))
        except ValueError as error:
            raise self._damaged(f"a row cannot be read ({error})") from error
        if type(fields) is not list or len(fields) < 2 or type(fields[1]) is not int or fields[1] < 0:
            raise self._damaged("it has a row that is none")
        return fields, fields[1]

    def _bytes(self, size: int, *, most: int | None = None) -> bytes:
        """Exactly so many bytes, in pieces: a length is only a claim until the bytes are there."""
        if most is not None and size > most:
            raise self._damaged(f"it has a row of {size} bytes, where at most {most} are read")
        pieces: list[bytes] = []
        left = size
        while left:
            piece = self._file.read(min(left, _CHUNK))
            if not isinstance(piece, bytes):
                raise WrongType("a thread is imported from a file that is opened for reading bytes: open(path, 'rb')")
            if not piece:
                raise self._damaged("it ends too early: it was cut off")
            pieces.append(piece)
            left -= len(piece)
        data = b"".join(pieces)
        self._read += size
        self._hash.update(data)
        return data

    def _damaged(self, what: str) -> CorruptRecord:
        return CorruptRecord(f"{self._name} cannot be imported (byte {self._read}): {what}. Nothing of it was stored")
