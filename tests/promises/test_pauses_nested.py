"""P12: pauses in parallel nodes, in subgraphs at any depth, in subgraphs and steps that a node calls; and the ids of all of them."""

from __future__ import annotations

import asyncio
import operator
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypedDict

from perdure.checkpoint.saver import Saver
from perdure.checkpoint.sqlite import SqliteSaver
from perdure.func import task
from perdure.graph import START, StateGraph
from perdure.types import Command, interrupt
from tests.promises.asking import Entered, graph_of, in_group, open_of, side_by_side
from tests.promises.ways import Log, Way, on, rows_of


class Own(TypedDict):
    """The state of subgraphs: a key of its own."""

    said: Annotated[list[str], operator.add]


def asker(entered: Entered, *names: str) -> Callable[[], list[Callable[[], str]]]:
    """Helpers that count their entries and ask their names."""

    def ask(name: str) -> str:
        entered[name] += 1
        return f"{name}={interrupt(name)}"

    return lambda: [lambda name=name: ask(name) for name in names]


# -- in parallel nodes, in subgraphs, in steps ---------------------------------------------------------------------------------------


def test_P12_parallel_nodes_are_all_asked(way: Way, saver: Saver) -> None:
    entered = Entered()
    graph = graph_of(**{name: entered.asks(way, name) for name in "abcd"}).compile(saver)
    ids = open_of(way.invoke(graph, {"log": []}, on()))
    assert list(ids) == ["a", "b", "c", "d"]
    out = way.invoke(graph, Command(resume={pause: name.upper() for name, pause in ids.items()}), on())
    assert out == {"log": ["a:A", "b:B", "c:C", "d:D"]}
    assert entered == dict.fromkeys("abcd", 2)


def nested(way: Way, entered: Entered, depth: int, *names: str) -> Any:
    """A subgraph in a subgraph in a … of nodes that ask."""
    graph: Any = None
    for level in range(depth, 0, -1):
        builder: StateGraph[Any, Any, Any, Any] = StateGraph(Own)
        if graph is None:
            for name in names:

                def node(_: Own, name: str = name) -> dict[str, Any]:
                    entered[name] += 1
                    return {"said": [f"{name}={interrupt(name)}"]}

                builder.add_node(name, way.node(node)).add_edge(START, name)
        else:
            builder.add_node(f"level{level}", graph).add_edge(START, f"level{level}")
        graph = builder.compile()
    return graph


class Both(TypedDict):
    """The state of a graph around subgraphs that share a key with it."""

    log: Annotated[list[str], operator.add]
    said: Annotated[list[str], operator.add]


def test_P12_questions_of_a_subgraph_at_depth_three_reach_the_top(way: Way, saver: Saver) -> None:
    entered = Entered()
    builder: StateGraph[Any, Any, Any, Any] = StateGraph(Both)
    builder.add_node("sub", nested(way, entered, 3, "x", "y")).add_edge(START, "sub")
    graph = builder.compile(saver)
    ids = open_of(way.invoke(graph, {"log": []}, on()))
    assert set(ids) == {"x", "y"}
    assert open_of(way.state(graph, on())) == ids
    assert [pause.node for pause in way.state(graph, on()).interrupts] == ["x", "y"]
    out = way.invoke(graph, Command(resume={ids["y"]: "Y"}), on())
    assert open_of(out) == {"x": ids["x"]}
    assert entered == {"x": 1, "y": 2}
    assert way.invoke(graph, Command(resume="X"), on())["said"] == ["x=X", "y=Y"]
    assert entered == {"x": 2, "y": 2}


def caller(way: Way, sub: Any, times: int, entered: Entered) -> Any:
    """A node that calls a subgraph, several times in a row."""
    if way.is_async:

        async def anode(_: Any) -> dict[str, Any]:
            entered["caller"] += 1
            return {"log": [(await sub.ainvoke({"said": [str(at)]}))["said"][-1] for at in range(times)]}

        return anode

    def node(_: Any) -> dict[str, Any]:
        entered["caller"] += 1
        return {"log": [sub.invoke({"said": [str(at)]})["said"][-1] for at in range(times)]}

    return node


