"""What savers of this library promise of the public methods, beyond what any saver does."""

from __future__ import annotations

import inspect
import io
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from perdure.bridge import run_blocking
from perdure.checkpoint.base import BaseCheckpointSaver
from perdure.constants import ERROR, INTERRUPT, START
from perdure.errors import (
    InvalidConfig,
    NotStorable,
    SaverClosed,
    ThreadBusy,
    ThreadDeleted,
    UnknownCheckpoint,
)
from perdure.graph import StateGraph
from perdure.testing.saver_suite.colours import Coloured, Portal, Suite, close
from perdure.testing.saver_suite.graphs import Count, asking, counter, parallel
from perdure.testing.saver_suite.public import A, checkpoint_of, config_of, history, ids, put
from perdure.testing.saver_suite.rows import Writer

EXACT: list[Any] = [
    (1, "a", None),
    {1, 2, 3},
    frozenset({(1, 2)}),
    b"\x00\xff" * 200,
    2**200,
    -(2**63) - 1,
    complex(1, -2),
    Decimal("1.10"),
    datetime(2024, 2, 29, 12, 0, tzinfo=timezone(timedelta(hours=5, minutes=30))),
    timedelta(days=-1, microseconds=1),
    UUID("12345678-1234-5678-1234-567812345678"),
    deque([1, 2], maxlen=2),
    defaultdict(list, {"a": [1]}),
    OrderedDict([("b", 1), ("a", 2)]),
    {1: "int key", "1": "text key", None: 0, (1, 2): "tuple key"},
    Path("some/where"),
]


