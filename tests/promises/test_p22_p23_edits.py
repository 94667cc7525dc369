"""P22: an edit keeps what open tasks have begun; with `as_node` only that node's task closes. P23: branches share nothing they should not."""

from __future__ import annotations

import operator
from typing import Annotated, Any, TypedDict

import pytest

from perdure.channels.delta import DeltaChannel
from perdure.checkpoint.saver import Saver
from perdure.graph import START, StateGraph
from perdure.types import Command, Overwrite, Send, interrupt
from tests.promises.travelling import Ran, Seen, changed, in_a_row, innermost, side_by_side, stored
from tests.promises.ways import Log, Way, on


class Noted(TypedDict, total=False):
    log: Annotated[list[str], operator.add]
    note: str


def asked_in(way: Way, graph: Any, config: Any = None) -> dict[str, str]:
    return {pause.value: pause.id for pause in way.state(graph, config or on()).interrupts}


def paused(way: Way, saver: Saver, ran: Ran) -> Any:
    """Side by side: one that has finished, two that ask, a subgraph that asks in its second node."""
    inner = in_a_row(Log, ("s1", ran("s1")), ("s2", ran.asks("s2", "s2?"))).compile()
    graph = side_by_side(Noted, a=ran.asks("a", "a?"), b=ran.asks("b", "b?"), done=ran("done"), sub=inner)
    graph.add_node("next", ran("next"))
    for name in ("a", "b", "sub"):
        graph.add_edge(name, "next")
    compiled = graph.compile(checkpointer=saver)
    way.invoke(compiled, {"log": ["in"]}, on())
    assert set(asked_in(way, compiled)) == {"a?", "b?", "s2?"}
    ran.take()
    return compiled


def test_S09_editing_an_unrelated_key_keeps_a_paused_child(way: Way, saver: Saver):
    logs = []
    for edits in (True, False):
        ran = Ran(way)
        inner = in_a_row(Log, ("s1", ran("s1")), ("s2", ran.asks("s2", "q"))).compile()
        graph = in_a_row(Noted, ("sub", inner)).compile(checkpointer=saver)
        thread = on(str(edits))
        way.invoke(graph, {"log": ["in"]}, thread)
        asked = asked_in(way, graph, thread)
        if edits:
            way.edit(graph, thread, {"note": "N"})
            assert way.state(graph, thread).next == ("sub",)
            assert asked_in(way, graph, thread) == asked
            assert innermost(way, graph, thread).values == {"log": ["in", "s1"]}
        final = way.invoke(graph, Command(resume="v"), thread)
        assert final.get("note") == ("N" if edits else None)
        assert ran.times == {"s1": 1, "s2": 2}
        logs.append(final["log"])
    assert logs[0] == logs[1] == ["in", "in", "s1", "v"]


def test_P22_an_edit_without_a_name_keeps_pauses_results_and_the_childs_progress(way: Way, saver: Saver):
    ran = Ran(way)
    graph = paused(way, saver, ran)
    asked = asked_in(way, graph)
    tasks = {each.name: each.id for each in way.state(graph, on()).tasks}
    rows = stored(saver)
    for note in ("one", "two"):
        way.edit(graph, on(), {"note": note})
        assert asked_in(way, graph) == asked
        assert {each.name: each.id for each in way.state(graph, on()).tasks} == tasks
    assert changed(rows, stored(saver)) == []
    out = way.invoke(graph, Command(resume={pause: question.upper() for question, pause in asked.items()}), on())
    assert out == {"log": ["in", "A?", "B?", "done", "in", "s1", "S2?", "next"], "note": "two"}
    assert ran.times == {"a": 1, "b": 1, "s2": 1, "next": 1}


