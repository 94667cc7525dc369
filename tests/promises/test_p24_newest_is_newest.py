"""P24: an id is later than every id of its thread, even if the clock steps back or a thousand fall in one tick."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from perdure.checkpoint.saver import Saver
from perdure.graph import END, START, StateGraph
from perdure.types import Command, StateUpdate, interrupt
from tests.promises.ways import FrozenClock, Ledger, Log, Way, chain, foreign_checkpoint, on, open_saver, rows_of

HOUR = 3_600 * 10**9


@pytest.fixture
def clock() -> FrozenClock:
    return FrozenClock()


@pytest.fixture(params=["memory", "sqlite"])
def saver(request: pytest.FixtureRequest, tmp_path: Path, clock: FrozenClock) -> Iterator[Saver]:
    with open_saver(request.param, tmp_path, clock=clock) as made:
        yield made


def ids(saver: Saver, thread: str = "t") -> list[str]:
    """Of all namespaces, in the order in which the checkpoints were made."""
    return [row["id"] for row in rows_of(saver, thread)["checkpoints"].values()]


def check_rising(found: list[str]) -> None:
    assert found
    assert all(before < after for before, after in pairwise(found)), found


def loop(way: Way) -> StateGraph[Any, Any, Any, Any]:
    builder: StateGraph[Any, Any, Any, Any] = StateGraph(int)
    builder.add_node("step", way.node(lambda n: n + 1))
    builder.add_edge(START, "step")
    builder.add_conditional_edges("step", lambda n: "step" if n % 1_000 else END, ["step", END])
    return builder


def test_P24_a_thousand_in_one_tick(saver: Saver, way: Way):
    graph = loop(way).compile(checkpointer=saver)
    assert way.invoke(graph, 0, on(), durability="async") == 1_000
    found = ids(saver)
    assert len(found) == 1_002
    check_rising(found)
    assert way.state(graph, on()).values == 1_000
    assert [snapshot.values for snapshot in way.history(graph, on(), limit=3)] == [1_000, 999, 998]


def test_P24_the_clock_steps_back_within_a_run(saver: Saver, way: Way, clock: FrozenClock):
    def back() -> None:
        clock.ns -= HOUR

    graph = chain(*((name, Ledger(way).node(name, back)) for name in "abcd")).compile(checkpointer=saver)
    way.invoke(graph, {"log": []}, on())
    check_rising(ids(saver))
    assert way.state(graph, on()).values == {"log": list("abcd")}


def test_P24_the_clock_steps_back_between_runs_edits_forks_and_puts(saver: Saver, way: Way, clock: FrozenClock):
    graph = chain(("a", Ledger(way).node("a", lambda: interrupt("?")))).compile(checkpointer=saver)
    for turn in range(3):
        way.invoke(graph, {"log": [str(turn)]}, on())
        clock.ns -= HOUR
        way.invoke(graph, Command(resume="x"), on())
        clock.ns -= HOUR
        edited = way.edit(graph, on(), {"log": ["edit"]}, as_node="a")
        assert way.state(graph, on()).config == edited, "what was made last is the newest"
        clock.ns -= HOUR
        old = next(snapshot for snapshot in way.history(graph, on()) if snapshot.next == ("a",))
        way.invoke(graph, None, old.config)
        clock.ns -= HOUR
    graph.bulk_update_state(on(), [[StateUpdate({"log": [str(n)]}, "a")] for n in range(50)])
    check_rising(ids(saver))
    newest = way.history(graph, on(), limit=1)[0]
    assert newest.config == way.state(graph, on()).config
    assert newest.config["configurable"]["checkpoint_id"] == ids(saver)[-1]


def test_P24_across_namespaces(saver: Saver, way: Way, clock: FrozenClock):
    def back() -> None:
        clock.ns -= HOUR

    child = chain(*((name, Ledger(way).node(name, back)) for name in "xyz")).compile()
    graph = chain(("before", Ledger(way).node("before", back)), ("child", child), ("after", Ledger(way).node("after", back)))
    way.invoke(graph.compile(checkpointer=saver), {"log": []}, on())
    rows = rows_of(saver)
    assert len({row["ns"] for row in rows["checkpoints"].values()}) == 2
    check_rising(ids(saver))


def test_P24_a_checkpoint_from_the_future_is_followed_by_later_ones(saver: Saver, way: Way):
    # Put by somebody whose clock runs ahead (today's, while this saver's stands in 2023).
    graph = chain(("a", Ledger(way).node("a"))).compile(checkpointer=saver)
    put = way.put(saver, on(checkpoint_ns=""), foreign_checkpoint({"log": ["x"]}), {"source": "input", "step": -1}, {"log": 1})
    assert way.invoke(graph, {"log": ["y"]}, on()) == {"log": ["x", "y", "a"]}
    assert ids(saver)[0] == put["configurable"]["checkpoint_id"]
    check_rising(ids(saver))


def test_P24_another_process_with_a_slow_clock(tmp_path: Path, way: Way):
    node = Ledger(way).node("a")
    for behind in range(4):
        with open_saver("sqlite", tmp_path, clock=FrozenClock(start_ns=1_700_000_000 * 10**9 - behind * HOUR)) as saver:
            graph = chain(("a", node)).compile(checkpointer=saver)
            way.invoke(graph, {"log": [str(behind)]}, on())
            check_rising(ids(saver))
            assert way.state(graph, on()).values["log"][-2:] == [str(behind), "a"]


def test_P24_created_at_is_the_clocks_time(saver: Saver, way: Way):
    graph = chain(("a", Ledger(way).node("a"))).compile(checkpointer=saver)
    way.invoke(graph, {"log": []}, on())
    created = [snapshot.created_at for snapshot in way.history(graph, on())]
    assert created[-1] == "2023-11-14T22:13:20.000000+00:00"
    assert all(text is not None and text.startswith("2023-11-14T22:13:20") for text in created)


def test_P24_ids_have_the_shape_of_uuid_6(saver: Saver, way: Way):
    import uuid

    graph = chain(("a", Ledger(way).node("a"))).compile(checkpointer=saver)
    way.invoke(graph, {"log": []}, on())
    assert {uuid.UUID(text).version for text in ids(saver)} == {6}


def test_P24_parallel_threads_of_one_saver_are_each_in_order(saver: Saver, way: Way):
    from concurrent.futures import ThreadPoolExecutor

    builder: StateGraph[Any, Any, Any, Any] = StateGraph(Log)
    for name in "abc":
        builder.add_node(name, Ledger(Way("sync")).node(name))
        builder.add_edge(START, name)
    graph = builder.compile(checkpointer=saver)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda n: way.invoke(graph, {"log": []}, on(f"t{n}")), range(8)))
    for n in range(8):
        check_rising(ids(saver, f"t{n}"))
