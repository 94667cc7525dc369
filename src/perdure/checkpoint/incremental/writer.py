"""Turns values into rows for the books of one graph: small ones ride along, large ones get rows, lists, dicts and sets are stored by
element, and nothing is stored twice that one commit, or the run so far, has stored already.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from perdure.checkpoint.incremental.compression import squeezed
from perdure.checkpoint.incremental.drafts import Draft, Form, Fresh, Step, place_of
from perdure.checkpoint.incremental.kinds import KINDS, is_incremental
from perdure.checkpoint.incremental.manifest import Manifest, is_within, merged_spans, parts_of
from perdure.checkpoint.incremental.originals import Known
from perdure.checkpoint.incremental.outline import Outliner
from perdure.checkpoint.incremental.seen import REMEMBERED, Seen, digest_of
from perdure.checkpoint.incremental.segments import ALONE, MSGPACK
from perdure.checkpoint.incremental.shadow import Change
from perdure.checkpoint.incremental.tracker import Tracker, Written, alone, written
from perdure.checkpoint.incremental.watched import ElementEncoder, columns_of
from perdure.checkpoint.records import INLINE_LIMIT, Entry, Packed, ValueRow
from perdure.errors import NotStorable

if TYPE_CHECKING:
    from perdure.checkpoint.numbering import Numbers
    from perdure.checkpoint.serde.base import SerializerProtocol

WHOLE_LIMIT = 1024
"""Lists, dicts and sets up to this many encoded bytes are stored as one value: their parts are not worth rows of their own."""

WORTH_KEEPING = 16 * 1024
"""Smaller values are read as quickly as they are made from what is known of them."""

SCATTERED = 8
"""What was written refers to the elements it became if these lie in at most so many parts."""

LARGE = 4096
"""An element of a channel's value that has at least this many bytes is found again when it is written to another channel or place."""


