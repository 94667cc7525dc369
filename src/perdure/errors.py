"""Every error this library raises, in one tree.

    PerdureError(Exception)
    ├── InvalidArgument (ValueError)              an argument that means nothing here
    ├── WrongType (TypeError)                     an argument of a type that is not taken
    ├── InvalidCall (RuntimeError)                a call that means nothing where it is made
    │   ├── OutsideOfRun                          it belongs into a running node
    │   └── MissingMethod (NotImplementedError)   a saver does not implement it
    ├── InvalidGraph (ValueError)                 the drawing is wrong; raised before anything runs
    │   └── UnknownNode                           an edge, goto, Send or breakpoint names no node
    │       └── UnknownChoice (KeyError)          a conditional edge chose what is not to be had
    ├── InvalidConfig (ValueError)                the config of a call is wrong
    │   ├── MissingThreadId (KeyError)
    │   └── MissingCheckpointer (RuntimeError)    a call needs a graph that saves its state
    ├── NeedsContext (LookupError)                a run cannot be taken up without the context that it had
    ├── InvalidUpdateError (ValueError)           a value that may not be written
    │   ├── UnknownKey                            it names a key the state does not have
    │   └── InvalidState                          the value after its reducer does not fit the schema
    ├── EmptyInputError (ValueError)
    │   └── UnknownThread (LookupError)           resuming a thread that was never started
    ├── UnknownCheckpoint (LookupError)
    │   └── UnknownBranch                         no branch of that name
    ├── UnknownInterruptError (LookupError)       an answer that answers nothing
    ├── AmbiguousAnswer                           a bare answer while several questions are open
    ├── AmbiguousPause                            two pauses that cannot be told apart
    ├── InvalidAnswer (ValueError)                an answer that its question's schema refuses
    ├── MissingNode (LookupError)                 a stored task names a node the graph no longer has
    ├── GraphRecursionError (RecursionError)
    ├── GraphDrained                              the run stopped because it was asked to
    ├── NodeTimeoutError (TimeoutError), StepTimeoutError (TimeoutError)
    ├── NodeCancelledError                        a node raised CancelledError by itself
    ├── StoppedIteration (RuntimeError)           a node let StopIteration escape
    ├── EmptyChannelError (LookupError)
    ├── SaveFailed (RuntimeError)                 a checkpoint could not be stored
    ├── ThreadBusy (RuntimeError)                 another run holds the thread
    │   └── SelfBusy                              that other run is the one you are in
    ├── LeaseLost (RuntimeError)                  another run took this thread over
    ├── ThreadDeleted (LookupError)
    ├── ThreadExists (RuntimeError)               a copy or an import would overwrite a thread
    ├── SaverClosed (RuntimeError)
    ├── NotStorable (TypeError)                   a value that could not be loaded back as it is
    ├── StateTypeError (TypeError)                a stored type that is unknown or no longer fits
    ├── CorruptRecord (ValueError)                stored bytes that are not what was written
    │   └── UnknownFormat                         written by a newer version
    ├── MissingExtra (ImportError)                an optional dependency is not installed
    ├── NotOffered (ImportError)                  a name that other systems of this field have
    ├── TaskNotFound (LookupError)
    └── SuspendedInBlockingCode (RuntimeError)    a bug in a blocking port

    InPlaceChangeWarning(UserWarning)             a node changed state in place and did not return it
    MissingPartWarning(UserWarning)               what was asked for needs a saver or a cache that is not there
    CacheWarning(UserWarning)                     a result could not be kept in a cache, or not be loaded from it

    GraphBubbleUp(BaseException)                  control flow, never an error: `except Exception` lets it pass
    ├── GraphInterrupt                            a node asked a question
    └── ParentCommand                             a node of a subgraph commands its parent

Each error has a stable `code`, says where it happened (`thread`, `checkpoint`, `node`, `key`, as far as known) and what to do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from perdure.absent import missing
from perdure.failure import NotOffered as NotOffered
from perdure.failure import PerdureError as PerdureError
from perdure.signals import CacheWarning as CacheWarning
from perdure.signals import ErrorCode as ErrorCode
from perdure.signals import GraphBubbleUp as GraphBubbleUp
from perdure.signals import GraphInterrupt as GraphInterrupt
from perdure.signals import InPlaceChangeWarning as InPlaceChangeWarning
from perdure.signals import MissingPartWarning as MissingPartWarning
from perdure.signals import NodeError as NodeError
from perdure.signals import ParentCommand as ParentCommand


class InvalidArgument(PerdureError, ValueError):
    """An argument has a value that means nothing here."""

    code = "INVALID_ARGUMENT"


class WrongType(PerdureError, TypeError):
    """An argument is of a type that is not taken, or there is no argument of that name."""

    code = "WRONG_TYPE"


class InvalidCall(PerdureError, RuntimeError):
    """A call means nothing where, or when, it is made."""

    code = "INVALID_CALL"


class OutsideOfRun(InvalidCall):
    """What belongs into a running node, task or conditional edge was called elsewhere."""

    code = "OUTSIDE_OF_RUN"


class MissingMethod(InvalidCall, NotImplementedError):
    """A saver was asked for what it does not implement."""

    code = "MISSING_METHOD"


class InvalidGraph(PerdureError, ValueError):
    """The graph as drawn cannot run."""

    code = "INVALID_GRAPH"


class UnknownNode(InvalidGraph):
    """An edge, a goto, a Send or a breakpoint names a node that does not exist."""

    code = "UNKNOWN_NODE"


class UnknownChoice(UnknownNode, KeyError):
    """A conditional edge chose nothing, or what its path map does not have."""

    code = "UNKNOWN_CHOICE"


class InvalidConfig(PerdureError, ValueError):
    """The config given with a call is wrong."""

    code = "INVALID_CONFIG"


class MissingThreadId(InvalidConfig, KeyError):
    """A graph with a saver was called without saying which thread."""

    code = "MISSING_THREAD_ID"


class MissingCheckpointer(InvalidConfig, RuntimeError):
    """A call needs a graph that saves its state, and this one has no saver."""

    code = "MISSING_CHECKPOINTER"


class NeedsContext(PerdureError, LookupError):
    """A run that died had a context, which is not stored, and nobody gives it one to go on with."""

    code = "NEEDS_CONTEXT"


class InvalidUpdateError(PerdureError, ValueError):
    """A value was written that the state cannot take."""

    code = "INVALID_UPDATE"


class UnknownKey(InvalidUpdateError):
    """An input, a node's return, a Command or an edit names a key the state does not have."""

    code = "UNKNOWN_KEY"


