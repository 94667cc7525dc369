"""Identities: checkpoint ids that never go backwards, task ids that a resume finds again, pause ids.

Checkpoint ids are UUIDs of version 6 (RFC 9562, section 5.6), written as text: their text order is their time order. Version 7
would be the modern choice, but histories imported from elsewhere carry version 6, and "01…" sorts before "1ef…".
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any, NewType

from perdure.constants import CONF
from perdure.errors import CorruptRecord, InvalidConfig, WrongType

ThreadId = NewType("ThreadId", str)
Namespace = NewType("Namespace", str)
CheckpointId = NewType("CheckpointId", str)
TaskId = NewType("TaskId", str)

GREGORIAN_EPOCH = 0x01B21DD213814000
"""100 ns ticks between 1582-10-15, where UUID time starts, and 1970-01-01."""

_TICK_BITS = 60
_LAST_TICK = (1 << _TICK_BITS) - 1
_node = (0, "")


def ticks_of(unix_ns: int) -> int:
    """UUID ticks (100 ns since 1582-10-15) of a Unix time in ns."""
    return unix_ns // 100 + GREGORIAN_EPOCH


def unix_ns_of(ticks: int) -> int:
    """Unix time in ns of UUID ticks; the inverse of `ticks_of` to 100 ns."""
    return (ticks - GREGORIAN_EPOCH) * 100


def checkpoint_id(ticks: int, step: int) -> CheckpointId:
    """The id of the checkpoint that was made at `ticks` for super-step `step`.

    The clock sequence carries the step (so step -1 reads `bfff`), the node field is random for each process.
    """
    if not 0 <= ticks <= _LAST_TICK:
        raise CorruptRecord(f"{ticks} is no time that a checkpoint id can carry")
    time = "%015x" % ticks  # noqa: UP031 - once for each super-step, and faster than a format specification
    sequence = 0x8000 | step & 0x3FFF
    return CheckpointId(f"{time[:8]}-{time[8:12]}-6{time[12:]}-{sequence:x}-{_process_node()}")


def ticks_in(checkpoint: str) -> int:
    """The time inside a checkpoint id, in ticks.

    Raises:
        CorruptRecord: it is not the text of a version 6 UUID.
    """
    try:
        digits = checkpoint[0:8] + checkpoint[9:13] + checkpoint[15:18]
        if len(checkpoint) != 36 or checkpoint[14] != "6":
            raise ValueError
        return int(digits, 16)
    except ValueError:
        raise CorruptRecord(f"{checkpoint!r} is not a checkpoint id (the text of a version 6 UUID)") from None


def next_ticks(now_ns: int, newest: int) -> int:
    """Ticks for a new checkpoint: now, or just after `newest` where the clock stands still or steps back (P24)."""
    now = now_ns // 100 + GREGORIAN_EPOCH
    return now if now > newest else newest + 1


def task_id(origin: str, namespace: str, path: str) -> TaskId:
    """The id of the task that `path` names among those whose trigger fired at checkpoint `origin`.

    It is a digest (BLAKE2b, 128 bit) shaped like a UUID, so that the same stored task has the same id in every process,
    after an edit that left it open, and another id in a fork.
    """
    digest = blake2b(f"{origin}\x00{namespace}\x00{path}".encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
    return TaskId(f"{digest[:8]}-{digest[8:12]}-{digest[12:16]}-{digest[16:20]}-{digest[20:]}")


def interrupt_id(task: str, place: str) -> str:
    """The id of a pause: 32 hex digits that depend on the task and on the pause's place in it, on nothing else."""
    return blake2b(f"{task}\x00{place}".encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def is_interrupt_id(key: object) -> bool:
    """Whether `key` has the shape of a pause id."""
    return isinstance(key, str) and len(key) == 32 and all(c in "0123456789abcdef" for c in key)


def _process_node() -> str:
    # Renewed after a fork: two processes must not share it. The multicast bit marks it as random (RFC 9562, section 6.10).
    global _node
    pid = os.getpid()
    if _node[0] != pid:
        random = int.from_bytes(os.urandom(6), "big") | 0x010000000000
        _node = (pid, f"{random:012x}")
    return _node[1]


def conf_of(config: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """A config's `configurable`, which addresses a thread and its checkpoints; empty if there is none.

    Raises:
        InvalidConfig: one of them is no dict.
    """
    if not config:
        return {}
    if not isinstance(config, Mapping):
        raise InvalidConfig(f"a config is a dict such as {{'configurable': {{'thread_id': '1'}}}}, got {config!r:.100}")
    conf = config.get(CONF, {})
    if not isinstance(conf, Mapping):
        raise InvalidConfig(f"config['configurable'] must be a dict such as {{'thread_id': '1'}}, got {conf!r:.100}", key=CONF)
    return conf


def address_text(conf: Mapping[str, Any], key: str) -> str:
    """A part of an address in a config's `configurable`, such as "checkpoint_id"; "" if it is not there.

    Raises:
        InvalidConfig: it is no text.
    """
    found = conf.get(key) or ""
    if not isinstance(found, str):
        raise InvalidConfig(f"config['configurable'][{key!r}] must be text, got {type(found).__name__}", key=key)
    return found


def thread_text(thread: Any) -> str:
    """A thread id as text.

    Raises:
        WrongType: it is neither text, an int, nor a UUID.
        InvalidConfig: it is empty, or holds NUL.
    """
    if isinstance(thread, str):
        if not thread or "\x00" in thread:
            raise InvalidConfig("a thread_id is text that is not empty and holds no NUL character", key="thread_id")
        return str(thread)
    if type(thread).__name__ == "UUID" or (isinstance(thread, int) and not isinstance(thread, bool)):
        try:
            return str(thread)
        except ValueError:  # an int of thousands of digits
            raise InvalidConfig("a thread_id that is an int has at most 4300 digits", key="thread_id") from None
    raise WrongType(f"thread_id must be text (an int or a UUID is taken as its text), got {type(thread).__name__}")
