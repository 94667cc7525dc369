"""Plain data of what providers' packages return: their objects become dicts, everything else stays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def plain(value: Any) -> Any:
    """The value with new lists and dicts, and with models (pydantic's) in it as dicts of what was set on them."""
    if value is None or isinstance(value, (str, int, float)):
        return value
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    dump = getattr(value, "model_dump", None)
    # What was not set is not sent back: a provider refuses keys with defaults that it did not send.
    return value if dump is None or isinstance(value, type) else dump(mode="json", by_alias=True, exclude_unset=True)