class InvalidState(InvalidUpdateError):
    """The value of a key, after its reducer, does not fit the state's schema."""

    code = "INVALID_STATE"


class EmptyInputError(PerdureError, ValueError):
    """There is nothing to run: no input, and nothing to go on with."""

    code = "EMPTY_INPUT"


class UnknownThread(EmptyInputError, LookupError):
    """A thread that was never started, or was deleted, cannot be resumed."""

    code = "UNKNOWN_THREAD"


class UnknownCheckpoint(PerdureError, LookupError):
    """The thread has no checkpoint of that id."""

    code = "UNKNOWN_CHECKPOINT"


class UnknownBranch(UnknownCheckpoint):
    """The thread has no branch of that name; `key` is the name."""

    code = "UNKNOWN_BRANCH"


class UnknownInterruptError(PerdureError, LookupError):
    """An answer was given to a question that is not open."""

    code = "UNKNOWN_INTERRUPT"

    def __init__(
        self,
        message: str,
        *,
        reason: Literal["not_pending", "empty_map", "ambiguous", "overdue"] = "not_pending",
        interrupt_ids: Sequence[str] = (),
        pending_ids: Sequence[str] = (),
        thread: str | None = None,
        checkpoint: str | None = None,
    ) -> None:
        super().__init__(message, thread=thread, checkpoint=checkpoint)
        self.reason = reason
        self.interrupt_ids = tuple(interrupt_ids)
        self.pending_ids = tuple(pending_ids)


class AmbiguousAnswer(UnknownInterruptError, RuntimeError):
    """A bare answer was given while several questions are open."""

    code = "AMBIGUOUS_ANSWER"


class AmbiguousPause(PerdureError, RuntimeError):
    """Two concurrent pauses of one node cannot be told apart."""

    code = "AMBIGUOUS_PAUSE"


class InvalidAnswer(PerdureError, ValueError):
    """An answer does not fit the schema its question carries.

    Attributes:
        problems: what is wrong, each with its place in the answer.
        interrupt_ids: the questions concerned.
    """

    code = "INVALID_ANSWER"

    def __init__(
        self, message: str = "", *, problems: Sequence[str] = (), interrupt_ids: Sequence[str] = (), **where: Any
    ) -> None:
        super().__init__(message, **where)
        self.problems = tuple(problems)
        self.interrupt_ids = tuple(interrupt_ids)


class MissingNode(PerdureError, LookupError):
    """A stored task belongs to a node that this graph does not have."""

    code = "MISSING_NODE"


class GraphRecursionError(PerdureError, RecursionError):
    """The run took more super-steps than its recursion limit allows."""

    code = "GRAPH_RECURSION_LIMIT"


class GraphDrained(PerdureError):
    """The run stopped after a super-step because it was asked to; it can be resumed."""

    code = "GRAPH_DRAINED"

    def __init__(self, reason: str = "shutdown", **where: Any) -> None:
        super().__init__(f"the run was drained: {reason}; resume it with invoke(None, config)", **where)
        self.reason = reason


