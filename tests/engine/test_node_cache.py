"""Results of nodes that are taken from a cache."""

from __future__ import annotations

import asyncio
import operator
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any

import pytest
from typing_extensions import TypedDict

from perdure import START, SqliteSaver, StateGraph
from perdure.cache import BaseCache, FullKey, InMemoryCache, Namespace, SqliteCache
from perdure.checkpoint.memory import InMemorySaver
from perdure.checkpoint.saver import Saver
from perdure.constants import TASKS
from perdure.errors import CacheWarning, CorruptRecord, MissingPartWarning, NotStorable, UnknownNode
from perdure.func import entrypoint
from perdure.testing.clock import ManualClock
from perdure.types import CachePolicy, Command, Send, default_cache_key, interrupt
from tests.caches import Full
from tests.engine.colours import Colour, Log, thread


class Counted:
    """A node that counts its runs."""

    def __init__(self, answer: Any = None) -> None:
        self.runs = 0
        self.answer = answer

    def __call__(self, state: Any) -> Any:
        self.runs += 1
        return {"log": [self.runs]} if self.answer is None else self.answer


def cached(colour: Colour, node: Any, policy: CachePolicy | None = None) -> StateGraph[Any, Any, Any, Any]:
    def run(state: Log) -> Any:
        return node(state)

    return StateGraph(Log).add_node("a", colour.node(run), cache_policy=policy or CachePolicy()).add_edge(START, "a")


def test_equal_input_takes_the_kept_result(colour: Colour, saver: Any, cache: Any) -> None:
    node = Counted()
    graph = cached(colour, node).compile(saver, cache=cache)
    assert colour.invoke(graph, {"log": ["x"]}, thread("1"))["log"] == ["x", 1]
    assert colour.invoke(graph, {"log": ["x"]}, thread("2"))["log"] == ["x", 1]
    assert colour.invoke(graph, {"log": ["y"]}, thread("3"))["log"] == ["y", 2]
    assert node.runs == 2


def test_without_a_cache_or_without_a_policy_nothing_is_kept(colour: Colour, cache: Any) -> None:
    node = Counted()
    graph = cached(colour, node).compile()
    with pytest.warns(MissingPartWarning):
        colour.invoke(graph, {"log": []})
    with pytest.warns(MissingPartWarning):
        colour.invoke(graph, {"log": []})
    assert node.runs == 2
    plain = Counted()
    other = StateGraph(Log).add_node("a", colour.node(lambda state: plain(state))).add_edge(START, "a").compile(cache=cache)
    colour.invoke(other, {"log": []})
    colour.invoke(other, {"log": []})
    assert plain.runs == 2


def test_a_replayed_result_is_told_as_cached_and_has_no_task_result(colour: Colour, cache: Any) -> None:
    graph = cached(colour, Counted()).compile(cache=cache)
    modes = ["updates", "tasks", "values"]
    first = colour.stream(graph, {"log": []}, stream_mode=modes)
    again = colour.stream(graph, {"log": []}, stream_mode=modes)
    assert [mode for mode, _ in first] == ["values", "tasks", "updates", "tasks", "values"]
    assert [mode for mode, _ in again] == ["values", "tasks", "updates", "values"]
    assert first[2][1] == {"a": {"log": [1]}}
    assert again[2][1] == {"a": {"log": [1]}, "__metadata__": {"cached": True}}
    assert "input" in again[1][1]


def test_where_one_of_several_is_kept_the_others_run(colour: Colour, saver: Any, cache: Any) -> None:
    node, other = Counted(), Counted()
    graph = cached(colour, node).add_node("b", colour.node(lambda state: other(state))).add_edge(START, "b")
    compiled = graph.compile(saver, cache=cache)
    assert colour.invoke(compiled, {"log": []}, thread("1"))["log"] == [1, 1]
    assert colour.invoke(compiled, {"log": []}, thread("2"))["log"] == [1, 2]
    assert (node.runs, other.runs) == (1, 2)


