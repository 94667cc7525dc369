"""What a saver is to the rest of the world: four methods to write and read checkpoints, and one to delete a thread.

A saver of your own derives from `BaseCheckpointSaver` and implements `put`, `put_writes`, `get_tuple` and `list`, or their async
twins, or both; graphs then run on it under `invoke` and `ainvoke` alike. Savers of this library (`perdure.checkpoint.saver.Saver`)
also implement the record contract, which gives leases, atomic steps and deletion that lasts.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypedDict, TypeVar

from perdure.absent import missing
from perdure.bridge import run_blocking
from perdure.checkpoint.index.listing import HasIndex
from perdure.checkpoint.making import copy_checkpoint as copy_checkpoint
from perdure.checkpoint.making import create_checkpoint as create_checkpoint
from perdure.checkpoint.making import empty_checkpoint as empty_checkpoint
from perdure.checkpoint.making import get_checkpoint_metadata as get_checkpoint_metadata
from perdure.checkpoint.making import get_serializable_checkpoint_metadata as get_serializable_checkpoint_metadata
from perdure.checkpoint.serde.base import maybe_add_typed_methods, with_types_known
from perdure.checkpoint.serde.jsonplus import JsonPlusSerializer
from perdure.constants import CONF, ERROR, INTERRUPT, RESUME
from perdure.errors import EmptyChannelError as EmptyChannelError
from perdure.errors import MissingMethod
from perdure.types import InterruptPage, RunnableConfig

if TYPE_CHECKING:
    from perdure.checkpoint.index.inbox import Inbox
    from perdure.checkpoint.index.threads import Index
    from perdure.checkpoint.serde.base import SerializerProtocol

V = TypeVar("V", int, float, str)

PendingWrite = tuple[str, str, Any]
"""(task id, channel, value)"""

ChannelVersions = dict[str, Any]

WRITES_IDX_MAP: dict[str, int] = {ERROR: -1, "__scheduled__": -2, INTERRUPT: -3, RESUME: -4}
"""Channels whose writes may be replaced, and the position each has among a task's writes."""


class Checkpoint(TypedDict, total=False):
    """A checkpoint as savers exchange it.

    Attributes:
        v: version of this shape.
        id: text whose order is the order in time.
        ts: when, ISO 8601 in UTC.
        channel_values: value of each channel that has one.
        channel_versions: when each channel was set; values that have the same version are the same.
        versions_seen, updated_channels: what other runtimes keep here; this one does not need them.
        control: what is to run next, for this runtime.
    """

    v: int
    id: str
    ts: str
    channel_values: dict[str, Any]
    channel_versions: ChannelVersions
    versions_seen: dict[str, ChannelVersions]
    updated_channels: list[str] | None
    control: dict[str, Any]


class CheckpointMetadata(TypedDict, total=False):
    """What is kept with a checkpoint: `source` (input, loop, update, fork), `step`, `parents` by namespace, `writes`, and whatever
    the caller's config had in its metadata.
    """

    source: str
    step: int
    parents: dict[str, str]
    run_id: str
    writes: Any


class CheckpointTuple(NamedTuple):
    """A checkpoint with its address, its metadata, its parent's address and the writes stored on it."""

    config: RunnableConfig
    checkpoint: Checkpoint
    metadata: CheckpointMetadata
    parent_config: RunnableConfig | None = None
    pending_writes: list[PendingWrite] | None = None


def get_checkpoint_id(config: RunnableConfig) -> str | None:
    """The checkpoint that a config addresses, None for the newest."""
    return config.get(CONF, {}).get("checkpoint_id") or None


def writes_sort_key(task_path: str, task_id: str = "", idx: int = 0) -> tuple[str, str, int]:
    """The order in which writes are returned and applied."""
    return task_path, task_id, idx


