"""Which open tasks an edit stands for, and which have begun. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from perdure.constants import START
from perdure.engine.deciding.plan import tasks_of
from perdure.errors import InvalidUpdateError, TaskNotFound

if TYPE_CHECKING:
    from perdure.engine.program import Program
    from perdure.engine.running.run import Run
    from perdure.engine.storing.restore import Restored
    from perdure.engine.tasks.task import Task
    from perdure.types import Send, StateUpdate


def meant_by(run: Run, update: StateUpdate) -> Task | None:
    """The open task that an edit names by its id, None if it names none.

    Raises:
        TaskNotFound: there is no such task.
        InvalidUpdateError: it is one of another node.
    """
    if update.task_id is None:
        return None
    tasks = tasks_of(run)
    found = next((task for task in tasks if task.id == update.task_id), None)
    if found is None:
        raise TaskNotFound(
            f"no task {update.task_id!r} is to run at this checkpoint, for which the edit could stand; get_state lists those that are: "
            f"{', '.join(f'{task.id!r} of node {task.node.name!r}' for task in tasks) or 'none'}"
        )
    if update.as_node is not None and now_called(run.program, update.as_node) != found.node.name:
        raise InvalidUpdateError(
            f"task {found.id!r} is one of node {found.node.name!r}, not of as_node={update.as_node!r}; leave one of the two out",
            node=found.node.name,
        )
    return found


def closed_by(run: Run, names: Sequence[str], meant: Sequence[Task | None]) -> list[int | str]:
    """The open tasks that edits in the name of these nodes stand for, one for each: names of triggered nodes, positions of Sends.

    An edit that does not say which stands for the node as an edge has triggered it, or else for the first of its Sends.
    """
    live = run.live
    tasks = tasks_of(run) if live.open_sends else ()
    found: list[int | str] = []
    for name, task in zip(names, meant, strict=True):
        if task is not None:
            found.append(task.path if task.index is None else task.index)
            continue
        places: list[int | str] = [at for at in live.fired if now_called(run.program, at) == name]
        places += [one.index for one in tasks if one.index is not None and one.node.name == name]
        found += [at for at in places if at not in found][:1]
    return found


def started(restored: Restored) -> set[tuple[str, int]]:
    """(path, origin) of the tasks that have asked, or have a result."""
    return {
        (path, origin)
        for path, origin in restored.paths(handlers=False)
        for at in (path, f"!{path}")
        if restored.result(origin, at) is not None or restored.asked(origin, at)
    }


def without(program: Program, chosen: Sequence[Send], begun: Sequence[Send]) -> list[Send]:
    """The Sends that edges chose anew, without those that stand for one that has begun: to the same node, with an equal argument."""
    left = list(begun)
    found: list[Send] = []
    for send in chosen:
        twin = next((one for one in left if _are_alike(program, one, send)), None)
        if twin is None:
            found.append(send)
        else:
            left = [one for one in left if one is not twin]
    return found


def _are_alike(program: Program, one: Send, other: Send) -> bool:
    if now_called(program, one.node) != now_called(program, other.node):
        return False
    try:
        return bool(one.arg == other.arg)
    except Exception:  # noqa: BLE001 - objects that cannot be compared are not known to be alike
        return False


def now_called(program: Program, name: str) -> str:
    """What a node is called now, by a name that a stored task may have had for it before."""
    node = None if name == START else program.node(name)
    return name if node is None else node.name
