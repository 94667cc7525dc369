"""The nodes of random graphs: they do what their plans say, and note outside of the graph what they did.

A node's label names it, says which turn of it this is, and has a digest of all that it sees, so that two runs that agree on the
labels agree on the state at every step, not only at the end.
"""

from __future__ import annotations

import asyncio
import functools
import operator
import threading
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Mapping
from hashlib import blake2b
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypedDict

from perdure.func import task
from perdure.graph import END, START, StateGraph
from perdure.runtime import get_runtime
from perdure.scope import current_task
from perdure.types import Command, RetryPolicy, Send, interrupt

if TYPE_CHECKING:
    from perdure.testing.random_graphs import GraphPlan, NodePlan, Route

Story = Generator[Any, Any, Any]


class Boom(Exception):
    """What nodes raise that are to fail."""


class Noted(NamedTuple):
    """A line of a ledger.

    Attributes:
        kind: "enter", "done" or "fail".
        label: what was done.
        task: the id of the task.
        root: the id of the root graph's task in which it happened.
    """

    kind: str
    label: str
    task: str
    root: str


class Ledger:
    """The world outside: it knows what nodes did, whatever becomes of the processes that they ran in.

    Attributes:
        notes: what was done, in order.
    """

    def __init__(self) -> None:
        self.notes: list[Noted] = []
        self.lock = threading.Lock()
        self._attempts: Counter[str] = Counter()

    def process(self) -> Process:
        """A process that can write to it."""
        return Process(self)

    def attempt(self, label: str) -> int:
        """Which attempt at something this is, from 1."""
        with self.lock:
            self._attempts[label] += 1
            return self._attempts[label]

    def done(self) -> Counter[str]:
        """How often each thing was done to its end."""
        return Counter(note.label for note in self.notes if note.kind == "done")


class Process:
    """A process in which nodes run. What still runs in it after its death does nothing to the world.

    Attributes:
        ledger: where its nodes note what they do.
        alive: it has not died.
    """

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.alive = True

    def die(self) -> None:
        """From now on, it does nothing any more."""
        with self.ledger.lock:
            self.alive = False

    def note(self, kind: str, label: str) -> None:
        """Note what the running task does."""
        here = get_runtime().idempotency_key
        above = _root_task()
        with self.ledger.lock:
            if self.alive:
                self.ledger.notes.append(Noted(kind, label, here, above))


def _root_task() -> str:
    scope: Any = current_task()
    while scope.is_step or scope.run.parent is not None:
        scope = scope.parent if scope.is_step else scope.run.parent
    return str(scope.id)


def answer_to(question: Any) -> str:
    """The one answer that is given to a question, whoever gives it and whenever."""
    return f"yes, {str(question)[-8:]}"


def first_input() -> dict[str, Any]:
    """The input that graphs start with."""
    return {"log": ["in"], "tag": "root"}


def _right(left: Any, right: Any) -> Any:  # noqa: ARG001 - a reducer takes both
    return right


def _itself(future: Any) -> Any:
    return future


def _added(left: dict[str, int], right: dict[str, int]) -> dict[str, int]:
    return {**left, **{key: left.get(key, 0) + count for key, count in right.items()}}


_KEYS: dict[str, Any] = {
    "tag": str,
    "last": Annotated[str, _right],
    "marks": Annotated[set[str], operator.or_],
    "log": Annotated[list[str], operator.add],
    "seen": Annotated[dict[str, int], _added],
}


@functools.cache
def _schema(name: str, keys: tuple[str, ...]) -> Any:
    """A state with these keys; those that are not shared by all nodes belong to one function each, and have no reducer."""
    return TypedDict(name, {key: _KEYS.get(key, str) for key in keys}, total=False)  # type: ignore[operator]


def build(plan: GraphPlan, process: Process, *, path: str = "") -> StateGraph[Any, Any, Any, Any]:
    """The graph of a plan, to be compiled with a saver of your choice and the breakpoints of the plan.

    Args:
        plan: what to build.
        process: where its nodes run.
        path: of a subgraph, the names of the nodes around.
    """
    state = _schema("State", (*_KEYS, *(f"own_{node.name}" for node in plan.nodes)))
    inner = {"input_schema": _schema("Given", ("tag", "last", "marks")), "output_schema": _schema("Gives", ("last", "marks"))}
    graph: StateGraph[Any, Any, Any, Any] = StateGraph(state, **(inner if path else {}))
    for node in plan.nodes:
        where = f"{path}{node.name}"
        child = None
        if node.child is not None:
            child = build(node.child, process, path=f"{where}/").compile(
                checkpointer=True if node.child.remembers else None,
                interrupt_before=node.child.break_before,
                interrupt_after=node.child.break_after,
            )
        if node.is_subgraph:
            graph.add_node(node.name, child, defer=node.defer)
            continue
        actor = _Actor(node, where, process, child)
        policy = RetryPolicy(initial_interval=0.0, jitter=False, max_attempts=node.fails + 1) if node.retried else None
        handler = _coloured(actor.handle, is_async=node.is_async) if node.handled else None
        action = _coloured(actor.fail if node.handled else actor.act, is_async=node.is_async)
        graph.add_node(node.name, action, defer=node.defer, retry_policy=policy, error_handler=handler)
    for start in plan.starts:
        graph.add_edge(START, start)
    for source, target in plan.edges:
        graph.add_edge(source, target)
    for sources, target in plan.joins:
        graph.add_edge(list(sources), target)
    for source, route in plan.routes.items():
        graph.add_conditional_edges(source, _chooser(source, route))
    return graph


