"""Which values are stored by element, and by which serializers."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from perdure.checkpoint.serde.base import SerializerProtocol

KINDS: Mapping[type, str] = {list: "list", dict: "dict", set: "set"}
"""Exact types of values that are stored by element."""


def is_incremental(serde: SerializerProtocol) -> bool:
    """Whether a serializer can store elements one by one. One that changes how values are encoded must say so for elements as well."""
    return _is_incremental(type(serde))


@cache
def _is_incremental(cls: type) -> bool:
    if not hasattr(cls, "dumps_elements"):
        return False
    owners = [
        next((c for c in cls.__mro__ if name in vars(c)), object) for name in ("dumps_elements", "dumps_typed", "loads_typed")
    ]
    return all(issubclass(owners[0], owner) for owner in owners[1:])
