"""Answers against JSON schemas: what fits, what does not, and how that is told."""

from __future__ import annotations

import datetime as dt
import enum
import uuid
from dataclasses import dataclass
from decimal import Decimal
from pathlib import PurePosixPath
from typing import Any

import pytest

from perdure.runtime.schema_check import MOST, check_schema, mismatches, plain

TREE = {
    "$defs": {
        "node": {
            "type": "object",
            "properties": {"kids": {"type": "array", "items": {"$ref": "#/$defs/node"}}},
            "required": ["kids"],
        }
    },
    "$ref": "#/$defs/node",
}

FITS: list[tuple[dict[str, Any], Any]] = [
    ({}, range(3)),
    ({"type": "null"}, None),
    ({"type": "boolean"}, False),
    ({"type": "integer"}, 3),
    ({"type": "integer"}, 3.0),
    ({"type": "number"}, 3),
    ({"type": "number"}, Decimal("1.5")),
    ({"type": "string"}, ""),
    ({"type": "array"}, ()),
    ({"type": "object"}, {}),
    ({"type": ["string", "null"]}, None),
    ({"type": "string", "nullable": True}, None),
    ({"enum": [1, "a", None, [1]]}, [1.0]),
    ({"const": {"a": 1}}, {"a": 1}),
    ({"minimum": 1, "maximum": 3, "exclusiveMinimum": 0, "exclusiveMaximum": 4, "multipleOf": 0.5}, 2.5),
    ({"multipleOf": 0.1}, 0.3),
    ({"minLength": 1, "maxLength": 2, "pattern": "^a"}, "ab"),
    ({"minItems": 1, "maxItems": 2, "uniqueItems": True}, [1, True]),
    ({"prefixItems": [{"type": "integer"}], "items": {"type": "string"}}, [1, "a", "b"]),
    ({"prefixItems": [{"type": "integer"}]}, [1, range(3)]),
    ({"items": [{"type": "integer"}], "additionalItems": False}, [1]),
    ({"contains": {"type": "integer"}, "minContains": 2, "maxContains": 2}, [1, "a", 2]),
    ({"properties": {"a": {"type": "integer"}}, "required": ["a"]}, {"a": 1, "b": 2}),
    ({"properties": {"a": {}}, "additionalProperties": {"type": "integer"}}, {"a": "x", "b": 2}),
    ({"patternProperties": {"^x": {"type": "integer"}}, "additionalProperties": False}, {"x1": 1}),
    ({"propertyNames": {"maxLength": 1}, "minProperties": 1, "maxProperties": 2}, {"a": 1}),
    ({"dependentRequired": {"a": ["b"]}}, {"b": 1}),
    ({"allOf": [{"minimum": 1}, {"maximum": 2}]}, 2),
    ({"anyOf": [{"type": "integer"}, {"type": "string"}]}, "x"),
    ({"oneOf": [{"type": "integer"}, {"minimum": 5}]}, 3),
    ({"not": {"type": "string"}}, 1),
    ({"if": {"type": "string"}, "then": {"minLength": 2}, "else": {"minimum": 3}}, "ab"),
    ({"if": {"type": "string"}, "then": {"minLength": 2}}, 1),
    (TREE, {"kids": [{"kids": []}, {"kids": [{"kids": []}]}]}),
    ({"$defs": {"a/b~c": {"type": "integer"}}, "$ref": "#/$defs/a~1b~0c"}, 1),
    ({"format": "date-time"}, "2026-01-02T03:04:05Z"),
    ({"format": "date"}, "2026-01-02"),
    ({"format": "time"}, "03:04"),
    ({"format": "uuid"}, str(uuid.UUID(int=1))),
    ({"format": "ipv4"}, "127.0.0.1"),
    ({"format": "ipv6"}, "::1"),
    ({"format": "of nobody's"}, "x"),
    ({"anyOf": [True, False]}, "x"),
    ({"minimum": 3, "minLength": 3, "minItems": 3, "required": ["a"]}, None),
]

