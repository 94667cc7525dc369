"""MessagePack to values. The bytes may be hostile: nothing named in them is imported, called or looked up outside of the registry."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

import ormsgpack

from perdure.checkpoint.serde import format_v1 as v1
from perdure.checkpoint.serde.depth import levels_of
from perdure.checkpoint.serde.encode import array_head
from perdure.checkpoint.serde.stored_error import text_of
from perdure.checkpoint.serde.unresolved import Unresolved
from perdure.errors import CorruptRecord, PerdureError, StateTypeError, UnknownFormat

unpackb: Final = ormsgpack.unpackb

_PAIR: Final = b"\x92"
_SEAL: Final = 0x50455244
_SEAL_BYTES: Final = b"\xce" + _SEAL.to_bytes(4, "big")
"""A record is decoded as an array of itself and this number: the C decoder alone would not say that bytes are left over."""

SHORT_LEVELS: Final = 512
"""Levels that short payloads may take uncounted: one byte holds at most one level."""


class Unloadable(Exception):
    """A codec says why stored data cannot become a value here.

    Args:
        name: the stored name of the type.
        why: what is wrong.
        data: the stored content as plain data, as far as readable.
    """

    def __init__(self, name: str, why: str, data: Any = None) -> None:
        super().__init__(why)
        self.name = name
        self.why = why
        self.data = data


class Decoder(Protocol):
    """What a codec may use to read the parts of its value."""

    patterns: list[int]
    """Characters and ranges of the regular expressions so far."""

    def unpack(self, payload: bytes) -> Any:
        """The value that a payload holds."""
        ...

    def parts(self, payload: bytes, least: int, most: int) -> list[Any]:
        """The array that a payload holds.

        Raises:
            CorruptRecord: it is none, or not of that length.
        """
        ...

    def class_named(self, name: str) -> type:
        """A registered class by its stored name.

        Raises:
            Unloadable: it is not registered.
        """
        ...


Load = Callable[[Decoder, bytes], Any]


class Classes(Protocol):
    """What a decoder must know about classes; the registry knows it."""

    def load(self, dec: Decoder, code: int, payload: bytes) -> Any:
        """The value of an extension that is in no table. Raises Unloadable, CorruptRecord."""
        ...

    def class_named(self, name: str) -> type | None:
        """The registered class of a stored name."""
        ...


def decode(data: bytes, table: dict[int, Load], classes: Classes, *, keep: bool) -> Any:
    """The value of bytes under the tag "msgpack".

    Args:
        data: the bytes.
        table: codecs by extension code.
        classes: loads all other extensions.
        keep: whether what cannot be built becomes an `Unresolved`.

    Raises:
        CorruptRecord: the bytes are not what was written.
        StateTypeError: a type in them is unknown or no longer fits, and `keep` is false.
    """
    return RecordDecoder(table, classes, len(data), keep=keep).record(data)


def decode_elements(parts: Sequence[bytes], count: int, table: dict[int, Load], classes: Classes, *, keep: bool) -> list[Any]:
    """The values of which `parts` are the bytes, one after the other, in one go.

    Raises:
        CorruptRecord: the bytes are not what was written, or not of that many values.
        StateTypeError: a type in them is unknown or no longer fits, and `keep` is false.
    """
    decoder = RecordDecoder(table, classes, sum(map(len, parts)), keep=keep)
    values: list[Any] = decoder.sealed(b"".join([_PAIR, array_head(count), *parts, _SEAL_BYTES]))
    return values


class RecordDecoder:
    """Decodes one record."""

    __slots__ = ("classes", "copied", "depth", "error", "keep", "kept", "levels", "limit", "patterns", "short", "table")

    def __init__(self, table: dict[int, Load], classes: Classes, size: int, *, keep: bool) -> None:
        self.table = table
        self.classes = classes
        self.keep = keep
        self.kept = 0
        self.depth = 0
        self.levels = 0
        self.short = 0
        self.copied = 0
        self.limit = size * v1.MAX_COPIES
        self.patterns = [0, 0]
        self.error: BaseException | None = None

    def record(self, data: bytes) -> Any:
        """The value of a whole record."""
        return self.sealed(_PAIR + data + _SEAL_BYTES)

    def sealed(self, data: bytes) -> Any:
        """The value of a record between the head of a pair and the seal."""
        try:
            value, seal = unpackb(data, ext_hook=self.hook)
        except Exception as error:
            if self.error is not None:
                raise self.error from self.error.__cause__
            raise _corrupt(error) from error
        # Damaged bytes can put any value there, and one that answers `!=` with an array.
        if type(seal) is not int or seal != _SEAL:
            raise CorruptRecord("stored bytes are damaged: there is more than one value")
        return value

    def unpack(self, payload: bytes) -> Any:
        """The value that a payload holds; see `Decoder`."""
        if self.depth < v1.FREE_REGIONS:
            return unpackb(payload, ext_hook=self.hook)
        size = len(payload)
        if self.short + size <= SHORT_LEVELS:
            self.short += size
            value = unpackb(payload, ext_hook=self.hook)
            self.short -= size
            return value
        levels = levels_of(payload)
        self.levels += levels
        if self.levels > v1.MAX_LEVELS:
            raise CorruptRecord("stored bytes are damaged: they are nested deeper than this library writes")
        value = unpackb(payload, ext_hook=self.hook)
        self.levels -= levels
        return value

    def parts(self, payload: bytes, least: int, most: int) -> list[Any]:
        """The array that a payload holds; see `Decoder`."""
        value = self.unpack(payload)
        if type(value) is not list or not least <= len(value) <= most:
            raise CorruptRecord("stored bytes are damaged: an extension does not have the parts it should have")
        return value

    def class_named(self, name: str) -> type:
        """A registered class by its stored name; see `Decoder`."""
        found = self.classes.class_named(name)
        if found is None:
            raise Unloadable(name, "it is not registered here")
        return found

    def hook(self, code: int, payload: bytes) -> Any:
        """The value of an extension, for the C decoder."""
        # The C decoder replaces every exception of its hook, so the first one is kept aside.
        kept = self.kept
        try:
            self.depth += 1
            self.copied += len(payload)
            if self.depth > v1.MAX_NESTED or self.copied > self.limit:
                raise CorruptRecord("stored bytes are damaged: they are nested deeper than this library writes")
            load = self.table.get(code)
            value = self.classes.load(self, code, payload) if load is None else load(self, payload)
            self.depth -= 1
            self.copied -= len(payload)
            return value
        except BaseException as raised:
            if self.error is not None:
                raise
            error, kept_instead = self._judge(raised, code, payload, kept)
            if kept_instead is not None:
                self.depth -= 1
                self.copied -= len(payload)
                return kept_instead
            self.error = error
            raise

    def _judge(self, raised: BaseException, code: int, payload: bytes, kept: int) -> tuple[BaseException, Unresolved | None]:
        """The error that a failed extension means, or what stands in for it."""
        name, why, data = f"extension {code}", str(raised), None
        if isinstance(raised, Unloadable):
            name, data = raised.name, raised.data
            error: BaseException = StateTypeError(_teach(name, why), key=name)
            error.__cause__ = raised.__cause__
        elif isinstance(raised, UnknownFormat):
            error = raised
        elif isinstance(raised, (PerdureError, MemoryError)) or not isinstance(raised, Exception):
            return raised, None
        elif self.kept > kept:
            # It could not be built around a part that could not be built.
            error, why = raised, "a part of it could not be built"
        else:
            error = _corrupt(raised)
            error.__cause__ = raised
            return error, None
        if not self.keep:
            return error, None
        self.kept += 1
        return error, Unresolved(name, payload, code=code, reason=why, data=data)


def _corrupt(error: Exception) -> CorruptRecord:
    return CorruptRecord(f"stored bytes are damaged: {text_of(error)}")


KNOWN_IF_IMPORTED: Final = ("langchain_core.messages.", "langchain_core.documents.", "openai.types.", "anthropic.types.")
"""Modules whose classes count as registered once they have been imported."""


def _teach(name: str, why: str) -> str:
    module, _, qualname = name.rpartition(":")
    short = qualname.rpartition(".")[2]
    known = f"Import {module}, and its classes are known. Or register" if module.startswith(KNOWN_IF_IMPORTED) else "Register"
    return (
        f"a stored value of type {name!r} cannot be loaded: {why}. {known} its class with the saver's serializer, "
        f"`saver.serde.register({short})`, or name it in the state's schema; if it was renamed, "
        f"`register(NewName, aliases=[{name!r}])`; if its fields changed, `register({short}, upgrade=function_of_the_stored_fields)`; "
        'to look at the rest, JsonPlusSerializer(on_unknown="keep")'
    )
