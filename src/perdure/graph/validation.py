"""Whether a graph as drawn can run, and what to say when it cannot.

Each message starts with the words that users of this field know, and goes on with what to do.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from perdure.constants import DEFAULT_HANDLER, END, HANDLER_PREFIX, NS_END, NS_SEP, RESERVED, START
from perdure.errors import InvalidGraph, UnknownNode

if TYPE_CHECKING:
    from perdure.graph.state import StateGraph

_SHOWN: Final = 12


def plain_name(name: str) -> str:
    """The name as plain text: an enum member that is a string lands in records, and must be loaded back without its class."""
    return name if type(name) is str else str.__str__(name)


def suggestion(name: str, known: Iterable[str]) -> str:
    """The names closest to one that does not exist, or all there are, as a sentence."""
    import difflib

    names = list(known)
    close = difflib.get_close_matches(name, names, n=3, cutoff=0.6)
    if close:
        return f"Did you mean {' or '.join(repr(match) for match in close)}?"
    if not names:
        return "The graph has no nodes yet."
    shown = ", ".join(repr(each) for each in names[:_SHOWN])
    return f"The nodes are {shown}{' and more' if len(names) > _SHOWN else ''}."


def check_node_name(given: Any, known: Iterable[str]) -> str:
    """The name as plain text.

    Raises:
        InvalidGraph: it is no text, taken, reserved, or contains a character that namespaces are made of.
    """
    if not isinstance(given, str) or not given:
        raise InvalidGraph(f"A node's name must be non-empty text, got {given!r}")
    name = plain_name(given)
    if name in known:
        raise InvalidGraph(
            f"Node `{name}` already present. Give this one another name: add_node('{name}_2', ...). Functions of the same name, such "
            "as two lambdas, need names given to them",
            node=name,
        )
    if name in (START, END):
        raise InvalidGraph(
            f"Node `{name}` is reserved. START and END exist in every graph; add edges from START and to END", node=name
        )
    for character in (NS_SEP, NS_END):
        if character in name:
            raise InvalidGraph(
                f"'{character}' is a reserved character and is not allowed in the node names. It separates the names of nested "
                f"graphs; rename {name!r}, for example to {name.replace(NS_SEP, '_').replace(NS_END, '_')!r}",
                node=name,
            )
    if name in RESERVED or name == DEFAULT_HANDLER or name.startswith(HANDLER_PREFIX):
        raise InvalidGraph(f"Node name '{name}' is reserved: the runtime uses it in its records. Choose another", node=name)
    return name


def check_edge(source: Any, target: Any) -> None:
    """Refuses an edge that no graph can have. Names may be added later, so unknown ones are refused at compile.

    Raises:
        InvalidGraph: it leaves END or enters START, or an end of it is no name.
    """
    for end in (source, target):
        if not isinstance(end, str):
            raise InvalidGraph(
                f"An edge leads from a node's name to a node's name, got {end!r}"
                + (
                    f". Add the function with add_node first, and use its name {end.__name__!r}"
                    if hasattr(end, "__name__")
                    else ""
                )
            )
    if source == END:
        raise InvalidGraph("END cannot be a start node: nothing comes after it. To go on instead, lead the edge to a node")
    if target == START:
        raise InvalidGraph(
            "START cannot be an end node: only the input enters there. To run again, lead the edge to the first node"
        )


def check_join(sources: Sequence[str], target: str, nodes: Iterable[str]) -> None:
    """Refuses a join of nodes that are not there yet.

    Raises:
        InvalidGraph: it has no sources, or one is END.
        UnknownNode: a node it names was not added.
    """
    if not sources:
        raise InvalidGraph(f"An edge from several nodes needs at least one: add_edge(['a', 'b'], {target!r})")
    known = list(nodes)
    for name in (*sources, target):
        if name == START:
            raise UnknownNode(
                f"Need to add_node `{name}` first: START runs no code to wait for. Use add_edge(START, ...) for each first node",
                node=name,
            )
        if name not in known and name != END:
            raise UnknownNode(
                f"Need to add_node `{name}` first: an edge that joins nodes names only nodes that exist. {suggestion(name, known)}",
                node=name,
            )


def check_graph(builder: StateGraph[Any, Any, Any, Any], interrupt: Iterable[str] = ()) -> None:
    """Checks that every edge leads from a node to a node, that there is a way in, and that breakpoints name nodes.

    Raises:
        UnknownNode: a name has no node.
        InvalidGraph: nothing leads out of START.
    """
    nodes = builder.nodes
    sources = [source for source, _ in builder.ordered_edges()]
    sources += [source for joined, _ in builder.ordered_joins() for source in joined]
    sources += builder.branches
    for source in sources:
        if source not in nodes and source != START:
            raise UnknownNode(
                f"Found edge starting at unknown node '{source}'. {suggestion(source, nodes)} Add it with add_node('{source}', ...)",
                node=source,
            )
    if START not in sources:
        first = next(iter(nodes), "my_node")
        raise InvalidGraph(
            "Graph must have an entrypoint: add at least one edge from START to another node, for example "
            f"add_edge(START, '{first}')"
        )
    targets = [target for _, target in builder.ordered_edges()] + [target for _, target in builder.ordered_joins()]
    for target in targets:
        if target not in nodes and target != END:
            raise UnknownNode(
                f"Found edge ending at unknown node `{target}`. {suggestion(target, nodes)} Add it with add_node('{target}', ...)",
                node=target,
            )
    _check_branches(builder)
    for name in interrupt:
        if name not in nodes:
            raise UnknownNode(f"Interrupt node `{name}` not found. {suggestion(name, nodes)}", node=name)


def _check_branches(builder: StateGraph[Any, Any, Any, Any]) -> None:
    for source, branches in builder.branches.items():
        for branch in branches.values():
            ends = branch.hints or () if branch.ends is None else branch.ends.values()
            for end in ends:
                if end not in builder.nodes and end != END:
                    where = "its return annotation" if branch.ends is None else "its path_map"
                    raise UnknownNode(
                        f"At '{source}' node, '{branch.name}' branch found unknown target '{end}' in {where}. "
                        f"{suggestion(end, builder.nodes)}",
                        node=source,
                    )
