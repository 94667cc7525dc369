"""Laws of the engine, on random graphs: one result whatever the colour and the saver, and records that say what was."""

from __future__ import annotations

import asyncio
import operator
from typing import Annotated, Any, NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st
from typing_extensions import TypedDict

from perdure.bridge import run_blocking
from perdure.checkpoint.memory import InMemorySaver
from perdure.checkpoint.records import ROOT_NS
from perdure.constants import START
from perdure.engine.deciding import frontier
from perdure.engine.deciding.live import Live
from perdure.engine.storing.restore import Restored
from perdure.graph import StateGraph
from perdure.types import Command, Send

NAMES = "abcdef"
STEPS = 8
CONFIG: dict[str, Any] = {"configurable": {"thread_id": "t"}, "recursion_limit": STEPS}


class State(TypedDict, total=False):
    log: Annotated[list[str], operator.add]
    turns: Annotated[dict[str, int], lambda left, right: {**left, **{k: left.get(k, 0) + v for k, v in right.items()}}]
    last: Annotated[str, lambda left, right: right]


class Plan(NamedTuple):
    """What a node does each time it runs: where it goes beside its edges, and whom it sends to."""

    gotos: tuple[str, ...]
    sends: tuple[str, ...]
    most: int


class Drawn(NamedTuple):
    """A random graph."""

    plans: dict[str, Plan]
    edges: tuple[tuple[str, str], ...]
    joins: tuple[tuple[tuple[str, ...], str], ...]
    deferred: frozenset[str]
    starts: tuple[str, ...]


name = st.sampled_from(NAMES)
plan = st.builds(Plan, st.lists(name, max_size=2).map(tuple), st.lists(name, max_size=1).map(tuple), st.integers(0, 2))
drawings = st.builds(
    Drawn,
    st.fixed_dictionaries(dict.fromkeys(NAMES, plan)),
    st.lists(st.tuples(name, name), max_size=6, unique=True).map(tuple),
    st.lists(st.tuples(st.lists(name, min_size=2, max_size=3, unique=True).map(tuple), name), max_size=2, unique=True).map(
        tuple
    ),
    st.frozensets(name, max_size=2),
    st.lists(name, min_size=1, max_size=3, unique=True).map(tuple),
)


def compiled(drawn: Drawn, saver: Any = None, *, later: bool = False) -> Any:
    graph = StateGraph(State)
    for who, what in drawn.plans.items():

        def node(state: State, who: str = who, what: Plan = what) -> Any:
            turn = state.get("turns", {}).get(who, 0)
            update = {"log": [f"{who}{turn}"], "turns": {who: 1}, "last": who}
            if turn >= what.most:
                return update
            return Command(update=update, goto=[*what.gotos, *(Send(target, dict(state)) for target in what.sends)])

        async def anode(state: State, node: Any = node) -> Any:
            await asyncio.sleep(0)
            return node(state)

        graph.add_node(who, anode if later else node, defer=who in drawn.deferred)
    for start, end in drawn.edges:
        graph.add_edge(start, end)
    for sources, end in drawn.joins:
        graph.add_edge(list(sources), end)
    for start in drawn.starts:
        graph.add_edge(START, start)
    return graph.compile(saver)


def outcome(call: Any) -> Any:
    try:
        return call()
    except RecursionError:
        return "too long"


@settings(max_examples=60)
@given(drawings)
def test_P49_one_result_whatever_the_colour_and_the_saver(drawn: Drawn) -> None:
    start = {"log": ["in"]}
    results = []
    states = []
    for saver, later in ((None, False), (None, True), (InMemorySaver(), False), (InMemorySaver(), True)):
        graph = compiled(drawn, saver, later=later)
        if later:
            results.append(outcome(lambda graph=graph: asyncio.run(graph.ainvoke(start, CONFIG))))
        else:
            results.append(outcome(lambda graph=graph: graph.invoke(start, CONFIG)))
        if saver is not None:
            snapshot = graph.get_state(CONFIG)
            states.append((snapshot.values, snapshot.next, snapshot.metadata["step"]))
    assert all(result == results[0] for result in results)
    assert states[0] == states[1]
    if results[0] != "too long":
        assert states[0][:2] == (results[0], ())


