"""Values to MessagePack: a fast way that hands the whole value to C, and an exact way that walks it.

The fast way is one `packb`, with a hook for what MessagePack does not have. Three things escape it: dicts with keys that are no plain
str and text with lone surrogates make it fail; bytearray and memoryview look like bytes to it. In those cases, and to name the path of
a value that is refused, the exact way starts from the top. Both share the codecs, so plain data comes out as the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any, Final, Protocol, cast

import ormsgpack

from perdure.checkpoint.serde import format_v1 as v1
from perdure.checkpoint.serde.depth import nesting_of
from perdure.checkpoint.serde.stored_error import text_of
from perdure.errors import NotStorable

OPTIONS: Final = (
    ormsgpack.OPT_PASSTHROUGH_TUPLE
    | ormsgpack.OPT_PASSTHROUGH_SUBCLASS
    | ormsgpack.OPT_PASSTHROUGH_BIG_INT
    | ormsgpack.OPT_PASSTHROUGH_DATACLASS
    | ormsgpack.OPT_PASSTHROUGH_DATETIME
    | ormsgpack.OPT_PASSTHROUGH_UUID
    | ormsgpack.OPT_PASSTHROUGH_ENUM
)
packb: Final = ormsgpack.packb
Ext: Final = ormsgpack.Ext

NATIVE_LEVELS: Final = 255
"""Arrays and maps inside each other that one `packb` takes."""

_RAW_TYPES: Final = frozenset({bytearray, memoryview, ormsgpack.Ext, ormsgpack.Fragment})
_PLAIN: Final = frozenset({type(None), bool, int, float, str, bytes})


class Refused(Exception):
    """A codec says why a value cannot be stored; the encoder adds where it is."""


class Encoder(Protocol):
    """What a codec may use to write the parts of its value."""

    patterns: list[int]
    """Characters and ranges of the regular expressions so far."""
    deepest: int
    """The deepest nesting of extensions so far."""
    classes: Classes

    def pack(self, value: Any) -> bytes:
        """A value that stands for the whole."""
        ...

    def pack_parts(self, head: Sequence[Any], fields: Sequence[Mapping[str, Any] | None] = (), *body: Any) -> bytes:
        """An array of plain `head`, maps of attributes, and `body`, which stands for the whole."""
        ...

    def pack_members(self, members: Iterable[Any]) -> bytes:
        """An array of the members in the order of their bytes."""
        ...


Dump = Callable[[Encoder, Any], ormsgpack.Ext]


class Classes(Protocol):
    """What an encoder must know about classes; the registry knows it."""

    def dump_of(self, cls: type) -> Dump:
        """How instances of a class are written. Raises Refused if they are not."""
        ...

    def name_of(self, cls: type) -> str | None:
        """The stored name of a registered class."""
        ...


def array_head(count: int) -> bytes:
    """The bytes that begin an array."""
    if count < 16:
        return bytes((0x90 | count,))
    if count < 0x10000:
        return b"\xdc" + count.to_bytes(2, "big")
    return b"\xdd" + count.to_bytes(4, "big")


def encode(value: Any, table: dict[type, Dump], classes: Classes) -> bytes:
    """The bytes of a value under the tag "msgpack".

    Args:
        value: the value.
        table: codecs of built-in types.
        classes: knows the codecs of all others.

    Raises:
        NotStorable: some part would not come back as it is; `key` is its path.
    """
    if type(value) in _PLAIN:
        try:
            return packb(value, None, OPTIONS)
        except TypeError:
            # Beyond 64 bits, or not valid Unicode.
            pass
    fast = FastEncoder(table, classes)
    try:
        data = fast.pack(value)
        deepest = fast.deepest
    except Exception:  # noqa: BLE001  whatever it was, the exact encoder names it, and where it happened
        if fast.interrupt is not None:
            raise fast.interrupt from None
        exact = ExactEncoder(table, classes)
        data = exact.encode(value)
        deepest = exact.deepest
    # With fewer extensions inside each other even the deepest lists stay within what loading allows.
    if (deepest - v1.FREE_REGIONS + 1) * NATIVE_LEVELS > v1.MAX_LEVELS:
        nested = nesting_of(data)
        if nested.extensions > v1.MAX_NESTED or nested.levels > v1.MAX_LEVELS or nested.copied > v1.MAX_COPIES * len(data):
            raise NotStorable(
                f"the value is nested too deeply to be loaded safely: {nested.extensions} objects, tuples or sets inside each "
                f"other with {nested.levels} lists and dicts between them; store the nodes of a deep structure in one flat list "
                "or dict, and refer to them by index",
                key="",
            )
    return data


class FastEncoder:
    """One `packb`. Fails with any exception where the exact encoder must be asked."""

    __slots__ = ("classes", "deepest", "depth", "interrupt", "known", "patterns", "table")

    def __init__(self, table: dict[type, Dump], classes: Classes) -> None:
        self.table = table
        self.classes = classes
        self.known: dict[type, Dump] = {}
        self.depth = 0
        self.deepest = 0
        self.patterns = [0, 0]
        self.interrupt: BaseException | None = None

    def pack(self, value: Any) -> bytes:
        """A value; see `Encoder`."""
        data = packb(value, self.hook, OPTIONS)
        # 0xc4 to 0xc6 begin bytes. They also occur in text and numbers, so they only raise the suspicion.
        if (b"\xc4" in data or b"\xc5" in data or b"\xc6" in data) and _holds_raw(value):
            raise Refused("not in the fast way")
        return data

    def pack_parts(self, head: Sequence[Any], fields: Sequence[Mapping[str, Any] | None] = (), *body: Any) -> bytes:
        """An array of several parts; see `Encoder`."""
        return self.pack([*head, *fields, *body])

    def pack_members(self, members: Iterable[Any]) -> bytes:
        """An array in the order of the bytes; see `Encoder`."""
        # Members are hashable, so only a memoryview could be among them of what `packb` would write as something else.
        members = list(members)
        if memoryview in set(map(type, members)):
            raise Refused("not in the fast way")
        packed = sorted([packb(member, self.hook, OPTIONS) for member in members])
        return array_head(len(packed)) + b"".join(packed)

    def hook(self, value: Any) -> ormsgpack.Ext:
        """The extension of a value that MessagePack does not have, for `packb`."""
        kind = type(value)
        self.depth = depth = self.depth + 1
        if depth > self.deepest:
            if depth > v1.MAX_NESTED:
                raise Refused("too deep")
            self.deepest = depth
        try:
            dump = self.table.get(kind) or self.known.get(kind)
            if dump is None:
                dump = self.known[kind] = self.classes.dump_of(kind)
            ext = dump(self, value)
        except Exception:
            raise
        except BaseException as interrupt:
            # `packb` replaces every exception of its hook by a TypeError, a KeyboardInterrupt too.
            self.interrupt = interrupt
            raise
        self.depth = depth - 1
        return ext


def _holds_raw(value: Any) -> bool:
    """Whether lists and dicts in the value hold what `packb` would write as something else. Level by level, since that runs in C."""
    level: list[Any] = [value]
    while level:
        kinds = set(map(type, level))
        if not kinds.isdisjoint(_RAW_TYPES):
            return True
        lists: list[Any]
        dicts: list[Any]
        if kinds == {dict}:
            lists, dicts = [], level
        else:
            lists = [item for item in level if type(item) is list] if list in kinds else []
            dicts = [item for item in level if type(item) is dict] if dict in kinds else []
        level = [*chain.from_iterable(lists), *chain.from_iterable(map(dict.values, dicts))]
    return False


class ExactEncoder:
    """Walks a value. Slower, misses nothing, and knows where it is."""

    __slots__ = ("ancestors", "classes", "deepest", "depth", "level", "path", "patterns", "table")

    def __init__(self, table: dict[type, Dump], classes: Classes) -> None:
        self.table = table
        self.classes = classes
        self.depth = 0
        self.deepest = 0
        self.level = 0
        self.patterns = [0, 0]
        self.path: list[tuple[str, Any]] = []
        self.ancestors: dict[int, int] = {}

    def encode(self, value: Any) -> bytes:
        """The bytes of the value.

        Raises:
            NotStorable: some part would not come back as it is; `key` is its path.
        """
        try:
            return self.pack(value)
        except RecursionError as error:
            raise self.refusal("is nested too deeply to be stored, or holds itself") from error

    def refusal(self, why: str) -> NotStorable:
        """The error for the value at the current path."""
        path = "".join(_step_text(kind, name) for kind, name in self.path[:50]) + ("..." if len(self.path) > 50 else "")
        return NotStorable(f"{path or 'the value'} {why}", key=path)

    def pack(self, value: Any) -> bytes:
        """A value; see `Encoder`."""
        return self._region(0, lambda: self.tree(value))

    def pack_parts(self, head: Sequence[Any], fields: Sequence[Mapping[str, Any] | None] = (), *body: Any) -> bytes:
        """An array of several parts; see `Encoder`."""

        def parts() -> list[Any]:
            maps = [
                None if names is None else {name: self.at(_ATTRIBUTE, name, names[name]) for name in names} for names in fields
            ]
            return [*map(self.tree, head), *maps, *map(self.tree, body)]

        return self._region(1, parts)

    def pack_members(self, members: Iterable[Any]) -> bytes:
        """An array in the order of the bytes; see `Encoder`."""
        packed = sorted([self._region(0, partial(self.at, _MEMBER, member, member)) for member in members])
        return array_head(len(packed)) + b"".join(packed)

    def _pack_map(self, value: dict[Any, Any]) -> bytes:
        def flat() -> list[Any]:
            parts: list[Any] = []
            for key, item in value.items():
                parts.append(key if _is_easy(key) else self.at(_KEY_ITSELF, key, key))
                parts.append(item if _is_easy(item) else self.at(_KEY, key, item))
            return parts

        return self._region(1, flat)

    def _region(self, level: int, build: Callable[[], Any]) -> bytes:
        outer, self.level = self.level, level
        tree = build()
        self.level = outer
        try:
            return packb(tree, None, OPTIONS)
        except TypeError as error:
            raise self.refusal(f"cannot be stored: {text_of(error)}") from error

    def at(self, kind: str, name: Any, value: Any) -> Any:
        """The tree of a part, one step further on the path. After a refusal the path stays, for the message."""
        self.path.append((kind, name))
        tree = self.tree(value)
        self.path.pop()
        return tree

    def tree(self, value: Any) -> Any:
        """The value with everything replaced that `packb` would not write exactly."""
        kind = type(value)
        if kind is str:
            return value if _is_unicode(value) else Ext(v1.TEXT, value.encode("utf-8", "surrogatepass"))
        if kind in _PLAIN and (kind is not int or -(1 << 63) <= value < 1 << 64):
            return value
        seen = self.ancestors.get(id(value))
        if seen is not None:
            above = "".join(_step_text(*step) for step in self.path[:seen]) or "the whole value"
            raise self.refusal(f"holds itself: it is the same object as {above}; cycles cannot be stored")
        self.ancestors[id(value)] = len(self.path)
        tree: Any
        if kind is list:
            self._enter()
            tree = [item if _is_easy(item) else self.at(_ITEM, index, item) for index, item in enumerate(value)]
            self.level -= 1
        elif kind is not dict:
            tree = self._extension(value, None)
        elif all(type(key) is str and _is_unicode(key) for key in value):
            self._enter()
            tree = {key: item if _is_easy(item) else self.at(_KEY, key, item) for key, item in value.items()}
            self.level -= 1
        else:
            tree = self._extension(value, lambda _, items: Ext(v1.MAP, self._pack_map(items)))
        del self.ancestors[id(value)]
        return tree

    def _enter(self) -> None:
        self.level += 1
        if self.level > NATIVE_LEVELS:
            raise self.refusal(f"is nested too deeply: lists and dicts can lie {NATIVE_LEVELS} deep inside each other")

    def _extension(self, value: Any, dump: Dump | None) -> ormsgpack.Ext:
        self.depth += 1
        self.deepest = max(self.deepest, self.depth)
        if self.depth > v1.MAX_NESTED:
            raise self.refusal(f"is nested too deeply: objects, tuples and sets can lie {v1.MAX_NESTED} deep inside each other")
        kind = type(value)
        try:
            ext = (dump or self.table.get(kind) or self.classes.dump_of(kind))(self, value)
        except Refused as refused:
            raise self.refusal(str(refused)) from refused.__cause__
        except (NotStorable, RecursionError, MemoryError):
            raise
        except Exception as error:
            raise self.refusal(f"cannot be stored: reading it failed with {text_of(error)}") from error
        self.depth -= 1
        return ext


_ITEM: Final = "item"
_KEY: Final = "key"
_KEY_ITSELF: Final = "key itself"
_ATTRIBUTE: Final = "attribute"
_MEMBER: Final = "member"


def _is_easy(value: Any) -> bool:
    """Whether a value can be left as it is at first sight, which most can."""
    kind = type(value)
    if kind is str:
        return cast("str", value).isascii()
    return kind in _PLAIN and (kind is not int or -(1 << 31) < value < 1 << 31)


def _is_unicode(text: str) -> bool:
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _step_text(kind: str, name: Any) -> str:
    if kind == _ATTRIBUTE:
        return f".{name}"
    if kind == _ITEM:
        return f"[{name}]"
    # A repr can be long, or fail; here it only helps to find the place.
    if type(name) is str:
        shown = '"' + repr(name[:80])[1:-1] + '"'
    else:
        shown = repr(name)[:80] if type(name) in _PLAIN else f"<{type(name).__qualname__}>"
    return f"[{shown}]" if kind == _KEY else f"{{{shown}}}"
