"""Nodes as the user adds them, and what applies to those that do not say otherwise."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from perdure.errors import InvalidGraph
from perdure.graph.branches import command_destinations
from perdure.graph.schema import is_structured
from perdure.graph.signature import Inspected, inspect_call, is_compiled_graph, is_runnable
from perdure.graph.validation import plain_name
from perdure.types import CachePolicy, RetryPolicy, TimeoutPolicy

Action = Any
"""A function, async function, method, partial, callable object, Runnable or compiled graph."""


@dataclass(frozen=True, slots=True, eq=False)
class NodeSpec:
    """A node of a builder.

    Attributes:
        name: its name.
        action: what the user gave.
        inspected: how to call it.
        input_schema: the class whose keys it sees; None: all of the graph's state.
        defer, metadata: as given.
        retry_policy: policies of its own; None: the graph's default.
        cache_policy, timeout: its own; None: the graph's default.
        error_handler: how to call its own error handler; None: the graph's default.
        ends: drawing hints of where it may go by Command.
    """

    name: str
    action: Action
    inspected: Inspected
    input_schema: Any = None
    defer: bool = False
    metadata: dict[str, Any] | None = None
    retry_policy: tuple[RetryPolicy, ...] | None = None
    cache_policy: CachePolicy | None = None
    timeout: TimeoutPolicy | None = None
    error_handler: Inspected | None = None
    ends: Mapping[str, str | None] | tuple[str, ...] = ()


@dataclass(slots=True, eq=False)
class NodeDefaults:
    """What applies to nodes that do not say otherwise; retries and timeouts also to error handlers."""

    retry_policy: tuple[RetryPolicy, ...] = ()
    cache_policy: CachePolicy | None = None
    timeout: TimeoutPolicy | None = None
    error_handler: Inspected | None = None


def action_name(action: Action) -> str:
    """The name of a node that is given none.

    Raises:
        InvalidGraph: there is nothing to name it after.
    """
    if is_compiled_graph(action) or is_runnable(action):
        get_name: Callable[[], Any] | None = getattr(action, "get_name", None)
        name = get_name() if get_name is not None else getattr(action, "name", None)
    else:
        name = getattr(action, "__name__", None)
    name = name or type(action).__name__
    if not isinstance(name, str):
        raise InvalidGraph(f"Cannot name a node after {action!r}: say add_node('name', ...)")
    return name


def policies(policy: RetryPolicy | Sequence[RetryPolicy] | None) -> tuple[RetryPolicy, ...] | None:
    """Retry policies as a tuple; None stays None.

    Raises:
        InvalidGraph: it is neither a policy nor several, or what one says is impossible.
    """
    if policy is None:
        return None
    # A RetryPolicy is itself a tuple, so it must be asked for first.
    several = tuple(policy) if isinstance(policy, (list, tuple)) and not isinstance(policy, RetryPolicy) else (policy,)
    for each in several:
        if not isinstance(each, RetryPolicy):
            raise InvalidGraph(f"retry_policy must be a RetryPolicy or a list of them, got {each!r}")
        _check(each)
    return several


def _check(policy: RetryPolicy) -> None:
    for name, least in (("max_attempts", 1), ("initial_interval", 0), ("backoff_factor", 0), ("max_interval", 0)):
        value: Any = getattr(policy, name)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not value >= least:
            raise InvalidGraph(f"{name} of a RetryPolicy is a number from {least} on, got {value!r}")
    on: Any = policy.retry_on
    classes = on if isinstance(on, (list, tuple, set, frozenset)) else (on,)
    if isinstance(on, type) or not callable(on):
        for one in classes:
            if not (isinstance(one, type) and issubclass(one, BaseException)):
                raise InvalidGraph(
                    f"retry_on of a RetryPolicy must be an exception class, a list of them, or a function of the error, got {one!r}"
                )


def kept_by(policy: CachePolicy | None) -> CachePolicy | None:
    """A cache policy, as it is.

    Raises:
        InvalidGraph: it is none.
    """
    if policy is not None and not isinstance(policy, CachePolicy):
        raise InvalidGraph(f"cache_policy must be a CachePolicy, such as CachePolicy(ttl=60), got {policy!r}")
    return policy


def node_spec(name: str, action: Action, states: Sequence[Any], error_handler: Action, **given: Any) -> NodeSpec:
    """A node from what add_node was given.

    Raises:
        InvalidGraph: its action or error handler cannot be called by the runtime.
    """
    inspected = inspect_call(action, where=f"node {name!r}", states=states)
    schema = given.pop("input_schema")
    if schema is None and inspected.call.subgraph is None and is_structured(inspected.state):
        schema = inspected.state
    handler = None if error_handler is None else handler_call(error_handler, f"error handler of node {name!r}", states)
    ends = _ends(given.pop("destinations"), inspected, name)
    given["retry_policy"] = policies(given["retry_policy"])
    kept_by(given["cache_policy"])
    given["timeout"] = TimeoutPolicy.coerce(given["timeout"])
    return NodeSpec(name, action, inspected, schema, error_handler=handler, ends=ends, **given)


def handler_call(action: Action, where: str, states: Sequence[Any]) -> Inspected:
    """How to call an error handler.

    Raises:
        InvalidGraph: it cannot be called by the runtime.
    """
    return inspect_call(action, where=where, states=states, handler=True)


def _ends(destinations: Any, inspected: Inspected, name: str) -> Mapping[str, str | None] | tuple[str, ...]:
    if destinations is None:
        return command_destinations(inspected.returns)
    if isinstance(destinations, Mapping):
        return {plain_name(end): label for end, label in destinations.items()}
    if isinstance(destinations, str) or not all(isinstance(end, str) for end in destinations):
        raise InvalidGraph(
            f"destinations of node {name!r} must be a tuple of node names or a dict from them to labels", node=name
        )
    return tuple(plain_name(end) for end in destinations)
