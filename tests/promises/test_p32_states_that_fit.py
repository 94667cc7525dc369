"""P32: a value is validated as its reducer makes it of all writes of a super-step, before it is stored. What is wrong is never stored,
what was right is (P2), the history stays readable, and after the fix a resume runs only what is missing.
"""

from __future__ import annotations

import operator
from collections import Counter
from dataclasses import dataclass, field
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field

from perdure.checkpoint.records import RESULT
from perdure.checkpoint.saver import Saver
from perdure.errors import InvalidState
from perdure.graph import START, StateGraph
from perdure.types import Command, Send, interrupt
from tests.promises.ways import Way, kinds_of, on, rows_of, status_of

DURABILITIES = pytest.mark.parametrize("durability", ["sync", "async", "exit"])


def joined(left: Any, right: Any) -> Any:
    """Wrong as soon as there are two."""
    return [*left, *right] if not left else "|".join([*left, *right])


class Model(BaseModel):
    log: Annotated[list[str], operator.add, Field(max_length=1)] = []


class MendedModel(BaseModel):
    log: Annotated[list[str], operator.add, Field(max_length=9)] = []


@dataclass
class Data:
    log: Annotated[list[str], joined] = field(default_factory=list)


@dataclass
class MendedData:
    log: Annotated[list[str], operator.add] = field(default_factory=list)


def model(*, mended: bool) -> type[Any]:
    return MendedModel if mended else Model


def data(*, mended: bool) -> type[Any]:
    return MendedData if mended else Data


SCHEMAS = pytest.mark.parametrize("schema", [model, data], ids=["pydantic", "dataclass"])


class Nodes:
    """Makes nodes that count how often they ran."""

    def __init__(self, way: Way) -> None:
        self.way = way
        self.ran: Counter[str] = Counter()

    def node(self, name: str, update: Any = None) -> Any:
        def body(_: Any) -> Any:
            self.ran[name] += 1
            return {"log": [name]} if update is None else update()

        return self.way.node(body)


@pytest.fixture
def nodes(way: Way) -> Nodes:
    return Nodes(way)


def two_and_one(schema: type[Any], nodes: Nodes) -> StateGraph[Any, Any, Any, Any]:
    """a and b side by side, then c."""
    builder: StateGraph[Any, Any, Any, Any] = StateGraph(schema)
    for name in "abc":
        builder.add_node(name, nodes.node(name))
    return builder.add_edge(START, "a").add_edge(START, "b").add_edge(["a", "b"], "c")


@SCHEMAS
@DURABILITIES
def test_P32_P2_results_that_are_wrong_only_together_are_kept_and_their_state_is_not_stored(
    way: Way, saver: Saver, nodes: Nodes, schema: Any, durability: Any
):
    graph = two_and_one(schema(mended=False), nodes).compile(saver)
    with pytest.raises(InvalidState, match="Key 'log' cannot hold") as caught:
        way.invoke(graph, {"log": []}, on(), durability=durability)
    assert (caught.value.key, caught.value.node) == ("log", "a")
    assert "written by node 'a', 'b'" in caught.value.__notes__
    assert any("Together these results do not fit" in note for note in caught.value.__notes__)
    assert kinds_of(saver, RESULT) == ["a", "b"], "they are what their tasks returned"
    assert status_of(saver) == ("error", True)
    newest = max(row["step"] for row in rows_of(saver)["checkpoints"].values())
    assert newest == 0

    state = way.state(graph, on())
    assert (state.values, state.next) == ({"log": []}, ("a", "b")), "what was never stored is not shown"
    assert {task.name: (task.result, task.error) for task in state.tasks} == {
        "a": ({"log": ["a"]}, None),
        "b": ({"log": ["b"]}, None),
    }
    assert next(snapshot.values for snapshot in way.history(graph, on())) == {"log": []}

    with pytest.raises(InvalidState):
        way.invoke(graph, None, on(), durability=durability)
    assert nodes.ran == {"a": 1, "b": 1}, "as long as nothing is mended, nothing runs"

    mended = two_and_one(schema(mended=True), nodes).compile(saver)
    assert way.state(mended, on()).values == {"log": ["a", "b"]}
    assert way.invoke(mended, None, on(), durability=durability) == {"log": ["a", "b", "c"]}
    assert nodes.ran == {"a": 1, "b": 1, "c": 1}


@SCHEMAS
def test_P32_P2_inside_a_subgraph(way: Way, saver: Saver, nodes: Nodes, schema: Any):
    def around(*, mended: bool) -> Any:
        made = schema(mended=mended)
        inner = two_and_one(made, nodes).compile()
        return StateGraph(schema(mended=True)).add_node("inner", inner).add_edge(START, "inner").compile(saver)

    with pytest.raises(InvalidState) as caught:
        way.invoke(around(mended=False), {"log": []}, on())
    assert any("'inner'" in note for note in caught.value.__notes__)
    state = way.state(around(mended=False), on(), subgraphs=True)
    assert (state.next, state.tasks[0].state.values, state.tasks[0].state.next) == (("inner",), {"log": []}, ("a", "b"))
    assert way.invoke(around(mended=True), None, on()) == {"log": ["a", "b", "c"]}
    assert nodes.ran == {"a": 1, "b": 1, "c": 1}


