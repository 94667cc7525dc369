"""P26, P30: a list, dict or set that is stored by element is, at every version, exactly what was put: whatever was done to it, in
place or not, on whatever branch, and whoever goes on from where.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from typing import Annotated, Any, TypedDict

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from perdure.checkpoint.incremental import originals, segments, shadow, tracker, watched, writer
from perdure.checkpoint.incremental.manifest import Manifest
from perdure.checkpoint.incremental.values import value_of
from perdure.checkpoint.incremental.writer import ValueWriter
from perdure.checkpoint.numbering import Numbers
from perdure.checkpoint.records import Entry
from perdure.checkpoint.serde.jsonplus import JsonPlusSerializer
from perdure.checkpoint.sqlite import SqliteSaver
from perdure.clock import SYSTEM_CLOCK
from perdure.errors import NotStorable
from perdure.graph import START, StateGraph
from perdure.messages.message import Message
from perdure.testing.strict import StrictMemorySaver


@pytest.fixture(autouse=True)
def _small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits that a short list reaches."""
    for module, name, value in (
        (writer, "WHOLE_LIMIT", 40),
        (tracker, "FEWEST", 4),
        (tracker, "MOST", 16),
        (tracker, "MAX_PARTS", 5),
        (segments, "ALONE", 24),
        (segments, "SHARED", 40),
        (tracker, "ALONE", 24),
        (writer, "ALONE", 24),
        (writer, "LARGE", 30),
        (writer, "WORTH_KEEPING", 0),
        (originals, "GROUP", 3),
        (shadow, "GROUP", 3),
        (watched, "GROUP", 3),
        (watched, "SHORT", 4),
    ):
        monkeypatch.setattr(module, name, value)


@dataclass
class Note:
    """An object that nobody can watch: it has to be encoded to see whether it has changed."""

    text: str
    tags: list[Any] = field(default_factory=list)


