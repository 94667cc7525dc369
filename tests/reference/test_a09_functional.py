"""Worked example A.9: the functional API: two tasks, interrupt, entrypoint.final."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.checkpoint.saver import Saver
from perdure.func import entrypoint
from perdure.types import Command, StateSnapshot, interrupt
from tests.func.bodies import Workshop
from tests.promises.ways import COLOURS, on
from tests.reference.shapes import lines, plain, pull


@pytest.fixture(params=COLOURS)
def shop(request: pytest.FixtureRequest) -> Workshop:
    return Workshop(request.param)


def workflow(shop: Workshop, saver: Saver) -> Any:
    t = shop.noted("t")

    def wf(given: int, *, previous: Any = None) -> Any:
        results = yield [t(given), t(given + 1)]
        answer = interrupt("ok?")
        return entrypoint.final(value=(sum(results), previous, answer), save=5)

    return shop.flow(wf, saver)


def source_of(state: StateSnapshot) -> tuple[Any, Any]:
    metadata: Any = state.metadata
    return metadata["source"], metadata["step"]


def test_the_results_and_the_snapshots(shop: Workshop, saver: Saver) -> None:
    wf = workflow(shop, saver)
    out = shop.invoke(wf, 1, on())
    assert [pause.value for pause in out["__interrupt__"]] == ["ok?"]
    assert list(out) == ["__interrupt__"]
    state = shop.state(wf, on())
    assert (state.values, state.next, state.parent_config) == (None, ("wf",), None)
    assert source_of(state) == ("input", -1)
    (task,) = state.tasks
    assert (task.name, task.path, task.error, task.interrupts) == (
        "wf",
        ("__pregel_pull", "wf"),
        None,
        tuple(out["__interrupt__"]),
    )
    assert (task.result, task.state) == (None, None)

    assert shop.invoke(wf, Command(resume="yes"), on()) == (3, None, "yes")
    assert sorted(shop.ran) == [("t", 1), ("t", 2)], "stored steps do not run again"
    state = shop.state(wf, on())
    assert (state.values, state.next, state.tasks) == ((3, None, "yes"), (), ())
    assert source_of(state) == ("loop", 0)
    stored = saver.get_tuple(on())
    assert stored is not None
    assert stored.checkpoint["channel_values"] == {"__end__": (3, None, "yes"), "__previous__": 5}
    assert lines(shop.history(wf, on())) == [
        (0, "loop", (3, None, "yes"), (), 1, 0, []),
        (-1, "input", None, ("wf",), 0, None, ["ok?"]),
        pull("wf", (3, None, "yes"), "ok?"),
    ]
    assert shop.invoke(wf, None, on()) == (3, None, "yes"), "there is nothing to go on with"


def test_the_streams(shop: Workshop, saver: Saver) -> None:
    wf = workflow(shop, saver)
    modes = ["updates", "values", "tasks"]
    told = plain(shop.stream(wf, 1, on(), stream_mode=modes))
    assert told[0] == ("tasks", {"id": "<0>", "name": "wf", "input": 1, "triggers": ("__start__",)})
    assert told[1] == ("tasks", {"id": "<1>", "name": "t", "input": ((1,), {}), "triggers": ("__pregel_push",)})
    steps = told[1:-3]
    assert [payload for mode, payload in steps if mode == "updates"] in ([{"t": 1}, {"t": 2}], [{"t": 2}, {"t": 1}])
    ends = [payload for mode, payload in steps if mode == "tasks" and "result" in payload]
    assert sorted((end["name"], end["error"], end["result"]["__return__"], end["interrupts"]) for end in ends) == [
        ("t", None, 1, []),
        ("t", None, 2, []),
    ]
    assert len(steps) == 6
    assert [(mode, list(payload)) for mode, payload in told[-3:-1]] == [
        ("updates", ["__interrupt__"]),
        ("values", ["__interrupt__"]),
    ]
    mode, end = told[-1]
    assert (mode, end["id"], end["name"], end["error"], end["result"]) == ("tasks", "<0>", "wf", None, {})
    assert [pause["value"] for pause in end["interrupts"]] == ["ok?"]

    told = plain(shop.stream(wf, Command(resume="yes"), on(), stream_mode=modes))
    assert told == [
        ("values", None),
        ("tasks", {"id": "<0>", "name": "wf", "input": 1, "triggers": ("__start__",)}),
        ("updates", {"wf": (3, None, "yes")}),
        ("tasks", {"id": "<0>", "name": "wf", "error": None, "result": {"__end__": (3, None, "yes")}, "interrupts": []}),
        ("values", (3, None, "yes")),
    ]


def test_the_checkpoints(shop: Workshop, saver: Saver) -> None:
    wf = workflow(shop, saver)
    shown = [(one["values"], one["next"], len(one["tasks"])) for one in shop.stream(wf, 1, on(), stream_mode="checkpoints")]
    assert shown == [(None, ["wf"], 1)]
    told = shop.stream(wf, Command(resume="yes"), on(), stream_mode="checkpoints")
    assert [(one["values"], one["next"]) for one in told] == [(None, ["wf"]), ((3, None, "yes"), [])]
    assert [pause["value"] for pause in told[0]["tasks"][0]["interrupts"]] == ["ok?"]
