"""Random graphs, run in every way that must make no difference: killed between commits, answered in any order, branched off."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import Any, NamedTuple

from perdure.bridge import run_blocking
from perdure.checkpoint.index.records import RunRow
from perdure.checkpoint.records import RESULT, ROOT_NS, Commit, Loaded, RecordStore, Status
from perdure.checkpoint.saver import Saver
from perdure.engine.deciding.frontier import expanded
from perdure.ids import task_id
from perdure.testing.random_graphs import Boom, GraphPlan, Ledger, answer_to, build, first_input
from perdure.testing.wrapping import WrappingRecords, with_records
from perdure.types import Command, Interrupt

LIMIT = 80
"""Super-steps of one run; no graph needs as many."""

Answers = Callable[[list[Interrupt], random.Random], Any]


def all_at_once(asked: list[Interrupt], rng: random.Random) -> Any:
    return {one.id: answer_to(one.value) for one in asked}


def first_of_them(asked: list[Interrupt], rng: random.Random) -> Any:
    return {asked[0].id: answer_to(asked[0].value)}


def last_of_them(asked: list[Interrupt], rng: random.Random) -> Any:
    return answer_to(asked[0].value) if len(asked) == 1 else {asked[-1].id: answer_to(asked[-1].value)}


def some_of_them(asked: list[Interrupt], rng: random.Random) -> Any:
    return all_at_once(rng.sample(asked, rng.randint(1, len(asked))), rng)


class Died(BaseException):
    """The process is dead. No code of the library may see it as anything else."""


class Life:
    """A process: a graph of its own over the shared database, which may die at one of its commits."""

    def __init__(self, plan: GraphPlan, saver: Saver, ledger: Ledger, dies_at: int = 0) -> None:
        self.process = ledger.process()
        self.dies_at = dies_at
        self.commits = 0
        self.lease: tuple[str, str, int] | None = None
        self._inner = saver
        self.saver = with_records(saver, lambda records: Mortal(records, self))
        self.graph = build(plan, self.process).compile(
            self.saver, interrupt_before=plan.break_before, interrupt_after=plan.break_after
        )

    def bury(self) -> None:
        """Its lease is free, as that of any process that is known to be dead."""
        if self.lease is not None:
            run_blocking(self._inner.blocking().release(*self.lease, "busy"))

    def close(self) -> None:
        self.process.die()
        self.saver.close()


class Mortal(WrappingRecords):
    """The database as a process sees it: after its death it neither reads nor writes."""

    def __init__(self, inner: RecordStore, life: Life) -> None:
        super().__init__(inner)
        self.life = life

    async def load(self, *args: Any, **kwargs: Any) -> Loaded:
        if not self.life.process.alive:
            raise Died
        return await super().load(*args, **kwargs)

    async def commit(self, commit: Commit) -> None:
        life = self.life
        if not life.process.alive:
            raise Died
        life.commits += 1
        life.lease = (commit.thread, str(commit.token), commit.epoch)
        if life.commits == life.dies_at:
            life.process.die()
            raise Died
        await super().commit(commit)

    async def renew(self, leases: list[tuple[str, str, int]], lease_ns: int) -> None:
        pass

    async def release(self, thread: str, token: str, epoch: int, status: Status, run: RunRow | None = None) -> None:
        if self.life.process.alive:
            await super().release(thread, token, epoch, status, run)

    async def close(self) -> None:
        pass


class Case:
    """A thread on which a graph is brought to its end, in one way.

    Attributes:
        ledger: what its nodes did.
        lost: labels of what was done and not stored when a process died.
        kept: ids of the tasks whose results were stored by then.
    """

    def __init__(
        self,
        plan: GraphPlan,
        saver: Saver,
        thread: str,
        *,
        durability: Any = "sync",
        way: str = "invoke",
        answers: Answers = all_at_once,
        lives: bool = False,
        moves: Callable[[Saver, str], Saver] | None = None,
    ) -> None:
        self.plan = plan
        self.saver = saver
        self.thread = thread
        self.durability = durability
        self.way = way
        self.answers = answers
        self.one_call_a_life = lives
        self.moves = moves
        self.rng = random.Random(plan.seed)
        self.ledger = Ledger()
        self.lost: Counter[str] = Counter()
        self.kept: set[str] = set()
        self.deaths: list[int] = []
        self.commits = 0
        self.output: Any = None

    def __repr__(self) -> str:
        died = f", died at commits {self.deaths}" if self.deaths else ""
        return f"{self.way}, durability {self.durability}, answers {self.answers.__name__}, {type(self.saver).__name__}{died}"

    def at(self, **configurable: Any) -> Any:
        return {"configurable": {"thread_id": self.thread, **configurable}, "recursion_limit": LIMIT}

    def finish(self, *deaths: int, begin: Any = None, config: Any = None) -> Case:
        """Bring it to its end; the processes die at these of their commits, one after the other.

        Args:
            deaths: the numbers of the commits, from 1.
            begin: what to call first, with `config`; by default what its state asks for.
            config: see `begin`.
        """
        first = None if config is None else (begin, config)
        for dies_at in (*deaths, 0):
            while True:
                life = Life(self.plan, self.saver, self.ledger, dies_at)
                try:
                    is_over = self._live(life, first)
                except Died:
                    life.bury()
                    self._remember(dies_at)
                    self._move()
                    break
                finally:
                    life.close()
                first = None
                self.commits += life.commits
                if is_over:
                    return self
                self._move()
            first = None
        raise AssertionError("it died and was not resumed")

    def _move(self) -> None:
        if self.moves is not None:
            self.saver = self.moves(self.saver, self.thread)

    def _live(self, life: Life, first: Any) -> bool:
        """One process's life; whether the graph has come to its end."""
        with asyncio.Runner() as loop:
            loop.get_loop().set_exception_handler(_unless_dead)
            for _ in range(200):
                given, config = first or self._next(life)
                first = None
                if config is None:
                    return True
                try:
                    self.output = self._call(life.graph, loop, given, config)
                except Boom:
                    self.output = None
                if not life.process.alive:
                    raise Died
                if self.one_call_a_life:
                    return False
        raise AssertionError("it never ends")

    def _next(self, life: Life) -> Any:
        """What a person would do, who sees nothing but the state."""
        snapshot = life.graph.get_state(self.at())
        if snapshot.metadata is None:
            return first_input(), self.at()
        if snapshot.interrupts:
            return Command(resume=self.answers(list(snapshot.interrupts), self.rng)), self.at()
        return None, self.at() if snapshot.next else None

    def _call(self, graph: Any, loop: asyncio.Runner, given: Any, config: Any) -> Any:
        if self.way == "invoke":
            return graph.invoke(given, config, durability=self.durability)
        if self.way == "ainvoke":
            return loop.run(graph.ainvoke(given, config, durability=self.durability))
        modes = self.rng.choice(
            (["values"], ["updates", "values"], ["values", "tasks", "debug"], ["messages", "custom", "values"])
        )
        options: Any = {"stream_mode": modes, "subgraphs": self.rng.random() < 0.5, "durability": self.durability}
        if self.way == "stream":
            list(graph.stream(given, config, **options))
        else:
            loop.run(_exhaust(graph.astream(given, config, **options)))
        return None

    def _remember(self, dies_at: int) -> None:
        self.deaths.append(dies_at)
        stored = stored_tasks(self.saver, self.thread)
        self.lost.update(note.label for note in self.ledger.notes if note.kind == "done" and note.task not in stored)
        again = [note for note in self.ledger.notes[self._resumed_at :] if note.task in self.kept]
        assert again == [], f"stored, and run again: {again}"
        self.kept |= stored
        self._resumed_at = len(self.ledger.notes)

    _resumed_at = 0

    # -- what came of it --------------------------------------------------------------------------------------------------

    @cached_property
    def graph(self) -> Any:
        """For looking at what is stored."""
        return build(self.plan, self.ledger.process()).compile(self.saver)

    @property
    def values(self) -> Any:
        return self.graph.get_state(self.at()).values

    @property
    def history(self) -> list[Any]:
        return [brief(snapshot) for snapshot in self.graph.get_state_history(self.at())]

    def check(self, straight: Straight) -> None:
        """It came to the same end, by the same steps, and did what it had to once."""
        assert self.values == straight.values
        if isinstance(self.output, dict):
            assert self.output == straight.values, "what the last call returned"
        if self.durability != "exit":
            # An old checkpoint shows the questions that its tasks asked last. Which these are depends on the order of the answers; and
            # where a sibling fails, on how many of a node's steps have asked by then, for what is async is stopped.
            stopped = self.plan.fails and self.way in ("ainvoke", "astream")
            told = slice(None) if self.answers is all_at_once and not stopped else slice(-1)
            assert [each[told] for each in self.history] == [each[told] for each in straight.history]
        done = self.ledger.done()
        assert set(done) == set(straight.done)
        again = done - straight.done
        if self.durability != "exit" or not self.deaths:
            # What "exit" has not saved yet is done again, from the last pause on.
            assert again <= self.lost, f"done again, though stored: {again - self.lost}"
        assert straight.done <= done
        run_again = [note for note in self.ledger.notes[self._resumed_at :] if self.deaths and note.task in self.kept]
        assert run_again == [], f"stored, and run again: {run_again}"

    def check_entries(self) -> None:
        """Nothing was entered more often than its questions and its failures explain (P14, P17)."""
        if self.plan.fails:
            return
        entered = Counter(note.label for note in self.ledger.notes if note.kind == "enter")
        plans = dict(places(self.plan))
        for label, times in entered.items():
            node = plans[label.partition("#")[0]]
            if "/step" in label.partition("#")[2]:
                assert times == 1 + node.steps_ask, f"{label} was entered {times} times"
            elif node.child is None and not node.steps_ask:
                assert times == 1 + node.asks + node.handled + node.fails, f"{label} was entered {times} times"


