"""A pause survives a restart, a fork, an edit of an unrelated key and a replay (P12, P19, P22), and the loss of its node's name (P34)."""

from __future__ import annotations

import operator
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypedDict

import pytest

from perdure.checkpoint.saver import Saver
from perdure.checkpoint.sqlite import SqliteSaver
from perdure.errors import MissingNode, UnknownInterruptError
from perdure.func import task
from perdure.graph import START, StateGraph
from perdure.types import Command, Send, interrupt
from tests.promises.asking import Entered, graph_of, open_of
from tests.promises.ways import Log, Way, chain, on, rows_of


class Noted(TypedDict, total=False):
    """A log and a note that nothing here reads."""

    log: Annotated[list[str], operator.add]
    note: str


def with_subgraph(way: Way, entered: Entered) -> Any:
    """A graph around a subgraph s1 -> s2, of which s2 asks."""
    sub: StateGraph[Any, Any, Any, Any] = StateGraph(Noted)

    def s2(_: Noted) -> dict[str, Any]:
        entered["s2"] += 1
        return {"log": [f"s2{interrupt('q')}"]}

    sub.add_node("s1", entered.says(way, "s1")).add_node("s2", way.node(s2))
    sub.add_edge(START, "s1").add_edge("s1", "s2")
    builder: StateGraph[Any, Any, Any, Any] = StateGraph(Noted)
    return builder.add_node("sub", sub.compile()).add_edge(START, "sub")


# -- restart --------------------------------------------------------------------------------------------------------------------------


def test_P12_a_pause_survives_restarts_between_its_answers(way: Way, tmp_path: Path) -> None:
    entered = Entered()

    def graph(saver: Saver) -> Any:
        return graph_of(a=entered.asks(way, "a", "1", "2"), b=entered.asks(way, "b")).compile(saver)

    with SqliteSaver(tmp_path / "a.db") as saver:
        ids = open_of(way.invoke(graph(saver), {"log": []}, on()))
    with SqliteSaver(tmp_path / "a.db") as saver:
        assert set(open_of(way.invoke(graph(saver), Command(resume={ids["1"]: "x"}), on()))) == {"2", "b"}
    with SqliteSaver(tmp_path / "a.db") as saver:
        two = open_of(way.state(graph(saver), on()))["2"]
        way.invoke(graph(saver), Command(resume={two: "y"}), on())
    with SqliteSaver(tmp_path / "a.db") as saver:
        assert way.invoke(graph(saver), Command(resume={ids["b"]: "z"}), on()) == {"log": ["a:x", "a:y", "b:z"]}
    assert entered == {"a": 3, "b": 2}


# -- edits ----------------------------------------------------------------------------------------------------------------------------


def test_S09_P22_an_edit_of_an_unrelated_key_keeps_a_paused_subgraph(way: Way, saver: Saver) -> None:
    entered = Entered()
    graph = with_subgraph(way, entered).compile(saver)
    config, other = on(), on("without an edit")
    ids = open_of(way.invoke(graph, {"log": ["in"]}, config))
    way.edit(graph, config, {"note": "N"})
    state = way.state(graph, config)
    assert (state.next, open_of(state), state.values["note"]) == (("sub",), ids, "N")
    out = way.invoke(graph, Command(resume="v"), config)
    assert entered == {"s1": 1, "s2": 2}
    way.invoke(graph, {"log": ["in"]}, other)
    assert out == {**way.invoke(graph, Command(resume="v"), other), "note": "N"}


def test_P22_an_edit_keeps_answers_that_wait_and_siblings_that_ended(way: Way, saver: Saver) -> None:
    entered = Entered()

    def two(_: Noted) -> dict[str, Any]:
        entered["two"] += 1
        found = []
        for name in ("A", "B"):
            try:
                found.append(interrupt(name))
            except BaseException:
                found.append("?")
        return {"log": found}

    builder: StateGraph[Any, Any, Any, Any] = StateGraph(Noted)
    for name, node in (("two", way.node(two)), ("done", entered.says(way, "done")), ("ask", entered.asks(way, "ask"))):
        builder.add_node(name, node).add_edge(START, name)
    graph = builder.compile(saver)
    ids = open_of(way.invoke(graph, {"log": []}, on()))
    way.invoke(graph, Command(resume={ids["A"]: "1"}), on())
    way.edit(graph, on(), {"note": "N"})
    assert open_of(way.state(graph, on())) == {"B": ids["B"], "ask": ids["ask"]}
    out = way.invoke(graph, Command(resume={ids["B"]: "2", ids["ask"]: "3"}), on())
    assert sorted(out["log"]) == ["1", "2", "ask:3", "done"]
    assert entered == {"two": 2, "done": 1, "ask": 2}


