"""P26, P35: the next turn of a long thread does not read and decode it again, and what is remembered never shows where it is not the truth.

Value rows that come back from the database are counted, no time is measured.
"""

from __future__ import annotations

import copy
import itertools
import operator
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import AIMessage
from pydantic import BaseModel

from perdure.checkpoint.saver import Saver
from perdure.errors import InPlaceChangeWarning
from perdure.graph import START, MessagesState, StateGraph
from perdure.messages import Message
from perdure.testing.counting import RoundTrips
from perdure.testing.wrapping import with_records
from perdure.types import Command, interrupt
from tests.promises.ways import SAVERS, Way, foreign_checkpoint, on, open_saver

LONG = 150


class Log(TypedDict):
    messages: Annotated[list[Any], operator.add]


def added(left: list[Any], right: list[Any]) -> list[Any]:
    """A reducer of which nobody knows that it leaves alone what it adds to."""
    return [*left, *right]


class Added(TypedDict):
    messages: Annotated[list[Any], added]


class Plain(TypedDict):
    messages: list[Any]


def said(number: int, role: str = "user") -> dict[str, Any]:
    return {"role": role, "content": f"{number}: " + "some words " * 30, "id": str(number)}


def answering(way: Way, saver: Saver, state: Any = MessagesState) -> Any:
    def answer(given: Any) -> Any:
        new = [said(len(given["messages"]), "assistant")]
        return {"messages": [*given["messages"], *new] if state is Plain else new}

    return StateGraph(state).add_node("answer", way.node(answer)).add_edge(START, "answer").compile(checkpointer=saver)


def turn(way: Way, graph: Any, config: Any = None) -> list[Any]:
    config = config or on()
    known = (way.state(graph, config).values or {}).get("messages", [])
    new = [said(len(known))]
    plain = graph.program.channels["messages"].__class__.__name__ == "LastValue"
    found: list[Any] = way.invoke(graph, {"messages": [*known, *new] if plain else new}, config)["messages"]
    return found


def expected(count: int) -> list[Any]:
    return [said(number, "assistant" if number >= LONG and number % 2 else "user") for number in range(count)]


@pytest.fixture
def trips() -> RoundTrips:
    return RoundTrips()


@pytest.fixture
def counted(saver: Saver, trips: RoundTrips) -> Any:
    return with_records(saver, trips.records)


@pytest.fixture(params=[MessagesState, Log, Added, Plain], ids=lambda state: state.__name__)
def state(request: pytest.FixtureRequest) -> Any:
    return request.param


def test_P26_a_turn_reads_no_more_however_long_the_thread_is(counted: Any, trips: RoundTrips, way: Way):
    graph = answering(way, counted)
    read = []
    for size in (LONG, 3 * LONG):
        way.edit(graph, on(str(size)), {"messages": [said(number) for number in range(size)]}, as_node="answer")
        for _ in range(3):
            trips.reset()
            way.invoke(graph, {"messages": [said(9999)]}, on(str(size)))
        read.append((trips.values, trips.total))
        trips.reset()
        assert len(way.state(graph, on(str(size))).values["messages"]) == size + 4
        read.append((trips.values, trips.total))
    assert read[:2] == read[2:], "neither rows nor round trips grow"
    assert max(values for values, _ in read) < 10


