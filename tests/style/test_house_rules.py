"""Rules of the house that no linter has."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
LONGEST = 450
NAMELESS = {"utils", "util", "helpers", "common", "misc", "base2"}
LEFT_UNDONE = re.compile(r"\b(TODO|FIXME|XXX)\b")


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


every_source = pytest.mark.parametrize("path", SOURCES, ids=name_of)


def undocumented(tree: ast.Module) -> list[str]:
    """Public classes and functions of a module that have no docstring. (ruff's D102 sees to methods.)"""
    found = []
    for statement in tree.body:
        if not isinstance(statement, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) or statement.name.startswith("_"):
            continue
        if ast.get_docstring(statement) is None and not excused(statement):
            found.append(f"{statement.name} (line {statement.lineno})")
    return found


def excused(definition: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether it is an overload, whose docstring stands on the implementation."""
    return any(ast.unparse(decorator).endswith("overload") for decorator in definition.decorator_list)


def test_there_are_sources():
    assert SOURCES


@every_source
def test_a_file_is_about_one_thing(path: Path):
    lines = len(path.read_text(encoding="utf-8").splitlines())
    assert lines <= LONGEST, f"{name_of(path)} has {lines} lines: which two things is it about?"


@every_source
def test_a_module_is_named_by_what_it_is_about(path: Path):
    parts = path.relative_to(ROOT / "src").with_suffix("").parts
    assert not NAMELESS.intersection(part.strip("_") for part in parts)


@every_source
def test_a_module_says_what_it_is_for(path: Path):
    assert ast.get_docstring(ast.parse(path.read_bytes()))


@every_source
def test_nothing_is_left_undone(path: Path):
    lines = enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
    assert [f"line {number}: {line.strip()}" for number, line in lines if LEFT_UNDONE.search(line)] == []


@every_source
def test_public_names_are_documented(path: Path):
    assert undocumented(ast.parse(path.read_bytes())) == []


def test_the_rule_on_documentation_sees_what_it_should():
    source = """
class Bare: ...
class _Private: ...
class Told:
    "Yes."
def bare(): ...
async def also_bare(): ...
@overload
def bare_overload(): ...
"""
    assert undocumented(ast.parse(source)) == ["Bare (line 2)", "bare (line 6)", "also_bare (line 7)"]
