"""P2 and the runtime wherever code of a user runs: nodes, conditional edges, error handlers, Sends, subgraphs, durable steps."""

from __future__ import annotations

import traceback
from contextvars import ContextVar
from typing import Any

import pytest

from perdure.checkpoint.saver import Saver
from perdure.config import get_config, get_store
from perdure.errors import GraphDrained, NodeError, OutsideOfRun
from perdure.graph import END, START, StateGraph
from perdure.runtime import RunControl, Runtime, get_runtime
from perdure.types import Command, RunnableConfig, Send, StreamWriter, interrupt
from tests.func.bodies import Workshop
from tests.promises.ways import Log, Way, chain, on

VAR: ContextVar[str] = ContextVar("VAR", default="unset")
STORE = object()


@pytest.mark.parametrize("of", ["node", START])
@pytest.mark.parametrize("found", ["by annotation", "by name"])
def test_a_conditional_edge_is_given_what_a_node_is_given(way: Way, saver: Saver, found: str, of: str) -> None:
    seen: list[Any] = []

    def by_annotation(_: Log, what: Runtime[Any], where: RunnableConfig, writer: StreamWriter) -> str:
        writer("sent")
        seen.append([what.context, what.store, what.previous, where["configurable"]["user"], what is get_runtime()])
        seen.append([get_store(), get_config()["configurable"]["user"]])
        return END

    def by_name(_: Log, runtime, config, store, writer, previous) -> str:  # noqa: ANN001 - it is the name that counts
        writer("sent")
        seen.append([runtime.context, store, previous, config["configurable"]["user"], runtime is get_runtime()])
        seen.append([get_store(), get_config()["configurable"]["user"]])
        return END

    path = way.node(by_name if found == "by name" else by_annotation)
    drawing: Any = StateGraph(Log).add_node("node", way.node(lambda _: None)).add_conditional_edges(of, path, [END, "node"])
    if of != START:
        drawing.add_edge(START, "node")
    graph = drawing.compile(saver, store=STORE)
    told = way.stream(graph, {"log": []}, on(user="u"), context="c", stream_mode="custom")
    assert seen == [["c", STORE, None, "u", True], [STORE, "u"]]
    assert told == ["sent"]


class Keys:
    """The keys for side effects that codes were given."""

    def __init__(self) -> None:
        self.of: dict[str, list[str]] = {}

    def note(self, who: str) -> int:
        """Note the key of the code that calls this; how many it has noted."""
        found = self.of.setdefault(who, [])
        found.append(get_runtime().idempotency_key)
        return len(found)


def test_P2_keys_are_the_same_over_a_pause_and_differ_between_sends_nodes_handlers_and_subgraphs(
    way: Way, saver: Saver
) -> None:
    keys = Keys()

    def asks(_: Any) -> dict[str, Any]:
        keys.note("asks")
        return {"log": [interrupt("q")]}

    def worker(given: Any) -> dict[str, Any]:
        keys.note(f"worker {given}")
        return {"log": [given]}

    def breaks(_: Any) -> None:
        keys.note("breaks")
        raise ValueError("mine")

    def mends(_: Any, error: NodeError) -> dict[str, Any]:
        keys.note("mends")
        return {"log": ["mended"]}

    drawing: Any = StateGraph(Log).add_node("asks", way.node(asks)).add_node("worker", way.node(worker))
    drawing.add_node("breaks", way.node(breaks), error_handler=way.node(mends))
    drawing.add_node(
        "inner", chain(("asks in it", way.node(lambda _: keys.note("inner") and {"log": [interrupt("i")]}))).compile()
    )
    for name in ("asks", "breaks", "inner"):
        drawing.add_edge(START, name)
    graph = drawing.add_conditional_edges(START, lambda _: [Send("worker", "x"), Send("worker", "y")]).compile(saver)
    out = way.invoke(graph, {"log": []}, on())
    answers = {question.id: question.value for question in out["__interrupt__"]}
    way.invoke(graph, Command(resume=answers), on())
    assert {who: len(found) for who, found in keys.of.items()} == {
        "asks": 2,
        "inner": 2,
        "worker x": 1,
        "worker y": 1,
        "breaks": 1,
        "mends": 1,
    }
    assert all(len(set(found)) == 1 for found in keys.of.values()), "the same in every entry"
    different = {who: found[0] for who, found in keys.of.items()}
    assert all(different.values())
    assert len(set(different.values())) == len(different)


