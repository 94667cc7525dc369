"""Chat models of LangChain inside nodes: their tokens are streamed without the node's help."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from langchain_core.callbacks import BaseCallbackHandler, CallbackManager
from langchain_core.language_models.fake_chat_models import FakeMessagesListChatModel, GenericFakeChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage
from langchain_core.runnables import RunnableLambda

from perdure.types import RunnableConfig
from tests.engine.colours import Colour, thread
from tests.streaming.stories import chat

HI = {"messages": [HumanMessage("hi", id="h")]}


def model(text: str = "a b", id: str = "m1") -> Any:
    def forever() -> Iterator[AIMessage]:
        while True:
            yield AIMessage(text, id=id)

    return GenericFakeChatModel(messages=forever())


def asks(colour: Colour, given: Any, *, hands_on: bool = False) -> Any:
    """A node of this colour that calls a model, with or without its config."""
    if colour.nodes_async:

        async def later(state: Any, config: RunnableConfig) -> Any:
            return {"messages": await given.ainvoke(state["messages"], config if hands_on else None)}

        return later

    def now(state: Any, config: RunnableConfig) -> Any:
        return {"messages": given.invoke(state["messages"], config if hands_on else None)}

    return now


def contents(items: list[Any]) -> list[tuple[type, str]]:
    return [(type(message), message.content) for message, _ in items]


PIECES = [(AIMessageChunk, "a"), (AIMessageChunk, " "), (AIMessageChunk, "b")]


@pytest.mark.parametrize("hands_on", [False, True], ids=["ambient", "config"])
def test_tokens_come_whether_or_not_the_node_hands_its_config_on(colour: Colour, hands_on: bool) -> None:
    graph = chat(asks(colour, model(), hands_on=hands_on)).compile()
    items = colour.stream(graph, HI, {"tags": ["t"], "metadata": {"mine": 1}}, stream_mode="messages")
    assert contents(items) == PIECES
    for message, metadata in items:
        assert message.id == "m1"
        assert metadata["langgraph_node"] == "talk"
        assert metadata["langgraph_path"] == ("__pregel_pull", "talk")
        assert (metadata["mine"], metadata["tags"]) == (1, ["t"])
        assert metadata["ls_model_type"] == "chat"


def test_a_model_in_a_chain_keeps_the_tags_of_neither_step(colour: Colour) -> None:
    chain = RunnableLambda(lambda messages: messages) | model()
    items = colour.stream(chat(asks(colour, chain)).compile(), HI, stream_mode="messages")
    assert contents(items) == PIECES
    assert all("tags" not in metadata for _, metadata in items)


def test_a_model_that_cannot_stream_is_told_whole_and_once(colour: Colour) -> None:
    plain = FakeMessagesListChatModel(responses=[AIMessage("whole", id="m1")])
    items = colour.stream(chat(asks(colour, plain)).compile(), HI, stream_mode=["messages", "updates"])
    assert [mode for mode, _ in items] == ["messages", "updates"]
    assert contents([items[0][1]]) == [(AIMessage, "whole")]


def test_a_model_tagged_nostream_is_told_when_it_is_returned(colour: Colour) -> None:
    silent = model().with_config(tags=["nostream"])
    items = colour.stream(chat(asks(colour, silent)).compile(), HI, stream_mode="messages")
    assert contents(items) == [(AIMessage, "a b")]


def test_the_callbacks_of_a_call_reach_the_models(colour: Colour) -> None:
    class Starts(BaseCallbackHandler):
        def __init__(self) -> None:
            self.seen: list[Any] = []

        def on_chat_model_start(self, *args: Any, metadata: Any = None, **kwargs: Any) -> None:
            self.seen.append(metadata["langgraph_node"])

    for listening in (False, True):
        for manager in (False, True):
            starts = Starts()
            callbacks: Any = CallbackManager(handlers=[starts], inheritable_handlers=[starts]) if manager else [starts]
            before = repr(getattr(callbacks, "handlers", callbacks))
            graph = chat(asks(colour, model())).compile()
            if listening:
                items = colour.stream(graph, HI, {"callbacks": callbacks}, stream_mode="messages")
                assert contents(items) == PIECES
            else:
                colour.invoke(graph, HI, {"callbacks": callbacks})
            assert starts.seen == ["talk"], (listening, manager)
            assert repr(getattr(callbacks, "handlers", callbacks)) == before, "what the user gave is left alone"


def test_subgraphs_are_listened_to_only_when_asked_for(colour: Colour) -> None:
    inner = chat(asks(colour, model()), "inner").compile()
    outer = chat(inner, "outer").compile()
    assert contents(colour.stream(outer, HI, stream_mode="messages")) == [(AIMessage, "a b")]
    items = colour.stream(outer, HI, stream_mode="messages", subgraphs=True)
    assert contents([item for _, item in items]) == PIECES
    assert {metadata["langgraph_node"] for _, (_, metadata) in items} == {"inner"}
    assert all(len(namespace) == 1 and namespace[0].startswith("outer:") for namespace, _ in items)


@pytest.mark.parametrize("hands_on", [False, True], ids=["ambient", "config"])
def test_tokens_of_a_graph_called_in_a_node_come_once(colour: Colour, hands_on: bool) -> None:
    inner = chat(asks(colour, model(), hands_on=True), "inner").compile()
    if colour.nodes_async:

        async def calls(state: Any, config: RunnableConfig) -> Any:
            return await inner.ainvoke({"messages": state["messages"]}, config if hands_on else None)
    else:

        def calls(state: Any, config: RunnableConfig) -> Any:  # type: ignore[misc]
            return inner.invoke({"messages": state["messages"]}, config if hands_on else None)

    outer = chat(calls, "outer").compile()
    assert contents(colour.stream(outer, HI, stream_mode="messages")) == [(AIMessage, "a b")]
    items = colour.stream(outer, HI, stream_mode="messages", subgraphs=True)
    assert contents([item for _, item in items]) == PIECES


def test_a_node_sees_the_run_that_it_belongs_to_again_when_it_is_over(colour: Colour) -> None:
    """What surrounds a node is gone afterwards: a model that is called outside tells nobody."""
    graph = chat(asks(colour, model())).compile()
    assert contents(colour.stream(graph, HI, thread(), stream_mode="messages")) == PIECES
    assert model().invoke("x").content == "a b"


def test_two_models_at_once_in_one_node() -> None:
    async def talk(state: Any) -> Any:
        both = await asyncio.gather(*(model(f"{name} {name}", name).ainvoke(state["messages"]) for name in "xy"))
        return {"messages": list(both)}

    async def main() -> Any:
        return [item async for item in chat(talk).compile().astream(HI, stream_mode="messages")]

    items = asyncio.run(main())
    for name in "xy":
        assert [message.content for message, _ in items if message.id == name] == [name, " ", name]


def test_the_guests_are_met_only_where_they_are() -> None:
    program = """
import sys
from perdure.graph import START, MessagesState, StateGraph
graph = StateGraph(MessagesState).add_node("n", lambda s: {"messages": "x"}).add_edge(START, "n").compile()
assert len(list(graph.stream({"messages": "hi"}, stream_mode="messages"))) == 1
print([name for name in sys.modules if "langchain" in name])
"""
    child = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert child.stdout == "[]\n", child.stderr
