"""Which tasks a checkpoint leads to, and whether to run them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Literal

from perdure.constants import END
from perdure.engine.program import nodes_of_join
from perdure.engine.tasks.task import Task
from perdure.errors import MissingNode

if TYPE_CHECKING:
    from perdure.engine.deciding.live import Live
    from perdure.engine.running.run import Run

Move = Literal["go", "done", "break", "drain", "limit"]
"""What comes after a super-step: another one, the end, a static breakpoint, a requested stop, the recursion limit."""


def tasks_of(run: Run) -> list[Task]:
    """The tasks of the next super-step: Sends by position, then triggered nodes by name.

    Raises:
        MissingNode: a stored task belongs to a node that the graph no longer has.
    """
    live = run.live
    program = run.program
    tasks: list[Task] = []
    if live.open_sends:
        for index, origin in live.open_sends.items():
            send = live.sends[index]
            node = program.node(send.node)
            if node is None:
                raise missing_node(run, send.node)
            tasks.append(Task(run, node, f"#{index}", origin, ("__pregel_push",), send))
    fired = live.fired
    for name in fired if len(fired) < 2 else sorted(fired):
        node = program.node(name)
        if node is None:
            raise missing_node(run, name)
        origin, triggers = fired[name]
        tasks.append(Task(run, node, name, origin, triggers))
    return tasks


def refuse_missing(run: Run) -> None:
    """Refuse to go on where a stored task belongs to a node that is gone, or a join waits for one, before anything is stored.

    Raises:
        MissingNode: it does.
    """
    live, program = run.live, run.program
    waiting = [name for join in live.joins if join not in program.joins for name in _all_of(join)]
    for name in (*names_of(live), *live.deferred, *waiting):
        if name != END and program.node(name) is None:
            raise missing_node(run, name)


def _all_of(join: str) -> tuple[str, ...]:
    sources, target = nodes_of_join(join)
    return (*sources, target)


def missing_node(run: Run, name: str) -> MissingNode:
    """The error for a stored task of a node that is gone."""
    row = None if run.journal is None else run.journal.row
    return MissingNode(
        f"the thread is about to run node {name!r}, which graph {run.program.name!r} does not have (any more); it has "
        f"{', '.join(map(repr, run.program.nodes)) or 'no nodes'}. Nothing was changed. Give the node back, say what it is called now "
        f"with compile(aliases={{{name!r}: 'new name'}}), or clear what was to run with update_state(config, None, as_node=END)",
        node=name,
        checkpoint=None if row is None else row.id,
    )


def names_of(live: Live) -> list[str]:
    """The nodes that run next: Sends by position, then triggered nodes by name."""
    return [*(live.sends[index].node for index in live.open_sends), *sorted(live.fired)]


def next_move(run: Run, ran: Iterable[str]) -> Move:
    """What follows the super-step that `ran`, or for an empty one, the start of a run.

    Breakpoints come first, then a requested stop, then the limit: a run that is over has reached none of them.
    """
    live = run.live
    if live.is_over:
        return "done"
    if (run.break_after and _stops(run.break_after, ran)) or (run.break_before and _stops(run.break_before, names_of(live))):
        return "break"
    if run.control is not None and run.control.drain_requested:
        return "drain"
    if live.step >= run.last_step:
        return "limit"
    return "go"


def _stops(at: Sequence[str], names: Iterable[str]) -> bool:
    return any(True for _ in names) if at == "*" else any(name in at for name in names)
