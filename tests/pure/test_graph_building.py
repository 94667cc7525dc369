"""Adding nodes and edges, and what is refused."""

# mypy: disable-error-code="empty-body"
from __future__ import annotations

import enum
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel
from typing_extensions import TypedDict

from perdure.errors import InvalidGraph, UnknownNode
from perdure.graph import END, START, StateGraph
from perdure.types import Command, RetryPolicy


class State(TypedDict):
    x: Annotated[list[int], operator.add]
    y: int


def nothing(state: State) -> dict[str, Any]:
    return {}


def new(*names: str) -> StateGraph[Any, Any, Any, Any]:
    graph = StateGraph(State)
    for name in names:
        graph.add_node(name, nothing)
    return graph


def test_methods_chain_and_attributes_tell() -> None:
    graph = (
        new("a", "b")
        .add_edge(START, "a")
        .add_edge(["a", "b"], END)
        .add_conditional_edges("a", lambda s: "b", ["b"])
        .set_node_defaults(retry_policy=RetryPolicy())
        .set_finish_point("b")
        .set_entry_point("b")
        .validate()
    )
    assert graph.edges == {(START, "a"), (START, "b"), ("b", END)}
    assert graph.waiting_edges == {(("a", "b"), END)}
    assert list(graph.branches["a"]) == ["condition"]
    assert not graph.compiled
    graph.compile()
    assert graph.compiled
    assert list(graph.add_node("c", nothing).nodes) == ["a", "b", "c"]


class Callee:
    def __call__(self, state: State) -> dict[str, Any]:
        return {}

    def method(self, state: State) -> dict[str, Any]:
        return {}


@dataclass
class Built:
    state: Any


def test_names_by_default() -> None:
    graph = StateGraph(State)
    actions: list[Any] = [nothing, lambda s: {}, Callee(), Callee().method, Built]
    for action in actions:
        graph.add_node(action)
    assert list(graph.nodes) == ["nothing", "<lambda>", "Callee", "method", "Built"]


def test_sequences() -> None:
    graph = StateGraph(State).add_sequence([nothing, ("b", nothing), ("c", lambda s: {})])
    assert graph.ordered_edges() == [("nothing", "b"), ("b", "c")]
    with pytest.raises(ValueError, match="Sequence requires at least one node"):
        StateGraph(State).add_sequence([])
    with pytest.raises(ValueError, match="Node `nothing` already present"):
        StateGraph(State).add_sequence([nothing, nothing])


def test_enum_names_become_text() -> None:
    class Step(str, enum.Enum):  # noqa: UP042 - StrEnum prints itself as its value; this does not
        ONE = "one"

    graph = (
        StateGraph(State)
        .add_node(Step.ONE, nothing)
        .add_edge(START, Step.ONE)
        .add_conditional_edges(Step.ONE, len, {1: Step.ONE})
    )
    program = graph.compile().program
    assert [type(name) for name in program.nodes] == [str]
    assert program.start.edges == ("one",)
    assert type(program.start.edges[0]) is str
    assert [type(end) for end in (program.nodes["one"].branches[0].ends or {}).values()] == [str]


