"""Exceptions reach the caller as the user wrote them, with a note that says which task it was."""

from __future__ import annotations

import asyncio
import traceback
from typing import Any

import pytest

from perdure import START, StateGraph
from perdure.checkpoint.saver import Saver
from perdure.checkpoint.serde.stored_error import StoredError
from perdure.errors import NotStorable, StoppedIteration, UnknownKey
from tests.engine.colours import Colour, Log, thread


class Mine(Exception):
    """An exception of the user's, with arguments that a copy would lose."""

    def __init__(self, what: str, *, code: int) -> None:
        super().__init__(what)
        self.code = code


def failing(colour: Colour, error: BaseException) -> StateGraph[Any, Any, Any, Any]:
    def boom() -> None:
        raise error

    def node(_: Log) -> None:
        boom()

    return StateGraph(Log).add_node("a", colour.node(node)).add_edge(START, "a")


def test_the_very_exception_comes_out(colour: Colour, saver: Any) -> None:
    error = Mine("mine", code=7)
    with pytest.raises(Mine) as caught:
        colour.invoke(failing(colour, error).compile(saver), {"log": []}, thread())
    assert caught.value is error
    assert caught.value.code == 7


def test_the_last_frame_is_the_users(colour: Colour, saver: Any) -> None:
    with pytest.raises(Mine) as caught:
        colour.invoke(failing(colour, Mine("mine", code=7)).compile(saver), {"log": []}, thread())
    frames = traceback.extract_tb(caught.value.__traceback__)
    assert [frame.name for frame in frames][-2:] == ["node", "boom"]


def test_a_note_names_node_and_task_once(colour: Colour, kept: Saver) -> None:
    graph = failing(colour, Mine("mine", code=7)).compile(kept)
    with pytest.raises(Mine) as caught:
        colour.invoke(graph, {"log": []}, thread())
    task = colour.state(graph, thread()).tasks[0]
    assert caught.value.__notes__ == [f"During task with name 'a' and id '{task.id}'"]


def test_nothing_is_chained_to_it(colour: Colour, saver: Any) -> None:
    with pytest.raises(Mine) as caught:
        colour.invoke(failing(colour, Mine("mine", code=7)).compile(saver), {"log": []}, thread())
    assert caught.value.__cause__ is None


def test_the_failure_is_in_the_state_and_a_resume_runs_the_node_again(colour: Colour, kept: Saver) -> None:
    fails = [True]

    def node(_: Log) -> dict[str, Any]:
        if fails:
            fails.pop()
            raise Mine("mine", code=7)
        return {"log": ["ok"]}

    graph = StateGraph(Log).add_node("a", colour.node(node)).add_edge(START, "a").compile(kept)
    with pytest.raises(Mine):
        colour.invoke(graph, {"log": []}, thread())
    state = colour.state(graph, thread())
    assert state.next == ("a",)
    assert "mine" in str(state.tasks[0].error)
    assert colour.invoke(graph, None, thread()) == {"log": ["ok"]}
    assert colour.state(graph, thread()).tasks == ()


@pytest.mark.parametrize("error", [StopIteration("x"), StopAsyncIteration("x")], ids=lambda error: type(error).__name__)
def test_an_escaped_stop_iteration_is_wrapped(colour: Colour, saver: Any, error: Exception) -> None:
    if isinstance(error, StopIteration) and colour.nodes_async:
        match = "StopIteration"  # Python itself makes a RuntimeError of it
    else:
        match = f"node 'a' let {type(error).__name__} escape"
    with pytest.raises(RuntimeError, match=match) as caught:
        colour.invoke(failing(colour, error).compile(saver), {"log": []}, thread())
    if not colour.nodes_async:
        assert isinstance(caught.value, StoppedIteration)
        assert caught.value.__cause__ is error


def test_an_escaped_stop_iteration_ends_no_stream_silently(colour: Colour) -> None:
    with pytest.raises(RuntimeError):
        colour.stream(failing(colour, StopIteration("x")).compile(), {"log": []}, stream_mode=["updates", "custom"])


LEAVING = [SystemExit(3), KeyboardInterrupt(), GeneratorExit(), BaseException("base")]


