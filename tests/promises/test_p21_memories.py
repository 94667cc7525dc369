"""P21: a subgraph that keeps a memory is read as of the parent's checkpoint that one starts from, never as of the future."""

from __future__ import annotations

import operator
from typing import Annotated, Any, TypedDict

import pytest

from perdure.checkpoint.saver import Saver
from perdure.func import entrypoint
from perdure.graph import START, StateGraph
from perdure.types import Command, Send, interrupt
from tests.promises.travelling import Number, Ran, Seen, in_a_row, side_by_side
from tests.promises.ways import Log, Way, on


def counter(way: Way, checkpointer: Any = True) -> Any:
    """Adds 1 at each call."""
    return side_by_side(Number, inc=way.node(lambda _: {"n": 1})).compile(checkpointer=checkpointer)


def calling(way: Way, *graphs: Any) -> Any:
    """A node that calls graphs one after the other and appends what they count."""
    if way.is_async:

        async def call(_: Any) -> Any:
            return {"seen": [(await graph.ainvoke({"n": 0}))["n"] for graph in graphs]}

    else:

        def call(_: Any) -> Any:  # type: ignore[misc]
            return {"seen": [graph.invoke({"n": 0})["n"] for graph in graphs]}

    return call


def ends(way: Way, graph: Any) -> list[Any]:
    """The checkpoints at which a turn had ended, oldest first."""
    return [one for one in reversed(way.history(graph, on())) if not one.next]


def test_S08_a_child_with_memory_is_read_as_of_its_parent(way: Way, saver: Saver):
    graph = side_by_side(Seen, call=calling(way, counter(way))).compile(checkpointer=saver)
    for count in range(1, 4):
        assert way.invoke(graph, {"seen": []}, on())["seen"] == [*range(1, count + 1)]
    first, _, last = ends(way, graph)
    assert way.invoke(graph, {"seen": []}, first.config)["seen"] == [1, 2]
    assert way.invoke(graph, {"seen": []}, last.config)["seen"] == [1, 2, 3, 4]
    assert way.invoke(graph, {"seen": []}, on())["seen"] == [1, 2, 3, 4, 5]
    assert way.invoke(graph, {"seen": []}, first.config)["seen"] == [1, 2]


def test_S08_a_replay_from_before_an_answered_pause_pauses_again(way: Way, saver: Saver):
    ran = Ran(way)
    inner = in_a_row(Log, ("a", ran("a")), ("ask", ran.asks("ask"))).compile(checkpointer=True)
    graph = side_by_side(TakesAll, sub=inner).compile(checkpointer=saver)
    way.invoke(graph, {"log": []}, on())
    assert way.invoke(graph, Command(resume="A1"), on())["log"] == ["a", "A1"]
    tip = way.state(graph, on())
    before = next(one for one in way.history(graph, on()) if one.next == ("sub",))
    assert way.invoke(graph, None, before.config)["__interrupt__"][0].value == "ok?"
    assert way.invoke(graph, Command(resume="A2"), on())["log"] == ["a", "A2"]
    assert way.state(graph, tip.config).values["log"] == ["a", "A1"]
    assert way.invoke(graph, {"log": []}, tip.config)["__interrupt__"]
    assert way.invoke(graph, Command(resume="A3"), on())["log"] == ["a", "A1", "a", "A3"]


class TakesAll(TypedDict):
    log: Annotated[list[str], lambda _, right: right]


def test_P21_from_any_checkpoint_of_the_parent(way: Way, saver: Saver):
    graph = in_a_row(Seen, ("one", calling(way, counter(way))), ("two", calling(way, counter(way)))).compile(checkpointer=saver)
    for _ in range(3):
        way.invoke(graph, {"seen": []}, on())
    history = way.history(graph, on())
    for at in history:
        expected = [count for turn in range(1, 5) for count in (turn, turn)]
        out = way.invoke(graph, None, at.config)["seen"]
        assert out == expected[: len(out)], "whatever it is replayed from, each call counts on from the one before it"
    for at in history:
        if not at.next:
            turns = len(at.values["seen"]) // 2
            assert way.invoke(graph, {"seen": []}, at.config)["seen"][-2:] == [turns + 1, turns + 1]


