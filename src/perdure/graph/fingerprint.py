"""A digest that tells whether two graphs have the same shape and the same state.

It does not depend on the order in which things were added, nor on Python's hash seed, and holds across processes and machines.
What functions do is not part of it.
"""

from __future__ import annotations

import json
import types
import typing
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import Any, get_args, get_origin

from perdure.engine.program import Branch, Join, Node
from perdure.graph.annotations import unwrap
from perdure.graph.schema import Channel


def fingerprint(
    nodes: Iterable[Node],
    joins: Iterable[Join],
    channels: Mapping[str, Channel],
    managed: Iterable[str],
    hints: Mapping[str, Any],
) -> str:
    """The digest of a graph, 32 hex digits.

    Args:
        nodes: all nodes, the entry among them.
        joins: all joins.
        channels: the channel of each state key.
        managed: keys of managed values.
        hints: the declared type of each key.
    """
    shape = {
        "nodes": sorted(_node(node) for node in nodes),
        "joins": sorted([sorted(join.sources), join.target] for join in joins),
        "keys": sorted([key, type(channel).__name__, type_name(hints.get(key, Any))] for key, channel in channels.items()),
        "managed": sorted(managed),
    }
    text = json.dumps(shape, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return blake2b(text.encode(), digest_size=16).hexdigest()


def _node(node: Node) -> list[Any]:
    subgraph = getattr(getattr(node.call.subgraph, "program", None), "fingerprint", "")
    return [
        node.name,
        sorted(node.edges),
        sorted(_branch(branch) for branch in node.branches),
        int(node.defer),
        node.handler or "",
        subgraph,
    ]


def _branch(branch: Branch) -> list[Any]:
    ends = [] if branch.ends is None else sorted([type_and_text(key), end] for key, end in branch.ends.items())
    return [branch.name, int(branch.ends is not None), ends]


def type_and_text(key: Any) -> str:
    """A key of a path map as text; an object without text of its own counts by its class."""
    if isinstance(key, (str, int, float, bytes, type(None))):
        return f"{type(key).__name__}:{key!r}"
    return f"{type(key).__name__}:{getattr(key, 'name', '')}"


def type_name(hint: Any) -> str:
    """An annotation as text that is the same in every process; the order of a union's members does not count."""
    hint, _ = unwrap(hint)
    if hint is None or hint is type(None):
        return "None"
    origin = get_origin(hint)
    if origin is typing.Union or origin is types.UnionType:
        return "|".join(sorted(type_name(arg) for arg in get_args(hint)))
    if origin is typing.Literal:
        return f"Literal[{','.join(sorted(type_and_text(arg) for arg in get_args(hint)))}]"
    if origin is not None:
        return f"{type_name(origin)}[{','.join(_argument(arg) for arg in get_args(hint))}]"
    if isinstance(hint, type):
        # Without its module: a script that is also imported, or a class that moves, keeps its threads.
        return hint.__qualname__.rpartition("<locals>.")[2]
    name = getattr(hint, "__name__", None) or getattr(hint, "_name", None)
    return str(name) if name else type(hint).__name__


def _argument(arg: Any) -> str:
    if isinstance(arg, list):
        return f"[{','.join(type_name(each) for each in arg)}]"
    return "..." if arg is ... else type_name(arg)
