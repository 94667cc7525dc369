"""Conditional edges: what their path functions may return, what they see, where they may start."""

from __future__ import annotations

import asyncio
import operator
from collections.abc import Hashable
from typing import Annotated, Any

import pytest
from typing_extensions import TypedDict

from perdure import END, START, StateGraph
from perdure.checkpoint.saver import Saver
from perdure.errors import InvalidUpdateError, UnknownNode
from perdure.runtime import Runtime
from perdure.types import RunnableConfig, Send
from tests.engine.colours import Colour, Log, thread


def routed(colour: Colour, path: Any, path_map: Any = None, **given: Any) -> StateGraph[Any, Any, Any, Any]:
    """START -> first, then wherever `path` says: x, y, w or the end."""
    graph = StateGraph(Log, **given)
    for name in ("first", "x", "y"):
        graph.add_node(name, colour.says(name))
    graph.add_node("w", colour.node(lambda arg: {"log": [arg]}))
    return graph.add_edge(START, "first").add_conditional_edges("first", path, path_map)


CHOICES: list[tuple[Any, list[Any]]] = [
    ("x", ["first", "x"]),
    (["x"], ["first", "x"]),
    (["y", "x"], ["first", "x", "y"]),
    (("y", "x"), ["first", "x", "y"]),
    (END, ["first"]),
    ([], ["first"]),
    ([END, "x"], ["first", "x"]),
    (["x", "x"], ["first", "x"]),
    (Send("w", 7), ["first", 7]),
    ([Send("w", 2), Send("w", 1)], ["first", 2, 1]),
    ([Send("w", 2), "x"], ["first", "x", 2]),
]


@pytest.mark.parametrize(("choice", "log"), CHOICES, ids=[str(choice) for choice, _ in CHOICES])
def test_what_a_path_function_may_return(colour: Colour, saver: Any, choice: Any, log: list[Any]) -> None:
    graph = routed(colour, colour.node(lambda _: choice)).compile(saver)
    assert colour.invoke(graph, {"log": []}, thread())["log"] == log


def test_a_path_map_translates_names_but_not_sends(colour: Colour, saver: Any) -> None:
    mapping: dict[Hashable, str] = {True: "x", 3: "y", "stop": END}
    graph = routed(colour, colour.node(lambda _: [3, True, Send("w", "sent")]), mapping).compile(saver)
    assert colour.invoke(graph, {"log": []}, thread())["log"] == ["first", "x", "y", "sent"]
    graph = routed(colour, colour.node(lambda _: "stop"), mapping).compile(saver)
    assert colour.invoke(graph, {"log": []}, thread("2"))["log"] == ["first"]


def test_a_list_as_path_map_allows_its_names(colour: Colour) -> None:
    graph = routed(colour, colour.node(lambda _: "x"), ["x", END]).compile()
    assert colour.invoke(graph, {"log": []})["log"] == ["first", "x"]


def test_P50_what_the_path_map_does_not_have_is_an_error_that_lists_what_it_has(colour: Colour, saver: Any) -> None:
    graph = routed(colour, colour.node(lambda _: "nope"), {"a": "x"}).compile(saver)
    with pytest.raises(KeyError, match=r"'first' returned 'nope', which its path map does not have; it has 'a'"):
        colour.invoke(graph, {"log": []}, thread())


def test_P50_an_unknown_choice_is_an_error_with_a_suggestion(colour: Colour, saver: Any) -> None:
    graph = routed(colour, colour.node(lambda _: "frist")).compile(saver)
    with pytest.raises(UnknownNode, match=r"goes to 'frist'.*did you mean 'first'"):
        colour.invoke(graph, {"log": []}, thread())


@pytest.mark.parametrize("choice", [None, START, [None]], ids=str)
def test_choosing_nothing_or_the_start_is_an_error(colour: Colour, choice: Any) -> None:
    graph = routed(colour, colour.node(lambda _: choice)).compile()
    with pytest.raises(ValueError, match="Branch did not return a valid destination"):
        colour.invoke(graph, {"log": []})


@pytest.mark.parametrize("choice", [3, 1.5, {"x": 1}], ids=str)
def test_choosing_what_is_no_name_is_an_error(colour: Colour, choice: Any) -> None:
    graph = routed(colour, colour.node(lambda _: choice)).compile()
    with pytest.raises(InvalidUpdateError, match="a goto is a node name, a Send, or a list of these"):
        colour.invoke(graph, {"log": []})


def test_sending_to_the_end_is_an_error(colour: Colour) -> None:
    graph = routed(colour, colour.node(lambda _: Send(END, 1))).compile()
    with pytest.raises(InvalidUpdateError, match="Cannot send a packet to the END node"):
        colour.invoke(graph, {"log": []})


def test_P50_sending_to_an_unknown_node_is_an_error(colour: Colour) -> None:
    graph = routed(colour, colour.node(lambda _: Send("v", 1))).compile()
    with pytest.raises(UnknownNode, match="by Send"):
        colour.invoke(graph, {"log": []})


def test_a_path_function_sees_the_state_with_its_own_nodes_writes_only(colour: Colour) -> None:
    seen: list[Any] = []

    def path(state: Log) -> str:
        seen.append(list(state["log"]))
        return END

    graph = StateGraph(Log).add_node("a", colour.says("a")).add_node("b", colour.says("b"))
    graph.add_edge(START, "a").add_edge(START, "b").add_conditional_edges("a", colour.node(path))
    colour.invoke(graph.compile(), {"log": ["in"]})
    assert seen == [["in", "a"]], "b ran beside a"


