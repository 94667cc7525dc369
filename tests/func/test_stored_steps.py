"""P2 and P17: a step whose result is stored does not run again, whatever happens."""

from __future__ import annotations

import asyncio
import dataclasses
from collections import Counter
from typing import Any, Literal

import pytest

from perdure.checkpoint.records import RESULT
from perdure.checkpoint.saver import Saver
from perdure.errors import LeaseLost, NotStorable, SaveFailed
from perdure.func import entrypoint, task
from perdure.types import Command, interrupt
from tests.func.bodies import Workshop
from tests.promises.ways import Watch, kinds_of, on, orphans, status_of

Durability = Literal["sync", "async", "exit"]
EVERY_DURABILITY = pytest.mark.parametrize("durability", ["sync", "async", "exit"])


def failing_once(shop: Workshop, saver: Saver) -> Any:
    """Two steps one after the other, then two at once, then an error the first time."""
    step = shop.noted(value=lambda given: {"value": given, "more": "x" * 1000})
    failures: list[int] = []

    def wf(given: int) -> Any:
        results = [(yield step(given))]
        results += [(yield step(given + 1))]
        results += yield [step(given + 10), step(given + 11)]
        if not failures:
            failures.append(1)
            raise ValueError("once")
        return [result["value"] for result in results]

    return shop.flow(wf, saver)


@EVERY_DURABILITY
def test_P2_P17_a_failed_entrypoint_goes_on_with_the_results_of_its_steps(
    shop: Workshop, saver: Saver, durability: Durability
) -> None:
    flow = failing_once(shop, saver)
    with pytest.raises(ValueError, match="once"):
        shop.invoke(flow, 1, on(), durability=durability)
    assert len(kinds_of(saver, RESULT)) == 4
    assert shop.invoke(flow, None, on(), durability=durability) == [1, 2, 11, 12]
    assert Counter(shop.ran) == Counter([("step", 1), ("step", 2), ("step", 11), ("step", 12)])
    assert orphans(saver) == []


def test_P2_each_step_is_a_commit_of_its_own_and_the_entrypoints_result_comes_with_the_checkpoint(
    shop: Workshop, saver: Saver
) -> None:
    watch = Watch(saver)
    step = shop.noted()

    def wf(given: int) -> Any:
        yield step(given)
        return (yield step(given + 1))

    shop.invoke(shop.flow(wf, saver), 1, on())
    assert [told.split("@")[0] for told in watch.told] == [
        "take input-1",
        "keep wf>0:step",
        "keep wf>1:step",
        "release loop0 wf:0",
    ]


def test_P6_exit_stores_steps_only_at_the_end(shop: Workshop, saver: Saver) -> None:
    watch = Watch(saver)
    step = shop.noted()

    def wf(given: int) -> Any:
        yield step(given)
        return interrupt("?")

    flow = shop.flow(wf, saver)
    shop.invoke(flow, 1, on(), durability="exit")
    assert len(watch.told) == 2
    assert shop.invoke(flow, Command(resume="x"), on(), durability="exit") == "x"
    assert shop.ran == [("step", 1)]


def test_P4_under_async_a_step_is_stored_after_what_it_builds_on(shop: Workshop, saver: Saver) -> None:
    from perdure.graph import START, StateGraph
    from tests.promises.ways import Log

    watch = Watch(saver)
    step = shop.noted()

    def node(state: Any) -> Any:
        got = yield step(len(state["log"]))
        return {"log": [f"{got}"]}

    builder = StateGraph(Log)
    for name in ("a", "b"):
        builder.add_node(name, shop.body(node))
    graph = builder.add_edge(START, "a").add_edge("a", "b").compile(saver)
    assert shop.invoke(graph, {"log": []}, on(), durability="async") == {"log": ["0", "1"]}
    brought = [told.split("@")[0] for told in watch.told]
    assert brought.index("keep loop1 a:0") < brought.index("keep b>0:step")


def test_P4_under_async_a_failed_save_is_no_success_even_if_the_steps_code_swallows_it(shop: Workshop, saver: Saver) -> None:
    watch = Watch(saver)
    step = shop.noted()

    def wf(given: int) -> Any:
        watch.failing = {len(watch.commits)}
        try:
            yield step(given)
        except SaveFailed:
            shop.ran.append("swallowed")
        return "done"

    flow = shop.flow(wf, saver)
    with pytest.raises(SaveFailed):
        shop.invoke(flow, 1, on())
    assert shop.ran == [("step", 1), "swallowed"]
    watch.mend()
    state = shop.state(flow, on())
    assert (state.next, state.values) == (("wf",), None)


