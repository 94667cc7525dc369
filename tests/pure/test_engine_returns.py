"""What nodes' returns and branches' choices mean, as writes."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Annotated, Any

import pytest
from typing_extensions import TypedDict

from perdure.channels import UntrackedValue
from perdure.constants import END, ROOT, START, TASKS
from perdure.engine.deciding import returns
from perdure.engine.program import Branch, Call, Program
from perdure.errors import InvalidUpdateError, ParentCommand, UnknownKey, UnknownNode
from perdure.graph import StateGraph
from perdure.managed import RemainingSteps
from perdure.types import Command, Send


class State(TypedDict):
    log: Annotated[list[int], operator.add]
    n: int
    left: RemainingSteps
    client: Annotated[Any, UntrackedValue(Any)]


def nothing(state: Any) -> None:
    return None


async def later(state: Any) -> None:
    return None


def program(**compiled: Any) -> Program:
    graph = StateGraph(State).add_node("a", nothing).add_node("b", later).add_edge(START, "a")
    return graph.compile(name="g", **compiled).program


ROOTED: Any = StateGraph(int).add_node("a", nothing).add_edge(START, "a").compile().program
BRANCH = Branch("route", Call(nothing))


@dataclass
class Update:
    n: int
    extra: int = 0


@pytest.mark.parametrize(
    ("value", "writes"),
    [
        (None, []),
        ({}, []),
        ({"n": 1}, [("n", 1)]),
        ({"n": 1, "log": [2]}, [("n", 1), ("log", [2])]),
        ({"n": None}, [("n", None)]),
        (Command(), []),
        (Command(update={"n": 1}), [("n", 1)]),
        (Command(update=[("log", [1]), ("log", [2])]), [("log", [1]), ("log", [2])]),
        (Command(goto="a"), [("branch:to:a", None)]),
        (Command(goto=["b", END, Send("a", 1)]), [("branch:to:b", None), (TASKS, Send("a", 1))]),
        (Command(graph="g", update={"n": 1}), [("n", 1)]),
        ([Command(update={"n": 1}), {"log": [1]}, None], [("n", 1), ("log", [1])]),
        ({"n": 1, "left": 3}, [("n", 1)]),
    ],
    ids=str,
)
def test_the_writes_of_a_return(value: Any, writes: Any) -> None:
    assert returns.writes_of(program(), "a", value) == writes


def test_a_dict_is_read_at_once() -> None:
    value = {"n": 1}
    writes = returns.writes_of(program(), "a", value)
    value["n"] = 2
    assert writes == [("n", 1)]


@pytest.mark.parametrize("value", [5, "n", [1], (("n", 1),), {1, 2}, object()], ids=lambda value: type(value).__name__)
def test_what_is_no_return(value: Any) -> None:
    with pytest.raises(InvalidUpdateError, match="Expected dict, got") as caught:
        returns.writes_of(program(), "a", value)
    assert (caught.value.node, caught.value.code) == ("a", "INVALID_GRAPH_NODE_RETURN_VALUE")


def test_P50_an_unknown_key_is_refused_or_dropped() -> None:
    with pytest.raises(UnknownKey, match="'m'") as caught:
        returns.writes_of(program(), "a", {"n": 1, "m": 2})
    assert (caught.value.node, caught.value.key) == ("a", "m")
    assert returns.writes_of(program(unknown_keys="ignore"), "a", {"n": 1, "m": 2}) == [("n", 1)]


def test_an_object_with_an_unknown_field_is_treated_like_a_dict() -> None:
    with pytest.raises(UnknownKey, match="'extra'"):
        returns.writes_of(program(), "a", Update(1))
    assert returns.writes_of(program(unknown_keys="ignore"), "a", Update(1)) == [("n", 1)]


def test_a_state_without_keys_takes_the_whole_value() -> None:
    assert returns.writes_of(ROOTED, "a", 5) == [(ROOT, 5)]
    assert returns.writes_of(ROOTED, "a", {"x": 1}) == [(ROOT, {"x": 1})]
    assert returns.writes_of(ROOTED, "a", 0) == [(ROOT, 0)]
    assert returns.writes_of(ROOTED, "a", None) == []
    assert returns.writes_of(ROOTED, "a", Command(update=3)) == [(ROOT, 3)]


@pytest.mark.parametrize("graph", [Command.PARENT, "other"])
def test_a_command_for_another_graph_leaves(graph: str) -> None:
    command: Command[Any] = Command(graph=graph, update={"whatever": 1}, goto="anywhere")
    with pytest.raises(ParentCommand) as caught:
        returns.writes_of(program(), "a", command)
    assert caught.value.command is command


@pytest.mark.parametrize(
    ("goto", "error", "match"),
    [
        ("c", UnknownNode, "goes to 'c'"),
        (START, UnknownNode, "goes to '__start__'"),
        (Send("c", 1), UnknownNode, "by Send"),
        (Send(END, 1), InvalidUpdateError, "Cannot send a packet to the END node"),
        (Send("a", 1, timeout=1), InvalidUpdateError, "only supported for async nodes"),
        (5, InvalidUpdateError, "a goto is a node name, a Send, or a list of these, got int"),
        ([["a"]], InvalidUpdateError, "got list"),
    ],
    ids=str,
)
def test_where_a_goto_cannot_lead(goto: Any, error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        returns.goto_writes(program(), "Node 'x' goes to", goto)


def test_a_send_to_an_async_node_may_have_a_timeout() -> None:
    send = Send("b", 1, timeout=1)
    assert returns.goto_writes(program(), "", send) == [(TASKS, send)]


def test_choices_of_a_branch() -> None:
    graph = program()
    assert returns.branch_writes(graph, "a", BRANCH, "b") == [("branch:to:b", None)]
    assert returns.branch_writes(graph, "a", BRANCH, END) == []
    assert returns.branch_writes(graph, "a", BRANCH, ["b", Send("a", 1)]) == [("branch:to:b", None), (TASKS, Send("a", 1))]
    mapped = Branch("route", Call(nothing), {True: "b", "stop": END})
    assert returns.branch_writes(graph, "a", mapped, [True, "stop", Send("a", 2)]) == [
        ("branch:to:b", None),
        (TASKS, Send("a", 2)),
    ]
    nowhere: list[Any] = [None, START, [None]]
    for choice in nowhere:
        with pytest.raises(ValueError, match="did not return a valid destination"):
            returns.branch_writes(graph, "a", BRANCH, choice)
    unknown: list[Any] = ["b", ["b"], {"un": "hashable"}]
    for choice in unknown:
        with pytest.raises(KeyError, match="which its path map does not have; it has True, 'stop'"):
            returns.branch_writes(graph, "a", mapped, choice)


def test_the_writes_of_an_input() -> None:
    assert returns.input_writes(program(), {"n": 1}) == [("n", 1)]
    assert returns.input_writes(program(), {}) == []
    assert returns.input_writes(program(unknown_keys="ignore"), {"n": 1, "m": 2}) == [("n", 1)]
    assert returns.input_writes(ROOTED, 0) == [(ROOT, 0)]
    with pytest.raises(UnknownKey, match="The input has the key 'm'"):
        returns.input_writes(program(), {"m": 1})
    with pytest.raises(InvalidUpdateError, match="Expected dict, got 5"):
        returns.input_writes(program(), 5)


def test_updates_as_streams_show_them() -> None:
    keys = ("log", "n")
    assert returns.update_of([], keys, root=False) is None
    assert returns.update_of([("branch:to:b", None)], keys, root=False) is None
    assert returns.update_of([("n", 1), ("log", [2])], keys, root=False) == {"n": 1, "log": [2]}
    assert returns.update_of([("log", [1]), ("log", [2])], keys, root=False) == [{"log": [1]}, {"log": [2]}]
    assert returns.update_of([(ROOT, 1)], (ROOT,), root=True) == 1
    assert returns.update_of([], (ROOT,), root=True) is None
    assert returns.update_of([(ROOT, 1), (ROOT, 2)], (ROOT,), root=True) == [1, 2]


def test_results_as_snapshots_show_them() -> None:
    keys = ("log", "n")
    assert returns.result_of([], keys, root=False) == {}
    assert returns.result_of([("n", 1), ("branch:to:b", None)], keys, root=False) == {"n": 1}
    assert returns.result_of([("log", [1]), ("log", [2]), ("log", [3])], keys, root=False) == {
        "log": {"$writes": [[1], [2], [3]]}
    }
    own = {"$writes": [1]}
    assert returns.result_of([("n", own)], keys, root=False) == {"n": own}
    assert returns.result_of([(ROOT, 1)], (ROOT,), root=True) == 1


def test_what_is_never_stored_is_taken_out_of_writes_and_sends() -> None:
    graph = program()
    writes: list[tuple[str, Any]] = [
        ("n", 1),
        ("client", object()),
        (TASKS, Send("a", {"client": object(), "n": 2})),
        (TASKS, Send("a", 3)),
    ]
    assert returns.stored_writes(graph, writes) == [("n", 1), (TASKS, Send("a", {"n": 2})), (TASKS, Send("a", 3))]
    assert returns.stored_writes(ROOTED, writes) is writes
