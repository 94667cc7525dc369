"""Values of Python itself: containers, numbers, dates, paths. What is heavy to import is imported when such a value is met."""

from __future__ import annotations

import sys
from collections import Counter, OrderedDict, defaultdict, deque
from datetime import date, datetime, time, timedelta, timezone, tzinfo
from struct import Struct
from typing import Any, Final

from ormsgpack import Ext

from perdure.checkpoint.serde import format_v1 as v1
from perdure.checkpoint.serde.decode import Decoder, Load, Unloadable
from perdure.checkpoint.serde.encode import Dump, Encoder, Refused
from perdure.checkpoint.serde.unresolved import Unresolved
from perdure.errors import CorruptRecord

_COMPLEX: Final = Struct(">dd")

FACTORIES: Final[dict[str, type]] = {
    kind.__name__: kind
    for kind in (
        list, dict, set, frozenset, tuple, str, bytes, bytearray, int, float, bool, complex, object, Counter, OrderedDict, deque, defaultdict,
    )
}  # fmt: skip
"""Built-in classes that may be a defaultdict's factory, or an argument of a generic model."""
_FACTORY_NAMES: Final = {kind: name for name, kind in FACTORIES.items()}


def check_hashes(members: list[Any]) -> None:
    """Bounds the time that a set or dict of these members takes: hashes of numbers and tuples can be made to collide.

    Raises:
        CorruptRecord: so many collide that it would be quadratic.
    """
    if len(members) > 256 and sum(count * count for count in Counter(map(hash, members)).values()) > 256 * len(members):
        raise CorruptRecord("stored bytes are damaged: the members of a set, or the keys of a dict, were made to collide")


def _items(dec: Decoder, payload: bytes) -> list[Any]:
    return dec.parts(payload, 0, sys.maxsize)


def _members(dec: Decoder, payload: bytes) -> list[Any]:
    members = _items(dec, payload)
    check_hashes(members)
    return members


def _load_map(dec: Decoder, payload: bytes) -> dict[Any, Any]:
    flat = _items(dec, payload)
    keys = flat[::2]
    check_hashes(keys)
    return dict(zip(keys, flat[1::2], strict=True))


def _dict(value: Any) -> dict[Any, Any]:
    if type(value) is not dict:
        raise CorruptRecord("stored bytes are damaged: a dict is missing")
    return value


def _tz(value: Any) -> tzinfo | None:
    if value is None or isinstance(value, tzinfo):
        return value
    if isinstance(value, Unresolved):
        raise Unloadable(value.name, value.reason)
    raise CorruptRecord("stored bytes are damaged: a time zone is missing")


# --- containers


def _dump_tuple(enc: Encoder, value: tuple[Any, ...]) -> Ext:
    return Ext(v1.TUPLE, enc.pack(list(value)))


def _dump_set(enc: Encoder, value: set[Any]) -> Ext:
    return Ext(v1.SET, enc.pack_members(value))


def _dump_frozenset(enc: Encoder, value: frozenset[Any]) -> Ext:
    return Ext(v1.FROZENSET, enc.pack_members(value))


def _dump_ordered(enc: Encoder, value: OrderedDict[Any, Any]) -> Ext:
    return Ext(v1.ORDERED_DICT, enc.pack(dict(value)))


def _dump_counter(enc: Encoder, value: Counter[Any]) -> Ext:
    return Ext(v1.COUNTER, enc.pack(dict(value)))


def _dump_default(enc: Encoder, value: defaultdict[Any, Any]) -> Ext:
    factory = value.default_factory
    name = None
    if factory is not None:
        name = _FACTORY_NAMES.get(factory) if isinstance(factory, type) else None
        if name is None and isinstance(factory, type):
            name = enc.classes.name_of(factory)
        if name is None:
            raise Refused(
                "cannot be stored: its default_factory is a function, which could not be loaded back; "
                "use a class such as list, int, dict or set, or convert the value to a dict"
            )
    return Ext(v1.DEFAULT_DICT, enc.pack_parts((name,), (), dict(value)))


def _load_default(dec: Decoder, payload: bytes) -> defaultdict[Any, Any]:
    name, items = dec.parts(payload, 2, 2)
    if name is not None and type(name) is not str:
        raise CorruptRecord("stored bytes are damaged: a defaultdict's factory is no name")
    factory = None if name is None else FACTORIES.get(name) or dec.class_named(name)
    return defaultdict(factory, _dict(items))


def _dump_deque(enc: Encoder, value: deque[Any]) -> Ext:
    return Ext(v1.DEQUE, enc.pack_parts((value.maxlen,), (), list(value)))


