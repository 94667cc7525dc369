"""P11: the index tells how threads stand, with their open questions; P17, P41: what runs leave in it."""

from __future__ import annotations

import asyncio
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from threading import Event
from typing import Any, TypedDict

import pytest

from perdure.backends.sqlite import statements as sql
from perdure.checkpoint.index.thread_info import RunInfo, ThreadInfo
from perdure.checkpoint.saver import Saver
from perdure.checkpoint.sqlite import SqliteSaver
from perdure.engine.storing import record
from perdure.errors import GraphRecursionError
from perdure.func import entrypoint
from perdure.graph import START, StateGraph
from perdure.testing.counting import RoundTrips
from perdure.testing.wrapping import with_records
from perdure.types import Command, RetryPolicy, interrupt
from tests.promises.asking import Entered, graph_of
from tests.promises.ways import FrozenClock, Ledger, Log, Way, chain, on, open_saver


def thread(way: Way, saver: Any, name: str = "t") -> ThreadInfo:
    found: ThreadInfo | None = way._do(saver, "get_thread", name)
    assert found is not None
    return found


def threads(way: Way, saver: Any, **options: Any) -> list[str]:
    page = asyncio.run(saver.alist_threads(**options)) if way.is_async else saver.list_threads(**options)
    return [one.thread_id for one in page]


def runs(way: Way, saver: Any, name: str = "t") -> list[RunInfo]:
    return list(way._do(saver, "list_runs", name))


def test_P11_a_thread_stands_as_its_last_run_left_it(saver: Saver, way: Way):
    entered = Entered()

    def fails(state: Any) -> Any:
        raise ConnectionError("the service is down")

    graphs = {
        "idle": graph_of(a=entered.says(way, "a")),
        "interrupted": graph_of(a=entered.asks(way, "a", "which?"), b=entered.asks(way, "b", "when?")),
        "error": graph_of(a=way.node(fails)),
    }
    for name, builder in graphs.items():
        graph = builder.compile(checkpointer=saver, name=f"graph {name}")
        try:
            way.invoke(graph, {"log": []}, {**on(name), "metadata": {"user": name}})
        except ConnectionError:
            assert name == "error"
    waiting = graphs["idle"].compile(checkpointer=saver, interrupt_before=["a"], name="breaks")
    way.invoke(waiting, {"log": []}, on("waiting"))

    for name in graphs:
        found = thread(way, saver, name)
        assert (found.status, found.graph, found.metadata) == (name, f"graph {name}", {"user": name})
        assert (found.is_running, found.crashed, found.holder) == (False, False, None)
        assert threads(way, saver, status=name, metadata={"user": name}) == [name]
        assert threads(way, saver, graph=f"graph {name}") == [name]
    assert threads(way, saver, status="interrupted") == ["interrupted", "waiting"]
    assert threads(way, saver, status=["error", "idle"]) == ["error", "idle"]
    assert threads(way, saver, status="busy") == []
    assert {one.value: one.node for one in thread(way, saver, "interrupted").interrupts} == {"which?": "a", "when?": "b"}
    assert thread(way, saver, "waiting").interrupts == ()
    assert way._do(saver, "get_thread", "nobody") is None


def test_P11_a_question_that_was_answered_is_no_longer_open(saver: Saver, way: Way):
    entered = Entered()
    graph = graph_of(a=entered.asks(way, "a", "which?"), b=entered.asks(way, "b", "when?")).compile(checkpointer=saver)
    asked = {pause.value: pause.id for pause in way.invoke(graph, {"log": []}, on())["__interrupt__"]}
    way.invoke(graph, Command(resume={asked["which?"]: "x"}), on())
    assert [one.id for one in thread(way, saver).interrupts] == [asked["when?"]]
    way.invoke(graph, Command(resume="y"), on())
    assert (thread(way, saver).status, thread(way, saver).interrupts) == ("idle", ())


