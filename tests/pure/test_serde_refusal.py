"""What cannot come back as it is is refused when it is saved, and the error names the place."""

from __future__ import annotations

import collections
import dataclasses
import enum
import io
import re
import socket
import sys
import threading
import zoneinfo
from typing import Any, NamedTuple

import numpy as np
import ormsgpack
import pydantic
import pytest

from perdure.checkpoint.serde.jsonplus import JsonPlusSerializer
from perdure.errors import NotStorable
from perdure.types import Command, Send


@dataclasses.dataclass
class Limits:
    limits: list[Any]


@dataclasses.dataclass
class Unregistered:
    x: int = 1


class UnregisteredModel(pydantic.BaseModel):
    x: int = 1


class UnregisteredEnum(enum.Enum):
    A = 1


class UnregisteredTuple(NamedTuple):
    x: int = 1


class UnregisteredText(str):
    __slots__ = ()


class UnregisteredList(list[Any]):
    pass


class Base:
    __slots__ = ("hidden",)


@dataclasses.dataclass
class OnSlots(Base):
    x: int = 1


class MyOrdered(collections.OrderedDict[str, int]):
    pass


class Opaque:
    pass


class Bad:
    """Looks like a type of Python's library by its name."""


Bad.__module__, Bad.__qualname__ = "decimal", "Decimal"

SERDE = JsonPlusSerializer(allowed_msgpack_modules=[Limits])


def generator() -> Any:
    yield 1


def refusal(value: Any, serde: JsonPlusSerializer = SERDE) -> NotStorable:
    with pytest.raises(NotStorable) as raised:
        serde.dumps_typed(value)
    return raised.value


CANNOT: dict[str, Any] = {
    "lambda": lambda: 1,
    "function": generator,
    "builtin": len,
    "method": "a".join,
    "class": int,
    "module": sys,
    "generator": generator(),
    "lock": threading.Lock(),
    "file": io.BytesIO(),
    "socket": socket.socket,
    "object": object(),
    "opaque": Opaque(),
    "not implemented": NotImplemented,
    "dataclass": Unregistered(),
    "model": UnregisteredModel(),
    "enum": UnregisteredEnum.A,
    "namedtuple": UnregisteredTuple(),
    "str child": UnregisteredText("a"),
    "list child": UnregisteredList(),
    "forged name": Bad(),
    "defaultdict of lambda": collections.defaultdict(lambda: 1),
    "defaultdict of unregistered": collections.defaultdict(Unregistered),
    "numpy objects": np.array([object()]),
    "numpy child": np.ma.masked_array([1], mask=[True]),
    "numpy aligned": np.zeros(1, np.dtype([("a", "i1"), ("b", "i8")], align=True)),
    "numpy metadata": np.zeros(1, np.dtype("i4", metadata={"a": 1})),
    "memoryview of ints": memoryview(b"abcd").cast("I"),
    "int too long": 1 << (8 * 70_000),
    "pattern too long": re.compile("a" * 10_001),
    "extension of another": ormsgpack.Ext(1, b"\x90"),
    "fragment of another": ormsgpack.Fragment(b"\x90"),
    "mapping proxy": type.__dict__["__dict__"],
}


@pytest.mark.parametrize("name", CANNOT)
def test_P30_it_is_refused_and_the_place_named(name: str) -> None:
    if name.endswith("of another"):
        # The C encoder knows these two, so only a value that also holds bytes makes the slower one look.
        assert refusal({"cfg": [0, CANNOT[name], b""]}).key == '["cfg"][1]'
        return
    assert refusal({"cfg": [0, CANNOT[name]]}).key == '["cfg"][1]'
    assert refusal(CANNOT[name]).key == ""


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ({"cfg": Limits([1, 2, len])}, '["cfg"].limits[2]'),
        ((1, {"a": (len,)}), '[1]["a"][0]'),
        ({(1, 2): len}, "[<tuple>]"),
        ({1: {None: len}}, "[1][None]"),
        ({(1, len): 1}, "{<tuple>}[1]"),
        ({1, len}, "{<builtin_function_or_method>}"),
        (Command(update={"a": [Send("n", {"x": len})]}), '.update["a"][0].arg["x"]'),
        (collections.deque([1, len]), "[1]"),
        (collections.OrderedDict(a=len), '["a"]'),
        (collections.defaultdict(list, a=[len]), '["a"][0]'),
        ({"\ud800": [bytearray(), len]}, '["\\ud800"][1]'),
        ([["a" * 200, {"k" * 200: len}]], '[0][1]["' + "k" * 80 + '"]'),
    ],
)
def test_P30_the_path_goes_through_every_container(value: Any, path: str) -> None:
    error = refusal(value)
    assert error.key == path
    assert path in str(error)


def test_P30_the_message_teaches_how_to_register() -> None:
    text = str(refusal({"a": Unregistered()}))
    assert "test_serde_refusal.Unregistered" in text
    assert "register(Unregistered)" in text
    assert "annotation" in text
    assert "encode=" in str(refusal(Opaque()))


def test_P30_a_cycle_is_named() -> None:
    inner: list[Any] = [1]
    inner.append(inner)
    error = refusal({"a": inner})
    assert error.key == '["a"][1]'
    assert "cycle" in str(error)
    through: dict[str, Any] = {}
    through["x"] = (Limits([through]),)
    assert refusal([through]).key == '[0]["x"][0].limits[0]'


