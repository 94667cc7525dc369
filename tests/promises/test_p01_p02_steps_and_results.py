"""P1: a super-step is one atomic commit. P2: a stored result is never computed again within its branch."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest

from perdure.checkpoint.records import ERROR, PAUSES, RESULT
from perdure.checkpoint.saver import Saver
from perdure.checkpoint.sqlite import SqliteSaver
from perdure.errors import InvalidUpdateError, NotStorable, SaveFailed
from perdure.graph import START, StateGraph
from perdure.types import Command, interrupt
from tests.promises.ways import Ledger, Log, Watch, Way, abreast, chain, kinds_of, on, open_saver, rows_of

# ---------------------------------------------------------------------------------------------------------------------- P1


def test_P1_a_step_of_one_task_is_one_commit_and_input_and_step_0_share_one(saver: Saver, way: Way, ledger: Ledger):
    watch = Watch(saver)
    graph = chain(("a", ledger.node("a")), ("b", ledger.node("b"))).compile(checkpointer=saver)
    way.invoke(graph, {"log": []}, on())
    assert watch.told == ["take input-1 loop0", "keep loop1 a:0", "release loop2 b:0"]
    heads = [commit.head for commit in watch.commits]
    assert heads == [commit.checkpoints[-1].n for commit in watch.commits], "the checkpoint becomes the head in its own commit"


def test_P1_a_failing_commit_leaves_the_step_before_and_nothing_of_its_own(saver: Saver, way: Way, ledger: Ledger):
    graph = chain(*((name, ledger.node(name)) for name in "abc")).compile(checkpointer=saver)
    watch = Watch(saver)
    watch.failing = {2}
    with pytest.raises(SaveFailed):
        way.invoke(graph, {"log": []}, on())
    rows = rows_of(saver)
    assert [row["step"] for row in rows["checkpoints"].values()] == [-1, 0, 1]
    assert kinds_of(saver, RESULT) == ["a"]
    assert way.state(graph, on()).next == ("b",)
    watch.mend()
    assert way.invoke(graph, None, on()) == {"log": ["a", "b", "c"]}
    assert ledger.ran == ["a", "b", "b", "c"]


@pytest.mark.parametrize("table", ["checkpoint", "write", "value", "thread"])
def test_P1_half_a_transaction_is_nothing(tmp_path: Path, way: Way, table: str):
    # The database itself refuses one row in the middle of the second step's transaction.
    path = tmp_path / "a.db"
    big = "x" * 5_000
    first = way.node(lambda state: {"log": [big]})
    second = way.node(lambda state: {"log": ["b"]})
    with SqliteSaver(path) as saver:
        graph = chain(("a", first), ("b", second)).compile(checkpointer=saver)
        way.invoke(graph, {"log": []}, on(), interrupt_before=["b"])
        before = rows_of(saver)
        moment = "UPDATE" if table == "thread" else "INSERT"
        connection = sqlite3.connect(path)
        connection.execute(f"CREATE TRIGGER refuse AFTER {moment} ON {table} BEGIN SELECT RAISE(ABORT, 'refused here'); END")
        connection.commit()
        with pytest.raises(SaveFailed, match="refused here"):
            way.invoke(graph, None, on())
        assert {**rows_of(saver), "thread": 0} == {**before, "thread": 0}
        connection.execute("DROP TRIGGER refuse")
        connection.commit()
        connection.close()
        assert way.invoke(graph, None, on())["log"] == [big, "b"]


def test_P1_writes_of_a_step_stay_as_history(saver: Saver, way: Way, ledger: Ledger):
    graph = chain(*((name, ledger.node(name)) for name in "ab")).compile(checkpointer=saver)
    way.invoke(graph, {"log": []}, on())
    assert kinds_of(saver, RESULT) == ["a", "b"]
    assert [snapshot.metadata["writes"] for snapshot in way.history(graph, on()) if snapshot.metadata] == [
        {"b": {"log": ["b"]}},
        {"a": {"log": ["a"]}},
        None,
        {"log": []},
    ]


# ---------------------------------------------------------------------------------------------------------------------- P2


def failing_once(ledger: Ledger, name: str) -> Any:
    def body() -> None:
        if ledger.ran.count(name) == 1:
            raise ConnectionError(f"{name} is down")

    return ledger.node(name, body)


def test_P2_good_results_of_a_failed_step_are_kept(saver: Saver, way: Way, ledger: Ledger):
    graph = abreast(("a", ledger.node("a")), ("b", failing_once(ledger, "b")), ("c", ledger.node("c"))).compile(
        checkpointer=saver
    )
    with pytest.raises(ConnectionError, match="b is down"):
        way.invoke(graph, {"log": []}, on())
    assert "b" in kinds_of(saver, ERROR)
    stored = kinds_of(saver, RESULT)
    assert way.invoke(graph, None, on()) == {"log": ["a", "b", "c"]}
    assert all(ledger.ran.count(name) == 1 for name in stored)
    assert ledger.ran.count("b") == 2


def test_P2_results_that_arrived_go_with_the_next_commit_and_the_last_with_the_checkpoint(saver: Saver, way: Way):
    import asyncio
    import threading

    # b and c wait until the result of the one before is stored, so each comes in a batch of its own.
    watch = Watch(saver)

    def stored(name: str) -> bool:
        return any(row.path == name for commit in watch.commits for row in commit.writes)

    def node(name: str, after: str | None) -> Any:
        if way.is_async:

            async def waits(state: Any) -> Any:
                while after is not None and not stored(after):  # noqa: ASYNC110 - what is waited for is no event of this loop
                    await asyncio.sleep(0.001)
                return {"log": [name]}

            return waits
        pulse = threading.Event()

        def waits_too(state: Any) -> Any:
            while after is not None and not stored(after):
                pulse.wait(0.001)
            return {"log": [name]}

        return waits_too

    graph = abreast(("a", node("a", None)), ("b", node("b", "a")), ("c", node("c", "b"))).compile(checkpointer=saver)
    assert way.invoke(graph, {"log": []}, on()) == {"log": ["a", "b", "c"]}
    assert watch.told == ["take input-1 loop0", "keep a:0", "keep b:0", "release loop1 c:0"]


def test_P2_if_applying_the_writes_fails_the_results_are_stored_first(saver: Saver, way: Way, ledger: Ledger):
    broken = [True]

    def merge(old: list[str], new: list[str]) -> list[str]:
        if broken[0] and new == ["b"]:
            raise ZeroDivisionError("the reducer is broken")
        return [*old, *new]

    class State(TypedDict):
        log: Annotated[list[str], merge]

    builder: StateGraph[Any, Any, Any, Any] = StateGraph(State)
    for name in "ab":
        builder.add_node(name, ledger.node(name))
        builder.add_edge(START, name)
    graph = builder.compile(checkpointer=saver)
    with pytest.raises(ZeroDivisionError):
        way.invoke(graph, {"log": []}, on())
    assert kinds_of(saver, RESULT) == ["a", "b"]
    broken[0] = False
    assert way.invoke(graph, None, on()) == {"log": ["a", "b"]}
    assert sorted(ledger.ran) == ["a", "b"], "only the mistake had to be mended"


def test_P2_the_same_for_a_step_of_one_task(saver: Saver, way: Way, ledger: Ledger):
    class State(TypedDict):
        log: str

    # Two writes of one node to a key that takes one.
    two = [True]

    def node(state: Any) -> Any:
        ledger.ran.append("a")
        return [Command(update={"log": "x"}), Command(update={"log": "y"})] if two[0] else {"log": "x"}

    builder: StateGraph[Any, Any, Any, Any] = StateGraph(State)
    builder.add_node("a", way.node(node))
    builder.add_edge(START, "a")
    graph = builder.compile(checkpointer=saver)
    with pytest.raises(InvalidUpdateError):
        way.invoke(graph, {"log": ""}, on())
    assert kinds_of(saver, RESULT) == ["a"]
    with pytest.raises(InvalidUpdateError):
        way.invoke(graph, None, on())
    assert ledger.ran == ["a"], "its result was good; it is not computed again"


def test_P2_a_result_that_cannot_be_stored_fails_its_task_only(saver: Saver, way: Way, ledger: Ledger):
    bad = [True]
    graph = abreast(
        ("a", ledger.node("a")),
        ("b", ledger.node("b", lambda: object() if bad[0] else "b")),
    ).compile(checkpointer=saver)
    with pytest.raises(NotStorable, match="node 'b'"):
        way.invoke(graph, {"log": []}, on())
    assert kinds_of(saver, RESULT) == ["a"]
    assert kinds_of(saver, ERROR) == ["b"]
    bad[0] = False
    assert way.invoke(graph, None, on()) == {"log": ["a", "b"]}
    assert ledger.ran.count("a") == 1


@pytest.mark.parametrize(
    ("does", "says"),
    [
        (
            lambda way, graph: way.invoke(graph, {"log": [{"deep": object()}]}, on()),
            'input[\'__start__\']["log"][0]["deep"] is a ',
        ),
        (lambda way, graph: way.edit(graph, on(), {"log": [object()]}), "update as '__start__'['log'][0] is a "),
        (lambda way, graph: way.invoke(graph, {"log": []}, on()), "update of node 'a'['log'][0][1] is a "),
    ],
    ids=["input", "edit", "node"],
)
def test_P30_a_value_that_cannot_be_stored_is_told_with_its_path_once(saver: Saver, way: Way, does: Any, says: str):
    graph = chain(("a", way.node(lambda _: {"log": [(1, object())]}))).compile(checkpointer=saver)
    with pytest.raises(NotStorable) as caught:
        does(way, graph)
    assert str(caught.value).startswith(says)
    assert (caught.value.key, caught.value.thread) == (says.removesuffix(" is a "), "t")


def test_P2_finished_siblings_of_a_pause_are_not_run_again(saver: Saver, way: Way, ledger: Ledger):
    graph = abreast(("a", ledger.node("a")), ("b", ledger.node("b", lambda: interrupt("?")))).compile(checkpointer=saver)
    way.invoke(graph, {"log": []}, on())
    assert (kinds_of(saver, RESULT), kinds_of(saver, PAUSES)) == (["a"], ["b"])
    assert way.invoke(graph, Command(resume="yes"), on()) == {"log": ["a", "yes"]}
    assert ledger.ran.count("a") == 1


def test_P2_stored_results_hold_in_a_new_process(way: Way, ledger: Ledger, tmp_path: Path):
    # As far as one process can play two: another saver, another graph object, nothing shared but the file.
    def graph(saver: Saver) -> Any:
        return abreast(("a", ledger.node("a")), ("b", failing_once(ledger, "b"))).compile(checkpointer=saver)

    with open_saver("sqlite", tmp_path) as first, pytest.raises(ConnectionError):
        way.invoke(graph(first), {"log": []}, on())
    with open_saver("sqlite", tmp_path) as second:
        stored = kinds_of(second, RESULT)
        assert way.invoke(graph(second), None, on()) == {"log": ["a", "b"]}
    assert all(ledger.ran.count(name) == 1 for name in stored)


def test_P2_the_idempotency_key_is_one_task_over_retry_and_resume_and_another_in_a_fork(saver: Saver, way: Way):
    from perdure.runtime import Runtime
    from perdure.types import RetryPolicy

    keys: list[str] = []

    def node(state: Log, runtime: Runtime[Any]) -> Any:
        keys.append(runtime.idempotency_key)
        if len(keys) < 4:
            raise ConnectionError
        return {"log": ["a"]}

    builder: StateGraph[Any, Any, Any, Any] = StateGraph(Log)
    builder.add_node("a", way.node(node), retry_policy=RetryPolicy(initial_interval=0.001, jitter=False, max_attempts=2))
    builder.add_edge(START, "a")
    graph = builder.compile(checkpointer=saver)
    with pytest.raises(ConnectionError):
        way.invoke(graph, {"log": []}, on())
    way.invoke(graph, None, on())
    assert (len(keys), len(set(keys))) == (4, 1)
    start = next(s for s in way.history(graph, on()) if s.next == ("a",))
    way.invoke(graph, None, start.config)
    assert len(set(keys)) == 2