@settings(max_examples=30)
@given(drawings, st.integers(1, 5))
def test_P2_P3_a_run_in_pieces_is_the_run_in_one(drawn: Drawn, piece: int) -> None:
    whole = compiled(drawn, InMemorySaver())
    result = outcome(lambda: whole.invoke({"log": []}, CONFIG))
    pieces = compiled(drawn, InMemorySaver())
    found: Any = "too long"
    given_: Any = {"log": []}
    for _ in range(STEPS):
        found = outcome(lambda given_=given_: pieces.invoke(given_, {**CONFIG, "recursion_limit": piece}))
        given_ = None
        if found != "too long" or pieces.get_state(CONFIG).metadata["step"] >= STEPS:
            break
    if result != "too long":
        assert found == result
    ids = [{task.name for task in snapshot.tasks} for snapshot in whole.get_state_history(CONFIG)]
    again = [{task.name for task in snapshot.tasks} for snapshot in pieces.get_state_history(CONFIG)]
    if result != "too long":
        assert again == ids


@settings(max_examples=40)
@given(drawings)
def test_what_is_restored_from_the_rows_is_what_was_live(drawn: Drawn) -> None:
    saver = InMemorySaver()
    graph = compiled(drawn, saver)
    seen: list[tuple[Any, ...]] = []
    advance: Any = Live.advance

    def watched(live: Live, tasks: Any, number: int) -> Any:
        changed = advance(live, tasks, number)
        seen.append(picture(live))
        return changed

    Live.advance = watched  # type: ignore[method-assign, assignment]
    try:
        outcome(lambda: graph.invoke({"log": ["in"]}, CONFIG))
    finally:
        Live.advance = advance  # type: ignore[method-assign]
    records = saver.blocking()
    rows = []
    before = None
    while page := run_blocking(records.page("t", ROOT_NS, before=before, limit=5)):
        rows += page
        before = page[-1].row.n if page[-1].row is not None else None
    restored = [Restored(graph.program, loaded, saver.serde) for loaded in reversed(rows)]
    assert [picture(each.live) for each in restored if each.row.source == "loop"] == seen


def picture(live: Live) -> tuple[Any, ...]:
    """All of a state that decides how a run goes on."""
    sends = [(index, origin, live.sends[index]) for index, origin in sorted(live.open_sends.items())]
    return {**live.view}, dict(sorted(live.fired.items())), dict(sorted(live.deferred.items())), dict(live.joins), sends


@given(st.dictionaries(st.integers(0, 40), st.tuples(st.integers(1, 3), st.sampled_from(["", "x", "y"]))))
def test_the_record_of_sends_says_which_they_were(sends: dict[int, tuple[int, str]]) -> None:
    items = [(index, origin, who) for index, (origin, who) in sorted(sends.items())]
    found = [
        (index, pending.origin, pending.triggers[0] if pending.triggers else "")
        for pending in frontier.ranges(items)
        for index in frontier.indexes(pending.path)
    ]
    assert found == items


@settings(max_examples=40)
@given(st.lists(st.lists(st.integers(0, 9), max_size=3), min_size=1, max_size=6), st.integers(1, 6))
def test_max_concurrency_changes_no_result(pieces: list[list[int]], limit: int) -> None:
    class Log(TypedDict):
        log: Annotated[list[int], operator.add]

    graph = StateGraph(Log).add_node("w", lambda piece: {"log": piece})
    graph.add_conditional_edges(START, lambda _: [Send("w", piece) for piece in pieces])
    out = graph.compile().invoke({"log": []}, {"max_concurrency": limit})
    assert out == {"log": [number for piece in pieces for number in piece]}
