"""The tasks that may run next, as records name them: a triggered node by its name, Sends by ranges of their positions. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from perdure.checkpoint.records import Pending

if TYPE_CHECKING:
    from perdure.engine.deciding.live import Live
    from perdure.engine.tasks.task import Task


def of_live(live: Live, n: int) -> tuple[Pending, ...]:
    """The pending tasks of a live state that becomes checkpoint `n`: Sends first, then nodes by name."""
    fired = live.fired
    open_sends = live.open_sends
    if not open_sends and len(fired) == 1:
        ((path, (origin, why)),) = fired.items()
        return (Pending(path, origin or n, why),)
    return (
        *ranges((index, origin or n, "") for index, origin in open_sends.items()),
        *(Pending(path, fired[path][0] or n, fired[path][1]) for path in sorted(fired)),
    )


def of_results(tasks: Iterable[Task]) -> tuple[Pending, ...]:
    """The tasks whose results make a checkpoint, each with its node's name."""
    nodes: list[Pending] = []
    sends: list[tuple[int, int, str]] = []
    for task in tasks:
        index = task.index
        if index is None or task.failed is not None:
            nodes.append(Pending(task.path, task.origin, (task.node.name,)))
        else:
            sends.append((index, task.origin, task.node.name))
    return (*nodes, *ranges(sends)) if sends else tuple(nodes)


def ranges(items: Iterable[tuple[int, int, str]]) -> list[Pending]:
    """Sends as pending tasks, runs of neighbours with one origin (and one name) as one: `#0-9999`.

    Args:
        items: (index, origin, name of the node or "") in order of the index.
    """
    found: list[Pending] = []
    first = last = -2
    origin_now, name_now = -1, ""
    for index, origin, name in items:
        if index == last + 1 and origin == origin_now and name == name_now:
            last = index
            continue
        if last >= 0:
            found.append(_range(first, last, origin_now, name_now))
        first = last = index
        origin_now, name_now = origin, name
    if last >= 0:
        found.append(_range(first, last, origin_now, name_now))
    return found


def _range(first: int, last: int, origin: int, name: str) -> Pending:
    path = f"#{first}" if first == last else f"#{first}-{last}"
    return Pending(path, origin, (name,) if name else ())


def indexes(path: str) -> range:
    """The positions that a path of Sends stands for; the inverse of what `ranges` writes."""
    first, _, last = path[1:].partition("-")
    return range(int(first), int(last or first) + 1)


def expanded(path: str) -> list[str]:
    """A path of Sends, one by one."""
    return [f"#{index}" for index in indexes(path)]
