"""All public methods of savers in random order, over two savers that share a database, against a model that is a dictionary.

A node does nothing that the log before it does not decide, so the model knows what each checkpoint must say from what is in it. What the
other saver stored in between is what this one's memory of newest states (`heads`) must not be mistaken about.
"""

from __future__ import annotations

import io
import operator
import random
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypedDict

import pytest

from perdure.checkpoint.memory import InMemorySaver
from perdure.checkpoint.saver import Saver
from perdure.checkpoint.sqlite import SqliteSaver
from perdure.errors import ThreadExists, UnknownThread
from perdure.graph import START, StateGraph
from perdure.testing.strict import StrictMemorySaver
from perdure.testing.wrapping import with_records
from perdure.types import Command, StateSnapshot, interrupt
from tests.promises.ways import Way, on

THREADS = ("a", "b", "c", "d")
BRANCHES = ("left", "right")
PINS = ("p", "q")
STEPS = 40
NODES = ("work", "ask", "sub")

Log = tuple[str, ...]


class State(TypedDict, total=False):
    log: Annotated[list[str], operator.add]
    asks: bool


class Inner(TypedDict):
    log: Annotated[list[str], operator.add]
    count: Annotated[list[str], operator.add]


def long(text: str) -> str:
    return text.ljust(2000, ".")  # so that a saver remembers logs (`heads`)


def graph_over(way: Way, saver: Saver) -> Any:
    """A node that works, one that asks if the input says so, and a subgraph that remembers how often it was there."""

    def work(state: State) -> Any:
        return {"log": [long(f"work {len(state['log'])}")]}

    def ask(state: State) -> Any:
        said = interrupt(f"at {len(state['log'])}?") if state.get("asks") else "nothing"
        return {"log": [long(f"said {said}")]}

    def count(state: Inner) -> Any:
        number = len(state.get("count", []))
        return {"log": [long(f"time {number}")], "count": [long(f"count {number}")]}

    inner: StateGraph[Any, Any, Any, Any] = StateGraph(Inner)
    inner.add_node("count", way.node(count)).add_edge(START, "count")
    kept = inner.compile(checkpointer=True)

    def sub(state: State) -> Any:
        return {"log": kept.invoke({"log": []})["log"][-1:]}

    async def asub(state: State) -> Any:
        return {"log": (await kept.ainvoke({"log": []}))["log"][-1:]}

    builder: StateGraph[Any, Any, Any, Any] = StateGraph(State)
    builder.add_node("work", way.node(work)).add_node("ask", way.node(ask)).add_node("sub", asub if way.is_async else sub)
    builder.add_edge(START, "work").add_edge("work", "ask").add_edge("ask", "sub")
    return builder.compile(checkpointer=saver, name="every")


class Known(NamedTuple):
    """What a checkpoint says."""

    log: Log
    asks: bool
    next: tuple[str, ...]
    questions: int


def known(snapshot: StateSnapshot) -> Known:
    values = snapshot.values
    return Known(tuple(values.get("log", ())), bool(values.get("asks")), snapshot.next, len(snapshot.interrupts))


def gone_on(at: Known, answer: str | None = None) -> Known:
    """Where a run comes to from a checkpoint."""
    log = at.log
    for name in NODES[NODES.index(at.next[0]) :] if at.next else ():
        if name == "work":
            log += (long(f"work {len(log)}"),)
        elif name == "ask":
            if at.asks and answer is None:
                return Known(log, True, ("ask",), 1)
            log += (long(f"said {answer if at.asks else 'nothing'}"),)
        else:
            log += (long(f"time {sum(line.startswith('time') for line in log)}"),)
    return Known(log, at.asks, (), 0)


class Model:
    """A thread.

    Attributes:
        history: what its checkpoints said when they were seen first, by id, newest first.
        names: of branches and pins, with the ids of their checkpoints.
        tip: the id of the newest checkpoint.
    """

    def __init__(self) -> None:
        self.history: dict[str, Known] = {}
        self.names: dict[str, str] = {}
        self.tip = ""

    def copy(self) -> Model:
        other = Model()
        other.history, other.names, other.tip = dict(self.history), dict(self.names), self.tip
        return other