def test_P12_a_subgraph_called_twice_in_a_node_asks_twice_and_is_told_apart(way: Way, saver: Saver) -> None:
    entered = Entered()
    sub = nested(way, entered, 2, "x")
    graph = graph_of(node=caller(way, sub, 2, entered)).compile(saver)
    first = open_of(way.invoke(graph, {"log": []}, on()))
    second = open_of(way.invoke(graph, Command(resume="1"), on()))
    assert first["x"] != second["x"]
    assert way.invoke(graph, Command(resume="2"), on()) == {"log": ["x=1", "x=2"]}
    assert entered == {"caller": 3, "x": 4}, "the first subgraph had ended, and gives its output again"


def test_P12_subgraphs_called_at_once_in_a_node_are_all_asked(way: Way, saver: Saver) -> None:
    entered = Entered()
    one, two = nested(way, entered, 1, "x"), nested(way, entered, 1, "y")

    async def node(_: Log) -> dict[str, Any]:
        results = await asyncio.gather(one.ainvoke({"said": []}), two.ainvoke({"said": []}))
        return {"log": [result["said"][0] for result in results]}

    graph = graph_of(node=node).compile(saver)
    ids = open_of(way.invoke(graph, {"log": []}, on()))
    assert set(ids) == {"x", "y"}, "a node ends only when the subgraphs that it called have ended or paused"
    out = way.invoke(graph, Command(resume={ids["x"]: "X"}), on())
    assert open_of(out) == {"y": ids["y"]}
    assert way.invoke(graph, Command(resume={ids["y"]: "Y"}), on()) == {"log": ["x=X", "y=Y"]}
    assert entered == {"x": 2, "y": 2}


def test_P12_a_node_that_swallows_the_pause_of_a_subgraph_waits_all_the_same(way: Way, saver: Saver) -> None:
    entered = Entered()
    sub = nested(way, entered, 1, "x")
    inner = caller(way, sub, 1, entered)

    async def anode(state: Log) -> Any:
        try:
            return await inner(state)
        except BaseException:
            return {"log": ["swallowed"]}

    def node(state: Log) -> Any:
        try:
            return inner(state)
        except BaseException:
            return {"log": ["swallowed"]}

    graph = graph_of(node=anode if way.is_async else node).compile(saver)
    assert list(open_of(way.invoke(graph, {"log": []}, on()))) == ["x"]
    assert way.invoke(graph, Command(resume="r"), on()) == {"log": ["x=r"]}


def test_P12_a_node_that_stops_listening_at_the_pause_of_a_subgraph_waits_all_the_same(way: Way, saver: Saver) -> None:
    entered = Entered()
    sub = nested(way, entered, 1, "x")

    def heard(chunk: Any) -> bool:
        return "__interrupt__" in chunk

    def node(_: Log) -> dict[str, Any]:
        for chunk in sub.stream({"said": []}):
            if heard(chunk):
                return {"log": ["left"]}
        return {"log": ["done"]}

    async def anode(_: Log) -> dict[str, Any]:
        async for chunk in sub.astream({"said": []}):
            if heard(chunk):
                return {"log": ["left"]}
        return {"log": ["done"]}

    graph = graph_of(node=anode if way.is_async else node).compile(saver)
    assert list(open_of(way.invoke(graph, {"log": []}, on()))) == ["x"]
    assert way.invoke(graph, Command(resume="r"), on()) == {"log": ["done"]}


def test_P12_durable_steps_ask_one_by_one_or_at_once(way: Way, saver: Saver) -> None:
    entered = Entered()

    @task
    def step(name: str) -> str:
        entered[name] += 1
        return f"{name}={interrupt(name)}"

    def node(_: Log) -> dict[str, Any]:
        entered["node"] += 1
        futures = [step("a"), step("b")]
        return {"log": [future.result() for future in futures]}

    graph = graph_of(node=node).compile(saver)
    ids = open_of(way.invoke(graph, {"log": []}, on()))
    assert set(ids) == {"a", "b"}, "the node looked at one of them only"
    out = way.invoke(graph, Command(resume={ids["b"]: "B"}), on())
    assert open_of(out) == {"a": ids["a"]}
    assert entered == {"node": 2, "a": 1, "b": 2}
    assert way.invoke(graph, Command(resume="A"), on()) == {"log": ["a=A", "b=B"]}
    assert entered == {"node": 3, "a": 2, "b": 2}


