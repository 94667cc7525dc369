"""Pydantic models (version 2). pydantic itself is never imported here: whoever has a model has imported it.

A model comes back as it was: field by field, without validation, which could change it. Only if the class has changed since, told by a
fingerprint of its fields, its own validation decides whether the stored data still fits.
"""

from __future__ import annotations

import sys
from binascii import crc32
from collections.abc import Callable
from typing import Any

from ormsgpack import Ext

from perdure.checkpoint.serde import format_v1 as v1
from perdure.checkpoint.serde.builtin_values import FACTORIES
from perdure.checkpoint.serde.class_values import Codec, Misfit, Upgrade, cached_names, refuse_extras
from perdure.checkpoint.serde.encode import Encoder
from perdure.checkpoint.serde.schema_types import describe, model_fields

MAX_ARGUMENTS = 8
MAX_GENERIC_DEPTH = 4


def is_model_class(cls: type) -> bool:
    """Whether a class is a pydantic model."""
    pydantic = sys.modules.get("pydantic")
    return pydantic is not None and issubclass(cls, pydantic.BaseModel)


class ModelCodec(Codec):
    """One model class."""

    code = v1.MODEL
    __slots__ = ("bits", "extras", "fingerprint", "names", "order", "sets")

    def __init__(self, cls: type, name: Any, upgrade: Upgrade | None = None) -> None:
        super().__init__(cls, name, upgrade)
        # Both wait for the first use: when a model is registered, names in its annotations may not be defined yet.
        self.names: dict[str, None] | None = None
        self.fingerprint = 0
        self.extras = cached_names(cls)
        self.order: tuple[str, ...] = ()
        self.bits: dict[str, int] = {}
        self.sets: dict[int, frozenset[str]] = {}

    def prepare(self) -> dict[str, None]:
        """The names of the fields; the fingerprint is known afterwards."""
        self.fingerprint = _fingerprint(self.cls)
        self.names = names = dict.fromkeys(model_fields(self.cls))
        self.order = tuple(names)
        self.bits = {name: 1 << bit for bit, name in enumerate(names)}
        return names

    def _mask(self, names: tuple[str, ...], explicit: set[str]) -> int:
        """Which of the names were set explicitly, as bits."""
        if names == self.order and explicit.issubset(self.bits):
            return sum([self.bits[name] for name in explicit])
        return sum([1 << bit for bit, name in enumerate(names) if name in explicit])

    def _explicit(self, names: tuple[str, ...], mask: int) -> set[str]:
        """The names that a mask says were set explicitly."""
        if names != self.order:
            return {name for bit, name in enumerate(names) if mask >> bit & 1}
        known = self.sets.get(mask)
        if known is None:
            known = frozenset([name for name, bit in self.bits.items() if mask & bit])
            # Instances of a class differ in few ways; hostile masks do not fill the memory.
            if len(self.sets) < 256:
                self.sets[mask] = known
        return set(known)

    def dump(self, enc: Encoder, value: Any) -> Ext:
        """The fields, and what pydantic keeps beside them."""
        names = self.names or self.prepare()
        content: dict[str, Any] = value.__dict__
        if not content.keys() <= names.keys():
            refuse_extras(content, names, self.extras)
            content = {name: content[name] for name in content if name in names}
        extra = value.__pydantic_extra__
        private = value.__pydantic_private__
        if private:
            undefined = sys.modules["pydantic_core"].PydanticUndefined
            private = {name: item for name, item in private.items() if item is not undefined}
        mask = self._mask(tuple(content) if not extra else (*content, *extra), value.__pydantic_fields_set__)
        return Ext(v1.MODEL, enc.pack_parts((self.name, self.fingerprint, mask), (content, extra, private)))

    def load(self, parts: list[Any]) -> Any:
        """The model as it was, or validated if its class has changed."""
        _, fingerprint, mask, content, extra, private = parts
        known = self.names or self.prepare()
        if fingerprint != self.fingerprint or not content.keys() <= known.keys():
            return self._load_changed(mask, content, extra, private)
        names = (*content, *extra) if extra else tuple(content)
        cls: Any = self.cls
        value = cls.__new__(cls)
        # Past the frozen and assignment checks of the model, as pydantic's own unpickling does.
        put = object.__setattr__
        put(value, "__dict__", content)
        put(value, "__pydantic_fields_set__", self._explicit(names, mask))
        if not cls.__pydantic_root_model__:
            # A root model has these as None on its class, not as slots.
            put(value, "__pydantic_extra__", extra)
            put(value, "__pydantic_private__", private)
        return value

    def _load_changed(
        self, mask: int, content: dict[str, Any], extra: dict[str, Any] | None, private: dict[str, Any] | None
    ) -> Any:
        """A model of a class that has changed since: what its own validation makes of the stored fields."""
        cls: Any = self.cls
        given = {**content, **(extra or {})}
        if cls.model_config.get("extra") != "allow":
            gone = [name for name in given if name not in (self.names or {})]
            if gone:
                raise Misfit(f"it has no field {gone[0]!r} any more")
        by_alias = cls.model_config.get("validate_by_alias") is not False
        aliases = {name: _alias(name, field) for name, field in model_fields(cls).items()} if by_alias else {}
        try:
            value = cls.model_validate({aliases.get(name, name): item for name, item in given.items()})
        except Exception as error:
            raise Misfit("its fields have changed, and the stored ones are not valid any more") from error
        if type(value) is not cls:
            raise Misfit("its validation gives another type")
        current = value.__pydantic_private__
        for name, item in (private or {}).items():
            if name not in cls.__private_attributes__:
                raise Misfit(f"it has no private attribute {name!r} any more")
            current[name] = item
        object.__setattr__(value, "__pydantic_fields_set__", self._explicit(tuple(given), mask))
        return value