def _load_deque(dec: Decoder, payload: bytes) -> deque[Any]:
    maxlen, items = dec.parts(payload, 2, 2)
    if type(items) is not list or (maxlen is not None and (type(maxlen) is not int or len(items) > maxlen)):
        raise CorruptRecord("stored bytes are damaged: a deque does not fit its maxlen")
    return deque(items, maxlen)


def _dump_range(enc: Encoder, value: range) -> Ext:
    return Ext(v1.RANGE, enc.pack([value.start, value.stop, value.step]))


def _dump_slice(enc: Encoder, value: slice) -> Ext:
    return Ext(v1.SLICE, enc.pack([value.start, value.stop, value.step]))


# --- numbers and bytes


def _dump_int(_enc: Encoder, value: int) -> Ext:
    # One bit more for the sign.
    size = (value + (value < 0)).bit_length() // 8 + 1
    if size > v1.MAX_INT_BYTES:
        raise Refused(f"cannot be stored: an int of {size} bytes, more than {v1.MAX_INT_BYTES}; store it as bytes")
    return Ext(v1.BIG_INT, value.to_bytes(size, "big", signed=True))


def _load_int(_dec: Decoder, payload: bytes) -> int:
    if not 0 < len(payload) <= v1.MAX_INT_BYTES:
        raise CorruptRecord("stored bytes are damaged: an int of impossible length")
    return int.from_bytes(payload, "big", signed=True)


def _dump_memoryview(_enc: Encoder, value: memoryview) -> Ext:
    if value.format != "B" or value.ndim != 1:
        raise Refused("cannot be stored: a memoryview of other items than bytes; store its tobytes(), or a numpy array")
    return Ext(v1.MEMORYVIEW, bytes((not value.readonly,)) + value.tobytes())


def _load_memoryview(_dec: Decoder, payload: bytes) -> memoryview:
    if payload[:1] not in (b"\x00", b"\x01"):
        raise CorruptRecord("stored bytes are damaged: a memoryview without its first byte")
    return memoryview(bytearray(payload[1:]) if payload[0] else payload[1:])


def _dump_decimal(_enc: Encoder, value: Any) -> Ext:
    text = str(value)
    if len(text) > v1.MAX_DECIMAL_TEXT:
        raise Refused(f"cannot be stored: a Decimal of {len(text)} digits, more than {v1.MAX_DECIMAL_TEXT}")
    return Ext(v1.DECIMAL, text.encode("ascii"))


def _load_decimal(_dec: Decoder, payload: bytes) -> Any:
    from decimal import Decimal

    if len(payload) > v1.MAX_DECIMAL_TEXT:
        raise CorruptRecord("stored bytes are damaged: a Decimal of impossible length")
    text = payload.decode("ascii")
    value = Decimal(text)
    # With the trap switched off, Decimal gives NaN for what it cannot read.
    if str(value) != text:
        raise CorruptRecord("stored bytes are damaged: a Decimal that is none")
    return value


def _dump_uuid(_enc: Encoder, value: Any) -> Ext:
    return Ext(v1.UUID, value.bytes)


def _load_uuid(_dec: Decoder, payload: bytes) -> Any:
    from uuid import UUID

    return UUID(bytes=payload)


# --- dates and times


def _dump_datetime(enc: Encoder, value: datetime) -> Ext:
    clock = (value.hour, value.minute, value.second, value.microsecond, value.fold)
    return Ext(v1.DATETIME, enc.pack_parts((value.year, value.month, value.day, *clock), (), value.tzinfo))


def _load_datetime(dec: Decoder, payload: bytes) -> datetime:
    year, month, day, hour, minute, second, micro, fold, zone = dec.parts(payload, 9, 9)
    return datetime(year, month, day, hour, minute, second, micro, _tz(zone), fold=fold)


def _dump_time(enc: Encoder, value: time) -> Ext:
    clock = (value.hour, value.minute, value.second, value.microsecond, value.fold)
    return Ext(v1.TIME, enc.pack_parts(clock, (), value.tzinfo))


def _load_time(dec: Decoder, payload: bytes) -> time:
    hour, minute, second, micro, fold, zone = dec.parts(payload, 6, 6)
    return time(hour, minute, second, micro, _tz(zone), fold=fold)


def _dump_date(enc: Encoder, value: date) -> Ext:
    return Ext(v1.DATE, enc.pack([value.year, value.month, value.day]))


