"""From state classes to channels."""

# ruff: noqa: UP045 - old spellings of annotations are under test
from __future__ import annotations

import functools
import operator
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Generic, NamedTuple, NotRequired, Optional, Required, TypeVar

import pytest
from pydantic import BaseModel, Field
from typing_extensions import TypeAliasType, TypedDict

from perdure.channels import BinaryOperatorAggregate, DeltaChannel, EphemeralValue, LastValue, Topic, UntrackedValue
from perdure.errors import InvalidGraph
from perdure.graph import StateGraph
from perdure.managed import IsLastStep, RemainingSteps

if TYPE_CHECKING:
    from decimal import Decimal as OnlyForTypeCheckers


def add(left: list[Any], right: list[Any]) -> list[Any]:
    return left + right


typed_dict: Any = TypedDict


def with_key(hint: Any) -> Any:
    return typed_dict("state", {"x": hint})


class Keyed(TypedDict):
    plain: str
    added: Annotated[list[int], operator.add]
    needed: Required[Annotated[list[int], add]]
    maybe: NotRequired[int]
    inside: Annotated[NotRequired[list[int]], add]


def kinds(graph: Any) -> dict[str, str]:
    return {key: type(channel).__name__ for key, channel in graph.channels.items()}


def test_typeddict_keys_keep_their_order_and_reducers() -> None:
    graph = StateGraph(Keyed)
    assert list(graph.channels) == ["plain", "added", "needed", "maybe", "inside"]
    assert kinds(graph) == {
        "plain": "LastValue",
        "added": "BinaryOperatorAggregate",
        "needed": "BinaryOperatorAggregate",
        "maybe": "LastValue",
        "inside": "BinaryOperatorAggregate",
    }
    assert graph.channels["plain"].key == "plain"
    assert getattr(graph.channels["added"], "operator", None) is operator.add
    assert graph.channels["added"].get() == []


@dataclass
class Data:
    x: Annotated[list[int], operator.add]
    y: Optional[int] = 5
    shared: ClassVar[int] = 3


def test_dataclass_leaves_class_variables_out() -> None:
    assert kinds(StateGraph(Data)) == {"x": "BinaryOperatorAggregate", "y": "LastValue"}


class Model(BaseModel):
    x: Annotated[list[int], operator.add, Field(default_factory=list, description="all of them")]
    short: Annotated[list[int], operator.add, Field(max_length=3)] = []
    z: Optional[int] = None
    shared: ClassVar[int] = 3
    _private: int = 1


def test_pydantic_fields_keep_their_reducer_beside_a_field_definition() -> None:
    assert kinds(StateGraph(Model)) == {"x": "BinaryOperatorAggregate", "short": "BinaryOperatorAggregate", "z": "LastValue"}


def test_a_bare_type_is_a_state_without_keys() -> None:
    for declared in (
        int,
        list[str],
        Annotated[list[str], operator.add],
        Annotated[list[str], DeltaChannel(lambda a, b: a)],
        str | None,
    ):
        graph = StateGraph(declared)
        assert list(graph.channels) == ["__root__"]
        assert graph.root
    assert kinds(StateGraph(Annotated[int, operator.add])) == {"__root__": "BinaryOperatorAggregate"}
    assert kinds(StateGraph(dict)) == {"__root__": "LastValue"}


def test_an_empty_typeddict_has_no_keys_but_is_keyed() -> None:
    class Empty(TypedDict):
        pass

    graph = StateGraph(Empty)
    assert graph.channels == {}
    assert not graph.root


def test_channels_named_in_the_annotation() -> None:
    class State(TypedDict):
        topic: Annotated[str, Topic]
        topic_of: Annotated[str, Topic(str, accumulate=True)]
        first: Annotated[int, EphemeralValue, "some text after it"]
        delta: Annotated[list[int], DeltaChannel(lambda left, right: left)]
        untracked: Annotated[int, UntrackedValue(int)]

    graph = StateGraph(State)
    assert kinds(graph) == {
        "topic": "Topic",
        "topic_of": "Topic",
        "first": "EphemeralValue",
        "delta": "DeltaChannel",
        "untracked": "UntrackedValue",
    }
    assert graph.channels["delta"].typ == list[int]
    assert graph.channels["topic_of"].key == "topic_of"


def test_one_annotation_serves_two_keys_and_two_graphs() -> None:
    shared: Topic[str] = Topic(str)

    class State(TypedDict):
        a: Annotated[str, shared]
        b: Annotated[str, shared]

    one, two = StateGraph(State), StateGraph(State)
    assert one.channels["a"].key == "a"
    assert one.channels["b"].key == "b"
    assert one.channels["a"] is not two.channels["a"]
    assert shared.key == ""


