"""What is saved is what is loaded: one value of each kind."""

from __future__ import annotations

import collections
import dataclasses
import datetime as dt
import decimal
import enum
import functools
import ipaddress
import math
import pathlib
import re
import struct
import uuid
import zoneinfo
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
import pydantic
import pytest

from perdure.checkpoint.serde.jsonplus import JsonPlusSerializer
from perdure.types import (
    NO_ANSWER,
    Command,
    Interrupt,
    Overwrite,
    PregelTask,
    RetryPolicy,
    Send,
    StateSnapshot,
    TimeoutPolicy,
)

T = TypeVar("T")
MAX = 1 << 64


class Colour(enum.Enum):
    RED = 1
    GREEN = "g"
    ALSO_RED = 1  # noqa: PIE796  an alias


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 10


class Mode(enum.StrEnum):
    ON = "on"


class Bits(enum.Flag):
    A = 1
    B = 2
    C = 4
    AB = 3


class Odd(enum.Flag, boundary=enum.KEEP):
    A = 1


class Outer:
    class Inner(enum.Enum):
        X = object()


@dataclasses.dataclass
class Point:
    x: Any
    y: Any = 0


@dataclasses.dataclass(frozen=True, slots=True)
class Frozen:
    inner: Any
    names: frozenset[str] = frozenset()


@dataclasses.dataclass
class Counted:
    start: int
    total: int = dataclasses.field(init=False, default=0)
    seen: dataclasses.InitVar[int] = 0

    def __post_init__(self, seen: int) -> None:
        self.total += self.start + seen

    @functools.cached_property
    def double(self) -> int:
        return self.total * 2


@dataclasses.dataclass
class Box(Generic[T]):
    item: T


@dataclasses.dataclass
class Bag(dict[str, int]):
    label: str = ""


class Pair(NamedTuple):
    left: Any
    right: Any = None


Old = collections.namedtuple("Old", "a b")  # noqa: PYI024  the old way must work too


class Text(str):
    __slots__ = ()

    def __str__(self) -> str:
        return "never this"


class Whole(int):
    def __index__(self) -> int:
        return 99


class Real(float):
    pass


class Raw(bytes):
    pass


class Items(list[Any]):
    pass


class Mapping(dict[Any, Any]):
    pass


class Row(tuple[Any, ...]):
    __slots__ = ()


class Members(set[Any]):
    pass


class Fixed(frozenset[Any]):
    pass


class Model(pydantic.BaseModel):
    name: str
    tags: tuple[str, ...] = ()
    at: dt.datetime | None = None
    other: Any = None


class Loose(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="allow")
    a: int = 1
    _hidden: list[int] = pydantic.PrivateAttr(default_factory=list)


class Locked(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(frozen=True)
    value: int = pydantic.Field(alias="v")

    @pydantic.field_validator("value", mode="before")
    @classmethod
    def _double(cls, value: Any) -> Any:
        # Not idempotent: loading must not run it again.
        return int(value) * 2


class Holder(pydantic.BaseModel, Generic[T]):
    item: T


class Names(pydantic.RootModel[list[str]]):
    pass


class Account:
    def __init__(self, owner: str, cents: int) -> None:
        self.owner = owner
        self.cents = cents

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Account) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash(self.owner)

    def __repr__(self) -> str:
        return f"Account({self.owner!r}, {self.cents})"


SERDE = JsonPlusSerializer(
    allowed_msgpack_modules=[
        *(Colour, Level, Mode, Bits, Odd, Outer.Inner),
        *(Point, Frozen, Counted, Box, Bag, Pair, Old),
        *(Text, Whole, Real, Raw, Items, Mapping, Row, Members, Fixed),
        *(Model, Loose, Locked, Holder, Holder[list[int]], Names),
    ]
)
SERDE.register(Account, fields=("owner", "cents"))


def loose() -> Loose:
    value = Loose.model_validate({"b": (1, 2)})
    value._hidden.append(3)
    return value


def bag() -> Bag:
    value = Bag("label")
    value["a"] = 1
    return value


def counted() -> Counted:
    value = Counted(2, seen=3)
    assert value.double == 10
    return value


BERLIN = zoneinfo.ZoneInfo("Europe/Berlin")

