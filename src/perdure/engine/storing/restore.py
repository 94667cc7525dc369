"""From stored rows to the live state of a run. Pure, but for what the serializer's own types do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from perdure.channels.base import MISSING
from perdure.checkpoint.incremental.kinds import is_incremental
from perdure.checkpoint.incremental.manifest import Manifest
from perdure.checkpoint.incremental.outline import Outliner
from perdure.checkpoint.incremental.tracker import Tracker
from perdure.checkpoint.incremental.values import value_of, write_of
from perdure.checkpoint.pauses import Asked, asked_again, of_last_entry
from perdure.checkpoint.reading import folded
from perdure.checkpoint.records import ANSWERS, ERROR, PAUSES, RESULT, CheckpointRow, Entry, Loaded, WriteItem, WriteRow
from perdure.constants import CANCELLED, ERROR_SOURCE_NODE, MEMORIES, NO_WRITES, START, TASKS
from perdure.engine.deciding.frontier import expanded, indexes
from perdure.engine.deciding.live import Live
from perdure.errors import CorruptRecord

if TYPE_CHECKING:
    from perdure.checkpoint.serde.base import SerializerProtocol
    from perdure.engine.program import Program


CANCELLED_TEXT = "CancelledError()"
"""What is shown as the error of a task that was stopped from outside."""


class Kept:
    """What the tasks of a checkpoint have left behind, decoded as it is asked for. It needs no program, only the rows.

    Attributes:
        row: the checkpoint.
        loaded: all that was loaded with it.
        entries: where each channel's value is.
        ids: public ids by number.
        writes: what tasks left, by (origin, path, kind).
    """

    __slots__ = ("_now_ns", "_serde", "_steps", "entries", "ids", "loaded", "row", "writes")

    def __init__(self, loaded: Loaded, serde: SerializerProtocol, now_ns: int = 0) -> None:
        row = loaded.row
        if row is None:
            raise CorruptRecord("there is no checkpoint to restore")
        self.loaded = loaded
        self.row: CheckpointRow = row
        self._serde = serde
        self._now_ns = now_ns
        self._steps: dict[tuple[int, str], dict[str, None]] | None = None
        self.entries: dict[str, Entry] = folded(loaded.chain)
        self.ids = {**loaded.ids, row.n: row.id}
        self.writes: dict[tuple[int, str, int], WriteRow] = {(w.origin, w.path, w.kind): w for w in loaded.writes}

    def paths(self, *, handlers: bool = True) -> list[tuple[str, int]]:
        """(path, origin) of the tasks that the checkpoint leads to, each with the handler that took over when it failed."""
        found: list[tuple[str, int]] = []
        for task in self.row.frontier:
            if task.path == START:
                continue
            for path in expanded(task.path) if task.path.startswith("#") else (task.path,):
                found.append((path, task.origin))
                error = self.writes.get((task.origin, path, ERROR)) if handlers else None
                if error is not None and any(item.channel == ERROR_SOURCE_NODE for item in error.items):
                    found.append((f"!{path}", task.origin))
        return found

    def steps(self, origin: int, above: str) -> Sequence[str]:
        """Paths of the durable steps that the task at path `above` called, of those that have left something."""
        if self._steps is None:
            self._steps = {}
            for at, path, kind in self.writes:
                if kind in (RESULT, PAUSES) and ">" in path:
                    self._steps.setdefault((at, path.rpartition(">")[0]), {})[path] = None  # one may have asked and ended
        return list(self._steps.get((origin, above), ()))

    def value(self, item: Entry | WriteItem) -> Any:
        """The value of an entry or a write.

        Raises:
            CorruptRecord: it is missing or damaged.
            StateTypeError: a type in it is unknown here, or no longer fits.
        """
        try:
            return value_of(item, self.loaded.values, self._serde)
        except CorruptRecord as error:
            error.checkpoint = error.checkpoint or self.row.id
            raise

    def _items(self, origin: int, path: str, kind: int) -> list[tuple[str, Any]] | None:
        row = self.writes.get((origin, path, kind))
        if row is None:
            return None
        items = [item for item in row.items if item.channel != NO_WRITES]
        try:
            return [write_of(item, self.loaded.values, self._serde) for item in items]
        except CorruptRecord as error:
            error.checkpoint = error.checkpoint or self.row.id
            raise

    def result(self, origin: int, path: str) -> list[tuple[str, Any]] | None:
        """The stored writes of a task, None if it has no result."""
        items = self._items(origin, path, RESULT)
        return None if items is None else [item for item in items if item[0] != MEMORIES]

    def memories(self, origin: int, path: str) -> dict[str, int]:
        """The newest checkpoints of the remembering subgraphs that a task with a result ran, by namespace."""
        row = self.writes.get((origin, path, RESULT))
        items = () if row is None else row.items
        return {name: n for item in items if item.channel == MEMORIES for name, n in self.value(item).items()}

    def error(self, origin: int, path: str) -> Failure | None:
        """What a task failed with."""
        items = self._items(origin, path, ERROR)
        if items is None:
            return None
        found = dict(items)
        return Failure(found.get("error"), CANCELLED in found, ERROR_SOURCE_NODE in found)

    def questions(self, origin: int, path: str) -> list[Asked]:
        """All questions that a task has asked, in any entry."""
        return [asked_again(pause, content, self._now_ns) for pause, content in self._items(origin, path, PAUSES) or ()]

    def asked(self, origin: int, path: str) -> list[Asked]:
        """The questions of the task's last entry, answered or not."""
        return of_last_entry(self.questions(origin, path))

    def answers(self, origin: int, path: str) -> dict[str, Any]:
        """The answers that a task has, by pause id."""
        return dict(self._items(origin, path, ANSWERS) or ())

    def unanswered(self, origin: int, path: str, answers: Mapping[str, Any]) -> list[Asked]:
        """The questions of a task that wait for an answer; none if it has a result."""
        if (origin, path, RESULT) in self.writes:
            return []
        return [asked for asked in self.asked(origin, path) if not asked.closed and asked.question.id not in answers]


