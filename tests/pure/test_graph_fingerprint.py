"""The digest of a graph's shape: what it depends on, and what it does not."""

# ruff: noqa: UP045 - old spellings of annotations are under test
from __future__ import annotations

import operator
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any, Literal, Optional

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typing_extensions import TypedDict

from perdure.graph import END, START, StateGraph


class State(TypedDict):
    x: Annotated[list[int], operator.add]
    y: Optional[int]


class Reordered(TypedDict):
    y: None | int  # noqa: RUF036 - the order is the point
    x: Annotated[list[int], max]


def nothing(state: Any) -> Any:
    return {}


def path(state: Any) -> str:
    return "a"


def shape(
    state: Any = State, *, shuffle: random.Random | None = None, leave_out: int | None = None
) -> StateGraph[Any, Any, Any, Any]:
    graph = StateGraph(state)
    nodes = ["a", "b", "c", "d"]
    steps: list[Any] = [
        lambda: graph.add_edge(START, "a"),
        lambda: graph.add_edge("a", "b"),
        lambda: graph.add_edge("a", "c"),
        lambda: graph.add_edge(["b", "c"], "d"),
        lambda: graph.add_conditional_edges("d", path, {"again": "a", "done": END}),
        lambda: graph.add_conditional_edges("b", path, {True: "a", None: "c"}),
    ]
    if leave_out is not None:
        del steps[leave_out]
    if shuffle is not None:
        shuffle.shuffle(nodes)
        shuffle.shuffle(steps)
    for name in nodes:
        graph.add_node(name, nothing)
    for step in steps:
        step()
    return graph


def digest(graph: StateGraph[Any, Any, Any, Any], **given: Any) -> str:
    return graph.compile(**given).program.fingerprint


@given(st.randoms(use_true_random=False))
def test_the_order_of_adding_does_not_count(shuffle: random.Random) -> None:
    assert digest(shape(shuffle=shuffle)) == digest(shape())


def test_the_order_of_keys_and_unions_and_the_reducers_code_do_not_count() -> None:
    assert digest(shape(Reordered)) == digest(shape())


def test_what_does_not_change_the_shape_does_not_count() -> None:
    graph = shape()
    before = digest(graph)
    assert len(before) == 32
    assert digest(graph, name="other", interrupt_before=["a"], unknown_keys="ignore") == before
    again = StateGraph(State)
    for name in "abcd":
        again.add_node(name, lambda s: {"y": 1}, metadata={"k": name}, destinations=("a",))
    again.edges, again.waiting_edges, again.branches = graph.edges, graph.waiting_edges, graph.branches
    assert digest(again) == before


@pytest.mark.parametrize("leave_out", range(1, 6))
def test_each_edge_counts(leave_out: int) -> None:
    assert digest(shape(leave_out=leave_out)) != digest(shape())


def test_all_else_that_counts() -> None:
    class Wider(TypedDict):
        x: Annotated[list[int], operator.add]
        y: Optional[int]
        z: int

    class OtherType(TypedDict):
        x: Annotated[list[str], operator.add]
        y: Optional[int]

    class OtherKind(TypedDict):
        x: list[int]
        y: Optional[int]

    class Literals(TypedDict):
        x: Annotated[list[int], operator.add]
        y: Literal["a", 1]

    def swapped() -> Any:
        graph = shape(leave_out=4)
        return graph.add_conditional_edges("d", path, {"again": END, "done": "a"})

    def free() -> Any:
        return shape(leave_out=4).add_conditional_edges("d", path)

    def joined_apart() -> Any:
        return shape(leave_out=3).add_edge("b", "d").add_edge("c", "d")

    shapes = [shape(), *(shape(state) for state in (Wider, OtherType, OtherKind, Literals)), swapped(), free(), joined_apart()]
    shapes += [
        shape().add_node("e", nothing),
        shape().add_node("e", nothing, defer=True),
        shape().add_node("e", nothing, error_handler=nothing),
    ]
    digests = [digest(graph) for graph in shapes]
    assert len(set(digests)) == len(digests)


def test_the_inside_of_a_subgraph_counts() -> None:
    one = StateGraph(State).add_node("s", nothing).add_edge(START, "s").compile()
    two = StateGraph(State).add_node("t", nothing).add_edge(START, "t").compile()
    assert digest(shape().add_node("e", one)) != digest(shape().add_node("e", two))
    assert digest(shape().add_node("e", one)) != digest(shape().add_node("e", nothing))


def test_another_process_with_another_hash_seed_agrees() -> None:
    code = "import test_graph_fingerprint as t; print(t.digest(t.shape()))"
    found = set()
    for seed in ("1", "2"):
        env = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])}
        found.add(
            subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True).stdout.strip()
        )
    assert found == {digest(shape())}
