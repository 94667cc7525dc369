"""What `perdure.testing` gives to other people's tests does what it says, and sees what it should see."""

from __future__ import annotations

import asyncio
import inspect
import operator
import subprocess
import sys
from typing import Annotated, Any, TypedDict

import pytest

from perdure.bridge import run_blocking
from perdure.checkpoint.memory import InMemorySaver
from perdure.checkpoint.records import RESULT, Entry, Packed, ValueRow, WriteItem, WriteRow
from perdure.checkpoint.transfer.port import MovableRecords
from perdure.errors import SaveFailed
from perdure.graph import END, START, StateGraph
from perdure.testing.clock import ManualClock
from perdure.testing.counting import CountingRecords, RoundTrips
from perdure.testing.faults import DatabaseDown, FailingRecords, with_records
from perdure.testing.saver_suite import FailureSuite, GraphSuite, TravelSuite
from perdure.testing.saver_suite.rows import Over, Writer
from perdure.testing.strict import StrictMemorySaver
from perdure.testing.wrapping import WrappingRecords

CONFIG: Any = {"configurable": {"thread_id": "t"}}


class Log(TypedDict):
    log: Annotated[list[int], operator.add]


def three_steps() -> StateGraph[Any]:
    graph = StateGraph(Log)
    graph.add_node("step", lambda state: {"log": [len(state["log"])]})
    graph.add_edge(START, "step")
    graph.add_conditional_edges("step", lambda state: "step" if len(state["log"]) < 3 else END)
    return graph


class TestStrict(GraphSuite, TravelSuite, FailureSuite):
    """What the engine stores passes the strict saver's checks."""

    def make_saver(self, where: Any, **options: Any) -> Any:
        return StrictMemorySaver(**options)


