"""P2: steps on savers that others wrote, which have only the four methods."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from perdure.func import entrypoint, task
from perdure.types import Command, interrupt
from tests.contract.test_third_party import AsyncSaver, SyncSaver
from tests.func.bodies import Workshop
from tests.promises.ways import on

MIXES = [(saver, body, step) for saver in ("sync", "async") for body in ("sync", "async") for step in ("sync", "async")]


@pytest.mark.parametrize(("calls", "body", "step"), MIXES)
def test_P2_stored_steps_do_not_run_again(calls: str, body: str, step: str) -> None:
    ran: list[Any] = []
    saver: Any = SyncSaver() if calls == "sync" else AsyncSaver()
    steps = Workshop(step)

    def note(given: int) -> int:
        ran.append(given)
        return given

    leaf = steps.step(note, name="leaf/1")
    ask = steps.step(lambda given: interrupt(given), name="ask")

    def outer(given: int) -> Any:
        return (yield leaf(given))

    nested = Workshop(body).nested(outer)

    def wf(given: int) -> Any:
        first = yield [leaf(given), nested(given + 1)]
        answers = yield [ask("a"), ask("b")]
        return [first, answers]

    flow = Workshop(body).flow(wf, saver)

    def story(invoke: Any) -> Any:
        out = yield invoke(flow, 1)
        ids = {pause.value: pause.id for pause in out["__interrupt__"]}
        assert sorted(ids) == ["a", "b"]
        out = yield invoke(flow, Command(resume={ids["a"]: "A"}))
        assert [pause.value for pause in out["__interrupt__"]] == ["b"]
        return (yield invoke(flow, Command(resume={ids["b"]: "B"})))

    if calls == "sync":
        told = story(lambda flow, given: flow.invoke(given, on()))
        found = next(told)
        while True:
            try:
                found = told.send(found)
            except StopIteration as stop:
                out = stop.value
                break
    else:

        async def run() -> Any:
            told = story(lambda flow, given: flow.ainvoke(given, on()))
            found = await next(told)
            while True:
                try:
                    found = await told.send(found)
                except StopIteration as stop:
                    return stop.value

        out = asyncio.run(run())
    assert out == [[1, 2], ["A", "B"]]
    assert sorted(ran) == [1, 2]


def test_a_result_of_a_step_is_kept_as_the_object_it_is() -> None:
    saver = SyncSaver()

    @task
    def make(given: int) -> Any:
        return {"n": given}

    @entrypoint(saver)
    def flow(given: int) -> Any:
        made = make(given).result()
        interrupt("?")
        return made

    flow.invoke(1, on())
    assert flow.invoke(Command(resume=1), on()) == {"n": 1}
