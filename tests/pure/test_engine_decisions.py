"""The pure decisions: what follows a super-step, what a call means, whether a failure is followed by another attempt."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from perdure.constants import START
from perdure.engine.deciding import decide
from perdure.engine.deciding.live import Live
from perdure.engine.deciding.plan import next_move, tasks_of
from perdure.engine.deciding.retry import matching, pause_before_next
from perdure.engine.running.run import Run
from perdure.errors import AmbiguousAnswer, EmptyInputError, InvalidUpdateError, MissingNode, UnknownInterruptError
from perdure.graph import StateGraph
from perdure.runtime import RunControl
from perdure.types import Command, Interrupt, RetryPolicy, Send, default_retry_on


def run_of(*names: str, **settings: Any) -> Run:
    graph: Any = StateGraph(int)
    for name in names:
        graph.add_node(name, lambda n: n)
    runner: Any = SimpleNamespace(lock=None)
    run = Run(graph.add_edge(START, names[0]).compile(name="g").program, {}, runner, **settings)
    run.live = Live(run.program)
    run.live.step = 0
    return run


# -- plan -----------------------------------------------------------------------------------------------------------------


def test_tasks_are_sends_by_position_then_nodes_by_name() -> None:
    run = run_of("b", "a", "c")
    run.live.fired = {"c": (3, ("x",)), "a": (2, ("y",))}
    run.live.sends = [Send("b", 1), Send("a", 2), Send("b", 3)]
    run.live.open_sends = {0: 5, 2: 5}
    tasks = tasks_of(run)
    assert [(task.path, task.node.name, task.origin) for task in tasks] == [
        ("#0", "b", 5),
        ("#2", "b", 5),
        ("a", "a", 2),
        ("c", "c", 3),
    ]
    assert [task.public_path for task in tasks[:3]] == [
        ("__pregel_push", 0, False),
        ("__pregel_push", 2, False),
        ("__pregel_pull", "a"),
    ]
    assert [task.path for task in sorted(tasks, key=lambda task: task.sort_key)] == ["a", "c", "#0", "#2"]
    assert len({task.id for task in tasks}) == 4


def test_the_id_of_a_task_depends_on_where_it_was_triggered_only() -> None:
    run = run_of("a")
    run.run_id = "r"
    run.live.fired = {"a": (2, ("y",))}
    first = tasks_of(run)[0].id
    run.live.step = 9
    assert tasks_of(run)[0].id == first
    run.live.fired = {"a": (3, ("y",))}
    assert tasks_of(run)[0].id != first


@pytest.mark.parametrize("send", [False, True])
def test_a_task_of_a_node_that_is_gone_says_so(send: bool) -> None:
    run = run_of("a")
    if send:
        run.live.sends, run.live.open_sends = [Send("gone", 1)], {0: 1}
    else:
        run.live.fired = {"gone": (1, ())}
    with pytest.raises(MissingNode, match="'gone', which graph 'g' does not have"):
        tasks_of(run)


def test_what_follows_a_step() -> None:
    run = run_of("a", "b")
    assert next_move(run, ["a"]) == "done"
    run.live.fired = {"b": (1, ())}
    assert next_move(run, ["a"]) == "go"
    run.last_step = 0
    assert next_move(run, ["a"]) == "limit"
    run.control = RunControl()
    assert next_move(run, ["a"]) == "limit"
    run.control.request_drain()
    assert next_move(run, ["a"]) == "drain"
    run.break_before = ("b",)
    assert next_move(run, ["a"]) == "break"
    run.break_before, run.break_after = (), ("a",)
    assert next_move(run, ["a"]) == "break"
    assert next_move(run, ["b"]) == "drain"
    run.break_after = "*"
    assert next_move(run, ["b"]) == "break"
    assert next_move(run, []) == "drain", "the start of a run comes after no node"
    run.live.fired = {}
    assert next_move(run, ["a"]) == "done", "a run that is over has reached nothing"


# -- decide ---------------------------------------------------------------------------------------------------------------

ONE, TWO = Interrupt("q1", "1" * 32), Interrupt("q2", "2" * 32)


def route(resume: Any, *pending: Interrupt, at_breakpoint: bool = False) -> dict[str, Any]:
    return decide.route(resume, pending, at_breakpoint=at_breakpoint, thread="t")


@pytest.mark.parametrize("answer", ["x", None, False, 0, "", {}, [], {"a": 1}, {"1" * 31: 1}, {1: 2}, {"G" * 32: 1}], ids=repr)
def test_P13_P15_a_bare_answer_goes_to_the_one_question(answer: Any) -> None:
    assert route(answer, ONE) == {ONE.id: answer}


def test_P13_a_map_goes_by_ids() -> None:
    assert route({ONE.id: None}, ONE, TWO) == {ONE.id: None}
    assert route({TWO.id: 2, ONE.id: 1}, ONE, TWO) == {ONE.id: 1, TWO.id: 2}


def test_P13_wrong_answers() -> None:
    with pytest.raises(AmbiguousAnswer) as ambiguous:
        route("x", ONE, TWO)
    assert (ambiguous.value.reason, ambiguous.value.pending_ids, ambiguous.value.thread) == ("ambiguous", (ONE.id, TWO.id), "t")
    with pytest.raises(UnknownInterruptError) as unknown:
        route({TWO.id: 2}, ONE)
    assert (unknown.value.reason, unknown.value.interrupt_ids, unknown.value.pending_ids) == (
        "not_pending",
        (TWO.id,),
        (ONE.id,),
    )
    for resume in ("x", {ONE.id: 1}):
        with pytest.raises(UnknownInterruptError):
            route(resume)
    with pytest.raises(UnknownInterruptError):
        route({ONE.id: 1}, at_breakpoint=True)
    assert route("x", at_breakpoint=True) == {}


def test_commands_that_a_caller_cannot_give() -> None:
    with pytest.raises(InvalidUpdateError, match="no parent graph"):
        decide.check_command(Command(graph=Command.PARENT), saver=True)
    with pytest.raises(RuntimeError, match="without checkpointer"):
        decide.check_command(Command(resume=None), saver=False)
    with pytest.raises(EmptyInputError, match="empty Command"):
        decide.check_command(Command(), saver=True)
    with pytest.raises(EmptyInputError, match="empty Command"):
        decide.check_command(Command(goto=[]), saver=True)
    for command in (Command[Any](resume=None), Command[Any](update={}), Command[Any](goto="a")):
        decide.check_command(command, saver=True)


# -- retry ----------------------------------------------------------------------------------------------------------------


def test_the_first_matching_policy_counts() -> None:
    keys, lookups = RetryPolicy(retry_on=KeyError), RetryPolicy(retry_on=(LookupError,))
    some = RetryPolicy(retry_on=lambda error: "again" in str(error))
    policies = [keys, lookups, some]
    assert matching(policies, KeyError()) is keys
    assert matching(policies, IndexError()) is lookups
    assert matching(policies, ValueError("again")) is some
    assert matching(policies, ValueError("no")) is None
    assert matching([], KeyError()) is None


def test_pauses_grow_up_to_their_limit() -> None:
    policy = RetryPolicy(
        initial_interval=1, backoff_factor=3, max_interval=10, max_attempts=6, jitter=False, retry_on=Exception
    )
    pauses = [pause_before_next([policy], ValueError(), failures, 0.5) for failures in range(1, 7)]
    assert pauses == [1, 3, 9, 10, 10, None]


def test_jitter_adds_up_to_a_second() -> None:
    policy = RetryPolicy(initial_interval=1, retry_on=Exception)
    assert pause_before_next([policy], ValueError(), 1, 0.25) == 1.25
    assert pause_before_next([policy], ValueError(), 2, 0.0) == 2.0


def test_the_policy_that_matches_now_counts_all_failures() -> None:
    policies = [RetryPolicy(retry_on=KeyError, max_attempts=2), RetryPolicy(retry_on=LookupError, max_attempts=5)]
    assert pause_before_next(policies, IndexError(), 3, 0) is not None
    assert pause_before_next(policies, KeyError(), 3, 0) is None


class HTTPError(Exception):
    """As requests has it."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.response = SimpleNamespace(status_code=status)


@pytest.mark.parametrize(
    ("error", "passing"),
    [
        (ConnectionError(), True),
        (ConnectionResetError(), True),
        (Exception("who knows"), True),
        (ValueError(), False),
        (TypeError(), False),
        (ZeroDivisionError(), False),
        (ImportError(), False),
        (KeyError(), False),
        (NameError(), False),
        (SyntaxError(), False),
        (RuntimeError(), False),
        (FileNotFoundError(), False),
        (StopIteration(), False),
        (HTTPError(500), True),
        (HTTPError(503), True),
        (HTTPError(404), False),
    ],
    ids=repr,
)
def test_what_looks_passing_by_default(error: Exception, passing: bool) -> None:
    assert default_retry_on(error) is passing
