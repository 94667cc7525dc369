"""Classes that are gone, renamed, changed or not registered: never half-built."""

from __future__ import annotations

import collections
import dataclasses
import enum
import subprocess
import sys
import types
from typing import Annotated, Any, Generic, NamedTuple, NewType, TypedDict, TypeVar

import pydantic
import pytest
from langchain_core.messages import AIMessage

from perdure.checkpoint.serde.jsonplus import JsonPlusSerializer, Unresolved
from perdure.checkpoint.serde.schema_types import classes_in, describe
from perdure.errors import NotStorable, StateTypeError

T = TypeVar("T")


def cls(name: str, base: type = object, **members: Any) -> Any:
    """A class that is always found under the same name, as another version of a program would have it."""
    made = type(base)(name, (base,), {"__module__": "app.models", "__qualname__": name, **members})
    return dataclasses.dataclass(made) if base is object else made


def data(**fields: Any) -> Any:
    return cls("Order", __annotations__=dict.fromkeys(fields, Any), **{k: v for k, v in fields.items() if v is not ...})


def model(**fields: Any) -> Any:
    return pydantic.create_model("Order", __module__="app.models", **fields)


def tuple_class(fields: str, *defaults: Any) -> Any:
    make: Any = collections.namedtuple  # noqa: PYI024  made anew for each version of the class
    return make("Order", fields, module="app.models", defaults=defaults)


def enum_class(members: dict[str, Any], base: Any = enum.Enum) -> Any:
    return base("Order", members, module="app.models", qualname="Order")


def saved(kind: Any, *args: Any, **kwargs: Any) -> tuple[str, bytes]:
    return JsonPlusSerializer(allowed_msgpack_modules=[kind]).dumps_typed([kind(*args, **kwargs)])


def loaded(stored: tuple[str, bytes], *kinds: Any, **options: Any) -> Any:
    return JsonPlusSerializer(allowed_msgpack_modules=kinds, **options).loads_typed(stored)[0]


def test_P31_a_class_that_is_not_registered() -> None:
    order = data(x=...)
    with pytest.raises(StateTypeError, match="not registered") as raised:
        loaded(saved(order, 1))
    assert raised.value.key == "app.models:Order"
    assert "aliases=['app.models:Order']" in str(raised.value)


def test_P31_a_field_that_is_gone() -> None:
    with pytest.raises(StateTypeError, match="no field 'y' any more"):
        loaded(saved(data(x=..., y=...), 1, 2), data(x=...))


def test_P31_a_new_field() -> None:
    stored = saved(data(x=...), 1)
    with pytest.raises(StateTypeError, match="'y' is new and has no default"):
        loaded(stored, data(x=..., y=...))
    assert loaded(stored, data(x=..., y=5)).y == 5
    listed = data(x=..., y=dataclasses.field(default_factory=list))
    assert loaded(stored, listed).y == []


def test_P31_a_namedtuple_that_changed() -> None:
    one = tuple_class("x")
    two = tuple_class("y x", 7, 8)
    three = tuple_class("z")
    assert loaded(saved(one, 1), two) == two(7, 1)
    with pytest.raises(StateTypeError, match="no field 'x'"):
        loaded(saved(one, 1), three)


def test_P31_a_class_that_is_of_another_kind_now() -> None:
    with pytest.raises(StateTypeError, match="was an object of fields and is now a pydantic model"):
        loaded(saved(data(x=...), 1), model(x=(int, ...)))


