"""The four methods of a saver, and deletion: what any saver has to do, whoever wrote it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from perdure.checkpoint.base import BaseCheckpointSaver, Checkpoint
from perdure.constants import ERROR, INTERRUPT, RESUME
from perdure.ids import checkpoint_id
from perdure.testing.saver_suite.colours import Suite

TICKS = 139_000_000_000_000_000
A, B, C = (f"00000000-0000-0000-0000-00000000000{digit}" for digit in "abc")


def config_of(thread: Any = "t", namespace: str | None = "", checkpoint: str | None = None) -> Any:
    """The config that addresses a checkpoint."""
    found = {"thread_id": thread, "checkpoint_ns": namespace, "checkpoint_id": checkpoint}
    return {"configurable": {key: value for key, value in found.items() if value is not None}}


def checkpoint_of(step: int, values: Mapping[str, Any], versions: Mapping[str, Any] | None = None) -> Checkpoint:
    """A checkpoint of some values, later than those of smaller steps."""
    return {
        "v": 4,
        "id": checkpoint_id(TICKS + step * 10, step),
        "ts": f"2023-11-14T22:13:{20 + step % 40:02}+00:00",
        "channel_values": dict(values),
        "channel_versions": dict(versions) if versions is not None else dict.fromkeys(values, step + 2),
        "versions_seen": {},
        "updated_channels": None,
    }


def put(calls: Any, step: int, values: Mapping[str, Any] | None = None, config: Any = None, **metadata: Any) -> Any:
    """Put a checkpoint; return its address."""
    checkpoint = checkpoint_of(step, {"n": step} if values is None else values)
    kept = {"source": "loop", "step": step, "parents": {}, **metadata}
    return calls.put(config or config_of(), checkpoint, kept, checkpoint["channel_versions"])


def history(calls: Any, length: int, config: Any = None) -> list[Any]:
    """Put a chain of checkpoints; return their addresses, oldest first."""
    addresses: list[Any] = []
    for step in range(length):
        addresses.append(put(calls, step, config=addresses[-1] if addresses else config))
    return addresses


def ids(found: Any) -> list[str]:
    """The ids of listed checkpoints."""
    return [each.checkpoint["id"] for each in found]


class PublicSuite(Suite):
    """`put`, `get_tuple`, `list`, `put_writes`, `delete_thread`."""

    # -- put and get_tuple ----------------------------------------------------------------------------------------------------

    def test_what_was_put_comes_back(self, calls: Any) -> None:
        checkpoint = checkpoint_of(3, {"n": 3, "log": ["a", "b"]})
        metadata = {"source": "loop", "step": 3, "parents": {}, "user": "ada"}
        calls.put(config_of(), checkpoint, metadata, checkpoint["channel_versions"])
        found = calls.get_tuple(config_of())
        for key in ("id", "ts", "channel_values", "channel_versions"):
            assert found.checkpoint[key] == checkpoint[key], key
        assert {key: found.metadata[key] for key in metadata} == metadata
        assert found.config["configurable"] == {"thread_id": "t", "checkpoint_ns": "", "checkpoint_id": checkpoint["id"]}
        assert found.parent_config is None
        assert not found.pending_writes

    def test_what_other_runtimes_keep_in_a_checkpoint_comes_back(self, calls: Any) -> None:
        checkpoint = checkpoint_of(0, {"n": 1})
        checkpoint["versions_seen"] = {"node": {"n": 2}}
        checkpoint["control"] = {"next": [["a", 1]], "é": None}
        calls.put(config_of(), checkpoint, {}, checkpoint["channel_versions"])
        found = calls.get_tuple(config_of()).checkpoint
        assert found["versions_seen"] == {"node": {"n": 2}}
        assert found["control"] == {"next": [["a", 1]], "é": None}

    def test_put_returns_the_address(self, calls: Any) -> None:
        address = put(calls, 0)
        assert address["configurable"]["checkpoint_id"] == checkpoint_of(0, {})["id"]
        assert calls.get_tuple(address).checkpoint["channel_values"] == {"n": 0}

    def test_an_unknown_thread_has_nothing(self, calls: Any) -> None:
        assert calls.get_tuple(config_of("nobody")) is None
        assert calls.get(config_of("nobody")) is None
        assert [*calls.list(config_of("nobody"))] == []

    def test_reading_makes_no_thread(self, calls: Any) -> None:
        assert calls.get_tuple(config_of("nobody")) is None
        assert [*calls.list(None)] == []

    def test_the_newest_is_found_without_an_id(self, calls: Any) -> None:
        history(calls, 3)
        assert calls.get_tuple(config_of()).checkpoint["channel_values"] == {"n": 2}
        assert calls.get(config_of())["channel_values"] == {"n": 2}

    def test_each_is_found_by_its_id(self, calls: Any) -> None:
        for step, address in enumerate(history(calls, 5)):
            found = calls.get_tuple(address)
            assert found.checkpoint["channel_values"] == {"n": step}
            assert found.config["configurable"]["checkpoint_id"] == address["configurable"]["checkpoint_id"]

    def test_an_unknown_id_finds_nothing(self, calls: Any) -> None:
        put(calls, 0)
        assert calls.get_tuple(config_of(checkpoint=checkpoint_of(7, {})["id"])) is None

    def test_a_checkpoint_knows_its_parent(self, calls: Any) -> None:
        first, second = history(calls, 2)
        assert calls.get_tuple(first).parent_config is None
        assert calls.get_tuple(second).parent_config["configurable"]["checkpoint_id"] == first["configurable"]["checkpoint_id"]

    def test_branches_have_one_parent_and_do_not_share(self, calls: Any) -> None:
        root = put(calls, 0, {"n": 0})
        left = put(calls, 1, {"n": 1, "left": True}, root)
        right = put(calls, 2, {"n": 2}, root)
        assert calls.get_tuple(left).checkpoint["channel_values"] == {"n": 1, "left": True}
        assert calls.get_tuple(right).checkpoint["channel_values"] == {"n": 2}
        assert calls.get_tuple(right).parent_config == calls.get_tuple(left).parent_config
        assert calls.get_tuple(config_of()).checkpoint["channel_values"] == {"n": 2}

    def test_a_channel_that_was_not_set_anew_keeps_its_value(self, calls: Any) -> None:
        first = checkpoint_of(0, {"big": "x" * 5000, "n": 0}, {"big": 2, "n": 2})
        address = calls.put(config_of(), first, {"step": 0}, {"big": 2, "n": 2})
        second = checkpoint_of(1, {"big": "x" * 5000, "n": 1}, {"big": 2, "n": 3})
        calls.put(address, second, {"step": 1}, {"n": 3})
        assert calls.get_tuple(config_of()).checkpoint["channel_values"] == {"big": "x" * 5000, "n": 1}

    def test_a_channel_that_is_gone_is_gone(self, calls: Any) -> None:
        first = put(calls, 0, {"a": 1, "b": 2})
        put(calls, 1, {"b": 2}, first)
        assert calls.get_tuple(config_of()).checkpoint["channel_values"] == {"b": 2}

    # -- what is kept apart -----------------------------------------------------------------------------------------------------

    def test_threads_are_apart(self, calls: Any) -> None:
        names = ["a", "ab", "A", "a%", "a_", "a*", "a.b", "a/b", "a|b", "a:b", "'", '"', "é", "e\u0301", "名", " a"]
        for step, name in enumerate(names):
            put(calls, step, {"name": name}, config_of(name))
        for name in names:
            assert [each.checkpoint["channel_values"] for each in calls.list(config_of(name))] == [{"name": name}]
            assert calls.get_tuple(config_of(name)).config["configurable"]["thread_id"] == name

    def test_namespaces_are_apart(self, calls: Any) -> None:
        names = ["", "child:1", "child:1|leaf:2", "child:12", "child", "%", "é"]
        for step, name in enumerate(names):
            put(calls, step, {"name": name}, config_of(namespace=name))
        for name in names:
            found = calls.get_tuple(config_of(namespace=name))
            assert found.checkpoint["channel_values"] == {"name": name}
            assert found.config["configurable"]["checkpoint_ns"] == name
            assert len([*calls.list(config_of(namespace=name))]) == 1

    def test_no_namespace_means_the_root_when_one_is_read_and_all_when_they_are_listed(self, calls: Any) -> None:
        put(calls, 0, {"at": "root"})
        put(calls, 1, {"at": "child"}, config_of(namespace="child:1"))
        assert calls.get_tuple(config_of(namespace=None)).checkpoint["channel_values"] == {"at": "root"}
        assert len([*calls.list(config_of(namespace=None))]) == 2

    # -- list -------------------------------------------------------------------------------------------------------------------

    def test_a_list_is_newest_first(self, calls: Any) -> None:
        addresses = history(calls, 4)
        expected = [each["configurable"]["checkpoint_id"] for each in reversed(addresses)]
        found = [*calls.list(config_of())]
        assert ids(found) == expected
        assert [each.checkpoint["channel_values"]["n"] for each in found] == [3, 2, 1, 0]

    @pytest.mark.parametrize(
        ("limit", "expected"), [(0, []), (1, [4]), (3, [4, 3, 2]), (9, [4, 3, 2, 1, 0]), (None, [4, 3, 2, 1, 0])]
    )
    def test_a_list_has_a_limit(self, calls: Any, limit: int | None, expected: list[int]) -> None:
        history(calls, 5)
        assert [each.metadata["step"] for each in calls.list(config_of(), limit=limit)] == expected

    def test_a_list_begins_before_a_checkpoint(self, calls: Any) -> None:
        addresses = history(calls, 5)
        assert [each.metadata["step"] for each in calls.list(config_of(), before=addresses[2])] == [1, 0]
        assert [each.metadata["step"] for each in calls.list(config_of(), before=addresses[3], limit=2)] == [2, 1]
        assert [*calls.list(config_of(), before=addresses[0])] == []

    def test_a_list_is_filtered_by_metadata(self, calls: Any) -> None:
        for step in range(6):
            put(calls, step, user="ada" if step % 2 else "bob", source="loop" if step else "input")
        assert [each.metadata["step"] for each in calls.list(config_of(), filter={"user": "ada"})] == [5, 3, 1]
        assert [each.metadata["step"] for each in calls.list(config_of(), filter={"user": "bob", "source": "loop"})] == [4, 2]
        assert [each.metadata["step"] for each in calls.list(config_of(), filter={"step": 4})] == [4]
        assert [each.metadata["step"] for each in calls.list(config_of(), filter={"user": "ada"}, limit=2)] == [5, 3]
        assert [*calls.list(config_of(), filter={"user": "eve"})] == []
        assert [*calls.list(config_of(), filter={"nothing": None})] == []

    def test_a_list_of_one_id_has_that_one(self, calls: Any) -> None:
        addresses = history(calls, 3)
        assert [each.metadata["step"] for each in calls.list(addresses[1])] == [1]

    def test_a_list_without_a_config_has_all_threads(self, calls: Any) -> None:
        for thread in ("a", "b", "c"):
            history(calls, 2, config_of(thread))
        found = [(each.config["configurable"]["thread_id"], each.metadata["step"]) for each in calls.list(None)]
        assert sorted(found) == [("a", 0), ("a", 1), ("b", 0), ("b", 1), ("c", 0), ("c", 1)]

    def test_a_long_list_is_complete(self, calls: Any) -> None:
        history(calls, 75)
        assert [each.metadata["step"] for each in calls.list(config_of())] == [*range(74, -1, -1)]

    # -- put_writes ---------------------------------------------------------------------------------------------------------------

    def test_writes_come_back_with_their_checkpoint(self, calls: Any) -> None:
        first, second = history(calls, 2)
        calls.put_writes(second, [("log", ["x"]), ("n", 7)], A)
        assert [tuple(each) for each in calls.get_tuple(second).pending_writes] == [(A, "log", ["x"]), (A, "n", 7)]
        assert [tuple(each) for each in calls.get_tuple(config_of()).pending_writes] == [(A, "log", ["x"]), (A, "n", 7)]
        assert not calls.get_tuple(first).pending_writes
        listed = [*calls.list(config_of())]
        assert [[tuple(write) for write in each.pending_writes or ()] for each in listed] == [
            [(A, "log", ["x"]), (A, "n", 7)],
            [],
        ]

    def test_writes_are_ordered_by_path_task_and_position(self, calls: Any) -> None:
        address = put(calls, 0)
        calls.put_writes(address, [("n", 3)], A, "~b")
        calls.put_writes(address, [("n", 1), ("m", 2)], C, "~a")
        calls.put_writes(address, [("n", 0)], B, "~a")
        found = [tuple(each) for each in calls.get_tuple(address).pending_writes]
        assert found == [(B, "n", 0), (C, "n", 1), (C, "m", 2), (A, "n", 3)]

    def test_a_task_may_write_a_channel_twice(self, calls: Any) -> None:
        address = put(calls, 0)
        calls.put_writes(address, [("n", 1), ("n", 2)], A)
        assert [value for _, _, value in calls.get_tuple(address).pending_writes] == [1, 2]

    def test_storing_writes_again_changes_nothing(self, calls: Any) -> None:
        address = put(calls, 0)
        calls.put_writes(address, [("n", 1), ("m", 2)], A)
        calls.put_writes(address, [("n", 1), ("m", 2)], A)
        calls.put_writes(address, [("n", "another"), ("m", "result")], A)
        assert [tuple(each) for each in calls.get_tuple(address).pending_writes] == [(A, "n", 1), (A, "m", 2)]

    @pytest.mark.parametrize("channel", [ERROR, INTERRUPT, RESUME, "__scheduled__"])
    def test_errors_questions_and_answers_are_replaced(self, calls: Any, channel: str) -> None:
        address = put(calls, 0)
        calls.put_writes(address, [(channel, ["first"])], A)
        calls.put_writes(address, [(channel, ["second"])], A)
        assert [tuple(each) for each in calls.get_tuple(address).pending_writes] == [(A, channel, ["second"])]

    def test_a_task_that_failed_may_have_a_result_later(self, calls: Any) -> None:
        address = put(calls, 0)
        calls.put_writes(address, [(ERROR, "it broke")], A)
        calls.put_writes(address, [("n", 1)], A)
        found = {channel: value for _, channel, value in calls.get_tuple(address).pending_writes}
        assert found == {ERROR: "it broke", "n": 1}

    def test_writes_are_apart_by_thread_and_namespace(self, calls: Any) -> None:
        here, there, below = (
            put(calls, 0),
            put(calls, 0, config=config_of("u")),
            put(calls, 1, config=config_of(namespace="c:1")),
        )
        calls.put_writes(here, [("n", 1)], A)
        calls.put_writes(below, [("n", 2)], A)
        assert [value for _, _, value in calls.get_tuple(here).pending_writes] == [1]
        assert [value for _, _, value in calls.get_tuple(below).pending_writes] == [2]
        assert not calls.get_tuple(there).pending_writes

    # -- values -------------------------------------------------------------------------------------------------------------------

    @pytest.mark.parametrize(
        "value",
        [None, False, 0, "", {}, [], 1.5, -7, "naïve 名 \U0001f600", "line\nbreak\ttab", {"a": [{"b": None}]}, "x" * 300_000],
        ids=lambda value: repr(value)[:20],
    )
    def test_values_come_back_as_they_were(self, calls: Any, value: Any) -> None:
        address = put(calls, 0, {"value": value})
        calls.put_writes(address, [("value", value)], A)
        found = calls.get_tuple(address)
        assert found.checkpoint["channel_values"] == {"value": value}
        assert type(found.checkpoint["channel_values"]["value"]) is type(value)
        assert [each for _, _, each in found.pending_writes] == [value]

    def test_many_channels_come_back(self, calls: Any) -> None:
        values = {f"channel {n}": n for n in range(400)}
        put(calls, 0, values)
        assert calls.get_tuple(config_of()).checkpoint["channel_values"] == values

    def test_deep_values_come_back(self, calls: Any) -> None:
        value: Any = "bottom"
        for depth in range(60):
            value = [value] if depth % 2 else {"down": value}
        put(calls, 0, {"value": value})
        assert calls.get_tuple(config_of()).checkpoint["channel_values"] == {"value": value}

    def test_what_goes_in_is_detached_from_the_caller(self, calls: Any) -> None:
        value, metadata = {"log": ["a"]}, {"tags": "x"}
        address = put(calls, 0, {"value": value}, **metadata)
        calls.put_writes(address, [("value", value)], A)
        value["log"].append("changed afterwards")
        found = calls.get_tuple(address)
        assert found.checkpoint["channel_values"] == {"value": {"log": ["a"]}}
        assert found.pending_writes[0][2] == {"log": ["a"]}

    def test_what_comes_out_is_detached_from_storage(self, calls: Any) -> None:
        address = put(calls, 0, {"value": {"log": ["a"]}})
        found = calls.get_tuple(address)
        found.checkpoint["channel_values"]["value"]["log"].append("changed afterwards")
        found.checkpoint["channel_values"]["more"] = 1
        assert calls.get_tuple(address).checkpoint["channel_values"] == {"value": {"log": ["a"]}}

    # -- delete_thread --------------------------------------------------------------------------------------------------------------

    def test_a_deleted_thread_is_gone_in_all_namespaces(self, saver: Any, calls: Any) -> None:
        if not implements_deletion(saver):
            pytest.skip("this saver does not delete")
        address = history(calls, 3)[-1]
        calls.put_writes(address, [("n", 1)], A)
        put(calls, 3, config=config_of(namespace="child:1"))
        put(calls, 4, {"kept": True}, config_of("other"))
        calls.delete_thread("t")
        assert calls.get_tuple(config_of()) is None
        assert calls.get_tuple(address) is None
        assert [*calls.list(config_of(namespace=None))] == []
        assert [each.config["configurable"]["thread_id"] for each in calls.list(None)] == ["other"]

    def test_deleting_what_is_not_there_is_fine(self, saver: Any, calls: Any) -> None:
        if not implements_deletion(saver):
            pytest.skip("this saver does not delete")
        calls.delete_thread("nobody")
        assert [*calls.list(None)] == []

    def test_a_deleted_id_starts_afresh(self, saver: Any, calls: Any) -> None:
        if not implements_deletion(saver):
            pytest.skip("this saver does not delete")
        history(calls, 3)
        calls.delete_thread("t")
        put(calls, 5, {"fresh": True})
        found = [*calls.list(config_of(namespace=None))]
        assert [each.checkpoint["channel_values"] for each in found] == [{"fresh": True}]
        assert not found[0].pending_writes


def implements_deletion(saver: Any) -> bool:
    """Whether the saver has either method of deletion from somebody else than the base class."""
    return any(
        getattr(type(saver), name) is not getattr(BaseCheckpointSaver, name) for name in ("delete_thread", "adelete_thread")
    )
