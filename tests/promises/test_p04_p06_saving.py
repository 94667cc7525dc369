"""P4: a failed save is never reported as success. P6: "exit" loses only what it says."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import pytest

from perdure.checkpoint.records import ERROR, RESULT
from perdure.checkpoint.saver import Saver
from perdure.errors import GraphRecursionError, InvalidConfig, SaveFailed, UnknownThread
from perdure.graph import START, StateGraph
from perdure.types import Command, Send, interrupt
from tests.promises.ways import Ledger, Log, Watch, Way, abreast, chain, kinds_of, on, open_saver, orphans, rows_of

Durability = Literal["sync", "async", "exit"]


def line(ledger: Ledger, saver: Saver, names: str = "abcd") -> Any:
    return chain(*((name, ledger.node(name)) for name in names)).compile(checkpointer=saver)


def steps(saver: Saver) -> list[int]:
    return [row["step"] for row in rows_of(saver)["checkpoints"].values()]


# ---------------------------------------------------------------------------------------------------------------------- P4


def test_P4_sync_no_node_starts_after_a_failed_save(saver: Saver, way: Way, ledger: Ledger):
    graph = line(ledger, saver)
    watch = Watch(saver)
    watch.failing = {2}  # the checkpoint after b
    with pytest.raises(SaveFailed, match="No space left") as caught:
        way.invoke(graph, {"log": []}, on(), durability="sync")
    assert caught.value.__cause__ is watch.error
    assert (caught.value.thread, caught.value.code) == ("t", "SAVE_FAILED")
    assert ledger.ran == ["a", "b"]
    assert steps(saver) == [-1, 0, 1]


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_P4_nothing_starts_where_the_first_save_fails(saver: Saver, way: Way, ledger: Ledger, durability: Durability):
    graph = line(ledger, saver)
    Watch(saver).failing_from = 0
    with pytest.raises(SaveFailed):
        way.invoke(graph, {"log": []}, on(), durability=durability)
    assert ledger.ran == []


def test_P4_async_one_step_runs_past_the_last_durable_one(saver: Saver, way: Way, ledger: Ledger):
    graph = line(ledger, saver)
    watch = Watch(saver)
    watch.failing = {2}
    events: list[Any] = []
    with pytest.raises(SaveFailed, match="No space left"):
        way.stream(graph, {"log": []}, on(), durability="async", into=events)
    assert ledger.ran in (["a", "b"], ["a", "b", "c"]), "the step after b may have run, the one after that may not"
    assert {"c": {"log": ["c"]}} not in events, "nothing of the step that was discarded is told"
    assert steps(saver) == [-1, 0, 1]
    assert way.state(graph, on()).next == ("b",)
    assert orphans(saver) == []
    watch.mend()
    assert way.invoke(graph, None, on()) == {"log": list("abcd")}


@pytest.mark.parametrize("failing", range(7))
def test_P4_async_fails_at_any_commit_and_leaves_whole_records(saver: Saver, way: Way, ledger: Ledger, failing: int):
    builder: StateGraph[Any, Any, Any, Any] = StateGraph(Log)
    for name in "abcdef":
        builder.add_node(name, ledger.node(name))
    builder.add_edge(START, "a")
    for name in "bcd":
        builder.add_edge("a", name)
    builder.add_edge(["b", "c", "d"], "e")
    builder.add_edge("e", "f")
    graph = builder.compile(checkpointer=saver)
    watch = Watch(saver)
    watch.failing = {failing}
    stored_before: list[str] = []
    try:
        way.invoke(graph, {"log": []}, on(), durability="async")
    except SaveFailed:
        watch.mend()
        stored_before = kinds_of(saver, RESULT)
        assert failing == 0 or orphans(saver) == []
        assert kinds_of(saver, ERROR) == [], "no task is blamed for what the database did"
        way.invoke(graph, None if steps(saver) else {"log": []}, on())
    else:
        assert failing >= len(watch.commits), "a failed save was reported as success"
    assert way.state(graph, on()).values == {"log": list("abcdef")}
    assert orphans(saver) == []
    assert all(ledger.ran.count(name) == 1 for name in stored_before)


@pytest.mark.parametrize("durability", ["sync", "async"])
def test_P4_every_later_save_fails_too(saver: Saver, way: Way, ledger: Ledger, durability: Durability):
    graph = line(ledger, saver)
    watch = Watch(saver)
    watch.failing_from = 1
    with pytest.raises(SaveFailed):
        way.invoke(graph, {"log": []}, on(), durability=durability)
    assert ledger.ran in (["a"], ["a", "b"])
    assert way.state(graph, on()).next == ("a",)


def test_P4_async_the_last_save_is_waited_for(saver: Saver, way: Way, ledger: Ledger):
    graph = line(ledger, saver, "ab")
    watch = Watch(saver)
    watch.failing = {2}
    with pytest.raises(SaveFailed):
        way.invoke(graph, {"log": []}, on(), durability="async")
    assert way.state(graph, on()).next == ("b",)


def test_P4_exit_raises_at_the_end(saver: Saver, way: Way, ledger: Ledger):
    graph = line(ledger, saver)
    watch = Watch(saver)
    watch.failing_from = 1  # the first takes the lease
    with pytest.raises(SaveFailed):
        way.invoke(graph, {"log": []}, on(), durability="exit")
    assert ledger.ran == list("abcd")
    assert steps(saver) == []


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_P4_a_failed_save_frees_the_thread(saver: Saver, way: Way, ledger: Ledger, durability: Durability):
    graph = line(ledger, saver)
    watch = Watch(saver)
    watch.failing = {1}
    with pytest.raises(SaveFailed):
        way.invoke(graph, {"log": []}, on(), durability=durability)
    watch.mend()
    again: Any = None if steps(saver) else {"log": []}
    assert way.invoke(graph, again, on())["log"] == list("abcd")


def test_P4_a_pause_that_could_not_be_saved_is_an_error(saver: Saver, way: Way, ledger: Ledger):
    graph = chain(("a", ledger.node("a", lambda: interrupt("?")))).compile(checkpointer=saver)
    watch = Watch(saver)
    watch.failing = {1}
    with pytest.raises(SaveFailed):
        way.invoke(graph, {"log": []}, on())
    watch.mend()
    assert way.state(graph, on()).interrupts == ()
    assert way.invoke(graph, None, on())["__interrupt__"][0].value == "?"


def test_P4_an_answer_that_could_not_be_saved_is_still_awaited(saver: Saver, way: Way, ledger: Ledger):
    graph = chain(("a", ledger.node("a", lambda: interrupt("?")))).compile(checkpointer=saver)
    way.invoke(graph, {"log": []}, on())
    watch = Watch(saver)
    watch.failing = {0}
    with pytest.raises(SaveFailed):
        way.invoke(graph, Command(resume="x"), on())
    watch.mend()
    assert [pause.value for pause in way.state(graph, on()).interrupts] == ["?"]
    assert way.invoke(graph, Command(resume="y"), on()) == {"log": ["y"]}


def test_P4_an_edit_that_could_not_be_saved_is_an_error(saver: Saver, way: Way, ledger: Ledger):
    graph = line(ledger, saver, "a")
    way.invoke(graph, {"log": []}, on())
    watch = Watch(saver)
    watch.failing = {0}
    with pytest.raises(SaveFailed):
        way.edit(graph, on(), {"log": ["x"]})
    watch.mend()
    assert way.state(graph, on()).values == {"log": ["a"]}


def test_P4_durability_is_one_of_three(saver: Saver, way: Way, ledger: Ledger):
    graph = line(ledger, saver)
    with pytest.raises(InvalidConfig, match="'sync', 'async', 'exit'"):
        way.invoke(graph, {"log": []}, on(), durability="later")


# ---------------------------------------------------------------------------------------------------------------------- P6


def test_P6_exit_stores_one_checkpoint_at_the_end(saver: Saver, way: Way, ledger: Ledger):
    watch = Watch(saver)
    graph = line(ledger, saver)
    assert way.invoke(graph, {"log": ["in"]}, on(), durability="exit") == {"log": ["in", *"abcd"]}
    assert len(watch.commits) == 2, "one takes the thread, one stores"
    assert [snapshot.values for snapshot in way.history(graph, on())] == [{"log": ["in", *"abcd"]}]
    assert way.invoke(graph, {"log": ["more"]}, on(), durability="exit")["log"] == ["in", *"abcd", "more", *"abcd"]
    assert len(way.history(graph, on())) == 2


def test_P6_exit_keeps_a_pause(saver: Saver, way: Way, ledger: Ledger):
    graph = chain(("a", ledger.node("a")), ("b", ledger.node("b", lambda: interrupt("?")))).compile(checkpointer=saver)
    result = way.invoke(graph, {"log": []}, on(), durability="exit")
    pause = result["__interrupt__"][0]
    assert way.state(graph, on()).interrupts == (pause,)
    assert way.invoke(graph, Command(resume={pause.id: "yes"}), on(), durability="exit") == {"log": ["a", "yes"]}
    assert ledger.ran == ["a", "b", "b"]


def test_P6_exit_keeps_what_a_failed_run_had(saver: Saver, way: Way, ledger: Ledger):
    down = [True]

    def body() -> None:
        if down[0]:
            raise ConnectionError("down")

    graph = chain(("a", ledger.node("a")), ("b", ledger.node("b", body)), ("c", ledger.node("c"))).compile(checkpointer=saver)
    with pytest.raises(ConnectionError):
        way.invoke(graph, {"log": []}, on(), durability="exit")
    assert way.state(graph, on()).next == ("b",)
    down[0] = False
    assert way.invoke(graph, None, on()) == {"log": ["a", "b", "c"]}
    assert ledger.ran == ["a", "b", "b", "c"]


def test_P6_exit_keeps_a_finished_sibling_of_a_pause(saver: Saver, way: Way, ledger: Ledger):
    graph = abreast(("a", ledger.node("a")), ("b", ledger.node("b", lambda: interrupt("?")))).compile(checkpointer=saver)
    way.invoke(graph, {"log": []}, on(), durability="exit")
    assert way.invoke(graph, Command(resume="x"), on(), durability="exit") == {"log": ["a", "x"]}
    assert ledger.ran.count("a") == 1


def test_P6_exit_keeps_the_recursion_limits_state(saver: Saver, way: Way, ledger: Ledger):
    graph = line(ledger, saver)
    with pytest.raises(GraphRecursionError):
        way.invoke(graph, {"log": []}, {**on(), "recursion_limit": 2}, durability="exit")
    assert way.state(graph, on()).next == ("c",)
    assert way.invoke(graph, None, on()) == {"log": list("abcd")}


def test_P6_exit_keeps_a_task_that_waited_since_a_step_that_is_not_kept(saver: Saver, way: Way, ledger: Ledger):
    # A deferred node is triggered by a, runs after c, and pauses: its identity comes from the step after a.
    builder: StateGraph[Any, Any, Any, Any] = StateGraph(Log)
    for name in "abc":
        builder.add_node(name, ledger.node(name))
    builder.add_node("d", ledger.node("d", lambda: interrupt("?")), defer=True)
    for source, target in ((START, "a"), ("a", "b"), ("b", "c"), ("a", "d")):
        builder.add_edge(source, target)
    graph = builder.compile(checkpointer=saver)
    pause = way.invoke(graph, {"log": []}, on(), durability="exit")["__interrupt__"][0]
    assert way.state(graph, on()).interrupts == (pause,)
    assert way.invoke(graph, Command(resume={pause.id: "d"}), on()) == {"log": list("abcd")}
    assert ledger.ran == list("abcdd")
    assert orphans(saver) == []


def test_P6_exit_keeps_large_values_and_sends(saver: Saver, way: Way, ledger: Ledger):
    big = "x" * 3_000
    builder: StateGraph[Any, Any, Any, Any] = StateGraph(Log)
    builder.add_node("a", ledger.node("a", lambda: big))
    builder.add_node(
        "work", way.node(lambda given: {"log": [interrupt(given["at"]) if given["at"] == 1 else f"{given['at']}" * 3_000]})
    )
    builder.add_edge(START, "a")
    builder.add_conditional_edges("a", lambda state: [Send("work", {"at": at}) for at in range(3)], ["work"])
    graph = builder.compile(checkpointer=saver)
    way.invoke(graph, {"log": []}, on(), durability="exit")
    assert way.invoke(graph, Command(resume="one"), on(), durability="exit")["log"] == [big, "0" * 3_000, "one", "2" * 3_000]


def test_P6_exit_can_start_again_from_the_last_saved_checkpoint(way: Way, tmp_path: Path):
    # Died in the middle: what was saved before is there, and the input has to be given again.
    ledger = Ledger(way)
    with open_saver("sqlite", tmp_path) as saver:
        graph = line(ledger, saver, "ab")
        way.invoke(graph, {"log": ["1"]}, on(), durability="exit")
        watch = Watch(saver)
        watch.failing_from = 1
        with pytest.raises(SaveFailed):
            way.invoke(graph, {"log": ["2"]}, on(), durability="exit")
    with open_saver("sqlite", tmp_path) as saver:
        graph = line(ledger, saver, "ab")
        assert way.state(graph, on()).values == {"log": ["1", "a", "b"]}
        assert way.invoke(graph, {"log": ["2"]}, on(), durability="exit")["log"] == ["1", "a", "b", "2", "a", "b"]


def test_P6_exit_of_a_first_run_that_died_leaves_a_thread_without_state(saver: Saver, way: Way, ledger: Ledger):
    graph = line(ledger, saver, "ab")
    watch = Watch(saver)
    watch.failing_from = 1
    with pytest.raises(SaveFailed):
        way.invoke(graph, {"log": []}, on(), durability="exit")
    watch.mend()
    assert way.state(graph, on()).values == {}
    with pytest.raises(UnknownThread):
        way.invoke(graph, None, on())
    assert way.invoke(graph, {"log": []}, on())["log"] == ["a", "b"]
