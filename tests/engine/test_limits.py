"""The recursion limit, the values that tell a node how much of it is left, and stopping on request."""

from __future__ import annotations

import operator
from typing import Annotated, Any

import pytest
from typing_extensions import TypedDict

from perdure import END, START, StateGraph
from perdure.checkpoint.saver import Saver
from perdure.errors import GraphDrained, GraphRecursionError, InvalidConfig
from perdure.managed import IsLastStep, RemainingSteps
from perdure.runtime import RunControl, Runtime
from perdure.types import Command, interrupt
from tests.engine.colours import Colour, Log, thread


def loop(colour: Colour, until: int) -> StateGraph[Any, Any, Any, Any]:
    graph = StateGraph(Log).add_node("a", colour.node(lambda state: {"log": [len(state["log"])]})).add_edge(START, "a")
    return graph.add_conditional_edges("a", lambda state: "a" if len(state["log"]) < until else END)


def limited(steps: int, name: str = "t") -> Any:
    return {**thread(name), "recursion_limit": steps}


def test_a_run_may_take_as_many_steps_as_its_limit(colour: Colour, saver: Any) -> None:
    assert colour.invoke(loop(colour, 4).compile(saver), {"log": []}, limited(4))["log"] == [0, 1, 2, 3]


def test_one_step_more_is_an_error_that_says_how_to_go_on(colour: Colour, saver: Any) -> None:
    with pytest.raises(GraphRecursionError, match="Recursion limit of 3 reached without hitting a stop condition") as caught:
        colour.invoke(loop(colour, 4).compile(saver), {"log": []}, limited(3))
    assert "recursion_limit" in str(caught.value)
    assert ("invoke(None, config)" in str(caught.value)) == (saver is not None), (
        "there is something to go on with only if it is saved"
    )
    assert isinstance(caught.value, RecursionError)
    assert caught.value.code == "GRAPH_RECURSION_LIMIT"


def test_what_was_reached_is_saved_and_can_be_resumed(colour: Colour, kept: Saver) -> None:
    graph = loop(colour, 8).compile(kept)
    inputs: list[Any] = [{"log": []}, None]
    for given in inputs:
        with pytest.raises(GraphRecursionError):
            colour.invoke(graph, given, limited(3))
    state = colour.state(graph, thread())
    assert (state.values["log"], state.next) == ([0, 1, 2, 3, 4, 5], ("a",))
    assert colour.invoke(graph, None, thread())["log"] == list(range(8))


def test_all_that_the_last_step_made_is_streamed_before_the_error(colour: Colour) -> None:
    graph = loop(colour, 9).compile()
    got: list[Any] = []
    with pytest.raises(GraphRecursionError):
        for event in graph.stream({"log": []}, limited(2)):
            got.append(event)  # noqa: PERF402 - what came before the error counts
    assert got == [{"a": {"log": [0]}}, {"a": {"log": [1]}}]


@pytest.mark.parametrize("limit", [0, -1, 1.5, True, "3"], ids=repr)
def test_P50_a_limit_must_be_a_positive_int(colour: Colour, limit: Any) -> None:
    with pytest.raises(InvalidConfig, match="recursion_limit must be at least 1"):
        colour.invoke(loop(colour, 1).compile(), {"log": []}, {"recursion_limit": limit})


def test_the_default_limit_is_far_away(colour: Colour) -> None:
    assert len(colour.invoke(loop(colour, 300).compile(), {"log": []})["log"]) == 300


def test_several_tasks_of_one_step_are_one_step(colour: Colour) -> None:
    graph = StateGraph(Log)
    for name in "abcd":
        graph.add_node(name, colour.says(name)).add_edge(START, name)
    assert colour.invoke(graph.compile(), {"log": []}, {"recursion_limit": 1})["log"] == list("abcd")


class Counted(TypedDict):
    log: Annotated[list[Any], operator.add]
    left: RemainingSteps
    last: IsLastStep