def test_P11_a_busy_thread_says_who_runs_it(saver: Saver, way: Way):
    inside, go_on = Event(), Event()

    def node(state: Any) -> Any:
        inside.set()
        go_on.wait(10)
        return {"log": ["a"]}

    graph = chain(("a", way.node(node))).compile(checkpointer=saver)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(way.invoke, graph, {"log": []}, on())
        assert inside.wait(10)
        # In the blocking colour: an event loop of another thread is busy with the node.
        found = saver.get_thread("t")
        go_on.set()
        running.result(10)
    assert found is not None
    assert (found.status, found.is_running, found.crashed) == ("busy", True, False)
    assert found.holder is not None
    assert found.holder.pid > 0
    assert thread(way, saver).holder is None


def test_P11_a_time_finds_what_has_changed_since(tmp_path: Path, way: Way):
    clock = FrozenClock(step_ns=1_000_003)  # finer than the microseconds that are shown
    with open_saver("sqlite", tmp_path, clock=clock) as saver:
        graph = chain(("a", Ledger(way).node("a"))).compile(checkpointer=saver)
        for name in ("x", "y", "z"):
            clock.ns += 60_000_000_000
            way.invoke(graph, {"log": []}, on(name))
        moment = thread(way, saver, "y").updated_at
        assert moment is not None
        assert threads(way, saver, updated_after=moment) == ["z"]
        assert threads(way, saver, updated_after=moment - timedelta(seconds=1)) == ["y", "z"]
        clock.ns += 60_000_000_000
        way.edit(graph, on("x"), {"log": ["edit"]})
        assert threads(way, saver, updated_after=moment) == ["x", "z"]
        assert threads(way, saver, order="updated") == ["x", "z", "y"]
        created = thread(way, saver, "x").created_at
        assert created is not None
        assert created < moment


def test_P41_a_threads_metadata_is_what_its_runs_said_of_it(saver: Saver, way: Way):
    saver.persist = ("tenant",)
    graph = chain(("a", Ledger(way).node("a"))).compile(checkpointer=saver)
    config = on(tenant="acme", secret="s")
    way.invoke(graph, {"log": []}, {**config, "metadata": {"user": "ada", "turn": 1, "parts": [1, 2]}})
    way.invoke(graph, {"log": []}, {**on(), "metadata": {"turn": 2}})
    way.invoke(graph, {"log": []}, on())
    assert thread(way, saver).metadata == {"user": "ada", "turn": 2, "tenant": "acme"}
    way.edit(graph, {**on(), "metadata": {"edited": True}}, {"log": []})
    assert thread(way, saver).metadata == {"user": "ada", "turn": 2, "tenant": "acme", "edited": True}
    assert threads(way, saver, metadata={"turn": 2}) == ["t"]
    assert threads(way, saver, metadata={"turn": 1}) == []


# ---------------------------------------------------------------------------------------------------------------------- runs


def test_P11_P17_a_run_leaves_how_far_it_came_and_how_often_nodes_were_entered(saver: Saver, way: Way):
    tries = 0

    def flaky(state: Any) -> Any:
        nonlocal tries
        tries += 1
        if tries < 3:
            raise ConnectionError("again")
        return {"log": ["flaky"]}

    entered = Entered()
    inner: Any = StateGraph(Log)
    inner.add_node("ask", entered.asks(way, "ask", "1", "2"))
    inner.add_edge(START, "ask")
    builder: Any = StateGraph(Log)
    builder.add_node("flaky", way.node(flaky), retry_policy=RetryPolicy(initial_interval=0.001, jitter=False))
    builder.add_node("sub", inner.compile()).add_node("end", entered.says(way, "end"))
    builder.add_edge(START, "flaky").add_edge("flaky", "sub").add_edge("sub", "end")
    graph = builder.compile(checkpointer=saver, name="told")
    way.invoke(graph, {"log": []}, on())
    way.invoke(graph, Command(resume="x"), on())
    way.invoke(graph, Command(resume="y"), on())
    last, second, first = runs(way, saver)
    assert [(one.status, one.steps, one.entries) for one in (first, second, last)] == [
        ("interrupted", 1, {"flaky": 3, "sub": 1, "sub|ask": 1}),
        ("interrupted", 0, {"sub": 1, "sub|ask": 1}),
        ("done", 2, {"sub": 1, "sub|ask": 1, "end": 1}),
    ]
    assert entered["ask"] == sum(one.entries["sub|ask"] for one in (first, second, last))
    assert (first.attempts, first.graph, first.thread_id, first.error, first.had_context) == (5, "told", "t", None, False)
    assert len({first.run_id, second.run_id, last.run_id}) == 3
    assert first.ended_at is not None
    assert first.started_at <= first.ended_at <= second.started_at


