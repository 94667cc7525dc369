"""P14 and P17: which code is entered again after an answer, and how often it was."""

from __future__ import annotations

import operator
from typing import Annotated, Any, TypedDict

import pytest

from perdure.checkpoint.saver import Saver
from perdure.errors import GraphInterrupt
from perdure.func import task
from perdure.graph import END, START, StateGraph
from perdure.types import Command, RetryPolicy, Send, interrupt
from tests.promises.asking import Entered, graph_of, open_of
from tests.promises.ways import Log, Way, on


def entries(way: Way, graph: Any, config: Any = None) -> dict[str, int]:
    """How often each task was entered, as the newest checkpoint that has tasks tells."""
    for snapshot in way.history(graph, config or on()):
        found = {task.name: task.entries for task in snapshot.tasks if task.name != START}
        if found:
            return found
    return {}


# -- who enters again -----------------------------------------------------------------------------------------------------------------


def test_S03_P14_only_the_answered_branch_runs_again(way: Way, saver: Saver) -> None:
    entered = Entered()
    graph = graph_of(a=entered.asks(way, "a"), b=entered.asks(way, "b")).compile(saver)
    ids = open_of(way.invoke(graph, {"log": []}, on()))
    out = way.invoke(graph, Command(resume={ids["a"]: "x"}), on())
    assert entered == {"a": 2, "b": 1}
    assert open_of(out) == {"b": ids["b"]} == open_of(way.state(graph, on()))
    assert way.state(graph, on()).next == ("b",)
    assert way.invoke(graph, Command(resume={ids["b"]: "y"}), on()) == {"log": ["a:x", "b:y"]}
    assert entered == {"a": 2, "b": 2}


def test_P14_finished_siblings_do_not_run_again(way: Way, saver: Saver) -> None:
    entered = Entered()
    graph = graph_of(a=entered.asks(way, "a", "1", "2"), done=entered.says(way, "done")).compile(saver)
    out = way.invoke(graph, {"log": []}, on())
    assert out["log"] == ["done"]
    way.invoke(graph, Command(resume="x"), on())
    assert way.invoke(graph, Command(resume="y"), on()) == {"log": ["a:x", "a:y", "done"]}
    assert entered == {"a": 3, "done": 1}


def test_P14_a_node_with_two_questions_at_once_waits_for_both(way: Way, saver: Saver) -> None:
    entered = Entered()

    def node(_: Log) -> dict[str, Any]:
        entered["node"] += 1
        found = []
        for name in ("A", "B"):
            try:
                found.append(interrupt(name))
            except GraphInterrupt:
                found.append("?")
        return {"log": found}

    graph = graph_of(node=way.node(node), a=entered.asks(way, "a")).compile(saver)
    ids = open_of(way.invoke(graph, {"log": []}, on()))
    left = open_of(way.invoke(graph, Command(resume={ids["A"]: "1"}), on()))
    assert left == {"B": ids["B"], "a": ids["a"]}
    assert entered == {"node": 1, "a": 1}
    way.invoke(graph, Command(resume={ids["a"]: "2"}), on())
    assert entered == {"node": 1, "a": 2}
    assert way.invoke(graph, Command(resume="3"), on()) == {"log": ["a:2", "1", "3"]}
    assert entered == {"node": 2, "a": 2}


class Own(TypedDict):
    """The state of a subgraph and of the graph around it."""

    log: Annotated[list[str], operator.add]
    said: Annotated[list[str], operator.add]