def test_P12_a_subgraph_in_a_durable_step_asks(way: Way, saver: Saver) -> None:
    entered = Entered()
    sub = nested(way, entered, 2, "x", "y")

    @task
    def step() -> list[str]:
        entered["step"] += 1
        return list(sub.invoke({"said": []})["said"])

    def node(_: Log) -> dict[str, Any]:
        return {"log": step().result()}

    graph = graph_of(node=node).compile(saver)
    ids = open_of(way.invoke(graph, {"log": []}, on()))
    assert set(ids) == {"x", "y"}
    assert open_of(way.invoke(graph, Command(resume={ids["y"]: "Y"}), on())) == {"x": ids["x"]}
    assert way.invoke(graph, Command(resume={ids["x"]: "X"}), on()) == {"log": ["x=X", "y=Y"]}
    assert entered == {"x": 2, "y": 2, "step": 3}


# -- stable ids -----------------------------------------------------------------------------------------------------------------------


def test_P12_ids_are_stable_over_reads_resumes_and_restarts(way: Way, tmp_path: Path) -> None:
    def build(saver: Saver) -> Any:
        entered = Entered()
        sub = nested(way, entered, 3, "deep")
        return graph_of(
            node=side_by_side("tasks", asker(entered, "A", "B")),
            calls=caller(way, sub, 1, entered),
            plain=entered.asks(way, "plain"),
        ).compile(saver)

    with SqliteSaver(tmp_path / "a.db") as saver:
        graph = build(saver)
        ids = open_of(way.invoke(graph, {"log": []}, on()))
        assert set(ids) == {"A", "B", "deep", "plain"}
        assert open_of(way.state(graph, on(), subgraphs=True)) == ids
    with SqliteSaver(tmp_path / "a.db") as saver:
        graph = build(saver)
        assert open_of(way.state(graph, on())) == ids
        assert open_of(way.invoke(graph, None, on())) == ids
        left = open_of(way.invoke(graph, Command(resume={ids["plain"]: "p"}), on()))
        assert left == {name: pause for name, pause in ids.items() if name != "plain"}
    with SqliteSaver(tmp_path / "a.db") as saver:
        graph = build(saver)
        answers = {pause: name.upper() for name, pause in left.items()}
        out = way.invoke(graph, Command(resume=answers), on())
        assert out == {"log": ["deep=DEEP", "A=A", "B=B", "plain:p"]}


def test_P12_going_on_without_an_answer_enters_nothing_and_changes_nothing(way: Way, saver: Saver) -> None:
    entered = Entered()
    graph = graph_of(node=side_by_side("tasks", asker(entered, "A", "B"))).compile(saver)
    way.invoke(graph, {"log": []}, on())
    before = rows_of(saver)
    way.invoke(graph, None, on())
    assert rows_of(saver) == before
    assert entered == {"A": 1, "B": 1}


def test_P12_groups_of_tasks_that_ask_one_after_the_other(way: Way, saver: Saver) -> None:
    async def node(_: Log) -> dict[str, Any]:
        first = await in_group([lambda: interrupt("1")])
        second = await in_group([lambda: interrupt("2"), lambda: interrupt("3")])
        return {"log": [*first, *second]}

    graph = graph_of(node=node).compile(saver)
    assert list(open_of(way.invoke(graph, {"log": []}, on()))) == ["1"]
    ids = open_of(way.invoke(graph, Command(resume="a"), on()))
    assert set(ids) == {"2", "3"}
    assert way.invoke(graph, Command(resume={ids["2"]: "b", ids["3"]: "c"}), on()) == {"log": ["a", "b", "c"]}
