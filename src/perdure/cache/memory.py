"""The cache that is a dictionary of this process."""

from __future__ import annotations

import threading  # noqa: TID251 - one lock around dictionary work; nothing waits under it
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from perdure.cache.base import BaseCache, FullKey, Namespace
from perdure.clock import SYSTEM_CLOCK, Clock

V = TypeVar("V")


class InMemoryCache(BaseCache[V]):
    """Keeps values in this process, as bytes, so that nobody changes what is kept. Threads may share it.

    Args:
        serde: how values become bytes; `JsonPlusSerializer()` if not given.
        clock: what lifetimes are measured with.
    """

    def __init__(self, *, serde: Any = None, clock: Clock = SYSTEM_CLOCK) -> None:
        super().__init__(serde=serde)
        self._clock = clock
        self._lock = threading.Lock()
        self._kept: dict[Namespace, dict[str, tuple[tuple[str, bytes], float | None]]] = {}

    def get(self, keys: Sequence[FullKey]) -> dict[FullKey, V]:
        """See `BaseCache.get`. What has expired is dropped."""
        now = self._clock.monotonic()
        found = {}
        with self._lock:
            for namespace, key in keys:
                space = self._kept.get(namespace, {})
                kept = space.get(key)
                if kept is None:
                    continue
                stored, expiry = kept
                if expiry is not None and now >= expiry:
                    del space[key]
                else:
                    found[namespace, key] = stored
        return {place: self.serde.loads_typed(stored) for place, stored in found.items()}

    def set(self, pairs: Mapping[FullKey, tuple[V, int | None]]) -> None:
        """See `BaseCache.set`."""
        now = self._clock.monotonic()
        stored = {place: (self.serde.dumps_typed(value), ttl) for place, (value, ttl) in pairs.items()}
        with self._lock:
            for (namespace, key), (packed, ttl) in stored.items():
                self._kept.setdefault(namespace, {})[key] = (packed, None if ttl is None else now + ttl)

    def clear(self, namespaces: Sequence[Namespace] | None = None) -> None:
        """See `BaseCache.clear`."""
        with self._lock:
            if namespaces is None:
                self._kept.clear()
                return
            for namespace in namespaces:
                self._kept.pop(namespace, None)
