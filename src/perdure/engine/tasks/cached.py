"""Results that are taken from a cache instead of running a node again, and put there after it ran.

Kept under the identity of the node's function, so that graphs may share a cache: two nodes of one name but of different functions
do not meet. Errors and pauses are never kept.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from perdure.constants import BRANCH_PREFIX, RETURN, TASKS
from perdure.engine.deciding.returns import unknown_node
from perdure.engine.running import telling
from perdure.engine.tasks.attempt import fail
from perdure.engine.tasks.calls import CallTask
from perdure.engine.tasks.task import Task
from perdure.errors import CacheWarning, InvalidConfig, MissingPartWarning, NotStorable, WrongType
from perdure.types import Send

if TYPE_CHECKING:
    from perdure.cache.base import BaseCache, FullKey, Namespace
    from perdure.engine.program import Node, Program
    from perdure.engine.running.run import Run
    from perdure.streaming.modes import Event
    from perdure.types import CachePolicy

KEPT_UNDER = "__pregel_ns_writes"


def namespace_of(node: Node) -> Namespace:
    """Where the results of a node are kept."""
    graph = node.call.subgraph
    if graph is not None:
        return (KEPT_UNDER, f"{graph.program.name}:{graph.program.fingerprint}", node.name)
    function = node.call.fn
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", None)
    return (KEPT_UNDER, f"{module}.{name}" if module and name else "__dynamic__", node.name)


def key_of(task: Task, policy: CachePolicy) -> FullKey:
    """Under which key a task's result is kept.

    Raises:
        WrongType: the key function gave neither text nor bytes.
        Exception: whatever it raised.
    """
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    if isinstance(task, CallTask):
        args, kwargs = task.args, task.kwargs
    else:
        args, kwargs = (task.send.arg if task.send is not None else task.see(task.node.view),), {}
    try:
        key: Any = policy.key_func(*args, **kwargs)
    except Exception as error:
        error.add_note(
            f"while making the cache key of node {task.node.name!r}: CachePolicy(key_func=...) says what else makes a key of what it gets"
        )
        raise
    data = key.encode("utf-8", "surrogatepass") if isinstance(key, str) else key
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise WrongType(
            f"the key_func of the cache policy of node {task.node.name!r} must return text or bytes, got {type(key).__name__}; "
            "for example key_func=lambda state: json.dumps(state['question'])"
        )
    return namespace_of(task.node), blake2b(data, digest_size=16).hexdigest()


async def replay(run: Run, tasks: list[Task], told: list[Event]) -> list[Task]:
    """Give each task whose result is kept that result; return the tasks that must run. A key that cannot be made fails its task."""
    if not any(task.node.cache is not None for task in tasks):
        return tasks
    asking: list[Task] = []
    for task in tasks:
        if task.node.cache is None:
            continue
        try:
            # Taken now: a node may change in place what its key is made of.
            task.cache_key = key_of(task, task.node.cache)
            asking.append(task)
        except Exception as error:  # noqa: BLE001 - the key function is the user's, and belongs to this task
            fail(task, error)
            telling.ended(run, told, task)
    found = await _get(run, list(dict.fromkeys(task.cache_key for task in asking)), blocks=run.runner.blocks)
    for task in asking:
        if _take(task, found):
            telling.ended(run, told, task)
    return [task for task in tasks if task.writes is None and task.error is None]


async def keep(run: Run, ended: Sequence[Any]) -> None:
    """Keep the results among what has ended; one that cannot be kept makes its task a failed one."""
    keeping = [task for task in ended if isinstance(task, Task) and task.node.cache is not None and task.writes is not None]
    if not keeping:
        return
    try:
        await _keep(run, keeping, blocks=run.runner.blocks)
    except NotStorable:
        for task in keeping:
            try:
                await _keep(run, [task], blocks=run.runner.blocks)
            except NotStorable as error:
                fail(task, error)


async def replay_step(call: CallTask, *, blocks: bool) -> bool:
    """Give a durable step the result that is kept for its arguments; whether there is one.

    Raises:
        Exception: whatever the key function raised.
    """
    policy = call.node.cache
    if policy is None:
        return False
    if call.run.cache is None:
        _warn(
            f"task {call.node.name!r} has a cache policy, but the graph or entrypoint it runs in has no cache: nothing is kept. "
        )
        return False
    # Taken now: the step may change in place what its key is made of.
    call.cache_key = key_of(call, policy)
    return _take(call, await _get(call.run, [call.cache_key], blocks=blocks))


async def keep_step(call: CallTask, *, blocks: bool) -> None:
    """Keep a durable step's result.

    Raises:
        NotStorable: it cannot be kept.
    """
    if call.node.cache is not None and call.run.cache is not None and call.writes is not None:
        await _keep(call.run, [call], blocks=blocks)


async def _get(run: Run, keys: Sequence[FullKey], *, blocks: bool) -> Mapping[FullKey, Any]:
    if not keys:
        return {}
    cache: BaseCache[Any] = run.cache
    return cache.get(keys) if blocks else await cache.aget(keys)


def _take(task: Task, found: Mapping[FullKey, Any]) -> bool:
    """Give a task the result that is kept for it; whether there is one."""
    writes = found.get(task.cache_key)
    if writes is None:
        return False
    if not _is_result(task, writes):
        warnings.warn(
            f"what the cache has for node {task.node.name!r} is no result of it in graph {task.run.program.name!r} as it is now, and "
            "counts as not there: the node runs again",
            CacheWarning,
            stacklevel=2,
        )
        return False
    task.writes = [(channel, value) for channel, value in writes]
    task.cached = True
    return True


def _is_result(task: Task, writes: Any) -> bool:
    """Whether a task may have made these writes. A cache outlives the code of a graph: its keys and nodes may be others by now."""
    if not isinstance(writes, (list, tuple)) or not all(isinstance(each, (list, tuple)) and len(each) == 2 for each in writes):
        return False
    if isinstance(task, CallTask):
        return [channel for channel, _ in writes] == [RETURN]
    return all(isinstance(channel, str) and _may_write(task.run.program, channel, value) for channel, value in writes)


def _may_write(program: Program, channel: str, value: Any) -> bool:
    if channel == TASKS:
        return isinstance(value, Send) and value.node in program.nodes
    if channel.startswith(BRANCH_PREFIX):
        return channel.removeprefix(BRANCH_PREFIX) in program.nodes
    return channel in program.channels


async def _keep(run: Run, tasks: Sequence[Task], *, blocks: bool) -> None:
    try:
        await _set(run, tasks, blocks=blocks)
    except NotStorable:
        raise
    except Exception as error:  # noqa: BLE001 - what a node has done must not be lost because others cannot be spared it
        names = ", ".join(sorted({repr(task.node.name) for task in tasks}))
        warnings.warn(
            f"the result of node {names} could not be kept in the cache, and will be made again where it is needed: "
            f"{type(error).__name__}: {'; '.join([str(error), *getattr(error, '__notes__', ())])}",
            CacheWarning,
            stacklevel=2,
        )


async def _set(run: Run, tasks: Sequence[Task], *, blocks: bool) -> None:
    cache: BaseCache[Any] = run.cache
    pairs: dict[FullKey, tuple[Any, Any]] = {
        task.cache_key: ([list(write) for write in task.writes or ()], None if task.node.cache is None else task.node.cache.ttl)
        for task in tasks
    }
    if blocks:
        cache.set(pairs)
    else:
        await cache.aset(pairs)


def warn_of_no_cache(program: Program) -> None:
    """Warn of nodes with a cache policy in a graph that has no cache, and is given none by one around it."""
    names = ", ".join(repr(node.name) for node in program.nodes.values() if node.cache is not None)
    _warn(f"node {names} of graph {program.name!r} has a cache policy, but the graph has no cache: nothing is kept. ")


def _warn(what: str) -> None:
    warnings.warn(
        what + "Give it one with compile(cache=InMemoryCache()), from perdure.cache.memory, or leave the policy out",
        MissingPartWarning,
        stacklevel=3,
    )


class HasCache:
    """The part of a compiled graph that is about its cache."""

    program: Program
    cache: Any
    lacks_cache: bool

    def use_cache(self, cache: Any) -> None:
        """Keep results of nodes with a cache policy in `cache`; None: nowhere.

        Raises:
            WrongType: it is no cache.
        """
        if cache is not None and (isinstance(cache, type) or not all(hasattr(cache, name) for name in ("get", "set", "aset"))):
            kind = cache.__name__ if isinstance(cache, type) else type(cache).__name__
            raise WrongType(
                f"cache must be a cache or None, got {kind}; for example cache=InMemoryCache(), or SqliteCache('results.db'), "
                "from perdure.cache"
            )
        self.cache = cache
        self.lacks_cache = cache is None and any(node.cache is not None for node in self.program.nodes.values())
        learn: Any = getattr(cache, "learn", None)
        if learn is not None:
            learn(self.program.types)

    def clear_cache(self, nodes: Sequence[str] | None = None) -> None:
        """Forget the kept results of these nodes; None: of all.

        Raises:
            InvalidArgument: the graph has no cache, or no such node.
        """
        namespaces = self._to_clear(nodes)
        self.cache.clear(namespaces)

    async def aclear_cache(self, nodes: Sequence[str] | None = None) -> None:
        """`clear_cache` for async code."""
        namespaces = self._to_clear(nodes)
        await self.cache.aclear(namespaces)

    def _to_clear(self, nodes: Sequence[str] | None) -> list[Namespace]:
        known = self.program.nodes
        if self.cache is None:
            raise InvalidConfig(
                "No cache is set for this graph. Cannot clear cache. Give it one with compile(cache=InMemoryCache())"
            )
        for name in nodes or ():
            if name not in known:
                raise unknown_node(self.program, "clear_cache was asked to forget the results of", name)
        return [namespace_of(known[name]) for name in (known if nodes is None else nodes)]