class ValueWriter:
    """The values of one graph's books.

    Args:
        numbers: the thread's.
        serde: the serializer; it may learn more types while a run lasts.

    Attributes:
        rows: value rows to be committed.
        drafts: written values whose form is not settled yet.

    Between `begin` and `end` nothing is final; `undo` takes it back.
    """

    __slots__ = (
        "_accepting",
        "_attempt",
        "_elements",
        "_just_added",
        "_known",
        "_new_drafts",
        "_new_known",
        "_numbers",
        "_outliner",
        "_serde",
        "_stored",
        "_trackers",
        "drafts",
        "rows",
    )

    def __init__(self, numbers: Numbers, serde: Callable[[], SerializerProtocol]) -> None:
        self._numbers = numbers
        self._serde = serde
        # Without a way back to here: a run that has ended is to be freed at once, with its state, its saver and what that holds.
        self._outliner = Outliner(lambda cls: cast(ElementEncoder, serde()).made_of(cls))
        self._trackers: dict[str, Tracker] = {}
        self._stored: dict[int, tuple[str, bytes]] = {}
        self._known: dict[bytes, int] = {}
        self._elements = Seen()
        self._just_added = Seen()
        self.rows: list[ValueRow] = []
        self.drafts: list[Draft] = []
        self._attempt: list[ValueRow] = []
        self._accepting: list[Callable[[], object]] = []
        self._new_known: dict[bytes, int] = {}
        self._new_drafts: list[Draft] = []

    def remember(
        self, entries: Mapping[str, Entry], values: Mapping[int, tuple[str, bytes]], elements: Mapping[str, Any]
    ) -> None:
        """Take in what was loaded.

        Args:
            entries: where each channel's value is.
            values: the value rows.
            elements: of channels whose value is stored by element: the value, or a set's members in their stored order.
        """
        refs = [entry.ref for entry in entries.values() if entry.ref is not None]
        self._stored = {ref: values[ref] for ref in refs if ref in values}
        if elements and is_incremental(self._serde()):
            for key, value in elements.items():
                manifest = entries[key].parts
                if isinstance(manifest, Manifest):
                    self._trackers[key] = Tracker.of_stored(manifest, values, value, self._encoder(), self._outliner)

    def adopt(self, trackers: Mapping[str, Tracker]) -> None:
        """Go on with values that somebody has begun to track."""
        self._trackers.update(trackers)

    def known(self, entries: Mapping[str, Entry]) -> dict[str, Known]:
        """What can be kept of large values that are stored by element, to make them again without reading them.

        Args:
            entries: where each channel's value is.
        """
        found: dict[str, Known] = {}
        for key, tracker in self._trackers.items():
            entry = entries.get(key)
            same = entry is not None and isinstance(entry.parts, Manifest) and entry.parts.closed() == tracker.manifest.closed()
            if not same or tracker.size < WORTH_KEEPING:
                continue
            serde: Any = self._serde()
            if hasattr(serde, "loads_elements") and (known := tracker.known(serde.loads_elements, serde.made_of)) is not None:
                found[key] = known
        return found

    # -- all or nothing ---------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Begin to stage something, forgetting what was not ended."""
        if self._attempt or self._accepting or self._new_known or self._new_drafts:
            self._attempt = []
            self._accepting = []
            self._new_known = {}
            self._new_drafts = []

    def end(self) -> None:
        """What was staged since `begin` is to be committed."""
        if not (self._attempt or self._accepting or self._new_known or self._new_drafts):
            return
        self.rows += self._attempt
        self.drafts += self._new_drafts
        if len(self._known) > REMEMBERED:
            self._known.clear()
        self._known.update(self._new_known)
        for accept in self._accepting:
            accept()
        if self.drafts:
            self.drafts = [draft for draft in self.drafts if draft.form is None]
        self.begin()

    def drop(self, owners: set[int], needed: Sequence[tuple[int, int]]) -> None:
        """Forget staged rows that nobody needs, and drafts of rows that are gone.

        Args:
            owners: ids (of objects) of the rows that are kept.
            needed: numbers of values that these refer to, as ranges.
        """
        self.drafts = [draft for draft in self.drafts if id(draft.owner) in owners]
        before = [span for draft in self.drafts if draft.before is not None for span in draft.before.spans()]
        spans = merged_spans([*needed, *before])
        gone = {row.n for row in self.rows if not is_within(row.n, spans)}
        self.rows = [row for row in self.rows if row.n not in gone]
        self._known = {digest: n for digest, n in self._known.items() if n not in gone}
        self._elements.drop(gone)
        self._just_added = Seen()

    def taken(self) -> list[ValueRow]:
        """The rows to be committed now; every draft has got its form."""
        for draft in self.drafts:
            draft.settle(self._alone(draft))
        self.drafts = []
        self._just_added = Seen()
        rows, self.rows = self.rows, []
        return rows

    # -- values -----------------------------------------------------------------------------------------------------------

    def whole(self, value: Any) -> Form:
        """A value in one piece.

        Raises:
            NotStorable: it cannot be stored.
        """
        packed = Packed(*self._serde().dumps_typed(value))
        return self._form(packed)

    def inline(self, value: Any) -> Form | None:
        """A value that is small enough to ride along; None if it is not.

        Raises:
            NotStorable: it cannot be stored.
        """
        packed = Packed(*self._serde().dumps_typed(value))
        return Form(packed) if len(packed.data) <= INLINE_LIMIT else None

    def _form(self, packed: Packed, number: int | None = None) -> Form:
        data = packed.data
        if data.__class__ is not bytes or len(data) <= INLINE_LIMIT:
            return Form(packed)
        digest = digest_of(data, packed.tag)
        ref = self._found(packed, digest)
        if ref is None:
            ref = number or self._numbers.take()
            self._attempt.append(ValueRow(ref, squeezed(packed)))
        self._new_known[digest] = ref
        return Form(None, ref)

    def _found(self, packed: Packed, digest: bytes) -> int | None:
        """The number of a row that holds this value already."""
        ref = self._known.get(digest) or self._new_known.get(digest)
        if ref is None and packed.tag == MSGPACK:
            ref = self._elements.find(packed.data)
        if ref is not None or not self._stored:
            return ref
        row = squeezed(packed)
        return next((n for n, stored in self._stored.items() if stored == row), None)

    def written(self, owner: Any, channel: str, value: Any) -> Form | Draft:
        """A value that somebody wrote to a channel: its form, or a draft that will get one.

        Raises:
            NotStorable: it cannot be stored.
        """
        cls = type(value)
        if cls is int or cls is float or cls is bool:
            packed = Packed(*self._serde().dumps_typed(value))
            return Form(packed) if len(packed.data) <= INLINE_LIMIT else self._form(packed)
        kind = KINDS.get(cls)
        if not is_incremental(self._serde()):
            return self.whole(value)
        if kind is None:
            packed = Packed(*self._serde().dumps_typed(value))
            small = len(packed.data) < max(ALONE, INLINE_LIMIT + 1)
            if packed.tag != MSGPACK or small or self._found(packed, digest_of(packed.data, packed.tag)) is not None:
                return self._form(packed)
            draft = Draft(owner, channel, "one")
            draft.data, draft.number = [packed.data], self._numbers.take()
            self._new_drafts.append(draft)
            return draft
        draft = Draft(owner, channel, kind)
        tracker = self._trackers.get(channel)
        if tracker is not None and tracker.manifest.kind == kind and len(value) * 2 >= tracker.manifest.count:
            change = self._tried(tracker, value)
            if change is not None and change.keeps:
                draft.change, draft.before, draft.counts = change, tracker.manifest, tracker.counts
                draft.version = tracker.version
                self._new_drafts.append(draft)
                return draft
        packed = Packed(*self._serde().dumps_typed(value))
        if len(packed.data) <= INLINE_LIMIT:
            return Form(packed)
        try:
            draft.data = columns_of(value).encoded(self._encoder())
        except NotStorable:
            return self._form(packed)
        if kind == "set":
            draft.data.sort()
        self._new_drafts.append(draft)
        return draft

    def channel(
        self, key: str, value: Any, *, go_on: bool, draft: Draft | None = None, sound: bool = False, kept: int = 0
    ) -> tuple[Form, Fresh | None]:
        """A channel's value.

        Args:
            key: the channel.
            value: its value.
            go_on: the checkpoint is made on the newest one, so that numbers kept for appending may be used.
            draft: what was written, if it was this very value.
            sound: none of the elements that are stored has been changed in place since.
            kept: how many elements of a list that is stored are surely still the first ones.

        Returns:
            Its form, and the elements that are new.

        Raises:
            NotStorable: it cannot be stored.
        """
        kind = KINDS.get(type(value))
        tracker = self._trackers.get(key)
        if kind is None or not is_incremental(self._serde()):
            self.forget(key)
            if draft is not None and draft.data is not None:
                return draft.form or self._form(Packed(MSGPACK, draft.data[0]), draft.number), None
            return self.whole(value), None
        if tracker is not None and tracker.manifest.kind == kind:
            if draft is not None and draft.change is not None and draft.version == tracker.version:
                change: Change | None = draft.change
                if draft.form is not None and draft.form.parts is not None and change is not None:
                    return self._as_written(key, tracker, change, draft, draft.form.parts), None
            else:
                change = self._tried(tracker, value, sound=sound, kept=kept)
            if change is not None and (change.keeps or sum(map(len, change.fresh)) > WHOLE_LIMIT):
                return self._by_element(key, tracker, change, go_on=go_on)
        packed = Packed(*self._serde().dumps_typed(value))
        if len(packed.data) > WHOLE_LIMIT:
            tracker = Tracker.new(kind, self._encoder(), self._outliner)
            change = self._tried(tracker, value)
            if change is not None:
                return self._by_element(key, tracker, change, go_on=False)
        self.forget(key)
        return self._form(packed), None

    def _tried(self, tracker: Tracker, value: Any, *, sound: bool = False, kept: int = 0) -> Change | None:
        """What has become of a value; None if it cannot be stored by element, so that storing it as a whole says why."""
        try:
            return tracker.change_to(value, sound=sound, kept=kept)
        except NotStorable:
            return None

    def _by_element(self, key: str, tracker: Tracker, change: Change, *, go_on: bool) -> tuple[Form, Fresh]:
        change, now = tracker.write(change, self._numbers, self._elements, go_on=go_on)
        self._attempt += now.rows
        self._accept(key, tracker, change, now)
        data = change.fresh
        for element, (n, _) in zip(data, now.places, strict=True):
            if len(element) >= LARGE:
                self._accepting.append(partial(self._elements.add, element, n))
        first: dict[bytes, int] = {}
        for at, element in enumerate(data):
            first.setdefault(element, at)
        return Form(None, None, now.manifest), Fresh(tracker.manifest.kind, data, now.places, now.counts, first)

    def _as_written(self, key: str, tracker: Tracker, change: Change, draft: Draft, manifest: Manifest) -> Form:
        """What was written is stored already: the value is that."""
        self._accept(key, tracker, change, Written(manifest, [], [], draft.counts))
        return Form(None, None, manifest)

    def _accept(self, key: str, tracker: Tracker, change: Change, now: Written) -> None:
        def accept() -> None:
            tracker.accept(change, now)
            self._trackers[key] = tracker

        self._accepting.append(accept)

    def forget(self, key: str) -> None:
        """A channel's value is no longer stored by element."""
        if key in self._trackers:
            self._accepting.append(lambda: self._trackers.pop(key, None))

    def closed(self) -> None:
        """The checkpoint that is being staged is no child of the newest one: numbers kept for appending are another branch's."""

        def close() -> None:
            for tracker in self._trackers.values():
                tracker.manifest = tracker.manifest.closed()

        self._accepting.insert(0, close)

    # -- what was written -------------------------------------------------------------------------------------------------

    def matched(self, fresh: Mapping[str, Fresh]) -> None:
        """Let written values refer to the elements that they have become."""
        if any(draft.change is not None for draft in (*self.drafts, *self._new_drafts)):
            for added in fresh.values():
                for data, where in added.first.items():
                    if len(data) >= ALONE:
                        self._just_added.add(data, added.places[where][0])
        cursors: dict[str, int] = {}
        for draft in [*self.drafts, *self._new_drafts]:
            new = fresh.get(draft.channel)
            form = None
            if new is not None and draft.data and draft.kind == "one":
                alike = new.first.get(draft.data[0]) if new.kind != "dict" else None
                # Elements of this size have segments of their own.
                form = None if alike is None else Form(None, new.places[alike][0])
            elif new is not None and draft.data and new.kind == draft.kind:
                at = place_of(draft.data, new, cursors.get(draft.channel, 0))
                if at is not None:
                    cursors[draft.channel] = at + len(draft.data)
                    parts = parts_of(new.places[at : at + len(draft.data)], new.counts)
                    form = Form(None, None, Manifest(draft.kind, len(draft.data), tuple(parts)))
                    form = form if len(parts) <= SCATTERED else None
            if form is not None:
                self._settling(draft, form)

    def _settling(self, draft: Draft, form: Form) -> None:
        def settle() -> None:
            if draft.form is None:
                draft.settle(form)

        self._accepting.append(settle)

    def settle(self, draft: Draft, form: Form) -> None:
        """What was written has become a whole value: it is stored as that one is."""
        if form.parts is not None:
            form = Form(None, None, form.parts.closed())
        self._settling(draft, form)

    def _alone(self, draft: Draft) -> Form:
        """The form of a written value that has not become elements of a channel."""
        if draft.change is not None and draft.before is not None:
            found = written(draft.change, draft.before, draft.counts, self._numbers.reserve, self._just_added)
            self.rows += found.rows
            draft.counts = found.counts
            return Form(None, None, found.manifest)
        data = draft.data or []
        if draft.kind == "one":
            self.begin()
            form = self._form(Packed(MSGPACK, data[0]), draft.number)
            self.end()
            return form
        manifest, rows, single = alone(draft.kind, data, self._numbers.reserve)
        self.rows += rows
        for n, element in single.items():
            self._elements.add(element, n)
        return Form(None, None, manifest)

    # -- durable steps --------------------------------------------------------------------------------------------------------

    def step(self, value: Any, packed: Packed) -> Step:
        """The result of a durable step, whose commit is its own. May be called from any thread: nothing is staged here.

        Args:
            value: the result.
            packed: the same, encoded.
        """
        if packed.data.__class__ is not bytes or len(packed.data) <= INLINE_LIMIT:
            return Step(Form(packed), [], {}, packed)
        kind = KINDS.get(type(value))
        if kind is not None and len(packed.data) > WHOLE_LIMIT and is_incremental(self._serde()):
            try:
                data = columns_of(value).encoded(self._encoder())
            except NotStorable:
                data = []
            if data:
                manifest, rows, single = alone(kind, sorted(data) if kind == "set" else data, self._numbers.reserve)
                return Step(Form(None, None, manifest), rows, single, packed)
        n = self._numbers.take()
        return Step(Form(None, n), [ValueRow(n, squeezed(packed))], {}, packed)

    def remember_step(self, step: Step) -> None:
        """A step's result has been stored: what a node makes of it refers to it. May be called from any thread."""
        for n, element in step.single.items():
            self._elements.add(element, n)
        if step.form.ref is not None:
            self._known[digest_of(step.packed.data, step.packed.tag)] = step.form.ref

    def _encoder(self) -> ElementEncoder:
        return cast(ElementEncoder, self._serde())
