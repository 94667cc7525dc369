"""Graphs inside graphs: as nodes, and called by a node's code."""

from __future__ import annotations

import asyncio
import operator
from typing import Annotated, Any

import pytest
from typing_extensions import TypedDict

from perdure import END, START, StateGraph
from perdure.checkpoint.memory import InMemorySaver
from perdure.checkpoint.saver import Saver
from perdure.errors import InvalidConfig
from perdure.runtime import Runtime
from perdure.types import Command, Send, StreamWriter, interrupt
from tests.engine.colours import Colour, Log, thread


class Shared(TypedDict):
    word: str
    log: Annotated[list[Any], operator.add]


class Parent(TypedDict):
    word: str
    mine: str


class Child(TypedDict):
    word: str
    own: int


def child(colour: Colour, **compiled: Any) -> Any:
    """Reads `word`, counts in a key of its own, and changes `word`."""
    graph = StateGraph(Child).add_node("c1", colour.node(lambda state: {"own": len(state["word"])}))
    graph.add_node("c2", colour.node(lambda state: {"word": state["word"] * state["own"]})).add_edge(START, "c1").add_edge(
        "c1", "c2"
    )
    return graph.compile(**compiled)


def test_a_subgraph_as_a_node_gets_and_gives_the_shared_keys(colour: Colour, saver: Any) -> None:
    graph = (
        StateGraph(Parent).add_node("sub", child(colour)).add_node("after", colour.node(lambda state: {"mine": state["word"]}))
    )
    compiled = graph.add_edge(START, "sub").add_edge("sub", "after").compile(saver)
    assert colour.invoke(compiled, {"word": "ab", "mine": ""}, thread()) == {"word": "abab", "mine": "abab"}


def test_a_subgraph_called_by_a_node_gets_what_it_is_given(colour: Colour, saver: Any) -> None:
    inner = child(colour)

    def call(state: Parent) -> dict[str, Any]:
        return {"mine": inner.invoke({"word": "xyz"})["word"]}

    async def acall(state: Parent) -> dict[str, Any]:
        return {"mine": (await inner.ainvoke({"word": "xyz"}))["word"]}

    for at, node in enumerate((call, acall)):
        graph = StateGraph(Parent).add_node("a", node).add_edge(START, "a").compile(saver)
        assert colour.invoke(graph, {"word": "w"}, thread(str(at))) == {"word": "w", "mine": "xyzxyzxyz"}


def test_a_sync_call_of_a_subgraph_inside_an_async_node_works(colour: Colour, saver: Any) -> None:
    inner = child(colour)

    async def node(_: Parent) -> dict[str, Any]:
        return {"mine": inner.invoke({"word": "no"})["word"]}

    graph = StateGraph(Parent).add_node("a", node).add_edge(START, "a").compile(saver)
    assert colour.invoke(graph, {"word": "w"}, thread()) == {"word": "w", "mine": "nono"}


def asking() -> StateGraph[Any, Any, Any, Any]:
    graph = (
        StateGraph(Log).add_node("before", lambda _: {"log": ["before"]}).add_node("ask", lambda _: {"log": [interrupt("q")]})
    )
    return graph.add_edge(START, "before").add_edge("before", "ask")


class Outer(TypedDict):
    log: Annotated[list[Any], lambda left, right: right]  # takes the child's list as it is


def around(colour: Colour, inner: Any, node: Any = None) -> StateGraph[Any, Any, Any, Any]:
    graph = StateGraph(Outer).add_node("sub", inner if node is None else colour.node(node))
    graph.add_node("after", colour.node(lambda state: {"log": [*state["log"], "after"]}))
    return graph.add_edge(START, "sub").add_edge("sub", "after")


def test_a_question_inside_a_subgraph_pauses_the_parent_and_its_answer_goes_on_there(colour: Colour, kept: Saver) -> None:
    graph = around(colour, asking().compile()).compile(kept)
    out = colour.invoke(graph, {"log": []}, thread())
    assert [pause.value for pause in out["__interrupt__"]] == ["q"]
    state = colour.state(graph, thread(), subgraphs=True)
    assert (state.next, [pause.value for pause in state.interrupts]) == (("sub",), ["q"])
    inside = state.tasks[0].state
    assert (inside.values, inside.next) == ({"log": ["before"]}, ("ask",))
    assert inside.config["configurable"]["checkpoint_ns"] == f"sub:{state.tasks[0].id}"
    assert colour.state(graph, thread()).tasks[0].state == {
        "configurable": {"thread_id": "t", "checkpoint_ns": f"sub:{state.tasks[0].id}"}
    }
    assert colour.invoke(graph, Command(resume="r"), thread()) == {"log": ["before", "r", "after"]}


