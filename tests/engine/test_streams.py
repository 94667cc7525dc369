"""Streams: custom events while a node runs, closing early, the shapes of the modes."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from perdure import START, StateGraph
from perdure.checkpoint.memory import InMemorySaver
from perdure.checkpoint.saver import Saver
from perdure.config import get_stream_writer
from perdure.errors import InvalidConfig, UnknownKey
from perdure.types import StreamWriter
from tests.engine.colours import COLOURS, Colour, Log, thread

SYNC, ASYNC = COLOURS[0], COLOURS[1]


def test_custom_events_come_in_order_and_before_the_nodes_update(colour: Colour, saver: Any) -> None:
    def node(_: Log, writer: StreamWriter) -> dict[str, Any]:
        for at in range(5):
            writer(at)
        return {"log": ["done"]}

    graph = StateGraph(Log).add_node("a", colour.node(node)).add_edge(START, "a").compile(saver)
    events = colour.stream(graph, {"log": []}, thread(), stream_mode=["custom", "updates"])
    assert events == [*(("custom", at) for at in range(5)), ("updates", {"a": {"log": ["done"]}})]


def test_custom_events_arrive_while_the_node_runs() -> None:
    received = threading.Event()

    def node(_: Log, writer: StreamWriter) -> dict[str, Any]:
        writer("early")
        return {"log": [received.wait(10)]}

    graph = StateGraph(Log).add_node("a", node).add_edge(START, "a").compile()
    stream = graph.stream({"log": []}, stream_mode=["custom", "values"])
    got = []
    for event in stream:
        got.append(event)
        if event == ("custom", "early"):
            received.set()
    assert got == [("values", {"log": []}), ("custom", "early"), ("values", {"log": [True]})]


def test_custom_events_arrive_while_an_async_node_runs() -> None:
    async def main() -> list[Any]:
        received = asyncio.Event()

        async def node(_: Log, writer: StreamWriter) -> dict[str, Any]:
            writer("early")
            await asyncio.wait_for(received.wait(), 10)
            return {"log": ["late"]}

        graph = StateGraph(Log).add_node("a", node).add_edge(START, "a").compile()
        got = []
        async for event in graph.astream({"log": []}, stream_mode="custom"):
            got.append(event)
            received.set()
        return got

    assert asyncio.run(main()) == ["early"]


def test_the_start_of_a_task_is_told_before_it_ends() -> None:
    told = threading.Event()

    def node(_: Log) -> dict[str, Any]:
        return {"log": [told.wait(10)]}

    graph = StateGraph(Log).add_node("a", node).add_node("b", node).add_edge(START, "a").add_edge(START, "b").compile()
    ends = []
    for event in graph.stream({"log": []}, stream_mode="tasks"):
        if "input" in event:
            told.set()
        else:
            ends.append(event["result"])
    assert ends == [{"log": [True]}] * 2


def test_events_of_helpers_in_threads_arrive(colour: Colour) -> None:
    def node(_: Log, writer: StreamWriter) -> dict[str, Any]:
        helper = threading.Thread(target=writer, args=("from a thread",))
        helper.start()
        helper.join()
        return {}

    graph = StateGraph(Log).add_node("a", colour.node(node)).add_edge(START, "a").compile()
    assert colour.stream(graph, {"log": []}, stream_mode="custom") == ["from a thread"]


def test_each_of_several_nodes_keeps_the_order_of_its_events(colour: Colour) -> None:
    def node(name: str) -> Any:
        def run(_: Log) -> None:
            for at in range(20):
                get_stream_writer()((name, at))

        return colour.node(run)

    graph = StateGraph(Log)
    for name in "ab":
        graph.add_node(name, node(name)).add_edge(START, name)
    events = colour.stream(graph.compile(), {"log": []}, stream_mode="custom")
    for name in "ab":
        assert [at for who, at in events if who == name] == list(range(20))


# -- shapes ---------------------------------------------------------------------------------------------------------------


def two(colour: Colour) -> StateGraph[Any, Any, Any, Any]:
    return (
        StateGraph(Log).add_node("a", colour.says("a")).add_node("b", colour.says("b")).add_edge(START, "a").add_edge("a", "b")
    )


def test_one_mode_gives_payloads_and_several_give_pairs(colour: Colour) -> None:
    graph = two(colour).compile()
    updates = [{"a": {"log": ["a"]}}, {"b": {"log": ["b"]}}]
    assert colour.stream(graph, {"log": []}) == updates
    assert colour.stream(graph, {"log": []}, stream_mode=["updates"]) == [("updates", each) for each in updates]
    assert colour.stream(graph, {"log": []}, stream_mode="values") == [{"log": []}, {"log": ["a"]}, {"log": ["a", "b"]}]


def test_the_second_version_gives_dicts_of_one_shape(colour: Colour) -> None:
    events = colour.stream(two(colour).compile(), {"log": []}, stream_mode=["values", "updates"], version="v2")
    assert events == [
        {"type": "values", "ns": (), "data": {"log": []}, "interrupts": ()},
        {"type": "updates", "ns": (), "data": {"a": {"log": ["a"]}}},
        {"type": "values", "ns": (), "data": {"log": ["a"]}, "interrupts": ()},
        {"type": "updates", "ns": (), "data": {"b": {"log": ["b"]}}},
        {"type": "values", "ns": (), "data": {"log": ["a", "b"]}, "interrupts": ()},
    ]


def test_invoke_with_another_mode_gives_the_list_of_its_events(colour: Colour) -> None:
    graph = two(colour).compile()
    assert colour.invoke(graph, {"log": []}, stream_mode="updates") == [{"a": {"log": ["a"]}}, {"b": {"log": ["b"]}}]


def test_output_keys_restrict_results_and_values(colour: Colour, saver: Any) -> None:
    graph = two(colour).compile(saver)
    assert colour.invoke(graph, {"log": []}, thread("1"), output_keys="log") == ["a", "b"]
    assert colour.invoke(graph, {"log": []}, thread("2"), output_keys=["log"]) == {"log": ["a", "b"]}


@pytest.mark.parametrize("keys", ["lug", ["lug"], ("log", "lug"), [5], [["log"]], "__start__"])
def test_P50_an_output_key_that_the_state_does_not_have_is_an_error(colour: Colour, saver: Any, keys: Any) -> None:
    graph = two(colour).compile(saver)
    for mode in ("values", "updates"):
        with pytest.raises(UnknownKey, match="output_keys names the key"):
            colour.stream(graph, {"log": []}, thread(), stream_mode=mode, output_keys=keys)
        with pytest.raises(UnknownKey, match="its keys are 'log'"):
            colour.invoke(graph, {"log": []}, thread(), stream_mode=mode, output_keys=keys)
    for wrong in (5, b"log", object()):
        with pytest.raises(InvalidConfig, match="output_keys must be"):
            colour.invoke(graph, {"log": []}, thread(), output_keys=wrong)
    if saver is not None:
        assert colour.history(graph, thread()) == []


def test_printing_does_not_change_what_comes(colour: Colour, capsys: pytest.CaptureFixture[str]) -> None:
    events = colour.stream(two(colour).compile(), {"log": []}, stream_mode="values", print_mode="updates")
    assert events == [{"log": []}, {"log": ["a"]}, {"log": ["a", "b"]}]
    assert capsys.readouterr().out.splitlines() == ["[updates] {'a': {'log': ['a']}}", "[updates] {'b': {'log': ['b']}}"]
    colour.stream(two(colour).compile(debug=True), {"log": []})
    assert len(capsys.readouterr().out.splitlines()) == 5


@pytest.mark.parametrize("wrong", [{"stream_mode": "value"}, {"stream_mode": ["updates", "x"]}, {"version": "v3"}], ids=str)
def test_P50_an_unknown_mode_or_version_is_an_error(colour: Colour, wrong: Any) -> None:
    with pytest.raises(ValueError, match="unknown stream"):
        colour.stream(two(colour).compile(), {"log": []}, **wrong)


# -- closing early --------------------------------------------------------------------------------------------------------


def test_P5_a_stream_that_is_closed_leaves_a_record_that_can_be_resumed(kept: Saver) -> None:
    runs = {"a": 0, "b": 0}

    def node(name: str) -> Any:
        def run(_: Log) -> dict[str, Any]:
            runs[name] += 1
            return {"log": [name]}

        return run

    graph = (
        StateGraph(Log).add_node("a", node("a")).add_node("b", node("b")).add_edge(START, "a").add_edge("a", "b").compile(kept)
    )
    for _ in graph.stream({"log": []}, thread()):
        break
    state = graph.get_state(thread())
    assert (state.values, state.next) == ({"log": ["a"]}, ("b",))
    assert graph.invoke(None, thread()) == {"log": ["a", "b"]}
    assert runs == {"a": 1, "b": 1}


def test_P5_an_async_stream_that_is_closed_leaves_a_record_that_can_be_resumed(kept: Saver) -> None:
    graph = two(ASYNC).compile(kept)

    async def main() -> None:
        stream = graph.astream({"log": []}, thread())
        async for _ in stream:
            break
        await stream.aclose()  # type: ignore[attr-defined]
        state = await graph.aget_state(thread())
        assert (state.values, state.next) == ({"log": ["a"]}, ("b",))
        assert await graph.ainvoke(None, thread()) == {"log": ["a", "b"]}

    asyncio.run(main())


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_P5_a_stream_that_is_closed_inside_a_step_keeps_what_had_come(kept: Saver, durability: Any) -> None:
    runs = {"fast": 0, "slow": 0}

    async def fast(_: Log) -> dict[str, Any]:
        runs["fast"] += 1
        return {"log": ["fast"]}

    async def slow(_: Log) -> dict[str, Any]:
        runs["slow"] += 1
        if runs["slow"] == 1:
            await asyncio.sleep(3600)
        return {"log": ["slow"]}

    graph = StateGraph(Log).add_node("fast", fast).add_node("slow", slow).add_edge(START, "fast").add_edge(START, "slow")
    compiled = graph.compile(kept)

    async def main() -> None:
        stream = compiled.astream({"log": []}, thread(), durability=durability)
        async for event in stream:
            assert event == {"fast": {"log": ["fast"]}}
            break
        await stream.aclose()  # type: ignore[attr-defined]
        state = await compiled.aget_state(thread())
        assert (state.values, state.next) == ({"log": ["fast"]}, ("slow",))
        assert [task.error for task in state.tasks if task.name == "slow"] == ["CancelledError()"]
        assert await compiled.ainvoke(None, thread()) == {"log": ["fast", "slow"]}

    asyncio.run(main())
    assert runs == {"fast": 1, "slow": 2}


def test_a_closed_stream_gives_its_thread_free(kept: Saver) -> None:
    graph = two(SYNC).compile(kept)
    stream = graph.stream({"log": []}, thread())
    next(stream)
    stream.close()  # type: ignore[attr-defined]
    assert graph.invoke({"log": ["new"]}, thread())["log"] == ["a", "new", "a", "b"]


def test_a_stream_that_nobody_iterates_over_does_nothing(kept: Saver) -> None:
    graph = two(SYNC).compile(kept)
    graph.stream({"log": []}, thread())
    assert graph.get_state(thread()).values == {}


def test_P5_S14_a_cancelled_run_keeps_what_had_come_in_every_mode() -> None:
    for durability in ("sync", "async", "exit"):
        memory = InMemorySaver()
        runs = {"p1": 0, "p2": 0}
        reached = threading.Event()

        async def p1(_: Log, runs: dict[str, int] = runs) -> dict[str, Any]:
            runs["p1"] += 1
            return {"log": ["p1"]}

        async def p2(_: Log, runs: dict[str, int] = runs, reached: threading.Event = reached) -> dict[str, Any]:
            runs["p2"] += 1
            if runs["p2"] == 1:
                await asyncio.sleep(0.01)
                reached.set()
                await asyncio.sleep(3600)
            return {"log": ["p2"]}

        graph = StateGraph(Log)
        for name, node in (("p1", p1), ("p2", p2)):
            graph.add_node(name, lambda state, node=node: node(state)).add_edge(START, name)
        compiled = graph.compile(memory)

        async def main(compiled: Any = compiled, durability: str = durability, reached: threading.Event = reached) -> Any:
            running = asyncio.create_task(compiled.ainvoke({"log": []}, thread(), durability=durability))
            while not reached.is_set():  # noqa: ASYNC110 - set by a node, wherever it runs
                await asyncio.sleep(0.001)
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
            state = await compiled.aget_state(thread())
            return state, await compiled.ainvoke(None, thread())

        state, out = asyncio.run(main())
        assert (state.values, state.next) == ({"log": ["p1"]}, ("p2",)), durability
        assert [(task.name, task.error) for task in state.tasks] == [("p1", None), ("p2", "CancelledError()")]
        assert out == {"log": ["p1", "p2"]}
        assert runs == {"p1": 1, "p2": 2}
