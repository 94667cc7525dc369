"""The part of a compiled graph that is about branches: names for them, the checkpoints that one led to, what differs between two."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perdure.bridge import run_blocking
from perdure.constants import CONF
from perdure.engine.deciding.diff import StateDiff, diff_of
from perdure.engine.past.branches import Branches
from perdure.engine.past.history import call_config
from perdure.engine.storing.access import refuse_inside
from perdure.errors import UnknownCheckpoint

if TYPE_CHECKING:
    from perdure.engine.program import Program
    from perdure.engine.storing.session import Access
    from perdure.types import RunnableConfig, StateSnapshot


class HasBranches:
    """The part of a compiled graph that is about the branches of its threads."""

    program: Program
    if TYPE_CHECKING:
        bound_config: RunnableConfig

        def _access(self, config: RunnableConfig, *, blocking: bool) -> Access: ...
        def get_state(self, config: RunnableConfig, *, subgraphs: bool = False) -> StateSnapshot: ...  # noqa: D102 - told in CompiledGraph
        async def aget_state(self, config: RunnableConfig, *, subgraphs: bool = False) -> StateSnapshot: ...  # noqa: D102 - told in CompiledGraph

    def name_branch(self, config: RunnableConfig, name: str, *, move: bool = False) -> RunnableConfig:
        """Give a checkpoint a name, and with it the branch that goes on from there.

        `{"configurable": {"thread_id": ..., "branch": name}}` then addresses the tip of that branch, for reading, running and editing.
        Runs and edits addressed so take the name along; others leave it where it is.

        Args:
            config: which thread, and optionally which checkpoint (default: the newest) or branch.
            name: the name.
            move: let a name that exists point to this checkpoint from now on.

        Returns:
            The config that addresses the branch.

        Raises:
            InvalidConfig: the name exists already, or cannot be one; the saver has no place for names.
            UnknownCheckpoint: there is nothing to name.
            ThreadBusy: a run holds the thread (SelfBusy: the run this is called from).
        """
        bound = call_config(self, config)
        return run_blocking(self._branches(bound, blocking=True, change=True).name(bound, name, move=move))

    async def aname_branch(self, config: RunnableConfig, name: str, *, move: bool = False) -> RunnableConfig:
        """`name_branch` for async code."""
        bound = call_config(self, config)
        return await self._branches(bound, blocking=False, change=True).name(bound, name, move=move)

    def drop_branch(self, config: RunnableConfig, name: str) -> None:
        """Take a name away. Its checkpoints stay, but nothing keeps them any more when old ones are removed.

        Raises:
            UnknownBranch: the thread has no branch of that name.
            ThreadBusy: a run holds the thread (SelfBusy: the run this is called from).
        """
        run_blocking(self._branches(call_config(self, config), blocking=True, change=True).drop(name))

    async def adrop_branch(self, config: RunnableConfig, name: str) -> None:
        """`drop_branch` for async code."""
        await self._branches(call_config(self, config), blocking=False, change=True).drop(name)

    def branches(self, config: RunnableConfig) -> dict[str, RunnableConfig]:
        """The named branches of a thread: for each name, the config of the checkpoint at its tip."""
        return run_blocking(self._branches(call_config(self, config), blocking=True).all())

    async def abranches(self, config: RunnableConfig) -> dict[str, RunnableConfig]:
        """`branches` for async code."""
        return await self._branches(call_config(self, config), blocking=False).all()

    def get_children(self, config: RunnableConfig) -> list[RunnableConfig]:
        """The configs of the checkpoints that were made of one, oldest first: more than one where branches part.

        Args:
            config: which checkpoint; without an id, the newest, or the tip of the branch that it names.

        Raises:
            UnknownCheckpoint: there is no such checkpoint.
        """
        snapshot = self.get_state(config)
        access = self._access(call_config(self, config), blocking=True)
        return run_blocking(_children(access, snapshot))

    async def aget_children(self, config: RunnableConfig) -> list[RunnableConfig]:
        """`get_children` for async code."""
        snapshot = await self.aget_state(config)
        return await _children(self._access(call_config(self, config), blocking=False), snapshot)

    def diff(self, before: RunnableConfig, after: RunnableConfig) -> StateDiff:
        """Which keys of the state differ between two checkpoints, and how; of one thread or of two, of the root or of subgraphs.

        Args:
            before: the first one: a checkpoint, a branch, or what is newest.
            after: the second one.

        Raises:
            UnknownCheckpoint: there is no such checkpoint.
        """
        return diff_of(self.get_state(before).values, self.get_state(after).values)

    async def adiff(self, before: RunnableConfig, after: RunnableConfig) -> StateDiff:
        """`diff` for async code."""
        first = await self.aget_state(before)
        return diff_of(first.values, (await self.aget_state(after)).values)

    def _branches(self, config: RunnableConfig, *, blocking: bool, change: bool = False) -> Branches:
        access = self._access(config, blocking=blocking)
        if change:
            refuse_inside(access.thread, "name branches of")
        return Branches(access, (self.program.name, self.program.fingerprint))


async def _children(access: Access, snapshot: StateSnapshot) -> list[RunnableConfig]:
    checkpoint = (snapshot.config.get(CONF) or {}).get("checkpoint_id")
    if snapshot.metadata is None or checkpoint is None:
        raise UnknownCheckpoint(f"thread {access.thread!r} has no checkpoint there", thread=access.thread)
    found = await access.records.made_of(access.thread, checkpoint)
    return [
        {CONF: {"thread_id": access.thread, "checkpoint_ns": namespace, "checkpoint_id": child}} for namespace, child in found
    ]
