"""Recovery where there is little to take up, or nothing: what it refuses, passes over, and reports."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from perdure.checkpoint.index.threads import Index
from perdure.checkpoint.memory import InMemorySaver
from perdure.checkpoint.saver import Saver
from perdure.checkpoint.serde.unresolved import Unresolved
from perdure.engine.running.recovery import Recovery
from perdure.errors import CorruptRecord, EmptyInputError, GraphDrained, InvalidConfig, UnknownThread
from perdure.runtime.runtime import RunControl
from perdure.types import interrupt
from tests.contract.test_third_party import SyncSaver
from tests.promises.asking import graph_of
from tests.promises.dying import can_tell, die
from tests.promises.recovering import outcomes, resume_all, three
from tests.promises.ways import Ledger, Way, chain, on, open_saver

pytestmark = can_tell


@pytest.mark.parametrize("earlier", [False, True])
def test_P6_P11_a_run_that_saved_nothing_is_told_of(saver: Saver, way: Way, ledger: Ledger, earlier: bool):
    graph = three(ledger, saver)
    if earlier:
        way.invoke(graph, {"log": ["in"]}, on())
    before = len(ledger.ran)
    die(saver, graph, way, {"log": ["again"]}, on(), at=1, durability="exit")
    ran = len(ledger.ran)
    assert ran == before + 3
    (report,) = resume_all(way, graph)
    assert report.outcome == "failed"
    assert len(ledger.ran) == ran
    if earlier:
        assert isinstance(report.error, EmptyInputError)
        assert "input again" in str(report.error)
        assert resume_all(way, graph) == [], "it is told once"
        found = saver.get_thread("t")
        assert found is not None
        assert found.status == "idle"
    else:
        assert isinstance(report.error, UnknownThread)
    assert way.invoke(graph, {"log": ["again"]}, on())["log"][-4:] == ["again", "a", "b", "c"]


def test_P11_what_cannot_be_recovered_is_a_taught_error(saver: Saver, way: Way, ledger: Ledger):
    with pytest.raises(InvalidConfig, match="checkpointer"):
        resume_all(way, three(ledger, None))
    with pytest.raises(InvalidConfig, match="keeps no leases"):
        resume_all(way, three(ledger, SyncSaver()))
    graph = three(ledger, saver)
    with pytest.raises(InvalidConfig, match="thread_id"):
        resume_all(way, graph, config=on())
    die(saver, graph, way, {"log": []}, on(), at=1)
    with pytest.raises(InvalidConfig, match="did you mean 'recursion_limit'"):
        resume_all(way, graph, config={"recursion_limits": 5})
    with pytest.raises(InvalidConfig, match="durability"):
        resume_all(way, graph, durability="later")
    with pytest.raises(InvalidConfig, match="max_concurrency"):
        resume_all(way, graph, max_concurrency=0)
    assert outcomes(resume_all(way, graph)) == {"t": "resumed"}


def test_P11_P31_a_question_that_cannot_be_read_does_not_hide_other_threads(tmp_path: Path, way: Way):
    class Form:
        pass

    asks = chain(("a", way.node(lambda state: {"log": [interrupt(Form()) if "ask" in state["log"] else "a"]})))
    with open_saver("sqlite", tmp_path) as saver:
        saver.serde.register(Form, fields=())  # type: ignore[attr-defined]
        way.invoke(asks.compile(checkpointer=saver), {"log": ["ask"]}, on("asks"))
    with open_saver("sqlite", tmp_path) as saver:
        graph = asks.compile(checkpointer=saver)
        die(saver, graph, way, {"log": []}, on("dead"), at=1)
        listed = {thread.thread_id: thread for thread in saver.list_threads()}
        assert isinstance(listed["asks"].interrupts[0].value, Unresolved)
        assert outcomes(resume_all(way, graph)) == {"dead": "resumed"}


def test_P11_a_damaged_thread_is_reported_and_the_others_are_taken_up(
    saver: Saver, way: Way, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
):
    graph = three(ledger, saver)
    for name in ("damaged", "fine"):
        die(saver, graph, way, {"log": []}, on(name), at=1)
    whole = Index.questions

    def questions(self: Index, loaded: Any) -> Any:
        if loaded.thread.thread == "damaged":
            raise CorruptRecord("a write cannot be read")
        return whole(self, loaded)

    monkeypatch.setattr(Index, "questions", questions)
    damaged, fine = resume_all(way, graph)
    assert (damaged.thread_id, damaged.outcome, str(damaged.error)) == ("damaged", "failed", "a write cannot be read")
    assert (fine.thread_id, fine.outcome) == ("fine", "resumed")


def test_P11_a_node_may_recover_other_threads_but_leaves_its_own(way: Way):
    saver = InMemorySaver()
    reports: list[Recovery] = []

    def node(state: Any) -> Any:
        if state["log"] == ["recover"]:
            reports.extend(graph.resume_all())
        return {"log": ["a"]}

    graph = chain(("a", node)).compile(checkpointer=saver)
    die(saver, graph, Way("sync"), {"log": []}, on("dead"), at=1)
    assert graph.invoke({"log": ["recover"]}, on("mine")) == {"log": ["recover", "a"]}
    assert outcomes(reports) == {"dead": "resumed", "mine": "elsewhere"}


def test_P11_a_question_without_a_deadline_is_never_answered_by_recovery(saver: Saver, way: Way):
    graph = graph_of(a=way.node(lambda state: {"log": [interrupt("?")]})).compile(checkpointer=saver)
    way.invoke(graph, {"log": []}, on())
    assert resume_all(way, graph) == []
    found = saver.get_thread("t")
    assert found is not None
    assert [one.value for one in found.interrupts] == ["?"]


def test_P11_P28_a_crashed_thread_can_be_pinned_and_is_still_taken_up(saver: Saver, way: Way, ledger: Ledger):
    graph = three(ledger, saver)
    die(saver, graph, way, {"log": []}, on(), at=2)
    way._do(saver, "pin", on(), "before")
    way._do(saver, "pin", on(), "again")
    way._do(saver, "unpin", "t", "again")
    assert [one.crashed for one in saver.list_threads()] == [True]
    assert outcomes(resume_all(way, graph)) == {"t": "resumed"}
    assert way.state(graph, on(branch="before")).values == {"log": ["a"]}
    assert way.state(graph, on()).values == {"log": ["a", "b", "c"]}


def test_P11_P29_a_copy_of_a_crashed_thread_is_taken_up_and_an_edited_or_drained_one_is_not(
    saver: Saver, way: Way, ledger: Ledger
):
    graph = three(ledger, saver)
    die(saver, graph, way, {"log": []}, on("t"), at=2)
    way._do(saver, "copy_thread", "t", "copy")
    way._do(saver, "copy_thread", "t", "edited")
    way.edit(graph, on("edited"), {"log": ["by hand"]})
    control = RunControl()
    stops = chain(("a", ledger.node("a", lambda: control.request_drain("deploy"))), ("b", ledger.node("b")))
    with pytest.raises(GraphDrained):
        way.invoke(stops.compile(checkpointer=saver, name="three"), {"log": []}, on("drained"), control=control)
    assert outcomes(resume_all(way, graph)) == {"copy": "resumed", "t": "resumed"}
    for thread in ("t", "copy"):
        assert way.state(graph, on(thread)).values == {"log": ["a", "b", "c"]}
        found = saver.verify(thread)
        assert (found.problems, found.orphans) == ((), ())
    assert [run.status for run in saver.list_runs("copy")] == ["done"], "records of runs are not copied"
    assert way.state(graph, on("edited")).next == ("b",)
    assert way.invoke(graph, None, on("edited")) == {"log": ["a", "by hand", "b", "c"]}
    assert way.state(graph, on("drained")).next == ("b",)
