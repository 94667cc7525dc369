"""P50: also mistakes in a call or a choice are errors of the tree, with a code, and still what Python would have raised."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.checkpoint.base import BaseCheckpointSaver
from perdure.config import get_config
from perdure.errors import (
    InvalidArgument,
    InvalidConfig,
    MissingCheckpointer,
    MissingMethod,
    OutsideOfRun,
    PerdureError,
    UnknownChoice,
    UnknownNode,
    WrongType,
)
from perdure.func import task
from perdure.graph import START, StateGraph
from perdure.types import Command, TimeoutPolicy, interrupt
from tests.promises.ways import Log, Way, on


def choosing(way: Way, choice: Any, path_map: Any = None) -> Any:
    builder: StateGraph[Any, Any, Any, Any] = StateGraph(Log)
    builder.add_node("a", way.node(lambda state: {"log": ["a"]})).add_edge(START, "a")
    builder.add_node("b", way.node(lambda state: {"log": ["b"]}))
    builder.add_conditional_edges("a", lambda state: choice, path_map)
    return builder.compile()


@pytest.mark.parametrize(("choice", "path_map"), [("no", {"yes": "b"}), ([[]], {"yes": "b"}), (None, None), (START, None)])
def test_P50_a_choice_that_is_not_to_be_had(way: Way, choice: Any, path_map: Any):
    graph = choosing(way, choice, path_map)
    with pytest.raises(UnknownChoice, match=r"conditional edge .* of node 'a' returned") as caught:
        way.invoke(graph, {"log": []})
    assert caught.value.code == "UNKNOWN_CHOICE"
    assert caught.value.node == "a"
    assert isinstance(caught.value, KeyError)
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, UnknownNode)


def test_P50_what_needs_a_saver_says_so(way: Way):
    graph = choosing(way, "b")
    calls = (
        lambda: way.invoke(graph, Command(resume="yes"), on()),
        lambda: way.state(graph, on()),
        lambda: way.edit(graph, on(), {"log": []}),
    )
    for call in calls:
        with pytest.raises(MissingCheckpointer, match="checkpointer") as caught:
            call()
        assert caught.value.code == "MISSING_CHECKPOINTER"
        assert isinstance(caught.value, InvalidConfig)
        assert isinstance(caught.value, RuntimeError)


@task
def step() -> int:
    return 1


@pytest.mark.parametrize("call", [lambda: interrupt("?"), get_config, step], ids=["interrupt", "get_config", "task"])
def test_P50_what_belongs_into_a_run_says_so(call: Any):
    with pytest.raises(OutsideOfRun, match="outside of a running") as caught:
        call()
    assert isinstance(caught.value, RuntimeError)


def test_P50_arguments_have_errors_of_the_tree(way: Way):
    graph = choosing(way, "b")
    for call, kind in (
        (lambda: way.stream(graph, {"log": []}, stream_mode="vals"), InvalidArgument),
        (lambda: way.invoke(graph, {"log": []}, contxt={}), WrongType),
        (lambda: graph.builder.compile(checkpointer="app.db"), WrongType),
        (lambda: TimeoutPolicy.coerce(-1), InvalidArgument),
        (lambda: BaseCheckpointSaver().get(on()), MissingMethod),
    ):
        with pytest.raises(kind) as caught:
            call()
        assert isinstance(caught.value, PerdureError)
        assert isinstance(
            caught.value, {InvalidArgument: ValueError, WrongType: TypeError, MissingMethod: NotImplementedError}[kind]
        )