def test_P32_P2_results_of_sends_that_are_wrong_only_together(way: Way, saver: Saver, nodes: Nodes):
    def graph(*, mended: bool) -> Any:
        builder: StateGraph[Any, Any, Any, Any] = StateGraph(model(mended=mended))
        builder.add_node("work", nodes.node("work"))
        builder.add_conditional_edges(START, lambda _: [Send("work", {"log": []}) for _ in range(4)], ["work"])
        return builder.compile(saver)

    with pytest.raises(InvalidState):
        way.invoke(graph(mended=False), {"log": []}, on())
    assert way.state(graph(mended=False), on()).values == {"log": []}
    assert way.invoke(graph(mended=True), None, on()) == {"log": ["work"] * 4}
    assert nodes.ran == {"work": 4}


class Balance(BaseModel):
    """May not be overdrawn."""

    balance: Annotated[int, operator.add, Field(ge=0)] = 0
    note: str = ""


def booked(way: Way, saver: Saver, **bookings: Any) -> Any:
    builder: StateGraph[Any, Any, Any, Any] = StateGraph(Balance)
    for name, booking in bookings.items():
        builder.add_node(name, booking).add_edge(START, name)
    return builder.compile(saver)


@DURABILITIES
def test_P32_a_result_that_fits_only_together_with_anothers_is_accepted(way: Way, saver: Saver, nodes: Nodes, durability: Any):
    graph = booked(
        way,
        saver,
        pay=nodes.node("pay", lambda: {"balance": -5}),
        receive=nodes.node("receive", lambda: {"balance": 10}),
    )
    assert way.invoke(graph, {}, on(), durability=durability)["balance"] == 5
    assert way.state(graph, on()).values["balance"] == 5
    assert nodes.ran == {"pay": 1, "receive": 1}


def test_P32_P2_a_result_that_nothing_makes_fit_is_blamed_and_runs_again_after_the_fix(way: Way, saver: Saver, nodes: Nodes):
    amount = [-50]
    graph = booked(
        way,
        saver,
        pay=nodes.node("pay", lambda: {"balance": amount[0]}),
        receive=nodes.node("receive", lambda: {"balance": 10}),
    )
    with pytest.raises(InvalidState, match="'balance' cannot hold -50") as caught:
        way.invoke(graph, {}, on())
    assert (caught.value.node, caught.value.key) == ("pay", "balance")
    assert kinds_of(saver, RESULT) == ["receive"], "what was good is stored"
    state = way.state(graph, on())
    assert state.next == ("pay",)
    assert "cannot hold -50" in str(next(task.error for task in state.tasks if task.name == "pay"))
    amount[0] = -3
    assert way.invoke(graph, None, on())["balance"] == 7
    assert nodes.ran == {"pay": 2, "receive": 1}


def test_P32_a_key_without_a_reducer_is_refused_at_once(way: Way, saver: Saver, nodes: Nodes):
    note: list[Any] = [5]
    graph = booked(
        way,
        saver,
        notes=nodes.node("notes", lambda: {"note": note[0]}),
        receive=nodes.node("receive", lambda: {"balance": 10}),
    )
    with pytest.raises(InvalidState, match="'note' cannot hold 5") as caught:
        way.invoke(graph, {}, on())
    assert caught.value.node == "notes"
    note[0] = "five"
    assert way.invoke(graph, None, on()) == {"balance": 10, "note": "five"}
    assert nodes.ran["notes"] == 2


def test_P32_P12_beside_a_question_the_wrong_result_is_told_and_the_question_kept(way: Way, saver: Saver, nodes: Nodes):
    amount = [-50]
    graph = booked(
        way,
        saver,
        asks=nodes.node("asks", lambda: {"balance": interrupt("how much?")}),
        pay=nodes.node("pay", lambda: {"balance": amount[0]}),
    )
    with pytest.raises(InvalidState, match="cannot hold -50"):
        way.invoke(graph, {}, on())
    state = way.state(graph, on())
    assert [pause.value for pause in state.interrupts] == ["how much?"]
    assert set(state.next) == {"asks", "pay"}
    assert way.invoke(graph, Command(resume=60), on())["balance"] == 10, "together they fit"
    assert nodes.ran == {"asks": 2, "pay": 2}


def test_P32_an_edit_and_a_callers_update_are_validated_too(way: Way, saver: Saver, nodes: Nodes):
    graph = booked(way, saver, asks=nodes.node("asks", lambda: {"balance": interrupt("how much?")}))
    way.invoke(graph, {"balance": 1}, on())
    before = rows_of(saver)
    with pytest.raises(InvalidState, match="'balance' cannot hold -1"):
        way.edit(graph, on(), {"balance": -2}, as_node="asks")
    with pytest.raises(InvalidState, match="'balance' cannot hold -1"):
        way.invoke(graph, Command(resume=1, update={"balance": -2}), on())
    with pytest.raises(InvalidState, match="'balance' cannot hold -1"):
        way.invoke(graph, {"balance": -2}, on())
    assert rows_of(saver) == before, "nothing was stored"
    assert way.invoke(graph, Command(resume=4, update={"balance": 2}), on())["balance"] == 7


def test_P32_without_a_saver_results_count_together(way: Way, nodes: Nodes):
    builder: StateGraph[Any, Any, Any, Any] = StateGraph(Balance)
    for name, amount in (("pay", -5), ("receive", 10)):
        builder.add_node(name, nodes.node(name, lambda amount=amount: {"balance": amount})).add_edge(START, name)
    assert way.invoke(builder.compile(), {})["balance"] == 5
