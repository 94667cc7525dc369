"""Differences from the reference: questions, answers, edits and branches. See docs/explanation/differences.md."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.checkpoint.saver import Saver
from perdure.errors import AmbiguousAnswer, UnknownInterruptError
from perdure.graph import START, StateGraph
from perdure.types import Command, interrupt
from tests.promises.ways import Way, on
from tests.reference.shapes import (
    EMPTY,
    State,
    asking_last,
    asking_side_by_side,
    asking_twice,
    failing_once,
    line,
    linear,
    lines,
    plain,
    tasks,
)


def asking(way: Way, saver: Saver) -> Any:
    """One node that keeps its answer."""
    builder = StateGraph(State).add_node("a", way.node(lambda _: {"foo": repr(interrupt("q"))}))
    return builder.add_edge(START, "a").compile(checkpointer=saver)


def ids_of(way: Way, graph: Any) -> dict[str, str]:
    return {pause.value: pause.id for pause in way.state(graph, on()).interrupts}


@pytest.mark.parametrize("answer", [None, False, 0, "", {}, []], ids=repr)
def test_P15_empty_values_are_answers(way: Way, saver: Saver, answer: Any) -> None:
    graph = asking(way, saver)
    way.invoke(graph, EMPTY, on())
    assert way.invoke(graph, Command(resume=answer), on())["foo"] == repr(answer)


def test_P13_an_answer_to_nothing_is_an_error_and_stores_nothing(way: Way, saver: Saver) -> None:
    graph = linear(way, saver)
    way.invoke(graph, EMPTY, on())
    before = way.history(graph, on())
    with pytest.raises(UnknownInterruptError, match="no open question"):
        way.invoke(graph, Command(resume="needless"), on())
    assert way.history(graph, on()) == before


def test_P13_an_answer_does_not_start_a_failed_task_again(way: Way, saver: Saver) -> None:
    counts = {"ok": 0, "bad": 0}
    graph = failing_once(way, saver, counts)
    with pytest.raises(ValueError, match="boom"):
        way.invoke(graph, EMPTY, on())
    with pytest.raises(UnknownInterruptError):
        way.invoke(graph, Command(resume="needless"), on())
    assert counts == {"ok": 1, "bad": 1}


def test_P13_an_unknown_id_is_an_error_and_stores_nothing(way: Way, saver: Saver) -> None:
    graph = asking_side_by_side(way, saver)
    way.invoke(graph, EMPTY, on())
    before = ids_of(way, graph)
    with pytest.raises(UnknownInterruptError) as caught:
        way.invoke(graph, Command(resume={"f" * 32: "?", before["qa"]: "A"}), on())
    assert set(caught.value.pending_ids) == set(before.values())
    assert ids_of(way, graph) == before


def test_P13_a_bare_answer_to_several_questions_has_an_error_of_its_own(way: Way, saver: Saver) -> None:
    graph = asking_side_by_side(way, saver)
    way.invoke(graph, EMPTY, on())
    with pytest.raises(AmbiguousAnswer) as caught:
        way.invoke(graph, Command(resume="X"), on())
    assert isinstance(caught.value, RuntimeError), "which is what the reference raises"
    assert set(caught.value.pending_ids) == set(ids_of(way, graph).values())


def test_P14_a_task_that_still_waits_is_not_run_again(way: Way, saver: Saver) -> None:
    entered: list[str] = []

    def node(name: str) -> Any:
        def ask(_: State) -> dict[str, Any]:
            entered.append(name)
            return {"bar": [name + interrupt("q" + name)]}

        return way.node(ask)

    builder = StateGraph(State).add_node("a", node("a")).add_node("b", node("b"))
    graph = builder.add_edge(START, "a").add_edge(START, "b").compile(checkpointer=saver)
    way.invoke(graph, EMPTY, on())
    assert plain(way.invoke(graph, None, on()))["__interrupt__"] != []
    way.invoke(graph, Command(resume={ids_of(way, graph)["qb"]: "B"}), on())
    assert sorted(entered) == ["a", "b", "b"]


def test_P12_a_node_that_catches_exception_still_pauses(way: Way, saver: Saver) -> None:
    def a(_: State) -> dict[str, Any]:
        try:
            return {"foo": interrupt("q")}
        except Exception:
            return {"foo": "swallowed"}

    graph = StateGraph(State).add_node("a", way.node(a)).add_edge(START, "a").compile(checkpointer=saver)
    assert plain(way.invoke(graph, EMPTY, on()))["__interrupt__"] != []
    assert way.invoke(graph, Command(resume="answered"), on())["foo"] == "answered"


def test_P49_questions_are_listed_in_the_order_of_their_tasks(way: Way, saver: Saver) -> None:
    for number in range(5):
        found = way.invoke(asking_side_by_side(way, saver), EMPTY, on(str(number)))
        assert [pause.value for pause in found["__interrupt__"]] == ["qa", "qb"]


def test_P12_the_id_of_a_question_is_the_same_in_every_reading_and_another_one_in_a_fork(way: Way, saver: Saver) -> None:
    graph = asking_last(way, saver)
    way.invoke(graph, EMPTY, on())
    first = ids_of(way, graph)["q"]
    assert ids_of(way, graph)["q"] == first
    way.invoke(graph, None, on())
    assert ids_of(way, graph)["q"] == first
    way.invoke(graph, Command(resume="1"), on())
    way.invoke(graph, None, next(one for one in way.history(graph, on()) if one.next == ("b",)).config)
    assert ids_of(way, graph)["q"] != first


def test_P19_one_checkpoint_answered_twice_gives_two_branches(way: Way, saver: Saver) -> None:
    graph = asking_last(way, saver)
    way.invoke(graph, EMPTY, on())
    paused = way.state(graph, on()).config
    assert way.invoke(graph, Command(resume="1"), paused)["bar"] == ["a", "b1"]
    assert way.invoke(graph, Command(resume="2"), paused)["bar"] == ["a", "b2"]
    assert [one.values["bar"] for one in way.history(graph, on()) if one.next == ()] == [["a", "b2"], ["a", "b1"]]


def test_P19_earlier_answers_of_the_same_task_stay_in_the_new_branch(way: Way, saver: Saver) -> None:
    graph = asking_twice(way, saver)
    way.invoke(graph, EMPTY, on())
    paused = way.state(graph, on()).config
    way.invoke(graph, Command(resume="R1"), on())
    assert way.invoke(graph, Command(resume="R2"), on())["foo"] == "R1R2"
    assert way.invoke(graph, Command(resume="new"), paused)["foo"] == "R1new"


def test_P22_an_edit_in_a_nodes_name_closes_only_that_nodes_task(way: Way, saver: Saver) -> None:
    graph = asking_side_by_side(way, saver)
    way.invoke(graph, EMPTY, on())
    before = ids_of(way, graph)
    way.edit(graph, on(), {"bar": ["edited"]}, as_node="b")
    state = way.state(graph, on())
    assert line(state) == (1, "update", {"foo": "", "bar": ["edited"]}, ("a",), ["qa"])
    assert state.interrupts[0].id == before["qa"]


def test_P22_an_edit_keeps_the_open_question(way: Way, saver: Saver) -> None:
    graph = asking_twice(way, saver)
    way.invoke(graph, EMPTY, on())
    before = ids_of(way, graph)
    way.edit(graph, on(), {"foo": "edited"})
    assert ids_of(way, graph) == before
    assert line(way.state(graph, on())) == (1, "update", {"foo": "edited", "bar": []}, ("a",), ["q1"])


def test_P22_an_edit_keeps_the_results_that_are_stored(way: Way, saver: Saver) -> None:
    counts = {"ok": 0, "bad": 0}
    graph = failing_once(way, saver, counts)
    with pytest.raises(ValueError, match="boom"):
        way.invoke(graph, EMPTY, on())
    way.edit(graph, on(), {"foo": "edited"})
    state = way.state(graph, on())
    assert (state.values, state.next) == ({"foo": "edited", "bar": ["ok"]}, ("bad",))
    assert way.invoke(graph, None, on())["bar"] == ["bad", "ok"]
    assert counts == {"ok": 1, "bad": 2}


def test_P18_an_edit_is_not_shown_as_the_result_of_a_task_that_never_ran(way: Way, saver: Saver) -> None:
    graph = asking_side_by_side(way, saver)
    way.invoke(graph, EMPTY, on())
    way.edit(graph, on(), {"bar": ["edited"]}, as_node="b")
    base = way.history(graph, on())[1]
    assert [(name, result) for name, _, _, _, _, result in tasks(base)] == [("a", None), ("b", None)]


def test_P18_a_callers_command_makes_a_checkpoint_of_its_own(way: Way, saver: Saver) -> None:
    graph = linear(way, saver)
    way.invoke(graph, EMPTY, on())
    before = lines(way.history(graph, on()))
    way.invoke(graph, Command(update={"foo": "c"}), on())
    assert lines(way.history(graph, on())) == [(3, "update", {"foo": "c", "bar": ["a", "b"]}, (), 4, 3, []), *before]
    way.invoke(graph, Command(goto="node_b"), on())
    newest, update, *_ = way.history(graph, on())
    assert (line(newest)[:2], line(update)[:4]) == (
        (5, "loop"),
        (4, "update", {"foo": "c", "bar": ["a", "b"]}, ("node_b",)),
    )


def test_a_callers_command_on_a_new_thread_is_applied_once_and_goes_only_where_it_says(way: Way, saver: Saver) -> None:
    graph = linear(way, saver)
    found = way.invoke(graph, Command(update={"foo": "q", "bar": ["q"]}, goto="node_b"), on())
    assert found == {"foo": "b", "bar": ["q", "b"]}
    assert [line(one)[:4] for one in way.history(graph, on())] == [
        (1, "loop", {"foo": "b", "bar": ["q", "b"]}, ()),
        (0, "update", {"foo": "q", "bar": ["q"]}, ("node_b",)),
    ]
