"""P50: what cannot be meant is refused where it is given, by an error with a code that says what was expected."""

from __future__ import annotations

from typing import Any

import pytest

from perdure import END, START, InMemorySaver, StateGraph
from perdure.checkpoint.base import empty_checkpoint
from perdure.checkpoint.retention import Retention
from perdure.checkpoint.saver import Saver
from perdure.errors import InvalidArgument, InvalidConfig, InvalidGraph, InvalidUpdateError, WrongType
from tests.promises.ways import Way

CONFIG: Any = {"configurable": {"thread_id": "t"}}


def number_graph(saver: Saver | None = None, **options: Any) -> Any:
    drawing = StateGraph(int).add_node("a", lambda number: number + 1).add_edge(START, "a").add_edge("a", END)
    return drawing.compile(saver or InMemorySaver(), **options)


def with_conf(**more: Any) -> Any:
    return {"configurable": {"thread_id": "t", **more}}


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ({**CONFIG, "max_concurrency": "4"}, "max_concurrency"),
        ({**CONFIG, "max_concurrency": 1.5}, "max_concurrency"),
        ({**CONFIG, "metadata": 5}, "metadata"),
        ({**CONFIG, "metadata": {5: "x"}}, "metadata"),
        ({**CONFIG, "tags": "abc"}, "list of texts"),
        ({**CONFIG, "tags": [1]}, "list of texts"),
        ({**CONFIG, "tags": 5}, "list of texts"),
        ({"configurable": 5}, "must be a dict"),
        (with_conf(checkpoint_ns=5), "must be text"),
        (with_conf(checkpoint_id=5), "must be text"),
        (with_conf(branch=5), "must be text"),
        (with_conf(thread_id=10**5000), "4300 digits"),
    ],
)
def test_P50_a_config_whose_values_are_of_other_kinds(config: Any, says: str):
    with pytest.raises(InvalidConfig, match=says):
        number_graph().invoke(1, config)
    with pytest.raises(InvalidConfig, match=says):
        number_graph().get_state(config)


@pytest.mark.parametrize("options", [{"busy_timeout": "x"}, {"busy_timeout": float("nan")}, {"busy_timeout": -1}])
def test_P50_a_timeout_that_is_no_number_of_seconds(options: Any):
    with pytest.raises(InvalidConfig, match="busy_timeout must be a number of seconds"):
        number_graph().invoke(1, CONFIG, on_busy="wait", **options)


@pytest.mark.parametrize(
    ("option", "says"),
    [
        (
            {"recursion_limit": 5},
            r"recursion_limit=5 \(it belongs into the config: \{'recursion_limit': \.\.\.\}\); its options are",
        ),
        ({"thread_id": "1"}, r"thread_id='1' \(it belongs into the config: \{'configurable': \{'thread_id': \.\.\.\}\}\)"),
        ({"branch": "b"}, r"branch='b' \(it belongs into the config: \{'configurable': \{'branch'"),
        ({"checkpoint_during": False}, r"\(durability='exit' stands for checkpoint_during=False\)"),
        ({"on_bussy": "wait"}, r"on_bussy='wait' \(did you mean 'on_busy'\?\)"),
        ({"nothing": 1}, "nothing=1; its options are context, "),
    ],
)
def test_P50_what_is_no_option_of_a_call_is_told_where_it_belongs(way: Way, option: dict[str, Any], says: str):
    with pytest.raises(WrongType, match=says):
        way.invoke(number_graph(), 1, CONFIG, **option)


@pytest.mark.parametrize("names", [5, [5], [["a"]], object()])
def test_P50_breakpoints_that_are_no_list_of_names(names: Any):
    with pytest.raises((InvalidConfig, InvalidGraph)):
        number_graph().invoke(1, CONFIG, interrupt_before=names)
    with pytest.raises((InvalidGraph, TypeError)):
        number_graph(interrupt_after=names)


@pytest.mark.parametrize("options", [{"stream_mode": 5}, {"stream_mode": "x"}, {"stream_mode": [[]]}, {"version": "v9"}])
def test_P50_a_stream_that_there_is_not(options: Any):
    with pytest.raises(InvalidArgument, match="stream"):
        number_graph().stream(1, CONFIG, **options)


