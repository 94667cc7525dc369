"""Which classes may be stored and loaded, and under what name. Loading knows no other way to a class than this list."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeVar

from ormsgpack import Ext

from perdure import types
from perdure.checkpoint.serde import format_v1 as v1
from perdure.checkpoint.serde.builtin_values import DUMPS, FACTORIES, LATE_DUMPS
from perdure.checkpoint.serde.class_values import (
    Codec,
    CustomCodec,
    FieldsCodec,
    Misfit,
    Upgrade,
    check_parts,
    class_codec,
    content_of,
)
from perdure.checkpoint.serde.decode import Decoder, Unloadable
from perdure.checkpoint.serde.encode import Dump, Encoder, Refused
from perdure.checkpoint.serde.model_values import ModelCodec, generic_class, generic_name, generic_parts, is_model_class
from perdure.checkpoint.serde.schema_types import classes_in
from perdure.checkpoint.serde.stored_error import StoredError, text_of
from perdure.errors import CorruptRecord, InvalidArgument, PerdureError, UnknownFormat, WrongType

T = TypeVar("T", bound=type)

LANGCHAIN: Final = {
    ("langchain_core.messages." + module, name)
    for module, names in {
        "ai": ("AIMessage", "AIMessageChunk"),
        "base": ("BaseMessage", "BaseMessageChunk"),
        "chat": ("ChatMessage", "ChatMessageChunk"),
        "function": ("FunctionMessage", "FunctionMessageChunk"),
        "human": ("HumanMessage", "HumanMessageChunk"),
        "modifier": ("RemoveMessage",),
        "system": ("SystemMessage", "SystemMessageChunk"),
        "tool": ("ToolMessage", "ToolMessageChunk"),
    }.items()
    for name in names
} | {("langchain_core.documents.base", "Document")}
"""Classes that count as registered once LangChain itself has been imported."""

PROVIDERS: Final = ("openai.types.", "anthropic.types.")
"""Where providers' packages have what their models answer: pydantic models that hold data. They count as LangChain's do."""


class Registry:
    """A list of classes, on top of another one.

    What the other one has counts here too; what is registered here is unknown there.
    """

    __slots__ = ("_allowed", "_by_name", "_by_type", "_parent")

    def __init__(self, parent: Registry | None = None) -> None:
        self._parent = parent
        self._by_type: dict[type, Codec] = {}
        self._by_name: dict[str, Codec | Upgrade] = {}
        self._allowed: set[tuple[str, str]] = set()

    def register(
        self,
        cls: T,
        *,
        name: str | None = None,
        aliases: Iterable[str] = (),
        upgrade: Upgrade | None = None,
        fields: Sequence[str] | None = None,
        encode: Callable[[Any], Any] | None = None,
        decode: Callable[[Any], Any] | None = None,
    ) -> T:
        """Lets instances of a class be stored and loaded.

        Dataclasses, enums, namedtuples, pydantic models and children of str, int, float, bytes, list, dict, tuple, set and frozenset
        need no more than this. Other classes name their attributes, `fields=("a", "b")`, or give two functions.

        Args:
            cls: the class.
            name: its stored name, "module:Qualified.Name" unless chosen. Choose one that will outlive a move of the class.
            aliases: names under which earlier data was stored.
            upgrade: gets the stored content when it does not fit the class any more (fields as a dict), returns the value.
            fields: the attributes that make up an instance of a plain class.
            encode: makes a storable value of an instance.
            decode: makes an instance of such a value.

        Returns:
            The class, so that this can be used as a decorator.

        Raises:
            WrongType: the class needs `fields` or functions, or it is a type that is stored anyway.
            InvalidArgument: another class has this name.
        """
        if not isinstance(cls, type):
            raise WrongType(f"register takes a class, got {cls!r}")
        if is_builtin(cls):
            raise WrongType(f"{cls.__qualname__} is stored as it is, it needs no registration")
        stored = name or f"{cls.__module__}:{cls.__qualname__}"
        codec: Codec | str
        if (encode is None) != (decode is None):
            raise WrongType("encode and decode come together: one would not load what the other stores")
        if encode is not None and decode is not None:
            codec = CustomCodec(cls, stored, encode, decode, upgrade)
        elif fields is not None:
            codec = FieldsCodec(cls, stored, fields, upgrade)
        elif is_model_class(cls):
            codec = ModelCodec(cls, name or self._model_name(cls), upgrade)
        else:
            codec = class_codec(cls, stored, upgrade)
        if isinstance(codec, str):
            raise WrongType(
                f"{cls.__qualname__} cannot be registered as it is: {codec}. Name what it is made of, register({cls.__name__}, "
                f'fields=("a", "b")), or give functions: register({cls.__name__}, encode=to_plain_data, decode=from_plain_data)'
            )
        self._add(codec, aliases)
        return cls

    def register_upgrade(self, name: str, upgrade: Upgrade) -> None:
        """Says what becomes of data stored under the name of a class that is gone: the function gets the content, returns the value."""
        self._by_name[name] = upgrade

    def allow(self, module: str, name: str) -> None:
        """Registers a class by where it lives, without importing it: it counts once its module has been imported by others."""
        self._allowed.add((module, name))

    def codec_of(self, cls: type) -> Codec | None:
        """The codec of a class, or None if it is not registered."""
        codec = self._registered(cls)
        if codec is None:
            place = (cls.__module__, cls.__qualname__)
            if self._is_allowed(place) and _living(*place) is cls:
                return self._by_kind(cls)
            if generic_parts(cls) is not None:
                name = generic_name(cls, self._type_name)
                if name is not None:
                    codec = self._by_type[cls] = ModelCodec(cls, name)
        return codec

    def codec_named(self, name: Any) -> Codec | Upgrade | None:
        """What is registered under a stored name: a codec, or the upgrade function of a class that is gone."""
        if type(name) is list:
            cls = generic_class(name, self.class_named)
            return None if cls is None else self.codec_of(cls)
        if type(name) is not str:
            return None
        found = self._named(name)
        if found is None:
            module, _, qualname = name.partition(":")
            if self._is_allowed((module, qualname)):
                cls = _living(module, qualname)
                return None if cls is None else self._by_kind(cls)
        return found

    def _registered(self, cls: type) -> Codec | None:
        codec = self._by_type.get(cls)
        if codec is None and self._parent is not None:
            codec = self._parent._registered(cls)
            # A class of the same name was registered here, and what is stored of this one would come back as that one.
            if codec is not None and type(codec.name) is str and codec.name in self._by_name:
                return None
        return codec

    def _named(self, name: str) -> Codec | Upgrade | None:
        found = self._by_name.get(name)
        return self._parent._named(name) if found is None and self._parent is not None else found

    def class_named(self, name: str) -> type | None:
        """The registered class of a stored name, or None."""
        codec = self.codec_named(name)
        return codec.cls if isinstance(codec, Codec) else None

    def name_of(self, cls: type) -> str | None:
        """The stored name of a registered class, or None."""
        name = self._type_name(cls)
        return name if isinstance(name, str) else None

    def with_types(self, annotations: Iterable[Any]) -> Registry:
        """A registry on top of this one that knows all classes these annotations mention; those that cannot be stored are left out."""
        child = Registry(self)
        for cls in classes_in(annotations):
            if not is_builtin(cls) and child.codec_of(cls) is None:
                child._by_kind(cls)
        return child

    def dump_of(self, cls: type) -> Dump:
        """How instances of a class are written, if they are.

        Raises:
            Refused: instances of this class cannot be stored; says what to do.
        """
        codec = self.codec_of(cls)
        if codec is not None:
            return codec.dump
        late = LATE_DUMPS.get((cls.__module__, cls.__qualname__))
        if late is not None and _living(cls.__module__, cls.__qualname__) is cls:
            return late
        numpy = sys.modules.get("numpy")
        if numpy is not None and (cls is numpy.ndarray or (cls.__module__ == "numpy" and issubclass(cls, numpy.generic))):
            from perdure.checkpoint.serde.numpy_values import dump_array, dump_scalar

            return dump_array if cls is numpy.ndarray else dump_scalar
        if issubclass(cls, BaseException):
            return _dump_exception
        raise Refused(_why_not(cls))

    def load(self, dec: Decoder, code: int, payload: bytes) -> Any:
        """The value of an extension whose payload begins with the name of a type.

        Raises:
            UnknownFormat: the code is none of this version of the format.
            CorruptRecord: the payload does not have the shape of its code.
            Unloadable: the type is not registered, or the content does not fit it.
        """
        if code < 0:
            raise CorruptRecord(f"stored bytes are damaged: they hold an extension {code}, which no version of the format has")
        if code not in v1.CLASS_CODES:
            raise UnknownFormat(f"stored bytes hold an extension {code}, which this version of the library does not know")
        parts = dec.parts(payload, 2, 6)
        if not check_parts(code, parts):
            raise CorruptRecord("stored bytes are damaged: an object does not have the parts it should have")
        found = self.codec_named(parts[0])
        name = _shown(parts[0])
        upgrade: Upgrade | None
        cause: BaseException | None = None
        if found is None:
            raise Unloadable(name, "it is not registered here", content_of(code, parts))
        if not isinstance(found, Codec):
            upgrade, why = found, ""
        elif found.code != code:
            upgrade, why = found.upgrade, f"it was {_KINDS[code]} and is now {_KINDS[found.code]}"
        else:
            try:
                return found.load(parts)
            except (PerdureError, MemoryError, RecursionError):
                raise
            except Exception as error:  # noqa: BLE001  a class may fail in any way on data it was not made for
                upgrade, why, cause = found.upgrade, str(error) if isinstance(error, Misfit) else text_of(error), error
        if upgrade is not None:
            try:
                return upgrade(content_of(code, parts))
            except Exception as error:  # noqa: BLE001  the user's own function
                why, cause = f"its upgrade function failed with {text_of(error)}", error
        raise Unloadable(name, why, content_of(code, parts)) from (cause.__cause__ or cause if cause else None)

    def _type_name(self, cls: type) -> Any:
        codec = self.codec_of(cls)
        return None if codec is None else codec.name

    def _model_name(self, cls: type) -> Any:
        parts = generic_parts(cls)
        if parts is not None:
            # Registering Box[Item] says that Box and Item may be loaded.
            for part in (parts[0], *parts[1]):
                if isinstance(part, type) and not is_builtin(part) and self.codec_of(part) is None:
                    self._by_kind(part)
            name = generic_name(cls, self._type_name)
            if name is not None:
                return name
        return f"{cls.__module__}:{cls.__qualname__}"

    def _by_kind(self, cls: type) -> Codec | None:
        codec: Codec | str
        if is_model_class(cls):
            codec = ModelCodec(cls, self._model_name(cls))
        else:
            codec = class_codec(cls, f"{cls.__module__}:{cls.__qualname__}", None)
        if isinstance(codec, str):
            return None
        self._add(codec, ())
        return codec

    def _add(self, codec: Codec, aliases: Iterable[str]) -> None:
        if type(codec.name) is str:
            before = self._by_name.get(codec.name)
            if isinstance(before, Codec) and before.cls is not codec.cls:
                same_place = (before.cls.__module__, before.cls.__qualname__) == (codec.cls.__module__, codec.cls.__qualname__)
                if not same_place:
                    raise InvalidArgument(
                        f"the name {codec.name!r} belongs to {before.cls.__qualname__}; choose another: register(..., name=...)"
                    )
                # A cell of a notebook was run again, or a module was reloaded.
                self._by_type.pop(before.cls, None)
            self._by_name[codec.name] = codec
        self._by_type[codec.cls] = codec
        for alias in aliases:
            self._by_name[alias] = codec

    def _is_allowed(self, place: tuple[str, str]) -> bool:
        if place in LANGCHAIN or place[0].startswith(PROVIDERS):
            return True
        return place in self._allowed or (self._parent is not None and self._parent._is_allowed(place))


_KINDS: Final = {
    v1.ENUM: "an enum",
    v1.FIELDS: "an object of fields",
    v1.NAMEDTUPLE: "a namedtuple",
    v1.MODEL: "a pydantic model",
    v1.SUBCLASS: "a child of a built-in type",
    v1.CUSTOM: "stored by its own function",
}


def _shown(name: Any) -> str:
    """A stored name for messages."""
    if type(name) is str:
        return name
    return f"{name[0]}[...]" if type(name) is list and name and type(name[0]) is str else "?"


def _living(module: str, qualname: str) -> type | None:
    """A class where its module says it is, if that has been imported."""
    found: Any = sys.modules.get(module)
    if found is None and (module, qualname) in LANGCHAIN:
        # LangChain's packages load each of their modules when a class of it is asked for: of a program that has imported HumanMessage
        # only, the module of AIMessage is not there yet. Which classes may be asked for is said above, and not by what is stored.
        found = getattr(sys.modules.get(module.rpartition(".")[0]), qualname, None)
        return found if isinstance(found, type) else None
    for part in qualname.split("."):
        found = getattr(found, "__dict__", {}).get(part)
    return found if isinstance(found, type) else None


def is_builtin(cls: type) -> bool:
    """Whether instances of a class are stored without being registered."""
    if cls in DUMPS or cls in (type(None), Ext) or FACTORIES.get(cls.__name__) is cls:
        return True
    place = (cls.__module__, cls.__qualname__)
    return place in LATE_DUMPS and _living(*place) is cls


def _why_not(cls: type) -> str:
    """Why instances of an unregistered class cannot be stored, and what to do."""
    name, module = cls.__qualname__, cls.__module__
    if name in ("function", "builtin_function_or_method", "method", "partial"):
        return "is a function, which cannot be stored; store a name, and look the function up in the node"
    if issubclass(cls, type):
        return "is a class, which cannot be stored; store a name for it"
    if name in ("generator", "coroutine", "async_generator", "frame", "module"):
        return f"is a {name}, which cannot be stored; store what it would give, e.g. a list"
    if module in ("_thread", "_io", "_socket", "socket", "threading", "sqlite3", "asyncio.locks"):
        return f"is a {module.strip('_')}.{name}, which belongs to this process and cannot be stored; make it in the node that needs it"
    codec = "it is a pydantic model" if is_model_class(cls) else class_codec(cls, name, None)
    if isinstance(codec, str) and not is_model_class(cls):
        return (
            f"is a {module}.{name}, which cannot be stored as it is: {codec}. Tell the saver's serializer what it is made of, "
            f'`saver.serde.register({cls.__name__}, fields=("a", "b"))`, or how to store it, '
            f"`saver.serde.register({cls.__name__}, encode=to_plain_data, decode=from_plain_data)`"
        )
    return (
        f"is a {module}.{name}, and that class is not registered, so it could not be loaded back. Name it in the annotation of the "
        f"state's key, or register it: `saver.serde.register({cls.__name__})`, JsonPlusSerializer(allowed_msgpack_modules=[{cls.__name__}])"
    )


def _dump_exception(enc: Encoder, value: BaseException) -> Ext:
    codec = LIBRARY.codec_of(StoredError)
    assert codec is not None
    return codec.dump(enc, StoredError.of(value))


class _Library(Registry):
    """The registry of this library. Its message classes are imported when the first of them is stored or loaded."""

    __slots__ = ()

    def _registered(self, cls: type) -> Codec | None:
        if cls.__module__ == "perdure.messages.message" and cls not in self._by_type:
            self._add_messages()
        return super()._registered(cls)

    def _named(self, name: str) -> Codec | Upgrade | None:
        if name in ("perdure:Message", "perdure:RemoveMessage") and name not in self._by_name:
            self._add_messages()
        return super()._named(name)

    def _add_messages(self) -> None:
        from perdure.messages.message import Message, RemoveMessage

        self.register(Message, name="perdure:Message")
        self.register(RemoveMessage, name="perdure:RemoveMessage")


def _library() -> Registry:
    registry = _Library()
    for cls in (
        types.Command,
        types.Interrupt,
        types.Overwrite,
        types.TimeoutPolicy,
        types.RetryPolicy,
        types.CachePolicy,
        types.PregelTask,
        types.StateSnapshot,
        types.StateUpdate,
        types.GraphOutput,
        StoredError,
    ):
        registry.register(cls, name=f"perdure:{cls.__name__}")
    registry.register(types.Send, name="perdure:Send", fields=("node", "arg", "timeout"))
    # There is one NO_ANSWER, and code compares with `is`.
    registry.register(types.NoAnswer, name="perdure:NoAnswer", encode=lambda _value: None, decode=lambda _data: types.NO_ANSWER)
    return registry


LIBRARY: Final = _library()
"""The types of this library. Every serializer's own registry lies on top of it."""
