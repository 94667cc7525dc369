"""P15: None, False, 0, "", {} (and other empty values) are answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from perdure.checkpoint.saver import Saver
from perdure.graph import START, StateGraph
from perdure.types import Command, interrupt
from tests.promises.ways import Ledger, Log, Way, abreast, chain, on, open_saver

FALSY: list[Any] = [None, False, 0, 0.0, "", {}, [], (), b"", set()]
each = pytest.mark.parametrize("answer", FALSY, ids=repr)


def asking(way: Way, saver: Saver, got: list[Any], questions: int = 1) -> Any:
    def node(state: Any) -> Any:
        got[:] = [interrupt(f"q{at}") for at in range(questions)]
        return {"log": ["done"]}

    return chain(("ask", way.node(node))).compile(checkpointer=saver)


def same(got: Any, want: Any) -> bool:
    return type(got) is type(want) and got == want


@each
def test_P15_a_bare_falsy_answer_is_an_answer(saver: Saver, way: Way, answer: Any):
    got: list[Any] = []
    graph = asking(way, saver, got)
    way.invoke(graph, {"log": []}, on())
    assert way.invoke(graph, Command(resume=answer), on()) == {"log": ["done"]}
    assert same(got[0], answer)
    assert way.state(graph, on()).next == ()


@each
def test_P15_a_falsy_answer_by_id_is_an_answer(saver: Saver, way: Way, answer: Any):
    got: list[Any] = []
    graph = asking(way, saver, got)
    pause = way.invoke(graph, {"log": []}, on())["__interrupt__"][0]
    assert way.invoke(graph, Command(resume={pause.id: answer}), on()) == {"log": ["done"]}
    assert same(got[0], answer)


@each
def test_P15_a_falsy_answer_is_kept_while_the_node_asks_more(way: Way, answer: Any, tmp_path: Path):
    # Three questions in a row, each answered by a process of its own, as far as one can play that.
    got: list[Any] = []
    for given in ({"log": []}, *[Command(resume=answer)] * 3):
        with open_saver("sqlite", tmp_path) as saver:
            result = way.invoke(asking(way, saver, got, 3), given, on())
    assert result == {"log": ["done"]}
    assert all(same(one, answer) for one in got)


def test_P15_side_by_side_each_gets_its_own(saver: Saver, way: Way):
    got: dict[int, Any] = {}

    def node(at: int) -> Any:
        def ask(state: Any) -> Any:
            got[at] = interrupt(at)
            return {"log": [str(at)]}

        return way.node(ask)

    graph = abreast(*((f"n{at}", node(at)) for at in range(len(FALSY)))).compile(checkpointer=saver)
    pauses = way.invoke(graph, {"log": []}, on())["__interrupt__"]
    some = {pause.id: FALSY[pause.value] for pause in pauses[:4]}
    assert len(way.invoke(graph, Command(resume=some), on())["__interrupt__"]) == len(FALSY) - 4
    rest = {pause.id: FALSY[pause.value] for pause in pauses[4:]}
    way.invoke(graph, Command(resume=rest), on())
    assert all(same(got[at], FALSY[at]) for at in range(len(FALSY)))


@each
def test_P15_inside_a_subgraph(saver: Saver, way: Way, answer: Any):
    got: list[Any] = []

    def ask(state: Any) -> Any:
        got.append(interrupt("?"))
        return {"log": ["child"]}

    child = chain(("ask", way.node(ask))).compile()
    graph = chain(("child", child)).compile(checkpointer=saver)
    way.invoke(graph, {"log": []}, on())
    way.invoke(graph, Command(resume=answer), on())
    assert len(got) == 1
    assert same(got[0], answer)
    assert way.state(graph, on()).next == ()


@each
def test_P15_at_a_static_breakpoint(saver: Saver, way: Way, answer: Any):
    ledger = Ledger(way)
    graph = chain(("a", ledger.node("a")), ("b", ledger.node("b"))).compile(checkpointer=saver, interrupt_before=["b"])
    way.invoke(graph, {"log": []}, on())
    assert way.invoke(graph, Command(resume=answer), on()) == {"log": ["a", "b"]}


def test_P15_a_question_may_be_falsy_too(saver: Saver, way: Way):
    for number, question in enumerate(FALSY):
        builder: StateGraph[Any, Any, Any, Any] = StateGraph(Log)

        def ask(state: Any, question: Any = question) -> Any:
            return {"log": [repr(interrupt(question))]}

        builder.add_node("ask", ask)
        builder.add_edge(START, "ask")
        graph = builder.compile(checkpointer=saver)
        thread = on(f"t{number}")
        result = way.invoke(graph, {"log": []}, thread)
        assert same(result["__interrupt__"][0].value, question)
        assert same(way.state(graph, thread).interrupts[0].value, question)
        assert way.invoke(graph, Command(resume="x"), thread) == {"log": ["'x'"]}


def test_P15_a_command_without_an_answer_answers_nothing(saver: Saver, way: Way):
    got: list[Any] = []
    graph = asking(way, saver, got)
    way.invoke(graph, {"log": []}, on())
    result = way.invoke(graph, Command(update={"log": ["x"]}), on())
    assert result["log"] == ["x"]
    assert [pause.value for pause in result["__interrupt__"]] == ["q0"]
    assert got == []