def test_a_question_inside_a_called_subgraph_does_the_same(colour: Colour, kept: Saver) -> None:
    inner = asking().compile()
    entered: list[int] = []

    def node(_: Outer) -> dict[str, Any]:
        entered.append(1)
        return {"log": inner.invoke({"log": []})["log"]}

    graph = around(colour, None, node).compile(kept)
    out = colour.invoke(graph, {"log": []}, thread())
    assert [pause.value for pause in out["__interrupt__"]] == ["q"]
    assert colour.invoke(graph, Command(resume="r"), thread()) == {"log": ["before", "r", "after"]}
    assert len(entered) == 2


def test_finished_nodes_of_a_subgraph_do_not_run_again(colour: Colour, kept: Saver) -> None:
    runs: list[str] = []

    def before(_: Log) -> dict[str, Any]:
        runs.append("before")
        return {"log": ["before"]}

    graph = StateGraph(Log).add_node("before", before).add_node("ask", lambda _: {"log": [interrupt("1"), interrupt("2")]})
    outer = around(colour, graph.add_edge(START, "before").add_edge("before", "ask").compile()).compile(kept)
    colour.invoke(outer, {"log": []}, thread())
    colour.invoke(outer, Command(resume="x"), thread())
    assert colour.invoke(outer, Command(resume="y"), thread()) == {"log": ["before", "x", "y", "after"]}
    assert runs == ["before"]


def test_a_failure_inside_a_subgraph_comes_out_and_a_resume_goes_on_inside(colour: Colour, kept: Saver) -> None:
    runs: list[str] = []

    def shaky(_: Log) -> dict[str, Any]:
        runs.append("shaky")
        if runs.count("shaky") == 1:
            raise ConnectionError("down")
        return {"log": ["shaky"]}

    def before(_: Log) -> dict[str, Any]:
        runs.append("before")
        return {"log": ["before"]}

    inner = (
        StateGraph(Log)
        .add_node("before", before)
        .add_node("shaky", shaky)
        .add_edge(START, "before")
        .add_edge("before", "shaky")
    )
    graph = around(colour, inner.compile()).compile(kept)
    with pytest.raises(ConnectionError) as caught:
        colour.invoke(graph, {"log": []}, thread())
    assert any("'shaky'" in note for note in caught.value.__notes__)
    assert colour.invoke(graph, None, thread()) == {"log": ["before", "shaky", "after"]}
    assert runs == ["before", "shaky", "shaky"]


def test_without_a_memory_of_its_own_each_call_of_a_subgraph_starts_afresh(colour: Colour, kept: Saver) -> None:
    graph = around(colour, StateGraph(Log).add_node("a", colour.says("a")).add_edge(START, "a").compile()).compile(kept)
    assert colour.invoke(graph, {"log": []}, thread()) == {"log": ["a", "after"]}
    assert colour.invoke(graph, {"log": []}, thread()) == {"log": ["a", "after"]}


def test_with_a_memory_of_its_own_a_subgraph_goes_on(colour: Colour, kept: Saver) -> None:
    inner = StateGraph(Log).add_node("a", colour.says("a")).add_edge(START, "a").compile(checkpointer=True)
    graph = around(colour, inner).compile(kept)
    assert colour.invoke(graph, {"log": ["1"]}, thread()) == {"log": ["1", "a", "after"]}
    assert colour.invoke(graph, {"log": ["2"]}, thread()) == {"log": ["1", "a", "2", "a", "after"]}
    assert colour.invoke(graph, {"log": ["x"]}, thread("other")) == {"log": ["x", "a", "after"]}


def test_a_memory_of_its_own_needs_a_saver_around_and_cannot_be_a_root(colour: Colour) -> None:
    inner = StateGraph(Log).add_node("a", colour.says("a")).add_edge(START, "a").compile(checkpointer=True)
    with pytest.raises(ValueError, match="checkpointer=True"):
        colour.invoke(around(colour, inner).compile(), {"log": []})
    with pytest.raises(InvalidConfig, match="cannot be used for root graphs"):
        colour.invoke(inner, {"log": []}, thread())