def test_where_all_are_kept_the_next_step_follows(colour: Colour, kept: Saver, cache: Any) -> None:
    node = Counted()
    graph = cached(colour, node).add_node("b", colour.node(lambda state: node(state)), cache_policy=CachePolicy())
    graph.add_edge(START, "b").add_node("end", colour.says("end")).add_edge(["a", "b"], "end")
    compiled = graph.compile(kept, cache=cache)
    first = colour.invoke(compiled, {"log": []}, thread("1"))
    again = colour.invoke(compiled, {"log": []}, thread("2"))
    assert first == again
    assert node.runs == 2
    results = [task.result for snapshot in colour.history(compiled, thread("2")) for task in snapshot.tasks if task.name == "a"]
    assert results == [{"log": first["log"][:1]}], "replayed results are part of the record like any other"


def test_sends_are_kept_by_what_was_sent(colour: Colour, saver: Any, cache: Any) -> None:
    runs: list[Any] = []

    def worker(arg: Any) -> dict[str, Any]:
        runs.append(arg)
        return {"log": [arg * 2]}

    graph = StateGraph(Log).add_node("w", colour.node(worker), cache_policy=CachePolicy())
    graph.add_conditional_edges(START, lambda state: [Send("w", each) for each in state["log"]])
    compiled = graph.compile(saver, cache=cache)
    assert colour.invoke(compiled, {"log": [1, 2]}, thread("1"))["log"] == [1, 2, 2, 4]
    assert colour.invoke(compiled, {"log": [3, 2]}, thread("2"))["log"] == [3, 2, 6, 4]
    assert sorted(runs) == [1, 2, 3]


def test_commands_and_choices_are_replayed(colour: Colour, cache: Any) -> None:
    node = Counted(Command(update={"log": ["c"]}, goto=[Send("w", 5), "b"]))
    graph = cached(colour, node).add_node("b", colour.says("b")).add_node("w", colour.node(lambda arg: {"log": [arg]}))
    graph.add_node("d", colour.says("d")).add_conditional_edges("a", colour.node(lambda _: "d"))
    compiled = graph.compile(cache=cache)
    first = colour.invoke(compiled, {"log": []})
    assert first == colour.invoke(compiled, {"log": []}) == {"log": ["c", "b", "d", 5]}
    assert node.runs == 1


def test_a_key_function_decides_what_counts_as_equal(colour: Colour, cache: Any) -> None:
    node = Counted()
    policy = CachePolicy(key_func=lambda state: str(len(state["log"])))
    graph = cached(colour, node, policy).compile(cache=cache)
    assert colour.invoke(graph, {"log": ["x"]})["log"] == ["x", 1]
    assert colour.invoke(graph, {"log": ["y"]})["log"] == ["y", 1]


def test_a_key_is_taken_before_the_node_can_change_its_input(colour: Colour, cache: Any) -> None:
    runs: list[Any] = []

    def node(state: Log) -> dict[str, Any]:
        runs.append(list(state["log"]))
        state["log"].append("spoilt")
        return {"log": ["ok"]}

    graph = StateGraph(Log).add_node("w", colour.node(node), cache_policy=CachePolicy())
    graph.add_conditional_edges(START, lambda _: Send("w", {"log": ["in"]}))
    compiled = graph.compile(cache=cache)
    colour.invoke(compiled, {"log": []})
    colour.invoke(compiled, {"log": []})
    assert runs == [["in"]]


def test_a_failing_key_function_fails_the_node(colour: Colour, kept: Saver, cache: Any) -> None:
    node = Counted()
    policy = CachePolicy(key_func=lambda _: (_ for _ in ()).throw(LookupError("no key")))
    graph = cached(colour, node, policy).compile(kept, cache=cache)
    with pytest.raises(LookupError, match="no key") as caught:
        colour.invoke(graph, {"log": []}, thread())
    assert any("'a'" in note for note in caught.value.__notes__)
    assert colour.state(graph, thread()).next == ("a",)
    assert node.runs == 0


@pytest.mark.parametrize("key", [3, None, ("a", 1)], ids=str)
def test_P50_a_key_that_is_neither_text_nor_bytes_is_an_error_that_names_the_node(
    colour: Colour, kept: Saver, cache: Any, key: Any
) -> None:
    node = Counted()
    graph = cached(colour, node, CachePolicy(key_func=lambda state: key)).compile(kept, cache=cache)
    with pytest.raises(TypeError, match="key_func of the cache policy of node 'a' must return text or bytes, got "):
        colour.invoke(graph, {"log": []}, thread())
    assert node.runs == 0
    for fit in ("a", b"a", bytearray(b"a")):
        graph = cached(colour, node, CachePolicy(key_func=lambda state, fit=fit: fit)).compile(cache=cache)
        assert colour.invoke(graph, {"log": []}) == {"log": [1]}