def test_what_a_path_function_sees_does_not_change_the_state(colour: Colour) -> None:
    def extend(left: list[str], right: list[str]) -> list[str]:
        left.extend(right)  # a reducer that changes its left operand in place
        return left

    class InPlace(TypedDict):
        log: Annotated[list[str], extend]

    graph = StateGraph(InPlace).add_node("a", colour.says("a")).add_edge(START, "a")
    graph.add_conditional_edges("a", colour.node(lambda _: END))

    def second(state: InPlace) -> str:
        return END

    graph.add_conditional_edges("a", second)
    assert colour.invoke(graph.compile(), {"log": ["in"]}) == {"log": ["in", "a"]}


def test_several_conditional_edges_of_one_node_all_count(colour: Colour, saver: Any) -> None:
    def one(_: Log) -> str:
        return "x"

    def other(_: Log) -> str:
        return "y"

    graph = StateGraph(Log)
    for name in ("first", "x", "y"):
        graph.add_node(name, colour.says(name))
    graph.add_edge(START, "first").add_conditional_edges("first", one).add_conditional_edges("first", other)
    assert colour.invoke(graph.compile(saver), {"log": []}, thread())["log"] == ["first", "x", "y"]


def test_conditional_edges_go_beside_static_ones(colour: Colour, saver: Any) -> None:
    graph = routed(colour, colour.node(lambda _: "x")).add_edge("first", "y").compile(saver)
    assert colour.invoke(graph, {"log": []}, thread())["log"] == ["first", "x", "y"]


def test_the_start_may_have_conditional_edges(colour: Colour, saver: Any) -> None:
    graph = StateGraph(Log).add_node("x", colour.says("x")).add_node("w", colour.node(lambda arg: {"log": [arg]}))
    graph.add_conditional_edges(START, colour.node(lambda state: ["x", *(Send("w", word) for word in state["log"])]))
    assert colour.invoke(graph.compile(saver), {"log": ["b", "a"]}, thread())["log"] == ["b", "a", "x", "b", "a"]


def test_a_conditional_start_may_end_at_once(colour: Colour, saver: Any) -> None:
    graph = StateGraph(Log).add_node("x", colour.says("x")).add_conditional_edges(START, colour.node(lambda _: END), ["x", END])
    assert colour.invoke(graph.compile(saver), {"log": ["in"]}, thread()) == {"log": ["in"]}


def test_P3_a_conditional_start_that_fails_keeps_the_input(colour: Colour, kept: Saver) -> None:
    fails = [True]

    def path(state: Log) -> str:
        if fails[0]:
            raise ConnectionError("router down")
        return "x"

    graph = StateGraph(Log).add_node("x", colour.says("x")).add_conditional_edges(START, colour.node(path)).compile(kept)
    with pytest.raises(ConnectionError, match="router down"):
        colour.invoke(graph, {"log": ["in"]}, thread())
    assert colour.state(graph, thread()).next == ("__start__",)
    fails[0] = False
    assert colour.invoke(graph, None, thread()) == {"log": ["in", "x"]}


def test_a_path_function_may_take_config_and_runtime(colour: Colour) -> None:
    got: list[Any] = []

    def path(state: Log, config: RunnableConfig, runtime: Runtime[Any]) -> str:
        got.append((config["configurable"]["user"], config["metadata"]["langgraph_node"], runtime.context))
        return "x"

    graph = routed(colour, colour.node(path)).compile()
    colour.invoke(graph, {"log": []}, {"configurable": {"user": "u"}}, context="ctx")
    assert got == [("u", "first", "ctx")]


def test_a_failing_path_function_fails_its_node(colour: Colour, kept: Saver) -> None:
    def path(_: Log) -> str:
        raise LookupError("no way")

    graph = routed(colour, colour.node(path)).compile(kept)
    with pytest.raises(LookupError, match="no way") as caught:
        colour.invoke(graph, {"log": []}, thread())
    assert any("first" in note for note in caught.value.__notes__)
    assert colour.state(graph, thread()).next == ("first",)


def test_a_plain_path_function_that_returns_a_coroutine_is_awaited_or_taught(colour: Colour) -> None:
    async def choose(_: Log) -> str:
        await asyncio.sleep(0)
        return "x"

    graph = routed(colour, lambda state: choose(state)).compile()
    try:
        out = colour.invoke(graph, {"log": []})
    except InvalidUpdateError as error:
        assert "async def" in str(error)  # noqa: PT017 - either outcome is right, silence is not
    else:
        assert out["log"] == ["first", "x"]


def test_an_async_path_function_after_a_sync_node_is_awaited() -> None:
    async def path(_: Log) -> str:
        await asyncio.sleep(0)
        return "x"

    sync = Colour("", calls_async=False, nodes_async=False)
    graph = routed(sync, path).compile()
    assert graph.invoke({"log": []})["log"] == ["first", "x"]
    assert asyncio.run(graph.ainvoke({"log": []}))["log"] == ["first", "x"]


class Private(TypedDict):
    extra: int


class Both(TypedDict):
    log: Annotated[list[str], operator.add]


def test_a_path_function_sees_the_private_keys_of_its_schema(colour: Colour) -> None:
    seen: list[Any] = []

    def path(state: Private) -> str:
        seen.append(dict(state))
        return END

    graph = StateGraph(Both).add_node("a", colour.node(lambda _: {"log": ["a"], "extra": 5})).add_edge(START, "a")
    graph.add_conditional_edges("a", colour.node(path))
    assert colour.invoke(graph.compile(), {"log": []}) == {"log": ["a"]}
    assert seen == [{"extra": 5}]
