"""P12: every pause that is reached is registered, and survives whatever the node does with the exception; ids are stable."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from perdure.checkpoint.saver import Saver
from perdure.errors import AmbiguousPause, GraphInterrupt
from perdure.types import Command, interrupt
from tests.promises.asking import Entered, graph_of, open_of, side_by_side
from tests.promises.ways import Log, Way, on

HOWS = ("threads", "tasks", "group")


def asker(entered: Entered, *names: str) -> Callable[[], list[Callable[[], str]]]:
    """Helpers that count their entries and ask their names."""

    def ask(name: str) -> str:
        entered[name] += 1
        return f"{name}={interrupt(name)}"

    return lambda: [lambda name=name: ask(name) for name in names]


# -- several at once inside one node ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", HOWS)
def test_S01_P12_all_questions_of_one_node_are_shown_and_routed_by_id(way: Way, saver: Saver, how: str) -> None:
    entered = Entered()
    graph = graph_of(node=side_by_side(how, asker(entered, "A", "B"))).compile(saver)
    ids = open_of(way.invoke(graph, {"log": []}, on()))
    assert set(ids) == {"A", "B"}
    assert len(set(ids.values())) == 2
    assert open_of(way.state(graph, on())) == open_of(way.state(graph, on())) == ids
    assert way.invoke(graph, Command(resume={ids["B"]: "vb", ids["A"]: "va"}), on()) == {"log": ["A=va", "B=vb"]}
    state = way.state(graph, on())
    assert (state.interrupts, state.next) == ((), ())
    assert entered == {"A": 2, "B": 2}


@pytest.mark.parametrize("first", ["A", "B"])
@pytest.mark.parametrize("how", HOWS)
def test_P14_answers_come_one_by_one_in_any_order_and_wait(way: Way, saver: Saver, how: str, first: str) -> None:
    entered = Entered()
    graph = graph_of(node=side_by_side(how, asker(entered, "A", "B"))).compile(saver)
    ids = open_of(way.invoke(graph, {"log": []}, on()))
    other = "AB".replace(first, "")
    out = way.invoke(graph, Command(resume={ids[first]: first.lower()}), on())
    assert open_of(out) == {other: ids[other]} == open_of(way.state(graph, on()))
    assert entered == {"A": 1, "B": 1}, "a node enters again only when all its questions are answered"
    assert way.invoke(graph, Command(resume=other.lower()), on()) == {"log": ["A=a", "B=b"]}
    assert entered == {"A": 2, "B": 2}


def test_P12_helpers_that_take_turns_otherwise_are_known_by_their_questions(way: Way, saver: Saver) -> None:
    order = ["A", "B", "C"]

    def node(_: Log) -> dict[str, Any]:
        answers = {}
        for name in order:
            try:
                answers[name] = interrupt(name)
            except GraphInterrupt:
                continue
        order.reverse()
        return {"log": [f"{name}={answers[name]}" for name in sorted(answers)]}

    graph = graph_of(node=way.node(node)).compile(saver)
    ids = open_of(way.invoke(graph, {"log": []}, on()))
    assert list(ids) == ["A", "B", "C"]
    out = way.invoke(graph, Command(resume={pause: name.lower() for name, pause in ids.items()}), on())
    assert out == {"log": ["A=a", "B=b", "C=c"]}


def test_P12_equal_questions_at_once_are_told_apart_by_their_order(way: Way, saver: Saver) -> None:
    graph = graph_of(node=side_by_side("tasks", lambda: [lambda: interrupt("same")] * 2)).compile(saver)
    first, second = [pause.id for pause in way.invoke(graph, {"log": []}, on())["__interrupt__"]]
    assert first != second
    assert way.invoke(graph, Command(resume={first: "1", second: "2"}), on()) == {"log": ["1", "2"]}


def test_P12_questions_at_once_that_change_their_text_need_a_key(way: Way, saver: Saver) -> None:
    times = iter(range(100))
    graph = graph_of(node=side_by_side("tasks", lambda: [lambda: interrupt(next(times))] * 2)).compile(saver)
    pauses = way.invoke(graph, {"log": []}, on())["__interrupt__"]
    with pytest.raises(AmbiguousPause, match="key=") as caught:
        way.invoke(graph, Command(resume={pause.id: "x" for pause in pauses}), on())
    assert caught.value.node == "node"


def test_P12_a_key_names_a_question_whatever_its_text_and_place(way: Way, saver: Saver) -> None:
    times = iter(range(100))
    order = ["a", "b"]

    def calls() -> list[Callable[[], str]]:
        found = [lambda key=key: f"{key}={interrupt(next(times), key=key)}" for key in order]
        order.reverse()
        return found

    graph = graph_of(node=side_by_side("tasks", calls)).compile(saver)
    (first, a), (second, b) = open_of(way.invoke(graph, {"log": []}, on())).items()
    assert (first, second) == (0, 1)
    out = way.invoke(graph, Command(resume={a: "for a", b: "for b"}), on())
    assert out == {"log": ["b=for b", "a=for a"]}


def test_P12_one_key_twice_in_one_entry_is_refused(way: Way, saver: Saver) -> None:
    graph = graph_of(node=side_by_side("tasks", lambda: [lambda: interrupt("x", key="k"), lambda: interrupt("y", key="k")]))
    out = way.invoke(graph.compile(saver), {"log": []}, on())
    assert list(open_of(out)) == ["x"], "the question that was reached counts"


def test_P12_a_changed_text_in_a_node_that_asks_in_turn_keeps_its_place(way: Way, saver: Saver) -> None:
    times = iter(range(100))

    def node(_: Log) -> dict[str, Any]:
        return {"log": [interrupt(f"{name} at {next(times)}") for name in ("first", "second")]}

    graph = graph_of(node=way.node(node)).compile(saver)
    (one,) = open_of(way.invoke(graph, {"log": []}, on())).items()
    (two,) = open_of(way.invoke(graph, Command(resume="1"), on())).items()
    assert (one[0], two[0]) == ("first at 0", "second at 2")
    assert one[1] != two[1]
    assert way.invoke(graph, Command(resume={two[1]: "2"}), on()) == {"log": ["1", "2"]}


# -- whatever the node does with the exception --------------------------------------------------------------------------------------


def swallow(_: Log) -> dict[str, Any]:
    try:
        return {"log": [interrupt("q")]}
    except BaseException:
        return {"log": ["swallowed"]}


def turn_into_error(_: Log) -> dict[str, Any]:
    try:
        return {"log": [interrupt("q")]}
    except BaseException as signal:
        raise ValueError("the tool failed") from signal


def bury(_: Log) -> dict[str, Any]:
    try:
        return {"log": [interrupt("q")]}
    except BaseException:
        raise ValueError("the tool failed") from None


def wrap_in_groups(_: Log) -> dict[str, Any]:
    try:
        return {"log": [interrupt("q")]}
    except GraphInterrupt as signal:
        raise BaseExceptionGroup("outer", [BaseExceptionGroup("inner", [signal])]) from None


def raise_another(_: Log) -> dict[str, Any]:
    try:
        return {"log": [interrupt("q")]}
    except GraphInterrupt:
        raise GraphInterrupt from None


@pytest.mark.parametrize(
    "node", [swallow, turn_into_error, bury, wrap_in_groups, raise_another], ids=lambda node: node.__name__
)
def test_P12_a_pause_survives_whatever_the_node_does_with_it(way: Way, saver: Saver, node: Any) -> None:
    graph = graph_of(node=way.node(node)).compile(saver)
    out = way.invoke(graph, {"log": []}, on())
    assert (list(open_of(out)), out["log"]) == (["q"], [])
    state = way.state(graph, on())
    assert [(task.status, task.error) for task in state.tasks] == [("paused", None)]
    assert way.invoke(graph, Command(resume="r"), on()) == {"log": ["r"]}


@pytest.mark.parametrize("node", [swallow, turn_into_error, wrap_in_groups], ids=lambda node: node.__name__)
def test_P12_a_pause_beside_others_survives_too(way: Way, saver: Saver, node: Any) -> None:
    entered = Entered()
    graph = graph_of(node=way.node(node), other=entered.says(way, "other")).compile(saver)
    assert list(open_of(way.invoke(graph, {"log": []}, on()))) == ["q"]
    assert way.invoke(graph, Command(resume="r"), on()) == {"log": ["r", "other"]}
    assert entered == {"other": 1}


def test_P12_an_error_that_has_nothing_to_do_with_the_pause_is_told_and_the_pause_kept(way: Way, saver: Saver) -> None:
    fails = [True]

    def node(_: Log) -> dict[str, Any]:
        answer = None
        try:
            answer = interrupt("q")
        except GraphInterrupt:
            pass
        if fails:
            raise ValueError("something else")
        return {"log": [answer]}

    graph = graph_of(node=way.node(node)).compile(saver)
    with pytest.raises(ValueError, match="something else"):
        way.invoke(graph, {"log": []}, on())
    assert list(open_of(way.state(graph, on()))) == ["q"]
    fails.clear()
    assert way.invoke(graph, Command(resume="r"), on()) == {"log": ["r"]}


def test_P12_a_group_of_a_pause_and_an_error_raises_the_error_and_keeps_the_pause(way: Way, saver: Saver) -> None:
    fails = [True]

    async def failing() -> str:
        if fails:
            raise ValueError("a real one")
        return "fine"

    async def asking() -> str:
        return str(interrupt("q"))

    async def node(_: Log) -> dict[str, Any]:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(asking()), group.create_task(failing())]
        return {"log": [task.result() for task in tasks]}

    graph = graph_of(node=node).compile(saver)
    with pytest.raises(ExceptionGroup) as caught:
        way.invoke(graph, {"log": []}, on())
    assert [str(error) for error in caught.value.exceptions] == ["a real one"]
    assert list(open_of(way.state(graph, on()))) == ["q"]
    fails.clear()
    assert way.invoke(graph, Command(resume="r"), on()) == {"log": ["r", "fine"]}


def test_P12_a_group_without_a_pause_is_an_error_like_any_other(way: Way, saver: Saver) -> None:
    async def fail(text: str) -> None:
        raise ValueError(text)

    async def node(_: Log) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(fail("1"))
            group.create_task(fail("2"))

    with pytest.raises(ExceptionGroup) as caught:
        way.invoke(graph_of(node=node).compile(saver), {"log": []}, on())
    assert [str(error) for error in caught.value.exceptions] == ["1", "2"]


@pytest.mark.parametrize("swallows", [False, True], ids=["lets it pass", "swallows it"])
def test_P12_a_path_function_may_ask_and_even_swallow_it(way: Way, saver: Saver, swallows: bool) -> None:
    def path(_: Log) -> str:
        try:
            return str(interrupt("where to?"))
        except GraphInterrupt:
            if not swallows:
                raise
            return "a"

    builder = graph_of(node=Entered().says(way, "node"))
    builder.add_node("a", way.node(lambda _: {"log": ["a"]})).add_node("b", way.node(lambda _: {"log": ["b"]}))
    graph = builder.add_conditional_edges("node", path, ["a", "b"]).compile(saver)
    assert list(open_of(way.invoke(graph, {"log": []}, on()))) == ["where to?"]
    assert way.invoke(graph, Command(resume="b"), on()) == {"log": ["node", "b"]}
