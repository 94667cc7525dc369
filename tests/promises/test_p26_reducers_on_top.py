"""P26: what is built on the library's reducers and kinds, and does more than these, is not taken for them: its outcome is what is seen,
stored and read again.
"""

from __future__ import annotations

import functools
import operator
from typing import Annotated, Any, TypedDict

import pytest

from perdure.channels import BinaryOperatorAggregate
from perdure.checkpoint.saver import Saver
from perdure.graph import START, StateGraph, add_messages
from tests.promises.ways import Way, on

SIZE = 3
LONG = "some words " * 60


@functools.wraps(add_messages)
def newest(left: Any, right: Any) -> list[Any]:
    """Keeps a few, as a decorator around `add_messages` would."""
    return add_messages(left, right)[-SIZE:]


@functools.wraps(add_messages)
def marking(left: Any, right: Any) -> list[Any]:
    """Changes elements that it leaves where they are."""
    found = add_messages(left, right)
    found[0]["name"] = f"first of {len(found)}"
    return found


class Newest(BinaryOperatorAggregate[Any]):
    """Keeps a few of what the reducer makes."""

    __slots__ = ()

    def update(self, values: Any) -> bool:
        is_changed = super().update(values)
        self.value = self.value[-SIZE:]
        return is_changed


class Wrapped(TypedDict):
    messages: Annotated[list[Any], newest]


class Marked(TypedDict):
    messages: Annotated[list[Any], marking]


class Child(TypedDict):
    messages: Annotated[list[Any], Newest(list, operator.add)]


class ChildOfMessages(TypedDict):
    messages: Annotated[list[Any], Newest(list, add_messages)]


def said(text: str) -> dict[str, Any]:
    return {"role": "user", "content": f"{text} {LONG}", "id": text}


def answering(way: Way, saver: Saver, state: Any) -> Any:
    def answer(given: Any) -> Any:
        return {"messages": [said(f"answer to {given['messages'][-1]['id']}")]}

    return StateGraph(state).add_node("answer", way.node(answer)).add_edge(START, "answer").compile(checkpointer=saver)


@pytest.mark.parametrize("durability", ["sync", "exit"])
@pytest.mark.parametrize("state", [Wrapped, Child, ChildOfMessages])
def test_P26_a_window_of_a_conversation_moves_and_is_stored(saver: Saver, way: Way, state: Any, durability: str):
    graph = answering(way, saver, state)
    for number in range(4):
        found = way.invoke(graph, {"messages": [said(str(number))]}, on(), durability=durability)["messages"]
        expected = [f"answer to {number - 1}", str(number), f"answer to {number}"][-2 if number == 0 else -SIZE :]
        assert [message["id"] for message in found] == expected
        assert way.state(graph, on()).values["messages"] == found
        saver.heads.clear()
        assert way.state(graph, on()).values["messages"] == found
    for snapshot in way.history(graph, on()):
        assert len(snapshot.values.get("messages", [])) <= SIZE


def test_P26_a_wrapper_that_changes_elements_in_place_is_not_believed_to_leave_them_alone(saver: Saver, way: Way):
    graph = answering(way, saver, Marked)
    for number in range(3):
        found = way.invoke(graph, {"messages": [said(str(number))]}, on())["messages"]
        assert found[0]["name"] == f"first of {2 * number + 2}"
        saver.heads.clear()
        assert way.state(graph, on()).values["messages"] == found


class Counting:
    """A reducer with attributes of its own, which may have any name."""

    def __init__(self) -> None:
        self.added = 0

    def __call__(self, left: list[Any], right: list[Any]) -> list[Any]:
        self.added += len(right)
        return left + right


def test_P26_a_reducer_may_count_what_it_added(way: Way):
    count = Counting()

    class Counted(TypedDict):
        messages: Annotated[list[Any], count]

    builder = StateGraph(Counted).add_node("answer", way.node(lambda _: {"messages": [2, 3]})).add_edge(START, "answer")
    assert way.invoke(builder.compile(), {"messages": [1]}, None) == {"messages": [1, 2, 3]}
    assert count.added == 3
