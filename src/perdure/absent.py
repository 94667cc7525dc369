"""Names that LangGraph has in modules which exist here too, but that are not here, and what to use in their place."""

from __future__ import annotations

from typing import Final

from perdure.failure import NotOffered

_MESSAGES: Final = "StateGraph(MessagesState) is a graph over messages"
_TRACING: Final = "what a trace may show is chosen where the trace is made; there is no policy for it in the graph"

INSTEAD: Final = {
    "perdure.graph": {"MessageGraph": _MESSAGES},
    "perdure.graph.message": {"MessageGraph": _MESSAGES},
    "perdure.errors": {
        "NodeInterrupt": "call interrupt(value), from perdure.types, in the node: it pauses in the same way, and returns the answer",
    },
    "perdure.types": {
        "PregelExecutableTask": "tasks that run are the engine's own; PregelTask is what snapshots show of them",
        "TracePolicy": _TRACING,
        "omit_payload": _TRACING,
    },
    "perdure.constants": {
        "CONFIG_KEY_CHECKPOINTER": "the saver is not in the config: give it to compile(checkpointer=...), and keep it where you need it",
    },
    "perdure.checkpoint.base": {
        "DeltaChannelHistory": "a saver needs no methods for DeltaChannel here: put, put_writes, get_tuple and list are enough",
    },
    "perdure.checkpoint.memory": {
        "PersistentDict": "SqliteSaver(path), from perdure.checkpoint.sqlite, keeps checkpoints in a file",
    },
    "perdure.graph.drawing": {
        "draw_mermaid_png": "draw_mermaid() gives the text; GitHub, GitLab, Jupyter, https://mermaid.live and the program `mmdc` draw it. "
        "Perdure sends your graph nowhere",
        "draw_png": "draw_mermaid() gives text that many programs draw",
    },
}
"""By module: the name, and what to use."""


def missing(module: str, name: str) -> NotOffered | AttributeError:
    """The error for a name that a module does not have. (It is an ImportError where there is something to say, for of an
    AttributeError `from module import name` does not show the message.)
    """
    instead = INSTEAD.get(module, {}).get(name)
    if instead is None:
        return AttributeError(f"module {module!r} has no attribute {name!r}")
    return NotOffered(f"{module} has no {name}, which LangGraph has: {instead}", key=name)
