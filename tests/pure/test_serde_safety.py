"""Hostile bytes raise this library's errors, within bounded time and memory; data that looks like an envelope is data.

How long a test may take is the suite's own limit: what these inputs did before they were bounded would take far longer.
"""

from __future__ import annotations

import dataclasses
import os
import random
import struct
import subprocess
import sys
import tracemalloc
from typing import Any

import ormsgpack
import pytest

from perdure.checkpoint.serde import format_v1 as v1
from perdure.checkpoint.serde.depth import levels_of, nesting_of
from perdure.checkpoint.serde.jsonplus import JsonPlusSerializer
from perdure.errors import CorruptRecord, NotStorable, StateTypeError, UnknownFormat

SERDE = JsonPlusSerializer()


@dataclasses.dataclass
class Known:
    x: Any


KNOWN = JsonPlusSerializer(allowed_msgpack_modules=[Known])


def ext(code: int, payload: bytes | Any) -> bytes:
    data = payload if isinstance(payload, bytes) else ormsgpack.packb(payload)
    return b"\xc9" + struct.pack(">IB", len(data), code % 256) + data


def load(data: bytes, serde: JsonPlusSerializer = KNOWN) -> Any:
    return serde.loads_typed(("msgpack", data))


KNOWN_NAME = f"{Known.__module__}:Known"

