"""What an index of threads tells: public values, all of them plain and immutable."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar, overload

if TYPE_CHECKING:
    from perdure.checkpoint.records import Status
    from perdure.types import Interrupt, RunnableConfig

T = TypeVar("T")

RunStatus = Literal["running", "done", "interrupted", "error", "crashed"]


class ThreadHolder(NamedTuple):
    """Which run holds a thread.

    Attributes:
        run_id: the run.
        host: the machine it runs on.
        pid: the process there.
        since: when it took the thread.
    """

    run_id: str
    host: str
    pid: int
    since: datetime


@dataclass(frozen=True, slots=True)
class ThreadInfo:
    """A thread as the index lists it.

    Attributes:
        thread_id: its id.
        status: "idle": the last run came to its end, or whoever listened to it left. "busy": a run has begun and not ended.
            "interrupted": it waits for an answer or at a breakpoint. "error": the last run failed, or was stopped.
        graph: the name of the graph that ran last.
        metadata: what the configs of its runs had in `metadata`, and of `configurable` what the saver's `persist=` names; later
            values replace earlier ones.
        created_at: when it was first stored; None where the saver does not say.
        updated_at: when a run last began, paused or ended, or an edit was made.
        interrupts: its open questions.
        holder: which run holds it, or held it until its process died; None: nobody does.
        is_running: it is busy, and its run is not known to be dead.
        crashed: it is busy, but its run has died: the process is gone, or gave no sign of life for as long as a lease lasts.
            (Neither is true of a run whose process lives but whose lease ran out, as of a stream that nobody reads on.)
    """

    thread_id: str
    status: Status
    graph: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    created_at: datetime | None = None
    updated_at: datetime | None = None
    interrupts: tuple[Interrupt, ...] = ()
    holder: ThreadHolder | None = None
    is_running: bool = False
    crashed: bool = False

    @property
    def config(self) -> RunnableConfig:
        """Addresses the thread."""
        return {"configurable": {"thread_id": self.thread_id}}


@dataclass(frozen=True, slots=True)
class RunInfo:
    """A run as far as it was recorded: when it began and ended, and what is stored a second apart, at most, in between.

    Attributes:
        run_id: its id.
        thread_id: its thread.
        graph: the name of the graph.
        status: how it ended: "done"; "interrupted" by a question, a breakpoint, or because its listener left; "error". "running" if it
            has not ended, "crashed" if it never will.
        started_at: when it began.
        ended_at: when it ended; None: it has not, or that was not recorded.
        steps: super-steps of the root graph that it finished.
        entries: how often the code of each node was entered, retries included; `outer|inner` is node `inner` in the subgraph of `outer`.
        error: what ended it.
        had_context: it was given a context.
    """

    run_id: str
    thread_id: str
    graph: str
    status: RunStatus
    started_at: datetime
    ended_at: datetime | None = None
    steps: int = 0
    entries: Mapping[str, int] = field(default_factory=dict)
    error: str | None = None
    had_context: bool = False

    @property
    def attempts(self) -> int:
        """How often the code of nodes was entered, all in all."""
        return sum(self.entries.values())


class Page(Sequence[T]):
    """Some items of a longer list, in order: a sequence.

    Attributes:
        items: the items.
        cursor: where the next page begins; None: this was the last one.
    """

    __slots__ = ("cursor", "items")

    def __init__(self, items: Iterable[T] = (), cursor: str | None = None) -> None:
        self.items = tuple(items)
        self.cursor = cursor

    @overload
    def __getitem__(self, at: int) -> T: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[T, ...]: ...
    def __getitem__(self, at: int | slice) -> T | tuple[T, ...]:
        return self.items[at]

    def __len__(self) -> int:
        return len(self.items)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Page):
            return NotImplemented
        return (self.items, self.cursor) == (other.items, other.cursor)

    def __repr__(self) -> str:
        return f"Page({list(self.items)!r}, cursor={self.cursor!r})"
