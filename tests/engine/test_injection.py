"""What a node can reach: config, runtime, writer, store, previous, and the functions that find them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError
from typing_extensions import TypedDict

from perdure import START, StateGraph
from perdure.checkpoint.saver import Saver
from perdure.config import get_config, get_store, get_stream_writer
from perdure.errors import InvalidConfig, MissingThreadId
from perdure.runtime import Runtime, get_runtime
from perdure.types import RunnableConfig, StreamWriter
from tests.engine.colours import Colour, Log, thread


def one(colour: Colour, node: Any, **given: Any) -> StateGraph[Any, Any, Any, Any]:
    return StateGraph(Log, **given).add_node("a", colour.node(node)).add_edge(START, "a")


def test_a_config_is_recognised_by_annotation_and_by_name(colour: Colour) -> None:
    got: list[Any] = []

    def annotated(state: Log, cfg: RunnableConfig) -> None:
        got.append(cfg["configurable"]["user"])

    def named(state: Log, config) -> None:  # noqa: ANN001 - it is the name that counts
        got.append(config["configurable"]["user"])

    for node in (annotated, named):
        colour.invoke(one(colour, node).compile(), {"log": []}, {"configurable": {"user": "u"}})
    assert got == ["u", "u"]


def test_the_config_of_a_node_says_where_it_is(colour: Colour, kept: Saver) -> None:
    seen: list[RunnableConfig] = []

    def node(state: Log, config: RunnableConfig) -> None:
        seen.append(config)

    graph = one(colour, node).compile(kept)
    colour.invoke(graph, {"log": []}, {**thread(), "metadata": {"mine": 1}, "tags": ["t"], "run_name": "outer"})
    (config,) = seen
    metadata = config["metadata"]
    assert metadata["langgraph_node"] == "a"
    assert metadata["langgraph_step"] == 1
    assert metadata["langgraph_triggers"] == ("branch:to:a",)
    assert metadata["langgraph_path"] == ("__pregel_pull", "a")
    assert metadata["langgraph_checkpoint_ns"].startswith("a:")
    assert metadata["mine"] == 1
    assert config["configurable"]["checkpoint_ns"] == "", "P51: the graph's own"
    assert config["configurable"]["thread_id"] == "t"
    assert config["tags"] == ["t"]


def test_tags_metadata_callbacks_and_names_are_carried_through_untouched(colour: Colour, saver: Any) -> None:
    seen: list[Any] = []
    callbacks = [object()]
    deep = {"list": [1, {"a": 2}]}

    def node(state: Log, config: RunnableConfig) -> None:
        seen.append((config["callbacks"], config["tags"], config["metadata"]["deep"], config["configurable"]["deep"]))

    given: Any = {"callbacks": callbacks, "tags": ["x", "y"], "metadata": {"deep": deep}, "run_name": "r"}
    given["configurable"] = {"thread_id": "t", "deep": deep}
    before = repr(given)
    colour.invoke(one(colour, node).compile(saver), {"log": []}, given)
    assert seen == [(callbacks, ["x", "y"], deep, deep)]
    assert seen[0][0] is callbacks
    assert repr(given) == before, "the caller's config is not changed"


def test_a_node_cannot_change_the_config_of_others(colour: Colour) -> None:
    seen: list[Any] = []

    def node(state: Log, config: RunnableConfig) -> None:
        seen.append((dict(config["metadata"]).get("spoilt"), config["configurable"].get("spoilt")))
        config["metadata"]["spoilt"] = config["configurable"]["spoilt"] = True

    graph = one(colour, node).add_node("b", colour.node(node)).add_edge("a", "b").compile()
    colour.invoke(graph, {"log": []})
    assert seen == [(None, None), (None, None)]


@dataclass
class Context:
    user: str
    limit: int = 5


class Model(BaseModel):
    user: str
    limit: int = 5


class Dict(TypedDict, total=False):
    user: str


@pytest.mark.parametrize(
    ("schema", "given", "expected"),
    [
        (Context, {"user": "u"}, Context("u")),
        (Context, Context("u", 7), Context("u", 7)),
        (Model, {"user": "u", "limit": "3"}, Model(user="u", limit=3)),
        (Dict, {"user": "u"}, {"user": "u"}),
        (None, {"user": "u"}, {"user": "u"}),
        (None, "anything", "anything"),
        (Context, None, None),
    ],
    ids=["dataclass", "object", "pydantic", "typed dict", "no schema", "no schema, no dict", "none"],
)
def test_a_context_is_made_an_object_of_its_schema(colour: Colour, schema: Any, given: Any, expected: Any) -> None:
    seen: list[Any] = []

    def node(state: Log, runtime: Runtime[Any]) -> None:
        seen.append(runtime.context)

    colour.invoke(one(colour, node, context_schema=schema).compile(), {"log": []}, context=given)
    assert seen == [expected]
    assert type(seen[0]) is type(expected)


def test_a_context_that_does_not_fit_fails_before_anything_runs(colour: Colour, kept: Saver) -> None:
    graph = one(colour, lambda _: None, context_schema=Model).compile(kept)
    with pytest.raises(ValidationError):
        colour.invoke(graph, {"log": []}, thread(), context={"limit": "many"})
    graph = one(colour, lambda _: None, context_schema=Context).compile(kept)
    with pytest.raises(TypeError):
        colour.invoke(graph, {"log": []}, thread(), context={"nobody": 1})
    assert colour.state(graph, thread()).values == {}


def test_a_runtime_says_where_it_is(colour: Colour, kept: Saver) -> None:
    seen: list[Any] = []

    def node(state: Log, runtime: Runtime[Any]) -> None:
        seen.append((runtime.execution_info, runtime.idempotency_key))

    graph = one(colour, node).compile(kept)
    colour.invoke(graph, {"log": []}, {**thread(), "run_id": "my run"})
    ((info, key),) = seen
    base = colour.history(graph, thread())[1]
    assert info.thread_id == "t"
    assert info.run_id == "my run"
    assert info.checkpoint_id == base.config["configurable"]["checkpoint_id"]
    assert info.task_id == base.tasks[0].id == key
    assert info.checkpoint_ns == f"a:{info.task_id}"
    assert (info.node_attempt, type(info.node_first_attempt_time)) == (1, float)
    assert info.node_first_attempt_time > 0


def test_a_writer_is_recognised_by_its_name_however_it_is_annotated(colour: Colour) -> None:
    def annotated(state: Log, writer: StreamWriter) -> None:
        writer("annotated")

    def callable_(state: Log, writer: Callable[[Any], None]) -> None:
        writer("callable")

    def named(state: Log, writer) -> None:  # noqa: ANN001 - it is the name that counts
        writer("named")

    got = [
        colour.stream(one(colour, node).compile(), {"log": []}, stream_mode="custom") for node in (annotated, callable_, named)
    ]
    assert got == [["annotated"], ["callable"], ["named"]]


def test_a_writer_without_a_listener_does_nothing(colour: Colour) -> None:
    def node(state: Log, writer: StreamWriter, runtime: Runtime[Any]) -> dict[str, Any]:
        writer(1)
        runtime.stream_writer(2)
        get_stream_writer()(3)
        runtime.heartbeat()
        return {"log": ["ok"]}

    assert colour.invoke(one(colour, node).compile(), {"log": []}) == {"log": ["ok"]}
    assert colour.stream(one(colour, node).compile(), {"log": []}, stream_mode="updates") == [{"a": {"log": ["ok"]}}]


def test_the_store_is_what_the_graph_was_compiled_with(colour: Colour) -> None:
    store = object()
    seen: list[Any] = []

    def node(state: Log, store, runtime: Runtime[Any]) -> None:  # noqa: ANN001 - it is the name that counts
        seen.extend([store, runtime.store, get_store()])

    colour.invoke(one(colour, node).compile(store=store), {"log": []})
    assert seen == [store] * 3
    seen.clear()
    colour.invoke(one(colour, node).compile(), {"log": []})
    assert seen == [None] * 3


def test_the_functions_find_what_the_parameters_would_get(colour: Colour) -> None:
    seen: list[Any] = []

    def deep() -> None:
        seen.append(get_config()["configurable"]["user"])
        seen.append(get_runtime().context)
        get_stream_writer()("sent")

    def node(state: Log, config: RunnableConfig, runtime: Runtime[Any]) -> None:
        assert get_config() is config
        assert get_runtime() is runtime
        deep()

    events = colour.stream(
        one(colour, node).compile(), {"log": []}, {"configurable": {"user": "u"}}, stream_mode="custom", context="c"
    )
    assert (seen, events) == (["u", "c"], ["sent"])


@pytest.mark.parametrize("function", [get_config, get_store, get_stream_writer, get_runtime], ids=lambda f: f.__name__)
def test_outside_of_a_graph_there_is_nothing_to_find(function: Any) -> None:
    with pytest.raises(RuntimeError, match="outside of a running graph"):
        function()


def test_the_functions_also_work_in_path_functions_and_in_tasks_of_a_node(colour: Colour) -> None:
    seen: list[Any] = []

    def path(_: Log) -> str:
        seen.append(get_config()["metadata"]["langgraph_node"])
        return "__end__"

    async def node(_: Log) -> None:
        async def helper() -> None:
            await asyncio.sleep(0)
            seen.append(get_config()["configurable"]["user"])

        await asyncio.gather(helper(), asyncio.to_thread(lambda: seen.append(get_config()["configurable"]["user"])))

    graph = one(colour, node).add_conditional_edges("a", colour.node(path)).compile()
    colour.invoke(graph, {"log": []}, {"configurable": {"user": "u"}})
    assert seen == ["u", "u", "a"]


def test_previous_is_none_in_a_state_graph(colour: Colour) -> None:
    seen: list[Any] = []

    def node(state: Log, previous) -> None:  # noqa: ANN001 - it is the name that counts
        seen.append(previous)

    colour.invoke(one(colour, node).compile(), {"log": []})
    assert seen == [None]


# -- configs of calls -----------------------------------------------------------------------------------------------------


def test_P50_an_unknown_config_key_is_an_error_with_a_suggestion(colour: Colour, saver: Any) -> None:
    graph = one(colour, lambda _: None).compile(saver)
    with pytest.raises(InvalidConfig, match=r"'recursionlimit'.*did you mean 'recursion_limit'"):
        colour.invoke(graph, {"log": []}, {**thread(), "recursionlimit": 3})


def test_P50_all_of_configurable_and_metadata_is_free(colour: Colour, saver: Any) -> None:
    graph = one(colour, lambda _: {"log": ["ok"]}).compile(saver)
    config: Any = {"configurable": {"thread_id": "t", "anything": object()}, "metadata": {"whatever": object()}}
    assert colour.invoke(graph, {"log": []}, config) == {"log": ["ok"]}


def test_P3_a_missing_thread_id_is_a_taught_error(colour: Colour, kept: Saver) -> None:
    graph = one(colour, lambda _: None).compile(kept)
    configs: list[Any] = [None, {}, {"configurable": {}}, {"configurable": {"thread_id": None}}]
    for config in configs:
        with pytest.raises(MissingThreadId, match="thread_id"):
            colour.invoke(graph, {"log": []}, config)


def test_a_bound_config_is_merged_into_that_of_each_call(colour: Colour) -> None:
    seen: list[Any] = []

    def node(state: Log, config: RunnableConfig) -> None:
        seen.append((config["tags"], config["metadata"]["a"], config["metadata"].get("b"), config["configurable"]["x"]))

    graph = one(colour, node).compile()
    bound = graph.with_config({"tags": ["t"], "metadata": {"a": 1}}, configurable={"x": 1})
    again = bound.with_config(tags=["u"], metadata={"b": 2})
    colour.invoke(bound, {"log": []})
    colour.invoke(again, {"log": []}, {"tags": ["v", "t"], "configurable": {"x": 2}})
    assert seen == [(["t"], 1, None, 1), (["t", "u", "v"], 1, 2, 2)]
    assert graph.bound_config == {}
    with pytest.raises(InvalidConfig):
        graph.with_config(thread="t")


def test_a_bound_thread_serves_calls_reads_and_edits(colour: Colour, kept: Saver) -> None:
    graph = one(colour, lambda _: {"log": ["a"]}).compile(kept).with_config(thread())
    colour.invoke(graph, {"log": []})
    assert colour.state(graph, {}).values == {"log": ["a"]}
    graph.update_state({}, {"log": ["edit"]})
    assert len(colour.history(graph, {})) == 4
