"""P18, P22: what an edit may be made of, and in whose name: Commands, several at once, as the end, as an input, as a copy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from perdure.checkpoint.saver import Saver
from perdure.checkpoint.sqlite import SqliteSaver
from perdure.errors import InvalidUpdateError, TaskNotFound, UnknownInterruptError, UnknownKey, UnknownNode
from perdure.graph import END, START, MessagesState
from perdure.types import Command, Send, StateUpdate, interrupt
from tests.promises.travelling import Ran, Seen, in_a_row, side_by_side, stored
from tests.promises.ways import Log, Way, on, status_of


def bulk(way: Way, graph: Any, config: Any, *supersteps: list[Any]) -> Any:
    return way._do(graph, "bulk_update_state", config, list(supersteps))


def refused(saver: Saver, call: Callable[[], Any], error: type[BaseException], says: str) -> None:
    """The call raises, and stores nothing."""
    rows = stored(saver)
    with pytest.raises(error, match=says):
        call()
    assert stored(saver) == rows


def steered(way: Way, saver: Saver, ran: Ran) -> Any:
    """x, then y; z is where only a command leads."""
    builder = in_a_row(Log, ("x", ran("x")), ("y", ran("y")))
    return builder.add_node("z", ran("z")).compile(checkpointer=saver)


# ------------------------------------------------------------------------------------------------------------------- commands


@pytest.mark.parametrize(
    ("values", "as_node", "log", "following"),
    [
        (Command(update={"log": ["c"]}, goto="z"), "x", ["c"], ("y", "z")),
        (Command(update=[("log", ["c"]), ("log", ["d"])]), "x", ["c", "d"], ("y",)),
        (Command(goto=["z", END]), "x", [], ("y", "z")),
        (Command(goto=Send("z", {"log": []})), "x", [], ("z", "y")),
        (Send("z", {"log": []}), "x", [], ("z", "y")),
        ([{"log": ["c"]}, Command(update={"log": ["d"]}, goto="z")], "x", ["c", "d"], ("y", "z")),
        (Command(update={"log": ["c"]}, goto="z"), None, ["c"], ("z",)),
        (Command(update={"log": ["c"]}, goto="z"), START, ["c"], ("x", "z")),
        (Command(), "x", [], ("y",)),
    ],
)
def test_P18_an_edit_may_be_whatever_the_node_could_return(
    way: Way, saver: Saver, values: Any, as_node: Any, log: list[str], following: tuple[str, ...]
):
    ran = Ran(way)
    graph = steered(way, saver, ran)
    way.invoke(graph, {"log": []}, on())
    edited = way.edit(graph, on(), values, as_node=as_node)
    state = way.state(graph, edited)
    assert (state.values["log"], state.next) == (["x", "y", *log], following)
    ran.take()
    way.invoke(graph, None, on())
    assert sorted(ran.take()) == sorted({*following, "y"} if "x" in following else following)


@pytest.mark.parametrize(
    ("values", "error", "says"),
    [
        (Command(resume="yes"), InvalidUpdateError, "an edit answers nothing"),
        (Command(resume=None, update={"log": ["c"]}), InvalidUpdateError, "an edit answers nothing"),
        (Command(graph=Command.PARENT, goto="z"), InvalidUpdateError, "cannot command graph '__parent__'"),
        ([{"log": []}, Command(graph="other", update={"log": ["c"]})], InvalidUpdateError, "cannot command graph 'other'"),
        (Command(goto="w"), UnknownNode, "'w'"),
        (Command(goto=Send("w", 1)), UnknownNode, "'w'"),
        (Command(goto=Send(END, 1)), InvalidUpdateError, "END"),
        (Command(update={"lug": []}), UnknownKey, "did you mean 'log'"),
        ([{"log": []}, {"log": []}], InvalidUpdateError, "Expected dict"),
        ("text", InvalidUpdateError, "Expected dict"),
    ],
)
def test_P50_an_edit_that_the_node_could_not_return_is_refused(
    way: Way, saver: Saver, values: Any, error: type[BaseException], says: str
):
    graph = in_a_row(Log, ("x", Ran(way)("x")), ("ask", Ran(way).asks("ask"))).compile(checkpointer=saver)
    way.invoke(graph, {"log": []}, on())
    for as_node in ("x", None):
        refused(saver, lambda as_node=as_node: way.edit(graph, on(), values, as_node=as_node), error, says)
    assert status_of(saver) == ("interrupted", True)


def test_P18_a_command_and_the_conditional_edges_of_its_node_both_count(way: Way, saver: Saver):
    ran = Ran(way)
    builder = side_by_side(MessagesState, router=ran("router", lambda _: {"messages": ["router"]}))
    for name in "xyz":
        builder.add_node(name, ran(name, lambda _, name=name: {"messages": [name]}))
    builder.add_conditional_edges("router", lambda state: state["messages"][-1].content, {"x": "x", "y": "y", "router": END})
    graph = builder.compile(checkpointer=saver)
    way.invoke(graph, {"messages": []}, on())
    way.edit(graph, on(), Command(update={"messages": ["x"]}, goto="z"), as_node="router")
    assert way.state(graph, on()).next == ("x", "z")
    for given in ({"messages": ["y"]}, {"messages": (text for text in ["y"])}):
        way.edit(graph, on(), given, as_node="router")
        state = way.state(graph, on())
        assert (state.next, state.values["messages"][-1].content) == (("y",), "y"), "the edge sees what is written"
    (written,) = state.metadata["writes"]["router"]["messages"]  # type: ignore[index]
    assert written.id == state.values["messages"][-1].id


# ---------------------------------------------------------------------------------------------------------------- in whose name


def test_P22_where_several_ran_last_an_edit_must_say_in_whose_name(way: Way, saver: Saver):
    graph = side_by_side(Log, x=Ran(way)("x"), y=Ran(way)("y")).compile(checkpointer=saver)
    way.invoke(graph, {"log": []}, on())
    says = "Ambiguous update, specify as_node: the last super-step ran 'x', 'y'"
    refused(saver, lambda: way.edit(graph, on(), {"log": ["e"]}), InvalidUpdateError, says)
    bulk(way, graph, on(), [StateUpdate({"log": ["1"]}, "y"), StateUpdate({"log": ["2"]}, "x")])
    refused(saver, lambda: way.edit(graph, on(), {"log": ["e"]}), InvalidUpdateError, "ran 'y', 'x'")
    way.edit(graph, on(), {"log": ["3"]}, as_node="x")
    way.edit(graph, on(), {"log": ["4"]})
    assert way.state(graph, on()).values["log"] == ["x", "y", "1", "2", "3", "4"]


@pytest.mark.parametrize("special", [END, "__input__", "__copy__"])
def test_P22_of_several_edits_each_has_a_name_and_none_is_special(way: Way, saver: Saver, special: str):
    graph = steered(way, saver, Ran(way))
    way.invoke(graph, {"log": []}, on())
    named, unnamed = StateUpdate({"log": ["e"]}, "x"), StateUpdate({"log": ["e"]})
    for both in ([named, unnamed], [unnamed, named]):
        refused(saver, lambda both=both: bulk(way, graph, on(), both), InvalidUpdateError, "as_node is required")
    for both in ([named, StateUpdate(None, special)], [StateUpdate(None, special), named]):
        refused(saver, lambda both=both: bulk(way, graph, on(), both), InvalidUpdateError, "must be the only update")
    refused(saver, lambda: bulk(way, graph, on(), [named], [named, unnamed]), InvalidUpdateError, "as_node is required")


def test_P51_several_edits_in_one_name_are_all_told(way: Way, saver: Saver, tmp_path: Any):
    graph = steered(way, saver, Ran(way))
    way.invoke(graph, {"log": []}, on())
    words = [word * 500 for word in "123"]
    bulk(way, graph, on(), [StateUpdate({"log": [words[0]]}, "y"), *(StateUpdate({"log": [word]}, "x") for word in words[1:])])
    expected = {"y": {"log": [words[0]]}, "x": [{"log": [word]} for word in words[1:]]}
    assert way.state(graph, on()).metadata["writes"] == expected  # type: ignore[index]
    assert way.state(graph, on()).values["log"] == ["x", "y", *words]
    if isinstance(saver, SqliteSaver):
        with SqliteSaver(tmp_path / "promises.db") as again:
            state = way.state(steered(way, again, Ran(way)), on())
            assert (state.metadata["writes"], state.values["log"]) == (expected, ["x", "y", *words])  # type: ignore[index]
            assert way._do(again, "verify", "t")


def sent_and_triggered(way: Way, saver: Saver, ran: Ran) -> Any:
    """`work` is to run three times: for two Sends, and because an edge leads to it."""

    def work(given: Any) -> Any:
        return {"seen": [f"{given if isinstance(given, int) else 'edge'}:{interrupt('?')}"]}

    builder = side_by_side(Seen, spread=ran("spread", lambda _: {}))
    builder.add_node("work", ran("work", work)).add_edge("spread", "work")
    builder.add_conditional_edges("spread", lambda _: [Send("work", n) for n in range(2)], ["work"])
    graph = builder.compile(checkpointer=saver)
    way.invoke(graph, {"seen": []}, on())
    ran.take()
    return graph


@pytest.mark.parametrize("at", range(3))
@pytest.mark.parametrize("as_node", ["work", None])
def test_P22_the_task_that_is_named_by_its_id_is_closed_and_no_other(way: Way, saver: Saver, at: int, as_node: Any):
    graph = sent_and_triggered(way, saver, Ran(way))
    tasks = way.state(graph, on()).tasks
    way.edit(graph, on(), {"seen": ["by hand"]}, as_node=as_node, task_id=tasks[at].id)
    left = way.state(graph, on()).tasks
    assert [task.id for task in left] == [task.id for task in tasks if task.id != tasks[at].id]
    way.invoke(graph, Command(resume={task.interrupts[0].id: "r" for task in left}), on())
    every = ["0:r", "1:r", "edge:r"]
    assert sorted(way.state(graph, on()).values["seen"]) == sorted(["by hand", *every[:at], *every[at + 1 :]])


def test_P22_each_of_several_edits_closes_a_task_of_its_own(way: Way, saver: Saver):
    graph = sent_and_triggered(way, saver, Ran(way))
    first, second, by_edge = way.state(graph, on()).tasks
    edits = [StateUpdate({"seen": [str(n)]}, None, task.id) for n, task in enumerate((second, by_edge))]
    bulk(way, graph, on(), edits)
    assert [task.id for task in way.state(graph, on()).tasks] == [first.id]

    unnamed = [StateUpdate({"seen": [str(n)]}, "work") for n in range(3)]
    graph = sent_and_triggered(way, saver, Ran(way))
    for count in (1, 2, 3):
        way.invoke(graph, {"seen": []}, on(str(count)))
        bulk(way, graph, on(str(count)), unnamed[:count])
        assert len(way.state(graph, on(str(count))).tasks) == 3 - count
    assert status_of(saver, "3") == ("idle", True)


def test_P22_a_task_that_is_not_to_run_cannot_be_stood_for(way: Way, saver: Saver):
    graph = sent_and_triggered(way, saver, Ran(way))
    old = way.history(graph, on())[-2]
    for wrong in ("nothing", old.tasks[0].id, 5):
        for as_node in ("work", None, END):
            refused(
                saver,
                lambda wrong=wrong, as_node=as_node: way.edit(graph, on(), {"seen": []}, as_node=as_node, task_id=wrong),
                TaskNotFound,
                "of node 'work'",
            )
    here = way.state(graph, on()).tasks[0].id
    for other in ("spread", START, END, "nobody"):
        refused(
            saver,
            lambda other=other: way.edit(graph, on(), {"seen": []}, as_node=other, task_id=here),
            InvalidUpdateError,
            "is one of node 'work'",
        )


def test_P23_a_task_of_an_old_checkpoint_is_stood_for_in_a_new_branch(way: Way, saver: Saver):
    graph = sent_and_triggered(way, saver, Ran(way))
    asked = way.state(graph, on())
    way.invoke(graph, Command(resume={pause.id: "old" for pause in asked.interrupts}), on())
    old = way.state(graph, asked.config)
    edited = way.edit(graph, asked.config, {"seen": ["by hand"]}, task_id=asked.tasks[1].id)
    assert [task.name for task in way.state(graph, edited).tasks] == ["work", "work"]
    out = way.invoke(graph, None, edited)
    done = way.invoke(graph, Command(resume={pause.id: "new" for pause in out["__interrupt__"]}), on())
    assert sorted(done["seen"]) == ["0:new", "by hand", "edge:new"]
    assert way.state(graph, asked.config) == old


# --------------------------------------------------------------------------------------------------- as the end, an input, a copy


def test_P22_an_edit_as_the_end_clears_what_was_to_run_and_keeps_what_had_come(way: Way, saver: Saver):
    ran = Ran(way)
    graph = side_by_side(Log, done=ran("done"), ask=ran.asks("ask")).compile(checkpointer=saver)
    way.invoke(graph, {"log": []}, on())
    refused(saver, lambda: way.edit(graph, on(), {"log": []}, as_node=END), InvalidUpdateError, "takes no values")
    way.edit(graph, on(), None, as_node=END)
    state = way.state(graph, on())
    assert (state.values, state.next, state.interrupts) == ({"log": ["done"]}, (), ())
    assert status_of(saver) == ("idle", True)
    ran.take()
    assert way.invoke(graph, None, on()) == {"log": ["done"]}
    assert ran.take() == []
    way.edit(graph, on("new"), None, as_node=END)
    assert (way.state(graph, on("new")).next, way.state(graph, on("new")).values) == ((), {"log": []})


def states(way: Way, saver: Saver, ran: Ran) -> dict[str, Any]:
    """Threads as an edit may find them, by name."""
    fails = [True]

    def node(state: Any) -> Any:
        if "ask" in state["log"]:
            return {"log": [interrupt("?")]}
        if "fail" in state["log"] and fails:
            fails.clear()
            raise ConnectionError("down")
        return {"log": ["node"]}

    graph = in_a_row(Log, ("node", ran("node", node)), ("last", ran("last"))).compile(checkpointer=saver)
    way.invoke(graph, {"log": ["ask"]}, on("paused"))
    with pytest.raises(ConnectionError):
        way.invoke(graph, {"log": ["fail"]}, on("failed"))
    way.invoke(graph, {"log": []}, on("finished"))
    way.invoke(graph, {"log": []}, on("stopped"), interrupt_before=["last"])
    way.invoke(graph, {"log": []}, on("deleted"))
    way.delete(saver, "deleted")
    return dict.fromkeys(("paused", "failed", "finished", "stopped", "deleted", "new"), graph)


def test_P18_an_edit_as_an_input_is_taken_in_like_one(way: Way, saver: Saver):
    ran = Ran(way)
    for thread, graph in states(way, saver, ran).items():
        before = way.state(graph, on(thread))
        refused(
            saver,
            lambda graph=graph, thread=thread: way.edit(graph, on(thread), {"lug": []}, as_node="__input__"),
            UnknownKey,
            "did you mean",
        )
        way.edit(graph, on(thread), {"log": ["in"]}, as_node="__input__")
        state = way.state(graph, on(thread))
        assert (state.next, state.interrupts, state.metadata["source"]) == ((START,), (), "input")  # type: ignore[index]
        earlier = [word for word in (before.values or {}).get("log", []) if word != "ask"]
        ran.take()
        if thread != "paused":
            assert way.invoke(graph, None, on(thread))["log"] == [*earlier, "in", "node", "last"]
            assert ran.take() == ["node", "last"]


def test_P18_an_edit_of_a_thread_in_whatever_state_goes_on_from_there(way: Way, saver: Saver):
    """What it was to run, it runs; what had failed runs anew; what was over stays so; a deleted thread is a new one."""
    expected = {
        "paused": ["ask", "edit"],
        "failed": ["fail", "edit", "node", "last"],
        "finished": ["node", "last", "edit"],
        "stopped": ["node", "edit", "last"],
        "deleted": ["edit", "node", "last"],
        "new": ["edit", "node", "last"],
    }
    for thread, graph in states(way, saver, Ran(way)).items():
        asked = way.state(graph, on(thread)).interrupts
        way.edit(graph, on(thread), {"log": ["edit"]})
        assert way.state(graph, on(thread)).interrupts == asked
        assert status_of(saver, thread) == ("interrupted" if thread in ("paused", "stopped") else "idle", True)
        assert way.invoke(graph, None, on(thread))["log"] == expected[thread], thread
    assert way.invoke(graph, Command(resume="yes"), on("paused"))["log"] == ["ask", "edit", "yes", "last"]


def test_P18_a_copy_of_what_waits_asks_for_itself(way: Way, saver: Saver):
    graph = in_a_row(Log, ("a", Ran(way)("a")), ("ask", Ran(way).asks("ask"))).compile(checkpointer=saver)
    way.invoke(graph, {"log": []}, on())
    asked = way.state(graph, on())
    copied = way.edit(graph, on(), None, as_node="__copy__")
    state = way.state(graph, copied)
    assert (state.next, state.parent_config, state.interrupts) == (("ask",), asked.parent_config, ())
    way.invoke(graph, None, on())
    assert way.invoke(graph, Command(resume="copy"), on())["log"] == ["a", "copy"]
    assert way.state(graph, asked.config) == asked
    assert way.invoke(graph, Command(resume="first"), asked.config)["log"] == ["a", "first"]


def test_P50_a_copy_that_cannot_be_made_is_refused(way: Way, saver: Saver):
    graph = steered(way, saver, Ran(way))
    refused(saver, lambda: way.edit(graph, on(), None, as_node="__copy__"), InvalidUpdateError, "the thread has none")
    way.invoke(graph, {"log": []}, on())
    for values in ({"log": ["x"]}, "text", 5, [5], [({"log": []}, 5)]):
        refused(
            saver, lambda values=values: way.edit(graph, on(), values, as_node="__copy__"), InvalidUpdateError, r"edits|as_node"
        )
    unknown = [({"log": []}, "nobody")]
    refused(saver, lambda: way.edit(graph, on(), unknown, as_node="__copy__"), InvalidUpdateError, "nobody")
    steps = ([StateUpdate({"log": []}, "x")], [StateUpdate(None, "__copy__")])
    refused(saver, lambda: bulk(way, graph, on(), *steps), InvalidUpdateError, "with the first super-step")


@pytest.mark.parametrize("forks", [False, True])
def test_P13_a_question_that_an_edit_has_closed_takes_no_answer(way: Way, saver: Saver, forks: bool):
    graph = in_a_row(Log, ("ask", Ran(way).asks("ask")), ("last", Ran(way)("last"))).compile(checkpointer=saver)
    asked = way.invoke(graph, {"log": []}, on())["__interrupt__"][0]
    config = on()
    if forks:
        config = way.state(graph, on()).config
        way.edit(graph, config, {"log": []})
        with pytest.raises(UnknownInterruptError):
            way.invoke(graph, Command(resume={"0" * 32: "late"}), on())
    way.edit(graph, config, {"log": ["by hand"]}, as_node="ask")
    assert (way.state(graph, on()).next, status_of(saver)) == (("last",), ("idle", True))
    assert way._do(saver, "list_interrupts").items == ()
    for answer in ("late", None, {asked.id: "late"}):
        refused(saver, lambda answer=answer: way.invoke(graph, Command(resume=answer), on()), UnknownInterruptError, "no open")
    assert way.invoke(graph, None, on())["log"] == ["by hand", "last"]


def test_P13_an_edit_at_a_breakpoint_leaves_the_thread_there(way: Way, saver: Saver):
    ran = Ran(way)
    graph = in_a_row(Log, ("a", ran("a")), ("b", ran("b"))).compile(checkpointer=saver, interrupt_before=["b"])
    way.invoke(graph, {"log": []}, on())
    way.edit(graph, on(), {"log": ["edit"]})
    assert status_of(saver) == ("interrupted", True)
    assert way.invoke(graph, Command(resume="anything"), on())["log"] == ["a", "edit", "b"]
