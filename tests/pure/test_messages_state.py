"""`MessagesState` in a running graph, in memory and stored, in both colours."""

from __future__ import annotations

import operator
from typing import Annotated, Any

import pytest
from langchain_core.messages import AIMessage

from perdure import START, Command, Overwrite, Send
from perdure.checkpoint.saver import Saver
from perdure.errors import InvalidUpdateError
from perdure.graph import MessagesState, StateGraph, add_messages
from perdure.messages import REMOVE_ALL_MESSAGES, Message, RemoveMessage
from tests.promises.conftest import saver, way
from tests.promises.ways import Way, on

__all__ = ["saver", "way"]


class Noted(MessagesState):
    notes: Annotated[list[Any], operator.add]


def test_a_conversation_goes_on_over_turns(saver: Saver, way: Way):
    def answer(state: MessagesState) -> dict[str, Any]:
        return {"messages": {"role": "assistant", "content": f"you said {state['messages'][-1].content}"}}

    graph = StateGraph(MessagesState).add_node("answer", way.node(answer)).add_edge(START, "answer").compile(checkpointer=saver)
    way.invoke(graph, {"messages": "hi"}, on())
    out = way.invoke(graph, {"messages": [{"role": "user", "content": "bye"}]}, on())
    assert [message.content for message in out["messages"]] == ["hi", "you said hi", "bye", "you said bye"]
    stored = way.state(graph, on()).values["messages"]
    assert stored == out["messages"]
    assert all(type(message) is Message for message in stored)
    way.edit(graph, on(), {"messages": [RemoveMessage(stored[0].id), stored[1] | {"content": "edited"}]})
    edited = way.state(graph, on()).values["messages"]
    assert [message.content for message in edited] == ["edited", "bye", "you said bye"]
    way.edit(graph, on(), {"messages": RemoveMessage(REMOVE_ALL_MESSAGES)})
    assert way.state(graph, on()).values == {"messages": []}


def test_messages_of_langchain_are_stored_as_what_they_are(saver: Saver, way: Way):
    graph = (
        StateGraph(MessagesState)
        .add_node("answer", way.node(lambda _: {"messages": AIMessage("yo")}))
        .add_edge(START, "answer")
        .compile(checkpointer=saver)
    )
    out = way.invoke(graph, {"messages": "hi"}, on())
    assert [type(message) for message in out["messages"]] == [Message, AIMessage]
    assert way.state(graph, on()).values == out


@pytest.mark.parametrize("written", ["yo", ("ai", "yo"), [Message(role="assistant", content="yo")], AIMessage("yo")])
@pytest.mark.parametrize("as_command", [False, True])
def test_everyone_sees_a_message_under_one_id(written: Any, as_command: bool, way: Way):
    """The stream, the conditional edge, what it sends, and the state."""
    seen: list[Any] = []

    def answer(_: Noted) -> Any:
        update = {"messages": written}
        return Command(update=update) if as_command else update

    def route(state: Noted) -> Send:
        return Send("look", state["messages"][-1])

    def look(message: Any) -> dict[str, Any]:
        return {"notes": [message.id]}

    graph = StateGraph(Noted).add_node("answer", way.node(answer)).add_node("look", way.node(look)).add_edge(START, "answer")
    compiled = graph.add_conditional_edges("answer", way.node(route), ["look"]).compile()
    for mode, data in way.stream(compiled, {"messages": "hi", "notes": []}, stream_mode=["updates", "values"]):
        if mode == "updates" and "answer" in data:
            update = data["answer"]["messages"]
            seen.append((update[0] if isinstance(written, list) else update).id)
        last = data
    seen.append(last["messages"][-1].id)
    assert {*seen, *last["notes"]} == {seen[0]}
    assert seen[0]


def test_the_input_too_has_one_id(way: Way):
    graph = StateGraph(Noted).add_node("look", way.node(lambda message: {"notes": [message.id]}))
    graph.add_conditional_edges(START, way.node(lambda state: Send("look", state["messages"][-1])), ["look"])
    out = way.invoke(graph.compile(), {"messages": "hi", "notes": []})
    assert out["notes"] == [out["messages"][0].id]


def test_P35_what_a_node_returned_is_not_changed(way: Way):
    given = Message(role="user", content="hi")
    returned = Message(role="assistant", content="yo")
    graph = (
        StateGraph(MessagesState)
        .add_node("answer", way.node(lambda _: {"messages": [returned]}))
        .add_edge(START, "answer")
        .compile()
    )
    out = way.invoke(graph, {"messages": [given]})
    assert all(message.id for message in out["messages"])
    assert (given, returned) == ({"role": "user", "content": "hi"}, {"role": "assistant", "content": "yo"})


@pytest.mark.parametrize("wrong", [5, {"role": "x", "content": "y"}, [{"content": "y"}]])
def test_P32_what_is_no_message_is_the_error_of_the_node_that_returned_it(wrong: Any, saver: Saver, way: Way):
    graph = StateGraph(MessagesState).add_node("answer", way.node(lambda _: {"messages": wrong})).add_edge(START, "answer")
    compiled = graph.compile(checkpointer=saver)
    with pytest.raises(InvalidUpdateError, match="message"):
        way.invoke(compiled, {"messages": "hi"}, on())
    state = way.state(compiled, on())
    assert [message.content for message in state.values["messages"]] == ["hi"]
    assert "message" in str(state.tasks[0].error)


def test_an_overwrite_replaces_the_conversation(way: Way):
    graph = StateGraph(MessagesState).add_node(
        "forget", way.node(lambda _: {"messages": Overwrite([Message(role="user", content="new", id="1")])})
    )
    out = way.invoke(graph.add_edge(START, "forget").compile(), {"messages": ["a", "b"]})
    assert out == {"messages": [{"role": "user", "content": "new", "id": "1"}]}


def test_a_state_may_be_the_conversation_itself(way: Way):
    graph: Any = StateGraph(Annotated[list[Any], add_messages])
    graph.add_node("answer", way.node(lambda state: ("ai", state[-1].content + "!"))).add_edge(START, "answer")
    out = way.invoke(graph.compile(), "hi")
    assert [(message.role, message.content) for message in out] == [("user", "hi"), ("assistant", "hi!")]


def test_schemas_with_the_same_format_agree(way: Way):
    class In(MessagesState):
        shaped: Annotated[list[Any], add_messages(format="openai")]

    class Out(MessagesState):
        shaped: Annotated[list[Any], add_messages(format="openai")]

    picture = {"type": "image", "source": {"type": "url", "url": "https://x"}}
    graph = StateGraph(In, output_schema=Out).add_node(
        "a", way.node(lambda _: {"shaped": {"role": "user", "content": [picture]}})
    )
    out = way.invoke(graph.add_edge(START, "a").compile(), {"messages": "hi"})
    assert out["shaped"][0].content == [{"type": "image_url", "image_url": {"url": "https://x"}}]
