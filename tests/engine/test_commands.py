"""Commands: update and goto, from nodes and from callers."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Annotated, Any

import pytest

from perdure import END, START, StateGraph
from perdure.checkpoint.saver import Saver
from perdure.errors import EmptyInputError, InvalidUpdateError, UnknownKey, UnknownNode, UnknownThread
from perdure.types import Command, Overwrite, Send
from tests.engine.colours import Colour, Log, thread


def commanded(colour: Colour, answer: Any) -> StateGraph[Any, Any, Any, Any]:
    """START -> first, which returns `answer`; x, y and w are there to go to."""
    graph = StateGraph(Log).add_node("first", colour.node(lambda _: answer)).add_edge(START, "first")
    graph.add_node("x", colour.says("x")).add_node("y", colour.says("y"))
    return graph.add_node("w", colour.node(lambda arg: {"log": [arg]}))


RETURNS: list[tuple[Any, list[Any]]] = [
    (Command(update={"log": ["u"]}), ["u"]),
    (Command(update=[("log", ["u"]), ("log", ["v"])]), ["u", "v"]),
    (Command(update=(("log", ["u"]),)), ["u"]),
    (Command(goto="x"), ["x"]),
    (Command(goto=END), []),
    (Command(goto=["y", "x"]), ["x", "y"]),
    (Command(goto=("y", "x")), ["x", "y"]),
    (Command(goto=Send("w", 1)), [1]),
    (Command(goto=[Send("w", 2), "x", Send("w", 1)]), ["x", 2, 1]),
    (Command(update={"log": ["u"]}, goto="x"), ["u", "x"]),
    ([Command(update={"log": ["u"]}), Command(goto="x")], ["u", "x"]),
    ([Command(goto="x"), {"log": ["d"]}], ["d", "x"]),
    ((Command(update={"log": ["u"]}), Command(update={"log": ["v"]})), ["u", "v"]),
    (Command(), []),
    (None, []),
    ({}, []),
]


@pytest.mark.parametrize(("answer", "log"), RETURNS, ids=[str(answer) for answer, _ in RETURNS])
def test_what_a_node_may_return(colour: Colour, saver: Any, answer: Any, log: list[Any]) -> None:
    assert colour.invoke(commanded(colour, answer).compile(saver), {"log": []}, thread())["log"] == log


def test_static_edges_fire_beside_a_goto(colour: Colour, saver: Any) -> None:
    graph = commanded(colour, Command(goto="x")).add_edge("first", "y").compile(saver)
    assert colour.invoke(graph, {"log": []}, thread())["log"] == ["x", "y"]


def test_a_goto_may_name_a_node_twice_and_an_edge_may_too(colour: Colour, saver: Any) -> None:
    graph = commanded(colour, Command(goto=["x", "x"])).add_edge("first", "x").compile(saver)
    assert colour.invoke(graph, {"log": []}, thread())["log"] == ["x"]


def test_a_command_with_an_object_of_the_states_class(colour: Colour) -> None:
    @dataclass
    class State:
        n: int = 0
        seen: Annotated[list[int], operator.add] | None = None

    @dataclass
    class Other:
        n: int

    graph = StateGraph(State).add_node("a", colour.node(lambda _: Command(update=Other(5)))).add_edge(START, "a")
    assert colour.invoke(graph.compile(), {"n": 1})["n"] == 5


def test_a_command_may_update_a_state_without_keys(colour: Colour, saver: Any) -> None:
    graph: Any = StateGraph(Annotated[int, operator.add]).add_node("a", colour.node(lambda n: Command(update=n * 10, goto="b")))
    graph.add_node("b", colour.node(lambda n: 1)).add_edge(START, "a")
    assert colour.invoke(graph.compile(saver), 2, thread()) == 23


def test_a_command_may_overwrite(colour: Colour) -> None:
    graph = commanded(colour, Command(update={"log": Overwrite(["new"])})).compile()
    assert colour.invoke(graph, {"log": ["old"]})["log"] == ["new"]


@pytest.mark.parametrize("update", [{"lgo": 1}, [("lgo", 1)]], ids=["dict", "pairs"])
def test_P50_an_unknown_key_in_an_update_is_an_error_with_a_suggestion(colour: Colour, update: Any) -> None:
    with pytest.raises(UnknownKey, match=r"'lgo'.*did you mean 'log'") as caught:
        colour.invoke(commanded(colour, Command(update=update)).compile(), {"log": []})
    assert (caught.value.key, caught.value.node) == ("lgo", "first")


@pytest.mark.parametrize("update", [{"lgo": 1, "log": ["k"]}, [("lgo", 1), ("log", ["k"])]], ids=["dict", "pairs"])
def test_P50_unknown_keys_may_be_ignored(colour: Colour, update: Any) -> None:
    graph = commanded(colour, Command(update=update)).compile(unknown_keys="ignore")
    assert colour.invoke(graph, {"log": [], "more": 1})["log"] == ["k"]


def test_P50_an_unknown_goto_is_an_error(colour: Colour, saver: Any) -> None:
    with pytest.raises(UnknownNode, match="Node 'first' goes to 'z'"):
        colour.invoke(commanded(colour, Command(goto="z")).compile(saver), {"log": []}, thread())


@pytest.mark.parametrize("answer", [3, "text", [1, 2], {"log"}], ids=str)
def test_what_a_node_may_not_return(colour: Colour, answer: Any) -> None:
    with pytest.raises(InvalidUpdateError, match="Expected dict, got") as caught:
        colour.invoke(commanded(colour, answer).compile(), {"log": []})
    assert caught.value.code == "INVALID_GRAPH_NODE_RETURN_VALUE"


def test_a_command_for_a_parent_at_the_root_is_an_error(colour: Colour, saver: Any) -> None:
    with pytest.raises(InvalidUpdateError, match="There is no parent graph"):
        colour.invoke(commanded(colour, Command(graph=Command.PARENT, goto="x")).compile(saver), {"log": []}, thread())


# -- commands of callers --------------------------------------------------------------------------------------------------


def test_a_caller_may_start_a_thread_with_a_command(colour: Colour, kept: Saver) -> None:
    graph = commanded(colour, {"log": ["first"]}).compile(kept)
    assert colour.invoke(graph, Command(update={"log": ["in"]}, goto="x"), thread())["log"] == ["in", "x"]
    assert colour.state(graph, thread()).values == {"log": ["in", "x"]}


def test_a_caller_may_jump_without_a_saver(colour: Colour) -> None:
    graph = commanded(colour, {"log": ["first"]}).compile()
    assert colour.invoke(graph, Command(goto=[Send("w", 1), "x"]))["log"] == ["x", 1]


def test_a_caller_may_edit_and_jump_on_a_finished_thread(colour: Colour, kept: Saver) -> None:
    graph = commanded(colour, {"log": ["first"]}).compile(kept)
    colour.invoke(graph, {"log": ["in"]}, thread())
    assert colour.invoke(graph, Command(update={"log": ["edit"]}, goto=Send("w", "w")), thread())["log"] == [
        "in",
        "first",
        "edit",
        "w",
    ]


def test_P50_a_callers_command_is_checked_before_anything_is_stored(colour: Colour, kept: Saver) -> None:
    graph = commanded(colour, None).compile(kept)
    colour.invoke(graph, {"log": ["in"]}, thread())
    before = len(colour.history(graph, thread()))
    with pytest.raises(UnknownNode):
        colour.invoke(graph, Command(goto="z"), thread())
    with pytest.raises(UnknownKey):
        colour.invoke(graph, Command(update={"lgo": 1}), thread())
    with pytest.raises(InvalidUpdateError, match="no parent graph"):
        colour.invoke(graph, Command(graph=Command.PARENT), thread())
    with pytest.raises(EmptyInputError, match="Received empty Command input"):
        colour.invoke(graph, Command(), thread())
    assert len(colour.history(graph, thread())) == before


def test_an_answer_without_a_saver_is_a_taught_error(colour: Colour) -> None:
    with pytest.raises(RuntimeError, match=r"Cannot use Command\(resume=...\) without checkpointer"):
        colour.invoke(commanded(colour, None).compile(), Command(resume=1))


def test_P3_an_answer_for_a_thread_that_does_not_exist_says_so(colour: Colour, kept: Saver) -> None:
    with pytest.raises(UnknownThread, match="'t'"):
        colour.invoke(commanded(colour, None).compile(kept), Command(resume=1), thread())


def test_P3_going_on_with_nothing_says_so(colour: Colour, kept: Saver) -> None:
    with pytest.raises(UnknownThread, match="Received no input"):
        colour.invoke(commanded(colour, None).compile(kept), None, thread())
    with pytest.raises(EmptyInputError, match="Received no input"):
        colour.invoke(commanded(colour, None).compile(), None)


def test_an_empty_dict_is_an_input_and_none_is_not(colour: Colour, kept: Saver) -> None:
    graph = commanded(colour, {"log": ["first"]}).compile(kept)
    assert colour.invoke(graph, {}, thread())["log"] == ["first"]
    steps = len(colour.history(graph, thread()))
    assert colour.invoke(graph, None, thread())["log"] == ["first"], "a finished thread stays as it is"
    assert len(colour.history(graph, thread())) == steps
    assert colour.invoke(graph, {}, thread())["log"] == ["first", "first"]


def test_P50_unknown_input_keys_are_errors(colour: Colour, saver: Any) -> None:
    graph = commanded(colour, None).compile(saver)
    with pytest.raises(UnknownKey, match="The input has the key 'lgo'"):
        colour.invoke(graph, {"lgo": []}, thread())
    with pytest.raises(InvalidUpdateError, match="Expected dict, got 3"):
        colour.invoke(graph, 3, thread())