VALUES: dict[str, Any] = {
    "none": None,
    "bool": True,
    "bools are no ints": [True, 1, False, 0, 1.0],
    "int 64": [0, -1, (1 << 63) - 1, -(1 << 63), MAX - 1],
    "int big": [MAX, -(1 << 63) - 1, 255 << 64, -(1 << 4000), 1 << 71, -(1 << 71)],
    "float": [0.1, math.inf, -math.inf, 5e-324, 1e308],
    "negative zero": [-0.0, complex(-0.0, 0.0), complex(0.0, -0.0)],
    "nan": math.nan,
    "complex nan": complex(math.nan, math.inf),
    "str": ["", "a", "é", "\x00", "𝄞" * 40, "x" * 70_000],
    "str surrogates": ["\ud800", "a\udfffb", {"\udc00": "\udc00"}],
    "bytes": b"\x00\xff",
    "bytes inside": [b"", b"\xc4", {"a": b"b"}],
    "bytearray": bytearray(b"ab"),
    "bytearray inside": {"a": [bytearray(b"ab"), b"ab"]},
    "bytearray in a tuple": (bytearray(b"ab"),),
    "list": [1, [2, [3, []]]],
    "tuple": (1, (2, ()), [(3,)]),
    "set": [{1, "a", (2, 3)}, set()],
    "frozenset": frozenset({frozenset({1}), (1, 2)}),
    "dict": {"b": 1, "a": {"c": {}}},
    "dict int keys": {1: "a", "1": "b", 2.5: "c", None: "d"},
    "dict True key": {True: "yes", 0: "no"},
    "dict tuple keys": {(1, "a"): [(1,)], b"x": {1: 2}},
    "dict enum keys": {Colour.RED: 1, Level.LOW: 2, Mode.ON: 3},
    "dict str child keys": {Text("a"): 1},
    "ordered": collections.OrderedDict([("b", 1), ("a", 2)]),
    "ordered int keys": collections.OrderedDict([(2, 1), (1, 2)]),
    "counter": collections.Counter({"a": 2, 1: -1}),
    "defaultdict": collections.defaultdict(list, {"a": [1], 2: [3]}),
    "defaultdict of none": collections.defaultdict(None, {"a": 1}),
    "defaultdict of class": collections.defaultdict(Bag, {"a": Bag("b")}),
    "deque": collections.deque([1, (2,)], maxlen=5),
    "deque unbounded": collections.deque(["a"]),
    "deque closed": collections.deque(maxlen=0),
    "range": range(1, 10, 3),
    "slice": slice(None, (1,), -1),
    "decimal": [decimal.Decimal(text) for text in ("1.10", "-0", "1E+999999", "NaN", "-sNaN7", "Infinity", "0E-7")],
    "date": dt.date(2024, 2, 29),
    "datetime naive": dt.datetime(2024, 2, 29, 1, 2, 3, 4),  # noqa: DTZ001
    "datetime utc": dt.datetime(2024, 2, 29, tzinfo=dt.timezone.utc),
    "datetime offset": dt.datetime(2024, 2, 29, tzinfo=dt.timezone(dt.timedelta(hours=-3, minutes=-30), "NST")),
    "datetime zone": dt.datetime(2024, 7, 1, 12, tzinfo=BERLIN),
    "datetime fold": [dt.datetime(2024, 10, 27, 2, 30, fold=fold, tzinfo=BERLIN) for fold in (0, 1)],
    "time": [dt.time(1, 2, 3, 4, fold=1), dt.time(tzinfo=BERLIN)],
    "timedelta": [dt.timedelta(days=-1, microseconds=1), dt.timedelta.max, dt.timedelta.min],
    "timezone": [dt.timezone.utc, dt.timezone(dt.timedelta(seconds=1)), dt.timezone(dt.timedelta(0), "Zulu")],
    "zoneinfo": [BERLIN, zoneinfo.ZoneInfo("UTC")],
    "uuid": uuid.UUID(int=5),
    "path": [pathlib.Path("/a/../b"), pathlib.PurePosixPath("x"), pathlib.PureWindowsPath("C:\\x\\y"), pathlib.Path()],
    "path surrogates": pathlib.PurePosixPath("a\udcff"),
    "pattern": [re.compile("a+(?P<n>b)", re.IGNORECASE | re.MULTILINE), re.compile(rb"\xff"), re.compile("(?x) a")],
    "ip": [ipaddress.ip_address(text) for text in ("127.0.0.1", "::1", "fe80::1%eth0")],
    "ip networks": [ipaddress.ip_network("10.0.0.0/8"), ipaddress.ip_interface("10.0.0.1/8"), ipaddress.ip_network("::/0")],
    "enum": [Colour.RED, Colour.GREEN, Colour.ALSO_RED],
    "enum with data": [Level.HIGH, Mode.ON, Mode("on")],
    "enum nested": Outer.Inner.X,
    "flag": [Bits.A | Bits.C, Bits(0), ~Bits.A, Bits.AB, Odd(9)],
    "dataclass": Point(1, Point((1,), {2})),
    "dataclass frozen slots": Frozen(Frozen(1), frozenset({"a"})),
    "dataclass post init": counted(),
    "dataclass generic": Box[int](1),
    "dataclass on dict": bag(),
    "namedtuple": [Pair(1, (2,)), Old(1, [2])],
    "children": [Text("a"), Whole(1 << 70), Real(-0.0), Raw(b"x"), Items([1, (2,)]), Mapping({1: 2}), Row((1,)), Fixed({1})],
    "child of set": [Members({1})],
    "model": Model(name="a", tags=("x",), at=dt.datetime(2024, 7, 1, tzinfo=BERLIN), other=Model(name="b", other={1: (2,)})),
    "model extra and private": loose(),
    "model with validators": Locked(v=4),
    "model generic": [Holder[int](item=1), Holder[Colour](item=Colour.RED), Holder[Holder[int]](item=Holder[int](item=2))],
    "model generic of alias": Holder[list[int]](item=[1]),
    "model generic bare": Holder(item=(1,)),
    "model root": Names(["a"]),
    "model constructed": Model.model_construct(tags=["not a tuple"]),
    "plain class": Account("a", 5),
    "send": Send("n", {"a": (1,)}, timeout=1.5),
    "command": Command(update={"a": 1}, goto=[Send("n", (1,)), "m"], resume={"q": None}, graph=Command.PARENT),
    "command without answer": Command(goto="x"),
    "no answer": NO_ANSWER,
    "interrupt": Interrupt(("a", 1), id="q", response_schema={"type": "string"}),
    "overwrite": Overwrite([1]),
    "task": PregelTask("i", "n", ("a", 1), interrupts=(Interrupt(1),)),
    "snapshot": StateSnapshot({"a": (1,)}, ("n",), {"configurable": {}}, None, None, None, (PregelTask("i", "n", ()),)),
    "policies": TimeoutPolicy(run_timeout=dt.timedelta(seconds=3)),
    "numpy array": np.arange(6, dtype=">i2").reshape(2, 3),
    "numpy fortran": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    "numpy strided": np.arange(10)[::2],
    "numpy kinds": [np.array([1], dtype=kind) for kind in ("?", "u1", "f2", "f4", "c16", "M8[ms]", "m8[s]", "U3", "S3")],
    "numpy empty": [np.zeros((0, 3)), np.zeros((2, 0), order="F"), np.array(5.0)],
    "numpy structured": np.array([("a", (1.0, 2.0), (3,))], dtype=[("n", "U2"), ("v", "<f8", (2,)), ("s", [("i", "<i4")])]),
    "numpy scalar": [np.float32(0.1), np.float64(0.1), np.int64(1), np.bool_(True), np.datetime64("2024-01-01", "us")],
    "numpy text": [np.str_("a\x00"), np.str_(""), np.bytes_(b"a\x00")],
    "numpy void": np.array([b"ab"], dtype="V2"),
    "numpy nan": np.array([math.nan, -0.0]),
}


