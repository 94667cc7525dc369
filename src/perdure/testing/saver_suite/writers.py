"""Two writers and one thread, with whole graphs: who is refused, who waits, who is taken over, and that nothing is lost silently."""

from __future__ import annotations

import operator
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Annotated, Any, Self, TypedDict

import pytest

from perdure.bridge import run_blocking
from perdure.checkpoint.leases import identity
from perdure.checkpoint.records import LeaseRow
from perdure.clock import SYSTEM_CLOCK
from perdure.errors import InvalidConfig, LeaseLost, SelfBusy, ThreadBusy, ThreadDeleted, UnknownThread
from perdure.graph import START, StateGraph
from perdure.testing.clock import ManualClock
from perdure.testing.saver_suite.colours import Suite
from perdure.testing.saver_suite.graphs import Coloured, on
from perdure.testing.saver_suite.leases import elsewhere
from perdure.testing.saver_suite.rows import Over, Writer
from perdure.testing.wrapping import with_records

HOUR = 3600


class Log(TypedDict):
    """Who wrote, in order."""

    log: Annotated[list[str], operator.add]


def answering() -> StateGraph[Any]:
    """A graph that answers what it is given."""
    return StateGraph(Log).add_node("a", lambda state: {"log": ["done"]}).add_edge(START, "a")


def lease_of(saver: Any, thread: str = "t") -> LeaseRow:
    """The lease of a thread as it is now."""
    lease: LeaseRow = run_blocking(saver.blocking().load(thread, 0, None)).thread.lease
    return lease


def elapsed(saver: Any, **options: Any) -> tuple[Any, ManualClock]:
    """Another saver over the same database, with a clock of its own that can be moved."""
    clock = ManualClock(time.time_ns())
    return with_records(saver, lambda records: records, clock=clock, **options), clock


class Held:
    """A run on thread "t" that stands in its node until it is let go."""

    def __init__(self, saver: Any, coloured: Coloured, **options: Any) -> None:
        self.inside, self.go_on = threading.Event(), threading.Event()
        graph = StateGraph(Log).add_node("a", self._node).add_edge(START, "a").compile(checkpointer=saver)
        self.graph = coloured(graph)
        self.pool = ThreadPoolExecutor(16)
        self.result = self.pool.submit(self.graph.invoke, {"log": ["m1"]}, {**on(), "run_id": "the-first"}, **options)
        assert self.inside.wait(20), self.result.exception(0)

    def _node(self, state: Log) -> Any:
        if not self.go_on.is_set():
            self.inside.set()
            self.go_on.wait(20)
        return {"log": ["done"]}

    def later(self, name: str, **options: Any) -> Future[Any]:
        """Another run of the same graph, from a thread of its own."""
        return self.pool.submit(self.graph.invoke, {"log": [name]}, on(), **options)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.go_on.set()
        self.pool.shutdown()


