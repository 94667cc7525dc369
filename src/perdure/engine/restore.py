"""From stored rows to the live state of a run. Pure, but for what the serializer's own types do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from perdure.channels.base import MISSING
from perdure.checkpoint.reading import folded
from perdure.checkpoint.records import ANSWERS, ERROR, PAUSES, RESULT, CheckpointRow, Entry, Loaded, Packed, WriteRow
from perdure.constants import CANCELLED, ERROR_SOURCE_NODE, NO_WRITES, START, TASKS
from perdure.engine.frontier import indexes
from perdure.engine.live import Live
from perdure.errors import CorruptRecord
from perdure.types import Interrupt

if TYPE_CHECKING:
    from perdure.checkpoint.serde.base import SerializerProtocol
    from perdure.engine.program import Program


class Restored:
    """A checkpoint, decoded.

    Attributes:
        live: the state.
        row: its row.
        entries: where each channel's value is.
        given: the input, if the entry has not run yet; else MISSING.
    """

    __slots__ = ("_loads", "_values", "entries", "given", "ids", "live", "loaded", "row", "writes")

    def __init__(self, program: Program, loaded: Loaded, serde: SerializerProtocol) -> None:
        row = loaded.row
        if row is None:
            raise CorruptRecord("there is no checkpoint to restore")
        self.loaded = loaded
        self.row: CheckpointRow = row
        self._loads = serde.loads_typed
        self._values = loaded.values
        self.entries: dict[str, Entry] = folded(loaded.chain)
        self.ids = {**loaded.ids, row.n: row.id}
        self.writes: dict[tuple[int, str, int], WriteRow] = {(w.origin, w.path, w.kind): w for w in loaded.writes}
        stored = {
            key: self.value(entry)
            for key, entry in self.entries.items()
            if key in program.channels and program.channels[key].tracked
        }
        self.live = live = Live(program, stored)
        live.step = row.step
        self.given: Any = MISSING
        if TASKS in self.entries:
            live.sends = self.value(self.entries[TASKS])
        for task in row.frontier:
            if task.path == START:
                entry = self.entries.get(START)
                self.given = MISSING if entry is None else self.value(entry)
            elif task.path.startswith("#"):
                live.open_sends.update(dict.fromkeys(indexes(task.path), task.origin))
            else:
                live.fired[task.path] = (task.origin, task.triggers)
        for task in row.deferred:
            live.deferred[task.path] = (task.origin, task.triggers)
        live.joins = {name: frozenset(seen) for name, seen in row.joins.items()}

    def value(self, entry: Entry) -> Any:
        """The value of an entry."""
        return self._loads(self._packed(entry.packed, entry.ref))

    def _packed(self, packed: Packed | None, ref: int | None) -> Packed:
        if packed is None:
            packed = self._values.get(ref) if ref is not None else None
        if packed is None:
            raise CorruptRecord(f"value {ref} of checkpoint {self.row.id} is missing", checkpoint=self.row.id)
        return packed

    def _items(self, origin: int, path: str, kind: int) -> list[tuple[str, Any]] | None:
        row = self.writes.get((origin, path, kind))
        if row is None:
            return None
        return [(i.channel, self._loads(self._packed(i.packed, i.ref))) for i in row.items if i.channel != NO_WRITES]

    def result(self, origin: int, path: str) -> list[tuple[str, Any]] | None:
        """The stored writes of a task, None if it has no result."""
        return self._items(origin, path, RESULT)

    def error(self, origin: int, path: str) -> Failure | None:
        """What a task failed with."""
        items = self._items(origin, path, ERROR)
        if items is None:
            return None
        found = dict(items)
        return Failure(found.get("error"), CANCELLED in found, ERROR_SOURCE_NODE in found)

    def pauses(self, origin: int, path: str) -> list[tuple[Interrupt, int | None]]:
        """The questions that a task asked last, each with its place in the task; None: a subgraph of the task asked it."""
        return [
            (Interrupt(value, pause, response_schema=schema), place)
            for pause, (value, schema, place) in self._items(origin, path, PAUSES) or ()
        ]

    def answers(self, origin: int, path: str) -> dict[str, Any]:
        """The answers that a task has, by pause id."""
        return dict(self._items(origin, path, ANSWERS) or ())

    def open_pauses(self, origin: int, path: str, answers: Mapping[str, Any]) -> list[tuple[Interrupt, int | None]]:
        """The questions of a task that have no answer; none if it has a result."""
        if (origin, path, RESULT) in self.writes:
            return []
        return [(pause, place) for pause, place in self.pauses(origin, path) if pause.id not in answers]


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
