"""P5: wherever a listener leaves, in whatever mode, the thread is free, and what is left runs once. A writer may outlive its run."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from perdure.checkpoint.saver import Saver
from perdure.config import get_message_writer, get_stream_writer
from perdure.types import Command, StateSnapshot, interrupt
from tests.engine.colours import Colour, Log, thread
from tests.streaming.stories import abreast, line, status_of
from tests.streaming.test_leaving import leave

MODES = ("values", "updates", "custom", "messages", "checkpoints", "tasks", "debug")
DONE = ["a", "x", "y", "s1", "yes", "z"]


class Story:
    """a; then side by side x and y; then a subgraph that asks; then z. All tell something of every mode."""

    def __init__(self, colour: Colour, saver: Saver) -> None:
        self.ran: Counter[str] = Counter()
        self.colour = colour
        inner = line(("s1", self.node("s1")), ("ask", self.node("ask", ask=True))).compile()
        graph = line(("a", self.node("a")), ("both", self.both()), ("sub", inner), ("z", self.node("z")), state=Log)
        self.graph = graph.compile(saver)

    def node(self, name: str, *, ask: bool = False) -> Any:
        def body(_: Any) -> Any:
            self.ran[name] += 1
            get_stream_writer()(name)
            get_message_writer().write(name)
            return {"log": [interrupt("?") if ask else name]}

        return self.colour.node(body)

    def both(self) -> Any:
        return abreast(("x", self.node("x")), ("y", self.node("y"))).compile()


def items_of(colour: Colour, saver: Saver, name: str, **options: Any) -> int:
    """How many items a run tells until it asks."""
    return len(colour.stream(Story(colour, saver).graph, {"log": []}, thread(name), **options))


@pytest.mark.parametrize("mode", [*MODES, list(MODES)], ids=[*MODES, "all"])
@pytest.mark.parametrize("subgraphs", [False, True])
def test_P5_after_each_item_of_each_mode(colour: Colour, saver: Saver, mode: Any, *, subgraphs: bool) -> None:
    options: dict[str, Any] = {"stream_mode": mode, "subgraphs": subgraphs}
    count = items_of(colour, saver, "whole", **options)
    for at in range(1, count + 1, 1 if isinstance(mode, str) else 7):
        saver.delete_thread("t")
        story = Story(colour, saver)
        got: list[Any] = []

        def enough(item: Any, got: list[Any] = got, at: int = at) -> bool:
            got.append(item)
            return len(got) == at

        assert len(leave(colour, story.graph, enough, **options)) == at
        status, free = status_of(saver)
        assert free
        assert status in ("idle", "interrupted")
        state = colour.state(story.graph, thread())
        stored = {*state.values["log"], *_inside(colour, story.graph)}
        before = story.ran.copy()
        story.colour.invoke(story.graph, None, thread())
        assert not {name for name in stored if story.ran[name] > before[name]}, "what was stored is not run again"
        out = story.colour.invoke(story.graph, Command(resume="yes"), thread())
        assert _without_doubles(out["log"]) == DONE


def _inside(colour: Colour, graph: Any) -> list[str]:
    found: list[str] = []
    for task in colour.state(graph, thread(), subgraphs=True).tasks:
        if isinstance(task.state, StateSnapshot):
            found += task.state.values["log"]
            found += [each.name for each in task.state.tasks if each.status == "done"]
    return found


def _without_doubles(log: list[str]) -> list[str]:
    """The words in the order in which they came first: a subgraph gives the parent its whole list."""
    return list(dict.fromkeys(log))


def test_a_writer_that_is_used_after_its_run_tells_nobody(colour: Colour, saver: Saver) -> None:
    kept: list[Any] = []

    def node(_: Any) -> Any:
        kept.append((get_stream_writer(), get_message_writer()))
        kept[-1][0]("in time")
        return {"log": ["a"]}

    graph = line(("a", colour.node(node))).compile(saver)
    modes = ["custom", "messages"]
    assert colour.stream(graph, {"log": []}, thread(), stream_mode=modes) == [("custom", "in time")]
    first, message = kept[0]
    first("late")
    message.write("late")
    assert colour.stream(graph, {"log": []}, thread(), stream_mode=modes) == [("custom", "in time")]
    assert leave(colour, graph, lambda item: True, stream_mode=modes) == [("custom", "in time")]
    for writer, message in kept:
        writer("late")
        message.write("late")
    assert colour.stream(graph, {"log": []}, thread(), stream_mode=modes) == [("custom", "in time")]
    assert status_of(saver) == ("idle", True)
