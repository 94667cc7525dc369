"""What keeps a saver's threads in order: retention, names that pin checkpoints, and verification. Public methods, in both colours."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Never

from perdure.bridge import run_blocking
from perdure.checkpoint.by_name import by_name
from perdure.checkpoint.integrity.receipt import Receipt
from perdure.checkpoint.integrity.verifying import Verified, verify
from perdure.checkpoint.over_records import OverRecords
from perdure.checkpoint.retention import Age, Pruned, Retention
from perdure.checkpoint.upkeep.pinning import pin, unpin
from perdure.checkpoint.upkeep.pruning import BATCH, Pruner
from perdure.errors import InvalidConfig, WrongType
from perdure.ids import thread_text

if TYPE_CHECKING:
    from perdure.checkpoint.heads import Heads
    from perdure.checkpoint.leases.watch import Watch
    from perdure.checkpoint.records import RecordStore
    from perdure.types import RunnableConfig

PRUNE = (
    "prune(threads=['chat'], keep_last=1) keeps the newest checkpoint of thread 'chat', prune(keep_last=1) that of each thread; "
    "delete_thread('chat') takes it away altogether"
)


class Upkeep(OverRecords):
    """The part of a saver of this library that is about whole threads and what they keep.

    Attributes:
        retention: the policy that `sweep` applies, and `prune` where it is not told another one.
    """

    heads: Heads
    retention: tuple[Retention, ...]
    watch: Watch

    def prune(
        self,
        *others: Never,
        keep_last: int | None = None,
        older_than: Age | None = None,
        max_bytes: int | None = None,
        namespaces: Sequence[str] | None = None,
        thread: Any = None,
        threads: Iterable[Any] | None = None,
        dry_run: bool = False,
        batch: int = BATCH,
        **unknown: Never,
    ) -> Pruned:
        """Take old checkpoints away, with all that only they refer to, and give the space back.

        A checkpoint goes only if everything that is given lets it go. The tip always stays, and so do checkpoints with a name, open
        questions that nothing was made of, and what resuming or forking any of these needs.

        Args:
            keep_last: keep the newest so many of each namespace.
            older_than: keep what is younger: a `timedelta`, or seconds.
            max_bytes: take only as many of the oldest away as a thread has to lose to take at most this much.
            namespaces: only in these: "" is the root, "research" the subgraph in node "research", "outer|inner" one inside of that.
            thread: only in this thread.
            threads: only in these; None: in all.
            dry_run: change nothing, and count what would go.
            batch: how many rows one transaction takes away.

        Returns:
            What went. Threads that a run holds are named in `busy` and left for the next time, those whose records are damaged in
            `damaged`. With none of `keep_last`, `older_than` and `max_bytes`, the saver's own policy says what goes.

        Raises:
            InvalidConfig: a number is not positive, or nothing says what may go.
            WrongType: an argument is of the wrong type, or was given without its name.
            UnknownThread: there is no such thread; nothing was taken away, of the others neither.
            SaveFailed: the database failed; the batches before are gone, the rest is as it was.
        """
        by_name("prune", others, unknown, PRUNE)
        given = (keep_last, older_than, namespaces, max_bytes)
        return run_blocking(self._pruner(self.blocking(), given, dry_run=dry_run, batch=batch).threads(_named(thread, threads)))

    async def aprune(
        self,
        *others: Never,
        keep_last: int | None = None,
        older_than: Age | None = None,
        max_bytes: int | None = None,
        namespaces: Sequence[str] | None = None,
        thread: Any = None,
        threads: Iterable[Any] | None = None,
        dry_run: bool = False,
        batch: int = BATCH,
        **unknown: Never,
    ) -> Pruned:
        """See `prune`."""
        by_name("aprune", others, unknown, PRUNE)
        given = (keep_last, older_than, namespaces, max_bytes)
        return await self._pruner(self.suspending(), given, dry_run=dry_run, batch=batch).threads(_named(thread, threads))

    def sweep(self, *others: Never, thread_prefix: str = "", dry_run: bool = False, batch: int = BATCH) -> Pruned:
        """Apply the saver's retention policy to all threads: prune their checkpoints, and delete threads whose time has come.

        Nothing applies a policy by itself. Call this from time to time, from one place or from several.

        Args:
            thread_prefix: only threads whose ids begin with it.
            dry_run: change nothing, and count what would go.
            batch: how many rows one transaction takes away.

        Raises:
            InvalidConfig: the saver has no policy.
            WrongType: the prefix is no text, or an argument was given without its name.
            SaveFailed: the database failed; the batches before are gone, the rest is as it was.
        """
        _check_prefix("sweep", others, thread_prefix)
        swept = run_blocking(self._sweeper(self.blocking(), dry_run=dry_run, batch=batch).threads(None, thread_prefix))
        return self._forgotten(swept)

    async def asweep(self, *others: Never, thread_prefix: str = "", dry_run: bool = False, batch: int = BATCH) -> Pruned:
        """See `sweep`."""
        _check_prefix("asweep", others, thread_prefix)
        swept = await self._sweeper(self.suspending(), dry_run=dry_run, batch=batch).threads(None, thread_prefix)
        return self._forgotten(swept)

    def _forgotten(self, swept: Pruned) -> Pruned:
        """Forget what is remembered of the threads that were deleted."""
        for thread in () if swept.dry_run else swept.deleted:
            self.heads.forget(thread)
        return swept

    def pin(self, config: RunnableConfig, name: str) -> RunnableConfig:
        """Give a checkpoint a name, so that retention keeps it. It is the name of a branch, as `graph.name_branch` gives it.

        Args:
            config: addresses it: by `thread_id` and `checkpoint_id` (default: where the thread is now).
            name: text of 1 to 200 characters.

        Returns:
            The config that addresses it by the name.

        Raises:
            InvalidConfig: it is a subgraph's, or the name is another checkpoint's already.
            UnknownCheckpoint: there is no such checkpoint.
            ThreadBusy: a run holds the thread.
            SaveFailed: the database failed.
        """
        return run_blocking(pin(self.blocking(), self.clock, self.watch, config, name))

    async def apin(self, config: RunnableConfig, name: str) -> RunnableConfig:
        """See `pin`."""
        return await pin(self.suspending(), self.clock, self.watch, config, name)

    def unpin(self, thread: Any, name: str) -> None:
        """Take a name away; the next prune may take its checkpoint.

        Raises:
            UnknownBranch: the thread has no such name.
            ThreadBusy: a run holds the thread.
            SaveFailed: the database failed.
        """
        run_blocking(unpin(self.blocking(), self.clock, self.watch, thread_text(thread), name))

    async def aunpin(self, thread: Any, name: str) -> None:
        """See `unpin`."""
        await unpin(self.suspending(), self.clock, self.watch, thread_text(thread), name)

    def verify(
        self,
        thread: Any,
        *,
        checkpoint: str | None = None,
        receipt: Receipt | str | None = None,
        key: bytes | None = None,
        pruned: bool = False,
    ) -> Verified:
        """Check all that is stored of a thread, without changing anything.

        Args:
            thread: its id.
            checkpoint: the id of a checkpoint: look only at records up to it.
            receipt: of an earlier call: what was altered or cut off since is told as well.
            key: 16 to 64 secret bytes: who does not know them cannot make a receipt that fits altered records.
            pruned: old checkpoints may have been pruned since the receipt; its last one has to be there.

        Returns:
            The problems, the one at the oldest record first, and a new receipt.

        Raises:
            UnknownThread, UnknownCheckpoint: there is nothing to verify.
            InvalidConfig: the key or the receipt cannot be one, or they do not belong together.
            ThreadBusy: a run keeps writing to the thread meanwhile.
        """
        flow = verify(self.blocking(), thread_text(thread), checkpoint=checkpoint, receipt=receipt, key=key, pruned=pruned)
        return run_blocking(flow)

    async def averify(
        self,
        thread: Any,
        *,
        checkpoint: str | None = None,
        receipt: Receipt | str | None = None,
        key: bytes | None = None,
        pruned: bool = False,
    ) -> Verified:
        """See `verify`."""
        return await verify(
            self.suspending(), thread_text(thread), checkpoint=checkpoint, receipt=receipt, key=key, pruned=pruned
        )

    def _pruner(self, records: RecordStore, given: tuple[Any, ...], *, dry_run: bool, batch: int) -> Pruner:
        keep_last, older_than, namespaces, max_bytes = given
        rules: Sequence[Retention] = self.retention
        if given != (None, None, None, None) or not any(rule.thins for rule in rules):
            rules = (Retention(keep_last, older_than, namespaces, max_bytes=max_bytes),)
        # Deleting whole threads is for `sweep`: who prunes a thread wants to go on with it.
        kept = [replace(rule, thread_ttl=None) for rule in rules if rule.thins]
        return Pruner(records, self.clock, kept, batch=batch, dry_run=dry_run)

    def _sweeper(self, records: RecordStore, *, dry_run: bool, batch: int) -> Pruner:
        if not self.retention:
            raise InvalidConfig(
                "this saver has no retention policy to apply: give it one, such as retention=Retention(keep_last=20), or call "
                "prune(keep_last=20)",
                key="retention",
            )
        return Pruner(records, self.clock, self.retention, batch=batch, dry_run=dry_run)


def _named(thread: Any, threads: Iterable[Any] | None) -> list[str] | None:
    """The ids of the threads that are meant; None: all.

    Raises:
        InvalidConfig: both are given.
        WrongType: an id is no text, or `threads` is no list.
    """
    if thread is not None and threads is not None:
        raise InvalidConfig("prune takes thread= or threads=, not both", key="thread")
    if thread is not None:
        return [thread_text(thread)]
    if threads is not None and (isinstance(threads, str) or not isinstance(threads, Iterable)):
        raise WrongType("threads= is a list of thread ids; thread= is for one")
    return None if threads is None else [thread_text(one) for one in threads]


def _check_prefix(called: str, others: tuple[object, ...], prefix: Any) -> None:
    by_name(called, others, {}, f"{called}(thread_prefix='user-7:') sweeps the threads whose ids begin with it")
    if not isinstance(prefix, str):
        raise WrongType(f"thread_prefix must be text, got {type(prefix).__name__}")
