"""Differences from the reference: what checkpoints hold, and what nodes and readers see of them. See docs/explanation/differences.md."""

from __future__ import annotations

import sqlite3
import threading
from pathlib import Path
from typing import Any

import pytest

from perdure.checkpoint.saver import Saver
from perdure.checkpoint.serde.jsonplus import StoredError
from perdure.checkpoint.sqlite import SqliteSaver
from perdure.checkpoint.sqlite.aio import AsyncSqliteSaver
from perdure.errors import CorruptRecord, InPlaceChangeWarning, InvalidUpdateError, ThreadBusy
from perdure.graph import START, MessagesState, StateGraph
from perdure.types import RunnableConfig, interrupt
from tests.promises.ways import Way, on
from tests.reference.shapes import EMPTY, State, failing_once, line, linear


def test_P51_metadata_tells_what_made_a_checkpoint(way: Way, saver: Saver) -> None:
    graph = linear(way, saver)
    way.invoke(graph, {"foo": "x"}, on())
    way.edit(graph, on(), {"foo": "edited"})
    found = [one.metadata["writes"] for one in way.history(graph, on()) if one.metadata is not None]
    assert found == [
        {"node_b": {"foo": "edited"}},
        {"node_b": {"foo": "b", "bar": ["b"]}},
        {"node_a": {"foo": "a", "bar": ["a"]}},
        None,
        {"foo": "x"},
    ]


def test_P26_checkpoints_have_no_channels_for_steering(way: Way, saver: Saver) -> None:
    graph = linear(way, saver)
    way.invoke(graph, EMPTY, on())
    newest_first = [
        (set(one.checkpoint["channel_values"]), set(one.checkpoint["channel_versions"])) for one in saver.list(on())
    ]
    assert newest_first[:3] == [({"foo", "bar"}, {"foo", "bar"})] * 3


def test_P41_values_in_configurable_are_not_stored(way: Way, saver: Saver) -> None:
    graph = linear(way, saver)
    config: RunnableConfig = {"configurable": {"thread_id": "t", "user": "u"}, "metadata": {"kept": 1}}
    way.invoke(graph, EMPTY, config)
    for snapshot in way.history(graph, on()):
        assert snapshot.metadata is not None
        assert set(snapshot.metadata) == {"source", "step", "parents", "writes", "kept"}


def test_P51_a_nodes_config_names_its_graphs_namespace_and_its_own_in_the_metadata(way: Way, saver: Saver) -> None:
    seen: list[Any] = []

    def a(_: State, config: RunnableConfig) -> None:
        seen.append(config)

    graph = StateGraph(State).add_node("a", way.node(a)).add_edge(START, "a").compile(checkpointer=saver)
    way.invoke(graph, EMPTY, on("t", user="u"))
    (config,) = seen
    assert config["configurable"] == {"thread_id": "t", "user": "u", "checkpoint_ns": ""}
    assert config["metadata"]["langgraph_checkpoint_ns"].startswith("a:")
    assert "thread_id" not in config["metadata"]


def test_P30_what_is_loaded_is_of_the_type_that_was_saved(way: Way, saver: Saver) -> None:
    builder = StateGraph(State).add_node("a", way.node(lambda _: {"bar": [("a", 1)]})).add_edge(START, "a")
    graph = builder.compile(checkpointer=saver)
    way.invoke(graph, EMPTY, on())
    assert way.state(graph, on()).values["bar"] == [("a", 1)]


def test_P30_the_error_of_a_task_keeps_type_message_and_traceback(way: Way, saver: Saver) -> None:
    graph = failing_once(way, saver, {"ok": 0, "bad": 0})
    with pytest.raises(ValueError, match="boom"):
        way.invoke(graph, EMPTY, on())
    error = next(task.error for task in way.state(graph, on()).tasks if task.name == "bad")
    assert isinstance(error, StoredError)
    assert (error.type, error.message, repr(error)) == ("builtins.ValueError", "boom", "ValueError('boom')")
    assert "raise ValueError" in error.traceback


def test_P18_a_state_whose_results_could_not_be_applied_can_be_read(way: Way, saver: Saver) -> None:
    builder = StateGraph(State)
    for name in "ab":
        builder.add_node(name, way.node(lambda _: {"foo": "both write it"})).add_edge(START, name)
    graph = builder.compile(checkpointer=saver)
    with pytest.raises(InvalidUpdateError, match="Can receive only one value per step"):
        way.invoke(graph, EMPTY, on())
    assert way.state(graph, on()).values == EMPTY
    assert line(way.history(graph, on())[0])[:4] == (0, "loop", EMPTY, ("a", "b"))


def test_P18_the_target_of_a_join_is_next_only_when_all_have_arrived(way: Way, saver: Saver) -> None:
    builder = StateGraph(State)
    for name in ("a", "b", "b2", "c"):
        builder.add_node(name, way.node(lambda _, name=name: {"bar": [name]}))
    builder.add_edge(START, "a").add_edge(START, "b").add_edge("b", "b2").add_edge(["a", "b2"], "c")
    graph = builder.compile(checkpointer=saver)
    way.invoke(graph, EMPTY, on())
    assert [one.next for one in way.history(graph, on())] == [(), ("c",), ("b2",), ("a", "b"), ("__start__",)]


