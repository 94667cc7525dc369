"""What calling a step gives, in sync and in async code."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
import time
from typing import Any

import pytest

from perdure.checkpoint.memory import InMemorySaver
from perdure.checkpoint.saver import Saver
from perdure.func import entrypoint, task
from perdure.types import RunnableConfig
from tests.func.bodies import Workshop
from tests.promises.ways import Way, on

MIXES = [(calls, body, step) for calls in ("sync", "async") for body in ("sync", "async") for step in ("sync", "async")]


@pytest.mark.parametrize(("calls", "body", "step"), MIXES, ids=["calls {}, body {}, steps {}".format(*mix) for mix in MIXES])
def test_P49_calls_bodies_and_steps_may_each_be_sync_or_async(calls: str, body: str, step: str, saver: Saver) -> None:
    double = Workshop(step).noted("double", lambda given: given * 2)

    def wf(given: int) -> Any:
        first = yield double(given)
        both = yield [double(first), double(first + 1)]
        return [first, *both]

    flow = Workshop(body).flow(wf, saver)
    assert Way(calls).invoke(flow, 1, on()) == [2, 4, 6]
    assert Way(calls).invoke(Workshop(body).flow(wf), 1) == [2, 4, 6]


def test_steps_run_at_once(shop: Workshop, saver: Saver) -> None:
    here = threading.Barrier(3, timeout=20)
    arrived: list[int] = []
    all_here = asyncio.Event()

    def meet(given: int) -> int:
        here.wait()
        return given

    async def ameet(given: int) -> int:
        arrived.append(given)
        if len(arrived) == 3:
            all_here.set()
        await all_here.wait()
        return given

    step = task(ameet if shop.is_async else meet)

    def wf(given: int) -> Any:
        return (yield [step(given + at) for at in range(3)])

    assert shop.invoke(shop.flow(wf, saver), 1, on()) == [1, 2, 3]


def test_an_error_is_raised_where_the_result_is_asked_for(shop: Workshop, saver: Saver) -> None:
    def fail(given: int) -> None:
        raise ValueError(f"no {given}")

    step = shop.step(fail)

    def wf(given: int) -> Any:
        future = step(given)
        try:
            yield future
        except ValueError as error:
            return f"caught {error}"

    assert shop.invoke(shop.flow(wf, saver), 1, on()) == "caught no 1"


def test_an_error_is_the_users_own_and_names_step_and_entrypoint(shop: Workshop, saver: Saver) -> None:
    def fail(given: int) -> None:
        raise ValueError("mine")

    step = shop.step(fail)

    def wf(given: int) -> Any:
        yield step(given)

    with pytest.raises(ValueError, match="mine") as caught:
        shop.invoke(shop.flow(wf, saver), 1, on())
    assert [note.split(" and id")[0] for note in caught.value.__notes__] == [
        "During task with name 'fail'",
        "During task with name 'wf'",
    ]
    assert caught.traceback[-1].name == "fail"


def test_an_error_that_nobody_asks_for_is_nobodys(shop: Workshop, saver: Saver) -> None:
    def fail(given: int) -> None:
        raise ValueError("mine")

    step = shop.step(fail)

    def wf(given: int) -> Any:
        step(given)
        return "done"
        yield

    assert shop.invoke(shop.flow(wf, saver), 1, on()) == "done"


def test_a_future_may_be_asked_twice(shop: Workshop) -> None:
    step = shop.noted()

    def wf(given: int) -> Any:
        future = step(given)
        first = yield future
        return first, (yield future), future.done()

    assert shop.invoke(shop.flow(wf), 1) == (1, 1, True)


def test_a_future_that_is_returned_is_its_result(shop: Workshop, saver: Saver) -> None:
    step = shop.noted()
    if shop.is_async:

        @entrypoint(saver)
        async def flow(given: int) -> Any:
            return await step(given)
    else:
        flow = entrypoint(saver)(lambda given: step(given))

    assert shop.invoke(flow, 3, on()) == 3


def test_steps_that_are_not_waited_for_end_before_the_entrypoint_does(shop: Workshop, saver: Saver) -> None:
    def slow(given: int) -> int:
        time.sleep(0.02)
        shop.ran.append(given)
        return given

    step = shop.step(slow)

    def wf(given: int) -> Any:
        for at in range(3):
            step(given + at)
        return "left"
        yield

    assert shop.invoke(shop.flow(wf, saver), 1, on()) == "left"
    assert sorted(shop.ran) == [1, 2, 3]


def test_the_other_steps_end_before_an_error_does_too(shop: Workshop, saver: Saver) -> None:
    def slow(given: int) -> int:
        time.sleep(0.02)
        shop.ran.append(given)
        return given

    step = shop.step(slow)

    def wf(given: int) -> Any:
        step(given)
        if len(shop.ran) < 1:
            raise ValueError("mine")
        return (yield step(given))

    flow = shop.flow(wf, saver)
    with pytest.raises(ValueError, match="mine"):
        shop.invoke(flow, 1, on())
    assert shop.ran == [1]
    assert shop.invoke(flow, None, on()) == 1
    assert shop.ran == [1, 1], "the first call is stored; the second is another one"


def test_sync_futures_work_with_concurrent_futures() -> None:
    @task
    def double(given: int) -> int:
        return given * 2

    @entrypoint()
    def flow(given: int) -> list[int]:
        futures = [double(given + at) for at in range(4)]
        concurrent.futures.wait(futures)
        assert not futures[0].cancel()
        return sorted(future.result(timeout=5) for future in concurrent.futures.as_completed(futures))

    assert flow.invoke(1) == [2, 4, 6, 8]


def test_async_futures_work_with_asyncio() -> None:
    @task
    async def double(given: int) -> int:
        await asyncio.sleep(0)
        return given * 2

    @task
    def triple(given: int) -> int:
        return given * 3

    @entrypoint()
    async def flow(given: int) -> Any:
        async def helper(at: int) -> int:
            return await double(at)

        both: Any = {double(1), triple(1)}
        done, pending = await asyncio.wait(both, timeout=20)
        assert not pending
        gathered = await asyncio.gather(double(2), triple(2))
        completed = sorted([await each for each in asyncio.as_completed([double(3), triple(3)])])
        async with asyncio.TaskGroup() as group:
            helpers = [group.create_task(helper(at)) for at in range(3)]
        waited = await asyncio.wait_for(triple(5), 20)
        return sorted(one.result() for one in done), gathered, completed, [one.result() for one in helpers], waited

    assert asyncio.run(flow.ainvoke(0)) == ([2, 3], [4, 6], [6, 9], [0, 2, 4], 15)
    assert flow.invoke(0) == ([2, 3], [4, 6], [6, 9], [0, 2, 4], 15)


def test_result_in_async_code_says_to_await_instead_of_stopping_the_loop() -> None:
    @task
    async def step(given: int) -> int:
        return given

    @entrypoint()
    async def flow(given: int) -> int:
        future = step(given)
        with pytest.raises(asyncio.InvalidStateError, match="await the future"):
            future.result()
        await future
        return future.result()

    assert asyncio.run(flow.ainvoke(1)) == 1
    assert flow.invoke(1) == 1


def test_a_sync_run_inside_a_running_loop_does_not_wait_for_that_loop() -> None:
    @task
    async def step(given: int) -> int:
        await asyncio.sleep(0)
        return given

    @entrypoint()
    def flow(given: int) -> int:
        return step(given).result(timeout=20)

    async def notebook() -> int:
        return flow.invoke(1)  # type: ignore[no-any-return]

    assert asyncio.run(notebook()) == 1


def test_a_step_whose_time_the_caller_bounds_is_cancelled() -> None:
    ended: list[str] = []

    @task
    async def slow() -> None:
        try:
            await asyncio.sleep(30)
        finally:
            ended.append("slow")

    @entrypoint(InMemorySaver())
    async def flow(given: int) -> str:
        try:
            await asyncio.wait_for(slow(), 0.01)
        except TimeoutError:
            return "too slow"
        return "?"

    assert asyncio.run(flow.ainvoke(1, on())) == "too slow"
    assert ended == ["slow"]


def test_a_step_can_be_cancelled_before_it_begins() -> None:
    ran: list[int] = []

    @task
    async def step(given: int) -> None:
        ran.append(given)

    @entrypoint()
    async def flow(given: int) -> bool:
        future = step(given)
        future.cancel()
        with pytest.raises(asyncio.CancelledError):
            await future
        return future.cancelled()

    assert asyncio.run(flow.ainvoke(1)) is True
    assert ran == []


def test_a_step_that_raises_cancelled_error_by_itself_has_failed(shop: Workshop, saver: Saver) -> None:
    def step(given: int) -> None:
        raise asyncio.CancelledError

    cancelled = shop.step(step)

    def wf(given: int) -> Any:
        yield cancelled(given)

    with pytest.raises(Exception, match="nobody had cancelled") as caught:
        shop.invoke(shop.flow(wf, saver), 1, on())
    assert caught.value.node == "step"  # type: ignore[attr-defined]


def test_outside_of_a_run_a_step_cannot_be_called() -> None:
    @task
    def double(given: int) -> int:
        return given * 2

    with pytest.raises(RuntimeError, match=r"task 'double' was called outside of a running entrypoint or graph"):
        _ = double(1)
    assert double.function(2) == 4
    assert repr(double) == "<task 'double'>"


def test_code_that_outlives_its_entrypoint_cannot_call_steps() -> None:
    @task
    def double(given: int) -> int:
        return given * 2

    left: list[Any] = []

    @entrypoint()
    async def flow(given: int) -> str:
        async def later() -> None:
            await asyncio.sleep(0.01)
            _ = double(given)

        left.append(asyncio.create_task(later()))
        return "done"

    async def run() -> None:
        assert await flow.ainvoke(1) == "done"
        with pytest.raises(RuntimeError, match="'double' was called in the name of 'flow', which has ended"):
            await left[0]

    asyncio.run(run())


def test_threads_of_the_users_own_may_call_steps_in_the_context_of_the_entrypoint(saver: Saver) -> None:
    @task
    def double(given: int) -> int:
        return given * 2

    def both(at: int) -> int:
        return double(at).result()

    @entrypoint(saver)
    async def flow(given: int) -> list[int]:
        return list(await asyncio.gather(*(asyncio.to_thread(both, at) for at in range(given))))

    assert asyncio.run(flow.ainvoke(5, on())) == [0, 2, 4, 6, 8]


def test_500_steps_at_once(shop: Workshop, saver: Saver) -> None:
    step = shop.noted()

    def wf(given: int) -> Any:
        got = yield [step(at) for at in range(given)]
        if len(shop.ran) == given:
            raise ValueError("once more")
        return got

    flow = shop.flow(wf, saver)
    with pytest.raises(ValueError, match="once more"):
        shop.invoke(flow, 500, on())
    shop.ran.append(None)
    assert shop.invoke(flow, None, on()) == list(range(500))
    assert len(shop.ran) == 501


def test_max_concurrency_bounds_the_steps_of_each_task(shop: Workshop) -> None:
    lock = threading.Lock()
    now = 0
    most: list[int] = []

    def enter(by: int) -> None:
        nonlocal now
        with lock:
            now += by
            most.append(now)

    def slow(given: int) -> int:
        enter(1)
        time.sleep(0.002)
        enter(-1)
        return given

    async def aslow(given: int) -> int:
        enter(1)
        await asyncio.sleep(0.002)
        enter(-1)
        return given

    step = task(aslow if shop.is_async else slow)

    def outer(given: int) -> Any:
        return (yield [step(given), step(given + 1)])

    nested = shop.nested(outer)

    def wf(given: int) -> Any:
        flat = yield [step(at) for at in range(given)]
        deep = yield nested(1)
        return flat, deep

    config: RunnableConfig = {"max_concurrency": 2}
    assert shop.invoke(shop.flow(wf), 9, config) == (list(range(9)), [1, 2])
    assert max(most) == 2
    assert shop.invoke(shop.flow(wf), 3, {"max_concurrency": 1}) == ([0, 1, 2], [1, 2]), (
        "a step that waits for its own is no deadlock"
    )
