"""P26, P3: an input is stored once, as it enters the state; the ids that its messages get there are theirs for good."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.checkpoint.saver import Saver
from perdure.graph import START, MessagesState, StateGraph
from perdure.messages.reading import each
from perdure.types import Command
from tests.promises.ways import Way, on, rows_of

TEXT = "a question of some length, which is not worth storing twice " * 20


def conversation(way: Way, choose: Any = lambda _: "answer") -> Any:
    builder = StateGraph(MessagesState).add_node("answer", way.node(lambda _: {"messages": ("assistant", "yes")}))
    return builder.add_conditional_edges(START, choose, ["answer"])


@pytest.mark.parametrize("given", [TEXT, ("user", TEXT), {"role": "user", "content": TEXT}, [("user", TEXT), "more"]])
def test_P26_an_input_of_messages_and_the_messages_are_stored_once(saver: Saver, way: Way, given: Any):
    graph = conversation(way).compile(checkpointer=saver)
    state = way.invoke(graph, {"messages": given}, on())
    history = way.history(graph, on())
    written = each(history[-1].metadata["writes"]["messages"])
    assert written == state["messages"][: len(written)]
    assert all(message["id"] for message in written)
    packed = sum(row.count(TEXT.encode()) for row in values_of(saver))
    assert packed == 1


def values_of(saver: Any) -> list[bytes]:
    if hasattr(saver, "_database"):
        return [row[0] for row in saver._database.run(lambda found: found.execute("SELECT data FROM value").fetchall())]
    return [packed.data for packed in saver._records._threads["t"].values.values()]


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_P3_messages_keep_their_ids_when_the_run_fails_before_the_first_node(saver: Saver, way: Way, durability: Any):
    broken = True

    def choose(_: Any) -> str:
        if broken:
            raise OSError("no way today")
        return "answer"

    graph = conversation(way, choose).compile(checkpointer=saver)
    with pytest.raises(OSError, match="no way"):
        way.invoke(graph, {"messages": TEXT}, on(), durability=durability)
    before = way.state(graph, on()).metadata["writes"]["messages"]
    broken = False
    state = way.invoke(graph, None, on(), durability=durability)
    assert state["messages"][0] == before
    assert [message.content for message in state["messages"]] == [TEXT, "yes"]


def test_P3_messages_of_a_callers_command_have_the_ids_that_history_shows(saver: Saver, way: Way):
    graph = conversation(way).compile(checkpointer=saver)
    way.invoke(graph, {"messages": "hello"}, on())
    state = way.invoke(graph, Command(update={"messages": ("user", TEXT)}, goto="answer"), on())
    edit = next(one for one in way.history(graph, on()) if one.metadata["source"] == "update")
    assert edit.metadata["writes"] == {START: {"messages": state["messages"][2]}}
    assert len([1 for row in rows_of(saver)["checkpoints"].values() if row["source"] == "update"]) == 1


def test_P3_keys_that_are_ignored_are_still_part_of_the_input(saver: Saver, way: Way):
    graph = conversation(way).compile(checkpointer=saver, unknown_keys="ignore")
    way.invoke(graph, {"note": 7, "messages": "hello"}, on())
    written = way.history(graph, on())[-1].metadata["writes"]
    assert list(written) == ["note", "messages"]
    assert written["note"] == 7


@pytest.mark.parametrize("alone", [True, False])
def test_P26_a_message_that_a_node_returns_is_stored_once_alone_or_in_a_list(saver: Saver, way: Way, alone: bool):
    builder = StateGraph(MessagesState)
    builder.add_node("answer", way.node(lambda _: {"messages": ("assistant", TEXT) if alone else [("assistant", TEXT)]}))
    graph = builder.add_edge(START, "answer").compile(checkpointer=saver)
    state = way.invoke(graph, {"messages": "hello"}, on())
    assert sum(row.count(TEXT.encode()) for row in values_of(saver)) == 1
    snapshot = way.state(graph, on())
    assert snapshot.values == state
    assert each(snapshot.metadata["writes"]["answer"]["messages"]) == state["messages"][1:]
    assert isinstance(snapshot.metadata["writes"]["answer"]["messages"], list) is not alone