@pytest.mark.parametrize(
    ("mistake", "start", "advice"),
    [
        (lambda g: g.add_node("a", nothing), "Node `a` already present.", "another name"),
        (lambda g: g.add_node(START, nothing), "Node `__start__` is reserved.", "START and END exist"),
        (lambda g: g.add_node(END, nothing), "Node `__end__` is reserved.", "START and END exist"),
        (lambda g: g.add_node("x|y", nothing), "'|' is a reserved character and is not allowed in the node names.", "'x_y'"),
        (lambda g: g.add_node("x:y", nothing), "':' is a reserved character and is not allowed in the node names.", "'x_y'"),
        (lambda g: g.add_node("__input__", nothing), "Node name '__input__' is reserved", "Choose another"),
        (lambda g: g.add_node("__error_handler__a", nothing), "Node name '__error_handler__a' is reserved", "Choose another"),
        (lambda g: g.add_node("", nothing), "A node's name must be non-empty text", "''"),
        (lambda g: g.add_node("q"), "add_node('q') has a name but nothing to run", "add_node('q', function)"),
        (lambda g: g.add_node(nothing, "q"), "add_node takes the name first", "add_node('name'"),
        (lambda g: g.add_node("q", 3), "Expected a function", "node 'q', got int"),
        (lambda g: g.add_node("q", StateGraph(State)), "Expected a function", "graph.compile()"),
        (lambda g: g.add_node("q", nothing, retry_policy=3), "retry_policy must be a RetryPolicy", "got 3"),
        (lambda g: g.add_node("q", nothing, retry_policy=[RetryPolicy(), 3]), "retry_policy must be a RetryPolicy", "got 3"),
        (
            lambda g: g.add_node("q", nothing, retry_policy=RetryPolicy(max_attempts=0)),
            "max_attempts of a RetryPolicy is a number from 1 on",
            "got 0",
        ),
        (
            lambda g: g.add_node("q", nothing, retry_policy=RetryPolicy(initial_interval=float("nan"))),
            "initial_interval of a RetryPolicy is a number from 0 on",
            "got nan",
        ),
        (
            lambda g: g.add_node("q", nothing, retry_policy=RetryPolicy(retry_on="OSError")),
            "retry_on of a Retry",
            "got 'OSError'",
        ),
        (
            lambda g: g.add_node("q", nothing, retry_policy=RetryPolicy(retry_on=[OSError, int])),  # type: ignore[list-item]
            "retry_on of a Retry",
            "<class 'int'>",
        ),
        (
            lambda g: g.add_node("q", nothing, cache_policy=60),
            "cache_policy must be a CachePolicy, such as CachePolicy",
            "got 60",
        ),
        (lambda g: g.set_node_defaults(cache_policy=60), "cache_policy must be a CachePolicy, such as CachePolicy", "got 60"),
        (lambda g: g.add_node("q", nothing, destinations="a"), "destinations of node 'q' must be a tuple", "labels"),
        (lambda g: g.add_edge(END, "a"), "END cannot be a start node", "nothing comes after it"),
        (lambda g: g.add_edge("a", START), "START cannot be an end node", "the input"),
        (lambda g: g.add_edge(nothing, "a"), "An edge leads from a node's name", "'nothing'"),
        (lambda g: g.add_edge("a", None), "An edge leads from a node's name", "None"),
        (lambda g: g.add_edge(["a", "q"], "b"), "Need to add_node `q` first", "names only nodes that exist"),
        (lambda g: g.add_edge(["a"], "q"), "Need to add_node `q` first", "names only nodes that exist"),
        (lambda g: g.add_edge([START], "a"), "Need to add_node `__start__` first", "add_edge(START, ...)"),
        (lambda g: g.add_edge([END], "a"), "END cannot be a start node", ""),
        (lambda g: g.add_edge([], "a"), "An edge from several nodes needs at least one", ""),
        (lambda g: g.add_conditional_edges(END, len), "END cannot be a start node", ""),
        (lambda g: g.add_conditional_edges("a", "b"), "Expected a function", "conditional edge 'str' of 'a'"),
        (lambda g: g.add_conditional_edges("a", len, "b"), "The path_map of conditional edge 'len' of 'a' must be", "'b'"),
        (lambda g: g.add_conditional_edges("a", len, {1: nothing}), "At 'a' node, 'len' branch maps 1 to", "no node name"),
        (
            lambda g: g.add_conditional_edges("a", len, {1: "a"}).add_conditional_edges("a", len),
            "Branch with name `len` already exists for node `a`",
            "name of its own",
        ),
    ],
)
def test_mistakes_refused_at_once(mistake: Callable[[Any], Any], start: str, advice: str) -> None:
    with pytest.raises((InvalidGraph, TypeError)) as caught:
        mistake(new("a", "b"))
    assert str(caught.value).startswith(start)
    assert advice in str(caught.value)


@pytest.mark.parametrize(
    ("mistake", "start", "advice"),
    [
        (
            lambda g: g,
            "Graph must have an entrypoint: add at least one edge from START to another node",
            "add_edge(START, 'alpha')",
        ),
        (lambda g: g.add_edge(["alpha"], "beta"), "Graph must have an entrypoint", ""),
        (
            lambda g: g.add_edge(START, "alpha").add_edge("alpa", "beta"),
            "Found edge starting at unknown node 'alpa'",
            "Did you mean 'alpha'?",
        ),
        (lambda g: g.add_edge(START, "zz"), "Found edge ending at unknown node `zz`", "The nodes are 'alpha', 'beta'."),
        (
            lambda g: g.add_edge(START, "alpha").add_conditional_edges("q", len),
            "Found edge starting at unknown node 'q'",
            "add_node('q', ...)",
        ),
        (
            lambda g: g.add_conditional_edges(START, lambda s: "x", {"y": "bet"}),
            "At '__start__' node, 'condition' branch found unknown target 'bet'",
            "Did you mean 'beta'?",
        ),
        (
            lambda g: g.add_conditional_edges(START, promised),
            "At '__start__' node, 'promised' branch found unknown target 'gamma'",
            "return",
        ),
    ],
)
def test_mistakes_refused_at_compile(mistake: Callable[[Any], Any], start: str, advice: str) -> None:
    graph = mistake(new("alpha", "beta"))
    for check in (graph.compile, graph.validate):
        with pytest.raises(InvalidGraph) as caught:
            check()
        assert str(caught.value).startswith(start)
        assert advice in str(caught.value)


def promised(state: State) -> Literal["alpha", "gamma"]:
    return "alpha"


def ready() -> StateGraph[Any, Any, Any, Any]:
    return new("alpha", "beta").add_edge(START, "alpha")


