"""Threads that LangGraph's own savers wrote come over whole, and go on. (Issue 4: reading an existing database)

`tests/formats/langgraph` holds what its packages wrote, and what they themselves said of it.
"""

from __future__ import annotations

import enum
import io
import shutil
import sqlite3
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from perdure.checkpoint.saver import Saver
from perdure.errors import CorruptRecord, WrongType
from perdure.integrations.langgraph import ImportReport
from perdure.messages import Message
from perdure.types import Command
from tests.integrations import langgraph_shapes as shapes
from tests.integrations.langgraph_stored import (
    ASKING,
    SAID,
    SQLITE,
    THREADS,
    Captured,
    brought,
    expected,
    history,
)
from tests.promises.ways import COLOURS, SAVERS, Way, on, open_saver


class Kind(enum.Enum):
    SMALL = 1


@pytest.fixture(params=SAVERS)
def saver(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Saver]:
    shapes.ran.clear()
    (tmp_path / "saver").mkdir()
    made = open_saver(request.param, tmp_path / "saver")
    yield made
    made.close()


@pytest.fixture(params=["sqlite", "postgres"])
def kind(request: pytest.FixtureRequest) -> str:
    kind: str = request.param
    return kind


@pytest.fixture(params=COLOURS)
def way(request: pytest.FixtureRequest) -> Way:
    return Way(request.param)


@pytest.fixture
def report(way: Way, kind: str, saver: Saver, tmp_path: Path) -> ImportReport:
    source = Captured() if kind == "postgres" else shutil.copy(SQLITE, tmp_path / "threads.sqlite")
    return brought(way, source, saver)


@pytest.mark.usefixtures("report")
@pytest.mark.parametrize("thread", [thread for thread in THREADS if thread not in ("workflow", "odd")])
def test_history_is_what_it_was(thread: str, kind: str, saver: Saver, way: Way):
    found = history(thread, saver, way)
    want = expected(thread, kind)
    for each in found:
        each["values"] = {key: value for key, value in each["values"].items() if value != []}
    for there, here in zip(want, found, strict=True):
        differing = {key: (there[key], here[key]) for key in there if there[key] != here[key]}
        if there["next"] == ["__start__"]:
            differing.pop("values", None)
        # Shown there for an old checkpoint is only the last of several questions in a row; here all of them.
        differing.pop("interrupts", None)
        assert differing == {}, there["id"]
    assert shapes.ran == []


def test_the_report_says_what_was_brought(report: ImportReport):
    assert [one.thread for one in report.threads] == THREADS
    assert report.brought == len(THREADS)
    assert report.refused == {}
    found = {one.thread: (one.pauses, tuple(sorted(one.next))) for one in report.threads}
    assert found == {
        "answered": (0, ()),
        "chat": (0, ()),
        "deep": (2, ("mid",)),
        "failing": (0, ("bad",)),
        "fan_out": (1, ("work", "work", "work")),
        "late": (0, ("b",)),
        "line": (0, ("b",)),
        "nested": (1, ("sub",)),
        "odd": (0, ()),
        "questions": (1, ("ask",)),
        "remembering": (1, ("sub",)),
        "several": (2, ("p", "q")),
        "twice": (1, ("calls",)),
        "workflow": (1, ("flow",)),
    }
    notes = {one.thread: list(one.notes) for one in report.threads if one.notes}
    assert sorted(notes) == ["odd", "workflow"]
    assert "Point is kept under its name" in notes["odd"][0]
    assert "steps" in notes["workflow"][0]
    assert "questions: 2 checkpoints" in str(report)


@pytest.mark.usefixtures("report")
def test_open_questions_have_their_ids_and_are_answered_by_them(kind: str, saver: Saver, way: Way):
    for thread in ASKING:
        snapshot = way.state(shapes.compiled(thread, saver), on(thread))
        asked = sorted([one.id, one.value] for one in snapshot.interrupts)
        assert asked == sorted(SAID[kind][thread][0]["interrupts"]), thread
    inbox = saver.list_interrupts().items
    assert {item.thread_id for item in inbox} == set(ASKING)