def test_P22_an_edit_as_the_node_that_asks_closes_its_question_only(way: Way, saver: Saver) -> None:
    graph = graph_of(a=Entered().asks(way, "a"), b=Entered().asks(way, "b")).compile(saver)
    ids = open_of(way.invoke(graph, {"log": []}, on()))
    way.edit(graph, on(), {"log": ["edited"]}, as_node="a")
    assert open_of(way.state(graph, on())) == {"b": ids["b"]}
    with pytest.raises(UnknownInterruptError):
        way.invoke(graph, Command(resume={ids["a"]: "x"}), on())
    assert way.invoke(graph, Command(resume="y"), on()) == {"log": ["edited", "b:y"]}


# -- forks and replays ----------------------------------------------------------------------------------------------------------------


def test_P19_one_paused_checkpoint_answered_twice_gives_two_branches(way: Way, saver: Saver) -> None:
    entered = Entered()
    graph = chain(("a", entered.says(way, "a")), ("b", entered.asks(way, "b")), ("c", entered.says(way, "c"))).compile(saver)
    way.invoke(graph, {"log": []}, on())
    paused = way.state(graph, on()).config
    assert way.invoke(graph, Command(resume="1"), on()) == {"log": ["a", "b:1", "c"]}
    first = way.state(graph, on())
    assert way.invoke(graph, Command(resume="2"), paused) == {"log": ["a", "b:2", "c"]}
    assert entered == {"a": 1, "b": 3, "c": 2}
    assert way.state(graph, first.config).values == {"log": ["a", "b:1", "c"]}
    assert way.state(graph, on()).values == {"log": ["a", "b:2", "c"]}


def test_P19_several_questions_of_an_old_checkpoint_are_answered_anew_by_their_old_ids(way: Way, saver: Saver) -> None:
    graph = graph_of(a=Entered().asks(way, "a"), b=Entered().asks(way, "b")).compile(saver)
    ids = open_of(way.invoke(graph, {"log": []}, on()))
    paused = way.state(graph, on()).config
    way.invoke(graph, Command(resume={ids["a"]: "1", ids["b"]: "2"}), on())
    out = way.invoke(graph, Command(resume={ids["a"]: "3", ids["b"]: "4"}), paused)
    assert out == {"log": ["a:3", "b:4"]}


def test_P19_a_paused_subgraph_answered_twice_gives_two_branches(way: Way, saver: Saver) -> None:
    entered = Entered()
    graph = with_subgraph(way, entered).compile(saver)
    way.invoke(graph, {"log": []}, on())
    paused = way.state(graph, on()).config
    first = way.invoke(graph, Command(resume="1"), on())
    second = way.invoke(graph, Command(resume="2"), paused)
    assert (first["log"], second["log"]) == (["s1", "s21"], ["s1", "s22"])
    assert entered == {"s1": 1, "s2": 3}


def test_P19_steps_before_the_question_are_not_repeated_in_a_branch_and_those_after_it_are(way: Way, saver: Saver) -> None:
    ledger: list[str] = []

    @task
    def step(name: str) -> str:
        ledger.append(name)
        return name

    def node(_: Log) -> dict[str, Any]:
        before = step("before").result()
        answer = interrupt("q")
        return {"log": [before, step(f"after {answer}").result()]}

    graph = graph_of(node=node).compile(saver)
    way.invoke(graph, {"log": []}, on())
    paused = way.state(graph, on()).config
    assert way.invoke(graph, Command(resume="1"), on()) == {"log": ["before", "after 1"]}
    assert way.invoke(graph, Command(resume="2"), paused) == {"log": ["before", "after 2"]}
    assert ledger == ["before", "after 1", "after 2"]