@pytest.mark.parametrize(
    "reducer",
    [
        operator.add,
        max,
        add,
        lambda a, b: a,
        lambda a, b, /: a,
        lambda a, b, *rest: a,
        lambda *values: values[0],
        functools.partial(lambda a, b, by: a, by=1),
        set.union,
        operator.or_,
    ],
)
def test_reducers_that_can_be_called_with_two_values(reducer: Callable[..., Any]) -> None:
    state = with_key(Annotated[list, reducer])
    assert kinds(StateGraph(state)) == {"x": "BinaryOperatorAggregate"}


async def async_reducer(left: int, right: int) -> int:
    return left


@pytest.mark.parametrize(
    ("reducer", "got"),
    [
        (lambda a: a, r"\(a\)"),
        (lambda: 0, r"\(\)"),
        (lambda a, b, c: a, r"\(a, b, c\)"),
        (lambda a, b, c=1: a, r"\(a, b, c=1\)"),
        (lambda a, b, *, by: a, r"\(a, b, \*, by\)"),
        (lambda **words: 0, r"\(\*\*words\)"),
        (int, "the type int"),
        (async_reducer, "an async function"),
    ],
)
def test_reducers_that_cannot(reducer: Callable[..., Any], got: str) -> None:
    state = with_key(Annotated[int, reducer])
    with pytest.raises(
        ValueError, match=rf"Invalid reducer signature. Expected \(a, b\) -> c. Got {got}.*key 'x' of state"
    ) as caught:
        StateGraph(state)
    assert isinstance(caught.value, InvalidGraph)
    assert caught.value.key == "x"


def test_a_reducer_counts_even_when_text_follows_it() -> None:
    class State(TypedDict):
        x: Annotated[list[int], add, "what it is for"]
        y: Annotated[list[int], "only text"]
        z: Annotated[list[int], int, "a class is no reducer"]

    assert kinds(StateGraph(State)) == {"x": "BinaryOperatorAggregate", "y": "LastValue", "z": "LastValue"}


def test_annotated_inside_a_union_is_no_reducer() -> None:
    class State(TypedDict):
        x: Annotated[list[int], add] | None

    assert kinds(StateGraph(State)) == {"x": "LastValue"}


def test_type_aliases_are_seen_through() -> None:
    added = TypeAliasType("added", Annotated[list[int], add])

    class State(TypedDict):
        x: added
        y: Annotated[added, "text"]

    assert kinds(StateGraph(State)) == {"x": "BinaryOperatorAggregate", "y": "BinaryOperatorAggregate"}


def test_classes_defined_in_a_function_are_found_there() -> None:
    class Inner(BaseModel):
        n: int

    def local_add(a: list[Inner], b: list[Inner]) -> list[Inner]:
        return a + b

    class State(TypedDict):
        x: Annotated[list[Inner], local_add]

    @dataclass
    class Other:
        y: Annotated[list[Inner], local_add]

    class Third(BaseModel):
        z: Annotated[list[Inner], local_add]

    for state in (State, Other, Third):
        assert list(kinds(StateGraph(state)).values()) == ["BinaryOperatorAggregate"]


class Hidden:
    pass


def test_a_local_name_hides_the_global_one() -> None:
    class Hidden(BaseModel):
        n: int

    class State(TypedDict):
        x: Hidden

    @dataclass
    class Other:
        class Nested:
            pass

        x: Hidden
        y: Nested

    assert StateGraph(State).channels["x"].typ is Hidden
    assert StateGraph(Other).channels["x"].typ is Hidden
    assert StateGraph(Other).channels["y"].typ is Other.Nested


def test_a_name_that_is_gone_is_explained() -> None:
    def make() -> Any:
        class Gone:
            pass

        class State(TypedDict):
            x: Gone

        return State

    with pytest.raises(
        InvalidGraph, match=r"The annotations of .*State cannot be evaluated: name 'Gone' is not defined.*TYPE_CHECKING"
    ):
        StateGraph(make())

    class Lazy(TypedDict):
        x: OnlyForTypeCheckers

    with pytest.raises(InvalidGraph, match="OnlyForTypeCheckers"):
        StateGraph(Lazy)


def test_inherited_and_other_classes() -> None:
    class Base(TypedDict):
        a: Annotated[list[int], add]

    class Child(Base, total=False):
        b: int

    class Plain:
        __slots__ = ("a",)
        a: int
        shared: ClassVar[int]

    class Pair(NamedTuple):
        left: int
        right: Annotated[int, operator.add]

    assert kinds(StateGraph(Child)) == {"a": "BinaryOperatorAggregate", "b": "LastValue"}
    assert kinds(StateGraph(Plain)) == {"a": "LastValue"}
    assert kinds(StateGraph(Pair)) == {"left": "LastValue", "right": "BinaryOperatorAggregate"}


