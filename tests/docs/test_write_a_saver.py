"""The page on savers of one's own: its code is run as it stands there, and its saver passes the suite that it speaks of."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from perdure.testing.saver_suite import ThirdPartySuite
from perdure.types import Command, interrupt

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "write-a-saver.md"
SAVER, USE, TEST = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


def run(*blocks: str) -> dict[str, Any]:
    """The names that blocks of the page define."""
    names: dict[str, Any] = {"__name__": "page"}
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), names)
    return names


def test_the_saver_has_less_than_a_hundred_lines():
    assert len([line for line in SAVER.splitlines() if line.strip()]) < 100


def test_the_page_runs_as_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.chdir(tmp_path)
    names = run(SAVER, USE)
    assert capsys.readouterr().out == "{'count': 11}\n"
    names["graph"].checkpointer.file.close()
    again = run(SAVER)["JsonLinesSaver"]("threads.jsonl")
    assert [each.metadata["step"] for each in again.list(names["config"])] == [4, 3, 2, 1, 0, -1]
    again.file.close()


def test_a_new_process_goes_on_from_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    names = run(SAVER, USE)
    builder = names["builder"]
    builder.add_node("ask", lambda state: {"count": interrupt("how many?")})
    builder.add_edge("add", "ask")
    names["graph"].checkpointer.file.close()
    config = {"configurable": {"thread_id": "2"}}
    answers = []
    turns: list[Any] = [{"count": 0}, Command(resume=5)]
    for given in turns:
        saver = run(SAVER)["JsonLinesSaver"]("threads.jsonl")
        answers.append(builder.compile(checkpointer=saver).invoke(given, config))
        saver.file.close()
    assert answers[0]["__interrupt__"][0].value == "how many?"
    assert answers[1] == {"count": 5}


def test_the_test_file_of_the_page_is_a_test_class_of_the_suite():
    names = run(SAVER, TEST)
    assert issubclass(names["TestJsonLines"], ThirdPartySuite)


class TestThePagesSaver(ThirdPartySuite):
    def make_saver(self, where: Path, **options: Any) -> Any:
        saver = run(SAVER)["JsonLinesSaver"](where / "threads.jsonl")
        saver.close = saver.file.close
        return saver
