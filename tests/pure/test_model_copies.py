"""Copies of pydantic models that a saver remembers: what decoding would give, made without the code of the class."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from pydantic import BaseModel, ConfigDict, PrivateAttr, RootModel

from perdure.checkpoint.incremental.originals import Originals
from perdure.checkpoint.incremental.outline import Outliner
from perdure.checkpoint.incremental.watched import Columns, Watched, columns_of
from perdure.checkpoint.serde.jsonplus import JsonPlusSerializer


class Inner(BaseModel):
    tags: list[str] = []


class Outer(BaseModel):
    model_config = ConfigDict(extra="allow", frozen=True)

    name: str
    inner: Inner = Inner()
    more: dict[str, Any] = {}


class Hidden(BaseModel):
    n: int = 0
    _seen: list[int] = PrivateAttr(default_factory=list)


class Cached(BaseModel):
    n: int = 1

    @cached_property
    def double(self) -> int:
        return 2 * self.n


class Names(RootModel[list[str]]):
    pass


class Guarded(BaseModel):
    n: int = 0

    def __setattr__(self, name: str, value: Any) -> None:
        raise AssertionError("code of the class")

    def __copy__(self) -> Any:
        raise AssertionError("code of the class")

    def __getattribute__(self, name: str) -> Any:
        if name == "__dict__":
            raise AssertionError("code of the class")
        return super().__getattribute__(name)


serde = JsonPlusSerializer(
    allowed_msgpack_modules=[Inner, Outer, Hidden, Cached, Names, Guarded, AIMessage, HumanMessage, ToolMessage]
)
look = serde.made_of


def remembered(values: list[Any]) -> Originals | None:
    return Originals.of(Columns(None, values), look, 1)


def hidden(n: int) -> Hidden:
    made = Hidden(n=n)
    made._seen.append(n)
    return made


calls = st.lists(
    st.fixed_dictionaries({"name": st.just("f"), "args": st.dictionaries(st.text(max_size=2), st.integers())}), max_size=2
)
models = (
    st.builds(lambda name, tags, odd: Outer(name=name, inner=Inner(tags=tags), odd=odd), st.text(), st.lists(st.text()), calls)
    | st.builds(hidden, st.integers())
    | st.builds(Names, st.lists(st.text(max_size=3), max_size=3))
    | st.builds(HumanMessage, st.text(max_size=5))
    | st.builds(
        lambda text, calls: AIMessage(text, tool_calls=[{**call, "id": "1", "type": "tool_call"} for call in calls]),
        st.text(max_size=5) | st.lists(st.text(max_size=3), max_size=2),
        calls,
    )
    | st.builds(lambda text: ToolMessage(text, tool_call_id="1", artifact={"rows": [text]}), st.text(max_size=5))
)


def parts(thing: Any) -> Any:
    """All that a model holds, in order, with its classes."""
    if isinstance(thing, BaseModel):
        beside = (thing.__pydantic_fields_set__, thing.__pydantic_extra__, thing.__pydantic_private__)
        return (type(thing), parts(vars(thing)), *map(parts, beside))
    if type(thing) is dict:
        return [(name, parts(item)) for name, item in thing.items()]
    if type(thing) in (list, tuple):
        return (type(thing), [parts(item) for item in thing])
    return thing


def containers(thing: Any) -> list[Any]:
    """Everything in a value that may change."""
    if isinstance(thing, BaseModel):
        inner = [vars(thing), thing.__pydantic_fields_set__, thing.__pydantic_extra__, thing.__pydantic_private__]
        return [thing, *(found for item in inner for found in containers(item))]
    if isinstance(thing, dict):
        return [thing, *(found for item in thing.values() for found in containers(item))]
    if isinstance(thing, list):
        return [thing, *(found for item in thing for found in containers(item))]
    return [thing] if isinstance(thing, set) else []


@given(st.lists(models, min_size=1, max_size=5))
def test_P35_copies_of_models_are_what_decoding_gives_and_share_nothing(values: list[Any]):
    originals = remembered(values)
    assert originals is not None
    first, second = originals.copies(), originals.copies()
    decoded = serde.loads_elements(serde.dumps_elements(values), len(values))
    assert parts(first) == parts(second) == parts(decoded)
    ids = [{id(thing) for thing in containers(each)} for each in (values, originals.values, first, second)]
    assert sum(map(len, ids)) == len(set().union(*ids))


@given(st.lists(models, min_size=1, max_size=5))
def test_P35_a_change_of_a_copied_model_is_noticed(values: list[Any]):
    originals = remembered(values)
    assert originals is not None
    copies = originals.copies()
    watched = Watched.of_copies(columns_of(copies), Outliner(look), originals.levels())
    assert watched.changed(columns_of(copies), serde) == set()
    vars(copies[-1])[next(iter(vars(copies[-1])))] = "changed"
    assert watched.changed(columns_of(copies), serde) == {len(copies) - 1}


def test_P35_no_code_of_the_class_runs():
    originals = remembered([Guarded(n=5)])
    assert originals is not None
    (copy,) = originals.copies()
    assert (type(copy), copy.n) == (Guarded, 5)


@pytest.mark.parametrize("thing", [Outer(name="x", more={"deep": [object()]}), Outer(name="x", odd=object())])
def test_P35_models_that_hold_something_else_are_not_remembered(thing: Any):
    assert remembered([thing]) is None


def test_P26_what_a_cached_property_left_is_not_remembered():
    thing = Cached(n=2)
    assert remembered([thing]) is not None
    assert thing.double == 4
    assert remembered([thing]) is None


def test_P26_what_models_take_is_counted():
    with_models, without = remembered([Inner()] * 10), remembered([{"tags": []}] * 10)
    assert with_models is not None
    assert without is not None
    assert (with_models.has_models, without.has_models) == (True, False)
