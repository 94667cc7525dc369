"""Worked example A.7: durability "exit", two runs of the graph of A.1."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.checkpoint.memory import InMemorySaver
from perdure.checkpoint.saver import Saver
from perdure.types import Command
from tests.promises.ways import Way, on
from tests.reference.shapes import EMPTY, asking_twice, failing_once, linear, lines, plain, pull

ONCE: dict[str, Any] = {"foo": "b", "bar": ["a", "b"]}
TWICE: dict[str, Any] = {"foo": "b", "bar": ["a", "b", "a", "b"]}


def test_each_run_leaves_one_checkpoint(way: Way, saver: Saver) -> None:
    graph = linear(way, saver)
    way.invoke(graph, EMPTY, on("1"), durability="exit")
    assert lines(way.history(graph, on("1"))) == [(2, "loop", ONCE, (), 0, None, [])]
    way.invoke(graph, EMPTY, on("1"), durability="exit")
    assert lines(way.history(graph, on("1"))) == [
        (6, "loop", TWICE, (), 1, 0, []),
        (2, "loop", ONCE, (), 0, None, []),
    ]


def test_a_paused_run_is_saved_with_its_question(way: Way, saver: Saver) -> None:
    graph = asking_twice(way, saver)
    way.invoke(graph, EMPTY, on("1"), durability="exit")
    paused = [(0, "loop", EMPTY, ("a",), 0, None, ["q1"]), pull("a", None, "q1")]
    assert lines(way.history(graph, on("1"))) == paused
    way.invoke(graph, Command(resume="R1"), on("1"), durability="exit")
    assert way.invoke(graph, Command(resume="R2"), on("1"), durability="exit") == {"foo": "R1R2", "bar": ["a", "b"]}
    newest, *_ = lines(way.history(graph, on("1")))
    assert newest == (2, "loop", {"foo": "R1R2", "bar": ["a", "b"]}, (), 1, 0, [])


def test_a_failed_run_is_saved_with_its_good_results(way: Way, saver: Saver) -> None:
    counts = {"ok": 0, "bad": 0}
    graph = failing_once(way, saver, counts)
    with pytest.raises(ValueError, match="boom"):
        way.invoke(graph, EMPTY, on("1"), durability="exit")
    assert lines(way.history(graph, on("1"))) == [
        (0, "loop", EMPTY, ("ok", "bad"), 0, None, []),
        pull("ok", {"bar": ["ok"]}),
        pull("bad", None, error="ValueError('boom')"),
    ]
    assert way.invoke(graph, None, on("1"), durability="exit") == {"foo": "done", "bar": ["bad", "ok"]}
    assert counts == {"ok": 1, "bad": 2}


@pytest.mark.parametrize("mode", ["values", "updates", "checkpoints", "tasks", "debug"])
@pytest.mark.parametrize("durability", ["async", "exit"])
def test_the_streams_of_each_durability(way: Way, saver: Saver, durability: str, mode: str) -> None:
    in_sync = plain(way.stream(linear(way, InMemorySaver()), EMPTY, on("1"), stream_mode=mode))
    found = plain(way.stream(linear(way, saver), EMPTY, on("1"), stream_mode=mode, durability=durability))
    assert found == (_without_parents(in_sync) if durability == "exit" else in_sync)


def _without_parents(value: Any) -> Any:
    """The same events, with no parents: those checkpoints never become parents of anything."""
    if isinstance(value, dict):
        return {key: None if key == "parent_config" else _without_parents(part) for key, part in value.items()}
    return [_without_parents(part) for part in value] if isinstance(value, list) else value
