"""P36: a database of every format that was ever released stays readable, and its threads go on."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from perdure.backends.sqlite import schema
from perdure.checkpoint.records import CheckpointRow
from perdure.checkpoint.rows import checkpoint_body, checkpoint_row
from perdure.checkpoint.serde import stored_error
from perdure.checkpoint.sqlite import SqliteSaver
from perdure.errors import UnknownThread
from perdure.types import Command
from tests.formats import sqlite_story as story
from tests.promises.ways import Way

FOLDER = Path(__file__).parent / "sqlite"
FIXTURES = sorted(FOLDER.glob("v*.db"))


@pytest.fixture(autouse=True)
def _begun_anew() -> None:
    story.ran.clear()
    story.mended = False


@pytest.fixture(params=["sync", "async"])
def way(request: pytest.FixtureRequest) -> Way:
    return Way(request.param)


@pytest.fixture(params=FIXTURES, ids=lambda path: path.stem)
def fixture(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy, for opening a database changes it."""
    path: Path = request.param
    return Path(shutil.copy(path, tmp_path / path.name))


@pytest.fixture
def saver(fixture: Path) -> Iterator[SqliteSaver]:
    with SqliteSaver(fixture) as made:
        yield made


def test_P36_every_format_has_its_fixture():
    assert [path.stem for path in FIXTURES] == [f"v{number}" for number in range(1, schema.NEWEST + 1)]


def test_P36_every_state_and_history_is_what_it_was(saver: SqliteSaver, fixture: Path):
    expected = json.loads((FOLDER / fixture.name).with_suffix(".json").read_text())
    assert json.loads(json.dumps(story.contents(saver))) == expected
    assert story.ran == []


def test_P36_reading_writes_nothing(fixture: Path):
    def dump() -> list[str]:
        connection = sqlite3.connect(fixture)
        lines = list(connection.iterdump())
        connection.close()
        return lines

    before = dump()
    with SqliteSaver(fixture) as saver:
        story.contents(saver)
    if fixture.stem == f"v{schema.NEWEST}":
        assert dump() == before


def test_P36_a_pause_is_answered(saver: SqliteSaver, way: Way):
    graph = story.paused(saver)
    asked = {str(pause.value): pause.id for pause in way.state(graph, story.on("paused")).interrupts}
    assert set(asked) == {"question 2", "inner question"}
    answers = {asked["question 2"]: "answer 2", asked["inner question"]: "inner answer"}
    result = way.invoke(graph, Command(resume=answers), story.on("paused"))
    assert result["log"] == ["answer 1, answer 2", "inner", "inner answer", "good"]
    assert sorted(story.ran) == ["ask", "inner_ask"], "what was finished then is not run again"


def test_P36_a_failed_run_is_resumed(saver: SqliteSaver, way: Way):
    story.mended = True
    assert way.invoke(story.failed(saver), None, story.on("failed")) == {"log": ["bad", "good", "end"]}
    assert story.ran == ["bad", "end"]


def test_P36_a_fork_goes_on_and_its_old_branch_can_be_read(saver: SqliteSaver, way: Way):
    graph = story.fork(saver)
    history = way.history(graph, story.on("fork"))
    assert way.invoke(graph, None, story.on("fork"))["log"][-1] == "c"
    assert story.ran == ["c"]
    old = next(snapshot for snapshot in history if snapshot.next == () and "edited" not in snapshot.values["log"])
    assert old.values == {"log": ["a", "b", "c"]}
    assert way.history(graph, story.on("fork"))[-len(history) + 1 :] == history[1:], (
        "but for the tip, whose task has a result now"
    )


def test_P36_a_finished_thread_takes_new_input(saver: SqliteSaver, way: Way):
    result = way.invoke(story.finished(saver), {"log": ["3"]}, story.on("finished"))
    turn = ["write", "work0", "work1", "work2", "end"]
    assert result["log"] == ["1", *turn, "2", *turn, "3", *turn]


def test_P36_a_deleted_thread_is_still_deleted(saver: SqliteSaver, way: Way):
    graph = story.fork(saver)
    with pytest.raises(UnknownThread):
        way.invoke(graph, None, story.on("deleted"))
    assert way.invoke(graph, {"log": []}, story.on("deleted")) == {"log": ["a", "b", "c"]}
    incarnation: Any = saver._database.run(
        lambda database: database.execute("SELECT incarnation FROM thread WHERE thread_id = 'deleted'").fetchone()
    )
    assert incarnation == (2,)


def test_P36_its_threads_are_listed_and_their_runs_as_far_as_they_were_recorded(saver: SqliteSaver, fixture: Path):
    listed = {thread.thread_id: thread for thread in saver.list_threads()}
    assert {name: thread.status for name, thread in listed.items()} == {
        "finished": "idle",
        "paused": "interrupted",
        "failed": "error",
        "fork": "interrupted",
    }
    assert len(listed["paused"].interrupts) == 2
    runs = [(run.status, run.steps, run.attempts) for run in saver.list_runs("finished")]
    assert runs == ([] if fixture.stem == "v1" else [("done", 3, 5), ("done", 3, 5)])


def test_P36_todays_code_makes_the_newest_fixture(tmp_path: Path):
    # Where this fails on purpose, the format has changed: give it a new number, and a fixture of its own.
    made = tmp_path / "made.db"
    before = stored_error._traceback_of
    try:
        story.make(made)
    finally:
        stored_error._traceback_of = before
    newest = FIXTURES[-1]

    def length_of(row: CheckpointRow) -> int:
        row.metadata.pop("parents", None)  # what metadata says may grow without a change of the format
        return len(checkpoint_body(row))

    def rows(path: Path) -> dict[str, list[Any]]:
        connection = sqlite3.connect(path)
        found = {
            "checkpoint": [
                (key, ns, n, len(public), length_of(checkpoint_row(n, ns, public, body)))
                for key, ns, n, public, body in connection.execute(
                    "SELECT thread_key, ns, n, id, body FROM checkpoint ORDER BY 1, 2, 3"
                )
            ],
            "write": connection.execute(
                "SELECT thread_key, ns, origin, path, kind FROM write ORDER BY 1, 2, 3, 4, 5"
            ).fetchall(),
            "child": connection.execute("SELECT * FROM child ORDER BY 1, 2, 3, 4").fetchall(),
            "thread": connection.execute(
                "SELECT key, thread_id, incarnation, status, graph, fingerprint FROM thread"
            ).fetchall(),
            "schema": connection.execute("SELECT sql FROM sqlite_master ORDER BY name").fetchall(),
        }
        connection.close()
        return found

    assert rows(made) == rows(newest)
