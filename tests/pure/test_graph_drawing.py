"""Pictures of graphs: the text that people know, and what it shows."""

# mypy: disable-error-code="empty-body"
from __future__ import annotations

import operator
from typing import Annotated, Any, Literal

from typing_extensions import TypedDict

from perdure.graph import END, START, StateGraph
from perdure.types import Command


class State(TypedDict):
    x: Annotated[list[int], operator.add]


def nothing(state: State) -> dict[str, Any]:
    return {}


def new(*names: str) -> StateGraph[Any, Any, Any, Any]:
    graph = StateGraph(State)
    for name in names:
        graph.add_node(name, nothing)
    return graph


def drawn(graph: StateGraph[Any, Any, Any, Any], xray: int | bool = False, **given: Any) -> str:
    text = graph.compile(**given).get_graph(xray=xray).draw_mermaid()
    head, rest = text.split("graph TD;\n")
    body, styles = rest.split("\tclassDef default")
    assert head == "---\nconfig:\n  flowchart:\n    curve: linear\n---\n"
    assert styles == " fill:#f2f0ff,line-height:1.2\n\tclassDef first fill-opacity:0\n\tclassDef last fill:#bfb6fc\n"
    return body.replace("\t", "")


def test_the_whole_text() -> None:
    graph = new("node_a", "node_b").add_edge(START, "node_a").add_edge("node_a", "node_b").add_edge("node_b", END).compile()
    text = (
        "---\nconfig:\n  flowchart:\n    curve: linear\n---\ngraph TD;\n"
        "\t__start__([<p>__start__</p>]):::first\n"
        "\tnode_a(node_a)\n"
        "\tnode_b(node_b)\n"
        "\t__end__([<p>__end__</p>]):::last\n"
        "\t__start__ --> node_a;\n"
        "\tnode_a --> node_b;\n"
        "\tnode_b --> __end__;\n"
        "\tclassDef default fill:#f2f0ff,line-height:1.2\n"
        "\tclassDef first fill-opacity:0\n"
        "\tclassDef last fill:#bfb6fc\n"
    )
    assert graph.get_graph().draw_mermaid() == text
    plain = graph.get_graph().draw_mermaid(with_styles=False)
    assert plain.startswith("graph TD;\n\t__start__(<p>__start__</p>)\n")
    assert "classDef" not in plain
    assert graph.get_graph().draw_ascii() == "__start__ --> node_a\nnode_a --> node_b\nnode_b --> __end__\n"


def test_edges_are_sorted_and_ends_come_last() -> None:
    graph = new("zed", "alpha", "mid", "tail").add_edge(START, "zed").add_edge("zed", "tail").add_edge("zed", "alpha")
    assert drawn(graph.add_edge(["tail", "alpha"], "mid")) == (
        "__start__([<p>__start__</p>]):::first\nzed(zed)\nalpha(alpha)\nmid(mid)\ntail(tail)\n__end__([<p>__end__</p>]):::last\n"
        "__start__ --> zed;\nalpha --> mid;\ntail --> mid;\nzed --> alpha;\nzed --> tail;\nmid --> __end__;\n"
    )


def edges(text: str) -> list[str]:
    return [line for line in text.splitlines() if "--" in line or "-." in line]


def test_conditional_edges() -> None:
    mapped = new("a", "b", "c").add_edge(START, "a")
    mapped.add_conditional_edges("a", len, {"yes": "b", "no": "c", "stop": END, "c2": "c"})
    assert edges(drawn(mapped)) == [
        "__start__ --> a;",
        "a -. &nbsp;stop&nbsp; .-> __end__;",
        "a -. &nbsp;yes&nbsp; .-> b;",
        "a -. &nbsp;c2&nbsp; .-> c;",
        "b --> __end__;",
        "c --> __end__;",
    ]
    listed = new("a").add_conditional_edges(START, len, ["a", END])
    assert edges(drawn(listed)) == ["__start__ -.-> __end__;", "__start__ -.-> a;", "a --> __end__;"]


