"""P11: `resume_all` takes up the runs whose process died, each once; P16: it applies deadlines that have passed."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypedDict

import pytest

from perdure.checkpoint.saver import Saver
from perdure.engine.running import recovery
from perdure.engine.running.recovery import Recovery
from perdure.errors import InvalidConfig, NeedsContext
from perdure.func import entrypoint, task
from perdure.graph import START, StateGraph
from perdure.runtime import Runtime
from perdure.types import Command, RunnableConfig
from tests.promises.asking import Entered, graph_of
from tests.promises.dying import can_tell, die
from tests.promises.recovering import outcomes, resume_all, three
from tests.promises.ways import FrozenClock, Ledger, Log, Way, chain, on, open_saver

pytestmark = can_tell


def test_P11_what_died_is_taken_up_and_nothing_is_done_twice(saver: Saver, way: Way, ledger: Ledger):
    graph = three(ledger, saver)
    for at in range(1, 4):
        die(saver, graph, way, {"log": []}, {**on(f"t{at}"), "metadata": {"user": "ada"}}, at=at)
    way.invoke(graph, {"log": []}, on("whole"))
    before = len(ledger.ran)
    assert [one.crashed for one in saver.list_threads(status="busy")] == [True] * 3
    reports = resume_all(way, graph)
    assert outcomes(reports) == dict.fromkeys(("t1", "t2", "t3"), "resumed")
    assert [(report.status, report.error, report.thread.crashed) for report in reports] == [("idle", None, True)] * 3
    assert sorted(ledger.ran[before:]) == ["a", "b", "b", "c", "c", "c"], "what was stored is not run again"
    for name in ("t1", "t2", "t3"):
        assert way.state(graph, on(name)).values == {"log": ["a", "b", "c"]}
        found = saver.get_thread(name)
        assert found is not None
        assert (found.status, found.crashed, found.metadata) == ("idle", False, {"user": "ada"})
        assert [run.status for run in saver.list_runs(name)] == ["done", "crashed"]
        metadata: Any = way.state(graph, on(name)).metadata
        assert metadata["user"] == "ada", "its checkpoints go on to say what the first run said"
    assert resume_all(way, graph) == []
    assert len(ledger.ran) == before + 6


def test_P11_only_threads_of_this_graph_are_taken_up(saver: Saver, way: Way, ledger: Ledger):
    mine, other = three(ledger, saver, "mine"), three(ledger, saver, "other")
    die(saver, mine, way, {"log": []}, on("m"), at=2)
    die(saver, other, way, {"log": []}, on("o"), at=2)
    assert outcomes(resume_all(way, mine)) == {"m": "resumed"}
    assert outcomes(resume_all(way, other)) == {"o": "resumed"}


def test_P11_graphs_without_names_are_told_apart_by_their_shape(saver: Saver, way: Way, ledger: Ledger):
    graph, other = three(ledger, saver, None), chain(("x", ledger.node("x"))).compile(checkpointer=saver)
    die(saver, graph, way, {"log": []}, on("t"), at=2)
    (report,) = resume_all(way, other)
    assert report.outcome == "failed"
    with pytest.raises(InvalidConfig, match=r"compile\(name=...\)"):
        raise report.error or AssertionError
    assert outcomes(resume_all(way, graph)) == {"t": "resumed"}


def test_P11_a_run_under_way_is_left_alone(saver: Saver, way: Way):
    inside, go_on = threading.Event(), threading.Event()
    entered = Entered()

    def waits(state: Any) -> Any:
        entered["a"] += 1
        inside.set()
        go_on.wait(10)
        return {"log": ["a"]}

    graph = chain(("a", way.node(waits))).compile(checkpointer=saver)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(way.invoke, graph, {"log": []}, on())
        assert inside.wait(10)
        (report,) = graph.resume_all()
        go_on.set()
        assert running.result(10) == {"log": ["a"]}
    assert (report.outcome, report.thread.is_running) == ("elsewhere", True)
    assert entered["a"] == 1


def test_P11_a_stream_that_nobody_reads_on_is_taken_up_on_demand(tmp_path: Path, way: Way, ledger: Ledger):
    with open_saver("memory", tmp_path, lease_seconds=0.01) as saver:
        graph = three(ledger, saver)
        stream = graph.stream({"log": []}, on())
        next(stream)
        time.sleep(0.02)
        found = saver.get_thread("t")
        assert found is not None
        assert (found.is_running, found.crashed) == (False, False), "its process lives, so nobody can say that it died"
        assert outcomes(resume_all(way, graph)) == {"t": "elsewhere"}
        assert outcomes(resume_all(way, graph, stalled=True)) == {"t": "resumed"}
        assert ledger.ran == ["a", "b", "c"]
        with pytest.raises(Exception, match="took it over"):
            list(stream)


def test_P11_a_failure_is_reported_and_the_others_are_gone_on_with(saver: Saver, way: Way):
    def node(state: Any) -> Any:
        if "bad" in state["log"]:
            raise ConnectionError("the service is down")
        return {"log": ["a"]}

    graph = chain(("a", way.node(node))).compile(checkpointer=saver)
    for name in ("bad", "fine", "poor"):
        die(saver, graph, way, {"log": [name]}, on(name), at=1) if name != "bad" else None
    twin = chain(("a", way.node(lambda state: {"log": ["a"]}))).compile(checkpointer=saver)
    die(saver, twin, way, {"log": ["bad"]}, on("bad"), at=1)
    reports = {report.thread_id: report for report in resume_all(way, graph)}
    assert {name: report.outcome for name, report in reports.items()} == {"bad": "failed", "fine": "resumed", "poor": "resumed"}
    assert isinstance(reports["bad"].error, ConnectionError)
    found = saver.get_thread("bad")
    assert found is not None
    assert found.status == "error"
    assert resume_all(way, graph) == [], "a failed run is its owner's business, not that of the next recovery"


def test_P11_a_run_that_pauses_is_resumed_and_says_that_it_waits(saver: Saver, way: Way):
    entered = Entered()
    graph = chain(("a", entered.says(way, "a")), ("ask", entered.asks(way, "ask", "?"))).compile(checkpointer=saver)
    die(saver, graph, way, {"log": []}, on(), at=1)
    (report,) = resume_all(way, graph)
    assert (report.outcome, report.status) == ("resumed", "interrupted")
    assert resume_all(way, graph) == []
    assert entered["ask"] == 1
    assert way.invoke(graph, Command(resume="x"), on())["log"] == ["a", "ask:x"]


def test_P11_an_answer_that_was_given_before_the_death_counts(saver: Saver, way: Way):
    entered = Entered()
    graph = chain(("ask", entered.asks(way, "ask", "?")), ("b", entered.says(way, "b"))).compile(checkpointer=saver)
    way.invoke(graph, {"log": []}, on())
    die(saver, graph, way, Command(resume="x"), on(), at=1)
    assert outcomes(resume_all(way, graph)) == {"t": "resumed"}
    assert way.state(graph, on()).values["log"] == ["ask:x", "b"]


def test_P11_steps_and_subgraphs_go_on_where_they_were(saver: Saver, way: Way, ledger: Ledger):
    step: Any = task(way.node(lambda n: ledger.ran.append(f"step{n}") or f"step{n}"))

    def flow(given: int) -> Any:
        return [step(n).result() for n in range(given)]

    async def aflow(given: int) -> Any:
        return [await step(n) for n in range(given)]

    steps = entrypoint(checkpointer=saver)(aflow if way.is_async else flow)
    die(saver, steps, way, 3, on("steps"), at=3)
    assert outcomes(resume_all(way, steps)) == {"steps": "resumed"}
    assert ledger.ran == ["step0", "step1", "step2", "step2"]
    ledger.ran.clear()
    inner = chain(("x", ledger.node("x")), ("y", ledger.node("y"))).compile()
    graph = chain(("a", ledger.node("a")), ("sub", inner), ("b", ledger.node("b"))).compile(checkpointer=saver, name="subs")
    die(saver, graph, way, {"log": []}, on("subs"), at=4)
    assert outcomes(resume_all(way, graph)) == {"subs": "resumed"}
    assert ledger.ran == ["a", "x", "y", "y", "b"]


def test_P11_a_run_on_a_named_branch_goes_on_with_its_name(saver: Saver, way: Way, ledger: Ledger):
    graph = three(ledger, saver)
    way.invoke(graph, {"log": []}, on())
    way._do(graph, "name_branch", on(), "draft")
    die(saver, graph, way, {"log": []}, on(branch="draft"), at=2)
    assert outcomes(resume_all(way, graph)) == {"t": "resumed"}
    assert way.state(graph, on(branch="draft")).values == {"log": ["a", "b", "c", "a", "b", "c"]}
    assert way.state(graph, on(branch="draft")).next == ()


def test_P11_P41_what_is_stored_of_a_config_is_there_again(saver: Saver, way: Way):
    seen: list[Any] = []

    def node(state: Any, config: RunnableConfig) -> Any:
        conf: Any = config["configurable"]
        seen.append((conf.get("tenant"), conf.get("secret"), (config.get("metadata") or {}).get("user"), conf.get("extra")))
        return {"log": ["a"]}

    async def anode(state: Any, config: RunnableConfig) -> Any:
        return node(state, config)

    saver.persist = ("tenant",)
    graph = chain(("a", anode if way.is_async else node)).compile(checkpointer=saver)
    config: Any = {**on(tenant="acme", secret="s"), "metadata": {"user": "ada"}}
    die(saver, graph, way, {"log": []}, config, at=1)
    resume_all(way, graph, config={"configurable": {"extra": 5}})
    assert seen == [("acme", "s", "ada", None), ("acme", None, "ada", 5)]


# ------------------------------------------------------------------------------------------------------------------- contexts


class Context(TypedDict):
    user: str


def in_context(way: Way, saver: Any) -> Any:
    def node(state: Any, runtime: Runtime[Context]) -> Any:
        return {"log": [runtime.context["user"] if runtime.context else "nobody"]}

    async def anode(state: Any, runtime: Runtime[Context]) -> Any:
        return node(state, runtime)

    builder: Any = StateGraph(Log, context_schema=Context)
    builder.add_node("a", anode if way.is_async else node).add_edge(START, "a")
    return builder.compile(checkpointer=saver, name="in context")


def test_P11_a_run_that_had_a_context_needs_one(saver: Saver, way: Way):
    graph = in_context(way, saver)
    for name in ("ada", "bob", "eve"):
        die(saver, graph, way, {"log": []}, {**on(name), "metadata": {"user": name}}, at=1, context={"user": name})
    die(saver, graph, way, {"log": []}, on("without"), at=1)
    reports = resume_all(way, graph)
    assert outcomes(reports) == {
        "ada": "needs_context",
        "bob": "needs_context",
        "eve": "needs_context",
        "without": "resumed",
    }, "one that was run without goes on without"
    with pytest.raises(NeedsContext, match=r"resume_all\(context_for="):
        raise reports[0].error or AssertionError
    assert getattr(reports[0].error, "thread", None) == "ada"

    def context_for(thread: Any) -> Any:
        if thread.thread_id == "bob":
            return None
        if thread.thread_id == "eve":
            raise LookupError("who is eve?")
        return {"user": f"{thread.metadata['user']} again"}

    reports = resume_all(way, graph, context_for=context_for)
    assert outcomes(reports) == {"ada": "resumed", "bob": "needs_context", "eve": "failed"}
    assert way.state(graph, on("ada")).values == {"log": ["ada again"]}
    assert isinstance(reports[2].error, LookupError)


def test_P11_async_code_may_wait_for_a_context(saver: Saver):
    way = Way("async")
    graph = in_context(way, saver)
    die(saver, graph, way, {"log": []}, on(), at=1, context={"user": "x"})

    async def context_for(thread: Any) -> Any:
        await asyncio.sleep(0)
        return {"user": "waited for"}

    (report,) = graph.resume_all(context_for=context_for)
    assert report.outcome == "failed"
    with pytest.raises(TypeError, match="aresume_all"):
        raise report.error or AssertionError
    assert outcomes(resume_all(way, graph, context_for=context_for)) == {"t": "resumed"}
    assert way.state(graph, on()).values == {"log": ["waited for"]}


# ------------------------------------------------------------------------------------------------------------------ deadlines


def test_P11_P16_pauses_go_on_with_their_default_once_the_deadline_has_passed(tmp_path: Path, way: Way):
    clock = FrozenClock(step_ns=1_000)
    with open_saver("sqlite", tmp_path, clock=clock) as saver:
        entered = Entered()
        graph = graph_of(ask=entered.asks(way, "ask", "?", deadline=60, default="late")).compile(checkpointer=saver)
        patient = graph_of(ask=entered.asks(way, "patient", "?", deadline=60)).compile(checkpointer=saver)
        way.invoke(graph, {"log": []}, on("due"))
        clock.ns += 50 * 10**9
        way.invoke(graph, {"log": []}, on("not yet"))
        way.invoke(patient, {"log": []}, on("without default"))
        assert resume_all(way, graph) == []
        clock.ns += 20 * 10**9
        (report,) = resume_all(way, graph)
        assert (report.thread_id, report.outcome, report.status) == ("due", "resumed", "idle")
        assert report.thread.interrupts[0].overdue
        assert way.state(graph, on("due")).values == {"log": ["ask:late"]}
        assert resume_all(way, graph) == []
        assert entered["ask"] == 3


# ------------------------------------------------------------------------------------------------------------- who comes second


def test_P11_two_that_recover_at_once_take_up_each_run_once(saver: Saver, way: Way, ledger: Ledger):
    graph = three(ledger, saver)
    names = [f"t{at}" for at in range(6)]
    for name in names:
        die(saver, graph, way, {"log": []}, on(name), at=1)
    ledger.ran.clear()
    start = threading.Barrier(3)

    def recover() -> list[Recovery]:
        start.wait(10)
        return resume_all(way, graph)

    with ThreadPoolExecutor(3) as pool:
        reports = [future.result(30) for future in [pool.submit(recover) for _ in range(3)]]
    taken = [one.thread_id for each in reports for one in each if one.outcome == "resumed"]
    assert sorted(taken) == names
    assert {one.outcome for each in reports for one in each} <= {"resumed", "elsewhere"}
    assert sorted(ledger.ran) == sorted([*"abc"] * 6)


@pytest.mark.parametrize("meanwhile", ["taken up", "failed again", "written to", "deleted and begun again"])
def test_P11_a_thread_that_has_moved_on_since_it_was_seen_is_left_alone(
    saver: Saver, way: Way, ledger: Ledger, meanwhile: str, monkeypatch: pytest.MonkeyPatch
):
    fails = meanwhile == "failed again"

    def last() -> Any:
        if fails:
            raise ConnectionError("down")

    graph = chain(("a", ledger.node("a")), ("b", ledger.node("b", last))).compile(checkpointer=saver)
    die(saver, graph, way, {"log": []}, on(), at=1)
    found = recovery._take_up

    async def late(*args: Any) -> Recovery:
        # What another process does between the look at the list and the start of the run.
        thread = saver.get_thread("t")
        if thread is not None and thread.crashed:
            if meanwhile.startswith("deleted"):
                saver.delete_thread("t")
                three(ledger, saver).invoke({"log": []}, on(), interrupt_before=["b"])
            elif meanwhile == "written to":
                saver.put(*_edit())
            else:
                with ThreadPoolExecutor(1) as pool:
                    try:
                        pool.submit(way.invoke, graph, None, on()).result(10)
                    except ConnectionError:
                        pass
        ledger.ran.clear()
        return await found(*args)

    def _edit() -> tuple[Any, ...]:
        newest = saver.get_tuple(on())
        assert newest is not None
        values: Any = {**newest.checkpoint["channel_values"]}
        fresh: Any = {**newest.checkpoint, "id": "1fffffff-ffff-6fff-bfff-ffffffffffff", "channel_values": values}
        return newest.config, fresh, {"source": "update", "step": 9}, {}

    monkeypatch.setattr(recovery, "_take_up", late)
    (report,) = resume_all(way, graph)
    assert report.outcome == "elsewhere"
    assert ledger.ran == [], "not even the node that failed is tried again"
