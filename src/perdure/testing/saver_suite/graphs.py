"""Whole graphs over a saver: loops, parallel nodes, fan-out, pauses, failures, subgraphs."""

from __future__ import annotations

import asyncio
import operator
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from typing import Annotated, Any, TypedDict

import pytest

from perdure.constants import END, START
from perdure.errors import UnknownInterruptError, UnknownThread
from perdure.graph import StateGraph
from perdure.testing.saver_suite.colours import Suite
from perdure.types import Command, Send, interrupt

Coloured = Callable[[Any], Any]


class Count(TypedDict):
    """A counter, and who counted."""

    count: int
    log: Annotated[list[Any], operator.add]


def on(thread: str = "t", checkpoint: Any = None) -> Any:
    """The config of a thread, or of one of its checkpoints."""
    return checkpoint.config if checkpoint is not None else {"configurable": {"thread_id": thread}}


def counter(limit: int = 3) -> StateGraph[Any]:
    """Counts to a limit, one super-step each."""
    graph = StateGraph(Count)
    graph.add_node("inc", lambda state: {"count": state["count"] + 1, "log": [state["count"]]})
    graph.add_edge(START, "inc")
    graph.add_conditional_edges("inc", lambda state: "inc" if state["count"] < limit else END)
    return graph


def parallel(nodes: dict[str, Any]) -> StateGraph[Any]:
    """Nodes that start together, and one after all of them."""
    graph = StateGraph(Count)
    for name, node in nodes.items():
        graph.add_node(name, node)
        graph.add_edge(START, name)
    graph.add_node("join", lambda state: {"log": ["join"], "count": len(state["log"])})
    graph.add_edge([*nodes], "join")
    return graph


def asking(name: str) -> Any:
    """A node that asks its own name and logs the answer."""
    return lambda state: {"log": [f"{name}={interrupt(name)}"]}


