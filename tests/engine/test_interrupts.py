"""Questions that nodes ask with interrupt(), and the answers to them."""

from __future__ import annotations

from typing import Any

import pytest

from perdure import START, StateGraph
from perdure.checkpoint.saver import Saver
from perdure.errors import AmbiguousAnswer, GraphInterrupt, UnknownInterruptError
from perdure.types import Command, Interrupt, Send, interrupt
from tests.engine.colours import Colour, Log, thread


class Asks:
    """A node that asks questions and counts how often it was entered."""

    def __init__(self, *questions: Any) -> None:
        self.questions = questions
        self.entered = 0

    def __call__(self, _: Any) -> dict[str, Any]:
        self.entered += 1
        return {"log": [interrupt(question) for question in self.questions]}


def asking(colour: Colour, **nodes: Any) -> StateGraph[Any, Any, Any, Any]:
    graph = StateGraph(Log)
    for name, node in nodes.items():
        graph.add_node(name, colour.node(lambda state, node=node: node(state))).add_edge(START, name)
    return graph


def open_of(out: Any) -> dict[Any, str]:
    """Ids of the open questions of a result, by question."""
    return {pause.value: pause.id for pause in out.get("__interrupt__", ())}


def test_a_question_pauses_the_run_and_its_answer_goes_on(colour: Colour, kept: Saver) -> None:
    node = Asks("really?")
    graph = asking(colour, a=node).add_node("b", colour.says("b")).add_edge("a", "b").compile(kept)
    out = colour.invoke(graph, {"log": ["in"]}, thread())
    assert out["log"] == ["in"]
    assert [type(pause) for pause in out["__interrupt__"]] == [Interrupt]
    state = colour.state(graph, thread())
    assert (state.next, state.interrupts, state.tasks[0].interrupts) == (("a",), tuple(out["__interrupt__"]), state.interrupts)
    assert colour.invoke(graph, Command(resume="yes"), thread()) == {"log": ["in", "yes", "b"]}
    assert node.entered == 2
    assert colour.state(graph, thread()).interrupts == ()


def test_questions_of_one_node_come_one_after_the_other(colour: Colour, kept: Saver) -> None:
    node = Asks("1", "2", "3")
    graph = asking(colour, a=node).compile(kept)
    out = colour.invoke(graph, {"log": []}, thread())
    ids: list[str] = []
    for question, answer in (("1", "x"), ("2", "y"), ("3", "z")):
        assert list(open_of(out)) == [question]
        ids += open_of(out).values()
        out = colour.invoke(graph, Command(resume=answer), thread())
    assert out == {"log": ["x", "y", "z"]}
    assert len(set(ids)) == 3
    assert node.entered == 4


@pytest.mark.parametrize("answer", [None, False, 0, "", {}, [], 0.0], ids=repr)
def test_P15_falsy_values_are_answers(colour: Colour, kept: Saver, answer: Any) -> None:
    graph = asking(colour, a=Asks("q")).compile(kept)
    colour.invoke(graph, {"log": []}, thread())
    out = colour.invoke(graph, Command(resume=answer), thread())
    assert out == {"log": [answer]}
    assert type(out["log"][0]) is type(answer)


@pytest.mark.parametrize("answer", [None, False, 0, "", {}], ids=repr)
def test_P15_falsy_values_are_answers_by_id(colour: Colour, kept: Saver, answer: Any) -> None:
    graph = asking(colour, a=Asks("qa"), b=Asks("qb")).compile(kept)
    ids = open_of(colour.invoke(graph, {"log": []}, thread()))
    assert colour.invoke(graph, Command(resume={ids["qa"]: answer, ids["qb"]: answer}), thread()) == {"log": [answer] * 2}


def test_P13_parallel_questions_are_answered_by_id_in_one_call(colour: Colour, kept: Saver) -> None:
    graph = asking(colour, a=Asks("qa"), b=Asks("qb")).compile(kept)
    ids = open_of(colour.invoke(graph, {"log": []}, thread()))
    assert list(ids) == ["qa", "qb"]
    assert colour.invoke(graph, Command(resume={ids["qb"]: "B", ids["qa"]: "A"}), thread()) == {"log": ["A", "B"]}


def test_S03_P14_a_partial_answer_does_not_run_the_other_branch_again(colour: Colour, kept: Saver) -> None:
    a, b = Asks("a"), Asks("b")
    graph = asking(colour, a=a, b=b).compile(kept)
    ids = open_of(colour.invoke(graph, {"log": []}, thread()))
    out = colour.invoke(graph, Command(resume={ids["a"]: "x"}), thread())
    assert (a.entered, b.entered) == (2, 1)
    assert open_of(out) == {"b": ids["b"]}
    assert out["log"] == ["x"]
    state = colour.state(graph, thread())
    assert (state.next, [pause.value for pause in state.interrupts]) == (("b",), ["b"])
    assert colour.invoke(graph, Command(resume={ids["b"]: "y"}), thread()) == {"log": ["x", "y"]}
    assert (a.entered, b.entered) == (2, 2)


