"""Graphs that are called by code, and how they keep what they do: several in a node, by themselves, with savers and durabilities of their own."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from typing_extensions import TypedDict

from perdure import START, StateGraph
from perdure.checkpoint.memory import InMemorySaver
from perdure.checkpoint.saver import Saver
from perdure.errors import InvalidConfig
from perdure.types import Command, Send, interrupt
from tests.engine.colours import Colour, Log, thread
from tests.promises.ways import at_once


class Word(TypedDict):
    word: str


class Depth(TypedDict):
    depth: int
    path: str


def asking(colour: Colour, question: str = "?", **options: Any) -> Any:
    """`before`, and then a question."""
    builder = StateGraph(Log).add_node("before", colour.says("before"))
    builder.add_node("ask", colour.node(lambda _: {"log": [interrupt(question)]}))
    return builder.add_edge(START, "before").add_edge("before", "ask").compile(**options)


def calls(colour: Colour, *graphs: Any, together: bool = False) -> Any:
    """A node that calls graphs, one after the other or together, and logs what they log."""

    def one_by_one(_: Any) -> Any:
        return {"log": [each.invoke({"log": []})["log"] for each in graphs]}

    async def aone_by_one(_: Any) -> Any:
        return {"log": [(await each.ainvoke({"log": []}))["log"] for each in graphs]}

    async def all_at_once(_: Any) -> Any:
        return {"log": [found["log"] for found in await at_once(*(each.ainvoke({"log": []}) for each in graphs))]}

    return all_at_once if together else aone_by_one if colour.nodes_async else one_by_one


def one_node(node: Any, saver: Any = None, state: Any = Log) -> Any:
    return StateGraph(state).add_node("n", node).add_edge(START, "n").compile(saver)


# --------------------------------------------------------------------------------------------------------------- several in one


def test_two_that_ask_one_after_the_other(colour: Colour, kept: Saver) -> None:
    graph = one_node(calls(colour, asking(colour, "1"), asking(colour, "2")), kept)
    assert [pause.value for pause in colour.invoke(graph, {"log": []}, thread())["__interrupt__"]] == ["1"]
    assert [pause.value for pause in colour.invoke(graph, Command(resume="a"), thread())["__interrupt__"]] == ["2"]
    assert colour.invoke(graph, Command(resume="b"), thread())["log"] == [["before", "a"], ["before", "b"]]


def test_two_that_ask_together(colour: Colour, kept: Saver) -> None:
    graph = one_node(calls(colour, asking(colour, "1"), asking(colour, "2"), together=True), kept)
    asked = {pause.value: pause.id for pause in colour.invoke(graph, {"log": []}, thread())["__interrupt__"]}
    assert set(asked) == {"1", "2"}
    left = colour.invoke(graph, Command(resume={asked["2"]: "b"}), thread())["__interrupt__"]
    assert [pause.id for pause in left] == [asked["1"]]
    assert colour.invoke(graph, Command(resume="a"), thread())["log"] == [["before", "a"], ["before", "b"]]


def test_the_same_graph_twice_with_states_of_their_own(colour: Colour, kept: Saver) -> None:
    inner = asking(colour)
    graph = one_node(calls(colour, inner, inner), kept)
    colour.invoke(graph, {"log": []}, thread())
    colour.invoke(graph, Command(resume="a"), thread())
    (task,) = colour.state(graph, thread(), subgraphs=True).tasks
    assert task.state.values == {"log": ["before", "a"]}, "the first call's"
    second = colour.state(graph, {"configurable": {"thread_id": "t", "checkpoint_ns": f"n:{task.id}|1"}})
    assert (second.values, second.next) == ({"log": ["before"]}, ("ask",))
    colour.invoke(graph, Command(resume="b"), thread())
    assert colour.state(graph, thread()).values["log"] == [["before", "a"], ["before", "b"]]


def test_different_graphs_called_by_one_node_are_read_each_as_itself(colour: Colour, kept: Saver) -> None:
    words = StateGraph(Word).add_node("w", colour.node(lambda _: {"word": interrupt("word?")})).add_edge(START, "w").compile()
    logs = asking(colour)

    def node(state: Log) -> Any:
        which = state["log"][0]
        return {"log": [words.invoke({"word": ""})["word"]] if which == "words" else logs.invoke({"log": []})["log"]}

    graph = one_node(node, kept)
    for which, values in (("words", {"word": ""}), ("logs", {"log": ["before"]})):
        colour.invoke(graph, {"log": [which]}, thread(which))
        assert colour.state(graph, thread(which), subgraphs=True).tasks[0].state.values == values


def test_graphs_in_a_dict_are_found(colour: Colour, kept: Saver) -> None:
    agents = {"a": asking(colour, "a?"), "b": asking(colour, "b?")}

    def node(state: Log) -> Any:
        return {"log": agents[state["log"][0]].invoke({"log": []})["log"]}

    graph = one_node(node, kept)
    colour.invoke(graph, {"log": ["b"]}, thread())
    assert colour.state(graph, thread(), subgraphs=True).tasks[0].state.values == {"log": ["before"]}


def test_by_send_each_has_its_own_place(colour: Colour, kept: Saver) -> None:
    inner = (
        StateGraph(Log).add_node("ask", colour.node(lambda state: {"log": [interrupt(state["log"][0])]})).add_edge(START, "ask")
    )
    builder = StateGraph(Log).add_node("sub", inner.compile())
    builder.add_conditional_edges(START, lambda _: [Send("sub", {"log": [word]}) for word in "xyz"], ["sub"])
    graph = builder.compile(kept)
    out = colour.invoke(graph, {"log": []}, thread())
    state = colour.state(graph, thread(), subgraphs=True)
    assert [task.state.values for task in state.tasks] == [{"log": [word]} for word in "xyz"]
    assert len({task.state.config["configurable"]["checkpoint_ns"] for task in state.tasks}) == 3
    answers = {pause.id: pause.value.upper() for pause in out["__interrupt__"]}
    assert colour.invoke(graph, Command(resume=answers), thread())["log"] == ["x", "X", "y", "Y", "z", "Z"]


# -------------------------------------------------------------------------------------------------------------------- recursion


def descending(colour: Colour, saver: Any, deepest: int, *, ask: bool = False, config: bool = False) -> Any:
    """A graph whose node calls the graph itself."""

    def step(state: Depth) -> Any:
        return {**state, "depth": state["depth"] + 1, "path": ""}

    def end(state: Depth) -> Any:
        return {"path": interrupt("?") if ask else "end"}

    def node(state: Depth, config: Any) -> Any:
        if state["depth"] == deepest:
            return end(state)
        args = (step(state), config) if with_config else (step(state),)
        return {"path": f"{state['depth']}.{graph.invoke(*args)['path']}"}

    async def anode(state: Depth, config: Any) -> Any:
        if state["depth"] == deepest:
            return end(state)
        args = (step(state), config) if with_config else (step(state),)
        return {"path": f"{state['depth']}.{(await graph.ainvoke(*args))['path']}"}

    with_config = config
    graph = one_node(anode if colour.nodes_async else node, saver, Depth)
    return graph


@pytest.mark.parametrize("config", [False, True])
def test_a_graph_may_be_its_own_subgraph(colour: Colour, saver: Any, config: bool) -> None:
    graph = descending(colour, saver, 4, config=config)
    assert colour.invoke(graph, {"depth": 0, "path": ""}, thread())["path"] == "0.1.2.3.end"


def test_a_question_at_the_bottom_of_a_recursion(colour: Colour, kept: Saver) -> None:
    graph = descending(colour, kept, 3, ask=True)
    assert colour.invoke(graph, {"depth": 0, "path": ""}, thread())["__interrupt__"]
    state = colour.state(graph, thread(), subgraphs=True)
    depths = []
    while state.tasks and not isinstance(state.tasks[0].state, (dict, type(None))):
        state = state.tasks[0].state
        depths.append(state.values["depth"])
    assert depths == [1, 2, 3]
    assert colour.invoke(graph, Command(resume="deep"), thread())["path"] == "0.1.2.deep"
    assert colour.state(graph, thread()).next == ()


def test_a_recursion_is_listed_once(colour: Colour, kept: Saver) -> None:
    graph = descending(colour, kept, 3)
    assert [name for name, _ in graph.get_subgraphs(recurse=True)] == ["n"]


# ------------------------------------------------------------------------------------------------------- savers and durabilities


def test_one_that_keeps_nothing_may_ask_twice(colour: Colour, kept: Saver) -> None:
    entered: list[int] = []

    def twice(_: Log) -> Any:
        entered.append(1)
        return {"log": [interrupt("1"), interrupt("2")]}

    inner = StateGraph(Log).add_node("twice", colour.node(twice)).add_edge(START, "twice").compile(checkpointer=False)
    for name, node in (("node", inner), ("called", calls(colour, inner))):
        entered.clear()
        graph = one_node(node, kept)
        first = colour.invoke(graph, {"log": []}, thread(name))["__interrupt__"]
        second = colour.invoke(graph, Command(resume={first[0].id: "a"}), thread(name))["__interrupt__"]
        assert [first[0].value, second[0].value] == ["1", "2"]
        out = colour.invoke(graph, Command(resume={second[0].id: "b"}), thread(name))
        assert out["log"] == (["a", "b"] if name == "node" else [["a", "b"]])
        assert len(entered) == 3
        assert colour.state(graph, thread(name), subgraphs=True).tasks == ()
        assert {each.config["configurable"]["checkpoint_ns"] for each in kept.list(thread(name))} == {""}


def test_the_questions_of_one_that_keeps_nothing_have_the_same_ids_at_each_attempt(colour: Colour, kept: Saver) -> None:
    inner = asking(colour, checkpointer=False)
    other = StateGraph(Log).add_node("other", colour.node(lambda _: {"log": [interrupt("other?")]})).add_edge(START, "other")
    builder = StateGraph(Log).add_node("sub", inner).add_node("other", other.compile())
    graph = builder.add_edge(START, "sub").add_edge(START, "other").compile(kept)
    asked = {pause.value: pause.id for pause in colour.invoke(graph, {"log": []}, thread())["__interrupt__"]}
    left = colour.invoke(graph, Command(resume={asked["other?"]: "o"}), thread())["__interrupt__"]
    assert [pause.id for pause in left] == [asked["?"]]
    assert colour.invoke(graph, Command(resume={asked["?"]: "s"}), thread())["log"] == ["o", "before", "s"]


def test_inside_a_parent_the_parents_saver_counts_not_the_childs_own(colour: Colour) -> None:
    own, outer = InMemorySaver(), InMemorySaver()
    inner = asking(colour, checkpointer=own)
    for name, node in (("node", inner), ("called", calls(colour, inner))):
        graph = one_node(node, outer)
        colour.invoke(graph, {"log": []}, thread(name))
        assert len({each.config["configurable"]["checkpoint_ns"] for each in outer.list(thread(name))}) == 2
        colour.invoke(graph, Command(resume="r"), thread(name))
    assert list(own.list(None)) == []
    assert colour.invoke(one_node(inner), {"log": []})["__interrupt__"], "nor where the parent has none"
    assert list(own.list(None)) == []
    colour.invoke(inner, {"log": []}, thread("alone"))
    assert len(list(own.list(thread("alone")))) == 3


def test_on_a_thread_of_its_own_it_is_a_run_of_its_own(colour: Colour, kept: Saver) -> None:
    own = InMemorySaver()
    inner = StateGraph(Log).add_node("a", colour.says("a")).add_edge(START, "a").compile(own)

    def node(_: Log) -> Any:
        return {"log": inner.invoke({"log": []}, thread("mine"))["log"]}

    async def anode(_: Log) -> Any:
        return {"log": (await inner.ainvoke({"log": []}, thread("mine")))["log"]}

    graph = one_node(anode if colour.nodes_async else node, kept)
    colour.invoke(graph, {"log": []}, thread())
    colour.invoke(graph, {"log": []}, thread())
    assert colour.state(inner, thread("mine")).values == {"log": ["a", "a"]}
    assert {each.config["configurable"]["checkpoint_ns"] for each in kept.list(thread())} == {""}


@pytest.mark.parametrize("outer", ["sync", "async", "exit"])
@pytest.mark.parametrize("inner", ["sync", "async", "exit"])
def test_a_called_graph_may_have_a_durability_of_its_own(colour: Colour, kept: Saver, outer: Any, inner: Any) -> None:
    child = StateGraph(Log)
    for name, before in (("a", START), ("b", "a"), ("c", "b")):
        child.add_node(name, colour.says(name)).add_edge(before, name)
    compiled = child.add_node("ask", colour.node(lambda _: {"log": [interrupt("?")]})).add_edge("c", "ask").compile()

    def node(_: Log) -> Any:
        return {"log": compiled.invoke({"log": []}, durability=inner)["log"]}

    async def anode(_: Log) -> Any:
        return {"log": (await compiled.ainvoke({"log": []}, durability=inner))["log"]}

    graph = one_node(anode if colour.nodes_async else node, kept)
    colour.invoke(graph, {"log": []}, thread(), durability=outer)
    spaces = [each.config["configurable"]["checkpoint_ns"] for each in kept.list(thread())]
    assert len([space for space in spaces if space]) == (1 if "exit" in (inner, outer) else 5)
    assert colour.state(graph, thread(), subgraphs=True).tasks[0].state.values == {"log": ["a", "b", "c"]}
    assert colour.invoke(graph, Command(resume="r"), thread(), durability=outer)["log"] == ["a", "b", "c", "r"]


def test_an_unknown_durability_of_a_called_graph_is_an_error(colour: Colour, kept: Saver) -> None:
    inner = asking(colour)

    def node(_: Log) -> Any:
        return inner.invoke({"log": []}, durability="never")

    with pytest.raises(InvalidConfig, match="durability must be one of"):
        colour.invoke(one_node(node, kept), {"log": []}, thread())


# -------------------------------------------------------------------------------------------------------------------- different


def test_a_node_may_translate_between_two_schemas(colour: Colour, kept: Saver) -> None:
    words = (
        StateGraph(Word)
        .add_node("w", colour.node(lambda state: {"word": state["word"] + interrupt("more?")}))
        .add_edge(START, "w")
    )
    inner = words.compile()

    def node(state: Log) -> Any:
        return {"log": [inner.invoke({"word": state["log"][-1]})["word"]]}

    async def anode(state: Log) -> Any:
        return {"log": [(await inner.ainvoke({"word": state["log"][-1]}))["word"]]}

    graph = one_node(anode if colour.nodes_async else node, kept)
    colour.invoke(graph, {"log": ["a"]}, thread())
    inside = colour.state(graph, thread(), subgraphs=True).tasks[0].state
    assert inside.values == {"word": "a"}
    assert [name for name, _ in graph.get_subgraphs()] == ["n"]
    assert colour.invoke(graph, Command(resume="b"), thread())["log"] == ["a", "ab"]


def test_the_graphs_inside_are_listed(colour: Colour) -> None:
    leaf = asking(colour)
    hidden = asking(colour, checkpointer=False)
    middle = StateGraph(Log).add_node("leaf", leaf).add_node("called", calls(colour, leaf)).add_edge(START, "leaf").compile()
    builder = StateGraph(Log).add_node("middle", middle).add_node("hidden", hidden).add_node("plain", colour.says("plain"))
    graph = builder.add_edge(START, "middle").compile()
    assert dict(graph.get_subgraphs()) == {"middle": middle}
    assert dict(graph.get_subgraphs(recurse=True))["middle|leaf"] is leaf
    assert [name for name, _ in graph.get_subgraphs("middle|leaf", recurse=True)] == ["middle|leaf"]

    async def listed() -> dict[str, Any]:
        return {name: found async for name, found in graph.aget_subgraphs()}

    assert asyncio.run(listed()) == {"middle": middle}
