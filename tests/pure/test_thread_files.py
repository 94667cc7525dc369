"""The file of a thread: cut off or altered anywhere it is refused, and a hostile one neither runs anything nor fills the memory. (P29, P37)"""

from __future__ import annotations

import io
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ormsgpack
import pytest

from perdure.checkpoint.memory import InMemorySaver
from perdure.checkpoint.records import CheckpointRow, Entry, Packed, Pending, ThreadRow
from perdure.checkpoint.rows import checkpoint_body, pack_id
from perdure.checkpoint.sqlite import SqliteSaver
from perdure.checkpoint.transfer import file_format
from perdure.checkpoint.transfer.checks import LONGEST_BODY
from perdure.checkpoint.transfer.file_format import MAGIC, FileReader, FileWriter
from perdure.checkpoint.transfer.raw import BRANCH, CHECKPOINT, CHILD, NAMESPACE, VALUE, WRITE, RawRow
from perdure.errors import CorruptRecord, StateTypeError, UnknownFormat

FIXTURE = Path(__file__).parents[1] / "formats" / "threads" / "v1.perdure"
ID = pack_id("1f0e6a4d-0cc9-69a0-8004-db0e1af0b36f")
THREAD = ThreadRow("t", head=1, next_n=9, newest=7, graph="G")


def checkpoint(n: int = 1, **fields: Any) -> RawRow:
    row = CheckpointRow(n, 0, "x", None, n, 0, "loop", {}, True)
    for name, value in fields.items():
        setattr(row, name, value)
    return RawRow(CHECKPOINT, (0, n, ID), checkpoint_body(row))


def file_of(*rows: RawRow, thread: ThreadRow = THREAD) -> bytes:
    """A file with a right seal, whatever is in it."""
    file = io.BytesIO()
    writer = FileWriter(file)
    writer.begin(thread)
    writer.add(rows)
    writer.end()
    return file.getvalue()


def refused(data: bytes) -> CorruptRecord:
    saver = InMemorySaver()
    with pytest.raises(CorruptRecord, match="Nothing of it was stored") as error:
        saver.import_thread(io.BytesIO(data))
    assert saver._records._threads == {}
    assert saver._records._arrivals == {}
    return error.value


def test_P29_a_file_that_is_cut_off_anywhere_is_refused():
    data = FIXTURE.read_bytes()
    for size in range(len(data)):
        assert "cut off" in str(refused(data[:size])) or size < len(MAGIC)


def test_P29_a_file_that_is_altered_anywhere_is_refused():
    data = FIXTURE.read_bytes()
    for at in range(len(data)):
        altered = bytearray(data)
        altered[at] ^= 1 << at % 8
        refused(bytes(altered))


def test_P29_what_is_behind_the_thread_is_refused_in_a_file_and_left_alone_in_a_stream(tmp_path: Path):
    path = tmp_path / "file"
    path.write_bytes(FIXTURE.read_bytes() + b"x")
    with pytest.raises(CorruptRecord, match="behind"):
        InMemorySaver().import_thread(path)
    with path.open("rb") as stream:
        InMemorySaver().import_thread(stream)
        assert stream.read() == b"x"


@pytest.mark.parametrize("data", [b"", b"SQLite format 3\x00", MAGIC.replace(b"\r\n", b"\n") + b"x" * 50])
def test_P29_another_file_is_refused(data: bytes):
    assert "export_thread" in str(refused(data)) or not data


def test_P36_a_newer_format_says_so():
    body = ormsgpack.packb({})
    head = ormsgpack.packb([0, len(body), 2, "whatever", "is", "new"])
    with pytest.raises(UnknownFormat, match="has format 2"):
        InMemorySaver().import_thread(io.BytesIO(MAGIC + len(head).to_bytes(4, "big") + head + body))
    newer = checkpoint()._replace(body=ormsgpack.packb([2, "something", "else"]))
    with pytest.raises(UnknownFormat):
        InMemorySaver().import_thread(io.BytesIO(file_of(newer)))


def test_P29_a_small_file_is_taken():
    saver = InMemorySaver()
    assert saver.import_thread(io.BytesIO(file_of(checkpoint()))).counts == (0, 0, 1, 0, 0, 0)
    assert saver.get_tuple({"configurable": {"thread_id": "t"}}) is not None