def test_P19_a_question_of_a_durable_step_is_answered_anew(way: Way, saver: Saver) -> None:
    @task
    def step(name: str) -> str:
        return f"{name}={interrupt(name)}"

    def node(_: Log) -> dict[str, Any]:
        return {"log": [step("a").result()]}

    graph = graph_of(node=node).compile(saver)
    way.invoke(graph, {"log": []}, on())
    paused = way.state(graph, on()).config
    assert way.invoke(graph, Command(resume="1"), on()) == {"log": ["a=1"]}
    assert way.invoke(graph, Command(resume="2"), paused) == {"log": ["a=2"]}


def test_a_replay_asks_again_and_leaves_the_old_branch_alone(way: Way, saver: Saver) -> None:
    entered = Entered()
    graph = chain(("a", entered.says(way, "a")), ("b", entered.asks(way, "b"))).compile(saver)
    old = open_of(way.invoke(graph, {"log": []}, on()))
    paused = way.state(graph, on()).config
    way.invoke(graph, Command(resume="1"), on())
    before = rows_of(saver)
    new = open_of(way.invoke(graph, None, paused))
    assert new["b"] != old["b"]
    kept = rows_of(saver)
    assert {n: row for n, row in kept["checkpoints"].items() if n in before["checkpoints"]} == before["checkpoints"]
    assert {key: row for key, row in kept["writes"].items() if key in before["writes"]} == before["writes"]
    assert way.invoke(graph, Command(resume="2"), on()) == {"log": ["a", "b:2"]}
    assert entered == {"a": 1, "b": 4}


def test_the_paused_checkpoint_itself_is_resumed_by_its_id(way: Way, saver: Saver) -> None:
    entered = Entered()
    graph = graph_of(a=entered.asks(way, "a")).compile(saver)
    way.invoke(graph, {"log": []}, on())
    checkpoints = len(way.history(graph, on()))
    assert way.invoke(graph, Command(resume="x"), way.state(graph, on()).config) == {"log": ["a:x"]}
    assert len(way.history(graph, on())) == checkpoints + 1, "no branch"


# -- renamed nodes --------------------------------------------------------------------------------------------------------------------


def renamed(way: Way, name: str, saver: Saver, **options: Any) -> Any:
    return graph_of(**{name: way.node(lambda _: {"log": [interrupt("q")]})}).compile(saver, **options)


def test_S26_P34_a_renamed_node_is_told_and_its_question_kept_and_an_alias_repairs_it(way: Way, saver: Saver) -> None:
    ids = open_of(way.invoke(renamed(way, "ask", saver), {"log": []}, on()))
    graph = renamed(way, "ask2", saver)
    state = way.state(graph, on())
    assert (state.next, [task.status for task in state.tasks]) == (("ask",), ["missing"])
    assert open_of(state) == ids
    before = rows_of(saver)
    for given in (Command(resume="v"), Command(resume={ids["q"]: "v"}), None):
        with pytest.raises(MissingNode, match="aliases") as caught:
            way.invoke(graph, given, on())
        assert caught.value.node == "ask"
        assert rows_of(saver) == before
    assert open_of(way.state(graph, on())) == ids
    mended = renamed(way, "ask2", saver, aliases={"ask": "ask2"})
    assert open_of(way.state(mended, on())) == ids
    assert way.invoke(mended, Command(resume={ids["q"]: "v"}), on()) == {"log": ["v"]}


def test_P34_an_alias_goes_on_with_the_edges_of_the_new_node(way: Way, saver: Saver) -> None:
    way.invoke(renamed(way, "ask", saver), {"log": []}, on())
    builder = graph_of(ask2=way.node(lambda _: {"log": [interrupt("q")]}))
    builder.add_node("more", way.node(lambda _: {"log": ["more"]})).add_edge("ask2", "more")
    graph = builder.compile(saver, aliases={"ask": "ask2"})
    assert way.invoke(graph, Command(resume="v"), on()) == {"log": ["v", "more"]}


def test_P34_an_alias_in_a_subgraph(way: Way, saver: Saver) -> None:
    def graph(name: str, **options: Any) -> Any:
        sub: StateGraph[Any, Any, Any, Any] = StateGraph(Log)
        sub.add_node(name, way.node(lambda _: {"log": [interrupt("q")]})).add_edge(START, name)
        builder: StateGraph[Any, Any, Any, Any] = StateGraph(Log)
        return builder.add_node("sub", sub.compile(**options)).add_edge(START, "sub").compile(saver)

    ids = open_of(way.invoke(graph("ask"), {"log": []}, on()))
    with pytest.raises(MissingNode):
        way.invoke(graph("ask2"), Command(resume="v"), on())
    assert open_of(way.state(graph("ask2"), on())) == ids
    mended = graph("ask2", aliases={"ask": "ask2"})
    assert way.invoke(mended, None if not way.state(mended, on()).interrupts else Command(resume="v"), on()) == {"log": ["v"]}