class BaseCheckpointSaver(HasIndex, Generic[V]):
    """Base of all savers.

    Args:
        serde: how values become bytes; `JsonPlusSerializer()` if not given. It may be an untyped one (`dumps` and `loads` only).
    """

    serde: SerializerProtocol

    def __init__(self, *, serde: Any = None) -> None:
        self.serde = JsonPlusSerializer() if serde is None else maybe_add_typed_methods(serde)

    def learn(self, types: Iterable[Any]) -> None:
        """Let classes that a graph's state mentions be stored and loaded, if the serializer keeps a registry."""
        self.serde = with_types_known(self.serde, types)

    def get(self, config: RunnableConfig) -> Checkpoint | None:
        """The checkpoint that a config addresses, None if there is none."""
        found = self.get_tuple(config)
        return None if found is None else found.checkpoint

    async def aget(self, config: RunnableConfig) -> Checkpoint | None:
        """`get` for async code."""
        found = await self.aget_tuple(config)
        return None if found is None else found.checkpoint

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """The checkpoint that a config addresses: by `thread_id`, `checkpoint_ns` (default "") and `checkpoint_id` (default: the
        newest). None if there is none.
        """
        raise self._missing("get_tuple")

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Checkpoints, newest first.

        Args:
            config: the thread (None: all threads); without `checkpoint_ns`, all its namespaces.
            filter: metadata keys and the values they must equal.
            before: only checkpoints older than the one it addresses.
            limit: at most so many.
        """
        raise self._missing("list")

    def put(
        self, config: RunnableConfig, checkpoint: Checkpoint, metadata: CheckpointMetadata, new_versions: ChannelVersions
    ) -> RunnableConfig:
        """Store a checkpoint; its parent is the one that `config` addresses.

        Args:
            config: thread, namespace and parent.
            checkpoint: what to store.
            metadata: what to keep with it.
            new_versions: the channels that it set.

        Returns:
            The config that addresses it.
        """
        raise self._missing("put")

    def put_writes(self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = "") -> None:
        """Store what a task wrote, with the checkpoint it ran from. Doing it again changes nothing.

        Args:
            config: addresses the checkpoint.
            writes: (channel, value) pairs.
            task_id: the task.
            task_path: where results of several tasks are ordered by.
        """
        raise self._missing("put_writes")

    def delete_thread(self, thread_id: str) -> None:
        """Remove all of a thread."""
        raise self._missing("delete_thread")

    def list_interrupts(
        self,
        *,
        graph: str | None = None,
        filter: Mapping[str, Any] | None = None,
        thread_prefix: str = "",
        overdue: bool | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> InterruptPage:
        """The open questions of all threads, thread by thread: the inbox.

        Args:
            graph: only threads that a graph of this name ran last.
            filter: metadata keys of the waiting checkpoint, and the values they must equal.
            thread_prefix: only threads whose ids begin with it.
            overdue: True: only questions whose deadline has passed; False: only others.
            limit: the page ends with the thread at which so many questions were found; a thread is never split.
            cursor: `page.cursor` of the page before.

        Raises:
            InvalidConfig: the limit is no positive number.
        """
        flow = self._inbox(blocking=True).page(
            graph=graph, filter=filter, thread_prefix=thread_prefix, overdue=overdue, limit=limit, cursor=cursor
        )
        return run_blocking(flow)

    async def alist_interrupts(
        self,
        *,
        graph: str | None = None,
        filter: Mapping[str, Any] | None = None,
        thread_prefix: str = "",
        overdue: bool | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> InterruptPage:
        """`list_interrupts` for async code."""
        return await self._inbox(blocking=False).page(
            graph=graph, filter=filter, thread_prefix=thread_prefix, overdue=overdue, limit=limit, cursor=cursor
        )

    def _inbox(self, *, blocking: bool) -> Inbox:
        # Savers of others are read through their four methods: every thread is looked at.
        from perdure.checkpoint.foreign import inbox_of

        return inbox_of(self, blocking=blocking)

    def _index(self, *, blocking: bool) -> Index:
        from perdure.checkpoint.foreign import ForeignIndex

        return ForeignIndex(self, blocking=blocking)

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """`get_tuple` for async code."""
        return await self._on_thread("get_tuple", config)  # type: ignore[no-any-return]

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """`list` for async code."""
        for found in await self._on_thread("_listed", config, filter, before, limit):
            yield found

    def _listed(self, config: Any, filter: Any, before: Any, limit: Any) -> Any:
        return [*self.list(config, filter=filter, before=before, limit=limit)]

    async def aput(
        self, config: RunnableConfig, checkpoint: Checkpoint, metadata: CheckpointMetadata, new_versions: ChannelVersions
    ) -> RunnableConfig:
        """`put` for async code."""
        return await self._on_thread("put", config, checkpoint, metadata, new_versions)  # type: ignore[no-any-return]

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """`put_writes` for async code."""
        await self._on_thread("put_writes", config, writes, task_id, task_path)

    async def adelete_thread(self, thread_id: str) -> None:
        """`delete_thread` for async code."""
        await self._on_thread("delete_thread", thread_id)

    async def _on_thread(self, method: str, *args: Any) -> Any:
        import asyncio  # noqa: TID251 - only for savers of others that have no async methods of their own

        return await asyncio.to_thread(getattr(self, method), *args)

    def get_next_version(self, current: Any, channel: None = None) -> Any:
        """The version after `current`: a counter, zero-padded if versions are text."""
        if current is None:
            return 1
        if isinstance(current, str):
            return f"{int(current.split('.')[0]) + 1:032}"
        return current + 1

    def _missing(self, method: str) -> MissingMethod:
        return MissingMethod(
            f"{type(self).__name__} does not implement {method}(). A saver implements put, put_writes, get_tuple and list, or their "
            "async twins"
        )


def __getattr__(name: str) -> Any:
    raise missing(__name__, name)
