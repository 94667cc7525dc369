"""Which classes may be stored in a state, read off its annotations, so that the serializer may load them again."""

from __future__ import annotations

import enum
import typing
from collections.abc import Iterable
from typing import Any, get_args, get_origin

from perdure.errors import InvalidGraph
from perdure.graph.annotations import field_types, kind_of, unwrap


def types_in(annotations: Iterable[Any]) -> tuple[type[Any], ...]:
    """Dataclasses, enums, pydantic models and named tuples that these annotations reach, in the order they are met.

    Walks unions, containers, `Annotated`, `NewType`, type variables' bounds, and the fields of each class it finds. A field whose
    type cannot be evaluated is passed over: the class around it is still known.
    """
    found: dict[type[Any], None] = {}
    seen: set[int] = set()
    # Annotations are made anew by each look at them; kept here, their ids stay theirs.
    waiting = list(annotations)
    waiting.reverse()
    kept: list[Any] = []
    while waiting:
        hint = waiting.pop()
        if id(hint) in seen:
            continue
        seen.add(id(hint))
        kept.append(hint)
        try:
            hint, _ = unwrap(hint)
        except (NameError, TypeError):
            continue
        waiting.extend(reversed(_parts(hint)))
        cls = get_origin(hint) or hint
        if isinstance(cls, type) and cls not in found:
            if _is_stored(cls):
                found[cls] = None
            if cls is not hint:
                waiting.append(cls)
    return tuple(found)


def _is_stored(cls: type[Any]) -> bool:
    if issubclass(cls, enum.Enum):
        return cls.__module__ != "enum"
    if kind_of(cls) in ("pydantic", "dataclass"):
        return True
    return issubclass(cls, tuple) and hasattr(cls, "_fields")


def _parts(hint: Any) -> list[Any]:
    """The annotations inside an annotation."""
    if get_origin(hint) is typing.Literal:
        return [type(choice) for choice in get_args(hint) if isinstance(choice, enum.Enum)]
    inside = [part for arg in get_args(hint) for part in (arg if isinstance(arg, list) else [arg])]
    if hasattr(hint, "__supertype__"):
        inside.append(hint.__supertype__)
    if isinstance(hint, typing.TypeVar):
        inside += [hint.__bound__, *hint.__constraints__]
    cls = get_origin(hint) or hint
    if isinstance(cls, type) and kind_of(cls) is not None and not issubclass(cls, enum.Enum):
        try:
            inside += field_types(cls).values()
        except InvalidGraph:
            pass
    return inside
