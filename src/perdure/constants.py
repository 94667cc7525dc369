"""Names that land in records and streams. Changing one breaks stored threads."""

from __future__ import annotations

from typing import Any, Final

from perdure.absent import missing

START: Final = "__start__"
"""The virtual node whose result is the input of a run."""
END: Final = "__end__"
"""The virtual node that ends a path."""

INPUT: Final = "__input__"
INTERRUPT: Final = "__interrupt__"
RESUME: Final = "__resume__"
ERROR: Final = "__error__"
ERROR_SOURCE_NODE: Final = "__error_source_node__"
NO_WRITES: Final = "__no_writes__"
RETURN: Final = "__return__"
PREVIOUS: Final = "__previous__"
CANCELLED: Final = "__cancelled__"
MEMORIES: Final = "__memories__"
"""With a task's result: where the subgraphs that remember are after it."""
COPY: Final = "__copy__"

TASKS: Final = "__pregel_tasks"
"""Channel of the pending `Send`s."""
PUSH: Final = "__pregel_push"
PULL: Final = "__pregel_pull"
ROOT: Final = "__root__"
"""The one channel of a state that has no keys."""
OVERWRITE: Final = "__overwrite__"
OVERWRITE_PREFIX: Final = "__overwrite__:"
"""In front of the channel of a stored write: it is an Overwrite of this value."""

NULL_TASK_ID: Final = "00000000-0000-0000-0000-000000000000"
NS_SEP: Final = "|"
NS_END: Final = ":"

TAG_HIDDEN: Final = "langsmith:hidden"
TAG_NOSTREAM: Final = "nostream"

BRANCH_PREFIX: Final = "branch:to:"
JOIN_PREFIX: Final = "join:"
HANDLER_PREFIX: Final = "__error_handler__"
DEFAULT_HANDLER: Final = "__default_error_handler__"

DEFAULT_NAME: Final = "Perdure"
"""The name of a graph that was given none."""

DEFAULT_RECURSION_LIMIT: Final = 10_007
"""Prime and large, so that a limit that a user sets on purpose can be told from the default."""

CONF: Final = "configurable"
PRIVATE_PREFIX: Final = "__pregel_"

RESERVED: Final = frozenset(
    {
        START,
        END,
        INPUT,
        INTERRUPT,
        RESUME,
        ERROR,
        ERROR_SOURCE_NODE,
        NO_WRITES,
        RETURN,
        PREVIOUS,
        CANCELLED,
        MEMORIES,
        TASKS,
        PUSH,
        PULL,
        ROOT,
        CONF,
        TAG_HIDDEN,
        NS_SEP,
        NS_END,
    }
)
"""No state key, managed value or node may carry one of these names."""


def __getattr__(name: str) -> Any:
    raise missing(__name__, name)
