"""The two programs of the guide to checkpoints and threads, and its statements."""

from __future__ import annotations

import asyncio
import operator
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest

from perdure.checkpoint.saver import Saver
from perdure.checkpoint.sqlite import SqliteSaver
from perdure.graph import END, START, StateGraph
from tests.promises.ways import Config, Way, on
from tests.seeds import samples


class Chat(TypedDict):
    """A list that accumulates, and keys that are replaced."""

    messages: Annotated[list[Any], operator.add]
    user_name: str
    step_count: int


class Count(TypedDict):
    count: int


def counter(way: Way) -> StateGraph[Any, Any, Any, Any]:
    """The guide's counter."""
    builder = StateGraph(Count)
    builder.add_node("add_one", way.node(lambda state: {"count": state["count"] + 1}))
    return builder.add_edge(START, "add_one").add_edge("add_one", END)


def chat(way: Way) -> StateGraph[Any, Any, Any, Any]:
    """Counts its steps and answers."""

    def reply(state: Chat) -> dict[str, Any]:
        return {"messages": [f"re: {state['messages'][-1]}"], "step_count": state.get("step_count", 0) + 1}

    return StateGraph(Chat).add_node("reply", way.node(reply)).add_edge(START, "reply").add_edge("reply", END)


# -- the programs ---------------------------------------------------------------------------------------------------------


def test_the_counter_prints_count_2(capsys: pytest.CaptureFixture[str]) -> None:
    samples.run(samples.COUNTER_IMPORTS, samples.COUNTER)
    assert capsys.readouterr().out == "{'count': 2}\n"


def test_the_minimal_counter_prints_2(capsys: pytest.CaptureFixture[str]) -> None:
    samples.run(samples.MINIMAL_COUNTER)
    assert capsys.readouterr().out == "2\n"


def test_the_counter_on_every_saver(way: Way, saver: Saver) -> None:
    builder = samples.run(samples.COUNTER_IMPORTS, samples.COUNTER)["builder"]
    assert way.invoke(builder.compile(checkpointer=saver), {"count": 1}, on("thread-1")) == {"count": 2}


def test_the_minimal_counter_on_every_saver(way: Way, saver: Saver) -> None:
    builder = samples.run(samples.MINIMAL_COUNTER)["builder"]
    assert way.invoke(builder.compile(checkpointer=saver), 1, on("thread-1")) == 2


# -- its statements -------------------------------------------------------------------------------------------------------


def test_none_goes_on_with_an_unfinished_run(way: Way, saver: Saver) -> None:
    ran: list[str] = []

    def first(_: Chat) -> dict[str, Any]:
        ran.append("first")
        return {"messages": ["first"]}

    def second(_: Chat) -> dict[str, Any]:
        ran.append("second")
        if ran.count("second") == 1:
            raise ConnectionResetError("the first time it fails")
        return {"messages": ["second"]}

    builder = StateGraph(Chat).add_node("first", way.node(first)).add_node("second", way.node(second))
    graph = builder.add_edge(START, "first").add_edge("first", "second").add_edge("second", END).compile(checkpointer=saver)
    with pytest.raises(ConnectionResetError):
        way.invoke(graph, {"messages": ["in"]}, on("t"))
    assert way.invoke(graph, None, on("t"))["messages"] == ["in", "first", "second"]
    assert ran == ["first", "second", "second"], "it goes on where it was, not at the beginning"


def test_new_input_accumulates_in_keys_with_a_reducer_and_overwrites_others(way: Way, saver: Saver) -> None:
    graph = chat(way).compile(checkpointer=saver)
    way.invoke(graph, {"messages": ["hi"], "user_name": "Ada"}, on("t"))
    found = way.invoke(graph, {"messages": ["again"], "user_name": "Grace"}, on("t"))
    assert found == {"messages": ["hi", "re: hi", "again", "re: again"], "user_name": "Grace", "step_count": 2}


def test_a_reused_id_works_on_what_is_stored(way: Way, saver: Saver) -> None:
    builder = samples.run(samples.MINIMAL_COUNTER)["builder"]
    graph = builder.compile(checkpointer=saver)
    assert way.invoke(graph, 1, on("thread-1")) == 2
    assert way.invoke(graph, 40, on("thread-1")) == 41, "a new input replaces a single plain value"
    assert way.invoke(graph, None, on("thread-1")) == 41, "None goes on with an unfinished run; this one is over"
    assert [one.values for one in way.history(graph, on("thread-1"))] == [41, 40, 2, 2, 1, None]


