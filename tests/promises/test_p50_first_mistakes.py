"""P50: what goes wrong in a first program says what to do: a missing saver, cache or context, a graph that was not compiled."""

from __future__ import annotations

import operator
import warnings
from dataclasses import dataclass
from typing import Annotated, Any, TypedDict

import pytest

from perdure.cache.memory import InMemoryCache
from perdure.checkpoint.saver import Saver
from perdure.errors import AmbiguousAnswer, InvalidUpdateError, MissingPartWarning, StepTimeoutError
from perdure.func import entrypoint, task
from perdure.graph import START, StateGraph
from perdure.runtime import Runtime
from perdure.types import CachePolicy, Command, Send, interrupt
from tests.promises.ways import Log, Way, on, rows_of


def one(way: Way, **options: Any) -> Any:
    """START -> a."""
    return StateGraph(Log).add_node("a", way.node(lambda state: {"log": ["a"]}), **options).add_edge(START, "a")


# ------------------------------------------------------------------------------------------------ a saver that is not there


@pytest.mark.parametrize("given", [{"at_compile": True}, {}], ids=["compile", "call"])
def test_P50_a_breakpoint_without_a_saver_is_warned_about(way: Way, given: Any):
    graph = one(way).compile(interrupt_before=["a"] if given else None)
    options = {} if given else {"interrupt_before": ["a"]}
    with pytest.warns(MissingPartWarning, match=r"before node 'a'.*no saver.*compile\(checkpointer=\.\.\.\)"):
        assert way.invoke(graph, {"log": []}, **options) == {"log": []}
    with pytest.warns(MissingPartWarning):
        assert way.stream(graph, {"log": []}, **options) == [{"__interrupt__": ()}]


def test_P50_a_breakpoint_with_a_saver_or_one_that_is_not_reached_is_not_warned_about(saver: Saver, way: Way):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert way.invoke(one(way).compile(checkpointer=saver, interrupt_before=["a"]), {"log": []}, on()) == {"log": []}
        assert way.invoke(one(way).compile(interrupt_after=["a"]), {"log": []}) == {"log": ["a"]}


def test_P50_a_breakpoint_inside_a_subgraph_is_its_parents_business(saver: Saver, way: Way):
    inner = one(way).compile(interrupt_before=["a"])
    graph = StateGraph(Log).add_node("inner", inner).add_edge(START, "inner").compile(checkpointer=saver)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        way.invoke(graph, {"log": []}, on())
        assert way.invoke(graph, None, on()) == {"log": ["a"]}


# ------------------------------------------------------------------------------------------------ a cache that is not there


def test_P50_a_cache_policy_without_a_cache_is_warned_about(way: Way):
    graph = one(way, cache_policy=CachePolicy()).compile()
    for call in (way.invoke, way.stream):
        with pytest.warns(MissingPartWarning, match=r"node 'a' .*no cache.*compile\(cache=InMemoryCache\(\)\)"):
            call(graph, {"log": []})


def test_P50_a_subgraph_uses_the_cache_of_its_parent(way: Way):
    inner = one(way, cache_policy=CachePolicy()).compile()
    builder = StateGraph(Log).add_node("inner", inner).add_edge(START, "inner")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        way.invoke(builder.compile(cache=InMemoryCache()), {"log": []})
    with pytest.warns(MissingPartWarning, match="node 'a' of graph"):
        way.invoke(builder.compile(), {"log": []})


def test_P50_a_cache_policy_of_a_step_without_a_cache_is_warned_about():
    @task(cache_policy=CachePolicy())
    def step(n: int) -> int:
        return n + 1

    @entrypoint()
    def workflow(n: int) -> int:
        return step(n).result()

    with pytest.warns(MissingPartWarning, match="task 'step' has a cache policy"):
        assert workflow.invoke(1) == 2


# ---------------------------------------------------------------------------------------------- a context that is not there


@dataclass
class Who:
    name: str


def test_P50_a_node_that_misses_its_context_is_told_why_it_is_none(way: Way):
    def a(state: Log, runtime: Runtime[Who]) -> Any:
        return {"log": [runtime.context.name]}

    graph = StateGraph(Log, context_schema=Who).add_node("a", way.node(a)).add_edge(START, "a").compile()
    with pytest.raises(AttributeError, match="NoneType") as caught:
        way.invoke(graph, {"log": []})
    assert any("context_schema=Who" in note and "context=Who(...)" in note for note in caught.value.__notes__)
    assert way.invoke(graph, {"log": []}, context=Who("me")) == {"log": ["me"]}