def test_P13_a_bare_answer_to_several_questions_raises_and_lists_them(colour: Colour, kept: Saver) -> None:
    graph = asking(colour, a=Asks("qa"), b=Asks("qb")).compile(kept)
    ids = open_of(colour.invoke(graph, {"log": []}, thread()))
    with pytest.raises(AmbiguousAnswer, match="you must specify the interrupt id when resuming") as caught:
        colour.invoke(graph, Command(resume="x"), thread())
    assert isinstance(caught.value, RuntimeError)
    assert caught.value.pending_ids == tuple(ids.values())
    assert all(each in str(caught.value) for each in (*ids.values(), "qa", "qb"))


def test_P13_an_unknown_id_raises_and_stores_nothing(colour: Colour, kept: Saver) -> None:
    node = Asks("q")
    graph = asking(colour, a=node).compile(kept)
    ids = open_of(colour.invoke(graph, {"log": []}, thread()))
    with pytest.raises(UnknownInterruptError) as caught:
        colour.invoke(graph, Command(resume={"0" * 32: "x"}), thread())
    assert caught.value.reason == "not_pending"
    assert caught.value.interrupt_ids == ("0" * 32,)
    assert caught.value.pending_ids == (ids["q"],)
    with pytest.raises(UnknownInterruptError):
        colour.invoke(graph, Command(resume={ids["q"]: "good", "0" * 32: "bad"}), thread())
    assert node.entered == 1
    assert open_of({"__interrupt__": colour.state(graph, thread()).interrupts}) == ids


def test_P13_a_dict_whose_keys_are_no_ids_is_one_answer(colour: Colour, kept: Saver) -> None:
    graph = asking(colour, a=Asks("q")).compile(kept)
    colour.invoke(graph, {"log": []}, thread())
    assert colour.invoke(graph, Command(resume={"approved": True}), thread()) == {"log": [{"approved": True}]}


def test_P13_answering_a_finished_thread_raises_and_stores_nothing(colour: Colour, kept: Saver) -> None:
    graph = asking(colour, a=Asks("q")).compile(kept)
    ids = open_of(colour.invoke(graph, {"log": []}, thread()))
    colour.invoke(graph, Command(resume="x"), thread())
    before = len(colour.history(graph, thread()))
    for answer in ("again", {ids["q"]: "again"}):
        with pytest.raises(UnknownInterruptError):
            colour.invoke(graph, Command(resume=answer), thread())
    assert len(colour.history(graph, thread())) == before


def test_going_on_without_an_answer_asks_again_under_the_same_id(colour: Colour, kept: Saver) -> None:
    graph = asking(colour, a=Asks("q")).compile(kept)
    first = open_of(colour.invoke(graph, {"log": []}, thread()))
    assert open_of(colour.invoke(graph, None, thread())) == first
    assert colour.invoke(graph, Command(resume=1), thread()) == {"log": [1]}


def test_a_sibling_that_finished_does_not_run_again(colour: Colour, kept: Saver) -> None:
    runs: list[str] = []

    def done(_: Log) -> dict[str, Any]:
        runs.append("done")
        return {"log": ["done"]}

    graph = asking(colour, ask=Asks("q"), done=done).compile(kept)
    out = colour.invoke(graph, {"log": []}, thread())
    assert out["log"] == ["done"]
    state = colour.state(graph, thread())
    assert (state.values, state.next) == ({"log": ["done"]}, ("ask",))
    assert colour.invoke(graph, Command(resume="r"), thread()) == {"log": ["r", "done"]}
    assert runs == ["done"]


def test_sends_may_ask(colour: Colour, kept: Saver) -> None:
    graph = StateGraph(Log).add_node("w", colour.node(lambda at: {"log": [(at, interrupt(at))]}))
    graph.add_conditional_edges(START, lambda _: [Send("w", at) for at in range(3)])
    compiled = graph.compile(kept)
    ids = open_of(colour.invoke(compiled, {"log": []}, thread()))
    assert list(ids) == [0, 1, 2]
    out = colour.invoke(compiled, Command(resume={ids[1]: "b"}), thread())
    assert list(open_of(out)) == [0, 2]
    out = colour.invoke(compiled, Command(resume={ids[0]: "a", ids[2]: "c"}), thread())
    assert out["log"] == [(0, "a"), (1, "b"), (2, "c")]


def test_new_input_while_paused_drops_the_question(colour: Colour, kept: Saver) -> None:
    node = Asks("q")
    graph = asking(colour, a=node).compile(kept)
    old = open_of(colour.invoke(graph, {"log": ["1"]}, thread()))
    new = open_of(colour.invoke(graph, {"log": ["2"]}, thread()))
    assert old["q"] != new["q"]
    with pytest.raises(UnknownInterruptError):
        colour.invoke(graph, Command(resume={old["q"]: "x"}), thread())
    assert colour.invoke(graph, Command(resume="x"), thread()) == {"log": ["1", "2", "x"]}


