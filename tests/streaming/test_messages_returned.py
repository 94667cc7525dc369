"""Messages that nodes return are told once, whole; `push_message`."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.messages import RemoveMessage as LangChainRemoveMessage
from typing_extensions import TypedDict

from perdure import START, CachePolicy, Command, Overwrite, RetryPolicy, Send, StateGraph, interrupt
from perdure.cache.memory import InMemoryCache
from perdure.checkpoint.memory import InMemorySaver
from perdure.checkpoint.saver import Saver
from perdure.errors import InvalidUpdateError, UnknownKey
from perdure.func import entrypoint, task
from perdure.graph import MessagesState, add_messages
from perdure.graph.message import push_message
from perdure.messages import Message, RemoveMessage
from tests.engine.colours import Colour, thread
from tests.streaming.stories import abreast, chat, line

HI = {"messages": Message(role="user", content="hi", id="h")}


def ids(items: list[Any]) -> list[Any]:
    return [message.id for message, _ in items]


def returns(value: Any) -> Any:
    return lambda _: {"messages": value}


@pytest.mark.parametrize(
    "value",
    [
        Message(role="assistant", content="a", id="1"),
        [("assistant", "a")],
        "a",
        [AIMessage("a", id="1")],
        Overwrite([Message(role="assistant", content="a", id="1")]),
    ],
    ids=repr,
)
def test_a_returned_message_is_told_once_before_the_update(colour: Colour, value: Any) -> None:
    graph = chat(colour.node(returns(value))).compile()
    items = colour.stream(graph, HI, stream_mode=["messages", "updates"])
    assert [mode for mode, _ in items] == ["messages", "updates"]
    message, metadata = items[0][1]
    assert message.content == "a"
    assert message.id
    assert metadata["langgraph_node"] == "talk"


def test_the_id_that_is_told_is_the_id_that_is_stored(colour: Colour, saver: Saver) -> None:
    graph = chat(colour.node(returns(["a", HumanMessage("b")]))).compile(saver)
    items = colour.stream(graph, HI, thread(), stream_mode="messages")
    assert [message.id for message in colour.state(graph, thread()).values["messages"]] == ["h", *ids(items)]


def test_messages_that_the_node_was_given_are_not_told(colour: Colour) -> None:
    def talk(state: Any) -> Any:
        return {"messages": [*state["messages"], Message(role="assistant", content="a", id="1")]}

    assert ids(colour.stream(chat(colour.node(talk)).compile(), HI, stream_mode="messages")) == ["1"]


def test_one_that_the_node_put_into_its_input_is_told(colour: Colour) -> None:
    def talk(state: Any) -> Any:
        state["messages"].append(Message(role="assistant", content="a", id="1"))
        return {"messages": state["messages"]}

    assert ids(colour.stream(chat(colour.node(talk)).compile(), HI, stream_mode="messages")) == ["1"]


def test_messages_in_the_argument_of_a_send_are_not_told(colour: Colour) -> None:
    def talk(given: Any) -> Any:
        return {"messages": [given["m"], Message(role="assistant", content="a", id="1")]}

    graph = StateGraph(MessagesState).add_node("talk", colour.node(talk))
    graph.add_conditional_edges(START, lambda _: [Send("talk", {"m": Message(role="user", content="s", id="s")})], ["talk"])
    assert ids(colour.stream(graph.compile(), HI, stream_mode="messages")) == ["1"]


def test_an_id_is_told_once_in_a_run(colour: Colour) -> None:
    first = colour.node(returns([Message(role="assistant", content=text, id="1") for text in "ab"]))
    second = colour.node(returns(Message(role="assistant", content="c", id="1")))
    graph = line(("one", first), ("two", second), state=MessagesState).compile()
    items = colour.stream(graph, HI, stream_mode="messages")
    assert [(message.content, metadata["langgraph_node"]) for message, metadata in items] == [("a", "one")]


def test_two_runs_know_nothing_of_each_other(colour: Colour) -> None:
    graph = chat(colour.node(returns(Message(role="assistant", content="a", id="1")))).compile()
    assert [ids(colour.stream(graph, HI, stream_mode="messages")) for _ in range(2)] == [["1"], ["1"]]


def test_removals_are_not_told(colour: Colour) -> None:
    for removal in (RemoveMessage("h"), LangChainRemoveMessage(id="h")):
        graph = chat(colour.node(returns([removal, Message(role="assistant", content="a", id="1")]))).compile()
        assert ids(colour.stream(graph, HI, stream_mode="messages")) == ["1"]


class Other(TypedDict, total=False):
    """A state with messages in keys that have no reducer."""

    answer: Any
    several: list[Any]


class Talk:
    """Looks like a message of another library, and is none."""

    role = "user"
    id = "9"


def test_messages_in_other_keys_are_told_and_nothing_that_only_looks_like_one(colour: Colour) -> None:
    lonely = Message(role="assistant", content="no id")

    def node(_: Any) -> Any:
        return {"answer": lonely, "several": [AIMessage("b", id="2"), {"role": "user", "content": "dict"}, Talk(), "text"]}

    items = colour.stream(line(("n", colour.node(node)), state=Other).compile(), {"answer": None}, stream_mode="messages")
    assert [message.content for message, _ in items] == ["no id", "b"]
    assert items[0][0].id
    assert "id" not in lonely, "what the user holds is left alone"


class Foreign:
    """A message of another library, as OpenAI's and Anthropic's."""

    role = "assistant"
    content = "x"

    def __init__(self, id: str) -> None:
        self.id = id


def test_messages_of_any_library_are_told_from_a_key_of_messages(colour: Colour) -> None:
    class State(TypedDict):
        talk: Annotated[list[Any], add_messages]

    node = colour.node(lambda _: {"talk": [Foreign("1"), Foreign("1")]})
    graph = line(("n", node), state=State).compile()
    assert [type(message) for message, _ in colour.stream(graph, {"talk": []}, stream_mode="messages")] == [Foreign]


def test_messages_of_a_command_are_told(colour: Colour) -> None:
    node = colour.node(lambda _: Command(update={"messages": [Message(role="assistant", content="a", id="1")]}))
    assert ids(colour.stream(chat(node).compile(), HI, stream_mode="messages")) == ["1"]


def test_a_result_that_was_told_in_an_earlier_run_is_not_told_again(colour: Colour) -> None:
    asks = colour.node(lambda _: {"messages": Message(role="assistant", content=interrupt("q"), id="2")})
    says = colour.node(returns(Message(role="assistant", content="a", id="1")))
    graph = abreast(("asks", asks), ("says", says), state=MessagesState).compile(InMemorySaver())
    assert ids(colour.stream(graph, HI, thread(), stream_mode="messages")) == ["1"]
    assert ids(colour.stream(graph, Command(resume="x"), thread(), stream_mode="messages")) == ["2"]


def test_a_result_from_the_cache_is_no_message(colour: Colour) -> None:
    node = colour.node(returns(Message(role="assistant", content="a", id="1")))
    graph = StateGraph(MessagesState).add_node("talk", node, cache_policy=CachePolicy()).add_edge(START, "talk")
    compiled = graph.compile(cache=InMemoryCache())
    assert ids(colour.stream(compiled, HI, stream_mode="messages")) == ["1"]
    assert colour.stream(compiled, HI, stream_mode="messages") == []


def test_a_message_that_an_entrypoint_returns_is_told_once(colour: Colour) -> None:
    @entrypoint(checkpointer=InMemorySaver())
    def work(text: str) -> Any:
        return Message(role="assistant", content=text)

    (item,) = colour.stream(work, "hi", thread(), stream_mode="messages")
    assert item[0].content == "hi"


# -- push_message ---------------------------------------------------------------------------------------------------------


def test_a_pushed_message_is_told_at_once_and_written_first(colour: Colour, saver: Saver) -> None:
    def talk(_: Any) -> Any:
        pushed = push_message({"role": "assistant", "content": "wait", "id": "1"})
        assert pushed == Message(role="assistant", content="wait", id="1")
        return {"messages": Message(role="assistant", content="done", id="2")}

    graph = chat(colour.node(talk)).compile(saver)
    items = colour.stream(graph, HI, thread(), stream_mode=["messages", "updates"])
    assert [data[0].id for mode, data in items if mode == "messages"] == ["1", "2"]
    assert [[each["messages"].id for each in data["talk"]] for mode, data in items if mode == "updates"] == [["1", "2"]]
    assert [message.id for message in colour.state(graph, thread()).values["messages"]] == ["h", "1", "2"]


def test_it_is_written_where_nobody_listens(colour: Colour) -> None:
    node = colour.node(lambda _: push_message(AIMessage("x", id="1")) and None)
    assert [message.id for message in colour.invoke(chat(node).compile(), HI)["messages"]] == ["h", "1"]


def test_it_may_be_told_only(colour: Colour) -> None:
    node = colour.node(lambda _: push_message(AIMessage("x", id="1"), state_key=None) and None)
    graph = chat(node).compile()
    assert ids(colour.stream(graph, HI, stream_mode="messages")) == ["1"]
    assert [message.id for message in colour.invoke(graph, HI)["messages"]] == ["h"]


def test_what_a_failed_attempt_pushed_is_not_written(colour: Colour) -> None:
    attempts: list[str] = []

    def talk(_: Any) -> None:
        attempts.append(str(len(attempts)))
        push_message(Message(role="assistant", content="x", id=attempts[-1]))
        if len(attempts) == 1:
            raise ConnectionError

    policy = RetryPolicy(initial_interval=0, jitter=False)
    graph = StateGraph(MessagesState).add_node("talk", colour.node(talk), retry_policy=policy).add_edge(START, "talk").compile()
    assert [message.id for message in colour.invoke(graph, HI)["messages"]] == ["h", "1"]


@pytest.mark.parametrize(
    ("message", "options", "error", "says"),
    [
        ("no id", {}, ValueError, "with an id"),
        (7, {}, InvalidUpdateError, "is no message"),
        (AIMessage("x", id="1"), {"state_key": "mesages"}, UnknownKey, "did you mean 'messages'"),
    ],
)
def test_P50_it_refuses_what_it_cannot_tell_or_write(colour: Colour, message: Any, options: Any, error: Any, says: str) -> None:
    node = colour.node(lambda _: push_message(message, **options) and None)
    with pytest.raises(error, match=says):
        colour.invoke(chat(node).compile(), HI)


def test_P50_a_durable_step_cannot_write_the_state(colour: Colour) -> None:
    @task
    def step() -> None:
        push_message(AIMessage("x", id="1"))

    async def awaits(_: Any) -> None:
        await step()

    node = awaits if colour.nodes_async else lambda _: step().result()
    with pytest.raises(InvalidUpdateError, match="return the message"):
        colour.invoke(chat(node).compile(), HI)


def test_outside_of_a_graph_nothing_can_be_pushed() -> None:
    with pytest.raises(RuntimeError, match="outside of a running graph"):
        push_message(AIMessage("x", id="1"))