def path_of_sends(path: str) -> RawRow:
    return checkpoint(frontier=(Pending(path, 1),))


def manifest(*parts: Any, count: int = 1) -> RawRow:
    body = ormsgpack.unpackb(checkpoint().body)
    body[6] = {"k": [1, [0, count, 0, 0, *parts]]}
    return checkpoint()._replace(body=ormsgpack.packb(body))


TRAPS: dict[str, Callable[[], bytes]] = {
    "a number of another thread": lambda: file_of(RawRow(VALUE, (1 << 32, "msgpack"), b"\x01"), checkpoint()),
    "a number that is negative": lambda: file_of(RawRow(VALUE, (-1, "msgpack"), b"\x01"), checkpoint()),
    "a number that was not given out": lambda: file_of(RawRow(VALUE, (9, "msgpack"), b"\x01"), checkpoint()),
    "a number that is a text": lambda: file_of(RawRow(VALUE, ("1", "msgpack"), b"\x01"), checkpoint()),
    "a row of no known kind": lambda: file_of_kinds(77),
    "a kind that is a list": lambda: file_of_kinds([1]),
    "a namespace that is negative": lambda: file_of(checkpoint()._replace(key=(-3, 1, ID))),
    "an id of another length": lambda: file_of(checkpoint()._replace(key=(0, 1, b"short"))),
    "rows out of order": lambda: file_of(checkpoint(2), checkpoint(1)),
    "kinds out of order": lambda: file_of(checkpoint(), RawRow(VALUE, (3, "msgpack"), b"\x01")),
    "a row twice": lambda: file_of(checkpoint(), checkpoint()),
    "no head": lambda: file_of(checkpoint(2)),
    "a head in a subgraph": lambda: file_of(RawRow(NAMESPACE, (3,), b"sub"), checkpoint()._replace(key=(3, 1, ID))),
    "two checkpoints of one id": lambda: file_of(checkpoint(1), checkpoint(2)),
    "a parent that is itself": lambda: file_of(checkpoint(parent=1)),
    "a parent that is later": lambda: file_of(checkpoint(parent=2), checkpoint(2)),
    "a base that is later": lambda: file_of(checkpoint(base=3)),
    "a base that is a text": lambda: file_of(checkpoint(base="1")),
    "a body that is none": lambda: file_of(checkpoint()._replace(body=b"\xc1")),
    "a body of 100,000 arrays in each other": lambda: file_of(checkpoint()._replace(body=b"\x91" * 100_000)),
    "a body that claims 4 billion items": lambda: file_of(checkpoint()._replace(body=b"\xdd\xff\xff\xff\xff\x01")),
    "a body that is too large to be unpacked": lambda: file_of(checkpoint()._replace(body=bytes(LONGEST_BODY + 1))),
    "a child with a body": lambda: file_of(checkpoint(), RawRow(CHILD, (0, 1, "a", 0, 1, 1), b"x")),
    "a child of nothing": lambda: file_of(checkpoint(), RawRow(CHILD, (0, 1, "a", 0, 50, 1))),
    "a branch to nowhere": lambda: file_of(checkpoint(), RawRow(BRANCH, ("b", 50))),
    "a write that is none": lambda: file_of(checkpoint(), RawRow(WRITE, (0, 1, "a", 0), b"\x01")),
    "a namespace without a name": lambda: file_of(RawRow(NAMESPACE, (3,), b""), checkpoint()),
    "a name that is no text": lambda: file_of(RawRow(NAMESPACE, (3,), b"\xff"), checkpoint()),
    "a billion Sends": lambda: file_of(path_of_sends("#0-999999999")),
    "Sends that are none": lambda: file_of(path_of_sends("#a")),
    "Sends backwards": lambda: file_of(path_of_sends("#5-1")),
    "a list of 4 billion segments": lambda: file_of(manifest([1, 1 << 32], count=1 << 32)),
    "a list of segments that are not there": lambda: file_of(manifest([2, 8])),
    "a value that was not given out": lambda: file_of(checkpoint(changes={"k": Entry(1, None, 99)})),
    "a thread of no status": lambda: file_of(checkpoint(), thread=ThreadRow("t", head=1, next_n=9, status="odd")),
    "a thread without an id": lambda: file_of(checkpoint(), thread=ThreadRow("", head=1, next_n=9)),
    "a thread with too many numbers": lambda: file_of(checkpoint(), thread=ThreadRow("t", head=1, next_n=1 << 33)),
    "a thread from the end of time": lambda: file_of(checkpoint(), thread=ThreadRow("t", head=1, next_n=9, newest=1 << 60)),
    "a head that claims 4 GB": lambda: MAGIC + b"\xff\xff\xff\xff",
    "metadata that claims 1 TB": lambda: MAGIC + framed([0, 1 << 40, 1, "t", "idle", "", "", 1, 9, 7, 0, 0]),
    "a value that claims 900 MB": lambda: file_of()[:60] + framed([VALUE, 900 << 20, 1, "msgpack"]) + b"x",
    "a value that claims 1 TB": lambda: begun() + framed([VALUE, 1 << 40, 1, "msgpack"]) + b"x",
    "a length that is negative": lambda: begun() + framed([VALUE, -1, 1, "msgpack"]),
    "a row without a length": lambda: begun() + framed([VALUE]),
    "a row that is a mapping": lambda: begun() + framed({"a": 1}),
    "a seal that is too long": lambda: begun() + framed([255, 1 << 30, 0, 0, 0, 0, 0, 0]) + b"x" * 100,
}


