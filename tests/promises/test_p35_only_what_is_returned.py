"""P35: only returned writes change state. What goes in and out is detached; what a node changed in place and did not return is undone
before the next super-step, and warned about.
"""

from __future__ import annotations

import copy
import operator
import warnings
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from typing import Annotated, Any, NamedTuple

import pytest
from pydantic import BaseModel
from typing_extensions import TypedDict

from perdure.checkpoint.saver import Saver
from perdure.errors import InPlaceChangeWarning
from perdure.graph import START, MessagesState, StateGraph
from perdure.messages import Message
from perdure.types import Command, interrupt
from tests.promises.ways import Way, on


class Model(BaseModel):
    items: list[Any] = []


class State(TypedDict, total=False):
    value: Any
    model: Model
    log: Annotated[list[Any], operator.add]


class Opaque(NamedTuple):
    """An element whose contents nobody looks into."""

    items: list[Any]


class Kind(NamedTuple):
    """A value, and how code changes it in place."""

    value: Any
    change: Callable[[Any], Any]


KINDS = {
    "list": Kind([1], lambda value: value.append(9)),
    "a list, shorter": Kind([1, 2], lambda value: value.pop()),
    "a list in another order": Kind([1, 2], lambda value: value.reverse()),
    "dict": Kind({"a": 1}, lambda value: value.update(b=9)),
    "a dict in another order": Kind({"a": 1, "b": 2}, lambda value: value.update(a=value.pop("a"))),
    "True for 1": Kind({"a": 1}, lambda value: value.update(a=True)),
    "a list in a dict": Kind({"a": [1]}, lambda value: value["a"].append(9)),
    "set": Kind({1}, lambda value: value.add(9)),
    "a list in a tuple": Kind(([1],), lambda value: value[0].append(9)),
    "deque": Kind(deque([1, 2], maxlen=2), lambda value: value.append(9)),
    "a list in a deque": Kind(deque([[1]]), lambda value: value[0].append(9)),
    "defaultdict": Kind(defaultdict(list, a=[1]), lambda value: value["b"].append(9)),
    "OrderedDict": Kind(OrderedDict(a=1, b=2), lambda value: value.move_to_end("a")),
    "Counter": Kind(Counter("ab"), lambda value: value.update("b")),
    "bytearray": Kind(bytearray(b"a"), lambda value: value.extend(b"z")),
    "a model": Kind(Model(items=[1]), lambda value: value.items.append(9)),
    "an attribute of a model": Kind(Model(items=[1]), lambda value: setattr(value, "items", [9])),
}
EVERY_KIND = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)


def changing(way: Way, change: Callable[[Any], Any], seen: list[Any]) -> StateGraph[Any, Any, Any, Any]:
    """A node that changes the state in place, and one that looks at it."""

    def changes(state: State) -> Any:
        change(state["value"])
        return {"log": ["changes"]}

    def looks(state: State) -> Any:
        seen.append(copy.deepcopy(state["value"]))
        return {"log": ["looks"]}

    builder: StateGraph[Any, Any, Any, Any] = StateGraph(State)
    builder.add_node("changes", way.node(changes)).add_node("looks", way.node(looks))
    return builder.add_edge(START, "changes").add_edge("changes", "looks")


def same(one: Any, other: Any) -> bool:
    """Equal, of the same type and in the same order."""
    return repr(one) == repr(other) and type(one) is type(other)


@EVERY_KIND
def test_P35_what_a_node_changed_in_place_is_undone_and_warned_about(way: Way, saver: Saver, kind: Kind):
    seen: list[Any] = []
    graph = changing(way, kind.change, seen).compile(saver)
    with pytest.warns(InPlaceChangeWarning, match=r"state\['value'\] was changed in place while node 'changes' ran.*undone"):
        out = way.invoke(graph, {"value": copy.deepcopy(kind.value), "log": []}, on())
    assert same(seen[0], kind.value), "the next node sees what is stored"
    assert same(out["value"], kind.value)
    assert same(way.state(graph, on()).values["value"], kind.value)


@EVERY_KIND
def test_P35_what_goes_in_and_what_comes_out_are_detached(way: Way, saver: Saver, kind: Kind):
    graph = changing(way, lambda _: None, []).compile(saver)
    mine = copy.deepcopy(kind.value)
    out = way.invoke(graph, {"value": mine, "log": []}, on())
    kind.change(mine)
    kind.change(out["value"])
    kind.change(way.state(graph, on()).values["value"])
    assert same(way.state(graph, on()).values["value"], kind.value)


@pytest.mark.parametrize("name", [name for name in KINDS if "model" not in name])
def test_P35_the_callers_containers_are_not_those_of_the_nodes(way: Way, name: str):
    kind, mine = KINDS[name], copy.deepcopy(KINDS[name].value)
    with pytest.warns(InPlaceChangeWarning):
        way.invoke(changing(way, kind.change, []).compile(), {"value": mine, "log": []})
    assert same(mine, kind.value), "without a saver too"


