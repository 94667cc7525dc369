"""P36: the file of a thread, in every format that was ever released, is taken, and the thread in it goes on.

`threads/v1.perdure` is thread `paused` of `sqlite/v1.db`. To make the file of a new format, run this file as a script with its name.
"""

from __future__ import annotations

import io
import json
import shutil
import sys
import tempfile
from pathlib import Path

import pytest

from perdure.checkpoint.sqlite import SqliteSaver
from perdure.checkpoint.transfer.file_format import FORMAT
from perdure.types import Command
from tests.formats import sqlite_story as story
from tests.promises.ways import COLOURS, SAVERS, Way, open_saver

FOLDER = Path(__file__).parent / "threads"
FIXTURES = sorted(FOLDER.glob("v*.perdure"))
DATABASE = Path(__file__).parent / "sqlite" / "v1.db"


def exported(folder: Path) -> bytes:
    file = io.BytesIO()
    with SqliteSaver(shutil.copy(DATABASE, folder / "v1.db")) as saver:
        saver.export_thread("paused", file)
    return file.getvalue()


def test_P36_every_format_of_files_has_its_fixture():
    assert [path.stem for path in FIXTURES] == [f"v{number}" for number in range(1, FORMAT + 1)]


def test_P36_todays_code_writes_the_newest_file(tmp_path: Path):
    # Where this fails on purpose, the format has changed: give it a new number, and a fixture of its own.
    assert exported(tmp_path) == FIXTURES[-1].read_bytes()


@pytest.mark.parametrize("colour", COLOURS)
@pytest.mark.parametrize("kind", SAVERS)
@pytest.mark.parametrize("path", FIXTURES, ids=lambda path: path.stem)
def test_P36_every_file_is_taken_and_its_thread_goes_on(path: Path, kind: str, colour: str, tmp_path: Path):
    way = Way(colour)
    story.ran.clear()
    with open_saver(kind, tmp_path) as saver:
        saver.import_thread(path)
        graph = story.paused(saver)
        expected = json.loads(DATABASE.with_suffix(".json").read_text())["paused"]
        found = {
            "state": story.shown(graph.get_state(story.on("paused"), subgraphs=True)),
            "history": [story.shown(snapshot) for snapshot in graph.get_state_history(story.on("paused"))],
        }
        assert json.loads(json.dumps(found)) == expected
        pauses = way.state(graph, story.on("paused")).interrupts
        result = way.invoke(graph, Command(resume={pause.id: "!" for pause in pauses}), story.on("paused"))
        assert result["log"] == ["answer 1, !", "inner", "!", "good"]
        assert sorted(story.ran) == ["ask", "inner_ask"]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        Path(sys.argv[1]).write_bytes(exported(Path(folder)))