def test_P20_a_subgraphs_checkpoint_is_addressed_by_namespace_and_id(way: Way, saver: Saver) -> None:
    child = StateGraph(State).add_node("c", way.node(lambda _: {"foo": interrupt("q")})).add_edge(START, "c").compile()
    graph = StateGraph(State).add_node("p", child).add_edge(START, "p").compile(checkpointer=saver)
    way.invoke(graph, EMPTY, on())
    inner = way.state(graph, on(), subgraphs=True).tasks[0].state
    assert set(inner.config["configurable"]) == {"thread_id", "checkpoint_ns", "checkpoint_id"}
    assert way.state(graph, inner.config).values == EMPTY


def test_P3_the_state_of_a_thread_that_does_not_exist_is_empty(way: Way, saver: Saver) -> None:
    assert way.state(linear(way, saver), on()).values == {}
    number: Any = StateGraph(int).add_node("a", way.node(lambda n: n + 1)).add_edge(START, "a").compile(checkpointer=saver)
    assert way.state(number, on()).values is None, "a state without keys is no dict"


def test_P4_the_default_durability_is_sync(way: Way, saver: Saver) -> None:
    seen: list[Any] = []

    def b(_: State) -> None:
        seen.append(saver.get_tuple(on()).checkpoint["channel_values"]["foo"])  # type: ignore[union-attr]

    builder = StateGraph(State).add_node("a", way.node(lambda _: {"foo": "from a"})).add_node("b", way.node(b))
    way.invoke(builder.add_edge(START, "a").add_edge("a", "b").compile(checkpointer=saver), EMPTY, on())
    assert seen == ["from a"], "no node of a later super-step starts before the save"


def test_P8_a_second_run_on_a_busy_thread_is_refused(saver: Saver) -> None:
    inside, go = threading.Event(), threading.Event()

    def a(_: State) -> None:
        inside.set()
        go.wait(10)

    graph = StateGraph(State).add_node("a", a).add_edge(START, "a").compile(checkpointer=saver)
    first = threading.Thread(target=graph.invoke, args=(EMPTY, on()))
    first.start()
    try:
        assert inside.wait(10)
        with pytest.raises(ThreadBusy):
            graph.invoke(EMPTY, on())
    finally:
        go.set()
        first.join()
    assert len(list(graph.get_state_history(on()))) == 3


def test_P49_one_saver_serves_both_colours() -> None:
    assert AsyncSqliteSaver is SqliteSaver


@pytest.mark.parametrize("tables", [("customers",), ("checkpoints", "writes")])
def test_P36_a_file_with_tables_of_another_program_is_refused(way: Way, tmp_path: Path, tables: tuple[str, ...]):
    path = tmp_path / "app.db"
    connection = sqlite3.connect(path)
    for table in tables:
        connection.execute(f"CREATE TABLE {table} (x)")
    connection.close()
    before = path.read_bytes()
    graph = linear(way, SqliteSaver(path))
    for call in (lambda: way.invoke(graph, EMPTY, on()), lambda: way.state(graph, on())):
        with pytest.raises(CorruptRecord, match="a file of its own") as caught:
            call()
        assert ("import_threads" in str(caught.value)) == ("writes" in tables)
    assert path.read_bytes() == before


def test_P35_what_a_node_changes_in_place_is_in_no_state(way: Way, saver: Saver) -> None:
    def a(state: State) -> dict[str, Any]:
        state["bar"].append("in place")
        return {}

    graph = StateGraph(State).add_node("a", way.node(a)).add_edge(START, "a").compile(checkpointer=saver)
    with pytest.warns(InPlaceChangeWarning, match="'bar'.*'a'"):
        assert way.invoke(graph, {"foo": "", "bar": ["given"]}, on())["bar"] == ["given"]
    assert way.state(graph, on()).values["bar"] == ["given"]


def test_P26_an_input_of_messages_is_stored_as_it_enters_the_state(way: Way, saver: Saver) -> None:
    graph = StateGraph(MessagesState).add_node("a", way.node(lambda _: {})).add_edge(START, "a").compile(checkpointer=saver)
    way.invoke(graph, {"messages": [{"role": "user", "content": "Hello"}]}, on())
    *_, given = saver.list(on())
    (message,) = given.checkpoint["channel_values"]["__start__"]["messages"]
    assert (message.role, message.content) == ("user", "Hello")
    assert [message] == way.state(graph, on()).values["messages"], "under the id that it keeps"


def test_P28_every_saver_can_prune(way: Way, saver: Saver) -> None:
    graph = linear(way, saver)
    way.invoke(graph, EMPTY, on())
    assert saver.prune(threads=["t"], keep_last=1).checkpoints == 3
    assert len(way.history(graph, on())) == 1


def test_P29_every_saver_can_copy_a_thread(way: Way, saver: Saver) -> None:
    graph = linear(way, saver)
    result = way.invoke(graph, EMPTY, on())
    assert saver.copy_thread("t", "copy").checkpoints == 4
    assert way.state(graph, on("copy")).values == result
