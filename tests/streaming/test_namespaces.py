"""Events of subgraphs: under which namespace they come, and who gets those of a graph that a node's code streams itself."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from perdure.checkpoint.saver import Saver
from perdure.config import get_message_writer, get_stream_writer
from perdure.types import Command, interrupt
from tests.engine.colours import Colour, thread
from tests.streaming.stories import abreast, line

MODES = ["values", "updates", "custom", "messages", "tasks", "checkpoints", "debug"]


def leaf(colour: Colour) -> Any:
    def node(_: Any) -> Any:
        get_stream_writer()("hello")
        get_message_writer(id="m").write("token")
        return {"log": ["leaf"]}

    return line(("leaf", colour.node(node))).compile()


def calling(colour: Colour, graph: Any, times: int = 1) -> Any:
    """A node whose code calls a graph, in its own colour."""
    if colour.nodes_async:

        async def calls(_: Any) -> Any:
            for _ in range(times):
                await graph.ainvoke({"log": []})
            return {"log": ["called"]}

        return calls

    def calls_sync(_: Any) -> Any:
        for _ in range(times):
            graph.invoke({"log": []})
        return {"log": ["called"]}

    return calls_sync


def test_every_mode_names_the_node_that_runs_the_subgraph(colour: Colour, saver: Saver) -> None:
    graph = line(("p", line(("q", leaf(colour))).compile())).compile(saver)
    items = colour.stream(graph, {"log": []}, thread(), stream_mode=MODES, subgraphs=True)
    ids = {data["name"]: data["id"] for _, mode, data in items if mode == "tasks"}
    outer, inner = f"p:{ids['p']}", f"q:{ids['q']}"
    found = Counter((namespace, mode) for namespace, mode, _ in items)
    assert {namespace for namespace, _ in found} == {(), (outer,), (outer, inner)}
    deepest = {mode for namespace, mode in found if namespace == (outer, inner)}
    assert deepest == set(MODES)
    assert found[(outer, inner), "custom"] == found[(outer, inner), "messages"] == 1
    assert [data for namespace, mode, data in items if mode == "updates"] == [
        {"leaf": {"log": ["leaf"]}},
        {"q": {"log": ["leaf"]}},
        {"p": {"log": ["leaf"]}},
    ]
    for namespace, mode, data in items:
        if mode == "checkpoints":
            assert data["config"]["configurable"]["checkpoint_ns"] == "|".join(namespace)
        if mode == "messages":
            assert data[1]["langgraph_checkpoint_ns"] == "|".join([*namespace, f"leaf:{ids['leaf']}"])


def test_a_graph_called_twice_in_a_node_has_two_namespaces(colour: Colour, saver: Saver) -> None:
    graph = line(("p", calling(colour, leaf(colour), 2))).compile(saver)
    items = colour.stream(graph, {"log": []}, thread(), stream_mode=["updates", "custom", "tasks"], subgraphs=True)
    own = f"p:{next(data['id'] for _, mode, data in items if mode == 'tasks')}"
    assert [namespace for namespace, mode, _ in items if mode == "custom"] == [(own,), (own, "1")]
    assert [(namespace, data) for namespace, mode, data in items if mode == "updates"] == [
        ((own,), {"leaf": {"log": ["leaf"]}}),
        ((own, "1"), {"leaf": {"log": ["leaf"]}}),
        ((), {"p": {"log": ["called"]}}),
    ]


@pytest.mark.parametrize("mode", MODES)
def test_nothing_of_subgraphs_comes_unless_asked_for(colour: Colour, saver: Saver, mode: str) -> None:
    graph = line(("p", leaf(colour)), ("q", calling(colour, leaf(colour)))).compile(saver)
    given: Any = [mode]
    items = colour.stream(graph, {"log": []}, thread(), stream_mode=given, version="v2", subgraphs=False)
    assert all(item["ns"] == () for item in items)
    assert (len(items) > 0) is (mode not in ("custom", "messages"))


def test_subgraphs_side_by_side_each_keep_their_order(colour: Colour) -> None:
    def counting(name: str) -> Any:
        def node(_: Any) -> Any:
            for at in range(20):
                get_stream_writer()((name, at))

        return line(("n", colour.node(node))).compile()

    graph = abreast(*((name, counting(name)) for name in "ab")).compile()
    items = colour.stream(graph, {"log": []}, stream_mode="custom", subgraphs=True)
    for name in "ab":
        assert [at for (place,), (who, at) in items if who == name and place.startswith(f"{name}:")] == list(range(20))


def test_a_pause_in_a_subgraph_is_told_in_each_namespace(colour: Colour, saver: Saver) -> None:
    asks = line(("asks", colour.node(lambda _: {"log": [interrupt("q")]}))).compile()
    graph = line(("p", asks)).compile(saver)
    inner, outer = colour.stream(graph, {"log": []}, thread(), stream_mode="updates", subgraphs=True)
    assert (len(inner[0]), outer[0]) == (1, ())
    assert inner[1] == outer[1]
    items = colour.stream(graph, Command(resume="yes"), thread(), stream_mode="updates", subgraphs=True)
    assert [data for _, data in items] == [{"asks": {"log": ["yes"]}}, {"p": {"log": ["yes"]}}]
    assert items[0][0] == inner[0]


# -- a node that streams a graph itself -----------------------------------------------------------------------------------


def streaming(colour: Colour, graph: Any, into: list[Any], **options: Any) -> Any:
    """A node whose code streams a graph, in its own colour, and notes what comes."""
    if colour.nodes_async:

        async def streams(_: Any) -> Any:
            into.extend([item async for item in graph.astream({"log": []}, **options)])
            return {"log": ["streamed"]}

        return streams

    def streams_sync(_: Any) -> Any:
        into.extend(graph.stream({"log": []}, **options))
        return {"log": ["streamed"]}

    return streams_sync


def test_a_node_gets_what_it_asks_for_of_a_graph_that_it_streams(colour: Colour, saver: Saver) -> None:
    got: list[Any] = []
    graph = line(("p", streaming(colour, leaf(colour), got, stream_mode=["custom", "updates"]))).compile(saver)
    assert colour.invoke(graph, {"log": []}, thread()) == {"log": ["streamed"]}
    assert got == [("custom", "hello"), ("updates", {"leaf": {"log": ["leaf"]}})]


@pytest.mark.parametrize("subgraphs", [False, True])
def test_each_listener_gets_the_modes_that_it_asked_for(colour: Colour, subgraphs: bool) -> None:
    got: list[Any] = []
    graph = line(("p", streaming(colour, leaf(colour), got, stream_mode=["values"]))).compile()
    items = colour.stream(graph, {"log": []}, stream_mode=["custom", "updates"], subgraphs=subgraphs, version="v2")
    assert got == [("values", {"log": []}), ("values", {"log": ["leaf"]})]
    inner = [("custom", "hello"), ("updates", {"leaf": {"log": ["leaf"]}})] if subgraphs else []
    assert [(item["type"], item["data"]) for item in items] == [*inner, ("updates", {"p": {"log": ["streamed"]}})]
    assert {item["ns"] == () for item in items if item["data"] != {"p": {"log": ["streamed"]}}} <= {False}


def test_a_node_may_listen_to_the_subgraphs_of_what_it_streams(colour: Colour) -> None:
    got: list[Any] = []
    middle = line(("q", leaf(colour))).compile()
    graph = line(("p", streaming(colour, middle, got, stream_mode="updates", subgraphs=True))).compile()
    colour.invoke(graph, {"log": []})
    assert [data for _, data in got] == [{"leaf": {"log": ["leaf"]}}, {"q": {"log": ["leaf"]}}]
    (first, _), (second, _) = got
    assert first[0] == second[0]
    assert first[0].startswith("p:")
    assert (len(first), len(second)) == (2, 1)


def test_both_get_the_tokens_that_both_ask_for(colour: Colour) -> None:
    got: list[Any] = []
    graph = line(("p", streaming(colour, leaf(colour), got, stream_mode="messages"))).compile()
    items = colour.stream(graph, {"log": []}, stream_mode="messages", subgraphs=True)
    assert [message.content for message, _ in got] == ["token"]
    assert [message.content for _, (message, _) in items] == ["token"]


def test_a_node_may_leave_the_stream_of_a_graph(colour: Colour, saver: Saver) -> None:
    two = line(("one", colour.says("one")), ("two", colour.says("two"))).compile()
    if colour.nodes_async:

        async def leaves(_: Any) -> Any:
            stream = two.astream({"log": []})
            first = await anext(stream)
            await stream.aclose()
            return {"log": [first]}

        node: Any = leaves
    else:

        def leaves_sync(_: Any) -> Any:
            stream = two.stream({"log": []})
            first = next(stream)
            stream.close()
            return {"log": [first]}

        node = leaves_sync
    graph = line(("p", node), ("after", colour.says("after"))).compile(saver)
    assert colour.invoke(graph, {"log": []}, thread()) == {"log": [{"one": {"log": ["one"]}}, "after"]}
