"""From a builder to the Program that the engine runs: everything is looked up here, once."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal

from perdure.constants import DEFAULT_HANDLER, DEFAULT_NAME, END, HANDLER_PREFIX, JOIN_PREFIX, START
from perdure.engine.program import Branch, Call, Join, Node, Program, StateView
from perdure.errors import InvalidGraph, UnknownNode
from perdure.graph.branches import BranchSpec, command_destinations
from perdure.graph.checks import state_validator
from perdure.graph.fingerprint import fingerprint
from perdure.graph.nodes import NodeSpec
from perdure.graph.objects import maker, pairs_reader
from perdure.graph.schema import Schema, schema_key
from perdure.graph.signature import Inspected
from perdure.graph.state_types import types_in
from perdure.graph.validation import check_graph, plain_name
from perdure.types import TimeoutPolicy, seconds_of

if TYPE_CHECKING:
    from perdure.graph.state import StateGraph
    from perdure.types import All


def build_program(
    builder: StateGraph[Any, Any, Any, Any],
    *,
    name: str | None = None,
    interrupt_before: All | Sequence[str] | None = None,
    interrupt_after: All | Sequence[str] | None = None,
    unknown_keys: Literal["error", "ignore"] = "error",
    aliases: Mapping[str, str] | None = None,
    step_timeout: float | timedelta | None = None,
) -> Program:
    """The program of a graph.

    Raises:
        InvalidGraph: the graph as drawn cannot run, or an argument is none of those it may be.
    """
    before, after = _breakpoints(interrupt_before, "interrupt_before"), _breakpoints(interrupt_after, "interrupt_after")
    if unknown_keys not in ("error", "ignore"):
        raise InvalidGraph(f"unknown_keys must be 'error' or 'ignore', got {unknown_keys!r}")
    check_graph(builder, [each for names in (before, after) if names != "*" for each in names])
    return _Compiler(builder).program(
        name=name or DEFAULT_NAME,
        interrupt_before=before,
        interrupt_after=after,
        unknown_keys=unknown_keys,
        aliases=_aliases(builder, aliases or {}),
        step_timeout=seconds_of(step_timeout),
    )


def _aliases(builder: StateGraph[Any, Any, Any, Any], aliases: Mapping[str, str]) -> dict[str, str]:
    given: Any = aliases
    if not isinstance(given, Mapping) or not all(isinstance(old, str) for old in given):
        raise InvalidGraph(f"aliases must be a dict of old names and new ones, such as {{'old': 'new'}}, got {aliases!r}")
    for old, new in aliases.items():
        if new not in builder.nodes:
            raise UnknownNode(
                f"aliases names node {new!r}, which the graph does not have; it has {', '.join(map(repr, builder.nodes))}"
            )
        if old in builder.nodes:
            raise InvalidGraph(f"aliases gives {old!r} as the old name of node {new!r}, but a node of that name exists")
    return dict(aliases)


def _breakpoints(names: Any, argument: str) -> tuple[str, ...] | Literal["*"]:
    if names is None:
        return ()
    if names == "*":
        return "*"
    if isinstance(names, str) or not isinstance(names, Collection):
        meant = f". Did you mean [{names!r}]?" if isinstance(names, str) else ""
        raise InvalidGraph(f"{argument} must be a list of node names or '*', got {names!r}{meant}")
    return tuple(plain_name(each) for each in names)


class _Compiler:
    def __init__(self, builder: StateGraph[Any, Any, Any, Any]) -> None:
        self.builder = builder
        self.state = builder.schema_of(builder.state_schema)
        self.views: dict[int, StateView] = {}
        # Looked up once: a graph may have thousands of edges.
        self.targets: dict[str, list[str]] = {}
        for source, target in builder.ordered_edges():
            if target != END:
                self.targets.setdefault(source, []).append(target)

    def program(self, **given: Any) -> Program:
        builder = self.builder
        joins = self._joins()
        nodes = {spec.name: self._node(spec, joins) for spec in builder.nodes.values()}
        nodes.update(self._handlers())
        start = Node(
            START,
            Call(_nothing, takes_state=False),
            self._view(self.state),
            edges=self._targets(START),
            branches=self._branches(START),
            hidden=True,
        )
        output = builder.schema_of(builder.output_schema)
        schemas = list(builder.schemas.values())
        hints = {key: hint for schema in reversed(schemas) for key, hint in schema.hints.items()}
        return Program(
            channels=dict(builder.channels),
            managed=dict(builder.managed),
            nodes=nodes,
            start=start,
            joins={join.name: join for join in joins},
            root=self.state.root,
            input_keys=tuple(builder.schema_of(builder.input_schema).channels),
            output_keys=tuple(output.channels),
            stream_keys=tuple(builder.channels),
            pairs_of=_no_pairs if self.state.root else pairs_reader(schemas, builder.channels, builder.managed),
            validate_state=state_validator(schemas),
            output_object=maker(output),
            context_schema=builder.context_schema,
            types=types_in([*(schema.declared for schema in schemas), *hints.values(), *self._arguments()]),
            fingerprint=fingerprint([start, *nodes.values()], joins, builder.channels, builder.managed, hints),
            **given,
        )

    def _arguments(self) -> list[Any]:
        """What nodes are annotated to take: a Send may bring it, whether its keys are the state's or not."""
        return [spec.inspected.state for spec in self.builder.nodes.values() if not isinstance(spec.inspected.state, str)]

    def _node(self, spec: NodeSpec, joins: Sequence[Join]) -> Node:
        defaults = self.builder.defaults
        timeout = spec.timeout or defaults.timeout
        call = spec.inspected.call
        if timeout is not None and not call.is_async and call.subgraph is None:
            raise InvalidGraph(
                "Node timeouts are only supported for async nodes because sync Python execution cannot be safely cancelled "
                f"in-process. Node '{spec.name}' is sync. Write it as `async def`, or give the timeout to the client it calls",
                node=spec.name,
            )
        handler = None
        if spec.error_handler is not None:
            handler = HANDLER_PREFIX + spec.name
        elif defaults.error_handler is not None:
            handler = DEFAULT_HANDLER
        return Node(
            spec.name,
            call,
            self._node_view(spec),
            edges=self._targets(spec.name),
            joins=tuple(join.name for join in joins if spec.name in join.sources),
            branches=self._branches(spec.name),
            defer=spec.defer,
            retry=defaults.retry_policy if spec.retry_policy is None else spec.retry_policy,
            cache=spec.cache_policy or defaults.cache_policy,
            timeout=timeout,
            handler=handler,
            metadata=dict(spec.metadata) if spec.metadata is not None else None,
            destinations=spec.ends,
        )

    def _handlers(self) -> dict[str, Node]:
        specs = self.builder.nodes.values()
        handlers = {}
        for spec in specs:
            if spec.error_handler is not None:
                name = HANDLER_PREFIX + spec.name
                handlers[name] = self._handler(name, spec.error_handler, self._node_view(spec))
        default = self.builder.defaults.error_handler
        if default is not None and any(spec.error_handler is None for spec in specs):
            handlers[DEFAULT_HANDLER] = self._handler(DEFAULT_HANDLER, default, self._view(self.state))
        return handlers

    def _handler(self, name: str, inspected: Inspected, view: StateView) -> Node:
        defaults = self.builder.defaults
        # A default timeout passes over a sync handler: the user asked for it on nodes, and did not name this one.
        timeout: TimeoutPolicy | None = defaults.timeout if inspected.call.is_async else None
        return Node(
            name,
            inspected.call,
            view,
            retry=defaults.retry_policy,
            timeout=timeout,
            is_handler=True,
            destinations=command_destinations(inspected.returns),
        )

    def _node_view(self, spec: NodeSpec) -> StateView:
        builder, child = self.builder, getattr(spec.inspected.call.subgraph, "program", None)
        given = None if spec.input_schema is None else builder.schemas.get(schema_key(spec.input_schema))
        view = self._view(given or self.state)
        if child is None:
            return view
        # A subgraph builds its own object from the values, and would not take the parent's. Of a parent's keys it gets those that
        # it has too; one without keys, or from the functional API, gets all of them.
        if given is None and not (self.state.root or child.root) and child.single_output is None:
            keys = tuple(key for key in child.input_keys if key in builder.channels)
            return StateView(keys, whole=set(keys) == builder.channels.keys())
        return replace(view, make=None)

    def _view(self, schema: Schema) -> StateView:
        view = self.views.get(id(schema))
        if view is None:
            keys = tuple(schema.channels)
            whole = set(keys) == self.builder.channels.keys()
            view = StateView(keys, tuple(schema.managed), whole=whole, root=schema.root, make=maker(schema))
            self.views[id(schema)] = view
        return view

    def _targets(self, source: str) -> tuple[str, ...]:
        return tuple(self.targets.get(source, ()))

    def _branches(self, source: str) -> tuple[Branch, ...]:
        return tuple(self._branch(source, branch) for branch in self.builder.branches.get(source, {}).values())

    def _branch(self, source: str, branch: BranchSpec) -> Branch:
        ends: Mapping[Any, str] | None = dict(branch.ends) if branch.ends is not None else None
        return Branch(branch.name, branch.call, ends, self._branch_view(source, branch))

    def _branch_view(self, source: str, branch: BranchSpec) -> StateView | None:
        """What a path function sees: what it is annotated with; else the state, and what its node sees beyond it."""
        builder, spec = self.builder, self.builder.nodes.get(source)
        own = None if spec is None or builder.root else builder.schemas.get(schema_key(spec.input_schema))
        if branch.input_schema is not None and not builder.root:
            schema = builder.schema_of(branch.input_schema)
        elif own is not None:
            schema = own
        else:
            return None
        if schema is self.state:
            return None
        view, state = self._view(schema), self._view(self.state)
        if branch.input_schema is not None or view.make is not None or state.make is not None:
            return view
        keys = tuple(dict.fromkeys((*state.keys, *view.keys)))
        managed = tuple(dict.fromkeys((*state.managed, *view.managed)))
        return StateView(keys, managed, whole=set(keys) == builder.channels.keys())

    def _joins(self) -> list[Join]:
        nodes = self.builder.nodes
        return [
            Join(f"{JOIN_PREFIX}{'+'.join(sources)}:{target}", frozenset(sources), target, nodes[target].defer)
            for sources, target in self.builder.ordered_joins()
            if target != END
        ]


def _nothing() -> None:
    """The entry runs no code."""


def _no_pairs(value: Any) -> None:
    """A state without keys has no pairs: an object is its whole value."""
