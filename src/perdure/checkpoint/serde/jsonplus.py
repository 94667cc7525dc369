"""The serializer that savers and stores use unless told otherwise."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Literal, TypeVar

from perdure.checkpoint.serde import format_v1 as v1
from perdure.checkpoint.serde.base import SerializerProtocol
from perdure.checkpoint.serde.builtin_values import DUMPS, LOADS
from perdure.checkpoint.serde.class_values import SubclassCodec, Upgrade
from perdure.checkpoint.serde.decode import Decoder, Load, decode, decode_elements
from perdure.checkpoint.serde.encode import encode
from perdure.checkpoint.serde.model_values import ModelCodec
from perdure.checkpoint.serde.registry import LIBRARY, Registry, is_builtin
from perdure.checkpoint.serde.stored_error import StoredError, error_record, text_of
from perdure.checkpoint.serde.unresolved import Unresolved
from perdure.errors import CorruptRecord, InvalidArgument, NotStorable, StateTypeError, UnknownFormat

__all__ = ["JsonPlusSerializer", "Registry", "StoredError", "Unresolved", "error_record"]

OnUnknown = Literal["raise", "keep"]
T = TypeVar("T", bound=type)


def _load_numpy_array(dec: Decoder, payload: bytes) -> Any:
    from perdure.checkpoint.serde.numpy_values import load_array

    return load_array(dec, payload)


def _load_numpy_scalar(dec: Decoder, payload: bytes) -> Any:
    from perdure.checkpoint.serde.numpy_values import load_scalar

    return load_scalar(dec, payload)


_LOADS: Final[dict[int, Load]] = {**LOADS, v1.NUMPY_ARRAY: _load_numpy_array, v1.NUMPY_SCALAR: _load_numpy_scalar}


InvalidModuleError = StateTypeError
"""The name that LangGraph has for a stored type that may not be loaded."""


class JsonPlusSerializer(SerializerProtocol):
    """Values to bytes and back, exactly, or not at all.

    What is saved is what is loaded, of the same type and equal; a value for which that cannot be promised is refused when it is saved.
    Plain data, the types of Python's library and of numpy just work. Classes are stored by a name, and only a *registered* class is
    loaded: one that a state's schema mentions (the compiled graph sees to that), that `allowed_msgpack_modules` lists, or that was
    given to `register`. Nothing is ever imported or called because stored bytes say so. The one exception to sameness: an exception
    becomes a `StoredError` of its type, message and traceback.

    Args:
        pickle_fallback: pickle what cannot be stored otherwise, and load pickles. Who can write to the database can then run code
            in every process that reads it.
        allowed_json_modules: more classes, as `allowed_msgpack_modules`; kept for code written for other systems of this field.
        allowed_msgpack_modules: classes to register, or (module, name) pairs of classes that count as soon as others have imported them.
        registry: a registry to share, instead of a new one.
        on_unknown: what loading does with a type that is unknown or does not fit any more: "raise" StateTypeError, or "keep" it as an
            `Unresolved`, which saves back as the same bytes.

    Raises:
        InvalidArgument: an argument has no such choice.
    """

    __slots__ = ("_keep", "pickle_fallback", "registry")

    def __init__(
        self,
        *,
        pickle_fallback: bool = False,
        allowed_json_modules: Iterable[type | tuple[str, ...]] | None = None,
        allowed_msgpack_modules: Iterable[type | tuple[str, ...]] | None = None,
        registry: Registry | None = None,
        on_unknown: OnUnknown = "raise",
    ) -> None:
        if on_unknown not in ("raise", "keep"):
            raise InvalidArgument(f"on_unknown must be 'raise' or 'keep', got {on_unknown!r}")
        self.pickle_fallback = pickle_fallback
        self.registry = Registry(LIBRARY) if registry is None else registry
        self._keep = on_unknown == "keep"
        for argument, allowed in (
            ("allowed_json_modules", allowed_json_modules),
            ("allowed_msgpack_modules", allowed_msgpack_modules),
        ):
            if allowed is not None:
                self._allow(argument, allowed)

    def _allow(self, argument: str, allowed: Any) -> None:
        if isinstance(allowed, (bool, str)):
            raise InvalidArgument(
                f"{argument}={allowed!r} is not possible: it would let stored bytes choose what is imported and called. "
                f"List the classes, {argument}=[Order, Status], or (module, name) pairs, [('app.models', 'Order')]"
            )
        for entry in allowed:
            if isinstance(entry, type):
                if self.registry.codec_of(entry) is None and not is_builtin(entry):
                    self.registry.register(entry)
            elif isinstance(entry, tuple) and len(entry) >= 2 and all(isinstance(part, str) for part in entry):
                self.registry.allow(".".join(entry[:-1]), entry[-1])
            else:
                raise InvalidArgument(f"{argument} takes classes and (module, name) pairs, got {entry!r}")

    @property
    def on_unknown(self) -> OnUnknown:
        """What loading does with a type that is unknown or does not fit any more."""
        return "keep" if self._keep else "raise"

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        """Tag and bytes of a value.

        Raises:
            NotStorable: some part of it would not come back as it is; `key` is the path, as in `["cfg"].limits[2]`. Nothing was written.
        """
        if obj is None:
            return v1.TAG_NULL, b""
        kind = type(obj)
        if kind is bytes:
            return v1.TAG_BYTES, obj
        if kind is bytearray:
            return v1.TAG_BYTEARRAY, bytes(obj)
        if kind is Unresolved and obj.tag is not None:
            return obj.tag, obj.payload
        try:
            return v1.TAG_MSGPACK, encode(obj, DUMPS, self.registry)
        except NotStorable:
            if not self.pickle_fallback:
                raise
            return v1.TAG_PICKLE, _pickled(obj)

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """The value of a tag and bytes.

        Raises:
            CorruptRecord: the bytes are not what was written.
            UnknownFormat: a newer version of this library wrote them (a CorruptRecord).
            StateTypeError: a type in them is not registered here, or no longer fits, and `on_unknown` is "raise".
        """
        try:
            tag, stored = data
            # Some database drivers give a bytearray or a memoryview.
            stored = stored if type(stored) is bytes else bytes(memoryview(stored))
        except (TypeError, ValueError) as error:
            raise CorruptRecord("a stored value must be a tag and bytes") from error
        if tag == v1.TAG_MSGPACK:
            return decode(stored, _LOADS, self.registry, keep=self._keep)
        if tag == v1.TAG_NULL:
            if stored:
                raise CorruptRecord("stored bytes are damaged: None has no bytes")
            return None
        if tag == v1.TAG_BYTES:
            return stored
        if tag == v1.TAG_BYTEARRAY:
            return bytearray(stored)
        if tag == v1.TAG_PICKLE:
            return self._unpickled(stored)
        raise UnknownFormat(f"the stored format {tag!r} is unknown: a newer version of this library wrote it, or another one")

    def dumps_elements(self, values: Sequence[Any]) -> list[bytes]:
        """The bytes of each value, each what the tag "msgpack" stands for. Savers store the elements of lists, dicts and sets with it.

        A subclass that changes `dumps_typed` or `loads_typed`, and not this, has its values stored in one piece.

        Raises:
            NotStorable: some part would not come back as it is.
        """
        return [encode(value, DUMPS, self.registry) for value in values]

    def loads_elements(self, parts: Sequence[bytes], count: int) -> list[Any]:
        """The `count` values of which these are the bytes, one after the other; one part may hold several.

        Raises:
            CorruptRecord: the bytes are not what was written.
            StateTypeError: a type in them is not registered here, or no longer fits, and `on_unknown` is "raise".
        """
        return decode_elements(parts, count, _LOADS, self.registry, keep=self._keep)

    def made_of(self, cls: type) -> Literal["items", "attributes"] | None:
        """What the stored form of an instance consists of, so that savers can tell without encoding it whether it has changed.

        "items" is what it holds as a child of dict or list, "attributes" its `__dict__` and slots; None: it has to be encoded.
        """
        codec = self.registry.codec_of(cls)
        if type(codec) is ModelCodec:
            return "attributes"
        if type(codec) is SubclassCodec and codec.base in (dict, list) and not cls.__dictoffset__:
            own = (cls.__iter__, cls.__len__)  # type: ignore[attr-defined]
            return "items" if own == (codec.base.__iter__, codec.base.__len__) else None
        return None

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
        """Lets instances of a class be stored and loaded; see `Registry.register`."""
        return self.registry.register(
            cls, name=name, aliases=aliases, upgrade=upgrade, fields=fields, encode=encode, decode=decode
        )

    def with_types(self, types: Iterable[Any]) -> JsonPlusSerializer:
        """This serializer, with all classes that these types and annotations mention registered in addition."""
        return self._clone(self.registry.with_types(types), self.on_unknown)

    def with_on_unknown(self, on_unknown: OnUnknown) -> JsonPlusSerializer:
        """This serializer, with another answer to unknown types. Both share one registry.

        Raises:
            InvalidArgument: it is neither "raise" nor "keep".
        """
        return self._clone(self.registry, on_unknown)

    def _clone(self, registry: Registry, on_unknown: OnUnknown) -> JsonPlusSerializer:
        return type(self)(pickle_fallback=self.pickle_fallback, registry=registry, on_unknown=on_unknown)

    def _unpickled(self, stored: bytes) -> Any:
        if not self.pickle_fallback:
            why = "it is a pickle, and loading one runs whatever it says; JsonPlusSerializer(pickle_fallback=True) allows it"
            if self._keep:
                return Unresolved("pickle", stored, tag=v1.TAG_PICKLE, reason=why)
            raise StateTypeError(f"a stored value cannot be loaded: {why}", key="pickle")
        import pickle

        try:
            return pickle.loads(stored)  # noqa: S301  asked for by name
        except Exception as error:
            raise CorruptRecord(f"a stored pickle cannot be loaded: {text_of(error)}") from error


def _pickled(obj: Any) -> bytes:
    import pickle

    try:
        return pickle.dumps(obj, protocol=5)
    except Exception as error:
        raise NotStorable(f"the value cannot be stored, nor pickled: {text_of(error)}", key="") from error
