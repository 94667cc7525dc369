"""Questions that durable steps ask."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from perdure.checkpoint.memory import InMemorySaver
from perdure.checkpoint.saver import Saver
from perdure.errors import GraphInterrupt
from perdure.func import entrypoint, task
from perdure.types import Command, RetryPolicy, interrupt
from tests.func.bodies import Workshop
from tests.promises.ways import at_once, on


def approving(shop: Workshop, **options: Any) -> Any:
    """A step that asks, and notes each entry."""

    def approve(what: str) -> Any:
        shop.ran.append(what)
        return f"{what}: {interrupt(what)}"

    return shop.step(approve, **options)


def ids_of(out: Any) -> dict[Any, str]:
    """Ids of the open questions of a result, by question."""
    return {pause.value: pause.id for pause in out["__interrupt__"]}


def test_a_step_may_ask(shop: Workshop, saver: Saver) -> None:
    approve = approving(shop)

    def wf(given: str) -> Any:
        return (yield approve(given))

    flow = shop.flow(wf, saver)
    out = shop.invoke(flow, "pay", on())
    state = shop.state(flow, on())
    assert ids_of(out) == {"pay": state.interrupts[0].id}
    assert (state.next, state.tasks[0].interrupts, state.tasks[0].status) == (("wf",), state.interrupts, "paused")
    assert shop.state(flow, on()).interrupts == state.interrupts
    assert shop.invoke(flow, Command(resume="yes"), on()) == "pay: yes"
    assert shop.ran == ["pay", "pay"]


def test_P12_P14_steps_that_ask_at_once_are_all_shown_and_only_the_answered_ones_go_on(shop: Workshop, saver: Saver) -> None:
    approve = approving(shop)

    def wf(given: Any) -> Any:
        return (yield [approve(what) for what in given])

    flow = shop.flow(wf, saver)
    ids = ids_of(shop.invoke(flow, ["a", "b", "c"], on()))
    assert sorted(ids) == ["a", "b", "c"]
    assert sorted(shop.ran) == ["a", "b", "c"]
    left = ids_of(shop.invoke(flow, Command(resume={ids["b"]: "B"}), on()))
    assert left == {"a": ids["a"], "c": ids["c"]}
    assert sorted(shop.ran) == ["a", "b", "b", "c"], "the others are not run again before their answers"
    assert ids_of(shop.invoke(flow, None, on())) == left
    assert sorted(shop.ran) == ["a", "b", "b", "c"]
    assert shop.invoke(flow, Command(resume={ids["c"]: "C", ids["a"]: "A"}), on()) == ["a: A", "b: B", "c: C"]
    assert sorted(shop.ran) == ["a", "a", "b", "b", "c", "c"]


def test_P12_a_question_counts_even_if_nobody_asks_for_the_result(shop: Workshop, saver: Saver) -> None:
    approve = approving(shop)

    def wf(given: str) -> Any:
        approve(given)
        return "done"
        yield

    flow = shop.flow(wf, saver)
    assert list(ids_of(shop.invoke(flow, "a", on()))) == ["a"]
    assert shop.invoke(flow, Command(resume="yes"), on()) == "done"
    assert shop.ran == ["a", "a"]


@pytest.mark.parametrize("then", ["returns", "raises"])
def test_P12_a_question_counts_even_if_the_entrypoint_swallows_it(shop: Workshop, saver: Saver, then: str) -> None:
    approve = approving(shop)

    def wf(given: str) -> Any:
        try:
            return (yield approve(given))
        except GraphInterrupt as pause:
            if then == "raises":
                raise ValueError("swallowed") from pause
            return "swallowed"

    flow = shop.flow(wf, saver)
    assert list(ids_of(shop.invoke(flow, "a", on()))) == ["a"]
    assert shop.invoke(flow, Command(resume="yes"), on()) == "a: yes"


def test_P12_the_other_steps_end_and_are_stored_before_the_pause(shop: Workshop, saver: Saver) -> None:
    approve = approving(shop)
    step = shop.noted()

    def wf(given: str) -> Any:
        asked = approve(given)
        steps = [step(at) for at in range(3)]
        answer = yield asked
        return answer, (yield steps)

    flow = shop.flow(wf, saver)
    shop.invoke(flow, "a", on())
    assert shop.invoke(flow, Command(resume="yes"), on()) == ("a: yes", [0, 1, 2])
    assert sorted(map(str, shop.ran)) == ["('step', 0)", "('step', 1)", "('step', 2)", "a", "a"]


def test_S02_P17_pauses_in_a_loop_do_not_repeat_finished_steps(shop: Workshop, saver: Saver) -> None:
    ledger: list[int] = []
    plain: list[int] = []
    record = shop.step(lambda at: ledger.append(at))

    def wf(given: int) -> Any:
        answers = []
        for at in range(given):
            plain.append(at)
            yield record(at)
            answers.append(interrupt(at))
        return answers

    flow = shop.flow(wf, saver)
    shop.invoke(flow, 3, on())
    seen = []
    for answer in "xyz":
        seen.append([pause.value for pause in shop.state(flow, on()).interrupts])
        out = shop.invoke(flow, Command(resume=answer), on())
    assert seen == [[0], [1], [2]]
    assert out == ["x", "y", "z"]
    assert ledger == [0, 1, 2]
    assert len(plain) == 9, "plain code is repeated"
    (entered,) = (one for snapshot in shop.history(flow, on()) for one in snapshot.tasks)
    assert entered.entries == 4


def test_P17_a_step_whose_own_arguments_it_changes_does_not_repeat(shop: Workshop, saver: Saver) -> None:
    ledger: list[int] = []

    def append(to: list[int], at: int) -> None:
        to.append(at)

    step = shop.step(append)

    def wf(given: int) -> Any:
        for at in range(given):
            yield step(ledger, at)
            interrupt(at)
        return ledger

    flow = shop.flow(wf, saver)
    shop.invoke(flow, 3, on())
    for _ in range(3):
        out = shop.invoke(flow, Command(resume=True), on())
    assert out == [0, 1, 2]


def test_a_step_asks_several_questions_one_after_the_other(shop: Workshop, saver: Saver) -> None:
    def ask(given: str) -> Any:
        shop.ran.append(given)
        return [interrupt(f"{given}{at}") for at in range(3)]

    step = shop.step(ask)

    def wf(given: str) -> Any:
        return (yield step(given))

    flow = shop.flow(wf, saver)
    shop.invoke(flow, "q", on())
    for answer in (None, False):
        shop.invoke(flow, Command(resume=answer), on())
    assert shop.invoke(flow, Command(resume=""), on()) == [None, False, ""]
    assert shop.ran == ["q"] * 4


def test_P14_a_step_with_two_open_questions_waits_for_both_answers(saver: Saver) -> None:
    entered: list[int] = []

    @task
    async def both(given: int) -> Any:
        entered.append(given)

        async def ask(what: str) -> Any:
            return interrupt(what)

        return await at_once(ask("a"), ask("b"))

    @entrypoint(saver)
    async def flow(given: int) -> Any:
        return await both(given)

    ids = ids_of(asyncio.run(flow.ainvoke(1, on())))
    assert list(ids) == ["a", "b"]
    assert ids_of(asyncio.run(flow.ainvoke(Command(resume={ids["a"]: "A"}), on()))) == {"b": ids["b"]}
    assert entered == [1]
    assert asyncio.run(flow.ainvoke(Command(resume={ids["b"]: "B"}), on())) == ["A", "B"]
    assert entered == [1, 1]


def test_the_entrypoint_and_its_steps_may_ask_at_once(shop: Workshop, saver: Saver) -> None:
    approve = approving(shop)

    def wf(given: str) -> Any:
        asked = approve(given)
        own = interrupt("own")
        return own, (yield asked)

    flow = shop.flow(wf, saver)
    ids = ids_of(shop.invoke(flow, "step's", on()))
    assert sorted(ids) == ["own", "step's"]
    assert ids_of(shop.invoke(flow, Command(resume={ids["step's"]: "1"}), on())) == {"own": ids["own"]}
    assert shop.invoke(flow, Command(resume="2"), on()) == ("2", "step's: 1")
    assert shop.ran == ["step's", "step's"]


def test_P14_steps_inside_steps_ask_and_wait_on_their_own(shop: Workshop, saver: Saver) -> None:
    approve = approving(shop)
    step = shop.noted()

    def outer(given: str) -> Any:
        shop.ran.append(f"outer {given}")
        yield step(given)
        return (yield [approve(f"{given}1"), approve(f"{given}2")])

    nested = shop.nested(outer)

    def wf(given: str) -> Any:
        return (yield [nested("a"), nested("b")])

    flow = shop.flow(wf, saver)
    ids = ids_of(shop.invoke(flow, "", on()))
    assert sorted(ids) == ["a1", "a2", "b1", "b2"]
    shop.ran.clear()
    left = ids_of(shop.invoke(flow, Command(resume={ids["a1"]: "x"}), on()))
    assert left == {name: ids[name] for name in ("a2", "b1", "b2")}
    assert shop.ran == ["outer a", "a1"], "b is not entered, nor is a2; what had ended is not repeated"
    shop.ran.clear()
    answers = {ids[name]: name.upper() for name in ("a2", "b1", "b2")}
    assert shop.invoke(flow, Command(resume=answers), on()) == [["a1: x", "a2: A2"], ["b1: B1", "b2: B2"]]
    assert sorted(shop.ran) == ["a2", "b1", "b2", "outer a", "outer b"]


def test_P12_steps_of_a_task_group_all_ask(saver: Saver) -> None:
    entered: list[str] = []

    @task
    async def approve(what: str) -> Any:
        entered.append(what)
        await asyncio.sleep(0.01 if what == "b" else 0)
        return interrupt(what)

    @entrypoint(saver)
    async def flow(given: int) -> Any:
        async def helper(what: str) -> Any:
            return await approve(what)

        async with asyncio.TaskGroup() as group:
            helpers = [group.create_task(helper(what)) for what in "ab"]
        return [one.result() for one in helpers]

    ids = ids_of(asyncio.run(flow.ainvoke(1, on())))
    assert sorted(ids) == ["a", "b"], "the group cancels b's helper, but not b"
    answers = {ids["a"]: "A", ids["b"]: "B"}
    assert asyncio.run(flow.ainvoke(Command(resume=answers), on())) == ["A", "B"]
    assert sorted(entered) == ["a", "a", "b", "b"]


def test_a_step_that_waits_is_not_run_again_when_its_entrypoint_is_tried_again(shop: Workshop, saver: Saver) -> None:
    approve = approving(shop)
    tries: list[int] = []

    def wf(given: str) -> Any:
        asked = approve(given)
        tries.append(1)
        if len(tries) == 1:
            try:
                yield asked
            except GraphInterrupt:
                pass
            raise ConnectionError("down")
        return (yield asked)

    flow = shop.flow(wf, saver, retry_policy=RetryPolicy(initial_interval=0, jitter=False))
    assert list(ids_of(shop.invoke(flow, "a", on()))) == ["a"]
    assert shop.ran == ["a"]
    assert shop.invoke(flow, Command(resume="x"), on()) == "a: x"


def test_a_question_with_a_changing_text_is_still_the_one_at_its_place(shop: Workshop, saver: Saver) -> None:
    times: list[int] = []

    def ask(at: int) -> Any:
        return interrupt(f"it is {at} o'clock; go on?")

    step = shop.step(ask)

    def wf(given: str) -> Any:
        times.append(1)
        return (yield step(len(times)))

    flow = shop.flow(wf, saver)
    shop.invoke(flow, "", on())
    assert shop.invoke(flow, Command(resume="yes"), on()) == "yes"


def test_without_a_saver_a_question_of_a_step_is_shown(shop: Workshop) -> None:
    approve = approving(shop)

    def wf(given: str) -> Any:
        return (yield approve(given))

    assert list(ids_of(shop.invoke(shop.flow(wf), "a"))) == ["a"]


def test_P13_a_bare_answer_to_several_steps_is_refused(shop: Workshop, saver: Saver) -> None:
    approve = approving(shop)

    def wf(given: Any) -> Any:
        return (yield [approve(what) for what in given])

    flow = shop.flow(wf, saver)
    ids = ids_of(shop.invoke(flow, ["a", "b"], on()))
    with pytest.raises(RuntimeError, match="you must specify the interrupt id"):
        shop.invoke(flow, Command(resume="x"), on())
    assert {pause.value: pause.id for pause in shop.state(flow, on()).interrupts} == ids
    assert len(shop.ran) == 2


def test_the_colours_may_change_between_a_question_and_its_answer() -> None:
    saver = InMemorySaver()
    sync, later = Workshop("sync"), Workshop("async")

    def made(shop: Workshop) -> Any:
        approve = approving(shop)

        def wf(given: str) -> Any:
            return (yield approve(given))

        return shop.flow(wf, saver)

    sync.invoke(made(sync), "a", on())
    assert later.invoke(made(later), Command(resume="x"), on()) == "a: x"
