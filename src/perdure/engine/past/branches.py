"""Named branches of a thread: giving names, listing them, addressing the tip of one. Written once for both colours.

A name points to a checkpoint of the root graph. Runs and edits that are addressed by it start at that checkpoint and take the name
along; others leave it where it is. So a name that nobody runs on is a bookmark, and several names are lines that go on side by side.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from perdure.checkpoint.records import ROOT_NS, BranchName, BranchRow, Loaded, StaleLoad
from perdure.checkpoint.saving import begin
from perdure.checkpoint.upkeep.pinning import BRANCH, checked_name
from perdure.constants import CONF
from perdure.engine.runners.blocking import BlockingRunner
from perdure.engine.storing.session import Session
from perdure.engine.storing.snapshot import address_of
from perdure.errors import InvalidConfig, UnknownBranch, UnknownCheckpoint

if TYPE_CHECKING:
    from perdure.engine.storing.session import Access
    from perdure.types import RunnableConfig


def branch_of(config: Mapping[str, Any]) -> BranchName | None:
    """The branch that a config addresses, None if it addresses none.

    Raises:
        InvalidConfig: the name cannot be one, or the config also names a checkpoint.
    """
    conf = config.get(CONF) or {}
    name = conf.get(BRANCH)
    if name is None:
        return None
    if conf.get("checkpoint_id"):
        raise InvalidConfig(
            f"the config names branch {name!r} and checkpoint {conf['checkpoint_id']!r}: a branch is addressed at its tip; leave one of "
            "the two out",
            key=BRANCH,
        )
    return BranchName(checked_name(name))


async def unknown_branch(access: Access, branch: BranchName) -> UnknownBranch:
    """The error for a branch that does not exist, which tells those that do."""
    names = ", ".join(map(repr, await access.records.branches(access.thread))) or "none"
    return UnknownBranch(
        f"thread {access.thread!r} has no branch {branch.name!r} (it has {names}); graph.name_branch(config, {branch.name!r}) gives the "
        "checkpoint of a config that name",
        thread=access.thread,
        key=branch.name,
    )


async def left_behind(access: Access, loaded: Loaded, branch: str | None) -> bool:
    """Whether a checkpoint of the root has been gone on from, so that what its tasks did belongs to what came of it.

    The head never is. The tip of a branch is where other runs went on from it, or where the name was given to an old checkpoint.
    """
    row = loaded.row
    if row is None or row.n == loaded.thread.head:
        return False
    return branch is None or bool(await access.records.made_of(access.thread, row.id))


class Branches:
    """Gives and takes names in one thread.

    Args:
        access: the way to the thread.
        graph: name and fingerprint of the graph.
    """

    __slots__ = ("_access", "_graph", "_runner")

    def __init__(self, access: Access, graph: tuple[str, str]) -> None:
        self._access = access
        self._runner = BlockingRunner()  # a session wants one; nothing is run
        self._graph = graph

    async def name(self, config: RunnableConfig, name: str, *, move: bool) -> RunnableConfig:
        """Give a checkpoint a name; return the config that addresses the branch.

        Raises:
            InvalidConfig: the name is another checkpoint's, and is not to be moved.
            UnknownCheckpoint: there is nothing to name.
            ThreadBusy: a run holds the thread.
        """
        checked_name(name)
        conf = config.get(CONF) or {}
        if conf.get("checkpoint_ns"):
            raise InvalidConfig(
                f"a branch is one of the root graph: checkpoints of subgraph {conf['checkpoint_ns']!r} cannot be named",
                key=BRANCH,
            )
        wanted = branch_of(config) or conf.get("checkpoint_id") or None
        records, thread = self._access.records, self._access.thread
        while True:
            loaded = await begin(records.load(thread, ROOT_NS, wanted), thread)
            if loaded.row is None and isinstance(wanted, BranchName):
                raise await unknown_branch(self._access, wanted)
            if loaded.row is None:
                raise UnknownCheckpoint(
                    f"thread {thread!r} has no checkpoint {wanted or '(any)'!r} that could be named {name!r}",
                    thread=thread,
                    checkpoint=conf.get("checkpoint_id"),
                )
            session = Session(self._access, loaded, self._runner, self._graph)
            at = (await records.branches(thread)).get(name)
            if at not in (None, loaded.row.id) and not move:
                raise InvalidConfig(
                    f"branch {name!r} of thread {thread!r} exists already, at checkpoint {at!r}; move=True moves it",
                    key=BRANCH,
                    thread=thread,
                )
            if await self._store(session, BranchRow(name, loaded.row.n)):
                return {CONF: {"thread_id": thread, BRANCH: name}}

    async def drop(self, name: str) -> None:
        """Take a name away; its checkpoints stay.

        Raises:
            UnknownBranch: there is no such name.
            ThreadBusy: a run holds the thread.
        """
        records, thread = self._access.records, self._access.thread
        while True:
            loaded = await begin(records.load(thread, ROOT_NS, None), thread)
            if name not in await records.branches(thread):
                raise await unknown_branch(self._access, BranchName(name))
            if await self._store(Session(self._access, loaded, self._runner, self._graph), BranchRow(name, None)):
                return

    async def _store(self, session: Session, row: BranchRow) -> bool:
        session.refuse_if_busy()
        commit = session.commit_for("once", None)
        commit.branches = (row,)
        try:
            await session.store(commit)
        except StaleLoad:
            return False
        return True

    async def all(self) -> dict[str, RunnableConfig]:
        """The config of each branch's tip, by name."""
        found = await self._access.records.branches(self._access.thread)
        return {name: address_of(self._access.thread, "", checkpoint) for name, checkpoint in found.items()}
