"""The cache contract and the cache in memory."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from perdure.cache import BaseCache, InMemoryCache
from perdure.errors import NotStorable

A, B = ("a",), ("a", "b")


class Stopped:
    """A clock that goes when told."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now

    def now_ns(self) -> int:
        return 0


def test_what_is_kept_is_found_under_its_namespace_and_key() -> None:
    cache: InMemoryCache[Any] = InMemoryCache()
    cache.set({(A, "k"): (1, None), (B, "k"): ([2], None)})
    assert cache.get([(A, "k"), (B, "k"), (A, "other"), (("c",), "k")]) == {(A, "k"): 1, (B, "k"): [2]}
    assert cache.get([]) == {}


def test_the_last_value_counts() -> None:
    cache: InMemoryCache[Any] = InMemoryCache()
    cache.set({(A, "k"): (1, None)})
    cache.set({(A, "k"): (2, None)})
    assert cache.get([(A, "k")]) == {(A, "k"): 2}


def test_what_is_kept_is_detached() -> None:
    cache: InMemoryCache[Any] = InMemoryCache()
    value = [1]
    cache.set({(A, "k"): (value, None)})
    value.append(2)
    found = cache.get([(A, "k")])[A, "k"]
    assert found == [1]
    found.append(3)
    assert cache.get([(A, "k")]) == {(A, "k"): [1]}


def test_none_is_a_value() -> None:
    cache: InMemoryCache[Any] = InMemoryCache()
    cache.set({(A, "k"): (None, None)})
    assert cache.get([(A, "k")]) == {(A, "k"): None}


def test_values_expire_at_their_instant() -> None:
    clock = Stopped()
    cache: InMemoryCache[Any] = InMemoryCache(clock=clock)
    cache.set({(A, "short"): (1, 5), (A, "long"): (2, 50), (A, "ever"): (3, None)})
    keys = [(A, "short"), (A, "long"), (A, "ever")]
    clock.now = 4.999
    assert set(cache.get(keys)) == set(keys)
    clock.now = 5.0
    assert set(cache.get(keys)) == {(A, "long"), (A, "ever")}
    clock.now = 1e9
    assert set(cache.get(keys)) == {(A, "ever")}
    clock.now = 0.0
    assert (A, "short") not in cache.get(keys), "what has expired is gone"


def test_clearing_is_exact() -> None:
    cache: InMemoryCache[Any] = InMemoryCache()
    cache.set({(A, "k"): (1, None), (B, "k"): (2, None)})
    cache.clear([("b",)])
    cache.clear([])
    assert len(cache.get([(A, "k"), (B, "k")])) == 2
    cache.clear([A])
    assert cache.get([(A, "k"), (B, "k")]) == {(B, "k"): 2}
    cache.clear()
    assert cache.get([(A, "k"), (B, "k")]) == {}


def test_one_value_that_cannot_be_kept_keeps_none() -> None:
    cache: InMemoryCache[Any] = InMemoryCache()
    with pytest.raises(NotStorable):
        cache.set({(A, "good"): (1, None), (A, "bad"): (object(), None)})
    assert cache.get([(A, "good")]) == {}


def test_the_async_twins_do_the_same() -> None:
    async def main() -> None:
        cache: InMemoryCache[Any] = InMemoryCache()
        await cache.aset({(A, "k"): (1, None)})
        assert await cache.aget([(A, "k")]) == {(A, "k"): 1}
        await cache.aclear([A])
        assert await cache.aget([(A, "k")]) == {}

    asyncio.run(main())


def test_a_cache_has_to_say_how_it_gets_sets_and_clears() -> None:
    with pytest.raises(TypeError, match="abstract"):
        BaseCache()  # type: ignore[abstract]


def test_another_serializer_may_be_used() -> None:
    import pickle

    cache: InMemoryCache[Any] = InMemoryCache(serde=pickle)
    cache.set({(A, "k"): (complex(1, 2), None)})
    assert cache.get([(A, "k")]) == {(A, "k"): complex(1, 2)}


def test_threads_may_share_it() -> None:
    cache: InMemoryCache[Any] = InMemoryCache()
    begin = threading.Barrier(4)
    errors: list[BaseException] = []

    def work(name: int) -> None:
        try:
            begin.wait(10)
            for at in range(300):
                cache.set({(A, f"{name}-{at}"): (at, 1000)})
                cache.get([(A, f"{other}-{at}") for other in range(4)])
                if at % 50 == 0:
                    cache.clear([B])
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(name,)) for name in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert not errors
    assert len(cache.get([(A, f"{name}-{at}") for name in range(4) for at in range(300)])) == 1200
