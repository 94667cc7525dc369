"""What this library raises is in its error tree: bare builtin errors have no code."""

from __future__ import annotations

import ast
import builtins
import importlib
import inspect
import pkgutil
from pathlib import Path

import pytest

import perdure
from perdure.errors import GraphBubbleUp, PerdureError
from tests.style.test_house_rules import ROOT, SOURCES, name_of

SHIPPED = [path for path in SOURCES if "testing" not in path.parts]
BUILTIN = {name for name, one in vars(builtins).items() if isinstance(one, type) and issubclass(one, BaseException)}

CAUGHT_BESIDE_IT = {
    "src/perdure/ids.py:ticks_in",
    "src/perdure/checkpoint/rows.py:_where",
    "src/perdure/checkpoint/incremental/manifest.py:again",
    "src/perdure/checkpoint/incremental/manifest.py:_part",
    "src/perdure/checkpoint/incremental/manifest.py:_number",
}
"""Where reading damaged rows begins; what calls these makes a CorruptRecord of it."""
CANNOT_HAPPEN = {
    "src/perdure/engine/runners/awaited.py:store_from_thread",
}
"""Where only a mistake in this library leads."""
PROTOCOL = {"InvalidStateError", "FileNotFoundError"}
"""What other code expects to catch: the contract of asyncio's futures, and what a path that leads nowhere raises everywhere."""
NEVER_LEAVES = {
    "LoopIsBlocked",
    "Misfit",
    "MovedOn",
    "Refused",
    "StaleLoad",
    "Stopped",
    "Unloadable",
}
"""Classes that one part of this library raises for another to catch."""


def bare(tree: ast.Module) -> list[tuple[str, str, int]]:
    """Each raise of a builtin or a dotted error: the function around it, the error, the line."""
    found: list[tuple[str, str, int]] = []

    def look(node: ast.AST, around: str) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                look(child, child.name)
                continue
            if isinstance(child, ast.Raise) and child.exc is not None:
                called = child.exc.func if isinstance(child.exc, ast.Call) else child.exc
                name = called.attr if isinstance(called, ast.Attribute) else called.id if isinstance(called, ast.Name) else ""
                abstract = name == "NotImplementedError" and called is child.exc
                missing = name == "AttributeError" and around == "__getattr__"
                dotted = isinstance(called, ast.Attribute) and name[:1].isupper()
                if (name in BUILTIN or dotted) and name != "AssertionError" and not abstract and not missing:
                    found.append((around, name, child.lineno))
            look(child, around)

    look(tree, "")
    return found


@pytest.mark.parametrize("path", SHIPPED, ids=name_of)
def test_what_is_raised_is_in_the_error_tree(path: Path):
    found = [
        f"{name_of(path)}:{line}: {name} in {around or 'the module'}"
        for around, name, line in bare(ast.parse(path.read_bytes()))
        if f"{name_of(path)}:{around}" not in CAUGHT_BESIDE_IT | CANNOT_HAPPEN and name not in PROTOCOL
    ]
    assert found == [], "raise an error of perdure.errors; InvalidArgument, WrongType and InvalidCall are builtin ones too"


def test_the_exceptions_still_exist():
    for place in CAUGHT_BESIDE_IT | CANNOT_HAPPEN:
        file, _, function = place.partition(":")
        assert function in {around for around, _, _ in bare(ast.parse((ROOT / file).read_bytes()))}, place


def test_the_rule_on_errors_sees_what_it_should():
    source = """
def f():
    if a:
        raise ValueError("no")
    raise asyncio.TimeoutError
async def g():
    raise KeyError
def __getattr__(name):
    raise AttributeError(name)
def h():
    raise NotImplementedError
def i():
    raise NotImplementedError("so far")
def j():
    raise error
"""
    assert bare(ast.parse(source)) == [
        ("f", "ValueError", 4),
        ("f", "TimeoutError", 5),
        ("g", "KeyError", 7),
        ("i", "NotImplementedError", 13),
    ]


def test_every_class_of_errors_is_in_the_tree_and_has_a_code_of_its_own():
    codes: dict[str, type] = {}
    for module in pkgutil.walk_packages(perdure.__path__, "perdure."):
        if module.name.startswith(("perdure.testing", "perdure.integrations")):
            continue
        for name, one in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
            if not issubclass(one, BaseException) or not one.__module__.startswith("perdure"):
                continue
            if issubclass(one, PerdureError | GraphBubbleUp | Warning):
                assert codes.setdefault(one.code, one) is one, f"{one.__name__} has the code of another error"
            else:
                assert name in NEVER_LEAVES, f"{one} is not in the tree"