def test_P14_enclosing_nodes_enter_again_as_shells_and_leaves_do_not(way: Way, saver: Saver) -> None:
    entered = Entered()

    def asks(name: str) -> Any:
        def node(_: Own) -> dict[str, Any]:
            entered[name] += 1
            return {"said": [f"{name}:{interrupt(name)}"]}

        return way.node(node)

    def says(name: str) -> Any:
        def node(_: Own) -> dict[str, Any]:
            entered[name] += 1
            return {"said": [name]}

        return way.node(node)

    sub: StateGraph[Any, Any, Any, Any] = StateGraph(Own)
    sub.add_node("before", says("before")).add_edge(START, "before")
    for name, node in (("x", asks("x")), ("y", asks("y")), ("z", says("z"))):
        sub.add_node(name, node).add_edge("before", name)
    inner = sub.compile()

    def shell(state: Own) -> dict[str, Any]:
        entered["shell"] += 1
        return {"log": inner.invoke({"said": []})["said"]}

    async def ashell(state: Own) -> dict[str, Any]:
        entered["shell"] += 1
        return {"log": (await inner.ainvoke({"said": []}))["said"]}

    builder: StateGraph[Any, Any, Any, Any] = StateGraph(Own)
    builder.add_node("shell", ashell if way.is_async else shell).add_edge(START, "shell")
    graph = builder.add_node("plain", entered.asks(way, "plain")).add_edge(START, "plain").compile(saver)
    ids = open_of(way.invoke(graph, {"log": []}, on()))
    assert set(ids) == {"x", "y", "plain"}
    assert open_of(way.invoke(graph, Command(resume={ids["x"]: "1"}), on())) == {"y": ids["y"], "plain": ids["plain"]}
    assert entered == {"shell": 2, "before": 1, "x": 2, "y": 1, "z": 1, "plain": 1}
    out = way.invoke(graph, Command(resume={ids["y"]: "2", ids["plain"]: "3"}), on())
    assert out["log"] == ["plain:3", "before", "x:1", "y:2", "z"]
    assert entered == {"shell": 3, "before": 1, "x": 2, "y": 2, "z": 1, "plain": 2}


def test_P14_sends_enter_again_one_by_one(way: Way, saver: Saver) -> None:
    entered = Entered()

    def work(at: int) -> dict[str, Any]:
        entered[str(at)] += 1
        return {"log": [f"{at}:{interrupt(at)}" if at % 2 else f"{at}"]}

    builder = StateGraph(Log).add_node("w", way.node(work))
    builder.add_conditional_edges(START, lambda _: [Send("w", at) for at in range(4)], ["w"])
    graph = builder.compile(saver)
    ids = open_of(way.invoke(graph, {"log": []}, on()))
    assert list(ids) == [1, 3]
    assert open_of(way.invoke(graph, Command(resume={ids[3]: "c"}), on())) == {1: ids[1]}
    assert way.invoke(graph, Command(resume="a"), on()) == {"log": ["0", "1:a", "2", "3:c"]}
    assert entered == {"0": 1, "1": 2, "2": 1, "3": 2}


def test_P14_a_pause_inside_an_error_handler(way: Way, saver: Saver) -> None:
    entered = Entered()

    def fail(_: Log) -> None:
        entered["fail"] += 1
        raise ValueError("no")

    builder: StateGraph[Any, Any, Any, Any] = StateGraph(Log)
    builder.add_node("a", way.node(fail), error_handler=entered.asks(way, "handler")).add_edge(START, "a")
    builder.add_node("b", entered.asks(way, "b")).add_edge(START, "b")
    graph = builder.compile(saver)
    ids = open_of(way.invoke(graph, {"log": []}, on()))
    assert set(ids) == {"handler", "b"}
    assert open_of(way.state(graph, on())) == ids
    assert open_of(way.invoke(graph, Command(resume={ids["b"]: "1"}), on())) == {"handler": ids["handler"]}
    assert entered == {"fail": 1, "handler": 1, "b": 2}
    assert way.invoke(graph, Command(resume="2"), on())["log"] == ["handler:2", "b:1"]
    assert entered == {"fail": 1, "handler": 2, "b": 2}


def test_P14_a_node_that_has_asked_is_not_handed_to_its_error_handler(way: Way, saver: Saver) -> None:
    def node(_: Log) -> dict[str, Any]:
        try:
            return {"log": [interrupt("q")]}
        except BaseException as signal:
            raise ValueError("the tool failed") from signal

    handled: list[str] = []
    builder: StateGraph[Any, Any, Any, Any] = StateGraph(Log)
    builder.add_node("a", way.node(node), error_handler=way.node(lambda _: handled.append("handled"))).add_edge(START, "a")
    graph = builder.compile(saver)
    assert list(open_of(way.invoke(graph, {"log": []}, on()))) == ["q"]
    assert way.invoke(graph, Command(resume="r"), on()) == {"log": ["r"]}
    assert handled == []


