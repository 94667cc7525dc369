"""Whether a value fits a JSON schema: what drafts 7 to 2020-12 say, as far as one document goes. Pure.

Not checked, and therefore refused when a question is asked, are references to other documents and the few keywords of `UNSUPPORTED`.
Keywords that only describe are passed over, as are formats that are not in `FORMATS`.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import ipaddress
import re
import uuid
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from fractions import Fraction
from math import isfinite
from pathlib import PurePath
from typing import Any, Final
from urllib.parse import unquote

from perdure.errors import InvalidArgument

UNSUPPORTED: Final = frozenset(
    {"$dynamicRef", "$recursiveRef", "unevaluatedProperties", "unevaluatedItems", "dependentSchemas", "dependencies"}
)
FORMATS: Final[dict[str, Callable[[str], Any]]] = {
    "date-time": dt.datetime.fromisoformat,
    "date": dt.date.fromisoformat,
    "time": dt.time.fromisoformat,
    "uuid": uuid.UUID,
    "ipv4": ipaddress.IPv4Address,
    "ipv6": ipaddress.IPv6Address,
}
MOST = 8
"""Problems that are told of one value."""

_SUBSCHEMAS = ("not", "if", "then", "else", "additionalProperties", "additionalItems", "items", "contains", "propertyNames")
_LISTS_OF = ("allOf", "anyOf", "oneOf", "prefixItems")
_MAPS_OF = ("properties", "patternProperties", "$defs", "definitions")


def mismatches(schema: dict[str, Any], value: Any) -> list[str]:
    """What is wrong with a value, as `$.path: text`; an empty list if it fits."""
    try:
        found = _Checker(schema).check(schema, plain(value), "$")
        return [problem for _, problem in zip(range(MOST), found, strict=False)]
    except RecursionError:
        return ["$: it is nested too deeply to be checked"]


def check_schema(schema: Any) -> None:
    """Refuse a schema that could not be checked.

    Raises:
        InvalidArgument: it refers to another document or to nothing, has a pattern that is none, or a keyword that is not supported.
    """
    for part in _parts(schema):
        unsupported = UNSUPPORTED.intersection(part)
        if unsupported:
            raise InvalidArgument(f"the response schema uses {', '.join(sorted(unsupported))}, which cannot be checked here")
        if "$ref" in part:
            _resolved(schema, part["$ref"])
        for pattern in (*([part["pattern"]] if "pattern" in part else []), *part.get("patternProperties", ())):
            try:
                re.compile(pattern)
            except (re.error, TypeError) as error:
                raise InvalidArgument(f"the response schema has the pattern {pattern!r}, which is none: {error}") from error


def _parts(schema: Any) -> Iterator[dict[str, Any]]:
    """The schema and all schemas inside it."""
    if not isinstance(schema, dict):
        return
    yield schema
    for key in _SUBSCHEMAS:
        inner = schema.get(key)
        for part in inner if isinstance(inner, list) else (inner,):
            yield from _parts(part)
    for key in _LISTS_OF:
        for part in schema.get(key) or ():
            yield from _parts(part)
    for key in _MAPS_OF:
        for part in (schema.get(key) or {}).values():
            yield from _parts(part)


def _resolved(root: Any, ref: Any) -> Any:
    if not isinstance(ref, str) or not (ref == "#" or ref.startswith("#/")):
        raise InvalidArgument(
            f"the response schema refers to {ref!r}; only parts of the schema itself (#/$defs/…) can be followed"
        )
    found = root
    for part in unquote(ref[1:]).split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        try:
            found = found[int(name)] if isinstance(found, list) else found[name]
        except (LookupError, TypeError, ValueError):
            raise InvalidArgument(f"the response schema refers to {ref!r}, which it does not have") from None
    return found


def plain(value: Any) -> Any:
    """A value as JSON has it: objects of models, dataclasses and enums by what they hold."""
    if isinstance(value, enum.Enum):
        return plain(value.value)
    if value is None or isinstance(value, (bool, int, float, str, Decimal)):
        return value
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(item) for item in value]
    if isinstance(value, (dt.datetime, dt.date, dt.time)):
        return value.isoformat()
    if isinstance(value, (uuid.UUID, PurePath, ipaddress.IPv4Address, ipaddress.IPv6Address)):
        return str(value)
    if isinstance(value, (bytes, bytearray)):
        return bytes(value).decode("utf-8", "replace")
    if isinstance(value, dt.timedelta):
        return f"PT{value.total_seconds()}S"
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        return dump(mode="json", by_alias=True)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    return value


def same(a: Any, b: Any) -> bool:
    """Equal as JSON has it: 1 is 1.0, but True is not 1."""
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    return bool(a == b)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, Decimal)) and not isinstance(value, bool)


_IS: Final[dict[str, Callable[[Any], bool]]] = {
    "null": lambda value: value is None,
    "boolean": lambda value: isinstance(value, bool),
    "number": _is_number,
    "integer": lambda value: _is_number(value) and (isinstance(value, int) or value % 1 == 0),
    "string": lambda value: isinstance(value, str),
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
}


class _Checker:
    """Checks values against the parts of one schema document."""

    __slots__ = ("_root",)

    def __init__(self, root: Any) -> None:
        self._root = root

    def fits(self, schema: Any, value: Any) -> bool:
        return next(self.check(schema, value, "$"), None) is None

    def check(self, schema: Any, value: Any, path: str) -> Iterator[str]:
        """The problems of a value."""
        if schema is True or schema == {}:
            return
        if schema is False:
            yield f"{path}: nothing is allowed here"
            return
        if value is None and schema.get("nullable") is True:
            return
        kinds = schema.get("type")
        names = kinds if isinstance(kinds, list) else [kinds]
        if kinds is not None and not any(_IS[name](value) for name in names if name in _IS):
            yield f"{path}: {_short(value)} is not of type {' or '.join(map(str, names))}"
            return
        if "$ref" in schema:
            yield from self.check(_resolved(self._root, schema["$ref"]), value, path)
        yield from _choice(schema, value, path)
        yield from self._combined(schema, value, path)
        if isinstance(value, str):
            yield from _text(schema, value, path)
        elif isinstance(value, list):
            yield from self._list(schema, value, path)
        elif isinstance(value, dict):
            yield from self._object(schema, value, path)
        elif _is_number(value):
            yield from _number(schema, value, path)

    def _combined(self, schema: dict[str, Any], value: Any, path: str) -> Iterator[str]:
        for part in schema.get("allOf", ()):
            yield from self.check(part, value, path)
        for key in ("anyOf", "oneOf"):
            if key not in schema:
                continue
            fitting = sum(self.fits(part, value) for part in schema[key])
            if fitting == 0:
                reasons = [next(self.check(part, value, path)).removeprefix(f"{path}: ") for part in schema[key]]
                yield f"{path}: fits none of the {len(reasons)} choices ({'; '.join(dict.fromkeys(reasons))})"
            elif key == "oneOf" and fitting > 1:
                yield f"{path}: {_short(value)} fits {fitting} of the choices, of which it may fit only one"
        if "not" in schema and self.fits(schema["not"], value):
            yield f"{path}: {_short(value)} is not allowed"
        if "if" in schema:
            branch = schema.get("then" if self.fits(schema["if"], value) else "else")
            if branch is not None:
                yield from self.check(branch, value, path)

    def _list(self, schema: dict[str, Any], value: list[Any], path: str) -> Iterator[str]:
        yield from _size(schema, len(value), path, "Items", "items")
        items = schema.get("items")
        first = items if isinstance(items, list) else schema.get("prefixItems", [])
        rest = schema.get("additionalItems") if isinstance(items, list) else items
        for at, item in enumerate(value):
            part = first[at] if at < len(first) else rest
            if part is not None:
                yield from self.check(part, item, f"{path}[{at}]")
        if schema.get("uniqueItems") is True and any(same(a, b) for at, a in enumerate(value) for b in value[:at]):
            yield f"{path}: its items are not all different"
        if "contains" in schema:
            count = sum(self.fits(schema["contains"], item) for item in value)
            if not schema.get("minContains", 1) <= count <= schema.get("maxContains", count):
                yield f"{path}: {count} of its items are such as it has to contain"

    def _object(self, schema: dict[str, Any], value: dict[Any, Any], path: str) -> Iterator[str]:
        yield from _size(schema, len(value), path, "Properties", "keys")
        for name in schema.get("required", ()):
            if name not in value:
                yield f"{path}: {name!r} is missing"
        for name, needed in schema.get("dependentRequired", {}).items():
            if name in value:
                yield from (f"{path}: with {name!r}, {other!r} is needed" for other in needed if other not in value)
        properties = schema.get("properties", {})
        patterns = schema.get("patternProperties", {})
        for name, item in value.items():
            where = f"{path}.{name}"
            if not isinstance(name, str):
                yield f"{path}: its key {name!r} is no text"
                continue
            if "propertyNames" in schema:
                yield from self.check(schema["propertyNames"], name, f"{path} (the key {name!r})")
            parts = [properties[name]] if name in properties else []
            parts += [part for pattern, part in patterns.items() if re.search(pattern, name)]
            if not parts and "additionalProperties" in schema:
                if schema["additionalProperties"] is False:
                    yield f"{path}: the key {name!r} is not expected"
                    continue
                parts = [schema["additionalProperties"]]
            for part in parts:
                yield from self.check(part, item, where)


def _choice(schema: dict[str, Any], value: Any, path: str) -> Iterator[str]:
    if "const" in schema and not same(plain(schema["const"]), value):
        yield f"{path}: {_short(value)} is not {_short(schema['const'])}"
    if "enum" in schema and not any(same(plain(choice), value) for choice in schema["enum"]):
        yield f"{path}: {_short(value)} is none of {', '.join(map(_short, schema['enum']))}"


def _size(schema: dict[str, Any], size: int, path: str, suffix: str, noun: str) -> Iterator[str]:
    if size < schema.get(f"min{suffix}", 0):
        yield f"{path}: has {size} {noun}, fewer than {schema[f'min{suffix}']}"
    if size > schema.get(f"max{suffix}", size):
        yield f"{path}: has {size} {noun}, more than {schema[f'max{suffix}']}"


def _text(schema: dict[str, Any], value: str, path: str) -> Iterator[str]:
    yield from _size(schema, len(value), path, "Length", "characters")
    if "pattern" in schema and not re.search(schema["pattern"], value):
        yield f"{path}: {_short(value)} does not match the pattern {schema['pattern']!r}"
    parse = FORMATS.get(schema.get("format", ""))
    if parse is not None:
        try:
            parse(value)
        except ValueError:
            yield f"{path}: {_short(value)} is no {schema['format']}"


def _number(schema: dict[str, Any], value: Any, path: str) -> Iterator[str]:
    # Written with "not", so that what is no number (NaN) is outside of every bound.
    if "minimum" in schema and not value >= schema["minimum"]:
        yield f"{path}: {_short(value)} is less than {schema['minimum']}"
    if "maximum" in schema and not value <= schema["maximum"]:
        yield f"{path}: {_short(value)} is more than {schema['maximum']}"
    if "exclusiveMinimum" in schema and not value > schema["exclusiveMinimum"]:
        yield f"{path}: {_short(value)} is not more than {schema['exclusiveMinimum']}"
    if "exclusiveMaximum" in schema and not value < schema["exclusiveMaximum"]:
        yield f"{path}: {_short(value)} is not less than {schema['exclusiveMaximum']}"
    step = schema.get("multipleOf")
    if step is not None and not (_is_finite(value) and _exact(value) % _exact(step) == 0):
        yield f"{path}: {_short(value)} is no multiple of {step}"


def _is_finite(value: Any) -> bool:
    return isinstance(value, int) or isfinite(value)


def _exact(value: Any) -> Fraction:
    """A number as it is written: 0.1 is a tenth."""
    return Fraction(value) if isinstance(value, int) else Fraction(str(value))


def _short(value: Any) -> str:
    try:
        text = repr(value)
    except ValueError:  # an integer of thousands of digits
        return "a number too long to show"
    return text if len(text) <= 60 else f"{text[:57]}…"