def test_P50_other_mistakes_are_not_blamed_on_the_context(way: Way):
    def a(state: Log) -> Any:
        raise AttributeError("'NoneType' object has no attribute 'x'")

    def b(state: Log, runtime: Runtime[Who]) -> Any:
        raise AttributeError("no name")

    plain = StateGraph(Log).add_node("a", way.node(a)).add_edge(START, "a").compile()
    other = StateGraph(Log, context_schema=Who).add_node("b", way.node(b)).add_edge(START, "b").compile()
    given = StateGraph(Log, context_schema=Who).add_node("a", way.node(a)).add_edge(START, "a").compile()
    for graph, options in ((plain, {}), (other, {}), (given, {"context": Who("me")})):
        with pytest.raises(AttributeError) as caught:
            way.invoke(graph, {"log": []}, **options)
        assert not any("context_schema" in note for note in caught.value.__notes__)


# -------------------------------------------------------------------------------------------------------- what an error names


@pytest.mark.parametrize("name", ["invoke", "ainvoke", "stream", "get_state", "get_graph", "with_config"])
def test_P50_a_builder_says_that_it_must_be_compiled_first(name: str):
    with pytest.raises(
        AttributeError, match=rf"'StateGraph' object has no attribute '{name}': compile it first.*graph\.{name}"
    ):
        getattr(StateGraph(Log), name)


def test_P50_other_attributes_of_a_builder_are_just_missing():
    with pytest.raises(AttributeError, match=r"has no attribute 'invok'$"):
        _ = StateGraph(Log).invok
    assert not hasattr(StateGraph(Log), "__len__")


def test_P50_a_step_timeout_names_its_seconds_and_the_nodes(way: Way):
    async def slow(state: Log) -> Any:
        import asyncio

        await asyncio.sleep(30)

    builder = one(way).add_node("slow", slow).add_edge(START, "slow")
    with pytest.raises(StepTimeoutError, match=r"0\.05 s, and node 'slow' had not ended") as caught:
        way.invoke(builder.compile(step_timeout=0.05), {"log": []})
    assert (caught.value.step_timeout, caught.value.running) == (0.05, ("slow",))


class Plain(TypedDict):
    n: int
    log: Annotated[list[str], operator.add]


def test_P50_two_writes_of_one_key_name_the_nodes(saver: Saver, way: Way):
    builder = StateGraph(Plain).add_node("x", way.node(lambda state: {"n": 1})).add_node("y", way.node(lambda state: {"n": 2}))
    graph = builder.add_edge(START, "x").add_edge(START, "y").compile(checkpointer=saver)
    with pytest.raises(InvalidUpdateError, match=r"At key 'n'.*written by node 'x', 'y'$") as caught:
        way.invoke(graph, {"n": 0}, on())
    assert (caught.value.key, caught.value.node, caught.value.code) == ("n", "x", "INVALID_CONCURRENT_GRAPH_UPDATE")


def test_P50_many_runs_of_one_node_that_write_a_key_are_counted(way: Way):
    builder = StateGraph(Plain).add_node("w", way.node(lambda given: {"n": given}))
    builder.add_conditional_edges(START, lambda state: [Send("w", n) for n in range(3)])
    with pytest.raises(InvalidUpdateError, match=r"written by node 'w' \(3 times\)$"):
        way.invoke(builder.compile(), {"n": 0})


def test_P13_a_dict_whose_keys_are_no_ids_says_what_was_tried(saver: Saver, way: Way):
    def ask(state: Log) -> Any:
        return {"log": [interrupt("?")]}

    builder = StateGraph(Log).add_node("a", way.node(ask)).add_node("b", way.node(ask))
    graph = builder.add_edge(START, "a").add_edge(START, "b").compile(checkpointer=saver)
    way.invoke(graph, {"log": []}, on())
    before = rows_of(saver)
    first, second = (question.id for question in way.state(graph, on()).interrupts)
    for answers, wrong in (({"abc": 1}, ["abc"]), ({first: 1, "b": 2}, ["b"]), ({7: 1}, ["7"])):
        with pytest.raises(AmbiguousAnswer, match=r"key '.+', which is the id of none.*one bare answer") as caught:
            way.invoke(graph, Command(resume=answers), on())
        assert caught.value.interrupt_ids == tuple(wrong)
        assert set(caught.value.pending_ids) == {first, second}
    for bare in ("yes", {}):
        with pytest.raises(AmbiguousAnswer) as caught:
            way.invoke(graph, Command(resume=bare), on())
        assert "The dict" not in str(caught.value)
    assert rows_of(saver) == before, "nothing was stored"
