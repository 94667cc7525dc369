"""Values as LangGraph's serializer wrote them, as values of ours. Nothing is imported, and nothing is called but types of Python's library
and classes that the saver's serializer knows.

    ext   payload                              becomes
    0     (module, name, argument)             UUID, Decimal, sets, deque, addresses, zones; of an enum the member, or its value
    1     (module, name, arguments)            paths, patterns, timedelta, date, timezone, Send
    2     (module, name, named arguments)      time, Interrupt; dataclasses and namedtuples
    3     (module, name, argument, method)     datetime
    4, 5  (module, name, fields[, method])     messages; pydantic models
    6     (dtype, shape, order, bytes)         numpy arrays
    7     value                                the value of a channel that is stored by its changes

A class that is not known here is kept under its name, with its fields: a graph whose state mentions it gets it back.
"""

from __future__ import annotations

import datetime as dt
import ipaddress
import json
import os
import re
import uuid
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import ormsgpack

from perdure.checkpoint.serde import format_v1 as v1
from perdure.checkpoint.serde.class_values import Codec, NamedTupleCodec
from perdure.checkpoint.serde.unresolved import Unresolved
from perdure.errors import CorruptRecord, PerdureError, StateTypeError
from perdure.messages.message import Message, RemoveMessage
from perdure.types import Overwrite, Send


class Question(NamedTuple):
    """A stored `Interrupt`."""

    value: Any
    id: str | None
    schema: Any = None


@dataclass(slots=True)
class Delta:
    """What a channel that is stored by its changes came to at some point."""

    value: Any


class Refusal(Exception):
    """A value that cannot be brought, so its thread cannot."""


MESSAGES = {
    "HumanMessage": "human",
    "AIMessage": "ai",
    "SystemMessage": "system",
    "ToolMessage": "tool",
    "FunctionMessage": "function",
    "ChatMessage": "",
    "RemoveMessage": "remove",
}
_CHUNK = "Chunk"
_MAX_PATTERN = 10_000


