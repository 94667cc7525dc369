"""P50: what savers are asked to look after cannot be meant: the error says so, and what would be."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from perdure import InMemorySaver, acopy_all, copy_all
from perdure.checkpoint.saver import Saver
from perdure.errors import InvalidArgument, InvalidConfig, ThreadExists, UnknownThread, WrongType
from tests.promises.ways import Way, chain, on, open_saver


def thread(way: Way, saver: Saver) -> Any:
    """A graph that has run once."""
    graph = chain(("a", lambda state: {"log": ["a"]})).compile(checkpointer=saver)
    way.invoke(graph, {"log": ["in"]}, on())
    return graph


@pytest.mark.parametrize(
    ("name", "args"), [("pin", ("t", "name")), ("get_tuple", ("t",)), ("get", (5,)), ("get", ({"configurable": "t"},))]
)
def test_P50_an_id_in_place_of_a_config_is_told_what_a_config_is(saver: Saver, way: Way, name: str, args: Any):
    graph = thread(way, saver)
    of_config = r"a config is a dict such as \{'configurable': \{'thread_id': '1'\}\}"
    of_conf = r"config\['configurable'\] must be a dict such as \{'thread_id': '1'\}"
    with pytest.raises(InvalidConfig, match=f"^({of_conf if isinstance(args[0], dict) else of_config}), got ('t'|5)$"):
        way._do(saver, name, *args)
    assert dict(graph.branches(on())) == {}


@pytest.mark.parametrize(
    ("given", "options", "says"),
    [
        ("t", {}, "a config is a dict such as .*, got 't'$"),
        (on(), {"before": "x"}, "a config is a dict such as .*, got 'x'$"),
        (on(), {"limit": "1"}, "limit must not be negative, got '1'$"),
        (on(), {"filter": "step"}, "filter must be a dict of keys of the metadata .*, got str$"),
    ],
)
def test_P50_a_list_of_checkpoints_that_cannot_be_meant(saver: Saver, way: Way, given: Any, options: dict[str, Any], says: str):
    thread(way, saver)

    async def listed() -> None:
        async for _ in saver.alist(given, **options):
            pass

    with pytest.raises(InvalidConfig, match=says):
        asyncio.run(listed()) if way.is_async else list(saver.list(given, **options))


@pytest.mark.parametrize("threads", ["t", 5])
def test_P50_threads_to_prune_that_are_no_list(saver: Saver, way: Way, threads: Any):
    with pytest.raises(WrongType, match="threads= is a list of thread ids; thread= is for one"):
        way._do(saver, "prune", keep_last=1, threads=threads)


def test_P50_verify_up_to_a_config_is_told_where_the_id_is(saver: Saver, way: Way):
    config = way.state(thread(way, saver), on()).config
    with pytest.raises(WrongType, match=r"the id of one, config\['configurable'\]\['checkpoint_id'\], got dict$"):
        way._do(saver, "verify", "t", checkpoint=config)
    assert way._do(saver, "verify", "t", checkpoint=config["configurable"]["checkpoint_id"]).ok


@pytest.mark.parametrize("same", ["7", 7])
def test_P50_a_copy_onto_itself_is_not_told_to_delete_the_thread(saver: Saver, way: Way, same: Any):
    way.invoke(thread(way, saver), {"log": ["in"]}, on("7"))
    with pytest.raises(ThreadExists, match=r"^a thread cannot be copied onto itself: give the copy of '7' another id$"):
        way._do(saver, "copy_thread", "7", same)


def test_P50_a_thread_that_is_not_there_to_be_exported(saver: Saver, way: Way, tmp_path: Path):
    with pytest.raises(UnknownThread, match="no thread 'no' to copy or export"):
        way._do(saver, "export_thread", "no", tmp_path / "no.perdure")


@pytest.mark.parametrize("size", [None, "64 MB", -1])
@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_P50_a_head_cache_that_is_no_number_of_bytes(kind: str, size: Any, tmp_path: Path):
    with pytest.raises(InvalidArgument, match="head_cache must be a number of bytes, or 0 for none, got"):
        open_saver(kind, tmp_path, head_cache=size)


def test_P50_an_export_to_nowhere_names_the_path_that_was_given(saver: Saver, way: Way, tmp_path: Path):
    thread(way, saver)
    path = tmp_path / "no" / "such.perdure"
    with pytest.raises(FileNotFoundError, match="its folder does not exist, and an export makes none") as error:
        way._do(saver, "export_thread", "t", path)
    assert error.value.filename == str(path)


@pytest.mark.parametrize("colour", ["sync", "async"])
def test_P50_a_path_in_place_of_a_saver_is_told_how_to_make_one(colour: str):
    with pytest.raises(
        WrongType, match=r"^copy_all copies between savers of this library, not str: open_saver\('a\.db'\) makes one$"
    ):
        asyncio.run(acopy_all(InMemorySaver(), "a.db")) if colour == "async" else copy_all(InMemorySaver(), "a.db")