class Straight(NamedTuple):
    """What every run must come to."""

    case: Case
    values: Any
    history: list[Any]
    done: Counter[str]

    @classmethod
    def run(cls, plan: GraphPlan, saver: Saver, thread: str = "straight") -> Straight:
        case = Case(plan, saver, thread).finish()
        done = case.ledger.done()
        twice = {label for label, times in done.items() if times > 1}
        assert twice == set(), "done twice in a run that nothing happened to"
        return cls(case, case.values, case.history, done)

    def done_after(self, n: int) -> Counter[str]:
        """What was done in the super-steps after the root's checkpoint of that number."""
        later = tasks_after(self.case.saver, self.case.thread, n)
        return Counter(note.label for note in self.case.ledger.notes if note.kind == "done" and note.root in later)


def _unless_dead(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    if not isinstance(context.get("exception"), Died):
        loop.default_exception_handler(context)


async def _exhaust(items: Any) -> None:
    async for _ in items:
        pass


def brief(snapshot: Any) -> Any:
    metadata = snapshot.metadata
    asked = sorted(one.value for one in snapshot.interrupts)
    return metadata["source"], metadata["step"], sorted(snapshot.next), snapshot.values, metadata["writes"], asked


def places(plan: GraphPlan, path: str = "") -> Iterator[tuple[str, Any]]:
    """All functions and subgraphs of a graph by where they are."""
    for node in plan.nodes:
        yield f"{path}{node.name}", node
        if node.child is not None:
            yield from places(node.child, f"{path}{node.name}/")


def pages(saver: Saver, thread: str) -> list[Loaded]:
    """All checkpoints of a thread, newest first, with what belongs to them."""
    return run_blocking(saver.blocking().page(thread, None, before=None, limit=100_000))


def _names(loaded: Iterable[Loaded]) -> tuple[dict[int, str], dict[int, str]]:
    """Public ids of checkpoints and names of namespaces, by their numbers."""
    ids: dict[int, str] = {}
    names: dict[int, str] = {ROOT_NS: ""}
    for each in loaded:
        if each.row is not None:
            ids[each.row.n] = each.row.id
        names.update(each.namespaces)
    return ids, names


def stored_tasks(saver: Saver, thread: str) -> set[str]:
    """Ids of the tasks whose results are stored."""
    found = pages(saver, thread)
    ids, names = _names(found)
    return {
        task_id(ids[write.origin], names[write.ns], write.path)
        for each in found
        for write in each.writes
        if write.kind == RESULT and write.origin in ids
    }


def tasks_after(saver: Saver, thread: str, n: int) -> set[str]:
    """Ids of the root's tasks whose results made the checkpoints after that one."""
    found = pages(saver, thread)
    ids, _ = _names(found)
    return {
        task_id(ids[ran.origin], "", path)
        for each in found
        if each.row is not None and each.row.ns == ROOT_NS and each.row.n > n
        for ran in each.row.ran
        for path in (expanded(ran.path) if ran.path.startswith("#") else (ran.path,))
    }


def picture(saver: Saver, thread: str, until: int | None = None) -> dict[int, str]:
    """All that is stored of a thread's checkpoints, up to one, as text."""
    return {
        each.row.n: repr((each.row, sorted(each.writes, key=repr), sorted(each.children), sorted(each.values.items())))
        for each in pages(saver, thread)
        if each.row is not None and (until is None or each.row.n <= until)
    }
