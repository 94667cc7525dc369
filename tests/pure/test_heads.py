"""What a saver remembers of heads: the elements as nobody else has them, and the cache around them."""

from __future__ import annotations

import gc
import os
import sys
from collections import OrderedDict, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.checkpoint.heads import FOR_EACH, Head, Heads
from perdure.checkpoint.incremental.manifest import Manifest
from perdure.checkpoint.incremental.originals import DEEP, Known, Originals
from perdure.checkpoint.incremental.outline import Outliner
from perdure.checkpoint.incremental.watched import Columns, New, Watched, columns_of
from perdure.checkpoint.serde.jsonplus import JsonPlusSerializer
from perdure.messages import Message

serde = JsonPlusSerializer(allowed_msgpack_modules=[Message])
look = serde.made_of


class Odd(dict[str, Any]):
    """A dict that holds something else too."""


@dataclass
class Note:
    text: str


def head(number: int, size: int, elements: int = 1) -> Head:
    made = Originals(None, ["x"] * elements, [str] * elements, bytearray([DEEP]) * elements, size - FOR_EACH * elements)
    return Head(1, str(number), {"k": Known(Manifest("list", elements, ()), {}, made)})


leaves = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5) | st.binary(max_size=5)
things = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=3) | st.integers(0, 3), inner, max_size=3)
        | st.lists(inner, max_size=2).map(tuple)
        | st.sets(st.integers() | st.text(max_size=2), max_size=3)
        | st.builds(lambda text, more: Message(role="user", content=text, more=more), st.text(max_size=5), inner)
    ),
    max_leaves=6,
)


def containers(value: Any) -> list[int]:
    """The ids of all containers in a value that may change."""
    found: list[int] = []
    todo = [value]
    while todo:
        thing = todo.pop()
        if isinstance(thing, (list, dict, set)):
            found.append(id(thing))
        if isinstance(thing, dict):
            todo += thing.values()
        elif isinstance(thing, (list, tuple)):
            todo += thing
    return found


@given(values=st.lists(things, max_size=8), named=st.booleans())
def test_P35_copies_are_equal_and_share_no_container(values: list[Any], named: bool):
    columns = Columns([str(at) for at in range(len(values))] if named else None, values)
    originals = Originals.of(columns, look, 1)
    assert originals is not None
    first, second = originals.copies(), originals.copies()
    assert repr(first) == repr(second) == repr(values)
    ids = [set(containers(each)) for each in (values, originals.values, first, second)]
    assert sum(map(len, ids)) == len(set().union(*ids))


@given(values=st.lists(things, min_size=1, max_size=6), repeat=st.sampled_from([1, 60, 300]))
def test_P35_the_outlines_of_copies_are_those_of_the_originals(values: list[Any], repeat: int):
    originals = Originals.of(Columns(None, [value for value in values for _ in range(repeat)]), look, 1)
    assert originals is not None
    copies = originals.copies()
    watched = Watched.of_copies(columns_of(copies), Outliner(look), originals.levels())
    assert watched.outlines is not None
    assert all(outline.is_unchanged() for outline in watched.outlines)
    for at, value in enumerate(copies):
        if isinstance(value, dict):
            value["another"] = 1
            changed = watched.changed(columns_of(copies), serde)
            assert changed == {at}
            del value["another"]
            break


class Name(str):
    """A text of one's own that is equal to a text."""

    __slots__ = ()


def other_name(thing: dict[Any, Any]) -> None:
    thing["other"] = thing.pop("b")


def other_order(thing: dict[Any, Any]) -> None:
    thing["role"] = thing.pop("role")


def name_of_another_class(thing: dict[Any, Any]) -> None:
    thing[Name("b")] = thing.pop("b")


def a_number_and_back(thing: dict[Any, Any]) -> None:
    thing[1] = thing.pop("b")


