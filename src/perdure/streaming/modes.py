"""Which events a caller wants, and the shape in which it gets them. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, NamedTuple, get_args

from perdure.constants import INTERRUPT, NS_SEP
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


def wanted(modes: Any, *, subgraphs: bool = False, version: Any = "v1") -> Wanted:
    """What a caller asked for, checked.

    Raises:
        ValueError: a mode or version does not exist.
    """
    many = not isinstance(modes, str)
    named = tuple(modes) if many else (modes,)
    for mode in named:
        if mode not in MODES:
            raise ValueError(f"unknown stream_mode {mode!r}; the modes are {', '.join(MODES)}")
    if version not in ("v1", "v2"):
        raise ValueError(f"unknown stream version {version!r}; it is 'v1' or 'v2'")
    return Wanted(frozenset(named), many, subgraphs, version)


def shaped(event: Event, want: Wanted) -> Any:
    """The event as the caller gets it."""
    namespace = tuple(event.namespace.split(NS_SEP)) if event.namespace else ()
    if want.version == "v2":
        return _part(event.mode, namespace, event.payload)
    if want.subgraphs:
        return (namespace, event.mode, event.payload) if want.many else (namespace, event.payload)
    return (event.mode, event.payload) if want.many else event.payload


def _part(mode: str, namespace: tuple[str, ...], payload: Any) -> dict[str, Any]:
    if mode != "values":
        return {"type": mode, "ns": namespace, "data": payload}
    interrupts: tuple[Any, ...] = ()
    if isinstance(payload, dict) and INTERRUPT in payload:
        interrupts = tuple(payload[INTERRUPT])
        payload = {key: value for key, value in payload.items() if key != INTERRUPT}
    return {"type": mode, "ns": namespace, "data": payload, "interrupts": interrupts}


def delivered(events: Iterable[Event], want: Wanted) -> list[Any]:
    """The events of the wanted modes, and of the root only unless subgraphs were asked for, shaped."""
    return [shaped(event, want) for event in events if event.mode in want.modes and (want.subgraphs or not event.namespace)]
