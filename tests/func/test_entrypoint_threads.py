"""Entrypoints on threads: states, failures, edits, and branches."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.checkpoint.saver import Saver
from perdure.errors import (
    EmptyInputError,
    InvalidUpdateError,
    UnknownInterruptError,
    UnknownThread,
)
from perdure.func import entrypoint
from perdure.types import Command, StateSnapshot, interrupt
from tests.func.bodies import Workshop, asking, counting
from tests.promises.ways import on


def made_by(state: StateSnapshot) -> tuple[Any, Any, Any]:
    """Step, source and writes of a snapshot."""
    metadata: Any = state.metadata
    return metadata["step"], metadata["source"], metadata["writes"]


# -- going on, reading, editing ---------------------------------------------------------------------------------------------


def test_there_must_be_something_to_do(shop: Workshop, saver: Saver) -> None:
    flow = counting(shop, saver)
    with pytest.raises(UnknownThread):
        shop.invoke(flow, None, on())
    with pytest.raises(EmptyInputError):
        shop.invoke(counting(shop, None), None)
    shop.invoke(flow, 1, on())
    assert shop.invoke(flow, None, on()) == 1
    with pytest.raises(UnknownInterruptError):
        shop.invoke(flow, Command(resume="x"), on())


@pytest.mark.parametrize(
    "command", [Command(update=3), Command(goto="count"), Command(update={"__end__": 3}, resume="x")], ids=repr
)
def test_an_entrypoint_takes_no_commands_but_answers(shop: Workshop, saver: Saver, command: Command[Any]) -> None:
    flow = counting(shop, saver)
    for config in (on(), on("2")):
        shop.invoke(flow, 1, on())
        with pytest.raises(InvalidUpdateError, match=r"entrypoint 'count' has no state that a caller's Command could update"):
            shop.invoke(flow, command, config)
    with pytest.raises(InvalidUpdateError, match="entrypoint 'count'"):
        shop.invoke(counting(shop, None), Command(update=3))
    assert shop.state(flow, on()).values == 2


def test_P3_a_failed_entrypoint_goes_on_with_the_input_it_was_given(shop: Workshop, saver: Saver) -> None:
    step = shop.noted()

    def wf(given: Any) -> Any:
        got = yield step(given["n"])
        if len(shop.ran) == 1:
            shop.ran.append("failed")
            raise ValueError("once")
        return got

    flow = shop.flow(wf, saver)
    with pytest.raises(ValueError, match="once"):
        shop.invoke(flow, {"n": 7}, on())
    state = shop.state(flow, on())
    assert (state.values, state.next, repr(state.tasks[0].error)) == (None, ("wf",), "ValueError('once')")
    assert shop.invoke(flow, None, on()) == 7
    assert shop.ran == [("step", 7), "failed"]


def test_new_input_replaces_a_paused_call(shop: Workshop, saver: Saver) -> None:
    flow = asking(shop, saver)
    shop.invoke(flow, "1", on())
    shop.invoke(flow, "2", on())
    assert shop.invoke(flow, Command(resume="x"), on()) == ["2", "x", "after x", None]


def test_the_history_has_two_checkpoints_for_each_call(shop: Workshop, saver: Saver) -> None:
    flow = counting(shop, saver)
    for given in (1, 2):
        shop.invoke(flow, given, on())
    history = shop.history(flow, on())
    assert [(*made_by(one), one.values, one.next) for one in history] == [
        (2, "loop", {"count": 3}, 3, ()),
        (1, "input", 2, 1, ("count",)),
        (0, "loop", {"count": 1}, 1, ()),
        (-1, "input", 1, None, ("count",)),
    ]
    assert [one.result for snapshot in history for one in snapshot.tasks] == [3, 1]


def test_a_thread_that_does_not_exist_has_no_value(shop: Workshop, saver: Saver) -> None:
    state = shop.state(counting(shop, saver), on())
    assert (state.values, state.next, state.metadata) == (None, (), None)


def test_an_edit_is_what_the_function_might_have_returned(shop: Workshop, saver: Saver) -> None:
    flow = counting(shop, saver)
    shop.invoke(flow, 1, on())
    shop.edit(flow, on(), 100)
    state = shop.state(flow, on())
    assert (state.values, state.next, *made_by(state)[1:]) == (100, (), "update", {"count": 100})
    assert shop.invoke(flow, 1, on()) == 101
    shop.edit(flow, on(), entrypoint.final(value="shown", save=7), as_node="count")
    assert shop.state(flow, on()).values == "shown"
    assert shop.invoke(flow, 1, on()) == 8


def test_an_edit_of_a_new_thread_sets_what_the_first_call_gets_as_previous(shop: Workshop, saver: Saver) -> None:
    flow = counting(shop, saver)
    shop.edit(flow, on(), 10)
    assert shop.invoke(flow, 1, on()) == 11


def test_P22_an_edit_keeps_the_question_and_the_input(shop: Workshop, saver: Saver) -> None:
    flow = asking(shop, saver)
    (pause,) = shop.invoke(flow, "in", on())["__interrupt__"]
    shop.edit(flow, on(), "edited")
    state = shop.state(flow, on())
    assert (state.values, state.next, [one.id for one in state.interrupts]) == ("edited", ("ask",), [pause.id])
    assert shop.invoke(flow, Command(resume="x"), on()) == ["in", "x", "after x", "edited"]
    assert shop.ran == [("step", "in"), ("step", "after x")]


def test_P22_an_edit_in_the_entrypoints_name_is_its_result(shop: Workshop, saver: Saver) -> None:
    flow = asking(shop, saver)
    shop.invoke(flow, "in", on())
    shop.edit(flow, on(), "skipped", as_node="ask")
    state = shop.state(flow, on())
    assert (state.values, state.next, state.interrupts) == ("skipped", (), ())


def test_several_edits_of_a_paused_call_keep_its_input(shop: Workshop, saver: Saver) -> None:
    flow = asking(shop, saver)
    shop.invoke(flow, "in", on())
    for value in ("one", "two"):
        shop.edit(flow, on(), value)
    flow.bulk_update_state(on(), [[("three", None)], [("four", None)]])
    assert shop.invoke(flow, Command(resume="x"), on()) == ["in", "x", "after x", "four"]


def test_an_input_can_be_stored_by_an_edit(shop: Workshop, saver: Saver) -> None:
    flow = counting(shop, saver)
    shop.edit(flow, on(), 5, as_node="__input__")
    assert shop.state(flow, on()).next == ("count",)
    assert shop.invoke(flow, None, on()) == 5


# -- time travel ------------------------------------------------------------------------------------------------------------


def at_pause(shop: Workshop, flow: Any) -> Any:
    """The config of the checkpoint where it asked."""
    return next(one.config for one in shop.history(flow, on()) if one.next)


def test_P18_a_replay_runs_everything_again_in_a_branch(shop: Workshop, saver: Saver) -> None:
    flow = counting(shop, saver)
    for given in (1, 2):
        shop.invoke(flow, given, on())
    oldest = shop.history(flow, on())[-1]
    assert shop.invoke(flow, None, oldest.config) == 1
    assert shop.state(flow, on()).values == 1
    assert [one.values for one in shop.history(flow, on())][:3] == [1, None, 3]


def test_P19_one_question_answered_twice_gives_two_branches(shop: Workshop, saver: Saver) -> None:
    flow = asking(shop, saver)
    shop.invoke(flow, "in", on())
    assert shop.invoke(flow, Command(resume="a"), on()) == ["in", "a", "after a", None]
    assert shop.invoke(flow, Command(resume="b"), at_pause(shop, flow)) == ["in", "b", "after b", None]
    values = [one.values for one in shop.history(flow, on())]
    assert ["in", "a", "after a", None] in values
    assert shop.ran == [("step", "in"), ("step", "after a"), ("step", "after b")], (
        "what came before the question is not run again"
    )


def test_P19_what_came_after_the_question_runs_again_even_if_nothing_differs(shop: Workshop, saver: Saver) -> None:
    step = shop.noted()

    def wf(given: str) -> Any:
        yield step("before")
        answer = interrupt("?")
        yield step("after")
        return answer

    flow = shop.flow(wf, saver)
    shop.invoke(flow, "in", on())
    shop.invoke(flow, Command(resume="a"), on())
    assert shop.invoke(flow, Command(resume="b"), at_pause(shop, flow)) == "b"
    assert [given for _, given in shop.ran] == ["before", "after", "after"]


def test_P18_an_edit_of_an_older_checkpoint_begins_a_branch_that_runs(shop: Workshop, saver: Saver) -> None:
    flow = counting(shop, saver)
    for given in (1, 2):
        shop.invoke(flow, given, on())
    second_input = shop.history(flow, on())[1]
    branch = shop.edit(flow, second_input.config, 50)
    assert shop.state(flow, branch).next == ("count",)
    assert shop.invoke(flow, None, branch) == 52
