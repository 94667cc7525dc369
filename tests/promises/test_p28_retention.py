"""P28: retention takes away what nobody needs, and nothing else. (S17)"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from perdure.checkpoint.retention import Pruned
from perdure.checkpoint.saver import Saver
from perdure.errors import InvalidConfig, SaveFailed, UnknownBranch, UnknownCheckpoint
from perdure.testing.faults import FailingRecords, with_records
from perdure.types import Command, interrupt
from tests.promises.retaining import chat, id_of, prune, sound, turns, working
from tests.promises.test_p21_memories import calling, counter
from tests.promises.travelling import Seen, side_by_side
from tests.promises.ways import Ledger, Log, Way, chain, on, rows_of

# -- what stays -------------------------------------------------------------------------------------------------------------------


def test_S17_P28_pruning_a_paused_thread_does_not_repeat_finished_work(way: Way, saver: Saver, ledger: Ledger, tmp_path: Path):
    asking = [False]
    graph = working(way, saver, ledger, asks=lambda: asking[0])
    for thread in ("t", "whole"):
        asking[0] = False
        for _ in range(10):
            way.invoke(graph, {"log": ["turn " * 300]}, on(thread))
        side = way.history(graph, on(thread))[8]
        way._do(graph, "name_branch", side.config, "side")
        asking[0] = True
        ledger.ran.clear()
        way.invoke(graph, {"log": ["last turn"]}, on(thread))
    assert sorted(ledger.ran) == ["first", "second", "third"]
    named = way.state(graph, on(branch="side"))

    before = rows_of(saver)
    counted = prune(way, saver, keep_last=1, thread="t", dry_run=True)
    assert rows_of(saver) == before
    pruned = prune(way, saver, keep_last=1, thread="t")
    assert pruned == counted
    assert (pruned.threads, pruned.busy) == (1, ())
    assert pruned.checkpoints > 20
    assert pruned.bytes > 1000

    history = way.history(graph, on())
    assert len(history) == 1 + 1
    assert way.state(graph, on(branch="side"))._replace(parent_config=None) == named._replace(parent_config=None)
    sound(way, saver)

    ledger.ran.clear()
    ends = [way.invoke(graph, Command(resume="yes"), on(thread)) for thread in ("t", "whole")]
    assert ends[0] == ends[1]
    assert ledger.ran == ["third", "third"], "once in each thread"
    sound(way, saver)
    assert len(way.history(graph, on("whole"))) > 30, "the other thread was not meant"


@pytest.mark.parametrize("batch", [1, 4, 1000])
def test_P28_a_long_thread_goes_on_as_if_nothing_had_been_taken_away(way: Way, saver: Saver, batch: int):
    graph = chat(way, saver)
    turns(way, graph, 30)
    before = {id_of(one.config): one for one in way.history(graph, on())}
    assert prune(way, saver, keep_last=5, batch=batch).checkpoints == len(before) - 5
    after = way.history(graph, on())
    assert len(after) == 5
    for at, one in enumerate(after):
        was = before[id_of(one.config)]
        assert one._replace(parent_config=None) == was._replace(parent_config=None)
        assert one.parent_config == (was.parent_config if at < 4 else None)
    assert prune(way, saver, keep_last=5) == Pruned(1)
    sound(way, saver)
    turns(way, graph, 1)
    assert len(way.state(graph, on()).values["log"]) == 62
    assert len(way.invoke(graph, {"log": ["fork"]}, after[3].config)["log"]) > 50
    sound(way, saver)


def test_P28_ancestors_that_were_kept_are_still_the_ancestors(way: Way, saver: Saver):
    graph = chat(way, saver)
    turns(way, graph, 4)
    old = way.history(graph, on())[6]
    way._do(saver, "pin", old.config, "before")
    prune(way, saver, keep_last=2)
    newest, second, pinned = way.history(graph, on())
    assert newest.parent_config == second.config
    assert second.parent_config == pinned.config == old.config
    assert pinned.parent_config is None
    assert pinned.values == old.values
    assert way.invoke(graph, {"log": ["again"]}, pinned.config)["log"][-2] == "again"


def test_P28_a_pin_is_held_until_it_is_taken_away(way: Way, saver: Saver):
    graph = chat(way, saver)
    turns(way, graph, 3)
    old = way.history(graph, on())[4].config
    assert way._do(saver, "pin", old, "audit") == on(branch="audit")
    assert way._do(saver, "pin", old, "audit") == on(branch="audit")
    with pytest.raises(InvalidConfig, match="audit"):
        way._do(saver, "pin", on(), "audit")
    with pytest.raises(UnknownCheckpoint):
        way._do(saver, "pin", on("nobody"), "audit")
    with pytest.raises(InvalidConfig, match="root graph"):
        way._do(saver, "pin", on(checkpoint_ns="sub:1"), "audit")
    with pytest.raises(InvalidConfig, match="name of a branch"):
        way._do(saver, "pin", old, "")
    prune(way, saver, keep_last=1)
    assert [id_of(one.config) for one in way.history(graph, on())][1:] == [id_of(old)]
    assert [*way._do(graph, "branches", on())] == ["audit"]
    way._do(saver, "unpin", "t", "audit")
    with pytest.raises(UnknownBranch, match="audit"):
        way._do(saver, "unpin", "t", "audit")
    prune(way, saver, keep_last=1)
    assert len(way.history(graph, on())) == 1


def test_P28_a_name_given_after_a_killed_prune_takes_up_what_the_tasks_left_and_one_given_before_begins_anew(
    way: Way, saver: Saver, ledger: Ledger
):
    graph = chain(*((name, ledger.node(name)) for name in "abc")).compile(checkpointer=saver)
    for thread, named_first in (("before", True), ("after", False)):
        way.invoke(graph, {"log": []}, on(thread))
        (old,) = (one.config for one in way.history(graph, on(thread)) if one.next == ("b",))
        if named_first:
            way._do(saver, "pin", old, "name")
        killed = with_records(saver, lambda records: FailingRecords(records, fail_on={3}))
        with pytest.raises(SaveFailed):
            prune(way, killed, keep_last=1, thread=thread, batch=1)
        if not named_first:
            assert [one.next for one in way.history(graph, on(thread))] == [(), ("b",), ("a",), ("__start__",)]
            way._do(saver, "pin", old, "name")
        prune(way, saver, keep_last=1, thread=thread)
        sound(way, saver, thread)
        there = way.state(graph, on(thread, branch="name"))
        assert there.values["log"] == (["a"] if named_first else ["a", "b"])
        ledger.ran.clear()
        assert way.invoke(graph, None, on(thread, branch="name"))["log"] == ["a", "b", "c"]
        assert ledger.ran == (["b", "c"] if named_first else ["c"])
        sound(way, saver, thread)


def test_P28_an_open_question_that_nothing_was_made_of_stays_though_it_is_on_no_branch(way: Way, saver: Saver, ledger: Ledger):
    graph = working(way, saver, ledger, asks=lambda: True)
    way.invoke(graph, {"log": ["a"]}, on())
    asked, started = way.history(graph, on())[0], way.history(graph, on())[-1]
    way.edit(graph, started.config, {"log": ["elsewhere"]}, as_node="first")  # the thread goes on elsewhere
    for _ in range(3):
        way.edit(graph, on(), {"log": ["more"]}, as_node="first")
    prune(way, saver, keep_last=1)
    assert [one.values["log"] for one in way.history(graph, on())][1:] == [asked.values["log"]]
    answered = way.invoke(graph, Command(resume={asked.interrupts[0].id: "yes"}), asked.config)
    assert answered["log"][-1] == "third yes"
    sound(way, saver)


def test_P28_what_a_task_waits_for_stays_where_it_was_triggered(way: Way, saver: Saver, ledger: Ledger):
    """An edit leaves the tasks open. Their ids are made of the checkpoint before it, which so stays with it."""
    graph = working(way, saver, ledger, asks=lambda: True)
    way.invoke(graph, {"log": ["a"]}, on())
    for at in range(4):
        way.edit(graph, on(), {"log": [f"edit {at}"]}, as_node=None)
    paused = way.state(graph, on())
    prune(way, saver, keep_last=1)
    assert len(way.history(graph, on())) == 2
    assert way.state(graph, on()).tasks == paused.tasks
    ledger.ran.clear()
    assert way.invoke(graph, Command(resume="yes"), on())["log"][-1] == "third yes"
    assert ledger.ran == ["third"]


def test_P28_a_thread_that_is_held_is_left_alone_and_named(way: Way, saver: Saver):
    seen: list[Pruned] = []

    def look(state: Log) -> Any:
        # On a thread of its own: a sync call inside of a loop would block it.
        found = threading.Thread(target=lambda: seen.append(saver.prune(keep_last=1)))
        found.start()
        found.join(20)
        return {"log": ["b"]}

    free = chat(way, saver)
    turns(way, free, 3, "free")
    graph = chain(("a", way.node(look)), ("b", way.node(lambda state: {"log": ["c"]}))).compile(checkpointer=saver)
    way.invoke(graph, {"log": ["in"]}, on())
    first = seen[0]
    assert first.busy == ("t",)
    assert first.checkpoints == 8, "those of the other thread"
    assert way.state(graph, on()).values["log"] == ["in", "b", "c"]
    assert prune(way, saver, keep_last=1, thread="t").checkpoints == 3
    sound(way, saver)


# -- subgraphs --------------------------------------------------------------------------------------------------------------------


def test_P28_what_a_subgraph_remembers_stays_and_its_old_checkpoints_go(way: Way, saver: Saver):
    graph = side_by_side(Seen, call=calling(way, counter(way))).compile(checkpointer=saver)
    for count in range(1, 6):
        assert way.invoke(graph, {"seen": []}, on())["seen"] == [*range(1, count + 1)]
    first = next(one for one in reversed(way.history(graph, on())) if not one.next)
    way._do(saver, "pin", first.config, "first")
    before = len(rows_of(saver)["checkpoints"])
    prune(way, saver, keep_last=1)
    assert len(rows_of(saver)["checkpoints"]) < before / 2
    sound(way, saver)
    assert way.invoke(graph, {"seen": []}, on())["seen"] == [1, 2, 3, 4, 5, 6]
    assert way.invoke(graph, {"seen": []}, first.config)["seen"] == [1, 2], "as of then"
    sound(way, saver)


def nested(way: Way, saver: Saver) -> Any:
    """A subgraph that takes five steps and then asks, inside of a node."""
    inner = chain(
        *((name, way.node(lambda state, name=name: {"log": [name]})) for name in "abcde"),
        ("ask", way.node(lambda state: {"log": [interrupt("well?")]})),
    )
    return chain(("sub", inner.compile())).compile(checkpointer=saver)


def ids_in(way: Way, saver: Saver, inside: str) -> list[str]:
    """The checkpoints of a subgraph, newest first."""
    found = [*saver.list(on(checkpoint_ns=inside))]
    return [id_of(one.config) for one in found]


def test_P28_a_policy_may_be_about_one_subgraph(way: Way, saver: Saver):
    graph = nested(way, saver)
    way.invoke(graph, {"log": []}, on())
    paused = way.state(graph, on(), subgraphs=True)
    (task,) = paused.tasks
    inside: str = task.state.config["configurable"]["checkpoint_ns"]
    whole = ids_in(way, saver, inside)
    roots = len(way.history(graph, on()))
    # The answer may be given anew to any checkpoint of this run: as long as the question is open, all of them stay.
    assert prune(way, saver, keep_last=1, namespaces=["sub"]).checkpoints == 0
    way.invoke(graph, Command(resume="yes"), on())
    assert prune(way, saver, keep_last=1, namespaces=["other"]).checkpoints == 0
    prune(way, saver, keep_last=1, namespaces=[""])
    assert len(way.history(graph, on())) == 1 < roots
    assert ids_in(way, saver, inside) == [], "the task has ended, and where it began is gone"
    assert len(whole) == 7
    sound(way, saver)


def test_P28_old_checkpoints_of_a_subgraph_go_where_the_policy_says_so(way: Way, saver: Saver):
    inner = chain(*((name, way.node(lambda state, name=name: {"log": [name]})) for name in "abcde"))
    graph = chain(("sub", inner.compile())).compile(checkpointer=saver)
    way.invoke(graph, {"log": []}, on())
    inside = _names(saver)[-1]
    roots = way.history(graph, on())
    prune(way, saver, keep_last=2, namespaces=["sub"])
    assert len(ids_in(way, saver, inside)) == 2
    assert way.history(graph, on()) == roots
    sound(way, saver)
    newest = next(iter(saver.list(on(checkpoint_ns=inside)))).config
    assert way.invoke(graph, None, newest)["log"] == [*"abcde"], "from inside, as before"


def _names(saver: Saver) -> list[str]:
    return sorted({one.config["configurable"]["checkpoint_ns"] for one in saver.list(on())})
