"""P28 on random graphs: whenever a thread is pruned, its run comes to the end of the run that nobody pruned, and what is kept can be
read, replayed and answered again as before. P42 on the way: what retention leaves keeps every invariant.
"""

from __future__ import annotations

import os
import random
from typing import Any

import pytest

from perdure.checkpoint.memory import InMemorySaver
from perdure.checkpoint.records import ROOT_NS
from perdure.checkpoint.saver import Saver
from perdure.checkpoint.sqlite import SqliteSaver
from perdure.testing.faults import FailingRecords
from perdure.testing.random_graphs import random_graph
from perdure.testing.strict import StrictMemorySaver
from perdure.testing.wrapping import with_records
from perdure.types import Command
from tests.laws.random_runs import Case, Straight, all_at_once, brief, pages, some_of_them
from tests.laws.test_random_graphs import seeds_of

SEEDS = seeds_of(os.environ.get("PERDURE_GRAPH_SEEDS", "") or "0-29")


def sound(saver: Saver, thread: str) -> None:
    """Its rows keep every invariant, and none of them is left over."""
    found = saver.verify(thread)
    assert found.problems == ()
    assert found.orphans == ()


def unharmed(case: Case) -> None:
    """Its rows keep every invariant, and every checkpoint that is still there can be read."""
    assert case.saver.verify(case.thread).problems == ()
    shown(case)


def shown(case: Case) -> dict[str, Any]:
    """The history: of each checkpoint, all but what its parent is."""
    history = case.graph.get_state_history(case.at())
    return {one.config["configurable"]["checkpoint_id"]: (brief(one), one.tasks, one.created_at) for one in history}


class Pruning(Case):
    """A run whose thread is pruned after each call."""

    keep_last = 1

    def _call(self, *args: Any) -> Any:
        try:
            return super()._call(*args)
        finally:
            self.prune()

    def _remember(self, dies_at: int) -> None:
        super()._remember(dies_at)
        self.prune()

    def prune(self) -> None:
        """Take away what may go, and look whether the rest is as it was."""
        if self.saver.get_thread(self.thread) is None:
            return  # the run died before anything was stored
        before = shown(self)
        counted = self.saver.prune(keep_last=self.keep_last, thread=self.thread, dry_run=True)
        # Between any two batches the thread is whole: whoever reads it then, or kills the sweep there, finds no damage.
        watched = with_records(self.saver, lambda records: FailingRecords(records, before=lambda _: unharmed(self)))
        pruned = watched.prune(keep_last=self.keep_last, thread=self.thread, batch=self.rng.choice((1, 3, 1000)))
        assert pruned == counted
        after = shown(self)
        assert after == {checkpoint: before[checkpoint] for checkpoint in after}
        assert [*after] == [checkpoint for checkpoint in before if checkpoint in after]
        if pruned.threads and not pruned.busy:
            assert self.saver.prune(keep_last=self.keep_last, thread=self.thread).checkpoints == 0
            sound(self.saver, self.thread)


@pytest.mark.parametrize("seed", SEEDS)
def test_P28_a_run_that_is_pruned_at_every_pause_ends_as_if_nobody_had_pruned(seed: int):
    plan = random_graph(seed)
    straight = Straight.run(plan, InMemorySaver())
    rng = random.Random(seed)
    for saver in (StrictMemorySaver(), SqliteSaver(":memory:")):
        case = Pruning(
            plan, saver, "t", answers=rng.choice((all_at_once, some_of_them)), lives=True, way=rng.choice(("invoke", "ainvoke"))
        )
        case.keep_last = rng.choice((1, 1, 2, 3))
        case.finish()
        assert case.values == straight.values
        assert case.ledger.done() == straight.done
        saver.close()


@pytest.mark.parametrize("seed", SEEDS)
def test_P28_a_run_that_is_killed_and_pruned_before_it_is_resumed_loses_nothing(seed: int):
    plan = random_graph(seed)
    straight = Straight.run(plan, InMemorySaver())
    rng = random.Random(seed)
    for saver in (InMemorySaver(), SqliteSaver(":memory:")):
        options: Any = {"durability": rng.choice(("sync", "async", "exit")), "way": rng.choice(("invoke", "ainvoke"))}
        for at in range(3):
            case = Pruning(plan, saver, f"t{at}", **options)
            case.finish(*(rng.randint(1, 12) for _ in range(at)))
            assert case.values == straight.values
            assert set(case.ledger.done()) == set(straight.done)
            if options["durability"] == "sync":
                assert case.ledger.done() - straight.done <= case.lost
        saver.close()


@pytest.mark.parametrize("seed", SEEDS)
def test_P28_what_is_kept_is_read_replayed_and_answered_again_as_before(seed: int):
    plan = random_graph(seed)
    saver = InMemorySaver()
    straight = Straight.run(plan, saver)
    rng = random.Random(seed)
    length = len(straight.history)
    assert saver.verify("straight").problems == ()
    for keep_last in {1, 2, rng.randint(1, length), length}:
        pruned = Case(plan, saver, f"pruned-{keep_last}")
        saver.copy_thread("straight", pruned.thread)
        before = shown(pruned)
        saver.prune(keep_last=keep_last, thread=pruned.thread)
        sound(saver, pruned.thread)
        after = shown(pruned)
        assert len(after) >= min(keep_last, len(before))
        assert after == {checkpoint: before[checkpoint] for checkpoint in after}
        for snapshot in pruned.graph.get_state_history(pruned.at()):
            answers = all_at_once(list(snapshot.interrupts), rng) if snapshot.interrupts else None
            for given in {None: None} | ({"answers": answers} if answers else {}):
                replay(
                    saver, straight, pruned.thread, snapshot.config["configurable"]["checkpoint_id"], answers if given else None
                )
        for loaded in pages(saver, pruned.thread):
            row = loaded.row
            if row is not None and row.ns != ROOT_NS and is_open_task(saver, pruned.thread, row.ns, row.n):
                replay(saver, straight, pruned.thread, row.id, None, loaded.namespaces[row.ns])


def is_open_task(saver: Saver, thread: str, ns: int, n: int) -> bool:
    """Whether a checkpoint of a subgraph is of a task that may run again from a checkpoint that is kept."""
    children = [child for loaded in pages(saver, thread) for child in loaded.children]
    return any(child.child_ns == ns and child.origin < n <= child.head for child in children)


def replay(saver: InMemorySaver, straight: Straight, pruned: str, checkpoint: str, given: Any, place: str = "") -> None:
    ends = []
    for source in ("straight", pruned):
        case = Case(straight.case.plan, saver, f"{source}-again")
        saver.copy_thread(source, case.thread)
        inside = {"checkpoint_ns": place} if place else {}
        case.finish(begin=None if given is None else Command(resume=given), config=case.at(checkpoint_id=checkpoint, **inside))
        ends.append((case.values, case.ledger.done()))
        del saver._records._threads[case.thread]
    assert ends[0] == ends[1]
    assert ends[0][0] == straight.values
