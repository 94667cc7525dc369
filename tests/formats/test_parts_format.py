"""P36: values in parts that were stored once are read for ever, and gone on with."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from perdure.checkpoint.sqlite import SqliteSaver
from tests.formats import parts_story as story
from tests.formats.sqlite_story import on
from tests.promises.ways import Way

FIXTURE = Path(__file__).parent / "parts" / "v1.db"


@pytest.fixture(params=["sync", "async"])
def way(request: pytest.FixtureRequest) -> Way:
    story.mended = False
    return Way(request.param)


@pytest.fixture
def saver(tmp_path: Path) -> Iterator[SqliteSaver]:
    with SqliteSaver(shutil.copy(FIXTURE, tmp_path / "v1.db")) as made:
        yield made


def test_P36_every_value_in_parts_is_what_it_was(saver: SqliteSaver):
    assert json.loads(json.dumps(story.contents(saver))) == json.loads(FIXTURE.with_suffix(".json").read_text())


def test_P36_it_has_all_that_values_in_parts_are_made_of(saver: SqliteSaver):
    tags = saver._database.run(lambda found: {row[0] for row in found.execute("SELECT DISTINCT tag FROM value")})
    assert {"e1", "zstd:msgpack"} <= tags
    assert any(tag.startswith("e") and tag != "e1" for tag in tags), "small elements share a segment"
    bodies = saver._database.run(lambda found: b"".join(row[0] for row in found.execute("SELECT body FROM checkpoint")))
    assert b"record" in bodies
    writes = saver._database.run(lambda found: b"".join(row[0] for row in found.execute("SELECT body FROM write")))
    assert b"__overwrite__:" in writes


def test_P36_values_in_parts_are_gone_on_with(saver: SqliteSaver, way: Way):
    graph = story.chat(saver)
    before = way.state(graph, on("chat")).values["messages"]
    after = way.invoke(graph, {"messages": [story.said("more")]}, on("chat"))["messages"]
    assert after[: len(before)] == before
    assert [message["id"] for message in after[len(before) :]] == ["more", f"answer {len(before) + 1}"]
    graph = story.kinds(saver)
    old = way.state(graph, on("kinds")).values
    new = way.invoke(graph, {"log": []}, on("kinds"))
    assert new["log"][: len(old["log"])] == old["log"]
    assert new["seen"] > old["seen"]
    assert way.state(graph, on("kinds")).values == new


def test_P36_a_step_whose_result_is_in_parts_does_not_run_again(saver: SqliteSaver, way: Way):
    story.mended = True
    found = way.invoke(story.steps(saver), None, on("steps"))["log"]
    assert found == [story.words(f"found {at}", 50) for at in range(3)]


def test_P36_todays_code_makes_the_same_rows(tmp_path: Path):
    # Where this fails on purpose, what is stored has changed: give it a fixture of its own, beside this one.
    story.mended = False
    made = tmp_path / "made.db"
    story.make(made)

    def rows(path: Path) -> list[Any]:
        connection = sqlite3.connect(path)
        found = [
            connection.execute(text).fetchall()
            for text in (
                "SELECT thread_key, ns, n, length(id), length(body) FROM checkpoint ORDER BY 1, 2, 3",
                "SELECT key, tag FROM value ORDER BY 1",
                "SELECT thread_key, ns, origin, path, kind, length(body) FROM write ORDER BY 1, 2, 3, 4, 5",
            )
        ]
        connection.close()
        return found

    assert rows(made) == rows(FIXTURE)
