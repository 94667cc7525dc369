"""How elements lie in value rows, and how a value is put together again from its manifest. Pure.

The bytes of a segment are the MessagePack of its elements, one after the other; of a dict's item the key, then the value. The tag
says how many there are: "e1", "e14". So a whole value is decoded at once, by putting the head of an array before the bytes of all
its segments.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from perdure.checkpoint.incremental.compression import LONGEST, length_of, unsqueezed
from perdure.checkpoint.incremental.manifest import WIDTHS, Manifest, merged_spans
from perdure.errors import CorruptRecord

if TYPE_CHECKING:
    from perdure.checkpoint.serde.base import SerializerProtocol

ALONE = 256
"""An element of this many bytes has a segment of its own; smaller neighbours that were added together share one."""

SHARED = 4096
"""About how many bytes of small elements share a segment."""

ONE = "e1"
MSGPACK = "msgpack"
"""The tag of the serializer's own format, which segments are written in."""


def tag_of(count: int) -> str:
    """The tag of a segment of so many elements."""
    return f"e{count}"


def count_in(tag: str) -> int:
    """How many elements a segment has, by its tag.

    Raises:
        CorruptRecord: it is no segment.
    """
    if tag[:1] != "e" or not tag[1:].isdecimal():
        raise CorruptRecord(f"a stored value has the tag {tag[:30]!r} where elements should be")
    return int(tag[1:])


def cut(elements: Iterable[bytes]) -> list[tuple[int, bytes]]:
    """Elements as segments: (how many, bytes)."""
    segments: list[tuple[int, bytes]] = []
    small: list[bytes] = []
    size = 0
    for element in elements:
        if len(element) >= ALONE:
            if small:
                segments.append((len(small), b"".join(small)))
                small, size = [], 0
            segments.append((1, element))
            continue
        if size + len(element) > SHARED:
            segments.append((len(small), b"".join(small)))
            small, size = [], 0
        small.append(element)
        size += len(element)
    if small:
        segments.append((len(small), b"".join(small)))
    return segments


_LENGTHS = {
    **dict.fromkeys(range(0xC0, 0xC4), 1),
    0xCA: 5, 0xCB: 9, 0xCC: 2, 0xCD: 3, 0xCE: 5, 0xCF: 9, 0xD0: 2, 0xD1: 3, 0xD2: 5, 0xD3: 9,
    0xD4: 3, 0xD5: 4, 0xD6: 6, 0xD7: 10, 0xD8: 18,
}  # fmt: skip
_SIZED = {0xC4: (1, 0), 0xC5: (2, 0), 0xC6: (4, 0), 0xD9: (1, 0), 0xDA: (2, 0), 0xDB: (4, 0), 0xC7: (1, 1), 0xC8: (2, 1), 0xC9: (4, 1)}  # fmt: skip


def ends_in(data: bytes, count: int) -> list[int]:
    """Where each of the MessagePack values in `data` ends.

    Raises:
        CorruptRecord: there are not that many.
    """
    ends: list[int] = []
    at = 0
    try:
        for _ in range(count):
            left = 1
            while left:
                left -= 1
                head = data[at]
                if head < 0x80 or head >= 0xE0:
                    at += 1
                elif head < 0xA0:
                    left += (head & 15) * (2 if head < 0x90 else 1)
                    at += 1
                elif head < 0xC0:
                    at += 1 + (head & 31)
                elif head in _LENGTHS:
                    at += _LENGTHS[head]
                elif head in _SIZED:
                    width, more = _SIZED[head]
                    at += 1 + width + more + int.from_bytes(data[at + 1 : at + 1 + width], "big")
                else:
                    width = 4 if head & 1 else 2
                    left += int.from_bytes(data[at + 1 : at + 1 + width], "big") * (2 if head >= 0xDE else 1)
                    at += 1 + width
            ends.append(at)
    except IndexError:
        at = -1
    if at != len(data):
        raise CorruptRecord("stored elements are damaged: a segment does not hold as many as its tag says")
    return ends