@pytest.mark.usefixtures("report")
def test_a_node_with_several_questions_goes_on_at_the_one_that_is_open(saver: Saver, way: Way):
    graph = shapes.compiled("questions", saver)
    (asked,) = way.state(graph, on("questions")).interrupts
    result = way.invoke(graph, Command(resume={asked.id: "3"}), on("questions"))
    assert result["log"] == ["in", "a", "123", "end"]
    assert shapes.ran == ["end"], "the result of the other node was stored"


@pytest.mark.usefixtures("report")
def test_questions_at_once_are_answered_in_any_order(saver: Saver, way: Way):
    graph = shapes.compiled("several", saver)
    ids = {one.value: one.id for one in way.state(graph, on("several")).interrupts}
    way.invoke(graph, Command(resume={ids["q"]: "2"}), on("several"))
    assert [one.value for one in way.state(graph, on("several")).interrupts] == ["p"]
    assert way.invoke(graph, Command(resume="1"), on("several"))["log"] == ["in", "p=1", "q=2", "r"]
    assert shapes.ran == []


@pytest.mark.usefixtures("report")
def test_a_conversation_goes_on_and_grows_by_what_is_new(saver: Saver, way: Way):
    graph = shapes.compiled("chat", saver)
    given = {"messages": [{"role": "user", "content": "more", "id": "more"}]}
    result = way.invoke(graph, given, on("chat"))
    assert len(result["messages"]) == 15
    assert [message.content for message in result["messages"][:3]] == ["turn 0", "reply 1", "seen 1"]
    assert all(isinstance(message, Message) for message in result["messages"])
    assert result["messages"][1].tool_calls[0]["function"]["name"] == "look"
    again = way.invoke(graph, {"messages": [{"role": "user", "content": "other", "id": "user0"}]}, on("chat"))
    assert again["messages"][0].content == "other", "replaced by its id"
    file = io.BytesIO()
    saver.export_thread("chat", file)
    assert len(file.getvalue()) < 40_000


@pytest.mark.usefixtures("report")
def test_a_subgraph_goes_on_inside(saver: Saver, way: Way):
    graph = shapes.compiled("nested", saver)
    inner = way.state(graph, on("nested"), subgraphs=True).tasks[0].state
    assert inner.next == ("y",)
    assert inner.values == {"log": ["in", "x"]}
    assert way.invoke(graph, Command(resume="yes"), on("nested"))["log"] == ["in", "in", "x", "yes", "after"]
    assert shapes.ran == ["after"], "the step inside was stored"


@pytest.mark.usefixtures("report")
def test_a_subgraph_that_is_called_twice_goes_on_in_the_second_call(saver: Saver, way: Way):
    graph = shapes.compiled("twice", saver)
    result = way.invoke(graph, Command(resume="two"), on("twice"))
    assert result["log"] == ["in", "1", "x", "one", "2", "x", "two", "after"]
    assert shapes.ran == ["after"]


@pytest.mark.usefixtures("report")
def test_subgraphs_in_subgraphs_by_sends_go_on_where_each_was(saver: Saver, way: Way):
    graph = shapes.compiled("deep", saver)
    ids = {one.value: one.id for one in way.state(graph, on("deep")).interrupts}
    way.invoke(graph, Command(resume={ids["q"]: "Q"}), on("deep"))
    assert [one.value for one in way.state(graph, on("deep")).interrupts] == ["p"]
    result = way.invoke(graph, Command(resume="P"), on("deep"))
    assert result["log"] == ["in", "in", "p", "k", "P", "q", "k", "Q", "z", "end"]
    assert shapes.ran == ["z", "end"]