class Renamed(NamedTuple):
    """A graph in which one node, `old`, has another name since."""

    draw: Callable[..., Any]
    log: list[Any]
    """What an answered run ends with, under an alias."""
    ran: str | None = None
    """In whose name an edit is to be made, where that is not clear."""


def _as_a_send(way: Way, name: str) -> Any:
    builder: StateGraph[Any, Any, Any, Any] = StateGraph(Log)
    builder.add_node(name, way.node(lambda n: {"log": [f"{n}{interrupt('q')}"]}))
    return builder.add_conditional_edges(START, lambda _: [Send(name, 1)], [name])


def _join(way: Way, source: str, target: str) -> Any:
    """A join at which one of two has arrived, while the other waits for an answer in the step after."""
    builder: StateGraph[Any, Any, Any, Any] = StateGraph(Log)
    for name in (source, "p", target):
        builder.add_node(name, way.node(lambda _, name=name: {"log": ["joined" if name == target else "early"]}))
    builder.add_node("w", way.node(lambda _: {"log": [interrupt("q")]}))
    return builder.add_edge(START, source).add_edge(START, "p").add_edge("p", "w").add_edge([source, "w"], target)


def _handled(way: Way, name: str) -> Any:
    def bad(_: Any) -> Any:
        raise ConnectionError("down")

    builder: StateGraph[Any, Any, Any, Any] = StateGraph(Log)
    builder.add_node(name, way.node(bad), error_handler=way.node(lambda _: {"log": [interrupt("q")]}))
    return builder.add_edge(START, name)


RENAMED = {
    "a Send": Renamed(_as_a_send, ["1A"]),
    "the target of a join": Renamed(lambda way, name: _join(way, "s", name), ["early", "early", "A", "joined"], "p"),
    "a source of a join": Renamed(lambda way, name: _join(way, name, "t"), ["early", "early", "A", "joined"], "p"),
    "a node with a handler": Renamed(_handled, ["A"]),
}


@pytest.mark.parametrize("renamed", RENAMED.values(), ids=RENAMED)
@pytest.mark.parametrize("edited", [False, True], ids=["", "edited"])
def test_S26_P34_wherever_the_renamed_node_is_the_run_does_not_end_without_it(
    way: Way, saver: Saver, renamed: Renamed, *, edited: bool
) -> None:
    asked = open_of(way.invoke(renamed.draw(way, "old").compile(saver), {"log": []}, on()))
    before = rows_of(saver)
    for given in (Command(resume="A"), None):
        with pytest.raises(MissingNode, match=r"'old'.*aliases") as caught:
            way.invoke(renamed.draw(way, "new").compile(saver), given, on())
        assert caught.value.node == "old"
        assert rows_of(saver) == before
    assert open_of(way.state(renamed.draw(way, "new").compile(saver), on())) == asked
    mended = renamed.draw(way, "new").compile(saver, aliases={"old": "new"})
    if edited:
        way.edit(mended, on(), {"log": []}, as_node=renamed.ran)
        assert open_of(way.state(mended, on())) == asked, "P22"
    assert way.invoke(mended, Command(resume="A"), on())["log"] == renamed.log
    assert way.state(mended, on()).next == ()


def test_P34_P22_an_edit_may_be_made_by_either_name_of_a_node(way: Way, saver: Saver) -> None:
    for thread, name in (("1", "old"), ("2", "new")):
        way.invoke(renamed(way, "old", saver), {"log": []}, on(thread))
        mended = renamed(way, "new", saver, aliases={"old": "new"})
        way.edit(mended, on(thread), {"log": ["by hand"]}, as_node=name)
        assert (way.state(mended, on(thread)).next, way.state(mended, on(thread)).values) == ((), {"log": ["by hand"]})


# -- forks of what lies inside nodes --------------------------------------------------------------------------------------------------