def test_P26_nor_does_one_whose_messages_are_langchains(counted: Any, trips: RoundTrips, way: Way):
    def answer(given: Any) -> Any:
        given["messages"][5].response_metadata["seen"] = True
        return {"messages": [AIMessage("yes " * 50, tool_calls=[{"name": "look", "args": {"n": [1]}, "id": "1"}])]}

    graph = (
        StateGraph(MessagesState).add_node("answer", way.node(answer)).add_edge(START, "answer").compile(checkpointer=counted)
    )
    way.edit(graph, on(), {"messages": [AIMessage("some " * 50, id=str(at)) for at in range(LONG)]}, as_node="answer")
    shown = way.state(graph, on()).values["messages"]
    for count in range(LONG + 2, LONG + 8, 2):
        trips.reset()
        with pytest.warns(InPlaceChangeWarning):
            found = way.invoke(graph, {"messages": [("user", "?")]}, on())["messages"]
        assert (len(found), found[:LONG]) == (count, shown)
        assert count == LONG + 2 or trips.values < 10
        found[7].content = "mine"
        found[-1].tool_calls[0]["args"]["n"].append(2)
        shown = way.state(graph, on()).values["messages"]
        assert [shown[7].content, shown[5].response_metadata] == ["some " * 50, {}]
        assert [type(shown[-1]), shown[-1].tool_calls[0]["args"]] == [AIMessage, {"n": [1]}]
        shown = shown[:LONG]
    remembered = way.state(graph, on()).values["messages"]
    counted.heads.clear()
    assert way.state(graph, on()).values["messages"] == remembered


@pytest.mark.parametrize("within", [lambda note: note, lambda note: {"note": note}, lambda note: [note]])
def test_P26_a_class_that_is_defined_anew_is_the_new_one_at_once(saver: Saver, way: Way, within: Any):
    def graph() -> tuple[Any, Any]:
        class Note(BaseModel):
            text: str

        notes = TypedDict("notes", {"notes": Annotated[list[Note | list[Note] | dict[str, Note]], operator.add]})  # noqa: UP013 - of a local class
        seen: list[type] = []

        def look(given: Any) -> Any:
            inner = [next(iter(each.values())) if type(each) is dict else each for each in given["notes"]]
            seen.extend({type(each[0] if type(each) is list else each) for each in inner})
            return {"notes": [within(Note(text="new " * 50))]}

        built = StateGraph(notes).add_node("look", way.node(look)).add_edge(START, "look").compile(checkpointer=saver)

        def turn() -> bool:
            seen.clear()
            way.invoke(built, {"notes": []}, on())
            return seen == [Note]

        return turn, lambda: way.edit(
            built, on(), {"notes": [within(Note(text="some " * 50)) for _ in range(LONG)]}, as_node="look"
        )

    turn, fill = graph()
    fill()
    assert (turn(), turn()) == (True, True)
    assert saver.heads.size > 20_000
    again, _ = graph()
    assert (again(), again()) == (True, True)


def test_P26_without_the_cache_all_is_read_again(trips: RoundTrips, way: Way, tmp_path: Path):
    with open_saver("sqlite", tmp_path, head_cache=0) as saver:
        graph = answering(way, with_records(saver, trips.records))
        way.edit(graph, on(), {"messages": expected(LONG)}, as_node="answer")
        trips.reset()
        assert turn(way, graph) == expected(LONG + 2)
        assert trips.values >= 2 * LONG
        assert saver.heads.size == 0


def test_P26_turns_add_up(counted: Any, way: Way, state: Any):
    graph = answering(way, counted, state)
    way.edit(graph, on(), {"messages": expected(LONG)}, as_node="answer")
    for count in range(LONG, LONG + 8, 2):
        assert turn(way, graph) == expected(count + 2)
    counted.heads.clear()
    assert way.state(graph, on()).values["messages"] == expected(LONG + 8)
    lengths = [len(one.values.get("messages", ())) for one in way.history(graph, on())]
    assert lengths[0] == LONG + 8
    assert lengths == sorted(lengths, reverse=True)


