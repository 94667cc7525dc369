"""Checkpoints made by hand: later than those before them, sharing nothing with them, and taken by every saver."""

from __future__ import annotations

from typing import Any

from perdure.channels import LastValue
from perdure.checkpoint.base import (
    copy_checkpoint,
    create_checkpoint,
    empty_checkpoint,
    get_checkpoint_metadata,
    get_serializable_checkpoint_metadata,
)
from perdure.checkpoint.memory import InMemorySaver
from perdure.types import RunnableConfig

CONFIG: RunnableConfig = {
    "configurable": {"thread_id": "t", "checkpoint_ns": "", "user": "u"},
    "metadata": {"m": 1, "plain": True},
}


def holding(value: Any) -> Any:
    channel = LastValue(int, "a")
    if value is not None:
        channel.update([value])
    return channel


def test_an_empty_checkpoint_holds_nothing():
    made = empty_checkpoint()
    assert (made["channel_values"], made["channel_versions"], made["versions_seen"], made["updated_channels"]) == (
        {},
        {},
        {},
        None,
    )
    assert made["ts"].endswith("+00:00")
    assert made["id"] < create_checkpoint(made, None, 0)["id"]


def test_a_copy_has_dicts_of_its_own():
    made = empty_checkpoint()
    made["versions_seen"] = {"a": {"x": 1}}
    copy = copy_checkpoint(made)
    assert copy == made
    copy["channel_values"]["x"] = 1
    copy["channel_versions"]["x"] = 1
    copy["versions_seen"]["a"]["x"] = 2
    assert (made["channel_values"], made["channel_versions"], made["versions_seen"]) == ({}, {}, {"a": {"x": 1}})


def test_the_next_checkpoint_has_the_values_of_channels_with_a_version():
    first = empty_checkpoint()
    first["channel_versions"] = {"a": 1, "empty": 1, "gone": 1}
    channels = {"a": holding(5), "empty": holding(None), "unversioned": holding(7)}
    assert create_checkpoint(first, channels, 1)["channel_values"] == {"a": 5}
    assert create_checkpoint(first, None, 1, id="mine")["id"] == "mine"
    assert first["channel_values"] == {}


def test_an_id_is_later_even_than_one_of_the_future():
    future = create_checkpoint(empty_checkpoint(), None, 0, id="ffffffff-ffff-6ffe-8000-000000000000")
    assert create_checkpoint(future, None, 1)["id"] > future["id"]


def test_metadata_is_that_of_the_config_and_of_the_checkpoint():
    given: Any = {**CONFIG, "metadata": {**CONFIG["metadata"], "object": object(), "step": -7}}
    assert get_checkpoint_metadata(given, {"source": "loop", "step": 1}) == {"m": 1, "plain": True, "source": "loop", "step": 1}
    assert "writes" not in get_serializable_checkpoint_metadata(given, {"step": 1, "writes": {"a": object()}})


def test_a_saver_takes_what_was_made():
    saver = InMemorySaver()
    first = empty_checkpoint()
    stored = saver.put(CONFIG, first, {"source": "input", "step": -1}, {})
    second = create_checkpoint(first, None, 0)
    second["channel_values"], second["channel_versions"] = {"n": 1}, {"n": 1}
    saver.put(stored, second, {"source": "loop", "step": 0}, {"n": 1})
    assert [found.checkpoint["id"] for found in saver.list(CONFIG)] == [second["id"], first["id"]]
    found = saver.get_tuple(CONFIG)
    assert found is not None
    assert found.checkpoint["channel_values"] == {"n": 1}