@EVERY_KIND
def test_P35_what_was_changed_and_returned_is_an_update(way: Way, saver: Saver, kind: Kind):
    def changes(state: State) -> Any:
        kind.change(state["value"])
        return {"value": state["value"]}

    builder: StateGraph[Any, Any, Any, Any] = StateGraph(State).add_node("changes", way.node(changes))
    graph = builder.add_edge(START, "changes").compile(saver)
    expected = copy.deepcopy(kind.value)
    kind.change(expected)
    with warnings.catch_warnings():
        warnings.simplefilter("error", InPlaceChangeWarning)
        out = way.invoke(graph, {"value": copy.deepcopy(kind.value)}, on())
    assert same(out["value"], expected)
    assert same(way.state(graph, on()).values["value"], expected)


def test_P35_a_list_that_was_changed_and_returned_as_a_copy_is_an_update_of_what_was_there(way: Way, saver: Saver):
    def changes(state: State) -> Any:
        state["log"].append("new")
        return {"log": list(state["log"])}

    builder: StateGraph[Any, Any, Any, Any] = StateGraph(State).add_node("changes", way.node(changes))
    graph = builder.add_edge(START, "changes").compile(saver)
    assert way.invoke(graph, {"log": ["old"]}, on()) == {"log": ["old", "old", "new"]}
    assert way.state(graph, on()).values == {"log": ["old", "old", "new"]}


def test_P35_a_message_that_was_appended_and_returned_is_an_update(way: Way, saver: Saver):
    def talk(state: Any) -> Any:
        state["messages"].append(Message(role="assistant", content="a", id="1"))
        return {"messages": state["messages"]}

    builder: StateGraph[Any, Any, Any, Any] = StateGraph(MessagesState).add_node("talk", way.node(talk))
    graph = builder.add_edge(START, "talk").compile(saver)
    out = way.invoke(graph, {"messages": [Message(role="user", content="hi", id="0")]}, on())
    assert [message.id for message in out["messages"]] == ["0", "1"]
    assert [message.id for message in way.state(graph, on()).values["messages"]] == ["0", "1"]


def test_P35_a_list_of_elements_that_nobody_looks_into_is_watched_all_the_same(way: Way):
    seen: list[Any] = []
    graph = changing(way, lambda value: value.append(9), seen).compile()
    with pytest.warns(InPlaceChangeWarning, match="was undone"):
        way.invoke(graph, {"value": [Opaque([1])], "log": []})
    assert seen == [[Opaque([1])]]


def test_P35_a_node_that_fails_or_asks_has_changed_nothing(way: Way, saver: Saver):
    mended: list[bool] = []

    def fails(state: State) -> Any:
        state["value"].append("failed")
        if not mended:
            raise ConnectionError("down")
        return {"log": [interrupt("?")]}

    builder: StateGraph[Any, Any, Any, Any] = StateGraph(State).add_node("fails", way.node(fails))
    graph = builder.add_edge(START, "fails").compile(saver)
    with pytest.warns(InPlaceChangeWarning, match="'fails'"), pytest.raises(ConnectionError):
        way.invoke(graph, {"value": [1], "log": []}, on())
    mended.append(True)
    with pytest.warns(InPlaceChangeWarning, match="'fails'"):
        assert way.invoke(graph, None, on())["value"] == [1]
    with pytest.warns(InPlaceChangeWarning, match="'fails'"):
        assert way.invoke(graph, Command(resume="!"), on()) == {"value": [1], "log": ["!"]}


def test_P35_nodes_side_by_side_are_all_named(way: Way, saver: Saver):
    def changes(state: State) -> Any:
        state["value"].append(9)
        return {"log": ["one"]}

    builder: StateGraph[Any, Any, Any, Any] = StateGraph(State)
    for name in ("left", "right"):
        builder.add_node(name, way.node(changes)).add_edge(START, name)
    with pytest.warns(InPlaceChangeWarning, match="'left', 'right'"):
        out = way.invoke(builder.compile(saver), {"value": [1], "log": []}, on())
    assert out == {"value": [1], "log": ["one", "one"]}


def test_P35_a_subgraph_that_changes_its_input_in_place_does_not_change_its_parents_state(way: Way, saver: Saver):
    seen: list[Any] = []
    inner = changing(way, lambda value: value.append(9), seen).compile()

    def looks(state: State) -> Any:
        seen.append(list(state["value"]))
        return {}

    builder: StateGraph[Any, Any, Any, Any] = StateGraph(State).add_node("inner", inner).add_node("after", way.node(looks))
    graph = builder.add_edge(START, "inner").add_edge("inner", "after").compile(saver)
    with pytest.warns(InPlaceChangeWarning, match="'changes'"):
        assert way.invoke(graph, {"value": [1], "log": []}, on())["value"] == [1]
    assert seen == [[1], [1]]


def said(text: str) -> dict[str, Any]:
    return {"role": "user", "content": f"{text} " + "some words " * 60, "id": text}


def test_P35_a_message_that_is_made_anew_in_place_is_put_right(saver: Saver, way: Way):
    def answer(given: Any) -> Any:
        given["messages"][0].__init__(role="user", content="changed", id="0")
        return {"messages": [said("answer")]}

    graph = StateGraph(MessagesState).add_node("answer", way.node(answer)).add_edge(START, "answer").compile(checkpointer=saver)
    with pytest.warns(UserWarning, match="in place"):
        found = way.invoke(graph, {"messages": [said("0")]}, on())["messages"]
    assert found == [said("0"), said("answer")] == way.state(graph, on()).values["messages"]
