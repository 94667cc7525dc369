"""What a builder compiles to."""

# mypy: disable-error-code="empty-body"
from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Any, Literal

from pydantic import BaseModel
from typing_extensions import TypedDict

from perdure.cache import InMemoryCache
from perdure.engine.program import Join, Program
from perdure.graph import END, START, StateGraph
from perdure.managed import RemainingSteps
from perdure.types import CachePolicy, RetryPolicy, TimeoutPolicy


class State(TypedDict):
    x: Annotated[list[int], operator.add]
    y: int
    left: RemainingSteps


class Small(TypedDict):
    y: int


class New(TypedDict):
    new: int


def nothing(state: State) -> dict[str, Any]:
    return {}


async def later(state: State) -> dict[str, Any]:
    return {}


def new(*names: str, state: Any = State, **given: Any) -> StateGraph[Any, Any, Any, Any]:
    graph = StateGraph(state, **given)
    for name in names:
        graph.add_node(name, later)
    return graph


def test_edges_keep_the_order_they_were_added_in() -> None:
    graph = (
        new("z", "a", "m").add_edge(START, "z").add_edge("z", "m").add_edge("z", "a").add_edge("z", END).add_edge(START, "a")
    )
    program = graph.compile().program
    assert program.start.edges == ("z", "a")
    assert program.nodes["z"].edges == ("m", "a")
    assert program.nodes["a"].edges == ()
    assert program.order == {"z": 0, "a": 1, "m": 2}
    assert program.start.hidden
    assert not program.start.call.takes_state
    assert program.start.call.fn() is None


def test_edges_that_were_put_into_the_set_by_hand_still_have_an_order() -> None:
    graph = new("c", "b", "a").add_edge(START, "c")
    graph.edges |= {("c", "b"), ("c", "a")}
    assert graph.compile().program.nodes["c"].edges == ("a", "b")


def test_joins() -> None:
    graph = new("b", "a").add_node("c", nothing, defer=True).add_edge(START, "a")
    graph.add_edge(["b", "a", "b"], "c").add_edge(["a"], "b").add_edge(("a", "b"), END).add_edge({"b", "a"}, "a")  # type: ignore[arg-type]
    program = graph.compile().program
    assert program.joins == {
        "join:b+a:c": Join("join:b+a:c", frozenset({"a", "b"}), "c", deferred=True),
        "join:a:b": Join("join:a:b", frozenset({"a"}), "b"),
        "join:a+b:a": Join("join:a+b:a", frozenset({"a", "b"}), "a"),
    }
    assert program.nodes["a"].joins == ("join:b+a:c", "join:a:b", "join:a+b:a")
    assert program.nodes["b"].joins == ("join:b+a:c", "join:a+b:a")
    assert program.nodes["c"].joins == ()
    assert program.nodes["c"].defer


def test_branches() -> None:
    def free(state: State) -> str: ...
    def promised(state: State) -> Literal["a"]: ...
    async def own(state: Small, config: Any) -> str: ...

    graph = new("a", "b")
    graph.add_conditional_edges(START, free).add_conditional_edges("a", promised).add_conditional_edges(
        "a", own, {True: "b", 1.5: END}
    )
    graph.add_conditional_edges("b", lambda s: "a", ["a", END])
    program = graph.compile().program
    (entry,) = program.start.branches
    assert (entry.name, entry.ends, entry.view) == ("free", None, None)
    first, second = program.nodes["a"].branches
    assert (first.name, first.ends, first.view) == ("promised", None, None)
    assert second.ends == {True: "b", 1.5: "__end__"}
    assert second.call.is_async
    assert second.call.inject == (("config", "config"),)
    assert second.view is not None
    assert second.view.keys == ("y",)
    assert program.nodes["b"].branches[0].name == "condition"
    assert program.nodes["b"].branches[0].ends == {"a": "a", "__end__": "__end__"}


def test_a_path_sees_what_it_is_annotated_with_or_what_its_node_sees() -> None:
    class Private(TypedDict):
        note: str

    class Model(BaseModel):
        y: int

    def private(state: Private) -> dict[str, Any]: ...
    def model(state: Model) -> dict[str, Any]: ...
    def same(state: Private) -> str: ...
    def whole(state: State) -> str: ...
    def free(state): ...  # noqa: ANN001

    graph = new("a").add_node(private).add_node(model).add_edge(START, "a")
    for path in (same, whole, free):
        graph.add_conditional_edges("private", path)
    graph.add_conditional_edges("model", free).add_conditional_edges("a", whole).add_conditional_edges("a", free)
    nodes = graph.compile().program.nodes
    views = [branch.view for branch in nodes["private"].branches]
    assert views[0] is not None
    assert views[0].keys == ("note",)
    assert views[1] is None
    assert views[2] is not None
    assert (views[2].keys, views[2].managed, views[2].whole) == (("x", "y", "note"), ("left",), True)
    of_model = nodes["model"].branches[0].view
    assert of_model is not None
    assert of_model.keys == ("y",)
    assert of_model.make is not None
    assert [branch.view for branch in nodes["a"].branches] == [None, None]