def looks_same(a: Any, b: Any) -> bool:
    """Types and values at every depth that `repr` shows; it shows bits that `==` hides, as in -0.0."""
    if isinstance(a, np.ndarray):
        orders = [(array.flags.c_contiguous, array.flags.f_contiguous) for array in (a, b)]
        same_order = orders[0] == orders[1] or orders[0] == (False, False)
        return type(a) is type(b) and a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes() and same_order
    if isinstance(a, list) and type(a) is list:
        return type(b) is list and len(a) == len(b) and all(map(looks_same, a, b))
    if type(a) in (set, frozenset):  # two equal ones may come in another order, where hashes collide
        return type(b) is type(a) and sorted(map(repr, a)) == sorted(map(repr, b)) and bool(a == b)
    if isinstance(a, (float, complex)) and a != a:  # noqa: PLR0124
        return type(a) is type(b) and bits(a) == bits(b)
    is_signalling = isinstance(a, decimal.Decimal) and a.is_nan()
    return type(a) is type(b) and repr(a) == repr(b) and (is_signalling or bool(a == b))


def bits(value: complex) -> bytes:
    return struct.pack(">dd", value.real, value.imag)


@pytest.mark.parametrize("name", VALUES)
def test_P30_what_is_saved_is_what_is_loaded(name: str) -> None:
    value = VALUES[name]
    loaded = SERDE.loads_typed(SERDE.dumps_typed(value))
    assert looks_same(value, loaded), (value, loaded)