def test_P35_what_a_caller_does_to_a_result_never_shows(saver: Saver, way: Way, state: Any):
    graph = answering(way, saver, state)
    way.edit(graph, on(), {"messages": expected(LONG)}, as_node="answer")
    results = []
    for count in range(LONG, LONG + 6, 2):
        found = turn(way, graph)
        assert found == expected(count + 2)
        results.append(found)
        kept = way.state(graph, on()).values["messages"]
        kept[3]["content"] = "changed"
        kept[4]["more"] = []
        del kept[7:]
        found[1]["content"] = "changed"
        found[0].clear()
        found.reverse()
    assert way.state(graph, on()).values["messages"] == expected(LONG + 6)
    for first, second in itertools.pairwise(results):
        assert not set(map(id, first)) & set(map(id, second)), "two results have no message in common"


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::RuntimeWarning")
def test_P35_what_a_node_does_to_the_state_without_returning_it_never_shows(saver: Saver, way: Way, state: Any):
    held: list[Any] = []

    def answer(given: Any) -> Any:
        held.append(given["messages"])
        given["messages"][5]["content"] = "changed by the node"
        new = [said(len(given["messages"]), "assistant")]
        return {"messages": [*map(dict, held[-1][:5]), said(5), *map(dict, held[-1][6:]), *new] if state is Plain else new}

    graph = StateGraph(state).add_node("answer", way.node(answer)).add_edge(START, "answer").compile(checkpointer=saver)
    way.edit(graph, on(), {"messages": expected(LONG)}, as_node="answer")
    for count in range(LONG, LONG + 6, 2):
        assert turn(way, graph) == expected(count + 2)
        held[-1][9]["content"] = "changed by the node, later"
    assert way.state(graph, on()).values["messages"] == expected(LONG + 6)


@pytest.fixture
def two(tmp_path: Path) -> Iterator[tuple[Saver, Saver]]:
    """Two processes on one database."""
    with open_saver("sqlite", tmp_path) as one, open_saver("sqlite", tmp_path) as other:
        yield one, other


def test_P26_what_another_process_stores_is_seen(two: tuple[Saver, Saver], way: Way, state: Any):
    mine, theirs = (answering(way, saver, state) for saver in two)
    way.edit(mine, on(), {"messages": expected(LONG)}, as_node="answer")
    for count in range(LONG, LONG + 12, 4):
        assert turn(way, mine) == expected(count + 2)
        assert turn(way, theirs) == expected(count + 4)
        assert way.state(mine, on()).values["messages"] == expected(count + 4)


def test_P26_what_another_process_deletes_forks_and_edits_is_seen(two: tuple[Saver, Saver], way: Way):
    mine, theirs = (answering(way, saver) for saver in two)
    way.edit(mine, on(), {"messages": expected(LONG)}, as_node="answer")
    old = way.state(mine, on()).config
    assert turn(way, mine) == expected(LONG + 2)
    way.edit(theirs, old, {"messages": [said(LONG, "system")]}, as_node="answer")
    assert way.state(mine, on()).values["messages"][LONG:] == [said(LONG, "system")]
    assert len(way.invoke(mine, {"messages": [said(LONG + 1)]}, on())["messages"]) == LONG + 3
    way.delete(two[1], "t")
    assert way.state(mine, on()).values == {}
    way.edit(theirs, on(), {"messages": [said(-1)] * 1}, as_node="answer")
    assert [one["id"] for one in way.invoke(mine, {"messages": [said(0)]}, on())["messages"]] == ["-1", "0", "2"]


def test_P26_a_checkpoint_that_came_through_put_is_seen(saver: Saver, way: Way):
    graph = answering(way, saver, Log)
    way.edit(graph, on(), {"messages": expected(LONG)}, as_node="answer")
    assert turn(way, graph) == expected(LONG + 2)
    foreign = foreign_checkpoint({"messages": [said(1)]})
    way.put(saver, way.state(graph, on()).config, foreign, {"source": "update", "step": 9}, {"messages": 2})
    assert way.state(graph, on()).values["messages"] == [said(1)]
    assert len(way.invoke(graph, {"messages": []}, on())["messages"]) == 2


def test_P26_a_deleted_thread_is_not_remembered(saver: Saver, way: Way):
    graph = answering(way, saver)
    way.edit(graph, on(), {"messages": expected(LONG)}, as_node="answer")
    assert saver.heads.size > 50_000
    way.delete(saver, "t")
    assert saver.heads.size == 0
    assert saver.heads.get("t") is None


