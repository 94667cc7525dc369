"""Perdure: a durable runtime for state graphs.

    from perdure import StateGraph, START, END, InMemorySaver, SqliteSaver, interrupt, Command, Send

Each name is loaded when it is first used, so `import perdure` costs next to nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from perdure.checkpoint.memory import InMemorySaver
    from perdure.checkpoint.opening import open_saver
    from perdure.checkpoint.sqlite import SqliteSaver
    from perdure.checkpoint.transfer.everything import acopy_all, copy_all
    from perdure.constants import END, START
    from perdure.graph import StateGraph
    from perdure.runtime import Runtime
    from perdure.types import (
        CachePolicy,
        Command,
        Interrupt,
        Overwrite,
        RetryPolicy,
        RunnableConfig,
        Send,
        StateSnapshot,
        interrupt,
    )

__version__ = "0.1.0"

_HOME = {
    "END": "perdure.constants",
    "START": "perdure.constants",
    "StateGraph": "perdure.graph",
    "InMemorySaver": "perdure.checkpoint.memory",
    "SqliteSaver": "perdure.checkpoint.sqlite",
    "open_saver": "perdure.checkpoint.opening",
    "acopy_all": "perdure.checkpoint.transfer.everything",
    "copy_all": "perdure.checkpoint.transfer.everything",
    "Runtime": "perdure.runtime",
    **dict.fromkeys(
        (
            "CachePolicy",
            "Command",
            "Interrupt",
            "Overwrite",
            "RetryPolicy",
            "RunnableConfig",
            "Send",
            "StateSnapshot",
            "interrupt",
        ),
        "perdure.types",
    ),
}

__all__ = [
    "END",
    "START",
    "CachePolicy",
    "Command",
    "InMemorySaver",
    "Interrupt",
    "Overwrite",
    "RetryPolicy",
    "RunnableConfig",
    "Runtime",
    "Send",
    "SqliteSaver",
    "StateGraph",
    "StateSnapshot",
    "__version__",
    "acopy_all",
    "copy_all",
    "interrupt",
    "open_saver",
]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'perdure' has no attribute {name!r}")
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value
