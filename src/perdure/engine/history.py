"""Reading a thread: its state now, at any checkpoint, and its history. Written once for both colours; needs no lease."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from typing import TYPE_CHECKING, Any

from perdure.checkpoint.records import ROOT_NS, Loaded
from perdure.constants import CONF, NS_END, NS_SEP
from perdure.engine.snapshot import Snapshooter, nothing
from perdure.errors import InvalidConfig, UnknownCheckpoint, UnknownNode
from perdure.runtime.config import checked, merged
from perdure.types import RunnableConfig, StateSnapshot

if TYPE_CHECKING:
    from perdure.engine.compiled import CompiledGraph
    from perdure.engine.session import Access

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
        loaded = await self._access.records.load(self._access.thread, namespace or ROOT_NS, wanted)
        if loaded.row is None:
            if wanted is not None:
                raise UnknownCheckpoint(
                    f"thread {self._access.thread!r} has no checkpoint {wanted!r} in namespace {namespace!r}",
                    thread=self._access.thread,
                    checkpoint=wanted,
                )
            return nothing(config, root=self._graph.program.root)
        return await self._snapshot(self._graph, namespace, loaded, live=wanted is None, subgraphs=subgraphs)

    async def _snapshot(
        self, graph: CompiledGraph, namespace: str, loaded: Loaded, *, live: bool, subgraphs: bool
    ) -> StateSnapshot:
        inner = subgraph_at(graph, namespace)
        now_ns = self._access.clock.now_ns()
        maker = Snapshooter(inner.program, loaded, self._access.saver.serde, namespace, live=live, now_ns=now_ns)
        states: dict[tuple[int, str], Any] = {}
        for child in loaded.children:
            if child.call != 0:
                continue
            name = loaded.namespaces[child.child_ns]
            states[child.origin, child.path] = {CONF: {"thread_id": self._access.thread, "checkpoint_ns": name}}
            if subgraphs and _is_drawn(graph, name):
                below = await self._access.records.load(self._access.thread, child.child_ns, child.head)
                if below.row is not None:
                    states[child.origin, child.path] = await self._snapshot(graph, name, below, live=live, subgraphs=True)
        return maker.snapshot(states)

    async def history(
        self, config: RunnableConfig, *, match: Mapping[str, Any] | None, before: RunnableConfig | None, limit: int | None
    ) -> AsyncGenerator[StateSnapshot, None]:
        """Snapshots of a namespace, newest first. The first is yielded before the rest is read.

        Raises:
            InvalidConfig: a negative limit.
            UnknownCheckpoint: the config or `before` names a checkpoint that the thread does not have.
        """
        if limit is not None and limit < 0:
            raise InvalidConfig(f"limit must not be negative, got {limit}", key="limit")
        records, thread = self._access.records, self._access.thread
        conf = config.get(CONF) or {}
        namespace = conf.get("checkpoint_ns") or ""
        number: int | None = None
        before_id = (before or {}).get(CONF, {}).get("checkpoint_id")
        if before_id:
            number = await records.number_of(thread, before_id)
            if number is None:
                raise UnknownCheckpoint(
                    f"thread {thread!r} has no checkpoint {before_id!r}", thread=thread, checkpoint=before_id
                )
        elif conf.get("checkpoint_id"):
            loaded = await records.load(thread, namespace or ROOT_NS, conf["checkpoint_id"])
            if loaded.row is None:
                raise UnknownCheckpoint(
                    f"thread {thread!r} has no checkpoint {conf['checkpoint_id']!r} in namespace {namespace!r}",
                    thread=thread,
                    checkpoint=conf["checkpoint_id"],
                )
            if limit != 0:
                yield await self._snapshot(self._graph, namespace, loaded, live=False, subgraphs=False)
            return
        left = limit
        size = 1
        while left is None or left > 0:
            page = await records.page(
                thread, namespace or ROOT_NS, before=number, limit=size if left is None else min(size, left)
            )
            for loaded in page:
                snapshot = await self._snapshot(self._graph, namespace, loaded, live=False, subgraphs=False)
                if match and any((snapshot.metadata or {}).get(key) != want for key, want in match.items()):
                    continue
                yield snapshot
                if left is not None:
                    left -= 1
            last = page[-1].row if page else None
            if last is None:
                return
            number = last.n
            size = PAGE


def _is_drawn(graph: CompiledGraph, namespace: str) -> bool:
    """Whether the graph of a namespace is known: it is a node, not called by a node's own code."""
    try:
        subgraph_at(graph, namespace)
    except UnknownNode:
        return False
    return True


def subgraph_at(graph: CompiledGraph, namespace: str) -> CompiledGraph:
    """The graph that runs in a namespace: each part before a task id names a node.

    Raises:
        UnknownNode: a part names a node that has no subgraph.
    """
    found = graph
    for part in namespace.split(NS_SEP) if namespace else ():
        name = part.split(NS_END)[0]
        if name.isdigit():
            continue
        node = found.program.nodes.get(name)
        inner = None if node is None else node.call.subgraph
        if inner is None:
            raise UnknownNode(f"Subgraph {name} not found: node {name!r} of graph {found.name!r} runs no subgraph", node=name)
        found = inner
    return found


def call_config(graph: CompiledGraph, config: Mapping[str, Any]) -> RunnableConfig:
    """The config of a call that reads or edits: checked, and merged into the graph's own."""
    return merged(graph.bound_config, checked(config))