BROKEN: dict[str, bytes] = {
    "empty": b"",
    "cut": ormsgpack.packb({"a": [1, 2]})[:-1],
    "left over": b"\x01\x02",
    "left over like the seal": b"\x01\xce\x00\x00\x00\x00",
    "reserved": b"\xc1",
    "bad utf-8": b"\xa1\xff",
    "int key": b"\x81\x01\x02",
    "huge array": b"\xdd\xff\xff\xff\xff",
    "huge map": b"\xdf\xff\xff\xff\xff",
    "huge bin": b"\xc6\xff\xff\xff\xff",
    "huge extension": b"\xc9\xff\xff\xff\xff\x01",
    "many lists": b"\x91" * 2_000 + b"\x01",
    "extension cut": ext(v1.TUPLE, b"\x92\x01"),
    "tuple of a dict": ext(v1.TUPLE, {"a": 1}),
    "set of lists": ext(v1.SET, [[1]]),
    "map of an odd number": ext(v1.MAP, [1, 2, 3]),
    "map of list keys": ext(v1.MAP, [[1], 2]),
    "text": ext(v1.TEXT, b"\xff"),
    "int of nothing": ext(v1.BIG_INT, b""),
    "int too long": ext(v1.BIG_INT, b"\x01" * 70_000),
    "memoryview": ext(v1.MEMORYVIEW, b"\x07a"),
    "complex": ext(v1.COMPLEX, b"123"),
    "ordered": ext(v1.ORDERED_DICT, [1]),
    "default": ext(v1.DEFAULT_DICT, [1, {}]),
    "counter": ext(v1.COUNTER, 5),
    "deque over its bound": ext(v1.DEQUE, [1, [1, 2]]),
    "deque bound": ext(v1.DEQUE, ["a", []]),
    "range": ext(v1.RANGE, [1, 2, 0]),
    "range of text": ext(v1.RANGE, ["a", 2, 0]),
    "datetime": ext(v1.DATETIME, [2024, 13, 1, 0, 0, 0, 0, 0, None]),
    "datetime zone": ext(v1.DATETIME, [2024, 1, 1, 0, 0, 0, 0, 0, "UTC"]),
    "date": ext(v1.DATE, [10**18, 1, 1]),
    "timedelta": ext(v1.TIMEDELTA, [10**18, 0, 0]),
    "timezone": ext(v1.TIMEZONE, [5, 0, 0, None]),
    "zone outside": ext(v1.ZONE, b"../../etc/passwd"),
    "zone absolute": ext(v1.ZONE, b"/etc/localtime."),
    "zone long": ext(v1.ZONE, b"a" * 101),
    "uuid": ext(v1.UUID, b"1"),
    "decimal": ext(v1.DECIMAL, b"1.x"),
    "decimal spelt differently": ext(v1.DECIMAL, b" 1 "),
    "decimal long": ext(v1.DECIMAL, b"1" * 70_000),
    "path": ext(v1.PATH, ["Popen", "a"]),
    "pattern": ext(v1.PATTERN, ["(", 0]),
    "pattern flags": ext(v1.PATTERN, ["a", 128]),
    "pattern nested": ext(v1.PATTERN, ["(?:" * 3_000 + ")" * 3_000, 0]),
    "pattern long": ext(v1.PATTERN, ["a" * 10_001, 0]),
    "patterns many": ormsgpack.packb([ormsgpack.Ext(v1.PATTERN, ormsgpack.packb([f"{n}", 0])) for n in range(5_000)]),
    "patterns slow": ext(v1.PATTERN, ["[\x00-\uffff]" * 501, 2]),
    "ip": ext(v1.IP, ["IPv4Address", "300.0.0.1"]),
    "ip class": ext(v1.IP, ["system", "ls"]),
    "array too short": ext(v1.NUMPY_ARRAY, ["<f8", [2], "C", b"12345678"]),
    "array huge": ext(v1.NUMPY_ARRAY, ["<f8", [1 << 60], "C", b""]),
    "array huge empty": ext(v1.NUMPY_ARRAY, ["<f8", [0, 1 << 62, 1 << 62], "C", b""]),
    "array of objects": ext(v1.NUMPY_ARRAY, ["|O8", [1], "C", b"12345678"]),
    "array dtype": ext(v1.NUMPY_ARRAY, ["i4,i4", [1], "C", b"12345678"]),
    "array dtype size": ext(v1.NUMPY_ARRAY, ["|V99999999", [0], "C", b""]),
    "array dtype deep": ext(v1.NUMPY_ARRAY, [[["a", [["a", [["a", [["a", [["a", [["a", [["a", [["a", [["a", "<f8"]]]]]]]]]]]]]]]]]], [0], "C", b""]),
    "array order": ext(v1.NUMPY_ARRAY, ["<f8", [1], "K", b"12345678"]),
    "array many dimensions": ext(v1.NUMPY_ARRAY, ["<f8", [1] * 65, "C", b"12345678"]),
    "scalar": ext(v1.NUMPY_SCALAR, ["<f8", b"1"]),
    "scalar kind": ext(v1.NUMPY_SCALAR, ["U", b"1"]),
    "fields": ext(v1.FIELDS, [KNOWN_NAME]),
    "fields of a list": ext(v1.FIELDS, [KNOWN_NAME, [1]]),
    "enum": ext(v1.ENUM, [KNOWN_NAME, 5]),
    "model": ext(v1.MODEL, [KNOWN_NAME, 1, 1, {}, 5, None]),
    "child": ext(v1.SUBCLASS, [KNOWN_NAME, 1, "a"]),
    "unknown code": ext(127, b""),
    "negative code": ext(-1, b"12345678"),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_P37_broken_bytes_raise_this_librarys_error_soon(name: str) -> None:
    for serde in (KNOWN, KNOWN.with_on_unknown("keep")):
        if name == "unknown code" and serde.on_unknown == "keep":
            assert serde.dumps_typed(load(BROKEN[name], serde))[1] == ormsgpack.packb(ormsgpack.Ext(*_code_of(BROKEN[name])))
            continue
        with pytest.raises(CorruptRecord):
            load(BROKEN[name], serde)


def _code_of(data: bytes) -> tuple[int, bytes]:
    return struct.unpack(">b", data[5:6])[0], data[6:]


HOSTILE = {
    "a name of Python": ext(v1.CUSTOM, ["os:system", "exit 1"]),
    "a name within a class": ext(v1.FIELDS, [f"{KNOWN_NAME}.__init__", {"x": 1}]),
    "a module of ours": ext(v1.FIELDS, ["perdure.checkpoint.serde.registry:Registry", {}]),
    "no name": ext(v1.FIELDS, [5, {"x": 1}]),
    "a generic of nothing": ext(v1.MODEL, [["a:B", "int"], 1, 1, {}, None, None]),
    "a deep generic": ext(v1.MODEL, [[KNOWN_NAME, [KNOWN_NAME, [KNOWN_NAME, [KNOWN_NAME, "int"]]]], 1, 1, {}, None, None]),
    "other fields": ext(v1.FIELDS, [KNOWN_NAME, {"x": 1, "__class__": "Other"}]),
    "special attributes": ext(v1.FIELDS, [KNOWN_NAME, {"__dict__": {"a": 1}}]),
    "another kind": ext(v1.NAMEDTUPLE, [KNOWN_NAME, {"x": 1}]),
    "an enum that is none": ext(v1.ENUM, [KNOWN_NAME, "__init__"]),
    "a factory": ext(v1.DEFAULT_DICT, ["os:getcwd", {}]),
    "a builtin factory": ext(v1.DEFAULT_DICT, ["eval", {}]),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_P37_names_in_data_reach_registered_classes_only(name: str) -> None:
    with pytest.raises(StateTypeError):
        load(HOSTILE[name])


def test_P37_loading_imports_nothing_that_data_names() -> None:
    code = (
        "import sys\n"
        "from perdure.checkpoint.serde.jsonplus import JsonPlusSerializer\n"
        "from perdure.errors import StateTypeError\n"
        "data = bytes.fromhex(sys.argv[1])\n"
        "try: JsonPlusSerializer(allowed_msgpack_modules=[('xml.dom.minidom', 'Document')]).loads_typed(('msgpack', data))\n"
        "except StateTypeError: print('xml' in sys.modules, 'numpy' in sys.modules, 'pydantic' in sys.modules)"
    )
    data = ext(v1.FIELDS, ["xml.dom.minidom:Document", {}]).hex()
    ran = subprocess.run([sys.executable, "-c", code, data], capture_output=True, text=True, check=True, env=os.environ)
    assert ran.stdout.split() == ["False", "False", "False"]


def test_P37_unknown_tags() -> None:
    with pytest.raises(UnknownFormat):
        SERDE.loads_typed(("msgpack2", b""))
    with pytest.raises(UnknownFormat):
        SERDE.loads_typed(("json", b"{}"))
    with pytest.raises(CorruptRecord):
        SERDE.loads_typed(("null", b"x"))
    for record in (("msgpack", "text"), ("msgpack", 10**12), ("msgpack", None), None, ("a",)):
        with pytest.raises(CorruptRecord):
            SERDE.loads_typed(record)  # type: ignore[arg-type]


def in_small_process(code: str) -> str:
    """Runs code that would overflow the stack if it went wrong, which ends a process without an exception."""
    code = "from perdure.checkpoint.serde.jsonplus import JsonPlusSerializer\nfrom perdure.errors import *\n" + code
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=os.environ)
    return f"{ran.returncode} {ran.stdout.strip()}"


@pytest.mark.parametrize("keep", ["raise", "keep"])
@pytest.mark.parametrize("inner", [1, 30, 500, 1_000])
@pytest.mark.parametrize("head", [b"\x91", b"\x81\xa1a", b"\xc0\x91"])
def test_P37_nesting_does_not_overflow_the_stack(head: bytes, inner: int, keep: str) -> None:
    if head[0] == 0xC0:
        head = b"\x92" + head
    out = in_small_process(
        "import struct, threading\n"
        "threading.stack_size(4 << 20)\n"
        "data = b'\\x01'\n"
        "for _ in range(200):\n"
        f"    data = {head!r} * {inner} + data\n"
        "    data = b'\\xc9' + struct.pack('>IB', len(data), 1) + data\n"
        "def run():\n"
        f"    try: JsonPlusSerializer(on_unknown={keep!r}).loads_typed(('msgpack', data))\n"
        "    except CorruptRecord: print('refused')\n"
        "thread = threading.Thread(target=run); thread.start(); thread.join()\n"
    )
    assert out == "0 refused"


def test_P37_payloads_within_payloads_take_bounded_memory() -> None:
    data = b"\xc6" + struct.pack(">I", 1 << 20) + b"x" * (1 << 20)
    for _ in range(60):
        data = ext(v1.TUPLE, b"\x91" + data)
    tracemalloc.start()
    with pytest.raises(CorruptRecord, match="nested deeper"):
        load(data)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < (v1.MAX_COPIES + 4) * len(data)


def test_P37_colliding_hashes_do_not_take_quadratic_time() -> None:
    modulus = (1 << 61) - 1
    clashing = [ormsgpack.Ext(v1.BIG_INT, (n * modulus).to_bytes(12, "big")) for n in range(1 << 6, 60_000)]
    for code, items in (
        (v1.SET, clashing),
        (v1.FROZENSET, clashing),
        (v1.MAP, [part for key in clashing for part in (key, 1)]),
    ):
        with pytest.raises(CorruptRecord, match="collide"):
            load(ormsgpack.packb(ormsgpack.Ext(code, ormsgpack.packb(items))))


def test_P30_honest_sets_may_be_large() -> None:
    value = {*range(-5_000, 5_000), *(n / 8 for n in range(5_000)), *((n, -n) for n in range(5_000))}
    assert SERDE.loads_typed(SERDE.dumps_typed(value)) == value


def test_P30_patterns_are_bounded_when_saved_as_when_loaded() -> None:
    import re

    many = [re.compile(f"a{n}") for n in range(2_000)]
    with pytest.raises(NotStorable, match="bounded"):
        SERDE.dumps_typed(many)
    assert SERDE.loads_typed(SERDE.dumps_typed(many[:1_000])) == many[:1_000]


def test_P37_the_slowest_patterns_that_are_allowed_take_seconds_not_minutes() -> None:
    load(ext(v1.PATTERN, ["[\x00-\uffff]" * v1.MAX_PATTERN_RANGES, 2]))


def test_P37_random_damage_never_raises_anything_else() -> None:
    source = random.Random(5)
    samples = [KNOWN.dumps_typed(value)[1] for value in _rich_values()]
    for round_ in range(4_000):
        data = bytearray(samples[round_ % len(samples)])
        for _ in range(source.randint(1, 4)):
            action = source.random()
            at = source.randrange(len(data)) if data else 0
            if action < 0.6 and data:
                data[at] = source.randrange(256)
            elif action < 0.8:
                del data[at : at + source.randint(1, 8)]
            else:
                data[at:at] = source.randbytes(source.randint(1, 8))
        for serde in (KNOWN, KNOWN.with_on_unknown("keep")):
            try:
                load(bytes(data), serde)
            except (CorruptRecord, StateTypeError):
                pass


def _rich_values() -> list[Any]:
    import collections
    import datetime as dt
    import decimal
    import ipaddress
    import pathlib
    import re
    import uuid

    import numpy as np

    from perdure.types import Command, Interrupt, Send

    parts = [
        (1, {2, "a"}, {1: 2}, 1 << 80, bytearray(b"x"), 1j),
        [
            collections.Counter("aab"),
            collections.deque([1], 2),
            collections.defaultdict(int, a=1),
            collections.OrderedDict(a=1),
        ],
        [dt.datetime(2024, 1, 1, tzinfo=dt.timezone.utc), dt.timedelta(1), dt.time(1), dt.date(2024, 1, 1)],
        [
            decimal.Decimal("1.5"),
            uuid.UUID(int=1),
            pathlib.PurePosixPath("a"),
            re.compile("[a-z]+"),
            ipaddress.ip_address("::1"),
        ],
        [np.arange(4).reshape(2, 2), np.float32(1), np.str_("a")],
        [Known((1,)), Send("a", {1: 1}), Command(update={"a": 1}, goto="b"), Interrupt(1)],
    ]
    return [*parts, parts]


ENVELOPES = [
    {"lc": 2, "type": "constructor", "id": ["os", "system"], "kwargs": {}},
    {"__type__": "set", "value": [1]},
    {"py/object": "os.system"},
    {"$type": "datetime", "$date": "2024-01-01"},
    ["os", "system", ["ls"], "fromisoformat"],
    {"type": "msgpack", "data": "", "code": 1},
    {"": {"__class__": "x"}, "__reduce__": ["a"]},
    "\xc7\x01",
    b"\xc7\x01\x01",
    ("perdure:Send", "n", 1),
    [49, "perdure:Send", {"node": "n", "arg": 1, "timeout": None}],
]


@pytest.mark.parametrize("value", ENVELOPES, ids=repr)
def test_P38_what_looks_like_an_envelope_is_plain_data(value: Any) -> None:
    loaded = SERDE.loads_typed(SERDE.dumps_typed([value]))[0]
    assert type(loaded) is type(value)
    assert loaded == value


def test_levels_are_counted_as_the_decoder_does() -> None:
    values: list[Any] = [
        1,
        [],
        {},
        [[]],
        {"a": [1, {"b": []}]},
        [[1], [2, [3]]],
        ["x" * 40, b"y" * 300, [1.5]],
        [2**40, [-(2**40)]],
    ]
    depths = [0, 1, 1, 2, 4, 3, 2, 2]
    assert [levels_of(ormsgpack.packb(value)) for value in values] == depths
    assert levels_of(ormsgpack.packb([list(range(70_000)), "é" * 70_000, [[]]])) == 3
    assert levels_of(ormsgpack.packb({f"k{n}": [n] for n in range(70_000)})) == 2
    nested = nesting_of(SERDE.dumps_typed((([[(1,)]],),))[1])
    assert (nested.extensions, nested.levels) == (3, 1 + 2 + 1)
