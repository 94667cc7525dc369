"""Worked example A.2: node a asks "q1" and then {"q": 2}; what follows a needless answer and a needless None."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.checkpoint.saver import Saver
from perdure.errors import EmptyInputError, UnknownInterruptError
from perdure.types import Command, Interrupt
from tests.promises.ways import Way, on
from tests.reference.shapes import EMPTY, asking_twice, line, lines, plain, pull, tasks

DONE: dict[str, Any] = {"foo": "R1R2", "bar": ["a", "b"]}
Q1 = Interrupt("q1", "<0>")
Q2 = Interrupt({"q": 2}, "<0>")
NODE_A = ("__pregel_pull", "a")


def answer_both(way: Way, graph: Any) -> None:
    """Run the graph to its end."""
    way.invoke(graph, EMPTY, on("1"))
    way.invoke(graph, Command(resume="R1"), on("1"))
    way.invoke(graph, Command(resume="R2"), on("1"))


def test_the_first_question(way: Way, saver: Saver) -> None:
    graph = asking_twice(way, saver)
    assert plain(way.invoke(graph, EMPTY, on("1"))) == {**EMPTY, "__interrupt__": [Q1]}
    state = way.state(graph, on("1"))
    assert line(state) == (0, "loop", EMPTY, ("a",), ["q1"])
    assert tasks(state) == [("a", NODE_A, None, ["q1"], None, None)]


def test_the_first_answer_leads_to_the_second_question(way: Way, saver: Saver) -> None:
    graph = asking_twice(way, saver)
    way.invoke(graph, EMPTY, on("1"))
    found = way.stream(graph, Command(resume="R1"), on("1"), stream_mode=["values", "updates"])
    assert plain(found) == [
        ("values", EMPTY),
        ("updates", {"__interrupt__": (Q2,)}),
        ("values", {**EMPTY, "__interrupt__": (Q2,)}),
    ]
    state = way.state(graph, on("1"))
    assert line(state) == (0, "loop", EMPTY, ("a",), [{"q": 2}])
    assert tasks(state) == [("a", NODE_A, None, [{"q": 2}], None, None)]


def test_the_second_answer_ends_the_run(way: Way, saver: Saver) -> None:
    graph = asking_twice(way, saver)
    way.invoke(graph, EMPTY, on("1"))
    way.invoke(graph, Command(resume="R1"), on("1"))
    assert way.invoke(graph, Command(resume="R2"), on("1")) == DONE
    assert lines(way.history(graph, on("1"))) == [
        (2, "loop", DONE, (), 3, 2, []),
        (1, "loop", {"foo": "R1R2", "bar": ["a"]}, ("b",), 2, 1, []),
        pull("b", {"bar": ["b"]}),
        (0, "loop", EMPTY, ("a",), 1, 0, [{"q": 2}]),
        pull("a", {"foo": "R1R2", "bar": ["a"]}, {"q": 2}),
        (-1, "input", {"bar": []}, ("__start__",), 0, None, []),
        pull("__start__", EMPTY),
    ]


def test_none_on_a_finished_thread_changes_nothing(way: Way, saver: Saver) -> None:
    graph = asking_twice(way, saver)
    answer_both(way, graph)
    before = way.history(graph, on("1"))
    assert way.invoke(graph, None, on("1")) == DONE
    assert way.history(graph, on("1")) == before


def test_P13_a_needless_answer_is_an_error(way: Way, saver: Saver) -> None:
    graph = asking_twice(way, saver)
    answer_both(way, graph)
    before = way.history(graph, on("1"))
    with pytest.raises(UnknownInterruptError):
        way.invoke(graph, Command(resume="R3"), on("1"))
    assert way.history(graph, on("1")) == before


def test_none_on_a_fresh_thread_is_an_empty_input(way: Way, saver: Saver) -> None:
    with pytest.raises(EmptyInputError, match="Received no input for __start__"):
        way.invoke(asking_twice(way, saver), None, on("fresh"))


def _start(number: int, name: str = "a", given: Any = EMPTY) -> dict[str, Any]:
    return {"id": f"<{number}>", "name": name, "input": given, "triggers": (f"branch:to:{name}",)}


def _end(number: int, name: str, result: Any, *questions: dict[str, Any]) -> dict[str, Any]:
    return {"id": f"<{number}>", "name": name, "error": None, "result": result, "interrupts": list(questions)}


def _asked(number: int, value: Any) -> dict[str, Any]:
    return {"value": value, "id": f"<{number}>", "response_schema": None}


FIRST: dict[str, Any] = {
    "values": [EMPTY, {**EMPTY, "__interrupt__": (Q1,)}],
    "updates": [{"__interrupt__": (Q1,)}],
    "tasks": [_start(0), _end(0, "a", {}, _asked(1, "q1"))],
}
SECOND: dict[str, Any] = {
    "values": [EMPTY, {**EMPTY, "__interrupt__": (Q2,)}],
    "updates": [{"__interrupt__": (Q2,)}],
    "tasks": [_start(0), _end(0, "a", {}, _asked(1, {"q": 2}))],
}
AFTER_A: dict[str, Any] = {"foo": "R1R2", "bar": ["a"]}
THIRD: dict[str, Any] = {
    "values": [EMPTY, AFTER_A, DONE],
    "updates": [{"a": {"foo": "R1R2", "bar": ["a"]}}, {"b": {"bar": ["b"]}}],
    "tasks": [
        _start(0),
        _end(0, "a", {"foo": "R1R2", "bar": ["a"]}),
        _start(1, "b", AFTER_A),
        _end(1, "b", {"bar": ["b"]}),
    ],
}


@pytest.mark.parametrize("mode", FIRST)
def test_the_streams_of_each_mode(way: Way, saver: Saver, mode: str) -> None:
    graph = asking_twice(way, saver)
    for given, expected in ((EMPTY, FIRST), (Command(resume="R1"), SECOND), (Command(resume="R2"), THIRD)):
        assert plain(way.stream(graph, given, on("1"), stream_mode=mode)) == expected[mode]


def test_a_resume_tells_the_checkpoint_that_it_starts_from(way: Way, saver: Saver) -> None:
    graph = asking_twice(way, saver)
    way.invoke(graph, EMPTY, on("1"))
    (found,) = plain(way.stream(graph, Command(resume="R1"), on("1"), stream_mode="checkpoints"))
    assert found == {
        "config": {"configurable": {"thread_id": "1", "checkpoint_ns": "", "checkpoint_id": "<0>"}},
        "parent_config": {"configurable": {"thread_id": "1", "checkpoint_ns": "", "checkpoint_id": "<1>"}},
        "values": EMPTY,
        "metadata": {"source": "loop", "step": 0, "parents": {}},
        "next": ["a"],
        "tasks": [{"id": "<2>", "name": "a", "interrupts": (_asked(3, "q1"),), "state": None}],
    }


@pytest.mark.parametrize(("mode", "expected"), [(mode, FIRST[mode]) for mode in ("values", "updates")])
def test_none_on_a_paused_thread_tells_the_open_question_again(way: Way, saver: Saver, mode: str, expected: Any) -> None:
    graph = asking_twice(way, saver)
    way.invoke(graph, EMPTY, on("1"))
    assert plain(way.stream(graph, None, on("1"), stream_mode=mode)) == expected
