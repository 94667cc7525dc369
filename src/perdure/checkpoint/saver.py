"""The savers of this library: one public object for sync and async code, over a record store in each colour."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from perdure.bridge import iterate_blocking, run_blocking
from perdure.checkpoint.base import BaseCheckpointSaver
from perdure.checkpoint.exchange import Exchange
from perdure.checkpoint.heads import HEAD_CACHE, Heads
from perdure.checkpoint.index.inbox import Inbox
from perdure.checkpoint.index.threads import Index
from perdure.checkpoint.leases.background import Renewer
from perdure.checkpoint.leases.lease import LEASE_SECONDS, LONGEST_LEASE
from perdure.checkpoint.leases.line import Line
from perdure.checkpoint.leases.watch import Watch
from perdure.checkpoint.retention import Retention, rules_of
from perdure.checkpoint.saving import delete
from perdure.checkpoint.transfer.methods import Movable
from perdure.checkpoint.upkeep.methods import Upkeep
from perdure.clock import SYSTEM_CLOCK, Clock
from perdure.closable import Closable
from perdure.errors import InvalidArgument, SelfBusy, WrongType
from perdure.ids import thread_text
from perdure.scope import CURRENT

if TYPE_CHECKING:
    from perdure.checkpoint.base import ChannelVersions, Checkpoint, CheckpointMetadata, CheckpointTuple
    from perdure.types import RunnableConfig


class Saver(Closable, Upkeep, Movable, BaseCheckpointSaver[int]):
    """A saver over a record store. A subclass says where the records are, by `blocking` and `suspending`.

    Attributes:
        watch: what it has seen of the leases of others.
        line: who waits for which of its threads.

    Args:
        serde: how values become bytes; `JsonPlusSerializer()` if not given.
        lease_seconds: how long a thread stays held by a run that neither commits nor renews.
        persist: keys of `config["configurable"]` whose scalars are stored with each checkpoint, as those of `config["metadata"]` are.
        clock: where time comes from.
        head_cache: about how many bytes of the newest states to remember, so that the next turn of a long thread does not read and
            decode them again; 0: none. What another process stores meanwhile is always seen.
        retention: what `sweep` may take away: a `Retention`, or a list of them, where the last one that names a namespace counts.
    """

    def __init__(
        self,
        *,
        serde: Any = None,
        lease_seconds: float = LEASE_SECONDS,
        persist: Sequence[str] = (),
        clock: Clock = SYSTEM_CLOCK,
        head_cache: int = HEAD_CACHE,
        retention: Retention | Sequence[Retention] | None = None,
    ) -> None:
        super().__init__(serde=serde)
        lasts: Any = lease_seconds
        if not isinstance(lasts, (int, float)) or not 0 < lease_seconds <= LONGEST_LEASE:
            raise InvalidArgument(
                f"lease_seconds must be positive, and at most {LONGEST_LEASE} (a year), got {lease_seconds!r}"
            )
        keys: Any = persist
        if isinstance(keys, str) or not isinstance(keys, Iterable):
            raise WrongType(f"persist is a list of keys of config['configurable'], got {persist!r}")
        size: Any = head_cache
        if not isinstance(size, (int, float)) or size < 0:
            raise InvalidArgument(f"head_cache must be a number of bytes, or 0 for none, got {head_cache!r}")
        self.heads = Heads(head_cache)
        self.lease_seconds = lease_seconds
        self.persist = tuple(persist)
        self.clock = clock
        self.watch = Watch(clock, lease_seconds)
        self.line = Line()
        self.retention = rules_of(retention)
        self._renewer: Renewer | None = None

    @property
    def renewer(self) -> Renewer:
        """Renews the leases of this saver's runs."""
        if self._renewer is None:
            self._renewer = Renewer(self.blocking(), self.lease_seconds)
        return self._renewer

    def _exchange(self) -> Exchange:
        return Exchange(self.blocking(), self.serde, self.clock, self.watch)

    def _aexchange(self) -> Exchange:
        return Exchange(self.suspending(), self.serde, self.clock, self.watch)

    def setup(self) -> None:
        """Nothing is needed: tables are made on first use. Kept for code written for savers that need it."""

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """See `BaseCheckpointSaver.get_tuple`."""
        return run_blocking(self._exchange().get_tuple(config))

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """See `BaseCheckpointSaver.get_tuple`."""
        return await self._aexchange().get_tuple(config)

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """See `BaseCheckpointSaver.list`. Pages are read as they are needed."""
        return iterate_blocking(self._exchange().listed(config, filter, before, limit))

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """See `BaseCheckpointSaver.list`. Pages are read as they are needed."""
        async for found in self._aexchange().listed(config, filter, before, limit):
            yield found

    def put(
        self, config: RunnableConfig, checkpoint: Checkpoint, metadata: CheckpointMetadata, new_versions: ChannelVersions
    ) -> RunnableConfig:
        """See `BaseCheckpointSaver.put`.

        Raises:
            ThreadBusy: a run holds the thread.
            ThreadDeleted: the parent's thread was deleted.
            NotStorable: a value cannot be stored.
            SaveFailed: the database failed.
        """
        return run_blocking(self._exchange().put(config, checkpoint, metadata, new_versions))

    async def aput(
        self, config: RunnableConfig, checkpoint: Checkpoint, metadata: CheckpointMetadata, new_versions: ChannelVersions
    ) -> RunnableConfig:
        """See `put`."""
        return await self._aexchange().put(config, checkpoint, metadata, new_versions)

    def put_writes(self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = "") -> None:
        """See `BaseCheckpointSaver.put_writes`.

        Raises:
            ThreadBusy: a run holds the thread.
            ThreadDeleted, UnknownCheckpoint: there is nothing to store them with.
            NotStorable: a value cannot be stored.
            SaveFailed: the database failed.
        """
        run_blocking(self._exchange().put_writes(config, writes, task_id, task_path))

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """See `put_writes`."""
        await self._aexchange().put_writes(config, writes, task_id, task_path)

    def _inbox(self, *, blocking: bool) -> Inbox:
        records = self.blocking() if blocking else self.suspending()
        return Inbox(lambda _: records, self.serde, self.clock)

    def _index(self, *, blocking: bool) -> Index:
        records = self.blocking() if blocking else self.suspending()
        # Whoever lists threads only looks: one question of a class that is not registered here must not hide the others (P31).
        keeping = getattr(self.serde, "with_on_unknown", None)
        return Index(lambda: records, self.serde if keeping is None else keeping("keep"), self.clock)

    def delete_thread(self, thread_id: str) -> None:
        """Remove every row of a thread, and refuse late writes to it from then on. A run on it ends with ThreadDeleted.

        Raises:
            SelfBusy: a node tries to delete the thread in which it runs.
            SaveFailed: the database failed; nothing was deleted.
        """
        thread = self._deletable(thread_id)
        run_blocking(delete(self.blocking(), thread))
        self.heads.forget(thread)

    async def adelete_thread(self, thread_id: str) -> None:
        """See `delete_thread`."""
        thread = self._deletable(thread_id)
        await delete(self.suspending(), thread)
        self.heads.forget(thread)

    def _deletable(self, thread_id: str) -> str:
        thread = thread_text(thread_id)
        task = CURRENT.get(None)
        if task is not None and task.holds(self, thread):
            raise SelfBusy(
                f"a node tries to delete thread {thread!r}, in which it runs; delete it when the run has ended", thread=thread
            )
        return thread

    def close(self) -> None:
        """Release the database; later calls raise SaverClosed. Closing twice is fine."""
        if self._renewer is not None:
            self._renewer.close()
        self.heads.clear()
        run_blocking(self.blocking().close())

    async def aclose(self) -> None:
        """See `close`."""
        if self._renewer is not None:
            self._renewer.close()
        self.heads.clear()
        await self.suspending().close()