T = TypeVar("T")


class Boxed(TypedDict, Generic[T]):
    value: T
    more: Annotated[list[T], operator.add]


class BoxedModel(BaseModel, Generic[T]):
    value: T


def test_generic_states() -> None:
    assert kinds(StateGraph(Boxed[int])) == {"value": "LastValue", "more": "BinaryOperatorAggregate"}
    assert StateGraph(BoxedModel[int]).channels["value"].typ is int


def test_managed_values_are_no_channels() -> None:
    class State(TypedDict):
        x: int
        last: IsLastStep
        left: RemainingSteps

    graph = StateGraph(State)
    assert list(graph.channels) == ["x"]
    assert {key: value.kind for key, value in graph.managed.items()} == {"last": "is_last_step", "left": "remaining_steps"}


def test_managed_values_may_not_be_input_or_output() -> None:
    class State(TypedDict):
        x: int
        last: IsLastStep

    class Other(TypedDict):
        x: int

    expected = r"Invalid managed channels detected in State: last. Managed channels are not permitted in Input/Output schema"
    for where in ("input_schema", "output_schema"):
        with pytest.raises(ValueError, match=expected):
            StateGraph(Other, **{where: State})
    StateGraph(State, input_schema=Other, output_schema=Other)


class MixedIn(TypedDict):
    fresh: int
    x: Annotated[list[int], operator.add]


def test_the_same_key_in_two_schemas() -> None:
    class Added(TypedDict):
        x: Annotated[list[int], add]

    class Plain(TypedDict):
        x: list[int]

    class Multiplied(TypedDict):
        x: Annotated[list[int], operator.mul]

    class Managed(TypedDict):
        x: IsLastStep

    assert kinds(StateGraph(Added, input_schema=Plain, output_schema=Added)) == {"x": "BinaryOperatorAggregate"}
    for state, other in ((Plain, Added), (Added, Multiplied)):
        with pytest.raises(ValueError, match="Channel 'x' already exists with a different type"):
            StateGraph(state, input_schema=other)
    mixed = StateGraph(Plain)
    with pytest.raises(InvalidGraph):
        mixed.add_node("a", lambda s: {}, input_schema=MixedIn)
    assert list(mixed.channels) == ["x"]
    with pytest.raises(InvalidGraph, match="Key 'x' is a managed value in one schema"):
        StateGraph(Plain).add_node("a", lambda s: {}, input_schema=Managed)


@pytest.mark.parametrize(
    "key", ["__input__", "__interrupt__", "__start__", "__end__", "branch:to:a", "join:a:b", "configurable", "|"]
)
def test_reserved_keys(key: str) -> None:
    with pytest.raises(ValueError, match="is reserved"):
        StateGraph(typed_dict("state", {key: int}))


def test_keyed_and_keyless_states_do_not_mix() -> None:
    for state, other in ((int, Keyed), (Keyed, int)):
        with pytest.raises(InvalidGraph, match="Keyed has keys and int has none"):
            StateGraph(state, input_schema=other)


@pytest.mark.parametrize("schema", [None, {"x": int}, "State", [int]])
def test_what_is_no_schema(schema: Any) -> None:
    with pytest.raises(InvalidGraph, match="A state schema must be a class"):
        StateGraph(schema)


def test_deprecated_names_still_work() -> None:
    class Input(TypedDict):
        plain: str

    with pytest.warns(DeprecationWarning, match="`input` is now called `input_schema`"):
        graph = StateGraph(Keyed, input=Input)
    assert graph.input_schema is Input
    with pytest.raises(TypeError, match="inputs"):
        StateGraph(Keyed, inputs=Input)


def test_the_class_can_be_subscripted() -> None:
    assert StateGraph[Keyed](Keyed).channels
    assert StateGraph[Keyed, None, Keyed, Keyed](Keyed).channels


@pytest.mark.skipif(sys.version_info < (3, 12), reason="needs the type statement")
def test_the_type_statement() -> None:
    names: dict[str, Any] = {"Annotated": Annotated, "add": add}
    exec("type Added = Annotated[list[int], add]", names)
    state = with_key(names["Added"])
    assert isinstance(StateGraph(state).channels["x"], BinaryOperatorAggregate)
    assert not isinstance(StateGraph(state).channels["x"], LastValue)