@pytest.mark.parametrize("options", [{"limit": "x"}, {"limit": -1}, {"before": 5}, {"filter": 5}])
def test_P50_a_history_that_cannot_be_meant(options: Any):
    with pytest.raises(InvalidConfig, match="must"):
        list(number_graph().get_state_history(CONFIG, **options))


@pytest.mark.parametrize("edits", [5, [5], [[5]], ["ab"], [["ab"]], [[(1, 5)]], [[(1, "a", None, None, None)]], [{"a": 1}]])
def test_P50_edits_that_are_no_edits(edits: Any):
    graph = number_graph()
    with pytest.raises(InvalidUpdateError, match=r"edits|as_node"):
        graph.bulk_update_state(CONFIG, edits)
    assert graph.get_state(CONFIG).created_at is None


def test_P50_an_edit_as_what_is_no_name():
    with pytest.raises(InvalidUpdateError, match="as_node"):
        number_graph().update_state(CONFIG, 1, as_node=[])


@pytest.mark.parametrize("schema", [5, 1.5, b"x", {int}, None, "State", [int]])
def test_P50_a_schema_that_is_no_type(schema: Any):
    with pytest.raises(InvalidGraph, match="must be a class"):
        StateGraph(schema)


def test_P50_a_batch_of_what_is_no_list():
    for inputs in (5, "ab", {1}):
        with pytest.raises(TypeError, match="takes a list of inputs"):
            number_graph().batch(inputs)


@pytest.mark.parametrize("seconds", [0, -1, "30", float("nan"), float("inf"), 1e300])
def test_P50_a_lease_that_is_no_number_of_seconds(seconds: Any):
    with pytest.raises(ValueError, match="lease_seconds"):
        InMemorySaver(lease_seconds=seconds)


@pytest.mark.parametrize("keys", ["user", 5])
def test_P50_keys_to_persist_that_are_no_list(keys: Any):
    with pytest.raises(TypeError, match="persist is a list"):
        InMemorySaver(persist=keys)


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ("t", "a config is a dict"),
        (["t"], "a config is a dict"),
        ({"configurable": "t"}, "must be a dict"),
        (None, "names no thread"),
    ],
)
def test_P50_a_saver_refuses_a_config_that_is_none(saver: Saver, config: Any, says: str):
    calls = (
        lambda: saver.get_tuple(config),
        lambda: saver.pin(config, "name"),
        lambda: saver.put(config, empty_checkpoint(), {}, {}),
        lambda: saver.put_writes(config, [("a", 1)], "task"),
    )
    for call in calls:
        with pytest.raises(InvalidConfig, match=says):
            call()
    if config is not None:
        for options in ({"config": config}, {"config": None, "before": config}):
            with pytest.raises(InvalidConfig, match=says):
                list(saver.list(**options))


@pytest.mark.parametrize(
    ("name", "arguments", "options", "says"),
    [
        ("prune", (["chat"],), {}, r"prune\(threads=\['chat'\], keep_last=1\)"),
        ("prune", (["chat"],), {"strategy": "keep_latest"}, r"no argument 'strategy': prune\(threads="),
        ("prune", (), {"keep_last": 1, "thread": ["chat"]}, "thread_id must be text"),
        ("sweep", ("user-7:",), {}, r"sweep\(thread_prefix='user-7:'\)"),
        ("sweep", (), {"thread_prefix": 5}, "thread_prefix must be text, got int"),
        ("list_threads", ("idle",), {}, r"by name, and got str without one: list_threads\(status="),
    ],
)
def test_P50_a_saver_says_how_its_methods_are_called(
    way: Way, saver: Saver, name: str, arguments: Any, options: Any, says: str
):
    saver.retention = (Retention(keep_last=1),)
    for _ in range(2):
        number_graph(saver).invoke(1, CONFIG)
    with pytest.raises(WrongType, match=says):
        way._do(saver, name, *arguments, **options)
    assert len(list(saver.list(CONFIG))) == 6


def test_P50_namespaces_that_are_no_list(saver: Saver):
    names: Any = 5
    with pytest.raises(InvalidConfig, match="namespaces must be a list of names"):
        saver.prune(keep_last=1, namespaces=names)
