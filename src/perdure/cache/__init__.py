"""Caches: where the results of nodes with a `CachePolicy` are kept for later runs."""

from perdure.cache.base import BaseCache, FullKey, Namespace
from perdure.cache.memory import InMemoryCache

__all__ = ["BaseCache", "FullKey", "InMemoryCache", "Namespace"]
