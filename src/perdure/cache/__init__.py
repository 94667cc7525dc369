"""Caches: where the results of nodes with a `CachePolicy` are kept for later runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perdure.cache.base import BaseCache, FullKey, Namespace
from perdure.cache.memory import InMemoryCache

if TYPE_CHECKING:
    from perdure.cache.sqlite import SqliteCache

__all__ = ["BaseCache", "FullKey", "InMemoryCache", "Namespace", "SqliteCache"]


def __getattr__(name: str) -> Any:
    # Not above: its module needs `perdure.cache.base`, and may be the one that is imported first.
    if name == "SqliteCache":
        from perdure.cache.sqlite import SqliteCache

        return SqliteCache
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
