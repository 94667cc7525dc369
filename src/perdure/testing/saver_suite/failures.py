"""Saves that fail: no failed save is reported as success, and what was stored before stays good (P4)."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Annotated, Any, TypedDict

import pytest

from perdure.constants import END, START
from perdure.errors import SaveFailed
from perdure.graph import StateGraph
from perdure.testing.faults import DatabaseDown, FailingRecords, with_records
from perdure.testing.saver_suite.colours import Suite
from perdure.testing.saver_suite.graphs import Coloured, on
from perdure.types import Command, interrupt


class Log(TypedDict):
    """What has run."""

    log: Annotated[list[Any], operator.add]


def steps(ran: list[int], count: int = 5) -> StateGraph[Any]:
    """A loop of some super-steps that tells which have run."""

    def step(state: Log) -> Any:
        ran.append(len(state["log"]))
        return {"log": [len(state["log"])]}

    graph = StateGraph(Log)
    graph.add_node("step", step)
    graph.add_edge(START, "step")
    graph.add_conditional_edges("step", lambda state: "step" if len(state["log"]) < count else END)
    return graph


def failing(saver: Any, fail_on: Any, **options: Any) -> Any:
    """The saver with commits that fail."""
    return with_records(saver, lambda records: FailingRecords(records, fail_on=fail_on, **options))


class FailureSuite(Suite):
    """Commits fail under a running graph."""

    @pytest.mark.parametrize("at", [2, 3, 5])
    def test_P4_sync_no_later_node_runs_after_a_failed_save(self, saver: Any, coloured: Coloured, at: int) -> None:
        ran: list[int] = []
        graph = coloured(steps(ran).compile(checkpointer=failing(saver, {at})))
        with pytest.raises(SaveFailed, match="the database is down") as caught:
            graph.invoke({"log": []}, on())
        assert isinstance(caught.value.__cause__, DatabaseDown)
        assert ran == [*range(at - 1)], "commit 1 is the input, and commit k the result of node k - 1"
        again: list[int] = []
        healed = coloured(steps(again).compile(checkpointer=saver))
        assert healed.get_state(on()).values["log"] == [*range(at - 2)]
        assert healed.invoke(None, on())["log"] == [0, 1, 2, 3, 4]
        assert again == [*range(at - 2, 5)]

    def test_P3_an_input_that_could_not_be_saved_runs_nothing(self, saver: Any, coloured: Coloured) -> None:
        ran: list[int] = []
        graph = coloured(steps(ran).compile(checkpointer=failing(saver, {1})))
        with pytest.raises(SaveFailed):
            graph.invoke({"log": []}, on())
        assert ran == []
        assert graph.get_state(on()).values == {}
        assert graph.invoke({"log": []}, on())["log"] == [0, 1, 2, 3, 4]

    def test_P4_async_at_most_one_super_step_runs_past_the_last_durable_one(self, saver: Any, coloured: Coloured) -> None:
        ran: list[int] = []
        graph = coloured(steps(ran).compile(checkpointer=failing(saver, {3})))
        told: list[Any] = []

        def listen() -> None:
            for update in graph.stream({"log": []}, on(), durability="async"):
                told.append(update["step"]["log"][0])  # noqa: PERF401 - what came before the failure is kept

        with pytest.raises(SaveFailed):
            listen()
        assert ran in ([0, 1], [0, 1, 2])
        assert told in ([0], [0, 1])
        healed = coloured(steps([]).compile(checkpointer=saver))
        assert healed.get_state(on()).values["log"] == [0]
        assert healed.invoke(None, on())["log"] == [0, 1, 2, 3, 4]

    def test_P4_exit_a_failed_save_is_raised_at_the_end(self, saver: Any, coloured: Coloured) -> None:
        ran: list[int] = []
        graph = coloured(steps(ran).compile(checkpointer=failing(saver, lambda commit: bool(commit.checkpoints))))
        with pytest.raises(SaveFailed):
            graph.invoke({"log": []}, on(), durability="exit")
        assert ran == [0, 1, 2, 3, 4]
        healed = coloured(steps([]).compile(checkpointer=saver))
        assert healed.get_state(on()).values == {}
        assert healed.invoke({"log": []}, on())["log"] == [0, 1, 2, 3, 4]

    def test_P4_a_pause_that_could_not_be_saved_is_no_pause(self, saver: Any, coloured: Coloured) -> None:
        builder = StateGraph(Log)
        builder.add_node("ask", lambda state: {"log": [interrupt("q")]})
        builder.add_edge(START, "ask")
        graph = coloured(builder.compile(checkpointer=failing(saver, {2})))
        with pytest.raises(SaveFailed):
            graph.invoke({"log": []}, on())
        healed = coloured(builder.compile(checkpointer=saver))
        assert healed.get_state(on()).interrupts == ()
        assert "__interrupt__" in healed.invoke(None, on())
        assert healed.invoke(Command(resume="yes"), on())["log"] == ["yes"]

    def test_P2_a_save_whose_answer_was_lost_is_not_computed_again(self, saver: Any, coloured: Coloured) -> None:
        ran: list[int] = []
        graph = coloured(steps(ran).compile(checkpointer=failing(saver, {3}, stored=True)))
        with pytest.raises(SaveFailed):
            graph.invoke({"log": []}, on())
        assert ran == [0, 1]
        healed = coloured(steps(ran).compile(checkpointer=saver))
        assert healed.get_state(on()).values["log"] == [0, 1], "it was stored, after all"
        assert healed.invoke(None, on())["log"] == [0, 1, 2, 3, 4]
        assert ran == [0, 1, 2, 3, 4]

    def test_P8_a_failed_run_does_not_hold_its_thread(self, saver: Any, coloured: Coloured) -> None:
        graph = coloured(steps([]).compile(checkpointer=failing(saver, {3})))
        with pytest.raises(SaveFailed):
            graph.invoke({"log": []}, on())
        assert saver.blocking() is not None
        assert graph.invoke(None, on())["log"] == [0, 1, 2, 3, 4]

    def test_P4_a_prune_that_could_not_be_saved_says_so_and_took_nothing(self, saver: Any, coloured: Coloured) -> None:
        graph = coloured(steps([]).compile(checkpointer=saver))
        graph.invoke({"log": []}, on())
        before = [*graph.get_state_history(on())]
        calls: tuple[Callable[[Any], Any], ...] = (
            lambda broken: broken.prune(keep_last=1),
            lambda broken: broken.prune(keep_last=1, batch=1),
            lambda broken: broken.pin(before[3].config, "kept"),
        )
        for call in calls:
            with pytest.raises(SaveFailed, match="the database is down") as caught:
                call(failing(saver, {1}))
            assert isinstance(caught.value.__cause__, DatabaseDown)
            assert [*graph.get_state_history(on())] == before
        assert saver.prune(keep_last=1).checkpoints == len(before) - 1

    def test_P1_an_edit_that_could_not_be_saved_changed_nothing(self, saver: Any, coloured: Coloured) -> None:
        graph = coloured(steps([]).compile(checkpointer=saver))
        graph.invoke({"log": []}, on())
        before = [*graph.get_state_history(on())]
        broken: Callable[..., Any] = coloured(steps([]).compile(checkpointer=failing(saver, {1}))).update_state
        with pytest.raises(SaveFailed):
            broken(on(), {"log": ["edit"]}, as_node="step")
        assert [*graph.get_state_history(on())] == before
