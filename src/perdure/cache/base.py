"""The contract of a cache."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from perdure.checkpoint.serde.base import maybe_add_typed_methods, with_types_known
from perdure.checkpoint.serde.jsonplus import JsonPlusSerializer

ValueT = TypeVar("ValueT")

Namespace = tuple[str, ...]
FullKey = tuple[Namespace, str]
"""A namespace and a key in it."""


class BaseCache(ABC, Generic[ValueT]):
    """Base of all caches. A subclass implements `get`, `set` and `clear`, and their async twins where they would block a loop.

    Args:
        serde: how values become bytes; `JsonPlusSerializer()` if not given. It may be an untyped one (`dumps` and `loads` only).
    """

    def __init__(self, *, serde: Any = None) -> None:
        self.serde = JsonPlusSerializer() if serde is None else maybe_add_typed_methods(serde)

    def learn(self, types: Iterable[Any]) -> None:
        """Let classes that a graph's state mentions be stored and loaded, if the serializer keeps a registry."""
        self.serde = with_types_known(self.serde, types)

    @abstractmethod
    def get(self, keys: Sequence[FullKey]) -> dict[FullKey, ValueT]:
        """The values of those of `keys` that have one which has not expired."""

    @abstractmethod
    def set(self, pairs: Mapping[FullKey, tuple[ValueT, int | None]]) -> None:
        """Keep values, each with its lifetime in seconds; None: for ever.

        Raises:
            NotStorable: a value would not be loaded back as it is; nothing was kept.
        """

    @abstractmethod
    def clear(self, namespaces: Sequence[Namespace] | None = None) -> None:
        """Forget all values of these namespaces, not of namespaces below them; None: of all."""

    async def aget(self, keys: Sequence[FullKey]) -> dict[FullKey, ValueT]:
        """`get` for async code."""
        return self.get(keys)

    async def aset(self, pairs: Mapping[FullKey, tuple[ValueT, int | None]]) -> None:
        """`set` for async code."""
        self.set(pairs)

    async def aclear(self, namespaces: Sequence[Namespace] | None = None) -> None:
        """`clear` for async code."""
        self.clear(namespaces)
