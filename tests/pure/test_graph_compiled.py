"""What a compiled graph tells of itself, and what importing the builder costs."""

from __future__ import annotations

import asyncio
import functools
import operator
import subprocess
import sys
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Annotated, Any, NotRequired

import pytest
from pydantic import BaseModel
from typing_extensions import TypedDict

from perdure.errors import MissingExtra
from perdure.graph import END, START, StateGraph
from perdure.graph.state import CompiledStateGraph


class State(TypedDict):
    x: Annotated[list[int], operator.add]
    y: NotRequired[int]


class Out(TypedDict):
    y: int


def nothing(state: State) -> dict[str, Any]:
    return {}


def new(state: Any = State, **given: Any) -> Any:
    return StateGraph(state, **given).add_node("a", lambda s: {}).add_edge(START, "a")


def test_it_is_a_compiled_state_graph() -> None:
    graph = new()
    assert isinstance(graph.compile(), CompiledStateGraph)
    assert graph.compile().builder is graph


def test_schemas_of_a_typed_dict() -> None:
    graph = new(output_schema=Out).compile(name="G")
    model = graph.get_input_schema()
    assert model.__name__ == "GInput"
    assert model(x=[1]).x == [1]
    assert list(graph.get_output_schema().model_fields) == ["y"]
    assert graph.get_input_jsonschema() == {
        "properties": {
            "x": {"items": {"type": "integer"}, "title": "X", "type": "array"},
            "y": {"title": "Y", "type": "integer"},
        },
        "required": ["x"],
        "title": "State",
        "type": "object",
    }
    assert graph.get_output_jsonschema()["required"] == ["y"]
    assert graph.get_context_jsonschema() is None


class Model(BaseModel):
    x: int


@dataclass
class Data:
    x: int
    y: list[int] = field(default_factory=list)
    z: int = 3


def test_schemas_of_other_states() -> None:
    assert new(Model).compile().get_input_schema() is Model
    data = new(Data).compile()
    assert data.get_input_schema()(x=1).model_dump() == {"x": 1, "y": [], "z": 3}
    assert data.get_input_jsonschema()["title"] == "Data"
    whole = new(Annotated[int, operator.add]).compile(name="G")
    assert whole.get_input_schema().model_validate(3).root == 3
    assert whole.get_input_schema().__name__ == "GInput"
    assert whole.get_input_jsonschema() == {"title": "GInput", "type": "integer"}
    context = StateGraph(State, Data).add_node("a", nothing).add_edge(START, "a").compile().get_context_jsonschema()
    assert context is not None
    assert context["title"] == "Data"


def test_without_pydantic_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pydantic", None)
    with pytest.raises(MissingExtra, match=r"pip install 'perdure\[pydantic\]'"):
        new().compile().get_input_jsonschema()
    with pytest.raises(MissingExtra):
        new().compile().get_input_schema()


INNER = new().compile()
HIDDEN = new().compile(checkpointer=False)
BOX = SimpleNamespace(graph=INNER)


def through_global(state: State) -> Any:
    return INNER.invoke(state)


def through_attribute(state: State) -> Any:
    return BOX.graph.invoke(state)


def through_another(state: State) -> Any:
    return through_global(state)


class Owner:
    def __init__(self) -> None:
        self.graph = INNER

    @property
    def explosive(self) -> Any:
        raise AssertionError("drawing runs no code")

    def run(self, state: State) -> Any:
        return self.explosive or self.graph.invoke(state)

    def __call__(self, state: State) -> Any:
        return self.run(state)


def names_only(state: State) -> Any:
    return SimpleNamespace(INNER=1).x


def test_subgraphs_are_found_where_functions_reach_for_them() -> None:
    inner = INNER

    def through_closure(state: State) -> Any:
        return inner.invoke(state)

    async def through_inner_function(state: State) -> Any:
        return [each.invoke(state) for each in [inner]]

    def taking(state: State, graph: Any) -> Any:
        return graph.invoke(state)

    graph = StateGraph(State)
    found = {
        "direct": INNER,
        "global": through_global,
        "attribute": through_attribute,
        "another": through_another,
        "closure": through_closure,
        "comprehension": through_inner_function,
        "partial": functools.partial(taking, graph=INNER),
        "method": Owner().run,
        "object": Owner(),
    }
    others = {"hidden": HIDDEN, "none": nothing, "builtin": max, "names": lambda s: s.graph}
    for name, action in {**found, **others}.items():
        graph.add_node(name, action)
    compiled = graph.add_edge(START, "direct").compile()
    assert list(compiled.get_subgraphs()) == [(name, INNER) for name in found]


def test_subgraphs_by_place() -> None:
    middle = StateGraph(State).add_node("in", INNER).add_node("n", nothing).add_edge(START, "in").compile()
    graph = StateGraph(State).add_node("m", middle).add_node("f", through_global).add_edge(START, "m").compile()
    assert list(graph.get_subgraphs()) == [("m", middle), ("f", INNER)]
    assert list(graph.get_subgraphs(recurse=True)) == [("m", middle), ("m|in", INNER), ("f", INNER)]
    assert list(graph.get_subgraphs(namespace="m")) == [("m", middle)]
    assert list(graph.get_subgraphs("m|in", recurse=True)) == [("m|in", INNER)]
    assert list(graph.get_subgraphs("m|in")) == []
    assert list(graph.get_subgraphs("nowhere", recurse=True)) == []

    async def collect() -> list[Any]:
        assert (await graph.aget_graph()).to_json() == graph.get_graph().to_json()
        return [found async for found in graph.aget_subgraphs(recurse=True)]

    assert asyncio.run(collect()) == list(graph.get_subgraphs(recurse=True))


def calls_itself(state: State) -> Any:
    return LOOP.invoke(state)


LOOP = StateGraph(State).add_node("again", calls_itself).add_edge(START, "again").compile()


def test_a_graph_that_calls_itself_is_walked_once() -> None:
    assert list(LOOP.get_subgraphs(recurse=True)) == [("again", LOOP)]
    assert list(LOOP.get_graph(xray=True).nodes) == ["__start__", "again", "__end__"]


def test_a_picture_does_not_follow_the_builder() -> None:
    graph = new()
    compiled = graph.compile()
    before = compiled.get_graph().to_json()
    graph.add_node("b", nothing).add_edge("a", "b").add_conditional_edges("b", len, [END])
    assert compiled.get_graph().to_json() == before
    assert graph.compile().get_graph().to_json() != before


def test_importing_the_builder_loads_nothing_heavy() -> None:
    heavy = [
        "asyncio",
        "pydantic",
        "numpy",
        "langchain_core",
        "sqlite3",
        "uuid",
        "hashlib",
        "difflib",
        "json",
        "perdure.engine.compiled",
    ]
    code = f"import sys; before = set(sys.modules); import perdure.graph; print([m for m in {heavy} if m in set(sys.modules) - before])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
