"""A compiled state graph: what the engine runs, and what it knows of the builder it came from."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Any, Generic

from perdure.engine.compiled import CompiledGraph
from perdure.engine.program import Program
from perdure.graph.drawing import Graph, draw
from perdure.graph.json_schema import json_schema_of, model_of
from perdure.graph.subgraphs import graphs_of, subgraphs_of
from perdure.typing import ContextT, InputT, OutputT, StateT

if TYPE_CHECKING:
    from pydantic import BaseModel

    from perdure.graph.state import StateGraph

__all__ = ["CompiledStateGraph"]


class CompiledStateGraph(CompiledGraph, Generic[StateT, ContextT, InputT, OutputT]):
    """A graph that can run; made by `StateGraph.compile()`.

    Attributes:
        builder: the builder it was compiled from, which may have changed since.
        branch_hints: where conditional edges promise to lead, by (node, name of the edge); for drawings.
    """

    def __init__(
        self,
        program: Program,
        *,
        builder: StateGraph[StateT, ContextT, InputT, OutputT],
        checkpointer: Any = None,
        store: Any = None,
        cache: Any = None,
        debug: bool = False,
    ) -> None:
        super().__init__(program, checkpointer=checkpointer, store=store, cache=cache, debug=debug)
        self.builder = builder
        # Taken now: the builder may get other branches later, and a program knows no hints.
        self.branch_hints = {
            (source, branch.name): branch.hints
            for source, branches in builder.branches.items()
            for branch in branches.values()
            if branch.hints
        }
        self._input = builder.schema_of(builder.input_schema)
        self._output = builder.schema_of(builder.output_schema)

    def get_graph(self, config: Any = None, *, xray: int | bool = False) -> Graph:
        """The picture of this graph: `.draw_mermaid()`, `.to_json()`.

        Args:
            config: accepted for compatibility; it makes no difference.
            xray: draw the inside of subgraphs too, to this depth (True: all of it).
        """
        return draw(self.program, self.branch_hints, xray=xray)

    async def aget_graph(self, config: Any = None, *, xray: int | bool = False) -> Graph:
        """`get_graph` for async code."""
        return self.get_graph(config, xray=xray)

    def get_input_schema(self, config: Any = None) -> type[BaseModel]:
        """A pydantic model of the input.

        Raises:
            MissingExtra: pydantic is not installed.
        """
        return model_of(self._input, f"{self.name}Input")

    def get_output_schema(self, config: Any = None) -> type[BaseModel]:
        """A pydantic model of the result.

        Raises:
            MissingExtra: pydantic is not installed.
        """
        return model_of(self._output, f"{self.name}Output")

    def get_input_jsonschema(self, config: Any = None) -> dict[str, Any]:
        """JSON schema of the input.

        Raises:
            MissingExtra: pydantic is not installed.
        """
        return json_schema_of(self._input.declared, f"{self.name}Input")

    def get_output_jsonschema(self, config: Any = None) -> dict[str, Any]:
        """JSON schema of the result.

        Raises:
            MissingExtra: pydantic is not installed.
        """
        return json_schema_of(self._output.declared, f"{self.name}Output")

    def get_context_jsonschema(self) -> dict[str, Any] | None:
        """JSON schema of `runtime.context`; None without a context schema.

        Raises:
            MissingExtra: pydantic is not installed.
        """
        declared = self.program.context_schema
        return None if declared is None else json_schema_of(declared, f"{self.name}Context")

    def graphs_at(self, name: str) -> list[CompiledGraph]:
        """The graphs that a node runs, or that its code names."""
        node = self.program.node(name)
        return [] if node is None else graphs_of(node.call)

    def get_subgraphs(self, namespace: str | None = None, recurse: bool = False) -> Iterator[tuple[str, Any]]:
        """The compiled graphs that nodes run, by node name; those compiled with `checkpointer=False` keep nothing and are left out.

        Args:
            namespace: only the one at this place: `node`, or `node|inner` with `recurse`.
            recurse: also those inside them, as `node|inner`.
        """
        return subgraphs_of(self.program, namespace, recurse)

    async def aget_subgraphs(self, namespace: str | None = None, recurse: bool = False) -> AsyncIterator[tuple[str, Any]]:
        """`get_subgraphs` for async code."""
        for found in self.get_subgraphs(namespace, recurse):
            yield found
