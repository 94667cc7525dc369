"""Reading a thread: its state now, at any checkpoint, and its history. Written once for both colours; needs no lease."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Protocol

from perdure.checkpoint.records import ROOT_NS, BranchName, ChildRow, Loaded
from perdure.constants import CONF, NS_END, NS_SEP
from perdure.engine.deciding.known_calls import top_of
from perdure.engine.past.branches import branch_of, left_behind, unknown_branch
from perdure.engine.past.places import MEMORY, standing
from perdure.engine.storing.snapshot import Snapshooter, nothing
from perdure.errors import InvalidConfig, UnknownCheckpoint, UnknownNode
from perdure.ids import address_text
from perdure.runtime.config import checked, merged
from perdure.types import RunnableConfig, StateSnapshot

if TYPE_CHECKING:
    from perdure.engine.compiled import CompiledGraph
    from perdure.engine.storing.session import Access

PAGE = 16
"""Checkpoints that a history reads at a time, after the first."""


class History:
    """Reads the threads of one graph.

    Args:
        graph: the graph.
        access: the way to the thread.
    """

    __slots__ = ("_access", "_graph")

    def __init__(self, graph: CompiledGraph, access: Access) -> None:
        self._graph = graph
        self._access = access

    async def state(self, config: RunnableConfig, *, subgraphs: bool) -> StateSnapshot:
        """The snapshot of the checkpoint that a config addresses, or of now.

        Raises:
            UnknownCheckpoint: the config names a checkpoint that the thread does not have.
        """
        conf = config.get(CONF) or {}
        namespace = conf.get("checkpoint_ns") or ""
        wanted = conf.get("checkpoint_id") or None
        branch = branch_of(config)
        if namespace and wanted is None:
            loaded = await self._now(namespace, branch)
        else:
            loaded = await self._load(namespace, branch or wanted)
        if loaded.row is None:
            if branch is not None:
                raise await unknown_branch(self._access, branch)
            if wanted is not None:
                raise UnknownCheckpoint(
                    f"thread {self._access.thread!r} has no checkpoint {wanted!r} in namespace {namespace!r}",
                    thread=self._access.thread,
                    checkpoint=wanted,
                )
            program = self._graph.program
            return nothing(config, root=program.root or program.single_output is not None)
        live = wanted is None
        if branch is not None and not namespace:
            # As a run on the name would find it: what others went on from is what it was, without what their tasks did.
            live = not await left_behind(self._access, loaded, branch.name)
        return await self._snapshot(namespace, loaded, live=live, subgraphs=subgraphs)

    async def _load(self, namespace: str, checkpoint: str | BranchName | None) -> Loaded:
        if not namespace:
            return await self._access.load(checkpoint)
        return await self._access.records.load(self._access.thread, namespace, checkpoint)

    async def _now(self, namespace: str, branch: BranchName | None) -> Loaded:
        """Where a subgraph stands as of the root's head, not whatever was stored in its namespace last (P21)."""
        place = await standing(self._access, namespace, branch)
        if place is not None:
            return place.target
        return await self._access.records.load(self._access.thread, namespace, None)

    async def _snapshot(self, namespace: str, loaded: Loaded, *, live: bool, subgraphs: bool) -> StateSnapshot:
        (snapshot,) = await self._snapshots([(namespace, loaded)], live=live, subgraphs=subgraphs)
        return snapshot

    async def _snapshots(self, level: Sequence[tuple[str, Loaded]], *, live: bool, subgraphs: bool) -> list[StateSnapshot]:
        """Snapshots of checkpoints that lie equally deep; all subgraphs below them are read in one go."""
        states: list[dict[tuple[int, str], Any]] = []
        below: list[tuple[dict[tuple[int, str], Any], ChildRow, str]] = []
        for _, loaded in level:
            shown: dict[tuple[int, str], Any] = {}
            states.append(shown)
            for child in sorted(loaded.children, key=lambda child: ">" in child.path):
                if child.call != 0 or child.path.startswith(MEMORY):
                    continue
                name = loaded.name_of(child.child_ns)
                at = (child.origin, top_of(child.path))
                if at in shown and child.path != at[1]:
                    continue  # a durable step's, where the node itself runs a subgraph, or another step does
                shown[at] = {CONF: {"thread_id": self._access.thread, "checkpoint_ns": name}}
                if subgraphs and _is_known(self._graph, name):
                    below.append((shown, child, name))
        if below:
            places = [(child.child_ns, child.head) for _, child, _ in below]
            found = await self._access.records.several(self._access.thread, places)
            read = {(one.row.ns, one.row.n): one for one in found if one.row is not None}
            there = [(shown, child, name) for shown, child, name in below if (child.child_ns, child.head) in read]
            inner = [(name, read[child.child_ns, child.head]) for _, child, name in there]
            snapshots = await self._snapshots(inner, live=live, subgraphs=True)
            for (shown, child, _), snapshot in zip(there, snapshots, strict=True):
                shown[child.origin, top_of(child.path)] = snapshot
        return [
            self._maker(namespace, loaded, live=live).snapshot(shown)
            for (namespace, loaded), shown in zip(level, states, strict=True)
        ]

    def _maker(self, namespace: str, loaded: Loaded, *, live: bool) -> Snapshooter:
        program = subgraph_at(self._graph, namespace, keys_of(loaded)).program
        access = self._access
        return Snapshooter(program, loaded, access.saver.serde, namespace, live=live, now_ns=access.clock.now_ns())

    async def _tip(self, namespace: str, branch: BranchName | None) -> int | None:
        """The number of the newest checkpoint of a branch, in the root or a subgraph; None without a branch."""
        if branch is None:
            return None
        records, thread = self._access.records, self._access.thread
        row = (await records.load(thread, ROOT_NS, branch)).row
        if row is None:
            raise await unknown_branch(self._access, branch)
        if not namespace:
            return row.n
        place = await standing(self._access, namespace, branch)
        return 0 if place is None or place.target.row is None else place.target.row.n

    async def history(
        self, config: RunnableConfig, *, match: Mapping[str, Any] | None, before: RunnableConfig | None, limit: int | None
    ) -> AsyncGenerator[StateSnapshot, None]:
        """Snapshots of a namespace, newest first. The first is yielded before the rest is read.

        Raises:
            InvalidConfig: a negative limit, or an argument of another kind.
            UnknownCheckpoint: the config or `before` names a checkpoint that the thread does not have.
        """
        most: Any = limit
        if most is not None and (not isinstance(most, int) or most < 0):
            raise InvalidConfig(f"limit must not be negative, got {limit!r}", key="limit")
        others: dict[str, Any] = {"before": before, "filter": match}
        for name, given in others.items():
            if given is not None and not isinstance(given, Mapping):
                raise InvalidConfig(f"{name} must be a dict, got {given!r}", key=name)
        conf = config.get(CONF) or {}
        namespace = conf.get("checkpoint_ns") or ""
        before_id = address_text((before or {}).get(CONF) or {}, "checkpoint_id")
        below = None if not before_id else await self._number_of(before_id)
        wanted = conf.get("checkpoint_id")
        if wanted and below is None:
            loaded = await self._load(namespace, wanted)
            if loaded.row is None:
                raise self._no_such(wanted, namespace)
            if limit != 0:
                yield await self._snapshot(namespace, loaded, live=False, subgraphs=False)
            return
        tip = await self._tip(namespace, branch_of(config))
        if limit == 0:
            return
        left = limit
        rows = self._pages(namespace, below, left) if tip is None else self._line(namespace, tip, below)
        async with aclosing(rows):
            async for loaded in rows:
                snapshot = await self._snapshot(namespace, loaded, live=False, subgraphs=False)
                if match and any((snapshot.metadata or {}).get(key) != want for key, want in match.items()):
                    continue
                yield snapshot
                if left is not None:
                    left -= 1
                    if left == 0:
                        return

    async def _number_of(self, checkpoint: str) -> int:
        number = await self._access.records.number_of(self._access.thread, checkpoint)
        if number is None:
            raise self._no_such(checkpoint)
        return number

    def _no_such(self, checkpoint: str, namespace: str | None = None) -> UnknownCheckpoint:
        where = "" if namespace is None else f" in namespace {namespace!r}"
        thread = self._access.thread
        return UnknownCheckpoint(
            f"thread {thread!r} has no checkpoint {checkpoint!r}{where}", thread=thread, checkpoint=checkpoint
        )

    async def _pages(self, namespace: str, below: int | None, first: int | None) -> AsyncGenerator[Loaded, None]:
        """The checkpoints of a namespace with numbers below `below`, newest first; the first comes alone."""
        size = 1
        left = first
        while left is None or left > 0:
            limit = size if left is None else min(size, left)
            page = await self._access.records.page(self._access.thread, namespace or ROOT_NS, before=below, limit=limit)
            for loaded in page:
                yield loaded
            last = page[-1].row if page else None
            if last is None:
                return
            below = last.n
            size = PAGE

    async def _line(self, namespace: str, tip: int, below: int | None) -> AsyncGenerator[Loaded, None]:
        """A branch's checkpoint with number `tip` and its ancestors, newest first, as far as their numbers are below `below`."""
        wanted: int | None = tip
        async with aclosing(self._pages(namespace, tip + 1, None)) as pages:
            async for loaded in pages:
                row = loaded.row
                if row is None or row.n != wanted:
                    continue
                wanted = row.parent
                if below is None or row.n < below:
                    yield loaded
                if wanted is None:
                    return


