"""Worked example A.10: parallel questions answered by id, an error handler, a deferred node, a replay at a question."""

from __future__ import annotations

import operator
from typing import Annotated, Any, TypedDict

import pytest

from perdure.checkpoint.saver import Saver
from perdure.graph import START, StateGraph
from perdure.runtime import NodeError
from perdure.types import Command, Interrupt
from tests.promises.ways import Way, on
from tests.reference.shapes import EMPTY, State, asking_last, asking_side_by_side, line, lines, plain, pull, tasks

# -- two questions at once ------------------------------------------------------------------------------------------------


def asked(way: Way, saver: Saver) -> tuple[Any, dict[str, str]]:
    """The graph after both have asked, and the id of each question."""
    graph = asking_side_by_side(way, saver)
    way.invoke(graph, EMPTY, on("1"))
    return graph, {pause.value: pause.id for pause in way.state(graph, on("1")).interrupts}


def test_both_questions_are_shown(way: Way, saver: Saver) -> None:
    graph = asking_side_by_side(way, saver)
    found = plain(way.invoke(graph, EMPTY, on("1")))
    assert found == {**EMPTY, "__interrupt__": [Interrupt("qa", "<0>"), Interrupt("qb", "<1>")]}


def test_a_bare_answer_to_two_questions_is_an_error(way: Way, saver: Saver) -> None:
    graph, ids = asked(way, saver)
    with pytest.raises(RuntimeError, match="When there are multiple pending interrupts, you must specify the interrupt id"):
        way.invoke(graph, Command(resume="X"), on("1"))
    assert {pause.id for pause in way.state(graph, on("1")).interrupts} == set(ids.values())


def test_one_answer_by_id_leaves_the_other_open(way: Way, saver: Saver) -> None:
    graph, ids = asked(way, saver)
    found = plain(way.invoke(graph, Command(resume={ids["qb"]: "B"}), on("1")))
    assert found == {"foo": "", "bar": ["bB"], "__interrupt__": [Interrupt("qa", "<0>")]}
    state = way.state(graph, on("1"))
    assert line(state) == (0, "loop", {"foo": "", "bar": ["bB"]}, ("a",), ["qa"])
    assert [(name, questions, result) for name, _, _, questions, _, result in tasks(state)] == [
        ("a", ["qa"], None),
        ("b", [], {"bar": ["bB"]}),
    ]


def test_the_last_answer_may_be_bare(way: Way, saver: Saver) -> None:
    graph, ids = asked(way, saver)
    way.invoke(graph, Command(resume={ids["qb"]: "B"}), on("1"))
    assert way.invoke(graph, Command(resume="A"), on("1")) == {"foo": "", "bar": ["aA", "bB"]}
    assert lines(way.history(graph, on("1"))) == [
        (1, "loop", {"foo": "", "bar": ["aA", "bB"]}, (), 2, 1, []),
        (0, "loop", EMPTY, ("a", "b"), 1, 0, ["qa", "qb"]),
        pull("a", {"bar": ["aA"]}, "qa"),
        pull("b", {"bar": ["bB"]}, "qb"),
        (-1, "input", {"bar": []}, ("__start__",), 0, None, []),
        pull("__start__", EMPTY),
    ]


def test_the_streams_of_one_answer_after_the_other(way: Way, saver: Saver) -> None:
    graph, ids = asked(way, saver)
    still = {"__interrupt__": (Interrupt("qa", "<0>"),)}
    found = plain(way.stream(graph, Command(resume={ids["qb"]: "B"}), on("1"), stream_mode=["values", "updates"]))
    assert found == [
        ("values", EMPTY),
        ("updates", still),
        ("values", {**EMPTY, **still}),
        ("updates", {"b": {"bar": ["bB"]}}),
        ("values", {"foo": "", "bar": ["bB"]}),
    ]
    assert way.stream(graph, Command(resume="A"), on("1"), stream_mode=["values", "updates"]) == [
        ("values", EMPTY),
        ("updates", {"b": {"bar": ["bB"]}, "__metadata__": {"cached": True}}),
        ("updates", {"a": {"bar": ["aA"]}}),
        ("values", {"foo": "", "bar": ["aA", "bB"]}),
    ]


