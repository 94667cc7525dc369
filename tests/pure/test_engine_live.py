"""Applying results to the live state, and what runs next."""

from __future__ import annotations

import operator
from typing import Annotated, Any, NamedTuple

import pytest
from typing_extensions import TypedDict

from perdure.channels import EphemeralValue
from perdure.constants import START, TASKS
from perdure.engine.deciding import frontier
from perdure.engine.deciding.live import Live
from perdure.engine.program import Node, Program
from perdure.errors import InvalidUpdateError
from perdure.graph import StateGraph
from perdure.types import Overwrite, Send


class State(TypedDict):
    log: Annotated[list[int], operator.add]
    n: int
    once: Annotated[int, EphemeralValue]


class Done(NamedTuple):
    node: Node
    writes: Any


def drawn() -> Program:
    graph = StateGraph(State)
    for name in ("a", "b", "c", "last"):
        graph.add_node(name, lambda _: None, defer=name == "last")
    graph.add_edge(START, "a").add_edge("a", "b").add_edge("a", "last").add_edge(["a", "b"], "c")
    return graph.compile().program


def done(program: Program, **writes: Any) -> Any:
    return [Done(program.nodes[name], list(each)) for name, each in writes.items()]


def test_a_new_state_has_the_values_that_channels_start_with() -> None:
    live = Live(drawn())
    assert (live.view, live.step, live.is_over) == ({"log": []}, -2, True)


def test_a_stored_state_has_its_values() -> None:
    live = Live(drawn(), {"log": [1], "n": 2})
    assert live.view == {"log": [1], "n": 2}


def test_writes_are_combined_in_the_order_of_the_tasks() -> None:
    program = drawn()
    live = Live(program)
    assert live.advance(done(program, a=[("log", [1]), ("n", 5)], b=[("log", [2])]), 7) == ["log", "n"]
    assert live.view == {"log": [1, 2], "n": 5}


def test_keys_are_seen_in_the_order_of_the_schema() -> None:
    program = drawn()
    live = Live(program)
    live.advance(done(program, a=[("once", 1), ("n", 5), ("log", [1])]), 1)
    assert list(live.view) == ["log", "n", "once"]


def test_two_writes_to_a_plain_key_are_refused_and_name_it() -> None:
    program = drawn()
    live = Live(program)
    with pytest.raises(InvalidUpdateError, match="'n'"):
        live.advance(done(program, a=[("n", 1)], b=[("n", 2)]), 1)


def test_an_ephemeral_value_lasts_one_step_and_its_end_is_a_change() -> None:
    program = drawn()
    live = Live(program)
    live.advance(done(program, a=[("once", 1)]), 1)
    assert live.view["once"] == 1
    assert live.advance(done(program, b=[]), 2) == ["once"]
    assert "once" not in live.view
    assert live.advance(done(program, b=[]), 3) == []


def test_an_edit_is_no_step_so_that_an_ephemeral_value_stays() -> None:
    live = Live(drawn())
    live.write({"once": [1]})
    live.write({"n": [1]}, step=False)
    assert live.view["once"] == 1


def test_edges_fire_with_the_number_of_the_checkpoint() -> None:
    program = drawn()
    live = Live(program)
    live.advance(done(program, a=[]), 7)
    assert live.fired == {"b": (7, ("branch:to:b",))}
    assert live.deferred == {"last": (7, ("branch:to:last",))}
    assert live.joins == {"join:a+b:c": frozenset({"a"})}
    assert live.ran == ("a",)


def test_a_join_fires_when_all_have_come_and_starts_over() -> None:
    program = drawn()
    live = Live(program)
    live.advance(done(program, a=[]), 1)
    live.advance(done(program, b=[]), 2)
    assert live.fired == {"c": (2, ("join:a+b:c",))}
    assert live.joins == {}
    live.advance(done(program, b=[]), 3)
    assert live.joins == {"join:a+b:c": frozenset({"b"})}


def test_both_sources_in_one_step_fire_the_join_at_once() -> None:
    program = drawn()
    live = Live(program)
    live.advance(done(program, a=[], b=[]), 1)
    assert live.fired["c"] == (1, ("join:a+b:c",))


def test_deferred_nodes_come_when_nothing_else_is_left_and_keep_their_origin() -> None:
    program = drawn()
    live = Live(program)
    live.advance(done(program, a=[]), 1)
    live.advance(done(program, b=[]), 2)
    assert "last" in live.deferred
    live.advance(done(program, c=[]), 3)
    assert live.fired == {"last": (1, ("branch:to:last",))}
    assert live.deferred == {}
    live.advance(done(program, last=[]), 4)
    assert live.is_over