MISFITS: list[tuple[dict[str, Any], Any, str]] = [
    ({"type": "null"}, 0, "$: 0 is not of type null"),
    ({"type": "boolean"}, 1, "not of type boolean"),
    ({"type": "integer"}, True, "not of type integer"),
    ({"type": "integer"}, 1.5, "not of type integer"),
    ({"type": "integer"}, "1", "not of type integer"),
    ({"type": "number"}, False, "not of type number"),
    ({"type": "string"}, b"".__class__, "not of type string"),
    ({"type": "array"}, "abc", "not of type array"),
    ({"type": "object"}, [], "not of type object"),
    ({"type": ["string", "null"]}, 1, "not of type string or null"),
    ({"enum": [1, "a"]}, True, "True is none of 1, 'a'"),
    ({"const": 1}, True, "True is not 1"),
    ({"const": {"a": 1}}, {"a": True}, "is not"),
    ({"minimum": 1}, 0, "less than 1"),
    ({"maximum": 1}, 2, "more than 1"),
    ({"exclusiveMinimum": 1}, 1, "not more than 1"),
    ({"exclusiveMaximum": 1}, 1, "not less than 1"),
    ({"minimum": 1}, float("-inf"), "less than 1"),
    ({"multipleOf": 0.1}, 0.35, "no multiple of 0.1"),
    ({"multipleOf": 0.1}, float("inf"), "no multiple of 0.1"),
    ({"minimum": 1}, float("nan"), "nan is less than 1"),
    ({"maximum": 1}, float("nan"), "nan is more than 1"),
    ({"minLength": 1}, "", "has 0 characters, fewer than 1"),
    ({"maxLength": 1}, "ab", "has 2 characters, more than 1"),
    ({"pattern": "^a"}, "b", "does not match"),
    ({"minItems": 1}, [], "has 0 items"),
    ({"maxItems": 1}, [1, 2], "has 2 items"),
    ({"uniqueItems": True}, [1, 1.0], "not all different"),
    ({"prefixItems": [{"type": "integer"}]}, ["a"], "$[0]: 'a'"),
    ({"prefixItems": [{}], "items": False}, [1, 2], "$[1]: nothing is allowed"),
    ({"items": {"type": "integer"}}, [1, "a"], "$[1]: 'a'"),
    ({"items": [{}], "additionalItems": False}, [1, 2], "$[1]"),
    ({"contains": {"type": "integer"}}, ["a"], "0 of its items"),
    ({"required": ["a"]}, {}, "'a' is missing"),
    ({"properties": {"a": {"type": "integer"}}}, {"a": "x"}, "$.a: 'x'"),
    ({"additionalProperties": False}, {"a": 1}, "the key 'a' is not expected"),
    ({"additionalProperties": {"type": "integer"}}, {"a": "x"}, "$.a"),
    ({"patternProperties": {"^x": {"type": "integer"}}}, {"x1": "a"}, "$.x1"),
    ({"propertyNames": {"maxLength": 1}}, {"ab": 1}, "the key 'ab'"),
    ({"type": "object"}, {1: 1}, "its key 1 is no text"),
    ({"minProperties": 1}, {}, "has 0 keys"),
    ({"maxProperties": 0}, {"a": 1}, "has 1 keys"),
    ({"dependentRequired": {"a": ["b"]}}, {"a": 1}, "with 'a', 'b' is needed"),
    ({"allOf": [{"minimum": 1}, {"maximum": 2}]}, 3, "more than 2"),
    ({"anyOf": [{"type": "integer"}, {"type": "string"}]}, None, "fits none of the 2 choices"),
    ({"oneOf": [{"type": "integer"}, {"minimum": 5}]}, 7, "fits 2 of the choices"),
    ({"oneOf": [{"type": "integer"}, {"type": "null"}]}, "x", "fits none of the 2 choices"),
    ({"not": {"type": "string"}}, "a", "is not allowed"),
    ({"if": {"type": "string"}, "then": {"minLength": 2}}, "a", "fewer than 2"),
    ({"if": {"type": "string"}, "else": {"minimum": 3}}, 1, "less than 3"),
    (TREE, {"kids": [{"kids": [{}]}]}, "$.kids[0].kids[0]: 'kids' is missing"),
    ({"format": "date-time"}, "yesterday", "no date-time"),
    ({"format": "date"}, "2026-02-30", "no date"),
    ({"format": "uuid"}, "x", "no uuid"),
    ({"format": "ipv4"}, "1.2.3", "no ipv4"),
]


@pytest.mark.parametrize(("schema", "value"), FITS)
def test_P16_what_fits(schema: dict[str, Any], value: Any) -> None:
    check_schema(schema)
    assert mismatches(schema, value) == []


@pytest.mark.parametrize(("schema", "value", "told"), MISFITS)
def test_P16_what_does_not_fit_is_told_with_its_place(schema: dict[str, Any], value: Any, told: str) -> None:
    check_schema(schema)
    problems = mismatches(schema, value)
    assert any(told in problem for problem in problems), problems
    assert all(problem.startswith("$") for problem in problems)


def test_P16_not_more_problems_are_told_than_anybody_reads() -> None:
    assert len(mismatches({"items": {"type": "integer"}}, ["x"] * 100)) == MOST


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "https://example.org/schema"},
        {"$ref": "#/$defs/gone"},
        {"$ref": "#anchor"},
        {"$ref": 1},
        {"items": {"pattern": "("}},
        {"patternProperties": {"(": {}}},
        {"properties": {"a": {"unevaluatedProperties": False}}},
        {"anyOf": [{"$dynamicRef": "#x"}]},
        {"$defs": {"a": {"dependentSchemas": {}}}},
    ],
    ids=repr,
)
def test_P16_a_schema_that_cannot_be_checked_is_refused(schema: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="response schema"):
        check_schema(schema)


def test_P16_numbers_of_any_length_are_checked() -> None:
    assert mismatches({"multipleOf": 3, "minimum": 10**5000 - 1}, 10**5000 - 1) == []
    assert mismatches({"multipleOf": 3}, 10**5000) == ["$: a number too long to show is no multiple of 3"]
    assert mismatches({"maximum": 1.5, "multipleOf": 0.5}, 10**5000) == ["$: a number too long to show is more than 1.5"]


def test_P16_a_circle_or_an_endless_depth_is_a_problem_and_no_crash() -> None:
    assert mismatches({"$ref": "#"}, 1) == ["$: it is nested too deeply to be checked"]
    deep: Any = {"kids": []}
    for _ in range(5_000):
        deep = {"kids": [deep]}
    assert mismatches(TREE, deep) == ["$: it is nested too deeply to be checked"]


class Colour(enum.Enum):
    """A choice."""

    RED = "red"


class Level(int, enum.Enum):
    """A choice that is a number."""

    LOW = 1


@dataclass
class Point:
    """Two numbers."""

    x: int
    tags: tuple[str, ...] = ("a",)


def test_P16_objects_are_checked_by_what_they_hold() -> None:
    moment = dt.datetime(2026, 1, 2, tzinfo=dt.timezone.utc)
    value = {"a": Point(1), "b": [Colour.RED, Level.LOW], "c": moment, "d": {1}, "e": b"x", "f": PurePosixPath("/a"), "g": None}
    assert plain(value) == {
        "a": {"x": 1, "tags": ["a"]},
        "b": ["red", 1],
        "c": "2026-01-02T00:00:00+00:00",
        "d": [1],
        "e": "x",
        "f": "/a",
        "g": None,
    }