def same(one: Any, other: Any) -> bool:
    """Equal, and of the same types all the way down, in the same order, bit by bit."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return len(one) == len(other) and all(same(a, b) and same(one[a], other[b]) for a, b in zip(one, other, strict=True))
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, (set, frozenset)):
        return sorted(map(repr, one)) == sorted(map(repr, other))
    if isinstance(one, float):
        return repr(one) == repr(other)
    if isinstance(one, Note):
        return same(vars(one), vars(other))
    return bool(one == other)


leaves = st.sampled_from(
    [
        None, True, False, 0, 1, 1.0, 0.0, -0.0, math.nan, 2**70, "", "a", "1", "text " * 9, "other text " * 30, b"1", b"raw" * 20,
        Decimal("1.0"), datetime(2026, 1, 1, tzinfo=UTC),
    ]
)  # fmt: skip
keys = st.sampled_from(["role", "content", "id", "1", "z"])
things = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(keys, inner, max_size=3),
        st.dictionaries(st.sampled_from([1, True, "a", (1, "a"), None]), inner, max_size=2),
        st.tuples(inner, inner),
        st.builds(lambda text: Message(role="user", content=text, id=text), st.sampled_from(["hi", "text " * 20])),
        st.sets(st.sampled_from([1, "a", 2.5]), max_size=2),
        st.builds(Note, st.sampled_from(["a", "text " * 20]), st.lists(inner, max_size=2)),
        st.builds(bytearray, st.sampled_from([b"", b"raw", b"raw" * 20])),
    ),
    max_leaves=6,
)
members = st.sampled_from([True, 0, 1.5, "a", "b", "text " * 9, (1, 2), (True, 2), None, frozenset({1, "x"}), b"a"])

Do = Callable[[Any, st.DataObject], Any]


def fresh(value: Any) -> Any:
    """The same of new objects, so that nothing is known by identity."""
    return copy.deepcopy(value)


def draw_bool(data: st.DataObject) -> bool:
    return data.draw(st.booleans())


def deep_change(thing: Any, data: st.DataObject) -> None:
    """Change something inside a container in place."""
    if isinstance(thing, list):
        thing.insert(data.draw(st.integers(0, len(thing))), data.draw(things))
    elif isinstance(thing, dict):
        inner = [value for value in thing.values() if isinstance(value, (dict, list))]
        if inner and draw_bool(data):
            deep_change(inner[0], data)
        elif thing and draw_bool(data):
            first = next(iter(thing))
            thing[first] = thing.pop(first)  # the same items in another order
        else:
            thing[data.draw(keys)] = data.draw(things)
    elif isinstance(thing, Note):
        thing.tags.append(data.draw(leaves))
    elif isinstance(thing, bytearray):
        thing.append(1)
    elif isinstance(thing, set):
        thing.symmetric_difference_update({data.draw(st.sampled_from([1, True, "a", "q"]))})


def look_alike(thing: Any) -> Any:
    """What is equal, and yet another thing."""
    if type(thing) is float and thing == 0:
        return -thing
    return int(thing) if type(thing) is bool else bool(thing) if type(thing) is int and thing in (0, 1) else thing


def change_list(value: list[Any], data: st.DataObject) -> list[Any]:  # noqa: C901  one case a line
    """One thing that happens to a list; the result may be the same object."""
    at = data.draw(st.integers(0, len(value)))
    match data.draw(st.integers(0, 11)):
        case 0:
            value.append(data.draw(things))
        case 1:
            value = [*value, *data.draw(st.lists(things, max_size=4))]
        case 2:
            value = [*value[:at], data.draw(things), *value[at:]]
        case 3:
            value = [*value[:at], *value[at + 1 :]]
        case 4:
            value = [*value[at:], data.draw(things)]
        case 5:
            value = list(reversed(value))
        case 6 if at < len(value):
            value[at] = data.draw(things)
        case 7 if at < len(value):
            deep_change(value[at], data)
        case 8:
            value = fresh(value)
        case 9 if at < len(value):
            value = [look_alike(x) for x in value]
        case 10:
            value = [*value, *value[:2]]
        case 11:
            value = data.draw(st.lists(things, max_size=3))
    return value


def change_dict(value: dict[Any, Any], data: st.DataObject) -> dict[Any, Any]:
    """One thing that happens to a dict."""
    key = data.draw(st.one_of(st.integers(0, 12).map(lambda n: f"key {n}"), st.sampled_from([1, True, (1, 2), None])))
    match data.draw(st.integers(0, 7)):
        case 0 | 1:
            value = {**value, key: data.draw(things)}
        case 2:
            value[key] = data.draw(things)
        case 3:
            value.pop(key, None)
        case 4:
            value = dict(reversed(value.items()))
        case 5:
            for thing in value.values():
                deep_change(thing, data)
                break
        case 6:
            value = fresh(value)
        case 7:
            value = {look_alike(name): thing for name, thing in value.items()}
    return value


def change_set(value: set[Any], data: st.DataObject) -> set[Any]:
    """One thing that happens to a set."""
    match data.draw(st.integers(0, 4)):
        case 0:
            value.add(data.draw(members))
        case 1:
            value = value | {data.draw(members)}
        case 2:
            value.discard(data.draw(members))
        case 3:
            value = {1 if x is True else True if type(x) is int and x == 1 else x for x in value}
        case 4:
            value = fresh(value)
    return value


KINDS: dict[str, tuple[st.SearchStrategy[Any], Do]] = {
    "list": (st.lists(things, max_size=8), change_list),
    "dict": (st.dictionaries(st.integers(0, 12).map(lambda n: f"key {n}"), things, max_size=8), change_dict),
    "set": (st.sets(members, max_size=6), change_set),
}


class Books:
    """Versions of one value, stored as the engine stores them, without an engine."""

    def __init__(self) -> None:
        self.serde = JsonPlusSerializer(allowed_msgpack_modules=[Message, Note])
        self.stored: dict[int, tuple[str, bytes]] = {}
        self.versions: list[tuple[Entry, Any]] = []
        self.next_n = 1
        self.open(None)

    def open(self, version: int | None) -> Any:
        """A new run, from one of the versions; returns the value as it was loaded."""
        self.numbers = Numbers(self.next_n, 0, SYSTEM_CLOCK)
        self.writer = ValueWriter(self.numbers, lambda: self.serde)
        self.go_on = version == len(self.versions) - 1
        if version is None:
            return None
        entry, _ = self.versions[version]
        value = value_of(entry, self.stored, self.serde)
        elements: dict[str, Any] = {}
        if isinstance(entry.parts, Manifest):
            elements["v"] = value
            if entry.parts.kind == "set":
                elements["v"] = value_of(entry._replace(parts=entry.parts._replace(kind="list")), self.stored, self.serde)
                value = set(elements["v"])
        self.writer.remember({"v": entry}, self.stored, elements)
        return value

    def put(self, value: Any, *, fails: bool) -> None:
        """Store a version; first try in vain, if it `fails`."""
        if fails:
            self.writer.begin()
            self.writer.channel("v", value, go_on=self.go_on)
        self.writer.begin()
        if not self.go_on:
            self.writer.closed()
        form, new = self.writer.channel("v", value, go_on=self.go_on)
        self.writer.matched({} if new is None else {"v": new})
        self.writer.end()
        for n, packed in self.writer.taken():
            assert n not in self.stored, "a number was used twice"
            self.stored[n] = packed
        self.versions.append((Entry(len(self.versions), *form), copy.deepcopy(value)))
        self.next_n = self.numbers.next_n
        self.go_on = True

    def check(self) -> None:
        """Every version is what was put."""
        for entry, expected in self.versions:
            assert same(value_of(entry, self.stored, self.serde), expected)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=120, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=st.data())
def test_P26_every_version_is_exactly_what_was_put(kind: str, data: st.DataObject):
    start, change = KINDS[kind]
    books = Books()
    value = data.draw(start)
    for _ in range(data.draw(st.integers(1, 10))):
        books.put(value, fails=data.draw(st.integers(0, 5)) == 0)
        what = data.draw(st.integers(0, 7))
        if what == 0:
            value = books.open(len(books.versions) - 1)
        elif what == 1:
            value = books.open(data.draw(st.integers(0, len(books.versions) - 1)))
        for _ in range(data.draw(st.integers(0, 2))):
            value = change(value, data)
    books.put(value, fails=False)
    books.check()


class Value(TypedDict):
    v: Any


class Pair(TypedDict):
    v: Any
    w: Any


def make_saver(where: str) -> Any:
    saver: Any = StrictMemorySaver() if where == "memory" else SqliteSaver(":memory:")
    saver.serde.register(Note)
    return saver


@pytest.mark.parametrize("where", ["memory", "sqlite"])
@pytest.mark.parametrize("kind", KINDS)
@settings(
    max_examples=25,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(data=st.data())
def test_P26_every_checkpoint_of_every_branch_reads_as_it_was(kind: str, where: str, data: st.DataObject):
    with make_saver(where) as saver:
        run_and_branch(saver, kind, data)


def run_and_branch(saver: Any, kind: str, data: st.DataObject, between: Callable[[], Any] = lambda: None) -> None:
    """Runs of a graph whose node changes its state, from the tip or from an older checkpoint; every checkpoint is read again.
    `between` is called after each run.
    """
    start, change = KINDS[kind]
    expected: dict[str, Any] = {}
    left = 0
    last: Any = None

    def step(state: Any) -> Any:
        nonlocal left, last
        left -= 1
        last = change(state["v"], data)
        return {"v": last}

    def route(state: Any) -> str:
        return "step" if left > 0 else "__end__"

    builder = StateGraph(Value).add_node("step", step).add_edge(START, "step").add_conditional_edges("step", route)
    graph = builder.compile(checkpointer=saver)
    config: Any = {"configurable": {"thread_id": "t"}}
    given_value: Any = {"v": data.draw(start)}
    for _ in range(data.draw(st.integers(1, 4))):
        left = data.draw(st.integers(1, 4))
        durability: Any = data.draw(st.sampled_from(["sync", "async", "exit"]))
        for mode, event in graph.stream(given_value, config, stream_mode=["checkpoints"], durability=durability):
            assert mode == "checkpoints"
            if "v" in event["values"]:
                expected[event["config"]["configurable"]["checkpoint_id"]] = copy.deepcopy(event["values"]["v"])
        between()
        history = list(graph.get_state_history({"configurable": {"thread_id": "t"}}))
        for snapshot in history:
            if "v" in snapshot.values:
                assert same(snapshot.values["v"], expected[snapshot.config["configurable"]["checkpoint_id"]])
        again = data.draw(st.integers(0, 2))
        if again == 0:
            config, given_value = {"configurable": {"thread_id": "t"}}, {"v": data.draw(start)}
        else:
            old = data.draw(st.sampled_from([one for one in history if "v" in one.values]))
            edited = change(old.values["v"], data)
            config = graph.update_state(old.config, {"v": edited}, as_node="__start__")
            expected[config["configurable"]["checkpoint_id"]] = copy.deepcopy(edited)
            given_value = None


@pytest.mark.parametrize("where", ["memory", "sqlite"])
@pytest.mark.parametrize("through", ["replay", "edit of another key"])
def test_P26_a_branch_does_not_append_where_the_old_one_did(where: str, through: str):
    """The first checkpoint of the branch leaves the list alone, so that only the second one adds to it."""

    def step(state: Any) -> Any:
        return {"v": [*state["v"], f"{len(state['v'])} " * 30], "w": state["w"]}

    def route(state: Any) -> str:
        return "step" if len(state["v"]) < 9 else "__end__"

    config: Any = {"configurable": {"thread_id": "t"}}
    with make_saver(where) as saver:
        builder = StateGraph(Pair).add_node("step", step).add_edge(START, "step").add_conditional_edges("step", route)
        graph = builder.compile(checkpointer=saver)
        graph.invoke({"v": ["first " * 30], "w": 0}, config)
        before = [(one.config, one.values) for one in graph.get_state_history(config)]
        for at in (3, 5, 4):
            start = before[at][0]
            if through != "replay":
                start = graph.update_state(start, {"w": at}, as_node="step")
            graph.invoke(None, start)
        after = {one.config["configurable"]["checkpoint_id"]: one.values for one in graph.get_state_history(config)}
        assert all(after[old["configurable"]["checkpoint_id"]] == values for old, values in before)
        assert graph.get_state(config).values["v"] == before[0][1]["v"]


def test_P35_an_element_that_was_changed_in_place_and_returned_stays_changed_when_the_next_node_returns_another_list():
    seen: list[Any] = []

    def mark(state: Any) -> Any:
        state["v"][1].add("marked")
        return {"v": state["v"]}

    def drop(state: Any) -> Any:
        seen.append(copy.deepcopy(state["v"]))
        return {"v": state["v"][1:]}

    builder = StateGraph(Value).add_node("mark", mark).add_node("drop", drop)
    graph = builder.add_edge(START, "mark").add_edge("mark", "drop").compile(checkpointer=StrictMemorySaver())
    assert graph.invoke({"v": [None, set()]}, {"configurable": {"thread_id": "t"}}) == {"v": [{"marked"}]}
    assert seen == [[None, {"marked"}]]


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
@pytest.mark.parametrize("where", ["memory", "sqlite"])
def test_P2_what_was_staged_for_a_super_step_that_could_not_be_stored_takes_nobodys_place(where: str, durability: Any):
    broken = True

    def add(left: list[Any], right: list[Any]) -> list[Any]:
        return [*left, *right, print] if broken and len(left) == 5 else [*left, *right]

    class Grown(TypedDict):
        v: Annotated[list[Any], add]

    Grown.__annotations__["v"] = Annotated[list[Any], add]
    builder = StateGraph(Grown).add_node("step", lambda state: {"v": [f"{len(state['v'])} " * 30]}).add_edge(START, "step")
    config: Any = {"configurable": {"thread_id": "t"}}
    with make_saver(where) as saver:
        graph = builder.add_conditional_edges("step", lambda state: "step" if len(state["v"]) < 9 else "__end__").compile(
            checkpointer=saver
        )
        with pytest.raises(NotStorable):
            graph.invoke({"v": ["first " * 30]}, config, durability=durability)
        broken = False
        expected = ["first " * 30, *(f"{at} " * 30 for at in range(1, 9))]
        assert graph.invoke(None, config, durability=durability)["v"] == expected
        for snapshot in graph.get_state_history(config):
            assert snapshot.values.get("v", []) == expected[: len(snapshot.values.get("v", []))]