class Restored(Kept):
    """A checkpoint, decoded.

    Attributes:
        live: the state.
        given: the input, if it has not been used up yet; else MISSING.
        enters: the entry is to run next, and take it in.
        trackers: of channels whose value is stored by element.

    Args:
        program: the graph.
        loaded: the checkpoint.
        serde: how bytes become values.
        now_ns: the time by which questions are overdue.
        reads: it is only looked at, and nothing goes on from it.
    """

    __slots__ = ("_outliner", "enters", "given", "live", "trackers")

    def __init__(
        self, program: Program, loaded: Loaded, serde: SerializerProtocol, now_ns: int = 0, *, reads: bool = False
    ) -> None:
        super().__init__(loaded, serde, now_ns)
        row = self.row
        self.trackers: dict[str, Tracker] = {}
        self._outliner = None if reads or not is_incremental(serde) else Outliner(serde.made_of)  # type: ignore[attr-defined]
        stored = {
            key: self._state(key, entry)
            for key, entry in self.entries.items()
            if key in program.channels and program.channels[key].tracked
        }
        # A list's elements are looked at by both, the guard and the tracker.
        outlines = {
            key: found
            for key, tracker in self.trackers.items()
            if tracker.manifest.kind == "list" and (found := tracker.outlines) is not None
        }
        self.live = live = Live(program, stored, getattr(serde, "made_of", None), outlines, watch=not reads)
        live.step = row.step
        self.given: Any = MISSING
        if TASKS in self.entries:
            live.sends = self.value(self.entries[TASKS])
        if START in self.entries:
            self.given = self.value(self.entries[START])
        self.enters = False
        for task in row.frontier:
            if task.path == START:
                self.enters = self.given is not MISSING
            elif task.path.startswith("#"):
                live.open_sends.update(dict.fromkeys(indexes(task.path), task.origin))
            else:
                live.fired[task.path] = (task.origin, task.triggers)
        for task in row.deferred:
            live.deferred[task.path] = (task.origin, task.triggers)
        for name, seen in row.joins.items():
            join = program.join_of(name)
            now = seen if join is None or join.name == name else [program.aliases.get(source, source) for source in seen]
            live.joins[name if join is None else join.name] = frozenset(now)
        live.memories = dict(row.memories)

    def _state(self, key: str, entry: Entry) -> Any:
        manifest = entry.parts
        if not isinstance(manifest, Manifest):
            return self.value(entry)
        known = None if self.loaded.head is None else self.loaded.head.values.get(key)
        if known is not None:
            value = known.value()
            if self._outliner is not None:
                encoder: Any = self._serde
                self.trackers[key] = Tracker.of_known(manifest, known, value, encoder, self._outliner)
            return value
        value = elements = self.value(entry)
        if manifest.kind == "set":
            # A set forgets the order of its members, which says where each is stored.
            elements = self.value(entry._replace(parts=manifest._replace(kind="list")))
            if len(value) != len(elements):
                raise CorruptRecord("a stored set is damaged: the same member is there twice", checkpoint=self.row.id, key=key)
            value = set(elements)
        if self._outliner is not None:
            encoder = self._serde
            self.trackers[key] = Tracker.of_stored(manifest, self.loaded.values, elements, encoder, self._outliner)
        return value


class Failure:
    """A stored failure of a task.

    Attributes:
        error: what is kept of the exception.
        cancelled: it was stopped from outside.
        handled: an error handler took over.
    """

    __slots__ = ("cancelled", "error", "handled")

    def __init__(self, error: Any, cancelled: bool, handled: bool) -> None:
        self.error = error
        self.cancelled = cancelled
        self.handled = handled

    @property
    def shown(self) -> Any:
        """What snapshots and events show as the task's error."""
        return CANCELLED_TEXT if self.cancelled else self.error
