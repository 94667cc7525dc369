"""P26: storage grows with what changed. Rows and bytes are counted, no time is measured."""

from __future__ import annotations

import operator
import random
import sqlite3
import string
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest

from perdure.checkpoint.incremental.segments import ALONE
from perdure.checkpoint.sqlite import SqliteSaver
from perdure.graph import END, START, MessagesState, StateGraph
from perdure.types import Overwrite, Send
from tests.promises.ways import on

letters = random.Random(26)


def text(size: int = 1000) -> str:
    """A text that cannot be compressed much."""
    return "".join(letters.choices(string.ascii_letters + string.digits, k=size))


def by_id(left: list[dict[str, Any]], right: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A reducer of messages: one with a known id takes the place of the old one."""
    merged = {message["id"]: message for message in left}
    merged.update((message["id"], message) for message in right)
    return list(merged.values())


class Log(TypedDict):
    messages: Annotated[list[Any], operator.add]


class Conversation(TypedDict):
    messages: Annotated[list[Any], by_id]


class Plain(TypedDict):
    messages: list[Any]


def said(role: str) -> dict[str, Any]:
    return {"role": role, "content": text(), "id": text(20)}


def chat(state: Any, answer: Callable[[Any], Any], *, others: int = 0) -> Any:
    """A graph whose one node answers; there may be many more nodes, which never run."""
    builder = StateGraph(state).add_node("answer", answer).add_edge(START, "answer")
    for number in range(others):
        builder.add_node(f"other {number}", lambda _: {})
    names = [f"other {number}" for number in range(others)]
    return builder.add_conditional_edges("answer", lambda _: END, [END, *names])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "growth.db"


@pytest.fixture
def saver(path: Path) -> Iterator[SqliteSaver]:
    with SqliteSaver(path, synchronous="normal") as saver:
        yield saver


def on_disk(path: Path) -> int:
    """The size of the database file with all that is in its write-ahead log."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        pages, size = (connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "page_size"))
    return int(pages * size)


def stored(path: Path) -> int:
    """Bytes in the rows of checkpoints, values and writes."""
    with closing(sqlite3.connect(path)) as connection:
        sizes = [
            connection.execute(f"SELECT ifnull(sum(length(CAST({column} AS BLOB))), 0) FROM {table}").fetchone()[0]
            for table, column in (("checkpoint", "body"), ("value", "data"), ("write", "body"))
        ]
    return sum(sizes)


def rows(path: Path) -> int:
    """How many rows there are."""
    with closing(sqlite3.connect(path)) as connection:
        return sum(
            connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in ("checkpoint", "value", "write")
        )


def turns(graph: Any, count: int, *, message: Callable[[], Any] = lambda: said("user")) -> None:
    for _ in range(count):
        graph.invoke({"messages": [message()]}, on())


@pytest.mark.parametrize("state", [Log, Conversation, MessagesState], ids=lambda state: state.__name__)
def test_P26_a_conversation_costs_its_text_and_little_more(state: Any, saver: SqliteSaver, path: Path):
    graph = chat(state, lambda _: {"messages": [said("assistant")]}).compile(checkpointer=saver)
    turns(graph, 200)
    words = 200 * 2 * 1000
    assert on_disk(path) <= 2.5 * words + 3 * 200 * 600
    assert stored(path) <= 1.3 * words, "each text is stored once"
    snapshot = graph.get_state(on())
    assert len(snapshot.values["messages"]) == 400


@pytest.mark.parametrize("state", [Log, Conversation, MessagesState], ids=lambda state: state.__name__)
def test_P26_a_turn_costs_the_same_at_any_length(state: Any, saver: SqliteSaver, path: Path):
    graph = chat(state, lambda _: {"messages": [said("assistant")]}).compile(checkpointer=saver)

    def cost() -> tuple[float, float]:
        before = stored(path), rows(path)
        turns(graph, 64)
        return (stored(path) - before[0]) / 64, (rows(path) - before[1]) / 64

    turns(graph, 50)
    early = cost()
    history = [said("user") for _ in range(1500)]
    graph.update_state(on(), {"messages": history}, as_node="answer")
    late = cost()
    assert late[1] == early[1]
    assert late[0] <= early[0] + 100, "a manifest gets a range now and then"


def test_P26_the_cost_does_not_depend_on_the_number_of_nodes(tmp_path: Path):
    costs = []
    for others in (9, 999):
        path = tmp_path / f"{others}.db"
        with SqliteSaver(path, synchronous="normal") as saver:
            graph = chat(Log, lambda _: {"messages": [{"role": "assistant", "content": "a" * 1000}]}, others=others)
            turns(graph.compile(checkpointer=saver), 70, message=lambda: {"role": "user", "content": "u" * 1000})
        costs.append((stored(path), rows(path)))
    assert costs[0] == costs[1]


class Document(TypedDict):
    document: Any
    n: int


@pytest.mark.parametrize("shape", ["text", "lines", "by name"])
def test_P26_a_large_value_set_once_is_stored_once(shape: str, saver: SqliteSaver, path: Path):
    lines = [text(1000) for _ in range(1000)]
    document: Any = {"text": "".join(lines), "lines": lines, "by name": {line[:9]: line for line in lines}}[shape]
    builder = StateGraph(Document).add_node("count", lambda state: {"n": state["n"] + 1}).add_edge(START, "count")
    graph = builder.add_conditional_edges("count", lambda state: "count" if state["n"] < 20 else END).compile(
        checkpointer=saver
    )
    assert graph.invoke({"document": document, "n": 0}, on())["n"] == 20
    assert on_disk(path) < 2_000_000
    assert graph.get_state(on()).values == {"document": document, "n": 20}
    first = [*graph.get_state_history(on())][-1].metadata
    assert first is not None
    assert first["writes"] == {"document": document, "n": 0}


def test_P26_a_list_that_nodes_write_anew_each_time_costs_what_is_new(saver: SqliteSaver, path: Path):
    def longer(state: Any) -> Any:
        return {"messages": [*state["messages"], said("assistant")]}

    builder = StateGraph(Plain).add_node("longer", longer).add_edge(START, "longer")
    graph = builder.add_conditional_edges("longer", lambda state: "longer" if len(state["messages"]) < 300 else END)
    compiled = graph.compile(checkpointer=saver)
    compiled.invoke({"messages": [said("user")]}, {**on(), "recursion_limit": 400})
    assert stored(path) < 1.4 * 300 * 1050
    lengths = [len(snapshot.values["messages"]) for snapshot in compiled.get_state_history(on()) if snapshot.values]
    assert lengths == [*range(300, 0, -1)]
    results = [
        snapshot.metadata["writes"]["longer"] for snapshot in compiled.get_state_history(on(), limit=3) if snapshot.metadata
    ]
    assert [len(result["messages"]) for result in results] == [300, 299, 298]


@pytest.mark.parametrize("edit", ["replace", "remove", "insert", "trim", "reverse", "in place"])
def test_P26_an_edit_costs_what_it_changes(edit: str, saver: SqliteSaver, path: Path):
    def change(state: Any) -> Any:
        messages = state["messages"]
        if edit == "in place":
            messages[150]["content"] = text()
            return {"messages": messages}
        new = {
            "replace": lambda: [*messages[:100], said("user"), *messages[101:]],
            "remove": lambda: [*messages[:100], *messages[101:]],
            "insert": lambda: [*messages[:100], said("user"), *messages[100:]],
            "trim": lambda: [*messages[50:], said("user")],
            "reverse": lambda: [*messages[:200], *reversed(messages[200:230]), *messages[230:]],
        }
        return {"messages": new[edit]()}

    graph = chat(Plain, change).compile(checkpointer=saver)
    graph.update_state(on(), {"messages": [said("user") for _ in range(300)]}, as_node=START)
    before = stored(path)
    found = graph.invoke(None, on())["messages"]
    assert stored(path) - before < 3 * 1050
    assert graph.get_state(on()).values["messages"] == found


def test_P26_edits_all_over_the_place_do_not_make_reading_slow(saver: SqliteSaver, path: Path):
    def change(state: Any) -> Any:
        messages = list(state["messages"])
        messages[letters.randrange(300)] = said("user")
        return {"messages": messages}

    builder = StateGraph(Plain).add_node("change", change).add_edge(START, "change").add_edge("change", END)
    graph = builder.compile(checkpointer=saver)
    graph.update_state(on(), {"messages": [said("user") for _ in range(300)]}, as_node="change")
    for _ in range(70):
        graph.update_state(on(), change(graph.get_state(on()).values), as_node="change")
    with closing(sqlite3.connect(path)) as connection:
        longest = connection.execute("SELECT max(length(body)) FROM checkpoint").fetchone()[0]
    assert longest < 1200
    assert stored(path) < 5 * 300 * 1050


def test_P26_branches_share_elements(saver: SqliteSaver, path: Path):
    graph = chat(Log, lambda _: {"messages": [said("assistant")]}).compile(checkpointer=saver)
    turns(graph, 100)
    before = stored(path)
    history = [*graph.get_state_history(on())]
    old = history[150]
    for number in range(5):
        graph.update_state(old.config, {"messages": [said("user")]}, as_node="answer")
        assert len(graph.get_state(on()).values["messages"]) == len(old.values["messages"]) + 1, number
    assert stored(path) - before < 5 * 1500
    assert [snapshot.values for snapshot in graph.get_state_history(on())][-len(history) :] == [one.values for one in history]


class Fanned(TypedDict):
    found: Annotated[list[Any], operator.add]


def test_P26_results_that_are_stored_before_their_super_step_ends_are_shared_too(saver: SqliteSaver, path: Path):
    builder = StateGraph(Fanned).add_node("plan", lambda _: {}).add_node("look", lambda _: {"found": [text(2000)]})
    builder.add_edge(START, "plan").add_conditional_edges("plan", lambda _: [Send("look", n) for n in range(50)], ["look"])
    graph = builder.compile(checkpointer=saver)
    assert len(graph.invoke({"found": []}, on())["found"]) == 50
    assert stored(path) < 1.3 * 50 * 2000


def test_P26_small_things_share_rows_and_an_overwrite_is_a_change_like_any_other(saver: SqliteSaver, path: Path):
    graph = chat(Log, lambda state: {"messages": Overwrite([*state["messages"][1:], "last"])}).compile(checkpointer=saver)
    words = [text(ALONE // 4) for _ in range(500)]
    found = graph.invoke({"messages": words}, on())["messages"]
    assert found == [*words[1:], "last"]
    assert graph.get_state(on()).values["messages"] == found
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT count(*) FROM value").fetchone()[0] < 20
