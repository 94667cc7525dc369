"""Differences from the reference: what it drops or takes in silence is an error here. See docs/explanation/differences.md."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest

from perdure.checkpoint.saver import Saver
from perdure.errors import (
    GraphInterrupt,
    InvalidConfig,
    InvalidState,
    InvalidUpdateError,
    MissingPartWarning,
    MissingThreadId,
    NodeTimeoutError,
    NotOffered,
    PerdureError,
    StoppedIteration,
    TaskNotFound,
    UnknownCheckpoint,
    UnknownKey,
    UnknownNode,
    UnknownThread,
)
from perdure.graph import END, START, StateGraph
from perdure.types import CachePolicy, Command, Overwrite, Send
from tests.promises.ways import Way, on
from tests.reference.shapes import EMPTY, State, line, linear

NOWHERE = "1ef663ba-28fe-6528-8002-5a559208592c"


def returning(way: Way, saver: Saver, answer: Any, **options: Any) -> Any:
    """START -> a, which returns `answer`; z can be gone to."""
    builder = StateGraph(State).add_node("a", way.node(lambda _: answer)).add_node("z", way.node(lambda _: {"bar": ["z"]}))
    return builder.add_edge(START, "a").compile(checkpointer=saver, **options)


@pytest.mark.parametrize("answer", [{"nope": 1}, {"foo": "x", "nope": 1}, Command(update={"nope": 1})], ids=str)
def test_P50_a_node_may_not_return_unknown_keys(way: Way, saver: Saver, answer: Any) -> None:
    with pytest.raises(UnknownKey, match="'nope'"):
        way.invoke(returning(way, saver, answer), EMPTY, on())


def test_P50_an_input_may_not_have_unknown_keys_and_is_not_stored(way: Way, saver: Saver) -> None:
    graph = linear(way, saver)
    with pytest.raises(UnknownKey, match="'nope'"):
        way.invoke(graph, {"foo": "x", "nope": 1}, on())
    assert way.history(graph, on()) == []


def test_P50_an_edit_may_not_have_unknown_keys(way: Way, saver: Saver) -> None:
    graph = linear(way, saver)
    with pytest.raises(UnknownKey, match="'nope'"):
        way.edit(graph, on(), {"nope": 1})
    assert way.history(graph, on()) == []


def test_P50_unknown_keys_can_be_ignored_as_in_the_reference(way: Way, saver: Saver) -> None:
    graph = returning(way, saver, {"foo": "x", "nope": 1}, unknown_keys="ignore")
    assert way.invoke(graph, {**EMPTY, "more": 2}, on()) == {"foo": "x", "bar": []}


@pytest.mark.parametrize(
    ("goto", "error"),
    [("nowhere", UnknownNode), (Send("nowhere", {}), UnknownNode), (Send(END, {}), InvalidUpdateError)],
    ids=str,
)
def test_P50_a_node_may_not_go_to_an_unknown_node(way: Way, saver: Saver, goto: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        way.invoke(returning(way, saver, Command(goto=goto)), EMPTY, on())


@pytest.mark.parametrize("chosen", ["nowhere", Send("nowhere", {}), 5], ids=str)
def test_P50_a_conditional_edge_may_not_choose_an_unknown_target(way: Way, saver: Saver, chosen: Any) -> None:
    builder = StateGraph(State).add_node("a", way.node(lambda _: None)).add_edge(START, "a")
    builder.add_conditional_edges("a", lambda _: chosen)
    with pytest.raises((UnknownNode, InvalidUpdateError)):
        way.invoke(builder.compile(checkpointer=saver), EMPTY, on())


def test_P50_a_callers_command_may_not_go_to_an_unknown_node(way: Way, saver: Saver) -> None:
    with pytest.raises(UnknownNode, match="'nowhere'"):
        way.invoke(linear(way, saver), Command(goto="nowhere"), on())


@pytest.mark.parametrize("which", ["interrupt_before", "interrupt_after"])
def test_P50_a_calls_breakpoints_must_exist(way: Way, saver: Saver, which: str) -> None:
    with pytest.raises(UnknownNode, match="'nowhere'"):
        way.invoke(linear(way, saver), EMPTY, on(), **{which: ["nowhere"]})


def test_P50_unknown_config_keys_are_errors(way: Way, saver: Saver) -> None:
    config: Any = {"configurable": {"thread_id": "t"}, "recursion_limt": 3}
    with pytest.raises(InvalidConfig, match="did you mean 'recursion_limit'"):
        way.invoke(linear(way, saver), EMPTY, config)
    config = {"thread_id": "t"}
    with pytest.raises(InvalidConfig, match="'thread_id'"):
        way.invoke(linear(way, saver), EMPTY, config)


@pytest.mark.parametrize("limit", [0, -1])
def test_P49_a_max_concurrency_below_one_is_an_error_in_both_colours(way: Way, saver: Saver, limit: int) -> None:
    with pytest.raises(InvalidConfig, match="max_concurrency must be at least 1"):
        way.invoke(linear(way, saver), EMPTY, {**on(), "max_concurrency": limit})


def test_P50_an_unknown_durability_is_an_error(way: Way, saver: Saver) -> None:
    with pytest.raises(InvalidConfig, match="'bogus'"):
        way.invoke(linear(way, saver), EMPTY, on(), durability="bogus")


@pytest.mark.parametrize("config", [None, {}, {"configurable": {}}, {"configurable": {"thread_id": None}}], ids=str)
def test_P3_a_missing_thread_id_is_one_taught_error_everywhere(way: Way, saver: Saver, config: Any) -> None:
    graph = linear(way, saver)
    given: Any = config or {}
    for call in (
        lambda: way.invoke(graph, EMPTY, config),
        lambda: way.state(graph, given),
        lambda: way.history(graph, given),
        lambda: way.edit(graph, given, {"foo": "x"}),
    ):
        with pytest.raises(MissingThreadId, match="thread_id"):
            call()


@pytest.mark.parametrize(("thread", "error"), [(1.5, TypeError), ([1], TypeError), ("", InvalidConfig)], ids=str)
def test_P39_a_thread_id_is_text(way: Way, saver: Saver, thread: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        way.invoke(linear(way, saver), EMPTY, on(thread))


def test_P3_resuming_a_thread_that_does_not_exist_says_so(way: Way, saver: Saver) -> None:
    graph = linear(way, saver)
    with pytest.raises(UnknownThread, match="'t'"):
        way.invoke(graph, None, on())
    with pytest.raises(UnknownThread, match="'t'"):
        way.invoke(graph, Command(resume=1), on())
    assert way.state(graph, on()).values == {}


def test_P3_an_unknown_checkpoint_id_is_an_error(way: Way, saver: Saver) -> None:
    graph = linear(way, saver)
    way.invoke(graph, EMPTY, on())
    config = on("t", checkpoint_id=NOWHERE)
    for call in (
        lambda: way.invoke(graph, EMPTY, config),
        lambda: way.state(graph, config),
        lambda: way.history(graph, config),
        lambda: way.edit(graph, config, {"foo": "x"}),
    ):
        with pytest.raises(UnknownCheckpoint, match=NOWHERE):
            call()


@pytest.mark.parametrize("given", ["text", 5, [], [("foo", "x")]], ids=str)
def test_P50_an_input_that_is_no_state_is_refused_before_it_is_stored(way: Way, saver: Saver, given: Any) -> None:
    graph = linear(way, saver)
    with pytest.raises(InvalidUpdateError, match="Expected dict, got"):
        way.invoke(graph, given, on())
    assert way.history(graph, on()) == []


@pytest.mark.parametrize("values", [Command(resume="x"), Command(graph=Command.PARENT, goto="z")], ids=str)
def test_P50_an_edit_neither_answers_nor_commands_another_graph(way: Way, saver: Saver, values: Any) -> None:
    graph = linear(way, saver)
    with pytest.raises(InvalidUpdateError, match="an edit"):
        way.edit(graph, on(), values, as_node="node_a")
    assert way.history(graph, on()) == []


def test_P50_a_copy_takes_no_values_but_edits(way: Way, saver: Saver) -> None:
    graph = linear(way, saver)
    way.invoke(graph, EMPTY, on())
    with pytest.raises(InvalidUpdateError, match="list of StateUpdate"):
        way.edit(graph, on(), {"foo": "x"}, as_node="__copy__")
    assert len(way.history(graph, on())) == 4


def test_P50_an_edit_stands_for_no_task_that_is_not_there(way: Way, saver: Saver) -> None:
    graph = linear(way, saver)
    way.invoke(graph, EMPTY, on())
    with pytest.raises(TaskNotFound, match="'nowhere'"):
        way.edit(graph, on(), {"foo": "x"}, as_node="node_a", task_id="nowhere")
    assert len(way.history(graph, on())) == 4


def test_P39_a_negative_limit_is_an_error(way: Way, saver: Saver) -> None:
    graph = linear(way, saver)
    with pytest.raises(InvalidConfig, match="limit"):
        way.history(graph, on(), limit=-1)


@dataclass
class Counted:
    n: int = 0


@pytest.mark.parametrize("given", [{"n": "many"}, {}], ids=["input", "node"])
def test_P32_values_are_validated_after_the_reducer_and_before_they_are_stored(way: Way, saver: Saver, given: Any) -> None:
    builder = StateGraph(Counted).add_node("a", way.node(lambda _: {"n": "many"})).add_edge(START, "a").add_edge("a", END)
    graph = builder.compile(checkpointer=saver)
    with pytest.raises(InvalidState, match="'n'"):
        way.invoke(graph, given, on())
    assert all("many" not in str(one.values) for one in way.history(graph, on()))


def test_P49_stop_iteration_is_wrapped_in_both_colours(way: Way, saver: Saver) -> None:
    def a(_: State) -> None:
        raise StopIteration("out of things")

    graph = StateGraph(State).add_node("a", way.node(a)).add_edge(START, "a").compile(checkpointer=saver)
    # Python itself turns a StopIteration that leaves a coroutine into a RuntimeError.
    with pytest.raises(RuntimeError) as caught:
        way.invoke(graph, EMPTY, on())
    assert isinstance(caught.value, StoppedIteration) or way.is_async


def test_P50_a_command_for_a_parent_at_the_root_is_an_invalid_update(way: Way, saver: Saver) -> None:
    with pytest.raises(InvalidUpdateError, match="There is no parent graph"):
        way.invoke(returning(way, saver, Command(graph=Command.PARENT, update={"foo": "x"})), EMPTY, on())


def test_P50_a_goto_of_a_wrong_type_is_an_invalid_update(way: Way, saver: Saver) -> None:
    with pytest.raises(InvalidUpdateError, match="a goto is a node name"):
        way.invoke(returning(way, saver, Command(goto=5)), EMPTY, on())


def test_P50_errors_are_of_one_tree_and_of_the_builtin_kind_too() -> None:
    assert issubclass(InvalidUpdateError, (PerdureError, ValueError))
    assert issubclass(InvalidUpdateError, ValueError)
    assert issubclass(NodeTimeoutError, TimeoutError)
    assert issubclass(UnknownThread, LookupError)
    assert issubclass(UnknownCheckpoint, LookupError)
    assert issubclass(MissingThreadId, KeyError)
    assert issubclass(InvalidConfig, ValueError)


def test_P12_a_pause_is_no_exception() -> None:
    assert issubclass(GraphInterrupt, BaseException)
    assert not issubclass(GraphInterrupt, Exception)


def test_an_overwrite_of_a_plain_key_is_its_value(way: Way, saver: Saver) -> None:
    assert way.invoke(returning(way, saver, {"foo": Overwrite("w")}), EMPTY, on())["foo"] == "w"


def test_P1_a_node_whose_way_cannot_be_chosen_has_not_finished(way: Way, saver: Saver) -> None:
    ran: list[str] = []

    def a(_: State) -> dict[str, Any]:
        ran.append("a")
        return {"bar": ["a"]}

    def choose(_: State) -> str:
        if len(ran) == 1:
            raise ConnectionResetError("cannot choose yet")
        return "z"

    builder = StateGraph(State).add_node("a", way.node(a)).add_node("z", way.node(lambda _: {"bar": ["z"]}))
    graph = builder.add_edge(START, "a").add_conditional_edges("a", choose).compile(checkpointer=saver)
    with pytest.raises(ConnectionResetError):
        way.invoke(graph, EMPTY, on())
    assert line(way.state(graph, on())) == (0, "loop", EMPTY, ("a",), [])
    assert way.invoke(graph, None, on())["bar"] == ["a", "z"], "the way is chosen after all"


def test_P49_a_sync_call_may_run_async_nodes() -> None:
    async def a(_: State) -> dict[str, Any]:
        await asyncio.sleep(0)
        return {"foo": "async"}

    graph = StateGraph(State).add_node("a", a).add_edge(START, "a").compile()
    assert graph.invoke(EMPTY)["foo"] == "async"


def test_P50_a_breakpoint_without_a_saver_stops_and_warns(way: Way) -> None:
    with pytest.warns(MissingPartWarning, match="no saver"):
        assert way.invoke(linear(way, None), {"foo": "x", "bar": []}, interrupt_before=["node_a"]) == {"foo": "x", "bar": []}


def test_P50_a_cache_policy_without_a_cache_warns(way: Way) -> None:
    builder = StateGraph(State).add_node("a", way.node(lambda _: {"foo": "a"}), cache_policy=CachePolicy())
    with pytest.warns(MissingPartWarning, match="no cache"):
        assert way.invoke(builder.add_edge(START, "a").compile(), EMPTY)["foo"] == "a"


def test_P50_a_name_that_is_not_offered_says_what_to_use() -> None:
    with pytest.raises(ImportError, match=r"interrupt\(value\)") as caught:
        exec("from perdure.errors import NodeInterrupt")
    assert isinstance(caught.value, NotOffered)
