"""What LangGraph's own packages stored, in `tests/formats/langgraph`, what they said of it, and how it is brought over and looked at."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from perdure.checkpoint.saver import Saver
from perdure.integrations.langgraph import ImportReport, aimport_threads, import_threads
from perdure.messages import Message
from tests.integrations import langgraph_shapes as shapes
from tests.promises.ways import Way, on

FOLDER = Path(__file__).parents[1] / "formats" / "langgraph"
SQLITE = FOLDER / "threads.sqlite"
THREADS = sorted([*shapes.SHAPES, "workflow"])
ASKING = ("deep", "fan_out", "nested", "questions", "remembering", "several", "twice", "workflow")
SAID = {"sqlite": json.loads((FOLDER / "threads.json").read_text())}
CAPTURED = json.loads((FOLDER / "postgres.json").read_text())
SAID["postgres"] = CAPTURED["said"]


class Captured:
    """A psycopg connection to a Postgres database with the rows that were captured from one."""

    def __init__(self) -> None:
        self._rows: list[Any] = []

    def execute(self, statement: str, given: tuple[str, ...] = ()) -> Captured:
        assert "%s" in statement or not given
        assert statement.split(maxsplit=1)[0] == "SELECT"
        self._rows = [*self._found(statement, given)]
        return self

    def fetchall(self) -> list[Any]:
        return self._rows

    def _found(self, statement: str, given: tuple[str, ...]) -> Iterator[Any]:
        names = ("thread_id", "checkpoint_ns", "checkpoint_id")[: len(given)]

        def of(table: str) -> Iterator[dict[str, Any]]:
            return (row for row in CAPTURED[table] if all(row.get(name) == one for name, one in zip(names, given, strict=True)))

        if "to_regclass" in statement:
            yield (3,)
        elif "DISTINCT" in statement:
            yield from sorted({(row["thread_id"],) for row in of("checkpoints")})
        elif "parent_checkpoint_id" in statement:
            yield from ((row["checkpoint_ns"], row["checkpoint_id"], row["parent_checkpoint_id"]) for row in of("checkpoints"))
        elif "checkpoint_blobs" in statement:
            (here,) = of("checkpoints")
            versions = here["checkpoint"]["channel_versions"]
            assert 'ORDER BY b.channel COLLATE "C"' in statement
            for row in sorted(CAPTURED["checkpoint_blobs"], key=lambda row: row["channel"]):
                same = (row["thread_id"], row["checkpoint_ns"]) == given[:2]
                if same and versions.get(row["channel"]) == row["version"]:
                    yield {"channel": row["channel"], "type": row["type"], "blob": blob(row["blob"])}
        elif "checkpoint_writes" in statement:
            for row in of("checkpoint_writes"):
                yield [row["task_id"], row["task_path"], row["idx"], row["channel"], row["type"], blob(row["blob"])]
        else:
            yield from ((json.loads(json.dumps(row["checkpoint"])), row["metadata"]) for row in of("checkpoints"))


Captured.__module__ = "psycopg"


def blob(value: Any) -> bytes | None:
    return None if value is None else bytes.fromhex(value["hex"])


def brought(way: Way, source: Any, saver: Any, **options: Any) -> ImportReport:
    if way.is_async:
        return asyncio.run(aimport_threads(source, saver, **options))
    return import_threads(source, saver, **options)


def plain(value: Any) -> Any:
    if isinstance(value, Message):
        return [value.type, value.content, value.id]
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items()}
    if isinstance(value, list):
        return [plain(one) for one in value]
    if isinstance(value, set):
        return sorted(value)
    return value if isinstance(value, (str, int, type(None))) else str(value)


def shown(snapshot: Any) -> dict[str, Any]:
    return {
        "id": snapshot.config["configurable"]["checkpoint_id"],
        "parent": (snapshot.parent_config or {"configurable": {"checkpoint_id": None}})["configurable"]["checkpoint_id"],
        "next": sorted(snapshot.next),
        "step": snapshot.metadata["step"],
        "source": snapshot.metadata["source"],
        "user": snapshot.metadata.get("user"),
        "values": plain(snapshot.values),
        "interrupts": [[one.id, one.value] for one in snapshot.interrupts],
    }


def history(thread: str, saver: Saver, way: Way) -> list[dict[str, Any]]:
    return [shown(each) for each in way.history(shapes.compiled(thread, saver), on(thread))]


def expected(thread: str, kind: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(json.dumps(SAID[kind][thread]))
    for each in found:
        # A state of LangGraph shows the default of a key with a reducer before anybody wrote to it; here it has no value then.
        each["values"] = {key: value for key, value in each["values"].items() if value != []}
        # There the caller's input is taken in by a task like any other, and the function of a workflow shows what it returned.
        if each["next"] == ["__start__"]:
            each["values"] = {}
    return found
