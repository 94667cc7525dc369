"""A graph as a picture: nodes and edges as plain values, and as Mermaid text.

Drawing never runs anything. It shows the edges as declared; where a conditional edge does not say where it may lead, it may lead
everywhere. A node after which nothing follows ends the path.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from perdure.absent import missing
from perdure.constants import END, START
from perdure.engine.program import Node, Program
from perdure.graph.subgraphs import subgraph_of

Hints = Mapping[tuple[str, str], tuple[str, ...]]
"""Where the conditional edge of a (node, branch) promises to lead, where its program does not say."""

_MARKDOWN: Final = "*_`"
_STYLES: Final = (
    "\tclassDef default fill:#f2f0ff,line-height:1.2\n\tclassDef first fill-opacity:0\n\tclassDef last fill:#bfb6fc\n"
)


@dataclass(frozen=True, slots=True)
class DrawnNode:
    """A node of a picture.

    Attributes:
        id: unique in the picture; `parent:child` inside a subgraph.
        name: what is shown.
        metadata: what is shown below the name.
        kind: `module.Class` of what it runs; empty for END.
    """

    id: str
    name: str
    metadata: Mapping[str, Any] = field(default_factory=dict)
    kind: str = ""


@dataclass(frozen=True, slots=True)
class DrawnEdge:
    """An edge of a picture; `data` is its label."""

    source: str
    target: str
    data: str | None = None
    conditional: bool = False


@dataclass(slots=True)
class Graph:
    """The picture of a graph."""

    nodes: dict[str, DrawnNode] = field(default_factory=dict)
    edges: list[DrawnEdge] = field(default_factory=list)

    def to_json(self) -> dict[str, list[dict[str, Any]]]:
        """The picture as plain data: `{"nodes": […], "edges": […]}`."""
        return {"nodes": [_node_json(node) for node in self.nodes.values()], "edges": [_edge_json(edge) for edge in self.edges]}

    def draw_mermaid(self, *, with_styles: bool = True) -> str:
        """The picture as Mermaid text; without styles only its graph."""
        head = "---\nconfig:\n  flowchart:\n    curve: linear\n---\ngraph TD;\n" if with_styles else "graph TD;\n"
        return head + "".join(_block(self, (), with_styles)) + (_STYLES if with_styles else "")

    def draw_ascii(self) -> str:
        """The picture as lines of text, one for each edge."""
        lines = []
        for edge in self.edges:
            arrow = f"-.{edge.data or ''}.->" if edge.conditional else "-->"
            lines.append(f"{edge.source} {arrow} {edge.target}\n")
        return "".join(lines)

    def draw_mermaid_png(self, *args: Any, **kwargs: Any) -> bytes:
        """Not offered: the picture would have to be made by a service or by a browser.

        Raises:
            NotOffered: always; it says who draws what `draw_mermaid` gives.
        """
        raise missing(__name__, "draw_mermaid_png")

    def draw_png(self, *args: Any, **kwargs: Any) -> bytes:
        """Not offered, as `draw_mermaid_png`.

        Raises:
            NotOffered: always.
        """
        raise missing(__name__, "draw_png")

    def print_ascii(self) -> None:
        """Prints `draw_ascii()`."""
        print(self.draw_ascii(), end="")  # noqa: T201 - its purpose


def draw(program: Program, hints: Hints | None = None, *, xray: int | bool = False, above: tuple[Program, ...] = ()) -> Graph:
    """The picture of a program.

    Args:
        program: what to draw.
        hints: where conditional edges promise to lead.
        xray: draw the inside of subgraphs too, to this depth (True: all of it). A graph that calls itself is drawn once.
        above: the programs around this one.
    """
    graph = Graph()
    graph.nodes[START] = DrawnNode(START, START, kind=_kind(None))
    for node in program.nodes.values():
        graph.nodes[node.name] = DrawnNode(node.name, node.name, _metadata(program, node), _kind(node.call.subgraph))
    graph.nodes[END] = DrawnNode(END, END)
    graph.edges = _edges(program, hints or {})
    if xray:
        deeper = xray if xray is True else xray - 1
        above = (*above, program)
        for node in program.nodes.values():
            subgraph = subgraph_of(node.call)
            if subgraph is None or any(subgraph.program is each for each in above):
                continue
            _put_inside(
                graph, node.name, draw(subgraph.program, getattr(subgraph, "branch_hints", None), xray=deeper, above=above)
            )
    return graph


def _kind(subgraph: Any) -> str:
    return "perdure.engine.program.Node" if subgraph is None else "perdure.graph.state.CompiledStateGraph"


def _metadata(program: Program, node: Node) -> dict[str, Any]:
    shown = dict(node.metadata or {})
    if node.defer:
        shown["defer"] = True
    where = [("before", program.interrupt_before), ("after", program.interrupt_after)]
    pauses = [word for word, names in where if not node.is_handler and (names == "*" or node.name in names)]
    if pauses:
        shown["__interrupt"] = ",".join(pauses)
    return shown


def _edges(program: Program, hints: Hints) -> list[DrawnEdge]:
    found: dict[tuple[str, str, bool], str | None] = {}
    everywhere = [node.name for node in program.nodes.values() if not node.is_handler] + [END]
    for node in (program.start, *program.nodes.values()):
        targets: list[tuple[Any, str]] = []
        for branch in node.branches:
            if branch.ends is not None:
                targets += branch.ends.items()
            else:
                open_ends = hints.get((node.name, branch.name)) or tuple(end for end in everywhere if end != node.name)
                targets += [(end, end) for end in open_ends]
        given = node.destinations
        targets += [(given[end] or end, end) for end in given] if isinstance(given, Mapping) else [(end, end) for end in given]
        if node.handler is not None:
            targets.append(("error", node.handler))
        for target in (*node.edges, *(join.target for join in program.joins.values() if node.name in join.sources)):
            found[node.name, target, False] = None
        for label, target in targets:
            # A destination may name a node of the graph around this one, which is not in this picture.
            if target in program.nodes or target == END:
                found[node.name, target, True] = None if str(label) == target else str(label)
    edges = [DrawnEdge(source, target, label, conditional) for (source, target, conditional), label in sorted(found.items())]
    follow = {edge.source for edge in edges if edge.data != "error" or not edge.conditional}
    return edges + [DrawnEdge(name, END) for name in sorted(program.nodes) if name not in follow]


def _put_inside(graph: Graph, name: str, inner: Graph) -> None:
    """Replaces a node by the picture of its subgraph, whose START and END go where one node can stand for them."""
    inner = Graph(dict(inner.nodes), list(inner.edges))
    entry, leave = _trim(inner, START, entering=True), _trim(inner, END, entering=False)
    del graph.nodes[name]
    for node in inner.nodes.values():
        graph.nodes[f"{name}:{node.id}"] = replace(node, id=f"{name}:{node.id}")
    graph.edges = [
        replace(
            edge,
            source=f"{name}:{leave}" if edge.source == name else edge.source,
            target=f"{name}:{entry}" if edge.target == name else edge.target,
        )
        for edge in graph.edges
    ]
    graph.edges += [replace(edge, source=f"{name}:{edge.source}", target=f"{name}:{edge.target}") for edge in inner.edges]


def _trim(graph: Graph, end: str, *, entering: bool) -> str:
    """Removes START or END where exactly one node is next to it and alone at that side; returns what stands at that side."""
    beside = [edge for edge in graph.edges if (edge.source if entering else edge.target) == end]
    rest = [edge for edge in graph.edges if edge not in beside]
    covered = {edge.target if entering else edge.source for edge in rest}
    alone = [node for node in graph.nodes if node != end and node not in covered and node not in (START, END)]
    if len(beside) != 1 or len(alone) != 1:
        return end
    del graph.nodes[end]
    graph.edges = rest
    return alone[0]


def _node_json(node: DrawnNode) -> dict[str, Any]:
    if not node.kind:
        return {"id": node.id}
    data = {"id": node.id, "type": "runnable", "data": {"id": node.kind.split("."), "name": node.id}}
    return {**data, "metadata": dict(node.metadata)} if node.metadata else data


def _edge_json(edge: DrawnEdge) -> dict[str, Any]:
    data: dict[str, Any] = {"source": edge.source, "target": edge.target}
    if edge.data is not None:
        data["data"] = edge.data
    if edge.conditional:
        data["conditional"] = True
    return data


def _block(graph: Graph, within: tuple[str, ...], with_styles: bool) -> list[str]:
    """The lines of the nodes and edges directly inside a subgraph, then those of the subgraphs in it."""
    depth = len(within)
    lines, inner = [], {}
    for node in graph.nodes.values():
        place = tuple(node.id.split(":"))[:-1]
        if place == within:
            lines.append(_node_line(node, with_styles))
        elif place[:depth] == within:
            inner[place[: depth + 1]] = True
    lines += [_edge_line(edge) for edge in graph.edges if _place(edge) == within]
    for block in inner:
        lines += [f"\tsubgraph {block[-1]}\n", *_block(graph, block, with_styles), "\tend\n"]
    return lines


def _place(edge: DrawnEdge) -> tuple[str, ...]:
    source, target = edge.source.split(":")[:-1], edge.target.split(":")[:-1]
    shared = []
    for one, other in zip(source, target, strict=False):
        if one != other:
            break
        shared.append(one)
    return tuple(shared)


def _node_line(node: DrawnNode, with_styles: bool) -> str:
    name = node.name.rpartition(":")[2]
    label = f"<p>{name}</p>" if name[0] in _MARKDOWN and name[-1] in _MARKDOWN else name
    if node.metadata:
        shown = "\n".join(f"{key} = {value}" for key, value in node.metadata.items())
        label += f"<hr/><small><em>{shown}</em></small>"
    if with_styles and node.id in (START, END):
        return f"\t{_safe(node.id)}([{label}]):::{'first' if node.id == START else 'last'}\n"
    return f"\t{_safe(node.id)}({label})\n"


def _edge_line(edge: DrawnEdge) -> str:
    if edge.data is not None:
        arrow = f"-. &nbsp;{edge.data}&nbsp; .->" if edge.conditional else f"-- &nbsp;{edge.data}&nbsp; -->"
    else:
        arrow = "-.->" if edge.conditional else "-->"
    return f"\t{_safe(edge.source)} {arrow} {_safe(edge.target)};\n"


def _safe(text: str) -> str:
    """An id that Mermaid takes: other characters as their code point."""
    return re.sub(r"[^a-zA-Z0-9_-]", lambda found: f"\\{ord(found[0]):x}", text)