@pytest.mark.usefixtures("report")
def test_a_subgraph_that_remembers_remembers(saver: Saver, way: Way):
    graph = shapes.compiled("remembering", saver)
    result = way.invoke(graph, Command(resume="two"), on("remembering"))
    first = ["in", "in", "x", "one", "after", "more"]
    inside = ["in", "x", "one", *first, "x", "two"]
    assert result["log"] == [*first, *inside, "after"]
    assert shapes.ran == ["after"]
    old = [each for each in way.history(graph, on("remembering")) if each.next == ("after",)][-1]
    assert way.invoke(graph, None, old.config)["log"] == ["in", "in", "x", "one", "after"]
    asked = way.invoke(graph, {"log": ["third"]}, on("remembering"))
    inner = way.state(graph, on("remembering"), subgraphs=True).tasks[0].state
    assert inner.values["log"][:4] == ["in", "x", "one", *asked["log"][:1]], "as of the branch"
    assert "two" not in inner.values["log"]


@pytest.mark.usefixtures("report")
def test_sends_go_on_and_those_that_have_ended_do_not_run_again(saver: Saver, way: Way):
    graph = shapes.compiled("fan_out", saver)
    assert way.invoke(graph, Command(resume="work-1"), on("fan_out"))["log"] == ["in", "work0", "work-1", "work2", "end"]
    assert shapes.ran == ["work1", "end"]


@pytest.mark.usefixtures("report")
def test_a_failure_is_shown_and_only_what_failed_runs_again(saver: Saver, way: Way):
    graph = shapes.compiled("failing", saver)
    tasks = {task.name: task for task in way.state(graph, on("failing")).tasks}
    assert repr(tasks["bad"].error) == "ConnectionError('the service is down')"
    assert way.invoke(graph, None, on("failing"))["log"] == ["in", "bad", "good", "end"]
    assert shapes.ran == ["bad", "end"]


@pytest.mark.usefixtures("report")
def test_a_deferred_node_still_waits(saver: Saver, way: Way):
    graph = shapes.compiled("late", saver)
    assert way.invoke(graph, None, on("late"))["log"] == ["in", "a", "b", "c", "d"]
    assert shapes.ran == ["b", "c", "d"]


@pytest.mark.usefixtures("report")
def test_an_edited_branch_goes_on_and_old_checkpoints_fork(kind: str, saver: Saver, way: Way):
    graph = shapes.compiled("line", saver)
    assert way.invoke(graph, None, on("line"))["log"] == ["in", "a", "edited", "b", "c"]
    ids = [each["id"] for each in SAID[kind]["line"] if each["next"] == ["c"]]
    assert way.invoke(graph, None, on("line", checkpoint_id=ids[-1]))["log"] == ["in", "a", "b", "c"]
    snapshots = {each.config["configurable"]["checkpoint_id"]: each for each in way.history(graph, on("line"))}
    newest = max(snapshots)
    assert newest not in {each["id"] for each in SAID[kind]["line"]}, "new ids are later than all of the old ones"


@pytest.mark.usefixtures("report")
def test_a_workflow_runs_its_steps_again_and_has_what_it_returned_before(saver: Saver, way: Way):
    flow = shapes.compiled("workflow", saver)
    assert flow.invoke(Command(resume="ok"), on("workflow")) == [[None, 8, "yes"], 10, "ok"]
    assert shapes.ran == ["double5"]


@pytest.mark.usefixtures("report")
def test_values_keep_their_types_and_classes_come_back_for_a_graph_that_knows_them(saver: Saver, way: Way):
    class Known(shapes.Odd):
        pass

    saver.serde.register(shapes.Point, aliases=["__main__:Point"])
    values = way.state(shapes.compiled("odd", saver), on("odd")).values
    assert {key: type(value).__name__ for key, value in values.items()} == {
        "when": "datetime",
        "price": "Decimal",
        "who": "UUID",
        "tags": "set",
        "point": "Point",
        "big": "str",
    }
    assert (values["price"].as_tuple().exponent, values["point"]) == (-2, shapes.Point(1, 2))
    assert values["when"].isoformat() == "2026-01-02T03:04:05+00:00"


