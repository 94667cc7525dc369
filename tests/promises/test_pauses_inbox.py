"""P16: the inbox lists what is open across threads, with all that somebody needs who answers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from perdure.checkpoint.saver import Saver
from perdure.errors import InvalidConfig
from perdure.func import task
from perdure.graph import START, StateGraph
from perdure.testing.clock import ManualClock
from perdure.types import Command, InterruptPage, PendingInterrupt, Send, interrupt
from tests.promises.asking import Entered, graph_of, open_of
from tests.promises.ways import SAVERS, Log, Way, chain, on, open_saver


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(params=SAVERS)
def saver(request: pytest.FixtureRequest, tmp_path: Path, clock: ManualClock) -> Iterator[Saver]:
    made = open_saver(request.param, tmp_path, clock=clock)
    yield made
    made.close()


def inbox(way: Way, of: Any, **options: Any) -> InterruptPage:
    """A page of a graph's or a saver's inbox."""
    if way.is_async:
        return asyncio.run(of.alist_interrupts(**options))
    page: InterruptPage = of.list_interrupts(**options)
    return page


def shown(page: InterruptPage) -> list[tuple[str, Any]]:
    return [(item.thread_id, item.interrupt.value) for item in page.items]


def asking(way: Way, **terms: Any) -> Any:
    return graph_of(a=Entered().asks(way, "a", **terms))


def test_P16_the_inbox_tells_who_asks_what_since_when_and_until_when(way: Way, saver: Saver, clock: ManualClock) -> None:
    graph = asking(way, deadline=60, default="no", response_schema=str).compile(saver, name="approvals")
    config = {**on("invoice 7"), "metadata": {"customer": "ada"}}
    way.invoke(graph, {"log": []}, config)
    clock.advance(61)
    state = way.state(graph, on("invoice 7"))
    page = inbox(way, graph)
    assert page.cursor is None
    (item,) = page.items
    assert isinstance(item, PendingInterrupt)
    assert (item.thread_id, item.node, item.graph, item.overdue) == ("invoice 7", "a", "approvals", True)
    assert item.checkpoint_id == state.config["configurable"]["checkpoint_id"]
    assert item.interrupt == state.interrupts[0]
    assert item.deadline is not None
    assert item.asked_at == state.interrupts[0].asked_at
    assert item.deadline - item.asked_at == timedelta(minutes=1)
    assert item.metadata["customer"] == "ada"
    assert inbox(way, saver) == page


def test_P16_an_item_of_the_inbox_is_enough_to_answer(way: Way, saver: Saver) -> None:
    graph = asking(way).compile(saver)
    for name in ("one", "two"):
        way.invoke(graph, {"log": []}, on(name))
    for item in inbox(way, graph).items:
        assert way.invoke(graph, Command(resume={item.interrupt.id: item.thread_id}), item.config)["log"] == [
            f"a:{item.thread_id}"
        ]
    assert inbox(way, graph) == InterruptPage((), None)


def test_P16_only_open_questions_are_listed(way: Way, saver: Saver) -> None:
    graph = graph_of(a=Entered().asks(way, "a"), b=Entered().asks(way, "b")).compile(saver)
    for name in ("all", "half", "done", "deleted", "dropped", "closed"):
        ids = open_of(way.invoke(graph, {"log": []}, on(name)))
        if name == "half":
            way.invoke(graph, Command(resume={ids["b"]: "x"}), on(name))
        if name == "done":
            way.invoke(graph, Command(resume=dict.fromkeys(ids.values(), "x")), on(name))
        if name == "closed":
            way.edit(graph, on(name), None, as_node="__end__")
    way.delete(saver, "deleted")
    way.invoke(graph, {"log": []}, on("dropped"))
    broken = chain(("a", way.node(lambda _: {"log": []})), ("b", way.node(lambda _: {"log": []}))).compile(
        saver, interrupt_after=["a"]
    )
    way.invoke(broken, {"log": []}, on("at a breakpoint"))
    assert shown(inbox(way, saver)) == [("all", "a"), ("all", "b"), ("dropped", "a"), ("dropped", "b"), ("half", "a")]


def test_P16_answers_that_wait_are_not_listed_again(way: Way, saver: Saver) -> None:
    def node(_: Log) -> dict[str, Any]:
        found = []
        for name in ("A", "B"):
            try:
                found.append(interrupt(name))
            except BaseException:
                found.append("?")
        return {"log": found}

    graph = graph_of(node=way.node(node)).compile(saver)
    ids = open_of(way.invoke(graph, {"log": []}, on()))
    way.invoke(graph, Command(resume={ids["A"]: 1}), on())
    assert shown(inbox(way, graph)) == [("t", "B")]


def test_P16_questions_of_subgraphs_steps_sends_and_handlers_are_listed_with_their_node(way: Way, saver: Saver) -> None:
    @task
    def step() -> Any:
        return interrupt("of a step")

    def fail(_: Any) -> None:
        raise ValueError("no")

    inner: StateGraph[Any, Any, Any, Any] = StateGraph(Log)
    inner.add_node("leaf", way.node(lambda _: {"log": [interrupt("of a subgraph")]})).add_edge(START, "leaf")
    middle: StateGraph[Any, Any, Any, Any] = StateGraph(Log)
    middle.add_node("middle", inner.compile()).add_edge(START, "middle")
    builder = graph_of(steps=lambda _: {"log": [step().result()]}, top=middle.compile())
    builder.add_node("fails", way.node(fail), error_handler=way.node(lambda _: {"log": [interrupt("of a handler")]}))
    builder.add_edge(START, "fails").add_node("sent", way.node(lambda at: {"log": [interrupt(at)]}))
    builder.add_conditional_edges(START, lambda _: [Send("sent", "of a Send")], ["sent"])
    graph = builder.compile(saver)
    way.invoke(graph, {"log": []}, on())
    found = {item.interrupt.value: item.node for item in inbox(way, graph).items}
    handler = found.pop("of a handler")
    assert "fails" in handler
    assert found == {"of a step": "step", "of a subgraph": "leaf", "of a Send": "sent"}
    assert {item.interrupt.id for item in inbox(way, saver).items} == set(open_of(way.state(graph, on())).values())


def test_P16_a_question_beside_a_failure_is_listed(way: Way, saver: Saver) -> None:
    def fail(_: Log) -> None:
        raise ValueError("no")

    graph = graph_of(a=Entered().asks(way, "a"), b=way.node(fail)).compile(saver)
    with pytest.raises(ValueError, match="no"):
        way.invoke(graph, {"log": []}, on())
    found = shown(inbox(way, graph))
    assert found == [("t", name) for name in open_of(way.state(graph, on()))]


def test_P16_a_question_that_stays_open_through_an_edit_is_listed(way: Way, saver: Saver) -> None:
    graph = graph_of(a=Entered().asks(way, "a"), b=Entered().says(way, "b")).compile(saver)
    way.invoke(graph, {"log": []}, on())
    way.edit(graph, on(), {"log": ["edited"]}, as_node="b")
    assert shown(inbox(way, graph)) == [("t", "a")]


def test_P16_a_question_beside_a_failure_stays_listed_through_an_edit(way: Way, saver: Saver) -> None:
    def fail(_: Log) -> None:
        raise ValueError("no")

    graph = graph_of(a=Entered().asks(way, "a"), b=way.node(fail)).compile(saver, name="edited")
    while not way.state(graph, on()).interrupts:  # the one may fail before the other has asked
        with pytest.raises(ValueError, match="no"):
            way.invoke(graph, None if way.state(graph, on()).next else {"log": []}, on())
    way.edit(graph, on(), {"log": ["mended"]}, as_node="b")
    assert shown(inbox(way, graph)) == [("t", "a")]
    assert way.invoke(graph, Command(resume="x"), on()) == {"log": ["mended", "a:x"]}


def test_P16_pages_are_followed_by_cursor_and_a_thread_is_never_split(way: Way, saver: Saver) -> None:
    graph = graph_of(a=Entered().asks(way, "a"), b=Entered().asks(way, "b")).compile(saver)
    names = [f"t{at}" for at in range(5)]
    for name in names:
        way.invoke(graph, {"log": []}, on(name))
    pages: list[list[tuple[str, Any]]] = []
    cursor: str | None = None
    while True:
        page = inbox(way, graph, limit=3, cursor=cursor)
        pages.append(shown(page))
        cursor = page.cursor
        if cursor is None:
            break
    assert [len(page) for page in pages] == [4, 4, 2]
    assert [row for page in pages for row in page] == [(name, value) for name in names for value in "ab"]


def test_P16_more_threads_than_one_read(way: Way, saver: Saver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("perdure.checkpoint.index.inbox.PAGE", 2)
    graph = asking(way).compile(saver)
    names = [f"t{at}" for at in range(5)]
    for name in names:
        way.invoke(graph, {"log": []}, on(name))
    assert shown(inbox(way, graph)) == [(name, "a") for name in names]
    assert len(inbox(way, graph, limit=1).items) == 1


def test_P16_P39_filters_are_data(way: Way, saver: Saver, clock: ManualClock) -> None:
    plain, timed = asking(way).compile(saver), asking(way, deadline=60).compile(saver)
    names = ["acme/1", "acme-corp/1", "a_me/1", "a%/1", "acme/2", "acme\U0010ffff", "b"]
    for name in names:
        way.invoke(timed if name == "acme/2" else plain, {"log": []}, {**on(name), "metadata": {"who": name}})
    clock.advance(60)

    def threads(**options: Any) -> list[str]:
        return [item.thread_id for item in inbox(way, saver, **options).items]

    assert threads() == sorted(names)
    assert threads(thread_prefix="acme/") == ["acme/1", "acme/2"]
    assert threads(thread_prefix="acme") == ["acme-corp/1", "acme/1", "acme/2", "acme\U0010ffff"]
    assert threads(thread_prefix="a_") == ["a_me/1"]
    assert threads(thread_prefix="a%") == ["a%/1"]
    assert threads(thread_prefix="acme\U0010ffff") == ["acme\U0010ffff"]
    assert threads(thread_prefix="\U0010ffff") == []
    assert threads(thread_prefix="acme", cursor="acme/1") == ["acme/2", "acme\U0010ffff"]
    assert threads(filter={"who": "b"}) == ["b"]
    assert threads(filter={"who": "b", "nobody": None}) == []
    assert threads(filter={"who": "' OR 1=1 --"}) == []
    assert threads(overdue=True) == ["acme/2"]
    assert threads(overdue=False) == sorted(name for name in names if name != "acme/2")


def test_P16_a_graph_lists_its_own_threads_and_a_saver_all(way: Way, saver: Saver) -> None:
    one, two = asking(way).compile(saver, name="one"), asking(way).compile(saver, name="two")
    way.invoke(one, {"log": []}, on("first"))
    way.invoke(two, {"log": []}, on("second"))
    assert shown(inbox(way, one)) == [("first", "a")]
    assert shown(inbox(way, two)) == [("second", "a")]
    assert shown(inbox(way, saver)) == [("first", "a"), ("second", "a")]
    assert shown(inbox(way, saver, graph="two")) == [("second", "a")]


@pytest.mark.parametrize("limit", [0, -1, 1.5, True, None], ids=repr)
def test_P39_a_bad_limit_is_an_error(way: Way, saver: Saver, limit: Any) -> None:
    with pytest.raises(InvalidConfig, match="limit"):
        inbox(way, saver, limit=limit)


@pytest.mark.parametrize("option", [{"cursor": 1}, {"thread_prefix": None}], ids=repr)
def test_P39_what_is_no_text_is_an_error(way: Way, saver: Saver, option: Any) -> None:
    with pytest.raises(TypeError, match="must be text"):
        inbox(way, saver, **option)


@pytest.mark.parametrize("wrong", ["acme", [("customer", "acme")], ""], ids=repr)
def test_P39_a_filter_that_is_no_dict_is_an_error(way: Way, saver: Saver, wrong: Any) -> None:
    with pytest.raises(
        TypeError, match=r"filter must be a dict of keys of the metadata and the values they must equal, got (str|list)"
    ):
        inbox(way, saver, filter=wrong)


def test_P16_without_a_saver_there_is_no_inbox(way: Way) -> None:
    with pytest.raises(InvalidConfig, match="checkpointer"):
        inbox(way, asking(way).compile())


def test_P16_reading_the_inbox_changes_nothing_and_needs_no_lease(way: Way, saver: Saver) -> None:
    graph = graph_of(a=Entered().asks(way, "a"), b=way.node(lambda _: {"log": [len(saver.list_interrupts().items)]})).compile(
        saver
    )
    out = way.invoke(graph, {"log": []}, on())
    assert out["log"] in ([0], [1])
    assert shown(inbox(way, saver)) == [("t", "a")]
