"""Large values are compressed, where that saves enough to be worth the time.

The tag says so: "zstd:" before the tag of what was compressed.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from perdure.checkpoint.records import Packed
from perdure.errors import CorruptRecord

PREFIX = "zstd:"
LEAST = 4096
"""Smaller values are left as they are."""

LONGEST = 1 << 30
"""Bytes. Larger values are left as they are, so what claims to become larger is none of ours. Some kilobytes can become terabytes."""

SAVES = 0.8
"""The compressed value is kept if it is at most this part of the value."""


def squeezed(packed: Packed) -> Packed:
    """The value compressed, or as it is if that saves too little."""
    tag, data = packed
    if not LEAST < len(data) <= LONGEST and not tag.startswith(PREFIX):
        return packed
    zstd = _zstd()
    if zstd is None:
        return packed
    small: bytes = zstd.compress(data)
    # A serializer's own tag that looks like ours is wrapped in any case, so that reading takes off what was put on.
    return Packed(PREFIX + tag, small) if len(small) <= len(data) * SAVES or tag.startswith(PREFIX) else packed


def unsqueezed(packed: tuple[str, bytes]) -> tuple[str, bytes]:
    """The value as it was.

    Raises:
        CorruptRecord: the bytes are damaged, or the package that can read them is not installed.
    """
    tag, data = packed
    try:
        if not tag.startswith(PREFIX):
            return packed
    except (AttributeError, TypeError):
        raise CorruptRecord(f"a stored value is damaged: its tag is {tag!r}, which is no text") from None
    return tag[len(PREFIX) :], _expanded(data)


def check_squeezed(tag: str, data: bytes) -> None:
    """Refuse a compressed value from outside that nobody should expand; without expanding it.

    Raises:
        CorruptRecord: it does not say how long the value is, or that is more than `LONGEST` bytes.
    """
    length_of((tag, data))


def length_of(packed: tuple[str, bytes]) -> int:
    """How long a stored value is when it is expanded, as far as it says.

    Raises:
        CorruptRecord: it is compressed, and does not say so or says too much.
    """
    tag, data = packed
    zstd = _zstd() if tag.startswith(PREFIX) else None
    return len(data) if zstd is None else _length(zstd, data)


def _expanded(data: bytes) -> bytes:
    zstd = _zstd()
    if zstd is None:
        raise CorruptRecord("a stored value is compressed with zstd; reading it takes: pip install backports.zstd")
    length = _length(zstd, data)
    reader = zstd.ZstdDecompressor()
    try:
        # One frame, which zstd does not let grow beyond what it says: a second one behind it would not be bounded.
        found: bytes = reader.decompress(data)
    except zstd.ZstdError as error:
        raise CorruptRecord(f"a stored value is damaged: {error}") from error
    if not reader.eof or reader.unused_data or len(found) != length:
        raise CorruptRecord(f"a stored value is damaged: it should be one compressed value of {length} bytes")
    return found


def _length(zstd: Any, data: bytes) -> int:
    """How long a compressed value says that it is."""
    try:
        length: int | None = zstd.get_frame_info(data).decompressed_size
    except zstd.ZstdError as error:
        raise CorruptRecord(f"a stored value is damaged: {error}") from error
    if length is None or length > LONGEST:
        said = "of unknown length" if length is None else f"of {length} bytes"
        raise CorruptRecord(f"a stored value is damaged: it would become one {said}, and at most {LONGEST} are read")
    return length


@cache
def _zstd() -> Any:
    """The module, None if there is none. Imported here, for most threads never need it."""
    import sys

    try:
        if sys.version_info >= (3, 14):
            from compression import zstd
        else:
            from backports import zstd
    except ImportError:
        return None
    return zstd
