"""Timeouts of async nodes and of super-steps. The clock is real where asyncio waits, so limits are tiny or far away."""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta
from typing import Any

import pytest

from perdure import START, StateGraph
from perdure.checkpoint.saver import Saver
from perdure.errors import InvalidGraph, InvalidUpdateError, NodeTimeoutError, StepTimeoutError
from perdure.runtime import Runtime
from perdure.types import RetryPolicy, Send, TimeoutPolicy
from tests.engine.colours import COLOURS, Colour, Log, thread

SOON, NEVER = 0.02, 3600.0
nodes_async = pytest.mark.parametrize("colour", [each for each in COLOURS if each.nodes_async], ids=lambda each: each.name)


def timed(node: Any, timeout: Any, **given: Any) -> StateGraph[Any, Any, Any, Any]:
    return StateGraph(Log).add_node("a", node, timeout=timeout, **given).add_edge(START, "a")


async def sleeps(_: Log) -> dict[str, Any]:
    await asyncio.sleep(NEVER)
    return {"log": ["late"]}


@nodes_async
@pytest.mark.parametrize(
    "timeout", [SOON, timedelta(seconds=SOON), TimeoutPolicy(run_timeout=SOON)], ids=lambda t: type(t).__name__
)
def test_a_node_that_takes_too_long_is_stopped(colour: Colour, saver: Any, timeout: Any) -> None:
    with pytest.raises(NodeTimeoutError, match=r"its run timeout is 0\.02 s") as caught:
        colour.invoke(timed(sleeps, timeout).compile(saver), {"log": []}, thread())
    error = caught.value
    assert (error.node, error.kind, error.run_timeout, error.idle_timeout, error.code) == (
        "a",
        "run",
        SOON,
        None,
        "NODE_TIMEOUT",
    )
    assert isinstance(error, TimeoutError)


@nodes_async
def test_the_node_is_cancelled_and_may_clean_up(colour: Colour) -> None:
    ended: list[str] = []

    async def node(_: Log) -> None:
        try:
            await asyncio.sleep(NEVER)
        finally:
            ended.append("clean")

    with pytest.raises(NodeTimeoutError):
        colour.invoke(timed(node, SOON).compile(), {"log": []})
    assert ended == ["clean"]


@nodes_async
def test_a_node_in_time_is_left_alone(colour: Colour, saver: Any) -> None:
    async def node(_: Log) -> dict[str, Any]:
        await asyncio.sleep(0)
        return {"log": ["ok"]}

    assert colour.invoke(timed(node, NEVER).compile(saver), {"log": []}, thread())["log"] == ["ok"]


@nodes_async
def test_a_silent_node_is_idle(colour: Colour) -> None:
    with pytest.raises(NodeTimeoutError, match="its idle timeout") as caught:
        colour.invoke(timed(sleeps, TimeoutPolicy(idle_timeout=SOON)).compile(), {"log": []})
    assert caught.value.kind == "idle"


@nodes_async
@pytest.mark.parametrize("sign", ["heartbeat", "stream"])
def test_signs_of_life_keep_a_node_from_being_idle(colour: Colour, sign: str) -> None:
    async def node(state: Log, runtime: Runtime[Any]) -> dict[str, Any]:
        for _ in range(8):
            await asyncio.sleep(0.1)
            if sign == "heartbeat":
                runtime.heartbeat()
            else:
                runtime.stream_writer("alive")
        return {"log": ["ok"]}

    graph = timed(node, TimeoutPolicy(idle_timeout=0.6)).compile()
    assert colour.invoke(graph, {"log": []})["log"] == ["ok"], "0.8 s in all, never 0.6 s without a sign"


@nodes_async
def test_where_only_the_heartbeat_counts_the_stream_does_not(colour: Colour) -> None:
    async def node(_: Log, runtime: Runtime[Any]) -> dict[str, Any]:
        while True:
            await asyncio.sleep(0.005)
            runtime.stream_writer("alive")

    graph = timed(node, TimeoutPolicy(idle_timeout=0.05, refresh_on="heartbeat")).compile()
    with pytest.raises(NodeTimeoutError, match="idle"):
        colour.invoke(graph, {"log": []})


@nodes_async
def test_a_timeout_is_tried_again_by_default(colour: Colour) -> None:
    attempts: list[int] = []

    async def node(_: Log) -> dict[str, Any]:
        attempts.append(len(attempts))
        if len(attempts) < 3:
            await asyncio.sleep(NEVER)
        return {"log": ["ok"]}

    policy = RetryPolicy(initial_interval=0.0, jitter=False)
    assert colour.invoke(timed(node, 0.05, retry_policy=policy).compile(), {"log": []})["log"] == ["ok"]
    assert len(attempts) == 3


