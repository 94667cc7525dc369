"""P11 on savers of other people: what their checkpoints tell is told, the rest is refused with what to do."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from perdure.errors import InvalidConfig
from perdure.types import Command
from tests.contract.test_third_party import AsyncSaver, SyncSaver
from tests.promises.asking import Entered, graph_of
from tests.promises.ways import Ledger, Way, chain, on


@pytest.fixture(params=["sync", "async"])
def way(request: pytest.FixtureRequest) -> Way:
    return Way(request.param)


@pytest.fixture(params=[SyncSaver, AsyncSaver])
def foreign(request: pytest.FixtureRequest, way: Way) -> Any:
    if request.param is AsyncSaver and way.is_async:
        pytest.skip("it belongs to one loop, and each call of a `Way` has one of its own")
    return request.param()


def ids(way: Way, saver: Any, **options: Any) -> list[str]:
    page = asyncio.run(saver.alist_threads(**options)) if way.is_async else saver.list_threads(**options)
    return [one.thread_id for one in page]


def test_P11_threads_of_a_third_partys_saver_are_told_of(foreign: Any, way: Way):
    entered = Entered()

    def fails(state: Any) -> Any:
        raise ConnectionError("down")

    done = graph_of(a=entered.says(way, "a")).compile(checkpointer=foreign)
    asks = graph_of(a=entered.asks(way, "a", "?")).compile(checkpointer=foreign)
    bad = graph_of(a=way.node(fails)).compile(checkpointer=foreign)
    way.invoke(done, {"log": []}, {**on("done"), "metadata": {"user": "ada"}})
    way.invoke(asks, {"log": []}, {**on("asks"), "metadata": {"user": "bob"}})
    with pytest.raises(ConnectionError):
        way.invoke(bad, {"log": []}, on("bad"))
    thread = way._do(foreign, "get_thread", "asks")
    assert (thread.status, thread.metadata, [one.value for one in thread.interrupts]) == ("interrupted", {"user": "bob"}, ["?"])
    assert (thread.is_running, thread.crashed, thread.holder, thread.created_at) == (False, False, None, None)
    assert way._do(foreign, "get_thread", "nobody") is None
    assert ids(way, foreign) == ["asks", "bad", "done"]
    for status, names in {"idle": ["done"], "error": ["bad"], "interrupted": ["asks"], "busy": []}.items():
        assert ids(way, foreign, status=status) == names
    assert ids(way, foreign, metadata={"user": "ada"}) == ["done"]
    assert ids(way, foreign, thread_prefix="b") == ["bad"]
    assert ids(way, foreign, updated_after=thread.updated_at) == ["bad"]
    assert ids(way, foreign, updated_after=thread.updated_at - timedelta(hours=1)) == ["asks", "bad", "done"]
    page = foreign.list_threads(limit=2) if not way.is_async else asyncio.run(foreign.alist_threads(limit=2))
    assert ids(way, foreign, limit=2, cursor=page.cursor) == ["done"]
    way.invoke(asks, Command(resume="x"), on("asks"))
    assert way._do(foreign, "get_thread", "asks").status == "idle"


def test_P11_an_unfinished_thread_there_is_busy_and_nobody_knows_whether_its_run_lives(foreign: Any, way: Way):
    ledger = Ledger(way)
    graph = chain(("a", ledger.node("a")), ("b", ledger.node("b"))).compile(checkpointer=foreign)
    stream = graph.stream({"log": []}, on())
    next(stream)
    stream.close()
    thread = way._do(foreign, "get_thread", "t")
    assert (thread.status, thread.is_running, thread.crashed) == ("busy", False, False)


def test_P11_what_such_a_saver_does_not_keep_is_refused(foreign: Any, way: Way):
    graph = chain(("a", Ledger(way).node("a"))).compile(checkpointer=foreign)
    way.invoke(graph, {"log": []}, on())
    for options in ({"graph": "x"}, {"order": "updated"}):
        with pytest.raises(InvalidConfig, match=r"four methods only. Use a saver of this library"):
            ids(way, foreign, **options)
    with pytest.raises(InvalidConfig, match="list_runs"):
        way._do(foreign, "list_runs", "t")
    with pytest.raises(InvalidConfig, match="did you mean"):
        ids(way, foreign, status="idel")
    with pytest.raises(InvalidConfig, match="keeps no leases"):
        way._do(graph, "resume_all")
