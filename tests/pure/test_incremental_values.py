"""The pure parts of storing by element: manifests, segments, outlines, compression, and the rows that carry them."""

from __future__ import annotations

import gc
import io
from typing import Any, TypedDict

import ormsgpack
import pytest

from perdure.checkpoint.incremental import compression, segments
from perdure.checkpoint.incremental.compression import squeezed, unsqueezed
from perdure.checkpoint.incremental.kinds import is_incremental
from perdure.checkpoint.incremental.manifest import Manifest, again, is_within, merged_spans, parts_of, places_of, plain, sliced
from perdure.checkpoint.incremental.outline import Outliner
from perdure.checkpoint.incremental.segments import ALONE, SHARED, build, cut, ends_in, split
from perdure.checkpoint.incremental.values import value_of
from perdure.checkpoint.incremental.writer import ValueWriter
from perdure.checkpoint.memory import InMemorySaver
from perdure.checkpoint.numbering import Numbers
from perdure.checkpoint.reading import is_open, spans_of
from perdure.checkpoint.records import CheckpointRow, Entry, Packed, Record, WriteItem, WriteRow
from perdure.checkpoint.rows import checkpoint_body, checkpoint_row, write_body, write_items
from perdure.checkpoint.serde.jsonplus import JsonPlusSerializer
from perdure.clock import SYSTEM_CLOCK
from perdure.errors import CorruptRecord, NotStorable
from perdure.graph import START, StateGraph
from tests.promises.ways import on

SERDE = JsonPlusSerializer()


# ------------------------------------------------------------------------------------------------------------------- manifests


def test_parts_and_places_are_each_others_inverse():
    counts = {12: 3}
    places = [(10, 0), (11, 0), (12, 0), (12, 1), (12, 2), (13, 0), (12, 1), (20, 0), (10, 0)]
    parts = parts_of(places, counts)
    assert parts == [(10, 13), (12, 1, 1), (20, 20), (10, 10)]
    assert places_of(Manifest("list", 9, tuple(parts)), counts) == places


def test_a_slice_of_parts_is_the_parts_of_a_slice():
    counts = {12: 3, 31: 2}
    manifest = Manifest("list", 0, ((10, 13), (12, 1, 2), (20, 25), (10, 10), (30, 32)))
    places = places_of(manifest, counts)
    for start in range(len(places)):
        for stop in range(start + 1, len(places) + 1):
            found = sliced(manifest, counts, start, stop)
            assert places_of(Manifest("list", 0, tuple(found)), counts) == places[start:stop]
            assert found == parts_of(places[start:stop], counts)


def test_ranges_of_numbers_are_merged_and_searched():
    spans = merged_spans([(7, 9), (1, 1), (2, 3), (8, 12), (20, 20)])
    assert spans == [(1, 3), (7, 12), (20, 20)]
    assert [n for n in range(25) if is_within(n, spans)] == [1, 2, 3, *range(7, 13), 20]


@pytest.mark.parametrize(
    "item",
    [
        [3, 1, 0, 0, [1, 1]],
        [True, 1, 0, 0, [1, 1]],
        [0, -1, 0, 0],
        [0, 1, 0, 0, [1]],
        [0, 1, 0, 0, [2, 1]],
        [0, 1, 0, 0, [1, 0, 0]],
        [0, 1, 0, 0, [1, 2, 3, 4]],
        [0, 1, 0, 0, 7],
        [0, 1, 0, 0, ["a", 1]],
        [0, 1, 9, 8, [1, 1]],
        [0, 1, 0],
        [],
    ],
)
def test_a_damaged_manifest_is_refused(item: list[Any]):
    body = ormsgpack.packb([1, [["c", item]]])
    with pytest.raises(CorruptRecord, match="does not have the shape"):
        write_items(body)


