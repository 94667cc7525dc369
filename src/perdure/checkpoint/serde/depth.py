"""How deep MessagePack is nested, counted without recursion and without building anything.

The C decoder recurses for each level and would overflow the stack of the process on hostile bytes; see `format_v1.MAX_LEVELS`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from perdure.checkpoint.serde.format_v1 import FREE_REGIONS, RAW_CODES

_FIXED: Final = {
    0xC0: 1, 0xC1: 1, 0xC2: 1, 0xC3: 1, 0xCA: 5, 0xCB: 9, 0xCC: 2, 0xCD: 3, 0xCE: 5, 0xCF: 9, 0xD0: 2, 0xD1: 3, 0xD2: 5, 0xD3: 9,
}  # fmt: skip
"""Length of a token by its first byte, where that says it all."""
_SIZED: Final = {0xC4: 1, 0xC5: 2, 0xC6: 4, 0xD9: 1, 0xDA: 2, 0xDB: 4}
"""Bytes that hold the length of a str or bin."""
_FIXED_EXT: Final = {0xD4: 1, 0xD5: 2, 0xD6: 4, 0xD7: 8, 0xD8: 16}
_SIZED_EXT: Final = {0xC7: 1, 0xC8: 2, 0xC9: 4}


@dataclass(slots=True)
class Nesting:
    """What loading a record takes, on its most demanding path.

    Attributes:
        extensions: extensions inside each other.
        levels: arrays and maps inside each other, in sum over the extensions that are not free (`format_v1.FREE_REGIONS`).
        copied: bytes of payloads open at one time.
    """

    extensions: int = 0
    levels: int = 0
    copied: int = 0


def levels_of(data: bytes, extensions: list[tuple[int, int, int]] | None = None) -> int:
    """Levels of arrays and maps in one MessagePack value; extensions count as leaves. Broken bytes give some number.

    Args:
        data: the bytes.
        extensions: receives code, start and end of each extension.
    """
    position = 0
    size = len(data)
    deepest = 0
    # How many values are still to come in each open array or map.
    left = [1]
    while position < size:
        while left and not left[-1]:
            left.pop()
        if not left:
            break
        left[-1] -= 1
        head = data[position]
        if head < 0x80 or head >= 0xE0:
            position += 1
        elif head < 0xA0:
            left.append((head & 15) * (2 if head < 0x90 else 1))
            position += 1
        elif head < 0xC0:
            position += 1 + (head & 31)
        elif head in _FIXED:
            position += _FIXED[head]
        elif head in _SIZED:
            width = _SIZED[head]
            position += 1 + width + int.from_bytes(data[position + 1 : position + 1 + width], "big")
        elif head >= 0xDC:
            width = 4 if head & 1 else 2
            left.append(int.from_bytes(data[position + 1 : position + 1 + width], "big") * (2 if head >= 0xDE else 1))
            position += 1 + width
        else:
            width = _SIZED_EXT.get(head, 0)
            length = int.from_bytes(data[position + 1 : position + 1 + width], "big") if width else _FIXED_EXT[head]
            start = position + 2 + width
            if extensions is not None and start <= size:
                extensions.append((data[start - 1], start, start + length))
            position = start + length
        deepest = max(deepest, len(left) - 1)
    return deepest


def nesting_of(data: bytes) -> Nesting:
    """What loading this record takes, its extensions included."""
    most = Nesting()
    open_: list[tuple[bytes, int, int, int]] = [(data, 0, 0, 0)]
    while open_:
        region, extensions, levels, copied = open_.pop()
        inner: list[tuple[int, int, int]] = []
        own = levels_of(region, inner)
        if extensions >= FREE_REGIONS:
            levels += own
        most.extensions = max(most.extensions, extensions)
        most.levels = max(most.levels, levels)
        most.copied = max(most.copied, copied)
        for code, start, end in inner:
            if code in RAW_CODES:
                most.extensions = max(most.extensions, extensions + 1)
            else:
                open_.append((region[start:end], extensions + 1, levels, copied + end - start))
    return most