def test_P50_what_no_key_can_be_made_of_says_that_a_policy_may_have_a_function_for_it(colour: Colour, cache: Any) -> None:
    graph = (
        StateGraph(dict).add_node("a", lambda state: None, cache_policy=CachePolicy()).add_edge(START, "a").compile(cache=cache)
    )
    with pytest.raises(TypeError, match="cannot pickle") as caught:
        colour.invoke(graph, {"lock": threading.Lock()})
    assert any("while making the cache key of node 'a': CachePolicy(key_func=...)" in note for note in caught.value.__notes__)


def test_a_lifetime_may_be_a_timedelta(colour: Colour, cache: Any, clock: ManualClock) -> None:
    node = Counted()
    graph = cached(colour, node, CachePolicy(ttl=timedelta(minutes=1))).compile(cache=cache)
    for seconds, runs in ((0, 1), (59, 1), (2, 2)):
        clock.advance(seconds)
        assert colour.invoke(graph, {"log": []}) == {"log": [runs]}


@pytest.mark.parametrize("ttl", ["60", True, float("nan"), [60]], ids=repr)
def test_P50_a_lifetime_that_is_none_is_refused_at_once(ttl: Any) -> None:
    with pytest.raises(TypeError, match="ttl of a CachePolicy must be a number of seconds, a timedelta, or None"):
        CachePolicy(ttl=ttl)
    assert [CachePolicy(ttl=fit).ttl for fit in (None, 0, 1.5)] == [None, 0, 1.5]


@pytest.mark.parametrize(
    "wrong", ["results.db", True, InMemoryCache, object(), InMemorySaver()], ids=lambda one: type(one).__name__
)
def test_P50_what_is_no_cache_is_refused_when_the_graph_is_compiled(wrong: Any) -> None:
    with pytest.raises(TypeError, match=r"cache must be a cache or None, got .*SqliteCache\('results.db'\)"):
        StateGraph(Log).add_node("a", lambda state: None).add_edge(START, "a").compile(cache=wrong)
    with pytest.raises(TypeError, match="cache must be a cache or None"):
        entrypoint(cache=wrong)(lambda given: given)


def test_errors_and_pauses_are_not_kept(colour: Colour, kept: Saver, cache: Any) -> None:
    outcomes: list[Any] = [ConnectionError("down"), "ask", "ok"]

    def node(_: Log) -> dict[str, Any]:
        outcome = outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return {"log": [interrupt("q") if outcome == "ask" else outcome]}

    graph = cached(colour, node).compile(kept, cache=cache)
    with pytest.raises(ConnectionError):
        colour.invoke(graph, {"log": []}, thread("1"))
    assert "__interrupt__" in colour.invoke(graph, {"log": []}, thread("2"))
    assert colour.invoke(graph, {"log": []}, thread("3"))["log"] == ["ok"]
    assert colour.invoke(graph, {"log": []}, thread("4"))["log"] == ["ok"]


def test_a_result_that_cannot_be_kept_is_an_error_that_names_the_node(colour: Colour, cache: Any) -> None:
    graph = cached(colour, Counted({"log": [object()]})).compile(cache=cache)
    with pytest.raises(NotStorable) as caught:
        colour.invoke(graph, {"log": []})
    assert any("'a'" in note for note in caught.value.__notes__)


def test_kept_results_may_expire(colour: Colour, cache: Any, clock: ManualClock) -> None:
    node = Counted()
    graph = cached(colour, node, CachePolicy(ttl=10)).compile(cache=cache)
    colour.invoke(graph, {"log": []})
    clock.advance(9.9)
    colour.invoke(graph, {"log": []})
    assert node.runs == 1
    clock.advance(0.1)
    colour.invoke(graph, {"log": []})
    assert node.runs == 2


def clear(colour: Colour, graph: Any, nodes: Any = None) -> None:
    if colour.calls_async:
        asyncio.run(graph.aclear_cache(nodes))
    else:
        graph.clear_cache(nodes)


