"""From how a value is stored to the value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from perdure.checkpoint.incremental.compression import unsqueezed
from perdure.checkpoint.incremental.manifest import Manifest
from perdure.checkpoint.incremental.segments import MSGPACK, ONE, build
from perdure.checkpoint.records import Entry, Record, WriteItem
from perdure.constants import OVERWRITE_PREFIX
from perdure.errors import CorruptRecord
from perdure.types import Overwrite

if TYPE_CHECKING:
    from perdure.checkpoint.serde.base import SerializerProtocol


def write_of(item: WriteItem, values: Mapping[int, tuple[str, bytes]], serde: SerializerProtocol) -> tuple[str, Any]:
    """The channel and the value of a write; see `value_of`."""
    value = value_of(item, values, serde)
    if item.channel.startswith(OVERWRITE_PREFIX):
        return item.channel[len(OVERWRITE_PREFIX) :], Overwrite(value)
    return item.channel, value


def value_of(item: Entry | WriteItem, values: Mapping[int, tuple[str, bytes]], serde: SerializerProtocol) -> Any:
    """The value of an entry or a write.

    Args:
        item: how it is stored.
        values: value rows, by number.
        serde: how bytes become values.

    Raises:
        CorruptRecord: it is missing or damaged.
        StateTypeError: a type in it is unknown here, or no longer fits.
    """
    packed: tuple[str, bytes] | None = item.packed
    if packed is not None:
        return serde.loads_typed(packed)
    if isinstance(item.parts, Manifest):
        return build(item.parts, values, serde)
    if isinstance(item.parts, Record):
        return {each.channel: value_of(each, values, serde) for each in item.parts.items}
    packed = None if item.ref is None else values.get(item.ref)
    if packed is None:
        raise CorruptRecord(f"value {item.ref} is missing")
    tag, data = unsqueezed(packed)
    # What was written may have become an element, and is stored as that.
    return serde.loads_typed((MSGPACK if tag == ONE else tag, data))
