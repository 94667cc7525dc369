"""Objects of state classes: building one from a node's view of the state, and reading the pairs of one that a node returned."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterable
from operator import attrgetter
from typing import Any, get_origin

from perdure.graph.annotations import field_names, kind_of
from perdure.graph.schema import Schema

Pairs = list[tuple[str, Any]]
_ABSENT: Any = object()


def maker(schema: Schema) -> Callable[[dict[str, Any]], Any] | None:
    """What builds a schema's object from the values at hand; None where nodes get the dict itself.

    The function it returns raises what the class raises: pydantic's ValidationError, or TypeError for a field without value.
    """
    match schema.kind:
        case "pydantic":
            return _model_maker(schema.declared)
        case "dataclass":
            return _dataclass_maker(schema.declared)
        case _:
            return None


def _model_maker(model: Any) -> Callable[[dict[str, Any]], Any]:
    aliases = {name: alias for name, field in model.model_fields.items() if (alias := _alias(field)) not in (None, name)}
    validate: Callable[[Any], Any] = model.model_validate
    if not aliases or model.model_config.get("populate_by_name") or model.model_config.get("validate_by_name"):
        return validate
    # State keys are field names; the model itself asks for its aliases.
    return lambda values: validate({aliases.get(key, key): value for key, value in values.items()})


def _alias(field: Any) -> str | None:
    alias = field.validation_alias if field.validation_alias is not None else field.alias
    if alias is None or isinstance(alias, str):
        return alias
    # AliasChoices: any of its plain names will do.
    return next((choice for choice in getattr(alias, "choices", ()) if isinstance(choice, str)), None)


def _dataclass_maker(cls: Any) -> Callable[[dict[str, Any]], Any]:
    fields = dataclasses.fields(get_origin(cls) or cls)
    late = frozenset(field.name for field in fields if not field.init)

    def make(values: dict[str, Any]) -> Any:
        try:
            made = cls(**{key: value for key, value in values.items() if key not in late} if late else values)
        except TypeError as error:
            _explain(error, fields, values)
            raise
        for key in late & values.keys():
            object.__setattr__(made, key, values[key])
        return made

    return make


def _explain(error: TypeError, fields: Iterable[dataclasses.Field[Any]], values: Collection[str]) -> None:
    nothing = dataclasses.MISSING
    needed = [
        f.name for f in fields if f.init and f.default is nothing and f.default_factory is nothing and f.name not in values
    ]
    if needed:
        error.add_note(
            f"State keys {needed} have no value yet: give them in the input, write them in an earlier node, or give the fields of "
            "the state class a default"
        )


def pairs_reader(
    schemas: Iterable[Schema], keys: Collection[str], managed: Collection[str] = ()
) -> Callable[[Any], Pairs | None]:
    """What reads the (key, value) pairs of a returned object.

    Any object with declared fields will do, as long as one of its fields is a key of the state, so that an object that only
    strayed here is not taken for an update. Managed values are not read: a node may return the very object it was given. Of a
    pydantic model, None is an update only where it was set or is not the default.
    """
    known = {id(get_origin(schema.declared) or schema.declared) for schema in schemas if schema.kind is not None}
    own_keys = frozenset(keys)
    plans: dict[type, Callable[[Any], Pairs] | None] = {}

    def pairs_of(value: Any) -> Pairs | None:
        cls = type(value)
        try:
            plan = plans[cls]
        except KeyError:
            plan = plans[cls] = plan_for(cls)
        return None if plan is None else plan(value)

    def plan_for(cls: type) -> Callable[[Any], Pairs] | None:
        kind = kind_of(cls)
        if kind is None:
            return None
        names = tuple(name for name in field_names(cls) if name not in managed)
        if not (own_keys.intersection(names) or id(cls) in known):
            return None
        return _model_pairs(cls, names) if kind == "pydantic" else _field_pairs(names)

    return pairs_of


def _field_pairs(names: tuple[str, ...]) -> Callable[[Any], Pairs]:
    def read(value: Any) -> Pairs:
        return [(name, found) for name in names if (found := getattr(value, name, _ABSENT)) is not _ABSENT]

    return read


def _model_pairs(model: Any, names: tuple[str, ...]) -> Callable[[Any], Pairs]:
    silent = frozenset(name for name, field in model.model_fields.items() if field.default is None)
    fields_set = attrgetter("model_fields_set")

    def read(value: Any) -> Pairs:
        written = fields_set(value)
        pairs = ((name, getattr(value, name, _ABSENT)) for name in names)
        return [
            (name, found)
            for name, found in pairs
            if found is not _ABSENT and (found is not None or name in written or name not in silent)
        ]

    return read