def test_P14_retries_before_and_after_a_pause(way: Way, saver: Saver) -> None:
    attempts: list[str] = []

    def node(_: Log) -> dict[str, Any]:
        attempts.append("before")
        if len(attempts) == 1:
            raise ConnectionError("lost")
        answer = interrupt("q")
        attempts.append("after")
        if attempts.count("after") == 1:
            raise ConnectionError("lost again")
        return {"log": [answer]}

    policy = RetryPolicy(initial_interval=0, jitter=False, max_attempts=2)
    builder: StateGraph[Any, Any, Any, Any] = StateGraph(Log)
    graph = builder.add_node("a", way.node(node), retry_policy=policy).add_edge(START, "a").compile(saver)
    first = open_of(way.invoke(graph, {"log": []}, on()))
    assert attempts == ["before", "before"]
    assert open_of(way.invoke(graph, None, on())) == first
    assert way.invoke(graph, Command(resume="r"), on()) == {"log": ["r"]}
    assert attempts == ["before", "before", "before", "after", "before", "after"]


def test_P14_an_error_that_comes_of_a_pause_is_not_retried(way: Way, saver: Saver) -> None:
    entered = Entered()

    def node(_: Log) -> dict[str, Any]:
        entered["node"] += 1
        try:
            return {"log": [interrupt("q")]}
        except BaseException as signal:
            raise ConnectionError("the tool failed") from signal

    policy = RetryPolicy(initial_interval=0, jitter=False, max_attempts=5)
    builder: StateGraph[Any, Any, Any, Any] = StateGraph(Log)
    graph = builder.add_node("a", way.node(node), retry_policy=policy).add_edge(START, "a").compile(saver)
    assert list(open_of(way.invoke(graph, {"log": []}, on()))) == ["q"]
    assert entered == {"node": 1}


def test_P14_a_node_that_fails_after_its_answer_keeps_the_answer(way: Way, saver: Saver) -> None:
    fails = [True]

    def node(_: Log) -> dict[str, Any]:
        answer = interrupt("q")
        if fails:
            raise ValueError("after the answer")
        return {"log": [answer]}

    graph = graph_of(a=way.node(node)).compile(saver)
    way.invoke(graph, {"log": []}, on())
    with pytest.raises(ValueError, match="after the answer"):
        way.invoke(graph, Command(resume="r"), on())
    state = way.state(graph, on())
    assert (state.interrupts, state.tasks[0].status) == ((), "error")
    fails.clear()
    assert way.invoke(graph, None, on()) == {"log": ["r"]}


def test_P14_a_node_that_failed_and_then_asks_is_paused(way: Way, saver: Saver) -> None:
    fails = [True]

    def node(_: Log) -> dict[str, Any]:
        if fails:
            raise ValueError("before the question")
        return {"log": [interrupt("q")]}

    graph = graph_of(a=way.node(node)).compile(saver)
    with pytest.raises(ValueError, match="before the question"):
        way.invoke(graph, {"log": []}, on())
    fails.clear()
    way.invoke(graph, None, on())
    (task,) = way.state(graph, on()).tasks
    assert (task.status, task.error, [pause.value for pause in task.interrupts]) == ("paused", None, ["q"])
    assert way.invoke(graph, Command(resume="r"), on()) == {"log": ["r"]}


def test_questions_are_streamed_in_every_mode(way: Way, saver: Saver) -> None:
    graph = graph_of(a=Entered().asks(way, "a")).compile(saver)
    events = way.stream(graph, {"log": []}, on(), stream_mode=["updates", "values", "tasks", "checkpoints"])
    pause = way.state(graph, on()).interrupts[0]
    plain = {"value": "a", "id": pause.id, "response_schema": None}
    assert [(mode, event) for mode, event in events if mode in ("updates", "values")] == [
        ("values", {"log": []}),
        ("updates", {"__interrupt__": (pause,)}),
        ("values", {"log": [], "__interrupt__": (pause,)}),
    ]
    assert [event["interrupts"] for mode, event in events if mode == "tasks" and "result" in event] == [[plain]]
    events = way.stream(graph, Command(resume="r"), on(), stream_mode=["updates", "tasks"])
    assert [event for mode, event in events if mode == "updates"] == [{"a": {"log": ["a:r"]}}]
    assert [event["interrupts"] for mode, event in events if mode == "tasks" and "result" in event] == [[]]