@pytest.mark.parametrize("middle", [None, True])
def test_P21_a_memory_inside_a_subgraph(way: Way, saver: Saver, middle: Any):
    inside = in_a_row(Number, ("sub", counter(way))).compile(checkpointer=middle)
    graph = side_by_side(Seen, call=calling(way, inside)).compile(checkpointer=saver)
    seen = [way.invoke(graph, {"seen": []}, on())["seen"] for _ in range(3)]
    first = ends(way, graph)[0]
    way.invoke(graph, {"seen": []}, first.config)
    assert way.state(graph, on()).values["seen"] == seen[1]
    assert way.invoke(graph, {"seen": []}, on())["seen"] == seen[2]
    space = "call|sub"
    assert way.state(graph, on(checkpoint_ns=space)).values == {
        "n": 3 if middle is None else way.state(graph, on(checkpoint_ns=space)).values["n"]
    }


def test_P21_called_twice_in_a_node_there_are_two_memories(way: Way, saver: Saver):
    inner = counter(way)
    graph = side_by_side(Seen, call=calling(way, inner, inner)).compile(checkpointer=saver)
    for _ in range(3):
        out = way.invoke(graph, {"seen": []}, on())
    assert out["seen"] == [1, 1, 2, 2, 3, 3]
    assert way.invoke(graph, {"seen": []}, ends(way, graph)[0].config)["seen"] == [1, 1, 2, 2]
    assert way.state(graph, on(checkpoint_ns="call|1")).values == {"n": 2}


def test_P21_in_parallel_each_has_its_own(way: Way, saver: Saver):
    inner = counter(way)
    graph = side_by_side(Seen, left=calling(way, inner), right=calling(way, inner)).compile(checkpointer=saver)
    for _ in range(3):
        out = way.invoke(graph, {"seen": []}, on())
    assert out["seen"] == [1, 1, 2, 2, 3, 3]
    assert way.invoke(graph, {"seen": []}, ends(way, graph)[1].config)["seen"] == [1, 1, 2, 2, 3, 3]
    assert [way.state(graph, on(checkpoint_ns=name)).values["n"] for name in ("left", "right")] == [3, 3]


def test_P21_by_send_all_begin_with_what_was_remembered_and_the_last_one_is_remembered(way: Way, saver: Saver):
    class Words(TypedDict):
        log: Annotated[list[str], operator.add]

    inner = side_by_side(Words, say=way.node(lambda state: {"log": [f"{len(state['log'])}"]})).compile(checkpointer=True)

    if way.is_async:

        async def work(word: str) -> Any:
            return {"seen": [(await inner.ainvoke({"log": [word]}))["log"]]}

    else:

        def work(word: str) -> Any:  # type: ignore[misc]
            return {"seen": [inner.invoke({"log": [word]})["log"]]}

    builder: StateGraph[Any, Any, Any, Any] = StateGraph(Seen)
    builder.add_node("work", work)
    builder.add_conditional_edges(START, lambda _: [Send("work", word) for word in "xyz"], ["work"])
    graph = builder.compile(checkpointer=saver)
    way.invoke(graph, {"seen": []}, on())
    assert way.state(graph, on()).values["seen"] == [["x", "1"], ["y", "1"], ["z", "1"]]
    way.invoke(graph, {"seen": []}, on())
    assert way.state(graph, on()).values["seen"][3:] == [["z", "1", word, "3"] for word in "xyz"]
    assert way.state(graph, on(checkpoint_ns="work")).values["log"] == ["z", "1", "z", "3"]
    assert way.invoke(graph, {"seen": []}, ends(way, graph)[0].config)["seen"][3:] == [["z", "1", word, "3"] for word in "xyz"]


def test_P21_sends_with_a_memory_that_ask(way: Way, saver: Saver):
    inner = side_by_side(Log, ask=way.node(lambda state: {"log": [interrupt(state["log"][-1])]})).compile(checkpointer=True)
    builder: StateGraph[Any, Any, Any, Any] = StateGraph(TakesAll)
    builder.add_node("work", inner)
    builder.add_conditional_edges(START, lambda _: [Send("work", {"log": [word]}) for word in "xy"], ["work"])
    graph = builder.compile(checkpointer=saver)
    out = way.invoke(graph, {"log": []}, on())
    asked = {pause.value: pause.id for pause in out["__interrupt__"]}
    assert set(asked) == {"x", "y"}
    states = [each.state.values["log"] for each in way.state(graph, on(), subgraphs=True).tasks]
    assert states == [["x"], ["y"]]
    for each in way.state(graph, on(), subgraphs=True).tasks:
        assert way.invoke(graph, None, each.state.config)["__interrupt__"], "the one that is meant, of two in one namespace"
    way.invoke(graph, Command(resume={asked["y"]: "Y"}), on())
    way.invoke(graph, Command(resume={asked["x"]: "X"}), on())
    assert way.state(graph, on()).values["log"] == ["y", "Y"]
    assert way.state(graph, on(checkpoint_ns="work")).values["log"] == ["y", "Y"]