def split(data: bytes, count: int, kind: str) -> list[bytes]:
    """The bytes of each element of a segment."""
    width = WIDTHS[kind]
    if count == 1:
        return [data]
    ends = ends_in(data, count * width)[width - 1 :: width]
    return [data[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def pieces_of(manifest: Manifest, values: Mapping[int, tuple[str, bytes]]) -> tuple[list[bytes], list[int]]:
    """The bytes that make up a value, in pieces and in order, and how many elements each piece is.

    Raises:
        CorruptRecord: a segment is missing or damaged, or there are more or fewer elements than the manifest says.
    """
    _refuse_repeats(manifest, values)
    pieces: list[bytes] = []
    counts: list[int] = []
    for part in manifest.parts:
        if len(part) == 3:
            n, skip, take = part
            count, data = _segment(values, n)
            elements = split(data, count, manifest.kind)[skip : skip + take]
            pieces.append(b"".join(elements))
            counts.append(len(elements))
            continue
        try:
            tags, contents = zip(*map(values.__getitem__, range(part[0], part[1] + 1)), strict=True)
        except KeyError as error:
            raise CorruptRecord(f"segment {error.args[0]} of a stored value is missing") from error
        if tags.count(ONE) == len(tags):
            pieces.extend(contents)
            counts.extend([1] * len(tags))
            continue
        for n in range(part[0], part[1] + 1):
            count, data = _segment(values, n)
            pieces.append(data)
            counts.append(count)
    if sum(counts) != manifest.count:
        raise CorruptRecord(f"a stored {manifest.kind} has {sum(counts)} elements where its manifest says {manifest.count}")
    return pieces, counts


def _refuse_repeats(manifest: Manifest, values: Mapping[int, tuple[str, bytes]]) -> None:
    """Where segments are named more than once, the value is larger than what is stored of it: a file of a kilobyte could fill the memory.

    Raises:
        CorruptRecord: such a value has more than `LONGEST` bytes.
    """
    ranges = [(part[0], part[1] if len(part) == 2 else part[0]) for part in manifest.parts]
    if sum(last - first + 1 for first, last in merged_spans(ranges)) == sum(last - first + 1 for first, last in ranges):
        return
    lengths: dict[int, int] = {}
    left = LONGEST
    for first, last in ranges:
        for n in range(first, last + 1):
            if n in values:
                length = lengths.get(n)
                left -= lengths.setdefault(n, length_of(values[n])) if length is None else length
                if left < 0:
                    raise CorruptRecord(f"a stored {manifest.kind} repeats its elements to more than {LONGEST} bytes")


def _segment(values: Mapping[int, tuple[str, bytes]], n: int) -> tuple[int, bytes]:
    row = values.get(n)
    if row is None:
        raise CorruptRecord(f"segment {n} of a stored value is missing")
    tag, data = unsqueezed(row)
    return count_in(tag), data


def build(manifest: Manifest, values: Mapping[int, tuple[str, bytes]], serde: SerializerProtocol) -> Any:
    """The value.

    Raises:
        CorruptRecord: it is not what was written.
        StateTypeError: a type in it is unknown here, or no longer fits.
    """
    pieces, counts = pieces_of(manifest, values)
    width = WIDTHS[manifest.kind]
    try:
        found = _decoded(pieces, manifest.count * width, serde)
    except CorruptRecord:
        # Some limits hold for what is decoded at once. One by one they hold as they did when the elements were written; and what
        # is damaged shows as what it is.
        found = [thing for data, count in zip(pieces, counts, strict=True) for thing in _decoded([data], count * width, serde)]
    if manifest.kind == "list":
        return found
    try:
        value = dict(zip(found[::2], found[1::2], strict=True)) if width == 2 else set(found)
    except TypeError as error:
        raise CorruptRecord(f"a stored {manifest.kind} is damaged: {error}") from error
    if len(value) != manifest.count:
        raise CorruptRecord(f"a stored {manifest.kind} is damaged: the same element is there twice")
    return value


def _decoded(parts: Sequence[bytes], count: int, serde: SerializerProtocol) -> list[Any]:
    loads = getattr(serde, "loads_elements", None)
    if loads is not None:
        return loads(parts, count)  # type: ignore[no-any-return]
    found = serde.loads_typed((MSGPACK, b"".join([b"\xdd", count.to_bytes(4, "big"), *parts])))
    if type(found) is not list or len(found) != count:
        raise CorruptRecord("stored elements are damaged")
    return found