# -- steps and entries ----------------------------------------------------------------------------------------------------------------


def looped(way: Way, ledger: list[int], *, durable: bool) -> Any:
    """A node that notes 0, 1 and 2 in an outside ledger, asking after each."""

    def note(at: int) -> None:
        ledger.append(at)

    step = task(note)

    def node(_: Log) -> dict[str, Any]:
        answers = []
        for at in range(3):
            if durable:
                step(at).result()
            else:
                note(at)
            answers.append(interrupt(at))
        return {"log": answers}

    return graph_of(node=node)


def test_S02_P17_pauses_in_a_loop_do_not_repeat_durable_steps(way: Way, saver: Saver) -> None:
    ledger: list[int] = []
    graph = looped(way, ledger, durable=True).compile(saver)
    out = way.invoke(graph, {"log": []}, on())
    for at, answer in enumerate("xyz"):
        assert list(open_of(out)) == [at]
        assert entries(way, graph) == {"node": at + 1}
        out = way.invoke(graph, Command(resume=answer), on())
    assert out == {"log": ["x", "y", "z"]}
    assert ledger == [0, 1, 2]
    assert entries(way, graph) == {"node": 4}


def test_S02_P17_without_durable_steps_the_record_tells_the_entries(way: Way, saver: Saver) -> None:
    ledger: list[int] = []
    graph = looped(way, ledger, durable=False).compile(saver)
    way.invoke(graph, {"log": []}, on())
    for answer in "xyz":
        way.invoke(graph, Command(resume=answer), on())
    assert ledger == [0, 0, 1, 0, 1, 2, 0, 1, 2]
    assert entries(way, graph) == {"node": 4}


def test_P17_entries_of_nodes_that_never_asked_wait_or_failed(way: Way, saver: Saver) -> None:
    fails = [True]

    def fail(_: Log) -> None:
        if fails:
            raise ValueError("no")

    entered = Entered()
    builder = graph_of(a=entered.says(way, "a"), b=entered.asks(way, "b", "1", "2"))
    builder.add_node("last", way.node(fail)).add_edge(["a", "b"], "last").add_edge("last", END)
    graph = builder.compile(saver)
    way.invoke(graph, {"log": []}, on())
    assert entries(way, graph) == {"a": 1, "b": 1}
    way.invoke(graph, Command(resume="x"), on())
    assert entries(way, graph) == {"a": 1, "b": 2}
    with pytest.raises(ValueError, match="no"):
        way.invoke(graph, Command(resume="y"), on())
    assert entries(way, graph) == {"last": 1}
    history = [{task.name: task.entries for task in snapshot.tasks} for snapshot in way.history(graph, on())]
    assert {"a": 1, "b": 3} in history


def test_P17_attempts_count_as_entries_where_a_question_tells_of_them(way: Way, saver: Saver) -> None:
    attempts: list[str] = []

    def node(_: Log) -> dict[str, Any]:
        attempts.append("in")
        if len(attempts) < 3:
            raise ConnectionError("lost")
        return {"log": [interrupt("q")]}

    policy = RetryPolicy(initial_interval=0, jitter=False, max_attempts=3)
    builder: StateGraph[Any, Any, Any, Any] = StateGraph(Log)
    graph = builder.add_node("a", way.node(node), retry_policy=policy).add_edge(START, "a").compile(saver)
    way.invoke(graph, {"log": []}, on())
    assert entries(way, graph) == {"a": 3}
    way.invoke(graph, Command(resume="r"), on())
    assert entries(way, graph) == {"a": 4}


def test_P17_a_step_that_asked_is_not_repeated_for_the_questions_after_it(way: Way, saver: Saver) -> None:
    entered = Entered()

    @task
    def step(name: str) -> str:
        entered[name] += 1
        return str(interrupt(name))

    def node(_: Log) -> dict[str, Any]:
        return {"log": [step("a").result(), interrupt("b"), step("c").result()]}

    graph = graph_of(node=node).compile(saver)
    out = way.invoke(graph, {"log": []}, on())
    for name in "abc":
        assert list(open_of(out)) == [name]
        out = way.invoke(graph, Command(resume=name.upper()), on())
    assert out == {"log": ["A", "B", "C"]}
    assert entered == {"a": 2, "c": 2}
