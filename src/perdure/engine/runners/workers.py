"""Threads for nodes: started when work waits and nobody is free, kept for the run, gone with it."""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import Context
from typing import TYPE_CHECKING, Any

from perdure.engine.tasks.attempt import fail

if TYPE_CHECKING:
    from perdure.engine.tasks.task import Task

Job = Callable[[], None]

MOST_THREADS = 256
"""Threads of one super-step, where the config sets no max_concurrency."""
FIRST_THREADS = 2
GROW_AFTER = 0.001
"""Seconds without a result after which more threads are started: quick nodes share few threads, waiting ones get one each."""


Lock = threading.Lock
"""For what several nodes of a run may touch at once."""


class Workers:
    """Threads that take jobs from one queue.

    Notes:
        Threads are daemons: a node that never returns must not keep the process from ending. They end when `close` is called or
        after standing idle for `IDLE_SECONDS`.
    """

    IDLE_SECONDS = 10.0

    __slots__ = ("_closed", "_idle", "_jobs", "_lock")

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._idle = 0
        self._closed = False

    def submit(self, job: Job) -> None:
        """Have a thread do `job`, which must not raise; a new one if none is free."""
        with self._lock:
            fresh = self._idle == 0
            if not fresh:
                self._idle -= 1
        self._jobs.put(job)
        if fresh:
            threading.Thread(target=self._work, name="perdure-node", daemon=True).start()

    def _work(self) -> None:
        while True:
            try:
                job = self._jobs.get(timeout=self.IDLE_SECONDS)
            except queue.Empty:
                with self._lock:
                    # A job may have been promised to this thread in the meantime: then `_idle` no longer counts it.
                    if self._idle == 0:
                        continue
                    self._idle -= 1
                return
            if job is None:
                return
            job()
            del job
            with self._lock:
                if self._closed:
                    return
                self._idle += 1

    def close(self) -> None:
        """Let idle threads end; busy ones end after their job."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, 0
        for _ in range(idle):
            self._jobs.put(None)


class Stopped(BaseException):
    """A node's task was stopped from outside; it has no outcome."""


class Waiting:
    """The threads of a run that wait for async nodes, and how to stop these."""

    __slots__ = ("_cancels", "_lock", "stopped")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._cancels: set[Callable[[], Any]] = set()
        self.stopped = False

    @contextmanager
    def for_(self, cancel: Callable[[], Any]) -> Iterator[None]:
        """Have `stop` call `cancel` while this lasts."""
        with self._lock:
            self._cancels.add(cancel)
            stopped = self.stopped
        try:
            if stopped:
                cancel()
            yield
        finally:
            with self._lock:
                self._cancels.discard(cancel)

    def stop(self) -> None:
        """Cancel all that is waited for, now and from now on."""
        with self._lock:
            self.stopped = True
            cancels = list(self._cancels)
        for cancel in cancels:
            cancel()


class Wave:
    """The tasks of one super-step on their way through worker threads.

    Args:
        workers: where the threads come from.
        tasks: the tasks, in the order in which they are taken up.
        limit: how many may run at a time; None: as many as there are threads.
        execute: runs one task in a context; its outcome is in the task.
        done: told of each task that has ended, on its thread.
        context: what each task's own context is a copy of.
    """

    __slots__ = ("_busy", "_context", "_done", "_execute", "_idle", "_most", "_threads", "_waiting", "_workers")

    def __init__(
        self,
        workers: Workers,
        tasks: Sequence[Task],
        limit: int | None,
        execute: Callable[[Task, Context], None],
        done: Callable[[Task], None],
        context: Context,
    ) -> None:
        self._workers = workers
        self._waiting: deque[Task] = deque(tasks)
        self._most = min(limit or MOST_THREADS, len(tasks))
        self._execute = execute
        self._done = done
        self._context = context
        self._busy = 0
        self._threads = 0
        self._idle = threading.Condition()

    def grow(self) -> None:
        """Start the first threads, or, as tasks wait and none has ended for a while, as many again."""
        wanted = min(self._most, max(FIRST_THREADS, self._threads * 2))
        while self._threads < wanted and self._waiting:
            self._threads += 1
            self._workers.submit(self._work)

    @property
    def patience(self) -> float | None:
        """Seconds to wait for a result before more threads are started; None if that would not help."""
        return GROW_AFTER if self._waiting and self._threads < self._most else None

    @property
    def is_busy(self) -> bool:
        """Tasks are running."""
        return self._busy > 0

    def _work(self) -> None:
        with self._idle:
            self._busy += 1
        try:
            while True:
                try:
                    task = self._waiting.popleft()
                except IndexError:
                    return
                try:
                    self._execute(task, self._context.copy())
                except Stopped:
                    return
                except BaseException as error:  # noqa: BLE001 - a node's SystemExit must reach the caller, not end a thread unseen
                    fail(task, error)
                if task.error is not None and task.node.handler is None:
                    self.stop()
                self._done(task)
        finally:
            with self._idle:
                self._busy -= 1
                self._idle.notify_all()

    def stop(self) -> None:
        """Take up no more tasks: the run was stopped, or a task has failed, which ends it."""
        self._waiting.clear()

    def wait(self, grace: float | None) -> None:
        """Block until the tasks that run have ended, at most `grace` seconds (None: however long that takes)."""
        with self._idle:
            self._idle.wait_for(lambda: self._busy == 0, grace)