@pytest.mark.parametrize("error", LEAVING, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("timeout", [None, 30], ids=["", "timeout"])
@pytest.mark.parametrize("siblings", [0, 1], ids=["alone", "sibling"])
def test_P49_a_base_exception_passes_and_leaves_a_record(
    colour: Colour, kept: Saver, error: BaseException, timeout: int | None, siblings: int
) -> None:
    if timeout and not colour.nodes_async:
        pytest.skip("only async nodes can have a timeout")

    def node(_: Log) -> None:
        raise error

    drawing = StateGraph(Log).add_node("a", colour.node(node), timeout=timeout).add_edge(START, "a")
    if siblings:
        drawing.add_node("b", colour.says("b")).add_edge(START, "b")
    graph = drawing.compile(kept)
    for given in ({"log": []}, None):
        with pytest.raises(type(error)):
            colour.invoke(graph, given, thread())
        state = colour.state(graph, thread())
        assert "a" in state.next
        failed = state.tasks[0].error
        if not isinstance(error, KeyboardInterrupt):  # that of a node which runs alone cannot be told from Ctrl-C
            assert isinstance(failed, StoredError)
            assert failed.type.endswith(type(error).__name__)


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()], ids=lambda error: type(error).__name__)
def test_a_function_that_returns_an_awaitable_may_leave_too(kept: Saver, error: BaseException) -> None:
    async def leaves() -> None:
        raise error

    graph = StateGraph(Log).add_node("a", lambda _: leaves()).add_edge(START, "a").compile(kept)
    for invoke in (graph.invoke, lambda *args: asyncio.run(graph.ainvoke(*args))):
        with pytest.raises(type(error)):
            invoke({"log": []}, thread())


def test_a_task_that_leaves_the_loop_of_a_sync_run_stops_nobody_else() -> None:
    async def lets_go(_: Log) -> dict[str, Any]:
        async def leave() -> None:
            raise SystemExit(3)

        leaving = asyncio.get_running_loop().create_task(leave())
        await asyncio.sleep(0.01)
        assert isinstance(leaving.exception(), SystemExit)
        return {"log": ["still here"]}

    graph = StateGraph(Log).add_node("a", lets_go).add_edge(START, "a").compile()
    assert graph.invoke({"log": []}) == {"log": ["still here"]}


def test_the_first_failure_of_a_step_is_raised_and_the_others_are_recorded(colour: Colour, kept: Saver) -> None:
    graph = StateGraph(Log)
    for name in "ab":
        graph.add_node(name, colour.node(lambda _, name=name: (_ for _ in ()).throw(ValueError(name)))).add_edge(START, name)
    compiled = graph.add_node("ok", colour.says("ok")).add_edge(START, "ok").compile(kept)
    with pytest.raises(ValueError, match=r"^[ab]\n"):
        colour.invoke(compiled, {"log": []}, thread())
    assert set(colour.state(compiled, thread()).next) >= {"a", "b"}


def test_a_value_that_cannot_be_stored_is_refused_where_it_was_returned(colour: Colour, kept: Saver) -> None:
    graph = (
        StateGraph(Log).add_node("a", colour.node(lambda _: {"log": [{"deep": object()}]})).add_edge(START, "a").compile(kept)
    )
    with pytest.raises(NotStorable) as caught:
        colour.invoke(graph, {"log": []}, thread())
    assert "'a'" in str(caught.value) or any("'a'" in note for note in caught.value.__notes__)
    assert "log" in str(caught.value)
    assert "deep" in str(caught.value)
    assert colour.state(graph, thread()).next == ("a",)


def test_P2_siblings_of_a_value_that_cannot_be_stored_are_kept(colour: Colour, kept: Saver) -> None:
    good = {"runs": 0}
    bad = [object()]

    def fine(_: Log) -> dict[str, Any]:
        good["runs"] += 1
        return {"log": ["fine"]}

    graph = StateGraph(Log).add_node("bad", colour.node(lambda _: {"log": list(bad)})).add_node("fine", colour.node(fine))
    compiled = graph.add_edge(START, "bad").add_edge(START, "fine").compile(kept)
    with pytest.raises(NotStorable):
        colour.invoke(compiled, {"log": []}, thread())
    bad[:] = ["mended"]
    assert colour.invoke(compiled, None, thread()) == {"log": ["mended", "fine"]}
    assert good["runs"] == 1


def test_an_input_that_cannot_be_stored_is_refused_and_nothing_is_stored(colour: Colour, kept: Saver) -> None:
    graph = StateGraph(Log).add_node("a", colour.says("a")).add_edge(START, "a").compile(kept)
    with pytest.raises(NotStorable, match="input"):
        colour.invoke(graph, {"log": [object()]}, thread())
    assert colour.state(graph, thread()).values == {}
    assert colour.invoke(graph, {"log": []}, thread()) == {"log": ["a"]}


def test_P50_an_unknown_key_names_node_and_key(colour: Colour, saver: Any) -> None:
    graph = StateGraph(Log).add_node("a", colour.node(lambda _: {"lgo": []})).add_edge(START, "a").compile(saver)
    with pytest.raises(UnknownKey, match=r"Node 'a' returned the key 'lgo'.*did you mean 'log'") as caught:
        colour.invoke(graph, {"log": []}, thread())
    assert (caught.value.node, caught.value.key) == ("a", "lgo")