def test_clearing_forgets_the_results_of_the_named_nodes(colour: Colour, cache: Any) -> None:
    one, two = Counted(), Counted()
    graph = (
        cached(colour, one)
        .add_node("b", colour.node(lambda state: two(state)), cache_policy=CachePolicy())
        .add_edge(START, "b")
    )
    compiled = graph.compile(cache=cache)
    for nodes, runs in ((["a"], (2, 1)), (None, (3, 2)), ([], (3, 2))):
        colour.invoke(compiled, {"log": []})
        clear(colour, compiled, nodes)
        colour.invoke(compiled, {"log": []})
        assert (one.runs, two.runs) == runs


def test_clearing_without_a_cache_or_of_an_unknown_node_is_an_error(colour: Colour, cache: Any) -> None:
    with pytest.raises(ValueError, match=r"No cache is set for this graph\. Cannot clear cache"):
        clear(colour, cached(colour, Counted()).compile())
    with pytest.raises(UnknownNode, match=r"no such node"):
        clear(colour, cached(colour, Counted()).compile(cache=cache), ["aa"])


def test_graphs_that_share_a_cache_do_not_mix_up_functions_of_one_name(cache: Any) -> None:
    def first(_: Log) -> dict[str, Any]:
        return {"log": ["first"]}

    def second(_: Log) -> dict[str, Any]:
        return {"log": ["second"]}

    for function in (first, second):
        graph = StateGraph(Log).add_node("a", function, cache_policy=CachePolicy()).add_edge(START, "a").compile(cache=cache)
        assert graph.invoke({"log": []})["log"] == [function.__name__]


@dataclass
class Point:
    x: int


class Typed(TypedDict):
    points: Annotated[list[Point], operator.add]


def test_classes_of_the_state_are_kept_as_they_are(colour: Colour, cache: Any) -> None:
    runs: list[int] = []

    def node(_: Typed) -> dict[str, Any]:
        runs.append(1)
        return {"points": [Point(1)]}

    graph = StateGraph(Typed).add_node("a", colour.node(node), cache_policy=CachePolicy()).add_edge(START, "a")
    compiled = graph.compile(cache=cache)
    for _ in range(2):
        assert colour.invoke(compiled, {"points": []}) == {"points": [Point(1)]}
    assert len(runs) == 1


def test_async_runs_use_the_async_half_of_a_cache(colour: Colour) -> None:
    used: list[str] = []

    class Both(BaseCache[Any]):
        def get(self, keys: Sequence[FullKey]) -> dict[FullKey, Any]:
            used.append("get")
            return {}

        def set(self, pairs: Mapping[FullKey, tuple[Any, int | None]]) -> None:
            used.append("set")

        def clear(self, namespaces: Sequence[Namespace] | None = None) -> None:
            used.append("clear")

        async def aget(self, keys: Sequence[FullKey]) -> dict[FullKey, Any]:
            await asyncio.sleep(0)
            used.append("aget")
            return {}

        async def aset(self, pairs: Mapping[FullKey, tuple[Any, int | None]]) -> None:
            await asyncio.sleep(0)
            used.append("aset")

        async def aclear(self, namespaces: Sequence[Namespace] | None = None) -> None:
            await asyncio.sleep(0)
            used.append("aclear")

    graph = cached(colour, Counted()).compile(cache=Both())
    colour.invoke(graph, {"log": []})
    clear(colour, graph)
    assert used == (["aget", "aset", "aclear"] if colour.calls_async else ["get", "set", "clear"])


def test_P2_what_a_node_did_is_not_lost_where_the_cache_has_no_room(colour: Colour, saver: Any) -> None:
    one, two = Counted(), Counted()
    graph = cached(colour, one).add_node("b", colour.node(lambda state: two(state)), cache_policy=CachePolicy())
    compiled = graph.add_edge(START, "b").compile(saver, cache=Full())
    with pytest.warns(CacheWarning, match=r"result of node '.* could not be kept .* OSError: no space left; in the file c\.db"):
        assert colour.invoke(compiled, {"log": []}, thread("1"))["log"] == [1, 1]
    assert (one.runs, two.runs) == (1, 1)


