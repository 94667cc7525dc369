"""Worked example A.5: edit an old checkpoint, run the fork, replay the old checkpoint, replay the head, `__copy__`."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.checkpoint.saver import Saver
from perdure.types import StateSnapshot
from tests.promises.ways import Way, on
from tests.reference.shapes import EMPTY, Line, line, linear, lines, plain, pull, tasks

AFTER_A: dict[str, Any] = {"foo": "a", "bar": ["a"]}
AFTER_B: dict[str, Any] = {"foo": "b", "bar": ["a", "b"]}
UPDATE_A: dict[str, Any] = {"foo": "a", "bar": ["a"]}
UPDATE_B: dict[str, Any] = {"foo": "b", "bar": ["b"]}
EDITED: dict[str, Any] = {"foo": "edited", "bar": ["a", "u"]}
FORKED: dict[str, Any] = {"foo": "b", "bar": ["a", "u", "b"]}

FIRST_RUN: list[Line] = [
    (2, "loop", AFTER_B, (), 3, 2, []),
    (1, "loop", AFTER_A, ("node_b",), 2, 1, []),
    pull("node_b", UPDATE_B),
    (0, "loop", EMPTY, ("node_a",), 1, 0, []),
    pull("node_a", UPDATE_A),
    (-1, "input", {"bar": []}, ("__start__",), 0, None, []),
    pull("__start__", EMPTY),
]
FORK: list[Line] = [
    (3, "loop", FORKED, (), 5, 4, []),
    (2, "update", EDITED, ("node_b",), 4, 2, []),
    pull("node_b", UPDATE_B),
]
REPLAY: list[Line] = [
    (3, "loop", AFTER_B, (), 7, 6, []),
    (2, "fork", AFTER_A, ("node_b",), 6, 2, []),
    pull("node_b", UPDATE_B),
]


def before_b(way: Way, graph: Any) -> StateSnapshot:
    """The checkpoint of the first run before node_b."""
    return [one for one in way.history(graph, on("1")) if one.next == ("node_b",)][-1]


def run_once(way: Way, saver: Saver) -> Any:
    graph = linear(way, saver)
    way.invoke(graph, EMPTY, on("1"))
    return graph


def edited(way: Way, saver: Saver) -> tuple[Any, Any]:
    """The graph, and the config of the edit of the checkpoint before node_b."""
    graph = run_once(way, saver)
    return graph, way.edit(graph, before_b(way, graph).config, {"foo": "edited", "bar": ["u"]})


def test_an_edit_of_an_old_checkpoint_is_a_fork(way: Way, saver: Saver) -> None:
    graph, config = edited(way, saver)
    state = way.state(graph, on("1"))
    assert state.config == config
    assert line(state) == (2, "update", EDITED, ("node_b",), [])
    assert tasks(state) == [("node_b", ("__pregel_pull", "node_b"), None, [], None, None)]
    assert state.parent_config == before_b(way, graph).config


def test_the_fork_runs_beside_the_old_branch(way: Way, saver: Saver) -> None:
    graph, config = edited(way, saver)
    assert way.invoke(graph, None, config) == FORKED
    assert lines(way.history(graph, on("1"))) == [*FORK, *FIRST_RUN]


def test_replaying_an_old_checkpoint_makes_another_branch(way: Way, saver: Saver) -> None:
    graph, config = edited(way, saver)
    way.invoke(graph, None, config)
    assert way.invoke(graph, None, before_b(way, graph).config) == AFTER_B
    assert lines(way.history(graph, on("1"))) == [*REPLAY, *FORK, *FIRST_RUN]


def test_replaying_the_finished_head_adds_a_fork_checkpoint_and_runs_nothing(way: Way, saver: Saver) -> None:
    graph, config = edited(way, saver)
    way.invoke(graph, None, config)
    way.invoke(graph, None, before_b(way, graph).config)
    assert way.invoke(graph, None, way.state(graph, on("1")).config) == AFTER_B
    assert lines(way.history(graph, on("1"))) == [(4, "fork", AFTER_B, (), 8, 7, []), *REPLAY, *FORK, *FIRST_RUN]


def test_a_copy_is_a_sibling_of_what_it_copies(way: Way, saver: Saver) -> None:
    graph = run_once(way, saver)
    config = way.edit(graph, before_b(way, graph).config, None, as_node="__copy__")
    state = way.state(graph, config)
    assert line(state) == (2, "fork", AFTER_A, ("node_b",), [])
    assert lines(way.history(graph, on("1"))) == [
        (2, "fork", AFTER_A, ("node_b",), 4, 1, []),
        pull("node_b", None),
        *FIRST_RUN,
    ]
    assert way.invoke(graph, None, config) == AFTER_B


@pytest.mark.parametrize(
    ("edits", "values", "following"),
    [
        ([({"bar": ["x"]}, "node_a")], {"foo": "a", "bar": ["a", "x"]}, ("node_b",)),
        ([({"bar": ["x"]}, "node_a"), ({"bar": ["y"]}, "node_b")], {"foo": "a", "bar": ["a", "x", "y"]}, ("node_b",)),
        ([({"bar": ["y"]}, "node_b")], {"foo": "a", "bar": ["a", "y"]}, ()),
    ],
)
def test_a_copy_may_be_edited_at_once(
    way: Way, saver: Saver, edits: list[Any], values: dict[str, Any], following: tuple[str, ...]
) -> None:
    graph = run_once(way, saver)
    config = way.edit(graph, before_b(way, graph).config, edits, as_node="__copy__")
    assert line(way.state(graph, config)) == (3, "update", values, following, [])
    assert line(way.history(graph, on("1"))[1]) == (2, "fork", AFTER_A, ("node_b",), [])


def test_new_input_at_an_old_checkpoint_is_its_child(way: Way, saver: Saver) -> None:
    graph = run_once(way, saver)
    config = before_b(way, graph).config
    assert way.invoke(graph, {"foo": "n", "bar": ["n"]}, config) == {"foo": "b", "bar": ["a", "n", "a", "b"]}
    newest, *rest = lines(way.history(graph, on("1")))
    assert newest == (5, "loop", {"foo": "b", "bar": ["a", "n", "a", "b"]}, (), 7, 6, [])
    assert (2, "input", AFTER_A, ("__start__",), 4, 2, []) in rest


def _events(way: Way, saver: Saver, mode: str) -> list[Any]:
    graph = run_once(way, saver)
    return way.stream(graph, None, before_b(way, graph).config, stream_mode=mode)


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("values", [AFTER_A, AFTER_B]),
        ("updates", [{"node_b": UPDATE_B}]),
        (
            "tasks",
            [
                {"id": "<0>", "name": "node_b", "input": AFTER_A, "triggers": ("branch:to:node_b",)},
                {"id": "<0>", "name": "node_b", "error": None, "result": UPDATE_B, "interrupts": []},
            ],
        ),
    ],
)
def test_the_streams_of_a_replay(way: Way, saver: Saver, mode: str, expected: Any) -> None:
    assert plain(_events(way, saver, mode)) == expected


def test_the_checkpoints_of_a_replay(way: Way, saver: Saver) -> None:
    found = plain(_events(way, saver, "checkpoints"))
    assert [(one["metadata"]["source"], one["metadata"]["step"], one["values"], one["next"]) for one in found] == [
        ("fork", 2, AFTER_A, ["node_b"]),
        ("loop", 3, AFTER_B, []),
    ]
    assert found[0]["tasks"] == [{"id": "<2>", "name": "node_b", "interrupts": (), "state": None}]
    assert found[1]["parent_config"] == found[0]["config"]


def test_nothing_is_told_but_the_state_where_nothing_is_left_to_run(way: Way, saver: Saver) -> None:
    graph = run_once(way, saver)
    assert way.stream(graph, None, on("1"), stream_mode="values") == [AFTER_B]
    assert way.stream(graph, None, on("1"), stream_mode="updates") == []
    (found,) = way.stream(graph, None, on("1"), stream_mode="checkpoints")
    assert (found["values"], found["next"], found["tasks"]) == (AFTER_B, [], [])