def test_P31_enum_members() -> None:
    stored = JsonPlusSerializer(allowed_msgpack_modules=[kind := enum_class({"A": 1})]).dumps_typed([kind.A])
    with pytest.raises(StateTypeError, match="no member 'A'"):
        loaded(stored, enum_class({"B": 1}))
    moved = enum_class({"B": 1, "A": 2})
    assert loaded(stored, moved) is moved.A
    # With a data type mixed in, the value counts: `Order.A == 1` may be asked anywhere.
    stored = JsonPlusSerializer(allowed_msgpack_modules=[kind := enum_class({"A": 1}, enum.IntEnum)]).dumps_typed([kind.A])
    with pytest.raises(StateTypeError, match="had the value 1 and now has 2"):
        loaded(stored, enum_class({"A": 2}, enum.IntEnum))
    stored = JsonPlusSerializer(allowed_msgpack_modules=[kind := enum_class({"A": 1, "B": 2}, enum.Flag)]).dumps_typed(
        [kind(2)]
    )
    for changed in ({"A": 2, "B": 1}, {"A": 1}, {"A": 1, "C": 2}):
        with pytest.raises(StateTypeError):
            loaded(stored, enum_class(changed, enum.Flag))


def test_P31_a_model_whose_data_no_longer_fits() -> None:
    stored = saved(model(x=(int, ...)), x=1)
    with pytest.raises(StateTypeError, match="fields have changed") as raised:
        loaded(stored, model(x=(list[int], ...)))
    assert isinstance(raised.value.__cause__, pydantic.ValidationError)
    with pytest.raises(StateTypeError, match="fields have changed"):
        loaded(stored, model(x=(int, ...), y=(int, ...)))
    with pytest.raises(StateTypeError, match="no field 'x'"):
        loaded(stored, model(y=(int, 1)))
    with pytest.raises(StateTypeError, match="fields have changed"):
        loaded(stored, model(x=(Annotated[int, pydantic.Field(gt=5)], ...)))


def test_P31_a_model_that_still_fits_a_changed_class() -> None:
    stored = saved(model(x=(int, ...)), x=1)
    wider = loaded(stored, model(x=(float, ...), y=(int, 7)))
    assert (wider.x, type(wider.x), wider.y, wider.model_fields_set) == (1.0, float, 7, {"x"})
    aliased = loaded(stored, model(x=(float, pydantic.Field(alias="z"))))
    assert aliased.x == 1.0
    chosen = loaded(stored, model(x=(float, pydantic.Field(validation_alias=pydantic.AliasChoices("q", "r")))))
    assert chosen.x == 1.0


def test_P31_upgrade_functions_get_the_stored_fields() -> None:
    order = data(cents=...)
    serde = JsonPlusSerializer()
    serde.register(order, upgrade=lambda old: order(old["euros"] * 100))
    assert serde.loads_typed(saved(data(euros=...), 3)) == [order(300)]
    assert serde.loads_typed(serde.dumps_typed([order(5)])) == [order(5)]


def test_P31_an_upgrade_of_any_kind() -> None:
    colour = enum_class({"A": 1})
    seen: list[Any] = []

    def upgrade(old: Any) -> str:
        seen.append(old)
        return "upgraded"

    text = type("Order", (str,), {"__module__": "app.models", "__qualname__": "Order"})
    for stored in (
        saved(model(x=(int, ...)), x=1),
        saved(data(x=...), 1),
        saved(text, "t"),
        JsonPlusSerializer(allowed_msgpack_modules=[colour]).dumps_typed([colour.A]),
    ):
        serde = JsonPlusSerializer()
        serde.registry.register_upgrade("app.models:Order", upgrade)
        assert serde.loads_typed(stored) == ["upgraded"]
    assert seen == [{"x": 1}, {"x": 1}, {"value": "t", "attributes": {}}, {"name": "A", "value": None}]


def test_P31_an_upgrade_that_fails_is_named() -> None:
    serde = JsonPlusSerializer()
    serde.registry.register_upgrade("app.models:Order", lambda old: old["missing"])
    with pytest.raises(StateTypeError, match="upgrade function failed with KeyError") as raised:
        serde.loads_typed(saved(data(x=...), 1))
    assert isinstance(raised.value.__cause__, KeyError)


