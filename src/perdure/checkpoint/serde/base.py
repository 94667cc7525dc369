"""The contracts of this room: what a serializer is, and what a cipher is. No format is known here."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol, runtime_checkable

from perdure.errors import WrongType


@runtime_checkable
class UntypedSerializerProtocol(Protocol):
    """A serializer that returns bytes alone, as `pickle` and `json` do."""

    def dumps(self, obj: Any) -> bytes:
        """The bytes of a value."""
        ...

    def loads(self, data: bytes) -> Any:
        """The value of bytes that `dumps` made."""
        ...


@runtime_checkable
class SerializerProtocol(Protocol):
    """A serializer that says in a short tag how it made the bytes. Both parts are stored, and both come back on loading."""

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        """Tag and bytes of a value.

        Raises:
            NotStorable: the value would not come back as it is.
        """
        ...

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """The value of a tag and bytes.

        Raises:
            CorruptRecord: the bytes are not what was written.
            StateTypeError: a type in them is unknown here, or no longer fits.
        """
        ...


@runtime_checkable
class CipherProtocol(Protocol):
    """Encrypts bytes, and names the cipher so that it can be told apart later."""

    def encrypt(self, plaintext: bytes) -> tuple[str, bytes]:
        """The cipher's name and the encrypted bytes."""
        ...

    def decrypt(self, ciphername: str, ciphertext: bytes) -> bytes:
        """The plain bytes.

        Raises:
            CorruptRecord: the bytes were altered, or the key is another one.
        """
        ...


class SerializerCompat(SerializerProtocol):
    """Makes a typed serializer of an untyped one; the tag is the name of the value's class, and loading ignores it."""

    def __init__(self, serde: UntypedSerializerProtocol) -> None:
        self.serde = serde

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        """The name of the value's class, and the inner serializer's bytes."""
        return type(obj).__name__, self.serde.dumps(obj)

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """What the inner serializer makes of the bytes."""
        return self.serde.loads(data[1])


def maybe_add_typed_methods(serde: SerializerProtocol | UntypedSerializerProtocol) -> SerializerProtocol:
    """The serializer itself if it is a typed one, else a `SerializerCompat` around it.

    Raises:
        WrongType: it is neither.
    """
    if isinstance(serde, SerializerProtocol):
        return serde
    if isinstance(serde, UntypedSerializerProtocol):
        return SerializerCompat(serde)
    raise WrongType(
        f"serde must have dumps_typed and loads_typed (or dumps and loads), {type(serde).__name__} has neither pair; "
        "perdure.checkpoint.serde.jsonplus.JsonPlusSerializer() is the default"
    )


def with_types_known(serde: SerializerProtocol, types: Iterable[Any]) -> SerializerProtocol:
    """The serializer, or one like it that may also store and load these classes, if it keeps a registry of those it may."""
    with_types = getattr(serde, "with_types", None)
    registry = getattr(serde, "registry", None)
    if with_types is None or registry is None:
        return serde
    unknown = [cls for cls in types if registry.codec_of(cls) is None]
    return with_types(unknown) if unknown else serde