def test_P11_a_failed_run_says_why(saver: Saver, way: Way):
    def fails(state: Any) -> Any:
        raise ValueError("no such\nthing \udc80")

    graph = chain(("a", Ledger(way).node("a")), ("b", way.node(fails))).compile(checkpointer=saver)
    with pytest.raises(ValueError, match="no such"):
        way.invoke(graph, {"log": []}, {**on(), "run_id": "my-run"})
    (run,) = runs(way, saver)
    assert (run.run_id, run.status, run.steps, run.entries) == ("my-run", "error", 1, {"a": 1, "b": 1})
    assert run.error == "ValueError: no such\nthing ?"

    looping: Any = StateGraph(Log)
    looping.add_node("a", Ledger(way).node("a"))
    looping.add_edge(START, "a").add_edge("a", "a")
    with pytest.raises(GraphRecursionError):
        way.invoke(looping.compile(checkpointer=saver), {"log": []}, {**on("loop"), "recursion_limit": 3})
    (run,) = runs(way, saver, "loop")
    assert (run.status, run.steps, run.error) == ("error", 3, "GraphRecursionError: recursion limit of 3 reached")


def test_P11_a_cancelled_run_says_so(saver: Saver):
    inside = asyncio.Event()

    async def waits(state: Any) -> Any:
        inside.set()
        await asyncio.sleep(60)

    graph = chain(("a", waits)).compile(checkpointer=saver)

    async def cancel() -> None:
        running = asyncio.ensure_future(graph.ainvoke({"log": []}, on()))
        await inside.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(cancel())
    (run,) = saver.list_runs("t")
    assert (run.status, run.error, run.entries) == ("error", "cancelled", {"a": 1})


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_P11_the_record_of_a_run_costs_no_round_trip(saver: Saver, way: Way, durability: Any):
    trips = RoundTrips()
    counted = with_records(saver, trips.records)
    nodes = [(name, Ledger(way).node(name)) for name in "abcdefgh"]
    graph = chain(*nodes).compile(checkpointer=counted)
    way.invoke(graph, {"log": []}, on(), durability=durability)
    assert trips.calls == {"load": 1, "commit": 2 if durability == "exit" else len(nodes) + 1}
    written = [commit.run.steps for commit in trips.commits if commit.run is not None]
    assert written == ([0, 8] if durability == "exit" else [0, 1, 2, 4, 8]), "and few rows"
    (run,) = runs(way, saver)
    assert (run.status, run.steps, run.attempts) == ("done", 8, 8)


def test_P11_a_long_step_brings_the_record_up_to_date(tmp_path: Path, way: Way):
    clock = FrozenClock()
    with open_saver("memory", tmp_path, clock=clock) as saver:
        trips = RoundTrips()
        counted = with_records(saver, trips.records)

        def slow() -> None:
            clock.ns += record.EVERY_NS

        nodes = [(name, Ledger(way).node(name, slow if name in "eg" else None)) for name in "abcdefgh"]
        way.invoke(chain(*nodes).compile(checkpointer=counted), {"log": []}, on())
        assert [commit.run.steps for commit in trips.commits if commit.run is not None] == [0, 1, 2, 4, 5, 7, 8]


def test_P11_edits_and_names_are_no_runs(saver: Saver, way: Way):
    graph = chain(("a", Ledger(way).node("a"))).compile(checkpointer=saver)
    way.edit(graph, on(), {"log": ["x"]})
    way._do(graph, "name_branch", on(), "draft")
    assert runs(way, saver) == []
    assert thread(way, saver).status == "idle"