def test_P31_an_alias_finds_the_renamed_class() -> None:
    new = cls("Purchase", __annotations__={"x": int})
    serde = JsonPlusSerializer()
    serde.register(new, aliases=["app.models:Order"])
    assert serde.loads_typed(saved(data(x=...), 1)) == [new(1)]


def test_P31_a_chosen_name_outlives_a_move() -> None:
    before, after = JsonPlusSerializer(), JsonPlusSerializer()
    old, new = data(x=...), cls("Purchase", __annotations__={"x": int})
    before.register(old, name="order")
    after.register(new, name="order")
    assert after.loads_typed(before.dumps_typed(old(1))) == new(1)


def test_two_classes_cannot_have_one_name() -> None:
    serde = JsonPlusSerializer()
    serde.register(data(x=...), name="order")
    with pytest.raises(ValueError, match="belongs to Order"):
        serde.register(cls("Other"), name="order")


def test_a_class_that_was_defined_again_takes_the_place_of_the_first() -> None:
    first, second = data(x=...), data(x=...)
    serde = JsonPlusSerializer(allowed_msgpack_modules=[first, second])
    assert type(serde.loads_typed(serde.dumps_typed(second(1)))) is second
    with pytest.raises(NotStorable):
        serde.dumps_typed(first(1))
    later = JsonPlusSerializer(allowed_msgpack_modules=[first]).with_types([second])
    assert type(later.loads_typed(later.dumps_typed(second(1)))) is second
    with pytest.raises(NotStorable):
        later.dumps_typed(first(1))


KEPT: dict[str, Any] = {
    "unregistered": lambda: (saved(data(x=...), (1, {2})), ()),
    "changed": lambda: (saved(data(x=...), [1]), (data(y=...),)),
    "changed model": lambda: (saved(model(x=(int, ...)), x=1), (model(x=(list[int], ...)),)),
    "other kind": lambda: (saved(data(x=...), 1), (model(x=(int, ...)),)),
}


@pytest.mark.parametrize("name", KEPT)
def test_P31_kept_it_saves_back_as_the_same_bytes(name: str) -> None:
    stored, kinds = KEPT[name]()
    serde = JsonPlusSerializer(allowed_msgpack_modules=kinds, on_unknown="keep")
    value = serde.loads_typed(stored)
    assert type(value[0]) is Unresolved
    assert value[0].name == "app.models:Order"
    assert (value[0].module, value[0].qualname) == ("app.models", "Order")
    assert serde.dumps_typed(value) == stored
    assert value == serde.loads_typed(serde.dumps_typed(value))
    assert len({value[0], serde.loads_typed(stored)[0]}) == 1
    assert "app.models:Order" in repr(value[0])


def test_P31_kept_data_can_be_looked_at() -> None:
    assert loaded(saved(data(x=...), (1, {2})), on_unknown="keep").data == {"x": (1, {2})}


def test_P31_kept_inside_of_what_is_known() -> None:
    inner, outer = data(x=...), cls("Outer", __annotations__={"inner": Any})
    both = JsonPlusSerializer(allowed_msgpack_modules=[inner, outer])
    deep = {"a": [outer({1: inner(1)}), {inner: 1} and (inner(2),)]}
    stored = both.dumps_typed(deep)
    some = JsonPlusSerializer(allowed_msgpack_modules=[outer], on_unknown="keep")
    value = some.loads_typed(stored)
    assert type(value["a"][0]) is outer
    assert type(value["a"][0].inner[1]) is Unresolved
    assert some.dumps_typed(value) == stored
    assert both.loads_typed(some.dumps_typed(value)) == deep


def test_P31_kept_when_a_part_of_it_is_needed_to_build_it() -> None:
    factory = data(x=1)
    stored = JsonPlusSerializer(allowed_msgpack_modules=[factory]).dumps_typed([collections.defaultdict(factory)])
    serde = JsonPlusSerializer(on_unknown="keep")
    assert type(serde.loads_typed(stored)[0]) is Unresolved
    assert serde.dumps_typed(serde.loads_typed(stored)) == stored
    with pytest.raises(StateTypeError, match="not registered"):
        JsonPlusSerializer().loads_typed(stored)


