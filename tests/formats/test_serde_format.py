"""Format version 1 of values: bytes that were written once are read for ever, and today's bytes are the same.

`serde/v1.json` holds the bytes of each value below. To add a value, add it here and run this file as a script; it never changes bytes
that are there.
"""

from __future__ import annotations

import collections
import dataclasses
import datetime as dt
import decimal
import enum
import ipaddress
import json
import math
import pathlib
import re
import uuid
import zoneinfo
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
import pydantic
import pytest

from perdure.checkpoint.serde import format_v1 as v1
from perdure.checkpoint.serde.jsonplus import JsonPlusSerializer, StoredError
from perdure.messages import Message, RemoveMessage
from perdure.types import Command, Interrupt, Overwrite, PregelTask, Send, StateSnapshot

FILE = pathlib.Path(__file__).parent / "serde" / "v1.json"
T = TypeVar("T")


class Colour(enum.Enum):
    RED = 1


class Level(enum.IntEnum):
    LOW = 1


class Bits(enum.Flag):
    A = 1
    B = 2


@dataclasses.dataclass(frozen=True)
class Point:
    x: Any
    y: Any = 0


class Pair(NamedTuple):
    left: Any
    right: Any


class Text(str):
    __slots__ = ()


class Items(list[Any]):
    note: str


class Model(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="allow")
    name: str
    size: int = 1
    _hidden: int = pydantic.PrivateAttr(default=5)


class Box(pydantic.BaseModel, Generic[T]):
    item: T


class Account:
    def __init__(self, owner: str) -> None:
        self.owner = owner

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Account) and self.owner == other.owner

    __hash__ = None  # type: ignore[assignment]


def serializer() -> JsonPlusSerializer:
    serde = JsonPlusSerializer()
    # Names of their own: this file's module has no fixed one.
    for cls in (Colour, Level, Bits, Point, Pair, Text, Items, Model, Box):
        serde.register(cls, name=f"test:{cls.__name__}")
    serde.register(Account, name="test:Account", encode=lambda value: value.owner, decode=Account)
    return serde


def items() -> Items:
    value = Items([1])
    value.note = "n"
    return value


UTC = dt.timezone.utc
BERLIN = zoneinfo.ZoneInfo("Europe/Berlin")

VALUES: dict[str, Any] = {
    "none": None,
    "bytes": b"\x00\xff",
    "bytearray": bytearray(b"ab"),
    "plain": [None, True, False, 0, -1, 127, 128, -33, 65_536, (1 << 64) - 1, -(1 << 63), 0.1, -0.0, math.inf, "", "é𝄞", b"a"],
    "dict": {"a": {"b": [1]}, "c": []},
    "long": ["x" * 300, list(range(20)), {f"k{n}": n for n in range(20)}],
    "tuple": (1, ("a",)),
    "set": {1, "a", (2,), None},
    "frozenset": frozenset({"b", "a"}),
    "map": {1: "a", (2, 3): {None: b"b"}, "k": True},
    "text": ["\ud800", {"\udfff": 1}],
    "big int": [1 << 64, -(1 << 64), 127 << 64, 255 << 64, -(1 << 63) - 1],
    "bytearray inside": [bytearray(b"ab"), bytearray()],
    "memoryview": [memoryview(b"ab"), memoryview(bytearray(b"ab"))],
    "complex": complex(1.5, -0.0),
    "ordered": collections.OrderedDict([("b", 1), ("a", 2)]),
    "defaultdict": [collections.defaultdict(list, {"a": [1]}), collections.defaultdict(None), collections.defaultdict(Items)],
    "counter": collections.Counter({"a": 2, 3: 1}),
    "deque": [collections.deque([1, 2], maxlen=3), collections.deque()],
    "range and slice": [range(1, 9, 2), slice(None, 3, None)],
    "datetime": [
        dt.datetime(2024, 10, 27, 2, 30, 1, 5, fold=1, tzinfo=BERLIN),
        dt.datetime(2024, 1, 1, tzinfo=UTC),
        dt.datetime(2024, 1, 1),  # noqa: DTZ001
    ],
    "date and time": [dt.date(2024, 2, 29), dt.time(1, 2, 3, 4, fold=1), dt.time(1, tzinfo=UTC)],
    "timedelta": dt.timedelta(days=-1, seconds=5, microseconds=7),
    "timezone": [UTC, dt.timezone(dt.timedelta(hours=-3)), dt.timezone(dt.timedelta(0), "Zulu")],
    "zone": BERLIN,
    "uuid": uuid.UUID(int=0x0123456789ABCDEF0123456789ABCDEF),
    "decimal": [decimal.Decimal("1.10"), decimal.Decimal("-0E+5"), decimal.Decimal("Infinity")],
    "path": [pathlib.PurePosixPath("/a/b"), pathlib.PureWindowsPath("C:\\a")],
    "pattern": [re.compile("a+", re.IGNORECASE), re.compile(rb"\d")],
    "ip": [ipaddress.ip_address("::1"), ipaddress.ip_network("10.0.0.0/8"), ipaddress.ip_interface("10.0.0.1/8")],
    "numpy array": [
        np.arange(4, dtype="<i4").reshape(2, 2),
        np.asfortranarray(np.eye(2, dtype="<f8")),
        np.zeros((0, 2), "<f4"),
    ],
    "numpy structured": np.array([("a", [1, 2])], dtype=[("n", "<U2"), ("v", "<i2", (2,))]),
    "numpy scalar": [np.float32(0.5), np.int64(-1), np.str_("a\x00"), np.bytes_(b"b"), np.datetime64("2024-01-01", "D")],
    "enum": [Colour.RED, Level.LOW, Bits.A | Bits.B, Bits(0)],
    "dataclass": Point(1, Point((2,))),
    "namedtuple": Pair(1, Pair(2, 3)),
    "child": [Text("a"), items()],
    "model": Model.model_validate({"name": "a", "more": (1,)}),
    "model generic": [Box[int](item=1), Box[Colour](item=Colour.RED)],
    "custom": Account("a"),
    "messages": [Message(role="user", content=["hi", {"type": "text", "text": "x"}], id="1"), RemoveMessage("1")],
    "library": [
        Send("n", {"a": (1,)}),
        Send("n", 1, timeout=2.5),
        Command(update={"a": 1}, goto=[Send("n", 1)], resume={"q": None}),
        Command(goto="n"),
        Interrupt("q", id="i"),
        Overwrite([1]),
        PregelTask("i", "n", ("a",)),
        StateSnapshot({"a": 1}, ("n",), {"configurable": {"thread_id": "t"}}, None, "now", None, ()),
        StoredError("builtins.ValueError", "boom", "Traceback"),
    ],
}


