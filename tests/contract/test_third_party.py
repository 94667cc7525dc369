"""Savers that others wrote, with the four methods in one colour or the other: graphs run on them whole."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import json
import operator
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from typing import Annotated, Any, TypedDict

import pytest

from perdure.checkpoint.base import WRITES_IDX_MAP, BaseCheckpointSaver, CheckpointTuple
from perdure.errors import CorruptRecord, InvalidConfig, NotStorable, SaveFailed
from perdure.graph import START, StateGraph
from perdure.ids import checkpoint_id
from perdure.testing.saver_suite import GraphSuite, PublicSuite, ThirdPartySuite, TravelSuite
from perdure.types import Command, Send, interrupt


class Keeper:
    """Keeps copies of objects in dicts: what the savers below share."""

    def __init__(self) -> None:
        self.checkpoints: dict[tuple[str, str, str], tuple[Any, Any, str | None]] = {}
        self.writes: dict[tuple[str, str, str], dict[tuple[str, int], tuple[str, str, str, Any]]] = {}
        self.calls: list[str] = []
        self.fail_at = 0

    def called(self, method: str) -> None:
        self.calls.append(method)
        if self.fail_at and len(self.calls) >= self.fail_at:
            raise OSError(f"call {len(self.calls)}, {method}, failed")

    def put(self, config: Any, checkpoint: Any, metadata: Any) -> Any:
        self.called("put")
        conf = config["configurable"]
        key = (conf["thread_id"], conf["checkpoint_ns"], checkpoint["id"])
        self.checkpoints[key] = copy.deepcopy((checkpoint, metadata, conf.get("checkpoint_id")))
        return address(*key)

    def put_writes(self, config: Any, writes: Any, task: str, path: str) -> None:
        self.called("put_writes")
        conf = config["configurable"]
        stored = self.writes.setdefault((conf["thread_id"], conf["checkpoint_ns"], conf["checkpoint_id"]), {})
        for at, (channel, value) in enumerate(writes):
            index = WRITES_IDX_MAP.get(channel, at)
            if index < 0 or (task, index) not in stored:
                stored[task, index] = (path, task, channel, copy.deepcopy(value))

    def get(self, config: Any) -> CheckpointTuple | None:
        conf = config["configurable"]
        place = (conf["thread_id"], conf.get("checkpoint_ns", ""))
        ids = [key[2] for key in self.checkpoints if key[:2] == place]
        wanted = conf.get("checkpoint_id") or max(ids, default=None)
        return self.shown((*place, wanted)) if wanted in ids else None

    def shown(self, key: tuple[str, str, str]) -> CheckpointTuple:
        checkpoint, metadata, parent = copy.deepcopy(self.checkpoints[key])
        writes = sorted(self.writes.get(key, {}).items(), key=lambda item: (item[1][0], *item[0]))
        above = None if parent is None else address(key[0], key[1], parent)
        return CheckpointTuple(address(*key), checkpoint, metadata, above, [copy.deepcopy(write[1:]) for _, write in writes])

    def list(self, config: Any, match: Any, before: Any, limit: Any) -> list[CheckpointTuple]:
        conf = (config or {}).get("configurable", {})
        names = ("thread_id", "checkpoint_ns", "checkpoint_id")
        end = None if before is None else before["configurable"]["checkpoint_id"]
        keys = [
            key
            for key in sorted(self.checkpoints, key=lambda key: key[2], reverse=True)
            if all(name not in conf or conf[name] == value for name, value in zip(names, key, strict=True))
            and (end is None or key[2] < end)
            and (match or {}).items() <= self.checkpoints[key][1].items()
        ]
        return [self.shown(key) for key in keys[:limit]]


def address(thread: str, namespace: str, checkpoint: str) -> Any:
    return {"configurable": {"thread_id": thread, "checkpoint_ns": namespace, "checkpoint_id": checkpoint}}


class SyncSaver(BaseCheckpointSaver[int]):
    """As many are: sync methods only, and a put_writes from before there was a task_path."""

    def __init__(self) -> None:
        super().__init__()
        self.keeper = Keeper()

    def put(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        return self.keeper.put(config, checkpoint, metadata)

    def put_writes(self, config: Any, writes: Any, task_id: str) -> None:  # type: ignore[override]
        self.keeper.put_writes(config, writes, task_id, "")

    def get_tuple(self, config: Any) -> CheckpointTuple | None:
        return self.keeper.get(config)

    def list(self, config: Any, *, filter: Any = None, before: Any = None, limit: Any = None) -> Iterator[CheckpointTuple]:
        yield from self.keeper.list(config, filter, before, limit)


class AsyncSaver(BaseCheckpointSaver[int]):
    """Async methods only, whose client is bound to the loop that it was first used on."""

    def __init__(self) -> None:
        super().__init__()
        self.keeper = Keeper()
        self.loop: asyncio.AbstractEventLoop | None = None

    async def bound(self) -> Keeper:
        await asyncio.sleep(0)
        loop = asyncio.get_running_loop()
        assert self.loop in {None, loop}, "used on another loop"
        self.loop = loop
        return self.keeper

    async def aput(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        return (await self.bound()).put(config, checkpoint, metadata)

    async def aput_writes(self, config: Any, writes: Any, task_id: str, task_path: str = "") -> None:
        (await self.bound()).put_writes(config, writes, task_id, task_path)

    async def aget_tuple(self, config: Any) -> CheckpointTuple | None:
        return (await self.bound()).get(config)

    async def alist(
        self, config: Any, *, filter: Any = None, before: Any = None, limit: Any = None
    ) -> AsyncIterator[CheckpointTuple]:
        for found in (await self.bound()).list(config, filter, before, limit):
            yield found

    async def adelete_thread(self, thread_id: str) -> None:
        keeper = await self.bound()
        keeper.checkpoints = {key: kept for key, kept in keeper.checkpoints.items() if key[0] != thread_id}
        keeper.writes = {key: kept for key, kept in keeper.writes.items() if key[0] != thread_id}


class TestSync(GraphSuite, TravelSuite):
    def make_saver(self, where: Any, **options: Any) -> Any:
        return SyncSaver()


class TestAsync(GraphSuite, TravelSuite):
    def make_saver(self, where: Any, **options: Any) -> Any:
        return AsyncSaver()


class TestAsyncMethods(PublicSuite):
    colours = ("suspending",)

    def make_saver(self, where: Any, **options: Any) -> Any:
        return AsyncSaver()


# --------------------------------------------------------------------------------------------------- beyond what the suite asks


class State(TypedDict):
    n: int
    log: Annotated[list[Any], operator.add]


CONFIG: Any = {"configurable": {"thread_id": "t"}}


def everything(ran: Counter[str]) -> Any:
    """A graph with all that has to be stored: a join, Sends, a failure, a deferred node, pauses, subgraphs of both kinds."""

    def seen(name: str, result: Any = None) -> Any:
        def node(state: Any) -> Any:
            ran[name] += 1
            if name == "bad" and ran[name] == 1:
                raise RuntimeError("bad luck")
            return result(state) if callable(result) else {"log": [name]}

        return node

    child = StateGraph(State)
    child.add_node("first", seen("first"))
    child.add_node("ask", seen("ask", lambda state: {"log": [interrupt("inner?")]}))
    child.add_edge("first", "ask")
    child.add_edge(START, "first")
    memory = StateGraph(State)
    memory.add_node("remember", lambda state: {"n": state["n"] + 1})
    memory.add_edge(START, "remember")
    graph = StateGraph(State)
    graph.add_node("a", seen("a"))
    graph.add_node("bad", seen("bad"))
    graph.add_node("work", seen("work", lambda item: {"log": [item]}))
    graph.add_node("child", child.compile())
    graph.add_node("memory", memory.compile(checkpointer=True))
    graph.add_node("late", seen("late"), defer=True)
    for name in ("a", "bad", "memory"):
        graph.add_edge(START, name)
    graph.add_edge(["a", "bad"], "child")
    graph.add_conditional_edges("a", lambda state: [Send("work", n) for n in range(3)])
    graph.add_edge("a", "late")
    return graph


def finished(graph: Any, ask: Any = None) -> dict[str, Any]:
    """Run the graph over its failure and its question to its end."""
    invoke = ask or graph.invoke
    with pytest.raises(RuntimeError, match="bad luck"):
        invoke({"n": 0, "log": []}, CONFIG)
    assert [pause.value for pause in invoke(None, CONFIG)["__interrupt__"]] == ["inner?"]
    return invoke(Command(resume="yes"), CONFIG)  # type: ignore[no-any-return]


@pytest.mark.parametrize("make", [SyncSaver, AsyncSaver])
@pytest.mark.parametrize("colour", ["sync", "async"])
def test_P2_all_kinds_of_tasks_are_stored_and_found_again(make: Any, colour: str):
    ran: Counter[str] = Counter()
    graph = everything(ran).compile(checkpointer=make())
    with asyncio.Runner() as runner:
        ask = (lambda *args: runner.run(graph.ainvoke(*args))) if colour == "async" else graph.invoke
        result = finished(graph, ask)
    assert set(result["log"]) == {"a", "bad", 0, 1, 2, "late", "first", "yes"}
    assert ran == {"a": 1, "bad": 2, "work": 3, "first": 1, "ask": 2, "late": 1}


def test_a_run_on_it_is_the_run_on_a_saver_of_this_library():
    from perdure.checkpoint.memory import InMemorySaver

    seen = []
    for saver in (SyncSaver(), InMemorySaver()):
        graph = everything(Counter()).compile(checkpointer=saver)
        result = finished(graph)
        history = [
            (each.values, each.next, each.metadata, [(task.name, task.path, task.result) for task in each.tasks])
            for each in graph.get_state_history(CONFIG)
        ]
        seen.append((result, history))
    assert seen[0] == seen[1]


def test_what_is_to_run_next_is_plain_data():
    saver = SyncSaver()
    finished(everything(Counter()).compile(checkpointer=saver))
    assert len(saver.keeper.checkpoints) > 6
    for checkpoint, metadata, _ in saver.keeper.checkpoints.values():
        assert json.loads(json.dumps(checkpoint["control"])) == checkpoint["control"]
        assert json.loads(json.dumps(metadata)) == metadata
        assert set(checkpoint["channel_versions"]) == set(checkpoint["channel_values"])
    for writes in saver.keeper.writes.values():
        for _, _, channel, value in writes.values():
            if channel == "__scheduled__":
                assert json.loads(json.dumps(value)) == value


@pytest.mark.parametrize("at", range(3, 22))
def test_P2_wherever_a_call_fails_no_stored_result_is_computed_again(at: int):
    saver = SyncSaver()
    ran: Counter[str] = Counter()
    builder = StateGraph(State)
    for name in "abc":
        builder.add_node(name, lambda state, name=name: (ran.update([name]), {"log": [name]})[1])
    builder.add_edge(START, "a")
    builder.add_edge(START, "b")
    builder.add_edge(["a", "b"], "c")
    builder.add_conditional_edges("c", lambda state: "a" if len(state["log"]) < 5 else "__end__")
    graph = builder.compile(checkpointer=saver)
    saver.keeper.fail_at = at
    with contextlib.suppress(SaveFailed):
        graph.invoke({"n": 0, "log": []}, CONFIG)
    saver.keeper.fail_at = 0
    stored = {(key[2], task) for key, writes in saver.keeper.writes.items() for task, index in writes if index >= 0}
    before = ran.total()
    result = graph.invoke(None, CONFIG)
    assert result["log"][:3] == ["a", "b", "c"]
    again = {(key[2], task) for key, writes in saver.keeper.writes.items() for task, index in writes if index >= 0}
    assert ran.total() - before == len(again - stored), "what ran is what had no stored result"


def test_P20_a_checkpoint_inside_a_subgraph_is_replayed():
    ran: Counter[str] = Counter()
    graph = everything(ran).compile(checkpointer=SyncSaver())
    finished(graph)
    namespace = next(
        each.tasks[-1].state["configurable"]["checkpoint_ns"]
        for each in graph.get_state_history(CONFIG)
        if each.next and each.next[-1] == "child"
    )
    inside: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": namespace}}
    place = next(each for each in graph.get_state_history(inside) if each.next == ("ask",))
    ran.clear()
    assert [pause.value for pause in graph.invoke(None, place.config)["__interrupt__"]] == ["inner?"]
    assert ran["first"] == 0
    assert ran["ask"] == 1
    assert "other" in graph.invoke(Command(resume="other"), CONFIG)["log"]


def test_a_checkpoint_of_another_runtime_is_shown_and_edited():
    saver = SyncSaver()
    builder = StateGraph(State)
    builder.add_node("a", lambda state: {"n": state["n"] + 1, "log": ["a"]})
    builder.add_edge(START, "a")
    graph = builder.compile(checkpointer=saver)
    made: Any = {
        "v": 4,
        "id": checkpoint_id(139_000_000_000_000_000, 3),
        "ts": "",
        "channel_values": {"n": 7, "log": ["elsewhere"], "branch:to:a": None},
        "channel_versions": {"n": "0001.x", "log": "0001.x", "branch:to:a": "0001.x"},
        "versions_seen": {},
    }
    saver.put({"configurable": {"thread_id": "t", "checkpoint_ns": ""}}, made, {"source": "loop", "step": 3, "user": "ada"}, {})
    snapshot = graph.get_state(CONFIG)
    assert (snapshot.values, snapshot.next) == ({"n": 7, "log": ["elsewhere"]}, ())
    assert snapshot.metadata == {"source": "loop", "step": 3, "user": "ada"}
    assert graph.invoke({"n": 8, "log": ["in"]}, CONFIG) == {"n": 9, "log": ["elsewhere", "in", "a"]}
    assert [(each.metadata or {})["step"] for each in graph.get_state_history(CONFIG)] == [6, 5, 4, 3]


def test_a_saver_that_loses_the_control_is_told_of():
    saver = SyncSaver()
    graph = everything(Counter()).compile(checkpointer=saver)
    finished(graph)
    for checkpoint, _, _ in saver.keeper.checkpoints.values():
        checkpoint["control"].pop("frontier")
    with pytest.raises(CorruptRecord, match="did not return `control`"):
        graph.get_state(CONFIG)


def test_what_its_serializer_refuses_is_refused():
    class Serializing(SyncSaver):
        def put(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
            self.serde.dumps_typed(checkpoint)
            return super().put(config, checkpoint, metadata, new_versions)

    builder = StateGraph(State)
    builder.add_node("a", lambda state: {"log": [lambda: None]})
    builder.add_edge(START, "a")
    graph = builder.compile(checkpointer=Serializing())
    with pytest.raises(NotStorable):
        graph.invoke({"n": 0, "log": []}, CONFIG)


def test_a_saver_that_lacks_a_method_says_which():
    class Half(BaseCheckpointSaver[int]):
        def get_tuple(self, config: Any) -> None:
            return None

    builder = StateGraph(State)
    builder.add_node("a", lambda state: {})
    builder.add_edge(START, "a")
    with pytest.raises(SaveFailed, match=r"Half does not implement put\(\)"):
        builder.compile(checkpointer=Half()).invoke({"n": 0, "log": []}, CONFIG)


def test_the_third_party_suite_is_the_public_part_and_graphs():
    assert issubclass(ThirdPartySuite, PublicSuite)
    assert issubclass(ThirdPartySuite, GraphSuite)


def test_P25_it_has_no_place_for_names_of_branches():
    graph = everything(Counter()).compile(checkpointer=SyncSaver())
    finished(graph)
    with pytest.raises(InvalidConfig, match="SyncSaver has the seeds' four methods only"):
        graph.name_branch(CONFIG, "main")
    with pytest.raises(InvalidConfig, match="SyncSaver"):
        graph.get_state({"configurable": {"thread_id": "t", "branch": "main"}})
    assert graph.branches(CONFIG) == {}
    history = [*graph.get_state_history(CONFIG)]
    assert graph.get_children(history[1].config) == [history[0].config]
    assert "log" in graph.diff(history[-1].config, CONFIG)
