"""What an Overwrite among the writes of a super-step means, and the one fold of writes into a value.

Live runs, replays and reloads all fold here, so that they cannot differ.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from perdure.channels.base import MISSING
from perdure.constants import OVERWRITE
from perdure.errors import ErrorCode, InvalidUpdateError
from perdure.types import Overwrite


def overwrite_of(write: Any) -> Any:
    """The value that a write wants to put in place of the old one; MISSING if it is an ordinary write.

    Three forms say so: `Overwrite(v)`, `{"__overwrite__": v}` with no other key, and `{"type": "__overwrite__", "value": v}`
    with any other keys. The dict forms are what remains of it after JSON; a value that looks like one is written as
    `Overwrite({"__overwrite__": …})`.
    """
    kind = type(write)
    if kind is Overwrite:
        value = write.value
        while type(value) is Overwrite:
            value = value.value
        return value
    if kind is dict:
        if len(write) == 1:
            return write.get(OVERWRITE, MISSING)
        form = write.get("type")
        # The type first: an array compared with text gives an array.
        if type(form) is str and form == OVERWRITE:
            return write.get("value", MISSING)
    return MISSING


def only_overwrite(writes: Sequence[Any], key: str = "") -> Any:
    """The value of the one Overwrite among the writes of a super-step; MISSING if there is none.

    Raises:
        InvalidUpdateError: there are two (code INVALID_CONCURRENT_GRAPH_UPDATE): which one wins would be chance.
    """
    found: Any = MISSING
    for write in writes:
        kind = type(write)
        if kind is Overwrite or kind is dict:
            value = overwrite_of(write)
            if value is MISSING:
                continue
            if found is not MISSING:
                raise InvalidUpdateError(
                    f"Can receive only one Overwrite value per super-step. Key {key!r} got several: let one node alone "
                    "overwrite it, or let the nodes run one after the other",
                    key=key,
                    code=ErrorCode.INVALID_CONCURRENT_GRAPH_UPDATE.value,
                )
            found = value
    return found


def fold(reducer: Callable[[Any, Any], Any], value: Any, writes: Sequence[Any], key: str = "") -> Any:
    """The value after the writes of one super-step.

    An Overwrite makes all other writes irrelevant, those before it too: the reducer is not even called. Otherwise the writes
    are folded from the left; if there is no value (MISSING), the first write becomes it.

    Raises:
        InvalidUpdateError: two of the writes are an Overwrite.
        Exception: what the reducer raises, with a note that names the key.
    """
    replaced = only_overwrite(writes, key)
    if replaced is not MISSING:
        return replaced
    for write in writes:
        try:
            value = write if value is MISSING else reducer(value, write)
        except Exception as error:
            error.add_note(
                f"At key {key!r}: its reducer was given a value of type {type(value).__name__} and a write of type "
                f"{type(write).__name__}"
            )
            raise
    return value