def test_conditional_edges_that_promise_where_they_lead_or_nothing() -> None:
    def promised(state: State) -> Literal["b", "__end__"]: ...

    graph = new("a", "b").add_edge(START, "a").add_edge("b", "a").add_conditional_edges("a", promised)
    assert edges(drawn(graph)) == ["__start__ --> a;", "a -.-> __end__;", "a -.-> b;", "b --> a;"]
    free = new("a", "b").add_edge(START, "a").add_conditional_edges("a", lambda s: "b")
    assert edges(drawn(free)) == ["__start__ --> a;", "a -.-> __end__;", "a -.-> b;", "b --> __end__;"]


def test_commands_and_metadata() -> None:
    def goes(state: State) -> Command[Literal["b", "c", "of_the_parent"]]: ...

    graph = StateGraph(State).add_node("a", goes).add_node("b", nothing, defer=True, metadata={"k": "v"})
    graph.add_node("c", nothing, destinations={"a": "back"}).add_edge(START, "a")
    assert drawn(graph, interrupt_before=["a"], interrupt_after=["a", "b"]) == (
        "__start__([<p>__start__</p>]):::first\n"
        "a(a<hr/><small><em>__interrupt = before,after</em></small>)\n"
        "b(b<hr/><small><em>k = v\ndefer = True\n__interrupt = after</em></small>)\n"
        "c(c)\n__end__([<p>__end__</p>]):::last\n"
        "__start__ --> a;\na -.-> b;\na -.-> c;\nc -. &nbsp;back&nbsp; .-> a;\nb --> __end__;\n"
    )
    assert "a(a<hr/><small><em>__interrupt = before</em></small>)" in drawn(new("a").add_edge(START, "a"), interrupt_before="*")


def test_names_are_escaped() -> None:
    graph = new("a node", "b-é.1").add_edge(START, "a node").add_edge("a node", "b-é.1")
    text = drawn(graph)
    assert "a\\20node(a node)\nb-\\e9\\2e1(b-é.1)\n" in text
    assert "a\\20node --> b-\\e9\\2e1;" in text


def child() -> Any:
    return new("c1", "c2").add_edge(START, "c1").add_edge("c1", "c2").compile()


def test_subgraphs_are_one_node_or_a_block() -> None:
    graph = StateGraph(State).add_node("p", child()).add_node("q", nothing).add_edge(START, "p").add_edge("p", "q")
    assert edges(drawn(graph)) == ["__start__ --> p;", "p --> q;", "q --> __end__;"]
    assert drawn(graph, xray=True) == (
        "__start__([<p>__start__</p>]):::first\nq(q)\n__end__([<p>__end__</p>]):::last\n"
        "__start__ --> p\\3ac1;\np\\3ac2 --> q;\nq --> __end__;\n"
        "subgraph p\np\\3ac1(c1)\np\\3ac2(c2)\np\\3ac1 --> p\\3ac2;\nend\n"
    )


def test_nested_subgraphs_to_a_depth() -> None:
    inner = child()
    parent = StateGraph(State).add_node("p", inner).add_node("q", nothing).add_edge(START, "p").add_edge("p", "q").compile()
    graph = (
        StateGraph(State)
        .add_node("pp", parent)
        .add_node("f", lambda s: inner.invoke(s))
        .add_edge(START, "pp")
        .add_edge("pp", "f")
    )
    block_f = "subgraph f\nf\\3ac1(c1)\nf\\3ac2(c2)\nf\\3ac1 --> f\\3ac2;\nend\n"
    head = "__start__([<p>__start__</p>]):::first\n__end__([<p>__end__</p>]):::last\n"
    assert drawn(graph, xray=1) == (
        head + "__start__ --> pp\\3ap;\npp\\3aq --> f\\3ac1;\nf\\3ac2 --> __end__;\n"
        "subgraph pp\npp\\3ap(p)\npp\\3aq(q)\npp\\3ap --> pp\\3aq;\nend\n" + block_f
    )
    assert drawn(graph, xray=True) == (
        head + "__start__ --> pp\\3ap\\3ac1;\npp\\3aq --> f\\3ac1;\nf\\3ac2 --> __end__;\n"
        "subgraph pp\npp\\3aq(q)\npp\\3ap\\3ac2 --> pp\\3aq;\n"
        "subgraph p\npp\\3ap\\3ac1(c1)\npp\\3ap\\3ac2(c2)\npp\\3ap\\3ac1 --> pp\\3ap\\3ac2;\nend\nend\n" + block_f
    )


