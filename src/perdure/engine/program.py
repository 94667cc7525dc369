"""What a graph compiles to: everything the engine must know to run it, looked up once and never changed.

Nothing here runs, saves or draws. The rooms `graph` and `func` build programs; the engine only reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from perdure.constants import BRANCH_PREFIX, JOIN_PREFIX

if TYPE_CHECKING:
    from perdure.channels.base import BaseChannel
    from perdure.types import CachePolicy, RetryPolicy, TimeoutPolicy

Injectable = Literal["config", "runtime", "writer", "store", "previous", "error"]


@dataclass(slots=True, eq=False)
class Call:
    """How to call a user's function; its signature was inspected once, at compile time.

    Attributes:
        fn: the callable. Called as `fn(state, **injected)`, or `fn(**injected)` where it takes no state.
        is_async: it is known to return an awaitable. A plain function that returns one all the same is awaited too.
        takes_state: its first positional parameter receives the state.
        inject: (parameter name, what it receives), for the parameters that the runtime fills.
        subgraph: the compiled graph this call runs, if it is one.
    """

    fn: Callable[..., Any]
    is_async: bool = False
    takes_state: bool = True
    inject: tuple[tuple[str, Injectable], ...] = ()
    subgraph: Any = None


@dataclass(slots=True, eq=False)
class StateView:
    """Which part of the state a function sees, and as what.

    Attributes:
        keys: the channels it reads, in order; channels without a value are left out.
        managed: the managed values it reads.
        whole: `keys` are all the state's keys, so that the live view can be copied as it is.
        root: the state has no keys: the function receives the one value itself.
        given: the function receives the input of the run as it is, not the state (functional API).
        make: builds the schema's object (dataclass, pydantic model) from the dict; None leaves the dict.
    """

    keys: tuple[str, ...] = ()
    managed: tuple[str, ...] = ()
    whole: bool = True
    root: bool = False
    given: bool = False
    make: Callable[[dict[str, Any]], Any] | None = None


@dataclass(slots=True, eq=False)
class Branch:
    """A conditional edge.

    Attributes:
        name: the name of its path function, unique in its node.
        call: the path function; returns a node name, END, a Send, or a list of these (or keys of `ends`).
        ends: from what it returns to node names; None: it returns node names.
        view: the state it sees; None: all of the node's state, and the node's own extra output keys.
    """

    name: str
    call: Call
    ends: Mapping[Hashable, str] | None = None
    view: StateView | None = None


@dataclass(slots=True)
class Join:
    """An edge from several nodes: its target runs once all of them have run.

    Attributes:
        name: `join:a+b:end`, its name in records.
        sources: the nodes it waits for.
        target: the node it starts.
        deferred: it fires only when nothing else is left to run.
    """

    name: str
    sources: frozenset[str]
    target: str
    deferred: bool = False


def nodes_of_join(name: str) -> tuple[tuple[str, ...], str]:
    """The sources and the target of a join, by its name in records."""
    sources, _, target = name.removeprefix(JOIN_PREFIX).rpartition(":")
    return tuple(sources.split("+")), target


@dataclass(slots=True, eq=False)
class Node:
    """A node, ready to run.

    Attributes:
        name: its name; `__start__` for the entry.
        call: what runs.
        view: the state it sees.
        edges: the nodes that run after it (END left out).
        joins: names of the joins it feeds.
        branches: its conditional edges, in the order they were added.
        defer: it runs only when nothing else is left to run.
        retry: policies, the first that fits an error decides.
        cache: keep its results.
        timeout: for async nodes.
        handler: name of the node that runs in its place when it has failed for good.
        is_handler: it is such a node: nothing leads to it.
        metadata: what the user attached; carried to tracers and drawings.
        destinations: drawing hints of what it may go to by Command; never affects a run.
        hidden: not shown in streams.
        plain: the engine may run it inline: a sync call without retries, cache, timeout or handler.
    """

    name: str
    call: Call
    view: StateView
    edges: tuple[str, ...] = ()
    joins: tuple[str, ...] = ()
    branches: tuple[Branch, ...] = ()
    defer: bool = False
    retry: tuple[RetryPolicy, ...] = ()
    cache: CachePolicy | None = None
    timeout: TimeoutPolicy | None = None
    handler: str | None = None
    is_handler: bool = False
    metadata: dict[str, Any] | None = None
    destinations: Mapping[str, str | None] | tuple[str, ...] = ()
    hidden: bool = False
    plain: bool = field(init=False)

    def __post_init__(self) -> None:
        self.plain = not (
            self.call.is_async
            or any(branch.call.is_async for branch in self.branches)
            or self.retry
            or self.cache
            or self.timeout
            or self.handler
            or self.call.subgraph is not None
        )


@dataclass(slots=True, eq=False)
class Managed:
    """A value that the engine computes for a node's input and never stores, such as the steps that remain.

    Attributes:
        kind: which one.
    """

    kind: Literal["is_last_step", "remaining_steps"]


@dataclass(slots=True, eq=False)
class Program:
    """A compiled graph.

    Attributes:
        name: the graph's name.
        channels: a template for each state key (for a state without keys only `__root__`), in definition order.
        managed: managed values by key.
        nodes: all nodes except the entry, in definition order.
        aliases: names that nodes had before, and what they are called now: stored tasks of the old name run the new node.
        start: the entry: a node that runs nothing; its edges and branches lead to the first nodes.
        joins: all joins by name.
        root: the state has no keys.
        input_keys: keys that an input may have.
        output_keys: keys of the result.
        stream_keys: keys that snapshots and streams show.
        pairs_of: the (key, value) pairs of an object of a state class (dataclass, pydantic); None for anything else.
        validate_state: refuses values that do not fit a pydantic or dataclass state, given all values and the changed keys;
            None where the schema promises nothing.
        output_object: builds the output schema's object for `invoke(version="v2")`; None leaves the dict.
        unknown_keys: what to do with keys the state does not have.
        interrupt_before, interrupt_after: node names, or "*".
        context_schema: the class of `runtime.context`, if declared.
        step_timeout: seconds that a super-step may take.
        types: classes that may be stored in this state, for the serializer's registry.
        fingerprint: digest of the topology and the schema's keys.
        single_output: the result is the bare value of this key (functional API), not a dict.
    """

    name: str
    channels: dict[str, BaseChannel[Any, Any, Any]]
    nodes: dict[str, Node]
    start: Node
    managed: dict[str, Managed] = field(default_factory=dict)
    joins: dict[str, Join] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)
    root: bool = False
    input_keys: tuple[str, ...] = ()
    output_keys: tuple[str, ...] = ()
    stream_keys: tuple[str, ...] = ()
    pairs_of: Callable[[Any], list[tuple[str, Any]] | None] = lambda _: None
    validate_state: Callable[[Mapping[str, Any], frozenset[str]], None] | None = None
    output_object: Callable[[Any], Any] | None = None
    unknown_keys: Literal["error", "ignore"] = "error"
    interrupt_before: tuple[str, ...] | Literal["*"] = ()
    interrupt_after: tuple[str, ...] | Literal["*"] = ()
    context_schema: type[Any] | None = None
    step_timeout: float | None = None
    types: tuple[type[Any], ...] = ()
    fingerprint: str = ""
    single_output: str | None = None
    volatile: tuple[str, ...] = field(init=False)
    untracked: frozenset[str] = field(init=False)
    prepare: dict[str, Callable[[Any], Any]] = field(init=False)
    order: dict[str, int] = field(init=False)
    triggers: dict[str, tuple[str, ...]] = field(init=False)

    def __post_init__(self) -> None:
        self.volatile = tuple(key for key, channel in self.channels.items() if channel.volatile)
        self.untracked = frozenset(key for key, channel in self.channels.items() if not channel.tracked)
        # A reducer may have a function that makes what is written definite (add_messages: gives ids) before anyone sees or stores it.
        found = {
            key: getattr(getattr(channel, "operator", None), "prepare_write", None) for key, channel in self.channels.items()
        }
        self.prepare = {key: prepare for key, prepare in found.items() if prepare is not None}
        self.order = {name: at for at, name in enumerate(self.nodes)}
        self.triggers = {name: (BRANCH_PREFIX + name,) for name in self.nodes}
        for join in self.joins.values():
            if join.target in self.triggers:
                self.triggers[join.target] += (join.name,)

    def join_of(self, name: str) -> Join | None:
        """The join that stored arrivals at one of this name count for: of the same nodes, by what they are called now."""
        found = self.joins.get(name)
        if found is not None or not self.aliases:
            return found
        sources, target = nodes_of_join(name)
        now = frozenset(self.aliases.get(source, source) for source in sources), self.aliases.get(target, target)
        return next((join for join in self.joins.values() if (join.sources, join.target) == now), None)

    def node(self, name: str) -> Node | None:
        """The node that runs tasks stored under this name, None if there is none."""
        found = self.nodes.get(name)
        return self.nodes.get(self.aliases.get(name, "")) if found is None and self.aliases else found
