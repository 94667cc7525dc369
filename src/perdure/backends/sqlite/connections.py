"""One sqlite3 connection, for blocking and for suspending callers: the port under `SqliteRecords`.

A call of the port is one transaction script: a plain function that gets the `Database`. Scripts of both colours take turns under
one lock, so both see one database, in memory too, and a renewal never waits behind the database's own locks.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, TypeVarTuple
from weakref import WeakSet

from perdure.backends.sqlite.schema import THREADS, Database, Kind, damage, prepare
from perdure.backends.sqlite.target import target
from perdure.clock import SYSTEM_CLOCK, Clock
from perdure.errors import InvalidArgument, SaverClosed
from perdure.turns import is_held_here, refuse_inside, turn_lock

if TYPE_CHECKING:
    import sqlite3
    from concurrent.futures import Future, ThreadPoolExecutor

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

BUSY_TIMEOUT = 30.0
"""Seconds that a transaction waits for another process's. Longer than a disk is ever busy; somebody may also have a shell open."""

_LOOK_AGAIN = 0.004
"""Seconds between two tries to begin a transaction while another process has the lock. SQLite itself comes to wait 0.1 seconds before it
tries again, and a process that commits all the time frees the lock for much less: of four such processes, one waited for 1.5 seconds,
with this for 0.18."""

_FORK_PATIENCE = 10.0
"""Seconds that a fork waits for a script to end."""

_FINISH_PATIENCE = 10.0
"""Seconds that a write is waited for by a task that is cancelled over and over."""

_SQLITE_BUSY = 5
_SQLITE_READONLY = 8


Begun = Callable[["Future[Any]"], None]
"""Is told of the outcome to come of a script that runs on the connection's own thread."""


class SqlitePort(Protocol):
    """What `SqliteRecords` awaits."""

    @property
    def clock(self) -> Clock:
        """The clock of rows that no caller dates."""
        ...

    async def run(self, script: Callable[[Database, *Ts], T], *args: *Ts) -> T:
        """Run a script to its end, alone; what it left uncommitted when it raises is rolled back."""
        ...

    async def finish(self, script: Callable[[Database, *Ts], T], *args: *Ts, begun: Begun | None = None) -> T:
        """As `run`, and even if the call is cancelled before its turn comes. `begun` is told of the thread that does it."""
        ...

    async def close(self) -> None:
        """Close the connection, for both colours."""
        ...


def open_sqlite(
    path: str | Path,
    *,
    kind: Kind = THREADS,
    synchronous: str = "full",
    busy_timeout: float = BUSY_TIMEOUT,
    clock: Clock = SYSTEM_CLOCK,
    host_clock: Clock = SYSTEM_CLOCK,
) -> SharedSqlite:
    """A database file, connected to upon first use.

    Args:
        path: a file, made if missing; ":memory:"; or a `file:` URI, as SQLite defines it (`?mode=ro` opens for reading only).
        kind: what the file is, or becomes.
        synchronous: "full": a commit survives a power loss. "normal": it survives a crash of the process, and a power loss may
            undo the last ones.
        busy_timeout: seconds to wait for another process's transaction before "database is locked".
        clock: dates deletions and releases.
        host_clock: by which leases run out. SQLite has no clock but that of the machine on which it runs.
    """
    return SharedSqlite(path, kind=kind, synchronous=synchronous, busy_timeout=busy_timeout, clock=clock, host_clock=host_clock)


