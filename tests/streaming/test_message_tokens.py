"""Tokens of a node without any framework: the mode `messages` and `get_message_writer`."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from perdure import START, RetryPolicy, Runtime, StateGraph
from perdure.checkpoint.memory import InMemorySaver
from perdure.checkpoint.saver import Saver
from perdure.config import get_message_writer
from perdure.func import entrypoint, task
from perdure.graph import MessagesState
from perdure.messages import Message
from tests.engine.colours import Colour, Log, thread
from tests.streaming.stories import abreast, chat, line, told


def say(*tokens: str, **options: Any) -> Any:
    def talk(_: Any) -> Any:
        out = get_message_writer(**options)
        for token in tokens:
            out.write(token)
        return {"messages": out.done()}

    return talk


def test_tokens_come_as_pieces_and_the_message_is_not_told_again(colour: Colour, saver: Saver) -> None:
    graph = chat(colour.node(say("Hel", "lo"))).compile(saver)
    items = colour.stream(graph, {"messages": "hi"}, thread(), stream_mode=["messages", "updates", "values"])
    assert [mode for mode, _ in items] == ["values", "messages", "messages", "updates", "values"]
    assert told([data for mode, data in items if mode == "messages"]) == [("piece", "Hel"), ("piece", "lo")]
    (first, _), message = items[1][1], items[3][1]["talk"]["messages"]
    assert first.id == message.id
    assert type(message) is Message
    assert items[4][1]["messages"][1] == {"role": "assistant", "content": "Hello", "id": message.id}
    assert colour.state(graph, thread()).values["messages"][1] == message


def test_metadata_says_where_a_token_comes_from(colour: Colour, saver: Saver) -> None:
    graph = chat(colour.node(say("x", tags=["seq:step:1", "mine"]))).compile(saver)
    config: Any = {**thread("conv"), "tags": ["call"], "metadata": {"tenant": 7}}
    ((_, metadata),) = colour.stream(graph, {"messages": "hi"}, config, stream_mode="messages")
    (task,) = next(each for each in colour.history(graph, thread("conv")) if each.next == ("talk",)).tasks
    assert metadata == {
        "tenant": 7,
        "thread_id": "conv",
        "langgraph_step": 1,
        "langgraph_node": "talk",
        "langgraph_triggers": ("branch:to:talk",),
        "langgraph_path": ("__pregel_pull", "talk"),
        "langgraph_checkpoint_ns": f"talk:{task.id}",
        "tags": ["call", "mine"],
    }


def test_metadata_of_one_item_is_not_that_of_another(colour: Colour) -> None:
    items = colour.stream(chat(colour.node(say("a", "b"))).compile(), {"messages": "hi"}, stream_mode="messages")
    items[0][1]["changed"] = True
    assert "changed" not in items[1][1]


def test_the_runtime_gives_a_writer_too(colour: Colour) -> None:
    def talk(_: Any, runtime: Runtime[Any]) -> Any:
        out = runtime.message_writer(id="m1", role="user", name="echo")
        out.write("x")
        return {"messages": out.done()}

    ((message, _),) = colour.stream(chat(colour.node(talk)).compile(), {"messages": "hi"}, stream_mode="messages")
    assert message == {"role": "user", "content": "x", "name": "echo", "id": "m1"}


def test_a_runtime_of_its_own_collects(colour: Colour) -> None:
    out = Runtime().message_writer(id="m1")
    out.write("x")
    assert out.done() == {"role": "assistant", "content": "x", "id": "m1"}


def test_outside_of_a_graph_there_is_no_writer() -> None:
    with pytest.raises(RuntimeError, match="outside of a running graph"):
        get_message_writer()


def test_where_nobody_listens_the_message_is_the_same(colour: Colour, saver: Saver) -> None:
    graph = chat(colour.node(say("a", "b", id="m"))).compile(saver)
    assert colour.invoke(graph, {"messages": "hi"}, thread())["messages"][1] == {
        "role": "assistant",
        "content": "ab",
        "id": "m",
    }
    assert colour.stream(graph, {"messages": "hi"}, thread("2"), stream_mode="updates") == [
        {"talk": {"messages": {"role": "assistant", "content": "ab", "id": "m"}}}
    ]


@pytest.mark.parametrize("where", ["writer", "call"])
def test_what_is_tagged_nostream_is_told_whole_when_it_is_returned(colour: Colour, where: str) -> None:
    graph = chat(colour.node(say("a", "b", tags=["nostream"] if where == "writer" else []))).compile()
    config: Any = {"tags": ["nostream"]} if where == "call" else None
    assert told(colour.stream(graph, {"messages": "hi"}, config, stream_mode="messages")) == [("whole", "ab")]


def test_tool_calls_come_in_pieces(colour: Colour) -> None:
    def talk(_: Any) -> Any:
        out = get_message_writer()
        out.tool_call("f", '{"a":', id="c1")
        out.tool_call(arguments="1}")
        return {"messages": out.done()}

    graph = chat(colour.node(talk)).compile()
    items = colour.stream(graph, {"messages": "hi"}, stream_mode=["messages", "updates"])
    pieces = [data[0] for mode, data in items if mode == "messages"]
    assert (pieces[0] + pieces[1]).whole() == items[-1][1]["talk"]["messages"]


def test_a_node_that_writes_two_messages_at_once(colour: Colour) -> None:
    def talk(_: Any) -> Any:
        one, two = get_message_writer(id="1"), get_message_writer(id="2")
        for token in "ab":
            one.write(token)
            two.write(token.upper())
        return {"messages": [one.done(), two.done()]}

    items = colour.stream(chat(colour.node(talk)).compile(), {"messages": "hi"}, stream_mode="messages")
    assert [(message.id, message.content) for message, _ in items] == [("1", "a"), ("2", "A"), ("1", "b"), ("2", "B")]


def test_nodes_side_by_side_each_keep_their_order(colour: Colour) -> None:
    nodes = [(name, colour.node(say(*(f"{name}{at}" for at in range(20)), id=name))) for name in "abc"]
    items = colour.stream(abreast(*nodes, state=MessagesState).compile(), {"messages": "hi"}, stream_mode="messages")
    for name, _ in nodes:
        assert [message.content for message, _ in items if message.id == name] == [f"{name}{at}" for at in range(20)]
        assert {metadata["langgraph_node"] for message, metadata in items if message.id == name} == {name}


def test_a_helper_in_a_thread_may_write(colour: Colour) -> None:
    def talk(_: Any) -> Any:
        out = get_message_writer()
        helper = threading.Thread(target=out.write, args=("from a thread",))
        helper.start()
        helper.join()
        return {"messages": out.done()}

    graph = chat(colour.node(talk)).compile()
    assert told(colour.stream(graph, {"messages": "hi"}, stream_mode="messages")) == [("piece", "from a thread")]


def test_an_async_node_may_await_each_token() -> None:
    async def talk(_: Any) -> Any:
        out = get_message_writer()
        for token in "ab":
            await out.awrite(token)
        await out.atool_call("f", {}, id="c")
        return {"messages": out.done()}

    async def main() -> Any:
        graph = chat(talk).compile()
        return [item async for item in graph.astream({"messages": "hi"}, stream_mode="messages")]

    for items in (asyncio.run(main()), list(chat(talk).compile().stream({"messages": "hi"}, stream_mode="messages"))):
        assert told(items) == [("piece", "a"), ("piece", "b"), ("piece", "")]


def test_tokens_need_no_key_for_messages(colour: Colour) -> None:
    def node(_: Log) -> Any:
        get_message_writer().write("thinking")
        return {"log": ["done"]}

    assert told(colour.stream(line(("n", colour.node(node))).compile(), {"log": []}, stream_mode="messages")) == [
        ("piece", "thinking")
    ]


def test_a_durable_step_may_write(colour: Colour) -> None:
    @task
    def think(_: str) -> Any:
        out = get_message_writer(id="m")
        out.write("x")
        return out.done()

    @entrypoint(checkpointer=InMemorySaver())
    def work(text: str) -> Any:
        return think(text).result()

    items = colour.stream(work, "hi", thread(), stream_mode=["messages", "updates"])
    assert [(mode, data[0] if mode == "messages" else data) for mode, data in items][:1] == [
        ("messages", {"role": "assistant", "content": "x", "id": "m"})
    ]
    assert [mode for mode, _ in items].count("messages") == 1


def test_a_failed_attempt_keeps_what_it_told_and_the_next_one_tells_anew(colour: Colour) -> None:
    attempts: list[int] = []

    def talk(_: Any) -> Any:
        attempts.append(1)
        out = get_message_writer()
        out.write("he")
        if len(attempts) == 1:
            raise ConnectionError
        out.write("llo")
        return {"messages": out.done()}

    policy = RetryPolicy(initial_interval=0, jitter=False)
    graph = StateGraph(MessagesState).add_node("talk", colour.node(talk), retry_policy=policy).add_edge(START, "talk")
    items = colour.stream(graph.compile(), {"messages": "hi"}, stream_mode="messages")
    assert told(items) == [("piece", "he"), ("piece", "he"), ("piece", "llo")]
    assert items[0][0].id != items[1][0].id == items[2][0].id
