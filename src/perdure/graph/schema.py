"""From a state class to channels: which keys it declares and how writes to each are combined.

A schema is a TypedDict, a dataclass, a pydantic model, any class with annotations, or a bare type, whose one value is then the
whole state. How objects of these classes are built and read is in `objects`, how values are checked in `checks`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, get_origin

from perdure.channels import BaseChannel, BinaryOperatorAggregate, LastValue
from perdure.constants import BRANCH_PREFIX, END, JOIN_PREFIX, RESERVED, ROOT, START
from perdure.engine.program import Managed
from perdure.errors import InvalidGraph
from perdure.graph.annotations import Kind, field_types, kind_of, unwrap
from perdure.managed import ManagedValue

Channel = BaseChannel[Any, Any, Any]


@dataclass(frozen=True, slots=True, eq=False)
class Schema:
    """What a state class declares.

    Attributes:
        declared: the class or type as the user gave it.
        kind: how its keys are declared; None: it has no keys, the state is one value.
        hints: the declared type of each key.
        channels: a channel for each key (for a state without keys one, `__root__`).
        managed: its managed values.
    """

    declared: Any
    kind: Kind | None
    hints: Mapping[str, Any]
    channels: dict[str, Channel] = field(default_factory=dict)
    managed: dict[str, Managed] = field(default_factory=dict)

    @property
    def root(self) -> bool:
        """It has no keys."""
        return self.kind is None

    @property
    def name(self) -> str:
        """The class's name, for messages and titles."""
        return getattr(self.declared, "__name__", None) or str(self.declared)


def schema_key(declared: Any) -> Hashable:
    """The schema itself as a key of a dict, or its identity where `Annotated` holds something that cannot be hashed."""
    try:
        hash(declared)
    except TypeError:
        return "schema", id(declared)
    return declared  # type: ignore[no-any-return]


def read_schema(declared: Any) -> Schema:
    """What a state class declares.

    Raises:
        InvalidGraph: an annotation cannot be evaluated, a reducer cannot be called with two values, or a key is reserved.
    """
    if isinstance(declared, (dict, list, tuple, set, str, bytes, int, float, complex)) or declared is None:
        raise InvalidGraph(
            f"A state schema must be a class (TypedDict, dataclass, pydantic model) or a type, got {declared!r}. "
            "For example: class State(TypedDict): messages: Annotated[list, operator.add]"
        )
    kind = kind_of(declared)
    hints = {ROOT: declared} if kind is None else field_types(declared)
    schema = Schema(declared, kind, hints)
    for key, hint in hints.items():
        if kind is not None:
            _refuse_reserved(key, schema.name)
        slot = slot_of(key, hint, schema.name)
        if isinstance(slot, Managed):
            schema.managed[key] = slot
        else:
            schema.channels[key] = slot
    return schema


def _refuse_reserved(key: str, owner: str) -> None:
    if key in RESERVED or key in (START, END) or key.startswith((BRANCH_PREFIX, JOIN_PREFIX)):
        raise InvalidGraph(f"Channel name {key!r} is reserved: the runtime uses it itself. Rename this key of {owner}", key=key)


def slot_of(key: str, hint: Any, owner: str) -> Channel | Managed:
    """The channel or managed value that an annotation asks for.

    Raises:
        InvalidGraph: its reducer cannot be called with two values.
    """
    typ, metadata = unwrap(hint)
    for item in metadata:
        if isinstance(item, ManagedValue):
            return Managed(item.kind)
    for item in metadata:
        if isinstance(item, BaseChannel):
            # One annotation may serve many graphs and keys, so each gets a channel of its own; some kinds learn their type here.
            channel: Channel = item.of_type(typ) if hasattr(item, "of_type") else item.copy()
        elif isinstance(item, type) and issubclass(item, BaseChannel):
            channel = item(typ)
        else:
            continue
        channel.key = key
        return channel
    reducer = _reducer_among(metadata, key, owner)
    channel = LastValue(typ) if reducer is None else BinaryOperatorAggregate(typ, reducer)
    channel.key = key
    return channel


def _reducer_among(metadata: tuple[Any, ...], key: str, owner: str) -> Callable[[Any, Any], Any] | None:
    """The last item if it is callable. An earlier function is meant as a reducer too: a text or constraint may follow it."""
    if metadata and callable(metadata[-1]):
        _check_reducer(metadata[-1], key, owner)
        return metadata[-1]  # type: ignore[no-any-return]
    for item in reversed(metadata):
        if callable(item) and not isinstance(item, type) and _arity_problem(item) is None:
            return item  # type: ignore[no-any-return]
    return None


def _check_reducer(reducer: Any, key: str, owner: str) -> None:
    problem = _arity_problem(reducer)
    if problem is not None:
        raise InvalidGraph(
            f"Invalid reducer signature. Expected (a, b) -> c. Got {problem}. The reducer of key {key!r} of {owner} is called with "
            "the value so far and the new one, and returns what becomes of them, for example operator.add",
            key=key,
        )


def _arity_problem(reducer: Any) -> str | None:
    """Why this cannot be called as a reducer; None if it can, as far as Python tells."""
    if inspect.iscoroutinefunction(reducer) or inspect.iscoroutinefunction(getattr(reducer, "__call__", None)):  # noqa: B004 - what it is, not whether it is there
        return "an async function, and reducers are called without an event loop"
    try:
        signature = inspect.signature(reducer)
    except (ValueError, TypeError):
        # operator.add, max and the like tell no signature; a builtin class (int, list) is a type that strayed here.
        return f"the type {reducer.__name__}" if isinstance(reducer, type) else None
    parameters = signature.parameters.values()
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    variable = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    required_words = any(p.kind is p.KEYWORD_ONLY and p.default is p.empty for p in parameters)
    if required_words or not (len(positional) == 2 or (variable and len(positional) < 2)):
        return str(signature)
    return None


def merge(channels: dict[str, Channel], managed: dict[str, Managed], schema: Schema) -> None:
    """Adds a schema's keys to those of a graph.

    Raises:
        InvalidGraph: the graph already has one of these keys with another reducer, channel or role.
    """
    for key in schema.channels.keys() & managed.keys() | schema.managed.keys() & channels.keys():
        raise InvalidGraph(
            f"Key {key!r} is a managed value in one schema of this graph and a stored one in another: {schema.name} says otherwise "
            "than what was there before. Rename one",
            key=key,
        )
    for key, channel in schema.channels.items():
        known = channels.get(key)
        if known is not None and known != channel and type(channel) is not LastValue:
            raise InvalidGraph(
                f"Channel {key!r} already exists with a different type: {_kind_text(known)}, and {schema.name} declares "
                f"{_kind_text(channel)}. Declare the key alike in all schemas of the graph, or leave its reducer out here: a key "
                "without one takes the reducer it has elsewhere",
                key=key,
            )
    for key, value in schema.managed.items():
        if managed.get(key, value) != value:
            raise InvalidGraph(
                f"Managed value {key!r} of {schema.name} is another one elsewhere in this graph. Rename one", key=key
            )
    for key, channel in schema.channels.items():
        channels.setdefault(key, channel)
    managed.update(schema.managed)


def _kind_text(channel: Channel) -> str:
    reducer = getattr(channel, "operator", None)
    name = getattr(reducer, "__name__", None)
    return f"{type(channel).__name__} with {name}" if name else type(channel).__name__


def is_structured(annotation: Any) -> bool:
    """Whether a parameter's annotation is a class whose fields name state keys."""
    return kind_of(annotation) in ("typeddict", "dataclass", "pydantic") and (
        isinstance(annotation, type) or isinstance(get_origin(annotation), type)
    )