def test_start_and_end_of_a_subgraph_stay_where_no_single_node_stands_for_them() -> None:
    loop = new("c1", "c2").add_edge(START, "c1").add_edge("c1", "c2").add_conditional_edges("c2", len, ["c1", END]).compile()
    fan = new("c1", "c2").add_edge(START, "c1").add_edge(START, "c2").compile()
    exits = new("c1", "c2").add_edge(START, "c1").add_conditional_edges("c1", len, {"k": "c2", "e": END}).compile()
    found = {}
    for name, inner in {"loop": loop, "fan": fan, "exits": exits}.items():
        graph = StateGraph(State).add_node("p", inner).add_node("q", nothing).add_edge(START, "p").add_edge("p", "q")
        found[name] = [line.replace("\\3a", ":") for line in edges(drawn(graph, xray=True))]
    assert found == {
        "loop": [
            "__start__ --> p:__start__;",
            "p:__end__ --> q;",
            "q --> __end__;",
            "p:__start__ --> p:c1;",
            "p:c1 --> p:c2;",
            "p:c2 -.-> p:__end__;",
            "p:c2 -.-> p:c1;",
        ],
        "fan": [
            "__start__ --> p:__start__;",
            "p:__end__ --> q;",
            "q --> __end__;",
            "p:__start__ --> p:c1;",
            "p:__start__ --> p:c2;",
            "p:c1 --> p:__end__;",
            "p:c2 --> p:__end__;",
        ],
        "exits": [
            "__start__ --> p:c1;",
            "p:__end__ --> q;",
            "q --> __end__;",
            "p:c1 -. &nbsp;e&nbsp; .-> p:__end__;",
            "p:c1 -. &nbsp;k&nbsp; .-> p:c2;",
            "p:c2 --> p:__end__;",
        ],
    }


def test_error_handlers_are_reached_from_what_they_handle() -> None:
    graph = (
        StateGraph(State)
        .add_node("p", nothing, error_handler=nothing)
        .add_node("q", nothing)
        .add_edge(START, "p")
        .add_edge("p", "q")
    )
    assert edges(drawn(graph)) == [
        "__start__ --> p;",
        "p -. &nbsp;error&nbsp; .-> __error_handler__p;",
        "p --> q;",
        "__error_handler__p --> __end__;",
        "q --> __end__;",
    ]
    graph = new("p").set_node_defaults(error_handler=nothing).add_edge(START, "p")
    assert "__default_error_handler__(<p>__default_error_handler__</p>)" in drawn(graph)
    assert "p --> __end__;" in drawn(graph)


def test_as_json() -> None:
    graph = StateGraph(State).add_node("a", nothing, defer=True).add_node("p", child()).add_edge(START, "a")
    graph.add_conditional_edges("a", len, {"go": "p", "end": END})
    node = ["perdure", "engine", "program", "Node"]
    assert graph.compile().get_graph().to_json() == {
        "nodes": [
            {"id": "__start__", "type": "runnable", "data": {"id": node, "name": "__start__"}},
            {"id": "a", "type": "runnable", "data": {"id": node, "name": "a"}, "metadata": {"defer": True}},
            {"id": "p", "type": "runnable", "data": {"id": ["perdure", "graph", "state", "CompiledStateGraph"], "name": "p"}},
            {"id": "__end__"},
        ],
        "edges": [
            {"source": "__start__", "target": "a"},
            {"source": "a", "target": "__end__", "data": "end", "conditional": True},
            {"source": "a", "target": "p", "data": "go", "conditional": True},
            {"source": "p", "target": "__end__"},
        ],
    }