def test_manifests_and_records_come_back_from_rows():
    manifest = Manifest("dict", 7, ((1, 5), (9, 2, 1), (12, 12)), 13, 64)
    record = Record((WriteItem("a", Packed("msgpack", b"\x01")), WriteItem("b", None, 4), WriteItem("c", None, None, manifest)))
    changes: dict[str, Entry | None] = {
        "m": Entry(3, None, None, manifest),
        "__start__": Entry(3, None, None, record),
        "gone": None,
    }
    row = CheckpointRow(3, 0, "x", None, 3, 1, "loop", changes, True)
    assert checkpoint_row(3, 0, "x", checkpoint_body(row)) == row
    assert write_items(write_body(record.items)) == record.items
    assert again(plain(manifest)) == manifest
    assert spans_of(changes.values(), [WriteRow(0, 3, "p", 0, (WriteItem("x", None, 6),))]) == [(1, 6), (9, 9), (12, 12)]
    assert is_open([Entry(3, None, None, manifest)])
    assert not is_open([Entry(3, None, None, manifest).closed(), Entry(3, None, 9), Entry(3, None, None, record)])


# -------------------------------------------------------------------------------------------------------------------- segments


def test_small_neighbours_share_a_segment_and_large_elements_do_not():
    small, large = b"s" * (ALONE - 1), b"L" * ALONE
    assert cut([small, small, large, small]) == [(2, small + small), (1, large), (1, small)]
    assert [count for count, _ in cut([small] * 40)] == [16, 16, 8]
    assert all(len(data) <= SHARED for _, data in cut([small] * 40))
    assert cut([]) == []


SAMPLES: list[Any] = [
    None, True, 1, -1, 300, -300, 70_000, -70_000, 2**40, -(2**40), 2**63, 1.5, "", "a", "b" * 40, "c" * 300, "d" * 70_000,
    b"", b"e" * 300, b"f" * 70_000, [], [1] * 20, [2] * 70_000, {}, {"a": 1}, {str(n): n for n in range(20)}, (1,), {1, 2}, 2**70,
    3j, (("nested",) * 30,) * 12,
]  # fmt: skip


def test_the_ends_of_elements_are_found_whatever_they_are():
    encoded = SERDE.dumps_elements(SAMPLES)
    assert split(b"".join(encoded), len(encoded), "list") == encoded
    pairs = [key + value for key, value in zip(encoded[::2], encoded[1::2], strict=False)]
    assert split(b"".join(pairs), len(pairs), "dict") == pairs
    for damaged in (b"".join(encoded)[:-1], b"".join(encoded) + b"\x01"):
        with pytest.raises(CorruptRecord):
            ends_in(damaged, len(encoded))


def stored_list(values: list[Any]) -> tuple[Manifest, dict[int, tuple[str, bytes]]]:
    rows = {n: (f"e{count}", data) for n, (count, data) in enumerate(cut(SERDE.dumps_elements(values)), 5)}
    return Manifest("list", len(values), ((5, 4 + len(rows)),)), rows


def test_what_is_missing_or_damaged_is_noticed():
    manifest, rows = stored_list([1, "a", "b" * 300])
    assert build(manifest, rows, SERDE) == [1, "a", "b" * 300]
    for broken, message in (
        ({5: rows[5]}, "segment 6 of a stored value is missing"),
        ({**rows, 6: ("e2", rows[6][1])}, "4 elements where its manifest says 3"),
        ({**rows, 6: ("msgpack", rows[6][1])}, "where elements should be"),
        ({**rows, 6: ("e1", rows[6][1] + b"\x01")}, "damaged"),
        ({**rows, 6: ("e1", b"")}, "damaged"),
    ):
        with pytest.raises(CorruptRecord, match=message):
            build(manifest, broken, SERDE)
    for kind, width in (("dict", 2), ("set", 1)):
        twice = {1: ("e2", SERDE.dumps_elements([1])[0] * 2 * width)}
        with pytest.raises(CorruptRecord, match="twice"):
            build(Manifest(kind, 2, ((1, 1),)), twice, SERDE)
    with pytest.raises(CorruptRecord, match="value 9 is missing"):
        value_of(Entry(1, None, 9), {}, SERDE)