def test_sends_go_before_deferred_nodes() -> None:
    program = drawn()
    live = Live(program)
    live.advance(done(program, a=[], c=[]), 1)
    live.advance(done(program, b=[(TASKS, Send("c", 1)), (TASKS, Send("b", 2))]), 2)
    live.fired.clear()
    assert live.sends == [Send("c", 1), Send("b", 2)]
    assert live.open_sends == {0: 2, 1: 2}
    assert "last" in live.deferred


def test_a_goto_and_an_edge_to_one_node_trigger_it_once() -> None:
    program = drawn()
    live = Live(program)
    live.advance(done(program, a=[("branch:to:b", None)]), 1)
    assert live.fired == {"b": (1, ("branch:to:b",))}


def test_new_input_drops_what_was_to_run_but_not_who_has_arrived() -> None:
    program = drawn()
    live = Live(program)
    live.advance(done(program, a=[(TASKS, Send("c", 1))]), 1)
    live.drop_open()
    assert live.is_over
    assert (live.fired, live.deferred, live.open_sends) == ({}, {}, {})
    assert live.joins == {"join:a+b:c": frozenset({"a"})}


def test_a_preview_changes_nothing() -> None:
    program = drawn()
    live = Live(program, {"log": [1]})
    assert live.preview([("log", [2]), ("n", 3), ("branch:to:b", None)]) == {"log": [1, 2], "n": 3}
    assert live.view == {"log": [1]}
    assert live.channels["log"].get() == [1]
    assert live.preview([("log", Overwrite([9]))]) == {"log": [9]}
    with pytest.raises(InvalidUpdateError):
        live.preview([("n", 1), ("n", 2)])


def test_a_preview_is_safe_from_reducers_that_change_their_left_side() -> None:
    def extend(left: list[int], right: list[int]) -> list[int]:
        left.extend(right)
        return left

    class InPlace(TypedDict):
        log: Annotated[list[int], extend]

    program = StateGraph(InPlace).add_node("a", lambda _: None).add_edge(START, "a").compile().program
    live = Live(program, {"log": [1]})
    assert live.preview([("log", [2])]) == {"log": [1, 2]}
    assert live.view == {"log": [1]}


# -- the frontier in records ----------------------------------------------------------------------------------------------


def test_runs_of_sends_are_one_record() -> None:
    assert [pending.path for pending in frontier.ranges((index, 5, "") for index in range(10_000))] == ["#0-9999"]
    assert [pending.path for pending in frontier.ranges([(0, 5, ""), (1, 5, ""), (3, 5, ""), (4, 6, ""), (5, 6, "")])] == [
        "#0-1",
        "#3",
        "#4-5",
    ]
    assert frontier.ranges([]) == []


def test_runs_of_sends_to_different_nodes_are_told_apart_by_their_names() -> None:
    found = frontier.ranges([(0, 5, "x"), (1, 5, "x"), (2, 5, "y")])
    assert [(pending.path, pending.triggers) for pending in found] == [("#0-1", ("x",)), ("#2", ("y",))]


def test_the_positions_of_a_record() -> None:
    assert list(frontier.indexes("#3")) == [3]
    assert list(frontier.indexes("#3-5")) == [3, 4, 5]


def test_a_frontier_has_sends_first_then_nodes_by_name() -> None:
    program = drawn()
    live = Live(program)
    live.fired = {"c": (0, ("x",)), "b": (4, ("y",))}
    live.sends = [Send("a", 1)] * 3
    live.open_sends = {0: 3, 2: 0}
    found = frontier.of_live(live, 9)
    assert [(each.path, each.origin) for each in found] == [("#0", 3), ("#2", 9), ("b", 4), ("c", 9)]
    live.sends, live.open_sends = (), {}
    assert [each.path for each in frontier.of_live(live, 9)] == ["b", "c"]
    live.fired = {}
    assert frontier.of_live(live, 9) == ()


def test_what_is_kept_of_a_list_counts_from_the_last_checkpoint_on() -> None:
    live = Live(drawn())
    live.write({"log": [[1, 2]]})
    live.write({"log": [[3]]})
    live.kept.clear()  # a checkpoint
    live.write({"log": [[4]]})
    live.write({"log": [[5], [6]]})
    assert (live.view["log"], live.kept) == ([1, 2, 3, 4, 5, 6], {"log": 3})
    live.write({"log": [Overwrite([1, 2, 3, 9])]})
    live.write({"log": [[7]]})
    assert (live.view["log"], live.kept) == ([1, 2, 3, 9, 7], {"log": 0})


def test_nothing_is_kept_of_a_list_that_was_changed_in_place() -> None:
    live = Live(drawn())
    live.write({"log": [[1, 2]]})
    live.kept.clear()
    live.view["log"][0] = 9
    live.write({"log": [[3]]})
    assert (live.view["log"], live.kept) == ([1, 2, 3], {"log": 0})
