"""Checkpoints made by hand, in the shape that savers exchange: for savers of your own and for tests of them.

The runtime makes its checkpoints elsewhere, and does not need this.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from perdure.clock import SYSTEM_CLOCK, iso_of
from perdure.errors import CorruptRecord, EmptyChannelError
from perdure.ids import checkpoint_id, next_ticks, ticks_in

if TYPE_CHECKING:
    from perdure.checkpoint.base import Checkpoint, CheckpointMetadata
    from perdure.types import RunnableConfig

LATEST_VERSION = 2
"""The version of the shape."""


def empty_checkpoint() -> Checkpoint:
    """A checkpoint of now, with nothing in it."""
    now = SYSTEM_CLOCK.now_ns()
    return {
        "v": LATEST_VERSION,
        "id": checkpoint_id(next_ticks(now, 0), -2),
        "ts": iso_of(now),
        "channel_values": {},
        "channel_versions": {},
        "versions_seen": {},
        "updated_channels": None,
    }


def copy_checkpoint(checkpoint: Checkpoint) -> Checkpoint:
    """The same checkpoint with dicts of its own, which hold the same values."""
    copy = checkpoint.copy()
    copy["channel_values"] = checkpoint["channel_values"].copy()
    copy["channel_versions"] = checkpoint["channel_versions"].copy()
    copy["versions_seen"] = {node: seen.copy() for node, seen in checkpoint.get("versions_seen", {}).items()}
    return copy


def create_checkpoint(
    checkpoint: Checkpoint, channels: Mapping[str, Any] | None, step: int, *, id: str | None = None
) -> Checkpoint:
    """The checkpoint after another one.

    Args:
        checkpoint: the one before.
        channels: whose values it is to have, those that have a version and a value; None: the same values.
        step: its super-step.
        id: its id; a new one, later than that of the one before, unless given.
    """
    now = SYSTEM_CLOCK.now_ns()
    made = copy_checkpoint(checkpoint)
    made["v"], made["ts"], made["updated_channels"] = LATEST_VERSION, iso_of(now), None
    made["id"] = checkpoint_id(next_ticks(now, _ticks_of(checkpoint["id"])), step) if id is None else id
    if channels is not None:
        made["channel_values"] = _values_of({key: channels[key] for key in made["channel_versions"] if key in channels})
    return made


def _ticks_of(id: str) -> int:
    try:
        return ticks_in(id)
    except CorruptRecord:  # an id of somebody's own making
        return 0


def _values_of(channels: Mapping[str, Any]) -> dict[str, Any]:
    values = {}
    for key, channel in channels.items():
        try:
            values[key] = channel.get()
        except EmptyChannelError:
            continue
    return values


def get_checkpoint_metadata(config: RunnableConfig, metadata: CheckpointMetadata) -> CheckpointMetadata:
    """The metadata to store with a checkpoint: plain values of the config's metadata, and what `metadata` says, which wins.

    Nothing of `configurable` is in it: savers of this library have `persist=` for that.
    """
    plain = {key: value for key, value in (config.get("metadata") or {}).items() if isinstance(value, (str, int, float, bool))}
    return {**plain, **metadata}  # type: ignore[typeddict-item]


def get_serializable_checkpoint_metadata(config: RunnableConfig, metadata: CheckpointMetadata) -> CheckpointMetadata:
    """`get_checkpoint_metadata` without `writes`, for savers whose metadata is JSON."""
    found = get_checkpoint_metadata(config, metadata)
    found.pop("writes", None)
    return found
