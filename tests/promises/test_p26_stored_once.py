"""P26: what is large is stored once in a thread, whoever wrote it where; and a step costs the same in a graph of any size."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Annotated, Any, TypedDict

import pytest

from perdure.checkpoint.saver import Saver
from perdure.func import entrypoint, task
from perdure.graph import END, START, MessagesState, StateGraph
from perdure.types import Overwrite, Send
from tests.promises.ways import Way, on, open_saver

WORD = "a large text, of which one copy is enough. "
LARGE = WORD * 200
MARK = LARGE.encode()


class State(TypedDict):
    one: Any
    other: Any
    found: Annotated[list[Any], operator.add]
    n: int


def copies(saver: Any, of: bytes = MARK) -> int:
    """How often a text is among the stored values, compressed or not."""
    from perdure.checkpoint.incremental.compression import unsqueezed

    if hasattr(saver, "_database"):
        rows = saver._database.run(lambda found: found.execute("SELECT tag, data FROM value").fetchall())
    else:
        rows = [tuple(packed) for packed in saver._records._threads["t"].values.values()]
    return sum(unsqueezed(row)[1].count(of) for row in rows)


def line(way: Way, saver: Saver, *nodes: Callable[[Any], Any]) -> Any:
    builder: Any = StateGraph(State)
    before = START
    for at, node in enumerate(nodes):
        builder.add_node(f"n{at}", way.node(node))
        builder.add_edge(before, f"n{at}")
        before = f"n{at}"
    return builder.add_edge(before, END).compile(checkpointer=saver)


@pytest.mark.parametrize(
    "shape", [LARGE, [LARGE], {"text": LARGE}, {"deep": [1, {"text": LARGE}]}], ids=lambda shape: type(shape).__name__
)
def test_P26_an_equal_value_in_two_channels_and_of_two_nodes_is_stored_once(saver: Saver, way: Way, shape: Any):
    graph = line(
        way, saver, lambda _: {"one": shape}, lambda _: {"other": shape}, lambda _: {"one": 1}, lambda _: {"one": shape}
    )
    found = way.invoke(graph, {"n": 1}, on())
    assert found["one"] == found["other"] == shape
    assert copies(saver) == 1
    written = [snapshot.metadata["writes"] for snapshot in way.history(graph, on())]
    assert written[0] == {"n3": {"one": shape}}
    assert written[2] == {"n1": {"other": shape}}


def test_P26_a_text_that_is_an_element_elsewhere_is_stored_once(saver: Saver, way: Way):
    graph = line(way, saver, lambda _: {"found": [LARGE]}, lambda _: {"one": LARGE}, lambda _: {"found": ["x", LARGE]})
    found = way.invoke(graph, {"n": 1}, on())
    assert (found["one"], found["found"]) == (LARGE, [LARGE, "x", LARGE])
    assert copies(saver) == 1
    assert way.state(graph, on()).values == found


def test_P26_a_value_that_a_later_run_writes_again_is_stored_once(saver: Saver, way: Way):
    graph = line(way, saver, lambda _: {"one": LARGE})
    for _ in range(3):
        way.invoke(graph, {"n": 1}, on())
    assert copies(saver) == 1


def test_P26_results_of_many_tasks_that_are_equal_are_stored_once(saver: Saver, way: Way):
    builder = (
        StateGraph(State).add_node("plan", way.node(lambda _: {})).add_node("look", way.node(lambda _: {"found": [LARGE]}))
    )
    builder.add_edge(START, "plan").add_conditional_edges("plan", lambda _: [Send("look", n) for n in range(5)], ["look"])
    graph = builder.compile(checkpointer=saver)
    assert way.invoke(graph, {"n": 1}, on())["found"] == [LARGE] * 5
    assert copies(saver) <= 5
    assert way.state(graph, on()).values["found"] == [LARGE] * 5


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
@pytest.mark.parametrize("shape", ["list", "dict", "set", "text"])
def test_P26_the_result_of_a_durable_step_and_what_the_node_makes_of_it(saver: Saver, way: Way, shape: str, durability: Any):
    texts = [f"{at} {LARGE}" for at in range(3)]
    result: Any = {"list": texts, "dict": dict.fromkeys(texts, 1), "set": set(texts), "text": LARGE}[shape]
    runs = []

    @task
    def look() -> Any:
        runs.append(1)
        return result

    broken = [True]

    def node(_: Any) -> Any:
        found = look().result()
        if broken.pop() if broken else False:
            raise OSError("after the step")
        return {"one": found}

    graph = StateGraph(State).add_node("n0", node).add_edge(START, "n0").compile(checkpointer=saver)
    with pytest.raises(OSError, match="after"):
        way.invoke(graph, {"n": 1}, on(), durability=durability)
    found = way.invoke(graph, None, on(), durability=durability)
    assert found["one"] == result
    assert type(found["one"]) is type(result)
    assert runs == [1]
    assert way.state(graph, on()).values["one"] == result


@pytest.mark.parametrize("shape", ["list", "text"])
def test_P26_a_node_that_returns_what_its_step_found_stores_it_once(saver: Saver, way: Way, shape: str):
    result: Any = [f"{at} {LARGE}" for at in range(3)] if shape == "list" else LARGE

    @task
    def look() -> Any:
        return result

    graph = (
        StateGraph(State).add_node("n0", lambda _: {"one": look().result()}).add_edge(START, "n0").compile(checkpointer=saver)
    )
    assert way.invoke(graph, {"n": 1}, on())["one"] == result
    assert copies(saver) == (3 if shape == "list" else 1)
    assert way.history(graph, on())[0].metadata["writes"] == {"n0": {"one": result}}


def test_P26_steps_of_a_workflow_are_stored_by_element(saver: Saver, way: Way):
    words = [f"{at} " * 100 for at in range(40)]

    @task
    def look(n: int) -> list[str]:
        return words

    @entrypoint(checkpointer=saver)
    def flow(n: int) -> int:
        return len(look(n).result()) + len(look(n + 1).result())

    assert flow.invoke(1, on()) == 80
    assert copies(saver, b"39 39 39") >= 2, "each step's commit is its own, and refers to nothing that is not stored yet"


@pytest.mark.parametrize("state", [State, MessagesState], ids=lambda state: state.__name__)
def test_P26_an_overwrite_costs_what_it_changes(saver: Saver, way: Way, state: Any):
    key = "found" if state is State else "messages"
    many = [{"role": "user", "content": f"{at} {WORD * 9}", "id": str(at)} for at in range(60)]
    new = {"role": "user", "content": LARGE, "id": "new"}

    def trim(given: Any) -> Any:
        return {key: Overwrite([*given[key][10:], new])}

    graph = StateGraph(state).add_node("trim", way.node(trim)).add_edge(START, "trim").compile(checkpointer=saver)
    found = way.invoke(graph, {key: many}, on())[key]
    assert found == [*many[10:], new]
    assert copies(saver) == 1
    assert copies(saver, (WORD * 9).encode()) == 60 + 22
    snapshot = way.state(graph, on())
    assert snapshot.values[key] == found
    assert snapshot.metadata["writes"] == {"trim": {key: Overwrite(found)}}


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_P2_an_overwrite_that_waits_for_its_siblings_is_applied_as_one(saver: Saver, way: Way, durability: Any):
    broken = True

    def fails(_: Any) -> Any:
        if broken:
            raise OSError("once")
        return {"n": 1}

    words = [f"{at} {WORD}" for at in range(60)]
    builder = StateGraph(State).add_node("trim", way.node(lambda given: {"found": Overwrite(given["found"][50:])}))
    builder.add_node("work", way.node(fails))
    graph = builder.add_edge(START, "trim").add_edge(START, "work").compile(checkpointer=saver)
    with pytest.raises(OSError, match="once"):
        way.invoke(graph, {"found": words}, {**on(), "max_concurrency": 1}, durability=durability)
    pending = saver.get_tuple(on()).pending_writes
    assert [value for _, channel, value in pending if channel == "found"] == [Overwrite(words[50:])]
    assert way.state(graph, on()).values["found"] == words[50:]
    broken = False
    assert way.invoke(graph, None, on(), durability=durability)["found"] == words[50:]


def test_P26_a_step_costs_the_same_in_a_graph_of_ten_and_of_a_thousand_nodes(tmp_path: Any, way: Way):
    sizes = []
    for others in (10, 1000):
        (tmp_path / str(others)).mkdir()
        with open_saver("sqlite", tmp_path / str(others), clock=Ticking()) as saver:
            builder: Any = StateGraph(State).add_node(
                "count", way.node(lambda state: {"n": state["n"] + 1, "found": [WORD * 20]})
            )
            builder.add_edge(START, "count")
            names = [f"other {number}" for number in range(others - 1)]
            for name in names:
                builder.add_node(name, lambda _: {})
            builder.add_conditional_edges("count", lambda state: "count" if state["n"] < 70 else END, ["count", END, *names])
            graph = builder.compile(checkpointer=saver)
            way.invoke(graph, {"n": 0}, on())
            sizes.append(
                saver._database.run(
                    lambda found: [
                        found.execute(f"SELECT count(*), sum(length(CAST({column} AS BLOB))) FROM {table}").fetchone()
                        for table, column in (("checkpoint", "body"), ("value", "data"), ("write", "body"))
                    ]
                )
            )
    assert sizes[0] == sizes[1]


class Ticking:
    """A clock that goes on by itself."""

    def __init__(self) -> None:
        self.ns = 1_700_000_000_000_000_000

    def now_ns(self) -> int:
        self.ns += 1_000_000
        return self.ns

    def monotonic(self) -> float:
        return self.ns / 1e9
