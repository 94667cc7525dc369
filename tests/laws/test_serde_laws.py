"""Laws of the serializer, over nested values of every kind."""

from __future__ import annotations

import collections
import dataclasses
import datetime as dt
import decimal
import enum
import ipaddress
import math
import pathlib
import struct
import uuid
import zoneinfo
from typing import Any, NamedTuple

import numpy as np
import pydantic
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from perdure.checkpoint.serde import encode as encoding
from perdure.checkpoint.serde.builtin_values import DUMPS
from perdure.checkpoint.serde.jsonplus import JsonPlusSerializer
from perdure.errors import CorruptRecord, NotStorable, StateTypeError
from perdure.types import Command, Interrupt, Overwrite, Send


class Colour(enum.Enum):
    RED = 1
    BLUE = "b"


class Level(enum.IntEnum):
    LOW = 1


class Mode(enum.StrEnum):
    ON = "on"


@dataclasses.dataclass
class Point:
    x: Any
    y: Any


@dataclasses.dataclass(frozen=True, slots=True)
class Frozen:
    x: Any


class Pair(NamedTuple):
    left: Any
    right: Any


class Model(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="allow")
    a: Any
    b: int = 0


class Text(str):
    __slots__ = ()


class Whole(int):
    pass


class Items(list[Any]):
    pass


class Table(dict[Any, Any]):
    pass


SERDE = JsonPlusSerializer(allowed_msgpack_modules=[Colour, Level, Mode, Point, Frozen, Pair, Model, Text, Whole, Items, Table])


def same(a: Any, b: Any) -> bool:  # noqa: C901  one line a kind
    """Equal, and of the same type at every depth."""
    if type(a) is not type(b):
        return False
    if isinstance(a, (float, complex)) and not isinstance(a, np.generic):
        return struct.pack(">dd", a.real, a.imag) == struct.pack(">dd", b.real, b.imag)
    if isinstance(a, np.ndarray):
        return bool(a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes())
    if isinstance(a, np.generic):
        return bool(a.dtype == b.dtype and a.tobytes() == b.tobytes())
    if isinstance(a, decimal.Decimal):
        return bool(a.as_tuple() == b.as_tuple())
    if isinstance(a, (list, tuple, collections.deque)):
        bounds = getattr(a, "maxlen", None) == getattr(b, "maxlen", None)
        return bounds and len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        factories = getattr(a, "default_factory", None) is getattr(b, "default_factory", None)
        return factories and len(a) == len(b) and all(map(same, a, b)) and all(map(same, a.values(), b.values()))
    if isinstance(a, (set, frozenset)):
        return len(a) == len(b) and all(any(same(one, other) for other in b) for one in a)
    if isinstance(a, pydantic.BaseModel):
        return all(same(getattr(a, part), getattr(b, part)) for part in ("__dict__", "model_extra", "model_fields_set"))
    if isinstance(a, dt.datetime):
        return (a.replace(tzinfo=None), a.fold, a.tzinfo) == (b.replace(tzinfo=None), b.fold, b.tzinfo)
    if isinstance(a, Send):
        return same(a.arg, b.arg) and (a.node, a.timeout) == (b.node, b.timeout)
    if dataclasses.is_dataclass(a):
        return all(same(getattr(a, field.name), getattr(b, field.name)) for field in dataclasses.fields(a))
    return bool(a == b)


texts = st.text(st.characters(), max_size=8) | st.text("abż\ud800\udfff", max_size=4)
zones = st.none() | st.sampled_from(
    [dt.timezone.utc, zoneinfo.ZoneInfo("Europe/Berlin"), dt.timezone(dt.timedelta(hours=5), "X")]
)
plain = st.none() | st.booleans() | st.integers() | st.floats() | texts | st.binary(max_size=6)
keyable = (
    plain
    | st.integers(min_value=1 << 62, max_value=1 << 66)
    | st.complex_numbers()
    | st.decimals(allow_nan=False)
    | st.dates()
    | st.datetimes(timezones=zones)
    | st.timedeltas()
    | st.uuids()
    | st.ip_addresses()
    | st.sampled_from([Colour.RED, Colour.BLUE, Level.LOW, Mode.ON, pathlib.PurePosixPath("a/b"), ipaddress.ip_network("::/0")])
    | texts.map(Text)
    | st.integers().map(Whole)
    | st.sampled_from([range(3), Frozen(1), Pair(1, "a"), np.float32(1.5), np.int8(1)])
)
keys = st.recursive(
    keyable, lambda inner: st.tuples(inner, inner) | st.frozensets(inner, max_size=3) | inner.map(Frozen), max_leaves=4
)
leaves = (
    keyable
    | st.decimals()
    | st.times()
    | st.binary(max_size=5).map(bytearray)
    | st.lists(st.floats(width=32), max_size=4).map(lambda items: np.array(items, "f4"))
    | st.lists(st.integers(0, 9), min_size=4, max_size=4).map(lambda items: np.array(items).reshape(2, 2, order="F"))
)