def same(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray):
        return bool(a.dtype == b.dtype and a.flags.f_contiguous == b.flags.f_contiguous and np.array_equal(a, b))
    if type(a) is list:
        return type(b) is list and len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and bool(a == b)


def stored() -> dict[str, tuple[str, bytes]]:
    return {name: (tag, bytes.fromhex(data)) for name, (tag, data) in json.loads(FILE.read_text()).items()}


def test_P36_every_value_has_its_fixture() -> None:
    assert set(stored()) == set(VALUES)


@pytest.mark.parametrize("name", VALUES)
def test_P36_bytes_written_once_stay_readable(name: str) -> None:
    assert same(serializer().loads_typed(stored()[name]), VALUES[name])


@pytest.mark.parametrize("name", VALUES)
def test_P36_the_same_bytes_are_written_today(name: str) -> None:
    assert serializer().dumps_typed(VALUES[name]) == stored()[name]


def test_P36_every_code_has_a_fixture() -> None:
    codes = {
        value
        for name, value in vars(v1).items()
        if name.isupper() and type(value) is int and not name.startswith(("MAX_", "FREE_"))
    }
    seen: set[int] = set()

    class Looking(dict[int, Any]):
        def get(self, code: int, default: Any = None) -> Any:
            seen.add(code)
            return super().get(code, default)

    from perdure.checkpoint.serde import decode, jsonplus

    serde = serializer()
    for tag, data in stored().values():
        if tag == v1.TAG_MSGPACK:
            decode.decode(data, Looking(jsonplus._LOADS), serde.registry, keep=False)
    assert seen == codes


def test_P36_the_table_in_the_docs_lists_every_code() -> None:
    assert v1.__doc__ is not None
    listed = {int(number) for number in re.findall(r"^    (\d+) +\S", v1.__doc__, re.MULTILINE)}
    codes = {
        value
        for name, value in vars(v1).items()
        if name.isupper() and type(value) is int and not name.startswith(("MAX_", "FREE_"))
    }
    assert listed == codes


if __name__ == "__main__":
    known = json.loads(FILE.read_text()) if FILE.exists() else {}
    for name, value in VALUES.items():
        if name not in known:
            tag, data = serializer().dumps_typed(value)
            known[name] = [tag, data.hex()]
    FILE.write_text(json.dumps(known, indent=1) + "\n")