def _is_known(graph: CompiledGraph, namespace: str) -> bool:
    """Whether the graph of a namespace is known: it is a node, or a node's code names it."""
    try:
        subgraph_at(graph, namespace)
    except UnknownNode:
        return False
    return True


def keys_of(loaded: Loaded) -> frozenset[str]:
    """The state keys that a checkpoint has."""
    return frozenset(key for row in loaded.chain for key in row.changes if not key.startswith("__"))


def subgraph_at(graph: CompiledGraph, namespace: str, keys: frozenset[str] = frozenset()) -> CompiledGraph:
    """The graph that runs in a namespace: each part before a task id names a node, or a durable step in it.

    Args:
        graph: the root.
        namespace: the namespace.
        keys: of its state; where the code of a node names several graphs, it is the first that has them.

    Raises:
        UnknownNode: a part names a node that has no subgraph.
    """
    found = [graph]
    for at, part in enumerate(namespace.split(NS_SEP) if namespace else ()):
        name = part.split(NS_END)[0]
        if name.isdigit():
            continue
        inner = [each for outer in found for each in outer.graphs_at(name)]
        if not inner and (at == 0 or NS_END not in part):
            raise UnknownNode(
                f"Subgraph {name} not found: node {name!r} of graph {found[0].name!r} runs no subgraph that is known", node=name
            )
        found = inner or found
    return next((each for each in found if keys <= each.program.channels.keys()), found[0])


class Bound(Protocol):
    """A graph with a config of its own."""

    bound_config: RunnableConfig


def call_config(graph: Bound, config: Mapping[str, Any]) -> RunnableConfig:
    """The config of a call that reads or edits: checked, and merged into the graph's own."""
    return merged(graph.bound_config, checked(config))
