"""The schemas of a graph's input, output and context as pydantic models and as JSON schema. Needs pydantic."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin

from perdure.constants import ROOT
from perdure.errors import MissingExtra
from perdure.graph.annotations import field_types, kind_of
from perdure.graph.schema import Schema

if TYPE_CHECKING:
    from pydantic import BaseModel


def model_of(schema: Schema, name: str) -> type[BaseModel]:
    """A pydantic model of a schema: the class itself if it is one.

    Raises:
        MissingExtra: pydantic is not installed.
    """
    model: type[BaseModel] = _model(schema.declared, {key: schema.hints[key] for key in schema.channels}, name)
    return model


def json_schema_of(declared: Any, name: str) -> dict[str, Any]:
    """The JSON schema of a state or context class, titled by the class's own name if it has one.

    Raises:
        InvalidGraph: an annotation of the class cannot be evaluated.
        MissingExtra: pydantic is not installed.
    """
    keyless = kind_of(declared) is None
    hints = {ROOT: declared} if keyless else field_types(declared)
    model = _model(declared, hints, name if keyless else declared.__name__)
    schema: dict[str, Any] = model.model_json_schema()
    for key, hint in hints.items():
        # A key that may be left out has no default; the model needs one to allow that.
        if kind_of(declared) == "typeddict" and not _is_required(declared, key, hint):
            schema["properties"][key].pop("default", None)
    return schema


def _model(declared: Any, hints: Mapping[str, Any], name: str) -> Any:
    pydantic = _pydantic()
    kind = kind_of(declared)
    if kind == "pydantic":
        return declared
    if kind is None:
        model = pydantic.RootModel[hints[ROOT]]
        model.__name__ = model.__qualname__ = name
        model.model_config["title"] = name
        model.model_rebuild(force=True)
        return model
    fields = {key: (_plain(hint), _default(declared, key, hint)) for key, hint in hints.items()}
    return pydantic.create_model(name, __config__=pydantic.ConfigDict(arbitrary_types_allowed=True), **fields)


def _default(declared: Any, key: str, hint: Any) -> Any:
    """The default of a field; an ellipsis where there is none."""
    if kind_of(declared) == "typeddict":
        return ... if _is_required(declared, key, hint) else None
    if kind_of(declared) != "dataclass":
        return getattr(declared, key, ...)
    field = next(field for field in dataclasses.fields(get_origin(declared) or declared) if field.name == key)
    if field.default_factory is not dataclasses.MISSING:
        return _pydantic().Field(default_factory=field.default_factory)
    return ... if field.default is dataclasses.MISSING else field.default


def _is_required(declared: Any, key: str, hint: Any) -> bool:
    # The annotation first: where annotations are text, the class itself takes every key for required.
    said = _name_of(hint)
    if said in ("Required", "NotRequired"):
        return said == "Required"
    return key in getattr(get_origin(declared) or declared, "__required_keys__", ())


def _name_of(hint: Any) -> str:
    if get_origin(hint) is Annotated:
        hint = hint.__origin__
    origin = get_origin(hint)
    return str(getattr(origin, "_name", None) or getattr(origin, "__name__", ""))


def _plain(hint: Any) -> Any:
    """The type without Required and the like, which a model's fields may not have; what Annotated holds does not disturb."""
    if get_origin(hint) is not Annotated and _name_of(hint) in ("Required", "NotRequired", "ReadOnly"):
        return _plain(get_args(hint)[0])
    return hint


def _pydantic() -> Any:
    try:
        import pydantic
    except ImportError as error:
        raise MissingExtra("A schema as a pydantic model or JSON schema", "pydantic") from error
    return pydantic
