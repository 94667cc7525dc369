"""Steps that do not run twice: functions whose calls are remembered."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, cast, overload

from perdure.engine.program import Call, Node, StateView
from perdure.engine.tasks.cached import namespace_of
from perdure.engine.tasks.task import Task
from perdure.errors import InvalidArgument, InvalidGraph, OutsideOfRun
from perdure.graph.nodes import kept_by, policies
from perdure.graph.old_words import refuse_unknown, renamed
from perdure.graph.signature import inspect_step, is_async_callable
from perdure.graph.state_types import types_in
from perdure.scope import CURRENT
from perdure.types import CachePolicy, RetryPolicy, TimeoutPolicy

if TYPE_CHECKING:
    from perdure.cache.base import BaseCache
    from perdure.engine.runners.calls import StepFuture

P = ParamSpec("P")
T = TypeVar("T")


class TaskFunction(Generic[P, T]):
    """A function whose calls inside a node or an entrypoint are durable steps.

    Calling it starts the step and returns a future: `.result()` waits for it in sync code, `await` in async code. Several may run
    at once. When the node is entered again, after a pause or a crash, steps that ended give their results without running.

    Attributes:
        function: the function itself; call it to run it as no step.
    """

    def __init__(self, function: Callable[P, Any], node: Node, types: tuple[type[Any], ...] = ()) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self._node = node
        self._types = types

    @property
    def name(self) -> str:
        """Its name in records and events."""
        return self._node.name

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> StepFuture[T]:
        """Start the step.

        Raises:
            OutsideOfRun: outside of a node, a task or an entrypoint.
            InvalidCall: that has ended.
        """
        scope = CURRENT.get(None)
        if not isinstance(scope, Task):
            raise OutsideOfRun(
                f"task {self.name!r} was called outside of a running entrypoint or graph. Call it in an entrypoint, a node or another "
                "task, and in threads of your own with the context of these; its function alone is in its attribute `function`"
            )
        from perdure.engine.runners.calls import start

        return cast("StepFuture[T]", start(scope, self._node, self._types, args, kwargs))

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __repr__(self) -> str:
        return f"<task {self.name!r}>"

    def clear_cache(self, cache: BaseCache[Any]) -> None:
        """Forget its results in this cache."""
        cache.clear([namespace_of(self._node)])

    async def aclear_cache(self, cache: BaseCache[Any]) -> None:
        """`clear_cache` for async code."""
        await cache.aclear([namespace_of(self._node)])


@overload
def task(__func: Callable[P, Awaitable[T]], /) -> TaskFunction[P, T]: ...


@overload
def task(__func: Callable[P, T], /) -> TaskFunction[P, T]: ...


@overload
def task(
    *,
    name: str | None = None,
    retry_policy: RetryPolicy | Sequence[RetryPolicy] | None = None,
    cache_policy: CachePolicy | None = None,
    timeout: float | timedelta | TimeoutPolicy | None = None,
) -> Marker: ...


def task(
    __func: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    retry_policy: RetryPolicy | Sequence[RetryPolicy] | None = None,
    cache_policy: CachePolicy | None = None,
    timeout: float | timedelta | TimeoutPolicy | None = None,
    **deprecated: Any,
) -> Any:
    """Mark a function, sync or async, as a durable step.

    Args:
        name: its name in records; the function's unless given.
        retry_policy: when and how often to try again.
        cache_policy: keep results across runs, by their arguments, in the graph's cache.
        timeout: for async functions: how long one attempt may take.

    Raises:
        InvalidGraph: it cannot be called, or is a generator; or a policy is none.
        InvalidArgument: a timeout for a sync function.
        WrongType: there is no such argument.
    """
    retry_policy = renamed(deprecated, "retry", "retry_policy", retry_policy)
    refuse_unknown(deprecated, "task")
    retry = policies(retry_policy) or ()

    def mark(function: Callable[..., Any]) -> TaskFunction[..., Any]:
        if not callable(function):
            hint = ": put @classmethod above @task" if isinstance(function, classmethod) else ""
            raise InvalidGraph(f"@task marks a function, got {type(function).__name__}{hint}")
        label = str(name or getattr(function, "__name__", type(function).__name__))
        is_async = is_async_callable(function)
        limit = TimeoutPolicy.coerce(timeout)
        if limit is not None and not is_async:
            raise InvalidArgument(
                f"Task timeouts are only supported for async functions: a thread cannot be stopped. Make {label!r} an async def, or "
                "give its own calls a timeout"
            )
        inject, hints = inspect_step(function, where=f"task {label!r}")
        call = Call(function, is_async, takes_state=False, inject=inject)
        node = Node(label, call, StateView(), retry=retry, cache=kept_by(cache_policy), timeout=limit)
        return TaskFunction(function, node, types_in(hints))

    return mark if __func is None else mark(__func)


class Marker:
    """What `task(...)` with options is: it marks the function below it. For type checkers only."""

    @overload
    def __call__(self, __func: Callable[P, Awaitable[T]], /) -> TaskFunction[P, T]: ...

    @overload
    def __call__(self, __func: Callable[P, T], /) -> TaskFunction[P, T]: ...

    def __call__(self, __func: Any, /) -> Any:
        """The function, marked."""
        raise NotImplementedError