def test_P11_a_stream_that_is_left_early_ends_its_record(saver: Saver, way: Way):
    graph = chain(*((name, Ledger(way).node(name)) for name in "abc")).compile(checkpointer=saver)
    stream = graph.stream({"log": []}, on())
    next(stream)
    assert saver.list_runs("t")[0].status == "running"
    stream.close()
    (run,) = runs(way, saver)
    assert run.status == "interrupted"
    assert run.ended_at is not None
    assert thread(way, saver).updated_at >= run.ended_at, "the database dates the thread by itself"


def test_P11_an_entrypoint_is_a_run_too(saver: Saver, way: Way):
    def asks(given: int) -> Any:
        return given + interrupt("more?")

    flow = entrypoint(checkpointer=saver)(way.node(asks))
    way.invoke(flow, 1, on())
    way.invoke(flow, Command(resume=2), on())
    assert [(run.graph, run.status, run.entries) for run in runs(way, saver)] == [
        ("asks", "done", {"asks": 1}),
        ("asks", "interrupted", {"asks": 1}),
    ]


def test_P11_a_record_stays_small_whatever_the_graph(saver: Saver, way: Way, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(record, "MOST_NAMES", 3)
    graph = chain(*((name, Ledger(way).node(name)) for name in "abcde")).compile(checkpointer=saver)
    way.invoke(graph, {"log": []}, on())
    (run,) = runs(way, saver)
    assert run.entries == {"a": 1, "b": 1, "c": 1, "…": 2}
    assert run.attempts == 5


def test_P11_a_context_is_noted_but_not_stored(saver: Saver, way: Way):
    class Context(TypedDict):
        user: str

    builder: Any = StateGraph(Log, context_schema=Context)
    builder.add_node("a", Ledger(way).node("a")).add_edge(START, "a")
    graph = builder.compile(checkpointer=saver)
    way.invoke(graph, {"log": []}, on("with"), context={"user": "ada"})
    way.invoke(graph, {"log": []}, on("without"))
    assert [runs(way, saver, name)[0].had_context for name in ("with", "without")] == [True, False]


# ------------------------------------------------------------------------------------------------------------------- indexes


def plans(path: Path, *statements: tuple[str, tuple[Any, ...]]) -> list[str]:
    connection = sqlite3.connect(path)
    found = []
    for statement, values in statements:
        steps = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {statement}", values)]
        found.append(" / ".join(step for step in steps if " t" in step or "SORT" in step or "TEMP" in step))
    connection.close()
    return found


def test_P11_a_list_by_status_or_time_does_not_look_at_other_threads(tmp_path: Path):
    with SqliteSaver(tmp_path / "a.db") as saver:
        saver.list_threads()
    by_status, by_time, both, recent, recent_of_status, of_graph = plans(
        tmp_path / "a.db",
        (sql.threads([sql.AFTER, sql.OF_STATUS]), ("a", "busy", 9)),
        (sql.threads([sql.AFTER, sql.UPDATED_AFTER]), ("a", 5, 9)),
        (sql.threads([sql.AFTER, sql.UPDATED_AFTER, sql.OF_STATUS]), ("a", 5, "busy", 9)),
        (sql.threads([sql.OLDER], by_time=True), (5, "a", 9)),
        (sql.threads([sql.OLDER, sql.FROM, sql.BELOW, sql.OF_STATUS], by_time=True), (5, "a", "a", "b", "busy", 9)),
        (sql.threads([sql.AFTER, sql.OF_GRAPH, sql.OF_STATUS]), ("a", "g", "busy", 9)),
    )
    assert by_status == of_graph == "SEARCH t USING INDEX thread_by_status_and_id (status=? AND thread_id>?)"
    assert by_time.startswith("SEARCH t USING INDEX thread_by_updated (updated_ns>?)")
    assert both.startswith("SEARCH t USING INDEX thread_by_status (status=? AND updated_ns>?)")
    assert recent.startswith("SEARCH t USING INDEX thread_by_updated (updated_ns<?)")
    assert recent_of_status.startswith("SEARCH t USING INDEX thread_by_status (status=? AND updated_ns<?)")
