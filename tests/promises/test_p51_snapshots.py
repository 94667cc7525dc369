"""P51: a StateSnapshot has every field the field knows; `writes` is rebuilt from records; namespaces inside a node."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from perdure.checkpoint.saver import Saver
from perdure.graph import START, StateGraph
from perdure.types import Command, PregelTask, RunnableConfig, Send, StateSnapshot, StateUpdate, interrupt
from tests.promises.ways import Ledger, Log, Way, abreast, chain, on


def meta(snapshot: StateSnapshot) -> Any:
    assert snapshot.metadata is not None
    return snapshot.metadata


def writes(history: list[StateSnapshot]) -> list[Any]:
    return [(meta(s)["source"], meta(s)["step"], meta(s)["writes"]) for s in history]


def test_P51_every_field_of_every_snapshot(saver: Saver, way: Way):
    ledger = Ledger(way)
    graph = chain(("a", ledger.node("a")), ("b", ledger.node("b"))).compile(checkpointer=saver)
    way.invoke(graph, {"log": ["in"]}, {**on(), "metadata": {"user": "u"}})
    history = way.history(graph, on())
    assert [s.values for s in history] == [{"log": ["in", "a", "b"]}, {"log": ["in", "a"]}, {"log": ["in"]}, {"log": []}]
    assert [s.next for s in history] == [(), ("b",), ("a",), (START,)]
    assert writes(history) == [
        ("loop", 2, {"b": {"log": ["b"]}}),
        ("loop", 1, {"a": {"log": ["a"]}}),
        ("loop", 0, None),
        ("input", -1, {"log": ["in"]}),
    ]
    assert all((meta(s)["user"], meta(s)["parents"]) == ("u", {}) for s in history)
    assert [s.parent_config for s in history] == [*(s.config for s in history[1:]), None]
    for s in history:
        assert set(s.config["configurable"]) == {"thread_id", "checkpoint_ns", "checkpoint_id"}
        assert datetime.fromisoformat(s.created_at or "").tzinfo is not None
        assert s.interrupts == ()
        # Each can be addressed, and is the same then.
        assert way.state(graph, s.config) == s
    assert [[(task.name, task.result, task.error, task.interrupts, task.state) for task in s.tasks] for s in history] == [
        [],
        [("b", {"log": ["b"]}, None, (), None)],
        [("a", {"log": ["a"]}, None, (), None)],
        [(START, {"log": ["in"]}, None, (), None)],
    ]
    assert len({task.id for s in history for task in s.tasks}) == 3
    assert way.state(graph, on()) == history[0]


def test_P51_the_fields_are_those_of_the_field():
    assert StateSnapshot._fields[:7] == ("values", "next", "config", "metadata", "created_at", "parent_config", "tasks")
    assert {"id", "name", "error", "interrupts", "state"} <= set(PregelTask._fields)


def test_P51_input_writes_are_the_input_as_given(saver: Saver, way: Way):
    ledger = Ledger(way)
    graph = chain(("a", ledger.node("a"))).compile(checkpointer=saver)
    for turn in ("1", "2"):
        way.invoke(graph, {"log": [turn]}, on())
    assert writes(way.history(graph, on())) == [
        ("loop", 4, {"a": {"log": ["a"]}}),
        ("loop", 3, None),
        ("input", 2, {"log": ["2"]}),
        ("loop", 1, {"a": {"log": ["a"]}}),
        ("loop", 0, None),
        ("input", -1, {"log": ["1"]}),
    ]
    root: StateGraph[Any, Any, Any, Any] = StateGraph(int)
    root.add_node("a", way.node(lambda n: n + 1))
    root.add_edge(START, "a")
    counted = root.compile(checkpointer=saver)
    way.invoke(counted, 1, on("root"))
    history = way.history(counted, on("root"))
    assert [s.values for s in history] == [2, 1, None]
    assert [meta(s)["writes"] for s in history] == [{"a": 2}, None, 1]


def test_P51_writes_of_several_tasks_and_of_sends(saver: Saver, way: Way):
    ledger = Ledger(way)
    graph = abreast(("a", ledger.node("a")), ("b", ledger.node("b"))).compile(checkpointer=saver)
    way.invoke(graph, {"log": []}, on())
    assert meta(way.state(graph, on()))["writes"] == {"a": {"log": ["a"]}, "b": {"log": ["b"]}}
    builder: StateGraph[Any, Any, Any, Any] = StateGraph(Log)
    builder.add_node("work", way.node(lambda n: {"log": [str(n)]}))
    builder.add_conditional_edges(START, lambda state: [Send("work", n) for n in range(3)], ["work"])
    fan = builder.compile(checkpointer=saver)
    way.invoke(fan, {"log": []}, on("fan"))
    assert meta(way.state(fan, on("fan")))["writes"] == {"work": [{"log": ["0"]}, {"log": ["1"]}, {"log": ["2"]}]}


def test_P51_writes_of_edits(saver: Saver, way: Way):
    ledger = Ledger(way)
    graph = chain(("a", ledger.node("a")), ("b", ledger.node("b"))).compile(checkpointer=saver)
    way.invoke(graph, {"log": []}, on())
    way.edit(graph, on(), {"log": ["x"]}, as_node="a")
    snapshot = way.state(graph, on())
    assert (meta(snapshot)["source"], meta(snapshot)["step"], meta(snapshot)["writes"]) == ("update", 3, {"a": {"log": ["x"]}})
    assert snapshot.next == ("b",)
    graph.bulk_update_state(on(), [[StateUpdate({"log": ["y"]}, "a"), StateUpdate({"log": ["z"]}, "b")]])
    assert meta(way.state(graph, on()))["writes"] == {"a": {"log": ["y"]}, "b": {"log": ["z"]}}


def test_P51_a_node_that_writes_nothing(saver: Saver, way: Way):
    graph = chain(("a", way.node(lambda state: None))).compile(checkpointer=saver)
    way.invoke(graph, {"log": []}, on())
    assert meta(way.state(graph, on()))["writes"] == {"a": None}


def test_P51_tasks_tell_errors_pauses_and_results(saver: Saver, way: Way):
    ledger = Ledger(way)

    def fail() -> None:
        raise ConnectionError("down")

    nodes = {"good": ledger.node("good"), "asks": ledger.node("asks", lambda: interrupt({"q": 1}))}
    paused = abreast(*nodes.items()).compile(checkpointer=saver)
    result = way.invoke(paused, {"log": []}, on("paused"))
    snapshot = way.state(paused, on("paused"))
    assert snapshot.next == ("asks",)
    assert {task.name: (task.error, task.interrupts, task.result) for task in snapshot.tasks} == {
        "good": (None, (), {"log": ["good"]}),
        "asks": (None, tuple(result["__interrupt__"]), None),
    }
    assert snapshot.interrupts == tuple(result["__interrupt__"])

    broken = chain(("bad", ledger.node("bad", fail))).compile(checkpointer=saver)
    with pytest.raises(ConnectionError):
        way.invoke(broken, {"log": []}, on("broken"))
    task = way.state(broken, on("broken")).tasks[0]
    assert task.name == "bad"
    assert "ConnectionError" in repr(task.error)
    assert "down" in repr(task.error)


def test_P51_the_id_of_a_task_is_what_the_task_itself_sees(saver: Saver, way: Way):
    seen: list[Any] = []

    def node(state: Log, config: RunnableConfig) -> Any:
        seen.append(config)
        return {"log": ["a"]}

    graph = chain(("a", way.node(node))).compile(checkpointer=saver)
    way.invoke(graph, {"log": []}, on())
    task = next(s for s in way.history(graph, on()) if s.next == ("a",)).tasks[0]
    assert seen[0]["metadata"]["langgraph_checkpoint_ns"] == f"a:{task.id}"
    assert seen[0]["configurable"]["checkpoint_ns"] == ""


def test_P51_checkpoint_ns_inside_a_node_is_the_graphs(saver: Saver, way: Way):
    seen: dict[str, tuple[str, str]] = {}

    def note(name: str) -> Any:
        def node(state: Log, config: RunnableConfig) -> Any:
            seen[name] = (config["configurable"]["checkpoint_ns"], config["metadata"]["langgraph_checkpoint_ns"])
            return {"log": [name]}

        return way.node(node)

    grandchild = chain(("inmost", note("inmost"))).compile()
    child = chain(("inner", note("inner")), ("deeper", grandchild)).compile()
    graph = chain(("outer", note("outer")), ("child", child)).compile(checkpointer=saver)
    way.invoke(graph, {"log": []}, on())
    assert seen["outer"][0] == ""
    assert seen["outer"][1].startswith("outer:")
    child_ns = seen["inner"][0]
    assert child_ns.startswith("child:")
    assert "|" not in child_ns
    assert seen["inner"][1].startswith(f"{child_ns}|inner:")
    assert seen["inmost"][0].startswith(f"{child_ns}|deeper:")
    assert seen["inmost"][1].startswith(f"{seen['inmost'][0]}|inmost:")


def test_P51_the_state_of_a_subgraph(saver: Saver, way: Way):
    child = chain(("ask", Ledger(way).node("ask", lambda: interrupt("?")))).compile()
    graph = chain(("child", child)).compile(checkpointer=saver)
    way.invoke(graph, {"log": ["in"]}, on())
    task = way.state(graph, on()).tasks[0]
    address = task.state["configurable"]
    assert (address["thread_id"], address["checkpoint_ns"]) == ("t", f"child:{task.id}")
    assert [pause.value for pause in task.interrupts] == ["?"]
    inner = way.state(graph, on(), subgraphs=True).tasks[0].state
    assert isinstance(inner, StateSnapshot)
    assert (inner.values, inner.next) == ({"log": ["in"]}, ("ask",))
    assert inner.config["configurable"]["checkpoint_ns"] == f"child:{task.id}"
    assert way.state(graph, task.state).values == inner.values, "its config addresses it"
    way.invoke(graph, Command(resume="a"), on())
    assert way.state(graph, on()).tasks == ()
