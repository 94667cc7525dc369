"""How often a call goes to the database, which is what its users wait for (P2, P27)."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.constants import START
from perdure.graph import StateGraph
from perdure.testing.counting import RoundTrips
from perdure.testing.saver_suite.colours import Coloured as ColouredSaver
from perdure.testing.saver_suite.colours import Portal, Suite
from perdure.testing.saver_suite.graphs import Coloured, Count, asking, counter, on, parallel
from perdure.testing.saver_suite.public import A, config_of, history, put
from perdure.testing.wrapping import with_records
from perdure.types import Command, Send

LONG = 150
"""Super-steps of a long thread: more than two full rows apart."""


class RoundTripSuite(Suite):
    """Counts the calls that reach the record store."""

    @pytest.fixture
    def trips(self) -> RoundTrips:
        """What was counted."""
        return RoundTrips()

    @pytest.fixture
    def counted(self, saver: Any, trips: RoundTrips) -> Any:
        """The saver, counted."""
        return with_records(saver, trips.records)

    # -- running ------------------------------------------------------------------------------------------------------------------

    @pytest.mark.parametrize("durability", ["sync", "async"])
    def test_P2_a_super_step_is_one_commit_and_input_and_step_0_share_one(
        self, counted: Any, trips: RoundTrips, coloured: Coloured, durability: Any
    ) -> None:
        graph = coloured(counter(7).compile(checkpointer=counted))
        graph.invoke({"count": 0, "log": []}, on(), durability=durability)
        assert trips.calls == {"load": 1, "commit": 8}
        assert [len(commit.checkpoints) for commit in trips.commits] == [2, *[1] * 7]
        assert [[row.source for row in commit.checkpoints] for commit in trips.commits[:2]] == [["input", "loop"], ["loop"]]
        assert [len(commit.writes) for commit in trips.commits] == [0, *[1] * 7], "a result goes with the checkpoint it makes"
        assert [commit.lease for commit in trips.commits] == ["take", *["keep"] * 6, "release"], "a lease costs no round trip"

    def test_P2_a_later_turn_costs_no_more_than_the_first(self, counted: Any, trips: RoundTrips, coloured: Coloured) -> None:
        graph = coloured(counter(3).compile(checkpointer=counted))
        for _ in range(3):
            trips.reset()
            graph.invoke({"count": 0, "log": []}, on())
            assert trips.calls == {"load": 1, "commit": 4}

    def test_durability_exit_is_two_commits(self, counted: Any, trips: RoundTrips, coloured: Coloured) -> None:
        graph = coloured(counter(7).compile(checkpointer=counted))
        graph.invoke({"count": 0, "log": []}, on(), durability="exit")
        assert trips.calls == {"load": 1, "commit": 2}
        assert [len(commit.checkpoints) for commit in trips.commits] == [0, 1]

    def test_P2_results_that_arrive_together_share_a_commit(self, counted: Any, trips: RoundTrips, coloured: Coloured) -> None:
        builder = StateGraph(Count)
        builder.add_node("work", lambda item: {"log": [item["n"]]})
        builder.add_conditional_edges(START, lambda state: [Send("work", {"n": n}) for n in range(100)])
        graph = coloured(builder.compile(checkpointer=counted))
        graph.invoke({"count": 0, "log": []}, on())
        assert 2 <= trips.calls["commit"] <= 101
        assert sum(len(commit.writes) for commit in trips.commits) == 100
        assert len(trips.commits[-1].checkpoints) == 1
        assert trips.commits[-1].writes, "the last results go with the checkpoint"

    def test_a_pause_and_its_answer(self, counted: Any, trips: RoundTrips, coloured: Coloured) -> None:
        builder = StateGraph(Count)
        builder.add_node("ask", asking("ask"))
        builder.add_edge(START, "ask")
        graph = coloured(builder.compile(checkpointer=counted))
        graph.invoke({"count": 0, "log": []}, on())
        assert trips.calls == {"load": 1, "commit": 2}
        trips.reset()
        graph.invoke(Command(resume="yes"), on())
        assert trips.calls == {"load": 1, "commit": 2}

    def test_an_edit_is_one_commit(self, counted: Any, trips: RoundTrips, coloured: Coloured) -> None:
        graph = coloured(counter(3).compile(checkpointer=counted))
        graph.invoke({"count": 0, "log": []}, on())
        trips.reset()
        graph.update_state(on(), {"count": 5}, as_node="inc")
        assert trips.calls == {"load": 1, "commit": 1}
        trips.reset()
        graph.bulk_update_state(on(), [[({"count": n}, "inc")] for n in range(20)])
        assert trips.calls == {"load": 1, "commit": 1}

    # -- reading ------------------------------------------------------------------------------------------------------------------

    def test_P27_any_state_takes_at_most_three_round_trips_whatever_the_length(
        self, counted: Any, trips: RoundTrips, coloured: Coloured
    ) -> None:
        graph = coloured(counter(LONG).compile(checkpointer=counted))
        graph.invoke({"count": 0, "log": []}, on())
        states = [*graph.get_state_history(on())]
        for state in (states[0], states[1], states[LONG // 2], states[-2], states[-1]):
            trips.reset()
            assert graph.get_state(state.config).values == state.values
            assert 1 <= trips.total <= 3
        trips.reset()
        assert graph.get_state(on()).values == states[0].values
        assert 1 <= trips.total <= 3

    def test_P27_a_history_yields_its_first_item_before_it_reads_the_rest(
        self, counted: Any, trips: RoundTrips, coloured: Coloured
    ) -> None:
        graph = coloured(counter(LONG).compile(checkpointer=counted))
        graph.invoke({"count": 0, "log": []}, on())
        trips.reset()
        found = graph.get_state_history(on())
        assert next(found).metadata["step"] == LONG
        assert 1 <= trips.total <= 3
        assert trips.read <= 3
        assert sum(1 for _ in found) == LONG + 1
        assert trips.read == LONG + 2
        assert trips.total <= LONG / 8

    def test_P27_a_page_of_a_history_takes_at_most_three_round_trips(
        self, counted: Any, trips: RoundTrips, coloured: Coloured
    ) -> None:
        graph = coloured(counter(LONG).compile(checkpointer=counted))
        graph.invoke({"count": 0, "log": []}, on())
        middle = [*graph.get_state_history(on(), limit=LONG // 2)][-1]
        trips.reset()
        assert len([*graph.get_state_history(on(), limit=10)]) == 10
        assert trips.total <= 3
        trips.reset()
        assert len([*graph.get_state_history(on(), before=middle.config, limit=10)]) == 10
        assert trips.total <= 3

    def test_P27_each_nesting_level_adds_one_round_trip(self, counted: Any, trips: RoundTrips, coloured: Coloured) -> None:
        inner: StateGraph[Any] = StateGraph(Count)
        inner.add_node("ask", asking("ask"))
        inner.add_edge(START, "ask")
        graph: StateGraph[Any] = inner
        for _ in range(3):
            outer: StateGraph[Any] = StateGraph(Count)
            outer.add_node("child", graph.compile())
            outer.add_edge(START, "child")
            graph = outer
        compiled = coloured(graph.compile(checkpointer=counted))
        compiled.invoke({"count": 0, "log": []}, on())
        trips.reset()
        assert compiled.get_state(on()).next == ("child",)
        assert trips.total <= 3
        trips.reset()
        state: Any = compiled.get_state(on(), subgraphs=True)
        assert trips.total <= 3 + 3
        for _ in range(3):
            state = state.tasks[0].state
        assert state.next == ("ask",)

    def test_P27_subgraphs_side_by_side_are_read_together(self, counted: Any, trips: RoundTrips, coloured: Coloured) -> None:
        def level(nodes: dict[str, Any]) -> StateGraph[Any]:
            builder: StateGraph[Any] = StateGraph(Count)
            for name, node in nodes.items():
                builder.add_node(name, node)
                builder.add_edge(START, name)
            return builder

        inner = level({name: asking(name) for name in ("x", "y")})
        middle = level({name: inner.compile() for name in ("c", "d", "e")})
        graph = coloured(level({name: middle.compile() for name in ("a", "b")}).compile(checkpointer=counted))
        graph.invoke({"count": 0, "log": []}, on())
        trips.reset()
        state: Any = graph.get_state(on(), subgraphs=True)
        assert trips.total <= 3 + 2
        assert len(state.interrupts) == 12
        assert [[inside.state.next for inside in task.state.tasks] for task in state.tasks] == [[("x", "y")] * 3] * 2
        trips.reset()
        namespace = state.tasks[0].state.tasks[0].state.config["configurable"]["checkpoint_ns"]
        assert graph.get_state({"configurable": {"thread_id": "t", "checkpoint_ns": namespace}}).next == ("x", "y")
        assert trips.total <= 3 + 2

    def test_P27_what_several_tasks_left_is_read_together(self, counted: Any, trips: RoundTrips, coloured: Coloured) -> None:
        names = [f"n{n}" for n in range(20)]
        nodes: dict[str, Any] = {name: asking(name) for name in names}
        graph = coloured(parallel(nodes).compile(checkpointer=counted))
        graph.invoke({"count": 0, "log": []}, on())
        trips.reset()
        assert len(graph.get_state(on()).interrupts) == 20
        assert trips.total <= 3

    # -- the public methods ---------------------------------------------------------------------------------------------------------

    def test_the_four_methods_load_once_and_commit_once(self, counted: Any, trips: RoundTrips, portal: Portal | None) -> None:
        calls = ColouredSaver(counted, portal)
        address = history(calls, 3)[-1]
        trips.reset()
        put(calls, 3, config=address)
        assert trips.calls == {"load": 1, "commit": 1}
        trips.reset()
        calls.put_writes(address, [(f"c{n}", n) for n in range(30)], A)
        assert trips.calls == {"load": 1, "commit": 1}
        trips.reset()
        assert calls.get_tuple(address) is not None
        assert trips.calls == {"load": 1}

    def test_P27_a_list_reads_pages_as_they_are_needed(self, counted: Any, trips: RoundTrips, portal: Portal | None) -> None:
        calls = ColouredSaver(counted, portal)
        history(calls, 70)
        trips.reset()
        found = calls.list(config_of())
        next(found)
        assert trips.total == 1
        assert trips.read < 70
        assert sum(1 for _ in found) == 69
        assert trips.total <= 5