def test_P26_old_checkpoints_and_named_branches_are_what_they_were(saver: Saver, way: Way):
    graph = answering(way, saver)
    way.edit(graph, on(), {"messages": expected(LONG)}, as_node="answer")
    start = way.state(graph, on()).config
    graph.name_branch(start, "other")
    for count in range(LONG, LONG + 6, 2):
        assert turn(way, graph) == expected(count + 2)
        assert turn(way, graph, on(branch="other")) == expected(count + 2)
    assert way.state(graph, start).values["messages"] == expected(LONG)
    replayed = way.invoke(graph, None, way.history(graph, on())[1].config)["messages"]
    assert replayed == expected(LONG + 6)


def test_P26_a_pause_and_a_failure_are_gone_on_from(saver: Saver, way: Way):
    broken = True

    def ask(given: Any) -> Any:
        return {"messages": [said(int(interrupt("which?")), "assistant")]}

    def check(given: Any) -> Any:
        if broken:
            raise OSError("not today")
        return {}

    builder = StateGraph(Log).add_node("ask", way.node(ask)).add_node("check", way.node(check))
    graph = builder.add_edge(START, "ask").add_edge("ask", "check").compile(checkpointer=saver)
    way.edit(graph, on(), {"messages": expected(LONG)}, as_node="check")
    way.invoke(graph, {"messages": [said(LONG)]}, on())
    with pytest.raises(OSError, match="today"):
        way.invoke(graph, Command(resume=LONG + 1), on())
    broken = False
    assert way.invoke(graph, None, on())["messages"] == expected(LONG + 2)


ELEMENTS: dict[str, Any] = {
    "texts": lambda at: f"{at} " * 30,
    "nested": lambda at: {"id": at, "calls": [{"name": "look", "args": {"n": at, "words": ["x"] * 9}}], "pad": "p" * 100},
    "mixed": lambda at: [f"{at} " * 30, {"a": "b" * 90}, ("t", [at], {1, 2}), [True, 1, 1.0]][at % 4],
    "messages": lambda at: (
        Message(role="assistant", content="c" * 90, tool_calls=[{"name": "x", "args": {"n": at}, "id": "1"}])
        if at % 3
        else Message(role="user", content=f"{at}" * 90)
    ),
    "odd names": lambda at: {at: "p" * 100, ("a", at): None, True: at},
    "numbers": lambda at: {"n": at, "x": at / 3, "ok": at % 2 == 0, "pad": "p" * 99},
}


@pytest.mark.parametrize("kind", ["list", "dict"])
@pytest.mark.parametrize("element", ELEMENTS)
def test_P26_every_kind_of_element_comes_back_as_it_was(saver: Saver, way: Way, kind: str, element: str):
    make = ELEMENTS[element]
    value: Any = [make(at) for at in range(300)] if kind == "list" else {f"key {at}": make(at) for at in range(300)}

    def change(given: Any) -> Any:
        now = copy.deepcopy(given["messages"])
        if kind == "list":
            now[7:9] = [make(1000), make(1001), make(1002)]
        else:
            now["key 7"] = make(1000)
            now["new"] = make(1001)
        return {"messages": now}

    graph = StateGraph(Plain).add_node("change", way.node(change)).add_edge(START, "change").compile(checkpointer=saver)
    way.edit(graph, on(), {"messages": value}, as_node=START)
    for _ in range(3):
        value = change({"messages": value})["messages"]
        found = way.invoke(graph, Command(goto="change"), on())["messages"]
        shown = way.state(graph, on()).values["messages"]
        saver.heads.clear()
        stored = way.state(graph, on()).values["messages"]
        assert repr(found) == repr(value) == repr(shown) == repr(stored)
        way.edit(graph, on(), {}, as_node="change")  # remembered again
        assert saver.heads.size > 20_000