class Values:
    """Decodes.

    Args:
        serde: the serializer of the saver that the values are for.
        notes: gets what is other than it was.
        langchain: keep messages as LangChain's own classes, instead of `Message`.
    """

    def __init__(self, serde: Any, notes: Counter[str], *, langchain: bool = False) -> None:
        self._serde = serde
        self._registry = getattr(serde, "registry", None)
        self._notes = notes
        self._langchain = langchain
        self._failures: list[Exception] = []

    def decode(self, tag: str | None, data: bytes | None) -> Any:
        """The value of a tag and bytes.

        Raises:
            Refusal: it is encrypted, or a pickle, which is not loaded, or of no known kind.
            CorruptRecord: the bytes are damaged.
        """
        if tag in (None, "null", "empty") and not data:
            return None
        data = data or b""
        if tag == "bytes":
            return data
        if tag == "bytearray":
            return bytearray(data)
        if tag == "pickle":
            raise Refusal("it holds pickles, which could run anything when they are loaded")
        if tag is not None and "+" in tag:
            raise Refusal(f"it is encrypted ({tag}): decrypt it with the package that wrote it first")
        self._failures.clear()
        try:
            if tag == "json":
                return json.loads(data, object_hook=self._json_object)
            if tag in (None, "msgpack"):
                return self._unpack(data)
        except (ValueError, TypeError, LookupError, ArithmeticError, RecursionError) as error:
            raise CorruptRecord(f"a stored value cannot be read: {[*self._failures, error][0]}") from error
        raise Refusal(f"it holds values of kind {tag!r}, which are not known here")

    def _unpack(self, data: bytes) -> Any:
        return ormsgpack.unpackb(data, ext_hook=self._hook, option=ormsgpack.OPT_NON_STR_KEYS)

    def _hook(self, code: int, data: bytes) -> Any:
        try:
            return self._extension(code, data)
        except Exception as error:
            self._failures.append(error)  # what unpacks says only that its hook failed
            raise

    def _extension(self, code: int, data: bytes) -> Any:
        parts = self._unpack(data)
        if code == 7:
            return Delta(parts)
        if type(parts) is not list or len(parts) < 3:
            raise CorruptRecord(f"a stored value of kind {code} has not the parts it should have")
        if code == 6:
            return self._array(*parts)
        module, name, content = parts[:3]
        if type(module) is not str or type(name) is not str:
            raise CorruptRecord(f"a stored value of kind {code} has no name")
        made = _KNOWN.get((code, _family(module), name))
        if made is not None:
            return made(content)
        if code in (4, 5) and module.startswith("langchain_core.messages."):
            return self._message(module, name, content)
        return self._instance(code, module, name, content)

    def _message(self, module: str, name: str, fields: dict[str, Any]) -> Any:
        if self._langchain:
            return self._kept(v1.MODEL, module, name, fields)
        kind = MESSAGES.get(name.removesuffix(_CHUNK))
        if kind is None:
            return self._kept(v1.MODEL, module, name, fields)
        if kind == "remove":
            return RemoveMessage(str(fields["id"]))
        try:
            return self._plain(fields, kind or str(fields.get("role")))
        except PerdureError as error:
            self._notes[f"a message is kept as {name}: {error}"] += 1
            return self._kept(v1.MODEL, module, name, fields)

    def _plain(self, fields: dict[str, Any], role: str) -> Message:
        message = message_of(fields, role)
        for name in left_behind(fields):
            # Once, as each checkpoint has all messages up to it again.
            self._notes.setdefault(f"{name} of messages is left behind; messages='langchain' keeps it", 1)
        return message

    def _instance(self, code: int, module: str, name: str, content: Any) -> Any:
        codec = None if self._registry is None else self._registry.codec_named(f"{module}:{name}")
        if code == 0:
            why = "the class is not known here (types=[…] makes it known)"
            if isinstance(codec, Codec) and codec.code == v1.ENUM:
                try:
                    return codec.cls(content)
                except Exception as error:  # noqa: BLE001 - a class of the user's may fail in any way
                    why = str(error)
            self._notes[f"{module}.{name} is kept as its plain value: {why}"] += 1
            return content
        if code in (4, 5) and type(content) is dict:
            return self._kept(v1.MODEL, module, name, content)
        if code == 2 and type(content) is dict:
            kind = v1.NAMEDTUPLE if isinstance(codec, NamedTupleCodec) else v1.FIELDS
            return self._kept(kind, module, name, content)
        self._notes[f"{module}.{name} is kept as plain data: it is of a kind that is not known here"] += 1
        return content

    def _kept(self, code: int, module: str, name: str, fields: dict[str, Any]) -> Any:
        """An object under its name, which whoever knows the class gets as an instance; validated, for who knows what it has become."""
        stored = f"{module}:{name}"
        parts = [stored, fields] if code != v1.MODEL else [stored, 0, (1 << len(fields)) - 1, fields, None, None]
        kept = Unresolved(stored, self._serde.dumps_typed(parts)[1], code=code, reason="brought as it was", data=fields)
        why = "for a graph whose state mentions the class"
        if self._registry is not None and self._registry.codec_named(stored) is not None:
            try:
                return self._serde.loads_typed(self._serde.dumps_typed(kept))
            except StateTypeError as error:
                why = str(error)
        self._notes[f"{module}.{name} is kept under its name, {why}"] += 1
        return kept

    def _array(self, dtype: Any, shape: Any, order: Any, data: Any) -> Any:
        parts = [dtype, list(shape), "F" if order == "F" else "C", bytes(data)]
        return Unresolved("numpy:ndarray", self._serde.dumps_typed(parts)[1], code=v1.NUMPY_ARRAY, reason="brought as it was")

    def _json_object(self, found: dict[str, Any]) -> Any:
        """The older kind of records: objects as the name of a constructor and its arguments."""
        if found.get("lc") not in (1, 2) or found.get("type") != "constructor" or type(found.get("id")) is not list:
            return found
        path, fields = found["id"], found.get("kwargs")
        name = str(path[-1]) if path else ""
        kind = MESSAGES.get(name.removesuffix(_CHUNK))
        if kind and type(fields) is dict:
            return RemoveMessage(str(fields["id"])) if kind == "remove" else self._plain(fields, kind)
        self._notes[f"{'.'.join(map(str, path))} is kept as plain data: it is of a kind that is not known here"] += 1
        return found


