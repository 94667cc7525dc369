"""Locks for short turns at something shared, and whether this thread may wait for others just now.

Python may collect garbage at any moment, also on a thread that holds such a lock or that a run is waiting for. What is found there may
be an abandoned run, whose end has to be stored: it must not be ended on that thread, which would wait for itself.
"""

from __future__ import annotations

import gc
import queue
import threading
from collections.abc import Callable
from operator import methodcaller
from typing import Any, NoReturn
from weakref import ref

from perdure.errors import InvalidCall

THREADS = "perdure-"
"""What the names of all threads of this library begin with."""

_PATIENCE = 0.2
"""Seconds to wait for the end of a garbage collection, if there is one."""

_locks: dict[int, ref[Any]] = {}

this_thread = threading.get_ident


def turn_lock() -> Any:
    """A lock that is held for one short turn, in which nothing else is waited for.

    It is of the kind that its holder can take again, for only that kind knows its holder. What may be half done in a turn has to be
    refused to a second one inside it: `refuse_inside`.
    """
    lock = threading.RLock()
    key = id(lock)
    _locks[key] = ref(lock, lambda _: _locks.pop(key, None))
    return lock


def refuse_inside(whose: str) -> NoReturn:
    """Refuse a turn inside a turn of the same thread.

    Raises:
        InvalidCall: always.
    """
    raise InvalidCall(
        f"{whose} was called while this very thread was in the middle of a call of it: by a signal handler or a __del__ method. Let "
        "those note what is to be done, and do it later"
    )


is_held_here: Callable[[Any], bool] = methodcaller("_is_owned")
"""Whether this thread is in a turn of the lock."""


def _held_here() -> list[Any]:
    locks = [each() for each in tuple(_locks.values())]
    return [lock for lock in locks if lock is not None and is_held_here(lock)]


def may_wait(advanced_by: int) -> bool:
    """Whether this thread may wait for the end of a run that the thread `advanced_by` has iterated over."""
    here = threading.current_thread()
    return not _held_here() and (here.ident == advanced_by or not here.name.startswith(THREADS))


def do_elsewhere(work: Callable[[], object]) -> None:
    """Do something on a thread of its own, once this one has ended its turns. What it raises is told to nobody."""
    turns = _held_here()
    collected: queue.SimpleQueue[None] = queue.SimpleQueue()

    def note(phase: str, _: object) -> None:
        if phase == "stop":
            collected.put(None)

    def do() -> None:
        # Not while the collector may still hand other parts of the same garbage to their finalizers.
        try:
            collected.get(timeout=_PATIENCE)
        except queue.Empty:
            pass
        gc.callbacks.remove(note)
        for turn in turns:
            with turn:
                pass
        try:
            work()
        except Exception:  # noqa: BLE001 - nobody listens any more, and what was stored is intact
            pass

    gc.callbacks.append(note)
    try:
        threading.Thread(target=do, name=f"{THREADS}closing", daemon=True).start()
    except RuntimeError:
        gc.callbacks.remove(note)  # the interpreter is ending, and with it whatever this process holds