@nodes_async
def test_siblings_of_a_node_that_timed_out_keep_their_results(colour: Colour, kept: Saver) -> None:
    counts = {"a": 0, "b": 0}

    async def a(_: Log) -> dict[str, Any]:
        counts["a"] += 1
        if counts["a"] == 1:
            await asyncio.sleep(NEVER)
        return {"log": ["a"]}

    async def b(_: Log) -> dict[str, Any]:
        counts["b"] += 1
        return {"log": ["b"]}

    graph = timed(a, 0.05).add_node("b", b).add_edge(START, "b").compile(kept)
    with pytest.raises(NodeTimeoutError):
        colour.invoke(graph, {"log": []}, thread())
    assert colour.invoke(graph, None, thread())["log"] == ["a", "b"]
    assert counts == {"a": 2, "b": 1}


@nodes_async
def test_a_send_may_have_a_timeout_of_its_own(colour: Colour) -> None:
    async def worker(arg: int) -> dict[str, Any]:
        if arg:
            await asyncio.sleep(NEVER)
        return {"log": [arg]}

    graph = (
        StateGraph(Log).add_node("w", worker).add_conditional_edges(START, lambda _: [Send("w", 0), Send("w", 1, timeout=SOON)])
    )
    with pytest.raises(NodeTimeoutError):
        colour.invoke(graph.compile(), {"log": []})


def test_a_send_to_a_sync_node_cannot_have_a_timeout() -> None:
    graph = (
        StateGraph(Log)
        .add_node("w", lambda arg: {"log": [arg]})
        .add_conditional_edges(START, lambda _: Send("w", 1, timeout=1))
    )
    with pytest.raises(InvalidUpdateError, match="only supported for async nodes"):
        graph.compile().invoke({"log": []})


def test_sync_nodes_cannot_have_timeouts() -> None:
    with pytest.raises(InvalidGraph, match=r"only supported for async nodes.*Node 'a' is sync"):
        timed(lambda _: None, 1).compile()


@pytest.mark.parametrize("timeout", [0, -1, timedelta(0)], ids=str)
def test_a_timeout_must_be_positive(timeout: Any) -> None:
    with pytest.raises(ValueError, match="must be positive"):
        timed(sleeps, timeout)
    with pytest.raises(ValueError, match="must be positive"):
        StateGraph(Log).add_node("a", sleeps).add_edge(START, "a").compile(step_timeout=timeout)


# -- super-steps ----------------------------------------------------------------------------------------------------------


@nodes_async
def test_a_super_step_that_takes_too_long_ends_the_run(colour: Colour, kept: Saver) -> None:
    counts = {"fast": 0}
    hangs = [True]

    async def fast(_: Log) -> dict[str, Any]:
        counts["fast"] += 1
        return {"log": ["fast"]}

    async def slow(_: Log) -> dict[str, Any]:
        if hangs[0]:
            await asyncio.sleep(NEVER)
        return {"log": ["slow"]}

    graph = StateGraph(Log).add_node("fast", fast).add_node("slow", slow).add_edge(START, "fast").add_edge(START, "slow")
    with pytest.raises(StepTimeoutError, match="Timed out"):
        colour.invoke(graph.compile(kept, step_timeout=0.1), {"log": []}, thread())
    hangs[0] = False
    again = graph.compile(kept)
    assert colour.state(again, thread()).next == ("slow",)
    assert colour.invoke(again, None, thread())["log"] == ["fast", "slow"]
    assert counts == {"fast": 1}


def test_a_super_step_of_sync_nodes_ends_once_they_return() -> None:
    release = threading.Event()

    def slow(_: Log) -> dict[str, Any]:
        release.wait(0.2)
        return {"log": ["slow"]}

    graph = StateGraph(Log).add_node("slow", slow).add_edge(START, "slow").compile(step_timeout=0.02)
    with pytest.raises(StepTimeoutError):
        graph.invoke({"log": []})
    with pytest.raises(StepTimeoutError):
        asyncio.run(graph.ainvoke({"log": []}))


def test_a_super_step_in_time_is_left_alone(colour: Colour, saver: Any) -> None:
    graph = (
        StateGraph(Log).add_node("a", colour.says("a")).add_node("b", colour.says("b")).add_edge(START, "a").add_edge("a", "b")
    )
    assert colour.invoke(graph.compile(saver, step_timeout=NEVER), {"log": []}, thread())["log"] == ["a", "b"]


@nodes_async
def test_P5_an_async_node_is_stopped_where_a_sibling_fails(colour: Colour, kept: Saver) -> None:
    stopped: list[str] = []
    started = threading.Event()

    async def slow(_: Log) -> dict[str, Any]:
        started.set()
        try:
            await asyncio.sleep(NEVER)
        except asyncio.CancelledError:
            stopped.append("slow")
            raise
        return {"log": ["slow"]}

    async def bad(_: Log) -> None:
        while not started.is_set():  # noqa: ASYNC110 - the other node may run on another loop
            await asyncio.sleep(0)
        raise ValueError("bad")

    graph = StateGraph(Log).add_node("slow", slow).add_node("bad", bad).add_edge(START, "slow").add_edge(START, "bad")
    compiled = graph.compile(kept)
    with pytest.raises(ValueError, match="bad"):
        colour.invoke(compiled, {"log": []}, thread())
    assert stopped == ["slow"]
    assert set(colour.state(compiled, thread()).next) == {"slow", "bad"}