def says_and_asks(way: Way, entered: Entered, name: str) -> Any:
    """A subgraph of two nodes: one that says `name`, one that asks it."""

    def ask(_: Log) -> dict[str, Any]:
        entered[f"ask {name}"] += 1
        return {"log": [f"{name}={interrupt(name)}"]}

    sub: StateGraph[Any, Any, Any, Any] = StateGraph(Log)
    sub.add_node("say", entered.says(way, name)).add_node("ask", way.node(ask))
    return sub.add_edge(START, "say").add_edge("say", "ask").compile()


def calls_both(way: Way, one: Any, two: Any) -> Any:
    """A node that calls two subgraphs, one after the other."""

    def node(_: Log) -> dict[str, Any]:
        return {"log": [*one.invoke({"log": []})["log"], *two.invoke({"log": []})["log"]]}

    async def anode(_: Log) -> dict[str, Any]:
        return {"log": [*(await one.ainvoke({"log": []}))["log"], *(await two.ainvoke({"log": []}))["log"]]}

    return anode if way.is_async else node


def test_P19_the_second_of_two_subgraphs_called_in_a_node_is_answered_anew(way: Way, saver: Saver) -> None:
    entered = Entered()
    node = calls_both(way, says_and_asks(way, entered, "x"), says_and_asks(way, entered, "y"))
    graph = graph_of(node=node).compile(saver)
    way.invoke(graph, {"log": []}, on())
    way.invoke(graph, Command(resume="1"), on())
    paused = way.state(graph, on()).config
    assert way.invoke(graph, Command(resume="2"), on()) == {"log": ["x", "x=1", "y", "y=2"]}
    assert way.invoke(graph, Command(resume="3"), paused) == {"log": ["x", "x=1", "y", "y=3"]}
    assert entered == {"x": 1, "ask x": 2, "y": 1, "ask y": 3}


def test_P19_siblings_that_wait_go_on_from_where_they_were(way: Way, saver: Saver) -> None:
    entered = Entered()
    graph = graph_of(one=says_and_asks(way, entered, "x"), two=says_and_asks(way, entered, "y")).compile(saver)
    ids = open_of(way.invoke(graph, {"log": []}, on()))
    paused = way.state(graph, on()).config
    way.invoke(graph, Command(resume={ids["x"]: "1", ids["y"]: "2"}), on())
    out = way.invoke(graph, Command(resume={ids["x"]: "3"}), paused)
    assert list(open_of(out)) == ["y"]
    assert open_of(out)["y"] != ids["y"], "another branch asks under ids of its own"
    assert way.invoke(graph, Command(resume="4"), on()) == {"log": ["x", "x=3", "y", "y=4"]}
    assert (entered["x"], entered["y"]) == (1, 1), "what had ended in them is not run again"


def test_P19_a_subgraph_in_a_durable_step_is_answered_anew(way: Way, saver: Saver) -> None:
    entered = Entered()
    sub = says_and_asks(way, entered, "x")

    @task
    def inner() -> list[str]:
        return list(sub.invoke({"log": []})["log"])

    @task
    def outer() -> list[str]:
        entered["outer"] += 1
        return list(inner().result())

    graph = graph_of(node=lambda _: {"log": outer().result()}).compile(saver)
    way.invoke(graph, {"log": []}, on())
    paused = way.state(graph, on()).config
    assert way.invoke(graph, Command(resume="1"), on()) == {"log": ["x", "x=1"]}
    assert way.invoke(graph, Command(resume="2"), paused) == {"log": ["x", "x=2"]}
    assert entered == {"x": 1, "ask x": 3, "outer": 3}


def test_P19_a_branch_of_a_branch(way: Way, saver: Saver) -> None:
    entered = Entered()
    graph = graph_of(sub=says_and_asks(way, entered, "x")).compile(saver)
    way.invoke(graph, {"log": []}, on())
    paused = way.state(graph, on()).config
    way.invoke(graph, Command(resume="1"), on())
    way.invoke(graph, Command(resume="2"), paused)
    forked = next(snapshot for snapshot in way.history(graph, on()) if snapshot.next and snapshot.metadata["source"] == "fork")
    assert way.invoke(graph, Command(resume="3"), forked.config) == {"log": ["x", "x=3"]}
    assert way.invoke(graph, Command(resume="4"), paused) == {"log": ["x", "x=4"]}
    assert entered["x"] == 1