def containers(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    lists = st.lists(inner, max_size=4)
    by_text = st.dictionaries(texts, inner, max_size=4)
    by_any = st.dictionaries(keys, inner, max_size=4)
    return (
        lists
        | by_text
        | by_any
        | lists.map(tuple)
        | lists.map(Items)
        | by_any.map(Table)
        | by_any.map(collections.OrderedDict)
        | by_text.map(lambda items: collections.defaultdict(list, items))
        | st.builds(lambda items, spare: collections.deque(items, len(items) + spare), lists, st.integers(0, 2))
        | st.sets(keys, max_size=4)
        | st.dictionaries(keys, st.integers(), max_size=3).map(collections.Counter)
        | st.builds(Point, inner, inner)
        | st.builds(Frozen, inner)
        | st.builds(Pair, inner, inner)
        | st.builds(Model, a=inner)
        | st.builds(lambda a, extra: Model.model_validate({"a": a, "extra": extra}), inner, inner)
        | st.builds(lambda arg: Send("n", arg), inner)
        | st.builds(lambda update: Command(update=update, goto=[Send("a", 1)]), inner)
        | inner.map(Interrupt)
        | inner.map(Overwrite)
    )


values = st.recursive(leaves, containers, max_leaves=12)
json_like = st.recursive(
    st.none() | st.booleans() | st.integers(-(1 << 63), (1 << 64) - 1) | st.floats() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=15,
)
slow = settings(suppress_health_check=[HealthCheck.too_slow])


@slow
@given(values)
def test_P30_what_is_saved_is_what_is_loaded(value: Any) -> None:
    stored = SERDE.dumps_typed(value)
    loaded = SERDE.loads_typed(stored)
    assert same(value, loaded)
    assert SERDE.dumps_typed(loaded) == stored


@slow
@given(values)
def test_fast_and_exact_ways_give_the_same_bytes(value: Any) -> None:
    exact = encoding.ExactEncoder(DUMPS, SERDE.registry).encode(value)
    assert encoding.encode(value, DUMPS, SERDE.registry) == exact


@given(json_like)
def test_plain_data_takes_the_fast_way(value: Any) -> None:
    fast = encoding.FastEncoder(DUMPS, SERDE.registry)
    assert fast.pack(value) == encoding.ExactEncoder(DUMPS, SERDE.registry).encode(value)
    assert fast.deepest == 0


@slow
@given(values)
def test_P30_one_thing_that_cannot_be_stored_refuses_the_whole_value(value: Any) -> None:
    with pytest.raises(NotStorable) as raised:
        SERDE.dumps_typed([value, {"k": (value, object())}])
    assert raised.value.key == '[1]["k"][1]'


@slow
@given(values)
def test_P31_kept_values_save_back_as_the_same_bytes(value: Any) -> None:
    stored = SERDE.dumps_typed([value, Point(value, 1)])
    looking = JsonPlusSerializer(on_unknown="keep")
    assert looking.dumps_typed(looking.loads_typed(stored)) == stored
    assert same(SERDE.loads_typed(looking.dumps_typed(looking.loads_typed(stored)))[1], Point(value, 1))


@slow
@given(values, st.data())
def test_P37_damaged_bytes_raise_this_librarys_errors(value: Any, data: st.DataObject) -> None:
    tag, stored = SERDE.dumps_typed([value])
    damaged = bytearray(stored)
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    for on_unknown in ("raise", "keep"):
        try:
            SERDE.with_on_unknown(on_unknown).loads_typed((tag, bytes(damaged)))
        except (CorruptRecord, StateTypeError):
            pass


@given(st.binary(max_size=60))
def test_P37_any_bytes_raise_this_librarys_errors(data: bytes) -> None:
    for tag in ("msgpack", "null", "bytes", "pickle", "other"):
        try:
            SERDE.loads_typed((tag, data))
        except (CorruptRecord, StateTypeError):
            pass


@slow
@given(values, st.integers(0, 40))
def test_P37_cut_bytes_are_noticed(value: Any, cut: int) -> None:
    tag, stored = SERDE.dumps_typed([value])
    with pytest.raises(CorruptRecord):
        SERDE.loads_typed((tag, stored[: max(0, len(stored) - 1 - cut)]))


def test_the_test_of_sameness_is_strict() -> None:
    pairs = [(1, True), (0.0, -0.0), ([1], (1,)), ({1: 2}, {True: 2}), (math.nan, 1.0), (uuid.UUID(int=1), uuid.UUID(int=2))]
    assert not any(same(a, b) for a, b in pairs)
    assert same(math.nan, math.nan)
