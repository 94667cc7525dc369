"""The contracts of serializers, and the way around an untyped one."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pytest

from perdure.checkpoint.serde.base import (
    CipherProtocol,
    SerializerCompat,
    SerializerProtocol,
    UntypedSerializerProtocol,
    maybe_add_typed_methods,
)
from perdure.checkpoint.serde.jsonplus import JsonPlusSerializer


class Json:
    def dumps(self, obj: Any) -> bytes:
        return json.dumps(obj).encode()

    def loads(self, data: bytes) -> Any:
        return json.loads(data)


class Reverse:
    def encrypt(self, plaintext: bytes) -> tuple[str, bytes]:
        return "reverse", plaintext[::-1]

    def decrypt(self, ciphername: str, ciphertext: bytes) -> bytes:
        return ciphertext[::-1]


def test_an_untyped_serializer_becomes_a_typed_one() -> None:
    serde = maybe_add_typed_methods(Json())
    assert isinstance(serde, SerializerCompat)
    assert serde.dumps_typed({"a": 1}) == ("dict", b'{"a": 1}')
    assert serde.loads_typed(("dict", b'{"a": 1}')) == {"a": 1}
    assert maybe_add_typed_methods(pickle).dumps_typed(1)[0] == "int"


def test_a_typed_one_stays_as_it_is() -> None:
    serde = JsonPlusSerializer()
    assert maybe_add_typed_methods(serde) is serde
    assert isinstance(serde, SerializerProtocol)


def test_neither_is_a_taught_error() -> None:
    with pytest.raises(TypeError, match="dumps_typed"):
        maybe_add_typed_methods(object())  # type: ignore[arg-type]


def test_the_contracts_are_told_by_their_methods() -> None:
    assert isinstance(Json(), UntypedSerializerProtocol)
    assert isinstance(Reverse(), CipherProtocol)
    assert not isinstance(Json(), SerializerProtocol)
