"""What runs next at a stored checkpoint, read off the channels that trigger nodes and the versions that these have seen. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from perdure.checkpoint.records import Pending
from perdure.constants import BRANCH_PREFIX, JOIN_PREFIX, NULL_TASK_ID, START, TASKS
from perdure.integrations.langgraph.tables import StoredCheckpoint, StoredWrite
from perdure.types import Send

PULL = "~__pregel_pull, "
PUSH = "~__pregel_push, "
EDIT = "~__interrupt__, "
DELTA = "~~"
HANDLER = ", node_error_handler"

_OLDER = re.compile(r"(start:|branch:)(?!to:)")


@dataclass(slots=True)
class Steering:
    """What runs next.

    Attributes:
        frontier: the tasks, Sends first, then nodes by name.
        deferred: nodes that wait until nothing else is left.
        joins: joins that wait, with those who have arrived.
        sends: the pending Sends.
        state: values of the state's own channels.
    """

    frontier: tuple[Pending, ...] = ()
    deferred: tuple[Pending, ...] = ()
    joins: dict[str, tuple[str, ...]] = field(default_factory=dict)
    sends: list[Send] = field(default_factory=list)
    state: dict[str, Any] = field(default_factory=dict)

    @property
    def next(self) -> tuple[str, ...]:
        """The names of the nodes that run next."""
        return (*(send.node for send in self.sends), *(task.path for task in self.frontier if not task.path.startswith("#")))


class Task(NamedTuple):
    """A task as its writes name it.

    Attributes:
        path: as records of ours name it.
        node: its node; "" for a task of a Send.
    """

    path: str
    node: str = ""


def steering_of(
    stored: StoredCheckpoint, n: int, sent: Sequence[Send], entrypoint: str | None, notes: Counter[str]
) -> Steering:
    """What runs next at a checkpoint.

    Args:
        stored: the checkpoint.
        n: its number here.
        sent: Sends of the tasks that made it, where older versions kept them.
        entrypoint: the name of the function, for a workflow that is one.
        notes: gets what could not be understood.
    """
    found = Steering()
    versions = stored.fields.get("channel_versions") or {}
    seen = stored.fields.get("versions_seen") or {}
    fired: dict[str, list[str]] = {}
    waiting: dict[str, list[str]] = {}

    def is_new(node: str, channel: str) -> bool:
        version, before = versions.get(channel), (seen.get(node) or {}).get(channel)
        return before is None or (version is not None and type(version) is type(before) and version > before)

    for channel, value in stored.values.items():
        if channel == TASKS:
            found.sends = [send for send in value or () if isinstance(send, Send)]
        elif channel == START:
            found.state[START] = value
            if is_new(entrypoint or START, START):
                fired[entrypoint or START] = [START] if entrypoint else []
        elif channel.startswith(BRANCH_PREFIX):
            node = channel.removeprefix(BRANCH_PREFIX)
            is_deferred = isinstance(value, list) and len(value) == 2 and type(value[1]) is bool
            if is_new(node, channel):
                (waiting if is_deferred and not value[1] else fired).setdefault(node, []).append(channel)
        elif channel.startswith(JOIN_PREFIX):
            _join(found, channel, value, (fired, waiting), is_new=is_new)
        elif _OLDER.match(channel):
            notes[f"the trigger {channel!r} is of an older version and was passed over: what runs next may be missing"] += 1
        else:
            found.state[channel] = value
    if not found.sends:
        found.sends = list(sent)
    count = len(found.sends)
    sends = (Pending("#0" if count == 1 else f"#0-{count - 1}", n),) if count else ()
    found.frontier = (*sends, *(Pending(node, n, tuple(fired[node])) for node in sorted(fired)))
    found.deferred = tuple(Pending(node, n, tuple(waiting[node])) for node in sorted(waiting))
    if START in found.state and not any(START in (task.path, *task.triggers) for task in found.frontier):
        del found.state[START]
    return found


def _join(
    found: Steering, channel: str, value: Any, into: tuple[dict[str, list[str]], dict[str, list[str]]], *, is_new: Any
) -> None:
    fired, waiting = into
    names, _, target = channel.removeprefix(JOIN_PREFIX).rpartition(":")
    finished: bool | None = None
    if isinstance(value, list) and len(value) == 2 and type(value[1]) is bool:
        value, finished = value
    arrived = sorted(str(name) for name in value or ())
    if not arrived:
        return
    if set(arrived) != set(names.split("+")):
        found.joins[channel] = tuple(arrived)
    elif is_new(target, channel):
        (waiting if finished is False else fired).setdefault(target, []).append(channel)


def task_of(path: str, known: Mapping[str, Any]) -> Task | None:
    """The task that a stored path names; None for what is no task of the checkpoint: an edit, a durable step inside of a node.

    Args:
        path: as `task_path` has it.
        known: the nodes that run next, by name, for paths that an older version did not store.
    """
    if path.startswith(PULL):
        name, handler, _ = path.removeprefix(PULL).partition(HANDLER)
        return Task(f"!{name}" if handler else name, name)
    if path.startswith(PUSH):
        index, _, rest = path.removeprefix(PUSH).partition(", ")
        if not index.isdigit():
            return None
        name = f"#{int(index)}"
        return Task(f"!{name}" if HANDLER in f", {rest}" else name)
    if not path and len(known) == 1:
        (name,) = known
        return Task(name, "" if name.startswith("#") else name)
    return None


def sends_among(writes: Sequence[StoredWrite], decode: Any) -> list[Send]:
    """The Sends that tasks wrote, in their order."""
    found = [decode(write.tag, write.data) for write in writes if write.channel == TASKS and write.task != NULL_TASK_ID]
    return [send for send in found if isinstance(send, Send)]


def namespace_parts(namespace: str) -> tuple[str, str, str | None, int]:
    """The namespace around, the node, the task's id (None for a subgraph that remembers) and which subgraph of the task it is."""
    parts = namespace.split("|")
    call = 0
    if len(parts) > 1 and parts[-1].isdigit():
        call = int(parts.pop())
    node, colon, task = parts[-1].partition(":")
    return "|".join(parts[:-1]), node, task if colon else None, call
