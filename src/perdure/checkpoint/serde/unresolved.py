"""A stored value whose class is not here. Tools that only look can carry it around, and it saves back as the same bytes."""

from __future__ import annotations

from typing import Any


class Unresolved:
    """What `on_unknown="keep"` gives in place of a value that cannot be built.

    Attributes:
        name: the stored name of its type.
        reason: why it could not be built.
        data: its stored content as plain data, as far as readable; a look only, what is saved is `payload`.
        code: the extension code of the format, or None for a whole record under `tag`.
        payload: the stored bytes.
        tag: the record's tag, where the record as a whole could not be read.
    """

    __slots__ = ("code", "data", "name", "payload", "reason", "tag")

    def __init__(
        self, name: str, payload: bytes, *, code: int | None = None, tag: str | None = None, reason: str = "", data: Any = None
    ) -> None:
        self.name = name
        self.payload = payload
        self.code = code
        self.tag = tag
        self.reason = reason
        self.data = data

    @property
    def module(self) -> str:
        """The module part of the stored name."""
        return self.name.partition(":")[0]

    @property
    def qualname(self) -> str:
        """The class part of the stored name."""
        return self.name.partition(":")[2]

    def __repr__(self) -> str:
        return f"<Unresolved {self.name}, {len(self.payload)} bytes: {self.reason}>"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Unresolved):
            return NotImplemented
        return (self.code, self.tag, self.payload) == (other.code, other.tag, other.payload)

    def __hash__(self) -> int:
        return hash((self.code, self.tag, self.payload))