def _alias(name: str, field: Any) -> str:
    """The key under which validation looks for a field."""
    alias = field.validation_alias or field.alias
    choices = getattr(alias, "choices", None)
    if choices:
        alias = next((choice for choice in choices if isinstance(choice, str)), name)
    return alias if isinstance(alias, str) else name


def _fingerprint(cls: type) -> int:
    fields = model_fields(cls)
    text = "\n".join(
        f"{name} {describe(field.annotation)} {[describe(item) for item in field.metadata]}"
        for name, field in sorted(fields.items())
    )
    return crc32(text.encode("utf-8", "backslashreplace"))


# --- parametrised models


def generic_parts(cls: type) -> tuple[type, tuple[Any, ...]] | None:
    """Origin and arguments of a parametrised model, or None."""
    found: dict[str, Any] = getattr(cls, "__pydantic_generic_metadata__", {})
    origin = found.get("origin")
    return None if origin is None else (origin, tuple(found.get("args", ())))


def generic_name(cls: type, name_of: Callable[[type], Any]) -> list[Any] | None:
    """The stored name of a parametrised model whose parts all have one, or None."""
    parts = generic_parts(cls)
    if parts is None:
        return None
    origin, arguments = parts
    names = [name_of(origin)]
    for argument in arguments:
        if isinstance(argument, type) and FACTORIES.get(argument.__name__) is argument:
            names.append(argument.__name__)
        else:
            names.append(name_of(argument) if isinstance(argument, type) else None)
    return None if None in names or len(names) > MAX_ARGUMENTS + 1 else names


def generic_class(name: list[Any], class_of: Callable[[str], type | None], depth: int = 0) -> type | None:
    """The parametrised model of a stored name, from registered classes only, or None."""
    if not 2 <= len(name) <= MAX_ARGUMENTS + 1 or depth >= MAX_GENERIC_DEPTH or type(name[0]) is not str:
        return None
    origin: Any = class_of(name[0])
    arguments: list[Any] = []
    for part in name[1:]:
        if type(part) is list:
            arguments.append(generic_class(part, class_of, depth + 1))
        else:
            arguments.append((FACTORIES.get(part) or class_of(part)) if type(part) is str else None)
    if origin is None or None in arguments or not is_model_class(origin):
        return None
    if len(arguments) != len(origin.__pydantic_generic_metadata__["parameters"]):
        return None
    try:
        found: type = origin[tuple(arguments)]
    except Exception:  # noqa: BLE001  bounds of type variables are checked by pydantic
        return None
    return found
