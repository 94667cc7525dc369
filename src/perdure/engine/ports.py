"""What the flows of the engine ask of the world. Each port has a blocking and a suspending form."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from perdure.checkpoint.records import Commit
    from perdure.engine.runners.pace import Pace
    from perdure.engine.runners.workers import Workers
    from perdure.engine.tasks.task import Task
    from perdure.types import TimeoutPolicy


class World(Protocol):
    """What one attempt at a task needs while it runs."""

    async def settle(self, awaitable: Awaitable[Any], task: Task, timeout: TimeoutPolicy | None) -> Any:
        """The result of an awaitable that user code returned.

        Raises:
            NodeTimeoutError: the timeout passed first.
        """
        ...

    async def join(self, task: Task) -> None:
        """Wait until the durable steps that a task's code started have ended."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        ...

    def jitter(self) -> float:
        """A random number between 0 and 1."""
        ...


Store = Callable[["Commit"], Coroutine[Any, Any, None]]
"""Makes a commit durable, in the way of whoever has it."""


class LoopIsBlocked(RuntimeError):
    """Sync code has stopped the event loop that a write needs which comes before its own."""


class InFlight(Protocol):
    """A write that was started and may not have ended."""

    @property
    def ended(self) -> Any:
        """Its outcome, for threads and loops alike: a future of `concurrent.futures`."""
        ...

    def block(self, store: Store | None) -> None:
        """Block the thread until it is done; raise what it raised.

        Args:
            store: does it here and now, where nothing else can: it was to be done by the very loop that this thread stops.

        Raises:
            LoopIsBlocked: that loop has begun it, and only the loop can end it.
        """
        ...


class Runner(Protocol):
    """Runs the tasks of super-steps, starts writes beside them, and waits. One for each run."""

    blocks: bool
    """It waits by blocking its thread, not by suspending."""

    @property
    def lock(self) -> AbstractContextManager[Any]:
        """Guards what several nodes of the run touch at once; nothing that waits is done under it."""
        ...

    def can_inline(self, task: Task) -> bool:
        """The task may be run by `run_one`, without giving up the chance to stop it or to hear from it."""
        ...

    async def run_one(self, task: Task) -> None:
        """Run a task right here; its outcome is in it. Cancellations and Ctrl-C pass through."""
        ...

    def run(self, tasks: Sequence[Task], *, limit: int | None, timeout: float | None) -> AsyncGenerator[list[Any], None]:
        """Run tasks together, `limit` at a time; yield what has come since the last yield: events that their nodes sent
        (see `post`), and each task once it has ended. A task carries its own outcome; none raises here.

        Closing the generator cancels what still runs, waits for it as long as the runner's grace allows, and leaves the outcome
        of each task in it.

        Raises:
            StepTimeoutError: `timeout` seconds passed first.
        """
        ...

    def world_of_step(self) -> tuple[World, Callable[[], None]]:
        """What a durable step needs that runs on a worker thread of its own, and what stops the coroutine that it waits for."""
        ...

    @property
    def workers(self) -> Workers:
        """The run's worker threads."""
        ...

    def child(self) -> Runner:
        """A runner for a subgraph: its own events, the same threads and loops."""
        ...

    @property
    def pace(self) -> Pace:
        """How far the nodes that send events are ahead of whoever iterates over `run`."""
        ...

    def post(self, event: Any) -> None:
        """Hand an event to whoever iterates over `run`. May be called from any thread or task of this run's nodes.

        Blocks a thread while too many wait, unless it runs an event loop.
        """
        ...

    async def catch_up(self, pace: Pace) -> None:
        """Wait, in the way of this runner, while too many events of another run wait."""
        ...

    def start(self, write: Callable[[], Coroutine[Any, Any, None]], commit: Commit | None = None) -> InFlight:
        """Start a write in the background: of `commit`, if it is nothing but that."""
        ...

    async def landing(self, write: InFlight, store: Store | None = None) -> None:
        """Wait, in the way of this runner, until a write is done that it or another runner started; raise what it raised.

        The write goes on even if the waiting is cancelled. `store` is as for `InFlight.block`.
        """
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        ...

    async def close(self) -> None:
        """Release threads and loops."""
        ...
