"""The stored elements of one channel's value, and how a change of it is written. Pure, but for the numbers it takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from perdure.checkpoint.incremental.compression import squeezed, unsqueezed
from perdure.checkpoint.incremental.manifest import MAX_PARTS, Manifest, Part, Place, joined, parts_of, places_of, sliced
from perdure.checkpoint.incremental.originals import Known, Originals
from perdure.checkpoint.incremental.outline import Look, Outline, Outliner
from perdure.checkpoint.incremental.seen import Seen
from perdure.checkpoint.incremental.segments import ALONE, ONE, count_in, cut, split, tag_of
from perdure.checkpoint.incremental.shadow import Change, Shadow
from perdure.checkpoint.incremental.watched import ElementEncoder, New
from perdure.checkpoint.records import Packed, ValueRow

if TYPE_CHECKING:
    from perdure.checkpoint.numbering import Numbers

FEWEST = 64
MOST = 4096
"""Numbers that are kept for appending to a value, at a time: as many as it has elements, within these bounds."""


class Written(NamedTuple):
    """A change as rows.

    Attributes:
        manifest: the value now.
        rows: new segments.
        places: where the new elements are, in order.
        counts: how many elements the new segments have, where not one.
    """

    manifest: Manifest
    rows: list[ValueRow]
    places: list[Place]
    counts: dict[int, int]


def written(
    change: Change,
    manifest: Manifest,
    counts: Mapping[int, int],
    take: Callable[[int], int],
    seen: Seen | None = None,
) -> Written:
    """A change of the value that `manifest` says, as rows.

    Args:
        change: what has become of it.
        manifest: the old value.
        counts: how many elements its segments have, by number, where not one.
        take: gives the first of so many consecutive numbers.
        seen: segments of one element that are stored already.
    """
    slices = [_segments(piece.data, seen) if isinstance(piece, New) else [] for piece in change.pieces]
    needed = sum(1 for piece in slices for segment in piece if segment[2] is None)
    number = take(needed) if needed else 0
    rows: list[ValueRow] = []
    places: list[Place] = []
    new_counts: dict[int, int] = {}
    parts: list[Part] = []
    for piece, segments in zip(change.pieces, slices, strict=True):
        if not isinstance(piece, New):
            if piece == (0, manifest.count):
                parts = joined(parts, manifest.parts)
            else:
                parts = joined(parts, sliced(manifest, counts, piece[0], piece[1]))
            continue
        here: list[Place] = []
        for count, data, stored in segments:
            n = number if stored is None else stored
            if stored is None:
                number += 1
                rows.append(ValueRow(n, squeezed(Packed(tag_of(count), data))))
                if count != 1:
                    new_counts[n] = count
            here.extend((n, at) for at in range(count))
        parts = joined(parts, parts_of(here, new_counts))
        places += here
    count = len(change.columns.values)
    return Written(Manifest(manifest.kind, count, tuple(parts)), rows, places, new_counts)


def alone(kind: str, data: Sequence[bytes], take: Callable[[int], int]) -> tuple[Manifest, list[ValueRow], dict[int, bytes]]:
    """A value that has become part of nothing else.

    Returns:
        Where its elements are, their rows, and what the segments of one large element hold, by number.
    """
    segments = cut(data)
    first = take(len(segments))
    rows: list[ValueRow] = []
    single: dict[int, bytes] = {}
    for n, (count, joined_data) in enumerate(segments, first):
        rows.append(ValueRow(n, squeezed(Packed(tag_of(count), joined_data))))
        if count == 1 and len(joined_data) >= ALONE:
            single[n] = joined_data
    return Manifest(kind, len(data), ((first, first + len(segments) - 1),)), rows, single


def _segments(data: Sequence[bytes], seen: Seen | None) -> list[tuple[int, bytes, int | None]]:
    """Elements as segments: how many, bytes, and the number of a segment that is stored already."""
    found = [None if seen is None or len(element) < ALONE else seen.find(element) for element in data]
    if not any(found):
        return [(count, joined_data, None) for count, joined_data in cut(data)]
    segments: list[tuple[int, bytes, int | None]] = []
    waiting: list[bytes] = []
    for element, n in zip(data, found, strict=True):
        if n is None:
            waiting.append(element)
            continue
        segments.extend((count, joined_data, None) for count, joined_data in cut(waiting))
        waiting = []
        segments.append((1, element, n))
    segments.extend((count, joined_data, None) for count, joined_data in cut(waiting))
    return segments


class Tracker:
    """One channel's value that is stored by element.

    Attributes:
        manifest: where its elements are.
        counts: how many elements a segment has, by number, where not one.
        size: about how many bytes they are.
    """

    __slots__ = ("_originals", "_shadow", "counts", "manifest", "size", "version")

    def __init__(
        self, shadow: Shadow, manifest: Manifest, counts: dict[int, int], size: int = 0, originals: Originals | None = None
    ) -> None:
        self._shadow = shadow
        self.manifest = manifest
        self.counts = counts
        self.version = 0
        self.size = size
        self._originals = originals

    @classmethod
    def new(cls, kind: str, encoder: ElementEncoder, outliner: Outliner) -> Tracker:
        """Of an empty value."""
        return cls(Shadow.new(kind, encoder, outliner), Manifest(kind, 0, ()), {})

    @classmethod
    def of_stored(
        cls,
        manifest: Manifest,
        values: Mapping[int, tuple[str, bytes]],
        value: Any,
        encoder: ElementEncoder,
        outliner: Outliner,
    ) -> Tracker:
        """Of a value that has just been loaded.

        Args:
            manifest: where its elements are.
            values: the segments.
            value: the value; of a set, a list of the members in their stored order.
            encoder: encodes elements.
            outliner: makes outlines.
        """
        counts = {}
        for first, last in manifest.spans():
            for n in range(first, last + 1):
                tag = values[n][0]
                if tag != ONE and (count := count_in(unsqueezed(values[n])[0] if ":" in tag else tag)) != 1:
                    counts[n] = count

        def bytes_at(positions: list[int]) -> list[bytes]:
            places = places_of(manifest, counts)
            known: dict[int, list[bytes]] = {}
            found = []
            for position in positions:
                n, at = places[position]
                if n not in known:
                    known[n] = split(unsqueezed(values[n])[1], counts.get(n, 1), manifest.kind)
                found.append(known[n][at])
            return found

        size = sum(len(values[n][1]) for first, last in manifest.spans() for n in range(first, last + 1))
        return cls(Shadow.of_stored(manifest.kind, encoder, value, outliner, bytes_at), manifest, counts, size)

    @classmethod
    def of_known(cls, manifest: Manifest, known: Known, value: Any, encoder: ElementEncoder, outliner: Outliner) -> Tracker:
        """Of a value whose elements have just been copied from what is known of it.

        Args:
            manifest: where its elements are, with the numbers kept for appending.
            known: its elements.
            value: the copy.
            encoder: encodes elements.
            outliner: makes outlines.
        """
        shadow = Shadow.of_copies(manifest.kind, encoder, value, outliner, known.originals.levels())
        return cls(shadow, manifest, dict(known.counts), known.originals.size, known.originals)

    @property
    def outlines(self) -> list[Outline] | None:
        """Outlines of all elements, in their order; None if some have none."""
        return self._shadow.outlines

    def known(self, decode: Callable[[Sequence[bytes], int], list[Any]], look: Look) -> Known | None:
        """What can be kept of the value, to make it again without reading it; None if it cannot be copied.

        Args:
            decode: `loads_elements` of the serializer.
            look: what objects of a class consist of.
        """
        if self.manifest.kind == "set" or self._shadow.outlines is None:
            return None  # a set would have to keep the order of its members as well
        if self._originals is not None:
            found = self._originals if self._originals.resolve(decode, look, self._shadow.columns.values) else None
        else:
            found = None if self._shadow.is_changed() else Originals.of(self._shadow.columns, look, self.size)
        self._originals = found
        return None if found is None else Known(self.manifest, self.counts.copy(), found)

    def change_to(self, value: Any, *, sound: bool = False, kept: int = 0) -> Change:
        """What has become of the value since it was stored; see `Shadow.change_to`.

        Raises:
            NotStorable: a new element cannot be stored.
        """
        return self._shadow.change_to(value, sound=sound, kept=kept)

    def write(self, change: Change, numbers: Numbers, seen: Seen, *, go_on: bool) -> tuple[Change, Written]:
        """The change as rows. It becomes the value's with `accept`.

        Args:
            change: what has become of the value.
            numbers: the thread's.
            seen: segments of one element that are stored already.
            go_on: numbers that were kept for this value may be used.

        Returns:
            The change, and what it is as rows. It is another change where the value is written once again as a whole, because its
            elements had come to lie in too many places.
        """
        block = (self.manifest.free, self.manifest.end) if go_on else (0, 0)
        grows = self.manifest.count > 0 and change.keeps

        def take(needed: int) -> int:
            nonlocal block
            first, end = block
            if needed > end - first:
                # The first elements are often all there will ever be; numbers are kept for a value that has been added to.
                size = max(needed, min(max(self.manifest.count, FEWEST), MOST)) if grows else needed
                first = numbers.reserve(size)
                end = first + size
            block = (first + needed, end)
            return first

        # A part for each element that lies elsewhere: too many would have the value written once again as a whole.
        found = written(change, self.manifest, self.counts, take, seen if len(self.manifest.parts) < MAX_PARTS // 2 else None)
        if len(found.manifest.parts) > MAX_PARTS and change.keeps:
            change = self._shadow.whole(change.columns)
            found = written(change, self.manifest, {}, take)
        free, end = block if block[0] < block[1] else (0, 0)
        return change, found._replace(manifest=found.manifest._replace(free=free, end=end))

    def accept(self, change: Change, now: Written) -> None:
        """The change is written: it is the value now."""
        self._shadow.accept(change)
        self.manifest = now.manifest
        added = sum(len(piece) for piece in change.fresh)
        self.size = self.size + added if change.keeps else added
        if self._originals is not None:
            self._originals = self._originals.after(change.pieces)
        if change.keeps:
            self.counts.update(now.counts)
        else:
            self.counts = now.counts
        self.version += 1
