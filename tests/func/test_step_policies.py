"""Retries, caches and timeouts of steps."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from perdure.cache import InMemoryCache
from perdure.checkpoint.records import RESULT
from perdure.checkpoint.saver import Saver
from perdure.config import get_stream_writer
from perdure.errors import CacheWarning, MissingPartWarning, NodeTimeoutError, NotStorable
from perdure.func import entrypoint, task
from perdure.runtime import Runtime, get_runtime
from perdure.types import CachePolicy, Command, RetryPolicy, TimeoutPolicy, interrupt
from tests.caches import Full
from tests.func.bodies import Workshop
from tests.promises.ways import kinds_of, on

QUICK = RetryPolicy(initial_interval=0, jitter=False, retry_on=ConnectionError)


def calling(shop: Workshop, step: Any, saver: Any = None, **options: Any) -> Any:
    """An entrypoint that gives what a step makes of its input."""

    def wf(given: Any) -> Any:
        return (yield step(given))

    return shop.flow(wf, saver, **options)


# -- retries ----------------------------------------------------------------------------------------------------------------


def test_a_step_is_tried_again(shop: Workshop, saver: Saver) -> None:
    def flaky(given: int, runtime: Runtime[Any]) -> int:
        shop.ran.append(runtime.execution_info.node_attempt)  # type: ignore[union-attr]
        if len(shop.ran) < 3:
            raise ConnectionError("down")
        return given

    flow = calling(shop, shop.step(flaky, retry_policy=QUICK), saver)
    assert shop.invoke(flow, 1, on()) == 1
    assert shop.ran == [1, 2, 3]


def test_a_step_gives_up_after_its_last_attempt_and_on_other_errors(shop: Workshop, saver: Saver) -> None:
    errors = [ConnectionError("a"), ConnectionError("b"), ConnectionError("c"), ValueError("d")]

    def flaky(given: int) -> None:
        shop.ran.append(given)
        raise errors.pop(0)

    flow = calling(shop, shop.step(flaky, retry_policy=[QUICK]), saver)
    with pytest.raises(ConnectionError, match="c"):
        shop.invoke(flow, 1, on())
    with pytest.raises(ValueError, match="d"):
        shop.invoke(flow, None, on())
    assert len(shop.ran) == 4


def test_steps_inside_a_step_that_is_tried_again_do_not_repeat(shop: Workshop, saver: Saver) -> None:
    step = shop.noted()
    tries: list[int] = []

    def outer(given: int) -> Any:
        got = yield step(given)
        tries.append(1)
        if len(tries) < 3:
            raise ConnectionError("down")
        return got

    flow = calling(shop, shop.nested(outer, retry_policy=QUICK), saver)
    assert shop.invoke(flow, 1, on()) == 1
    assert (shop.ran, len(tries)) == ([("step", 1)], 3)


def test_a_question_is_no_failure(shop: Workshop, saver: Saver) -> None:
    def ask(given: int) -> Any:
        shop.ran.append(given)
        return interrupt("?")

    flow = calling(shop, shop.step(ask, retry_policy=RetryPolicy(initial_interval=0, retry_on=Exception)), saver)
    shop.invoke(flow, 1, on())
    assert shop.ran == [1]
    assert shop.invoke(flow, Command(resume="x"), on()) == "x"


# -- caches -----------------------------------------------------------------------------------------------------------------


def test_results_are_kept_by_arguments_across_threads_and_entrypoints(shop: Workshop, saver: Saver, cache: Any) -> None:
    def sum_of(a: int, b: int = 0) -> int:
        shop.ran.append((a, b))
        return a + b

    step = shop.step(sum_of, cache_policy=CachePolicy())

    def wf(given: int) -> Any:
        return (yield [step(given), step(given, b=1), step(given, 2)])

    def other(given: int) -> Any:
        return (yield step(given, b=1))

    flow = shop.flow(wf, saver, cache=cache)
    assert [shop.invoke(flow, given, on(str(at))) for at, given in enumerate([1, 1, 2])] == [[1, 2, 3], [1, 2, 3], [2, 3, 4]]
    assert shop.invoke(shop.flow(other, cache=cache), 1) == 2
    assert sorted(shop.ran) == [(1, 0), (1, 1), (1, 2), (2, 0), (2, 1), (2, 2)]


def test_without_a_cache_a_policy_does_nothing(shop: Workshop) -> None:
    flow = calling(shop, shop.noted(cache_policy=CachePolicy()))
    for _ in range(2):
        with pytest.warns(MissingPartWarning):
            shop.invoke(flow, 1)
    assert len(shop.ran) == 2


def test_a_key_function_gets_the_arguments_and_decides(shop: Workshop, cache: Any) -> None:
    policy = CachePolicy(key_func=lambda given: str(given % 10))
    flow = calling(shop, shop.noted(cache_policy=policy), cache=cache)
    assert [shop.invoke(flow, given) for given in (1, 11, 2)] == [1, 1, 2]


def test_a_failing_key_function_is_the_steps_error(shop: Workshop, saver: Saver, cache: Any) -> None:
    policy = CachePolicy(key_func=lambda given: given["no such key"])
    flow = calling(shop, shop.noted(cache_policy=policy), saver, cache=cache)
    with pytest.raises(KeyError, match="no such key"):
        shop.invoke(flow, {}, on())
    assert shop.ran == []


def test_a_kept_result_is_stored_with_the_thread_like_any_other(shop: Workshop, saver: Saver, cache: Any) -> None:
    step = shop.noted(cache_policy=CachePolicy())

    def wf(given: int) -> Any:
        got = yield step(given)
        return got, interrupt("?")

    flow = shop.flow(wf, saver, cache=cache)
    shop.invoke(flow, 1, on("1"))
    shop.invoke(flow, 1, on("2"))
    cache.clear()
    assert [shop.invoke(flow, Command(resume="x"), on(thread)) for thread in "12"] == [(1, "x"), (1, "x")]
    assert shop.ran == [("step", 1)]
    assert len(kinds_of(saver, RESULT, "2")) == 2


def test_errors_and_questions_are_not_kept(shop: Workshop, saver: Saver, cache: Any) -> None:
    outcomes: list[Any] = [ConnectionError("down"), "ask", "ok"]

    def step(given: int) -> Any:
        outcome = outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return interrupt("?") if outcome == "ask" else outcome

    flow = calling(shop, shop.step(step, cache_policy=CachePolicy()), saver, cache=cache)
    with pytest.raises(ConnectionError):
        shop.invoke(flow, 1, on("1"))
    shop.invoke(flow, 1, on("2"))
    assert shop.invoke(flow, 1, on("3")) == "ok"
    assert shop.invoke(flow, 1, on("4")) == "ok"


@pytest.mark.parametrize("kept", [5, [], [["log", 1]], [["__return__", 1], ["__return__", 2]]], ids=str)
def test_P38_what_is_no_result_of_a_step_counts_as_not_there(shop: Workshop, kept: Any) -> None:
    class Odd(InMemoryCache[Any]):
        def get(self, keys: Any) -> dict[Any, Any]:
            return dict.fromkeys(keys, kept)

    flow = calling(shop, shop.noted(cache_policy=CachePolicy()), cache=Odd())
    with pytest.warns(CacheWarning, match="counts as not there"):
        assert shop.invoke(flow, 7) == 7
    assert shop.ran == [("step", 7)]


class Unknown:
    """Cannot be stored."""


def test_a_result_that_cannot_be_kept_is_the_steps_error(shop: Workshop, cache: Any) -> None:
    flow = calling(shop, shop.step(lambda given: Unknown(), cache_policy=CachePolicy()), cache=cache)
    with pytest.raises(NotStorable, match="Unknown"):
        shop.invoke(flow, 1)


def test_P2_what_a_step_did_is_not_lost_where_the_cache_has_no_room(shop: Workshop, saver: Saver) -> None:
    flow = calling(shop, shop.noted(cache_policy=CachePolicy()), saver, cache=Full())
    with pytest.warns(CacheWarning, match="'step' could not be kept"):
        assert shop.invoke(flow, 1, on()) == 1
    assert shop.ran == [("step", 1)]


def test_a_steps_results_can_be_forgotten(shop: Workshop, cache: Any) -> None:
    step, other = shop.noted("step", cache_policy=CachePolicy()), shop.noted("other", cache_policy=CachePolicy())

    def wf(given: int) -> Any:
        return (yield [step(given), other(given)])

    flow = shop.flow(wf, cache=cache)
    shop.invoke(flow, 1)
    if shop.is_async:
        asyncio.run(step.aclear_cache(cache))
    else:
        step.clear_cache(cache)
    shop.invoke(flow, 1)
    assert sorted(shop.ran) == [("other", 1), ("step", 1), ("step", 1)]


# -- timeouts ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("calls", ["sync", "async"])
def test_an_async_step_that_takes_too_long_is_stopped(calls: str, saver: Saver) -> None:
    stopped: list[str] = []

    @task(timeout=0.02)
    async def slow(given: int) -> None:
        try:
            await asyncio.sleep(30)
        finally:
            stopped.append("stopped")

    def wf(given: int) -> Any:
        try:
            yield slow(given)
        except NodeTimeoutError as error:
            return error.node, error.kind

    for body in ("sync", "async"):
        shop = Workshop(body)
        assert Workshop(calls).invoke(shop.flow(wf, saver), 1, on(body)) == ("slow", "run")
    assert stopped == ["stopped"] * 2


def test_a_step_that_took_too_long_may_be_tried_again(shop: Workshop, saver: Saver) -> None:
    tries: list[int] = []

    async def slow(given: int) -> int:
        tries.append(1)
        await asyncio.sleep(30 if len(tries) == 1 else 0)
        return given

    step = task(timeout=0.02, retry_policy=RetryPolicy(initial_interval=0, jitter=False))(slow)
    assert shop.invoke(calling(shop, step, saver), 1, on()) == 1
    assert len(tries) == 2


def test_signs_of_life_of_a_step_keep_it_and_the_code_around_it_alive() -> None:
    @task(timeout=TimeoutPolicy(idle_timeout=0.5))
    async def busy(given: int) -> int:
        for _ in range(given):
            await asyncio.sleep(0.05)
            get_stream_writer()("alive")
        return given

    @entrypoint(timeout=TimeoutPolicy(idle_timeout=0.5, refresh_on="heartbeat"))
    async def by_heartbeat(given: int) -> int:
        get_runtime().heartbeat()
        return await busy(1)

    @entrypoint(timeout=TimeoutPolicy(idle_timeout=0.5))
    async def flow(given: int) -> int:
        return await busy(given)

    assert asyncio.run(flow.ainvoke(14)) == 14
    assert asyncio.run(by_heartbeat.ainvoke(1)) == 1