class SharedSqlite:
    """One connection to one database, opened upon first use, and its two ports. Arguments as in `open_sqlite`."""

    def __init__(
        self,
        path: str | Path,
        *,
        kind: Kind = THREADS,
        synchronous: str,
        busy_timeout: float,
        clock: Clock,
        host_clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        if synchronous not in {"full", "normal"}:
            raise InvalidArgument(f"synchronous is 'full' or 'normal', not {synchronous!r}")
        wait: Any = busy_timeout
        if not isinstance(wait, (int, float)) or not wait >= 0:
            raise InvalidArgument(f"busy_timeout is a number of seconds, not {busy_timeout!r}")
        self.clock = clock
        self._host_clock = host_clock
        self._kind = kind
        self.name, self._in_memory, self._writable = target(path, takes_urls=kind.urls)
        self._synchronous = synchronous
        self._busy_timeout = busy_timeout
        self._lock = turn_lock()
        self._database: Database | None = None
        self._gone = ""
        self._executor: ThreadPoolExecutor | None = None
        with _forking:
            _live.add(self)

    def blocking(self) -> BlockingSqlite:
        """The port for callers without an event loop."""
        return BlockingSqlite(self)

    def suspending(self) -> SuspendingSqlite:
        """The port for callers on an event loop."""
        return SuspendingSqlite(self)

    def run(self, script: Callable[[Database, *Ts], T], *args: *Ts) -> T:
        """Run a script on this thread, when its turn comes.

        Raises:
            SaverClosed: the saver was closed, or the database was in the memory of the process that this one was forked from.
        """
        if is_held_here(self._lock):
            refuse_inside(f"the {self._kind.owner} of {self.name}")
        with self._lock:
            database = self._database or self._open()
            deadline = 0.0
            while True:
                try:
                    return script(database, *args)
                except BaseException as error:
                    # SQLite itself rolls back after some errors (disk full), not after others (a broken constraint).
                    if database.connection.in_transaction:
                        self._roll_back(database)
                    if not _is_busy(error):
                        if (damaged := damage(error, self._kind, self.name)) is not None:
                            raise damaged from error
                        if name := getattr(error, "sqlite_errorname", ""):
                            error.add_note(f"{name} in the database {self.name}")
                        raise
                    now = time.monotonic()
                    deadline = deadline or now + self._busy_timeout
                    if now >= deadline:
                        error.add_note(f"another process has had the lock of {self.name} for {self._busy_timeout} seconds")
                        raise
                # Nothing of the script is left, so it begins anew.
                time.sleep(_LOOK_AGAIN)
                database = self._database or self._open()

    def close(self) -> None:
        """Close the connection; further scripts are refused. Scripts that began before end first."""
        with self._lock:
            self._gone = self._gone or f"the {self._kind.owner} of {self.name} was closed; make a new one"
            database, self._database = self._database, None
            if database is not None:
                database.connection.close()
            executor, self._executor = self._executor, None
        if executor is not None:
            executor.shutdown(wait=False)  # what is queued there still runs, and is refused

    def submit(self, call: Callable[[*Ts], T], *args: *Ts) -> Future[T]:
        """Call something on the connection's own thread, first in, first out."""
        while True:
            executor = self._executor or self._start_thread()
            try:
                return executor.submit(call, *args)
            except RuntimeError:
                # Closed in between: the next round says so, unless it was the interpreter that shut its threads down.
                if self._executor is executor:
                    raise

    def _start_thread(self) -> ThreadPoolExecutor:
        from concurrent.futures import ThreadPoolExecutor

        with self._lock:
            if self._gone:
                raise SaverClosed(self._gone)
            if self._executor is None:
                self._executor = ThreadPoolExecutor(1, thread_name_prefix="perdure-sqlite")
            return self._executor

    def _open(self) -> Database:
        if self._gone:
            raise SaverClosed(self._gone)
        import sqlite3

        deadline = time.monotonic() + self._busy_timeout
        while True:
            try:
                self._database = self._connect()
                return self._database
            except (sqlite3.Error, UnicodeDecodeError) as error:
                # Switching a new file to WAL does not wait for other processes that do the same, whatever the busy timeout.
                if not _is_busy(error) or time.monotonic() >= deadline:
                    if (damaged := damage(error, self._kind, self.name)) is not None:
                        raise damaged from error
                    error.add_note(f"while opening the database {self.name}{self._advice(error)}")
                    raise
            time.sleep(_LOOK_AGAIN)

    def _advice(self, error: Exception) -> str:
        if getattr(error, "sqlite_errorcode", 0) & 0xFF == _SQLITE_READONLY:
            return (
                ": even for reading, its folder must be writable, for SQLite keeps the write-ahead log there. A file that nobody writes "
                "to is read with 'file:PATH?immutable=1'"
            )
        if self._in_memory or self.name.startswith("file:"):
            return ""
        if Path(self.name).is_dir():
            return ": that is a folder; the database is a file"
        if Path(self.name).parent.is_dir():
            return ""
        return f": its folder does not exist, and a {self._kind.owner} makes none"

    def _connect(self) -> Database:
        import sqlite3

        connection = sqlite3.connect(
            self.name,
            timeout=0,  # `run` waits
            isolation_level=None,  # transactions begin and end where the scripts say
            check_same_thread=False,  # the lock guards it
            uri=self.name.startswith("file:"),
        )
        try:
            return prepare(
                connection,
                self._kind,
                name=self.name,
                writable=self._writable,
                synchronous=self._synchronous,
                clock=self.clock,
                host_clock=self._host_clock,
            )
        except BaseException:
            connection.close()
            raise

    def _roll_back(self, database: Database) -> None:
        import sqlite3

        try:
            database.execute("ROLLBACK")
        except sqlite3.Error:
            # Closing rolls back too. A database in memory would be lost with its connection, so there the error has to do.
            if not self._in_memory:
                self._database = None
                database.connection.close()

    def __del__(self) -> None:
        database = getattr(self, "_database", None)
        if database is not None:
            database.connection.close()  # Python 3.13 and later warn of connections that nobody closed

    # A connection must not be open across a fork, and not even a new one in the child helps: SQLite keeps its locks in a table
    # of the process, which the child inherits although the locks themselves stay with the parent. Tried with 3.40: the parent
    # closed, took the WAL away from under the child, and three commits of the child were lost without an error. So the
    # connection is closed before a fork, and parent and child each open theirs when they next need it.

    def _before_fork(self) -> bool:
        """Hold the lock over the fork, with the connection closed; False if a script does not end."""
        if not self._lock.acquire(timeout=_FORK_PATIENCE):
            return False
        if self._database is not None and not self._in_memory:
            database, self._database = self._database, None
            database.connection.close()
        return True

    def _after_fork_in_child(self) -> None:
        self._lock = turn_lock()
        self._executor = None  # its thread is in the parent
        if self._database is None:
            return
        database, self._database = self._database, None
        _abandon(database.connection)
        if self._in_memory:
            self._gone = (
                f"the database {self.name} is in the memory of the process that forked this one: use a file, or make the "
                f"{self._kind.owner} after the fork"
            )


class BlockingSqlite:
    """The port for callers without an event loop: runs scripts where it is called, and never suspends."""

    __slots__ = ("_shared", "clock")

    def __init__(self, shared: SharedSqlite) -> None:
        self._shared = shared
        self.clock = shared.clock

    async def run(self, script: Callable[[Database, *Ts], T], *args: *Ts) -> T:
        """Run a script to its end, alone."""
        return self._shared.run(script, *args)

    async def finish(self, script: Callable[[Database, *Ts], T], *args: *Ts, begun: Begun | None = None) -> T:
        """As `run`; no other thread does it."""
        return self._shared.run(script, *args)

    async def close(self) -> None:
        """Close the connection, for both colours."""
        self._shared.close()


class SuspendingSqlite:
    """The port for callers on an event loop: runs scripts on the connection's own thread, first in, first out.

    A call that is cancelled ends when its script has: one that had not begun never runs, one that runs is waited for, so that
    what comes after finds it done or undone. Cancelled once more, it no longer waits; the script ends by itself.
    """

    __slots__ = ("_shared", "clock")

    def __init__(self, shared: SharedSqlite) -> None:
        self._shared = shared
        self.clock = shared.clock

    async def run(self, script: Callable[[Database, *Ts], T], *args: *Ts) -> T:
        """Run a script to its end, alone."""
        import asyncio

        future = self._shared.submit(self._shared.run, script, *args)
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            if not future.cancel():
                await _ended(future)
            raise

    async def finish(self, script: Callable[[Database, *Ts], T], *args: *Ts, begun: Begun | None = None) -> T:
        """As `run`, and even if the call is cancelled before its turn comes, or is cancelled over and over."""
        import asyncio

        future = self._shared.submit(self._shared.run, script, *args)
        if begun is not None:
            begun(future)
        try:
            return await asyncio.shield(asyncio.wrap_future(future))
        except asyncio.CancelledError:
            # Some cancel again and again until the task has ended, as anyio's scopes do at each turn of the loop.
            await _ended(future, patience=_FINISH_PATIENCE)
            raise

    async def close(self) -> None:
        """Close the connection, for both colours."""
        import asyncio

        try:
            closing = self._shared.submit(self._shared.close)
        except SaverClosed:
            return
        await asyncio.wrap_future(closing)


async def _ended(future: Future[Any], *, patience: float = 0.0) -> None:
    """Wait for its end; cancelled meanwhile, for as long as patience lasts."""
    import asyncio

    done = asyncio.get_running_loop().create_future()

    def tell() -> None:
        if not done.done():
            done.set_result(None)

    def ended(_: Future[Any]) -> None:
        try:
            done.get_loop().call_soon_threadsafe(tell)
        except RuntimeError:
            pass  # the loop was closed: nobody waits any more

    future.add_done_callback(ended)
    late = time.monotonic() + patience
    while not done.done():
        try:
            await asyncio.wait({done})
        except asyncio.CancelledError:
            if time.monotonic() >= late:
                raise


def _is_busy(error: BaseException) -> bool:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF == _SQLITE_BUSY


# --------------------------------------------------------------------------------------------------------------------- forks

_live: WeakSet[SharedSqlite] = WeakSet()
_forking = threading.Lock()
_held: list[SharedSqlite] = []
_abandoned: list[sqlite3.Connection] = []


def _before_fork() -> None:
    _forking.acquire()
    _held.extend(shared for shared in _live if shared._before_fork())


def _after_fork_in_parent() -> None:
    for shared in _held:
        shared._lock.release()
    _held.clear()
    _forking.release()


def _after_fork_in_child() -> None:
    global _forking
    _forking = threading.Lock()
    _held.clear()
    for shared in list(_live):
        shared._after_fork_in_child()


def _abandon(connection: sqlite3.Connection) -> None:
    """Never close it, not even when the interpreter ends: the locks and files that this would touch are the parent's."""
    _abandoned.append(connection)
    try:
        import ctypes

        ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))
    except (ImportError, AttributeError):
        pass


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)
