"""Values of LangGraph's serializer: what they become, and that no name in them is ever imported or called. (P31, P37)"""

from __future__ import annotations

import enum
import json
from collections import Counter, deque
from dataclasses import dataclass
from datetime import date, time, timedelta, timezone
from ipaddress import ip_address
from pathlib import Path
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import numpy as np
import ormsgpack
import pytest
from pydantic import BaseModel

from perdure.checkpoint.serde.jsonplus import JsonPlusSerializer, Unresolved
from perdure.errors import CorruptRecord, StateTypeError
from perdure.integrations.langgraph.values import Delta, Question, Refusal, Values
from perdure.messages import Message
from perdure.types import Send


class Colour(enum.Enum):
    RED = "r"


class Order(BaseModel):
    item: str
    count: int = 1


@dataclass
class Point:
    x: int


class Pair(NamedTuple):
    a: int
    b: int


def ext(code: int, *parts: Any) -> bytes:
    return ormsgpack.packb(ormsgpack.Ext(code, ormsgpack.packb(list(parts))))


def read(data: bytes, *known: type, tag: str = "msgpack", **options: Any) -> tuple[Any, list[str]]:
    notes: Counter[str] = Counter()
    serde = JsonPlusSerializer(allowed_msgpack_modules=known)
    value = Values(serde, notes, **options).decode(tag, data)
    return value, list(notes)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (ext(0, "builtins", "set", [1, 2]), {1, 2}),
        (ext(0, "builtins", "frozenset", [1]), frozenset({1})),
        (ext(0, "collections", "deque", [1, 2]), deque([1, 2])),
        (ext(0, "ipaddress", "IPv4Address", "10.0.0.1"), ip_address("10.0.0.1")),
        (ext(0, "zoneinfo", "ZoneInfo", "Europe/Vienna"), ZoneInfo("Europe/Vienna")),
        (ext(1, "pathlib._local", "PosixPath", ["/", "a"]), Path("/a")),
        (ext(1, "datetime", "timedelta", [1, 2, 3]), timedelta(1, 2, 3)),
        (ext(1, "datetime", "date", [2026, 1, 2]), date(2026, 1, 2)),
        (
            ext(2, "datetime", "time", {"hour": 1, "minute": 2, "second": 3, "microsecond": 4, "tzinfo": None, "fold": 0}),
            time(1, 2, 3, 4),
        ),
        (ext(1, "langgraph.types", "Send", ["node", {"a": 1}, None]), Send("node", {"a": 1})),
        (ext(2, "langgraph.types", "Interrupt", {"value": "q", "id": "i"}), Question("q", "i")),
        (ormsgpack.packb(ormsgpack.Ext(7, ormsgpack.packb([1]))), Delta([1])),
        (ormsgpack.packb({1: "a"}, option=ormsgpack.OPT_NON_STR_KEYS), {1: "a"}),
    ],
)
def test_types_of_the_library_keep_their_type(data: bytes, expected: Any):
    found, notes = read(data)
    assert (found, type(found), notes) == (expected, type(expected), [])


def test_a_time_zone():
    inner = ormsgpack.Ext(1, ormsgpack.packb(["datetime", "timedelta", [0, 3600, 0]]))
    data = ormsgpack.packb(ormsgpack.Ext(1, ormsgpack.packb(["datetime", "timezone", [inner]])))
    assert read(data)[0] == timezone(timedelta(hours=1))


def test_an_array_of_numpy_is_one_again():
    array = np.arange(6, dtype="<i4").reshape(2, 3)
    found, _ = read(ext(6, array.dtype.str, list(array.shape), "C", array.tobytes()))
    serde = JsonPlusSerializer()
    again = serde.loads_typed(serde.dumps_typed({"a": found}))["a"]
    assert (again.dtype, again.tolist()) == (array.dtype, array.tolist())


CASES = [
    (ext(0, __name__, "Colour", "r"), Colour, Colour.RED),
    (ext(5, __name__, "Order", {"item": "a", "count": 2}, "model_validate_json"), Order, Order(item="a", count=2)),
    (ext(2, __name__, "Point", {"x": 1}), Point, Point(1)),
    (ext(2, __name__, "Pair", {"a": 1, "b": 2}), Pair, Pair(1, 2)),
]


@pytest.mark.parametrize(("data", "cls", "expected"), CASES)
def test_a_class_that_is_known_is_built(data: bytes, cls: type, expected: Any):
    found, notes = read(data, cls)
    assert (found, type(found), notes) == (expected, cls, [])


@pytest.mark.parametrize(("data", "cls", "expected"), CASES[1:3])
def test_a_class_that_is_not_known_is_kept_and_comes_back_when_it_is(data: bytes, cls: type, expected: Any):
    found, notes = read(data)
    assert isinstance(found, Unresolved)
    assert "kept under its name" in notes[0]
    stored = JsonPlusSerializer().dumps_typed([found])
    assert JsonPlusSerializer(allowed_msgpack_modules=[cls]).loads_typed(stored) == [expected]
    with pytest.raises(StateTypeError):
        JsonPlusSerializer().loads_typed(stored)


def test_an_enum_that_is_not_known_is_its_value():
    found, notes = read(CASES[0][0])
    assert found == "r"
    assert "types=" in notes[0]