def test_a_subgraph_that_keeps_nothing_runs_again_as_a_whole(colour: Colour, kept: Saver) -> None:
    runs: list[str] = []

    def before(_: Log) -> dict[str, Any]:
        runs.append("before")
        return {"log": ["before"]}

    inner = StateGraph(Log).add_node("before", before).add_node("ask", lambda _: {"log": [interrupt("q")]})
    inner.add_edge(START, "before").add_edge("before", "ask")
    graph = around(colour, inner.compile(checkpointer=False)).compile(kept)
    assert [pause.value for pause in colour.invoke(graph, {"log": []}, thread())["__interrupt__"]] == ["q"]
    assert colour.invoke(graph, Command(resume="r"), thread()) == {"log": ["before", "r", "after"]}
    assert runs == ["before", "before"]


def test_a_subgraphs_command_may_go_to_a_node_of_the_parent(colour: Colour, saver: Any) -> None:
    def jump(_: Log) -> Command[Any]:
        return Command(graph=Command.PARENT, update={"log": ["from below"]}, goto="target")

    inner = StateGraph(Log).add_node("jump", colour.node(jump)).add_edge(START, "jump").compile()
    graph = (
        StateGraph(Log).add_node("sub", inner).add_node("target", colour.says("target")).add_edge(START, "sub").compile(saver)
    )
    assert colour.invoke(graph, {"log": []}, thread()) == {"log": ["from below", "target"]}


def test_a_send_may_start_a_subgraph(colour: Colour, saver: Any) -> None:
    inner = (
        StateGraph(Log)
        .add_node("a", colour.node(lambda state: {"log": [f"{state['log'][0]}!"]}))
        .add_edge(START, "a")
        .compile()
    )
    graph = StateGraph(Log).add_node("sub", inner)
    graph.add_conditional_edges(START, lambda _: [Send("sub", {"log": [word]}) for word in ("x", "y")])
    assert colour.invoke(graph.compile(saver), {"log": []}, thread()) == {"log": ["x", "x!", "y", "y!"]}


def test_subgraphs_run_in_parallel_and_keep_apart(colour: Colour, kept: Saver) -> None:
    graph = StateGraph(Log)
    for name in "ab":
        graph.add_node(name, asking().compile()).add_edge(START, name)
    compiled = graph.compile(kept)
    out = colour.invoke(compiled, {"log": []}, thread())
    assert [pause.value for pause in out["__interrupt__"]] == ["q", "q"]
    first, second = (pause.id for pause in out["__interrupt__"])
    out = colour.invoke(compiled, Command(resume={first: "A"}), thread())
    assert [pause.id for pause in out["__interrupt__"]] == [second]
    assert colour.invoke(compiled, Command(resume={second: "B"}), thread())["log"] == ["before", "A", "before", "B"]


def test_several_subgraphs_called_by_one_node_have_namespaces_of_their_own(colour: Colour, kept: Saver) -> None:
    inner = child(colour)

    def node(_: Parent) -> dict[str, Any]:
        return {"mine": "".join(inner.invoke({"word": word})["word"] for word in ("a", "bb"))}

    graph = StateGraph(Parent).add_node("n", node).add_edge(START, "n").compile(kept)
    events = colour.stream(graph, {"word": "w"}, thread(), subgraphs=True)
    spaces = list(dict.fromkeys(space for space, _ in events))
    assert [len(space) for space in spaces] == [1, 2, 0]
    assert spaces[0][0].startswith("n:")
    assert spaces[1] == (spaces[0][0], "1")
    assert events[-1] == ((), {"n": {"mine": "abbbb"}})


def test_events_of_subgraphs_come_with_their_namespace_if_asked_for(colour: Colour, saver: Any) -> None:
    graph = around(colour, StateGraph(Log).add_node("a", colour.says("a")).add_edge(START, "a").compile()).compile(saver)
    plain = colour.stream(graph, {"log": []}, thread("1"))
    assert plain == [{"sub": {"log": ["a"]}}, {"after": {"log": ["a", "after"]}}]
    events = colour.stream(graph, {"log": []}, thread("2"), subgraphs=True)
    assert [payload for _, payload in events] == [{"a": {"log": ["a"]}}, *plain]
    assert [len(space) for space, _ in events] == [1, 0, 0]
    assert events[0][0][0].startswith("sub:")
    events = colour.stream(graph, {"log": []}, thread("3"), subgraphs=True, stream_mode=["updates", "values"])
    assert [len(event) for event in events] == [3] * len(events)
    dicts = colour.stream(graph, {"log": []}, thread("4"), subgraphs=True, version="v2")
    assert [(len(each["ns"]), each["type"]) for each in dicts] == [(1, "updates"), (0, "updates"), (0, "updates")]


