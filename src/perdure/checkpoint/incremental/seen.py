"""What a run has stored, to be found again by its bytes. Each is remembered by a digest."""

from __future__ import annotations

from collections.abc import Collection
from hashlib import blake2b

REMEMBERED = 1024
"""Of so many; then it begins anew."""


class Seen:
    """Numbers of stored segments of one element, by what they hold.

    Notes:
        `add` may be called from any thread.
    """

    __slots__ = ("_numbers",)

    def __init__(self) -> None:
        self._numbers: dict[bytes, int] = {}

    def add(self, data: bytes, n: int) -> None:
        """Remember that segment `n` holds this."""
        if len(self._numbers) >= REMEMBERED:
            self._numbers = {}
        self._numbers[digest_of(data)] = n

    def find(self, data: bytes) -> int | None:
        """The number of a segment that holds this."""
        return self._numbers.get(digest_of(data)) if self._numbers else None

    def drop(self, gone: Collection[int]) -> None:
        """These will never be stored."""
        self._numbers = {digest: n for digest, n in self._numbers.items() if n not in gone}


def digest_of(data: bytes, tag: str = "") -> bytes:
    """What stands for bytes, and a tag."""
    return blake2b(data, digest_size=16, key=tag.encode()[:64]).digest()
