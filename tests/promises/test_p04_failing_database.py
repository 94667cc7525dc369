"""P4: whichever call of a database fails, who stores something is told so by SaveFailed, who only looks by the database's own error."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure.checkpoint.memory import InMemorySaver
from perdure.checkpoint.retention import Retention
from perdure.checkpoint.saver import Saver
from perdure.errors import SaveFailed
from perdure.testing.faults import DatabaseDown
from perdure.testing.wrapping import WrappingRecords, with_records
from tests.integrations.langgraph_stored import SQLITE, brought
from tests.promises.retaining import chat, turns
from tests.promises.ways import Way, foreign_checkpoint, on, rows_of

CALLS = {name for name in vars(WrappingRecords) if not name.startswith("_")}


class Fails(WrappingRecords):
    """A database one call of which fails.

    Attributes:
        left: how many calls succeed before.
        asked: what it was asked, in order.
    """

    def __init__(self, inner: Any, left: int) -> None:
        super().__init__(inner)
        self.left = left
        self.asked: list[str] = []

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if name not in CALLS:
            return found

        async def call(*args: Any, **options: Any) -> Any:
            self.asked.append(name)
            if len(self.asked) == self.left + 1:
                raise DatabaseDown("the database is down")
            return await found(*args, **options)

        return call


def stored(way: Way) -> tuple[Saver, io.BytesIO]:
    """A thread with a name on a branch, beside one that expires, and the first one as a file."""
    saver = InMemorySaver(retention=Retention(keep_last=1, thread_ttl=1))
    graph = chat(way, saver)
    turns(way, graph, 2)
    saver.pin(way.history(graph, on())[3].config, "pinned")
    saver.export_thread("t", file := io.BytesIO())
    file.seek(0)
    return saver, file


def tip(saver: Saver) -> Any:
    return saver.get_tuple(on()).config


WRITES: dict[str, Callable[[Way, Saver, Saver, Any], Any]] = {
    "put": lambda way, broken, saver, _: way.put(broken, tip(saver), foreign_checkpoint(), {}, {}),
    "put_writes": lambda way, broken, saver, _: way.put_writes(broken, tip(saver), [("log", ["x"])], "task"),
    "delete_thread": lambda way, broken, saver, _: way.delete(broken, "t"),
    "pin": lambda way, broken, saver, _: way._do(broken, "pin", on(), "another"),
    "unpin": lambda way, broken, saver, _: way._do(broken, "unpin", "t", "pinned"),
    "prune": lambda way, broken, saver, _: way._do(broken, "prune", keep_last=1),
    "prune one": lambda way, broken, saver, _: way._do(broken, "prune", keep_last=1, thread="t"),
    "sweep": lambda way, broken, saver, _: way._do(broken, "sweep"),
    "copy_thread": lambda way, broken, saver, _: way._do(broken, "copy_thread", "t", "copy"),
    "import_thread": lambda way, broken, saver, file: way._do(broken, "import_thread", file, "imported"),
    "import_threads": lambda way, broken, saver, _: brought(way, SQLITE, broken, threads=["line"]),
    "copy_all from it": lambda way, broken, saver, _: way._do(perdure, "copy_all", broken, InMemorySaver()),
    "copy_all to it": lambda way, broken, saver, _: way._do(perdure, "copy_all", other(way), broken),
}

READS: dict[str, Callable[[Way, Saver, Path], Any]] = {
    "get_tuple": lambda way, broken, _: way._do(broken, "get_tuple", on()),
    "list": lambda way, broken, _: way.history(chat(way, broken), on()),
    "verify": lambda way, broken, _: way._do(broken, "verify", "t"),
    "export_thread": lambda way, broken, folder: way._do(broken, "export_thread", "t", folder / "file"),
    "get_thread": lambda way, broken, _: way._do(broken, "get_thread", "t"),
    "list_threads": lambda way, broken, _: way._do(broken, "list_threads"),
    "list_runs": lambda way, broken, _: way._do(broken, "list_runs", "t"),
    "list_interrupts": lambda way, broken, _: way._do(broken, "list_interrupts"),
}


def other(way: Way) -> Saver:
    saver = InMemorySaver()
    turns(way, chat(way, saver), 1, "other")
    return saver


@pytest.mark.parametrize("method", WRITES)
def test_P4_whichever_call_fails_a_write_says_so_and_names_the_cause(way: Way, method: str):
    for left in range(20):
        saver, file = stored(way)
        before = rows_of(saver)
        made: list[Fails] = []
        broken = with_records(saver, lambda records, left=left, made=made: made.append(Fails(records, left)) or made[-1])
        error = failure(lambda broken=broken, saver=saver, file=file: WRITES[method](way, broken, saver, file))
        if error is None:
            assert left == sum(len(each.asked) for each in made) > 0
            return
        assert isinstance(error.__cause__, DatabaseDown)
        assert "the database is down" in str(error)
        assert "mend the cause and " in str(error)
        (asked,) = (each.asked for each in made if len(each.asked) > left)
        if asked[left] not in ("threads", "reclaim"):
            assert error.thread in ("t", "copy", "imported", "line", "other")
            assert repr(error.thread) in str(error)
        if "commit" not in asked[:left]:
            assert rows_of(saver) == before
        assert [one.thread_id for one in saver.list_threads()] == ["t"]
        assert saver._records._arrivals == {}
    raise AssertionError("it never succeeded")


def failure(call: Callable[[], Any]) -> SaveFailed | None:
    try:
        call()
    except SaveFailed as error:
        return error
    return None


@pytest.mark.parametrize("method", READS)
def test_P4_whichever_call_fails_a_look_raises_the_error_of_the_database(way: Way, method: str, tmp_path: Path):
    saver, _ = stored(way)
    for left in range(20):
        made: list[Fails] = []
        broken = with_records(saver, lambda records, left=left, made=made: made.append(Fails(records, left)) or made[-1])
        try:
            READS[method](way, broken, tmp_path)
        except DatabaseDown:
            assert list(tmp_path.iterdir()) == []
        else:
            assert left == sum(len(each.asked) for each in made) > 0
            return
    raise AssertionError("it never succeeded")
