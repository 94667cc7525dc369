"""P16: a question may say what its answer must look like; a wrong one is refused before the node runs."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, timezone
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field, field_validator
from typing_extensions import TypedDict

from perdure.checkpoint.saver import Saver
from perdure.errors import InvalidAnswer, NotStorable
from perdure.func import task
from perdure.graph import START, StateGraph
from perdure.testing.clock import ManualClock
from perdure.types import Command, interrupt
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


class Approval(BaseModel):
    """An answer."""

    ok: bool
    amount: int = Field(0, ge=0)
    note: str | None = None


class Colour(enum.Enum):
    """An answer by name."""

    RED = "red"
    BLUE = "blue"


@dataclass
class Place:
    """An answer of two numbers."""

    x: int
    y: int = 0


class Pair(TypedDict):
    """An answer as a dict."""

    left: int
    right: str


# -- schemas --------------------------------------------------------------------------------------------------------------------------


def test_P16_a_wrong_answer_is_refused_before_the_node_runs_and_nothing_is_stored(way: Way, saver: Saver) -> None:
    entered = Entered()
    schema = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"], "additionalProperties": False}
    graph = graph_of(a=entered.asks(way, "a", response_schema=schema)).compile(saver)
    ids = open_of(way.invoke(graph, {"log": []}, on()))
    before = rows_of(saver)
    for answer in ("yes", {"ok": "yes"}, {"ok": 1}, {}, {"ok": True, "more": 1}, None, [True]):
        for resume in (answer, {ids["a"]: answer}):
            with pytest.raises(InvalidAnswer, match="Nothing was stored") as caught:
                way.invoke(graph, Command(resume=resume), on())
            assert caught.value.interrupt_ids == (ids["a"],)
            assert caught.value.problems
            assert rows_of(saver) == before
    assert entered == {"a": 1}
    assert way.invoke(graph, Command(resume={"ok": False}), on()) == {"log": ["a:{'ok': False}"]}


def test_P16_the_refusal_says_what_is_wrong_and_where(way: Way, saver: Saver) -> None:
    graph = graph_of(a=asks(way, response_schema=Approval)).compile(saver)
    way.invoke(graph, {"log": []}, on())
    with pytest.raises(InvalidAnswer) as caught:
        way.invoke(graph, Command(resume={"ok": "yes", "amount": -1}), on())
    assert isinstance(caught.value, ValueError)
    assert caught.value.thread == "t"
    for part in ("$.ok", "'yes' is not of type boolean", "$.amount: -1 is less than 0", "'q'"):
        assert part in str(caught.value)


@pytest.mark.parametrize(
    ("schema", "answer", "given"),
    [
        (Approval, {"ok": True, "amount": 3}, Approval(ok=True, amount=3)),
        (Approval, Approval(ok=True), Approval(ok=True)),
        (bool, False, False),
        (int, 0, 0),
        (float, 2, 2.0),
        (str, "", ""),
        (Literal["a", "b"], "b", "b"),
        (Colour, "red", Colour.RED),
        (Colour, Colour.BLUE, Colour.BLUE),
        (Place, {"x": 1}, Place(1)),
        (Place, Place(1, 2), Place(1, 2)),
        (Pair, {"left": 1, "right": "r"}, {"left": 1, "right": "r"}),
        (list[int], [1, 2], [1, 2]),
        (tuple[int, str], [1, "a"], (1, "a")),
        (int | None, None, None),
        (date, "2026-01-02", date(2026, 1, 2)),
        (dict[str, Approval], {"x": {"ok": True}}, {"x": Approval(ok=True)}),
        (Annotated[int, Field(gt=3)], 4, 4),
        ({"enum": ["a", None]}, None, None),
    ],
    ids=repr,
)
def test_P16_a_type_gives_an_object_of_it(way: Way, saver: Saver, schema: Any, answer: Any, given: Any) -> None:
    saver.learn([Approval, Colour, Place])
    graph = graph_of(a=asks(way, response_schema=schema)).compile(saver)
    way.invoke(graph, {"log": []}, on())
    assert way.invoke(graph, Command(resume=answer), on()) == {"log": [repr(given)]}


@pytest.mark.parametrize(
    ("schema", "answer"),
    [
        (Approval, {"amount": 3}),
        (bool, 1),
        (bool, "true"),
        (int, True),
        (int, 1.5),
        (float, "1"),
        (str, 1),
        (Literal["a", "b"], "c"),
        (Colour, "green"),
        (Place, {"y": 1}),
        (Place, Pair(left=1, right="r")),
        (Pair, {"left": 1}),
        (list[int], [1, "2"]),
        (tuple[int, str], [1]),
        (int | None, "x"),
        (datetime, "yesterday"),
        (dict[str, Approval], {"x": {}}),
        (Annotated[int, Field(gt=3)], 3),
        ({"enum": ["a", None]}, "b"),
    ],
    ids=repr,
)
def test_P16_what_does_not_fit_the_type_is_refused(way: Way, saver: Saver, schema: Any, answer: Any) -> None:
    graph = graph_of(a=asks(way, response_schema=schema)).compile(saver)
    way.invoke(graph, {"log": []}, on())
    before = rows_of(saver)
    with pytest.raises(InvalidAnswer):
        way.invoke(graph, Command(resume=answer), on())
    assert rows_of(saver) == before


def test_P16_one_wrong_answer_among_several_refuses_all(way: Way, saver: Saver) -> None:
    graph = graph_of(a=asks(way, response_schema=bool), b=asks(way, response_schema=int)).compile(saver)
    one, two = (pause.id for pause in way.invoke(graph, {"log": []}, on())["__interrupt__"])
    before = rows_of(saver)
    with pytest.raises(InvalidAnswer) as caught:
        way.invoke(graph, Command(resume={one: True, two: "x"}), on())
    assert caught.value.interrupt_ids == (two,)
    assert rows_of(saver) == before


def test_P16_another_process_checks_by_the_stored_schema(way: Way, saver: Saver) -> None:
    way.invoke(graph_of(a=asks(way, response_schema=Approval)).compile(saver), {"log": []}, on())
    other = graph_of(a=asks(way)).compile(saver)
    assert way.state(other, on()).interrupts[0].response_schema == Approval.model_json_schema()
    with pytest.raises(InvalidAnswer):
        way.invoke(other, Command(resume={"ok": "no"}), on())
    assert way.invoke(other, Command(resume={"ok": False}), on()) == {"log": ["{'ok': False}"]}


def test_P16_a_question_of_a_subgraph_and_of_a_step_is_checked_too(way: Way, saver: Saver) -> None:
    @task
    def step() -> int:
        return int(interrupt("step", response_schema=int))

    sub: StateGraph[Any, Any, Any, Any] = StateGraph(Log)
    sub.add_node("ask", asks(way, response_schema=bool)).add_edge(START, "ask")
    builder = graph_of(step=lambda _: {"log": [step().result()]})
    graph = builder.add_node("sub", sub.compile()).add_edge(START, "sub").compile(saver)
    ids = open_of(way.invoke(graph, {"log": []}, on()))
    for wrong in ({ids["step"]: "1"}, {ids["q"]: 1}):
        with pytest.raises(InvalidAnswer):
            way.invoke(graph, Command(resume=wrong), on())
    assert way.invoke(graph, Command(resume={ids["step"]: 1, ids["q"]: True}), on()) == {"log": [1, "True"]}


class Even(BaseModel):
    """What its JSON schema does not tell."""

    number: int

    @field_validator("number")
    @classmethod
    def is_even(cls, number: int) -> int:
        """Refuse odd numbers."""
        if number % 2:
            raise ValueError("it is odd")
        return number


def test_P16_an_answer_that_only_the_type_itself_refuses_leaves_the_question_open(way: Way, saver: Saver) -> None:
    entered = Entered()

    def node(_: Log) -> dict[str, Any]:
        entered["a"] += 1
        try:
            return {"log": [interrupt("q", response_schema=Even).number]}
        except Exception:
            return {"log": ["handled"]}

    graph = graph_of(a=way.node(node), b=entered.asks(way, "b")).compile(saver)
    ids = open_of(way.invoke(graph, {"log": []}, on()))
    with pytest.raises(InvalidAnswer, match=r"\$\.number: .*it is odd.*open again") as caught:
        way.invoke(graph, Command(resume={ids["q"]: {"number": 3}, ids["b"]: "B"}), on())
    assert caught.value.interrupt_ids == (ids["q"],)
    state = way.state(graph, on())
    assert open_of(state) == {"q": ids["q"]}
    assert state.values == {"log": ["b:B"]}, "the good answer counts"
    assert way.invoke(graph, Command(resume={"number": 4}), on()) == {"log": [4, "b:B"]}
    assert entered == {"a": 3, "b": 2}


def test_P16_the_same_inside_a_subgraph(way: Way, saver: Saver) -> None:
    sub: StateGraph[Any, Any, Any, Any] = StateGraph(Log)
    sub.add_node("ask", asks(way, response_schema=Even)).add_edge(START, "ask")
    builder: StateGraph[Any, Any, Any, Any] = StateGraph(Log)
    graph = builder.add_node("sub", sub.compile()).add_edge(START, "sub").compile(saver)
    ids = open_of(way.invoke(graph, {"log": []}, on()))
    with pytest.raises(InvalidAnswer, match="it is odd"):
        way.invoke(graph, Command(resume={"number": 3}), on())
    assert open_of(way.state(graph, on())) == ids
    assert way.invoke(graph, Command(resume={"number": 4}), on()) == {"log": ["Even(number=4)"]}


def test_P16_a_schema_that_cannot_be_checked_is_refused_when_asked(way: Way, saver: Saver) -> None:
    for schema in ({"$ref": "https://example.org/x"}, {"$ref": "#/$defs/gone"}, {"pattern": "("}, {"unevaluatedItems": False}):
        with pytest.raises(ValueError, match="response schema"):
            way.invoke(graph_of(a=asks(way, response_schema=schema)).compile(saver), {"log": []}, on(str(schema)))


def test_P16_a_question_that_cannot_be_stored_is_told_by_its_node(way: Way, saver: Saver) -> None:
    graph = graph_of(a=way.node(lambda _: {"log": [interrupt(object())]})).compile(saver)
    with pytest.raises(NotStorable, match="question of node 'a'"):
        way.invoke(graph, {"log": []}, on())
    assert way.invoke(graph_of(a=asks(way)).compile(saver), None, on())["__interrupt__"][0].value == "q"
