"""The builder of graphs: nodes that read and write a shared state, and the edges that say what runs after what."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Generic, Literal, Self

from perdure.constants import END, START
from perdure.engine.program import Managed
from perdure.errors import InvalidGraph
from perdure.graph.annotations import kind_of
from perdure.graph.branches import BranchSpec, make_branch
from perdure.graph.nodes import Action, NodeDefaults, NodeSpec, action_name, handler_call, kept_by, node_spec, policies
from perdure.graph.old_words import refuse_unknown, renamed
from perdure.graph.schema import Channel, Schema, merge, read_schema, schema_key
from perdure.graph.validation import check_edge, check_graph, check_join, check_node_name, plain_name
from perdure.types import CachePolicy, RetryPolicy, TimeoutPolicy
from perdure.typing import ContextT, InputT, OutputT, StateT

if TYPE_CHECKING:
    from perdure.graph.compiled import CompiledStateGraph
    from perdure.types import All, Checkpointer

__all__ = ["CompiledStateGraph", "StateGraph"]

Edge = tuple[str, str]
Join = tuple[tuple[str, ...], str]


def __getattr__(name: str) -> Any:
    # The compiled graph brings the engine along, which drawing alone does not need.
    if name == "CompiledStateGraph":
        from perdure.graph.compiled import CompiledStateGraph

        return CompiledStateGraph
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class StateGraph(Generic[StateT, ContextT, InputT, OutputT]):
    """A graph in the making. Add nodes and edges, then `compile()` it to run it.

        class State(TypedDict):
            topic: str
            jokes: Annotated[list[str], operator.add]

        def joke(state: State) -> dict:
            return {"jokes": [f"A joke about {state['topic']}"]}

        graph = StateGraph(State).add_node(joke).add_edge(START, "joke").compile()

    Args:
        state_schema: a TypedDict, dataclass, pydantic model, or a bare type (`StateGraph(int)`), whose one value is the state.
            `Annotated[T, reducer]` says how writes to a key are combined; without it a key takes one write a super-step.
        context_schema: the class of `runtime.context`.
        input_schema: the keys that an input may have; all of the state's if left out.
        output_schema: the keys of results; all of the state's if left out.

    Attributes:
        nodes: nodes by name.
        edges: edges from one node to one node.
        waiting_edges: edges that wait for several nodes.
        branches: conditional edges by node and name.
        channels: the channel of each key, those of nodes' private input schemas included.
        managed: managed values by key.
        schemas: what each state class declares.
        compiled: it was compiled at least once.

    Raises:
        InvalidGraph: a schema's annotation cannot be evaluated or its reducer cannot be called; a key is declared in two ways; or
            a managed value is in the input or output schema.
    """

    def __init__(
        self,
        state_schema: type[StateT] | Any,
        context_schema: type[ContextT] | None = None,
        *,
        input_schema: type[InputT] | Any = None,
        output_schema: type[OutputT] | Any = None,
        **deprecated: Any,
    ) -> None:
        context_schema = renamed(deprecated, "config_schema", "context_schema", context_schema)
        input_schema = renamed(deprecated, "input", "input_schema", input_schema)
        output_schema = renamed(deprecated, "output", "output_schema", output_schema)
        refuse_unknown(deprecated, "StateGraph")
        self.nodes: dict[str, NodeSpec] = {}
        self.edges: set[Edge] = set()
        self.waiting_edges: set[Join] = set()
        self.branches: defaultdict[str, dict[str, BranchSpec]] = defaultdict(dict)
        self.channels: dict[str, Channel] = {}
        self.managed: dict[str, Managed] = {}
        self.schemas: dict[Hashable, Schema] = {}
        self.compiled = False
        self.state_schema: Any = state_schema
        self.context_schema = context_schema
        self.input_schema: Any = state_schema if input_schema is None else input_schema
        self.output_schema: Any = state_schema if output_schema is None else output_schema
        self.defaults = NodeDefaults()
        # `edges` is a set, whose order differs between processes; records must not.
        self._added: dict[Edge | Join, int] = {}
        self._add_schema(self.state_schema)
        self._add_schema(self.input_schema, public=True)
        self._add_schema(self.output_schema, public=True)

    if not TYPE_CHECKING:  # so that type checkers still say that a builder cannot run

        def __getattr__(self, name: str) -> Any:
            said = f"{type(self).__name__!r} object has no attribute {name!r}"
            if not name.startswith("_"):
                from perdure.graph.compiled import CompiledStateGraph

                if hasattr(CompiledStateGraph, name):
                    said += f": compile it first, graph = builder.compile(), and then graph.{name}"
            raise AttributeError(said, name=name, obj=self)

    def _add_schema(self, declared: Any, *, public: bool = False) -> Schema:
        key = schema_key(declared)
        schema = self.schemas.get(key) or read_schema(declared)
        if public and schema.managed and declared is not self.state_schema:
            raise InvalidGraph(
                f"Invalid managed channels detected in {schema.name}: {', '.join(schema.managed)}. Managed channels are not permitted "
                "in Input/Output schema. The engine computes them for nodes; declare them in the state schema only"
            )
        if key not in self.schemas:
            first = next(iter(self.schemas.values()), schema)
            if first.root != schema.root:
                keyless, keyed = (first, schema) if first.root else (schema, first)
                raise InvalidGraph(
                    f"{keyed.name} has keys and {keyless.name} has none: a graph's state is either named keys or one bare value. "
                    f"Give {keyless.name} a class with keys, such as a TypedDict, or leave {keyed.name} out"
                )
            merge(self.channels, self.managed, schema)
            self.schemas[key] = schema
        return schema

    def schema_of(self, declared: Any) -> Schema:
        """What a state class of this graph declares."""
        return self.schemas[schema_key(declared)]

    @property
    def root(self) -> bool:
        """The state is one value without keys."""
        return self.schema_of(self.state_schema).root

    def ordered_edges(self) -> list[Edge]:
        """Edges in the order they were added."""
        return sorted(self.edges, key=lambda edge: (self._added.get(edge, len(self._added)), edge))

    def ordered_joins(self) -> list[Join]:
        """Edges that wait for several nodes, in the order they were added."""
        return sorted(self.waiting_edges, key=lambda join: (self._added.get(join, len(self._added)), join))

    def _states(self) -> list[Any]:
        return [schema.declared for schema in self.schemas.values()]

    def add_node(
        self,
        node: str | Action,
        action: Action = None,
        *,
        defer: bool = False,
        metadata: dict[str, Any] | None = None,
        input_schema: Any = None,
        retry_policy: RetryPolicy | Sequence[RetryPolicy] | None = None,
        cache_policy: CachePolicy | None = None,
        error_handler: Action = None,
        destinations: Mapping[str, str | None] | tuple[str, ...] | None = None,
        timeout: float | timedelta | TimeoutPolicy | None = None,
        **deprecated: Any,
    ) -> Self:
        """Adds a node: `add_node(function)`, named after it, or `add_node("name", function)`.

        Args:
            node: the name, or the action itself.
            action: a function, async function, method, partial, callable object, LangChain Runnable or compiled graph. It gets the
                state, and what else its parameters ask for: `config`, `runtime`, `store`, `writer`.
            defer: run it only when nothing else is left to run.
            metadata: carried to tracers and drawings.
            input_schema: the class whose keys it sees. By default what its first parameter is annotated with, if that is a
                TypedDict, dataclass or pydantic model, else the graph's state. Keys that are new become private keys of the graph.
            retry_policy: when to run it again after an error; the first of several that fits an error decides.
            cache_policy: keep its results for equal inputs.
            error_handler: runs in its place when it has failed for good; may take `error: NodeError`.
            destinations: for drawings: where it may go by Command. `-> Command[Literal["a"]]` says the same.
            timeout: seconds that an attempt may take; async nodes only.

        Raises:
            InvalidGraph: the name is taken, reserved or contains "|" or ":"; or the action needs what the runtime cannot give.
        """
        retry_policy = renamed(deprecated, "retry", "retry_policy", retry_policy)
        input_schema = renamed(deprecated, "input", "input_schema", input_schema)
        refuse_unknown(deprecated, "add_node")
        if not isinstance(node, str):
            if action is not None:
                raise InvalidGraph(
                    f"add_node takes the name first: add_node('name', {getattr(action, '__name__', 'function')})"
                )
            node, action = action_name(node), node
        elif action is None:
            raise InvalidGraph(f"add_node({node!r}) has a name but nothing to run: add_node({node!r}, function)", node=node)
        name = check_node_name(node, self.nodes)
        given_schema = input_schema is not None
        spec = node_spec(
            name,
            action,
            self._states(),
            error_handler,
            defer=defer,
            metadata=metadata,
            input_schema=input_schema,
            retry_policy=retry_policy,
            cache_policy=cache_policy,
            destinations=destinations,
            timeout=timeout,
        )
        for schema in (spec.input_schema, _state_class(spec.error_handler)):
            # What an annotation says does not bind a state without keys: a Send may bring such a node anything.
            if schema is not None and (given_schema or not self.root):
                self._add_schema(schema)
        self.nodes[name] = spec
        return self

    def add_edge(self, start_key: str | Sequence[str], end_key: str) -> Self:
        """After `start_key` runs `end_key`. Given a list, `end_key` waits until all of its nodes have run.

        Raises:
            InvalidGraph: it leaves END, enters START, or is given something that is no name.
            UnknownNode: a list names a node that was not added yet.
        """
        if isinstance(start_key, str) or not isinstance(start_key, Iterable):
            check_edge(start_key, end_key)
            edge: Edge | Join = (plain_name(start_key), plain_name(end_key))
            self.edges.add(edge)  # type: ignore[arg-type]
        else:
            sources = sorted(start_key) if isinstance(start_key, (set, frozenset)) else list(start_key)
            for source in sources:
                check_edge(source, end_key)
            sources = list(dict.fromkeys(map(plain_name, sources)))
            edge = (tuple(sources), plain_name(end_key))
            check_join(*edge, list(self.nodes))
            self.waiting_edges.add(edge)
        self._added.setdefault(edge, len(self._added))
        return self

    def add_conditional_edges(
        self, source: str, path: Action, path_map: Mapping[Any, str] | Sequence[str] | None = None, **deprecated: Any
    ) -> Self:
        """After `source`, ask `path` what runs next.

        Args:
            source: the node after which it is asked, or START.
            path: gets the state; returns a node name, END, a `Send`, or a list of these. May be async.
            path_map: from what `path` returns to node names, or the list of names it may return. Without it, a return annotation
                such as `-> Literal["a", "b"]` tells drawings where it may lead.

        Raises:
            InvalidGraph: `source` has a conditional edge of this name, or `path` cannot be called.
        """
        refuse_unknown(deprecated, "add_conditional_edges")
        check_edge(source, END)
        source = plain_name(source)
        branch = make_branch(source, path, path_map, self._states())
        if branch.name in self.branches.get(source, ()):
            raise InvalidGraph(
                f"Branch with name `{branch.name}` already exists for node `{source}`. Conditional edges are told apart by the name "
                "of their function: write it with `def` under a name of its own",
                node=source,
            )
        if branch.input_schema is not None and not self.root:
            self._add_schema(branch.input_schema)
        self.branches[source][branch.name] = branch
        return self

    def add_sequence(self, nodes: Sequence[Action | tuple[str, Action]]) -> Self:
        """Adds nodes that run one after the other: functions, or (name, function) pairs.

        Raises:
            InvalidGraph: there are none, or one cannot be added.
        """
        if not nodes:
            raise InvalidGraph("Sequence requires at least one node. Pass a list of functions or of (name, function) pairs")
        previous: str | None = None
        for node in nodes:
            name, action = node if isinstance(node, tuple) and len(node) == 2 else (action_name(node), node)
            self.add_node(name, action)
            if previous is not None:
                self.add_edge(previous, name)
            previous = name
        return self

    def set_entry_point(self, key: str) -> Self:
        """The same as `add_edge(START, key)`."""
        return self.add_edge(START, key)

    def set_conditional_entry_point(self, path: Action, path_map: Mapping[Any, str] | Sequence[str] | None = None) -> Self:
        """The same as `add_conditional_edges(START, path, path_map)`."""
        return self.add_conditional_edges(START, path, path_map)

    def set_finish_point(self, key: str) -> Self:
        """The same as `add_edge(key, END)`."""
        return self.add_edge(key, END)

    def set_node_defaults(
        self,
        *,
        retry_policy: RetryPolicy | Sequence[RetryPolicy] | None = None,
        cache_policy: CachePolicy | None = None,
        error_handler: Action = None,
        timeout: float | timedelta | TimeoutPolicy | None = None,
    ) -> Self:
        """What applies to nodes of this graph that do not say otherwise, whether they were added before or will be.

        Retries and timeouts also apply to error handlers; a cache and an error handler only to the nodes themselves. The nodes
        inside a subgraph are not affected.

        Raises:
            InvalidGraph: the error handler cannot be called by the runtime.
        """
        defaults = self.defaults
        if retry_policy is not None:
            defaults.retry_policy = policies(retry_policy) or ()
        if cache_policy is not None:
            defaults.cache_policy = kept_by(cache_policy)
        if timeout is not None:
            defaults.timeout = TimeoutPolicy.coerce(timeout)
        if error_handler is not None:
            defaults.error_handler = handler_call(error_handler, "the default error handler", self._states())
            schema = _state_class(defaults.error_handler)
            if schema is not None and not self.root:
                self._add_schema(schema)
        return self

    def validate(self, interrupt: Sequence[str] | None = None) -> Self:
        """Checks that every edge leads from a node to a node, that START leads somewhere, and that breakpoints name nodes.

        Raises:
            InvalidGraph: one of these does not hold (UnknownNode, a kind of it, if a name has no node).
        """
        check_graph(self, interrupt or ())
        return self

    def compile(
        self,
        checkpointer: Checkpointer = None,
        *,
        cache: Any = None,
        store: Any = None,
        interrupt_before: All | Sequence[str] | None = None,
        interrupt_after: All | Sequence[str] | None = None,
        debug: bool = False,
        name: str | None = None,
        unknown_keys: Literal["error", "ignore"] = "error",
        aliases: Mapping[str, str] | None = None,
        step_timeout: float | timedelta | None = None,
    ) -> CompiledStateGraph[StateT, ContextT, InputT, OutputT]:
        """A graph that can run. The builder can go on being changed; what was compiled stays as it is.

        Args:
            checkpointer: a saver, which makes threads durable. As a subgraph: None uses the parent's for each call, True keeps
                memory between calls, False keeps nothing.
            cache: where results of nodes with a cache policy are kept.
            store: the store that nodes receive.
            interrupt_before, interrupt_after: nodes to pause before or after, or "*" for all.
            debug: print what happens.
            name: the graph's name, for tracers and as a node's name where it is a subgraph.
            unknown_keys: "error" refuses keys that the state does not have, "ignore" drops them.
            aliases: names that nodes had before and what they are called now: threads that wait at an old name go on at the new.
            step_timeout: seconds that a super-step may take.

        Raises:
            InvalidGraph: the graph as drawn cannot run (UnknownNode, a kind of it, if a name has no node).
            WrongType: the checkpointer is not one.
        """
        from perdure.graph.compile import build_program
        from perdure.graph.compiled import CompiledStateGraph

        program = build_program(
            self,
            name=name,
            interrupt_before=interrupt_before,
            interrupt_after=interrupt_after,
            unknown_keys=unknown_keys,
            aliases=aliases,
            step_timeout=step_timeout,
        )
        self.compiled = True
        return CompiledStateGraph(program, builder=self, checkpointer=checkpointer, store=store, cache=cache, debug=debug)


def _state_class(inspected: Any) -> Any:
    """The class that an error handler's state parameter is annotated with, if it has keys."""
    state = None if inspected is None else inspected.state
    return state if kind_of(state) in ("typeddict", "dataclass", "pydantic") else None
