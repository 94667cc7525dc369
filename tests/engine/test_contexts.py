"""Context variables: those of the caller reach nodes, those that nodes set stay in them."""

from __future__ import annotations

import asyncio
import threading
from contextvars import ContextVar
from typing import Any

import pytest

from perdure import START, StateGraph
from perdure.types import interrupt
from tests.engine.colours import COLOURS, Colour, Log, thread

VAR: ContextVar[str] = ContextVar("VAR", default="unset")


def test_the_callers_values_reach_nodes(colour: Colour, saver: Any) -> None:
    seen: dict[str, str] = {}

    def node(name: str) -> Any:
        def run(_: Log) -> None:
            seen[name] = VAR.get()

        return colour.node(run)

    graph = StateGraph(Log)
    for name in "ab":
        graph.add_node(name, node(name)).add_edge(START, name)
    graph.add_node("alone", node("alone")).add_edge(["a", "b"], "alone")
    token = VAR.set("caller")
    try:
        colour.invoke(graph.compile(saver), {"log": []}, thread())
    finally:
        VAR.reset(token)
    assert seen == {"a": "caller", "b": "caller", "alone": "caller"}


def test_what_a_node_sets_reaches_neither_other_nodes_nor_the_caller(colour: Colour, saver: Any) -> None:
    seen: list[str] = []

    def node(_: Log) -> None:
        seen.append(VAR.get())
        VAR.set("node")

    graph = (
        StateGraph(Log)
        .add_node("a", colour.node(node))
        .add_node("b", colour.node(node))
        .add_edge(START, "a")
        .add_edge("a", "b")
    )
    graph.add_node("c", colour.node(node)).add_node("d", colour.node(node)).add_edge("b", "c").add_edge("b", "d")

    async def main() -> None:
        compiled = graph.compile(saver)
        async for _ in compiled.astream({"log": []}, thread()):
            assert VAR.get() == "unset"

    if colour.calls_async:
        asyncio.run(main())
    else:
        for _ in graph.compile(saver).stream({"log": []}, thread()):
            assert VAR.get() == "unset"
    assert seen == ["unset"] * 4
    assert VAR.get() == "unset"


def test_a_path_function_sees_the_callers_values_and_keeps_its_own(colour: Colour) -> None:
    seen: list[str] = []

    def path(_: Log) -> str:
        seen.append(VAR.get())
        VAR.set("path")
        return "__end__"

    graph = StateGraph(Log).add_node("a", colour.says("a")).add_edge(START, "a")
    graph.add_conditional_edges("a", colour.node(path)).add_conditional_edges(START, colour.node(lambda _: "a"))
    colour.invoke(graph.compile(), {"log": []})
    assert (seen, VAR.get()) == (["unset"], "unset")


def test_the_running_task_is_not_visible_to_the_caller_between_events(colour: Colour) -> None:
    if colour.calls_async:
        return
    graph = (
        StateGraph(Log).add_node("a", colour.says("a")).add_node("b", colour.says("b")).add_edge(START, "a").add_edge("a", "b")
    )
    for _ in graph.compile().stream({"log": []}):
        with pytest.raises(RuntimeError, match="outside of a running graph"):
            interrupt("q")


@pytest.mark.parametrize("colour", [each for each in COLOURS if each.calls_async], ids=lambda each: each.name)
def test_concurrent_runs_keep_their_values_apart(colour: Colour, saver: Any) -> None:
    def node(_: Log) -> dict[str, Any]:
        return {"log": [VAR.get()]}

    graph = (
        StateGraph(Log)
        .add_node("a", colour.node(node))
        .add_edge(START, "a")
        .add_node("b", colour.node(node))
        .add_edge(START, "b")
    )
    compiled = graph.compile(saver)

    async def call(name: str) -> Any:
        VAR.set(name)
        return await compiled.ainvoke({"log": []}, thread(name))

    async def main() -> Any:
        return await asyncio.gather(*(call(name) for name in "xyz"))

    assert asyncio.run(main()) == [{"log": [name] * 2} for name in "xyz"]


def test_a_sync_node_runs_on_the_callers_thread_where_nothing_stands_against_it(saver: Any) -> None:
    seen: list[int] = []
    graph = StateGraph(Log).add_node("a", lambda _: seen.append(threading.get_ident())).add_edge(START, "a").compile(saver)
    graph.invoke({"log": []}, thread())
    assert seen == [threading.get_ident()]
