"""Configs: checking, merging, and what of them is stored."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from perdure.errors import InvalidConfig, MissingThreadId
from perdure.runtime.config import checked, inherited, merged, recursion_limit, stored_metadata, thread_of


@pytest.mark.parametrize("config", [None, {}])
def test_nothing_is_a_config(config: Any) -> None:
    assert checked(config) == {}


def test_a_config_is_copied_not_kept() -> None:
    given: dict[str, Any] = {"tags": ["t"], "configurable": {"thread_id": "1"}}
    found = checked(given)
    assert found == given
    assert found is not given


@pytest.mark.parametrize(
    ("config", "match"),
    [
        ({"configurabel": {}}, "did you mean 'configurable'"),
        ({"thread_id": "1"}, "unknown config key 'thread_id'"),
        ({1: 2}, "unknown config key 1"),
        ({"recursion_limit": 0}, "at least 1"),
        ({"recursion_limit": True}, "at least 1"),
        ({"max_concurrency": 0}, "max_concurrency must be at least 1, got 0"),
        ({"max_concurrency": -1}, "max_concurrency must be at least 1, got -1"),
        ({"max_concurrency": "2"}, "max_concurrency must be at least 1, got '2'"),
        ({"configurable": ["thread_id"]}, "must be a dict"),
        ("thread", "a config is a dict"),
    ],
    ids=str,
)
def test_P50_what_is_no_config(config: Any, match: str) -> None:
    with pytest.raises(InvalidConfig, match=match):
        checked(config)


def test_merging_adds_tags_joins_dicts_and_replaces_the_rest() -> None:
    base: Any = {
        "tags": ["a"],
        "metadata": {"x": 1, "y": 1},
        "configurable": {"k": 1},
        "run_name": "base",
        "recursion_limit": 5,
    }
    given: Any = {"tags": ["b", "a"], "metadata": {"y": 2}, "configurable": {"l": 2}, "run_name": "given", "callbacks": None}
    assert merged(base, given) == {
        "tags": ["a", "b"],
        "metadata": {"x": 1, "y": 2},
        "configurable": {"k": 1, "l": 2},
        "run_name": "given",
        "recursion_limit": 5,
    }
    assert base["tags"] == ["a"], "neither is changed"
    assert merged({}, given) is given


def test_a_run_inside_another_takes_over_all_but_its_names() -> None:
    assert inherited({"tags": ["t"], "run_name": "r", "run_id": 1, "recursion_limit": 3}) == {
        "tags": ["t"],
        "recursion_limit": 3,
    }


def test_P39_a_thread_id_is_text() -> None:
    number = uuid.uuid4()
    for thread, text in (("t", "t"), (7, "7"), (number, str(number))):
        assert thread_of({"configurable": {"thread_id": thread}}) == text
    for wrong in (True, 1.5, b"t", ["t"], ("t",)):
        with pytest.raises(TypeError, match="thread_id must be text"):
            thread_of({"configurable": {"thread_id": wrong}})
    for text in ("", "a\x00b"):
        with pytest.raises(InvalidConfig):
            thread_of({"configurable": {"thread_id": text}})


@pytest.mark.parametrize(
    "config", [{}, {"configurable": None}, {"configurable": {}}, {"configurable": {"thread_id": None}}], ids=str
)
def test_P3_a_missing_thread_id_is_taught(config: Any) -> None:
    with pytest.raises(MissingThreadId, match="thread_id") as caught:
        thread_of(config)
    assert isinstance(caught.value, KeyError)
    assert isinstance(caught.value, ValueError)


def test_the_default_recursion_limit() -> None:
    assert recursion_limit({}) == recursion_limit({"recursion_limit": None}) == 10_007
    assert recursion_limit({"recursion_limit": 3}) == 3


def test_P41_scalars_of_metadata_are_stored_and_of_configurable_what_is_named() -> None:
    config: dict[str, Any] = {
        "metadata": {
            "s": "te\x00xt",
            "i": 1,
            "f": 1.5,
            "b": True,
            "n": None,
            "l": [1],
            "__private": 1,
            "thread_id": "t",
            "langgraph_step": 1,
        },
        "configurable": {"thread_id": "t", "user": "u", "other": "o", "deep": {}, "s": "configurable"},
    }
    assert stored_metadata(config) == {"s": "text", "i": 1, "f": 1.5, "b": True}
    assert stored_metadata(config, ("user", "deep", "missing", "s")) == {"s": "text", "i": 1, "f": 1.5, "b": True, "user": "u"}
    assert stored_metadata({}) == {}
