"""Instances of registered classes: enums, dataclasses, namedtuples, children of built-in types, and classes with their own functions.

A codec belongs to one class. It writes the class's stored name and the content; it rebuilds an instance from content that fits, without
running `__init__`, and raises Misfit for content that does not. Which class has which codec is the registry's affair.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum, Flag
from functools import cached_property
from typing import Any, ClassVar, Final

from ormsgpack import Ext

from perdure.checkpoint.serde import format_v1 as v1
from perdure.checkpoint.serde.encode import Encoder, Refused
from perdure.errors import CorruptRecord

BASES: Final = (str, int, float, bytes, list, dict, tuple, set, frozenset)
"""Built-in types whose children can be stored. Each child has one of them."""

Upgrade = Callable[[Any], Any]


class Misfit(Exception):
    """Stored content does not fit the class as it is now."""


class Codec:
    """How instances of one class are written and read.

    Attributes:
        cls: the class.
        name: its stored name; a list for a parametrised model.
        upgrade: makes a value of stored content that does not fit, or None.
    """

    code: ClassVar[int]
    __slots__ = ("cls", "name", "upgrade")

    def __init__(self, cls: type, name: Any, upgrade: Upgrade | None = None) -> None:
        self.cls = cls
        self.name = name
        self.upgrade = upgrade

    def dump(self, enc: Encoder, value: Any) -> Ext:
        """The extension of an instance.

        Raises:
            Refused: this instance would not come back as it is.
        """
        raise NotImplementedError

    def load(self, parts: list[Any]) -> Any:
        """The instance of a payload's parts.

        Raises:
            Misfit: they do not fit the class as it is now.
        """
        raise NotImplementedError


class EnumCodec(Codec):
    """A member by its name. With a data type mixed in, and for flags, the value must still be the same."""

    code = v1.ENUM
    __slots__ = ()

    def dump(self, enc: Encoder, value: Any) -> Ext:
        """The member's name, and its value where that is data."""
        if isinstance(value, Flag):
            return Ext(v1.ENUM, enc.pack([self.name, _flag_names(value), value._value_]))
        name, plain = value._name_, value._value_
        if self.cls._member_map_.get(name) is not value:  # type: ignore[attr-defined]
            raise Refused("cannot be stored: it is no member of its enum")
        if isinstance(value, (str, int, float, bytes)) and type(plain) in (str, int, float, bool, bytes):
            return Ext(v1.ENUM, enc.pack([self.name, name, plain]))
        return Ext(v1.ENUM, enc.pack([self.name, name]))

    def load(self, parts: list[Any]) -> Any:
        """The member of that name."""
        name = parts[1]
        members: dict[str, Any] = self.cls._member_map_  # type: ignore[attr-defined]
        if type(name) is list:
            return self._load_flag(members, name, parts[2])
        member = members.get(name)
        if member is None:
            raise Misfit(f"it has no member {name!r} any more")
        if len(parts) == 3 and (type(parts[2]) is not type(member._value_) or parts[2] != member._value_):
            raise Misfit(f"its member {name!r} had the value {parts[2]!r} and now has {member._value_!r}")
        return member

    def _load_flag(self, members: dict[str, Any], names: list[Any], value: Any) -> Any:
        if not issubclass(self.cls, Flag) or type(value) is not int:
            raise Misfit("it was a flag")
        for name in names:
            if name not in members or members[name]._value_ & value != members[name]._value_:
                raise Misfit(f"its flag {name!r} is gone or has another value")
        try:
            flag = self.cls(value)
        except ValueError as error:
            raise Misfit(f"it does not take the value {value}") from error
        if sorted(_flag_names(flag)) != sorted(names):
            raise Misfit(f"its flags have other names now: {_flag_names(flag)} instead of {names}")
        return flag


def _flag_names(value: Flag) -> list[str]:
    """The names of the single bits that are set, in the order of the class."""
    return [member.name for member in value if member.name]


class FieldsCodec(Codec):
    """An object that is made of named attributes: a dataclass, or a class registered with `fields=`."""

    code = v1.FIELDS
    __slots__ = ("defaults", "extras", "has_dict", "names")

    def __init__(self, cls: type, name: str, names: Sequence[str], upgrade: Upgrade | None = None) -> None:
        super().__init__(cls, name, upgrade)
        self.names = dict.fromkeys(names)
        self.defaults = _defaults(cls)
        self.has_dict = bool(cls.__dictoffset__)
        self.extras = cached_names(cls)

    def dump(self, enc: Encoder, value: Any) -> Ext:
        """The attributes by name."""
        try:
            content = {name: getattr(value, name) for name in self.names}
        except AttributeError as error:
            raise Refused(f"cannot be stored: it has no {error.name!r}, which its class declares") from error
        if self.has_dict:
            refuse_extras(value.__dict__, self.names, self.extras)
        return Ext(v1.FIELDS, enc.pack_parts((self.name,), (content,)))

    def load(self, parts: list[Any]) -> Any:
        """An instance with these attributes."""
        content = complete(parts[1], self.names, self.defaults)
        value: Any = object.__new__(self.cls)
        # Past `__setattr__`, which a frozen dataclass forbids, and past `__post_init__`, which has run already.
        put = object.__setattr__
        for name in content:
            put(value, name, content[name])
        return value


