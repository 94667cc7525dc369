"""No event is built that nobody listens to: the functions that build them are counted."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from perdure.checkpoint.saver import Saver
from perdure.config import get_message_writer, get_stream_writer
from perdure.engine.running import telling
from perdure.engine.running.run import Run
from perdure.engine.tasks import child, messaging
from perdure.graph import MessagesState
from perdure.streaming import events
from tests.engine.colours import Colour, thread
from tests.streaming.stories import line

BUILDERS = {
    "task_start": (events, "tasks debug"),
    "task_end": (events, "tasks debug"),
    "checkpoint": (events, "checkpoints debug"),
    "debug": (events, "debug"),
}


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each thing was built."""
    counted: Counter[str] = Counter()

    def count(owner: Any, name: str, as_name: str | None = None) -> None:
        real = getattr(owner, name)

        def counting(*args: Any, **kwargs: Any) -> Any:
            counted[as_name or name] += 1
            return real(*args, **kwargs)

        monkeypatch.setattr(owner, name, counting)

    for name, (owner, _) in BUILDERS.items():
        count(owner, name)
    count(telling, "Event")
    count(messaging, "Event")
    count(messaging, "metadata_of")
    count(messaging, "given", "messages given")
    count(messaging, "returned", "messages returned")
    count(Run, "tell")
    count(Run, "values")
    return counted


def graph_of(colour: Colour, saver: Saver) -> Any:
    """A graph and a subgraph whose nodes send whatever can be sent."""

    def node(_: Any) -> Any:
        get_stream_writer()("custom")
        out = get_message_writer()
        out.write("token")
        return {"messages": [out.done()]}

    inner = line(("i", colour.node(node)), state=MessagesState).compile()
    return line(("a", colour.node(node)), ("p", inner), state=MessagesState).compile(saver)


HI = {"messages": ["hi"]}


def test_a_call_that_listens_to_nothing_builds_nothing(colour: Colour, saver: Saver, calls: Counter[str]) -> None:
    graph = graph_of(colour, saver)
    assert len(colour.invoke(graph, HI, thread())["messages"]) > 2
    assert calls.pop("values") == 2, "the output, and what the subgraph gives to its parent"
    assert calls == Counter()


def test_values_builds_values(colour: Colour, saver: Saver, calls: Counter[str]) -> None:
    items = colour.stream(graph_of(colour, saver), HI, thread(), stream_mode="values")
    assert calls.pop("values") == len(items) + 1
    assert calls == Counter({"Event": len(items)})


def test_updates_builds_updates(colour: Colour, saver: Saver, calls: Counter[str]) -> None:
    assert len(colour.stream(graph_of(colour, saver), HI, thread(), stream_mode="updates")) == 2
    assert calls.pop("values") == 1
    assert calls == Counter({"Event": 2})


def test_custom_sends_only_what_is_heard(colour: Colour, saver: Saver, calls: Counter[str]) -> None:
    assert colour.stream(graph_of(colour, saver), HI, thread(), stream_mode="custom") == ["custom"]
    assert calls.pop("values") == 1
    assert calls == Counter({"tell": 1}), "the subgraph's is not sent"


def test_messages_looks_at_the_messages_of_what_is_heard(colour: Colour, saver: Saver, calls: Counter[str]) -> None:
    items = colour.stream(graph_of(colour, saver), HI, thread(), stream_mode="messages")
    assert [message.content for message, _ in items] == ["token", "token"]
    assert calls.pop("values") == 1
    assert (calls.pop("messages given"), calls.pop("messages returned")) == (2, 2)  # the steps, the tasks
    assert calls == Counter({"tell": 1, "Event": 1, "metadata_of": 2})


@pytest.mark.parametrize("mode", ["tasks", "checkpoints", "debug"])
def test_the_others_build_their_own(colour: Colour, saver: Saver, calls: Counter[str], mode: str) -> None:
    items = colour.stream(graph_of(colour, saver), HI, thread(), stream_mode=mode)
    assert calls.pop("values") == 1
    assert calls.pop("Event") == len(items)
    assert set(calls) == {name for name, (_, modes) in BUILDERS.items() if mode in modes.split()}


def test_printed_modes_are_listened_to(
    colour: Colour, saver: Saver, calls: Counter[str], capsys: pytest.CaptureFixture[str]
) -> None:
    colour.invoke(graph_of(colour, saver), HI, thread(), print_mode="updates")
    assert calls["Event"] == 2
    assert len(capsys.readouterr().out.splitlines()) == 2


def test_nothing_is_handed_up_where_nobody_listens_to_subgraphs(
    colour: Colour, saver: Saver, monkeypatch: pytest.MonkeyPatch
) -> None:
    posted: list[Any] = []
    real = child.hand_up

    async def hand_up(run: Any, task: Any, batch: Any) -> None:
        posted.extend(batch)
        await real(run, task, batch)

    monkeypatch.setattr(child, "hand_up", hand_up)
    colour.stream(
        graph_of(colour, saver), HI, thread(), stream_mode=["values", "updates", "tasks", "custom", "messages", "debug"]
    )
    assert posted == []


@pytest.mark.parametrize("way", ["print_mode", "debug"])
def test_printing(colour: Colour, capsys: pytest.CaptureFixture[str], way: str) -> None:
    graph = line(("a", colour.says("a"))).compile(debug=way == "debug")
    options: dict[str, Any] = {"print_mode": ["updates", "values"]} if way == "print_mode" else {}
    assert colour.invoke(graph, {"log": []}, **options) == {"log": ["a"]}
    printed = capsys.readouterr().out.splitlines()
    assert printed == ["[values] {'log': []}", "[updates] {'a': {'log': ['a']}}", "[values] {'log': ['a']}"]
    assert colour.stream(graph, {"log": []}, stream_mode="updates", **options) == [{"a": {"log": ["a"]}}]
    assert capsys.readouterr().out.splitlines() == printed


def test_one_call_may_be_printed_or_not(colour: Colour, capsys: pytest.CaptureFixture[str]) -> None:
    quiet, loud = (line(("a", colour.says("a"))).compile(debug=debug) for debug in (False, True))
    colour.stream(quiet, {"log": []}, debug=True)
    assert len(capsys.readouterr().out.splitlines()) == 3
    colour.stream(loud, {"log": []}, debug=False)
    assert capsys.readouterr().out == ""
    for mode in ("values", "updates"):
        colour.invoke(quiet, {"log": []}, stream_mode=mode, debug=True)
        assert len(capsys.readouterr().out.splitlines()) == 3
        colour.invoke(loud, {"log": []}, stream_mode=mode, debug=False)
        assert capsys.readouterr().out == ""