def test_a_node_can_see_how_many_steps_remain(colour: Colour, saver: Any) -> None:
    def node(state: Counted) -> dict[str, Any]:
        return {"log": [(state["left"], state["last"])]}

    graph = StateGraph(Counted).add_node("a", colour.node(node)).add_edge(START, "a")
    graph.add_conditional_edges("a", lambda state: END if state["last"] else "a")
    out = colour.invoke(graph.compile(saver), {"log": []}, limited(4))
    assert out == {"log": [(3, False), (2, False), (1, True)]}


def test_a_resumed_run_has_its_whole_allowance(colour: Colour, kept: Saver) -> None:
    def node(state: Counted) -> dict[str, Any]:
        if len(state["log"]) == 1:
            interrupt("q")
        return {"log": [state["left"]]}

    graph = StateGraph(Counted).add_node("a", colour.node(node)).add_edge(START, "a")
    graph.add_conditional_edges("a", lambda state: END if len(state["log"]) == 3 else "a")
    compiled = graph.compile(kept)
    colour.invoke(compiled, {"log": []}, limited(5))
    assert colour.invoke(compiled, Command(resume=1), limited(5))["log"] == [4, 4, 3]


def test_a_node_that_returns_its_whole_state_does_not_write_managed_values(colour: Colour) -> None:
    graph = StateGraph(Counted).add_node("a", colour.node(lambda state: dict(state))).add_edge(START, "a")
    assert colour.invoke(graph.compile(), {"log": [1]}) == {"log": [1, 1]}


# -- draining -------------------------------------------------------------------------------------------------------------


def draining(colour: Colour) -> Any:
    def node(state: Log, runtime: Runtime[Any]) -> dict[str, Any]:
        if len(state["log"]) == 1 and runtime.control is not None:
            runtime.control.request_drain("deploy")
            assert runtime.drain_requested
        return {"log": [len(state["log"])]}

    graph = StateGraph(Log).add_node("a", colour.node(node)).add_edge(START, "a")
    return graph.add_conditional_edges("a", lambda state: "a" if len(state["log"]) < 4 else END)


def test_a_run_stops_after_its_step_when_asked_and_can_be_resumed(colour: Colour, kept: Saver) -> None:
    graph = draining(colour).compile(kept)
    with pytest.raises(GraphDrained, match="deploy") as caught:
        colour.invoke(graph, {"log": []}, thread(), control=RunControl())
    assert caught.value.reason == "deploy"
    assert colour.state(graph, thread()).values == {"log": [0, 1]}
    assert colour.state(graph, thread()).next == ("a",)
    assert colour.invoke(graph, None, thread())["log"] == [0, 1, 2, 3]


def test_a_run_that_is_over_is_not_drained(colour: Colour, saver: Any) -> None:
    control = RunControl()

    def node(_: Log, runtime: Runtime[Any]) -> dict[str, Any]:
        control.request_drain()
        return {"log": ["done"]}

    graph = StateGraph(Log).add_node("a", colour.node(node)).add_edge(START, "a").compile(saver)
    assert colour.invoke(graph, {"log": []}, thread(), control=control)["log"] == ["done"]


def test_a_request_from_before_the_start_stops_before_the_first_node(colour: Colour, kept: Saver) -> None:
    control = RunControl()
    control.request_drain("now")
    graph = loop(colour, 2).compile(kept)
    with pytest.raises(GraphDrained, match="now"):
        colour.invoke(graph, {"log": []}, thread(), control=control)
    assert colour.state(graph, thread()).next == ("a",)
    assert colour.invoke(graph, None, thread())["log"] == [0, 1]


def test_a_drained_run_gives_its_thread_free(colour: Colour, kept: Saver) -> None:
    graph = draining(colour).compile(kept)
    with pytest.raises(GraphDrained):
        colour.invoke(graph, {"log": []}, thread(), control=RunControl())
    assert colour.invoke(graph, {"log": ["new"]}, thread())["log"][:3] == [0, 1, "new"]