def test_P31_a_zone_that_this_system_does_not_have() -> None:
    # A datetime (16) in the zone (21) "Mars/Base".
    zone = b"\xc7\x09\x15Mars/Base"
    body = b"\x99\xcd\x07\xe8\x01\x01\x00\x00\x00\x00\x00" + zone
    stored = ("msgpack", b"\xc7" + bytes([len(body)]) + b"\x10" + body)
    with pytest.raises(StateTypeError, match="Mars/Base"):
        JsonPlusSerializer().loads_typed(stored)
    serde = JsonPlusSerializer(on_unknown="keep")
    assert serde.dumps_typed(serde.loads_typed(stored)) == stored


def test_P37_pickles_are_not_loaded_unless_asked_for() -> None:
    stored = JsonPlusSerializer(pickle_fallback=True).dumps_typed(value := collections.UserDict({"a": 1}))
    with pytest.raises(StateTypeError, match="pickle_fallback=True"):
        JsonPlusSerializer().loads_typed(stored)
    kept = JsonPlusSerializer(on_unknown="keep")
    assert kept.dumps_typed(kept.loads_typed(stored)) == stored
    with pytest.raises(NotStorable, match="whole record"):
        kept.dumps_typed([kept.loads_typed(stored)])
    assert JsonPlusSerializer(pickle_fallback=True).loads_typed(stored) == value


def test_P37_pairs_are_looked_up_only_among_imported_modules() -> None:
    serde = JsonPlusSerializer(allowed_msgpack_modules=[("app.models", "Order")])
    order = data(x=...)
    stored = saved(order, 1)
    with pytest.raises(StateTypeError):
        serde.loads_typed(stored)
    assert "app.models" not in sys.modules
    module = types.ModuleType("app.models")
    module.Order = order  # type: ignore[attr-defined]
    sys.modules["app.models"] = module
    try:
        assert serde.loads_typed(stored) == [order(1)]
        assert serde.dumps_typed([order(1)]) == stored
    finally:
        del sys.modules["app.models"]


def test_P37_langchain_messages_are_known_once_langchain_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "langchain_core.messages.human"
    human = pydantic.create_model("HumanMessage", __module__=name, content=(str, ...))
    with pytest.raises(NotStorable):
        JsonPlusSerializer().dumps_typed(human(content="a"))
    module = types.ModuleType(name)
    module.HumanMessage = human  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, name, module)
    stored = JsonPlusSerializer().dumps_typed([human(content="a")])
    assert JsonPlusSerializer().loads_typed(stored) == [human(content="a")]
    monkeypatch.delitem(sys.modules, name)
    monkeypatch.delitem(sys.modules, "langchain_core.messages", raising=False)
    with pytest.raises(
        StateTypeError, match=r"Import langchain_core\.messages\.human, and its classes are known\. Or register its"
    ):
        JsonPlusSerializer().loads_typed(stored)


@pytest.mark.parametrize("imported", ["", "import langchain_core", "from langchain_core.messages import HumanMessage"])
def test_P37_one_message_class_of_langchain_makes_the_others_known(imported: str) -> None:
    stored = JsonPlusSerializer().dumps_typed([AIMessage("a", id="1")])
    program = f"""
import sys
from perdure.checkpoint.serde.jsonplus import JsonPlusSerializer
from perdure.errors import StateTypeError
{imported}
assert "langchain_core.messages.ai" not in sys.modules
try:
    print(*JsonPlusSerializer().loads_typed({stored!r}))
except StateTypeError:
    print("unknown", "langchain_core.messages.ai" in sys.modules)
"""
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert told.strip().startswith("content='a'" if "HumanMessage" in imported else "unknown False")