def test_unknown_breakpoints() -> None:
    for given in (
        {"interrupt_before": ["alpa"]},
        {"interrupt_after": ["alpa"]},
        {"interrupt_before": ["alpa"], "interrupt_after": "*"},
    ):
        with pytest.raises(UnknownNode, match=r"Interrupt node `alpa` not found. Did you mean 'alpha'\?"):
            ready().compile(**given)
    with pytest.raises(UnknownNode, match="Interrupt node `q` not found"):
        ready().validate(["q"])
    with pytest.raises(InvalidGraph, match=r"interrupt_before must be a list.*Did you mean \['alpha'\]"):
        ready().compile(interrupt_before="alpha")


def test_what_compile_refuses() -> None:
    with pytest.raises(InvalidGraph, match="unknown_keys must be 'error' or 'ignore'"):
        ready().compile(unknown_keys="drop")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="must be positive"):
        ready().compile(step_timeout=0)
    with pytest.raises(InvalidGraph, match=r"Node timeouts are only supported for async nodes because .* Node 'slow' is sync"):
        ready().add_node("slow", nothing, timeout=1).compile()
    with pytest.raises(InvalidGraph, match="Node 'alpha' is sync"):
        ready().set_node_defaults(timeout=1).compile()
    with pytest.raises(ValueError, match="must be positive"):
        ready().add_node("slow", nothing, timeout=-1)


def test_what_is_fine() -> None:
    graph = new("alpha", "y", "alone").add_edge(START, END).add_edge(START, END).add_edge("alpha", "alpha")
    assert set(graph.compile().program.nodes) == {"alpha", "y", "alone"}


def test_suggestions_stay_short() -> None:
    graph = new(*(f"node_{at}" for at in range(30))).add_edge(START, "zz")
    with pytest.raises(UnknownNode, match="'node_11' and more"):
        graph.compile()
    with pytest.raises(UnknownNode, match="no nodes yet"):
        StateGraph(State).add_edge(START, "zz").compile()


def test_input_schemas_are_inferred_from_classes_with_fields_only() -> None:
    class Private(TypedDict):
        y: int
        z: Annotated[list[int], operator.add]

    class Model(BaseModel):
        m: int = 0

    @dataclass
    class Data:
        d: int

    def private(state: Private) -> None: ...
    def model(state: Model) -> None: ...
    def data(state: Data) -> None: ...
    def any_dict(state: dict[str, Any]) -> None: ...
    def text(state: str) -> None: ...
    def maybe(state: Private | None) -> None: ...
    def own(state: State) -> None: ...

    graph = StateGraph(State)
    for action in (private, model, data, any_dict, text, maybe, own):
        graph.add_node(action)
    found = {name: spec.input_schema for name, spec in graph.nodes.items()}
    assert found == {
        "private": Private,
        "model": Model,
        "data": Data,
        "any_dict": None,
        "text": None,
        "maybe": None,
        "own": State,
    }
    assert list(graph.channels) == ["x", "y", "z", "m", "d"]
    assert graph.nodes["private"].input_schema is Private
    assert StateGraph(State).add_node("n", own, input_schema=Private).nodes["n"].input_schema is Private


def test_a_keyless_state_ignores_what_a_node_is_annotated_with() -> None:
    def node(state: State) -> None: ...

    graph = StateGraph(int).add_node(node).add_edge(START, "node")
    assert list(graph.channels) == ["__root__"]
    assert graph.compile().program.nodes["node"].view.root
    with pytest.raises(InvalidGraph, match="State has keys and int has none"):
        StateGraph(int).add_node("n", node, input_schema=State)


def test_command_annotations_are_drawing_hints() -> None:
    def one(state: State) -> Command[Literal["a", "__end__"]]: ...
    def union(state: State) -> dict[str, Any] | Command[Literal["b"]] | None: ...
    def listed(state: State) -> list[Command[Literal["b", "c"]]]: ...
    def none(state: State) -> Command: ...  # type: ignore[type-arg]
    def literal(state: State) -> Literal["b"]: ...

    graph = StateGraph(State)
    for action in (one, union, listed, none, literal):
        graph.add_node(action)
    assert {name: spec.ends for name, spec in graph.nodes.items()} == {
        "one": ("a", "__end__"),
        "union": ("b",),
        "listed": ("b", "c"),
        "none": (),
        "literal": (),
    }
    assert StateGraph(State).add_node("n", one, destinations={"z": "label"}).nodes["n"].ends == {"z": "label"}


def test_unknown_arguments_are_refused() -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'retries'"):
        StateGraph(State).add_node("a", nothing, retries=3)
    with pytest.warns(DeprecationWarning, match="`retry` is now called `retry_policy`"):
        graph = StateGraph(State).add_node("a", nothing, retry=RetryPolicy(max_attempts=7))
    assert graph.nodes["a"].retry_policy == (RetryPolicy(max_attempts=7),)
