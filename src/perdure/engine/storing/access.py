"""Which thread of which saver a call is about, and whether it comes from inside a running node."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from perdure.checkpoint.leases.line import Line
from perdure.checkpoint.leases.watch import Watch
from perdure.checkpoint.saver import Saver
from perdure.clock import SYSTEM_CLOCK
from perdure.constants import CONF
from perdure.engine.storing.session import Access
from perdure.engine.tasks.task import Task
from perdure.errors import InvalidConfig, SelfBusy
from perdure.runtime.config import thread_of
from perdure.scope import CURRENT

if TYPE_CHECKING:
    from perdure.checkpoint.base import BaseCheckpointSaver
    from perdure.engine.program import Program
    from perdure.types import Durability, RunnableConfig

DURABILITIES = ("sync", "async", "exit")


def access_for(
    saver: BaseCheckpointSaver[Any], config: RunnableConfig, *, blocking: bool, durability: Durability | None = None
) -> Access:
    """The way to the thread that a config names.

    Raises:
        MissingThreadId, TypeError: it names none, or by something that is no text.
        InvalidConfig: there is no such durability.
    """
    thread = thread_of(config)
    checked_durability(durability)
    run_id = str(config.get("run_id") or "") or os.urandom(8).hex()
    if isinstance(saver, Saver):
        both = (saver.blocking(), saver.suspending())
        return Access(
            both[not blocking],
            both[blocking],
            saver,
            thread,
            run_id,
            saver.clock,
            saver.lease_seconds,
            durability or "sync",
            saver.watch,
            saver.line,
            saver.renewer.keep,
            saver.persist,
            saver.heads,
        )
    from perdure.checkpoint.foreign import ForeignRecords, Identity

    return Access(
        ForeignRecords(saver, blocking=blocking),
        ForeignRecords(saver, blocking=not blocking),
        Identity(saver),
        thread,
        run_id,
        SYSTEM_CLOCK,
        0.0,
        durability or "sync",
        Watch(SYSTEM_CLOCK, 0.0),
        Line(),
        _no_lease,
    )


def checked_durability(durability: Durability | None) -> Durability | None:
    """The durability, if there is such a one.

    Raises:
        InvalidConfig: there is none.
    """
    if durability is not None and durability not in DURABILITIES:
        raise InvalidConfig(
            f"durability must be one of {', '.join(map(repr, DURABILITIES))}, got {durability!r}", key="durability"
        )
    return durability


def _no_lease(thread: str, token: str, epoch: int, held: bool) -> None:
    """A saver of the seeds' four methods has no leases to renew."""


def enclosing_task(program: Program, given: RunnableConfig) -> Task | None:
    """The task whose code makes this call, if the call is for a graph inside that task's run.

    A call that names another thread is a run of its own. One that names the very thread it runs in, for the very graph that runs
    there, would wait for itself.

    Raises:
        SelfBusy: a node starts its own graph on its own thread.
    """
    task = CURRENT.get(None)
    if not isinstance(task, Task):
        return None
    conf = given.get(CONF) or {}
    thread = conf.get("thread_id")
    if thread is None:
        return task
    if task.run.journal is None or str(thread) != task.run.journal.session.thread:
        return None
    above: Task | None = task
    while above is not None:
        if above.run.program is program and "langgraph_node" not in (given.get("metadata") or {}):
            raise SelfBusy(
                f"node {task.node.name!r} starts graph {program.name!r} on thread {thread!r}, in which it runs itself; it would wait for "
                "itself. Call the graph without a config to run it as a subgraph, or give it another thread_id",
                thread=str(thread),
                node=task.node.name,
            )
        above = above.run.parent
    return task


def refuse_inside(thread: str, what: str) -> None:
    """Refuse to edit or delete a thread from inside its own run.

    Raises:
        SelfBusy: this code runs in that thread.
    """
    task = CURRENT.get(None)
    if isinstance(task, Task) and task.run.journal is not None and task.run.journal.session.thread == thread:
        raise SelfBusy(
            f"node {task.node.name!r} tries to {what} thread {thread!r}, in which it runs; return a Command or an update instead",
            thread=thread,
            node=task.node.name,
        )
