"""Random graphs, for laws that must hold of every graph: drawn from a seed, and built with nodes that tell what they do.

    plan = random_graph(7)
    ledger = Ledger()
    graph = build(plan, ledger.process()).compile(InMemorySaver())

Every graph ends, and what it does depends on nothing but its input and the answers it gets. The same seed draws the same graph,
in every process and on every version of Python. `perdure.testing.random_nodes` builds what is drawn here.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from perdure.testing.random_nodes import Boom, Ledger, Noted, Process, answer_to, build, first_input

__all__ = [
    "Boom",
    "GraphPlan",
    "Ledger",
    "NodePlan",
    "Noted",
    "Process",
    "Route",
    "answer_to",
    "build",
    "first_input",
    "random_graph",
]

NAMES = "abcdefgh"
HEAVIEST = 14
"""A graph that weighs more than this is drawn again, unless heavier ones are asked for."""


@dataclass(frozen=True, slots=True)
class NodePlan:
    """What a node does.

    Attributes:
        name: its name.
        is_async: it is an async function.
        steps: so many durable steps it takes at once.
        steps_ask: each of them asks a question.
        asks: so many questions it asks, one after the other.
        fails: its first so many attempts fail.
        fails_late: they do so after its steps, questions and calls, not before.
        retried: by a retry policy; otherwise the run fails.
        handled: it always fails, and an error handler does the rest.
        defer: it is deferred.
        goto: where it goes by Command.
        sends: where it sends to by Command, once for each name.
        child: the subgraph that it is, or that it calls.
        calls: how often its function calls that; 0: it is the node.
        up: where in the graph around it goes by Command.
    """

    name: str
    is_async: bool = False
    steps: int = 0
    steps_ask: bool = False
    asks: int = 0
    fails: int = 0
    fails_late: bool = False
    retried: bool = False
    handled: bool = False
    defer: bool = False
    goto: tuple[str, ...] = ()
    sends: tuple[str, ...] = ()
    child: GraphPlan | None = None
    calls: int = 0
    up: str = ""

    @property
    def is_subgraph(self) -> bool:
        """The node is a graph, not a function."""
        return self.child is not None and not self.calls


@dataclass(frozen=True, slots=True)
class Route:
    """A conditional edge.

    Attributes:
        choices: nodes, of which it chooses by the state.
        several: it chooses all but one of them, not one.
        sends: it also sends to these.
        back: it goes there instead as long as its source has not run more than `times` times.
        times: see `back`.
        is_async: its function is async.
    """

    choices: tuple[str, ...] = ()
    several: bool = False
    sends: tuple[str, ...] = ()
    back: str = ""
    times: int = 0
    is_async: bool = False


@dataclass(frozen=True, slots=True)
class GraphPlan:
    """A graph.

    Attributes:
        seed: what it was drawn from; of subgraphs, what the graph around them was.
        nodes: its nodes; edges lead from earlier ones to later ones, but for loops.
        starts: the nodes it begins with.
        edges: plain edges.
        joins: edges that wait for several nodes.
        routes: conditional edges by their source.
        remembers: as a subgraph, it keeps its memory from one call to the next.
        break_before: it pauses before these nodes.
        break_after: it pauses after these nodes.
    """

    seed: int
    nodes: tuple[NodePlan, ...]
    starts: tuple[str, ...]
    edges: tuple[tuple[str, str], ...] = ()
    joins: tuple[tuple[tuple[str, ...], str], ...] = ()
    routes: dict[str, Route] = field(default_factory=dict)
    remembers: bool = False
    break_before: tuple[str, ...] = ()
    break_after: tuple[str, ...] = ()

    def everywhere(self) -> Iterator[NodePlan]:
        """Its nodes, and those of its subgraphs."""
        for node in self.nodes:
            yield node
            if node.child is not None:
                yield from node.child.everywhere()

    @property
    def fails(self) -> bool:
        """Some of its runs fail and have to be resumed."""
        return any(node.fails and not node.retried for node in self.everywhere())

    def described(self) -> str:
        """It as text, for a report: one line a node."""
        return "\n".join(_described(self, ""))


def random_graph(seed: int, *, depth: int = 2, heaviest: float = HEAVIEST) -> GraphPlan:
    """The graph of a seed.

    Args:
        seed: which.
        depth: how deep subgraphs may be nested.
        heaviest: how large it may be: about so many tasks, pauses counting three times.
    """
    rng = random.Random(seed)
    while True:
        plan = _Drawing(rng, seed, depth, is_root=True).graph()
        if _weight(plan) <= heaviest:
            return _choosing_at_once(plan) if plan.fails else plan


def _choosing_at_once(plan: GraphPlan) -> GraphPlan:
    """The graph with sync functions in its conditional edges: an async one may be stopped when another node has failed, and then
    its node, which has not finished before its way is chosen, runs again.
    """
    nodes = (replace(each, child=_choosing_at_once(each.child)) if each.child is not None else each for each in plan.nodes)
    routes = {source: replace(route, is_async=False) for source, route in plan.routes.items()}
    return replace(plan, nodes=tuple(nodes), routes=routes)


def _weight(plan: GraphPlan) -> float:
    """About how many tasks it runs."""
    turns: dict[str, float] = dict.fromkeys(plan.starts, 1.0)
    weight = 0.0
    for node in plan.nodes:
        own = turns.get(node.name, 0.0) + any(node.name == target for _, target in plan.joins)
        route = plan.routes.get(node.name, Route())
        own *= 1 + route.times
        targets = [target for source, target in plan.edges if source == node.name]
        for target in (*targets, *node.goto, *node.sends, *route.sends, *route.choices):
            turns[target] = turns.get(target, 0.0) + own
        if node.child is not None:
            weight += own * max(node.calls, 1) * _weight(node.child)
            if node.child.nodes[0].up:
                turns[node.child.nodes[0].up] = turns.get(node.child.nodes[0].up, 0.0) + own
        pauses = node.asks + node.steps * node.steps_ask + (0 if node.retried else node.fails)
        weight += own * (1 + node.steps + 3 * pauses)
    return weight


class _Drawing:
    """Draws one graph, and by others like it its subgraphs."""

    def __init__(self, rng: random.Random, seed: int, depth: int, *, is_root: bool) -> None:
        self.rng = rng
        self.seed = seed
        self.depth = depth
        self.is_root = is_root
        self.nodes: list[NodePlan] = []
        self.starts: list[str] = []
        self.edges: list[tuple[str, str]] = []
        self.joins: list[tuple[tuple[str, ...], str]] = []
        self.routes: dict[str, Route] = {}

    def maybe(self, chance: float) -> bool:
        return self.rng.random() < chance

    def graph(self) -> GraphPlan:
        rng = self.rng
        count = rng.randint(2, 6) if self.is_root else rng.randint(1, 3)
        for name in NAMES[:count]:
            self.nodes.append(self._node(name))
            self._lead_to(len(self.nodes) - 1)
        for at in range(count):
            if at + 1 < count and self.maybe(0.15):
                self._edge(NAMES[at], NAMES[rng.randrange(at + 1, count)])
            if at + 1 < count and self.maybe(0.6):
                self._go_up(at, NAMES[rng.randrange(at + 1, count)])
        if self.maybe(0.35):
            self._loop()
        self._forget()
        names = [node.name for node in self.nodes]
        before = tuple(rng.sample(names, 1)) if self.maybe(0.12) else ()
        after = tuple(rng.sample(names, 1)) if self.maybe(0.12) else ()
        return GraphPlan(
            self.seed,
            tuple(self.nodes),
            tuple(self.starts),
            tuple(self.edges),
            tuple(self.joins),
            self.routes,
            not self.is_root and self.maybe(0.4),
            before,
            after,
        )

    def _node(self, name: str) -> NodePlan:
        rng = self.rng
        is_async = self.maybe(0.4)
        defer = self.maybe(0.08)
        if self.depth and self.maybe(0.22):
            child = _Drawing(rng, self.seed, self.depth - 1, is_root=False).graph()
            node = NodePlan(name, is_async, child=child, calls=rng.randint(1, 2) if self.maybe(0.35) else 0, defer=defer)
            fails = node.calls and self.maybe(0.25)
            return replace(node, fails=1, fails_late=True, retried=self.maybe(0.5)) if fails else node
        if self.maybe(0.08):
            return NodePlan(name, is_async, handled=True, asks=int(self.maybe(0.3)), defer=defer)
        node = NodePlan(name, is_async, defer=defer)
        if self.maybe(0.2):
            node = replace(node, steps=rng.randint(1, 3), steps_ask=self.maybe(0.25))
        if self.maybe(0.22):
            node = replace(node, asks=rng.randint(1, 2))
        if self.maybe(0.15):
            node = replace(node, fails=rng.randint(1, 2), fails_late=self.maybe(0.5), retried=self.maybe(0.5))
        return node

    def _lead_to(self, at: int) -> None:
        """Make the node at that place the target of something before it."""
        rng, name = self.rng, self.nodes[at].name
        if at == 0 or self.maybe(0.15):
            self.starts.append(name)
            return
        how = rng.choices(("edge", "join", "goto", "send", "route"), (5, 3, 2, 3, 2))[0]
        source = rng.randrange(at)
        if how in {"goto", "send"} and (self.nodes[source].child is not None or self.nodes[source].handled):
            how = "edge"
        if how == "join":
            sources = sorted(rng.sample(range(at), min(at, rng.randint(2, 3))))
            self.joins.append((tuple(NAMES[one] for one in sources), name))
        elif how == "goto":
            self.nodes[source] = replace(self.nodes[source], goto=(*self.nodes[source].goto, name))
        elif how == "send":
            sends = (name,) * rng.randint(1, 3)
            if self.maybe(0.5):
                self.nodes[source] = replace(self.nodes[source], sends=(*self.nodes[source].sends, *sends))
            else:
                route = self.routes.get(NAMES[source], Route(is_async=self.maybe(0.3)))
                self.routes[NAMES[source]] = replace(route, sends=(*route.sends, *sends))
        elif how == "route":
            route = self.routes.get(NAMES[source], Route(several=self.maybe(0.3), is_async=self.maybe(0.3)))
            self.routes[NAMES[source]] = replace(route, choices=(*route.choices, name))
        else:
            self._edge(NAMES[source], name)

    def _forget(self) -> None:
        """Take their memory from subgraphs that may run several times at once: it would be one memory with several owners."""
        sent = {name for node in self.nodes for name in node.sends}
        sent.update(name for route in self.routes.values() for name in route.sends)
        self.nodes = [
            replace(node, child=_without_memory(node.child)) if node.child is not None and node.name in sent else node
            for node in self.nodes
        ]

    def _go_up(self, source: int, name: str) -> None:
        """If the node there is a subgraph of one function, that goes to `name` by a command for the graph around."""
        child = self.nodes[source].child
        if child is None or self.nodes[source].calls or len(child.nodes) > 1 or child.nodes[0].child or child.nodes[0].handled:
            return
        inner = replace(child, nodes=(replace(child.nodes[0], up=name, goto=(), sends=()),))
        self.nodes[source] = replace(self.nodes[source], child=inner)

    def _edge(self, source: str, target: str) -> None:
        if (source, target) not in self.edges:
            self.edges.append((source, target))

    def _loop(self) -> None:
        """Lead back from a function, which counts its turns, to itself or to one before it."""
        counting = [at for at, node in enumerate(self.nodes) if not node.is_subgraph]
        if counting:
            last = self.rng.choice(counting)
            route = self.routes.get(NAMES[last], Route(is_async=self.maybe(0.3)))
            back = NAMES[self.rng.randint(0, last)]
            self.routes[NAMES[last]] = replace(route, back=back, times=self.rng.randint(1, 2))


def _without_memory(plan: GraphPlan) -> GraphPlan:
    nodes = (replace(node, child=_without_memory(node.child)) if node.child is not None else node for node in plan.nodes)
    return replace(plan, remembers=False, nodes=tuple(nodes))


def _described(plan: GraphPlan, indent: str) -> Iterator[str]:
    yield f"{indent}starts {plan.starts} edges {plan.edges} joins {plan.joins}"
    if plan.remembers or plan.break_before or plan.break_after:
        yield f"{indent}remembers {plan.remembers}, breaks before {plan.break_before} after {plan.break_after}"
    for source, route in plan.routes.items():
        yield f"{indent}{source} -> {_set_of(route)}"
    for node in plan.nodes:
        yield f"{indent}{node.name}: {_set_of(node)}"
        if node.child is not None:
            yield from _described(node.child, f"{indent}    ")


def _set_of(plan: NodePlan | Route) -> str:
    """What differs from the defaults."""
    plain: NodePlan | Route = Route() if isinstance(plan, Route) else NodePlan(plan.name)
    shown = (name for name in plan.__slots__ if name not in {"name", "child"})
    return " ".join(f"{name}={getattr(plan, name)!r}" for name in shown if getattr(plan, name) != getattr(plain, name)) + (
        " subgraph" if isinstance(plan, NodePlan) and plan.child is not None else ""
    )