def test_P22_several_edits_in_one_call_keep_them_too(way: Way, saver: Saver):
    ran = Ran(way)
    graph = paused(way, saver, ran)
    asked = asked_in(way, graph)
    way._do(graph, "bulk_update_state", on(), [[({"note": "one"}, None)], [({"note": "two"}, None)]])
    assert asked_in(way, graph) == asked
    way._do(graph, "bulk_update_state", on(), [[({"log": ["by hand"]}, "a")], [({"note": "three"}, None)]])
    assert set(asked_in(way, graph)) == {"b?", "s2?"}
    assert ran.names == []


@pytest.mark.parametrize("name", ["a", "sub", "done"])
def test_P22_an_edit_in_a_nodes_name_closes_only_its_task(way: Way, saver: Saver, name: str):
    ran = Ran(way)
    graph = paused(way, saver, ran)
    asked = asked_in(way, graph)
    way.edit(graph, on(), {"log": ["by hand"]}, as_node=name)
    left = {
        question: pause for question, pause in asked.items() if question not in {"a": ["a?"], "sub": ["s2?"], "done": []}[name]
    }
    assert asked_in(way, graph) == left
    if name == "done":
        assert way.state(graph, on()).next == ("a", "b", "sub")
        return
    assert "next" in way.state(graph, on()).next, "its edges fire"
    out = way.invoke(graph, Command(resume={pause: question.upper() for question, pause in left.items()}), on())
    assert sorted(out["log"]) == sorted(
        ["in", "by hand", "done", "next", *(["in", "s1", "S2?"] if name == "a" else ["A?"]), "B?", "next"]
    )
    assert ran.times == {"next": 2, "b": 1, **({"s2": 1} if name == "a" else {"a": 1})}


def test_P22_an_edit_in_the_name_of_the_router_chooses_anew(way: Way, saver: Saver):
    builder: StateGraph[Any, Any, Any, Any] = StateGraph(Noted)
    ran = Ran(way)
    for name in ("router", "x", "y"):
        builder.add_node(name, ran(name))
    builder.add_edge(START, "router")
    builder.add_conditional_edges("router", lambda state: state.get("note", "x"), ["x", "y"])
    graph = builder.compile(checkpointer=saver, interrupt_before=["x", "y"])
    way.invoke(graph, {"log": []}, on())
    assert way.state(graph, on()).next == ("x",)
    for options in ({}, {"as_node": "router"}):
        way.edit(graph, on(), {"note": "y"}, **options)
        assert way.state(graph, on()).next == ("y",)
        way.edit(graph, on(), {"note": "x"}, **options)
        assert way.state(graph, on()).next == ("x",)
    assert way.invoke(graph, None, on())["log"] == ["router", "x"]


def sending(way: Way, saver: Saver, ran: Ran) -> Any:
    def work(n: int) -> Any:
        return {"seen": [f"{n}:{interrupt(f'{n}?')}" if n else "0"]}

    builder = side_by_side(Seen, spread=ran("spread", lambda _: {}))
    builder.add_node("work", ran("work", work))
    builder.add_conditional_edges("spread", lambda _: [Send("work", n) for n in range(4)], ["work"])
    graph = builder.compile(checkpointer=saver)
    way.invoke(graph, {"seen": []}, on())
    ran.take()
    return graph


def test_P22_sends_that_asked_and_one_that_has_finished_stay(way: Way, saver: Saver):
    ran = Ran(way)
    graph = sending(way, saver, ran)
    asked = asked_in(way, graph)
    way.edit(graph, on(), {"seen": ["edit"]})
    assert {question: asked_in(way, graph).get(question) for question in asked} == asked
    assert [each.status for each in way.state(graph, on()).tasks] == ["done", "paused", "paused", "paused"]
    out = way.invoke(graph, Command(resume=dict.fromkeys(asked.values(), "r")), on())
    assert out["seen"] == ["edit", "0", "1:r", "2:r", "3:r"]
    assert ran.take() == ["work"] * 3, "and none is sent twice"