def test_a_question_is_a_signal_that_except_exception_lets_pass(colour: Colour, kept: Saver) -> None:
    def node(_: Log) -> dict[str, Any]:
        try:
            answer = interrupt("q")
        except Exception:
            return {"log": ["swallowed"]}
        return {"log": [answer]}

    graph = asking(colour, a=node).compile(kept)
    assert open_of(colour.invoke(graph, {"log": []}, thread()))
    assert colour.invoke(graph, Command(resume="r"), thread()) == {"log": ["r"]}
    assert not issubclass(GraphInterrupt, Exception)


def test_P12_a_question_counts_even_if_the_node_swallows_it(colour: Colour, kept: Saver) -> None:
    def node(_: Log) -> dict[str, Any]:
        try:
            answer = interrupt("q")
        except BaseException:
            return {"log": ["swallowed"]}
        return {"log": [answer]}

    graph = asking(colour, a=node).compile(kept)
    out = colour.invoke(graph, {"log": []}, thread())
    assert list(open_of(out)) == ["q"]
    assert out["log"] == []
    assert colour.invoke(graph, Command(resume="r"), thread()) == {"log": ["r"]}


def test_the_stream_tells_questions(colour: Colour, kept: Saver) -> None:
    graph = asking(colour, a=Asks("q")).compile(kept)
    events = colour.stream(graph, {"log": []}, thread(), stream_mode=["updates", "values"])
    pause = Interrupt("q", colour.state(graph, thread()).interrupts[0].id)
    assert events == [
        ("values", {"log": []}),
        ("updates", {"__interrupt__": (pause,)}),
        ("values", {"log": [], "__interrupt__": (pause,)}),
    ]
    assert colour.stream(graph, Command(resume="r"), thread(), stream_mode=["updates", "values"]) == [
        ("values", {"log": []}),
        ("updates", {"a": {"log": ["r"]}}),
        ("values", {"log": ["r"]}),
    ]


def test_the_second_version_of_invoke_has_questions_beside_the_value(colour: Colour, kept: Saver) -> None:
    graph = asking(colour, a=Asks("q")).compile(kept)
    out = colour.invoke(graph, {"log": ["in"]}, thread(), version="v2")
    assert out.value == {"log": ["in"]}
    assert [pause.value for pause in out.interrupts] == ["q"]
    out = colour.invoke(graph, Command(resume=1), thread(), version="v2")
    assert (out.value, out.interrupts) == ({"log": ["in", 1]}, ())


def test_an_answer_may_come_with_an_update_and_a_jump(colour: Colour, kept: Saver) -> None:
    graph = asking(colour, a=Asks("q")).add_node("x", colour.says("x")).compile(kept)
    colour.invoke(graph, {"log": []}, thread())
    out = colour.invoke(graph, Command(resume="r", update={"log": ["edit"]}, goto="x"), thread())
    assert out["log"] == ["edit", "r", "x"]


def test_without_a_saver_a_question_ends_the_call(colour: Colour) -> None:
    graph = asking(colour, a=Asks("q")).compile()
    assert list(open_of(colour.invoke(graph, {"log": []}))) == ["q"]


def test_outside_of_a_graph_there_is_nobody_to_ask() -> None:
    with pytest.raises(RuntimeError, match="outside of a running graph"):
        interrupt("q")


def test_a_question_carries_its_schema(colour: Colour, kept: Saver) -> None:
    schema = {"type": "boolean"}
    graph = asking(colour, a=lambda _: {"log": [interrupt("q", response_schema=schema)]}).compile(kept)
    assert colour.invoke(graph, {"log": []}, thread())["__interrupt__"][0].response_schema == schema
    assert colour.state(graph, thread()).interrupts[0].response_schema == schema


def test_another_process_finds_the_question_and_its_id(colour: Colour, kept: Saver) -> None:
    first = asking(colour, a=Asks("q")).compile(kept)
    ids = open_of(colour.invoke(first, {"log": []}, thread()))
    second = asking(colour, a=Asks("q")).compile(kept)
    assert colour.state(second, thread()).interrupts == (Interrupt("q", ids["q"]),)
    assert colour.invoke(second, Command(resume={ids["q"]: "r"}), thread()) == {"log": ["r"]}


def test_a_pause_gives_the_thread_free(colour: Colour, kept: Saver) -> None:
    graph = asking(colour, a=Asks("q")).compile(kept)
    colour.invoke(graph, {"log": []}, thread())
    graph.update_state(thread(), {"log": ["edit"]}, as_node="__start__")
    assert colour.state(graph, thread()).values == {"log": ["edit"]}
