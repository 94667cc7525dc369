"""Finding the compiled graphs that a node runs: the node itself, or one that its function reaches for.

A function is never called for this. What its code names is looked up where the code would look: in its closure, its globals, the
object it is a method of and the arguments a partial holds.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterator
from types import CodeType, FunctionType
from typing import Any, Final

from perdure.constants import NS_SEP
from perdure.engine.program import Call, Program
from perdure.graph.signature import is_compiled_graph

_DEPTH: Final = 3


def subgraph_of(call: Call) -> Any:
    """The compiled graph that a call runs; the first, if its function names several; None if it runs none."""
    if call.subgraph is not None:
        return call.subgraph
    return next(_graphs_in(call.fn, _DEPTH, set()), None)


def graphs_of(call: Call) -> list[Any]:
    """The compiled graphs that a call may run: itself, or all that its function names, also those in a list or dict that it names."""
    if call.subgraph is not None:
        return [call.subgraph]
    found: list[Any] = []
    for each in (*_graphs_in(call.fn, _DEPTH, set()), *_graphs_in(call.fn, _DEPTH, set(), collected=True)):
        if not any(each is other for other in found):
            found.append(each)
    return found


def subgraphs_of(
    program: Program, namespace: str | None = None, recurse: bool = False, *, above: tuple[Program, ...] = ()
) -> Iterator[tuple[str, Any]]:
    """The compiled graphs that a program's nodes run, by their place: `node`, or `node|inner` with `recurse`.

    Graphs compiled with `checkpointer=False` keep nothing and are left out; so is the inside of a graph that calls itself.

    Args:
        program: whose nodes are looked at.
        namespace: only the graph at this place.
        recurse: also graphs inside those found.
        above: the programs around this one.
    """
    above = (*above, program)
    first, _, rest = ("", "", "") if namespace is None else namespace.partition(NS_SEP)
    for node in program.nodes.values():
        if namespace is not None and node.name != first:
            continue
        graph = subgraph_of(node.call)
        if graph is None or getattr(graph, "checkpointer", None) is False:
            continue
        if not rest:
            yield node.name, graph
        if recurse and (rest or namespace is None) and not any(graph.program is each for each in above):
            for place, inner in subgraphs_of(graph.program, rest or None, recurse=True, above=above):
                yield f"{node.name}{NS_SEP}{place}", inner


def _graphs_in(value: Any, depth: int, seen: set[int], *, collected: bool = False) -> Iterator[Any]:
    """Graphs that a value is, or that its code reaches.

    Args:
        value: the value.
        depth: how many steps from function to function to go.
        seen: ids of what was looked at.
        collected: look into lists, tuples and dicts, too.
    """
    if depth < 0 or id(value) in seen:
        return
    seen.add(id(value))
    if is_compiled_graph(value):
        yield value
    elif isinstance(value, functools.partial):
        for part in (value.func, *value.args, *value.keywords.values()):
            yield from _graphs_in(part, depth, seen, collected=collected)
    elif inspect.ismethod(value):
        yield from _graphs_in(value.__func__, depth, seen, collected=collected)
        yield from _held(value.__self__, value.__func__, depth, seen)
    elif isinstance(value, FunctionType):
        yield from _reached(value, depth, seen, collected=collected)
        wrapped = getattr(value, "__wrapped__", None)
        if wrapped is not None:
            yield from _graphs_in(wrapped, depth, seen, collected=collected)
    elif collected and isinstance(value, (list, tuple, dict)):
        for part in value.values() if isinstance(value, dict) else value:
            if is_compiled_graph(part):
                yield part
    elif not isinstance(value, type) and isinstance(inspect.getattr_static(type(value), "__call__", None), FunctionType):
        yield from _graphs_in(type(value).__call__, depth, seen)
        yield from _held(value, type(value).__call__, depth, seen)


def _held(owner: Any, function: Any, depth: int, seen: set[int]) -> Iterator[Any]:
    """Graphs in attributes of an object that its method names."""
    code = getattr(function, "__code__", None)
    if code is None:
        return
    for name in _names(code):
        found = _attribute(owner, name)
        if is_compiled_graph(found) or callable(found):
            yield from _graphs_in(found, depth - 1, seen)


def _reached(function: FunctionType, depth: int, seen: set[int], *, collected: bool) -> Iterator[Any]:
    names = _names(function.__code__)
    found = []
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            found.append((name, cell.cell_contents))
        except ValueError:
            continue
    found += [(name, function.__globals__[name]) for name in names if name in function.__globals__]
    for _, value in found:
        wrapped = inspect.getattr_static(value, "__wrapped__", None)  # a durable step, or what some other decorator made
        if is_compiled_graph(value) or isinstance(value, (FunctionType, functools.partial)) or inspect.ismethod(value):
            yield from _graphs_in(value, depth - 1, seen, collected=collected)
        elif isinstance(wrapped, FunctionType):
            yield from _graphs_in(wrapped, depth - 1, seen, collected=collected)
        elif collected and isinstance(value, (list, tuple, dict)):
            yield from _graphs_in(value, depth - 1, seen, collected=True)
        else:
            # `box.graph.invoke(state)`: the code names both the box and its attribute.
            yield from (graph for name in names if is_compiled_graph(graph := _attribute(value, name)))


def _names(code: CodeType) -> list[str]:
    """Names that code uses, those of functions defined in it included, in order."""
    names = dict.fromkeys(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            names.update(dict.fromkeys(_names(constant)))
    return list(names)


def _attribute(owner: Any, name: str) -> Any:
    try:
        # Statically, so that no property of the user's runs.
        found = inspect.getattr_static(owner, name)
    except AttributeError:
        return None
    return getattr(owner, name) if inspect.isfunction(found) else found
