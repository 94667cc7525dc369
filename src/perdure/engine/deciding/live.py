"""The state of one graph while it runs, and what a super-step's writes make of it. Pure.

The steering part is explicit: `fired` (nodes to run next, with what triggered them), `sends`, `joins` (who has arrived) and
`deferred` (who waits for everything else to end). A classic implementation keeps these as channels with version counters and
asks every node at every step whether one of its triggers is newer than what it saw; the outcome is the same, the work is not:
here a step costs what it touches, however many nodes the graph has.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol

from perdure.channels.base import MISSING
from perdure.channels.last_value import LastValue
from perdure.checkpoint.incremental.outline import LEAVES
from perdure.constants import BRANCH_PREFIX, TASKS
from perdure.engine.tasks.guard import Guard
from perdure.errors import InvalidUpdateError
from perdure.types import Overwrite, Send

if TYPE_CHECKING:
    from perdure.channels.base import BaseChannel
    from perdure.checkpoint.incremental.outline import Outline
    from perdure.engine.deciding.returns import Write
    from perdure.engine.program import Node, Program

Triggers = tuple[str, ...]


class Finished(Protocol):
    """A task that has ended: which node it was and what it wrote."""

    node: Node
    writes: list[Write] | None


class Live:
    """Channels and steering of one graph between two super-steps.

    Attributes:
        channels: the state's channels; templates are replaced by copies when first written.
        view: the values that nodes see, by key, of the channels that have one.
        step: number of the checkpoint that this is (-1 for the first input).
        fired: nodes to run next, by name: where they were triggered (a checkpoint's number) and by what.
        sends: pending Sends, and per index where each was triggered; an index that is absent has been dealt with.
        joins: per join, the sources that have arrived.
        deferred: as `fired`, for those that wait until nothing else is left.
        ran: the nodes whose results this holds.
        memories: newest checkpoints of the subgraphs that remember from one call to the next, by namespace, as of this state.
        guard: watches the containers among the values; None while there are none.
        untouched: no code of anybody has run since the state was restored.
        sound: keys that were written to, whose elements nobody has changed in place since the last checkpoint, by all that happened;
            `unsound` are those of which that cannot be said. Whoever stages a checkpoint empties both.
        kept: of lists among the `sound` keys, how many elements of the last checkpoint's are still the first ones.
        undone: keys whose values were changed in place, each with whether that could be undone. Whoever warns of them empties it.
    """

    __slots__ = (
        "_look",
        "channels",
        "deferred",
        "fired",
        "guard",
        "joins",
        "kept",
        "memories",
        "open_sends",
        "program",
        "ran",
        "sends",
        "sound",
        "step",
        "undone",
        "unsound",
        "untouched",
        "view",
    )

    def __init__(
        self,
        program: Program,
        stored: Mapping[str, Any] | None = None,
        look: Any = None,
        outlines: Mapping[str, list[Outline]] | None = None,
        *,
        watch: bool = True,
    ) -> None:
        self.program = program
        self.channels: dict[str, BaseChannel[Any, Any, Any]] = {}
        self.view: dict[str, Any] = {}
        for key, template in program.channels.items():
            channel = template.from_checkpoint(MISSING if stored is None else stored.get(key, MISSING))
            self.channels[key] = channel
            if channel.is_available():
                self.view[key] = channel.get()
        self.step = -2
        self.fired: dict[str, tuple[int, Triggers]] = {}
        self.sends: Sequence[Send] = ()
        self.open_sends: dict[int, int] = {}
        self.joins: dict[str, frozenset[str]] = {}
        self.deferred: dict[str, tuple[int, Triggers]] = {}
        self.ran: tuple[str, ...] = ()
        self.memories: dict[str, int] = {}
        self.guard: Guard | None = None
        self.undone: list[tuple[str, bool]] = []
        self.untouched = False
        self.sound: set[str] = set()
        self.unsound: set[str] = set()
        self.kept: dict[str, int] = {}
        self._look = look
        if watch:
            known = outlines or {}
            self._watch([key for key in self.view if key not in known])
            for key, found in known.items():
                if (value := self.view.get(key)) is not None:
                    self._guarding().adopt(key, value, found)

    def write(self, grouped: Mapping[str, list[Any]], *, step: bool = True) -> list[str]:
        """Hand each channel the values written to it; return the keys that changed, in order.

        Args:
            grouped: values by key, in the order of the tasks.
            step: this is a super-step, so channels that nobody wrote to are told too.

        Raises:
            InvalidUpdateError: a channel refuses its values.
        """
        channels = self.channels
        view = self.view
        changed = []
        known = len(view)
        guard = self.guard
        if guard is not None and self.untouched:
            guard.trust()
        elif guard is not None:
            self.undone += guard.undo(grouped)
        self.untouched = False
        kept: dict[str, int] = {}
        for key, values in grouped.items():
            channel = channels[key]
            if guard is None:
                is_changed = channel.update(values)
                self.unsound.add(key)
            else:
                is_changed, kept[key] = self._update_guarded(guard, key, channel, values)
            if is_changed:
                changed.append(key)
                if channel.is_available():
                    view[key] = channel.get()
                else:
                    view.pop(key, None)
        if len(view) > known and len(view) > 1:
            self.view = {key: view[key] for key in channels if key in view}  # nodes see keys in the order of the schema
        if step:
            for key in self.program.volatile:
                if key not in grouped and channels[key].is_available() and channels[key].update(()):
                    changed.append(key)
                    if not channels[key].is_available():
                        view.pop(key, None)
        self._watch(changed, kept)
        return changed

    def _update_guarded(
        self, guard: Guard, key: str, channel: BaseChannel[Any, Any, Any], values: list[Any]
    ) -> tuple[bool, int]:
        """Whether the value is another one, and how many elements of a watched list are surely still its first ones."""
        alone = channel.leaves_alone(values)
        is_changed = channel.update(values)
        is_sound = key in guard.sound and (alone or guard.stands(key))
        kept = channel.kept if is_sound else 0
        (self.sound if is_sound else self.unsound).add(key)
        self.kept[key] = min(kept, self.kept.get(key, kept))
        if not (alone or is_sound):
            guard.forget(key)  # what a reducer has changed is the value now
        return is_changed, kept

    def _watch(self, keys: Iterable[str], kept: Mapping[str, int] = MappingProxyType({})) -> None:
        """Remember the containers among the values of these keys, so that a change in place is noticed.

        Args:
            keys: the keys.
            kept: how many elements of a list that was watched are surely the first ones of the list that is now.
        """
        for key in keys:
            value = self.view.get(key)
            if type(value) not in LEAVES:
                self._guarding().watch(key, value, kept.get(key, 0))
            elif self.guard is not None:
                self.guard.forget(key)

    def _guarding(self) -> Guard:
        if self.guard is None:
            self.guard = Guard(self._look)
        return self.guard

    def undo(self, written: Iterable[Write] = ()) -> None:
        """Undo what was changed in place and not returned; `undone` names the keys."""
        if self.guard is not None:
            grouped: dict[str, list[Any]] = {}
            for key, value in written:
                grouped.setdefault(key, []).append(value)
            self.undone += self.guard.undo(grouped)

    def advance(self, tasks: Collection[Finished], number: int) -> list[str]:
        """Apply the results of a super-step, in the order given, and find out what runs next.

        Args:
            tasks: the finished tasks, in the order of their paths.
            number: of the checkpoint that this becomes.

        Returns:
            The keys that changed.

        Raises:
            InvalidUpdateError: a channel refuses its values.
        """
        channels = self.channels
        grouped: dict[str, list[Any]] = {}
        fired: dict[str, list[str]] = {}
        sends: list[Send] = []
        arrived: list[tuple[str, str]] = []
        ran: dict[str, None] = {}
        for task in tasks:
            node = task.node
            ran[node.name] = None
            for key, value in task.writes or ():
                if key in channels:
                    values = grouped.get(key)
                    if values is None:
                        grouped[key] = [value]
                    else:
                        values.append(value)
                elif key == TASKS:
                    sends.append(value)
                elif key.startswith(BRANCH_PREFIX):
                    fired.setdefault(key[len(BRANCH_PREFIX) :], [key])
            for target in node.edges:
                fired.setdefault(target, [BRANCH_PREFIX + target])
            if node.joins:
                arrived.extend((join, node.name) for join in node.joins)
        try:
            changed = self.write(grouped)
        except InvalidUpdateError as error:
            _name_writers(error, tasks)
            raise
        self.ran = tuple(ran)
        self.fired = {}
        self.sends = sends
        self.open_sends = dict.fromkeys(range(len(sends)), number)
        self._fire(fired, number)
        if arrived:
            self._arrive(arrived, number)
        if self.deferred and not self.fired and not sends:
            self.fired, self.deferred = self.deferred, {}
        return changed

    def _fire(self, fired: Mapping[str, list[str]], number: int) -> None:
        nodes = self.program.nodes
        for target, triggers in fired.items():
            node = nodes.get(target)
            waiting = self.deferred if node is not None and node.defer else self.fired
            if target not in waiting:
                waiting[target] = (number, tuple(triggers))

    def _arrive(self, arrived: Iterable[tuple[str, str]], number: int) -> None:
        for name, source in arrived:
            join = self.program.joins[name]
            seen = self.joins.get(name, frozenset()) | {source}
            if seen != join.sources:
                self.joins[name] = seen
                continue
            self.joins.pop(name, None)
            waiting = self.deferred if join.deferred else self.fired
            before = waiting.get(join.target)
            waiting[join.target] = (number, (name,)) if before is None else (before[0], (*before[1], name))

    def drop_open(self) -> None:
        """Forget all that was to run next: new input replaces it. Joins keep who has arrived."""
        self.fired = {}
        self.sends = ()
        self.open_sends = {}
        self.deferred = {}

    @property
    def is_over(self) -> bool:
        """Nothing is left to run."""
        return not self.fired and not self.open_sends

    def preview(self, writes: Iterable[Write]) -> dict[str, Any]:
        """The values as they would be if only these writes were applied; nothing changes.

        Raises:
            InvalidUpdateError: a channel refuses its values.
        """
        view = dict(self.view)
        grouped: dict[str, list[Any]] = {}
        for key, value in writes:
            if key in self.channels:
                grouped.setdefault(key, []).append(value)
        for key, values in grouped.items():
            live = self.channels[key]
            if len(values) == 1 and type(live) is LastValue and type(values[0]) is not Overwrite:
                view[key] = values[0]
                continue
            channel = _trial(live)
            channel.update(values)
            if channel.is_available():
                view[key] = channel.get()
            else:
                view.pop(key, None)
        return view


def _trial(channel: BaseChannel[Any, Any, Any]) -> BaseChannel[Any, Any, Any]:
    # A reducer may extend its left operand in place; the trial must not do that to the real value.
    stored: Any = channel.checkpoint()
    if type(stored) in (list, dict, set):
        stored = stored.copy()
    return channel.from_checkpoint(stored)


def _name_writers(error: InvalidUpdateError, tasks: Iterable[Finished]) -> None:
    """Say in the error which nodes wrote the key that it is about."""
    writers = [task.node.name for task in tasks for key, _ in task.writes or () if key == error.key]
    if writers:
        times = {name: writers.count(name) for name in writers}
        told = [repr(name) + (f" ({count} times)" if count > 1 else "") for name, count in times.items()]
        error.node = error.node or writers[0]
        error.message = f"{error.message}. It was written by node {', '.join(told)}"
        error.args = (error.message,)