def test_P22_an_edit_that_changes_what_is_sent_adds_that(way: Way, saver: Saver):
    def work(given: Any) -> Any:
        return {"log": [f"{given}:{interrupt(f'{given}?')}"]}

    ran = Ran(way)
    builder = side_by_side(Noted, spread=ran("spread", lambda _: {}))
    builder.add_node("work", ran("work", work))
    builder.add_conditional_edges("spread", lambda state: [Send("work", n) for n in state.get("note", "ab")], ["work"])
    graph = builder.compile(checkpointer=saver)
    way.invoke(graph, {"log": []}, on())
    asked = asked_in(way, graph)
    way.edit(graph, on(), {"note": "bc"})
    way.invoke(graph, Command(resume={asked["a?"]: "A"}), on())
    after = asked_in(way, graph)
    assert {question: after.get(question) for question in ("b?",)} == {"b?": asked["b?"]}
    assert set(after) == {"b?", "c?"}
    way.invoke(graph, Command(resume=dict.fromkeys(after.values(), "r")), on())
    assert way.state(graph, on()).values["log"] == ["a:A", "b:r", "c:r"]


def test_P22_an_edit_keeps_the_question_of_an_error_handler(way: Way, saver: Saver):
    ran = Ran(way)

    def bad(_: Any) -> Any:
        raise ConnectionError("down")

    builder: StateGraph[Any, Any, Any, Any] = StateGraph(Noted)
    builder.add_node("bad", ran("bad", bad), error_handler=ran("handler", lambda _: {"log": [interrupt("handle?")]}))
    graph = builder.add_edge(START, "bad").compile(checkpointer=saver)
    way.invoke(graph, {"log": []}, on())
    asked = asked_in(way, graph)
    way.edit(graph, on(), {"note": "N"})
    assert asked_in(way, graph) == asked
    assert way.invoke(graph, Command(resume="ok"), on()) == {"log": ["ok"], "note": "N"}
    assert ran.times == {"bad": 1, "handler": 2}


def test_P22_of_several_sends_the_edit_closes_one(way: Way, saver: Saver):
    ran = Ran(way)
    graph = sending(way, saver, ran)
    asked = asked_in(way, graph)
    task = next(each for each in way.state(graph, on()).tasks if [pause.value for pause in each.interrupts] == ["2?"])
    way.edit(graph, on(), {"seen": ["by hand"]}, as_node="work", task_id=task.id)
    left = {question: pause for question, pause in asked.items() if question != "2?"}
    assert asked_in(way, graph) == left
    out = way.invoke(graph, Command(resume=dict.fromkeys(left.values(), "r")), on())
    assert out["seen"] == ["by hand", "0", "1:r", "3:r"]
    assert ran.take() == ["work", "work"]


def test_P22_the_failed_task_of_an_edited_super_step_is_run_again_and_no_other(way: Way, saver: Saver):
    ran = Ran(way)
    down = [True]

    def bad(_: Any) -> Any:
        if down:
            raise ConnectionError("down")
        return {"log": ["bad"]}

    graph = side_by_side(Noted, good=ran("good"), bad=ran("bad", bad)).compile(checkpointer=saver)
    with pytest.raises(ConnectionError):
        way.invoke(graph, {"log": []}, on())
    if "good" not in [each.name for each in way.state(graph, on()).tasks if each.status == "done"]:
        with pytest.raises(ConnectionError):
            way.invoke(graph, None, on())  # the failure came first
    down.clear()
    ran.take()
    way.edit(graph, on(), {"note": "N"}, as_node="good")
    assert way.state(graph, on()).next == ("bad",)
    assert way.invoke(graph, None, on()) == {"log": ["bad"], "note": "N"}
    assert ran.take() == ["bad"]


class Kinds(TypedDict, total=False):
    log: Annotated[list[Any], operator.add]
    deltas: Annotated[list[Any], DeltaChannel(lambda state, writes: [*state, *(one for each in writes for one in each)])]
    items: dict[str, Any]