def test_P30_the_same_object_twice_is_no_cycle() -> None:
    shared = [1]
    assert SERDE.loads_typed(SERDE.dumps_typed({1: shared, 2: (shared, shared)})) == {1: [1], 2: ([1], [1])}


def nested(depth: int, wrap: Any, value: Any = 1) -> Any:
    for _ in range(depth):
        value = wrap(value)
    return value


def test_P30_what_is_too_deep_is_refused_and_what_is_not_comes_back() -> None:
    for wrap, deepest in ((lambda v: [v], 255), (lambda v: {"a": v}, 255), (lambda v: {1: v}, 64), (lambda v: (v,), 64)):
        fits = nested(deepest, wrap)
        assert SERDE.loads_typed(SERDE.dumps_typed(fits)) == fits
        assert "too deep" in str(refusal(nested(deepest + 1, wrap)))
        assert "too deep" in str(refusal(nested(5_000, wrap)))


def test_P30_fast_and_exact_ways_agree_on_what_is_too_deep() -> None:
    fits = [nested(254, lambda v: [v]), bytearray()]
    assert SERDE.loads_typed(SERDE.dumps_typed(fits)) == fits
    assert "too deep" in str(refusal([nested(255, lambda v: [v]), bytearray()]))
    assert SERDE.loads_typed(SERDE.dumps_typed(nested(255, lambda v: [v]))) == nested(255, lambda v: [v])


def test_P30_what_loading_would_refuse_as_too_deep_is_refused_when_saved() -> None:
    def tuples(count: int) -> Any:
        return nested(count, lambda value: (nested(200, lambda inner: [inner], value),))

    # Too deep for `==`, so the bytes are compared.
    stored = SERDE.dumps_typed(tuples(6))
    assert SERDE.dumps_typed(SERDE.loads_typed(stored)) == stored
    assert "too deep" in str(refusal(tuples(7)))


def test_P30_a_large_value_within_many_others_is_refused_when_saved() -> None:
    big = "x" * 100_000
    fits = nested(30, lambda value: (value,), big)
    assert SERDE.loads_typed(SERDE.dumps_typed(fits)) == fits
    assert "too deep" in str(refusal(nested(60, lambda value: (value,), big)))


def test_P30_attributes_that_no_field_declares_are_not_lost_silently() -> None:
    value = Limits([])
    value.note = "extra"  # type: ignore[attr-defined]
    assert "'note'" in str(refusal([value]))


def test_P30_a_field_that_was_deleted_is_refused() -> None:
    value = Limits([])
    del value.limits
    assert "limits" in str(refusal([value]))


def test_P30_a_time_zone_without_a_key_is_refused() -> None:
    path = next(
        (f"{root}/Europe/Berlin" for root in zoneinfo.TZPATH if __import__("os").path.exists(f"{root}/Europe/Berlin")), None
    )
    if path is None:
        pytest.skip("no zone database on this system")
    with open(path, "rb") as file:  # noqa: PTH123
        assert "file" in str(refusal([zoneinfo.ZoneInfo.from_file(file, key="Europe/Berlin")]))


def test_classes_that_would_lose_something_cannot_be_registered() -> None:
    for cls, why in ((Opaque, "no dataclass"), (OnSlots, "hidden"), (MyOrdered, "OrderedDict"), (ValueError, "StoredError")):
        with pytest.raises(TypeError, match=why):
            JsonPlusSerializer().register(cls)
    with pytest.raises(TypeError, match="needs no registration"):
        JsonPlusSerializer().register(dict)


def test_P37_registering_everything_is_not_possible() -> None:
    with pytest.raises(ValueError, match="choose what is imported"):
        JsonPlusSerializer(allowed_msgpack_modules=True)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="pairs"):
        JsonPlusSerializer(allowed_msgpack_modules=["os.system"])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="on_unknown"):
        JsonPlusSerializer(on_unknown="ignore")  # type: ignore[arg-type]


def test_an_interrupt_inside_of_users_code_is_not_swallowed() -> None:
    serde = JsonPlusSerializer()

    def interrupted(value: Any) -> Any:
        raise KeyboardInterrupt

    serde.register(Opaque, encode=interrupted, decode=lambda data: data)
    with pytest.raises(KeyboardInterrupt):
        serde.dumps_typed([Opaque()])


def test_users_code_that_fails_is_named() -> None:
    serde = JsonPlusSerializer()
    serde.register(Opaque, encode=lambda value: 1 / 0, decode=lambda data: data)
    error = refusal({"a": Opaque()}, serde)
    assert error.key == '["a"]'
    assert "ZeroDivisionError" in str(error)
    assert isinstance(error.__cause__, ZeroDivisionError)


def test_an_encode_function_that_returns_the_value_itself_is_a_cycle() -> None:
    serde = JsonPlusSerializer()
    serde.register(Opaque, encode=lambda value: value, decode=lambda data: data)
    assert "holds itself" in str(refusal(Opaque(), serde))


def test_pickle_only_if_asked_for() -> None:
    serde = JsonPlusSerializer(pickle_fallback=True)
    tag, data = serde.dumps_typed({"a": Unregistered(5)})
    assert tag == "pickle"
    assert serde.loads_typed((tag, data)) == {"a": Unregistered(5)}
    assert serde.dumps_typed({"a": 1})[0] == "msgpack"
    assert "nor pickled" in str(refusal(lambda: 1, serde))
