"""Objects of state classes: built for nodes, read from their returns, checked, and known to the serializer."""

# mypy: disable-error-code="empty-body"
# ruff: noqa: UP045 - old spellings of annotations are under test
from __future__ import annotations

import collections
import datetime as dt
import decimal
import enum
import fractions
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Generic, Literal, NamedTuple, NewType, Optional, Protocol, TypeVar

import pydantic
import pytest
from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import TypedDict

from perdure.channels import LastValue, Topic
from perdure.errors import InvalidState
from perdure.graph import START, StateGraph
from perdure.graph.checks import class_check
from perdure.graph.state_types import types_in
from perdure.managed import RemainingSteps

T = TypeVar("T")


@dataclass
class Data:
    x: Annotated[list[int], operator.add]
    y: Optional[int] = 5
    z: int = field(default=0, init=False)


class Model(BaseModel):
    n: int
    text: Annotated[list[str], operator.add] = Field(default_factory=list)
    maybe: Optional[int] = None
    other: Optional[int] = 7


class Keyed(TypedDict):
    x: int


class SameKey(TypedDict):
    x: int


def program_of(state: Any, **given: Any) -> Any:
    return StateGraph(state, **given).add_node("n", lambda s: {}).add_edge(START, "n").compile().program


def make(state: Any, values: dict[str, Any]) -> Any:
    return program_of(state).nodes["n"].view.make(values)


def test_dataclasses_are_built_from_what_is_there() -> None:
    assert make(Data, {"x": [1]}) == Data([1])
    made = make(Data, {"x": [1], "y": 2, "z": 3})
    assert (made.x, made.y, made.z) == ([1], 2, 3)
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'x'") as caught:
        make(Data, {"y": 2})
    assert "State keys ['x'] have no value yet" in caught.value.__notes__[0]


@dataclass
class Generic1(Generic[T]):
    x: T
    late: int = field(default=0, init=False)


def test_generic_dataclasses_are_built_and_read() -> None:
    made = make(Generic1[int], {"x": 1, "late": 2})
    assert (made.x, made.late) == (1, 2)
    assert program_of(Generic1[int]).pairs_of(made) == [("x", 1), ("late", 2)]


def test_models_are_validated_when_built() -> None:
    assert make(Model, {"n": "3"}) == Model(n=3)
    with pytest.raises(pydantic.ValidationError, match="n\n  Input should be a valid integer"):
        make(Model, {"n": "three"})
    with pytest.raises(pydantic.ValidationError, match="Field required"):
        make(Model, {})


def test_models_with_aliases_are_built_by_field_names() -> None:
    class Aliased(BaseModel):
        n: int = Field(alias="N")
        m: int = Field(1, validation_alias=pydantic.AliasChoices(pydantic.AliasPath("q", 0), "M"))
        k: int = Field(2, serialization_alias="K")

    class Both(Aliased):
        model_config = ConfigDict(populate_by_name=True)

    for model in (Aliased, Both):
        made = make(model, {"n": 3, "m": 4, "k": 5})
        assert (made.n, made.k) == (3, 5)
    assert make(Aliased, {"n": 3, "m": 4}).m == 4


def test_other_classes_give_the_dict_itself() -> None:
    class Plain:
        x: int

    for state in (Keyed, Plain):
        assert program_of(state).nodes["n"].view.make is None


def test_the_output_object() -> None:
    @dataclass
    class Out:
        x: int

    assert program_of(Keyed).output_object is None
    assert program_of(Keyed, output_schema=Out).output_object({"x": 1}) == Out(1)
    assert program_of(int).output_object is None


def test_pairs_of_a_dataclass_are_all_of_its_fields() -> None:
    pairs_of = program_of(Data).pairs_of
    assert pairs_of(Data([1], None)) == [("x", [1]), ("y", None), ("z", 0)]
    partial = Data([1])
    del partial.x
    assert pairs_of(partial) == [("y", 5), ("z", 0)]


def test_pairs_of_a_model_leave_out_none_that_nobody_set() -> None:
    pairs_of = program_of(Model).pairs_of
    assert pairs_of(Model(n=1)) == [("n", 1), ("text", []), ("other", 7)]
    assert pairs_of(Model(n=1, maybe=None, other=None)) == [("n", 1), ("text", []), ("maybe", None), ("other", None)]