def test_limits_of_one_record_do_not_keep_a_long_list_from_being_read():
    import re

    patterns = [re.compile("x" * 9_000 + str(n)) for n in range(5)]
    with pytest.raises(NotStorable):
        SERDE.dumps_typed(patterns)
    manifest, rows = stored_list(patterns)
    assert build(manifest, rows, SERDE) == patterns


# -------------------------------------------------------------------------------------------------------------------- outlines


class Tracked(dict):  # type: ignore[type-arg]
    __slots__ = ()


def change_key_order(thing: Any) -> None:
    thing["a"] = thing.pop("a")


@pytest.mark.parametrize(
    ("make", "change"),
    [
        (lambda: {"a": "x"}, lambda thing: thing.update(a="y")),
        (lambda: {"a": 1}, lambda thing: thing.update(a=True)),
        (lambda: {"a": 0.0}, lambda thing: thing.update(a=-0.0)),
        (lambda: {"a": None, "b": None}, change_key_order),
        (lambda: {"a": None}, lambda thing: (thing.pop("a"), thing.update(b=None))),
        (lambda: {"a": {"b": ["c"]}}, lambda thing: thing["a"]["b"].append("c")),
        (lambda: {"a": ["b", "c"]}, lambda thing: thing["a"].reverse()),
        (lambda: [[], ["a"]], lambda thing: thing[0].append(thing[1].pop())),
        (lambda: ({"a": "b"},), lambda thing: thing[0].clear()),
        (lambda: {"a": {1}}, lambda thing: thing["a"].add(2)),
        (lambda: {1: "a", (2, "k"): "b"}, lambda thing: thing.update({1: "c"})),
        (lambda: Tracked(a="x"), lambda thing: thing.update(a="z")),
        (lambda: [Tracked(a=["x"])], lambda thing: thing[0]["a"].append("z")),
    ],
)
def test_an_outline_notices_every_change_and_says_where(make: Any, change: Any):
    outliner = Outliner({Tracked: "items"}.get)  # type: ignore[arg-type]
    objects = [make() for _ in range(3)]
    outline = outliner.of(objects)
    more = outliner.of(["leaf", make()])
    assert outline is not None
    assert more is not None
    outline.extend(more)
    assert outline.is_unchanged()
    assert outline.changed() == set()
    change(objects[1])
    change(outline.objects[4])
    assert not outline.is_unchanged()
    assert outline.changed() == {1, 4}


def test_what_could_change_unseen_has_no_outline():
    class Odd:
        pass

    outliner = Outliner(lambda _: None)
    for thing in (Odd(), [Odd()], {"a": bytearray()}, {Odd(): 1}, Tracked(), {"a": [{"b": (Odd(),)}]}):
        assert outliner.of([thing]) is None
    endless: list[Any] = []
    endless.append(endless)
    assert outliner.of([endless]) is None
    wide: list[Any] = ["x"]
    for _ in range(40):
        wide = [wide, wide]
    assert outliner.of([wide]) is None


def test_attributes_are_watched_where_an_object_shows_them_as_a_dict():
    pydantic = pytest.importorskip("pydantic")

    class Said(pydantic.BaseModel):  # type: ignore[misc,name-defined]
        text: str
        parts: list[str] = []  # noqa: RUF012  pydantic copies it

    serde = JsonPlusSerializer(allowed_msgpack_modules=[Said])
    outliner = Outliner(serde.made_of)
    things = [Said(text="a", parts=["b"]), Said(text="c")]
    outline = outliner.of(list(things))
    assert outline is not None
    assert outline.is_unchanged()
    things[1].text = "d"
    assert outline.changed() == {1}
    things[1].text = "c"
    things[0].parts.append("e")
    assert 0 in outline.changed()


def test_an_outline_runs_nobodys_code():
    class Loud(str):
        __slots__ = ()

        def __eq__(self, other: object) -> bool:
            raise AssertionError("compared")

        __hash__ = str.__hash__

    outline = Outliner(lambda _: None).of([thing := {"a": "b"}])
    assert outline is not None
    thing["a"] = Loud("b")
    assert not outline.is_unchanged()
    assert outline.changed() == {0}
    gc.collect()


