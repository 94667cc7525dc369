"""Differences from the reference: entrypoints and tasks. See docs/explanation/differences.md."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from perdure.checkpoint.saver import Saver
from perdure.errors import GraphInterrupt, InvalidGraph, InvalidUpdateError
from perdure.func import entrypoint, task
from perdure.types import Command, interrupt
from tests.func.bodies import Workshop
from tests.promises.ways import COLOURS, on


@pytest.fixture(params=COLOURS)
def shop(request: pytest.FixtureRequest) -> Workshop:
    return Workshop(request.param)


def asking(shop: Workshop) -> Any:
    """A step that asks, and notes each entry."""

    def ask(what: str) -> Any:
        shop.ran.append(what)
        return interrupt(what)

    return shop.step(ask)


def ids_of(out: Any) -> dict[Any, str]:
    return {pause.value: pause.id for pause in out["__interrupt__"]}


def test_P49_a_sync_entrypoint_may_call_async_tasks(saver: Saver) -> None:
    @task
    async def double(given: int) -> int:
        return given * 2

    assert entrypoint(saver)(lambda given: double(given).result()).invoke(2, on()) == 4


def test_P17_helpers_that_take_turns_otherwise_get_their_own_results(saver: Saver) -> None:
    turns = [0, 1]

    @task
    async def work(who: str, at: int) -> str:
        return f"{who}{at}"

    @entrypoint(saver)
    async def flow(given: int) -> Any:
        async def helper(who: str, wait: int) -> list[str]:
            found = []
            for at in range(3):
                for _ in range(wait * 20):
                    await asyncio.sleep(0)
                found.append(await work(who, at))
            return found

        found = await asyncio.gather(helper("a", turns[0]), helper("b", turns[1]))
        interrupt("?")
        return found

    asyncio.run(flow.ainvoke(1, on()))
    turns.reverse()
    assert asyncio.run(flow.ainvoke(Command(resume=1), on())) == [["a0", "a1", "a2"], ["b0", "b1", "b2"]]


def test_P17_a_fan_out_over_a_list_that_has_changed_gives_each_item_its_own_result(shop: Workshop, saver: Saver) -> None:
    step = shop.noted(value=lambda given: given * 2)
    items = [1, 2, 3]

    def wf(given: int) -> Any:
        found = yield [step(item) for item in items]
        interrupt("?")
        return found

    flow = shop.flow(wf, saver)
    shop.invoke(flow, 1, on())
    items[:] = [0, 2, 1, 5]
    assert shop.invoke(flow, Command(resume=1), on()) == [0, 4, 2, 10]


def test_P12_all_tasks_that_ask_at_once_are_shown(shop: Workshop, saver: Saver) -> None:
    ask = asking(shop)

    def wf(given: Any) -> Any:
        return (yield [ask(what) for what in given])

    assert sorted(ids_of(shop.invoke(shop.flow(wf, saver), ["a", "b"], on()))) == ["a", "b"]


def test_P14_a_task_that_waits_is_not_run_again_before_its_answer(shop: Workshop, saver: Saver) -> None:
    ask = asking(shop)

    def wf(given: Any) -> Any:
        return (yield [ask(what) for what in given])

    flow = shop.flow(wf, saver)
    ids = ids_of(shop.invoke(flow, ["a", "b"], on()))
    shop.invoke(flow, Command(resume={ids["a"]: "A"}), on())
    assert sorted(shop.ran) == ["a", "a", "b"]


@pytest.mark.parametrize("how", ["ignores the future", "swallows the pause"])
def test_P12_a_tasks_question_counts_whatever_the_entrypoint_does(shop: Workshop, saver: Saver, how: str) -> None:
    ask = asking(shop)

    def wf(given: str) -> Any:
        asked = ask(given)
        if how == "swallows the pause":
            try:
                return (yield asked)
            except GraphInterrupt:
                pass
        return "done"

    assert list(ids_of(shop.invoke(shop.flow(wf, saver), "a", on()))) == ["a"]


def test_P2_a_task_whose_result_is_stored_is_not_announced_again(shop: Workshop, saver: Saver) -> None:
    step = shop.noted()

    def wf(given: int) -> Any:
        got = yield step(given)
        return got, interrupt("?")

    flow = shop.flow(wf, saver)
    shop.invoke(flow, 1, on())
    told = shop.stream(flow, Command(resume="x"), on(), stream_mode="tasks")
    assert [one["name"] for one in told] == ["wf", "wf"]


def test_P22_an_edit_of_a_paused_entrypoint_keeps_its_question(shop: Workshop, saver: Saver) -> None:
    def wf(given: int, *, previous: Any = None) -> Any:
        return [given, interrupt("?"), previous]
        yield

    flow = shop.flow(wf, saver)
    shop.invoke(flow, 1, on())
    shop.edit(flow, on(), "edited")
    assert shop.state(flow, on()).next == ("wf",)
    assert shop.invoke(flow, Command(resume="x"), on()) == [1, "x", "edited"]


def test_P50_an_entrypoint_takes_no_update_and_no_goto(shop: Workshop, saver: Saver) -> None:
    def wf(given: int) -> Any:
        return given
        yield

    flow = shop.flow(wf, saver)
    shop.invoke(flow, 1, on())
    for command in (Command(update={"__end__": 3}), Command(goto="wf")):
        with pytest.raises(InvalidUpdateError, match="entrypoint 'wf'"):
            shop.invoke(flow, command, on())


def test_P50_generators_are_refused_as_entrypoints_and_as_tasks() -> None:
    def numbers(given: int) -> Any:
        yield given

    for mark in (entrypoint(), task):
        with pytest.raises(InvalidGraph, match="is a generator"):
            mark(numbers)


def test_a_method_may_be_a_task(shop: Workshop) -> None:
    class Service:
        @task
        def double(self, given: int) -> int:
            return given * 2

    service = Service()

    def wf(given: int) -> Any:
        return (yield service.double(given))

    assert shop.invoke(shop.flow(wf), 2) == 4


def test_a_future_that_an_entrypoint_returns_is_its_result(shop: Workshop, saver: Saver) -> None:
    step = shop.noted()
    assert shop.invoke(entrypoint(saver)(lambda given: step(given)), 2, on()) == 2