def test_pairs_of_other_objects() -> None:
    @dataclass
    class Partial:
        y: int = 9

    @dataclass
    class Stray:
        elsewhere: int = 1

    class Plain:
        x: list[int]
        y: int

    class Child(Data):
        pass

    plain = Plain()
    plain.y = 4
    pairs_of = program_of(Data).pairs_of
    assert pairs_of(Partial()) == [("y", 9)]
    assert pairs_of(plain) == [("y", 4)]
    assert pairs_of(Child([2])) == [("x", [2]), ("y", 5), ("z", 0)]
    for stray in (Stray(), 3, "text", [("x", 1)], {"x": 1}, None, object(), Data, Model(n=1)):
        assert pairs_of(stray) is None


def test_managed_values_are_not_read_back() -> None:
    @dataclass
    class State:
        x: int
        left: RemainingSteps

    class StateModel(BaseModel):
        x: int
        left: RemainingSteps

    for state in (State, StateModel):
        program = program_of(state)
        assert program.nodes["n"].view.managed == ("left",)
        assert program.pairs_of(state(x=1, left=3)) == [("x", 1)]


def test_a_schema_without_common_keys_is_still_read() -> None:
    @dataclass
    class Empty:
        pass

    assert program_of(Empty).pairs_of(Empty()) == []


def test_typed_dicts_promise_nothing() -> None:
    assert program_of(Keyed).validate_state is None
    assert program_of(int).validate_state is None
    # The state's own schema is the first to declare the key, and it does not enforce it.
    assert program_of(Keyed, input_schema=Keyed, output_schema=SameKey).validate_state is None


def check(state: Any, values: Mapping[str, Any], changed: str | None = None) -> None:
    keys = values.keys() if changed is None else {changed}
    program_of(state).validate_state(values, frozenset(keys))


def test_models_are_checked_field_by_field_as_lax_as_they_are() -> None:
    check(Model, {"n": 1, "text": ["a"], "maybe": None})
    check(Model, {"n": "1"})
    check(Model, {"n": "no", "text": []}, changed="text")
    check(Model, {}, changed="n")
    check(Model, {"elsewhere": 3})
    for values, part in (
        ({"n": "no"}, r"declares int, but Input should be a valid integer"),
        ({"text": ["a", 3]}, r"\[1\]: Input should be a valid string"),
        ({"maybe": "x" * 500}, r"cannot hold 'x{116}\.\.\. \(str\)"),
    ):
        with pytest.raises(InvalidState, match=part) as caught:
            check(Model, values)
        assert caught.value.key == next(iter(values))


def test_strict_models_and_odd_types() -> None:
    class Foreign:
        pass

    class Strict(BaseModel):
        model_config = ConfigDict(strict=True, arbitrary_types_allowed=True)
        n: int
        foreign: Foreign
        inner: Model
        small: Annotated[int, Field(ge=3)]

    check(Strict, {"n": 1, "foreign": Foreign(), "inner": Model(n=1), "small": 3})
    for key, value in {"n": "1", "foreign": 3, "inner": 4, "small": 2}.items():
        with pytest.raises(InvalidState, match=f"Key '{key}' cannot hold"):
            check(Strict, {key: value})


def test_dataclasses_are_checked_by_class() -> None:
    check(Data, {"x": [1, "inside is not looked at"], "y": None, "z": True})
    for values in ({"x": (1,)}, {"y": "5"}, {"z": None}):
        with pytest.raises(InvalidState, match="after its reducer: Data declares"):
            check(Data, values)


def test_a_channel_that_changes_the_type_is_not_checked() -> None:
    @dataclass
    class State:
        topic: Annotated[str, Topic]
        last: Annotated[str, LastValue]

    check(State, {"topic": ["a"]})
    with pytest.raises(InvalidState):
        check(State, {"last": ["a"]})


def test_a_private_schema_checks_its_own_keys_only() -> None:
    class Private(BaseModel):
        x: str
        note: str

    program = StateGraph(Keyed).add_node("n", lambda s: {}, input_schema=Private).add_edge(START, "n").compile().program
    assert program.validate_state is not None
    program.validate_state({"x": 1, "note": "a"}, frozenset({"x", "note"}))
    with pytest.raises(InvalidState, match="Private declares str"):
        program.validate_state({"note": 1}, frozenset({"note"}))


