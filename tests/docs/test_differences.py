"""The page of differences names, for each, a reason and a test that exists and runs with the suite."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.docs.pages import ROOT

PAGE = ROOT / "docs" / "explanation" / "differences.md"
REASON = re.compile(r"P([1-9]|[1-4]\d|5[01])|slip")
TESTS = re.compile(r"^Tests: `(tests/[\w/]+/test_\w+\.py)`$")


class Row(NamedTuple):
    """One difference, as the page has it."""

    theirs: str
    ours: str
    why: str
    test: str
    file: str


def rows() -> list[Row]:
    """All differences of the page."""
    found: list[Row] = []
    file = ""
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            file = ""
        elif named := TESTS.match(line):
            file = named[1]
        elif line.startswith("| ") and not line.startswith("| LangGraph | Perdure |"):
            cells = [cell.strip() for cell in line.strip("|").split(" | ")]
            assert len(cells) == 4, f"not four cells: {line}"
            found.append(Row(cells[0], cells[1], cells[2], cells[3], file))
    return found


def functions_of(file: Path) -> dict[str, ast.FunctionDef]:
    """The test functions of a module: what pytest collects of it."""
    module = ast.parse(file.read_text(encoding="utf-8"))
    return {node.name: node for node in module.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")}


ROWS = rows()


def test_the_page_lists_differences() -> None:
    assert len(ROWS) > 50


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.test.strip("`"))
def test_each_difference_has_a_reason_and_a_test_in_the_suite(row: Row) -> None:
    assert row.ours
    assert REASON.fullmatch(row.why), f"no promise and no slip: {row.why!r}"
    assert row.file, "its section names no test file"
    name = re.fullmatch(r"`(test_\w+)`", row.test)
    assert name, f"no name of a test: {row.test!r}"
    functions = functions_of(ROOT / row.file)
    assert name[1] in functions
    marks = [ast.unparse(mark) for mark in functions[name[1]].decorator_list]
    assert not [mark for mark in marks if re.search(r"\b(skip\w*|xfail|nightly)\b", mark)], "it does not run with the suite"


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.test.strip("`"))
def test_a_test_that_names_a_promise_is_named_for_it(row: Row) -> None:
    promised = re.search(r"test_(P\d+)_", row.test)
    assert (promised[1] if promised else "slip") == row.why


def test_each_difference_that_is_tested_is_on_the_page() -> None:
    listed = {(row.file, row.test.strip("`")) for row in ROWS}
    files = sorted((ROOT / "tests" / "reference").glob("test_differences_*.py"))
    assert files
    tested = {(file.relative_to(ROOT).as_posix(), name) for file in files for name in functions_of(file)}
    assert tested - listed == set()


def test_no_difference_is_listed_twice() -> None:
    names = [row.test for row in ROWS]
    assert sorted(names) == sorted(set(names))