def test_custom_events_of_a_subgraph_reach_those_who_asked_for_subgraphs(colour: Colour) -> None:
    def node(_: Log, writer: StreamWriter) -> dict[str, Any]:
        writer("inside")
        return {"log": ["a"]}

    graph = around(colour, StateGraph(Log).add_node("a", colour.node(node)).add_edge(START, "a").compile()).compile()
    events = colour.stream(graph, {"log": []}, stream_mode="custom", subgraphs=True)
    assert [payload for _, payload in events] == ["inside"]
    assert events[0][0][0].startswith("sub:")


def test_a_subgraph_inherits_context_store_and_config(colour: Colour) -> None:
    seen: list[Any] = []
    store = object()

    def node(_: Log, runtime: Runtime[Any], config) -> None:  # noqa: ANN001 - it is the name that counts
        seen.append((runtime.context, runtime.store, config["configurable"]["user"], config["tags"]))

    inner = StateGraph(Log).add_node("a", colour.node(node)).add_edge(START, "a").compile()

    def call(_: Outer) -> None:
        inner.invoke({"log": []})

    graph = around(colour, inner).add_node("call", colour.node(call)).add_edge("after", "call").compile(store=store)
    colour.invoke(graph, {"log": []}, {"configurable": {"user": "u"}, "tags": ["t"]}, context="ctx")
    assert seen == [("ctx", store, "u", ["t"])] * 2


def test_a_breakpoint_inside_a_subgraph_stops_the_parent(colour: Colour, kept: Saver) -> None:
    inner = (
        StateGraph(Log).add_node("a", colour.says("a")).add_node("b", colour.says("b")).add_edge(START, "a").add_edge("a", "b")
    )
    graph = around(colour, inner.compile(interrupt_before=["b"])).compile(kept)
    colour.invoke(graph, {"log": []}, thread())
    assert colour.state(graph, thread()).next == ("sub",)
    assert colour.state(graph, thread(), subgraphs=True).tasks[0].state.next == ("b",)
    assert colour.invoke(graph, None, thread()) == {"log": ["a", "b", "after"]}


def test_three_levels(colour: Colour, kept: Saver) -> None:
    middle = StateGraph(Log).add_node("inner", asking().compile()).add_edge(START, "inner").compile()
    graph = around(colour, middle).compile(kept)
    out = colour.invoke(graph, {"log": []}, thread())
    state = colour.state(graph, thread(), subgraphs=True)
    innermost = state.tasks[0].state.tasks[0].state
    assert (innermost.values, innermost.next) == ({"log": ["before"]}, ("ask",))
    assert [pause.value for pause in out["__interrupt__"]] == ["q"]
    assert colour.invoke(graph, Command(resume="r"), thread()) == {"log": ["before", "r", "after"]}


def test_a_graph_on_another_thread_is_a_run_of_its_own(colour: Colour, kept: Saver) -> None:
    other = StateGraph(Log).add_node("a", colour.says("a")).add_edge(START, "a").compile(InMemorySaver())

    async def node(_: Log) -> dict[str, Any]:
        return await other.ainvoke({"log": ["other"]}, thread("other"))  # type: ignore[no-any-return]

    graph = StateGraph(Log).add_node("n", node).add_edge(START, "n").compile(kept)
    assert colour.invoke(graph, {"log": []}, thread()) == {"log": ["other", "a"]}
    assert other.get_state(thread("other")).values == {"log": ["other", "a"]}
    assert asyncio.run(other.aget_state(thread())).values == {}


def test_a_recursion_limit_holds_for_a_subgraph_by_itself(colour: Colour) -> None:
    loop = StateGraph(Log).add_node("a", colour.says("a")).add_edge(START, "a")
    loop.add_conditional_edges("a", lambda state: END if len(state["log"]) == 5 else "a")
    graph = around(colour, loop.compile()).compile()
    assert colour.invoke(graph, {"log": []}, {"recursion_limit": 5})["log"] == ["a"] * 5 + ["after"]
    with pytest.raises(RecursionError):
        colour.invoke(graph, {"log": []}, {"recursion_limit": 4})
