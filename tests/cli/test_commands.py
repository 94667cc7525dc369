"""The command line: what it prints, what it returns, and how it says what is wrong. (P11)"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from perdure.checkpoint.leases import identity
from perdure.checkpoint.records import LeaseRow
from perdure.checkpoint.sqlite import SqliteSaver
from perdure.cli import main
from perdure.cli.commands import COMMANDS, parser
from perdure.types import Command, interrupt
from tests.docs.pages import ROOT
from tests.promises.dying import can_tell, die
from tests.promises.ways import Way, chain, on

APP = """
from perdure import SqliteSaver
from tests.promises.ways import chain

saver = SqliteSaver("app.db")

def node(state):
    if "fails" in state["log"]:
        raise ConnectionError("down")
    return {"log": ["a"]}

graph = chain(("a", node), ("b", lambda state: {"log": ["b"]})).compile(checkpointer=saver, name="app")
number = 5

def make():
    return graph

def context_of(thread):
    return thread.thread_id
"""


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The module `app` in the working directory, and its graph."""
    (tmp_path / "app.py").write_text(APP)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "app", raising=False)
    sys.path.insert(0, str(tmp_path))
    import app  # type: ignore[import-not-found]

    yield app
    app.saver.close()
    sys.modules.pop("app", None)


def called(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, list[str], str]:
    code = main(arguments)
    told = capsys.readouterr()
    return code, told.out.splitlines(), told.err


@can_tell
def test_P11_recover_tells_what_it_did_with_each_thread(app: Any, capsys: pytest.CaptureFixture[str]):
    way = Way("sync")
    for name in ("x", "fails"):
        die(app.saver, app.graph, way, {"log": [name]}, on(name), at=1)
    die(app.saver, app.graph, way, {"log": ["c"]}, on("context"), at=1, context="c")
    code, lines, _ = called(capsys, "recover", "app:graph")
    assert code == 1
    assert lines[0].startswith(
        "context  needs_context  its run had a context, which is not stored: --context-for module:function"
    )
    assert lines[1:] == ["fails  failed  ConnectionError: down", "x  resumed  now idle"]
    code, lines, _ = called(capsys, "recover", "app:make", "--context-for", "app:context_of", "--sync", "--json")
    assert code == 0
    assert [json.loads(line) for line in lines] == [
        {"thread_id": "context", "outcome": "resumed", "status": "idle", "error": None}
    ]
    assert called(capsys, "recover", "app:graph") == (
        0,
        ["no run of graph 'app' is left unfinished by a process that died"],
        "",
    )


def test_P11_recover_says_who_runs_what_it_leaves_alone(app: Any, capsys: pytest.CaptureFixture[str]):
    stream = app.graph.stream({"log": []}, on())
    next(stream)
    code, lines, _ = called(capsys, "recover", "app:graph")
    stream.close()
    assert (code, lines) == (0, [f"t  elsewhere  process {os.getpid()} on {identity.holder('', 0).host}"])


@pytest.mark.parametrize(
    ("place", "complaint"),
    [
        ("app", "'app' is not of the form module:name"),
        ("app:", "not of the form"),
        ("nowhere:graph", "there is no module 'nowhere'"),
        ("app.sub:graph", "there is no module 'app.sub'"),
        ("app:nothing", "app has no 'nothing'"),
        ("app:number", "app:number is no compiled graph but int"),
        ("app:saver", "is no compiled graph but SqliteSaver"),
        ("app.py:graph", "'app.py' is a file; name the module that it is, such as app:graph"),
        ("flows/app.py:make", "such as flows.app:make"),
        ("app:SqliteSaver", "app:SqliteSaver cannot be called without conn: name a graph, or a function without arguments"),
    ],
)
def test_a_graph_that_is_not_there_is_told_in_a_line(app: Any, capsys: pytest.CaptureFixture[str], place: str, complaint: str):
    code, lines, complaints = called(capsys, "recover", place)
    assert (code, lines) == (2, [])
    assert complaints.startswith("perdure recover: ")
    assert complaint in complaints
    assert len(complaints.splitlines()) == 1


def test_what_a_module_imports_in_vain_is_shown_as_it_is(app: Any, tmp_path: Path):
    (tmp_path / "broken.py").write_text("import not_installed")
    importlib.invalidate_caches()  # the folder's time may not have moved on since it was looked into
    with pytest.raises(ModuleNotFoundError, match="not_installed"):
        main(["recover", "broken:graph"])


def test_a_graph_without_a_saver_cannot_recover(app: Any, capsys: pytest.CaptureFixture[str]):
    app.graph = chain(("a", lambda state: {})).compile()
    code, _, complaints = called(capsys, "recover", "app:graph")
    assert code == 2
    assert "checkpointer" in complaints