def test_what_is_there_is_passed_over_and_the_rest_comes(kind: str, saver: Saver, way: Way, tmp_path: Path):
    source = Captured() if kind == "postgres" else SQLITE
    first = brought(way, source, saver, threads=["chat", "line"], graph="mine")
    assert [one.thread for one in first.threads] == ["chat", "line"]
    before = saver.export_thread("chat", io.BytesIO())
    second = brought(way, source, saver)
    assert second.brought == len(THREADS) - 2
    assert sorted(second.refused) == ["chat", "line"]
    assert "already" in second.refused["chat"]
    assert saver.export_thread("chat", io.BytesIO()) == before
    assert {item.graph for item in saver.list_interrupts().items} == {""}


def test_P50_a_thread_that_is_asked_for_and_not_there_is_told(saver: Saver, way: Way):
    report = brought(way, SQLITE, saver, threads=["no such", "chat"])
    assert (report.brought, report.refused) == (1, {"no such": "the source has no thread of that id"})
    assert str(report).splitlines()[-1] == "no such: not brought: the source has no thread of that id"
    assert [thread.thread_id for thread in saver.list_threads()] == ["chat"]


def test_P50_a_target_that_is_no_saver_is_told_with_an_example(way: Way):
    with pytest.raises(TypeError, match=r"not into str: import_threads\('checkpoints\.sqlite', SqliteSaver\('threads\.db'\)\)"):
        brought(way, SQLITE, "threads.db")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"threads": "chat"}, r"threads is a list of thread ids, such as \['chat'\], not 'chat'"),
        ({"threads": 0}, "threads is a list of thread ids"),
        ({"types": ["Order"]}, r"types is a list of classes, such as \[Order\], not \['Order'\]"),
        ({"types": Kind}, "types is a list of classes"),
        ({"types": 5}, "types is a list of classes"),
        ({"graph": object()}, r"graph is the name of a graph, such as graph\.name, not object"),
    ],
)
def test_P50_what_is_no_list_and_no_name_is_told_before_anything_comes(
    saver: Saver, way: Way, options: dict[str, Any], says: str
):
    with pytest.raises(WrongType, match=says):
        brought(way, SQLITE, saver, **options)
    assert list(saver.list_threads()) == []


def test_messages_may_stay_those_of_langchain(saver: Saver, way: Way):
    from langchain_core.messages import AIMessage, HumanMessage

    brought(way, SQLITE, saver, threads=["chat"], messages="langchain")
    found = way.state(shapes.compiled("chat", saver), on("chat")).values["messages"]
    assert [type(message) for message in found[:2]] == [HumanMessage, AIMessage]
    assert found[1].tool_calls[0]["name"] == "look"


def test_langgraph_is_not_imported(saver: Saver, way: Way):
    brought(way, SQLITE, saver)
    assert [name for name in sys.modules if name.split(".")[0] == "langgraph"] == []


def test_the_source_is_not_changed(saver: Saver, way: Way, tmp_path: Path):
    copy = Path(shutil.copy(SQLITE, tmp_path / "copy.sqlite"))
    brought(way, copy, saver)
    assert copy.read_bytes() == SQLITE.read_bytes()
    connection = sqlite3.connect(copy, check_same_thread=False)
    assert brought(way, connection, saver).brought == 0
    assert connection.execute("SELECT count(*) FROM checkpoints").fetchone()[0] > 40, "it is left open"
    connection.close()


def altered(path: Path, *statements: str) -> Path:
    copy = Path(shutil.copy(SQLITE, path))
    connection = sqlite3.connect(copy)
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()
    return copy


def test_a_thread_that_cannot_be_brought_is_named_and_the_others_come(saver: Saver, way: Way, tmp_path: Path):
    path = altered(
        tmp_path / "a.sqlite",
        "UPDATE writes SET type = 'pickle' WHERE thread_id = 'chat' AND channel = 'messages'",
        "UPDATE checkpoints SET type = 'msgpack+aes' WHERE thread_id = 'line'",
        "UPDATE checkpoints SET checkpoint = x'c1' WHERE thread_id = 'late'",
        """UPDATE checkpoints SET metadata = '{"step": 1, "counters_since_delta_snapshot": {"log2": [1, 1]}}'
            WHERE thread_id = 'odd'""",
        "UPDATE checkpoints SET checkpoint_ns = 'x:1' WHERE thread_id = 'answered'",
    )
    report = brought(way, path, saver)
    refused = report.refused
    assert sorted(refused) == ["answered", "chat", "late", "line", "odd"]
    assert "pickles" in refused["chat"]
    assert "encrypted" in refused["line"]
    assert "cannot be read" in refused["late"]
    assert "DeltaChannel" in refused["odd"]
    assert "root" in refused["answered"]
    assert report.brought == len(THREADS) - 5
    for thread in refused:
        assert way.state(shapes.compiled(thread, saver), on(thread)).metadata is None