class GraphSuite(Suite):
    """Graphs run, pause, fail and go on."""

    # -- running ------------------------------------------------------------------------------------------------------------------

    def test_a_loop_leaves_a_checkpoint_for_each_super_step(self, saver: Any, coloured: Coloured) -> None:
        graph = coloured(counter(4).compile(checkpointer=saver))
        assert graph.invoke({"count": 0, "log": []}, on()) == {"count": 4, "log": [0, 1, 2, 3]}
        history = [*graph.get_state_history(on())]
        assert [each.metadata["step"] for each in history] == [4, 3, 2, 1, 0, -1]
        assert [each.metadata["source"] for each in history] == ["loop"] * 5 + ["input"]
        assert [each.values.get("count") for each in history] == [4, 3, 2, 1, 0, None]
        assert [each.next for each in history] == [(), *[("inc",)] * 4, ("__start__",)]
        for child, parent in pairwise(history):
            assert child.parent_config == parent.config
        assert history[-1].parent_config is None
        assert len({each.config["configurable"]["checkpoint_id"] for each in history}) == 6

    def test_P51_a_snapshot_says_what_made_it(self, saver: Any, coloured: Coloured) -> None:
        graph = coloured(counter(2).compile(checkpointer=saver))
        graph.invoke({"count": 0, "log": []}, {**on(), "metadata": {"user": "ada", "n": 1}})
        writes = [each.metadata["writes"] for each in graph.get_state_history(on())]
        assert writes == [{"inc": {"count": 2, "log": [1]}}, {"inc": {"count": 1, "log": [0]}}, None, {"count": 0, "log": []}]
        assert {each.metadata["user"] for each in graph.get_state_history(on())} == {"ada"}
        assert [each.metadata["step"] for each in graph.get_state_history(on(), filter={"source": "input"})] == [-1]

    def test_new_input_goes_on_from_the_stored_state(self, saver: Any, coloured: Coloured) -> None:
        graph = coloured(counter(1).compile(checkpointer=saver))
        for turn in range(1, 4):
            result = graph.invoke({"count": 0, "log": [f"turn {turn}"]}, on())
            assert len(result["log"]) == 2 * turn
        assert result["log"] == ["turn 1", 0, "turn 2", 0, "turn 3", 0]

    def test_a_graph_compiled_anew_finds_the_thread(self, saver: Any, coloured: Coloured) -> None:
        coloured(counter().compile(checkpointer=saver)).invoke({"count": 0, "log": []}, on())
        graph = coloured(counter().compile(checkpointer=saver))
        assert graph.get_state(on()).values == {"count": 3, "log": [0, 1, 2]}

    def test_threads_are_isolated(self, saver: Any, coloured: Coloured) -> None:
        graph = coloured(counter().compile(checkpointer=saver))
        graph.invoke({"count": 0, "log": []}, on("a"))
        graph.invoke({"count": 2, "log": []}, on("b"))
        assert graph.get_state(on("a")).values["log"] == [0, 1, 2]
        assert graph.get_state(on("b")).values["log"] == [2]
        assert graph.get_state(on("c")).values == {}

    def test_P3_what_does_not_exist_cannot_be_resumed(self, saver: Any, coloured: Coloured) -> None:
        graph = coloured(counter().compile(checkpointer=saver))
        with pytest.raises(UnknownThread):
            graph.invoke(None, on("nobody"))

    def test_a_finished_thread_has_nothing_to_go_on_with(self, saver: Any, coloured: Coloured) -> None:
        graph = coloured(counter().compile(checkpointer=saver))
        graph.invoke({"count": 0, "log": []}, on())
        assert graph.invoke(None, on()) == {"count": 3, "log": [0, 1, 2]}
        assert graph.get_state(on()).metadata["step"] == 3

    def test_a_state_without_keys(self, saver: Any, coloured: Coloured) -> None:
        builder = StateGraph(int)
        builder.add_node("inc", lambda state: state + 1)
        builder.set_entry_point("inc")
        builder.set_finish_point("inc")
        graph = coloured(builder.compile(checkpointer=saver))
        assert graph.invoke(1, on()) == 2
        assert graph.get_state(on()).values == 2

    def test_P49_async_nodes_run_in_both_colours(self, saver: Any, coloured: Coloured) -> None:
        async def inc(state: Count) -> Any:
            await asyncio.sleep(0)
            return {"count": state["count"] + 1, "log": ["async"]}

        builder = StateGraph(Count)
        builder.add_node("inc", inc)
        builder.add_node("also", lambda state: {"log": ["sync"]})
        builder.add_edge(START, "inc")
        builder.add_edge("inc", "also")
        graph = coloured(builder.compile(checkpointer=saver))
        assert graph.invoke({"count": 0, "log": []}, on()) == {"count": 1, "log": ["async", "sync"]}
        assert graph.get_state(on()).values == {"count": 1, "log": ["async", "sync"]}

    @pytest.mark.parametrize("durability", ["sync", "async", "exit"])
    def test_every_durability_ends_with_the_same_state(self, saver: Any, coloured: Coloured, durability: Any) -> None:
        graph = coloured(counter(5).compile(checkpointer=saver))
        result = graph.invoke({"count": 0, "log": []}, on(), durability=durability)
        assert result == {"count": 5, "log": [0, 1, 2, 3, 4]}
        assert graph.get_state(on()).values == result
        assert len([*graph.get_state_history(on())]) == (1 if durability == "exit" else 7)

    # -- several tasks --------------------------------------------------------------------------------------------------------------

    def test_parallel_nodes_are_applied_in_order_and_joined(self, saver: Any, coloured: Coloured) -> None:
        nodes: dict[str, Any] = {name: lambda state, name=name: {"log": [name]} for name in "cab"}
        graph = coloured(parallel(nodes).compile(checkpointer=saver))
        assert graph.invoke({"count": 0, "log": []}, on())["log"] == ["a", "b", "c", "join"]
        assert graph.get_state(on()).metadata["writes"] == {"join": {"log": ["join"], "count": 3}}

    def test_a_join_remembers_who_has_arrived(self, saver: Any, coloured: Coloured) -> None:
        builder = StateGraph(Count)
        for name in ("quick", "slow", "join"):
            builder.add_node(name, lambda state, name=name: {"log": [name]})
        builder.add_node("ask", asking("ask"))
        builder.add_edge(START, "quick")
        builder.add_edge(START, "slow")
        builder.add_edge("slow", "ask")
        builder.add_edge(["quick", "ask"], "join")
        coloured(builder.compile(checkpointer=saver)).invoke({"count": 0, "log": []}, on())
        graph = coloured(builder.compile(checkpointer=saver))
        assert graph.invoke(Command(resume="yes"), on())["log"] == ["quick", "slow", "ask=yes", "join"]

    def test_a_fan_out_keeps_its_order(self, saver: Any, coloured: Coloured) -> None:
        builder = StateGraph(Count)
        builder.add_node("split", lambda state: {})
        builder.add_node("work", lambda item: {"log": [item["n"]]})
        builder.add_edge(START, "split")
        builder.add_conditional_edges("split", lambda state: [Send("work", {"n": n}) for n in range(40)])
        graph = coloured(builder.compile(checkpointer=saver))
        assert graph.invoke({"count": 0, "log": []}, on())["log"] == [*range(40)]
        history = [*graph.get_state_history(on())]
        assert history[1].next == ("work",) * 40
        assert [each["log"] for each in history[0].metadata["writes"]["work"]] == [[n] for n in range(40)]

    def test_P2_a_fan_out_that_failed_runs_only_what_is_missing(self, saver: Any, coloured: Coloured) -> None:
        runs: Counter[int] = Counter()
        broken = {3, 5}

        def work(item: Any) -> Any:
            runs[item["n"]] += 1
            if item["n"] in broken:
                raise RuntimeError(f"item {item['n']}")
            return {"log": [item["n"]]}

        builder = StateGraph(Count)
        builder.add_node("work", work)
        builder.add_conditional_edges(START, lambda state: [Send("work", {"n": n}) for n in range(8)])
        graph = coloured(builder.compile(checkpointer=saver))
        config = {**on(), "max_concurrency": 1}
        with pytest.raises(RuntimeError, match="item 3"):
            graph.invoke({"count": 0, "log": []}, config)
        done = {n for n, count in runs.items() if n not in broken}
        broken.clear()
        assert graph.invoke(None, config)["log"] == [*range(8)]
        assert {n: runs[n] for n in done} == dict.fromkeys(done, 1)

    # -- failures -------------------------------------------------------------------------------------------------------------------

    def test_P2_after_a_failure_only_the_failed_node_runs_again(self, saver: Any, coloured: Coloured) -> None:
        runs: Counter[str] = Counter()
        broken = [True]

        def good(state: Count) -> Any:
            runs["good"] += 1
            return {"log": ["good"]}

        def bad(state: Count) -> Any:
            runs["bad"] += 1
            if broken:
                raise RuntimeError("it broke: \u540d")
            return {"log": ["bad"]}

        graph = coloured(parallel({"bad": bad, "good": good}).compile(checkpointer=saver))
        with pytest.raises(RuntimeError, match="it broke"):
            graph.invoke({"count": 0, "log": []}, {**on(), "max_concurrency": 1})
        snapshot = graph.get_state(on())
        errors = {task.name: str(task.error) for task in snapshot.tasks if task.error is not None}
        assert errors == {"bad": "it broke: \u540d"}
        assert "bad" in snapshot.next
        broken.clear()
        assert graph.invoke(None, on())["log"] == ["bad", "good", "join"]
        assert runs == {"good": 1, "bad": 2}
        assert [task.error for task in graph.get_state(on()).tasks] == []

    def test_P3_an_input_whose_first_node_failed_is_kept(self, saver: Any, coloured: Coloured) -> None:
        broken = [True]

        def node(state: Count) -> Any:
            if broken:
                raise RuntimeError("not yet")
            return {"log": ["done"]}

        builder = StateGraph(Count)
        builder.add_node("node", node)
        builder.add_edge(START, "node")
        graph = coloured(builder.compile(checkpointer=saver))
        with pytest.raises(RuntimeError, match="not yet"):
            graph.invoke({"count": 7, "log": ["in"]}, on())
        broken.clear()
        assert graph.invoke(None, on()) == {"count": 7, "log": ["in", "done"]}

    def test_an_error_handler_takes_over_and_is_not_repeated(self, saver: Any, coloured: Coloured) -> None:
        runs: Counter[str] = Counter()

        def bad(state: Count) -> Any:
            runs["bad"] += 1
            raise RuntimeError("always")

        def handler(state: Count) -> Any:
            runs["handler"] += 1
            return {"log": ["handled"]}

        builder = StateGraph(Count)
        builder.add_node("bad", bad, error_handler=handler)
        builder.add_node("ask", asking("ask"))
        builder.add_edge(START, "bad")
        builder.add_edge(START, "ask")
        graph = coloured(builder.compile(checkpointer=saver))
        assert "__interrupt__" in graph.invoke({"count": 0, "log": []}, on())
        assert sorted(graph.invoke(Command(resume="yes"), on())["log"]) == ["ask=yes", "handled"]
        assert runs == {"bad": 1, "handler": 1}

    # -- pauses ---------------------------------------------------------------------------------------------------------------------

    def test_a_pause_is_stored_and_answered(self, saver: Any, coloured: Coloured) -> None:
        builder = StateGraph(Count)
        builder.add_node("ask", lambda state: {"log": [interrupt({"question": "q\u00e9", "n": 1})]})
        builder.add_edge(START, "ask")
        graph = coloured(builder.compile(checkpointer=saver))
        (pause,) = graph.invoke({"count": 0, "log": []}, on())["__interrupt__"]
        for _ in range(2):
            snapshot = graph.get_state(on())
            assert (snapshot.next, snapshot.interrupts, snapshot.tasks[0].interrupts) == (("ask",), (pause,), (pause,))
        assert pause.value == {"question": "q\u00e9", "n": 1}
        again = coloured(builder.compile(checkpointer=saver))
        assert again.invoke(Command(resume={"yes": [1]}), on())["log"] == [{"yes": [1]}]
        assert again.get_state(on()).interrupts == ()

    @pytest.mark.parametrize("answer", [None, False, 0, "", {}, []], ids=repr)
    def test_P15_falsy_answers_are_answers(self, saver: Any, coloured: Coloured, answer: Any) -> None:
        builder = StateGraph(Count)
        builder.add_node("ask", lambda state: {"log": [interrupt("q")]})
        builder.add_edge(START, "ask")
        graph = coloured(builder.compile(checkpointer=saver))
        graph.invoke({"count": 0, "log": []}, on())
        assert graph.invoke(Command(resume=answer), on())["log"] == [answer]

    def test_questions_in_one_node_come_one_after_the_other(self, saver: Any, coloured: Coloured) -> None:
        builder = StateGraph(Count)
        builder.add_node("ask", lambda state: {"log": [interrupt(n) for n in range(3)]})
        builder.add_edge(START, "ask")
        graph = coloured(builder.compile(checkpointer=saver))
        shown = [graph.invoke({"count": 0, "log": []}, on())["__interrupt__"][0]]
        shown += [graph.invoke(Command(resume=answer), on())["__interrupt__"][0] for answer in "xy"]
        assert [pause.value for pause in shown] == [0, 1, 2]
        assert len({pause.id for pause in shown}) == 3
        assert graph.invoke(Command(resume="z"), on())["log"] == ["x", "y", "z"]

    def test_P14_parallel_pauses_are_answered_one_by_one(self, saver: Any, coloured: Coloured) -> None:
        runs: Counter[str] = Counter()

        def node(name: str) -> Any:
            def ask(state: Count) -> Any:
                runs[name] += 1
                return asking(name)(state)

            return ask

        def plain(state: Count) -> Any:
            runs["plain"] += 1
            return {"log": ["plain"]}

        graph = coloured(parallel({"a": node("a"), "b": node("b"), "c": plain}).compile(checkpointer=saver))
        first = {pause.value: pause.id for pause in graph.invoke({"count": 0, "log": []}, on())["__interrupt__"]}
        assert set(first) == {"a", "b"}
        result = graph.invoke(Command(resume={first["a"]: "x"}), on())
        assert [pause.value for pause in result["__interrupt__"]] == ["b"]
        assert graph.get_state(on()).next == ("b",)
        assert runs == {"a": 2, "b": 1, "plain": 1}
        assert graph.invoke(Command(resume="y"), on())["log"] == ["a=x", "b=y", "plain", "join"]
        assert runs == {"a": 2, "b": 2, "plain": 1}

    def test_P13_an_answer_to_nothing_is_refused_and_stores_nothing(self, saver: Any, coloured: Coloured) -> None:
        graph = coloured(counter().compile(checkpointer=saver))
        graph.invoke({"count": 0, "log": []}, on())
        before = [*graph.get_state_history(on())]
        with pytest.raises(UnknownInterruptError):
            graph.invoke(Command(resume="x"), on())
        assert [*graph.get_state_history(on())] == before

    def test_static_breakpoints_stop_and_go_on(self, saver: Any, coloured: Coloured) -> None:
        builder = StateGraph(Count)
        for name in "abc":
            builder.add_node(name, lambda state, name=name: {"log": [name]})
        builder.add_edge(START, "a")
        builder.add_edge("a", "b")
        builder.add_edge("b", "c")
        graph = coloured(builder.compile(checkpointer=saver, interrupt_before=["b"], interrupt_after=["b"]))
        graph.invoke({"count": 0, "log": []}, on())
        assert (graph.get_state(on()).next, graph.get_state(on()).values["log"]) == (("b",), ["a"])
        graph.invoke(None, on())
        assert (graph.get_state(on()).next, graph.get_state(on()).values["log"]) == (("c",), ["a", "b"])
        assert graph.invoke(Command(resume="any answer"), on())["log"] == ["a", "b", "c"]

    # -- subgraphs --------------------------------------------------------------------------------------------------------------------

    def nested(self, runs: Counter[str], **child_options: Any) -> StateGraph[Any]:
        """A graph with a node, and a subgraph that asks in its second node."""

        def seen(name: str, node: Any) -> Any:
            def count(state: Count) -> Any:
                runs[name] += 1
                return node(state)

            return count

        child = StateGraph(Count)
        child.add_node("first", seen("first", lambda state: {"log": ["first"]}))
        child.add_node("ask", seen("ask", asking("ask")))
        child.add_edge(START, "first")
        child.add_edge("first", "ask")
        builder = StateGraph(Count)
        builder.add_node("before", seen("before", lambda state: {"count": 1}))
        builder.add_node("child", child.compile(**child_options))
        builder.add_edge(START, "before")
        builder.add_edge("before", "child")
        return builder

    def test_a_pause_in_a_subgraph_goes_on_where_it_was(self, saver: Any, coloured: Coloured) -> None:
        runs: Counter[str] = Counter()
        builder = self.nested(runs)
        graph = coloured(builder.compile(checkpointer=saver))
        (pause,) = graph.invoke({"count": 0, "log": []}, on())["__interrupt__"]
        snapshot = graph.get_state(on(), subgraphs=True)
        assert (snapshot.next, snapshot.interrupts) == (("child",), (pause,))
        inner = snapshot.tasks[0].state
        assert (inner.values["log"], inner.next) == (["first"], ("ask",))
        again = coloured(builder.compile(checkpointer=saver))
        assert again.invoke(Command(resume="yes"), on())["log"] == ["first", "ask=yes"]
        assert runs == {"before": 1, "first": 1, "ask": 2}
        namespace = inner.config["configurable"]["checkpoint_ns"]
        assert namespace.startswith("child:")
        inside = {"configurable": {"thread_id": "t", "checkpoint_ns": namespace}}
        assert again.get_state(inside).values["log"] == ["first", "ask=yes"]
        assert len([*again.get_state_history(inside)]) == 4

    def test_a_subgraph_with_a_memory_remembers(self, saver: Any, coloured: Coloured) -> None:
        class Memory(TypedDict):
            log: Annotated[list[Any], operator.add]
            calls: int

        child = StateGraph(Memory)
        child.add_node("call", lambda state: {"calls": state.get("calls", 0) + 1, "log": [state.get("calls", 0) + 1]})
        child.add_edge(START, "call")
        builder = StateGraph(Count)
        builder.add_node("child", child.compile(checkpointer=True))
        builder.add_edge(START, "child")
        graph = coloured(builder.compile(checkpointer=saver))
        for _ in range(3):
            graph.invoke({"count": 0, "log": []}, on())
        inside = {"configurable": {"thread_id": "t", "checkpoint_ns": "child"}}
        assert graph.get_state(inside).values["calls"] == 3

    # -- streams ----------------------------------------------------------------------------------------------------------------------

    def test_a_stream_that_is_closed_early_can_be_resumed(self, saver: Any, coloured: Coloured) -> None:
        graph = coloured(counter(5).compile(checkpointer=saver))
        stream = graph.stream({"count": 0, "log": []}, on(), stream_mode="values")
        assert [next(stream)["count"] for _ in range(3)] == [0, 1, 2]
        stream.close()
        assert graph.invoke(None, on()) == {"count": 5, "log": [0, 1, 2, 3, 4]}
