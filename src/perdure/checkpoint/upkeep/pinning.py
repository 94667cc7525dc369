"""Names that hold on to checkpoints: what may be one, and giving and taking them without a graph. Written once for both colours.

A pin is the name of a branch that nobody runs on (decision 0012): retention keeps the tips of named branches.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any, TypeVar

from perdure.checkpoint.exchange import address
from perdure.checkpoint.leases import identity
from perdure.checkpoint.records import ROOT_NS, BranchRow, Commit, StaleLoad, ThreadRow
from perdure.checkpoint.saving import AS_IT_WAS, attempt, save
from perdure.constants import CONF
from perdure.errors import InvalidConfig, UnknownBranch, UnknownCheckpoint

if TYPE_CHECKING:
    from perdure.checkpoint.leases.watch import Watch
    from perdure.checkpoint.records import RecordStore
    from perdure.clock import Clock
    from perdure.types import RunnableConfig

T = TypeVar("T")

BRANCH = "branch"
"""The key of `configurable` that names a branch."""
LONGEST = 200


def checked_name(name: Any) -> str:
    """The name, if it can be one.

    Raises:
        InvalidConfig: it is no text, empty, too long, or holds NUL.
    """
    if not isinstance(name, str) or not name or "\x00" in name or len(name) > LONGEST:
        raise InvalidConfig(
            f"the name of a branch is text of 1 to {LONGEST} characters without NUL, got {name!r}"[:500], key=BRANCH
        )
    return str(name)


async def pin(records: RecordStore, clock: Clock, watch: Watch, config: RunnableConfig, name: str) -> RunnableConfig:
    """See `Upkeep.pin`."""
    checked_name(name)
    thread, namespace, checkpoint = address(config)
    if namespace:
        raise InvalidConfig(
            f"only checkpoints of the root graph can be pinned, not those of subgraph {namespace!r}; pin the checkpoint around it",
            key="checkpoint_ns",
            thread=thread,
        )
    while True:
        loaded = await _read(records.load(thread, ROOT_NS, checkpoint), thread, "pinned")
        if loaded.row is None:
            raise UnknownCheckpoint(
                f"thread {thread!r} has no checkpoint {checkpoint or '(any)'!r} that could be pinned as {name!r}",
                thread=thread,
                checkpoint=checkpoint,
            )
        at = (await _read(records.branches(thread), thread, "pinned")).get(name)
        if at == loaded.row.id:
            return {CONF: {"thread_id": thread, BRANCH: name}}
        if at is not None:
            raise InvalidConfig(
                f"{name!r} of thread {thread!r} is the name of checkpoint {at!r} already: unpin it first, or take another name",
                key=BRANCH,
                thread=thread,
            )
        if await _named(records, clock, watch, loaded.thread, BranchRow(name, loaded.row.n)):
            return {CONF: {"thread_id": thread, BRANCH: name}}


async def unpin(records: RecordStore, clock: Clock, watch: Watch, thread: str, name: str) -> None:
    """See `Upkeep.unpin`."""
    while True:
        loaded = await _read(records.load(thread, ROOT_NS, None), thread, "unpinned")
        names = await _read(records.branches(thread), thread, "unpinned")
        if name not in names:
            known = ", ".join(map(repr, names)) or "none"
            raise UnknownBranch(f"thread {thread!r} has no name {name!r} (it has {known})", thread=thread, key=name)
        if await _named(records, clock, watch, loaded.thread, BranchRow(name, None)):
            return


async def _read(call: Awaitable[T], thread: str, what: str) -> T:
    return await attempt(call, f"thread {thread!r} could not be {what}", AS_IT_WAS, thread)


async def _named(records: RecordStore, clock: Clock, watch: Watch, thread: ThreadRow, row: BranchRow) -> bool:
    commit = single_write(thread, clock.now_ns())
    commit.branches = (row,)
    commit.over = watch.over(
        thread.thread, thread.lease
    )  # who died does not keep anybody from giving names, as by `name_branch`
    try:
        await save(records, commit, what="unpinned" if row.head is None else "pinned", then="try again")
    except StaleLoad:
        return False
    return True


def single_write(thread: ThreadRow, now_ns: int) -> Commit:
    """A write that takes the lease and gives it back at once, and adds no numbers: to be filled in.

    It is refused if anything was written since the thread was read.
    """
    return Commit(
        thread=thread.thread,
        incarnation=thread.incarnation,
        lease="once",
        token=os.urandom(8).hex(),
        epoch=thread.lease.epoch + 1,
        expect_head=thread.head,
        now_ns=now_ns,
        lease_ns=0,
        holder=identity.holder("", now_ns),
        first_n=thread.next_n,
        next_n=thread.next_n,
        newest=thread.newest,
    )
