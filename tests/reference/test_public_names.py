"""A program that uses LangGraph needs another import, and no more: its public names are found in the same places here.

`public_names.json` lists them by module. A name that is not here is one that says what to use in its place, and is on the page about coming
from LangGraph; or it belongs to a part that this version does not have.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import re
import subprocess
import sys
from typing import Any

import pytest
from langchain_core.runnables import RunnableLambda

from perdure.absent import INSTEAD, OF_GRAPHS, OF_SAVERS
from perdure.checkpoint.saver import Saver
from perdure.errors import NotOffered
from perdure.func import entrypoint
from perdure.graph import START, StateGraph
from tests.docs.pages import ROOT

NAMES: dict[str, list[str]] = json.loads((ROOT / "tests" / "reference" / "public_names.json").read_text("utf-8"))
METHODS: dict[str, list[str]] = json.loads((ROOT / "tests" / "reference" / "public_methods.json").read_text("utf-8"))
"""By class; those of a graph made of channels by hand are listed with the compiled one's."""
PAGE = (ROOT / "docs" / "how-to" / "come-from-langgraph.md").read_text("utf-8")

NOT_YET = {
    "perdure.cache.redis",
    "perdure.callbacks",
    "perdure.checkpoint.conformance",
    "perdure.checkpoint.postgres",
    "perdure.checkpoint.postgres.aio",
    "perdure.checkpoint.postgres.shallow",
    "perdure.checkpoint.serde.encrypted",
    "perdure.checkpoint.serde.event_hooks",
    "perdure.prebuilt",
    "perdure.pregel",
    "perdure.store.base",
    "perdure.store.base.batch",
    "perdure.store.base.embed",
    "perdure.store.memory",
    "perdure.store.postgres",
    "perdure.store.sqlite",
    "perdure.stream",
    "perdure.warnings",
}
"""Parts that this version has not, or not all of; the page names them."""
NOBODYS = {("perdure.checkpoint.sqlite.aio", "T")}
"""Names that are public there by accident."""


def from_import(module: str, name: str) -> object:
    """What `from module import name` gives."""
    found: dict[str, object] = {}
    exec(f"from {module} import {name}", found)
    return found[name]


@pytest.mark.parametrize(("module", "name"), [(module, name) for module, names in NAMES.items() for name in names])
def test_a_public_name_is_where_programs_look_for_it(module: str, name: str):
    if name in INSTEAD.get(module, {}):
        with pytest.raises(NotOffered, match=rf"^{re.escape(module)} has no {name}, which LangGraph has: ") as caught:
            from_import(module, name)
        assert caught.value.code == "NOT_OFFERED"
        return
    try:
        from_import(module, name)
    except ImportError:
        assert module in NOT_YET or (module, name) in NOBODYS


@pytest.mark.parametrize(("module", "name"), [(module, name) for module, names in INSTEAD.items() for name in names])
def test_a_name_that_is_not_offered_is_on_the_page(module: str, name: str):
    assert re.search(rf"`{name}`", PAGE)
    assert name not in vars(importlib.import_module(module))


@pytest.mark.parametrize(("owner", "method"), [(owner, name) for owner, names in METHODS.items() for name in names])
def test_a_public_method_is_there_or_on_the_page(owner: str, method: str):
    module, _, name = owner.rpartition(".")
    cls = getattr(importlib.import_module(module), name)
    told = re.search(rf"`(?:{name}\.)?{method}`", PAGE)
    assert hasattr(cls, method) or told


@pytest.mark.parametrize("name", OF_GRAPHS)
def test_P50_a_method_that_a_graph_has_not_says_what_to_use_and_is_on_the_page(name: str):
    graph = StateGraph(int).add_node("a", lambda n: n).add_edge(START, "a").compile()
    for runs in (graph, entrypoint()(lambda n: n)):
        kind = type(runs).__name__
        with pytest.raises(
            AttributeError, match=f"^'{kind}' object has no attribute '{name}', which LangGraph's has: ."
        ) as caught:
            getattr(runs, name)
        assert (caught.value.name, caught.value.obj) == (name, runs)
        assert not hasattr(runs, name)
    assert re.search(rf"`{name}`", PAGE)


@pytest.mark.parametrize("name", sorted(OF_SAVERS))
def test_P50_what_is_asked_of_a_saver_is_told_to_be_there(name: str):
    graph: Any = StateGraph(int).add_node("a", lambda n: n).add_edge(START, "a").compile()
    for method in (name, f"a{name}"):
        assert callable(getattr(Saver, method))
        with pytest.raises(AttributeError, match=rf"no attribute '{method}': the saver has it, saver\.{method}\(\.\.\.\)$"):
            getattr(graph, method)
        assert not hasattr(graph, method)


def test_an_attribute_that_nobody_has_is_just_missing():
    graph = StateGraph(int).add_node("a", lambda n: n).add_edge(START, "a").compile()
    with pytest.raises(AttributeError, match=r"^'CompiledStateGraph' object has no attribute 'no_such_name'$"):
        graph.no_such_name  # type: ignore[attr-defined]  # noqa: B018


def test_the_places_that_the_page_and_the_errors_name_are_there():
    def double(number: int) -> int:
        return 2 * number

    graph = StateGraph(int).add_node(double).add_edge(START, "double").compile(name="twice")
    assert (graph.builder.nodes["double"].action, graph.name) == (double, "twice")


def test_a_graph_becomes_a_runnable_of_langchain():
    graph = StateGraph(int).add_node("a", lambda n: n + 1).add_edge(START, "a").compile()
    chain = RunnableLambda(lambda n: n * 2) | RunnableLambda(graph.invoke, graph.ainvoke)
    assert (chain.invoke(4), asyncio.run(chain.ainvoke(5))) == (9, 11)
    outer = StateGraph(int).add_node("chain", chain).add_edge(START, "chain").compile()
    assert outer.invoke(1) == 3


def test_a_name_that_nobody_has_is_an_ordinary_import_error():
    for module in INSTEAD:
        with pytest.raises(ImportError) as caught:
            from_import(module, "no_such_name")
        assert not isinstance(caught.value, NotOffered)
        assert not hasattr(importlib.import_module(module), "no_such_name")


@pytest.mark.parametrize("module", sorted(NOT_YET))
def test_the_page_names_the_parts_that_are_missing(module: str):
    try:
        importlib.import_module(module)
    except ImportError:
        assert any(
            re.search(rf"`{re.escape(part)}`", PAGE)
            for part in (module, module.rpartition(".")[0], ".".join(module.split(".")[:2]))
        )


def test_a_picture_that_would_need_a_service_says_what_draws_it():
    graph = StateGraph(int).add_node("a", lambda n: n).add_edge(START, "a").compile()
    for draw in (graph.get_graph().draw_mermaid_png, graph.get_graph().draw_png):
        with pytest.raises(NotOffered, match="draw_mermaid"):
            draw()


def test_names_for_annotations_cost_a_program_no_engine():
    program = "import perdure.typing, perdure.absent, sys; assert 'perdure.engine' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