@can_tell
def test_P11_threads_lists_how_they_stand(app: Any, capsys: pytest.CaptureFixture[str]):
    asks = chain(("ask", lambda state: {"log": [interrupt({"which": "one"})]})).compile(checkpointer=app.saver, name="asks")
    app.graph.invoke({"log": []}, {**on("done"), "metadata": {"user": "ada", "n": 7, "text": "7"}})
    asks.invoke({"log": []}, on("asks"))
    die(app.saver, app.graph, Way("sync"), {"log": []}, on("dead"), at=1)
    code, lines, _ = called(capsys, "threads", "app.db", "--order", "id")
    assert code == 0
    assert [line.split("  ")[:3] for line in lines] == [
        ["asks", "interrupted", "asks"],
        ["dead", "crashed", "app"],
        ["done", "idle", "app"],
    ]
    assert lines[0].endswith("  ? {'which': 'one'}")
    code, lines, _ = called(capsys, "threads", "app.db", "--json")
    told = [json.loads(line) for line in lines]
    assert [one.get("thread_id") for one in told] == ["dead", "asks", "done", None]
    assert told[-1] == {"cursor": None}
    assert (told[0]["status"], told[0]["crashed"], told[0]["holder"]["pid"]) == ("busy", True, os.getpid())
    assert told[1]["interrupts"][0]["value"] == {"which": "one"}
    asks.invoke(Command(resume=1), on("asks"))

    def found(*options: str) -> list[str]:
        return [line.split("  ")[0] for line in called(capsys, "threads", "sqlite:///app.db", *options)[1]]

    assert found("--status", "busy", "--status", "error") == ["dead"]
    assert found("--graph", "app", "--prefix", "do") == ["done"]
    assert found("--metadata", "user=ada", "--metadata", "n=7", "--metadata", 'text="7"') == ["done"]
    assert found("--metadata", "n=8") == ["no threads"]
    assert found("--updated-after", "2099-01-01") == ["no threads"]
    assert len(found("--updated-after", "2020-01-01T00:00:00+02:00")) == 3
    first = called(capsys, "threads", "app.db", "--limit", "2")[1]
    assert first[2].startswith("… and more: --cursor ")
    assert found("--cursor", first[2].partition("--cursor ")[2].strip("'")) == ["done"]


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["nowhere.db"], "there is no database"),
        (["sqlite:///nowhere.db"], "there is no database"),
        (["redis://x"], "there is no saver for 'redis' URLs"),
        (["app.db", "--metadata", "user"], "KEY=VALUE"),
        (["app.db", "--updated-after", "yesterday"], "2026-01-31T12:00:00"),
        (["app.db", "--status", "crashed"], "there is no status 'crashed': such threads are 'busy'"),
        (["app.db", "--limit", "0"], "limit"),
        (["app.db", "--cursor", "x"], "no cursor of this list"),
    ],
)
def test_a_list_that_cannot_be_made_is_told_in_a_line(
    app: Any, capsys: pytest.CaptureFixture[str], options: list[str], complaint: str
):
    app.graph.invoke({"log": []}, on())
    code, lines, complaints = called(capsys, "threads", *options)
    assert (code, lines) == (2, [])
    assert complaint in complaints
    assert len(complaints.splitlines()) == 1
    assert not Path("nowhere.db").exists(), "looking makes nothing"


def test_a_class_that_is_not_there_does_not_keep_threads_from_being_listed(app: Any, capsys: pytest.CaptureFixture[str]):
    class Here:
        pass

    with SqliteSaver("other.db") as saver:
        saver.serde.register(Here, fields=())  # type: ignore[attr-defined]
        chain(("ask", lambda state: {"log": [interrupt(Here())]})).compile(checkpointer=saver).invoke({"log": []}, on())
    code, lines, _ = called(capsys, "threads", "other.db", "--json")
    assert code == 0
    assert "Here" in json.loads(lines[0])["interrupts"][0]["value"]


def test_what_users_call_things_does_not_steer_the_terminal(app: Any, capsys: pytest.CaptureFixture[str]):
    app.graph.invoke({"log": []}, on("a\x1b[2J\nb é\u202e"))
    _, lines, _ = called(capsys, "threads", "app.db")
    (line,) = lines
    assert line.startswith(r"a\x1b[2J\nb é\u202e  idle")


@can_tell
def test_a_recovery_that_is_stopped_says_so(app: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    def stopped(self: Any, **_: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(type(app.graph), "resume_all", stopped)
    assert called(capsys, "recover", "app:graph", "--sync") == (130, [], "perdure recover: stopped\n")


def test_every_command_and_option_is_in_the_reference():
    page = (ROOT / "docs" / "reference" / "command-line.md").read_text(encoding="utf-8")
    commands: Any = next(action for action in parser()._actions if action.dest == "command")
    assert set(commands.choices) == set(COMMANDS)
    for name, own in commands.choices.items():
        section = page.partition(f"## perdure {name}\n")[2].partition("\n## ")[0]
        options = [option for action in own._actions for option in action.option_strings if option.startswith("--")]
        assert [option for option in options if f"`{option}" not in section and option != "--help"] == []


@pytest.mark.parametrize("module", ["perdure", "perdure.cli"])
def test_the_command_is_a_script_and_a_module(tmp_path: Path, module: str):
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-W", "error", "-m", module, "--help"]
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert all(name in done.stdout for name in COMMANDS)
    assert 'perdure = "perdure.cli:main"' in (ROOT / "pyproject.toml").read_text()


def test_a_living_holder_is_told_from_a_dead_one_and_from_one_that_cannot_be_looked_into():
    mine = identity.holder("run", 1)
    if not mine.started:
        pytest.skip("this system does not tell when a process started")
    assert identity.lives(LeaseRow("token", 1, 0, mine)) is True
    assert identity.lives(LeaseRow("token", 1, 0, replace(mine, started="1"))) is False
    assert identity.lives(LeaseRow("token", 1, 0, replace(mine, host="far-away"))) is None
    assert identity.lives(LeaseRow("token", 1, 0, None)) is None
    assert identity.lives(LeaseRow(None, 1, 0, mine)) is None