class Driver:
    """Does one thing after the other, and looks at everything after each."""

    def __init__(self, seed: int, savers: list[Saver]) -> None:
        self.rng = random.Random(seed)
        self.savers = savers
        self.graphs = [[graph_over(Way(colour), saver) for colour in ("sync", "async")] for saver in savers]
        self.threads: dict[str, Model] = {}
        self.done: list[str] = []

    def pick(self) -> None:
        """Who acts next."""
        which, colour = self.rng.randrange(len(self.savers)), self.rng.randrange(2)
        self.saver, self.graph, self.way = self.savers[which], self.graphs[which][colour], Way(("sync", "async")[colour])

    def run(self) -> None:
        actions: list[Callable[[], str]] = [
            *[self.begin] * 6,
            *[self.answer] * 5,
            *[self.edit] * 2,
            *[self.fork] * 2,
            self.fork_by_edit,
            self.replay,
            self.branch,
            *[self.begin_on_branch] * 2,
            self.pin,
            self.unpin,
            *[self.prune] * 2,
            self.copy,
            self.through_a_file,
            self.delete,
        ]
        for _ in range(STEPS):
            self.pick()
            self.done.append("...")
            self.done[-1] = self.rng.choice(actions)()
            self.pick()
            self.check()

    def do(self, name: str, *args: Any, **options: Any) -> Any:
        return self.way._do(self.saver, name, *args, **options)

    def some_thread(self) -> str | None:
        return self.rng.choice(sorted(self.threads)) if self.threads else None

    def some_checkpoint(self, where: Callable[[Known], bool] = lambda _: True) -> tuple[str, str, Known] | None:
        thread = self.some_thread()
        found = [] if thread is None else [(at, one) for at, one in self.threads[thread].history.items() if where(one)]
        return None if thread is None or not found else (thread, *self.rng.choice(found))

    # -- runs -------------------------------------------------------------------------------------------------------------

    def ran(self, thread: str, given: Any, expected: Known, **configurable: Any) -> None:
        """Run, and compare where it came to."""
        durability = self.rng.choice(("sync", "sync", "async", "exit"))
        self.way.invoke(self.graph, given, on(thread, **configurable), durability=durability)
        now = self.way.state(self.graph, on(thread, **{k: v for k, v in configurable.items() if k == "branch"}))
        assert known(now) == expected
        self.grown(thread)

    def grown(self, thread: str, branch: str | None = None) -> None:
        """Take in the checkpoints that are new."""
        model = self.threads.setdefault(thread, Model())
        history = self.way.history(self.graph, on(thread))
        found = {one.config["configurable"]["checkpoint_id"]: known(one) for one in history}
        assert {at: found.get(at) for at in model.history} == model.history
        model.history = found
        model.tip = next(iter(found))
        if branch is not None:
            model.names[branch] = self.way.state(self.graph, on(thread, branch=branch)).config["configurable"]["checkpoint_id"]

    def given(self) -> tuple[dict[str, Any], str, bool]:
        asks = self.rng.random() < 0.5
        text = long(f"in {len(self.done)}")
        return {"log": [text], "asks": asks}, text, asks

    def begin(self) -> str:
        thread = self.rng.choice(THREADS)
        given, text, asks = self.given()
        model = self.threads.get(thread)
        log = model.history[model.tip].log if model is not None else ()
        self.ran(thread, given, gone_on(Known((*log, text), asks, ("work",), 0)))
        return f"begin {thread}"

    def begin_on_branch(self) -> str:
        thread = self.some_thread()
        names = [] if thread is None else [name for name in self.threads[thread].names if name in BRANCHES]
        if thread is None or not names:
            return "no branch"
        name = self.rng.choice(sorted(names))
        model = self.threads[thread]
        given, text, asks = self.given()
        log = model.history[model.names[name]].log
        self.ran(thread, given, gone_on(Known((*log, text), asks, ("work",), 0)), branch=name)
        self.grown(thread, name)
        return f"begin {thread} on {name}"

    def answer(self) -> str:
        waiting = [thread for thread, model in sorted(self.threads.items()) if model.history[model.tip].questions]
        if not waiting:
            return "no question"
        thread = self.rng.choice(waiting)
        model = self.threads[thread]
        said = f"yes {len(self.done)}"
        self.ran(thread, Command(resume=said), gone_on(model.history[model.tip], said))
        return f"answer {thread}"

    def fork(self) -> str:
        found = self.some_checkpoint()
        if found is None:
            return "nothing to fork"
        thread, at, then = found
        given, text, asks = self.given()
        self.ran(thread, given, gone_on(Known((*then.log, text), asks, ("work",), 0)), checkpoint_id=at)
        return f"fork {thread} at {at}"

    def replay(self) -> str:
        found = self.some_checkpoint(lambda one: one.next in {("work",), ("ask",), ("sub",)})
        if found is None or found[1] == self.threads[found[0]].tip:
            return "nothing to replay"
        thread, at, then = found
        self.ran(thread, None, gone_on(then), checkpoint_id=at)
        return f"replay {thread} at {at}"

    def edit(self) -> str:
        thread = self.some_thread()
        if thread is None:
            return "nothing to edit"
        model = self.threads[thread]
        before = model.history[model.tip]
        text = long(f"edit {len(self.done)}")
        self.way.edit(self.graph, on(thread), {"log": [text]}, as_node="sub")
        self.grown(thread)
        then = model.history[model.tip]
        assert then.log[-1] == text, then
        assert then.next == tuple(name for name in before.next if name != "sub"), (before.next, before.questions)
        return f"edit {thread}"

    def fork_by_edit(self) -> str:
        found = self.some_checkpoint()
        if found is None:
            return "nothing to fork"
        thread, at, then = found
        text = long(f"edit {len(self.done)}")
        self.way.edit(self.graph, on(thread, checkpoint_id=at), {"log": [text]}, as_node="work")
        self.grown(thread)
        model = self.threads[thread]
        assert model.history[model.tip][:3] == ((*then.log, text), then.asks, ("ask",))
        del model.history[model.tip]  # it may get a question
        self.ran(thread, None, gone_on(Known((*then.log, text), then.asks, ("ask",), 0)))
        return f"edit {thread} at {at}"

    # -- names ------------------------------------------------------------------------------------------------------------

    def nameable(self) -> tuple[str, str, Known] | None:
        """A checkpoint that means the same by a name: not one whose line went on and is pruned, for a name would take that line up."""
        found = self.some_checkpoint()
        if found is None or not found[2].next or found[1] == self.threads[found[0]].tip:
            return found
        return found if self.way._do(self.graph, "get_children", on(found[0], checkpoint_id=found[1])) else None

    def branch(self) -> str:
        found = self.nameable()
        if found is None:
            return "nothing to name"
        thread, at, _ = found
        name = self.rng.choice(BRANCHES)
        if name in self.threads[thread].names:
            return "named already"
        self.way._do(self.graph, "name_branch", on(thread, checkpoint_id=at), name)
        self.threads[thread].names[name] = at
        return f"branch {name} of {thread} at {at}"

    def pin(self) -> str:
        found = self.nameable()
        if found is None:
            return "nothing to pin"
        thread, at, _ = found
        name = self.rng.choice(PINS)
        if name in self.threads[thread].names:
            return "pinned already"
        self.do("pin", on(thread, checkpoint_id=at), name)
        self.threads[thread].names[name] = at
        return f"pin {name} of {thread} at {at}"

    def unpin(self) -> str:
        thread = self.some_thread()
        names = [] if thread is None else sorted(self.threads[thread].names)
        if thread is None or not names:
            return "no pin"
        name = self.rng.choice(names)
        self.do("unpin", thread, name)
        del self.threads[thread].names[name]
        return f"unpin {name} of {thread}"

    # -- whole threads ----------------------------------------------------------------------------------------------------

    def prune(self) -> str:
        keep, batch = self.rng.choice((1, 1, 2, 5)), self.rng.choice((1, 3, 1000))
        counted = self.do("prune", keep_last=keep, dry_run=True)
        pruned = self.do("prune", keep_last=keep, batch=batch)
        assert (pruned.checkpoints, pruned.busy, pruned.damaged) == (counted.checkpoints, (), ())
        for thread, model in self.threads.items():
            left = [one.config["configurable"]["checkpoint_id"] for one in self.way.history(self.graph, on(thread))]
            assert {model.tip, *model.names.values()} <= {*left}
            assert len(left) >= min(keep, len(model.history))
            model.history = {at: model.history[at] for at in left}
            assert self.do("verify", thread).orphans == ()
        return f"prune {keep}"

    def copy(self) -> str:
        thread, other = self.some_thread(), self.rng.choice(THREADS)
        if thread is None:
            return "nothing to copy"
        if other in self.threads:
            with pytest.raises(ThreadExists):
                self.do("copy_thread", thread, other)
            return "refused copy"
        self.do("copy_thread", thread, other)
        self.threads[other] = self.threads[thread].copy()
        return f"copy {thread} to {other}"

    def through_a_file(self) -> str:
        thread = self.some_thread()
        if thread is None:
            return "nothing to export"
        file = io.BytesIO()
        self.do("export_thread", thread, file)
        file.seek(0)
        other = self.rng.choice(THREADS)
        if other in self.threads:
            self.do("delete_thread", other)
        copied = self.threads[thread].copy()
        self.pick()
        self.do("import_thread", file, other)
        self.threads[other] = copied
        return f"export {thread} to {other}"

    def delete(self) -> str:
        thread = self.some_thread()
        if thread is None:
            return "nothing to delete"
        self.do("delete_thread", thread)
        del self.threads[thread]
        with pytest.raises(UnknownThread):
            self.way.invoke(self.graph, None, on(thread))
        return f"delete {thread}"

    # -- looking ----------------------------------------------------------------------------------------------------------

    def check(self) -> None:
        listed = {one.thread_id: one for one in self.do("list_threads")}
        assert sorted(listed) == sorted(self.threads)
        for thread, model in self.threads.items():
            assert self.do("verify", thread).problems == ()
            history = self.way.history(self.graph, on(thread))
            assert [(one.config["configurable"]["checkpoint_id"], known(one)) for one in history] == [*model.history.items()]
            for name, at in model.names.items():
                tip = self.way.state(self.graph, on(thread, branch=name))
                assert (tip.config["configurable"]["checkpoint_id"], known(tip)) == (at, model.history[at])
            head = self.way.state(self.graph, on(thread))
            assert (head.config["configurable"]["checkpoint_id"], known(head)) == (model.tip, model.history[model.tip])
            if listed[thread].status == "interrupted":
                assert {one.id for one in listed[thread].interrupts} == {one.id for one in head.interrupts}


def drive(seed: int, savers: list[Saver]) -> None:
    driver = Driver(seed, savers)
    try:
        driver.run()
    except BaseException as error:
        error.add_note(f"seed {seed}: {'; '.join(driver.done)}")
        raise
    finally:
        for saver in reversed(savers):
            saver.close()


@pytest.mark.parametrize("seed", range(3))
def test_P28_P29_P42_all_methods_of_two_savers_over_one_memory_agree_with_a_model(seed: int):
    first = StrictMemorySaver() if seed % 2 else InMemorySaver()
    drive(seed, [first, with_records(first, lambda records: records)])


@pytest.mark.parametrize("seed", range(3))
def test_P28_P29_P42_all_methods_of_two_savers_over_one_file_agree_with_a_model(seed: int, tmp_path: Path):
    drive(seed, [SqliteSaver(tmp_path / "one.db", synchronous="normal") for _ in range(2)])