@pytest.mark.parametrize("name", VALUES)
def test_P30_inside_of_other_values_too(name: str) -> None:
    value = ({"k": [VALUES[name], {1: VALUES[name]}]},)
    loaded = SERDE.loads_typed(SERDE.dumps_typed(value))
    assert looks_same(VALUES[name], loaded[0]["k"][0])
    assert looks_same(VALUES[name], loaded[0]["k"][1][1])


@pytest.mark.parametrize("name", VALUES)
def test_the_same_value_gives_the_same_bytes(name: str) -> None:
    tag, data = SERDE.dumps_typed(VALUES[name])
    assert SERDE.dumps_typed(SERDE.loads_typed((tag, data))) == (tag, data)


def test_P30_the_tag_says_how() -> None:
    tags = [SERDE.dumps_typed(value)[0] for value in (None, b"", bytearray(), "", ())]
    assert tags == ["null", "bytes", "bytearray", "msgpack", "msgpack"]
    assert SERDE.dumps_typed(None) == ("null", b"")
    assert SERDE.dumps_typed(b"ab") == ("bytes", b"ab")


def test_P30_a_defaultdict_still_makes_defaults() -> None:
    loaded = SERDE.loads_typed(SERDE.dumps_typed(collections.defaultdict(list)))
    loaded["new"].append(1)
    assert loaded == {"new": [1]}


def test_P30_a_deque_keeps_its_bound() -> None:
    assert SERDE.loads_typed(SERDE.dumps_typed([collections.deque([1, 2], maxlen=2)]))[0].maxlen == 2


def test_P30_an_enum_member_is_the_member_itself() -> None:
    loaded = SERDE.loads_typed(SERDE.dumps_typed([Colour.RED, Outer.Inner.X, Level.HIGH, Bits.A]))
    assert all(a is b for a, b in zip(loaded, [Colour.RED, Outer.Inner.X, Level.HIGH, Bits.A], strict=True))


def test_P30_there_is_one_no_answer() -> None:
    assert SERDE.loads_typed(SERDE.dumps_typed(Command(goto="x"))).resume is NO_ANSWER


@pytest.mark.parametrize("readonly", [True, False])
def test_P30_memoryview(readonly: bool) -> None:
    value = memoryview(b"ab") if readonly else memoryview(bytearray(b"ab"))
    loaded = SERDE.loads_typed(SERDE.dumps_typed([value]))[0]
    assert type(loaded) is memoryview
    assert loaded == value
    assert loaded.readonly is readonly


def test_P30_a_model_keeps_what_pydantic_knows_of_it() -> None:
    before = loose()
    after = SERDE.loads_typed(SERDE.dumps_typed(before))
    assert after.model_fields_set == before.model_fields_set == {"b"}
    assert after.model_extra == {"b": (1, 2)}
    assert after._hidden == [3]
    assert SERDE.loads_typed(SERDE.dumps_typed(Model(name="a"))).model_fields_set == {"name"}


def test_P30_loading_runs_no_code_of_the_class() -> None:
    assert SERDE.loads_typed(SERDE.dumps_typed(Locked(v=4))).value == 8
    assert SERDE.loads_typed(SERDE.dumps_typed(Counted(2, seen=3))).total == 5


def test_P35_what_comes_out_is_detached() -> None:
    inner = [1]
    stored = SERDE.dumps_typed({"a": inner})
    inner.append(2)
    first = SERDE.loads_typed(stored)
    first["a"].append(3)
    assert SERDE.loads_typed(stored) == {"a": [1]}


def test_P30_the_retry_policy_of_this_library() -> None:
    policy = RetryPolicy(max_attempts=5, retry_on=())
    assert looks_same(policy, SERDE.loads_typed(SERDE.dumps_typed(policy)))


def test_bytes_of_database_drivers_are_taken() -> None:
    tag, data = SERDE.dumps_typed({"a": 1})
    assert SERDE.loads_typed((tag, bytearray(data))) == {"a": 1}  # type: ignore[arg-type]
    assert SERDE.loads_typed((tag, memoryview(data))) == {"a": 1}  # type: ignore[arg-type]
    assert SERDE.loads_typed(("bytes", memoryview(b"x"))) == b"x"  # type: ignore[arg-type]
