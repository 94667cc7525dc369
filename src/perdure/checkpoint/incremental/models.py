"""Copies of pydantic models, such as LangChain's messages, made as the serializer makes them: without running the code of their class."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from perdure.checkpoint.incremental.outline import LEAVES


def is_model(kind: type) -> bool:
    """Whether objects of a class are pydantic models, as far as their layout goes."""
    return hasattr(kind, "__pydantic_root_model__") and hasattr(kind, "__pydantic_fields_set__")


def can_copy(model: Any, can: Callable[[Any], bool]) -> bool:
    """Whether all that a model holds is what is stored of it, and can be copied."""
    fields = object.__getattribute__(model, "__dict__")
    # What a cached property has left there is not stored.
    if not fields.keys() <= type(model).__pydantic_fields__.keys():
        return False
    return can(fields) and can(model.__pydantic_extra__) and can(model.__pydantic_private__)


def copied(model: Any, copy: Callable[[Any], Any]) -> Any:
    """A model with the same fields, whose containers are copies."""
    cls: Any = type(model)
    new = object.__new__(cls)
    put = object.__setattr__
    fields = object.__getattribute__(model, "__dict__").copy()
    for name, item in fields.items():
        if type(item) not in LEAVES:
            fields[name] = copy(item)
    put(new, "__dict__", fields)
    put(new, "__pydantic_fields_set__", model.__pydantic_fields_set__.copy())
    if not cls.__pydantic_root_model__:  # which has these on its class
        extra, private = model.__pydantic_extra__, model.__pydantic_private__
        put(new, "__pydantic_extra__", extra if extra is None else copy(extra))
        put(new, "__pydantic_private__", private if private is None else copy(private))
    return new
