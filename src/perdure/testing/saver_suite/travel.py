"""Time travel over a saver: edits, replays, forks; every old checkpoint stays as it was."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from perdure.constants import END, START
from perdure.errors import UnknownCheckpoint
from perdure.graph import StateGraph
from perdure.testing.saver_suite.colours import Suite
from perdure.testing.saver_suite.graphs import Coloured, Count, asking, counter, on, parallel
from perdure.types import Command


class TravelSuite(Suite):
    """Reading, editing and branching off what is stored."""

    def test_P18_every_checkpoint_of_a_thread_can_be_read(self, saver: Any, coloured: Coloured) -> None:
        graph = coloured(counter(4).compile(checkpointer=saver))
        graph.invoke({"count": 0, "log": []}, on())
        for each in [*graph.get_state_history(on())]:
            again = graph.get_state(each.config)
            assert (again.values, again.next, again.metadata, again.config) == (
                each.values,
                each.next,
                each.metadata,
                each.config,
            )

    def test_P3_a_checkpoint_that_does_not_exist_is_an_error(self, saver: Any, coloured: Coloured) -> None:
        graph = coloured(counter().compile(checkpointer=saver))
        graph.invoke({"count": 0, "log": []}, on())
        missing = {"configurable": {"thread_id": "t", "checkpoint_id": "1ef663ba-28fe-6528-8002-5a559208592c"}}
        uses: list[Callable[[], Any]] = [
            lambda: graph.get_state(missing),
            lambda: graph.invoke(None, missing),
            lambda: graph.update_state(missing, {"count": 1}),
        ]
        for use in uses:
            with pytest.raises(UnknownCheckpoint):
                use()

    def test_a_history_is_limited_filtered_and_begins_before_a_checkpoint(self, saver: Any, coloured: Coloured) -> None:
        graph = coloured(counter(20).compile(checkpointer=saver))
        graph.invoke({"count": 0, "log": []}, on())
        history = [*graph.get_state_history(on())]
        assert [each.metadata["step"] for each in history] == [*range(20, -2, -1)]
        assert [*graph.get_state_history(on(), limit=3)] == history[:3]
        assert [*graph.get_state_history(on(), before=history[4].config, limit=18)] == history[5:]
        assert [*graph.get_state_history(on(), filter={"step": 7})] == [history[13]]
        assert [*graph.get_state_history(history[2].config)] == [history[2]]

    def test_P18_an_older_checkpoint_is_replayed_on_a_branch_of_its_own(self, saver: Any, coloured: Coloured) -> None:
        runs: Counter[int] = Counter()

        def inc(state: Count) -> Any:
            runs[state["count"]] += 1
            return {"count": state["count"] + 1, "log": [state["count"]]}

        builder = StateGraph(Count)
        builder.add_node("inc", inc)
        builder.add_edge(START, "inc")
        builder.add_conditional_edges("inc", lambda state: "inc" if state["count"] < 4 else END)
        graph = coloured(builder.compile(checkpointer=saver))
        graph.invoke({"count": 0, "log": []}, on())
        before = [*graph.get_state_history(on())]
        old = next(each for each in before if each.values.get("count") == 2)
        assert graph.invoke(None, old.config) == {"count": 4, "log": [0, 1, 2, 3]}
        assert runs == {0: 1, 1: 1, 2: 2, 3: 2}, "what came before the checkpoint is not run again"
        after = [*graph.get_state_history(on())]
        assert after[-len(before) :] == before, "the old branch stays as it was"
        assert [each.metadata["source"] for each in after[: -len(before)]] == ["loop", "loop", "fork"]
        assert after[-len(before) - 1].parent_config == old.config
        assert graph.get_state(on()).config == after[0].config

    def test_P18_a_replay_of_the_input_starts_all_over(self, saver: Any, coloured: Coloured) -> None:
        graph = coloured(counter(2).compile(checkpointer=saver))
        graph.invoke({"count": 0, "log": ["in"]}, on())
        first = [*graph.get_state_history(on())][-1]
        assert graph.invoke(None, first.config) == {"count": 2, "log": ["in", 0, 1]}

    def test_an_edit_makes_a_checkpoint_and_reducers_apply(self, saver: Any, coloured: Coloured) -> None:
        graph = coloured(counter(3).compile(checkpointer=saver))
        graph.invoke({"count": 0, "log": []}, on())
        tip = graph.get_state(on())
        address = graph.update_state(on(), {"count": 1, "log": ["edit"]}, as_node="inc")
        snapshot = graph.get_state(on())
        assert snapshot.config["configurable"]["checkpoint_id"] == address["configurable"]["checkpoint_id"]
        assert snapshot.values == {"count": 1, "log": [0, 1, 2, "edit"]}
        assert (snapshot.next, snapshot.metadata["source"], snapshot.parent_config) == (("inc",), "update", tip.config)
        assert snapshot.metadata["writes"] == {"inc": {"count": 1, "log": ["edit"]}}
        assert graph.get_state(tip.config).values == tip.values
        assert graph.invoke(None, on())["log"] == [0, 1, 2, "edit", 1, 2]

    def test_an_edit_may_be_the_first_thing_on_a_thread(self, saver: Any, coloured: Coloured) -> None:
        graph = coloured(counter(2).compile(checkpointer=saver))
        graph.update_state(on(), {"count": 1, "log": ["edit"]}, as_node="inc")
        assert graph.get_state(on()).next == ("inc",)
        assert graph.invoke(None, on()) == {"count": 2, "log": ["edit", 1]}

    def test_P23_sibling_edits_of_one_base_see_only_the_base(self, saver: Any, coloured: Coloured) -> None:
        graph = coloured(counter(2).compile(checkpointer=saver))
        graph.invoke({"count": 0, "log": []}, on())
        base = graph.get_state(on())
        edits = [graph.update_state(base.config, {"log": [name]}, as_node="inc") for name in ("left", "right")]
        logs = [graph.get_state(address).values["log"] for address in edits]
        assert logs == [[0, 1, "left"], [0, 1, "right"]]
        assert [graph.get_state(address).parent_config for address in edits] == [base.config, base.config]

    def test_P22_an_edit_beside_a_pause_keeps_the_question(self, saver: Any, coloured: Coloured) -> None:
        runs: Counter[str] = Counter()

        def plain(state: Count) -> Any:
            runs["plain"] += 1
            return {"log": ["plain"]}

        graph = coloured(parallel({"a": asking("a"), "b": plain}).compile(checkpointer=saver))
        (pause,) = graph.invoke({"count": 0, "log": []}, on())["__interrupt__"]
        graph.update_state(on(), {"count": 41})
        snapshot = graph.get_state(on())
        assert (snapshot.next, snapshot.interrupts) == (("a",), (pause,))
        assert snapshot.values["count"] == 41
        assert graph.invoke(Command(resume={pause.id: "yes"}), on())["log"] == ["a=yes", "plain", "join"]
        assert runs == {"plain": 1}

    def test_P19_a_pause_answered_twice_gives_two_branches(self, saver: Any, coloured: Coloured) -> None:
        builder = StateGraph(Count)
        builder.add_node("ask", asking("ask"))
        builder.add_edge(START, "ask")
        graph = coloured(builder.compile(checkpointer=saver))
        graph.invoke({"count": 0, "log": []}, on())
        paused = graph.get_state(on())
        assert graph.invoke(Command(resume="one"), paused.config)["log"] == ["ask=one"]
        first = graph.get_state(on())
        assert graph.invoke(Command(resume="two"), paused.config)["log"] == ["ask=two"]
        assert graph.get_state(on()).values["log"] == ["ask=two"]
        assert graph.get_state(first.config).values["log"] == ["ask=one"]

    def test_several_edits_at_once_make_a_checkpoint_each(self, saver: Any, coloured: Coloured) -> None:
        graph = coloured(counter(9).compile(checkpointer=saver))
        steps = [[({"count": n, "log": [n]}, "inc")] for n in range(3)]
        graph.bulk_update_state(on(), steps)
        history = [*graph.get_state_history(on())]
        assert [each.values["log"] for each in history] == [[0, 1, 2], [0, 1], [0]]
        assert [each.parent_config for each in history] == [history[1].config, history[2].config, None]
