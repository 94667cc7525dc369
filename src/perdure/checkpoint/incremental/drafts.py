"""Written values on their way to rows: a draft waits to learn what became of its elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from perdure.checkpoint.incremental.manifest import Manifest, Place
from perdure.checkpoint.incremental.shadow import Change
from perdure.checkpoint.records import Packed, ValueRow


class Form(NamedTuple):
    """How a value is stored: its bytes, the number of its row, or the parts that it is made of."""

    packed: Packed | None
    ref: int | None = None
    parts: Manifest | None = None


class Draft:
    """A written value that waits to be stored: if its elements become elements of a channel, it refers to them.

    Attributes:
        owner: the row that it belongs to.
        channel: where it was written to.
        kind: list, dict or set; "one" if it is none of these, but may become an element of one.
        data: the bytes of its elements; None where `change` says what it is.
        change: what it makes of the value of its channel, which was `before` then.
        number: of the row of its own that "one" gets if it becomes nothing else.
        form: how it is stored, when that is known; `put` is told.
    """

    __slots__ = ("before", "change", "channel", "counts", "data", "form", "kind", "number", "owner", "put", "version")

    def __init__(self, owner: Any, channel: str, kind: str) -> None:
        self.owner = owner
        self.channel = channel
        self.kind = kind
        self.data: list[bytes] | None = None
        self.change: Change | None = None
        self.before: Manifest | None = None
        self.counts: dict[int, int] = {}
        self.version = 0
        self.number: int | None = None
        self.form: Form | None = None
        self.put: Callable[[Form], None] | None = None

    def settle(self, form: Form) -> None:
        """It is stored like this."""
        self.form = form
        if self.put is not None:
            self.put(form)


class Step(NamedTuple):
    """The result of a durable step as rows.

    Attributes:
        form: how it is stored.
        rows: value rows.
        single: what segments of one large element hold, by number.
        packed: the result, encoded as a whole.
    """

    form: Form
    rows: list[ValueRow]
    single: dict[int, bytes]
    packed: Packed


class Fresh(NamedTuple):
    """Elements of a channel's value that this checkpoint adds: their bytes and places."""

    kind: str
    data: list[bytes]
    places: list[Place]
    counts: dict[int, int]
    first: dict[bytes, int]


def place_of(data: list[bytes], new: Fresh, cursor: int) -> int | None:
    """Where these elements stand among the new ones, one after the other; looked for from `cursor` on first."""
    for at in (cursor, new.first.get(data[0])):
        if at is not None and new.data[at : at + len(data)] == data:
            return at
    return None
