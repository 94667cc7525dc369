"""Checking state values against the schema's annotations, after reducers and before anything is stored.

A pydantic state is checked field by field with the field's own rules, lax as the model is. A dataclass state promises less: its
values are checked by class, one level deep. A TypedDict promises nothing. Values are only looked at, never changed.
"""

from __future__ import annotations

import collections.abc
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, get_args, get_origin

import typing_extensions

from perdure.errors import InvalidState
from perdure.graph.annotations import unwrap
from perdure.graph.schema import Schema

Check = Callable[[Any], str | None]
"""Says why a value does not fit; None if it does."""

# With these the value is what the annotation says. A Topic, for one, turns T into a list of T.
_SAME_VALUE: Final = frozenset(
    {"LastValue", "AnyValue", "EphemeralValue", "UntrackedValue", "BinaryOperatorAggregate", "DeltaChannel"}
)


# Numbers of other kinds (numpy's, Decimal) may stand for Python's own where they convert without loss of meaning.
_CONVERTS: Final[Mapping[Any, tuple[str, ...]]] = {
    int: ("__index__",),
    float: ("__float__",),
    complex: ("__complex__", "__float__"),
}


def state_validator(schemas: Iterable[Schema]) -> Callable[[Mapping[str, Any], frozenset[str]], None] | None:
    """What refuses values that do not fit; None if no schema promises anything.

    Each key is checked as the first schema that declares it says. The function it returns raises InvalidState, which names the key.
    """
    owners: dict[str, Schema] = {}
    for schema in schemas:
        for key in schema.channels:
            owners.setdefault(key, schema)
    owners = {
        key: schema for key, schema in owners.items() if schema.kind in ("pydantic", "dataclass") and _is_plain(schema, key)
    }
    if not owners:
        return None
    checks: dict[str, Check] = {}

    def validate(values: Mapping[str, Any], changed: frozenset[str]) -> None:
        for key in changed:
            owner = owners.get(key)
            if owner is None or key not in values:
                continue
            check = checks.get(key)
            if check is None:
                # Built at first use: building one takes pydantic up to a millisecond.
                check = checks[key] = _check_for(owner, key)
            problem = check(values[key])
            if problem is not None:
                raise InvalidState(_message(key, owner, values[key], problem), key=key)

    return validate


def _is_plain(schema: Schema, key: str) -> bool:
    return type(schema.channels[key]).__name__ in _SAME_VALUE


def _message(key: str, owner: Schema, value: Any, problem: str) -> str:
    shown = repr(value)
    shown = shown if len(shown) <= 120 else shown[:117] + "..."
    return (
        f"Key {key!r} cannot hold {shown} ({type(value).__name__}) after its reducer: {owner.name} declares "
        f"{type_text(owner.hints[key])}, {problem}. Write a value that fits, or widen the annotation"
    )


def type_text(hint: Any) -> str:
    """An annotation as a person would write it, without what `Annotated` holds."""
    hint, _ = unwrap(hint)
    if isinstance(hint, type) and get_origin(hint) is None:
        return hint.__name__
    return str(hint).replace("typing.", "")


def _check_for(schema: Schema, key: str) -> Check:
    if schema.kind == "pydantic":
        return _pydantic_check(schema.declared, schema.hints[key]) or class_check(schema.hints[key])
    return class_check(schema.hints[key])


def _pydantic_check(model: Any, hint: Any) -> Check | None:
    """The field's check as pydantic makes it; None if pydantic cannot make one of this type alone."""
    from pydantic import ConfigDict, PydanticSchemaGenerationError, PydanticUserError, TypeAdapter, ValidationError

    config = ConfigDict(**{**model.model_config, "arbitrary_types_allowed": True, "title": None})  # type: ignore[typeddict-item]
    adapter: TypeAdapter[Any]
    try:
        adapter = TypeAdapter(hint, config=config)
    except PydanticSchemaGenerationError:
        return None
    except PydanticUserError:
        # A type with a config of its own (a model, a dataclass) takes no other.
        try:
            adapter = TypeAdapter(hint)
        except (PydanticSchemaGenerationError, PydanticUserError):
            return None
    validate = adapter.validate_python

    def check(value: Any) -> str | None:
        try:
            validate(value)
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False)[0]
            place = "".join(f"[{part!r}]" for part in first["loc"])
            return f"but {'at ' + place + ': ' if place else ''}{first['msg']}"
        return None

    return check


def class_check(hint: Any) -> Check:
    """A check of a value's class: members of unions, the class of a container, but not what is inside."""
    fits = _fits(hint)

    def check(value: Any) -> str | None:
        return None if fits is None or fits(value) else f"not {type(value).__name__}"

    return check


def _fits(hint: Any) -> Callable[[Any], bool] | None:
    """Whether a value is of a type; None if the type says nothing that can be checked."""
    hint, _ = unwrap(hint)
    if hasattr(hint, "__supertype__"):
        return _fits(hint.__supertype__)
    if hint is None or hint is type(None):
        return lambda value: value is None
    origin = get_origin(hint)
    if origin is typing.Union or origin is types.UnionType:
        members = [_fits(member) for member in get_args(hint)]
        known = [member for member in members if member is not None]
        return (lambda value: any(member(value) for member in known)) if len(known) == len(members) else None
    if origin is typing.Literal:
        choices = get_args(hint)
        return lambda value: any(type(choice) is type(value) and choice == value for choice in choices)
    cls = origin or hint
    if cls is collections.abc.Callable:
        return callable
    if not isinstance(cls, type) or cls in (object, Any, typing_extensions.Any) or getattr(cls, "_is_protocol", False):
        return None
    if typing_extensions.is_typeddict(cls):
        return lambda value: isinstance(value, dict)
    converts = _CONVERTS.get(cls)
    if converts is not None:
        return lambda value: any(hasattr(type(value), name) for name in converts)
    if cls is bool:
        return lambda value: isinstance(value, bool) or type(value).__name__ in ("bool", "bool_")
    return lambda value: isinstance(value, cls)