class PromiseSuite(Suite):
    """Addresses, refusals, leases and deletion as the public methods see them."""

    # -- P39: identifiers and filters are data --------------------------------------------------------------------------------

    @pytest.mark.parametrize("thread", [7, -1, UUID("12345678-1234-5678-1234-567812345678")])
    def test_P39_a_thread_id_that_is_an_int_or_a_uuid_is_taken_as_its_text(self, calls: Any, thread: Any) -> None:
        address = put(calls, 0, config=config_of(thread))
        assert address["configurable"]["thread_id"] == str(thread)
        assert calls.get_tuple(config_of(str(thread))) == calls.get_tuple(config_of(thread)) is not None
        calls.delete_thread(thread)
        assert calls.get_tuple(config_of(str(thread))) is None

    @pytest.mark.parametrize("thread", [1.5, b"t", True, ("t",), ["t"], {"t": 1}], ids=repr)
    def test_P39_any_other_thread_id_is_a_type_error(self, calls: Any, thread: Any) -> None:
        for call in (calls.get_tuple, lambda config: put(calls, 0, config=config), lambda config: [*calls.list(config)]):
            with pytest.raises(TypeError, match="thread_id"):
                call(config_of(thread))
        assert [*calls.list(None)] == []

    @pytest.mark.parametrize("thread", ["", "a\x00b", "\x00"], ids=repr)
    def test_P39_an_empty_thread_id_or_one_with_NUL_is_refused(self, calls: Any, thread: str) -> None:
        for call in (calls.get_tuple, lambda config: put(calls, 0, config=config)):
            with pytest.raises(ValueError, match="thread_id"):
                call(config_of(thread))
        with pytest.raises(ValueError, match="thread_id"):
            calls.delete_thread(thread)

    def test_P39_a_config_without_a_thread_is_refused(self, calls: Any) -> None:
        with pytest.raises(InvalidConfig, match="thread"):
            calls.get_tuple({"configurable": {}})

    def test_P39_a_filter_returns_no_more_than_it_would_without_injection(self, calls: Any) -> None:
        put(calls, 0, user="ada")
        put(calls, 1, user="' OR '1'='1")
        for key in ("user' OR '1'='1", 'user"', "user.name", "$.user", "user--", "%"):
            assert [*calls.list(config_of(), filter={key: "ada"})] == [], key
        for value in ("' OR '1'='1' --", "%", "a_a", "ADA"):
            assert [*calls.list(config_of(), filter={"user": value})] == [], value
        assert [each.metadata["step"] for each in calls.list(config_of(), filter={"user": "' OR '1'='1"})] == [1]

    def test_P39_a_negative_limit_is_an_error(self, calls: Any) -> None:
        with pytest.raises(InvalidConfig, match="limit"):
            [*calls.list(config_of(), limit=-1)]

    def test_writes_need_an_existing_checkpoint(self, calls: Any) -> None:
        put(calls, 0)
        with pytest.raises(InvalidConfig, match="checkpoint_id"):
            calls.put_writes(config_of(), [("n", 1)], A)
        with pytest.raises(UnknownCheckpoint):
            calls.put_writes(config_of(checkpoint=checkpoint_of(9, {})["id"]), [("n", 1)], A)

    # -- P30: what is saved is what is loaded -----------------------------------------------------------------------------------

    @pytest.mark.parametrize("value", EXACT, ids=lambda value: f"{type(value).__name__} {value!r}"[:30])
    def test_P30_values_come_back_equal_and_of_their_type(self, calls: Any, value: Any) -> None:
        address = put(calls, 0, {"value": value})
        calls.put_writes(address, [("value", value)], A)
        found = calls.get_tuple(address)
        for again in (found.checkpoint["channel_values"]["value"], found.pending_writes[0][2]):
            assert again == value
            assert type(again) is type(value)
        assert repr(found.checkpoint["channel_values"]["value"]) == repr(value) or isinstance(value, (set, frozenset))

    def test_P30_what_cannot_be_stored_is_refused_with_nothing_stored(self, calls: Any) -> None:
        address = put(calls, 0)
        before = calls.get_tuple(address)
        with pytest.raises(NotStorable):
            put(calls, 1, {"fine": 1, "value": {"deep": [object()]}}, address)
        with pytest.raises(NotStorable):
            calls.put_writes(address, [("n", 1), ("value", lambda: None)], A)
        assert calls.get_tuple(config_of()) == before
        assert len([*calls.list(config_of())]) == 1

    # -- P24: the newest is newest --------------------------------------------------------------------------------------------------

    def test_ids_that_are_no_uuids_are_kept_as_they_are(self, calls: Any) -> None:
        for name in ("a", "b", "1EF663BA-28FE-6528-8002-5A559208592C", "\u540d"):
            checkpoint = {**checkpoint_of(0, {"name": name}), "id": name}
            calls.put(config_of(name), checkpoint, {}, checkpoint["channel_versions"])
            assert calls.get_tuple(config_of(name, checkpoint=name)).checkpoint["channel_values"] == {"name": name}
            assert ids(calls.list(config_of(name))) == [name]

    # -- P8, P10 --------------------------------------------------------------------------------------------------------------------

    def test_P8_a_bare_put_on_a_leased_thread_is_refused_and_reads_are_not(self, saver: Any, calls: Any) -> None:
        address = put(calls, 0)
        holder = Writer.over(saver)
        holder.commit("take")
        writes: list[Callable[[], Any]] = [
            lambda: put(calls, 1, config=address),
            lambda: calls.put_writes(address, [("n", 1)], A),
        ]
        for write in writes:
            with pytest.raises(ThreadBusy, match="busy"):
                write()
        assert [each.metadata["step"] for each in calls.list(config_of())] == [0]
        holder.commit("release")
        put(calls, 1, config=address)
        assert [each.metadata["step"] for each in calls.list(config_of())] == [1, 0]

    def test_P10_late_writes_to_a_deleted_thread_are_refused(self, calls: Any) -> None:
        address = history(calls, 2)[-1]
        calls.delete_thread("t")
        writes: list[Callable[[], Any]] = [
            lambda: put(calls, 2, config=address),
            lambda: calls.put_writes(address, [("n", 1)], A),
        ]
        for late in writes:
            with pytest.raises(ThreadDeleted, match="'t' was deleted"):
                late()
        assert calls.get_tuple(config_of()) is None
        assert [*calls.list(None)] == []

    def test_P10_no_file_of_the_saver_mentions_a_deleted_thread(
        self, saver: Any, calls: Any, tmp_path: Path, portal: Portal | None
    ) -> None:
        secret, large = "zanzibar", "quetzalcoatl" * 500
        address = put(calls, 0, {"large": large, "small": secret}, config_of(secret), user=secret)
        calls.put_writes(address, [("large", large + "again"), (secret, secret)], secret, secret)
        put(calls, 1, {"small": secret}, config_of(secret, f"{secret}:1"))
        put(calls, 0, {"kept": "kept"}, config_of("kept"))
        calls.delete_thread(secret)
        close(saver, portal)
        for file in [each for each in tmp_path.rglob("*") if each.is_file()]:
            content = file.read_bytes()
            assert secret.encode() not in content, file.name
            assert b"quetzalcoatl" not in content, file.name

    def test_P10_a_new_checkpoint_on_a_deleted_id_is_a_new_incarnation(self, saver: Any, calls: Any) -> None:
        history(calls, 2)
        calls.delete_thread("t")
        put(calls, 5, {"fresh": True})
        assert [each.checkpoint["channel_values"] for each in calls.list(config_of())] == [{"fresh": True}]
        assert Writer.over(saver).loaded.thread.incarnation == 2
        calls.delete_thread("t")
        put(calls, 6)
        assert Writer.over(saver).loaded.thread.incarnation == 3

    # -- P49: both colours are one object ---------------------------------------------------------------------------------------------

    def test_P49_what_one_colour_stores_the_other_reads(self, saver: Any, calls: Any, portal: Portal | None) -> None:
        other = Portal() if portal is None else None
        try:
            across = Coloured(saver, other)
            address = put(calls, 0, {"from": "one"})
            assert across.get_tuple(config_of()) == calls.get_tuple(config_of())
            across.put_writes(address, [("n", 1)], A)
            put(across, 1, {"from": "other"}, address)
            assert [each.checkpoint["channel_values"]["from"] for each in calls.list(config_of())] == ["other", "one"]
            assert [*calls.list(config_of())] == [*across.list(config_of())]
        finally:
            if other is not None:
                other.close()

    @pytest.mark.parametrize("method", ["get", "get_tuple", "list", "put", "put_writes", "delete_thread"])
    def test_P49_twins_take_the_same_arguments(self, saver: Any, colour: str, method: str) -> None:
        mine, twin = inspect.signature(getattr(saver, method)), inspect.signature(getattr(saver, f"a{method}"))
        assert [*mine.parameters] == [*twin.parameters]
        contract = inspect.signature(getattr(BaseCheckpointSaver, method))
        assert [*mine.parameters] == [name for name in contract.parameters if name != "self"]

    # -- what the engine stored, in the public shape -------------------------------------------------------------------------------------

    def test_what_a_run_stored_is_read_by_the_public_methods(self, saver: Any, calls: Any, coloured: Any) -> None:
        graph = coloured(counter(2).compile(checkpointer=saver))
        graph.invoke({"count": 0, "log": ["é"]}, {**config_of(), "metadata": {"user": "ada"}})
        found = calls.get_tuple(config_of())
        snapshot = graph.get_state(config_of())
        checkpoint = found.checkpoint
        assert checkpoint["id"] == snapshot.config["configurable"]["checkpoint_id"]
        assert checkpoint["ts"] == snapshot.created_at
        assert checkpoint["channel_values"] == {"count": 2, "log": ["é", 0, 1]}
        assert set(checkpoint["channel_versions"]) == {"count", "log"}
        assert {key: found.metadata[key] for key in ("source", "step", "user")} == {"source": "loop", "step": 2, "user": "ada"}
        assert found.parent_config == snapshot.parent_config
        assert not found.pending_writes
        listed = [*calls.list(config_of(), filter={"user": "ada"})]
        assert [each.config for each in listed] == [each.config for each in graph.get_state_history(config_of())]

    def test_open_tasks_are_shown_as_pending_writes(self, saver: Any, calls: Any, coloured: Any) -> None:
        def bad(state: Any) -> Any:
            raise RuntimeError("it broke")

        nodes = {"ask": asking("q"), "bad": bad, "good": lambda state: {"log": ["good"]}}
        graph = coloured(parallel(nodes).compile(checkpointer=saver))
        with pytest.raises(RuntimeError, match="it broke"):
            graph.invoke({"count": 0, "log": []}, config_of())
        named = {task.id: task for task in graph.get_state(config_of()).tasks}
        pending = calls.get_tuple(config_of()).pending_writes
        shown = {(named[task].name, channel): value for task, channel, value in pending}
        assert str(shown["bad", ERROR]) == "it broke"
        for (name, channel), value in shown.items():
            if channel == INTERRUPT:
                assert (name, [pause.value for pause in value]) == ("ask", ["q"])
            elif channel == "log":
                assert (name, value) == ("good", ["good"])

    def test_a_breakpoint_in_a_subgraph_has_no_question_to_show(self, saver: Any, calls: Any, coloured: Any) -> None:
        builder = StateGraph(Count)
        builder.add_node("child", counter(2).compile(interrupt_before=["inc"]))
        builder.add_edge(START, "child")
        graph = coloured(builder.compile(checkpointer=saver))
        graph.invoke({"count": 0, "log": []}, config_of())
        assert graph.get_state(config_of()).next == ("child",)
        found = calls.get_tuple(config_of())
        assert [value for _, channel, value in found.pending_writes if channel == INTERRUPT and value] == []
        spaces = {
            each.config["configurable"]["checkpoint_ns"].partition(":")[0] for each in calls.list(config_of(namespace=None))
        }
        assert spaces == {"", "child"}
        graph.invoke(None, config_of())
        graph.invoke(None, config_of())
        assert graph.get_state(config_of()).values["count"] == 2

    # -- the object -------------------------------------------------------------------------------------------------------------------

    def test_a_closed_saver_says_so(self, saver: Any, calls: Any, portal: Portal | None) -> None:
        address = put(calls, 0)
        calls.export_thread("t", file := io.BytesIO())
        file.seek(0)
        close(saver, portal)
        uses: list[Callable[[], Any]] = [
            lambda: calls.get_tuple(config_of()),
            lambda: put(calls, 1),
            lambda: calls.put_writes(address, [("n", 1)], A),
            lambda: [*calls.list(config_of())],
            lambda: calls.delete_thread("t"),
            lambda: calls.get_thread("t"),
            calls.list_threads,
            lambda: calls.list_threads(order="updated"),
            lambda: calls.list_runs("t"),
            calls.list_interrupts,
            lambda: calls.prune(keep_last=1),
            lambda: calls.prune(keep_last=1, threads=()),
            lambda: calls.pin(address, "here"),
            lambda: calls.unpin("t", "here"),
            lambda: calls.verify("t"),
            lambda: calls.copy_thread("t", "u"),
            lambda: calls.export_thread("t", io.BytesIO()),
            lambda: calls.import_thread(file, "u"),
        ]
        for use in uses:
            with pytest.raises(SaverClosed):
                use()
        close(saver, portal)

    def test_a_saver_is_a_context_in_both_colours(self, saver: Any, portal: Portal | None) -> None:
        async def entered() -> Any:
            async with saver as inner:
                return inner

        if portal is not None:
            assert portal.run(entered()) is saver
        else:
            with saver as inner:
                assert inner is saver
                run_blocking(inner.blocking().load("t", "", None))
