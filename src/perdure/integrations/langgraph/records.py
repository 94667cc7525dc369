"""What single records of the tables mean: the order of checkpoints, metadata, errors, workflows that are one function. Pure."""

from __future__ import annotations

import ast
import re
from typing import Any

from perdure.checkpoint.serde.stored_error import StoredError
from perdure.constants import END, PREVIOUS, START
from perdure.errors import CorruptRecord
from perdure.ids import ticks_in
from perdure.integrations.langgraph.steering import PULL
from perdure.integrations.langgraph.tables import Key, StoredCheckpoint
from perdure.integrations.langgraph.values import Refusal

_OF_METADATA = ("source", "step", "parents", "counters_since_delta_snapshot", "writes")
_ERROR_TEXT = re.compile(r"(\w+)\((.*)\)", re.DOTALL)


def in_order(keys: list[Key]) -> list[Key]:
    """By id, which is by time; but parents first, whatever the clocks of the machines said."""
    known = {(key.namespace, key.id): key for key in keys}
    done: dict[tuple[str, str], Key] = {}
    for key in sorted(keys, key=lambda key: (key.id, key.namespace)):
        line: list[Key] = []
        here: Key | None = key
        while here is not None and (here.namespace, here.id) not in done and here not in line:
            line.append(here)
            here = None if here.parent is None else known.get((here.namespace, here.parent))
        for one in reversed(line):
            done[one.namespace, one.id] = one
    return list(done.values())


def entrypoint_in(stored_one: StoredCheckpoint) -> str | None:
    """The name of the function, if this checkpoint is of a workflow that is one function."""
    values = stored_one.values
    if not {PREVIOUS, END}.intersection(values) and START not in values:
        return None
    seen = stored_one.fields.get("versions_seen") or {}
    names = [str(name) for name, channels in seen.items() if not str(name).startswith("__") and START in (channels or {})]
    names += [
        write.path.removeprefix(PULL)
        for write in stored_one.writes
        if write.path.startswith(PULL) and START in values and write.path != f"{PULL}{START}"
    ]
    return names[0] if names else None


def refuse_deltas(stored_one: StoredCheckpoint) -> None:
    """Refuse a checkpoint whose values are not all there.

    Raises:
        Refusal: a value is stored by its changes.
    """
    for channel in stored_one.metadata.get("counters_since_delta_snapshot") or ():
        if channel not in stored_one.values:
            raise Refusal(
                f"the value of {channel!r} is stored by its changes (DeltaChannel), which only its own reducer can put together: "
                "run the thread once with a plain reducer there, which writes the value as a whole"
            )


def scalars(metadata: dict[str, Any]) -> dict[str, Any]:
    """What the user and the config attached."""
    return {
        str(key): value
        for key, value in metadata.items()
        if key not in _OF_METADATA and isinstance(value, (str, int, float, bool)) and not key.startswith("__")
    }


def error_of(value: Any) -> StoredError:
    """An error, of which the tables have only what `repr` said."""
    found = _ERROR_TEXT.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        return StoredError("Exception", str(value))
    try:
        message = ast.literal_eval(found[2]) if found[2] else ""
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        message = found[2]
    return StoredError(found[1], message if isinstance(message, str) else found[2])


def ticks(public: str) -> int:
    """The time in a checkpoint's id, 0 if it has none."""
    try:
        return ticks_in(public)
    except CorruptRecord:
        return 0