@pytest.mark.parametrize("change", [other_name, other_order, name_of_another_class, a_number_and_back])
@pytest.mark.parametrize("made", [lambda: {"role": "user", "b": "x"}, lambda: Message(role="user", content="", b="x")])
def test_P35_a_change_of_names_shows_in_the_outlines_of_copies(change: Callable[[Any], None], made: Callable[[], Any]):
    originals = Originals.of(Columns(None, [made() for _ in range(40)]), look, 1)
    assert originals is not None
    copies = originals.copies()
    watched = Watched.of_copies(columns_of(copies), Outliner(look), originals.levels())
    assert watched.changed(columns_of(copies), serde) == set()
    change(copies[7])
    assert watched.changed(columns_of(copies), serde) == {7}


def test_P26_what_was_added_is_decoded_once_and_groups_are_gone_on_with():
    originals = Originals.of(Columns(None, [{"n": f"{at}"} for at in range(300)]), look, 300)
    assert originals is not None
    levels = originals.levels()
    after = originals.after([(0, 300), New([300], serde.dumps_elements([{"n": "300", "deep": [1]}]))])
    live = [{"n": f"{at}"} for at in range(300)]
    assert after.resolve(serde.loads_elements, look, [*live, {"n": "300", "deep": [1]}])
    assert after.copies() == [*({"n": f"{at}"} for at in range(300)), {"n": "300", "deep": [1]}]
    assert after.levels()[0] is levels[0]
    assert after.levels()[1] is None, "not all of them are flat"
    assert originals.copies() == [{"n": f"{at}"} for at in range(300)], "others may have it"
    cut = after.after([(5, 290), (0, 2)])
    assert cut.copies() == [{"n": f"{at}"} for at in (*range(5, 290), 0, 1)]


@pytest.mark.parametrize(
    "thing", [Note("x"), Odd(a=1), OrderedDict(a=1), defaultdict(list), bytearray(b"x"), {Note: 1}, {("a", 1): 2}]
)
def test_P35_what_cannot_be_copied_without_running_code_is_not_remembered(thing: Any):
    assert Originals.of(Columns(None, ["x", thing]), look, 1) is None
    assert Originals.of(Columns(None, [["x", {"a": thing}]]), look, 1) is None


def test_P26_what_cannot_be_copied_is_not_decoded_again():
    originals = Originals.of(Columns(None, ["x"]), look, 1)
    assert originals is not None
    after = originals.after([(0, 1), New([1], [b"the bytes of a note"])])

    def decode(parts: Any, count: int) -> list[Any]:
        raise AssertionError("this runs the code of the class")

    assert not after.resolve(decode, look, ["x", Note("y")])


def test_P26_the_heads_used_last_are_remembered_up_to_the_limit():
    heads = Heads(10_000)
    for number in range(3):
        heads.put(str(number), "", head(number, 3000))
    assert heads.size == 9000
    assert heads.get("0") is not None
    heads.put("3", "", head(3, 3000))
    assert [heads.get(str(number)) is not None for number in range(4)] == [True, False, True, True]
    heads.put("3", "", head(4, 500))
    assert heads.size == 6500
    heads.put("0", "", head(5, 10_001))
    assert heads.get("0") is None, "too large, and the old one is out of date"
    assert heads.size == 3500


def test_P26_branches_are_remembered_apart_and_forgotten_with_their_thread():
    heads = Heads(10_000)
    heads.put("t", "", head(1, 1000))
    heads.put("t", "b", head(2, 1000))
    heads.put("u", "", head(3, 1000))
    found = heads.get("t", "b")
    assert found is not None
    assert found.checkpoint == "2"
    heads.forget("t")
    assert (heads.get("t"), heads.get("t", "b"), heads.size) == (None, None, 1000)
    heads.clear()
    assert (heads.get("u"), heads.size) == (None, 0)


def test_P26_nothing_is_remembered_where_it_is_turned_off():
    heads = Heads(0)
    heads.put("t", "", head(1, 1000))
    assert (heads.get("t"), heads.size) == (None, 0)


@pytest.mark.skipif(sys.platform == "win32", reason="no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_P9_a_child_process_begins_with_nothing_even_if_the_lock_was_held():
    heads = Heads(10_000)
    heads.put("t", "", head(1, 1000))
    gc.collect()
    with heads._lock:
        child = os.fork()
        if child == 0:
            try:
                os._exit(0 if heads.get("t") is None and heads.size == 0 else 1)
            finally:
                os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    assert heads.get("t") is not None
