"""A function as a durable workflow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeAlias

from perdure.channels.last_value import LastValue
from perdure.constants import END, PREVIOUS, START
from perdure.engine.compiled import CompiledGraph
from perdure.engine.program import Call, Node, Program, StateView
from perdure.errors import InvalidArgument, InvalidGraph
from perdure.graph.nodes import kept_by, policies
from perdure.graph.old_words import refuse_unknown, renamed
from perdure.graph.signature import inspect_call
from perdure.graph.state_types import types_in
from perdure.graph.subgraphs import graphs_of
from perdure.types import CachePolicy, EntrypointFinal, RetryPolicy, TimeoutPolicy

if TYPE_CHECKING:
    from perdure.checkpoint.base import BaseCheckpointSaver


class Workflow(CompiledGraph):
    """A function as a graph that can run; made by `entrypoint`."""

    def graphs_at(self, name: str) -> list[CompiledGraph]:
        """The graphs that the function, or its tasks, name."""
        node = self.program.node(name)
        return [] if node is None else graphs_of(node.call)


class entrypoint:  # noqa: N801 - used as a decorator, under the name the field knows
    """Make a function, sync or async, a durable workflow: `invoke`, `stream` and all else that a compiled graph has.

    The function's first parameter is the input; `config`, `runtime`, `writer`, `store` and `previous` are filled by the runtime. It is
    entered again from its top after a pause or a crash, and its `task`s that had ended give their results without running.

    Args:
        checkpointer: where to save.
        store: what the function reaches as `store`.
        cache: where results of tasks with a cache policy are kept.
        context_schema: the class of `runtime.context`.
        cache_policy: keep the function's own results.
        retry_policy: when and how often to enter it again after an error.
        timeout: for async functions: how long one attempt may take.
    """

    final: TypeAlias = EntrypointFinal  # noqa: PYI042 - the name the field knows

    def __init__(
        self,
        checkpointer: BaseCheckpointSaver[Any] | None = None,
        store: Any = None,
        cache: Any = None,
        context_schema: type[Any] | None = None,
        cache_policy: CachePolicy | None = None,
        retry_policy: RetryPolicy | Sequence[RetryPolicy] | None = None,
        timeout: float | timedelta | TimeoutPolicy | None = None,
        **deprecated: Any,
    ) -> None:
        context_schema = renamed(deprecated, "config_schema", "context_schema", context_schema)
        retry_policy = renamed(deprecated, "retry", "retry_policy", retry_policy)
        refuse_unknown(deprecated, "entrypoint")
        self._checkpointer = checkpointer
        self._store = store
        self._cache = cache
        self._context_schema = context_schema
        self._cache_policy = kept_by(cache_policy)
        self._retry = policies(retry_policy) or ()
        self._timeout = TimeoutPolicy.coerce(timeout)

    def __call__(self, function: Callable[..., Any]) -> CompiledGraph:
        """The workflow.

        Raises:
            InvalidGraph: the function takes no input, is a generator, or needs an argument that the runtime cannot give.
            InvalidArgument: a timeout for a sync function.
        """
        name = getattr(function, "__name__", type(function).__name__)
        inspected = inspect_call(function, where=f"entrypoint {name!r}")
        if not inspected.call.takes_state:
            raise InvalidGraph(
                f"entrypoint {name!r} must take its input as the first positional parameter, for example {name}(inputs)"
            )
        if self._timeout is not None and not inspected.call.is_async:
            raise InvalidArgument(
                f"timeouts are only supported for async functions: make {name!r} an async def, or leave the timeout out"
            )
        node = Node(
            name,
            Call(function, inspected.call.is_async, True, inspected.call.inject),
            StateView(given=True),
            retry=self._retry,
            cache=self._cache_policy,
            timeout=self._timeout,
        )
        nothing = Call(lambda: None, takes_state=False)
        program = Program(
            name=name,
            channels={END: LastValue(Any, END), PREVIOUS: LastValue(Any, PREVIOUS)},
            nodes={name: node},
            start=Node(START, nothing, StateView(), edges=(name,), hidden=True),
            output_keys=(END,),
            stream_keys=(END,),
            context_schema=self._context_schema,
            types=types_in((inspected.state, inspected.returns)),
            fingerprint=name,
            single_output=END,
        )
        program.triggers[name] = (START,)
        return Workflow(program, checkpointer=self._checkpointer, store=self._store, cache=self._cache)