class NamedTupleCodec(Codec):
    """A namedtuple, by its field names."""

    code = v1.NAMEDTUPLE
    __slots__ = ("defaults", "names")

    def __init__(self, cls: type, name: str, upgrade: Upgrade | None = None) -> None:
        super().__init__(cls, name, upgrade)
        self.names = dict.fromkeys(cls._fields)  # type: ignore[attr-defined]
        self.defaults = {field: _constant(default) for field, default in getattr(cls, "_field_defaults", {}).items()}

    def dump(self, enc: Encoder, value: Any) -> Ext:
        """The items by field name."""
        if len(value) != len(self.names):
            raise Refused("cannot be stored: it has another number of items than its class has fields")
        if getattr(value, "__dict__", None):
            raise Refused(f"cannot be stored: it has attributes besides its fields: {sorted(value.__dict__)}")
        return Ext(v1.NAMEDTUPLE, enc.pack_parts((self.name,), (dict(zip(self.names, tuple.__iter__(value), strict=True)),)))

    def load(self, parts: list[Any]) -> Any:
        """An instance with these items."""
        content = complete(parts[1], self.names, self.defaults)
        return tuple.__new__(self.cls, [content[name] for name in self.names])


class SubclassCodec(Codec):
    """A child of a built-in type: its value as that type, and its attributes."""

    code = v1.SUBCLASS
    __slots__ = ("base",)

    def __init__(self, cls: type, name: str, base: type, upgrade: Upgrade | None = None) -> None:
        super().__init__(cls, name, upgrade)
        self.base = base

    def dump(self, enc: Encoder, value: Any) -> Ext:
        """The plain value and the attributes."""
        attributes = dict(value.__dict__) if getattr(value, "__dict__", None) else None
        return Ext(v1.SUBCLASS, enc.pack_parts((self.name,), (attributes,), _PLAIN_OF[self.base](value)))

    def load(self, parts: list[Any]) -> Any:
        """An instance of that plain value."""
        _, attributes, plain = parts
        base = self.base
        if type(plain) is not base:
            raise Misfit(f"it was a {type(plain).__name__} and is now a {base.__name__}")
        if base in (list, dict, set):
            value: Any = base.__new__(self.cls)
            (list.extend if base is list else base.update)(value, plain)
        else:
            value = base.__new__(self.cls, plain)
        if attributes:
            if not hasattr(value, "__dict__"):
                raise Misfit("it has no attributes any more")
            value.__dict__.update(attributes)
        return value


class CustomCodec(Codec):
    """A class registered with its own functions."""

    code = v1.CUSTOM
    __slots__ = ("decode", "encode")

    def __init__(
        self, cls: type, name: str, encode: Callable[[Any], Any], decode: Callable[[Any], Any], upgrade: Upgrade | None = None
    ) -> None:
        super().__init__(cls, name, upgrade)
        self.encode = encode
        self.decode = decode

    def dump(self, enc: Encoder, value: Any) -> Ext:
        """What the class's own function makes of it."""
        return Ext(v1.CUSTOM, enc.pack_parts((self.name,), (), self.encode(value)))

    def load(self, parts: list[Any]) -> Any:
        """What the class's own function makes of that."""
        try:
            return self.decode(parts[1])
        except Exception as error:
            raise Misfit("its registered decode function failed") from error


_PLAIN_OF: Final[dict[type, Callable[[Any], Any]]] = {
    # Each makes the exact built-in type, without calling what the child overrides.
    str: lambda value: "".join((value,)),  # noqa: FLY002  an f-string would call the child's __format__
    int: int.__pos__,
    float: float.__pos__,
    bytes: lambda value: b"".join((value, b"")),
    list: lambda value: list.__getitem__(value, slice(None)),
    dict: lambda value: dict(zip(dict.keys(value), dict.values(value), strict=True)),
    tuple: lambda value: tuple.__getitem__(value, slice(None)),
    set: lambda value: {*set.__iter__(value)},
    frozenset: lambda value: frozenset({*frozenset.__iter__(value)}),
}


def _constant(value: Any) -> Callable[[], Any]:
    return lambda: value


def _defaults(cls: type) -> dict[str, Callable[[], Any]]:
    """For fields that were added since: what the class itself would have put there."""
    found: dict[str, Callable[[], Any]] = {}
    if is_dataclass(cls):
        for field in fields(cls):
            if field.default is not MISSING:
                found[field.name] = _constant(field.default)
            elif field.default_factory is not MISSING:
                found[field.name] = field.default_factory
    return found


