"""Conditional edges as the user adds them."""

from __future__ import annotations

import functools
import typing
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args, get_origin

from perdure.engine.program import Call
from perdure.errors import InvalidGraph
from perdure.graph.annotations import unwrap
from perdure.graph.schema import is_structured
from perdure.graph.signature import inspect_call
from perdure.graph.validation import plain_name


@dataclass(frozen=True, slots=True, eq=False)
class BranchSpec:
    """A conditional edge.

    Attributes:
        name: the name of its path function, unique in its node.
        path: the path function as the user gave it.
        call: how to call it.
        ends: from what it returns to node names; None: it returns node names.
        hints: node names that its return annotation promises (`-> Literal["a", "b"]`). They are drawn and must exist; they do not
            restrict what it returns.
        input_schema: the class its parameter is annotated with; None: it sees what its node sees.
    """

    name: str
    path: Any
    call: Call
    ends: Mapping[Hashable, str] | None = None
    hints: tuple[str, ...] | None = None
    input_schema: Any = None


def make_branch(
    source: str, path: Any, path_map: Mapping[Any, str] | Sequence[str] | None, states: Sequence[Any]
) -> BranchSpec:
    """A conditional edge from a path function.

    Raises:
        InvalidGraph: the path cannot be called, or the map does not lead to node names.
    """
    name = branch_name(path)
    looked = inspect_call(path, where=f"conditional edge {name!r} of {source!r}", states=states)
    ends = None if path_map is None else _ends(source, name, path_map)
    hints = literal_names(looked.returns) if ends is None else None
    schema = looked.state if is_structured(looked.state) else None
    return BranchSpec(name, path, looked.call, ends, hints, schema)


def branch_name(path: Any) -> str:
    """The name of a path function; `condition` for one without a name of its own."""
    while isinstance(path, functools.partial):
        path = path.func
    name = getattr(path, "__name__", None) or getattr(path, "name", None) or type(path).__name__
    return "condition" if name == "<lambda>" or not isinstance(name, str) else name


def _ends(source: str, name: str, path_map: Any) -> dict[Hashable, str]:
    if isinstance(path_map, Mapping):
        ends = dict(path_map)
    elif isinstance(path_map, (list, tuple, set, frozenset)):
        # A set has no order of its own that would be the same in the next process.
        ends = {end: end for end in (path_map if isinstance(path_map, (list, tuple)) else sorted(path_map))}
    else:
        raise InvalidGraph(
            f"The path_map of conditional edge {name!r} of {source!r} must be a dict from what the path function returns to node "
            f"names, or a list of node names, got {path_map!r}",
            node=source,
        )
    for key, end in ends.items():
        if not isinstance(end, str):
            raise InvalidGraph(
                f"At {source!r} node, {name!r} branch maps {key!r} to {end!r}, which is no node name. A Send is returned by the path "
                "function itself and needs no entry",
                node=source,
            )
    return {plain_name(key) if isinstance(key, str) else key: plain_name(end) for key, end in ends.items()}


def literal_names(annotation: Any) -> tuple[str, ...] | None:
    """The names that `Literal["a", "b"]` lists, also inside a list or a union; None if there are none."""
    names: dict[str, None] = {}
    waiting = [annotation]
    while waiting:
        hint, _ = unwrap(waiting.pop(0))
        if get_origin(hint) is Literal:
            names.update((plain_name(choice), None) for choice in get_args(hint) if isinstance(choice, str))
        elif get_origin(hint) is not None:
            waiting.extend(arg for arg in get_args(hint) if not isinstance(arg, list))
    return tuple(names) or None


def command_destinations(annotation: Any) -> tuple[str, ...]:
    """The names in `Command[Literal["a", "b"]]`, also inside a union or a list."""
    names: dict[str, None] = {}
    waiting = [annotation]
    while waiting:
        hint, _ = unwrap(waiting.pop(0))
        origin = get_origin(hint)
        if origin is not None and getattr(origin, "__name__", "") == "Command":
            names.update(dict.fromkeys(literal_names(get_args(hint)[0]) or ()))
        elif origin is not None and origin is not typing.Literal:
            waiting.extend(arg for arg in get_args(hint) if not isinstance(arg, list))
    return tuple(names)
