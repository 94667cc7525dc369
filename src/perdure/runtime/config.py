"""Configs: what callers may put in, how an ambient one and a given one become one, and what of it is stored. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from perdure.constants import CONF, DEFAULT_RECURSION_LIMIT
from perdure.errors import InvalidConfig, MissingThreadId
from perdure.hints import meant
from perdure.ids import address_text, conf_of, thread_text
from perdure.types import RunnableConfig

KNOWN_KEYS = ("tags", "metadata", "callbacks", "run_name", "run_id", "max_concurrency", "recursion_limit", CONF)
NOT_STORED = frozenset(
    {
        "thread_id",
        "checkpoint_id",
        "checkpoint_ns",
        "checkpoint_map",
        "langgraph_step",
        "langgraph_node",
        "langgraph_triggers",
        "langgraph_path",
        "langgraph_checkpoint_ns",
    }
)
"""Metadata that says where something is, which the record itself says better."""


def checked(config: Mapping[str, Any] | None) -> RunnableConfig:
    """The config if it is one.

    Raises:
        InvalidConfig: it is no mapping, has an unknown top-level key, or a value that cannot be meant.
    """
    if not config:
        return {}
    conf = conf_of(config)
    for key in config:
        if key not in KNOWN_KEYS:
            raise InvalidConfig(
                f"unknown config key {key!r}{meant(key, KNOWN_KEYS)}. The keys of a config are {', '.join(map(repr, KNOWN_KEYS))}; values of your own "
                "belong into config['configurable'] or config['metadata']",
                key=str(key),
            )
    for key in ("recursion_limit", "max_concurrency"):
        limit = config.get(key)
        if limit is not None and (not isinstance(limit, int) or isinstance(limit, bool) or limit < 1):
            raise InvalidConfig(f"{key} must be at least 1, got {limit!r}", key=key)
    _refuse_other_kinds(config, conf)
    return dict(config)  # type: ignore[return-value]


def _refuse_other_kinds(config: Mapping[str, Any], conf: Mapping[str, Any]) -> None:
    for name in ("checkpoint_ns", "checkpoint_id", "branch"):
        address_text(conf, name)
    metadata = config.get("metadata")
    if metadata is not None and not (isinstance(metadata, Mapping) and all(isinstance(key, str) for key in metadata)):
        raise InvalidConfig("config['metadata'] must be a dict whose keys are text", key="metadata")
    tags = config.get("tags")
    if tags is not None and not (
        isinstance(tags, Collection)
        and not isinstance(tags, (str, bytes, Mapping))
        and all(isinstance(tag, str) for tag in tags)
    ):
        raise InvalidConfig(f"config['tags'] must be a list of texts, got {tags!r}", key="tags")


def merged(base: RunnableConfig, given: RunnableConfig) -> RunnableConfig:
    """One config of an ambient or bound one and a given one: tags add up, dicts are merged, the rest is replaced."""
    if not base:
        return given
    result: dict[str, Any] = dict(base)
    for key, value in given.items():
        if key in ("metadata", CONF) and isinstance(value, Mapping):
            result[key] = {**(result.get(key) or {}), **value}
        elif key == "tags" and isinstance(value, list):
            before = list(result.get("tags") or ())
            result["tags"] = [*before, *(tag for tag in value if tag not in before)]
        elif value is not None:
            result[key] = value
    return result  # type: ignore[return-value]


def inherited(config: RunnableConfig) -> RunnableConfig:
    """What a run inside another one takes over from it: all but what names that one."""
    return {key: value for key, value in config.items() if key not in ("run_name", "run_id")}  # type: ignore[return-value]


def thread_of(config: Mapping[str, Any]) -> str:
    """The thread that a config names, as text.

    Raises:
        MissingThreadId: it names none.
        WrongType: it is neither text, an int, nor a UUID.
    """
    conf = config.get(CONF) or {}
    thread = conf.get("thread_id")
    if thread is None:
        raise MissingThreadId(
            "Checkpointer requires one or more of the following 'configurable' keys: thread_id. This graph saves its state, so a call "
            "must say on which thread: config={'configurable': {'thread_id': 'some-id'}}",
            key="thread_id",
        )
    return thread_text(thread)


def recursion_limit(config: Mapping[str, Any]) -> int:
    """How many super-steps a run may take."""
    return config.get("recursion_limit") or DEFAULT_RECURSION_LIMIT


def stored_metadata(config: Mapping[str, Any], persist: tuple[str, ...] = ()) -> dict[str, Any]:
    """What of a config is kept with the checkpoints it leads to (P41): the scalars of `metadata`, and of `configurable` only what
    `persist` names.
    """
    found: dict[str, Any] = {}
    for key, value in (config.get("metadata") or {}).items():
        if key not in NOT_STORED and not key.startswith("__") and isinstance(value, (str, int, float, bool)):
            found[key] = value.replace("\x00", "") if isinstance(value, str) else value
    conf = config.get(CONF) or {}
    for key in persist:
        if key in conf and key not in found and isinstance(conf[key], (str, int, float, bool)):
            found[key] = conf[key]
    return found
