"""P13 and P15: answers go to questions by id; what answers nothing raises, and stores nothing."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.checkpoint.saver import Saver
from perdure.errors import AmbiguousAnswer, UnknownCheckpoint, UnknownInterruptError, UnknownThread
from perdure.graph import START, StateGraph
from perdure.types import Command, interrupt
from tests.promises.asking import Entered, graph_of, open_of
from tests.promises.ways import Ledger, Log, Way, chain, on, rows_of

FALSY = [None, False, 0, 0.0, "", {}, [], ()]
NOBODY = "0" * 32


def refused(
    way: Way, saver: Saver, graph: Any, resume: Any, error: type[Exception] = UnknownInterruptError, **config: Any
) -> Any:
    """The error that an answer raises; nothing of the thread has changed."""
    before = rows_of(saver)
    with pytest.raises(error) as caught:
        way.invoke(graph, Command(resume=resume), on(**config))
    assert rows_of(saver) == before
    with pytest.raises(error):
        way.stream(graph, Command(resume=resume), on(**config))
    assert rows_of(saver) == before
    return caught.value


# -- routing --------------------------------------------------------------------------------------------------------------------------


def test_P13_one_question_is_answered_bare_or_by_id(way: Way, saver: Saver) -> None:
    graph = graph_of(a=Entered().asks(way, "a")).compile(saver)
    way.invoke(graph, {"log": []}, on("bare"))
    assert way.invoke(graph, Command(resume="x"), on("bare")) == {"log": ["a:x"]}
    ids = open_of(way.invoke(graph, {"log": []}, on("by id")))
    assert way.invoke(graph, Command(resume={ids["a"]: "x"}), on("by id")) == {"log": ["a:x"]}


@pytest.mark.parametrize("order", [["a", "b", "c"], ["c", "a", "b"]], ids="".join)
def test_P13_several_questions_are_answered_one_by_one_in_any_order(way: Way, saver: Saver, order: list[str]) -> None:
    entered = Entered()
    graph = graph_of(**{name: entered.asks(way, name) for name in "abc"}).compile(saver)
    ids = open_of(way.invoke(graph, {"log": []}, on()))
    left = dict(ids)
    for name in order:
        del left[name]
        out = way.invoke(graph, Command(resume={ids[name]: name.upper()}), on())
        assert open_of(out) == left == open_of(way.state(graph, on()))
    assert out == {"log": ["a:A", "b:B", "c:C"]}
    assert entered == {"a": 2, "b": 2, "c": 2}


def test_P13_several_questions_are_answered_by_id_in_one_go(way: Way, saver: Saver) -> None:
    graph = graph_of(**{name: Entered().asks(way, name) for name in "abc"}).compile(saver)
    ids = open_of(way.invoke(graph, {"log": []}, on()))
    answers = {ids["c"]: 3, ids["a"]: 1, ids["b"]: 2}
    assert way.invoke(graph, Command(resume=answers), on()) == {"log": ["a:1", "b:2", "c:3"]}


@pytest.mark.parametrize("resume", [{"approved": True}, {}, {"0" * 31: 1}, {NOBODY: 1, "note": 2}, [NOBODY], NOBODY], ids=repr)
def test_P13_what_is_no_map_of_ids_is_one_answer(way: Way, saver: Saver, resume: Any) -> None:
    graph = graph_of(a=way.node(lambda _: {"log": [interrupt("q")]})).compile(saver)
    way.invoke(graph, {"log": []}, on())
    assert way.invoke(graph, Command(resume=resume), on()) == {"log": [resume]}


@pytest.mark.parametrize("resume", ["x", {}, {"approved": True}, None], ids=repr)
def test_P13_a_bare_answer_to_several_questions_raises_and_lists_them(way: Way, saver: Saver, resume: Any) -> None:
    graph = graph_of(**{name: Entered().asks(way, name) for name in "ab"}).compile(saver)
    ids = open_of(way.invoke(graph, {"log": []}, on()))
    error = refused(way, saver, graph, resume, AmbiguousAnswer)
    assert (error.reason, error.pending_ids) == ("ambiguous", tuple(ids.values()))
    assert all(text in str(error) for text in (*ids.values(), "'a'", "'b'", "resume={id: answer}"))


# -- what answers nothing -------------------------------------------------------------------------------------------------------------


def test_P13_an_unknown_id_raises_even_beside_a_good_one(way: Way, saver: Saver) -> None:
    entered = Entered()
    graph = graph_of(a=entered.asks(way, "a")).compile(saver)
    ids = open_of(way.invoke(graph, {"log": []}, on()))
    for resume in ({NOBODY: "x"}, {ids["a"]: "good", NOBODY: "bad"}):
        error = refused(way, saver, graph, resume)
        assert (error.reason, error.interrupt_ids, error.pending_ids) == ("not_pending", (NOBODY,), (ids["a"],))
    assert entered == {"a": 1}


def test_P13_an_id_that_was_answered_is_not_open_any_more(way: Way, saver: Saver) -> None:
    graph = graph_of(a=Entered().asks(way, "a", "1", "2"), b=Entered().asks(way, "b")).compile(saver)
    ids = open_of(way.invoke(graph, {"log": []}, on()))
    now = open_of(way.invoke(graph, Command(resume={ids["1"]: "x"}), on()))
    assert set(now) == {"2", "b"}
    refused(way, saver, graph, {ids["1"]: "again"})
    refused(way, saver, graph, {ids["1"]: "again", now["2"]: "new"})
    assert open_of(way.state(graph, on())) == now


def test_P13_an_answer_that_waits_cannot_be_given_twice(way: Way, saver: Saver) -> None:
    def node(_: Log) -> dict[str, Any]:
        found = []
        for name in ("A", "B"):
            try:
                found.append(interrupt(name))
            except BaseException:
                found.append("")
        return {"log": found}

    graph = graph_of(node=way.node(node)).compile(saver)
    ids = open_of(way.invoke(graph, {"log": []}, on()))
    way.invoke(graph, Command(resume={ids["A"]: "first"}), on())
    refused(way, saver, graph, {ids["A"]: "second"})
    assert way.invoke(graph, Command(resume="b"), on()) == {"log": ["first", "b"]}


def test_P13_an_answer_to_a_finished_thread_raises(way: Way, saver: Saver) -> None:
    graph = graph_of(a=Entered().asks(way, "a")).compile(saver)
    ids = open_of(way.invoke(graph, {"log": []}, on()))
    way.invoke(graph, Command(resume="x"), on())
    for resume in ("again", {ids["a"]: "again"}, {NOBODY: 1}):
        refused(way, saver, graph, resume)


def test_P13_an_answer_to_a_thread_that_never_asked_raises(way: Way, saver: Saver, ledger: Ledger) -> None:
    graph = chain(("a", ledger.node("a"))).compile(saver)
    way.invoke(graph, {"log": []}, on())
    for resume in ("x", {NOBODY: 1}):
        refused(way, saver, graph, resume)
    assert ledger.ran == ["a"]


def test_P13_an_answer_to_a_thread_that_failed_raises(way: Way, saver: Saver) -> None:
    def fail(_: Log) -> None:
        raise ValueError("no")

    graph = graph_of(a=way.node(fail)).compile(saver)
    with pytest.raises(ValueError, match="no"):
        way.invoke(graph, {"log": []}, on())
    refused(way, saver, graph, "x")


@pytest.mark.parametrize("resume", ["x", None, {NOBODY: 1}], ids=repr)
def test_P13_an_answer_to_an_unknown_or_deleted_thread_raises_and_makes_none(way: Way, saver: Saver, resume: Any) -> None:
    graph = graph_of(a=Entered().asks(way, "a")).compile(saver)
    refused(way, saver, graph, resume, UnknownThread)
    way.invoke(graph, {"log": []}, on())
    way.delete(saver, "t")
    refused(way, saver, graph, resume, UnknownThread)
    assert way.state(graph, on()).config == on()


def test_P13_an_answer_to_an_unknown_checkpoint_raises(way: Way, saver: Saver) -> None:
    graph = graph_of(a=Entered().asks(way, "a")).compile(saver)
    way.invoke(graph, {"log": []}, on())
    refused(way, saver, graph, "x", UnknownCheckpoint, checkpoint_id="1f0e6a4d-0cc9-69a0-8004-db0e1af0b36f")


def test_P13_an_answer_of_another_thread_is_unknown(way: Way, saver: Saver) -> None:
    graph = graph_of(a=Entered().asks(way, "a")).compile(saver)
    other = open_of(way.invoke(graph, {"log": []}, on("other")))
    mine = open_of(way.invoke(graph, {"log": []}, on()))
    assert other["a"] != mine["a"]
    refused(way, saver, graph, {other["a"]: "x"})


def test_P13_new_input_closes_a_question(way: Way, saver: Saver) -> None:
    graph = graph_of(a=Entered().asks(way, "a")).compile(saver)
    old = open_of(way.invoke(graph, {"log": ["1"]}, on()))
    new = open_of(way.invoke(graph, {"log": ["2"]}, on()))
    assert old["a"] != new["a"]
    refused(way, saver, graph, {old["a"]: "x"})
    assert way.invoke(graph, Command(resume="x"), on()) == {"log": ["1", "2", "a:x"]}


def test_P13_an_answer_with_a_bad_update_stores_nothing(way: Way, saver: Saver) -> None:
    graph = graph_of(a=Entered().asks(way, "a")).compile(saver)
    way.invoke(graph, {"log": []}, on())
    before = rows_of(saver)
    for command in (Command(resume="x", update={"nonsense": 1}), Command(resume="x", goto="nowhere")):
        with pytest.raises(ValueError, match=r"nonsense|nowhere"):
            way.invoke(graph, command, on())
        assert rows_of(saver) == before


def test_P13_an_answer_that_cannot_be_stored_stores_nothing(way: Way, saver: Saver) -> None:
    graph = graph_of(a=Entered().asks(way, "a")).compile(saver)
    way.invoke(graph, {"log": []}, on())
    before = rows_of(saver)
    with pytest.raises(TypeError, match="resume"):
        way.invoke(graph, Command(resume=object()), on())
    assert rows_of(saver) == before
    assert way.invoke(graph, Command(resume="x"), on()) == {"log": ["a:x"]}


# -- static breakpoints ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", [{"interrupt_before": ["b"]}, {"interrupt_after": ["a"]}, {"interrupt_before": "*"}], ids=str)
@pytest.mark.parametrize("resume", ["go", None, False, {}, {"a": 1}], ids=repr)
def test_P13_a_static_breakpoint_takes_any_bare_answer(way: Way, saver: Saver, ledger: Ledger, where: Any, resume: Any) -> None:
    graph = chain(("a", ledger.node("a")), ("b", ledger.node("b"))).compile(saver, **where)
    way.invoke(graph, {"log": []}, on())
    assert way.state(graph, on()).next != ()
    while way.state(graph, on()).next:
        out = way.invoke(graph, Command(resume=resume), on())
    assert out == {"log": ["a", "b"]}


def test_P13_a_static_breakpoint_does_not_know_any_id(way: Way, saver: Saver, ledger: Ledger) -> None:
    graph = chain(("a", ledger.node("a")), ("b", ledger.node("b"))).compile(saver, interrupt_before=["b"])
    way.invoke(graph, {"log": []}, on())
    refused(way, saver, graph, {NOBODY: "x"})
    assert way.invoke(graph, None, on()) == {"log": ["a", "b"]}


# -- falsy answers --------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("answer", FALSY, ids=repr)
def test_P15_falsy_answers_of_questions_at_once_and_in_a_row(way: Way, saver: Saver, answer: Any) -> None:
    def node(_: Log) -> dict[str, Any]:
        return {"log": [interrupt("1"), interrupt("2")]}

    graph = graph_of(node=way.node(node), other=way.node(lambda _: {"log": [interrupt("3")]})).compile(saver)
    ids = open_of(way.invoke(graph, {"log": []}, on()))
    ids = open_of(way.invoke(graph, Command(resume={ids["1"]: answer}), on()))
    out = way.invoke(graph, Command(resume=dict.fromkeys(ids.values(), answer)), on())
    assert out == {"log": [answer] * 3}
    assert {type(given) for given in out["log"]} == {type(answer)}


@pytest.mark.parametrize("answer", FALSY, ids=repr)
def test_P15_falsy_answers_reach_a_subgraph(way: Way, saver: Saver, answer: Any) -> None:
    sub: StateGraph[Any, Any, Any, Any] = StateGraph(Log)
    sub.add_node("ask", way.node(lambda _: {"log": [interrupt("q")]})).add_edge(START, "ask")
    builder: StateGraph[Any, Any, Any, Any] = StateGraph(Log)
    graph = builder.add_node("sub", sub.compile()).add_edge(START, "sub").compile(saver)
    way.invoke(graph, {"log": []}, on())
    assert way.invoke(graph, Command(resume=answer), on()) == {"log": [answer]}