def test_P9_a_step_of_a_run_that_lost_its_thread_is_not_stored(shop: Workshop, saver: Saver) -> None:
    step = shop.noted()

    def wf(given: int) -> Any:
        watch.failing = {len(watch.commits)}
        watch.error = LeaseLost("taken over", thread="t")
        return (yield step(given))

    watch = Watch(saver)
    with pytest.raises(LeaseLost):
        shop.invoke(shop.flow(wf, saver), 1, on())
    assert kinds_of(saver, RESULT) == []


class Unknown:
    """Cannot be stored."""


@EVERY_DURABILITY
def test_P30_a_result_that_cannot_be_stored_is_an_error_that_names_the_step(
    shop: Workshop, saver: Saver, durability: Durability
) -> None:
    step = shop.step(lambda: {"deep": [1, Unknown()]}, name="make")

    def wf(given: int) -> Any:
        return (yield step())

    flow = shop.flow(wf, saver)
    with pytest.raises(NotStorable, match=r"^result of task 'make'\[\"deep\"\]\[1\] is a ") as caught:
        shop.invoke(flow, 1, on(), durability=durability)
    assert (caught.value.node, caught.value.thread) == ("make", "t")
    assert kinds_of(saver, RESULT) == []
    assert status_of(saver) == ("error", True)

    def careful(given: int) -> Any:
        try:
            return (yield step())
        except NotStorable:
            return "handled"

    assert shop.invoke(shop.flow(careful, saver), 1, on("2"), durability=durability) == "handled"
    assert isinstance(shop.invoke(shop.flow(wf), 1)["deep"][1], Unknown), "without a saver nothing has to be stored"


@dataclasses.dataclass
class Page:
    text: str


def test_P35_a_stored_result_is_what_the_step_returned_whatever_became_of_it_since(shop: Workshop, saver: Saver) -> None:
    def make(given: str) -> Page:
        shop.ran.append(given)
        return Page(given)

    step = shop.step(make)

    def wf(given: str) -> Any:
        page = yield step(given)
        page.text += "!"
        interrupt("?")
        return page.text

    flow = shop.flow(wf, saver)
    shop.invoke(flow, "a", on())
    assert shop.invoke(flow, Command(resume=None), on()) == "a!"
    assert shop.ran == ["a"]


def test_P30_results_come_back_as_they_were(shop: Workshop, saver: Saver) -> None:
    values: list[Any] = [None, False, 0, "", (1, (2,)), {1, 2}, b"x", {"a": [1]}, "x" * 10_000]
    step = shop.step(lambda at: values[at])

    def wf(given: int) -> Any:
        found = yield [step(at) for at in range(len(values))]
        answer = interrupt("?")
        return [[type(one).__name__ for one in found], found == values, answer]

    flow = shop.flow(wf, saver)
    shop.invoke(flow, 1, on())
    names = [type(one).__name__ for one in values]
    assert shop.invoke(flow, Command(resume=1), on()) == [names, True, 1]


# -- changed code -----------------------------------------------------------------------------------------------------------


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
    assert len(kinds_of(saver, RESULT)) == 7


@pytest.mark.parametrize("change", ["inserted", "removed", "renamed"])
def test_changed_code_never_gets_another_steps_result(shop: Workshop, saver: Saver, change: str) -> None:
    first, second, third = shop.noted("first", str), shop.noted("second", str), shop.noted("third", str)
    changed: list[str] = []

    def wf(given: int) -> Any:
        results = []
        if change == "inserted" and changed:
            results.append((yield third(0)))
        if change != "removed" or not changed:
            results.append((yield first(1)))
        last = third if change == "renamed" and changed else second
        results.append((yield last(2)))
        interrupt("?")
        return results

    flow = shop.flow(wf, saver)
    shop.invoke(flow, 1, on())
    assert shop.ran == [("first", 1), ("second", 2)]
    shop.ran.clear()
    changed.append(change)
    out = shop.invoke(flow, Command(resume=1), on())
    assert out == {"inserted": ["0", "1", "2"], "removed": ["2"], "renamed": ["1", "2"]}[change]
    assert shop.ran == {"inserted": [("third", 0)], "removed": [], "renamed": [("third", 2)]}[change]


def test_a_fan_out_over_a_list_that_has_changed_gives_each_item_its_own_result(shop: Workshop, saver: Saver) -> None:
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
    assert Counter(shop.ran) == Counter(("step", item) for item in (1, 2, 3, 0, 5))