def _load_timedelta(dec: Decoder, payload: bytes) -> timedelta:
    days, seconds, micros = dec.parts(payload, 3, 3)
    return timedelta(days, seconds, micros)


def _dump_timedelta(enc: Encoder, value: timedelta) -> Ext:
    return Ext(v1.TIMEDELTA, enc.pack([value.days, value.seconds, value.microseconds]))


def _dump_timezone(enc: Encoder, value: timezone) -> Ext:
    # The only public way to tell a given name from a made-up one.
    offset, *name = value.__getinitargs__()  # type: ignore[attr-defined]
    return Ext(v1.TIMEZONE, enc.pack([offset.days, offset.seconds, offset.microseconds, *(name or (None,))]))


def _load_timezone(dec: Decoder, payload: bytes) -> timezone:
    days, seconds, micros, name = dec.parts(payload, 4, 4)
    offset = timedelta(days, seconds, micros)
    return timezone(offset) if name is None else timezone(offset, name)


_ZONE_LETTERS: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_+-/")


def _dump_zone(_enc: Encoder, value: Any) -> Ext:
    key = value.key
    try:
        value.__reduce__()
    except Exception as error:
        raise Refused("cannot be stored: a ZoneInfo read from a file has no key to find it by") from error
    if not key or not _ZONE_LETTERS.issuperset(key):
        raise Refused(f"cannot be stored: {key!r} is no key of the IANA time zone database")
    return Ext(v1.ZONE, key.encode("ascii"))


def _load_zone(_dec: Decoder, payload: bytes) -> tzinfo:
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    key = payload.decode("ascii")
    # The key becomes a path below the zone database; without dots it cannot leave it.
    if not 0 < len(key) <= 100 or not _ZONE_LETTERS.issuperset(key):
        raise CorruptRecord("stored bytes are damaged: a time zone's key has impossible letters")
    try:
        return ZoneInfo(key)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise Unloadable("zoneinfo:ZoneInfo", f"this system has no time zone {key!r} (pip install tzdata)", key) from error


# --- paths, patterns, addresses


def _dump_path(enc: Encoder, value: Any) -> Ext:
    return Ext(v1.PATH, enc.pack([type(value).__name__, str(value)]))


def _load_path(dec: Decoder, payload: bytes) -> Any:
    import pathlib

    classes = {
        "PosixPath": pathlib.PosixPath,
        "WindowsPath": pathlib.WindowsPath,
        "PurePosixPath": pathlib.PurePosixPath,
        "PureWindowsPath": pathlib.PureWindowsPath,
    }
    name, text = dec.parts(payload, 2, 2)
    if type(name) is not str or name not in classes or type(text) is not str:
        raise CorruptRecord("stored bytes are damaged: a path that is none")
    try:
        return classes[name](text)
    except NotImplementedError as error:
        raise Unloadable(f"pathlib:{name}", "this system has no such paths; store a PurePath", text) from error


_PATTERN_FLAGS: Final = 0x17E
"""ASCII, DOTALL, IGNORECASE, LOCALE, MULTILINE, UNICODE, VERBOSE; not DEBUG, which prints."""


def _count_pattern(counts: list[int], pattern: Any) -> bool:
    """Adds a pattern to those of a record, and tells whether they are within the bounds."""
    counts[0] += len(pattern) + 8
    counts[1] += pattern.count("-" if isinstance(pattern, str) else b"-")
    return len(pattern) <= v1.MAX_PATTERN and counts[0] <= v1.MAX_PATTERN_TOTAL and counts[1] <= v1.MAX_PATTERN_RANGES


def _dump_pattern(enc: Encoder, value: Any) -> Ext:
    if type(value.pattern) not in (str, bytes):
        raise Refused("cannot be stored: the text of this pattern is no plain str or bytes")
    if value.flags & ~_PATTERN_FLAGS:
        raise Refused("cannot be stored: a pattern compiled with DEBUG")
    if not _count_pattern(enc.patterns, value.pattern):
        raise Refused(
            f"cannot be stored: regular expressions are bounded to {v1.MAX_PATTERN} characters each, and to "
            f"{v1.MAX_PATTERN_TOTAL} characters and {v1.MAX_PATTERN_RANGES} ranges in one value; store the pattern's text"
        )
    return Ext(v1.PATTERN, enc.pack([value.pattern, value.flags]))


def _load_pattern(dec: Decoder, payload: bytes) -> Any:
    import re

    pattern, flags = dec.parts(payload, 2, 2)
    if type(pattern) not in (str, bytes) or type(flags) is not int or flags & ~_PATTERN_FLAGS:
        raise CorruptRecord("stored bytes are damaged: a regular expression that is none")
    if not _count_pattern(dec.patterns, pattern):
        raise CorruptRecord("stored bytes are damaged: more regular expressions than this library writes")
    return re.compile(pattern, flags)


