"""Which classes an annotation mentions: what a state may hold is what its schema names."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import fields, is_dataclass
from types import UnionType
from typing import Any, ForwardRef, NewType, TypeVar, get_args, get_origin, get_type_hints


def describe(annotation: Any) -> str:
    """A text of an annotation that is the same in every process and differs if the annotation does.

    Without the modules of classes: a class may move, and a script is `__main__` when it runs by itself.
    """
    if isinstance(annotation, type) and get_origin(annotation) is None:
        return annotation.__qualname__
    origin = get_origin(annotation)
    if origin is not None:
        metadata = getattr(annotation, "__metadata__", ())
        arguments = [*(get_args(annotation)[:1] if metadata else get_args(annotation)), *metadata]
        # `int | None` and Optional[int] are one type from Python 3.14 on.
        name = "Union" if origin is UnionType else describe(origin)
        return f"{name}[{', '.join(describe(argument) for argument in arguments)}]"
    if isinstance(annotation, (list, tuple)):
        return f"[{', '.join(describe(item) for item in annotation)}]"
    if isinstance(annotation, ForwardRef):
        return annotation.__forward_arg__
    named = getattr(annotation, "__qualname__", None)
    if callable(annotation) and isinstance(named, str):
        return named
    try:
        text = repr(annotation)
    except Exception:  # noqa: BLE001  the repr of a stranger's object
        text = " at 0x"
    # An address differs in each process.
    return type(annotation).__qualname__ if " at 0x" in text else text


def classes_in(annotations: Iterable[Any]) -> list[type]:
    """All classes that annotations mention, at any depth.

    Looks into unions, containers, Annotated, type aliases and NewTypes, and into the fields of TypedDicts, dataclasses, namedtuples and
    pydantic models. Names that cannot be resolved are left out.
    """
    found: dict[type, None] = {}
    seen: set[int] = set()
    # Kept, so that no id is used twice.
    open_ = list(annotations)[::-1]
    visited: list[Any] = []
    while open_:
        annotation = open_.pop()
        if id(annotation) in seen:
            continue
        seen.add(id(annotation))
        visited.append(annotation)
        open_.extend(reversed(list(_inside(annotation, found))))
    return list(found)


def _inside(annotation: Any, found: dict[type, None]) -> Iterable[Any]:
    origin = get_origin(annotation)
    if origin is not None:
        # Of Annotated only the type; what else it holds is no schema.
        arguments = get_args(annotation)[:1] if getattr(annotation, "__metadata__", None) else get_args(annotation)
        return [origin, *arguments]
    if isinstance(annotation, (list, tuple)):
        return annotation
    if isinstance(annotation, NewType):
        return [annotation.__supertype__]
    if isinstance(annotation, TypeVar):
        return [annotation.__bound__, *annotation.__constraints__]
    if isinstance(annotation, type):
        found[annotation] = None
        generic: dict[str, Any] = getattr(annotation, "__pydantic_generic_metadata__", {})
        return [
            *field_annotations(annotation),
            *generic.get("args", ()),
            *([generic["origin"]] if generic.get("origin") else []),
        ]
    # `type X = ...` of Python 3.12.
    value = getattr(annotation, "__value__", None)
    return [] if value is None else [value]


def model_fields(cls: Any) -> dict[str, Any]:
    """The fields of a pydantic model, with names that were not known yet when it was defined looked up again."""
    if not cls.__pydantic_complete__:
        try:
            cls.model_rebuild(raise_errors=False)
        except Exception:  # noqa: BLE001  a wrong annotation is for pydantic to report, when the class is used
            pass
    found: dict[str, Any] = getattr(cls, "__pydantic_fields__", None) or cls.model_fields
    return found


def field_annotations(cls: type) -> list[Any]:
    """The annotations of the fields of a TypedDict, dataclass, namedtuple or pydantic model, resolved as far as possible."""
    if isinstance(getattr(cls, "__pydantic_generic_metadata__", None), dict):
        return [field.annotation for field in model_fields(cls).values()]
    is_typed_dict = hasattr(cls, "__total__") and issubclass(cls, dict)
    if not (is_typed_dict or is_dataclass(cls) or hasattr(cls, "_fields")):
        return []
    try:
        hints = get_type_hints(cls, include_extras=True)
    except Exception:  # noqa: BLE001  a name that exists only for type checkers
        hints = {}
        for base in reversed(cls.__mro__):
            for name, hint in vars(base).get("__annotations__", {}).items():
                hints[name] = _resolved(hint, base)
    if is_dataclass(cls):
        return [hints.get(field.name) for field in fields(cls)]
    return list(hints.values())


def _resolved(hint: Any, owner: type) -> Any:
    if not isinstance(hint, str):
        return hint
    try:
        # As typing itself does: the text is the programmer's own source.
        return eval(hint, vars(sys.modules[owner.__module__]), dict(vars(owner)))  # noqa: S307
    except Exception:  # noqa: BLE001  a name that the module does not have (yet)
        return None
