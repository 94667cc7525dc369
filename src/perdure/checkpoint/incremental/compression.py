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

SAVES = 0.8
"""The compressed value is kept if it is at most this part of the value."""


def squeezed(packed: Packed) -> Packed:
    """The value compressed, or as it is if that saves too little."""
    tag, data = packed
    if len(data) <= LEAST and not tag.startswith(PREFIX):
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
    zstd = _zstd()
    if zstd is None:
        raise CorruptRecord("a stored value is compressed with zstd; reading it takes: pip install backports.zstd")
    try:
        return tag[len(PREFIX) :], zstd.decompress(data)
    except zstd.ZstdError as error:
        raise CorruptRecord(f"a stored value is damaged: {error}") from error


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