# -- an error handler -----------------------------------------------------------------------------------------------------


def handled(way: Way, saver: Saver) -> Any:
    """Node a always fails; its handler says so."""

    def a(_: State) -> None:
        raise ValueError("x")

    def handler(_: State, error: NodeError) -> dict[str, Any]:
        return {"bar": [f"handled {error.node} {error.error!r}"]}

    builder = StateGraph(State).add_node("a", way.node(a), error_handler=way.node(handler))
    return builder.add_edge(START, "a").compile(checkpointer=saver)


HANDLED: dict[str, Any] = {"foo": "", "bar": ["handled a ValueError('x')"]}


def test_the_handlers_result_is_the_steps(way: Way, saver: Saver) -> None:
    graph = handled(way, saver)
    assert way.invoke(graph, EMPTY, on("1")) == HANDLED
    state = way.state(graph, on("1"))
    assert line(state) == (1, "loop", HANDLED, (), [])
    assert lines(way.history(graph, on("1")))[1:3] == [
        (0, "loop", EMPTY, ("a",), 1, 0, []),
        pull("a", None, error="ValueError('x')"),
    ]


def test_the_events_of_a_handled_failure(way: Way, saver: Saver) -> None:
    found = plain(way.stream(handled(way, saver), EMPTY, on("1"), stream_mode=["tasks", "updates"]))
    assert [(mode, repr(payload)) for mode, payload in found] == [
        ("tasks", repr({"id": "<0>", "name": "a", "input": EMPTY, "triggers": ("branch:to:a",)})),
        ("tasks", repr({"id": "<0>", "name": "a", "error": ValueError("x"), "result": {}, "interrupts": []})),
        ("updates", repr({"__error_handler__a": {"bar": HANDLED["bar"]}})),
        (
            "tasks",
            repr(
                {"id": "<1>", "name": "__error_handler__a", "error": None, "result": {"bar": HANDLED["bar"]}, "interrupts": []}
            ),
        ),
    ]


def test_a_handler_that_failed_runs_again_and_its_node_does_not(way: Way, saver: Saver) -> None:
    counts = {"a": 0, "handler": 0}

    def a(_: State) -> None:
        counts["a"] += 1
        raise ValueError("x")

    def handler(_: State, error: NodeError) -> Any:
        counts["handler"] += 1
        if counts["handler"] == 1:
            raise ConnectionResetError("handler")
        return Command(update={"bar": ["handled"]}, goto="z")

    builder = StateGraph(State).add_node("a", way.node(a), error_handler=way.node(handler))
    graph = builder.add_node("z", way.node(lambda _: {"foo": "z"})).add_edge(START, "a").compile(checkpointer=saver)
    with pytest.raises(ConnectionResetError):
        way.invoke(graph, EMPTY, on("1"))
    assert way.invoke(graph, None, on("1")) == {"foo": "z", "bar": ["handled"]}
    assert counts == {"a": 1, "handler": 2}
    assert pull("a", None, error="ValueError('x')") in lines(way.history(graph, on("1"))), "the record of the failure stays"


# -- a deferred node ------------------------------------------------------------------------------------------------------


class Bar(TypedDict):
    bar: Annotated[list[str], operator.add]