class Speaks(Protocol):
    def speak(self) -> str: ...


UserId = NewType("UserId", int)


class Colour(enum.Enum):
    RED = 1


@pytest.mark.parametrize(
    ("hint", "fitting", "others"),
    [
        (int, [1, True, 2**70], ["1", 1.5, None]),
        (float, [1, 1.5, decimal.Decimal(1), fractions.Fraction(1, 2)], ["1.5", None]),
        (complex, [1j, 1.0], ["1"]),
        (str, ["a"], [b"a", 1]),
        (list[int], [[], ["a"]], [(), {}, None]),
        (Sequence[int], [[], (), ""], [{}, 1]),
        (Mapping[str, int], [{}, collections.OrderedDict()], [[]]),
        (tuple[int, ...], [(1,)], [[1]]),
        (Optional[int], [None, 3], ["3"]),
        (int | str, [1, "a"], [None]),
        (int | Any, [1, None, "a"], []),
        (Any, [1, None], []),
        (object, [1, None], []),
        (None, [None], [0]),
        (Literal["a", 1], ["a", 1], ["b", True, 1.0]),
        (UserId, [1], ["1"]),
        (Annotated[int, "text"], [1], ["1"]),
        (Keyed, [{}, {"x": "unchecked"}], [[]]),
        (Callable[[int], int], [len], [3]),
        (type[int], [str], [3]),
        (Colour, [Colour.RED], [1]),
        (Speaks, [1], []),
        (T, [1], []),
        ("unresolved", [1], []),
        (dt.date, [dt.date.min, dt.datetime.min.replace(tzinfo=dt.UTC)], ["2020-01-01"]),
    ],
)
def test_class_checks(hint: Any, fitting: list[Any], others: list[Any]) -> None:
    fits = class_check(hint)
    assert [value for value in fitting if fits(value) is not None] == []
    assert [value for value in others if fits(value) is None] == []


class Inner(BaseModel):
    colour: Colour


class Point(NamedTuple):
    x: int
    other: Colour


@dataclass
class Tree:
    shared: ClassVar[Point]
    inner: Inner
    children: list[Tree]


class Walked(TypedDict):
    tree: dict[str, tuple[Tree, ...] | None]


class Box(BaseModel, Generic[T]):
    item: T


Alias = NewType("Alias", Tree)
Bound = TypeVar("Bound", bound=Point)


@pytest.mark.parametrize(
    ("hint", "found"),
    [
        (int, ()),
        (list[dict[str, Any]], ()),
        (Inner, (Inner, Colour)),
        (Annotated[list[Inner], operator.add], (Inner, Colour)),
        (Optional[Tree], (Tree, Inner, Colour)),
        (Walked, (Tree, Inner, Colour)),
        (Point, (Point, Colour)),
        (Literal[Colour.RED, "x"], (Colour,)),
        (Alias, (Tree, Inner, Colour)),
        (list[Bound], (Point, Colour)),  # type: ignore[valid-type]
        (Callable[[Point], Inner], (Point, Colour, Inner)),
        (BaseModel, ()),
        (type[Inner], (Inner, Colour)),
        (decimal.Decimal, ()),
    ],
)
def test_types_that_annotations_reach(hint: Any, found: tuple[type, ...]) -> None:
    assert types_in([hint]) == found


def test_generic_models_and_fields_that_cannot_be_evaluated() -> None:
    box = Box[Inner]
    assert types_in([box]) == (box, Inner, Colour)

    def lost() -> Any:
        class Gone:
            pass

        @dataclass
        class Holder:
            gone: Gone

        return Holder

    holder = lost()
    assert types_in([holder | None]) == (holder,)


def test_a_program_knows_the_types_of_all_its_schemas() -> None:
    class Private(TypedDict):
        point: Point

    program = StateGraph(Data).add_node("n", lambda s: {}, input_schema=Private).add_edge(START, "n").compile().program
    assert program.types == (Data, Point, Colour)


def test_what_a_send_may_bring_is_known_too() -> None:
    def worker(job: Point) -> int: ...

    program = StateGraph(int).add_node(worker).add_edge(START, "worker").compile().program
    assert program.types == (Point, Colour)