@pytest.mark.parametrize("kind", SAVERS)
def test_P26_threads_of_one_process_share_what_is_remembered(kind: str, tmp_path: Path):
    way = Way("sync")
    with open_saver(kind, tmp_path) as saver:
        graph = answering(way, saver)
        for number in range(4):
            way.edit(graph, on(str(number)), {"messages": expected(LONG)}, as_node="answer")

        def work(number: int) -> None:
            for count in range(LONG, LONG + 10, 2):
                found = graph.invoke({"messages": [said(count)]}, on(str(number)))["messages"]
                assert found == expected(count + 2)
                found[0]["content"] = "mine"

        def read(number: int) -> None:
            for _ in range(20):
                found = graph.get_state(on(str(number % 4))).values["messages"]
                assert found == expected(len(found))
                found[1]["content"] = "mine"

        with ThreadPoolExecutor(8) as pool:
            for done in [
                *(pool.submit(work, number) for number in range(4)),
                *(pool.submit(read, number) for number in range(4)),
            ]:
                done.result()


def counting(left: list[Any], right: list[Any]) -> list[Any]:
    """A reducer that changes an element in place."""
    if left:
        left[0]["content"] = f"{len(left)} before"
    return [*left, *right]


class Counting(TypedDict):
    messages: Annotated[list[Any], counting]


def test_P26_a_reducer_that_changes_an_element_in_place_is_noticed(saver: Saver, way: Way):
    graph = answering(way, saver, Counting)
    way.edit(graph, on(), {"messages": expected(LONG)}, as_node="answer")
    for count in range(LONG, LONG + 6, 2):
        found = turn(way, graph)
        assert (found[0]["content"], found[1:]) == (f"{count + 1} before", expected(count + 2)[1:])
        saver.heads.clear()
        assert way.state(graph, on()).values["messages"] == found


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_P26_what_is_replaced_and_then_added_to_before_a_checkpoint_is_stored(saver: Saver, way: Way, durability: str):
    builder = StateGraph(MessagesState)
    builder.add_node("redact", way.node(lambda _: {"messages": [said(3) | {"content": "-"}]}))
    builder.add_node("answer", way.node(lambda given: {"messages": [said(len(given["messages"]), "assistant")]}))
    graph = builder.add_edge(START, "redact").add_edge("redact", "answer").compile(checkpointer=saver)
    way.edit(graph, on(), {"messages": [said(number) for number in range(LONG)]}, as_node="answer")
    found = way.invoke(graph, {"messages": []}, on(), durability=durability)["messages"]
    assert [found[3]["content"], len(found)] == ["-", LONG + 1]
    assert way.state(graph, on()).values["messages"] == found
    assert way.invoke(graph, {"messages": []}, on())["messages"][:LONG] == found[:LONG]


@pytest.mark.parametrize("change", ["replace", "insert", "pop"])
@pytest.mark.parametrize("state", [MessagesState, Log, Added])
def test_P35_a_list_that_a_node_changes_in_place_and_adds_to_is_what_it_was_and_more(
    saver: Saver, way: Way, state: Any, change: str
):
    def answer(given: Any) -> Any:
        messages = given["messages"]
        new = said(len(messages), "assistant")
        if change == "replace":
            messages[3] = Message(said(999))
        else:
            messages.insert(0, Message(said(999))) if change == "insert" else messages.pop()
        return {"messages": [new]}

    graph = StateGraph(state).add_node("answer", way.node(answer)).add_edge(START, "answer").compile(checkpointer=saver)
    way.edit(graph, on(), {"messages": [said(number) for number in range(LONG)]}, as_node="answer")
    for durability in ("sync", "exit"):
        with pytest.warns(UserWarning, match="in place"):
            found = way.invoke(graph, {"messages": []}, on(), durability=durability)["messages"]
        assert found == way.state(graph, on()).values["messages"]
        assert found == [said(number, "user" if number < LONG else "assistant") for number in range(len(found))]
    assert len(found) == LONG + 2