# ----------------------------------------------------------------------------------------------------------------- compression


def test_large_values_are_compressed_where_it_saves_enough():
    assert compression._zstd() is not None, "pip install -r requirements/dev.txt: it is what every installation has"
    plain_text = Packed("msgpack", b"many words " * 1000)
    small = squeezed(plain_text)
    assert small.tag == "zstd:msgpack"
    assert len(small.data) < 500
    assert unsqueezed(small) == plain_text
    assert squeezed(Packed("msgpack", b"many words " * 100)).tag == "msgpack", "too small"
    import os

    noise = Packed("bytes", os.urandom(10_000))
    assert squeezed(noise) == noise, "it would save nothing"
    odd = Packed("zstd:mine", b"x")
    assert unsqueezed(squeezed(odd)) == odd, "a serializer's own tag is not mistaken for ours"
    with pytest.raises(CorruptRecord, match="damaged"):
        unsqueezed(("zstd:msgpack", b"no such thing"))


def test_P37_no_value_is_expanded_beyond_a_bound_or_beyond_what_it_says(monkeypatch: pytest.MonkeyPatch):
    zstd = compression._zstd()
    monkeypatch.setattr(compression, "LONGEST", 100_000)
    fits, longer = Packed("bytes", bytes(100_000)), Packed("bytes", bytes(100_001))
    assert unsqueezed(squeezed(fits)) == fits
    assert squeezed(longer) == longer, "what would be refused is not compressed"
    stream = zstd.ZstdCompressor()
    bombs = {
        "of 100001 bytes": zstd.compress(longer.data),
        "of unknown length": stream.compress(bytes(50_000)) + stream.flush(),
        "one compressed value of 60000": zstd.compress(bytes(60_000)) + zstd.compress(bytes(60_000)),
    }
    for what, bomb in bombs.items():
        with pytest.raises(CorruptRecord, match=what):
            unsqueezed(("zstd:bytes", bomb))
    with pytest.raises(CorruptRecord, match="damaged"):
        unsqueezed(("zstd:bytes", zstd.compress(fits.data)[:-1]))


def test_P37_a_state_may_be_larger_than_one_value_may_become(monkeypatch: pytest.MonkeyPatch):
    """An honest state of many values is not refused, though each of them is bounded."""
    for module in (compression, segments):
        monkeypatch.setattr(module, "LONGEST", 20_000)
    state: dict[str, Any] = {
        "a": "a" * 15_000,
        "b": "b" * 15_000,
        "also_a": "a" * 15_000,
        "parts": ["p" * 9_000, "q" * 9_000, "r" * 9_000],
    }
    fields: Any = dict.fromkeys(state, Any)
    graph = StateGraph(TypedDict("Wide", fields)).add_node("fill", lambda _: state).add_edge(START, "fill")
    saver, elsewhere = InMemorySaver(), InMemorySaver()
    graph.compile(saver).invoke({"a": ""}, on())
    saver.export_thread("t", file := io.BytesIO())
    assert len(file.getvalue()) < 5_000, "compressed"
    elsewhere.import_thread(io.BytesIO(file.getvalue()))
    assert graph.compile(elsewhere).get_state(on()).values == state
    assert graph.compile(elsewhere).invoke({"a": ""}, on()) == state


def test_P37_segments_are_not_repeated_beyond_a_bound(monkeypatch: pytest.MonkeyPatch):
    serde = JsonPlusSerializer()
    element = ("e1", serde.dumps_typed("x" * 10_000)[1])
    values = {1: element, 2: squeezed(Packed(*element)), 3: element}
    monkeypatch.setattr(segments, "LONGEST", 65_000)
    for part in ((1, 1), (2, 2), (1, 0, 1)):
        assert segments.build(Manifest("list", 6, (part,) * 6), values, serde) == ["x" * 10_000] * 6
        with pytest.raises(CorruptRecord, match="repeats"):
            segments.build(Manifest("list", 1_000_000, (part,) * 1_000_000), values, serde)
    monkeypatch.setattr(segments, "LONGEST", 20_000)
    assert len(segments.build(Manifest("list", 3, ((1, 3),)), values, serde)) == 3, (
        "what is stored once each is as large as it is"
    )