@pytest.mark.parametrize("depth", [1, 2])
def test_P23_sibling_edits_see_only_their_base(way: Way, saver: Saver, depth: int):
    graph = in_a_row(Kinds, ("a", way.node(lambda _: {"log": ["a"], "deltas": ["a"], "items": {"a": [1]}}))).compile(
        checkpointer=saver
    )
    way.invoke(graph, {"log": ["in"], "deltas": ["in"]}, on())
    base = way.state(graph, on())
    made = {}
    for name in ("left", "right", "other"):
        config = base.config
        for _ in range(depth):
            config = way.edit(graph, config, {"log": [name], "deltas": [name], "items": {name: name}}, as_node="a")
        made[name] = config
    for name, config in made.items():
        assert way.state(graph, config).values == {
            "log": ["in", "a", *[name] * depth],
            "deltas": ["in", "a", *[name] * depth],
            "items": {name: name},
        }
    assert way.state(graph, base.config).values == base.values
    for name, config in made.items():
        assert way.invoke(graph, {"log": ["again"]}, config)["log"] == ["in", "a", *[name] * depth, "again", "a"]


def test_P23_branches_that_run_from_one_base_do_not_meet(way: Way, saver: Saver):
    """Lists are stored by element: what one branch appends must not be seen by another that appends to the same list."""
    graph = in_a_row(
        Kinds, ("a", way.node(lambda state: {"log": [len(state["log"])], "deltas": [len(state["deltas"])]}))
    ).compile(checkpointer=saver)
    way.invoke(graph, {"log": ["x" * 400] * 5, "deltas": ["y" * 400] * 5}, on())
    base = way.state(graph, on()).config
    tips: dict[str, Any] = dict.fromkeys(("one", "two", "three"), base)
    for turn in range(4):
        for name, tip in list(tips.items()):
            way.invoke(graph, {"log": [f"{name}{turn}" * 100], "deltas": [name]}, tip)
            tips[name] = way.state(graph, on()).config
    for name, config in tips.items():
        values = way.state(graph, config).values
        assert [each for each in values["log"] if isinstance(each, str) and not each.startswith("x")] == [
            f"{name}{turn}" * 100 for turn in range(4)
        ]
        assert [each for each in values["deltas"] if each in tips] == [name] * 4
        assert [each for each in values["log"] if isinstance(each, int)] == [5, 7, 9, 11, 13]


def test_P23_an_overwrite_in_one_branch_leaves_the_other(way: Way, saver: Saver):
    graph = in_a_row(Kinds, ("a", way.node(lambda _: {"log": ["a"]}))).compile(checkpointer=saver)
    way.invoke(graph, {"log": ["in"]}, on())
    base = way.state(graph, on()).config
    cleared = way.edit(graph, base, {"log": Overwrite([])}, as_node="a")
    longer = way.edit(graph, base, {"log": ["more"]}, as_node="a")
    assert [way.state(graph, each).values["log"] for each in (cleared, longer, base)] == [[], ["in", "a", "more"], ["in", "a"]]


def test_P23_edits_of_a_subgraphs_old_checkpoint_are_siblings_too(way: Way, saver: Saver):
    ran = Ran(way)
    inner = in_a_row(Log, ("s1", ran("s1")), ("s2", ran("s2")), ("s3", ran.asks("s3"))).compile()
    graph = in_a_row(Noted, ("sub", inner)).compile(checkpointer=saver)
    way.invoke(graph, {"log": []}, on())
    space = innermost(way, graph).config["configurable"]["checkpoint_ns"]
    base = next(one for one in way.history(graph, on(checkpoint_ns=space)) if one.next == ("s2",))
    made = [way.edit(graph, base.config, {"log": [name]}) for name in ("left", "right")]
    assert [way.state(graph, each).values["log"] for each in made] == [["s1", "left"], ["s1", "right"]]
    assert way.state(graph, base.config).values["log"] == ["s1"]
    for config, name in zip(made, ("left", "right"), strict=True):
        way.invoke(graph, None, config)
        assert innermost(way, graph).values["log"] == ["s1", name, "s2"]
        assert way.invoke(graph, Command(resume="r"), on())["log"] == ["s1", name, "s2", "r"]