def test_a_deferred_node_waits_for_the_longer_way(way: Way, saver: Saver) -> None:
    builder = StateGraph(Bar)
    for name in "abcd":
        builder.add_node(name, way.node(lambda _, name=name: {"bar": [name]}), defer=name == "d")
    builder.add_edge(START, "a").add_edge("a", "b").add_edge("b", "c").add_edge("a", "d").add_edge("c", "d")
    graph = builder.compile(checkpointer=saver)
    assert way.invoke(graph, {"bar": []}, on("1")) == {"bar": ["a", "b", "c", "d"]}
    assert [(one.values["bar"], one.next) for one in way.history(graph, on("1"))] == [
        (["a", "b", "c", "d"], ()),
        (["a", "b", "c"], ("d",)),
        (["a", "b"], ("c",)),
        (["a"], ("b",)),
        ([], ("a",)),
        ([], ("__start__",)),
    ]


# -- a replay at a question -----------------------------------------------------------------------------------------------

FIRST: list[Any] = [
    (2, "loop", {"foo": "", "bar": ["a", "b1"]}, (), 3, 2, []),
    (1, "loop", {"foo": "", "bar": ["a"]}, ("b",), 2, 1, ["q"]),
    pull("b", {"bar": ["b1"]}, "q"),
    (0, "loop", EMPTY, ("a",), 1, 0, []),
    pull("a", {"bar": ["a"]}),
    (-1, "input", {"bar": []}, ("__start__",), 0, None, []),
    pull("__start__", EMPTY),
]
SECOND: list[Any] = [
    (3, "loop", {"foo": "", "bar": ["a", "b2"]}, (), 5, 4, []),
    (2, "fork", {"foo": "", "bar": ["a"]}, ("b",), 4, 2, ["q"]),
    pull("b", {"bar": ["b2"]}, "q"),
]


def answered(way: Way, saver: Saver) -> tuple[Any, Any]:
    """The graph after its question was answered with "1", and the config of the checkpoint before."""
    graph = asking_last(way, saver)
    way.invoke(graph, EMPTY, on("1"))
    way.invoke(graph, Command(resume="1"), on("1"))
    return graph, next(one for one in way.history(graph, on("1")) if one.next == ("b",)).config


def test_a_replay_asks_again_in_a_branch_of_its_own(way: Way, saver: Saver) -> None:
    graph, old = answered(way, saver)
    found = plain(way.invoke(graph, None, old))
    assert found == {"foo": "", "bar": ["a"], "__interrupt__": [Interrupt("q", "<0>")]}
    assert line(way.state(graph, on("1"))) == (2, "fork", {"foo": "", "bar": ["a"]}, ("b",), ["q"])
    assert way.invoke(graph, Command(resume="2"), on("1")) == {"foo": "", "bar": ["a", "b2"]}
    assert lines(way.history(graph, on("1"))) == [*SECOND, *FIRST]


def test_P19_an_answer_at_an_old_checkpoint_makes_a_branch_with_the_new_answer(way: Way, saver: Saver) -> None:
    graph, old = answered(way, saver)
    assert way.invoke(graph, Command(resume="3"), old) == {"foo": "", "bar": ["a", "b3"]}
    history = way.history(graph, on("1"))
    assert [one.values["bar"] for one in history if one.next == ()] == [["a", "b3"], ["a", "b1"]]
    assert [line[:4] for line in lines(history)[-7:]] == [line[:4] for line in FIRST], "the old branch stays as it was"


def test_new_input_at_the_question_leaves_it_unanswered(way: Way, saver: Saver) -> None:
    graph, old = answered(way, saver)
    found = plain(way.invoke(graph, {"bar": ["new"]}, old))
    assert found == {"foo": "", "bar": ["a", "new", "a"], "__interrupt__": [Interrupt("q", "<0>")]}
    assert lines(way.history(graph, on("1")))[:6] == [
        (4, "loop", {"foo": "", "bar": ["a", "new", "a"]}, ("b",), 6, 5, ["q"]),
        pull("b", None, "q"),
        (3, "loop", {"foo": "", "bar": ["a", "new"]}, ("a",), 5, 4, []),
        pull("a", {"bar": ["a"]}),
        (2, "input", {"foo": "", "bar": ["a"]}, ("__start__",), 4, 2, []),
        pull("__start__", {"bar": ["new"]}),
    ]