def framed(head: Any) -> bytes:
    data = ormsgpack.packb(head)
    return len(data).to_bytes(4, "big") + data


def begun() -> bytes:
    file = io.BytesIO()
    FileWriter(file).begin(THREAD)
    return file.getvalue()


def file_of_kinds(kind: Any) -> bytes:
    return begun() + framed([kind, 0, 1])


@pytest.mark.parametrize("trap", TRAPS.values(), ids=TRAPS)
def test_P37_a_hostile_file_is_refused_in_little_memory(trap: Callable[[], bytes]):
    data = trap()
    tracemalloc.start()
    refused(data)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 3 * len(data) + 4_000_000


def test_P37_the_same_files_are_refused_by_sqlite(tmp_path: Path):
    with SqliteSaver(tmp_path / "a.db", synchronous="normal") as saver:
        for name, trap in TRAPS.items():
            with pytest.raises(CorruptRecord):
                saver.import_thread(io.BytesIO(trap()))
            tables = ("thread", "lease", "checkpoint", "value", "write", "child", "branch", "namespace")
            for table in tables:
                count: Any = saver._database.run(
                    lambda database, table=table: database.execute(f"SELECT count(*) FROM {table}").fetchone()
                )
                assert count == (0,), (name, table)


def test_P37_a_pickle_in_a_file_is_never_loaded():
    ran: list[str] = []

    class Bomb:
        def __reduce__(self) -> Any:
            return ran.append, ("ran",)

    import pickle

    data = pickle.dumps(Bomb())
    saver = InMemorySaver()
    saver.import_thread(io.BytesIO(file_of(checkpoint(changes={"k": Entry(1, Packed("pickle", data))}))))
    with pytest.raises((StateTypeError, CorruptRecord)):
        saver.get_tuple({"configurable": {"thread_id": "t"}})
    assert ran == []


def test_P29_a_reader_takes_pieces_of_any_size():
    class Trickle(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            return super().read(min(size or 1, 3))

    data = FIXTURE.read_bytes()
    reader = FileReader(Trickle(data), "it")
    reader.begin()
    found = []
    while rows := reader.rows(100):
        found += rows
    assert InMemorySaver().import_thread(Trickle(data)).rows == len(found) > 5


def test_P29_a_text_file_is_refused_with_a_hint(tmp_path: Path):
    class Text:
        def read(self, size: int) -> str:
            return "x"

    with pytest.raises(TypeError, match="rb"):
        InMemorySaver().import_thread(Text())
    assert file_format.FORMAT == 1


def test_P37_a_value_that_would_fill_the_memory_when_it_is_read_is_refused():
    # The head of a zstd frame that says it becomes 2 GiB; with so many zeros the frame would have 64 KB.
    data = b"\x28\xb5\x2f\xfd\xc0\x00" + (2 << 30).to_bytes(8, "little")
    tracemalloc.start()
    error = refused(file_of(RawRow(VALUE, (2, "zstd:bytes"), data), checkpoint()))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert "2147483648 bytes" in str(error)
    assert peak < 5_000_000
    refused(file_of(RawRow(VALUE, (2, "zstd:bytes"), b"no frame"), checkpoint()))