def _chooser(source: str, route: Route) -> Callable[..., Any]:
    def choose(state: Any) -> Any:
        turns = state.get("seen", {})
        if route.back and turns.get(source, 0) <= route.times:
            return [route.back]
        at = sum(turns.values())
        chosen: list[Any] = [Send(name, _packet(f"{source}>{k}.{digest(state)}", state)) for k, name in enumerate(route.sends)]
        if route.choices:
            one = route.choices[at % len(route.choices)]
            chosen += [name for name in route.choices if name != one] if route.several and len(route.choices) > 1 else [one]
        return chosen or END

    async def choose_later(state: Any) -> Any:
        await asyncio.sleep(0)
        return choose(state)

    return _bare(choose_later if route.is_async else choose)


def _packet(tag: str, state: Mapping[str, Any]) -> dict[str, Any]:
    return {"tag": tag, "marks": set(state.get("marks", ()))}


def digest(state: Mapping[str, Any]) -> str:
    """Eight digits that differ where two states do."""
    return blake2b(_plain(state).encode(), digest_size=4).hexdigest()


def _plain(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{key}:{_plain(value[key])}" for key in sorted(value)) + "}"
    if isinstance(value, (set, frozenset)):
        return "{" + ",".join(sorted(map(_plain, value))) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_plain, value)) + "]"
    return f"{type(value).__name__} {value!r}"


class _Waiting(NamedTuple):
    """Something that a node's story waits for: how sync code gets it, and how async code does."""

    blocking: Callable[[], Any]
    suspending: Callable[[], Any]


def _coloured(story: Callable[..., Story], *, is_async: bool) -> Callable[..., Any]:
    """A node of a colour, from a story that yields what it has to wait for."""

    def node(state: Any) -> Any:
        telling = story(state)
        got = None
        while True:
            try:
                waiting = telling.send(got)
            except StopIteration as end:
                return end.value
            got = waiting.blocking()

    async def later(state: Any) -> Any:
        await asyncio.sleep(0)
        telling = story(state)
        got = None
        while True:
            try:
                waiting = telling.send(got)
            except StopIteration as end:
                return end.value
            got = await waiting.suspending()

    return _bare(later if is_async else node)


def _bare(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function without annotations: a graph evaluates them, and these graphs are built more often than they are run."""
    function.__annotations__ = {}
    return function


class _Actor:
    """A function of a graph."""

    def __init__(self, plan: NodePlan, where: str, process: Process, child: Any) -> None:
        self.plan = plan
        self.where = where
        self.process = process
        self.child = child
        self.step: Any = _step_of(plan, process) if plan.steps else None

    def _enter(self, state: Mapping[str, Any]) -> str:
        turn = state.get("seen", {}).get(self.plan.name, 0)
        label = f"{self.where}#{turn}.{digest(state)}"
        self.process.note("enter", label)
        return label

    def _fail(self, label: str) -> None:
        if self.process.ledger.attempt(label) <= self.plan.fails:
            self.process.note("fail", label)
            raise Boom(label)

    def act(self, state: Mapping[str, Any]) -> Story:
        """What the node does."""
        plan = self.plan
        label = self._enter(state)
        if plan.fails and not plan.fails_late:
            self._fail(label)
        told = []
        if plan.steps:
            started = [self.step(label, at) for at in range(plan.steps)]
            for future in started:
                result = yield _Waiting(future.result, functools.partial(_itself, future))
                told.append(result)
        told += [interrupt(f"{label}?{at}") for at in range(plan.asks)]
        for at in range(plan.calls):
            given = {"tag": f"{label}/{at}", "marks": set(state.get("marks", ()))}
            out = yield _Waiting(functools.partial(self.child.invoke, given), functools.partial(self.child.ainvoke, given))
            told.append(f"{out.get('last')} {sorted(out.get('marks', ()))}")
        if plan.fails_late:
            self._fail(label)
        return self._ended(label, state, told)

    def fail(self, state: Mapping[str, Any]) -> Story:
        """What a node does that has a handler."""
        label = self._enter(state)
        self.process.note("fail", label)
        raise Boom(label)
        yield

    def handle(self, state: Mapping[str, Any]) -> Story:
        """What its handler does."""
        label = f"{self._enter(state)}!"
        return self._ended(label, state, [interrupt(f"{label}?{at}") for at in range(self.plan.asks)])
        yield

    def _ended(self, label: str, state: Mapping[str, Any], told: Iterable[str]) -> Any:
        plan = self.plan
        update: dict[str, Any] = {
            "log": [label, *(f"{label}: {each}" for each in told)],
            "seen": {plan.name: 1},
            "marks": {f"{self.where}"},
            "last": label,
        }
        if "seen" in state or "log" in state:
            # Sent ones run side by side, and a key without a reducer takes one write a super-step.
            update[f"own_{plan.name}"] = label
        self.process.note("done", label)
        if plan.up:
            return Command(graph=Command.PARENT, goto=plan.up, update={"last": label, "marks": {self.where}})
        if plan.goto or plan.sends:
            sends = [Send(name, _packet(f"{label}>{at}", state)) for at, name in enumerate(plan.sends)]
            return Command(update=update, goto=[*plan.goto, *sends])
        return update


def _step_of(plan: NodePlan, process: Process) -> Any:
    def work(label: str, at: int) -> str:
        name = f"{label}/step{at}"
        process.note("enter", name)
        answer = interrupt(f"{name}?") if plan.steps_ask else "nobody asked"
        process.note("done", name)
        return f"{at}: {answer}"

    async def work_later(label: str, at: int) -> str:
        await asyncio.sleep(0)
        return work(label, at)

    return task(work_later if plan.is_async and plan.steps > 1 else work)
