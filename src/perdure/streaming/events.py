"""The payloads of the modes `tasks`, `checkpoints` and `debug`. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from perdure.types import Interrupt


def task_start(task_id: str, name: str, given: Any, triggers: Sequence[str], metadata: dict[str, Any] | None) -> dict[str, Any]:
    """A task begins."""
    payload = {"id": task_id, "name": name, "input": given, "triggers": tuple(triggers)}
    if metadata:
        payload["metadata"] = metadata
    return payload


def task_end(task_id: str, name: str, error: Any, result: Any, interrupts: Sequence[Any]) -> dict[str, Any]:
    """A task has ended: `error` is the exception itself, `interrupts` are dicts."""
    return {
        "id": task_id,
        "name": name,
        "error": error,
        "result": result,
        "interrupts": [interrupt_dict(pause) for pause in interrupts],
    }


def interrupt_dict(pause: Interrupt) -> dict[str, Any]:
    """A question as plain data."""
    return {"value": pause.value, "id": pause.id, "response_schema": pause.response_schema}


def checkpoint(
    config: dict[str, Any],
    parent: dict[str, Any] | None,
    values: Any,
    metadata: dict[str, Any],
    following: Sequence[str],
    tasks: Sequence[dict[str, Any]],
) -> dict[str, Any]:
    """A checkpoint was reached."""
    return {
        "config": config,
        "parent_config": parent,
        "values": values,
        "metadata": metadata,
        "next": list(following),
        "tasks": list(tasks),
    }


def debug(step: int, timestamp: str, kind: str, payload: dict[str, Any]) -> dict[str, Any]:
    """One of the others with its step and time: `kind` is checkpoint, task or task_result."""
    return {"step": step, "timestamp": timestamp, "type": kind, "payload": payload}