def test_an_enum_value_that_is_gone_is_kept_and_a_damaged_value_says_what_is_wrong():
    found, notes = read(ext(0, __name__, "Colour", "gone"), Colour)
    assert found == "gone"
    assert "'gone' is not a valid Colour" in notes[0]
    with pytest.raises(CorruptRecord, match="month must be"):
        read(ext(1, "datetime", "date", [2026, 13, 1]))


def test_messages_become_ours():
    data = ext(
        5,
        "langchain_core.messages.ai",
        "AIMessage",
        {
            "content": "hi",
            "additional_kwargs": {},
            "type": "ai",
            "id": "1",
            "tool_calls": [{"name": "f", "args": {"a": 1}, "id": "c"}],
        },
        "model_validate_json",
    )
    found, notes = read(data)
    assert isinstance(found, Message)
    assert (found.role, found.content, found.id, found.tool_calls[0]["function"]["name"], notes) == (
        "assistant",
        "hi",
        "1",
        "f",
        [],
    )
    import langchain_core.messages  # noqa: F401 - its classes count once they are imported

    kept, notes = read(ext(5, "langchain_core.messages.tool", "ToolMessage", {"content": "no id of a call"}))
    assert isinstance(kept, Unresolved), "what is no message here, nor there, is not lost"
    assert "tool_call_id" in " ".join(notes)


@pytest.mark.parametrize(
    ("given", "left"),
    [
        ({"usage_metadata": {"input_tokens": 1}}, ["usage_metadata"]),
        ({"response_metadata": {"model": "m"}, "usage_metadata": None}, ["response_metadata"]),
        ({"additional_kwargs": {"reasoning": "so"}}, ["additional_kwargs"]),
        ({"additional_kwargs": {"refusal": "no", "tool_calls": None, "other": None}, "response_metadata": {}}, []),
    ],
)
def test_P31_what_a_plain_message_has_no_place_for_is_told_once(given: dict[str, Any], left: list[str]):
    fields = {"content": "hi", "type": "ai", "id": "1", **given}
    older = {"lc": 1, "type": "constructor", "id": ["langchain", "AIMessage"], "kwargs": fields}
    for data, tag in ((ormsgpack.packb([_message(fields)] * 3), "msgpack"), (json.dumps([older] * 3).encode(), "json")):
        notes: Counter[str] = Counter()
        found = Values(JsonPlusSerializer(), notes).decode(tag, data)
        assert [one.content for one in found] == ["hi"] * 3
        assert notes == {f"{name} of messages is left behind; messages='langchain' keeps it": 1 for name in left}
    _, told = read(ormsgpack.packb(_message(fields)), langchain=True)
    assert not any("left behind" in note for note in told)


def _message(fields: dict[str, Any]) -> ormsgpack.Ext:
    return ormsgpack.Ext(5, ormsgpack.packb(["langchain_core.messages.ai", "AIMessage", fields, "model_validate_json"]))


def test_what_does_not_fit_its_class_is_kept():
    found, notes = read(ext(5, __name__, "Order", {"count": "many"}, "model_validate_json"), Order)
    assert isinstance(found, Unresolved)
    assert "Order is kept under its name" in notes[0]


def test_the_older_json_records():
    text = b'{"lc": 1, "type": "constructor", "id": ["langchain", "schema", "messages", "HumanMessage"], "kwargs": {"content": "x", "id": "1"}}'
    assert read(text, tag="json")[0] == Message(role="user", content="x", id="1")
    other = b'[{"lc": 2, "type": "constructor", "id": ["os", "system"], "args": ["touch /tmp/x"]}]'
    found, notes = read(other, tag="json")
    assert found[0]["id"] == ["os", "system"]
    assert "plain data" in notes[0]


@pytest.mark.parametrize("code", range(6))
def test_P37_no_name_is_imported_or_called(code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for name in ("system", "popen", "remove"):
        monkeypatch.setattr(f"os.{name}", lambda *_: pytest.fail("it was called"))
    command = f"touch {tmp_path / 'made'}"
    for content in (command, [command], {"command": command}):
        read(ext(code, "os", "system", content, "popen"))
        read(ext(code, "langgraph.nowhere", "x", content, "y"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xc1",
        ormsgpack.packb(ormsgpack.Ext(0, b"\xc1")),
        ormsgpack.packb(ormsgpack.Ext(0, ormsgpack.packb(1))),
        ext(0, 1, 2, 3),
        ext(0, "decimal", "Decimal", "no number"),
        ext(0, "builtins", "set", [[1]]),
        ext(0, "uuid", "UUID", "x"),
        ext(0, "zoneinfo", "ZoneInfo", "../../etc/passwd"),
        ext(1, "re", "compile", ["(" * 50_000, 0]),
        ext(1, "datetime", "date", [0, 0, 0]),
        ext(1, "langgraph.types", "Send", []),
        ext(3, "datetime", "datetime", "no date", "fromisoformat"),
        b"\x91" * 100_000,
    ],
)
def test_P37_damaged_values_are_refused(data: bytes):
    with pytest.raises(CorruptRecord):
        read(data)


def test_P37_values_in_each_other_without_end_are_refused():
    data = ormsgpack.packb(1)
    for _ in range(3000):
        data = ormsgpack.packb(ormsgpack.Ext(7, data))
    with pytest.raises(CorruptRecord):
        read(data)


@pytest.mark.parametrize("tag", ["pickle", "msgpack+aes", "odd"])
def test_P37_what_cannot_be_read_refuses_its_thread(tag: str):
    with pytest.raises(Refusal):
        read(b"x", tag=tag)
