"""P19: one paused checkpoint answered several times, addressed by its id, gives as many branches."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.checkpoint.saver import Saver
from perdure.func import entrypoint, task
from perdure.types import Command, Send, interrupt
from tests.promises.travelling import Outer, Ran, around, branches_of, changed, in_a_row, reviewed, side_by_side, stored
from tests.promises.ways import Log, Way, on


@pytest.mark.parametrize("memory", [None, True])
@pytest.mark.parametrize("levels", [0, 1, 2, 3])
def test_P19_a_question_at_any_depth_is_answered_three_times(way: Way, saver: Saver, levels: int, memory: Any):
    ran = Ran(way)
    inner = reviewed(ran, checkpointer=saver if levels == 0 else memory)
    graph = around(inner, saver, levels=levels, checkpointer=memory) if levels else inner
    way.invoke(graph, {"log": []}, on())
    paused = way.state(graph, on(), subgraphs=True)
    assert ran.take() == ["a", "b", "c", "review"]
    assert way.invoke(graph, Command(resume="one"), paused.config)["log"] == ["a", "b", "c", "one"]
    assert ran.take() == ["review"]
    rows = stored(saver)
    tips = [way.state(graph, on()).config]
    for answer in ("two", "three"):
        assert way.invoke(graph, Command(resume=answer), paused.config)["log"] == ["a", "b", "c", answer]
        assert ran.take() == ["review"], "only what comes after runs again"
        tips.append(way.state(graph, on()).config)
    assert changed(rows, stored(saver)) == []
    assert [way.state(graph, tip).values["log"][-1] for tip in tips] == ["one", "two", "three"]
    assert len(branches_of(way, graph)) == 3
    assert [pause.value for pause in way.state(graph, paused.config).interrupts] == ["ok?"]


@pytest.mark.parametrize("memory", [None, True])
def test_P19_a_question_is_answered_anew_at_the_subgraphs_own_checkpoint(way: Way, saver: Saver, memory: Any):
    ran = Ran(way)
    graph = around(reviewed(ran, checkpointer=memory), saver, levels=2, checkpointer=memory)
    way.invoke(graph, {"log": []}, on())
    inside = way.state(graph, on(), subgraphs=True).tasks[0].state.tasks[0].state
    assert way.invoke(graph, Command(resume="one"), inside.config)["log"] == ["a", "b", "c", "one"]
    assert len(branches_of(way, graph)) == 1, "it was the tip"
    ran.take()
    assert way.invoke(graph, Command(resume="two"), inside.config)["log"] == ["a", "b", "c", "two"]
    assert ran.take() == ["review"]
    assert len(branches_of(way, graph)) == 2


def test_P19_siblings_that_asked_nothing_are_done_and_those_that_wait_go_on_waiting(way: Way, saver: Saver):
    ran = Ran(way)
    inner = in_a_row(Log, ("one", ran("one")), ("two", ran.asks("two", "in?"))).compile()
    graph = side_by_side(Log, a=ran.asks("a", "a?"), b=ran.asks("b", "b?"), plain=ran("plain"), sub=inner).compile(
        checkpointer=saver
    )
    way.invoke(graph, {"log": []}, on())
    paused = way.state(graph, on())
    asked = {pause.value: pause.id for pause in paused.interrupts}
    answers = {asked[question]: question.upper() for question in asked}
    first = way.invoke(graph, Command(resume=answers), paused.config)
    assert first["log"] == ["A?", "B?", "plain", "one", "IN?"]
    ran.take()

    second = way.invoke(graph, Command(resume={asked["a?"]: "new"}), paused.config)
    assert ran.take() == ["a"], "the others wait, and are not run to ask again"
    open_now = {pause.value: pause.id for pause in second["__interrupt__"]}
    assert set(open_now) == {"b?", "in?"}
    assert set(open_now.values()).isdisjoint(asked.values()), "other ids: another branch"
    assert {pause.value for pause in way.state(graph, on(), subgraphs=True).interrupts} == {"b?", "in?"}
    assert way.invoke(graph, Command(resume={open_now["in?"]: "IN"}), on())["__interrupt__"][0].value == "b?"
    assert ran.take() == ["two"]
    last = way.invoke(graph, Command(resume="B"), on())
    assert last["log"] == ["new", "B", "plain", "one", "IN"]
    assert ran.take() == ["b"]


def test_P19_sends_that_ask(way: Way, saver: Saver):
    ran = Ran(way)
    graph = side_by_side(Log).add_node("work", ran("work", lambda n: {"log": [f"{n}:{interrupt(f'{n}?')}"]}))
    graph.add_conditional_edges("__start__", lambda _: [Send("work", n) for n in range(3)], ["work"])
    compiled = graph.compile(checkpointer=saver)
    way.invoke(compiled, {"log": []}, on())
    paused = way.state(compiled, on())
    asked = {pause.value: pause.id for pause in paused.interrupts}
    way.invoke(compiled, Command(resume=dict.fromkeys(asked.values(), "x")), on())
    ran.take()
    out = way.invoke(compiled, Command(resume={asked["1?"]: "y"}), paused.config)
    assert {pause.value for pause in out["__interrupt__"]} == {"0?", "2?"}
    assert ran.take() == ["work"]
    out = way.invoke(compiled, Command(resume={pause.id: "z" for pause in out["__interrupt__"]}), on())
    assert out["log"] == ["0:z", "1:y", "2:z"]


def test_P19_earlier_answers_of_the_task_are_kept(way: Way, saver: Saver):
    def both(_: Any) -> Any:
        return {"log": [interrupt("first?"), interrupt("second?")]}

    graph = side_by_side(Log, ask=way.node(both)).compile(checkpointer=saver)
    way.invoke(graph, {"log": []}, on())
    way.invoke(graph, Command(resume="1"), on())
    paused = way.state(graph, on())
    assert way.invoke(graph, Command(resume="2"), on()) == {"log": ["1", "2"]}
    assert way.invoke(graph, Command(resume="II"), paused.config) == {"log": ["1", "II"]}
    assert way.invoke(graph, Command(resume="zwei"), paused.config) == {"log": ["1", "zwei"]}


def test_P19_a_branch_of_a_branch(way: Way, saver: Saver):
    graph = around(reviewed(Ran(way)), saver, levels=2)
    way.invoke(graph, {"log": []}, on())
    paused = way.state(graph, on())
    way.invoke(graph, Command(resume="one"), on())
    for answer in ("two", "three", "four"):
        assert way.invoke(graph, Command(resume=answer), paused.config)["log"][-1] == answer
        paused = next(one for one in way.history(graph, on()) if one.next == ("sub",))
        assert paused.metadata["source"] == "fork"


def test_P19_durable_steps_before_the_question_do_not_run_again_and_those_after_it_do(way: Way, saver: Saver):
    ran: list[str] = []

    def step(name: str) -> str:
        ran.append(name)
        return name

    do = task(way.node(step))

    if way.is_async:

        async def flow(_: Any) -> Any:
            return [await do("before"), interrupt("?"), await do("after")]

    else:

        def flow(_: Any) -> Any:  # type: ignore[misc]
            return [do("before").result(), interrupt("?"), do("after").result()]

    graph = entrypoint(checkpointer=saver)(flow)
    way.invoke(graph, 1, on())
    paused = way.state(graph, on())
    assert way.invoke(graph, Command(resume="one"), on()) == ["before", "one", "after"]
    assert way.invoke(graph, Command(resume="two"), paused.config) == ["before", "two", "after"]
    assert ran == ["before", "after", "after"]


def test_P19_a_question_inside_a_durable_step(way: Way, saver: Saver):
    ran: list[str] = []

    def step(name: str) -> str:
        ran.append(name)
        return name if name != "ask" else interrupt("?")  # type: ignore[no-any-return]

    do = task(way.node(step))

    if way.is_async:

        async def flow(_: Any) -> Any:
            return [await do("before"), await do("ask"), await do("after")]

    else:

        def flow(_: Any) -> Any:  # type: ignore[misc]
            return [do("before").result(), do("ask").result(), do("after").result()]

    graph = entrypoint(checkpointer=saver)(flow)
    way.invoke(graph, 1, on())
    paused = way.state(graph, on())
    assert way.invoke(graph, Command(resume="one"), on()) == ["before", "one", "after"]
    ran.clear()
    assert way.invoke(graph, Command(resume="two"), paused.config) == ["before", "two", "after"]
    assert ran == ["ask", "after"]


@pytest.mark.parametrize("asks", [1, 2])
def test_P19_a_node_that_calls_graphs_before_and_after_the_one_that_asks(way: Way, saver: Saver, asks: int):
    ran = Ran(way)
    calls = [in_a_row(Log, ("n", ran.asks(f"n{at}") if at == asks else ran(f"n{at}"))).compile() for at in range(4)]

    if way.is_async:

        async def node(_: Any) -> Any:
            return {"log": [(await each.ainvoke({"log": []}))["log"][0] for each in calls]}

    else:

        def node(_: Any) -> Any:  # type: ignore[misc]
            return {"log": [each.invoke({"log": []})["log"][0] for each in calls]}

    graph = side_by_side(Outer, node=node).compile(checkpointer=saver)
    way.invoke(graph, {}, on())
    paused = way.state(graph, on())
    way.invoke(graph, Command(resume="one"), on())
    ran.take()
    expected = [f"n{at}" for at in range(4)]
    expected[asks] = "two"
    assert way.invoke(graph, Command(resume="two"), paused.config)["log"] == expected
    assert ran.take() == [f"n{at}" for at in range(asks, 4)], (
        "those before it had ended, those after it belong to the old branch"
    )