def test_pytest_is_loaded_by_the_suites_only():
    program = (
        "import sys, perdure.testing, perdure.testing.faults, perdure.testing.strict, perdure.testing.counting, perdure.testing.clock\n"
        "sys.exit('pytest' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


# ----------------------------------------------------------------------------------------------------------------------- faults


def test_the_chosen_commit_fails_and_no_other():
    saver = with_records(InMemorySaver(), lambda records: FailingRecords(records, fail_on={2}))
    graph = three_steps().compile(checkpointer=saver)
    with pytest.raises(SaveFailed) as caught:
        graph.invoke({"log": []}, CONFIG)
    assert isinstance(caught.value.__cause__, DatabaseDown)
    assert graph.invoke(None, CONFIG)["log"] == [0, 1, 2]


def test_a_commit_may_be_chosen_by_what_it_holds_and_the_error_be_any():
    saver = with_records(
        InMemorySaver(),
        lambda records: FailingRecords(
            records, fail_on=lambda commit: any(row.step == 2 for row in commit.checkpoints), error=lambda: OSError("disk full")
        ),
    )
    with pytest.raises(SaveFailed, match="disk full"):
        three_steps().compile(checkpointer=saver).invoke({"log": []}, CONFIG)


def test_a_commit_may_fail_after_it_was_stored():
    inner = InMemorySaver()
    saver = with_records(inner, lambda records: FailingRecords(records, fail_on={2}, stored=True))
    with pytest.raises(SaveFailed):
        three_steps().compile(checkpointer=saver).invoke({"log": []}, CONFIG)
    assert three_steps().compile(checkpointer=inner).get_state(CONFIG).values == {"log": [0]}


def test_a_commit_may_be_looked_at_and_waited_for():
    seen: list[int] = []

    async def look(commit: Any) -> None:
        await asyncio.sleep(0)
        seen.append(len(commit.checkpoints))

    saver = with_records(InMemorySaver(), lambda records: FailingRecords(records, before=look))
    asyncio.run(three_steps().compile(checkpointer=saver).ainvoke({"log": []}, CONFIG))
    assert seen == [2, 1, 1, 1]


def test_a_database_that_is_down_stays_down():
    made: list[FailingRecords] = []

    def wrap(records: Any) -> FailingRecords:
        made.append(FailingRecords(records))
        return made[-1]

    graph = three_steps().compile(checkpointer=with_records(InMemorySaver(), wrap))
    made[0].down = True
    for _ in range(2):
        with pytest.raises(SaveFailed):
            graph.invoke({"log": []}, CONFIG)
    made[0].down = False
    assert graph.invoke({"log": []}, CONFIG)["log"] == [0, 1, 2]
    assert len(made) == 1, "both colours of this saver share one record store"


# ------------------------------------------------------------------------------------------------------------- counting, clock


def test_round_trips_are_counted_in_both_colours():
    trips = RoundTrips()
    graph = three_steps().compile(checkpointer=with_records(InMemorySaver(), trips.records))
    graph.invoke({"log": []}, CONFIG)
    assert (trips.calls, trips.total) == ({"load": 1, "commit": 4}, 5)
    asyncio.run(graph.aget_state(CONFIG))
    assert trips.calls["load"] == 2
    trips.reset()
    assert (trips.total, trips.commits) == (0, [])


def test_every_call_of_the_port_passes_and_is_counted():
    def calls_of(kind: type) -> set[str]:
        return {name for name in dir(kind) if not name.startswith("_") and inspect.iscoroutinefunction(getattr(kind, name))}

    wanted = calls_of(MovableRecords)
    assert len(wanted) > 20
    assert calls_of(WrappingRecords) >= wanted
    assert {*vars(CountingRecords)} >= wanted - {"close"}


def test_a_manual_clock_moves_when_it_is_told_to():
    clock = ManualClock(1_000_000_000)
    clock.advance(1.5)
    assert (clock.now_ns(), clock.monotonic()) == (2_500_000_000, 1.5)
    clock.step_back(2)
    assert (clock.now_ns(), clock.monotonic()) == (500_000_000, 1.5)


# ----------------------------------------------------------------------------------------------------------------------- strict


def writer() -> Writer:
    saver = StrictMemorySaver()
    made = Writer(Over(saver))
    made.commit("take", made.row(changes={"a": Entry(1, Packed("int", b"1"))}))
    return made


def test_a_number_is_not_used_twice():
    one = writer()
    with pytest.raises(AssertionError, match=r"number 1 .* was used before"):
        one.commit("keep", one.row(n=1))
    with pytest.raises(AssertionError, match="uses a number twice"):
        one.commit("keep", one.row(n=7), values=[ValueRow(7, Packed("int", b""))])
    with pytest.raises(AssertionError, match="below the first free one"):
        one.commit("keep", one.row(n=99))


def test_rows_point_to_what_is_there():
    one = writer()
    with pytest.raises(AssertionError, match="hangs on 50"):
        one.commit("keep", one.row(parent=one.row(n=50)))
    with pytest.raises(AssertionError, match="value 51"):
        one.commit("keep", one.row(changes={"a": Entry(2, None, 51)}))
    with pytest.raises(AssertionError, match="belongs to checkpoint 52"):
        one.commit("keep", one.row(), writes=[WriteRow(0, 52, "a", RESULT, (WriteItem("a", Packed("int", b"")),))])


def test_P24_ids_grow():
    one = writer()
    with pytest.raises(AssertionError, match="is not later than"):
        one.commit("keep", one.row(id="0"))


def test_a_commit_stores_something():
    one = writer()
    with pytest.raises(AssertionError, match="stores nothing"):
        one.commit("keep")


def test_what_arrives_is_stored_and_what_was_there_is_not():
    saver = StrictMemorySaver()
    graph = StateGraph(Log).add_node("node", lambda state: {"log": [1]}).add_edge(START, "node").compile(checkpointer=saver)
    other: Any = {"configurable": {"thread_id": "u"}}
    graph.invoke({"log": []}, CONFIG)
    saver.copy_thread("t", "u")
    assert graph.invoke({"log": []}, other) == {"log": [1, 1]}
    saver.delete_thread("t")
    saver.copy_thread("u", "t")
    saver.prune(keep_last=1)
    assert graph.invoke({"log": []}, CONFIG) == {"log": [1, 1, 1]}


def test_what_is_stored_does_not_change():
    one = writer()
    row = run_blocking(one.records._records.inner.load("t", 0, None)).row
    row.changes["a"] = None
    with pytest.raises(AssertionError, match="changed after it was stored"):
        one.records.load("t", 0, None)
    with pytest.raises(AssertionError, match="changed after it was stored"):
        one.records.page("t", 0, before=None, limit=1)


def test_the_suite_says_what_to_install_where_pytest_is_missing() -> None:
    code = (
        "import sys; sys.modules['pytest'] = None\n"
        "from perdure.errors import MissingExtra\n"
        "try: import perdure.testing.saver_suite\n"
        "except MissingExtra as error: print(error)\n"
    )
    said = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert "pip install 'perdure[testing]'" in said