class NodeTimeoutError(PerdureError, TimeoutError):
    """A node took longer than its timeout allows."""

    code = "NODE_TIMEOUT"

    def __init__(
        self,
        node: str,
        elapsed: float,
        *,
        kind: Literal["idle", "run"],
        idle_timeout: float | None = None,
        run_timeout: float | None = None,
    ) -> None:
        limit = idle_timeout if kind == "idle" else run_timeout
        super().__init__(f"node {node!r} was stopped after {elapsed:.3f} s: its {kind} timeout is {limit} s", node=node)
        self.elapsed = elapsed
        self.kind = kind
        self.idle_timeout = idle_timeout
        self.run_timeout = run_timeout


class StepTimeoutError(PerdureError, TimeoutError):
    """A super-step took longer than the graph's step timeout.

    Attributes:
        step_timeout: the seconds it may take.
        running: the nodes that had not ended.
    """

    code = "STEP_TIMEOUT"

    def __init__(self, step_timeout: float, running: Sequence[str] = ()) -> None:
        waits = f", and node {', '.join(map(repr, running))} had not ended" if running else ""
        super().__init__(
            f"Timed out: the super-step took longer than the graph's step timeout of {step_timeout:g} s{waits}. Results that "
            "arrived are kept; compile(step_timeout=...) sets another limit"
        )
        self.step_timeout = step_timeout
        self.running = tuple(running)


class NodeCancelledError(PerdureError):
    """A node raised CancelledError by itself, while nobody had cancelled the run."""

    code = "NODE_CANCELLED"


class StoppedIteration(PerdureError, RuntimeError):
    """A node let StopIteration or StopAsyncIteration escape, which would end the runtime's own loops silently."""

    code = "STOPPED_ITERATION"


class EmptyChannelError(PerdureError, LookupError):
    """A channel was read that holds no value."""

    code = "EMPTY_CHANNEL"


class SaveFailed(PerdureError, RuntimeError):
    """A checkpoint could not be stored, or a thread not deleted; `__cause__` is the database's error."""

    code = "SAVE_FAILED"


class ThreadBusy(PerdureError, RuntimeError):
    """Another run holds the thread.

    `holder` says which: run id, host, process and since when, as far as the record tells.
    """

    code = "THREAD_BUSY"

    def __init__(self, message: str, *, holder: dict[str, Any] | None = None, **where: Any) -> None:
        super().__init__(message, **where)
        self.holder = holder or {}


class SelfBusy(ThreadBusy):
    """A run tried to start or edit its own thread from inside itself, and would have waited for itself."""

    code = "SELF_BUSY"


class LeaseLost(PerdureError, RuntimeError):
    """Another run took this thread over, or this process was forked from the one that runs it; nothing of the refused write is stored."""

    code = "LEASE_LOST"


class ThreadDeleted(PerdureError, LookupError):
    """The thread was deleted; late writes to it are refused."""

    code = "THREAD_DELETED"


class ThreadExists(PerdureError, RuntimeError):
    """A copy or an import would overwrite a thread."""

    code = "THREAD_EXISTS"


class SaverClosed(PerdureError, RuntimeError):
    """The saver was closed."""

    code = "SAVER_CLOSED"


class NotStorable(PerdureError, TypeError):
    """A value would not be loaded back as it is, so saving it is refused; `key` is its path."""

    code = "NOT_STORABLE"


class StateTypeError(PerdureError, TypeError):
    """Stored data names a type that is not registered, is gone, or no longer fits."""

    code = "STATE_TYPE"


class CorruptRecord(PerdureError, ValueError):
    """Stored bytes are not what this library wrote."""

    code = "CORRUPT_RECORD"


class UnknownFormat(CorruptRecord):
    """Stored bytes or a database were written by a newer version of this library."""

    code = "UNKNOWN_FORMAT"


class MissingExtra(PerdureError, ImportError):
    """A feature needs a package that is not installed; the message has the pip line."""

    code = "MISSING_EXTRA"

    def __init__(self, feature: str, extra: str) -> None:
        super().__init__(f"{feature} needs a package that is not installed: pip install 'perdure[{extra}]'")
        self.extra = extra


class TaskNotFound(PerdureError, LookupError):
    """No such task."""

    code = "TASK_NOT_FOUND"


class SuspendedInBlockingCode(PerdureError, RuntimeError):
    """A port that must block tried to suspend. This is a bug in the port, never in user code."""

    code = "SUSPENDED_IN_BLOCKING_CODE"


def is_invalid_resume(error: BaseException) -> bool:
    """Whether the error says that an answer was refused: nothing was stored, and the questions are still open."""
    return isinstance(error, (UnknownInterruptError, InvalidAnswer))


def __getattr__(name: str) -> Any:
    raise missing(__name__, name)
