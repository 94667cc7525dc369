"""The caches of this library, for tests that run over each of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from perdure.cache import BaseCache, FullKey, InMemoryCache, SqliteCache
from perdure.testing.clock import ManualClock

CACHES = ("memory", "sqlite")


def open_cache(kind: str, folder: Path, **options: Any) -> Any:
    """A new cache: in memory, or on a file in the folder."""
    return InMemoryCache(**options) if kind == "memory" else SqliteCache(folder / "cache.db", **options)


def close(cache: BaseCache[Any]) -> None:
    """Close what has something to close."""
    if isinstance(cache, SqliteCache):
        cache.close()


class Full(InMemoryCache[Any]):
    """A cache that has no room any more."""

    def set(self, pairs: Mapping[FullKey, tuple[Any, int | None]]) -> None:
        error = OSError("no space left")
        error.add_note("in the file c.db")
        raise error


@pytest.fixture
def clock() -> ManualClock:
    """What `cache` measures lifetimes with."""
    return ManualClock()


@pytest.fixture(params=CACHES)
def cache(request: pytest.FixtureRequest, tmp_path: Path, clock: ManualClock) -> Iterator[Any]:
    """A cache in memory, and one on a file."""
    made = open_cache(request.param, tmp_path, clock=clock)
    yield made
    close(made)