@pytest.mark.parametrize("name", ["openai.types.chat.chat_completion_message", "anthropic.types.message"])
def test_P37_answers_of_providers_are_known_once_their_package_is_imported(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = pydantic.create_model("Answer", __module__=name, content=(str, ...))
    with pytest.raises(NotStorable):
        JsonPlusSerializer().dumps_typed(answer(content="a"))
    module = types.ModuleType(name)
    module.Answer = answer  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, name, module)
    stored = JsonPlusSerializer().dumps_typed([answer(content="a")])
    assert JsonPlusSerializer().loads_typed(stored) == [answer(content="a")]
    monkeypatch.delitem(sys.modules, name)
    with pytest.raises(StateTypeError):
        JsonPlusSerializer().loads_typed(stored)


class Item(pydantic.BaseModel):
    price: Price


@dataclasses.dataclass
class Price:
    currency: Currency


class Currency(enum.Enum):
    EUR = "eur"


class Basket(pydantic.BaseModel, Generic[T]):
    items: list[T]


class Pair(NamedTuple):
    first: Item | None


Alias = NewType("Alias", Price)


class State(TypedDict):
    basket: Annotated[Basket[Item], "reducer"]
    pairs: dict[str, tuple[Pair, ...]]


def test_with_types_knows_all_that_a_schema_mentions() -> None:
    base = JsonPlusSerializer()
    serde = base.with_types([State])
    value = {"basket": Basket[Item](items=[Item(price=Price(Currency.EUR))]), "pairs": {"a": (Pair(None),)}}
    assert serde.loads_typed(serde.dumps_typed(value)) == value
    with pytest.raises(NotStorable):
        base.dumps_typed(value)
    assert (serde.on_unknown, serde.pickle_fallback) == (base.on_unknown, base.pickle_fallback)
    # What is registered later with the one below counts too.
    other = data(x=...)
    base.register(other)
    assert serde.loads_typed(serde.dumps_typed(other(1))) == other(1)


def test_with_types_takes_whatever_annotations_there_are() -> None:
    serde = JsonPlusSerializer().with_types([Any, None, "text", T, Alias, list[int], int | Currency, object, type, Generic])
    assert serde.loads_typed(serde.dumps_typed([Currency.EUR, Price(Currency.EUR)])) == [Currency.EUR, Price(Currency.EUR)]


def test_classes_in_annotations() -> None:
    assert [kind for kind in classes_in([State]) if kind.__module__ == __name__] == [
        *(State, Basket[Item], Item, Price, Currency, Basket, Pair)
    ]


def test_descriptions_of_annotations_tell_them_apart() -> None:
    annotations = [int, list[int], list[str], int | None, Annotated[int, pydantic.Field(gt=1)], Annotated[int, print], Alias, T]
    texts = [describe(annotation) for annotation in annotations]
    assert len(set(texts)) == len(annotations)
    assert describe(Annotated[int, object()]) == describe(Annotated[int, object()])


def test_on_unknown_can_be_changed_for_tools_that_look() -> None:
    serde = JsonPlusSerializer()
    looking = serde.with_on_unknown("keep")
    assert (serde.on_unknown, looking.on_unknown) == ("raise", "keep")
    assert looking.registry is serde.registry


def test_register_is_a_decorator() -> None:
    serde = JsonPlusSerializer()

    @serde.register
    @dataclasses.dataclass
    class Local:
        x: int

    assert serde.loads_typed(serde.dumps_typed(Local(1))) == Local(1)


def test_classes_with_functions_of_their_own() -> None:
    serde = JsonPlusSerializer()
    serde.register(collections.UserDict, encode=lambda value: value.data, decode=collections.UserDict)
    assert serde.loads_typed(serde.dumps_typed([collections.UserDict({1: (2,)})])) == [collections.UserDict({1: (2,)})]
    with pytest.raises(TypeError, match="come together"):
        serde.register(collections.UserList, encode=list)
