"""P50: unknown keys, targets and config keys are errors that teach; `unknown_keys="ignore"` opts out of those of keys."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Annotated, Any, TypedDict

import pytest

from perdure.checkpoint.saver import Saver
from perdure.errors import InvalidConfig, InvalidGraph, InvalidUpdateError, PerdureError, UnknownKey, UnknownNode
from perdure.graph import START, StateGraph
from perdure.types import Command, Send, StateUpdate, interrupt
from tests.promises.ways import Ledger, Way, chain, on, rows_of


class State(TypedDict, total=False):
    log: Annotated[list[str], operator.add]
    note: str


def returning(way: Way, value: Any, **options: Any) -> Any:
    builder: StateGraph[Any, Any, Any, Any] = StateGraph(State)
    builder.add_node("worker", way.node(lambda state: value))
    builder.add_node("other", way.node(lambda state: {"log": ["other"]}))
    builder.add_edge(START, "worker")
    return builder.compile(**options)


# -------------------------------------------------------------------------------------------------------------------- keys


def test_P50_an_unknown_key_of_the_input(saver: Saver, way: Way):
    for graph, config in ((returning(way, None, checkpointer=saver), on()), (returning(way, None), None)):
        with pytest.raises(UnknownKey, match=r"'nots'.*did you mean 'note'.*'log', 'note'.*unknown_keys='ignore'") as caught:
            way.invoke(graph, {"nots": "x"}, config)
        assert (caught.value.key, caught.value.code) == ("nots", "UNKNOWN_KEY")
        assert isinstance(caught.value, InvalidUpdateError)
    assert rows_of(saver)["checkpoints"] == {}, "nothing was accepted"


def test_P50_a_write_that_its_reducer_cannot_take(saver: Saver, way: Way):
    for given in ({"log": []}, {"log": "no list"}):
        with pytest.raises(TypeError, match="can only concatenate list") as caught:
            way.invoke(returning(way, {"log": "no list"}, checkpointer=saver), given, on(str(given)))
        assert any("At key 'log': its reducer was given a value of type list" in note for note in caught.value.__notes__)


@pytest.mark.parametrize(
    "value",
    [
        {"nots": "x"},
        {"note": "x", "nots": "x"},
        Command(update={"nots": "x"}),
        Command(update=[("nots", "x")]),
        [Command(update={"note": "x"}), {"nots": "x"}],
    ],
    ids=["dict", "dict with a known one", "Command", "Command with pairs", "list"],
)
def test_P50_an_unknown_key_of_a_nodes_return(saver: Saver, way: Way, value: Any):
    graph = returning(way, value, checkpointer=saver)
    with pytest.raises(UnknownKey, match=r"(?s)worker.*'nots'.*did you mean 'note'") as caught:
        way.invoke(graph, {"log": []}, on())
    assert (caught.value.key, caught.value.node) == ("nots", "worker")
    snapshot = way.state(graph, on())
    assert (snapshot.values, snapshot.next) == ({"log": []}, ("worker",)), "nothing of the update was applied"


def test_P50_an_unknown_key_of_an_edit(saver: Saver, way: Way):
    graph = returning(way, {"log": ["a"]}, checkpointer=saver)
    way.invoke(graph, {"log": []}, on())
    before = rows_of(saver)
    for call in (
        lambda: way.edit(graph, on(), {"nots": "x"}),
        lambda: way.edit(graph, on(), {"nots": "x"}, as_node="worker"),
        lambda: graph.bulk_update_state(on(), [[StateUpdate({"note": "x"}, "worker")], [StateUpdate({"nots": "x"}, "worker")]]),
        lambda: way.invoke(graph, Command(update={"nots": "x"}), on()),
    ):
        with pytest.raises(UnknownKey, match="'nots'"):
            call()
    assert rows_of(saver) == before, "nothing of it was stored, the good one before it included"


def test_P50_an_answer_with_an_update_of_an_unknown_key_answers_nothing(saver: Saver, way: Way):
    graph = chain(("a", Ledger(way).node("a", lambda: interrupt("?")))).compile(checkpointer=saver)
    way.invoke(graph, {"log": []}, on())
    before = rows_of(saver)
    with pytest.raises(UnknownKey):
        way.invoke(graph, Command(resume="x", update={"nots": 1}), on())
    assert rows_of(saver) == before


def test_P50_ignore_drops_unknown_keys_everywhere(saver: Saver, way: Way):
    graph = returning(way, {"log": ["a"], "nots": "x"}, checkpointer=saver, unknown_keys="ignore")
    assert way.invoke(graph, {"log": ["in"], "lag": 1}, on()) == {"log": ["in", "a"]}
    way.edit(graph, on(), {"nots": "x", "note": "y"}, as_node="worker")
    assert way.invoke(graph, Command(update=[("nots", 1), ("log", ["more"])]), on()) == {
        "log": ["in", "a", "more"],
        "note": "y",
    }
    with pytest.raises(InvalidGraph, match="unknown_keys"):
        returning(way, None, unknown_keys="warn")


def test_P50_ignore_does_not_hide_unknown_targets(saver: Saver, way: Way):
    graph = returning(way, Command(goto="othr"), checkpointer=saver, unknown_keys="ignore")
    with pytest.raises(UnknownNode):
        way.invoke(graph, {"log": []}, on())


# ----------------------------------------------------------------------------------------------------------------- targets


@pytest.mark.parametrize(
    "goto",
    ["othr", ["other", "othr"], Send("othr", {}), [Send("other", {}), Send("othr", {})]],
    ids=["name", "list", "send", "sends"],
)
def test_P50_an_unknown_target_of_a_command(saver: Saver, way: Way, goto: Any):
    graph = returning(way, Command(goto=goto), checkpointer=saver)
    with pytest.raises(UnknownNode, match=r"(?s)'worker'.*'othr'.*did you mean 'other'.*'worker', 'other'") as caught:
        way.invoke(graph, {"log": []}, on())
    assert caught.value.node == "worker"
    assert way.state(graph, on()).next == ("worker",)


@pytest.mark.parametrize("chosen", ["othr", ["other", "othr"], Send("othr", {})], ids=["name", "list", "send"])
def test_P50_an_unknown_target_of_a_conditional_edge(saver: Saver, way: Way, chosen: Any):
    for source in (START, "worker"):
        builder: StateGraph[Any, Any, Any, Any] = StateGraph(State)
        builder.add_node("worker", way.node(lambda state: {"log": ["w"]}))
        builder.add_node("other", way.node(lambda state: {"log": ["o"]}))
        if source != START:
            builder.add_edge(START, "worker")
        builder.add_conditional_edges(source, lambda state: chosen)
        graph = builder.compile(checkpointer=saver)
        thread = on(f"from {source}")
        with pytest.raises(UnknownNode, match=r"(?s)'othr'.*did you mean 'other'"):
            way.invoke(graph, {"log": []}, thread)
        assert way.state(graph, thread).next == (source,)


def test_P50_an_unknown_target_given_by_the_caller(saver: Saver, way: Way):
    graph = returning(way, {"log": ["a"]}, checkpointer=saver)
    way.invoke(graph, {"log": []}, on())
    before = rows_of(saver)
    for goto in ("othr", [Send("othr", {})]):
        with pytest.raises(UnknownNode, match=r"(?s)'othr'.*did you mean 'other'"):
            way.invoke(graph, Command(goto=goto), on())
    with pytest.raises(InvalidUpdateError, match="othr"):
        way.edit(graph, on(), {"note": "x"}, as_node="othr")
    with pytest.raises(UnknownNode):
        way.invoke(graph, Command(update={"note": "x"}, goto="othr"), on("new"))
    assert rows_of(saver) == before
    assert way.state(graph, on("new")).metadata is None


# ------------------------------------------------------------------------------------------------------------------ config


@pytest.mark.parametrize(
    ("key", "meant"),
    [("thread_id", None), ("recursionlimit", "recursion_limit"), ("configurabel", "configurable"), ("nonsense", None)],
)
def test_P50_an_unknown_top_level_key_of_a_config(saver: Saver, way: Way, key: str, meant: str | None):
    graph = returning(way, {"log": ["a"]}, checkpointer=saver)
    config: Any = {**on(), key: 1}
    for call in (
        lambda: way.invoke(graph, {"log": []}, config),
        lambda: way.stream(graph, {"log": []}, config),
        lambda: way.state(graph, config),
        lambda: way.history(graph, config),
        lambda: way.edit(graph, config, {"note": "x"}),
        lambda: graph.with_config(config),
    ):
        with pytest.raises(InvalidConfig, match=key) as caught:
            call()
        assert caught.value.key == key
        assert "configurable" in str(caught.value)
        assert meant is None or f"did you mean {meant!r}" in str(caught.value)


def test_P50_configurable_and_metadata_are_free(saver: Saver, way: Way):
    graph = returning(way, {"log": ["a"]}, checkpointer=saver)
    config: Any = {
        "configurable": {"thread_id": "t", "anything": object(), "user id": 1},
        "metadata": {"anything": object(), "langfuse_session_id": "s"},
        "tags": ["x"],
        "callbacks": None,
        "run_name": "n",
        "max_concurrency": 2,
        "recursion_limit": 5,
    }
    assert way.invoke(graph, {"log": []}, config) == {"log": ["a"]}


# -------------------------------------------------------------------------------------------------- between parent and child


class Child(TypedDict, total=False):
    log: Annotated[list[str], operator.add]
    own: str


def test_P50_between_parent_and_subgraph_keys_are_projected_silently(saver: Saver, way: Way):
    # The parent's `note` is unknown to the child, the child's `own` to the parent.
    seen: list[Any] = []

    def inside(state: Any) -> Any:
        seen.append(dict(state))
        return {"log": ["child"], "own": "o"}

    inner: StateGraph[Any, Any, Any, Any] = StateGraph(Child)
    inner.add_node("inside", way.node(inside))
    inner.add_edge(START, "inside")
    builder: StateGraph[Any, Any, Any, Any] = StateGraph(State)
    builder.add_node("child", inner.compile())
    builder.add_edge(START, "child")
    graph = builder.compile(checkpointer=saver)
    assert way.invoke(graph, {"log": [], "note": "n"}, on()) == {"log": ["child"], "note": "n"}
    assert seen == [{"log": []}]


def test_P50_a_subgraph_called_by_a_nodes_code_is_projected_too(saver: Saver, way: Way):
    inner: StateGraph[Any, Any, Any, Any] = StateGraph(Child)
    inner.add_node("inside", way.node(lambda state: {"log": ["child"], "own": "o"}))
    inner.add_edge(START, "inside")
    child = inner.compile()

    def call(state: Any) -> Any:
        return child.invoke(state)

    async def acall(state: Any) -> Any:
        return await child.ainvoke(state)

    builder: StateGraph[Any, Any, Any, Any] = StateGraph(State)
    builder.add_node("call", acall if way.is_async else call)
    builder.add_edge(START, "call")
    graph = builder.compile(checkpointer=saver, unknown_keys="ignore")
    assert way.invoke(graph, {"log": [], "note": "n"}, on()) == {"log": ["child"], "note": "n"}


def test_P50_a_node_of_a_subgraph_with_an_unknown_key_is_an_error(saver: Saver, way: Way):
    inner: StateGraph[Any, Any, Any, Any] = StateGraph(Child)
    inner.add_node("inside", way.node(lambda state: {"note": "the parent has it, this graph does not"}))
    inner.add_edge(START, "inside")
    builder: StateGraph[Any, Any, Any, Any] = StateGraph(State)
    builder.add_node("child", inner.compile())
    builder.add_edge(START, "child")
    with pytest.raises(UnknownKey, match="'note'"):
        way.invoke(builder.compile(checkpointer=saver), {"log": []}, on())


# ------------------------------------------------------------------------------------------------------------------- other


@pytest.mark.parametrize("value", ["text", 7, ["log"], object()], ids=["text", "int", "list", "object"])
def test_P50_what_is_no_update_says_what_would_be(saver: Saver, way: Way, value: Any):
    graph = returning(way, value, checkpointer=saver)
    with pytest.raises(InvalidUpdateError, match="'worker' must return a dict"):
        way.invoke(graph, {"log": []}, on())
    with pytest.raises(InvalidUpdateError, match="the input of graph"):
        way.invoke(graph, value, on("other"))


def test_P50_an_object_with_an_unknown_field(saver: Saver, way: Way):
    @dataclass
    class Update:
        log: list[str]
        nots: str

    graph = returning(way, Update(["x"], "y"), checkpointer=saver)
    with pytest.raises(UnknownKey, match="'nots'"):
        way.invoke(graph, {"log": []}, on())


def test_P50_every_error_has_a_code_and_says_where(saver: Saver, way: Way):
    graph = returning(way, {"nots": 1}, checkpointer=saver)
    with pytest.raises(PerdureError) as caught:
        way.invoke(graph, {"log": []}, on())
    assert caught.value.code.isupper()
    assert any("During task with name 'worker'" in note for note in caught.value.__notes__)