_TAKEN = ("refusal", "audio", "function_call")
"""What a `Message` has of LangChain's `additional_kwargs`."""


def message_of(fields: dict[str, Any], role: str) -> Message:
    """A message of LangChain, which is this dict of fields, as one of ours.

    Raises:
        InvalidUpdateError: it is no message.
    """
    kept: dict[str, Any] = fields.get("additional_kwargs") or {}
    given = {key: kept[key] for key in _TAKEN if kept.get(key) is not None}
    given |= {key: fields[key] for key in ("content", "id", "name", "tool_call_id", "artifact") if fields.get(key) is not None}
    calls = [*(fields.get("tool_calls") or ()), *(fields.get("invalid_tool_calls") or ())]
    given["tool_calls"] = calls or kept.get("tool_calls")
    if fields.get("status") not in (None, "success"):
        given["status"] = fields["status"]
    return Message(given, role=kept.get("__openai_role__") or role)


def left_behind(fields: dict[str, Any]) -> list[str]:
    """What a message of LangChain says that has no place in one of ours."""
    named = [name for name in ("usage_metadata", "response_metadata") if fields.get(name)]
    known = {*_TAKEN, "tool_calls", "__openai_role__"}
    more = any(key not in known and value is not None for key, value in (fields.get("additional_kwargs") or {}).items())
    return [*named, "additional_kwargs"] if more else named


def _family(module: str) -> str:
    return "pathlib" if module.startswith("pathlib") else "ipaddress" if module.startswith("ipaddress") else module


def _pattern(given: list[Any]) -> Any:
    pattern, flags = given
    if len(pattern) > _MAX_PATTERN:
        raise CorruptRecord("a stored regular expression is too long to be compiled")
    return re.compile(pattern, flags)


def _question(given: dict[str, Any]) -> Question:
    # Older versions had no id, but the namespace that it is made of.
    return Question(given.get("value"), given.get("id") or given.get("interrupt_id"), given.get("response_schema"))


_KNOWN: dict[tuple[int, str, str], Callable[[Any], Any]] = {
    (0, "uuid", "UUID"): uuid.UUID,
    (0, "decimal", "Decimal"): Decimal,
    (0, "builtins", "set"): set,
    (0, "builtins", "frozenset"): frozenset,
    (0, "collections", "deque"): deque,
    **{
        (0, "ipaddress", cls.__name__): cls
        for cls in (
            ipaddress.IPv4Address,
            ipaddress.IPv6Address,
            ipaddress.IPv4Network,
            ipaddress.IPv6Network,
            ipaddress.IPv4Interface,
            ipaddress.IPv6Interface,
        )
    },
    (0, "zoneinfo", "ZoneInfo"): ZoneInfo,
    (1, "pathlib", "PosixPath"): lambda parts: (Path if os.name == "posix" else PurePosixPath)(*parts),
    (1, "pathlib", "Path"): lambda parts: Path(*parts),
    (1, "pathlib", "PurePosixPath"): lambda parts: PurePosixPath(*parts),
    (1, "pathlib", "WindowsPath"): lambda parts: (Path if os.name == "nt" else PureWindowsPath)(*parts),
    (1, "re", "compile"): _pattern,
    (1, "datetime", "timedelta"): lambda parts: dt.timedelta(*parts),
    (1, "datetime", "date"): lambda parts: dt.date(*parts),
    (1, "datetime", "timezone"): lambda parts: dt.timezone(*parts),
    (1, "langgraph.types", "Send"): lambda parts: Send(parts[0], parts[1]),
    (2, "datetime", "time"): lambda named: dt.time(**named),
    (2, "langgraph.types", "Interrupt"): _question,
    (2, "langgraph.types", "Overwrite"): lambda named: Overwrite(named.get("value")),
    (3, "datetime", "datetime"): dt.datetime.fromisoformat,
}