def complete(content: Any, names: dict[str, None], defaults: dict[str, Callable[[], Any]]) -> dict[str, Any]:
    """Stored fields as the class has them now.

    Raises:
        Misfit: a field is gone, or a new one has no default.
    """
    if content.keys() == names.keys():
        return content  # type: ignore[no-any-return]
    gone = [name for name in content if name not in names]
    if gone:
        raise Misfit(f"it has no field {gone[0]!r} any more")
    for name in names:
        if name not in content:
            if name not in defaults:
                raise Misfit(f"its field {name!r} is new and has no default")
            content[name] = defaults[name]()
    return content  # type: ignore[no-any-return]


def cached_names(cls: type) -> frozenset[str]:
    """Names under which an instance keeps what can be computed again, or what typing puts there."""
    names = {name for base in cls.__mro__ for name, value in vars(base).items() if isinstance(value, cached_property)}
    return frozenset(names | {"__orig_class__"})


def refuse_extras(attributes: dict[str, Any], names: Any, extras: frozenset[str]) -> None:
    """Refuses an object with attributes that would be lost."""
    for name in attributes:
        if name not in names and name not in extras:
            raise Refused(f"cannot be stored: its attribute {name!r} is no declared field of its class and would be lost")


def slot_names(cls: type) -> set[str]:
    """The names of all slots of a class and its bases."""
    names: set[str] = set()
    for base in cls.__mro__:
        slots = vars(base).get("__slots__", ())
        names.update((slots,) if isinstance(slots, str) else slots)
    return names - {"__dict__", "__weakref__"}


def class_codec(cls: type, name: str, upgrade: Upgrade | None) -> Codec | str:
    """The codec of a class by what kind of class it is, or the reason why it needs `fields=` or `encode=` and `decode=`."""
    if issubclass(cls, Enum):
        return EnumCodec(cls, name, upgrade)
    if issubclass(cls, BaseException):
        return "exceptions are stored as StoredError"
    names = [field.name for field in fields(cls)] if is_dataclass(cls) else []
    lost = slot_names(cls) - set(names)
    if hasattr(cls, "__total__") and hasattr(cls, "__required_keys__"):
        return "the values of a TypedDict are plain dicts"
    bases = [base for base in BASES if issubclass(cls, base)]
    if bases:
        if issubclass(cls, tuple) and isinstance(getattr(cls, "_fields", None), tuple):
            return NamedTupleCodec(cls, name, upgrade)
        # OrderedDict, defaultdict and the like keep more than a dict does, and C classes such as numpy's may as well.
        foreign = next((base for base in cls.__mro__ if base.__module__ in ("collections", "numpy")), None)
        if foreign is not None:
            return f"it derives from {foreign.__name__}"
        if slot_names(cls):
            return "it is a child of a built-in type and has slots"
        return SubclassCodec(cls, name, bases[0], upgrade)
    if not is_dataclass(cls):
        return "it is no dataclass, enum, namedtuple or pydantic model, nor a child of a built-in type"
    if lost:
        return f"its slots {sorted(lost)} are no fields"
    return FieldsCodec(cls, name, names, upgrade)


_DICT_OR_NONE: Final = (dict, type(None))


def check_parts(code: int, parts: list[Any]) -> bool:
    """Whether a payload's parts have the shape that their code asks for."""
    count = len(parts)
    if code in (v1.FIELDS, v1.NAMEDTUPLE):
        return count == 2 and type(parts[1]) is dict
    if code == v1.ENUM:
        name = parts[1] if count in (2, 3) else None
        return type(name) is str or (count == 3 and type(name) is list and all(type(part) is str for part in name))
    if code == v1.MODEL:
        if count != 6 or type(parts[4]) not in _DICT_OR_NONE or type(parts[5]) not in _DICT_OR_NONE:
            return False
        return type(parts[1]) is int and type(parts[2]) is int and type(parts[3]) is dict
    if code == v1.SUBCLASS:
        return count == 3 and (parts[1] is None or type(parts[1]) is dict)
    return count == 2


def content_of(code: int, parts: list[Any]) -> Any:
    """The stored content as plain data: what upgrade functions get, and what `Unresolved` shows.

    Fields as a dict; of an enum its "name" and "value"; of a child of a built-in type the "value" and the "attributes".

    Raises:
        CorruptRecord: the parts do not have the right shape.
    """
    if not check_parts(code, parts):
        raise CorruptRecord("stored bytes are damaged: an object does not have the parts it should have")
    if code == v1.MODEL:
        return {**parts[3], **(parts[4] or {})}
    if code == v1.ENUM:
        return {"name": parts[1], "value": parts[2] if len(parts) == 3 else None}
    if code == v1.SUBCLASS:
        return {"value": parts[2], "attributes": parts[1] or {}}
    return parts[1]
