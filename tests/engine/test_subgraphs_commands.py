"""Commands of a subgraph for the graphs around it: updates, ways to go, Sends; one level up or several."""

from __future__ import annotations

import operator
from typing import Annotated, Any

import pytest
from typing_extensions import TypedDict

from perdure import START, StateGraph
from perdure.checkpoint.saver import Saver
from perdure.errors import InvalidUpdateError, UnknownKey, UnknownNode
from perdure.types import Command, Send, interrupt
from tests.engine.colours import Colour, Log, thread


class Sum(TypedDict):
    """A key that no subgraph knows."""

    log: Annotated[list[Any], operator.add]
    total: Annotated[int, operator.add]


def commanding(colour: Colour, command: Any, *, before: bool = False, **options: Any) -> Any:
    """A graph whose last node returns a command."""
    builder = StateGraph(Log)
    builder.add_node("command", colour.node(lambda _: command() if callable(command) else command))
    if before:
        builder.add_node("before", colour.says("before")).add_edge(START, "before").add_edge("before", "command")
    else:
        builder.add_edge(START, "command")
    return builder.compile(**options)


def parent(colour: Colour, inner: Any, state: Any = Sum) -> StateGraph[Any, Any, Any, Any]:
    builder = StateGraph(state).add_node("sub", inner)
    for name in ("target", "other"):
        builder.add_node(name, colour.says(name))
    return builder.add_edge(START, "sub")


def test_an_update_for_the_parent_goes_through_its_reducers(colour: Colour, saver: Any) -> None:
    inner = commanding(colour, Command(graph=Command.PARENT, update={"log": ["up"], "total": 5}), before=True)
    graph = parent(colour, inner).compile(saver)
    assert colour.invoke(graph, {"log": ["in"], "total": 1}, thread()) == {"log": ["in", "up"], "total": 6}


def test_the_childs_own_writes_stay_inside(colour: Colour, saver: Any) -> None:
    """What the subgraph had written before is not given to the parent: the command is all of its outcome."""
    inner = commanding(colour, Command(graph=Command.PARENT, goto="target"), before=True)
    assert colour.invoke(parent(colour, inner).compile(saver), {"log": []}, thread()) == {"log": ["target"], "total": 0}


def test_a_goto_of_several_and_the_edges_of_the_node_itself(colour: Colour, saver: Any) -> None:
    inner = commanding(colour, Command(graph=Command.PARENT, goto=["target", "other"]))
    builder = parent(colour, inner).add_node("edge", colour.says("edge")).add_edge("sub", "edge")
    out = colour.invoke(builder.compile(saver), {"log": []}, thread())
    assert sorted(out["log"]) == ["edge", "other", "target"]


def test_sends_to_nodes_of_the_parent(colour: Colour, saver: Any) -> None:
    inner = commanding(colour, Command(graph=Command.PARENT, goto=[Send("work", n) for n in range(3)]))
    builder = parent(colour, inner).add_node("work", colour.node(lambda n: {"log": [n], "total": n}))
    assert colour.invoke(builder.compile(saver), {"log": []}, thread()) == {"log": [0, 1, 2], "total": 3}


def test_two_levels_up_by_the_name_of_the_graph(colour: Colour, saver: Any) -> None:
    inner = commanding(colour, Command(graph="top", update={"log": ["up"]}, goto="target"))
    middle = (
        StateGraph(Log).add_node("sub", inner).add_node("no", colour.says("no")).add_edge(START, "sub").add_edge("sub", "no")
    )
    graph = parent(colour, middle.compile(name="middle")).compile(saver, name="top")
    assert colour.invoke(graph, {"log": []}, thread())["log"] == ["up", "target"]


