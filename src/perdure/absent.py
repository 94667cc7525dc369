"""Names that LangGraph has in modules and graphs which exist here too, but that are not here, and what to use in their place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

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
        "CacheKey": "cache keys are the engine's own; CachePolicy(key_func=...) says what a result is kept under",
        "TracePolicy": _TRACING,
        "omit_payload": _TRACING,
    },
    "perdure.constants": {
        "CONFIG_KEY_CHECKPOINTER": "the saver is not in the config: give it to compile(checkpointer=...), and keep it where you need it",
        "Send": "import Send from perdure.types",
        "Interrupt": "import Interrupt from perdure.types",
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

_EVENTS: Final = 'stream(version="v2", subgraphs=True) tells typed parts of every mode, and stream_mode="messages" tokens'
_RUNNABLE: Final = "a graph is no LangChain Runnable; RunnableLambda(graph.invoke, graph.ainvoke) is one"

OF_GRAPHS: Final = {
    **dict.fromkeys(("stream_events", "astream_events", "astream_log"), _EVENTS),
    **dict.fromkeys(("abatch_as_completed", "as_tool", "assign", "atransform", "batch_as_completed", "bind", "map"), _RUNNABLE),
    **dict.fromkeys(("pick", "pipe", "transform", "with_fallbacks", "with_listeners", "with_retry", "with_types"), _RUNNABLE),
    **dict.fromkeys(("config_schema", "get_config_jsonschema"), "get_context_jsonschema() is the schema of the context"),
    "get_name": "graph.name is its name",
    "nodes": "of a StateGraph, graph.builder.nodes[name].action is what was added as a node",
    "step_timeout": "compile(step_timeout=...) takes it",
}
"""What graphs that can run have there and not here: the name, and what to use."""

OF_SAVERS: Final = frozenset(
    {
        *("list_threads", "get_thread", "list_runs", "delete_thread", "copy_thread", "export_thread", "import_thread"),
        *("prune", "sweep", "pin", "unpin", "verify"),
    }
)
"""What is asked of a saver and may be looked for at a graph; each has a twin with an "a" in front, with which none of these begins."""


def missing(module: str, name: str) -> NotOffered | AttributeError:
    """The error for a name that a module does not have. (It is an ImportError where there is something to say, for of an
    AttributeError `from module import name` does not show the message.)
    """
    instead = INSTEAD.get(module, {}).get(name)
    if instead is None:
        return AttributeError(f"module {module!r} has no attribute {name!r}")
    return NotOffered(f"{module} has no {name}, which LangGraph has: {instead}", key=name)


class TellsWhatIsMissing:
    """A graph that says what to use for a method that LangGraph's have, or that savers have.

    Such an attribute is missing all the same, to `hasattr` too.
    """

    if not TYPE_CHECKING:  # so that type checkers still know which attributes there are

        def __getattr__(self, name: str) -> Any:
            said = f"{type(self).__name__!r} object has no attribute {name!r}"
            if name in OF_GRAPHS:
                said += f", which LangGraph's has: {OF_GRAPHS[name]}"
            elif name.removeprefix("a") in OF_SAVERS:
                said += f": the saver has it, saver.{name}(...)"
            raise AttributeError(said, name=name, obj=self)