def test_without_the_package_nothing_is_compressed_and_reading_says_what_is_missing(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(compression, "_zstd", lambda: None)
    large = Packed("msgpack", b"many words " * 1000)
    assert squeezed(large) == large
    with pytest.raises(CorruptRecord, match=r"pip install backports\.zstd"):
        unsqueezed(("zstd:msgpack", b""))


# --------------------------------------------------------------------------------------------------------------------- writers


class Shouting(JsonPlusSerializer):
    """Changes how values are stored, and says nothing of elements."""

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        tag, data = super().dumps_typed(obj)
        return f"loud {tag}", data[::-1]

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        return super().loads_typed((data[0].removeprefix("loud "), data[1][::-1]))


class Aware(Shouting):
    """Says how elements are stored as well."""

    def dumps_elements(self, values: Any) -> list[bytes]:
        return super().dumps_elements(values)


def writer(serde: Any) -> ValueWriter:
    return ValueWriter(Numbers(1, 0, SYSTEM_CLOCK), lambda: serde)


def test_a_serializer_that_does_its_own_thing_gets_values_in_one_piece():
    assert is_incremental(SERDE)
    assert not is_incremental(Shouting())
    assert is_incremental(Aware())
    value = ["text" * 100] * 9
    one = writer(Shouting())
    form, new = one.channel("c", value, go_on=True)
    one.end()
    rows = dict(one.taken())
    assert new is None
    assert form.parts is None
    assert value_of(Entry(1, *form), rows, Shouting()) == value


def test_elements_can_be_read_through_a_serializer_without_the_hook():
    class Bare:
        loads_typed = staticmethod(SERDE.loads_typed)

    manifest, rows = stored_list(["a", {"b": (1, 2)}, "c" * 300])
    assert build(manifest, rows, Bare()) == ["a", {"b": (1, 2)}, "c" * 300]  # type: ignore[arg-type]


def test_what_cannot_be_stored_stages_nothing_and_says_where():
    one = writer(SERDE)
    form, _ = one.channel("c", ["text" * 100] * 5, go_on=True)
    one.end()
    staged = len(one.rows)
    one.begin()
    with pytest.raises(NotStorable) as caught:
        one.channel("c", [*["text" * 100] * 5, "new" * 100, {"a": [print]}], go_on=True)
    assert caught.value.key == '[6]["a"][0]'
    one.begin()
    again_form, _ = one.channel("c", ["text" * 100] * 5, go_on=True)
    one.end()
    assert len(one.rows) == staged
    assert form.parts is not None
    assert again_form.parts is not None
    assert again_form.parts.parts == form.parts.parts


def test_with_pickles_allowed_a_list_that_needs_one_is_stored_in_one_piece():
    serde = JsonPlusSerializer(pickle_fallback=True)
    one = writer(serde)
    value = [*(f"{n} " * 300 for n in range(5)), print]
    form, _ = one.channel("c", value, go_on=True)
    one.end()
    rows = dict(one.taken())
    assert value_of(Entry(1, *form), rows, serde) == value


def test_equal_large_values_are_stored_once():
    one = writer(SERDE)
    forms = [one.whole("x" * 5000 + str(n % 2)) for n in range(6)]
    one.end()
    assert len(one.taken()) == 2
    assert forms[0] == forms[2] == forms[4] != forms[1]
    other = writer(SERDE)
    one_row = writer(SERDE)
    form = one_row.whole("x" * 5000)
    one_row.end()
    rows = dict(one_row.taken())
    other.remember({"k": Entry(1, *form)}, rows, {})
    assert other.whole("x" * 5000) == form, "what was loaded is known"
    other.end()
    assert other.taken() == []
