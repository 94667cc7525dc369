"""The caches of this library, for tests that run over each of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from perdure.cache import BaseCache, InMemoryCache, SqliteCache

CACHES = ("memory", "sqlite")


def open_cache(kind: str, folder: Path, **options: Any) -> Any:
    """A new cache: in memory, or on a file in the folder."""
    return InMemoryCache(**options) if kind == "memory" else SqliteCache(folder / "cache.db", **options)


def close(cache: BaseCache[Any]) -> None:
    """Close what has something to close."""
    if isinstance(cache, SqliteCache):
        cache.close()


class Stopped:
    """A clock that goes when told."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now

    def now_ns(self) -> int:
        return round(self.now * 1_000_000_000)


@pytest.fixture
def clock() -> Stopped:
    """What `cache` measures lifetimes with."""
    return Stopped()


@pytest.fixture(params=CACHES)
def cache(request: pytest.FixtureRequest, tmp_path: Path, clock: Stopped) -> Iterator[Any]:
    """A cache in memory, and one on a file."""
    made = open_cache(request.param, tmp_path, clock=clock)
    yield made
    close(made)
