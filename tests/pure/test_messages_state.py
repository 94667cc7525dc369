"""`MessagesState` in a running graph, in memory and stored."""

from __future__ import annotations

import operator
from pathlib import Path
from typing import Annotated, Any

import pytest
from langchain_core.messages import AIMessage

from perdure import START, Command, InMemorySaver, Overwrite, Send, SqliteSaver
from perdure.errors import InvalidUpdateError
from perdure.graph import MessagesState, StateGraph, add_messages
from perdure.messages import REMOVE_ALL_MESSAGES, Message, RemoveMessage


class Noted(MessagesState):
    notes: Annotated[list[Any], operator.add]


@pytest.fixture(params=["memory", "sqlite"])
def saver(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    return InMemorySaver() if request.param == "memory" else SqliteSaver(str(tmp_path / "messages.db"))


def thread(name: str = "t") -> Any:
    return {"configurable": {"thread_id": name}}


def test_a_conversation_goes_on_over_turns(saver: Any):
    def answer(state: MessagesState) -> dict[str, Any]:
        return {"messages": {"role": "assistant", "content": f"you said {state['messages'][-1].content}"}}

    graph = StateGraph(MessagesState).add_node(answer).add_edge(START, "answer").compile(checkpointer=saver)
    graph.invoke({"messages": "hi"}, thread())
    out = graph.invoke({"messages": [{"role": "user", "content": "bye"}]}, thread())
    assert [message.content for message in out["messages"]] == ["hi", "you said hi", "bye", "you said bye"]
    stored = graph.get_state(thread()).values["messages"]
    assert stored == out["messages"]
    assert all(type(message) is Message for message in stored)
    graph.update_state(thread(), {"messages": [RemoveMessage(stored[0].id), stored[1] | {"content": "edited"}]})
    edited = graph.get_state(thread()).values["messages"]
    assert [message.content for message in edited] == ["edited", "bye", "you said bye"]
    graph.update_state(thread(), {"messages": RemoveMessage(REMOVE_ALL_MESSAGES)})
    assert graph.get_state(thread()).values == {"messages": []}


def test_messages_of_langchain_are_stored_as_what_they_are(saver: Any):
    graph = (
        StateGraph(MessagesState)
        .add_node("answer", lambda _: {"messages": AIMessage("yo")})
        .add_edge(START, "answer")
        .compile(checkpointer=saver)
    )
    out = graph.invoke({"messages": "hi"}, thread())
    assert [type(message) for message in out["messages"]] == [Message, AIMessage]
    assert graph.get_state(thread()).values == out


@pytest.mark.parametrize("written", ["yo", ("ai", "yo"), [Message(role="assistant", content="yo")], AIMessage("yo")])
@pytest.mark.parametrize("as_command", [False, True])
def test_everyone_sees_a_message_under_one_id(written: Any, as_command: bool):
    """The stream, the conditional edge, what it sends, and the state."""
    seen: list[Any] = []

    def answer(_: Noted) -> Any:
        update = {"messages": written}
        return Command(update=update) if as_command else update

    def route(state: Noted) -> Send:
        return Send("look", state["messages"][-1])

    def look(message: Any) -> dict[str, Any]:
        return {"notes": [message.id]}

    graph = StateGraph(Noted).add_node(answer).add_node(look).add_edge(START, "answer")
    compiled = graph.add_conditional_edges("answer", route, ["look"]).compile()
    for mode, data in compiled.stream({"messages": "hi", "notes": []}, stream_mode=["updates", "values"]):
        if mode == "updates" and "answer" in data:
            update = data["answer"]["messages"]
            seen.append((update[0] if isinstance(written, list) else update).id)
        last = data
    seen.append(last["messages"][-1].id)
    assert {*seen, *last["notes"]} == {seen[0]}
    assert seen[0]


def test_the_input_too_has_one_id():
    graph = StateGraph(Noted).add_node("look", lambda message: {"notes": [message.id]})
    graph.add_conditional_edges(START, lambda state: Send("look", state["messages"][-1]), ["look"])
    out = graph.compile().invoke({"messages": "hi", "notes": []})
    assert out["notes"] == [out["messages"][0].id]


def test_P35_what_a_node_returned_is_not_changed():
    given = Message(role="user", content="hi")
    returned = Message(role="assistant", content="yo")
    graph = StateGraph(MessagesState).add_node("answer", lambda _: {"messages": [returned]}).add_edge(START, "answer").compile()
    out = graph.invoke({"messages": [given]})
    assert all(message.id for message in out["messages"])
    assert (given, returned) == ({"role": "user", "content": "hi"}, {"role": "assistant", "content": "yo"})


@pytest.mark.parametrize("wrong", [5, {"role": "x", "content": "y"}, [{"content": "y"}]])
def test_P32_what_is_no_message_is_the_error_of_the_node_that_returned_it(wrong: Any, saver: Any):
    graph = StateGraph(MessagesState).add_node("answer", lambda _: {"messages": wrong}).add_edge(START, "answer")
    compiled = graph.compile(checkpointer=saver)
    with pytest.raises(InvalidUpdateError, match="message"):
        compiled.invoke({"messages": "hi"}, thread())
    state = compiled.get_state(thread())
    assert [message.content for message in state.values["messages"]] == ["hi"]
    assert "message" in str(state.tasks[0].error)


def test_an_overwrite_replaces_the_conversation():
    graph = StateGraph(MessagesState).add_node(
        "forget", lambda _: {"messages": Overwrite([Message(role="user", content="new", id="1")])}
    )
    out = graph.add_edge(START, "forget").compile().invoke({"messages": ["a", "b"]})
    assert out == {"messages": [{"role": "user", "content": "new", "id": "1"}]}


def test_a_state_may_be_the_conversation_itself():
    graph: Any = StateGraph(Annotated[list[Any], add_messages])
    out = (
        graph.add_node("answer", lambda state: ("ai", state[-1].content + "!")).add_edge(START, "answer").compile().invoke("hi")
    )
    assert [(message.role, message.content) for message in out] == [("user", "hi"), ("assistant", "hi!")]


def test_schemas_with_the_same_format_agree():
    class In(MessagesState):
        shaped: Annotated[list[Any], add_messages(format="openai")]

    class Out(MessagesState):
        shaped: Annotated[list[Any], add_messages(format="openai")]

    picture = {"type": "image", "source": {"type": "url", "url": "https://x"}}
    graph = StateGraph(In, output_schema=Out).add_node("a", lambda _: {"shaped": {"role": "user", "content": [picture]}})
    out = graph.add_edge(START, "a").compile().invoke({"messages": "hi"})
    assert out["shaped"][0].content == [{"type": "image_url", "image_url": {"url": "https://x"}}]