def test_an_answer_that_no_node_has_taken_yet_is_an_answer(saver: Saver, way: Way, tmp_path: Path):
    path = altered(
        tmp_path / "a.sqlite",
        """INSERT INTO writes SELECT thread_id, '', checkpoint_id, '00000000-0000-0000-0000-000000000000', '', -4, '__resume__',
                                    'msgpack', x'a3796573'
             FROM checkpoints WHERE thread_id = 'fan_out' ORDER BY checkpoint_id DESC LIMIT 1""",
    )
    report = brought(way, path, saver, threads=["fan_out"])
    assert report.threads[0].pauses == 0
    assert way.invoke(shapes.compiled("fan_out", saver), None, on("fan_out"))["log"] == ["in", "work0", "yes", "work2", "end"]


def test_tables_of_older_versions_have_no_paths(saver: Saver, way: Way, tmp_path: Path):
    path = altered(tmp_path / "a.sqlite", "ALTER TABLE writes DROP COLUMN task_path")
    report = brought(way, path, saver)
    assert report.refused == {}
    notes = {one.thread: list(one.notes) for one in report.threads}
    assert "runs again" in notes["questions"][0]
    graph = shapes.compiled("line", saver)
    assert way.invoke(graph, None, on("line"))["log"] == ["in", "a", "edited", "b", "c"]
    assert len(way.history(graph, on("line"))) == 8


def test_a_parent_that_was_pruned_and_a_clock_that_stepped_back(saver: Saver, way: Way, tmp_path: Path):
    connection = sqlite3.connect(SQLITE)
    ids = [row[0] for row in connection.execute("SELECT checkpoint_id FROM checkpoints WHERE thread_id = 'line' ORDER BY 1")]
    connection.close()
    path = altered(
        tmp_path / "a.sqlite",
        f"DELETE FROM checkpoints WHERE checkpoint_id = '{ids[0]}'",
        f"UPDATE checkpoints SET checkpoint_id = '1a000000-0000-6000-8000-000000000000' WHERE checkpoint_id = '{ids[1]}'",
        f"""UPDATE checkpoints SET parent_checkpoint_id = '1a000000-0000-6000-8000-000000000000'
            WHERE parent_checkpoint_id = '{ids[1]}'""",
    )
    report = brought(way, path, saver, threads=["line"])
    assert "not in the tables any more" in next(iter(report.threads[0].notes))
    assert way.invoke(shapes.compiled("line", saver), None, on("line"))["log"] == ["in", "a", "edited", "b", "c"]


def test_another_database_is_refused(saver: Saver, way: Way, tmp_path: Path):
    with pytest.raises(FileNotFoundError):
        brought(way, tmp_path / "none.sqlite", saver)
    (tmp_path / "text").write_text("no database at all, and longer than a header of one is" * 5)
    with pytest.raises(CorruptRecord, match="no SQLite database"):
        brought(way, tmp_path / "text", saver)
    sqlite3.connect(tmp_path / "empty").close()
    with pytest.raises(CorruptRecord, match="SqliteSaver"):
        brought(way, tmp_path / "empty", saver)
    with pytest.raises(TypeError, match="postgresql://"):
        brought(way, 5, saver)
    with pytest.raises(TypeError, match="saver of this library"):
        brought(way, SQLITE, object())
    with pytest.raises(ValueError, match="plain"):
        brought(way, SQLITE, saver, messages="odd")
