"""Editing a checkpoint that the thread has left behind makes a branch of its own: nothing of the old branch's work is in it. (P18, P23)"""

from __future__ import annotations

import operator
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest

from perdure import END, START, Command, InMemorySaver, Send, SqliteSaver, StateGraph, interrupt
from perdure.types import StateSnapshot


class Joke(TypedDict, total=False):
    topic: str
    joke: str


class Log(TypedDict):
    log: Annotated[list[str], operator.add]


@pytest.fixture(params=["memory", "sqlite"])
def saver(request: pytest.FixtureRequest, tmp_path: Path):
    with InMemorySaver() if request.param == "memory" else SqliteSaver(tmp_path / "t.db") as opened:
        yield opened


CONFIG: Any = {"configurable": {"thread_id": "t"}}


def before(graph: Any, *names: str) -> StateSnapshot:
    """The newest checkpoint of history after which these nodes run."""
    found: StateSnapshot = next(one for one in graph.get_state_history(CONFIG) if one.next == names)
    return found


def jokes(saver: Any, ran: list[str]) -> Any:
    def choose(state: Joke):
        ran.append("choose")
        return {"topic": "cats"}

    def write(state: Joke):
        ran.append("write")
        return {"joke": f"about {state['topic']}"}

    drawing = StateGraph(Joke).add_sequence([choose, write]).add_edge(START, "choose")
    return drawing.compile(checkpointer=saver)


def test_P18_an_edit_of_an_old_checkpoint_runs_what_follows_again(saver: Any):
    ran: list[str] = []
    graph = jokes(saver, ran)
    graph.invoke({}, CONFIG)
    edited = graph.update_state(before(graph, "write").config, {"topic": "chickens"})
    assert graph.get_state(edited).tasks[0].result is None
    assert graph.invoke(None, edited) == {"topic": "chickens", "joke": "about chickens"}
    assert ran == ["choose", "write", "write"]


def test_P18_an_edit_in_a_nodes_name_runs_what_follows_again(saver: Any):
    ran: list[str] = []
    graph = jokes(saver, ran)
    graph.invoke({}, CONFIG)
    edited = graph.update_state(before(graph, "write").config, {"topic": "dogs"}, as_node="choose")
    assert graph.invoke(None, edited) == {"topic": "dogs", "joke": "about dogs"}
    assert ran == ["choose", "write", "write"]


def test_P23_two_edits_of_one_checkpoint_see_only_that_checkpoint(saver: Any):
    graph = jokes(saver, [])
    graph.invoke({}, CONFIG)
    base = before(graph, "write")
    first = graph.update_state(base.config, {"topic": "ants"})
    assert graph.invoke(None, first)["joke"] == "about ants"
    second = graph.update_state(base.config, {"topic": "bees"})
    assert graph.invoke(None, second)["joke"] == "about bees"
    assert graph.get_state(base.config).values == base.values


def test_P23_siblings_of_the_edited_node_run_again_in_the_new_branch(saver: Any):
    ran: list[str] = []

    def start(state: Log):
        return {"log": ["start"]}

    def left(state: Log):
        ran.append("left")
        return {"log": [f"left{len(ran)}"]}

    def right(state: Log):
        return {"log": ["right"]}

    drawing = StateGraph(Log).add_node(start).add_node(left).add_node(right)
    drawing.add_edge(START, "start").add_edge("start", "left").add_edge("start", "right")
    graph = drawing.compile(checkpointer=saver)
    graph.invoke({"log": []}, CONFIG)
    edited = graph.update_state(before(graph, "left", "right").config, {"log": ["by hand"]}, as_node="right")
    assert graph.get_state(edited).next == ("left",)
    assert graph.invoke(None, edited)["log"] == ["start", "by hand", "left2"]


def test_P23_pending_sends_of_an_old_checkpoint_run_again_in_the_new_branch(saver: Any):
    ran: list[int] = []

    def spread(state: Log):
        return {"log": ["spread"]}

    def work(number: int):
        ran.append(number)
        return {"log": [f"{number}:{len(ran)}"]}

    def note(state: Log):
        return {"log": ["note"]}

    drawing = (
        StateGraph(Log).add_node(spread).add_node(work).add_node(note).add_edge(START, "spread").add_edge("spread", "note")
    )
    drawing.add_conditional_edges("spread", lambda state: [Send("work", 1)], ["work"])
    graph = drawing.compile(checkpointer=saver)
    graph.invoke({"log": []}, CONFIG)
    base = next(one for one in graph.get_state_history(CONFIG) if set(one.next) == {"work", "note"})
    edited = graph.update_state(base.config, {"log": ["by hand"]}, as_node="note")
    assert graph.get_state(edited).next == ("work",)
    assert graph.invoke(None, edited)["log"] == ["spread", "by hand", "1:2"]


def test_P18_an_answered_question_is_asked_again_in_a_branch_edited_before_it(saver: Any):
    def ask(state: Log):
        return {"log": [interrupt("?")]}

    graph = StateGraph(Log).add_node(ask).add_edge(START, "ask").add_edge("ask", END).compile(checkpointer=saver)
    graph.invoke({"log": []}, CONFIG)
    graph.invoke(Command(resume="one"), CONFIG)
    edited = graph.update_state(before(graph, "ask").config, {"log": ["note"]})
    assert graph.invoke(None, edited)["__interrupt__"][0].value == "?"
    assert graph.invoke(Command(resume="two"), CONFIG) == {"log": ["note", "two"]}


def test_P22_an_edit_of_the_unfinished_tip_keeps_its_question(saver: Any):
    def ask(state: Log):
        return {"log": [interrupt("?")]}

    graph = StateGraph(Log).add_node(ask).add_edge(START, "ask").add_edge("ask", END).compile(checkpointer=saver)
    asked = graph.invoke({"log": []}, CONFIG)["__interrupt__"]
    graph.update_state(CONFIG, {"log": ["note"]})
    assert graph.get_state(CONFIG).interrupts == tuple(asked)
    assert graph.invoke(Command(resume="one"), CONFIG) == {"log": ["note", "one"]}
