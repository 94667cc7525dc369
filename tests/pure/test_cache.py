"""The contract of a cache, over those of this library."""

from __future__ import annotations

import asyncio
import json
import pickle
import threading
from pathlib import Path
from typing import Any

import pytest

from perdure.cache import BaseCache, InMemoryCache
from perdure.errors import NotStorable
from perdure.testing.clock import ManualClock
from tests.caches import CACHES, cache, clock, close, open_cache

__all__ = ["cache", "clock"]

A, B = ("a",), ("a", "b")


def test_what_is_kept_is_found_under_its_namespace_and_key(cache: Any) -> None:
    cache.set({(A, "k"): (1, None), (B, "k"): ([2], None)})
    assert cache.get([(A, "k"), (B, "k"), (A, "other"), (("c",), "k")]) == {(A, "k"): 1, (B, "k"): [2]}
    assert cache.get([]) == {}


def test_the_last_value_counts(cache: Any) -> None:
    cache.set({(A, "k"): (1, None)})
    cache.set({(A, "k"): (2, None)})
    assert cache.get([(A, "k")]) == {(A, "k"): 2}


def test_what_is_kept_is_detached(cache: Any) -> None:
    value = [1]
    cache.set({(A, "k"): (value, None)})
    value.append(2)
    found = cache.get([(A, "k")])[A, "k"]
    assert found == [1]
    found.append(3)
    assert cache.get([(A, "k")]) == {(A, "k"): [1]}


def test_none_is_a_value(cache: Any) -> None:
    cache.set({(A, "k"): (None, None)})
    assert cache.get([(A, "k")]) == {(A, "k"): None}


def test_values_expire_at_their_instant(cache: Any, clock: ManualClock) -> None:
    cache.set({(A, "short"): (1, 5), (A, "long"): (2, 50), (A, "ever"): (3, None)})
    keys = [(A, "short"), (A, "long"), (A, "ever")]
    clock.advance(4.999)
    assert set(cache.get(keys)) == set(keys)
    clock.advance(0.001)
    assert set(cache.get(keys)) == {(A, "long"), (A, "ever")}
    clock.advance(1e9)
    assert set(cache.get(keys)) == {(A, "ever")}


def test_what_has_expired_is_gone_from_memory() -> None:
    clock = ManualClock()
    cache: InMemoryCache[Any] = InMemoryCache(clock=clock)
    cache.set({(A, "k"): (1, 5)})
    clock.advance(5)
    assert cache.get([(A, "k")]) == {}
    clock.seconds = 0.0
    assert cache.get([(A, "k")]) == {}


def test_a_lifetime_may_be_nothing_or_longer_than_any_clock_counts(cache: Any, clock: ManualClock) -> None:
    cache.set({(A, "none"): (1, 0), (A, "long"): (2, 10**30), (A, "half"): (3, 0.5)})
    assert set(cache.get([(A, "none"), (A, "long"), (A, "half")])) == {(A, "long"), (A, "half")}
    cache.set({(A, "half"): (4, None)})
    clock.advance(0.5)
    assert cache.get([(A, "half")]) == {(A, "half"): 4}, "a new value has its own lifetime"


def test_no_two_namespaces_are_the_same(cache: Any) -> None:
    one_part = (
        "",
        "a",
        "A",
        "a,b",
        "a, b",
        "1:a",
        "a1:b",
        "1:a1:b",
        "ab",
        "a\x00",
        "\ud83d\ude00",
        "😀",
        "x' OR 1=1 --",
        "a\nb",
    )
    spaces = [(), *((part,) for part in one_part), ("a", "b"), ("a", ""), ("", "a"), ("a", "b", "")]
    kept = {(space, "k"): at for at, space in enumerate(spaces)}
    cache.set({place: (at, None) for place, at in kept.items()})
    assert cache.get(list(kept)) == kept
    for space in spaces:
        cache.clear([space])
        del kept[space, "k"]
        assert cache.get([(each, "k") for each in spaces]) == kept


def test_keys_may_be_any_text(cache: Any) -> None:
    keys = [
        (A, key)
        for key in ("", "k", "K", "\x00", "k\x00", "\ud800", "é", "e\u0301", "'; DROP TABLE result; --", "%", "x" * 5000)
    ]
    cache.set({key: (at, None) for at, key in enumerate(keys)})
    assert cache.get(keys) == {key: at for at, key in enumerate(keys)}


def test_clearing_is_exact(cache: Any) -> None:
    cache.set({(A, "k"): (1, None), (B, "k"): (2, None)})
    cache.clear([("b",)])
    cache.clear([])
    assert len(cache.get([(A, "k"), (B, "k")])) == 2
    cache.clear([A])
    assert cache.get([(A, "k"), (B, "k")]) == {(B, "k"): 2}
    cache.clear()
    assert cache.get([(A, "k"), (B, "k")]) == {}


def test_one_value_that_cannot_be_kept_keeps_none(cache: Any) -> None:
    with pytest.raises(NotStorable):
        cache.set({(A, "good"): (1, None), (A, "bad"): (object(), None)})
    assert cache.get([(A, "good")]) == {}


def test_the_async_twins_do_the_same(cache: Any) -> None:
    async def main() -> None:
        await cache.aset({(A, "k"): (1, None)})
        assert await cache.aget([(A, "k")]) == {(A, "k"): 1}
        await cache.aclear([A])
        assert await cache.aget([(A, "k")]) == {}
        await cache.aset({})
        await cache.aclear([])
        await cache.aset({(A, "k"): (2, None), (B, "k"): (3, None)})
        assert cache.get([(A, "k")]) == {(A, "k"): 2}, "both colours see one cache"
        await cache.aclear()
        assert await cache.aget([(A, "k"), (B, "k")]) == await cache.aget([]) == {}
        with pytest.raises(NotStorable):
            await cache.aset({(A, "good"): (1, None), (A, "bad"): (object(), None)})
        assert await cache.aget([(A, "good")]) == {}

    asyncio.run(main())


def test_a_cache_has_to_say_how_it_gets_sets_and_clears() -> None:
    with pytest.raises(TypeError, match="abstract"):
        BaseCache()  # type: ignore[abstract]


@pytest.mark.parametrize("kind", CACHES)
@pytest.mark.parametrize(("serde", "value"), [(pickle, complex(1, 2)), (json, {"a": [1, None]})])
def test_another_serializer_may_be_used(kind: str, serde: Any, value: Any, tmp_path: Path) -> None:
    cache = open_cache(kind, tmp_path, serde=serde)
    cache.set({(A, "k"): (value, None)})
    assert cache.get([(A, "k")]) == {(A, "k"): value}
    close(cache)


def test_threads_may_share_it(cache: Any) -> None:
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
