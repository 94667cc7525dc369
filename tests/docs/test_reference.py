"""The reference mentions everything that is public: names, errors with their codes, config keys, options."""

from __future__ import annotations

import inspect
import re
from typing import Any, TypeVar

import pytest

import perdure
from perdure import channels, errors, runtime, types
from perdure.engine.compiled import CompiledGraph
from perdure.engine.options import RunOptions
from perdure.graph import StateGraph
from perdure.runtime.config import KNOWN_KEYS
from tests.docs.pages import ROOT

REFERENCE = {path.stem: path.read_text(encoding="utf-8") for path in sorted((ROOT / "docs" / "reference").glob("*.md"))}
ALL = "\n".join(REFERENCE.values())


def missing(names: list[str], text: str) -> list[str]:
    """The names that `text` does not mention as a word."""
    return [name for name in names if not re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text)]


def methods(cls: type[Any]) -> list[str]:
    return [name for name, _ in inspect.getmembers(cls, inspect.isfunction) if not name.startswith("_")]


def classes_of(module: Any) -> list[type[BaseException]]:
    return [one for _, one in inspect.getmembers(module, inspect.isclass) if issubclass(one, BaseException)]


def test_every_name_of_the_package_is_in_the_reference():
    assert missing(sorted(set(perdure.__all__)), ALL) == []


@pytest.mark.parametrize("error", classes_of(errors), ids=lambda error: error.__name__)
def test_every_error_is_in_the_reference_with_its_code(error: type[Any]):
    assert missing([error.__name__, error.code], REFERENCE["errors"]) == []


def test_every_config_key_is_in_the_reference():
    assert missing(list(KNOWN_KEYS), REFERENCE["runtime"]) == []


def test_every_option_of_a_run_is_in_the_reference():
    assert missing(sorted(RunOptions.__annotations__), REFERENCE["graph"]) == []


def test_every_method_of_a_builder_and_of_a_graph_is_in_the_reference():
    assert missing(methods(StateGraph), REFERENCE["graph"]) == []
    assert missing(methods(CompiledGraph), REFERENCE["graph"]) == []


def test_every_value_that_is_exchanged_is_in_the_reference():
    own = [
        name
        for name, one in vars(types).items()
        if getattr(one, "__module__", "") == types.__name__ and name[0].isupper() and not isinstance(one, TypeVar)
    ]
    assert missing(own, REFERENCE["types"]) == []


def test_the_names_for_types_of_arguments_can_be_imported():
    row = next(line for line in REFERENCE["types"].splitlines() if line.endswith("| names for the types of arguments |"))
    assert [name for name in re.findall(r"`(\w+)`", row) if not hasattr(types, name)] == []


def test_every_kind_of_channel_is_in_the_reference():
    assert missing(list(channels.__all__), REFERENCE["types"]) == []


def test_everything_that_a_node_can_reach_is_in_the_reference():
    assert missing(list(runtime.__all__), REFERENCE["runtime"]) == []
    assert missing([name for name in dir(runtime.Runtime) if not name.startswith("_")], REFERENCE["runtime"]) == []


def test_every_room_is_on_the_page_about_architecture():
    rooms = [path.stem for path in (ROOT / "src" / "perdure").iterdir() if path.name[0] != "_" and path.suffix in {"", ".py"}]
    page = (ROOT / "docs" / "explanation" / "architecture.md").read_text(encoding="utf-8")
    assert missing(sorted(rooms), page) == []