def test_keys_of_input_output_and_private_schemas() -> None:
    class Input(TypedDict):
        y: int
        given: str

    class Private(TypedDict):
        note: str

    def private(state: Private) -> dict[str, Any]: ...

    graph = new("a", input_schema=Input, output_schema=Small).add_node(private).add_edge(START, "a")
    program = graph.compile().program
    assert list(program.channels) == ["x", "y", "given", "note"]
    assert program.input_keys == ("y", "given")
    assert program.output_keys == ("y",)
    assert program.stream_keys == ("x", "y", "given", "note")
    assert list(program.managed) == ["left"]
    view = program.nodes["a"].view
    assert (view.keys, view.managed, view.whole, view.root, view.make) == (("x", "y"), ("left",), False, False, None)
    assert program.nodes["private"].view.keys == ("note",)
    assert not program.nodes["private"].view.whole


def test_a_view_of_all_keys_is_whole() -> None:
    program = new("a").add_node("b", lambda s: {}, input_schema=Small).add_edge(START, "a").compile().program
    assert program.nodes["a"].view.whole
    assert not program.nodes["b"].view.whole
    assert program.start.view.whole


def test_a_state_without_keys() -> None:
    program = StateGraph(Annotated[int, operator.add]).add_node("a", lambda n: n + 1).add_edge(START, "a").compile().program
    assert program.root
    assert program.input_keys == program.output_keys == program.stream_keys == ("__root__",)
    view = program.nodes["a"].view
    assert (view.keys, view.whole, view.root, view.make) == (("__root__",), True, True, None)
    assert program.pairs_of(3) is None


def test_a_keyless_state_of_a_structured_type_is_one_value() -> None:
    @dataclass
    class Data:
        n: int

    program = StateGraph(list[Data]).add_node("a", lambda n: n).add_edge(START, "a").compile().program
    assert program.root
    assert program.pairs_of(Data(1)) is None
    assert program.types == (Data,)


def test_policies_and_defaults() -> None:
    slow, quick = RetryPolicy(max_attempts=9), RetryPolicy(max_attempts=2)
    cache = CachePolicy(ttl=3)
    graph = new("a", "b", "c").add_edge(START, "a")
    graph.add_node("own", later, retry_policy=[quick, slow], cache_policy=CachePolicy(), timeout=timedelta(seconds=2))
    graph.add_node("never", later, retry_policy=[])
    graph.set_node_defaults(retry_policy=slow, cache_policy=cache).set_node_defaults(timeout=TimeoutPolicy(idle_timeout=1))
    nodes = graph.compile(step_timeout=timedelta(seconds=5)).program.nodes
    assert nodes["a"].retry == (slow,)
    assert nodes["a"].cache is cache
    assert nodes["a"].timeout == TimeoutPolicy(idle_timeout=1)
    assert nodes["own"].retry == (quick, slow)
    assert nodes["own"].cache == CachePolicy()
    assert nodes["own"].timeout == TimeoutPolicy(run_timeout=2)
    assert nodes["never"].retry == ()
    assert graph.compile(step_timeout=timedelta(seconds=5)).program.step_timeout == 5


def test_plain_nodes() -> None:
    graph = (
        StateGraph(State)
        .add_node("plain", nothing)
        .add_node("later", later)
        .add_node("again", nothing, retry_policy=RetryPolicy())
    )
    nodes = graph.add_edge(START, "plain").compile().program.nodes
    assert {name for name, node in nodes.items() if node.plain} == {"plain"}


class NodeError(Exception):
    """Stands for the engine's class of this name."""


def test_error_handlers() -> None:
    def own(state: State, error: NodeError) -> dict[str, Any]: ...
    async def general(state: Small, what: NodeError) -> dict[str, Any]: ...

    graph = new("a", "b").add_node("c", later, error_handler=own).add_edge(START, "a").add_edge("c", "a")
    graph.set_node_defaults(error_handler=general, retry_policy=RetryPolicy(), cache_policy=CachePolicy(), timeout=3)
    nodes = graph.compile().program.nodes
    assert list(nodes) == ["a", "b", "c", "__error_handler__c", "__default_error_handler__"]
    assert {name: node.handler for name, node in nodes.items()} == {
        "a": "__default_error_handler__",
        "b": "__default_error_handler__",
        "c": "__error_handler__c",
        "__error_handler__c": None,
        "__default_error_handler__": None,
    }
    handler, default = nodes["__error_handler__c"], nodes["__default_error_handler__"]
    assert handler.is_handler
    assert default.is_handler
    assert not nodes["c"].is_handler
    assert handler.call.inject == (("error", "error"),)
    assert default.call.inject == (("what", "error"),)
    assert handler.retry == default.retry == (RetryPolicy(),)
    assert handler.cache is None
    assert handler.edges == ()
    # The default timeout is for async code; a sync handler is not refused for it.
    assert handler.timeout is None
    assert default.timeout == TimeoutPolicy(run_timeout=3)


