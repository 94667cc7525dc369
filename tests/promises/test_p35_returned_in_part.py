"""P35: what a node changed in place and returned in part, or as a copy, is its update as it returned it; what it took it from is put right.
The result, the stored state and the history say the same.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Annotated, Any, NamedTuple

import pytest
from langchain_core.messages import AIMessage
from typing_extensions import TypedDict

from perdure.channels import UntrackedValue
from perdure.checkpoint.saver import Saver
from perdure.graph import START, MessagesState, StateGraph, add_messages
from perdure.messages import Message
from perdure.types import Command, Overwrite, interrupt
from tests.promises.ways import Way, on

TEXT = "some words " * 40

pytestmark = pytest.mark.filterwarnings("ignore::perdure.errors.InPlaceChangeWarning")


def merged(left: Any, right: Any) -> list[Any]:
    """A reducer of which nobody knows that it is `add_messages`."""
    return add_messages(left, right)


class State(TypedDict, total=False):
    items: list[Any]
    table: dict[str, Any]
    log: Annotated[list[Any], operator.add]
    messages: Annotated[list[Any], merged]
    other: Any


class Case(NamedTuple):
    """What a node does to the state and returns, and what the state is then."""

    answer: Callable[[Any], Any]
    expected: dict[str, Any]


def said(number: int, text: str = TEXT) -> Message:
    return Message(role="user", content=text, id=str(number))


def given() -> State:
    items = [{"text": TEXT, "at": at} for at in range(3)]
    return {
        "items": items,
        "table": {"a": {"text": TEXT}},
        "log": [{"at": 0, "text": TEXT}],
        "messages": [said(0), said(1)],
    }


def changed_item(state: Any) -> Any:
    state["items"][1]["at"] = "new"
    return state["items"]


def changed_row(state: Any) -> Any:
    state["table"]["a"]["text"] = "new"
    return state["table"]


def changed_entry(state: Any) -> Any:
    state["log"][0]["at"] = "new"
    return state["log"][:1]


def changed_message(state: Any) -> Any:
    state["messages"][1]["content"] = "new"
    return state["messages"][1:]


NEW = {"text": TEXT, "at": "new"}
ITEMS: list[Any] = given()["items"]
CASES = {
    "a list, copied": Case(lambda state: {"items": [*changed_item(state)]}, {"items": [ITEMS[0], NEW, ITEMS[2]]}),
    "a list, and more": Case(lambda state: {"items": [*changed_item(state), 9]}, {"items": [ITEMS[0], NEW, ITEMS[2], 9]}),
    "a dict, copied": Case(lambda state: {"table": {**changed_row(state)}}, {"table": {"a": {"text": "new"}}}),
    "what a dict holds": Case(lambda state: {"table": {"b": changed_row(state)["a"]}}, {"table": {"b": {"text": "new"}}}),
    "an element, added": Case(
        lambda state: {"log": changed_entry(state)}, {"log": [*given()["log"], {"at": "new", "text": TEXT}]}
    ),
    "an element, overwriting": Case(
        lambda state: {"log": Overwrite(changed_entry(state))}, {"log": [{"at": "new", "text": TEXT}]}
    ),
    "a message": Case(lambda state: {"messages": changed_message(state)}, {"messages": [said(0), said(1, "new")]}),
    "a message, for another key": Case(lambda state: {"other": changed_message(state)}, {"other": [said(1, "new")]}),
    "an element, for another key": Case(lambda state: {"other": (changed_item(state)[1],)}, {"other": (NEW,)}),
}
EVERY_CASE = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


def check(saver: Saver, way: Way, graph: Any, found: Any, case: Case) -> None:
    expected = {**given(), **case.expected}
    assert found == expected
    saver.heads.clear()
    assert way.state(graph, on()).values == expected
    newest, *older = [snapshot.values for snapshot in way.history(graph, on())]
    assert newest == expected
    assert all(values == given() for values in older if "items" in values)


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
@EVERY_CASE
def test_P35_what_is_returned_in_part_is_the_update(saver: Saver, way: Way, case: Case, durability: str):
    builder = StateGraph(State).add_node("answer", way.node(case.answer)).add_edge(START, "answer")
    graph = builder.compile(checkpointer=saver)
    check(saver, way, graph, way.invoke(graph, given(), on(), durability=durability), case)


@pytest.mark.parametrize("durability", ["sync", "exit"])
@EVERY_CASE
def test_P35_what_is_returned_in_part_beside_a_question_is_the_update(saver: Saver, way: Way, case: Case, durability: str):
    def asks(_: Any) -> Any:
        interrupt("?")
        return {}

    builder = StateGraph(State).add_node("answer", way.node(case.answer)).add_node("asks", asks)
    graph = builder.add_edge(START, "answer").add_edge(START, "asks").compile(checkpointer=saver)
    way.invoke(graph, given(), on(), durability=durability)
    check(saver, way, graph, way.invoke(graph, Command(resume="!"), on(), durability=durability), case)


def test_P35_the_caller_keeps_the_messages_that_it_gave(saver: Saver, way: Way):
    mine = said(0)

    def answer(state: Any) -> Any:
        mine["content"] = "changed by the caller"
        return {"log": [state["items"][0]["content"]]}

    builder = StateGraph(State).add_node("answer", way.node(answer)).add_edge(START, "answer")
    found = way.invoke(builder.compile(checkpointer=saver), {"items": [mine]}, on())
    assert (found["items"], found["log"]) == ([said(0)], [TEXT])


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
@pytest.mark.parametrize("size", [1, 3])
def test_P35_a_message_of_langchain_that_is_changed_and_returned_is_the_update(
    saver: Saver, way: Way, durability: str, size: int
):
    def answer(state: Any) -> Any:
        last = state["messages"][-1]
        last.content = "new"
        last.response_metadata["seen"] = True
        return {"messages": [last]}

    graph = StateGraph(MessagesState).add_node("answer", way.node(answer)).add_edge(START, "answer").compile(checkpointer=saver)
    before = [AIMessage(TEXT, id=str(at)) for at in range(size)]
    found = way.invoke(graph, {"messages": before}, on(), durability=durability)["messages"]
    expected = [*before[:-1], AIMessage("new", id=str(size - 1), response_metadata={"seen": True})]
    assert [message.content for message in before] == [TEXT] * size
    assert found == expected
    saver.heads.clear()
    assert way.state(graph, on()).values["messages"] == expected


class Row(dict[str, Any]):
    """A child of dict that holds nothing else."""

    __slots__ = ()


class Rows(TypedDict):
    rows: list[Row]


def test_P35_a_child_of_dict_that_is_changed_and_returned_in_part_is_the_update(saver: Saver, way: Way):
    def answer(state: Any) -> Any:
        state["rows"][1]["text"] = "new"
        return {"rows": state["rows"][1:]}

    saver.serde.register(Row)
    graph = StateGraph(Rows).add_node("answer", way.node(answer)).add_edge(START, "answer").compile(checkpointer=saver)
    found = way.invoke(graph, {"rows": [Row(text=TEXT), Row(text=TEXT), Row(text=TEXT)]}, on())["rows"]
    assert found == [Row(text="new"), Row(text=TEXT)]
    assert {type(row) for row in found} == {Row}
    saver.heads.clear()
    assert way.state(graph, on()).values["rows"] == found


class Handle(dict[str, Any]):
    """A child of dict that has attributes."""

    __slots__ = ("__dict__",)


class Handles(TypedDict, total=False):
    items: list[Any]
    handle: Annotated[Any, UntrackedValue]


def test_P35_a_child_of_dict_with_attributes_keeps_them_beside_what_is_put_right(saver: Saver, way: Way):
    handle = Handle(a=1)
    handle.name = "mine"

    def answer(state: Any) -> Any:
        state["items"].append("new")
        return {"handle": [handle]}

    graph = StateGraph(Handles).add_node("answer", way.node(answer)).add_edge(START, "answer").compile(checkpointer=saver)
    [found] = way.invoke(graph, {"items": [{"text": TEXT}]}, on())["handle"]
    assert (found, found.name) == ({"a": 1}, "mine")


@pytest.mark.parametrize("is_input", [True, False])
def test_P35_what_holds_itself_is_no_obstacle_where_it_is_not_stored(saver: Saver, way: Way, is_input: bool):
    own: list[Any] = []
    own.append(own)

    def answer(state: Any) -> Any:
        state["items"].append("new")
        return {} if is_input else {"handle": own}

    graph = StateGraph(Handles).add_node("answer", way.node(answer)).add_edge(START, "answer").compile(checkpointer=saver)
    given = {"items": [{"text": TEXT}]}
    found = way.invoke(graph, {**given, "handle": own} if is_input else given, on())
    assert found["handle"] is own
    assert found["items"] == given["items"]