def test_P21_a_task_that_ended_beside_a_pause_is_remembered_after_the_resume(way: Way, saver: Saver):
    for inner in (counter(way), in_a_row(Number, ("sub", counter(way))).compile()):
        thread = on(str(id(inner)))
        nodes = {"call": calling(way, inner), "ask": way.node(lambda _: {"seen": [interrupt("?")]})}
        graph = side_by_side(Seen, **nodes).compile(checkpointer=saver)
        for count in range(1, 4):
            way.invoke(graph, {"seen": []}, thread)
            assert way.invoke(graph, Command(resume="r"), thread)["seen"][-2:] == ["r", count] or count
            assert way.state(graph, thread).values["seen"].count(count) == 1


def test_P21_a_child_that_hands_over_is_remembered_as_far_as_it_came(way: Way, saver: Saver):
    inner = in_a_row(
        Log,
        ("a", way.node(lambda _: {"log": ["a"]})),
        ("hand", way.node(lambda state: Command(graph=Command.PARENT, update={"seen": [len(state["log"])]}, goto="end"))),
    ).compile(checkpointer=True)
    builder: StateGraph[Any, Any, Any, Any] = StateGraph(Seen)
    builder.add_node("agent", inner, input_schema=WithLog)
    builder.add_node("end", way.node(lambda _: {"seen": ["end"]}))
    builder.add_edge(START, "agent")
    graph = builder.compile(checkpointer=saver)
    for _ in range(3):
        out = way.invoke(graph, {"seen": []}, on())
    assert out["seen"] == [1, "end", 2, "end", 3, "end"]


class WithLog(TypedDict):
    seen: list[Any]


def test_P21_the_state_of_a_child_is_that_of_the_branch_that_ran_last(way: Way, saver: Saver):
    graph = side_by_side(Seen, call=calling(way, counter(way))).compile(checkpointer=saver)
    for _ in range(3):
        way.invoke(graph, {"seen": []}, on())
    first, second, third = ends(way, graph)
    assert way.state(graph, on(checkpoint_ns="call")).values == {"n": 3}
    way.edit(graph, first.config, {"seen": ["edit"]})
    assert way.state(graph, on(checkpoint_ns="call")).values == {"n": 1}
    states = [way.state(graph, before.config, subgraphs=True) for before in (first, second, third)]
    assert [one.values["seen"] for one in states] == [[1], [1, 2], [1, 2, 3]]
    children = [
        one.tasks[0].state.values
        for one in (way.state(graph, at.parent_config, subgraphs=True) for at in (first, second, third))
    ]
    assert children == [{"n": 1}, {"n": 2}, {"n": 3}]


def test_P21_an_entrypoint_that_calls_a_graph_with_a_memory(way: Way, saver: Saver):
    inner = counter(way)
    if way.is_async:

        async def flow(_: Any) -> Any:
            return (await inner.ainvoke({"n": 0}))["n"]

    else:

        def flow(_: Any) -> Any:  # type: ignore[misc]
            return inner.invoke({"n": 0})["n"]

    graph = entrypoint(checkpointer=saver)(flow)
    assert [way.invoke(graph, 1, on()) for _ in range(3)] == [1, 2, 3]
    first = ends(way, graph)[0]
    assert way.invoke(graph, 1, first.config) == 2
    assert way.state(graph, on(checkpoint_ns="flow")).values == {"n": 2}


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_P21_whatever_the_durability(way: Way, saver: Saver, durability: Any):
    graph = side_by_side(Seen, call=calling(way, counter(way))).compile(checkpointer=saver)
    for _ in range(3):
        out = way.invoke(graph, {"seen": []}, on(), durability=durability)
    assert out["seen"] == [1, 2, 3]
    assert way.invoke(graph, {"seen": []}, ends(way, graph)[0].config, durability=durability)["seen"] == [1, 2]