def _dump_ip(enc: Encoder, value: Any) -> Ext:
    return Ext(v1.IP, enc.pack([type(value).__name__, str(value)]))


def _load_ip(dec: Decoder, payload: bytes) -> Any:
    import ipaddress as ip

    kinds = (ip.IPv4Address, ip.IPv4Interface, ip.IPv4Network, ip.IPv6Address, ip.IPv6Interface, ip.IPv6Network)
    name, text = dec.parts(payload, 2, 2)
    for kind in kinds:
        if kind.__name__ == name and type(text) is str:
            return kind(text)
    raise CorruptRecord("stored bytes are damaged: an IP address that is none")


def _dump_unresolved(enc: Encoder, value: Unresolved) -> Ext:
    if value.code is None:
        raise Refused("cannot be stored: it is a whole record that was not readable, and can only be saved as one")
    # Its nesting is unknown, so the record's is counted.
    enc.deepest = v1.MAX_NESTED
    return Ext(value.code, value.payload)


DUMPS: Final[dict[type, Dump]] = {
    tuple: _dump_tuple,
    set: _dump_set,
    frozenset: _dump_frozenset,
    OrderedDict: _dump_ordered,
    Counter: _dump_counter,
    defaultdict: _dump_default,
    deque: _dump_deque,
    range: _dump_range,
    slice: _dump_slice,
    int: _dump_int,
    complex: lambda _enc, value: Ext(v1.COMPLEX, _COMPLEX.pack(value.real, value.imag)),
    bytearray: lambda _enc, value: Ext(v1.BYTEARRAY, bytes(value)),
    memoryview: _dump_memoryview,
    datetime: _dump_datetime,
    date: _dump_date,
    time: _dump_time,
    timedelta: _dump_timedelta,
    timezone: _dump_timezone,
    Unresolved: _dump_unresolved,
}

LATE_DUMPS: Final[dict[tuple[str, str], Dump]] = {
    ("decimal", "Decimal"): _dump_decimal,
    ("uuid", "UUID"): _dump_uuid,
    ("zoneinfo", "ZoneInfo"): _dump_zone,
    ("re", "Pattern"): _dump_pattern,
    **{
        (module, name): _dump_path
        for module in ("pathlib", "pathlib._local")
        for name in ("PosixPath", "WindowsPath", "PurePosixPath", "PureWindowsPath")
    },
    **{("ipaddress", f"IPv{version}{kind}"): _dump_ip for version in "46" for kind in ("Address", "Interface", "Network")},
}
"""By module and name, so that nothing need be imported to know them."""

LOADS: Final[dict[int, Load]] = {
    v1.TUPLE: lambda dec, payload: tuple(_items(dec, payload)),
    v1.SET: lambda dec, payload: set(_members(dec, payload)),
    v1.FROZENSET: lambda dec, payload: frozenset(_members(dec, payload)),
    v1.MAP: _load_map,
    v1.TEXT: lambda _dec, payload: payload.decode("utf-8", "surrogatepass"),
    v1.BIG_INT: _load_int,
    v1.BYTEARRAY: lambda _dec, payload: bytearray(payload),
    v1.MEMORYVIEW: _load_memoryview,
    v1.COMPLEX: lambda _dec, payload: complex(*_COMPLEX.unpack(payload)),
    v1.ORDERED_DICT: lambda dec, payload: OrderedDict(_dict(dec.unpack(payload))),
    v1.DEFAULT_DICT: _load_default,
    v1.COUNTER: lambda dec, payload: Counter(_dict(dec.unpack(payload))),
    v1.DEQUE: _load_deque,
    v1.RANGE: lambda dec, payload: range(*dec.parts(payload, 3, 3)),
    v1.SLICE: lambda dec, payload: slice(*dec.parts(payload, 3, 3)),
    v1.DATETIME: _load_datetime,
    v1.DATE: lambda dec, payload: date(*dec.parts(payload, 3, 3)),
    v1.TIME: _load_time,
    v1.TIMEDELTA: _load_timedelta,
    v1.TIMEZONE: _load_timezone,
    v1.ZONE: _load_zone,
    v1.UUID: _load_uuid,
    v1.DECIMAL: _load_decimal,
    v1.PATH: _load_path,
    v1.PATTERN: _load_pattern,
    v1.IP: _load_ip,
}
