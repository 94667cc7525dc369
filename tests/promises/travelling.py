"""What the tests of time travel share: graphs with graphs inside, all rows of a thread as they are stored, finding a checkpoint."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable
from typing import Annotated, Any, TypedDict

from perdure.checkpoint.memory import InMemorySaver
from perdure.checkpoint.rows import checkpoint_body, write_body
from perdure.checkpoint.saver import Saver
from perdure.checkpoint.sqlite import SqliteSaver
from perdure.graph import START, StateGraph
from perdure.types import StateSnapshot, interrupt
from tests.promises.ways import Config, Log, Way, on

TABLES = ("checkpoint", "value", "write", "namespace", "child")
"""The tables whose rows are never changed, but for a pointer to a subgraph that goes on."""


class Outer(TypedDict, total=False):
    """A state that takes the list of a subgraph as it is, and a key that no subgraph knows."""

    log: Annotated[list[str], lambda _, right: right]
    note: str


class Seen(TypedDict):
    """A list that nodes append to."""

    seen: Annotated[list[Any], operator.add]


class Number(TypedDict):
    """A number that grows."""

    n: Annotated[int, operator.add]


class Ran:
    """Which nodes ran, in order."""

    def __init__(self, way: Way) -> None:
        self.way = way
        self.names: list[str] = []

    def __call__(self, name: str, body: Callable[[Any], Any] | None = None) -> Any:
        """A node that notes its name, and appends it to the log or returns what the body does."""

        def node(state: Any) -> Any:
            self.names.append(name)
            return {"log": [name]} if body is None else body(state)

        node.__name__ = name
        return self.way.node(node)

    def asks(self, name: str, question: Any = "ok?") -> Any:
        """A node that appends the answer to a question."""
        return self(name, lambda _: {"log": [interrupt(question)]})

    def take(self) -> list[str]:
        """The names so far, which are forgotten."""
        names, self.names = self.names, []
        return names

    @property
    def times(self) -> Counter[str]:
        return Counter(self.names)


def in_a_row(state: Any, *nodes: tuple[str, Any]) -> StateGraph[Any, Any, Any, Any]:
    """A graph of nodes one after the other."""
    builder: StateGraph[Any, Any, Any, Any] = StateGraph(state)
    before = START
    for name, node in nodes:
        builder.add_node(name, node)
        builder.add_edge(before, name)
        before = name
    return builder


def side_by_side(state: Any, **nodes: Any) -> StateGraph[Any, Any, Any, Any]:
    """A graph of nodes that run in the same super-step."""
    builder: StateGraph[Any, Any, Any, Any] = StateGraph(state)
    for name, node in nodes.items():
        builder.add_node(name, node)
        builder.add_edge(START, name)
    return builder


def reviewed(ran: Ran, *, checkpointer: Any = None, prefix: str = "") -> Any:
    """The child of S07: a -> b -> c -> review, which asks."""
    nodes = [(name, ran(f"{prefix}{name}")) for name in "abc"]
    return in_a_row(Log, *nodes, ("review", ran.asks(f"{prefix}review"))).compile(checkpointer=checkpointer)


def around(inner: Any, saver: Any, *, levels: int = 1, checkpointer: Any = None) -> Any:
    """A graph around a graph, so many levels deep; the innermost is a node `sub` of each."""
    for _ in range(levels - 1):
        inner = in_a_row(Outer, ("sub", inner)).compile(checkpointer=checkpointer)
    return in_a_row(Outer, ("sub", inner)).compile(checkpointer=saver)


def innermost(way: Way, graph: Any, config: Config | None = None) -> StateSnapshot:
    """The snapshot of the deepest subgraph of the first task."""
    found = way.state(graph, config or on(), subgraphs=True)
    while found.tasks and isinstance(found.tasks[0].state, StateSnapshot):
        found = found.tasks[0].state
    return found


def before(way: Way, graph: Any, config: Config, *names: str) -> StateSnapshot:
    """The newest checkpoint in the history of a config after which these nodes run; in the order of the history, any branch."""
    conf = config["configurable"]
    place = on(conf["thread_id"], checkpoint_ns=conf.get("checkpoint_ns", ""))
    return next(one for one in way.history(graph, place) if one.next == names)


def stored(saver: Saver) -> dict[Any, Any]:
    """All rows as they are stored, by table and key."""
    if isinstance(saver, SqliteSaver):
        found: dict[Any, Any] = {}
        for table in TABLES:
            sql = f"SELECT * FROM {table}"
            keys = {"checkpoint": 3, "value": 1, "write": 5, "namespace": 2, "child": 5}[table]
            rows = saver._database.run(lambda database, sql=sql: database.execute(sql).fetchall())
            found.update(((table, *row[:keys]), row[keys:]) for row in rows)
        return found
    assert isinstance(saver, InMemorySaver)
    rows: dict[Any, Any] = {}
    for name, thread in saver._records._threads.items():
        rows.update((("checkpoint", name, n), (row.ns, row.id, checkpoint_body(row))) for n, row in thread.checkpoints.items())
        rows.update((("value", name, n), value) for n, value in thread.values.items())
        rows.update((("namespace", name, n), space) for n, space in thread.names.items())
        for origin, writes in thread.writes.items():
            rows.update((("write", name, origin, *key), write_body(row.items)) for key, row in writes.items())
        for origin, children in thread.children.items():
            rows.update((("child", name, origin, *key), row) for key, row in children.items())
    return rows


def changed(earlier: dict[Any, Any], later: dict[Any, Any]) -> list[Any]:
    """The keys of rows that are gone or different."""
    return [key for key, row in earlier.items() if later.get(key) != row]


def branches_of(way: Way, graph: Any) -> list[str]:
    """The ids of the root's checkpoints that no other was made of."""
    history = way.history(graph, on())
    parents = {one.parent_config["configurable"]["checkpoint_id"] for one in history if one.parent_config is not None}
    ids = [one.config["configurable"]["checkpoint_id"] for one in history]
    return [each for each in ids if each not in parents]