def test_P2_the_key_of_a_durable_step_differs_in_a_fork_and_from_its_nodes(way: Way, saver: Saver) -> None:
    shop = Workshop(way.colour)
    keys = Keys()
    step = shop.step(lambda: keys.note("step"), name="step")

    def body(_: Any) -> Any:
        keys.note("node")
        yield step()

    graph = chain(("node", shop.body(body))).compile(saver)
    way.invoke(graph, {"log": []}, on())
    (start,) = (state for state in way.history(graph, on()) if state.next == ("node",))
    way.invoke(graph, None, start.config)
    assert {who: len(set(found)) for who, found in keys.of.items()} == {"node": 2, "step": 2}
    assert not set(keys.of["node"]) & set(keys.of["step"])


def test_a_heartbeat_outside_of_a_node_is_nobodys(way: Way, saver: Saver) -> None:
    kept: list[Runtime[Any]] = []

    def node(_: Log, runtime: Runtime[Any]) -> None:
        runtime.heartbeat()  # nobody set a timeout, and it is fine to say that one lives
        kept.append(runtime)

    way.invoke(chain(("node", way.node(node))).compile(saver), {"log": []}, on())
    kept[0].heartbeat()
    Runtime().heartbeat()
    with pytest.raises(OutsideOfRun, match="outside of a running graph"):
        get_runtime().heartbeat()


def test_the_callers_context_variables_reach_entrypoints_and_steps_and_theirs_stay_there(way: Way, saver: Saver) -> None:
    shop = Workshop(way.colour)
    seen: list[str] = []

    def look() -> None:
        seen.append(VAR.get())
        VAR.set("step")

    step = shop.step(look, name="look")

    def body(_: Any) -> Any:
        seen.append(VAR.get())
        VAR.set("entrypoint")
        yield step()
        yield [step(), step()]
        return VAR.get()

    flow = shop.flow(body, saver)
    token = VAR.set("caller")
    try:
        assert shop.invoke(flow, 1, on()) == "entrypoint"
        assert VAR.get() == "caller"
    finally:
        VAR.reset(token)
    assert seen == ["caller", *["entrypoint"] * 3]


def test_a_request_to_stop_keeps_an_entrypoint_from_beginning_and_lets_one_under_way_end(way: Way, saver: Saver) -> None:
    shop = Workshop(way.colour)
    control = RunControl()

    def ask_to_stop(runtime: Runtime[Any]) -> bool:
        control.request_drain("deploy")
        return runtime.drain_requested

    step = shop.step(ask_to_stop, name="step")

    def body(_: Any) -> Any:
        return (yield step())

    flow = shop.flow(body, saver)
    assert shop.invoke(flow, 1, on(), control=control) is True
    with pytest.raises(GraphDrained, match="deploy"):
        shop.invoke(flow, 1, on("other"), control=control)
    assert shop.state(flow, on("other")).next == ("body",)
    assert shop.invoke(flow, None, on("other")) is False


def boom(_: Any) -> Any:
    raise ValueError("mine")


def raised_by(way: Way, graph: Any, given: Any) -> ValueError:
    with pytest.raises(ValueError, match="mine") as caught:
        way.invoke(graph, given, on())
    return caught.value


def noted(error: BaseException) -> list[str]:
    """The names in the notes of an error, from the inside to the outside."""
    return [note.split("name '")[1].split("' and id '")[0] for note in error.__notes__ if note.startswith("During task")]


@pytest.mark.parametrize("where", ["edge", "edge of START", "handler", "send", "subgraph", "called subgraph", "beside"])
def test_an_exception_ends_in_the_users_frame_and_is_noted_wherever_it_was_raised(way: Way, saver: Saver, where: str) -> None:
    fails, quiet = way.node(boom), way.node(lambda _: None)
    drawing: Any = StateGraph(Log).add_node("a", quiet)
    names = ["a"]
    if where == "edge":
        drawing.add_edge(START, "a").add_conditional_edges("a", fails, [END])
    elif where == "edge of START":
        drawing.add_conditional_edges(START, fails, ["a"])
        names = ["__start__"]
    elif where == "handler":
        drawing.add_node("b", fails, error_handler=fails).add_edge(START, "b")
        names = ["__error_handler__b"]
    elif where == "send":
        drawing.add_node("b", fails).add_conditional_edges(START, lambda _: [Send("b", 1)], ["b"])
        names = ["b"]
    elif where == "subgraph":
        drawing.add_node("b", chain(("x", fails)).compile()).add_edge(START, "b")
        names = ["x", "b"]
    elif where == "called subgraph":
        child = chain(("x", fails)).compile()

        async def acalls(_: Log) -> Any:
            return await child.ainvoke({"log": []})

        drawing.add_node("b", acalls if way.is_async else lambda _: child.invoke({"log": []})).add_edge(START, "b")
        names = ["x", "b"]
    else:
        drawing.add_node("b", fails).add_edge(START, "a").add_edge(START, "b")
        names = ["b"]
    error = raised_by(way, drawing.compile(saver), {"log": []})
    assert traceback.extract_tb(error.__traceback__)[-1].name == "boom"
    assert noted(error) == names
