"""Steps that do not run twice: functions whose calls are remembered."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, overload

from perdure.engine.program import Call, Node, StateView
from perdure.engine.task import Task
from perdure.graph.signature import injected, is_async_callable
from perdure.scope import current_task
from perdure.types import CachePolicy, RetryPolicy, TimeoutPolicy

if TYPE_CHECKING:
    from perdure.engine.runners_calls import StepFuture

P = ParamSpec("P")
T = TypeVar("T")


class TaskFunction(Generic[P, T]):
    """A function whose calls inside a node or an entrypoint are durable steps.

    Calling it starts the step and returns a future: `.result()` waits for it in sync code, `await` in async code. Several may run
    at once. When the node is entered again, after a pause or a crash, steps that ended give their results without running.
    """

    def __init__(self, function: Callable[P, Any], node: Node) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self.node = node

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> StepFuture:
        """Start the step.

        Raises:
            RuntimeError: outside of a node, a task or an entrypoint.
        """
        from perdure.engine.runners_calls import start

        scope = current_task()
        if not isinstance(scope, Task):
            raise RuntimeError(f"task {self.node.name!r} was called in a scope that is no task of this library")
        return start(scope, self.node, args, kwargs)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)


@overload
def task(__func: Callable[P, T], /) -> TaskFunction[P, T]: ...


@overload
def task(
    *,
    name: str | None = None,
    retry_policy: RetryPolicy | Sequence[RetryPolicy] | None = None,
    cache_policy: CachePolicy | None = None,
    timeout: float | timedelta | TimeoutPolicy | None = None,
) -> Callable[[Callable[P, T]], TaskFunction[P, T]]: ...


def task(
    __func: Callable[P, T] | None = None,
    /,
    *,
    name: str | None = None,
    retry_policy: RetryPolicy | Sequence[RetryPolicy] | None = None,
    cache_policy: CachePolicy | None = None,
    timeout: float | timedelta | TimeoutPolicy | None = None,
) -> Any:
    """Mark a function, sync or async, as a durable step.

    Args:
        name: its name in records; the function's unless given.
        retry_policy: when and how often to try again.
        cache_policy: keep results across runs, by their arguments, in the graph's cache.
        timeout: for async functions: how long one attempt may take.

    Raises:
        ValueError: a timeout for a sync function.
    """

    def mark(function: Callable[P, T]) -> TaskFunction[P, T]:
        label = str(name or getattr(function, "__name__", type(function).__name__))
        is_async = is_async_callable(function)
        limit = TimeoutPolicy.coerce(timeout)
        if limit is not None and not is_async:
            raise ValueError(
                f"Task timeouts are only supported for async functions: a thread cannot be stopped. Make {label!r} an async def, or "
                "give its own calls a timeout"
            )
        policies = () if retry_policy is None else (retry_policy,) if isinstance(retry_policy, RetryPolicy) else tuple(retry_policy)
        call = Call(function, is_async, takes_state=False, inject=injected(function))
        return TaskFunction(function, Node(label, call, StateView(), retry=policies, cache=cache_policy, timeout=limit))

    return mark if __func is None else mark(__func)