def test_one_level_at_a_time(colour: Colour, saver: Any) -> None:
    inner = commanding(colour, Command(graph=Command.PARENT, update={"log": ["one"]}, goto="again"))
    middle = StateGraph(Log).add_node("sub", inner).add_edge(START, "sub")
    middle.add_node(
        "again", colour.node(lambda state: Command(graph=Command.PARENT, update={"log": state["log"]}, goto="target"))
    )
    graph = parent(colour, middle.compile()).compile(saver)
    assert colour.invoke(graph, {"log": []}, thread())["log"] == ["one", "target"]


def test_a_command_of_a_graph_that_a_nodes_code_calls(colour: Colour, saver: Any) -> None:
    inner = commanding(colour, Command(graph=Command.PARENT, update={"log": ["up"]}, goto="target"))

    def call(state: Sum) -> Any:
        inner.invoke({"log": []})
        raise AssertionError("the command ends the node")

    async def acall(state: Sum) -> Any:
        await inner.ainvoke({"log": []})
        raise AssertionError("the command ends the node")

    graph = parent(colour, acall if colour.nodes_async else call).compile(saver)
    assert colour.invoke(graph, {"log": []}, thread())["log"] == ["up", "target"]


def test_a_command_out_of_a_durable_step(colour: Colour, saver: Any) -> None:
    from perdure.func import task

    inner = commanding(colour, Command(graph=Command.PARENT, update={"log": ["up"]}, goto="target"))

    @task
    def step() -> Any:
        return inner.invoke({"log": []})

    @task
    async def astep() -> Any:
        return await inner.ainvoke({"log": []})

    def call(state: Sum) -> Any:
        return step().result()

    async def acall(state: Sum) -> Any:
        return await astep()

    graph = parent(colour, acall if colour.nodes_async else call).compile(saver)
    assert colour.invoke(graph, {"log": []}, thread())["log"] == ["up", "target"]


def test_a_command_beside_a_sibling_of_the_subgraph(colour: Colour, saver: Any) -> None:
    inner = StateGraph(Log).add_node("command", colour.node(lambda _: Command(graph=Command.PARENT, goto="target")))
    inner.add_node("slow", colour.says("slow")).add_edge(START, "command").add_edge(START, "slow")
    builder = parent(colour, inner.compile()).add_node("beside", colour.says("beside")).add_edge(START, "beside")
    assert colour.invoke(builder.compile(saver), {"log": []}, thread())["log"] == ["beside", "target"]


def test_a_command_after_a_question(colour: Colour, kept: Saver) -> None:
    inner = commanding(
        colour, lambda: Command(graph=Command.PARENT, update={"log": [interrupt("?")]}, goto="target"), before=True
    )
    graph = parent(colour, inner).compile(kept)
    assert colour.invoke(graph, {"log": []}, thread())["__interrupt__"]
    assert colour.invoke(graph, Command(resume="yes"), thread())["log"] == ["yes", "target"]
    assert colour.state(graph, thread()).next == ()


def test_what_the_parent_does_not_have_is_an_error_of_the_parents_node(colour: Colour, saver: Any) -> None:
    for command, error in (
        (Command(graph=Command.PARENT, goto="nowhere"), UnknownNode),
        (Command(graph=Command.PARENT, goto=Send("nowhere", 1)), UnknownNode),
        (Command(graph=Command.PARENT, update={"nothing": 1}), UnknownKey),
        (Command(graph="nobody", goto="target"), InvalidUpdateError),
    ):
        graph = parent(colour, commanding(colour, command)).compile(saver)
        with pytest.raises(error):
            colour.invoke(graph, {"log": []}, thread(error.__name__ + str(command)))


def test_a_stream_shows_the_command_as_what_the_node_did(colour: Colour, saver: Any) -> None:
    inner = commanding(colour, Command(graph=Command.PARENT, update={"log": ["up"]}, goto="target"))
    graph = parent(colour, inner).compile(saver)
    events = colour.stream(graph, {"log": []}, thread(), subgraphs=True)
    assert [event for event in events if event[0] == ()] == [
        ((), {"sub": {"log": ["up"]}}),
        ((), {"target": {"log": ["target"]}}),
    ]