def test_a_default_handler_that_no_node_needs_is_left_out() -> None:
    graph = (
        StateGraph(State)
        .add_node("a", nothing, error_handler=nothing)
        .set_node_defaults(error_handler=nothing)
        .add_edge(START, "a")
    )
    assert list(graph.compile().program.nodes) == ["a", "__error_handler__a"]


def test_subgraphs_see_the_keys_they_take() -> None:
    class Child(TypedDict):
        y: int
        own: str

    child = StateGraph(Child).add_node("c", lambda s: {}).add_edge(START, "c").compile()
    keyless = StateGraph(int).add_node("c", lambda s: s).add_edge(START, "c").compile()
    graph = StateGraph(State).add_node("p", child).add_node("k", keyless).add_node("s", child, input_schema=State)
    nodes = graph.add_edge(START, "p").compile().program.nodes
    assert nodes["p"].call.subgraph is child
    assert not nodes["p"].plain
    assert nodes["p"].view.keys == ("y",)
    assert nodes["p"].view.managed == ()
    assert nodes["k"].view.keys == ("x", "y")
    assert nodes["s"].view.keys == ("x", "y")
    outer = StateGraph(int).add_node("k", keyless).add_edge(START, "k").compile().program
    assert outer.nodes["k"].view.root


def test_a_functional_graph_in_a_node_gets_all_keys() -> None:
    child = StateGraph(Small).add_node("c", lambda s: {}).add_edge(START, "c").compile()
    child.program.single_output = "__end__"
    graph = StateGraph(State).add_node("p", child).add_edge(START, "p")
    assert graph.compile().program.nodes["p"].view.keys == ("x", "y")


def test_a_subgraph_is_not_given_the_parents_object() -> None:
    class Model(BaseModel):
        y: int

    child = StateGraph(Model).add_node("c", lambda s: {}).add_edge(START, "c").compile()
    program = StateGraph(Model).add_node("p", child).add_node("n", lambda s: {}).add_edge(START, "p").compile().program
    assert program.nodes["p"].view.make is None
    assert program.nodes["n"].view.make is not None


def test_what_compile_is_given() -> None:
    saver, store, cache = True, object(), InMemoryCache[Any]()
    graph = new("a").add_edge(START, "a")
    compiled = graph.compile(
        saver,
        store=store,
        cache=cache,
        debug=True,
        name="mine",
        interrupt_before="*",
        interrupt_after=["a"],
        unknown_keys="ignore",
    )
    assert compiled.builder is graph
    assert (compiled.checkpointer, compiled.store, compiled.cache, compiled.debug) == (saver, store, cache, True)
    assert compiled.name == compiled.program.name == "mine"
    assert compiled.program.interrupt_before == "*"
    assert compiled.program.interrupt_after == ("a",)
    assert compiled.program.unknown_keys == "ignore"


def test_a_program_stays_as_it_was_compiled() -> None:
    metadata = {"k": "v"}
    path_map = {"go": "a"}
    graph = StateGraph(State).add_node("a", nothing, metadata=metadata).add_edge(START, "a")
    graph.add_conditional_edges("a", lambda s: "go", path_map)
    program = graph.compile().program
    before = describe(program)
    metadata["k"] = "changed"
    path_map["stop"] = END
    graph.add_node("b", nothing, input_schema=New)
    graph.add_edge("a", "b").set_node_defaults(retry_policy=RetryPolicy())
    assert describe(program) == before
    assert list(graph.compile().program.channels) == ["x", "y", "new"]


def describe(program: Program) -> Any:
    node = program.nodes["a"]
    return (
        list(program.channels),
        list(program.nodes),
        node.edges,
        node.retry,
        node.metadata,
        node.branches[0].ends,
        node.view.whole,
    )


def test_the_context_schema_is_carried() -> None:
    @dataclass
    class Context:
        user: str

    def node(state: State, runtime: Any) -> None: ...

    graph: Callable[..., Any] = StateGraph
    assert graph(State, Context).add_node(node).add_edge(START, "node").compile().program.context_schema is Context
