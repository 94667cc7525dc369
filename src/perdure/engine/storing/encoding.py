"""The values of a journal: what tasks wrote, and what became of the state, on their way to rows.

Everything is encoded when it is staged. An error names the node and the key, and leaves nothing half staged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from perdure.channels.base import MISSING
from perdure.channels.last_value import LastValue
from perdure.checkpoint.incremental.drafts import Draft, Form
from perdure.checkpoint.incremental.kinds import KINDS, is_incremental
from perdure.checkpoint.incremental.writer import ValueWriter
from perdure.checkpoint.records import CheckpointRow, Entry, Packed, Record, WriteItem, WriteRow
from perdure.constants import NO_WRITES, OVERWRITE_PREFIX, START
from perdure.errors import NotStorable
from perdure.types import Overwrite

if TYPE_CHECKING:
    from perdure.checkpoint.incremental.drafts import Fresh
    from perdure.engine.deciding.live import Live
    from perdure.engine.storing.session import Session
    from perdure.engine.tasks.task import Task

NULL = Packed("null", b"")
NOTHING = (WriteItem(NO_WRITES, NULL),)
"""The items of a row that has none."""


class Encoding:
    """Encodes for one journal.

    Attributes:
        writer: makes the rows.
    """

    __slots__ = ("_nothing", "_recent", "_session", "writer")

    def __init__(self, session: Session) -> None:
        self._session = session
        self.writer = ValueWriter(session.numbers, lambda: session.serde)
        self._recent: dict[int, tuple[Any, Form | Draft]] = {}
        self._nothing: dict[str, WriteItem] = {}

    def items(self, values: Iterable[tuple[str, Any]], where: str) -> tuple[WriteItem, ...]:
        """Questions, answers, errors: values that become nothing else.

        Raises:
            NotStorable: one of them cannot be stored; nothing was staged.
        """
        self.writer.begin()
        items = tuple([WriteItem(channel, *self.form(value, where, channel)) for channel, value in values])
        self.writer.end()
        return items or NOTHING

    def writes(self, row: WriteRow, writes: Iterable[tuple[str, Any]], where: str | Task) -> None:
        """Give a row the writes of a task.

        Raises:
            NotStorable: one of them cannot be stored; nothing was staged.
        """
        self.writer.begin()
        items: list[WriteItem] = []
        for channel, value in writes:
            if value is None:
                if channel not in self._nothing:
                    self._nothing[channel] = WriteItem(channel, NULL)
                items.append(self._nothing[channel])
                continue
            # What an Overwrite holds becomes elements like any other value.
            inner = value.value if type(value) is Overwrite and type(value.value) in KINDS else value
            try:
                form = self.writer.written(row, channel, inner)
                if inner is not value and not isinstance(form, Draft):
                    form = self.writer.whole(value)
            except NotStorable as error:
                raise self._named(error, where, channel) from error.__cause__
            self._recent[id(inner)] = (inner, form)
            if isinstance(form, Draft):
                form.put = _into(row, items, len(items))
                items.append(WriteItem(channel if inner is value else OVERWRITE_PREFIX + channel, None))
            else:
                items.append(WriteItem(channel, *form))
        row.items = tuple(items) or NOTHING
        self.writer.end()

    def state(self, live: Live, n: int, changed: Iterable[str], changes: dict[str, Entry | None], *, go_on: bool) -> None:
        """The entries of channels that have changed. It is part of a checkpoint, which begins and ends the staging.

        Args:
            live: the state.
            n: number of the checkpoint.
            changed: keys whose values may differ from the parent's.
            changes: gets their entries.
            go_on: the checkpoint's parent is the newest of its namespace.

        Raises:
            NotStorable: a value cannot be stored.
        """
        writer = self.writer
        fresh: dict[str, Fresh] = {}
        watched = live.program.validate_state is None  # what validates a state may change it
        for key in changed:
            channel = live.channels[key]
            if not channel.tracked:
                continue
            value = channel.checkpoint()
            if value is MISSING:
                changes[key] = None
                writer.forget(key)
                continue
            # What a task wrote to a LastValue is its value, and is encoded once. Not so for reducers, which may have extended
            # the very object that was written.
            seen = self._recent.get(id(value)) if type(channel) is LastValue else None
            known = seen[1] if seen is not None and seen[0] is value else None
            if isinstance(known, Form):
                changes[key] = Entry(n, *known)
                writer.forget(key)
                continue
            try:
                sound = watched and key in live.sound and key not in live.unsound
                kept = live.kept.get(key, 0) if sound else 0
                form, new = writer.channel(key, value, go_on=go_on, draft=known, sound=sound, kept=kept)
            except NotStorable as error:
                raise self._named(error, "state", key) from error.__cause__
            changes[key] = Entry(n, *form)
            if known is not None:
                writer.settle(known, form)
            elif new is not None:
                fresh[key] = new
        self._recent = {}
        live.sound.clear()
        live.unsound.clear()
        live.kept.clear()
        if fresh:
            writer.matched(fresh)

    def input(self, row: CheckpointRow, given: Any, entries: dict[str, Entry]) -> Entry:
        """The entry of an input. Each of its values is stored for itself: they are about to become values of channels.

        Args:
            row: the checkpoint that keeps it.
            given: the input.
            entries: the journal's, where the entry is corrected when it is known what became of its values.

        Raises:
            NotStorable: it cannot be stored.
        """
        writer = self.writer
        whole = type(given) is not dict or not is_incremental(self._session.serde) or any(type(key) is not str for key in given)
        try:
            form = writer.whole(given) if whole else writer.inline(given)
        except NotStorable as error:
            raise self._named(error, "input", START) from error.__cause__
        if form is not None:
            return Entry(row.n, *form)
        items: list[WriteItem] = []

        def entry() -> Entry:
            return Entry(row.n, None, None, Record(tuple(items)))

        def put(at: int) -> Callable[[Form], None]:
            def settle(form: Form) -> None:
                items[at] = WriteItem(items[at].channel, *form)
                row.changes[START] = entry()
                if START in entries and entries[START].version == row.n:
                    entries[START] = entry()

            return settle

        for key, value in given.items():
            of_key = writer.written(row, key, value)
            if isinstance(of_key, Draft):
                of_key.put = put(len(items))
                items.append(WriteItem(key, None))
            else:
                items.append(WriteItem(key, *of_key))
        return entry()

    def form(self, value: Any, where: str | Task, key: str) -> Form:
        """A value in one piece; see `writes`."""
        try:
            return self.writer.whole(value)
        except NotStorable as error:
            raise self._named(error, where, key) from error.__cause__

    def _named(self, error: NotStorable, where: str | Task, key: str) -> NotStorable:
        """The error, which says where the value was."""
        place = where if isinstance(where, str) else f"update of node {where.node.name!r}"
        return placed(error, f"{place}[{key!r}]", self._session.thread)


def placed(error: NotStorable, where: str, thread: str) -> NotStorable:
    """The error of a serializer, which begins with the path inside the value: told with the place of the value, and the path once."""
    inside = error.key or ""
    error.message = where + (error.message if inside and error.message.startswith(inside) else f": {error.message}")
    error.key = where + inside
    error.thread = error.thread or thread
    return error


def _into(row: WriteRow, items: list[WriteItem], at: int) -> Callable[[Form], None]:
    """Puts a form where its item is."""

    def put(form: Form) -> None:
        items[at] = WriteItem(items[at].channel, *form)
        row.items = tuple(items)

    return put
