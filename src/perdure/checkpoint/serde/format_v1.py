"""Format version 1: the tags, the extension codes, the limits. Data once written stays readable, so nothing here may change.

A stored value is a tag and bytes. A later version of the format gets new tags; a reader that meets an unknown tag says UnknownFormat.

    tag         bytes
    null        none; the value None
    bytes       the value itself
    bytearray   the value itself
    msgpack     this format, version 1
    pickle      a pickle; written and read only with `pickle_fallback=True`

"msgpack" is MessagePack. Its own types carry exactly these: nil None, bool, int within 64 bits, float64 float, str str (valid UTF-8),
bin bytes, array list, map dict whose keys are all plain str. All else is an extension type, so no plain data can look like one.
"array [...]" below means that the payload is itself MessagePack of this format; codes not listed are free.

    code  value            payload
    1     tuple            array of the items
    2     set              array of the members, sorted by their bytes
    3     frozenset        the same
    4     dict             array key, value, key, value, ... (a key is not a plain str of valid UTF-8)
    5     str              UTF-8 in which lone surrogates are encoded too ("surrogatepass")
    6     int              beyond 64 bits: two's complement, big-endian, shortest
    7     bytearray        the bytes
    8     memoryview       a byte 0 (read-only) or 1 (writable), then the bytes
    9     complex          two float64, big-endian
    10    OrderedDict      a dict
    11    defaultdict      array [factory: nil or name, dict]
    12    Counter          a dict
    13    deque            array [maxlen: nil or int, array of the items]
    14    range            array [start, stop, step]
    15    slice            array [start, stop, step]
    16    datetime         array [year, month, day, hour, minute, second, microsecond, fold, tzinfo or nil]
    17    date             array [year, month, day]
    18    time             array [hour, minute, second, microsecond, fold, tzinfo or nil]
    19    timedelta        array [days, seconds, microseconds]
    20    timezone         array [days, seconds, microseconds of the offset, name or nil]
    21    ZoneInfo         the key, UTF-8
    22    UUID             16 bytes
    23    Decimal          its text, ASCII
    24    pathlib path     array [class name, text]
    25    re.Pattern       array [pattern: str or bytes, flags]
    26    ipaddress        array [class name, text]
    32    numpy array      array [dtype, array of the shape, "C" or "F", bytes]
    33    numpy scalar     array [dtype, bytes]; of str_ and bytes_ array ["U" or "S", value]
    48    enum member      array [type, name]; with a data type mixed in array [type, name, value]; Flag: array [type, array of names, value]
    49    object of fields array [type, map of fields]                                  (dataclasses, Send, classes with declared fields)
    50    namedtuple       array [type, map of fields]
    51    pydantic model   array [type, fingerprint, set-mask, map of fields, extra or nil, private or nil]
    52    built-in's child array [type, map of attributes or nil, value as the built-in type]
    53    custom           array [type, what the registered encoder returned]

A dtype is its text, as in "<f8", or an array of fields array [name, dtype] or array [name, dtype, array of a shape].
A type is the name it was registered by, "module:Qualified.Name" if not chosen; of a parametrised pydantic model array [type, argument, ...].
A fingerprint is the CRC-32 of the model's field names and annotations: data of another fingerprint is validated when it is loaded.
Bit i of a set-mask says that the i-th name of fields, then extra, was set explicitly.
"""

from __future__ import annotations

from typing import Final

TAG_NULL: Final = "null"
TAG_BYTES: Final = "bytes"
TAG_BYTEARRAY: Final = "bytearray"
TAG_MSGPACK: Final = "msgpack"
TAG_PICKLE: Final = "pickle"

TUPLE: Final = 1
SET: Final = 2
FROZENSET: Final = 3
MAP: Final = 4
TEXT: Final = 5
BIG_INT: Final = 6
BYTEARRAY: Final = 7
MEMORYVIEW: Final = 8
COMPLEX: Final = 9
ORDERED_DICT: Final = 10
DEFAULT_DICT: Final = 11
COUNTER: Final = 12
DEQUE: Final = 13
RANGE: Final = 14
SLICE: Final = 15
DATETIME: Final = 16
DATE: Final = 17
TIME: Final = 18
TIMEDELTA: Final = 19
TIMEZONE: Final = 20
ZONE: Final = 21
UUID: Final = 22
DECIMAL: Final = 23
PATH: Final = 24
PATTERN: Final = 25
IP: Final = 26
NUMPY_ARRAY: Final = 32
NUMPY_SCALAR: Final = 33
ENUM: Final = 48
FIELDS: Final = 49
NAMEDTUPLE: Final = 50
MODEL: Final = 51
SUBCLASS: Final = 52
CUSTOM: Final = 53

CLASS_CODES: Final = frozenset({ENUM, FIELDS, NAMEDTUPLE, MODEL, SUBCLASS, CUSTOM})
"""Codes whose payload begins with the name of a registered type."""

RAW_CODES: Final = frozenset({TEXT, BIG_INT, BYTEARRAY, MEMORYVIEW, COMPLEX, ZONE, UUID, DECIMAL})
"""Codes whose payload is not MessagePack."""

MAX_NESTED: Final = 64
"""How deep extensions may lie inside each other."""

FREE_REGIONS: Final = 2
MAX_LEVELS: Final = 1024
"""Bounds of the C stack that loading may use. The decoder takes about 600 bytes of it for a level of arrays and maps and stops at 1,023
levels, but starts to count afresh in each extension: 16 extensions of 1,000 levels overflow a stack of 8 MB. So below the first
FREE_REGIONS extensions the levels are counted before decoding, and MAX_LEVELS in sum are allowed. Saving keeps the same bound."""

MAX_COPIES: Final = 32
"""Each extension's payload is copied out of the one around it: the payloads open at one time may be this many times the record."""

MAX_INT_BYTES: Final = 65_536
MAX_DECIMAL_TEXT: Final = 65_536
"""Arithmetic on longer numbers is quadratic, and loading may have to compare them."""

MAX_PATTERN: Final = 10_000
MAX_PATTERN_TOTAL: Final = 20_000
MAX_PATTERN_RANGES: Final = 500
"""Of regular expressions: characters in one, characters in all of a record, ranges ("a-z") in all of a record. Compiling one range
can take 4 ms, so these keep a hostile record under some seconds."""

MAX_ITEMSIZE: Final = 1 << 24
"""Bytes of one element of a numpy array."""
