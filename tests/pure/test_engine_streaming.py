"""Which events a caller wants and the shape it gets them in; the payloads of task, checkpoint and debug events."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.streaming import events
from perdure.streaming.modes import MODES, Event, delivered, shaped, wanted
from perdure.types import Interrupt

PAUSE = Interrupt("q", "1" * 32)
ROOT_EVENT = Event("", "updates", {"a": 1})
CHILD_EVENT = Event("sub:1|inner:2", "updates", {"b": 2})


def test_the_shapes_of_the_first_version() -> None:
    assert shaped(ROOT_EVENT, wanted("updates")) == {"a": 1}
    assert shaped(ROOT_EVENT, wanted(["updates"])) == ("updates", {"a": 1})
    assert shaped(ROOT_EVENT, wanted("updates", subgraphs=True)) == ((), {"a": 1})
    assert shaped(CHILD_EVENT, wanted("updates", subgraphs=True)) == (("sub:1", "inner:2"), {"b": 2})
    assert shaped(CHILD_EVENT, wanted(["updates"], subgraphs=True)) == (("sub:1", "inner:2"), "updates", {"b": 2})


def test_the_one_shape_of_the_second_version() -> None:
    for want in (wanted("updates", version="v2"), wanted(["updates"], subgraphs=True, version="v2")):
        assert shaped(CHILD_EVENT, want) == {"type": "updates", "ns": ("sub:1", "inner:2"), "data": {"b": 2}}
    value = Event("", "values", {"x": 1, "__interrupt__": (PAUSE,)})
    assert shaped(value, wanted("values", version="v2")) == {
        "type": "values",
        "ns": (),
        "data": {"x": 1},
        "interrupts": (PAUSE,),
    }
    assert shaped(Event("", "values", 5), wanted("values", version="v2")) == {
        "type": "values",
        "ns": (),
        "data": 5,
        "interrupts": (),
    }


def test_a_tuple_of_modes_is_a_list_of_modes() -> None:
    assert shaped(ROOT_EVENT, wanted(("updates", "values"))) == ("updates", {"a": 1})


def test_only_what_was_asked_for_is_delivered() -> None:
    sent = [ROOT_EVENT, CHILD_EVENT, Event("", "custom", 1), Event("sub:1", "custom", 2)]
    assert delivered(sent, wanted("updates")) == [{"a": 1}]
    assert delivered(sent, wanted(["custom", "updates"])) == [("updates", {"a": 1}), ("custom", 1)]
    assert delivered(sent, wanted("custom", subgraphs=True)) == [((), 1), (("sub:1",), 2)]
    assert delivered(sent, wanted([])) == []


def test_every_mode_can_be_asked_for() -> None:
    assert (
        wanted(list(MODES)).modes == set(MODES) == {"values", "updates", "checkpoints", "tasks", "debug", "messages", "custom"}
    )


@pytest.mark.parametrize(
    ("modes", "version"), [("all", "v1"), (["updates", "update"], "v1"), ("updates", "v3"), ("updates", 1)], ids=str
)
def test_unknown_modes_and_versions_are_errors(modes: Any, version: Any) -> None:
    with pytest.raises(ValueError, match="unknown stream"):
        wanted(modes, version=version)


def test_the_start_of_a_task() -> None:
    payload = events.task_start("id", "a", {"x": 1}, ["branch:to:a"], None)
    assert payload == {"id": "id", "name": "a", "input": {"x": 1}, "triggers": ("branch:to:a",)}
    assert events.task_start("id", "a", 1, (), {"m": 1})["metadata"] == {"m": 1}


def test_the_end_of_a_task() -> None:
    error = ValueError("x")
    payload = events.task_end("id", "a", error, {}, [PAUSE])
    assert payload["error"] is error
    assert payload["interrupts"] == [{"value": "q", "id": "1" * 32, "response_schema": None}]
    assert list(payload) == ["id", "name", "error", "result", "interrupts"]


def test_a_checkpoint_and_its_debug_event() -> None:
    payload = events.checkpoint({"c": 1}, None, {"x": 1}, {"step": 2}, ("a",), ({"id": "1"},))
    assert payload == {
        "config": {"c": 1},
        "parent_config": None,
        "values": {"x": 1},
        "metadata": {"step": 2},
        "next": ["a"],
        "tasks": [{"id": "1"}],
    }
    assert events.debug(2, "now", "checkpoint", payload) == {
        "step": 2,
        "timestamp": "now",
        "type": "checkpoint",
        "payload": payload,
    }