def test_a_second_graph_without_a_saver_keeps_nothing(way: Way, saver: Saver) -> None:
    first, second = chat(way).compile(checkpointer=saver), chat(way).compile()
    way.invoke(first, {"messages": ["kept"]}, on("t"))
    for _ in range(2):
        assert way.invoke(second, {"messages": ["hi"]}, on("t")) == {"messages": ["hi", "re: hi"], "step_count": 1}
    assert way.state(first, on("t")).values["messages"] == ["kept", "re: kept"]
    with pytest.raises(ValueError, match="No checkpointer set"):
        way.state(second, on("t"))


def test_threads_are_isolated(way: Way, saver: Saver) -> None:
    graph = chat(way).compile(checkpointer=saver)
    way.invoke(graph, {"messages": ["Where is my refund?"]}, on("customer-a-session-101"))
    way.invoke(graph, {"messages": ["Where is my parcel?"]}, on("customer-b-session-7"))
    of_a = way.invoke(graph, {"messages": ["Well?"]}, on("customer-a-session-101"))
    assert of_a["messages"] == ["Where is my refund?", "re: Where is my refund?", "Well?", "re: Well?"]
    assert way.state(graph, on("customer-c")).values == {}


def test_one_compiled_graph_serves_many_threads_at_once(way: Way, saver: Saver) -> None:
    graph = counter(way).compile(checkpointer=saver)
    configs: list[Config] = [on(f"t{number}") for number in range(24)]
    inputs = [{"count": number} for number in range(24)]
    if way.is_async:

        async def all_at_once() -> list[Any]:
            return await asyncio.gather(*(graph.ainvoke(given, config) for given, config in zip(inputs, configs, strict=True)))

        found = asyncio.run(all_at_once())
    else:
        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(graph.invoke, inputs, configs))
    assert found == [{"count": number + 1} for number in range(24)]
    assert [way.state(graph, config).values for config in configs] == found


def test_each_run_of_the_counter_is_a_checkpoint_of_its_own(way: Way, saver: Saver) -> None:
    graph = counter(way).compile(checkpointer=saver)
    way.invoke(graph, {"count": 0}, on("t"))
    way.invoke(graph, {}, on("t"))
    way.invoke(graph, {}, on("t"))
    finished = [one.values for one in way.history(graph, on("t")) if one.next == ()]
    assert finished == [{"count": 3}, {"count": 2}, {"count": 1}]


def test_a_checkpoint_has_the_parts_that_the_guide_lists(way: Way, saver: Saver) -> None:
    graph = counter(way).compile(checkpointer=saver)
    way.invoke(graph, {"count": 1}, on("t"))
    oldest_first = list(saver.list(on("t")))[::-1]
    ids = [one.checkpoint["id"] for one in oldest_first]
    assert ids == sorted(ids), "later checkpoints sort after earlier ones"
    newest = oldest_first[-1]
    assert newest.checkpoint["channel_values"] == {"count": 2}
    assert list(newest.checkpoint["channel_versions"]) == ["count"]
    assert newest.checkpoint["ts"] == way.state(graph, on("t")).created_at
    assert (newest.metadata["source"], newest.metadata["step"]) == ("loop", 1)


CHILD = """
import os, signal, sys
from typing import TypedDict
from perdure.checkpoint.sqlite import SqliteSaver
from perdure.graph import END, START, StateGraph

path, where = sys.argv[1:]

class Count(TypedDict):
    count: int

def add_one(state):
    if where == "in the third run" and state["count"] == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return {"count": state["count"] + 1}

builder = StateGraph(Count).add_node("add_one", add_one).add_edge(START, "add_one").add_edge("add_one", END)
graph = builder.compile(checkpointer=SqliteSaver(path))
config = {"configurable": {"thread_id": "t"}}
graph.invoke({"count": 0}, config)
graph.invoke({}, config)
if where == "after the second run":
    os.kill(os.getpid(), signal.SIGKILL)
graph.invoke({}, config)
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
@pytest.mark.parametrize("where", ["after the second run", "in the third run"])
def test_a_counter_killed_after_its_second_run_goes_on_from_2(way: Way, tmp_path: Path, where: str) -> None:
    path = tmp_path / "counter.db"
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    killed = subprocess.run(
        [sys.executable, "-c", CHILD, str(path), where], env=env, capture_output=True, text=True, check=False
    )
    assert (killed.returncode, killed.stderr) == (-signal.SIGKILL, "")
    with SqliteSaver(path) as saver:
        graph = counter(way).compile(checkpointer=saver)
        state = way.state(graph, on("t"))
        assert state.values == {"count": 2}
        assert state.next == (() if where == "after the second run" else ("add_one",))
        assert way.invoke(graph, None if state.next else {}, on("t")) == {"count": 3}
        finished = [one.values["count"] for one in way.history(graph, on("t")) if one.next == ()]
        assert finished == [3, 2, 1], "the first two runs were not repeated"
