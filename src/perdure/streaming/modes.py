"""Which events a caller wants, and the shape in which it gets them. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Literal, NamedTuple, get_args

from perdure.constants import INTERRUPT, NS_SEP, START
from perdure.errors import InvalidArgument
from perdure.types import StreamMode

MODES: tuple[str, ...] = get_args(StreamMode)


class Event(NamedTuple):
    """Something that happened: in which namespace, of which mode, and what."""

    namespace: str
    mode: str
    payload: Any


class Wanted(NamedTuple):
    """What a caller asked for.

    Attributes:
        modes: the modes to produce.
        many: the caller named a list, so each item is a pair (mode, payload).
        subgraphs: events of subgraphs too; each item then starts with its namespace.
        version: "v1" for bare payloads and tuples, "v2" for dicts of one documented shape.
    """

    modes: frozenset[str]
    many: bool
    subgraphs: bool
    version: Literal["v1", "v2"]


NOTHING = Wanted(frozenset(), True, False, "v1")


def wanted(modes: Any, *, subgraphs: bool = False, version: Any = "v1") -> Wanted:
    """What a caller asked for, checked.

    Raises:
        InvalidArgument: a mode or version does not exist.
    """
    many = not isinstance(modes, str)
    if many and not isinstance(modes, Iterable):
        raise InvalidArgument(f"stream_mode is one mode or a list of modes, got {modes!r}; the modes are {', '.join(MODES)}")
    named = tuple(modes) if many else (modes,)
    for mode in named:
        if mode not in MODES:
            raise InvalidArgument(f"unknown stream_mode {mode!r}; the modes are {', '.join(MODES)}")
    if version not in ("v1", "v2"):
        raise InvalidArgument(f"unknown stream version {version!r}; it is 'v1' or 'v2'")
    return Wanted(frozenset(named), many, subgraphs, version)


class Shapes(NamedTuple):
    """What the listener's own graph makes of its values, where the caller wants objects.

    Attributes:
        output: makes the output schema's object of the values; None leaves them.
        state: makes the state schema's object of a checkpoint's values; None leaves them.
    """

    output: Callable[[Any], Any] | None = None
    state: Callable[[Any], Any] | None = None


PLAIN = Shapes()


def shaped(event: Event, want: Wanted, shapes: Shapes = PLAIN) -> Any:
    """The event as the caller gets it."""
    namespace = tuple(event.namespace.split(NS_SEP)) if event.namespace else ()
    if want.version == "v2":
        return _part(event.mode, namespace, event.payload, shapes)
    if want.subgraphs:
        return (namespace, event.mode, event.payload) if want.many else (namespace, event.payload)
    return (event.mode, event.payload) if want.many else event.payload


def _part(mode: str, namespace: tuple[str, ...], payload: Any, shapes: Shapes) -> dict[str, Any]:
    if mode != "values":
        if shapes.state is not None:
            payload = _checkpoint_as_object(mode, payload, shapes.state)
        return {"type": mode, "ns": namespace, "data": payload}
    interrupts: tuple[Any, ...] = ()
    if isinstance(payload, dict) and INTERRUPT in payload:
        interrupts = tuple(payload[INTERRUPT])
        payload = {key: value for key, value in payload.items() if key != INTERRUPT}
    return {"type": mode, "ns": namespace, "data": _object(payload, shapes.output), "interrupts": interrupts}


def _checkpoint_as_object(mode: str, payload: Any, make: Callable[[Any], Any]) -> Any:
    """A checkpoint with its values as an object; that of an input has no state yet."""
    if mode == "debug" and payload["type"] == "checkpoint":
        return {**payload, "payload": _checkpoint_as_object("checkpoints", payload["payload"], make)}
    if mode != "checkpoints" or START in payload["next"]:
        return payload
    return {**payload, "values": _object(payload["values"], make)}


def _object(values: Any, make: Callable[[Any], Any] | None) -> Any:
    """The object of a schema's class that these values make; the values themselves where they do not make one yet."""
    if make is None:
        return values
    try:
        return make(values)
    except Exception:  # noqa: BLE001 - an output that is not complete yet is shown as far as it is, and must not end the run
        return values


def delivered(events: Iterable[Event], want: Wanted, own: str = "", shapes: Shapes = PLAIN) -> list[Any]:
    """The events of the wanted modes, shaped.

    Args:
        events: what happened.
        want: what the caller asked for; unless subgraphs too, only events of the run's own namespace.
        own: that namespace.
        shapes: what its values become, where the caller wants objects.
    """
    return [
        shaped(event, want, shapes if event.namespace == own else PLAIN)
        for event in events
        if event.mode in want.modes and (want.subgraphs or event.namespace == own)
    ]
