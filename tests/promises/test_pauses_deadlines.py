"""P16: a question may say until when it waits, and which answer counts after that. Nothing fires by itself."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Annotated, Any

import pytest
from typing_extensions import TypedDict

from perdure.checkpoint.saver import Saver
from perdure.errors import AmbiguousAnswer, InvalidAnswer, UnknownInterruptError
from perdure.graph import START, StateGraph
from perdure.testing.clock import ManualClock
from perdure.types import NO_ANSWER, Command, Interrupt, interrupt
from tests.promises.asking import Entered, graph_of, open_of
from tests.promises.ways import SAVERS, Log, Way, on, open_saver, rows_of

UTC = timezone.utc


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(params=SAVERS)
def saver(request: pytest.FixtureRequest, tmp_path: Path, clock: ManualClock) -> Iterator[Saver]:
    made = open_saver(request.param, tmp_path, clock=clock)
    yield made
    made.close()


def asks(way: Way, **terms: Any) -> Any:
    """A node that asks "q" and appends the repr of what it gets."""
    return way.node(lambda _: {"log": [repr(interrupt("q", **terms))]})


# -- deadlines ------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("deadline", [60, 60.0, timedelta(minutes=1)], ids=repr)
def test_P16_a_deadline_is_applied_by_the_next_call_and_never_fires_by_itself(
    way: Way, saver: Saver, clock: ManualClock, deadline: Any
) -> None:
    entered = Entered()
    graph = graph_of(a=entered.asks(way, "a", deadline=deadline, default="no")).compile(saver)
    way.invoke(graph, {"log": []}, on())
    clock.advance(59)
    (pause,) = way.state(graph, on()).interrupts
    assert (pause.overdue, pause.default, pause.deadline) == (False, "no", pause.asked_at + timedelta(minutes=1))
    assert open_of(way.invoke(graph, None, on())) == {"a": pause.id}
    clock.advance(1)
    state = way.state(graph, on())
    assert [(one.overdue, one.id) for one in state.interrupts] == [(True, pause.id)]
    assert (state.next, state.tasks[0].status, entered) == (("a",), "paused", {"a": 1})
    assert way.invoke(graph, None, on()) == {"log": ["a:no"]}
    assert entered == {"a": 2}


def test_P16_a_deadline_may_be_a_moment_with_a_time_zone(way: Way, saver: Saver, clock: ManualClock) -> None:
    now = datetime.fromtimestamp(clock.now_ns() / 1e9, UTC)
    moment = (now + timedelta(hours=1)).astimezone(timezone(timedelta(hours=5)))
    graph = graph_of(a=asks(way, deadline=moment, default=1)).compile(saver)
    way.invoke(graph, {"log": []}, on())
    assert way.state(graph, on()).interrupts[0].deadline == moment
    clock.advance(3599)
    assert not way.state(graph, on()).interrupts[0].overdue
    clock.advance(1)
    assert way.invoke(graph, None, on()) == {"log": ["1"]}


@pytest.mark.parametrize("default", [None, False, 0, "", {}], ids=repr)
def test_P15_P16_a_default_may_be_falsy(way: Way, saver: Saver, clock: ManualClock, default: Any) -> None:
    graph = graph_of(a=asks(way, deadline=1, default=default)).compile(saver)
    way.invoke(graph, {"log": []}, on())
    clock.advance(2)
    assert way.invoke(graph, None, on()) == {"log": [repr(default)]}


def test_P16_an_answer_in_time_counts(way: Way, saver: Saver, clock: ManualClock) -> None:
    graph = graph_of(a=asks(way, deadline=60, default="no")).compile(saver)
    way.invoke(graph, {"log": []}, on())
    clock.advance(59)
    assert way.invoke(graph, Command(resume="yes"), on()) == {"log": ["'yes'"]}


def test_P16_an_answer_that_comes_too_late_is_refused_and_nothing_is_stored(way: Way, saver: Saver, clock: ManualClock) -> None:
    entered = Entered()
    graph = graph_of(a=entered.asks(way, "a", deadline=60, default="no")).compile(saver)
    ids = open_of(way.invoke(graph, {"log": []}, on()))
    clock.advance(60)
    before = rows_of(saver)
    for resume in ("yes", {ids["a"]: "yes"}):
        with pytest.raises(UnknownInterruptError, match="deadline") as caught:
            way.invoke(graph, Command(resume=resume), on())
        assert (caught.value.reason, caught.value.interrupt_ids) == ("overdue", (ids["a"],))
        assert rows_of(saver) == before
    assert entered == {"a": 1}
    assert way.invoke(graph, None, on()) == {"log": ["a:no"]}


def test_P16_an_answer_to_another_question_applies_what_is_overdue(way: Way, saver: Saver, clock: ManualClock) -> None:
    graph = graph_of(a=asks(way, deadline=60, default="late"), b=Entered().asks(way, "b"), c=Entered().asks(way, "c")).compile(
        saver
    )
    ids = open_of(way.invoke(graph, {"log": []}, on()))
    with pytest.raises(AmbiguousAnswer):
        way.invoke(graph, Command(resume="bare"), on())
    clock.advance(60)
    out = way.invoke(graph, Command(resume={ids["b"]: "B"}), on())
    assert open_of(out) == {"c": ids["c"]}
    assert way.invoke(graph, Command(resume="C"), on()) == {"log": ["'late'", "b:B", "c:C"]}


def test_P16_a_bare_answer_is_for_the_one_that_is_not_overdue(way: Way, saver: Saver, clock: ManualClock) -> None:
    graph = graph_of(a=asks(way, deadline=60, default="late"), b=Entered().asks(way, "b")).compile(saver)
    way.invoke(graph, {"log": []}, on())
    clock.advance(60)
    assert way.invoke(graph, Command(resume="B"), on()) == {"log": ["'late'", "b:B"]}


def test_P16_without_a_default_an_overdue_question_stays_open(way: Way, saver: Saver, clock: ManualClock) -> None:
    entered = Entered()
    graph = graph_of(a=entered.asks(way, "a", deadline=60)).compile(saver)
    ids = open_of(way.invoke(graph, {"log": []}, on()))
    clock.advance(61)
    out = way.invoke(graph, None, on())
    assert open_of(out) == ids
    assert [pause.overdue for pause in out["__interrupt__"]] == [True]
    assert way.state(graph, on()).interrupts[0].default is NO_ANSWER
    assert entered == {"a": 1}
    assert way.invoke(graph, Command(resume="late"), on()) == {"log": ["a:late"]}


def test_P16_time_counts_from_when_a_question_was_asked_first(way: Way, saver: Saver, clock: ManualClock) -> None:
    def node(_: Log) -> dict[str, Any]:
        try:
            second = interrupt("2", key="2", deadline=60, default="late")
        finally:
            first = interrupt("1", key="1")
        return {"log": [first, second]}

    graph = graph_of(a=way.node(node)).compile(saver)
    ids = open_of(way.invoke(graph, {"log": []}, on()))
    asked = {pause.value: pause for pause in way.state(graph, on()).interrupts}
    clock.advance(30)
    way.invoke(graph, None, on())
    way.invoke(graph, Command(resume={ids["1"]: "x"}), on())
    assert {pause.value: pause.deadline for pause in way.state(graph, on()).interrupts} == {"2": asked["2"].deadline}
    clock.advance(30)
    assert way.invoke(graph, None, on()) == {"log": ["x", "late"]}


def test_P16_a_shell_that_is_entered_again_does_not_move_the_deadline(way: Way, saver: Saver, clock: ManualClock) -> None:
    sub: StateGraph[Any, Any, Any, Any] = StateGraph(Log)
    for name, terms in (("timed", {"deadline": 60, "default": "late"}), ("plain", {})):
        sub.add_node(name, Entered().asks(way, name, **terms)).add_edge(START, name)
    builder: StateGraph[Any, Any, Any, Any] = StateGraph(Log)
    graph = builder.add_node("sub", sub.compile()).add_edge(START, "sub").compile(saver)
    ids = open_of(way.invoke(graph, {"log": []}, on()))
    first = {pause.value: (pause.deadline, pause.asked_at, pause.node) for pause in way.state(graph, on()).interrupts}
    clock.advance(40)
    way.invoke(graph, Command(resume={ids["plain"]: "p"}), on())
    (pause,) = way.state(graph, on()).interrupts
    assert (pause.deadline, pause.asked_at, pause.node) == first["timed"]
    clock.advance(20)
    assert way.invoke(graph, None, on()) == {"log": ["plain:p", "timed:late"]}


def test_P16_an_edit_or_a_read_does_not_apply_a_deadline(way: Way, saver: Saver, clock: ManualClock) -> None:
    class Noted(TypedDict, total=False):
        log: Annotated[list[str], operator.add]
        note: str

    builder: StateGraph[Any, Any, Any, Any] = StateGraph(Noted)
    graph = builder.add_node("a", asks(way, deadline=60, default="late")).add_edge(START, "a").compile(saver)
    ids = open_of(way.invoke(graph, {"log": []}, on()))
    clock.advance(60)
    way.edit(graph, on(), {"note": "N"})
    assert open_of(way.state(graph, on())) == ids
    assert way.invoke(graph, None, on()) == {"log": ["'late'"], "note": "N"}


def test_P16_P19_a_past_question_can_be_answered_anew_after_its_deadline(way: Way, saver: Saver, clock: ManualClock) -> None:
    graph = graph_of(a=asks(way, deadline=60, default="late")).compile(saver)
    way.invoke(graph, {"log": []}, on())
    paused = way.state(graph, on()).config
    clock.advance(60)
    assert way.invoke(graph, None, on()) == {"log": ["'late'"]}
    assert way.invoke(graph, Command(resume="in another branch"), paused) == {"log": ["'in another branch'"]}


@pytest.mark.parametrize(
    ("terms", "error", "match"),
    [
        ({"default": 1}, ValueError, "needs a deadline"),
        ({"deadline": datetime(2030, 1, 1)}, ValueError, "time zone"),  # noqa: DTZ001
        ({"deadline": 0}, ValueError, "positive"),
        ({"deadline": timedelta(seconds=-1)}, ValueError, "positive"),
        ({"deadline": "tomorrow"}, TypeError, "str"),
        ({"deadline": True}, TypeError, "bool"),
        ({"deadline": 1, "default": "x", "response_schema": bool}, InvalidAnswer, "default"),
    ],
    ids=repr,
)
def test_P16_terms_that_make_no_sense_are_refused(way: Way, saver: Saver, terms: Any, error: Any, match: str) -> None:
    with pytest.raises(error, match=match):
        way.invoke(graph_of(a=asks(way, **terms)).compile(saver), {"log": []}, on())
    assert way.state(graph_of(a=asks(way)).compile(saver), on()).interrupts == ()


def test_P16_terms_without_a_saver(way: Way) -> None:
    graph = graph_of(a=asks(way, deadline=60, default=False, response_schema=bool)).compile()
    (pause,) = way.invoke(graph, {"log": []})["__interrupt__"]
    assert (pause.default, pause.response_schema, pause.node) == (False, {"type": "boolean"}, "a")
    assert pause.deadline - pause.asked_at == timedelta(minutes=1)


def test_questions_are_equal_by_what_they_ask_and_shown_shortly() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    assert Interrupt("q", "i", asked_at=now, node="a", overdue=True) == Interrupt("q", "i")
    assert Interrupt("q", "i", deadline=now) != Interrupt("q", "i")
    assert repr(Interrupt("q", "i", asked_at=now)) == "Interrupt(value='q', id='i', response_schema=None)"
    assert "default=1, overdue=False" in repr(Interrupt("q", "i", deadline=now, default=1))