class WriterSuite(Suite):
    """Runs that meet on one thread (P8), holders that are gone or late (P9), threads that are deleted under a run (P10)."""

    # -- P8 -----------------------------------------------------------------------------------------------------------------------

    def test_P8_the_second_run_is_refused_by_the_name_of_the_first(self, saver: Any, coloured: Coloured) -> None:
        with Held(saver, coloured) as held:
            for given in ({"log": ["m2"]}, None):
                with pytest.raises(ThreadBusy, match="the-first") as caught:
                    held.graph.invoke(given, on())
                assert caught.value.holder["run_id"] == "the-first"
            with pytest.raises(ThreadBusy, match="the-first"):
                held.graph.update_state(on(), {"log": ["x"]})
            assert held.graph.get_state(on()).values == {"log": ["m1"]}, "reading needs no lease"
            held.go_on.set()
            assert held.result.result(20) == {"log": ["m1", "done"]}
        assert [each.metadata["step"] for each in held.graph.get_state_history(on())] == [1, 0, -1]

    def test_P8_those_that_wait_come_in_order(self, saver: Any, coloured: Coloured) -> None:
        with Held(saver, coloured) as held:
            waiting = []
            for n in range(6):
                waiting.append(held.later(f"w{n}", on_busy="wait"))
                while len(saver.line.waiting("t")) <= n:
                    time.sleep(0.001)
            held.go_on.set()
            for each in waiting:
                each.result(20)
        log = held.graph.get_state(on()).values["log"]
        assert log == ["m1", "done", *(word for n in range(6) for word in (f"w{n}", "done"))]
        assert saver.line.waiting("t") == []

    def test_P8_a_newcomer_does_not_overtake_though_the_thread_is_free(self, saver: Any, coloured: Coloured) -> None:
        graph = coloured(answering().compile(checkpointer=saver))
        with ThreadPoolExecutor(1) as pool:
            with saver.line.join("t", SYSTEM_CLOCK.monotonic()) as before:
                newcomer = pool.submit(graph.invoke, {"log": ["m1"]}, on(), on_busy="wait")
                while len(saver.line.waiting("t")) < 2:
                    time.sleep(0.001)
                for _ in range(10):
                    assert before.is_next(SYSTEM_CLOCK.monotonic())
                    time.sleep(0.005)
                assert graph.get_state(on()).values == {}
            assert newcomer.result(20) == {"log": ["m1", "done"]}

    def test_P8_waiting_has_a_limit(self, saver: Any, coloured: Coloured) -> None:
        with Held(saver, coloured) as held:
            for _ in range(2):
                with pytest.raises(ThreadBusy, match="the-first"):
                    held.graph.invoke({"log": ["m2"]}, on(), on_busy="wait", busy_timeout=0.02)
            second = held.later("m2", on_busy="wait", busy_timeout=0.05)
            third = held.later("m3", on_busy="wait", busy_timeout=20)
            with pytest.raises(ThreadBusy):
                second.result(20)
            held.go_on.set()
            assert third.result(20) == {"log": ["m1", "done", "m3", "done"]}
            for wrong in (-1, float("nan"), "soon"):
                with pytest.raises(InvalidConfig, match="busy_timeout"):
                    held.graph.invoke({"log": []}, on(), on_busy="wait", busy_timeout=wrong)

    def test_P8_ones_own_thread_is_self_busy_and_never_waited_for(self, saver: Any, coloured: Coloured, calls: Any) -> None:
        caught: list[Exception] = []
        graphs: list[Any] = []

        def node(state: Log) -> Any:
            tries: list[Callable[[], Any]] = [
                lambda: graphs[0].invoke({"log": []}, on(), on_busy="wait"),
                lambda: graphs[0].update_state(on(), {"log": ["x"]}),
                lambda: calls.delete_thread("t"),
            ]
            for attempt in tries:
                try:
                    attempt()
                except ThreadBusy as error:
                    caught.append(error)
            return {"log": ["a"]}

        graph = StateGraph(Log).add_node("a", node).add_edge(START, "a").compile(checkpointer=saver)
        graphs.append(coloured(graph))
        assert graphs[0].invoke({"log": []}, on()) == {"log": ["a"]}
        assert [type(error) for error in caught] == [SelfBusy] * 3

    # -- P9: clocks ---------------------------------------------------------------------------------------------------------------

    @pytest.mark.parametrize("skew", [HOUR, -HOUR, 1000 * HOUR])
    def test_P9_a_clock_that_is_wrong_takes_nothing_from_a_living_holder(
        self, saver: Any, coloured: Coloured, skew: int
    ) -> None:
        challenger, clock = elapsed(saver)
        clock.ns += skew * 10**9
        graph = coloured(answering().compile(checkpointer=challenger))
        with Held(saver, coloured) as held:
            for _ in range(2):
                with pytest.raises(ThreadBusy, match="the-first"):
                    graph.invoke({"log": ["m2"]}, on())
                with pytest.raises(ThreadBusy, match="the-first"):
                    graph.update_state(on(), {"log": ["m2"]}, as_node="a")
                clock.ns += skew * 10**9
            held.go_on.set()
            assert held.result.result(20) == {"log": ["m1", "done"]}
        assert graph.invoke({"log": ["m2"]}, on()) == {"log": ["m1", "done", "m2", "done"]}

    def test_P9_a_holder_whose_clock_is_wrong_holds_as_long_as_any(self, saver: Any, coloured: Coloured) -> None:
        holder, clock = elapsed(saver)
        clock.step_back(1000 * HOUR)
        graph = coloured(answering().compile(checkpointer=saver))
        with Held(holder, coloured) as held:
            with pytest.raises(ThreadBusy, match="the-first"):
                graph.invoke({"log": ["m2"]}, on())
            held.go_on.set()
            assert held.result.result(20) == {"log": ["m1", "done"]}

    @pytest.mark.parametrize("skew", [0, -HOUR, HOUR])
    def test_P9_a_holder_of_whom_nothing_is_heard_for_a_lease_is_taken_over(
        self, saver: Any, coloured: Coloured, skew: int
    ) -> None:
        coloured(answering().compile(checkpointer=saver)).invoke({"log": ["m1"]}, on())
        gone = Writer(Over(saver), holder=elsewhere(), lease_seconds=HOUR)
        gone.commit("take")
        challenger, clock = elapsed(saver, lease_seconds=30.0)
        clock.ns += skew * 10**9
        graph = coloured(answering().compile(checkpointer=challenger))
        for _ in range(2):
            with pytest.raises(ThreadBusy, match="far-away"):
                graph.invoke({"log": ["m2"]}, on())
            clock.advance(14)
        clock.advance(2)
        assert graph.invoke({"log": ["m2"]}, on()) == {"log": ["m1", "done", "m2", "done"]}
        with pytest.raises(LeaseLost):
            gone.commit("keep")

    def test_P9_waiting_notices_that_nothing_is_heard(self, saver: Any, coloured: Coloured) -> None:
        Writer(Over(saver), holder=elsewhere(), lease_seconds=HOUR).commit("take")
        challenger = with_records(saver, lambda records: records, lease_seconds=0.05)
        graph = coloured(answering().compile(checkpointer=challenger))
        assert graph.invoke({"log": ["m1"]}, on(), on_busy="wait", busy_timeout=50) == {"log": ["m1", "done"]}
        challenger.renewer.close()

    def test_P9_a_holder_proved_dead_is_taken_over_at_once_by_runs_edits_and_bare_puts(
        self, saver: Any, coloured: Coloured, calls: Any
    ) -> None:
        mine = identity.holder("dead", 0)
        if not mine.started:
            pytest.skip("this system does not tell when a process started")
        graph = coloured(answering().compile(checkpointer=saver))
        graph.invoke({"log": ["m1"]}, on())
        tip = graph.get_state(on()).config
        takes: list[Callable[[], Any]] = [
            lambda: graph.invoke({"log": ["m2"]}, on()),
            lambda: graph.update_state(on(), {"log": ["x"]}),
            lambda: calls.put_writes(tip, [("log", ["x"])], "task"),
        ]
        for take in takes:
            dead = Writer(
                Over(saver), holder=replace(mine, started="1"), lease_seconds=HOUR
            )  # its pid is another process's now
            dead.commit("take")
            take()
            with pytest.raises(LeaseLost):
                dead.commit("keep")

    # -- P9: renewal --------------------------------------------------------------------------------------------------------------

    @pytest.mark.parametrize("durability", ["sync", "async", "exit"])
    def test_P9_a_long_node_is_renewed_and_once_it_is_not_it_is_a_zombie(
        self, saver: Any, coloured: Coloured, durability: str
    ) -> None:
        challenger, clock = elapsed(saver)
        graph = coloured(answering().compile(checkpointer=challenger))
        with Held(saver, coloured, durability=durability) as held:
            for _ in range(3):
                with pytest.raises(ThreadBusy, match="the-first"):
                    graph.invoke({"log": ["m2"]}, on())
                saver.renewer.renew()
                clock.advance(saver.lease_seconds)
            with pytest.raises(ThreadBusy, match="the-first"):
                graph.invoke({"log": ["m2"]}, on())
            clock.advance(saver.lease_seconds)
            taken = graph.invoke({"log": ["m2"]}, on())
            history = [each.config for each in graph.get_state_history(on())]
            saver.renewer.renew()
            held.go_on.set()
            with pytest.raises(LeaseLost, match="took it over"):
                held.result.result(20)
        assert graph.get_state(on()).values == taken
        assert [each.config for each in graph.get_state_history(on())] == history, "nothing of the zombie's write is stored"
        assert lease_of(saver).token is None, "and it gave nothing back that was not its own"

    def test_P9_a_suspended_generator_is_not_renewed(self, saver: Any, coloured: Coloured) -> None:
        challenger, clock = elapsed(saver)
        builder = StateGraph(Log)
        builder.add_node("a", lambda state: {"log": ["a"]})
        builder.add_node("b", lambda state: {"log": ["b"]})
        builder.add_edge(START, "a").add_edge("a", "b")
        events = coloured(builder.compile(checkpointer=saver)).stream({"log": []}, on())
        assert next(events) == {"a": {"log": ["a"]}}
        held = lease_of(saver)
        assert held.token is not None
        saver.renewer.renew()
        assert lease_of(saver) == held
        graph = coloured(answering().compile(checkpointer=challenger))
        with pytest.raises(ThreadBusy):
            graph.invoke({"log": ["m2"]}, on())
        clock.advance(saver.lease_seconds)
        assert graph.invoke({"log": ["m2"]}, on())["log"][-2:] == ["m2", "done"]
        with pytest.raises(LeaseLost):
            list(events)

    def test_P9_a_generator_that_goes_on_in_time_is_renewed_again(self, saver: Any, coloured: Coloured) -> None:
        renewed: list[bool] = []
        builder = StateGraph(Log)
        builder.add_node("a", lambda state: {"log": ["a"]})

        def renews(state: Log) -> Any:
            before = lease_of(saver)
            saver.renewer.renew()
            renewed.append(lease_of(saver).mark != before.mark)
            return {"log": ["b"]}

        builder.add_node("b", renews)
        builder.add_edge(START, "a").add_edge("a", "b")
        events = coloured(builder.compile(checkpointer=saver)).stream({"log": []}, on())
        assert [*events] == [{"a": {"log": ["a"]}}, {"b": {"log": ["b"]}}]
        assert renewed == [True]
        assert not saver.renewer.renew(), "nothing is held any more"

    def test_P9_the_thread_that_renews_ends_with_its_saver(self, saver: Any, coloured: Coloured, calls: Any) -> None:
        before = {*threading.enumerate()}
        with Held(saver, coloured):
            renewing = [one for one in threading.enumerate() if one.name == "perdure-leases" and one not in before]
            assert len(renewing) == 1
            assert renewing[0].daemon, "it never keeps a process alive"
        calls.close()
        saver.renewer.close()  # where closing a saver keeps what it holds
        renewing[0].join(20)
        assert not renewing[0].is_alive()

    # -- P10 ----------------------------------------------------------------------------------------------------------------------

    @pytest.mark.parametrize("durability", ["sync", "async", "exit"])
    @pytest.mark.parametrize("again", [False, True])
    def test_P10_a_run_whose_thread_is_deleted_ends_and_nothing_reappears(
        self, saver: Any, coloured: Coloured, calls: Any, durability: str, again: bool
    ) -> None:
        graph = coloured(answering().compile(checkpointer=saver))
        with Held(saver, coloured, durability=durability) as held:
            calls.delete_thread("t")
            if again:
                graph.invoke({"log": ["new"]}, on())
            saver.renewer.renew()
            held.go_on.set()
            with pytest.raises(ThreadDeleted):
                held.result.result(20)
        if again:
            assert graph.get_state(on()).values == {"log": ["new", "done"]}
            assert len([*graph.get_state_history(on())]) == 3
        else:
            assert graph.get_state(on()).values == {}
            assert [*calls.list(on())] == []
            with pytest.raises(UnknownThread):
                graph.invoke(None, on())
