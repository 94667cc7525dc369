"""Many calls at once: batches, and one compiled graph on many threads."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from typing import Any

import pytest

from perdure import START, StateGraph
from perdure.checkpoint.saver import Saver
from perdure.errors import InvalidConfig
from tests.engine.colours import Colour, Log, thread

VAR: ContextVar[str] = ContextVar("VAR", default="unset")


def doubling(colour: Colour) -> StateGraph[Any, Any, Any, Any]:
    def node(state: Log) -> dict[str, Any]:
        if state["log"] == ["bad"]:
            raise ValueError("bad input")
        return {"log": state["log"]}

    return StateGraph(Log).add_node("a", colour.node(node)).add_edge(START, "a")


def batch(colour: Colour, graph: Any, inputs: Sequence[Any], config: Any = None, **options: Any) -> list[Any]:
    if colour.calls_async:
        return asyncio.run(graph.abatch(inputs, config, **options))
    return graph.batch(inputs, config, **options)  # type: ignore[no-any-return]


def test_a_batch_gives_results_in_the_order_of_its_inputs(colour: Colour) -> None:
    graph = doubling(colour).compile()
    assert batch(colour, graph, [{"log": [at]} for at in range(20)]) == [{"log": [at, at]} for at in range(20)]
    assert batch(colour, graph, []) == []


def test_a_batch_may_have_a_config_for_each_input(colour: Colour, kept: Saver) -> None:
    graph = doubling(colour).compile(kept)
    configs = [thread(str(at)) for at in range(5)]
    batch(colour, graph, [{"log": [at]} for at in range(5)], configs)
    assert [colour.state(graph, config).values for config in configs] == [{"log": [at, at]} for at in range(5)]


def test_a_batch_raises_the_first_failure_or_returns_failures(colour: Colour) -> None:
    graph = doubling(colour).compile()
    inputs = [{"log": [1]}, {"log": ["bad"]}, {"log": [2]}]
    with pytest.raises(ValueError, match="bad input"):
        batch(colour, graph, inputs)
    out = batch(colour, graph, inputs, return_exceptions=True)
    assert (out[0], str(out[1]), out[2]) == ({"log": [1, 1]}, "bad input", {"log": [2, 2]})


def test_a_batch_with_a_wrong_number_of_configs_is_an_error(colour: Colour) -> None:
    with pytest.raises(InvalidConfig, match="2 inputs and 1 configs"):
        batch(colour, doubling(colour).compile(), [{"log": []}, {"log": []}], [{}])


def test_a_batch_runs_at_most_max_concurrency_at_a_time(colour: Colour) -> None:
    lock = threading.Lock()
    counts = {"now": 0, "most": 0}

    def node(_: Log) -> None:
        with lock:
            counts["now"] += 1
            counts["most"] = max(counts["most"], counts["now"])
        threading.Event().wait(0.002)
        with lock:
            counts["now"] -= 1

    graph = StateGraph(Log).add_node("a", colour.node(node)).add_edge(START, "a").compile()
    batch(colour, graph, [{"log": []}] * 8, {"max_concurrency": 2})
    assert 1 <= counts["most"] <= 2


def test_a_batch_hands_on_options_and_context_variables(colour: Colour) -> None:
    def node(_: Log) -> dict[str, Any]:
        return {"log": [VAR.get()]}

    graph = StateGraph(Log).add_node("a", colour.node(node)).add_edge(START, "a").compile()
    token = VAR.set("caller")
    try:
        assert batch(colour, graph, [{"log": []}] * 2, output_keys="log") == [["caller"]] * 2
    finally:
        VAR.reset(token)


def test_one_compiled_graph_serves_many_threads_at_once(colour: Colour, kept: Saver) -> None:
    graph = StateGraph(Log)
    for name in ("a", "b", "end"):
        graph.add_node(name, colour.node(lambda state, name=name: {"log": [f"{name}{state['log'][0]}"]}))
    compiled = graph.add_edge(START, "a").add_edge(START, "b").add_edge(["a", "b"], "end").compile(kept)
    callers = 8
    begin = threading.Barrier(callers)

    def call(who: int) -> list[Any]:
        begin.wait(10)
        return [colour.invoke(compiled, {"log": [who]}, thread(f"{who}-{at}"))["log"] for at in range(10)]

    with ThreadPoolExecutor(callers) as pool:
        for who, outs in enumerate(pool.map(call, range(callers))):
            assert outs == [[who, f"a{who}", f"b{who}", f"end{who}"]] * 10


def test_P8_runs_on_one_thread_wait_in_line_if_asked_to(colour: Colour, kept: Saver) -> None:
    graph = StateGraph(Log).add_node("a", colour.node(lambda state: {"log": ["done"]})).add_edge(START, "a").compile(kept)
    callers = 4
    begin = threading.Barrier(callers)

    def call(who: int) -> None:
        begin.wait(10)
        colour.invoke(graph, {"log": [who]}, thread(), on_busy="wait")

    with ThreadPoolExecutor(callers) as pool:
        list(pool.map(call, range(callers)))
    log = colour.state(graph, thread()).values["log"]
    assert log[1::2] == ["done"] * callers, "each run is whole"
    assert sorted(log[::2]) == list(range(callers))


def test_concurrent_async_runs_of_one_graph(kept: Saver) -> None:
    async def node(state: Log) -> dict[str, Any]:
        await asyncio.sleep(0)
        return {"log": state["log"]}

    graph = StateGraph(Log).add_node("a", node).add_node("b", node).add_edge(START, "a").add_edge("a", "b").compile(kept)

    async def main() -> list[Any]:
        return await asyncio.gather(*(graph.ainvoke({"log": [at]}, thread(str(at))) for at in range(50)))

    assert asyncio.run(main()) == [{"log": [at] * 4} for at in range(50)]