def test_results_are_taken_from_the_file_that_another_process_filled(colour: Colour, tmp_path: Path) -> None:
    runs: list[int] = []

    def node(_: Typed) -> dict[str, Any]:
        runs.append(1)
        return {"points": [Point(1)]}

    for _ in range(2):
        graph = StateGraph(Typed).add_node("a", colour.node(node), cache_policy=CachePolicy()).add_edge(START, "a")
        with SqliteCache[Any](tmp_path / "cache.db") as cache:
            assert colour.invoke(graph.compile(cache=cache), {"points": []}) == {"points": [Point(1)]}
    assert runs == [1]


def test_P7_a_cache_whose_file_is_another_s_is_told_before_a_node_runs(colour: Colour, tmp_path: Path) -> None:
    node = Counted()
    with SqliteSaver(tmp_path / "threads.db") as saver, SqliteCache[Any](tmp_path / "threads.db") as cache:
        graph = cached(colour, node).compile(saver, cache=cache)
        with pytest.raises(CorruptRecord, match="the threads of a saver"):
            colour.invoke(graph, {"log": []}, thread())
        assert node.runs == 0
        assert colour.invoke(cached(colour, node).compile(saver, cache=InMemoryCache()), None, thread())["log"] == [1]


@pytest.mark.parametrize("answer", [Command(goto="b"), Command(goto=Send("b", 1))], ids=["goto", "send"])
def test_P7_a_result_that_leads_to_a_node_which_is_gone_counts_as_not_there(
    colour: Colour, saver: Any, cache: Any, answer: Any
) -> None:
    node = Counted(answer)

    def run(state: Log) -> Any:
        return node(state)

    def leading_to(target: str) -> Any:
        graph = StateGraph(Log).add_node("a", colour.node(run), cache_policy=CachePolicy()).add_edge(START, "a")
        return graph.add_node(target, colour.says(target)).compile(saver, cache=cache)

    assert colour.invoke(leading_to("b"), {"log": []}, thread("1")) == {"log": ["b"]}
    node.answer = Command(goto="c")
    with pytest.warns(CacheWarning, match=r"node 'a' is no result of it in graph .* the node runs again"):
        assert colour.invoke(leading_to("c"), {"log": []}, thread("2")) == {"log": ["c"]}
    assert colour.invoke(leading_to("c"), {"log": []}, thread("3")) == {"log": ["c"]}
    assert node.runs == 2


def test_P7_a_result_with_a_key_that_the_state_no_longer_has_counts_as_not_there(colour: Colour, cache: Any) -> None:
    key = "before"

    def run(_: Any) -> Any:
        return {key: 1}

    def graph_of(state: Any) -> Any:
        graph = StateGraph(state).add_node("a", colour.node(run), cache_policy=CachePolicy()).add_edge(START, "a")
        return graph.compile(cache=cache)

    assert colour.invoke(graph_of(TypedDict("Old", {"x": int, "before": int})), {"x": 0}) == {"x": 0, "before": 1}
    key = "now"
    with pytest.warns(CacheWarning):
        assert colour.invoke(graph_of(TypedDict("New", {"x": int, "now": int})), {"x": 0}) == {"x": 0, "now": 1}


NO_RESULTS = [5, "text", {"log": []}, [1], [["log"]], [["log", [], 1]], [[1, []]], [["__return__", 1]], [[TASKS, 7]]]


@pytest.mark.parametrize("kept", NO_RESULTS, ids=str)
def test_P38_what_is_no_result_counts_as_not_there(colour: Colour, kept: Any) -> None:
    class Odd(InMemoryCache[Any]):
        def get(self, keys: Sequence[FullKey]) -> dict[FullKey, Any]:
            return dict.fromkeys(keys, kept)

    with pytest.warns(CacheWarning, match="counts as not there"):
        assert colour.invoke(cached(colour, Counted()).compile(cache=Odd()), {"log": []}) == {"log": [1]}


def test_equal_arguments_have_one_key_whatever_objects_they_are_made_of() -> None:
    one, other = "abc", b"abc".decode()
    assert one is not other
    assert default_cache_key({"p": one, "q": one}, [Point(1)] * 2) == default_cache_key(
        {"q": other, "p": one}, [Point(1), Point(1)]
    )
    assert default_cache_key([one, one]) != default_cache_key([one, "abd"])
    assert default_cache_key({1, 2}) != default_cache_key([1, 2])


def test_arguments_that_contain_themselves_have_a_key() -> None:
    point: Any = Point(1)
    point.x = point
    assert default_cache_key(point) == default_cache_key(point) != default_cache_key(Point(1))
